//! Copies: as stock's, and with what a clone's parent has.

use crate::{Place, exported_alike};

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
    // Objects of another size are no striping.
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
    // Of a clone's snapshot a copy by stock lacks what the parent has.
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
    place.done("snap purge child");
    place.done("rm child");
    place.done("snap unprotect base@s");
    place.done("snap purge base");
    place.done("rm base");
}

/// Both copies are of one shape.
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
