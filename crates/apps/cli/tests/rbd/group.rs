//! Groups: one program creates groups, adds images and takes snapshots; the other lists, rolls back and
//! removes them.

use crate::Place;

pub(crate) fn by_its_words(place: &Place) {
    for name in ["ga", "gb"] {
        place.done(&format!("create {name} --size 3 --object-size 64K"));
        place.done(&format!("bench {name} --io-type write --io-total 200K --io-pattern rand"));
    }
    place.done("group create g");
    assert!(place.refused("group create g").contains("a group 'g' already"));
    assert_eq!(place.done("group ls"), "g\n");
    assert_eq!(place.done("group ls --format json"), "[\"g\"]\n");
    place.done("group image add g ga");
    place.done("group image add p/g p/gb");
    assert_eq!(place.done("group image ls g"), "p/ga \np/gb \n");
    assert!(place.done("info gb").contains("\tflags: \n\tgroup: p/g\n\tcreate_timestamp"));
    assert!(place.refused("rm ga").contains("belongs to a group"));
    assert!(place.refused("group image add g none").contains("no image 'none'"));
    assert!(place.refused("group snap create g").contains("names no snapshot"));
    let [a, b] = ["ga", "gb"].map(|name| place.ours(&format!("export {name} -")).stdout);
    place.done("group snap create g@s");
    place.done("bench ga --io-type write --io-total 200K --io-pattern rand");
    place.done("resize gb --size 1 --allow-shrink");
    assert!(place.refused("group snap create g@s").contains("a snapshot 's' already"));
    assert_eq!(place.done("group snap ls g"), "NAME  STATUS\ns         ok\n");
    assert_eq!(place.done("snap ls ga"), "");
    assert!(place.done("snap ls ga --all").ends_with("  group (p/g@s)\n"));
    place.done("group snap rollback g@s");
    for (name, bytes) in [("ga", a), ("gb", b)] {
        assert!(place.ours(&format!("export {name} -")).stdout == bytes, "{name}");
        place.done(&format!("object-map check {name}"));
    }
    place.done("group snap rename g@s t");
    assert!(place.refused("group snap rm g@s").contains("no snapshot 's'"));
    let said = place.refused("group rename g other/h");
    assert!(said.contains("other"), "{said}");
    place.done("group rename g h");
    place.done("group image rm h gb");
    assert!(place.refused("group snap rollback h@t").contains("not of the images"));
    place.done("group rm h");
    assert_eq!(place.done("group ls"), "");
    for name in ["ga", "gb"] {
        place.done(&format!("rm {name}"));
    }
}

/// An image, and the place that names are resolved in.
type At<'a> = (&'a Place, &'static str);

fn bytes(images: [At<'_>; 2]) -> [Vec<u8>; 2] {
    images.map(|(place, image)| place.ours(&format!("export {image} -")).stdout)
}

fn written([(ours, a), (theirs, b)]: [At<'_>; 2]) {
    let options = "--io-type write --io-total 300K --io-pattern rand";
    ours.done(&format!("bench {a} {options} --io-size 9K"));
    theirs.stock(&format!("bench {b} {options} --io-size 4K"));
}

/// Both programs show the same of the group, and of its first image.
fn alike(place: &Place) {
    for line in ["group image ls g", "group snap ls g", "snap ls --all a"] {
        place.same(line);
    }
}

/// In commands with two names the stock program does not take their pool from an option.
pub(crate) fn beside(place: &Place) {
    let other =
        &Place { pool: format!("{}-2", place.pool), conf: place.conf.clone(), dir: place.dir.clone() };
    other.make_pool();
    let (p, q) = (&place.pool, &other.pool);
    let images = [(place, "a"), (other, "b")];
    place.stock("create a --size 30M --object-size 1M");
    other.done("create b --size 20M --object-size 1M");
    place.done("group create g");
    place.stock("group create h");
    place.both_refuse("group create g");
    place.done("group image add g a");
    place.stock(&format!("group image add {p}/g {q}/b"));
    place.both_refuse("rm a");
    for line in ["add P/h P/a", "rm P/h P/a", "add P/h P/none", "add P/none P/a", "rm P/none P/a"] {
        place.both_refuse(&format!("group image {}", line.replace('P', p)));
    }
    written(images);
    place.same("group ls");
    other.same("info b");
    snapshots(place, images);
    place.done("group rename h i");
    place.stock(&format!("group rename {p}/i {p}/h"));
    for line in ["P/h P/g", "P/none P/x", "P/h Q/x"] {
        place.both_refuse(&format!("group rename {}", line.replace('P', p).replace('Q', q)));
    }
    // For a group that does not exist, both print nothing.
    for line in ["group image ls none", "group snap ls none"] {
        place.same(line);
    }
    place.done("group rm none");
    place.stock("group rm none");
    place.done("group snap create g@ours");
    place.stock("group snap create g@theirs");
    place.stock(&format!("group image rm {p}/g {q}/b"));
    place.both_refuse(&format!("group snap rename {p}/g@ours theirs"));
    alike(place);
    let info: serde_json::Value = serde_json::from_str(&place.stock("info a --format json")).expect("JSON");
    place.done(&format!("group image rm g --image-id {}", info["id"].as_str().expect("an id")));
    alike(place);
    place.stock(&format!("group image add {p}/g {p}/a"));
    place.done("group rm g");
    place.stock("group rm h");
    place.same("group ls");
    for (place, image) in images {
        place.same(&format!("info {image}"));
        assert_eq!(place.stock(&format!("snap ls {image} --all")), "");
        place.done(&format!("rm {image}"));
    }
    in_a_namespace(place);
    other.remove_pool();
}

/// Group snapshots of either program, rolled back by the other, beside users' snapshots of the same
/// names.
fn snapshots(place: &Place, images: [At<'_>; 2]) {
    let first = bytes(images);
    place.done("group snap create g@ours");
    place.both_refuse("group snap create g@ours");
    place.stock("snap create a@ours --no-progress");
    written(images);
    place.done("resize a --size 25M --allow-shrink");
    let second = bytes(images);
    place.stock("group snap create g@theirs");
    place.done("snap create a@theirs");
    written(images);
    alike(place);
    for line in ["info a", "snap ls a", "du a", "diff a --from-snap ours"] {
        place.same(line);
    }
    let third = bytes(images);
    place.done("group snap create g@third");
    place.stock("group snap rollback g@ours --no-progress");
    assert!(bytes(images) == first);
    place.done("group snap rollback g@theirs");
    assert!(bytes(images) == second);
    for (place, image) in images {
        place.stock(&format!("object-map check {image} --no-progress"));
    }
    place.done("group snap rollback g@third");
    assert!(bytes(images) == third);
    place.stock("snap rollback a@theirs --no-progress");
    assert!(bytes(images)[0] == second[0]);
    place.both_refuse("group snap rollback g@none");
    place.done("group snap rename g@ours one");
    place.stock("group snap rename g@theirs two");
    alike(place);
    place.done("snap purge a");
    place.stock("group snap rm g@one");
    place.done("group snap rm g@two");
    place.done("group snap rm g@third");
    place.both_refuse("group snap rm g@third");
    alike(place);
}

fn in_a_namespace(place: &Place) {
    let inside = format!("{}/inside", place.pool);
    place.done(&format!("namespace create {inside}"));
    place.stock(&format!("create {inside}/c --size 1"));
    place.done(&format!("group create {inside}/g"));
    place.stock(&format!("group image add {inside}/g {inside}/c"));
    place.done(&format!("group snap create {inside}/g@ours"));
    place.stock(&format!("group snap create {inside}/g@theirs"));
    place.both_refuse(&format!("group image add {}/g {inside}/c", place.pool));
    for line in
        ["group ls {}", "group image ls {}/g", "group snap ls {}/g", "info {}/c", "snap ls --all {}/c"]
    {
        place.same(&line.replace("{}", &inside));
    }
    place.done(&format!("group snap rollback {inside}/g@theirs"));
    place.stock(&format!("group rm {inside}/g"));
    place.done(&format!("rm {inside}/c"));
    place.done(&format!("namespace rm {inside}"));
}
