//! Goal: names and sizes given as options have the effect that they have with stock `rbd`, and our
//! program called `rbd` behaves as `rbd`.

use std::os::unix::fs::symlink;
use std::process::Output;

use super::Place;

/// Run in order in an empty pool; `POOL` stands for the pool's name, and `!` marks a line that is
/// refused.
const LINES: [&str; 28] = [
    "create -s 10M a",
    "--image b create --size 5M",
    "create c -s 3 --order 20 --image-format 2 --no-progress",
    "-s 4M create d",
    "snap create a --snap s1 --no-progress",
    "--image a snap create --snap s2",
    "resize -s 20M --image a --no-progress",
    "cp --image a --snap s1 --dest copy --dest-pool POOL --no-progress",
    "deep cp a deep --dest-pool POOL",
    "rename b --dest b2 --dest-pool POOL",
    "snap rename a@s1 --dest a --dest-snap t1",
    "snap rm --snap s2 a --no-progress",
    "snap protect --image a --snap t1",
    "clone --image a --snap t1 --dest child --dest-pool POOL",
    "export --image a --path bytes --no-progress",
    "export-diff --image a --snap t1 --path differs",
    "import --image i1 bytes",
    "--dest i2 import bytes",
    "import --path bytes --dest i3 --dest-pool POOL",
    "import-diff --image i1 --path differs",
    "feature disable --image c object-map fast-diff",
    "image-meta set --image c k v",
    "rm --image d",
    "!create x -s 1M --image-format 1",
    "!rename b2 --dest-pool nosuch",
    "!import --dest x@s bytes",
    "!create x@s -s 1M",
    "!snap rename a@t1 --dest-snap t2",
];

const MADE: &str = "a b2 c child copy deep i1 i2 i3";

fn line(place: &Place, program: &str, text: &str) -> Output {
    let text = text.replace("POOL", &place.pool);
    place.run(program, &text.split_whitespace().collect::<Vec<_>>())
}

fn done(place: &Place, program: &str, text: &str) -> String {
    let output = line(place, program, text);
    assert!(output.status.success(), "{program} {text}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// Runs all lines, and returns the resulting state.
fn state(place: &Place, program: &str) -> Vec<String> {
    for text in LINES {
        let _ = std::fs::remove_file(place.dir.join(if text.contains("export-diff") {
            "differs"
        } else {
            "none"
        }));
        match text.strip_prefix('!') {
            None => drop(done(place, program, text)),
            Some(text) => assert!(!line(place, program, text).status.success(), "{program} {text}"),
        }
    }
    let mut state = Vec::new();
    for image in MADE.split(' ') {
        let info = done(place, program, &format!("info --image {image}"));
        let kept = info.lines().map(str::trim).filter(|line| {
            ["size ", "order ", "features:", "parent:"].iter().any(|begin| line.starts_with(begin))
        });
        state.push(format!("{image}: {}", kept.collect::<Vec<_>>().join(", ")));
        let snaps = done(place, program, &format!("snap ls --image {image}"));
        let names = snaps.lines().skip(1).filter_map(|line| line.split_whitespace().nth(1));
        state.push(names.collect());
    }
    state.push(done(place, program, "image-meta get --image c k"));
    state
}

fn clear(place: &Place, program: &str) {
    assert_eq!(done(place, program, "ls").split_whitespace().collect::<Vec<_>>().join(" "), MADE);
    done(place, program, "rm --image child");
    done(place, program, "snap unprotect --image a --snap t1");
    for image in MADE.split(' ').filter(|image| *image != "child") {
        done(place, program, &format!("snap purge --image {image} --no-progress"));
        done(place, program, &format!("rm --image {image}"));
    }
    std::fs::remove_file(place.dir.join("bytes")).expect("it was exported");
}

/// Our program under the name `rbd`.
fn ours(place: &Place) -> String {
    let link = place.dir.join("rbd");
    symlink(env!("CARGO_BIN_EXE_loligo"), &link).expect("room");
    link.to_str().expect("text").to_owned()
}

pub(super) fn by_their_words(place: &Place) {
    let ours = ours(place);
    let state = state(place, &ours);
    assert!(state.iter().any(|line| line.contains("size 20 MiB")), "{state:?}");
    clear(place, &ours);
}

pub(super) fn beside(place: &Place) {
    let ours = ours(place);
    let of_ours = state(place, &ours);
    clear(place, &ours);
    let of_stock = state(place, "rbd");
    clear(place, "rbd");
    assert_eq!(of_ours, of_stock);
}
