//! Migration: one program prepares an image, and the other reads, writes, executes, commits and aborts
//! it. Both report the same meanwhile, and the image has the bytes of all its states.

use std::collections::BTreeMap;
use std::fs;

use crate::Place;

/// The program that takes a step.
#[derive(Clone, Copy, Debug, PartialEq)]
enum By {
    Us,
    Them,
}

use By::{Them, Us};

impl By {
    fn does(self, place: &Place, line: &str) {
        match self {
            Us => place.done(line),
            Them => place.stock(&format!("{line} --no-progress")),
        };
    }

    /// `migration prepare` shows no progress.
    fn prepares(self, place: &Place, line: &str) {
        match self {
            Us => place.done(&format!("migration prepare {line}")),
            Them => place.stock(&format!("migration prepare {line}")),
        };
    }

    fn bytes(self, place: &Place, image: &str) -> Vec<u8> {
        let args = ["export", image, "-"];
        let output = match self {
            Us => place.ours(&args.join(" ")),
            Them => place.run("rbd", &[&args[..], &["--no-progress"]].concat()),
        };
        assert!(output.status.success(), "{self:?} {image}: {}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    }
}

/// States of an image by snapshot; "" is the image.
type States = BTreeMap<&'static str, Vec<u8>>;

fn same_states(place: &Place, by: By, image: &str, states: &States) {
    for (snap, bytes) in states {
        let name = if snap.is_empty() { image.to_owned() } else { format!("{image}@{snap}") };
        let got = by.bytes(place, &name);
        let differs = got.iter().zip(bytes).position(|(a, b)| a != b);
        assert_eq!((got.len(), differs), (bytes.len(), None), "{name} by {by:?}");
    }
}

/// Creates an image with snapshots, with both programs.
fn make(place: &Place, image: &str, shape: &str) -> States {
    let data: Vec<u8> = (0..9_000_001u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    fs::write(place.dir.join("data"), &data).expect("written");
    place.stock(&format!("import data {image} {shape} --no-progress"));
    place.done(&format!("snap create {image}@a"));
    place.stock(&format!(
        "bench {image} --io-type write --io-size 16K --io-total 800K --io-threads 4 --io-pattern rand"
    ));
    place.done(&format!("resize {image} --size 7000000B --allow-shrink"));
    place.stock(&format!("snap create {image}@b --no-progress"));
    place.done(&format!("resize {image} --size 12M"));
    place.done(&format!("bench {image} --io-type write --io-size 4K --io-total 200K --io-pattern rand"));
    place.done(&format!("image-meta set {image} key value"));
    ["a", "b", ""]
        .map(|snap| {
            let name = if snap.is_empty() { image.to_owned() } else { format!("{image}@{snap}") };
            (snap, Us.bytes(place, &name))
        })
        .into()
}

/// Runs on our server only.
pub(crate) fn by_its_words(place: &Place) {
    place.done("namespace create p/moved");
    place.done("create m --size 3M --object-size 1M");
    place.done("bench m --io-type write --io-total 1M");
    place.done("snap create m@s");
    let before = Us.bytes(place, "m");
    assert!(place.refused("migration execute m").contains("not being migrated"));
    assert!(place.refused("migration prepare m one").contains("an image 'one' already"));
    place.done("migration prepare p/m p/moved/n --object-size 64K --image-feature layering,exclusive-lock");
    assert!(place.refused("info m").contains("no image 'm'"));
    assert!(place.done("trash ls --all --long").contains("MIGRATION"));
    let status = place.done("status p/moved/n");
    assert!(status.contains("Migration:\n\tsource: p/m ("), "{status}");
    assert!(
        status.contains("\tdestination: p/moved/n (") && status.ends_with("\tstate: prepared\n"),
        "{status}"
    );
    assert!(place.refused("rm p/moved/n").contains("being migrated"));
    assert!(place.refused("migration commit p/moved/n").contains("would have to be executed"));
    assert!(Us.bytes(place, "p/moved/n@s") == before);
    place.done("bench p/moved/n --io-type write --io-total 256K --io-pattern rand");
    let changed = Us.bytes(place, "p/moved/n");
    place.done("migration execute p/moved/n --no-progress");
    assert!(Us.bytes(place, "p/moved/n") == changed);
    place.done("migration abort m");
    assert!(Us.bytes(place, "m") == changed && Us.bytes(place, "m@s") == before);
    assert_eq!(place.done("ls p/moved"), "");
    place.done("migration prepare --image m --dest-pool p --dest-namespace moved");
    place.done("migration execute m");
    place.done("migration commit m");
    assert!(Us.bytes(place, "p/moved/m") == changed && Us.bytes(place, "p/moved/m@s") == before);
    assert_eq!(place.done("trash ls --all"), "");
    place.done("snap purge p/moved/m");
    place.done("rm p/moved/m");
    place.done("namespace rm p/moved");
}

pub(crate) fn beside(place: &Place) {
    let to = Place { pool: format!("{}-to", place.pool), dir: place.dir.clone(), conf: place.conf.clone() };
    to.make_pool();
    for (prepares, executes, commits) in [(Us, Them, Us), (Them, Us, Them), (Us, Us, Them), (Them, Them, Us)]
    {
        for shape in ["--object-size 1M", "--object-size 128K --stripe-unit 64K --stripe-count 3"] {
            moved(place, &to, [prepares, executes, commits], shape);
        }
    }
    for (prepares, aborts) in [(Us, Them), (Them, Us)] {
        went_back(place, &to, prepares, aborts);
    }
    refusals(place, &to);
    to.remove_pool();
}

/// Both programs report the same of a migration.
fn told_alike(place: &Place, to: &Place, image: &str) {
    for line in ["status", "info", "snap ls"] {
        to.same(&format!("{line} {image}"));
    }
    place.same("trash ls --all --long");
    to.same("ls --long");
    assert_eq!(to.done(&format!("image-meta get {image} key")), "value\n");
}

fn moved(place: &Place, to: &Place, [prepares, executes, commits]: [By; 3], shape: &str) {
    let mut states = make(place, "m", shape);
    let image = format!("{}/m", to.pool);
    let from = format!("{}/m", place.pool);
    prepares.prepares(place, &format!("{from} {image} --object-size 2M"));
    told_alike(place, to, "m");
    for by in [Us, Them] {
        same_states(place, by, &image, &states);
    }
    to.done("bench m --io-type write --io-size 12K --io-total 600K --io-pattern rand");
    to.stock("bench m --io-type write --io-size 20K --io-total 400K --io-pattern rand --io-threads 4");
    states.insert("", Us.bytes(place, &image));
    to.done("snap create m@c");
    states.insert("c", states[""].clone());
    to.done("bench m --io-type write --io-size 8K --io-total 400K --io-pattern rand");
    states.insert("", Us.bytes(place, &image));
    assert!(Them.bytes(place, &image) == states[""]);
    same_states(place, Us, &image, &states);
    executes.does(to, "migration execute m");
    told_alike(place, to, "m");
    for by in [Us, Them] {
        same_states(place, by, &image, &states);
    }
    for snap in ["", "@a", "@b", "@c"] {
        to.stock(&format!("object-map check m{snap} --no-progress"));
    }
    commits.does(to, "migration commit m");
    place.same("trash ls --all");
    assert_eq!(place.stock("trash ls --all"), "");
    for by in [Us, Them] {
        same_states(place, by, &image, &states);
    }
    for line in ["status m", "info m", "du m"] {
        to.same(line);
    }
    to.stock("snap purge m --no-progress");
    to.stock("rm m --no-progress");
}

fn went_back(place: &Place, to: &Place, prepares: By, aborts: By) {
    let mut states = make(place, "m", "--object-size 1M");
    let image = format!("{}/m", to.pool);
    prepares.prepares(place, &format!("{}/m {image}", place.pool));
    to.done("bench m --io-type write --io-size 12K --io-total 600K --io-pattern rand");
    to.stock("bench m --io-type write --io-size 20K --io-total 400K --io-pattern rand --io-threads 4");
    states.insert("", Us.bytes(place, &image));
    aborts.does(to, "migration abort m");
    to.same("ls");
    assert_eq!(to.stock("ls"), "");
    place.same("trash ls --all");
    for line in ["info m", "status m", "snap ls m"] {
        place.same(line);
    }
    let from = format!("{}/m", place.pool);
    for by in [Us, Them] {
        same_states(place, by, &from, &states);
    }
    place.stock("object-map check m --no-progress");
    place.stock("snap purge m --no-progress");
    place.stock("rm m --no-progress");
}

/// A program is killed while it copies: all data can be read, and the next program continues, although
/// the first one held the lock.
pub(crate) fn killed(place: &Place) {
    let image = format!("{}/n", place.pool);
    place.done("create m --size 40M --object-size 64K");
    place.stock("bench m --io-type write --io-size 1M --io-total 40M");
    place.done("snap create m@a");
    place.done("bench m --io-type write --io-size 4K --io-total 4M --io-pattern rand");
    let states: States =
        [("a", "@a"), ("", "")].map(|(snap, at)| (snap, Us.bytes(place, &format!("m{at}")))).into();
    place.done(&format!("migration prepare {}/m {image}", place.pool));
    let mut copying =
        place.begin(env!("CARGO_BIN_EXE_loligo"), &["rbd", "migration", "execute", "n", "--no-progress"]);
    while place.done("status n").contains("state: prepared") {}
    copying.kill().expect("it runs");
    copying.wait().expect("it ends");
    assert!(place.done("status n").contains("state: executing"));
    same_states(place, Us, &image, &states);
    place.done("migration execute n");
    for by in [Us, Them] {
        same_states(place, by, &image, &states);
    }
    for snap in ["", "@a"] {
        place.stock(&format!("object-map check n{snap} --no-progress"));
    }
    place.done("migration commit n");
    same_states(place, Them, &image, &states);
    place.done("snap purge n");
    place.done("rm n");
}

/// Both programs refuse the command with the same errno.
fn refused_alike(place: &Place, line: &str) {
    let args: Vec<&str> = line.split_whitespace().collect();
    let (ours, theirs) = (place.ours(line), place.run("rbd", &args));
    assert!(!theirs.status.success(), "rbd {line}");
    let said = String::from_utf8_lossy(&ours.stderr).into_owned();
    assert_eq!(ours.status.code(), theirs.status.code(), "{line}: {said}");
}

fn refusals(place: &Place, to: &Place) {
    let image = format!("{}/m", to.pool);
    let from = format!("{}/m", place.pool);
    for step in ["execute", "commit", "abort"] {
        refused_alike(place, &format!("migration {step} m"));
    }
    refused_alike(place, &format!("migration prepare {from} {image}"));
    place.done("create m --size 3M");
    for step in ["execute", "commit", "abort"] {
        refused_alike(place, &format!("migration {step} m"));
    }
    to.done("create m --size 1M");
    refused_alike(place, &format!("migration prepare {from} {image}"));
    refused_alike(place, &format!("migration prepare {from} {image}-old --image-format 1"));
    place.same("ls");
    to.done("rm m");
    let mut user = place.begin("rbd", &["bench", "m", "--io-type", "write", "--io-total", "100G"]);
    let opened = (0..200).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(50));
        place.done("status m").contains("watcher=")
    });
    assert!(opened);
    refused_alike(place, &format!("migration prepare {from} {image}"));
    user.kill().expect("it runs");
    user.wait().expect("it ends");
    place.done("create n --size 3M");
    place.done(&format!("migration prepare {}/n {}/n", place.pool, to.pool));
    refused_alike(to, "migration commit n");
    refused_alike(to, "rm n");
    refused_alike(to, "trash mv n");
    refused_alike(place, &format!("migration prepare {}/n {}/o", place.pool, to.pool));
    to.done("migration execute n");
    refused_alike(to, "migration execute n");
    to.done("migration commit n");
    to.done("rm n");
}
