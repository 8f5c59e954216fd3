//! Copies are those of the stock program, and include data of a clone's parent.

use serde_json::Value;

use crate::{Place, exported_alike, sparsify};

pub(crate) fn by_their_words(place: &Place) {
    place.done("create c --size 3M --object-size 64K --stripe-unit 16K --stripe-count 3");
    place.done("bench c --io-type write --io-size 64K --io-total 640K --io-pattern rand");
    place.done("image-meta set c key value");
    place.done("snap create c@s");
    place.done("bench c --io-type write --io-size 4K --io-total 40K --io-pattern rand");
    place.done("cp c d");
    place.done("copy c@s e --object-size 1M --stripe-unit 1M --stripe-count 1 --image-feature layering");
    let exported = |image: &str| place.ours(&format!("export {image} -")).stdout;
    assert!(exported("c") == exported("d") && exported("c@s") == exported("e"));
    assert!(exported("c") != exported("e"));
    let info = place.done("info d");
    assert!(info.contains("\tstripe unit: 16 KiB\n\tstripe count: 3\n"), "{info}");
    assert!(place.done("info e").contains("\torder 20 (1 MiB objects)"));
    assert_eq!(place.done("image-meta get e key"), "value\n");
    assert_eq!(place.done("snap ls d"), "");
    place.done("object-map check d");
    assert!(place.refused("cp c d").contains("an image 'd' already"));
    assert!(place.refused("cp c@none f").contains("no snapshot 'none'"));
    assert!(place.refused("cp p/c p/nowhere/f").contains("no namespace 'nowhere'"));
    place.done("snap purge c");
    for image in ["c", "d", "e"] {
        place.done(&format!("rm {image}"));
    }
    // With all snapshots, or those up to one; cached writes are in the image afterwards.
    place.done("create c --size 3M --object-size 64K");
    for (snap, cache) in [("s", "--cache 1M"), ("t", "--cache 8M --cache-writethrough"), ("u", "")] {
        place.done(&format!("bench c --io-type rw --io-size 5K --io-total 500K --io-pattern rand {cache}"));
        place.done(&format!("snap create c@{snap}"));
    }
    place.done("object-map check c");
    place.done("snap protect c@t");
    place.done("deep cp c d --object-size 16K");
    place.done("deep copy c@t e");
    assert_eq!(place.done("snap ls e").lines().count(), 3);
    let exported = |image: &str| place.ours(&format!("export {image} -")).stdout;
    for (one, other) in
        [("c", "d"), ("c@s", "d@s"), ("c@t", "d@t"), ("c@u", "d@u"), ("c@t", "e"), ("c@s", "e@s")]
    {
        assert!(exported(one) == exported(other), "{one} {other}");
    }
    assert!(place.refused("snap rm d@t").contains("protected"));
    assert!(place.refused("deep cp c d").contains("an image 'd' already"));
    for image in ["c", "d", "e"] {
        place.done(&format!("snap unprotect {image}@t"));
        place.done(&format!("snap purge {image}"));
        place.done(&format!("rm {image}"));
    }
    // A different object size is no striping.
    place.done("create c --size 3M --object-size 64K");
    place.done("cp c d --object-size 16K");
    assert!(place.done("info d").contains("\torder 14 (16 KiB objects)"));
    for image in ["c", "d"] {
        place.done(&format!("rm {image}"));
    }
}

pub(crate) fn beside(place: &Place) {
    let pool = &place.pool;
    place.stock("create base --size 20M --object-size 1M");
    place.done("bench base --io-type write --io-size 200K --io-total 4M --io-pattern rand");
    place.stock("image-meta set base key value");
    place.done("snap create base@s");
    place.done("snap protect base@s");
    place.stock(&format!("clone {pool}/base@s {pool}/child --stripe-unit 64K --stripe-count 3"));
    place.stock("bench child --io-type write --io-size 4K --io-total 40K --io-pattern rand");
    place.done("snap create child@t");
    place.done("bench child --io-type write --io-size 64K --io-total 1M --io-pattern rand");
    // Stock's copy of a clone's snapshot lacks the parent's data.
    for (from, by_stock) in [("base", true), ("base@s", true), ("child", true), ("child@t", false)] {
        place.done(&format!("cp {pool}/{from} {pool}/ours"));
        let bytes = place.ours(&format!("export {from} -")).stdout;
        assert!(place.ours("export ours -").stdout == bytes, "{from}");
        exported_alike(place, "ours");
        place.stock("object-map check ours --no-progress");
        assert_eq!(place.stock("image-meta get ours key"), "value\n");
        if by_stock {
            place.stock(&format!("cp {pool}/{from} {pool}/theirs --no-progress"));
            assert!(place.ours("export theirs -").stdout == bytes, "{from}");
            alike(place);
            place.same("du ours");
            place.stock("rm theirs --no-progress");
        }
        place.stock("rm ours --no-progress");
    }
    let shape =
        "--object-size 512K --stripe-unit 128K --stripe-count 2 --image-feature layering,exclusive-lock";
    place.done(&format!("cp {pool}/child {pool}/ours {shape}"));
    place.stock(&format!("cp {pool}/child {pool}/theirs {shape} --no-progress"));
    alike(place);
    for image in ["ours", "theirs"] {
        place.done(&format!("rm {image}"));
    }
    deeply(place);
    of_a_removed_snapshot(place);
    place.done("snap purge child");
    place.done("rm child");
    place.done("snap unprotect base@s");
    place.done("snap purge base");
    place.done("rm base");
    sparsify::beside(place);
}

/// Both programs make deep copies of a clone.
fn deeply(place: &Place) {
    let pool = &place.pool;
    place.stock("snap create child@u");
    place.done("snap protect child@u");
    let exported = |image: &str| place.ours(&format!("export {image} -")).stdout;
    for how in ["", "--flatten"] {
        for (from, snaps) in [("child", &["t", "u"][..]), ("child@t", &["t"]), ("base", &["s"])] {
            place.done(&format!("deep cp {pool}/{from} {pool}/ours {how}"));
            place.stock(&format!("deep cp {pool}/{from} {pool}/theirs {how} --no-progress"));
            alike(place);
            place.stock("object-map check ours --no-progress");
            assert!(exported("ours") == exported(from), "{from} {how}");
            let listed = |image: &str| {
                let list =
                    serde_json::from_str::<Value>(&place.stock(&format!("snap ls {image} --format json")));
                let list = list.expect("JSON").as_array().expect("a list").clone();
                let one = |snap: &Value| [&snap["name"], &snap["size"], &snap["protected"]].map(Clone::clone);
                list.iter().map(one).collect::<Vec<_>>()
            };
            assert_eq!(listed("ours"), listed("theirs"));
            let source = from.split('@').next().expect("a name");
            for snap in snaps {
                let bytes = exported(&format!("{source}@{snap}"));
                assert!(exported(&format!("ours@{snap}")) == bytes, "{from} {how} {snap}");
                exported_alike(place, &format!("ours@{snap}"));
                assert!(exported(&format!("theirs@{snap}")) == bytes, "{from} {how} {snap} of theirs");
            }
            for image in ["ours", "theirs"] {
                for protected in ["s", "u"].iter().filter(|snap| snaps.contains(snap)) {
                    place.done(&format!("snap unprotect {image}@{protected}"));
                }
                place.done(&format!("snap purge {image}"));
                place.done(&format!("rm {image}"));
            }
        }
    }
    place.done("snap unprotect child@u");
}

/// A clone whose snapshot is kept for it only cannot get siblings.
fn of_a_removed_snapshot(place: &Place) {
    let pool = &place.pool;
    place.stock("snap create base@u");
    place.stock(&format!("clone {pool}/base@u {pool}/last --rbd-default-clone-format 2"));
    place.stock("bench last --io-type write --io-size 4K --io-total 40K --io-pattern rand");
    place.done("snap rm base@u");
    place.both_refuse(&format!("deep cp {pool}/last {pool}/ours"));
    place.done(&format!("deep cp {pool}/last {pool}/ours --flatten"));
    place.stock(&format!("deep cp {pool}/last {pool}/theirs --flatten --no-progress"));
    alike(place);
    assert!(place.ours("export ours -").stdout == place.ours("export last -").stdout);
    for image in ["last", "ours", "theirs"] {
        place.done(&format!("rm {image}"));
    }
}

/// Both copies have the same shape.
fn alike(place: &Place) {
    let shape = |image: &str| {
        let info = place.stock(&format!("info {image}"));
        let differs = ["rbd image", "\tid:", "\tblock_name_prefix:", "_timestamp:"];
        let lines = info.lines().filter(|line| !differs.iter().any(|key| line.contains(key)));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(shape("ours"), shape("theirs"));
    exported_alike(place, "ours");
}
