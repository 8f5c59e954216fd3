//! The trash: images that one program moves there are found, restored and removed by the other.

use serde_json::Value;

use crate::Place;

pub(crate) fn by_its_words(place: &Place) {
    place.done("create a --size 10");
    place.done("trash mv a --expires-at tomorrow");
    assert!(place.refused("info a").contains("no image 'a'"));
    let id = id_of(place, "a");
    assert!(place.done("trash ls --long").contains("protected until"));
    assert!(place.refused(&format!("trash rm {id}")).contains("is kept until"));
    place.done("trash purge");
    place.done(&format!("trash restore {id} --image b"));
    assert!(place.refused("trash restore none").contains("in the trash"));
    assert!(place.refused("trash mv b --expires-at yesterday").contains("in the past"));
    assert!(place.refused("trash mv b --expires-at rubbish").contains("is no date"));
    place.done("trash mv b --expires-at tomorrow");
    place.done("create b --size 10");
    assert!(place.refused(&format!("trash restore {id}")).contains("an image 'b' already"));
    place.done(&format!("trash rm {id} --force"));
    place.done("trash mv b");
    place.done("trash purge");
    assert_eq!(place.done("trash ls"), "");
}

/// An image that cannot be opened does not prevent listing the others; both programs report it, and
/// succeed.
pub(crate) fn beside_broken_images(place: &Place) {
    for name in ["broken", "trashed-broken", "trashed-whole", "whole"] {
        place.done(&format!("create {name} --size 10M"));
    }
    place.stock("snap create whole@s --no-progress");
    let headers = ["broken", "trashed-broken"].map(|name| {
        let info: Value =
            serde_json::from_str(&place.done(&format!("info {name} --format json"))).expect("JSON");
        (name, format!("rbd_header.{}", info["id"].as_str().expect("text")))
    });
    place.done("trash mv trashed-broken");
    place.done("trash mv trashed-whole");
    for (name, header) in &headers {
        assert!(place.run("rados", &["rm", header]).status.success(), "{name}");
    }
    for line in ["ls --long", "trash ls --long", "du"] {
        place.same(line);
        let output = place.ours(line);
        let said = String::from_utf8(output.stderr).expect("text");
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(said.contains("left out"), "{said}");
        assert!(String::from_utf8(output.stdout).expect("text").contains("whole"));
    }
    // A migrated image is listed too, before it has all its data.
    place.done("create moved --size 10M");
    let pool = &place.pool;
    place.stock(&format!("migration prepare {pool}/moved {pool}/arrived"));
    for line in ["ls --long", "trash ls --long --all"] {
        place.same(line);
        assert!(place.done(line).contains(if line.starts_with("ls") { "arrived" } else { "MIGRATION" }));
    }
    for line in ["info arrived", "snap ls arrived", "image-meta ls arrived"] {
        place.done(line);
    }
    place.both_refuse("image-meta set broken k v");
    place.stock(&format!("migration abort {pool}/arrived --no-progress"));
    let whole = id_of(place, "trashed-whole");
    place.done(&format!("trash rm {whole}"));
    place.done("rm moved");
    place.done("snap rm whole@s");
    place.done("rm whole");
}

fn id_of(place: &Place, name: &str) -> String {
    let all = place.done("trash ls --all");
    let line = all.lines().find(|line| line.ends_with(&format!(" {name}")));
    line.unwrap_or_else(|| panic!("{name} in {all}")).split(' ').next().expect("an id").to_owned()
}

pub(crate) fn beside(place: &Place) {
    for name in ["trashed-a", "trashed-b", "trashed-c"] {
        place.stock(&format!("create {name} --size 10M --object-size 1M"));
        place.done(&format!("bench {name} --io-type write --io-size 9K --io-total 1M"));
    }
    place.stock("snap create trashed-a@s --no-progress");
    let second = "--rbd-default-clone-format 2";
    let pool = &place.pool;
    place.done(&format!("{second} clone {pool}/trashed-a@s {pool}/trashed-d"));
    place.done("trash mv trashed-a");
    place.stock("trash mv trashed-b");
    place.done("trash mv trashed-c --expires-at tomorrow");
    place.stock("trash mv trashed-d");
    for line in ["trash ls", "trash ls --all", "trash ls --long", "ls"] {
        place.same(line);
    }
    let [a, b, c, d] = ["a", "b", "c", "d"].map(|name| id_of(place, &format!("trashed-{name}")));
    place.stock(&format!("trash restore {a}"));
    place.done(&format!("trash restore {b}"));
    place.same("ls");
    place.same("info trashed-b");
    place.same("children trashed-a --all");
    place.done(&format!("trash restore {d}"));
    place.same("info trashed-d");
    place.done("trash mv trashed-a");
    place.same("info trashed-d");
    place.done("trash mv trashed-d");
    // A parent with a snapshot in its trash is removed after its clone.
    place.stock(&format!("trash restore {a}"));
    place.done("snap rm trashed-a@s");
    place.done("trash mv trashed-a");
    place.done("trash purge");
    place.same("trash ls --long");
    assert_eq!(place.done("trash ls").lines().count(), 1);
    place.stock(&format!("trash rm {c} --force --no-progress"));
    place.done("trash mv trashed-b");
    place.stock("trash purge --no-progress");
    assert_eq!(place.done("trash ls --all"), "");
    place.done(&format!("namespace create {pool}/kept"));
    place.done(&format!("create {pool}/kept/image --size 1"));
    place.done(&format!("trash mv {pool}/kept/image --expires-at tomorrow"));
    assert!(place.refused(&format!("namespace rm {pool}/kept")).contains("its trash has"));
    place.same(&format!("trash ls {pool}/kept"));
    let kept = place.done(&format!("trash ls {pool}/kept"));
    let id = kept.split(' ').next().expect("an id");
    place.done(&format!("trash rm {pool}/kept/{id} --force"));
    place.done(&format!("namespace rm {pool}/kept"));
}
