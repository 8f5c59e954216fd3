//! Either program frees the space of zeros, and limits snapshots.

use std::fs;

use serde_json::Value;

use crate::{Place, exported_alike};

pub(crate) fn by_its_words(place: &Place) {
    // With such a large sparse size the import writes all zeros.
    fs::write(place.dir.join("last"), [vec![0; (1 << 20) - 1], vec![1]].concat()).expect("written");
    place.done("import last z --object-size 64K --sparse-size 1M");
    let used = |image: &str| place.done(&format!("du {image} --format json")).contains("\"used_size\":65536");
    assert!(!used("z"));
    assert!(place.refused("sparsify z --sparse-size 1K").contains("no power of two from 4096 to 65536"));
    assert!(place.refused("sparsify none").contains("no image 'none'"));
    place.done("sparsify z");
    assert!(used("z"), "{}", place.done("du z"));
    assert!(place.ours("export z -").stdout == fs::read(place.dir.join("last")).expect("a file"));
    assert!(place.done("pool stats").contains("Total Images: "));
    place.done("snap limit set z --limit 1");
    place.done("snap create z@a");
    assert!(place.refused("snap create z@b").contains("uota"));
    place.refused("snap limit set z --limit 0");
    place.done("snap limit clear z");
    place.done("snap create z@b");
    place.done("snap purge z");
    place.done("rm z");
}

/// Both programs leave the same of equal images.
pub(crate) fn beside(place: &Place) {
    // Of four objects one has data in each of its stripe units, and the others have written zeros.
    let data: Vec<u8> = (0..8 << 20).map(|at| u8::from(at % (256 << 10) == 5)).collect();
    fs::write(place.dir.join("last"), data).expect("written");
    let shape = "--object-size 1M --stripe-unit 64K --stripe-count 4 --sparse-size 8M";
    let pool = &place.pool;
    for image in ["ours", "theirs"] {
        place.stock(&format!("import last {image} {shape} --no-progress"));
        place.done(&format!("snap create {image}@s"));
        place.stock(&format!("clone {pool}/{image}@s {pool}/{image}-child --rbd-default-clone-format 2"));
        place.done(&format!(
            "bench {image}-child --io-type write --io-size 4K --io-total 1M --io-pattern full-seq"
        ));
    }
    for (ours, theirs) in [("ours", "theirs"), ("ours-child", "theirs-child")] {
        place.done(&format!("sparsify {ours} --sparse-size 64K"));
        place.stock(&format!("sparsify {theirs} --sparse-size 64K --no-progress"));
        for image in [ours, theirs] {
            place.same(&format!("du {image}"));
            place.stock(&format!("object-map check {image} --no-progress"));
            exported_alike(place, image);
            exported_alike(place, &image.replace("-child", "@s"));
        }
        let bytes = |image: &str| place.ours(&format!("export {image} -")).stdout;
        assert!(bytes(ours) == bytes(theirs));
        let used = |image: &str| {
            let told = place.stock(&format!("du {image} --format json"));
            let told: Value = serde_json::from_str(&told).expect("JSON");
            let images = told["images"].as_array().expect("a list").clone();
            images.iter().map(|image| image["used_size"].clone()).collect::<Vec<_>>()
        };
        assert_eq!(used(ours), used(theirs));
    }
    place.stock("create trashed --size 3M");
    place.same("pool stats");
    place.done("trash mv trashed");
    place.done("resize ours-child --size 5M --allow-shrink");
    place.same("pool stats");
    place.done("trash purge");
    for init in 0..2 {
        place.done("pool init");
        place.stock("pool init");
        assert!(init == 1 || place.refused("pool init none").contains("none"));
    }
    place.both_refuse("sparsify ours --sparse-size 5000");
    place.done("snap limit set ours --limit 2");
    place.stock("snap limit set theirs --limit 1");
    place.done("snap create ours@t");
    for image in ["ours", "theirs"] {
        place.both_refuse(&format!("snap create {image}@u"));
        place.both_refuse(&format!("snap limit set {image} --limit 0"));
    }
    place.stock("snap limit clear ours");
    place.done("snap limit clear theirs");
    for image in ["ours", "theirs"] {
        place.stock(&format!("snap create {image}@u --no-progress"));
        place.done(&format!("rm {image}-child"));
        place.done(&format!("snap purge {image}"));
        place.done(&format!("rm {image}"));
    }
}
