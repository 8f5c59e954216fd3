//! Goal: if files of a server's directory are damaged, the server either reports which file is wrong and
//! what to do, or has all acknowledged data. It never starts with less data, and never with a new state.
//! Method: each file of a directory, of a stopped server or of a killed one, is emptied, truncated,
//! removed or replaced by that of another server; one at a time, and in pairs.
//!
//! Each combination of two files has 16 pairs of damage. `LOLIGO_LOST_PAIRS` sets how many pairs are tried,
//! and `LOLIGO_STORE_SEED` sets their order.

use std::path::Path;
use std::process::Command;
use std::{env, fs};

use bytes::Bytes;
use loligo_server::{Handle, Server, StartError, check_dir};
use loligo_store_disk::{OpenError, RepairListener, repair};

use crate::common::{Scratch, connect, soon};

/// The files of a server's directory, in addition to the files of the map's library (`store/kv`).
const FILES: [&str; 11] = [
    "mon.json",
    "mon.json.copy",
    "keyring",
    "ceph.conf",
    "scrubs",
    "store",
    "store/super",
    "store/super.copy",
    "store/journal",
    "store/data",
    "store/kv",
];
/// Pools that are created while the server runs.
const MADE: [&str; 3] = ["one", "another", "third"];
const SIZES: [usize; 4] = [0, 10, 5000, 300_000];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Harm {
    Emptied,
    Cut,
    Missing,
    Exchanged,
}

const HARMS: [Harm; 4] = [Harm::Emptied, Harm::Cut, Harm::Missing, Harm::Exchanged];

fn start(dir: &Path) -> Result<Handle, StartError> {
    when_free(|| Server::disk(dir).capacity_bytes(64 << 20).threads(1).start())
}

/// Retries an action on a directory until it is not in use: a process started by another test inherits
/// this process's files, and their locks, for a moment.
fn when_free<T>(act: impl Fn() -> Result<T, StartError>) -> Result<T, StartError> {
    loop {
        match act() {
            Err(StartError::InUse(_) | StartError::Store { source: OpenError::InUse, .. }) => {
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            done => return done,
        }
    }
}

fn contents(len: usize) -> Bytes {
    (0..len).map(|i| (i as u32).wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect()
}

fn copy(from: &Path, to: &Path) {
    let done =
        Command::new("cp").args(["-a", "--sparse=always"]).arg(from).arg(to).status().expect("cp runs");
    assert!(done.success(), "cp {} {}", from.display(), to.display());
}

fn remove(path: &Path) {
    match path.is_dir() {
        true => fs::remove_dir_all(path).expect("ours"),
        false => drop(fs::remove_file(path)),
    }
}

/// The files below a directory, as paths relative to `root`.
fn files_in(root: &Path, dir: &str) -> Vec<String> {
    let mut files = Vec::new();
    for entry in fs::read_dir(root.join(dir)).expect("a directory") {
        let entry = entry.expect("readable");
        let name = format!("{dir}/{}", entry.file_name().to_str().expect("a name in UTF-8"));
        match entry.path().is_dir() {
            true => files.append(&mut files_in(root, &name)),
            false => files.push(name),
        }
    }
    files.sort();
    files
}

/// Writes objects. Copies the directory to `live` while the server runs, and to `closed` after it has
/// ended.
async fn written(dir: &Path, live: &Path, closed: &Path) {
    let server = Server::disk(dir).capacity_bytes(64 << 20).pool("data").threads(1).start().expect("starts");
    let (rados, pool) = connect(server.conf()).await;
    for size in SIZES {
        soon("a write", pool.write_full(format!("o{size}"), contents(size))).await.expect("written");
    }
    // Changes since the start are in the log of the monitor's files.
    for name in MADE {
        soon("a pool", rados.create_pool(name)).await.expect("made");
    }
    // No scrub was due yet, so the scrub file is created here.
    fs::write(dir.join("scrubs"), []).expect("a file");
    copy(dir, live);
    rados.shutdown().await;
    server.shutdown().await;
    copy(dir, closed);
}

fn harm(dir: &Path, other: &Path, name: &str, harm: Harm) {
    let path = dir.join(name);
    let is_dir = path.is_dir();
    match harm {
        Harm::Missing => remove(&path),
        Harm::Exchanged => {
            // The library numbers its files: another store may have other numbers.
            if other.join(name).exists() {
                remove(&path);
                copy(&other.join(name), &path);
            }
        }
        Harm::Emptied | Harm::Cut if is_dir => {
            let mut entries: Vec<_> = fs::read_dir(&path)
                .expect("a directory")
                .map(|entry| entry.expect("readable").path())
                .collect();
            entries.sort();
            let keep = if harm == Harm::Cut { entries.len() / 2 } else { 0 };
            entries.drain(keep..).for_each(|entry| remove(&entry));
        }
        Harm::Emptied | Harm::Cut => {
            // If its directory was damaged too, the file may not exist any more.
            let Ok(file) = fs::OpenOptions::new().write(true).open(&path) else { return };
            let len = file.metadata().expect("a file").len();
            file.set_len(if harm == Harm::Cut { len / 2 } else { 0 }).expect("ours");
        }
    }
}

/// Checks that the server either refuses to start and names one of the files, or has all data. Returns
/// whether it started.
async fn is_right(dir: &Path, harmed: &[(&str, Harm)]) -> bool {
    let what = format!("{harmed:?}");
    let server = match start(dir) {
        Ok(server) => server,
        Err(e) => {
            let said = e.to_string();
            let shown = |name: &str| match name.starts_with("store/kv") {
                true => "`kv`".to_owned(),
                false => name.rsplit('/').next().unwrap_or_default().to_owned(),
            };
            let named = harmed.iter().any(|(name, _)| said.contains(&shown(name)));
            // Or the message names the store or the state as that of another cluster.
            assert!(named || said.contains("cluster") || said.contains("another store"), "{what}: {said}");
            return false;
        }
    };
    let (rados, pool) = connect(server.conf()).await;
    for size in SIZES {
        let read = soon("a read", pool.read(format!("o{size}"), 0, 1 << 20)).await;
        let read = read.unwrap_or_else(|e| panic!("{what}: o{size}: {e}"));
        assert!(read[..] == contents(size)[..], "{what}: o{size}");
    }
    let pools: Vec<String> = rados.pools().into_iter().map(|(_, name)| name).collect();
    assert!(MADE.iter().all(|name| pools.iter().any(|pool| pool == name)), "{what}: {pools:?}");
    rados.shutdown().await;
    server.shutdown().await;
    true
}

async fn walk(name: &str, of: impl Fn(&Path) -> std::path::PathBuf) {
    let scratch = Scratch::new(name);
    for one in ["a", "b"] {
        let at = |what: &str| scratch.0.join(format!("{one}.{what}"));
        written(&at("dir"), &at("live"), &at("closed")).await;
    }
    let (ours, other) = (of(&scratch.0.join("a")), of(&scratch.0.join("b")));
    let dir = scratch.0.join("try");
    let again = || {
        let _ = fs::remove_dir_all(&dir);
        copy(&ours, &dir);
    };
    let of_map = files_in(&ours, "store/kv");
    assert!(of_map.len() > 2, "{of_map:?}");
    for file in FILES.into_iter().chain(of_map.iter().map(String::as_str)) {
        for one in HARMS {
            again();
            harm(&dir, &other, file, one);
            let started = is_right(&dir, &[(file, one)]).await;
            let is_made_anew = matches!(file, "keyring" | "ceph.conf" | "scrubs");
            assert!(started || !is_made_anew, "{file} {one:?}: it is made anew at each start");
            let has_copy = file.starts_with("mon.json") || file.starts_with("store/super");
            if has_copy && !started {
                mended(&dir, &format!("{file} {one:?}")).await;
            }
        }
    }
    let number = |name, general| env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(general);
    let (pairs, seed) = (number("LOLIGO_LOST_PAIRS", 24), number("LOLIGO_STORE_SEED", 1));
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..pairs {
        let mut files = FILES;
        random.shuffle(&mut files);
        let harmed = [0, 1].map(|i| (files[i], HARMS[random.usize(..HARMS.len())]));
        // Files are damaged before the directory that contains them.
        let mut order = harmed;
        order.sort_by_key(|(file, _)| std::cmp::Reverse(file.len()));
        again();
        for (file, one) in order {
            if dir.join(file).exists() {
                harm(&dir, &other, file, one);
            }
        }
        is_right(&dir, &harmed).await;
    }
}

/// Files that have a second copy are restored.
async fn mended(dir: &Path, what: &str) {
    let lost = dir.join("lost+found");
    let checked = when_free(|| check_dir(dir, Some(&lost))).unwrap_or_else(|e| panic!("{what}: {e}"));
    assert_eq!(checked.wrong.len(), checked.done.len(), "{what}: {checked:?}");
    let path = dir.join("store");
    let repaired = when_free(|| {
        let listener = RepairListener {
            found: &mut |_| (),
            done: &mut |_| (),
            left: &mut |finding| panic!("{what}: {finding:?}"),
            progress: &mut |_, _| (),
        };
        repair(&path, &lost, listener).map_err(|source| StartError::Store { path: path.clone(), source })
    });
    repaired.unwrap_or_else(|e| panic!("{what}: {e}"));
    assert!(is_right(dir, &[]).await, "{what}: it does not start when it was mended");
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_a_server_that_was_stopped_are_missed() {
    walk("lost-closed", |dir| dir.with_extension("closed")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_a_server_that_was_killed_are_missed() {
    walk("lost-live", |dir| dir.with_extension("live")).await;
}
