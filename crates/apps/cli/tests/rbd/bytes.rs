//! Goal: names of images, snapshots, namespaces, groups, locks and keys are any bytes. Method: both
//! programs run the same commands, which must print the same bytes.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::process::{Command, Output};

use super::Place;

/// Unusual names, which other programs create. No name has a slash or an `@`.
const NAMES: [&[u8]; 3] = [b"\xff", b"a\xc3b\xfe \"\\xff\xed\xa0\x80", "\u{10ffff}ä日".as_bytes()];

/// `N` stands for the name and `P` for the pool. The outputs of commands that show something are
/// compared.
const LINES: &[&str] = &[
    "create --size 1M N",
    "info N",
    "ls",
    "ls --format json",
    "ls -l",
    "du N",
    "snap create N@N",
    "snap ls N",
    "snap ls N --format json",
    "snap protect N@N",
    "clone --rbd-default-clone-format=1 P/N@N P/Nc",
    "info Nc",
    "children N@N",
    "rm Nc",
    "snap unprotect N@N",
    "snap rename N@N N@N2",
    "diff N --from-snap N2",
    "export N@N2 -",
    "export-diff N@N2 -",
    "cp P/N P/Ncopy",
    "deep cp P/N P/Ndeep",
    "snap ls Ndeep",
    "snap rollback N@N2",
    "rename Ncopy Nother",
    "image-meta set N N N",
    "image-meta get N N",
    "image-meta list N",
    "lock add N N --shared N",
    "namespace create P/N",
    "namespace ls P",
    "create --size 1M P/N/N",
    "ls P/N",
    "group create N",
    "group image add P/N P/N",
    "group image ls N",
    "info N",
    "group snap create N@N",
    "group snap ls N",
    "group snap rename N@N N2",
    "group snap rollback N@N2",
    "group snap rm N@N2",
    "group rename P/N P/N2",
    "group ls",
    "group image rm P/N2 P/N",
    "group rm N2",
    "trash mv Nother",
    "rm P/N/N",
    "namespace rm P/N",
    "snap purge Ndeep",
    "rm Ndeep",
    "image-meta remove N N",
    "snap rm N@N2",
    "trash purge",
];

fn run(place: &Place, program: &str, line: &str, name: &[u8]) -> Output {
    let word = |word: &str| {
        let word = match word.strip_prefix("P/") {
            Some(rest) => format!("{}/{rest}", place.pool),
            None if word == "P" => place.pool.clone(),
            None => word.to_owned(),
        };
        // Only these words contain an N.
        let parts: Vec<&[u8]> = word.split('N').map(str::as_bytes).collect();
        parts.join(name)
    };
    let mut command = Command::new(program);
    command.env("CEPH_CONF", &place.conf).env_remove("CEPH_ARGS").current_dir(&place.dir);
    command.args((program == OURS).then_some("rbd"));
    // With `-p`, the stock program misinterprets a word that names the pool.
    if line.split(' ').all(|word| !word.starts_with('P')) {
        command.args(["-p", &place.pool]);
    }
    command.args(line.split(' ').map(|part| OsStr::from_bytes(&word(part)).to_owned()));
    if program == "rbd" {
        command.args(["--log-to-stderr=false", "--err-to-stderr=false"]);
    }
    command.output().expect("it is installed")
}

fn done(place: &Place, program: &str, line: &str, name: &[u8]) -> Vec<u8> {
    let output = run(place, program, line, name);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {line} ({name:?}): {said}");
    output.stdout
}

const OURS: &str = env!("CARGO_BIN_EXE_loligo");

/// Breaks the lock that `lock add` took; the line differs by the lock's client.
fn unlock(place: &Place, program: &str, name: &[u8]) {
    let listed = place.ours_of(&[b"lock", b"ls", name, b"--format", b"json"]);
    let listed = String::from_utf8(listed).expect("JSON is text");
    let locker = listed.split('"').find(|part| part.starts_with("client.")).expect("a locker");
    done(place, program, &format!("lock rm N N {locker}"), name);
}

impl Place {
    fn ours_of(&self, words: &[&[u8]]) -> Vec<u8> {
        let mut command = self.command(OURS, &["rbd"]);
        let output = command.args(words.iter().map(|word| OsStr::from_bytes(word))).output();
        let output = output.expect("it runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    }
}

fn all(place: &Place, program: &str, name: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let mut shown = Vec::new();
    for line in LINES {
        let out = done(place, program, line, name);
        if *line == "lock add N N --shared N" {
            unlock(place, program, name);
        }
        shown.push((*line, out));
    }
    done(place, program, "rm N", name);
    shown
}

pub(super) fn by_their_words(place: &Place) {
    for name in NAMES {
        let shown = all(place, OURS, name);
        let of = |line: &str| &shown.iter().find(|(known, _)| *known == line).expect("it ran").1;
        assert!(of("info N").starts_with(&[b"rbd image '", name, b"':\n"].concat()));
        assert_eq!(*of("ls"), [name, b"\n"].concat());
        assert_eq!(*of("image-meta get N N"), [name, b"\n"].concat());
        assert_eq!(*of("group ls"), [name, b"2\n"].concat());
        let place_of = [place.pool.as_bytes(), b"/", name].concat();
        assert_eq!(*of("children N@N"), [&place_of, &b"c\n"[..]].concat());
    }
    let listed = place.ours_of(&[b"ls", b"--format", b"json"]);
    assert_eq!(listed, b"[]\n");
    // Names that stock refuses are refused.
    for (status, line) in [(22, "create --size 1M N/a/b/c"), (22, "create --size 1M N@s"), (2, "info N")] {
        let output = run(place, OURS, line, b"\xff");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(status), "{line}: {said}");
        assert!(said.lines().count() == 1 && said.contains("\\xff"), "{line}: {said}");
    }
    // An imported image is named after the file.
    std::fs::write(place.dir.join(OsStr::from_bytes(b"f\xff")), [7; 5000]).expect("room");
    place.ours_of(&[b"import", b"f\xff"]);
    std::fs::remove_file(place.dir.join(OsStr::from_bytes(b"f\xff"))).expect("it is there");
    place.ours_of(&[b"export", b"f\xff"]);
    let back = std::fs::read(place.dir.join(OsStr::from_bytes(b"f\xff"))).expect("it is there again");
    assert!(back == [7; 5000]);
    place.ours_of(&[b"rm", b"--image", b"f\xff"]);
}

/// Runs all lines with each program; then each program uses the objects that the other created.
pub(super) fn beside(place: &Place) {
    for name in NAMES {
        let (ours, theirs) = (all(place, OURS, name), all(place, "rbd", name));
        for ((line, ours), (_, theirs)) in ours.iter().zip(&theirs) {
            // Ids and times differ; so does a key's JSON, which is invalid where stock prints raw bytes.
            let has_ids = ["info", "snap ls", "ls --format", "group snap ls", "image-meta list"];
            if has_ids.iter().any(|shows| line.contains(shows)) || line.contains("-diff") {
                let holds = |out: &[u8]| out.windows(name.len()).filter(|part| *part == name).count();
                let is_json = line.contains("json");
                assert!(is_json || holds(ours) == holds(theirs), "{line}: {ours:?} {theirs:?}");
                continue;
            }
            let trimmed = |out: &[u8]| {
                out.split(|byte| *byte == b'\n')
                    .map(|line| line.trim_ascii_end().to_vec())
                    .collect::<Vec<_>>()
            };
            assert_eq!(trimmed(ours), trimmed(theirs), "{line} ({name:?})");
        }
        for (maker, user) in [(OURS, "rbd"), ("rbd", OURS)] {
            done(place, maker, "create --size 1M N", name);
            done(place, maker, "snap create N@N", name);
            done(place, user, "snap rm N@N", name);
            done(place, user, "rm N", name);
        }
    }
}
