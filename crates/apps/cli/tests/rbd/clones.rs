//! Clones: both programs create clones, and both work on them.

use crate::{Place, exported_alike};

const SECOND: &str = "--rbd-default-clone-format 2";

/// Clones of the image `file`.
pub(crate) fn by_their_words(place: &Place) {
    assert!(place.refused("clone file one-of-file").contains("no snapshot"));
    assert!(place.refused("clone file@s one-of-file").contains("must be protected"));
    assert!(place.refused("flatten file").contains("no parent"));
    place.done(&format!("{SECOND} clone file@s of-file --object-size 8M"));
    assert_eq!(place.done("children file@s"), "p/of-file\n");
    assert!(place.done("ls --long").contains("of-file  2.9 MiB  p/file@s    2"));
    let info = place.done("info of-file");
    assert!(info.contains("\n\tparent: p/file@s\n\toverlap: 2.9 MiB\n"), "{info}");
    let exported = |image: &str| place.ours(&format!("export {image} -")).stdout;
    assert!(exported("of-file") == exported("file@s"));
    place.done("snap rm file@s");
    assert_eq!(place.done("snap ls file"), "");
    assert!(place.done("snap ls file --all").contains("trash (s)"));
    assert!(place.refused("rm file").contains("snapshots"));
    let before = exported("of-file");
    place.done("flatten of-file");
    assert!(exported("of-file") == before);
    assert_eq!(place.done("children file"), "");
    assert_eq!(place.done("snap ls file --all"), "");
    place.done("rm of-file");
}

/// Clones of both versions, created by both programs, which write to them by turns.
pub(crate) fn beside(place: &Place) {
    let pool = &place.pool;
    place.stock("create parent --size 30M --object-size 1M");
    place.done("bench parent --io-type write --io-size 200K --io-total 10M --io-pattern rand");
    place.stock("image-meta set parent key value");
    place.done("snap create parent@s");
    place.done("snap protect parent@s");
    let names = ["a-ours", "b-ours", "c-theirs", "d-theirs"];
    place.done(&format!("clone {pool}/parent@s {pool}/a-ours"));
    place.done(&format!("{SECOND} clone {pool}/parent@s {pool}/b-ours --object-size 4M"));
    place.stock(&format!("clone {pool}/parent@s {pool}/c-theirs --stripe-unit 64K --stripe-count 3"));
    place.stock(&format!("clone {pool}/parent@s {pool}/d-theirs {SECOND}"));
    for line in ["children parent@s", "children parent", "info parent", "ls --long"] {
        place.same(line);
    }
    for name in names {
        alike(place, name, &[]);
        assert_eq!(place.stock(&format!("image-meta get {name} key")), "value\n");
        written_by_turns(place, name);
        place.done(&format!("snap create {name}@t"));
        place.stock(&format!("snap create {name}@u --no-progress"));
        written_by_turns(place, name);
        alike(place, name, &["t", "u"]);
        of_clones(place, name);
        place.done(&format!("resize {name} --size 25M --allow-shrink"));
        alike(place, name, &["t", "u"]);
        place.stock(&format!("resize {name} --size 20M --allow-shrink --no-progress"));
        place.done(&format!("snap rollback {name}@t"));
        alike(place, name, &["t", "u"]);
    }
    flattened(place, &names);
    place.done("rm parent");
}

fn written_by_turns(place: &Place, name: &str) {
    place.stock(&format!("bench {name} --io-type write --io-size 4K --io-total 60K --io-pattern rand"));
    place.done(&format!("bench {name} --io-type write --io-size 9K --io-total 200K --io-pattern rand"));
}

/// Both programs show the same of an image and its snapshots, and correct object maps.
fn alike(place: &Place, name: &str, snaps: &[&str]) {
    for line in ["info", "du", "snap ls", "children --all"] {
        place.same(&format!("{line} {name}"));
    }
    let snaps = snaps.iter().map(|snap| format!("{name}@{snap}"));
    for spec in snaps.chain([name.to_owned()]) {
        place.same(&format!("info {spec}"));
        place.stock(&format!("object-map check {spec} --no-progress"));
        exported_alike(place, &spec);
    }
}

/// Each program creates a clone of a clone.
fn of_clones(place: &Place, name: &str) {
    let pool = &place.pool;
    place.stock(&format!("clone {pool}/{name}@t {pool}/{name}-1 {SECOND}"));
    place.done(&format!("{SECOND} clone {pool}/{name}@u {pool}/{name}-2"));
    for child in [format!("{name}-1"), format!("{name}-2")] {
        written_by_turns(place, &child);
        alike(place, &child, &[]);
    }
    // The snapshots are now kept for the clones only.
    place.stock(&format!("snap rm {name}@t --no-progress"));
    place.done(&format!("snap rm {name}@u"));
    for line in ["snap ls", "snap ls --all", "info", "du", "children"] {
        place.same(&format!("{line} {name}"));
    }
    place.same(&format!("info {name}-1"));
    place.done(&format!("flatten {name}-1"));
    place.stock(&format!("flatten {name}-2 --no-progress"));
    for child in [format!("{name}-1"), format!("{name}-2")] {
        alike(place, &child, &[]);
        place.done(&format!("rm {child}"));
    }
    assert_eq!(place.stock(&format!("snap ls --all {name}")), "");
    place.done(&format!("snap create {name}@t"));
    written_by_turns(place, name);
    place.stock(&format!("snap create {name}@u --no-progress"));
}

/// Each clone is flattened by the program that did not create it.
fn flattened(place: &Place, names: &[&str; 4]) {
    assert!(place.refused("snap unprotect parent@s").contains("has clones"));
    for name in names {
        match name.ends_with("ours") {
            true => drop(place.stock(&format!("flatten {name} --no-progress"))),
            false => drop(place.done(&format!("flatten {name}"))),
        }
        alike(place, name, &["t", "u"]);
        place.done(&format!("snap purge {name}"));
        place.done(&format!("rm {name}"));
    }
    place.same("children parent");
    place.same("info parent");
    place.done("snap unprotect parent@s");
    place.done("snap rm parent@s");
}
