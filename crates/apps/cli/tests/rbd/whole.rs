//! Images with all their snapshots in one file: each program reads the files of the other, which are the
//! same byte for byte.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::{Place, exported_alike};

pub(crate) fn by_its_words(place: &Place) {
    place.done("create w --size 3M --object-size 64K --stripe-unit 16K --stripe-count 3");
    place.done("image-meta set w key value");
    place.done("image-meta set w conf_rbd_cache true");
    for (snap, size) in [("a", "5M"), ("b", "2M")] {
        place.done("bench w --io-type write --io-size 5K --io-total 100K --io-pattern rand");
        place.done(&format!("snap create w@{snap}"));
        place.done(&format!("resize w --size {size} --allow-shrink"));
    }
    place.done("bench w --io-type write --io-size 5K --io-total 100K --io-pattern rand");
    place.done("snap protect w@b");
    place.done("export w whole --export-format 2");
    let file = fs::read(place.dir.join("whole")).expect("a file");
    assert!(place.ours("export w@a - --export-format 2").stdout == file);
    assert!(place.refused("export w@none none --export-format 2").contains("no snapshot 'none'"));
    assert!(place.refused("export w whole --export-format 2").contains("whole"));
    assert!(fs::read(place.dir.join("whole")).expect("a file") == file);

    place.done("import whole v --export-format 2");
    restored(place, "w", "v");
    let status = piped(
        place,
        &file,
        env!("CARGO_BIN_EXE_loligo"),
        &["rbd", "import", "-", "u", "--export-format", "2"],
    );
    assert!(status);
    restored(place, "w", "u");
    // Compared with each other, not with `w`: a range that a shrink removed is recorded differently from
    // a discarded one.
    let [v, u] = ["v", "u"].map(|image| place.ours(&format!("export {image} - --export-format 2")).stdout);
    assert!(v == u && !v.is_empty());
    place.done(
        "import whole t --export-format 2 --object-size 128K --image-feature layering --sparse-size 1K",
    );
    let info = place.done("info t");
    assert!(info.contains("order 17") && info.contains("stripe unit: 16 KiB"), "{info}");
    assert!(info.contains("features: layering, striping\n"), "{info}");
    same_bytes(place, "w", "t");

    assert!(place.refused("import whole v --export-format 2").contains("an image 'v' already"));
    restored(place, "w", "v");
    damaged(place, &file);
    for image in ["t", "u", "v", "w"] {
        place.done(&format!("snap unprotect {image}@b"));
        place.done(&format!("snap purge {image}"));
        place.done(&format!("rm {image}"));
    }
}

/// After a failed import nothing is left, not even protected snapshots.
fn damaged(place: &Place, file: &[u8]) {
    let before = place.done("ls");
    let refused = |bytes: &[u8]| {
        fs::write(place.dir.join("damaged"), bytes).expect("written");
        let said = place.refused("import damaged half --export-format 2");
        assert_eq!(place.done("ls"), before, "{said}");
        said
    };
    for len in [5, 40, 200, file.len() / 3, file.len() / 2, file.len() - 1] {
        let said = refused(&file[..len]);
        assert!(said.contains("it ends too early"), "{len}: {said}");
    }
    let changed = |from: &[u8], to: &[u8]| {
        let at = file.windows(from.len()).rposition(|here| here == from).expect("it is there");
        [&file[..at], to, &file[at + from.len()..]].concat()
    };
    let said = refused(&changed(b"rbd diff v2", b"rbd diff v1"));
    assert!(said.contains("does not begin with 'rbd diff v2'"), "{said}");
    let said = refused(&changed(b"f\x05\0\0\0\0\0\0\0\x01\0\0\0b", b"f\x05\0\0\0\0\0\0\0\x01\0\0\0c"));
    assert!(said.contains("no snapshot 'c'"), "{said}");
    let said = refused(&changed(b"O\x08\0\0\0\0\0\0\0\x10", b"O\x08\0\0\0\0\0\0\0\x40"));
    assert!(said.contains("no layout of an image"), "{said}");
    let said = refused(&changed(b"T\x08\0\0\0\0\0\0\0\x3f", b"T\x08\0\0\0\0\0\0\0\x7f"));
    assert!(said.contains("journaling"), "{said}");
    // A part of a newer release is skipped with a warning.
    let more =
        changed(b"f\x05\0\0\0\0\0\0\0\x01\0\0\0b", b"x\x03\0\0\0\0\0\0\0...f\x05\0\0\0\0\0\0\0\x01\0\0\0b");
    fs::write(place.dir.join("damaged"), more).expect("written");
    let output = place.ours("import damaged more --export-format 2");
    assert!(output.status.success());
    let said = String::from_utf8(output.stderr).expect("text");
    assert!(said.contains("left out") && said.contains("0x78"), "{said}");
    same_bytes(place, "w", "more");
    place.done("snap unprotect more@b");
    place.done("snap purge more");
    place.done("rm more");
    fs::write(place.dir.join("damaged"), "bytes").expect("written");
    assert!(place.refused("import damaged half --export-format 2").contains("it ends too early"));
}

fn piped(place: &Place, file: &[u8], program: &str, args: &[&str]) -> bool {
    fs::write(place.dir.join("piped"), file).expect("written");
    let from = fs::File::open(place.dir.join("piped")).expect("a file");
    let mut command = Command::new(program);
    command.env("CEPH_CONF", &place.conf).env_remove("CEPH_ARGS").args(["-p", &place.pool]).args(args);
    command.stdin(from).stderr(Stdio::null()).status().expect("it runs").success()
}

fn restored(place: &Place, from: &str, to: &str) {
    same_bytes(place, from, to);
    for line in ["image-meta list", "snap ls --format json"] {
        let [from, to] = [from, to].map(|image| place.done(&format!("{line} {image}")));
        assert_eq!(told(&from), told(&to), "{line}");
    }
    let shape = |image: &str| {
        let info = place.done(&format!("info {image}"));
        let kept = ["order", "features:", "stripe unit", "stripe count", "snapshot_count"];
        let lines = info.lines().filter(|line| kept.iter().any(|key| line.trim_start().starts_with(key)));
        lines.map(|line| line.replace(", operations", "")).collect::<Vec<_>>()
    };
    assert_eq!(shape(from), shape(to));
    place.done(&format!("object-map check {to}"));
}

/// Removes ids and times.
fn told(text: &str) -> Vec<String> {
    let Ok(Value::Array(snaps)) = serde_json::from_str(text) else { return vec![text.to_owned()] };
    let one = |snap: &Value| format!("{} {} {}", snap["name"], snap["size"], snap["protected"]);
    snaps.iter().map(one).collect()
}

fn same_bytes(place: &Place, from: &str, to: &str) {
    for snap in ["", "@a", "@b"] {
        let [from, to] = [from, to].map(|image| place.ours(&format!("export {image}{snap} -")).stdout);
        assert!(from == to && !from.is_empty(), "{snap}");
    }
}

pub(crate) fn beside(place: &Place) {
    let pool = &place.pool;
    place.stock("create base --size 10M --object-size 1M --stripe-unit 64K --stripe-count 3");
    place.stock("image-meta set base key value");
    place.done("bench base --io-type write --io-size 64K --io-total 2M --io-pattern rand");
    place.done("snap create base@a");
    place.done("snap protect base@a");
    place.stock("bench base --io-type write --io-size 4K --io-total 40K --io-pattern rand");
    place.stock("resize base --size 12M --no-progress");
    place.stock("snap create base@b --no-progress");
    place.stock("bench base --io-type write --io-size 4K --io-total 40K --io-pattern rand");
    exchanged(place, "base");
    place.stock(&format!("clone {pool}/base@a {pool}/child --object-size 512K"));
    place.done("bench child --io-type write --io-size 20K --io-total 200K --io-pattern rand");
    for snap in ["a", "b"] {
        place.stock(&format!("snap create child@{snap} --no-progress"));
        place.stock("bench child --io-type write --io-size 4K --io-total 40K --io-pattern rand");
    }
    exchanged(place, "child");
    // Features that the clone's children require are not those of a new image.
    let stock_options = "--rbd-default-clone-format 2 --image-feature layering";
    place.stock(&format!("clone {pool}/child@b {pool}/grandchild {stock_options}"));
    // A snapshot in the trash is not exported; the stock program fails in this case.
    place.done("snap rm child@b");
    place.done("export child trash --export-format 2");
    place.stock("import trash trash --export-format 2 --no-progress");
    assert_eq!(place.stock("snap ls trash").lines().count(), 2);
    for image in ["grandchild", "child", "trash"] {
        place.done(&format!("snap purge {image}"));
        place.done(&format!("rm {image}"));
    }
    place.done("snap unprotect base@a");
    place.done("snap purge base");
    place.done("rm base");
}

fn exchanged(place: &Place, image: &str) {
    place.done(&format!("export {image} ours.v2 --export-format 2"));
    place.stock(&format!("export {image} theirs.v2 --export-format 2 --no-progress"));
    let read = |file: &str| fs::read(place.dir.join(file)).expect("a file");
    let [ours, theirs] = ["ours.v2", "theirs.v2"].map(read);
    // Where a clone's object hides the parent's data behind its own end, our file records zeros, and
    // stock's nothing.
    if image == "base" {
        assert!(ours == theirs, "{} and {} bytes", ours.len(), theirs.len());
    }
    assert!(place.ours(&format!("export {image} - --export-format 2")).stdout == ours);
    place.done("import theirs.v2 ours --export-format 2");
    place.stock("import ours.v2 theirs --export-format 2 --no-progress");
    let by_pipe = |program: &str, args: &str| {
        assert!(piped(place, &ours, program, &args.split(' ').collect::<Vec<_>>()), "{program} {args}");
    };
    let mut copies = vec!["ours", "theirs"];
    if image == "base" {
        by_pipe(env!("CARGO_BIN_EXE_loligo"), "rbd import - ours-piped --export-format 2");
        by_pipe("rbd", "import - theirs-piped --export-format 2 --no-progress");
        copies.extend(["ours-piped", "theirs-piped"]);
    }
    for copy in copies {
        restored(place, image, copy);
        exported_alike(place, copy);
        for snap in ["", "@a", "@b"] {
            place.stock(&format!("object-map check {copy}{snap} --no-progress"));
        }
        place.same(&format!("snap ls {copy}"));
        place.same(&format!("du {copy}"));
        if place.done(&format!("snap ls {copy}")).contains("yes") {
            place.done(&format!("snap unprotect {copy}@a"));
        }
        place.done(&format!("snap purge {copy}"));
        place.done(&format!("rm {copy}"));
    }
    for file in ["ours.v2", "theirs.v2"] {
        remove(&place.dir.join(file));
    }
}

fn remove(file: &Path) {
    fs::remove_file(file).expect("it is there");
}
