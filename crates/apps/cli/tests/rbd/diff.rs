//! Differences: both programs show the same, write the same files and read each other's.

use std::fs;
use std::process::Command;

use crate::{Place, exported_alike, whole};

pub(crate) fn by_its_words(place: &Place) {
    place.done("create d --size 1M --object-size 64K");
    assert_eq!(place.done("diff d"), "");
    place.done("bench d --io-type write --io-size 64K --io-total 128K --io-pattern full-seq");
    place.done("snap create d@a");
    place.done("bench d --io-type write --io-size 4K --io-total 4K --io-pattern full-seq");
    let diff = place.done("diff d");
    let line =
        |n: usize| diff.lines().nth(n).expect("a line").split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!([line(1), line(2)], ["0 65536 data", "65536 65536 data"]);
    let json = place.done("diff d --from-snap a --format json");
    assert_eq!(json, "[{\"exists\":\"true\",\"length\":4096,\"offset\":0}]\n");
    let whole = place.done("diff d --from-snap a --whole-object --format json");
    assert_eq!(whole, "[{\"exists\":\"true\",\"length\":65536,\"offset\":0}]\n");
    assert!(place.refused("diff d@a --from-snap b").contains("no snapshot 'b'"));
    place.done("snap create d@b");
    assert!(place.refused("diff d@a --from-snap b").contains("newer"));
    for step in ["d@a first", "--from-snap a d@b second"] {
        place.done(&format!("export-diff {step}"));
    }
    assert!(place.refused("export-diff d@a first").contains("first"));
    place.done("create e --size 3M --object-size 128K");
    assert!(place.refused("import-diff second e").contains("no snapshot 'a'"));
    for file in ["first", "second"] {
        place.done(&format!("import-diff {file} e"));
    }
    assert!(place.refused("import-diff second e").contains("a snapshot 'b' already"));
    assert!(place.refused("import-diff d e").contains("import-diff d"));
    place.done("merge-diff first second both");
    assert!(place.refused("merge-diff second first none").contains("the first ends with 'b'"));
    assert!(!place.dir.join("none").exists());
    place.done("create f --size 3M");
    place.done("import-diff both f");
    assert!(place.ours("export f@b -").stdout == place.ours("export d@b -").stdout);
    place.done("snap purge f");
    place.done("rm f");
    for snap in ["a", "b"] {
        let [d, e] = ["d", "e"].map(|image| place.ours(&format!("export {image}@{snap} -")).stdout);
        assert!(d == e && d.len() == 1 << 20, "{snap}");
    }
    fs::write(place.dir.join("wrong"), "rbd diff v2\n").expect("written");
    assert!(place.refused("import-diff wrong e").contains("does not begin with"));
    for image in ["d", "e"] {
        place.done(&format!("snap purge {image}"));
        place.done(&format!("rm {image}"));
    }
    // Without object maps each object is queried.
    place.done("create d --size 1M --object-size 64K --image-feature layering");
    place.done("bench d --io-type write --io-size 64K --io-total 128K --io-pattern full-seq");
    place.done("snap create d@a");
    place.done("bench d --io-type write --io-size 4K --io-total 4K --io-pattern full-seq");
    let used = place.done("du d");
    assert!(used.contains("d@a") && used.contains("128 KiB") && used.contains("192 KiB"), "{used}");
    place.done("snap rm d@a");
    place.done("rm d");
}

pub(crate) fn beside(place: &Place) {
    let shapes = [
        ("plain", "--object-size 1M"),
        ("striped", "--object-size 1M --stripe-unit 64K --stripe-count 3"),
        ("mapless", "--object-size 512K --image-feature layering"),
    ];
    for (name, shape) in shapes {
        place.stock(&format!("create {name} --size 20M {shape}"));
        place.same(&format!("diff {name}"));
        for (snap, size) in [("a", "20M"), ("b", "12M"), ("c", "25M")] {
            place.done(&format!("resize {name} --size {size} --allow-shrink"));
            place
                .done(&format!("bench {name} --io-type write --io-size 64K --io-total 2M --io-pattern rand"));
            place.stock(&format!(
                "bench {name} --io-type write --io-size 4K --io-total 40K --io-pattern rand"
            ));
            place.stock(&format!("snap create {name}@{snap} --no-progress"));
        }
        place.done(&format!("bench {name} --io-type write --io-size 9K --io-total 200K --io-pattern rand"));
        compared(place, name);
        moved(place, name);
        merged(place, name);
        place.done(&format!("snap purge {name}"));
        place.done(&format!("rm {name}"));
    }
    of_clones(place);
    whole::beside(place);
}

/// `merge-diff` takes no pool.
fn stock_merges(place: &Place, files: &str) -> String {
    let mut command = Command::new("rbd");
    command.arg("merge-diff").args(files.split(' ')).arg("--no-progress").current_dir(&place.dir);
    let done = command.env("CEPH_CONF", &place.conf).output().expect("it is installed");
    assert!(done.status.success(), "{files}: {}", String::from_utf8_lossy(&done.stderr));
    String::new()
}

/// Files of both programs, merged by either, restore the same image.
fn merged(place: &Place, name: &str) {
    let steps = [("", "a"), ("--from-snap a", "b"), ("--from-snap b", "c")];
    for (n, (from, to)) in steps.into_iter().enumerate() {
        let _ = fs::remove_file(place.dir.join(format!("step{n}")));
        match n {
            1 => place.stock(&format!("export-diff {from} {name}@{to} step{n} --no-progress")),
            _ => place.done(&format!("export-diff {from} {name}@{to} step{n}")),
        };
    }
    let wanted = place.ours(&format!("export {name}@c -")).stdout;
    for order in [["ours", "ours"], ["ours", "stock"], ["stock", "ours"]] {
        for file in ["half", "whole"] {
            let _ = fs::remove_file(place.dir.join(file));
        }
        for (by, files) in order.iter().zip(["step0 step1 half", "half step2 whole"]) {
            match *by {
                "ours" => place.done(&format!("merge-diff {files}")),
                _ => stock_merges(place, files),
            };
        }
        place.done("create merged --size 1M");
        match order[0] {
            "ours" => place.stock("import-diff whole merged --no-progress"),
            _ => place.done("import-diff whole merged"),
        };
        assert!(place.ours("export merged@c -").stdout == wanted, "{name} {order:?}");
        place.done("snap purge merged");
        place.done("rm merged");
    }
}

fn compared(place: &Place, name: &str) {
    for (from, to) in [
        ("", ""),
        ("", "@a"),
        ("", "@c"),
        ("a", "@b"),
        ("a", "@c"),
        ("b", "@c"),
        ("b", ""),
        ("c", ""),
        ("c", "@c"),
    ] {
        let from = if from.is_empty() { String::new() } else { format!("--from-snap {from}") };
        // After a shrink and a growth, stock shows the removed range only in part.
        if !(from.ends_with('a') && to == "@c") {
            place.same(&format!("diff {name}{to} {from} --whole-object"));
        }
        // For objects that were larger before, stock shows ranges that do not exist.
        if from.is_empty() && to != "@a" {
            continue;
        }
        place.same(&format!("diff {name}{to} {from}"));
        for file in ["ours.diff", "theirs.diff"] {
            let _ = fs::remove_file(place.dir.join(file));
        }
        place.done(&format!("export-diff {from} {name}{to} ours.diff"));
        place.stock(&format!("export-diff {from} {name}{to} theirs.diff --no-progress"));
        let [ours, theirs] =
            ["ours.diff", "theirs.diff"].map(|file| fs::read(place.dir.join(file)).expect("a file"));
        assert!(ours == theirs, "{name}{to} {from}: {} and {} bytes", ours.len(), theirs.len());
    }
    place.both_refuse(&format!("diff {name}@a --from-snap b"));
    place.both_refuse(&format!("diff {name} --from-snap none"));
    place.same(&format!("du {name}"));
}

/// Each program reads the files of the other.
fn moved(place: &Place, name: &str) {
    let steps = [("", "@a"), ("--from-snap a", "@b"), ("--from-snap b", "@c"), ("--from-snap c", "")];
    place.stock("create copy-ours --size 1M --object-size 256K");
    place.done("create copy-theirs --size 1M --object-size 2M");
    for (from, to) in steps {
        for file in ["ours.diff", "theirs.diff"] {
            let _ = fs::remove_file(place.dir.join(file));
        }
        place.done(&format!("export-diff {from} {name}{to} ours.diff"));
        place.stock(&format!("export-diff {from} {name}{to} theirs.diff --no-progress"));
        place.done("import-diff theirs.diff copy-ours");
        place.stock("import-diff ours.diff copy-theirs --no-progress");
    }
    for copy in ["copy-ours", "copy-theirs"] {
        for snap in ["@a", "@b", "@c", ""] {
            let [from, to] = [name, copy].map(|image| place.ours(&format!("export {image}{snap} -")).stdout);
            assert!(from == to, "{name}{snap} {copy}");
            exported_alike(place, &format!("{copy}{snap}"));
            place.stock(&format!("object-map check {copy}{snap} --no-progress"));
        }
        place.done(&format!("snap purge {copy}"));
        place.done(&format!("rm {copy}"));
    }
}

/// The difference of a clone includes data of its parent.
fn of_clones(place: &Place) {
    place.stock("create parent --size 10M --object-size 1M");
    place.done("bench parent --io-type write --io-size 200K --io-total 3M --io-pattern rand");
    place.done("snap create parent@s");
    place.done("snap protect parent@s");
    let pool = &place.pool;
    for (name, shape) in [
        ("alike", ""),
        ("other", "--object-size 512K --stripe-unit 512K --stripe-count 1"),
        ("mixed", "--stripe-unit 64K --stripe-count 3"),
    ] {
        place.stock(&format!("clone {pool}/parent@s {pool}/{name} {shape}"));
        place.same(&format!("diff {name}"));
        place.same(&format!("diff {name} --whole-object"));
        place.done(&format!("resize {name} --size 12M"));
        place.done(&format!("snap create {name}@a"));
        place.done(&format!("bench {name} --io-type write --io-size 64K --io-total 1M --io-pattern rand"));
        place.stock(&format!("snap create {name}@b --no-progress"));
        for line in ["@a", "", "--from-snap b"] {
            let spec = if line.starts_with('@') { format!("{name}{line}") } else { format!("{name} {line}") };
            place.same(&format!("diff {spec}"));
        }
        place.stock("create copy --size 1M --object-size 1M");
        for (step, (from, to)) in
            [("", "@a"), ("--from-snap a", "@b"), ("--from-snap b", "")].into_iter().enumerate()
        {
            place.done(&format!("export-diff {from} {name}{to} {name}.{step}"));
            place.stock(&format!("import-diff {name}.{step} copy --no-progress"));
        }
        for snap in ["@a", "@b", ""] {
            let [from, to] =
                [name, "copy"].map(|image| place.ours(&format!("export {image}{snap} -")).stdout);
            assert!(from == to, "{name}{snap}");
        }
        for image in ["copy", name] {
            place.done(&format!("snap purge {image}"));
            place.done(&format!("rm {image}"));
        }
    }
    place.done("snap unprotect parent@s");
    place.done("snap rm parent@s");
    place.done("rm parent");
}
