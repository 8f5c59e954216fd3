//! Images of the first format: each program lists, shows, reads, writes, copies, renames and removes
//! those of the other, and both refuse the same.

use std::fs;

use crate::Place;

fn make(place: &Place, by_us: bool, name: &str) {
    let line = format!("create {name} --size 9M --image-format 1 --object-size 1M");
    let args: Vec<&str> = line.split_whitespace().collect();
    let mut command = match by_us {
        true => place.command(env!("CARGO_BIN_EXE_loligo"), &[&["rbd"], &args[..]].concat()),
        false => place.command("rbd", &args),
    };
    let output = command.env("RBD_FORCE_ALLOW_V1", "1").output().expect("it is installed");
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
}

fn bytes(place: &Place, image: &str) -> Vec<u8> {
    let [ours, theirs] = [
        place.ours(&format!("export {image} -")),
        place.run("rbd", &["export", image, "-", "--no-progress"]),
    ];
    assert!(ours.status.success() && theirs.status.success(), "{image}");
    assert!(ours.stdout == theirs.stdout, "{image}");
    ours.stdout
}

fn same_refusal(place: &Place, line: &str) {
    let args: Vec<&str> = line.split_whitespace().collect();
    let (ours, theirs) = (place.ours(line), place.run("rbd", &args));
    assert!(!theirs.status.success(), "rbd {line}");
    assert_eq!(ours.status.code(), theirs.status.code(), "{line}: {}", String::from_utf8_lossy(&ours.stderr));
}

pub(crate) fn beside(place: &Place) {
    for (by_us, name) in [(true, "ours"), (false, "theirs")] {
        make(place, by_us, name);
        place.same("ls");
        place.same(&format!("info {name}"));
        place.done(&format!("bench {name} --io-type write --io-size 64K --io-total 4M --io-pattern rand"));
        place.stock(&format!("snap create {name}@a --no-progress"));
        let at_a = bytes(place, name);
        place.stock(&format!("bench {name} --io-type write --io-size 16K --io-total 1M --io-pattern rand"));
        place.done(&format!("snap create {name}@b"));
        let at_b = bytes(place, name);
        place.done(&format!("bench {name} --io-type write --io-size 8K --io-total 1M --io-pattern rand"));
        assert!(bytes(place, &format!("{name}@a")) == at_a && bytes(place, &format!("{name}@b")) == at_b);
        for line in ["snap ls", "info", "status", "lock ls"] {
            place.same(&format!("{line} {name}"));
        }
        place.same("ls --long");
        // Operations that this format does not support.
        for line in [
            format!("clone {0}/{name}@a {0}/child", place.pool),
            format!("snap protect {name}@a"),
            format!("feature enable {name} exclusive-lock"),
            format!("trash mv {name}"),
            format!("flatten {name}"),
            format!("create {name} --size 1M"),
        ] {
            same_refusal(place, &line);
        }
        let path = format!("{}/{name}", place.pool);
        place.done(&format!("cp {path} {path}-by-us"));
        place.stock(&format!("cp {path} {path}-by-them --no-progress"));
        assert!(bytes(place, &format!("{name}-by-us")) == bytes(place, &format!("{name}-by-them")));
        for copy in [format!("{name}-by-us"), format!("{name}-by-them")] {
            place.stock(&format!("rm {copy} --no-progress"));
        }
        place.done(&format!("snap rollback {name}@a"));
        assert!(bytes(place, name) == at_a);
        place.stock(&format!("snap rollback {name}@b --no-progress"));
        assert!(bytes(place, name) == at_b);
        place.done(&format!("resize {name} --size 12M"));
        place.stock(&format!("resize {name} --size 5M --allow-shrink --no-progress"));
        place.same(&format!("info {name}"));
        assert!(bytes(place, name) == at_b[..5 << 20]);
        place.stock(&format!("rename {path} {path}-renamed"));
        place.done(&format!("rename {path}-renamed {path}"));
        place.same("ls");
        let _ = fs::remove_file(place.dir.join("out"));
        place.stock(&format!("export {name} out --no-progress"));
        place.done("import out back");
        assert!(bytes(place, "back") == at_b[..5 << 20]);
        place.done("rm back");
        same_refusal(place, &format!("rm {name}"));
        place.done(&format!("snap rm {name}@a"));
        place.stock(&format!("snap rm {name}@b --no-progress"));
        place.same(&format!("snap ls {name}"));
    }
    place.done("rm theirs");
    place.stock("rm ours --no-progress");
    assert_eq!(place.done("ls"), "");
    // Their data is removed. Objects of snapshots are listed until the OSDs have trimmed them.
    let left = String::from_utf8(place.run("rados", &["ls"]).stdout).expect("text");
    for object in left.lines().filter(|name| name.starts_with("rb.0")) {
        assert!(!place.run("rados", &["stat", object]).status.success(), "{object}");
    }
}

/// Images of this format are migrated to the second one; each step may be taken by either program.
pub(crate) fn migrated(place: &Place) {
    for (ours_first, name) in [(true, "ours"), (false, "theirs")] {
        make(place, ours_first, name);
        place.done(&format!("bench {name} --io-type write --io-size 64K --io-total 4M --io-pattern rand"));
        place.stock(&format!("snap create {name}@a --no-progress"));
        place.done(&format!("bench {name} --io-type write --io-size 16K --io-total 1M --io-pattern rand"));
        let before = [bytes(place, &format!("{name}@a")), bytes(place, name)];
        let to = format!("{}/{name}-new", place.pool);
        let line = format!("migration prepare {}/{name} {to}", place.pool);
        if ours_first {
            place.done(&line)
        } else {
            place.stock(&line)
        };
        place.same("ls");
        for line in ["info", "status", "snap ls"] {
            place.same(&format!("{line} {name}-new"));
        }
        assert!(bytes(place, &to) == before[1]);
        match ours_first {
            true => place.stock(&format!("migration execute {to} --no-progress")),
            false => place.done(&format!("migration execute {to}")),
        };
        assert!(bytes(place, &to) == before[1] && bytes(place, &format!("{to}@a")) == before[0]);
        match ours_first {
            true => place.done(&format!("migration commit {to}")),
            false => place.stock(&format!("migration commit {to} --no-progress")),
        };
        assert!(bytes(place, &to) == before[1] && bytes(place, &format!("{to}@a")) == before[0]);
        place.same("ls");
        place.stock(&format!("snap purge {to} --no-progress"));
        place.done(&format!("rm {to}"));
    }
}
