//! Goal: every saved state is read back; damaged files are refused; only the owner can read the file.

use std::os::unix::fs::PermissionsExt as _;

use loligo_cephx::key::{CryptoKey, KeyType};
use loligo_cephx::keyring::Entry;
use loligo_mon::StateFile;
use loligo_mon::state::State;
use loligo_wire::{EntityName, GlobalId};
use proptest::prelude::*;

use crate::common::{NOW, new_state};

/// A change of the state, like those that commands make.
#[derive(Clone, Debug)]
enum Step {
    Pool(String, u32),
    PgNum(u32),
    Application(String),
    Key(String, [u8; 16], String),
    Config(String, String),
    ConfigKey(String, Vec<u8>),
    GlobalIds(u64),
    Cipher(bool),
}

impl Step {
    fn apply(&self, state: &mut State) {
        match self {
            Self::Pool(name, pg_num) => drop(state.create_pool(NOW, name, *pg_num)),
            Self::PgNum(pg_num) => {
                let pool = state.osdmap().pools.keys().copied().next();
                pool.into_iter().for_each(|id| state.set_pg_num(NOW, id, *pg_num).unwrap());
            }
            Self::Application(name) => {
                let pools: Vec<_> = state.osdmap().pools.keys().copied().collect();
                for id in pools {
                    let add = |pool: &mut loligo_maps::PgPool| {
                        pool.application_metadata.insert(name.as_str().into(), Default::default());
                    };
                    state.change_pool(NOW, id, add).unwrap();
                }
            }
            Self::Key(id, secret, caps) => {
                let entry = Entry::new(CryptoKey::from_secret(NOW, *secret)).with_caps("mon", caps);
                state.set_key(EntityName::client(id), entry);
            }
            Self::Config(option, value) => state.set_config(NOW, "client", option, value),
            Self::ConfigKey(key, value) => state.set_config_key(key, value.clone()),
            Self::Cipher(new) => state.set_auth_cipher(if *new { KeyType::Aes256k } else { KeyType::Aes }),
            Self::GlobalIds(next) => state.note_global_id(GlobalId(*next)),
        }
    }
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        ("\\PC{1,20}", 0u32..100).prop_map(|(name, pg_num)| Step::Pool(name, pg_num)),
        (1u32..100).prop_map(Step::PgNum),
        "[a-z]{1,8}".prop_map(Step::Application),
        ("[a-z0-9._-]{1,10}", any::<[u8; 16]>(), "allow [rwx*]")
            .prop_map(|(id, key, caps)| Step::Key(id, key, caps)),
        ("[a-z_]{1,12}", "\\PC{0,20}").prop_map(|(option, value)| Step::Config(option, value)),
        ("\\PC{1,12}", proptest::collection::vec(any::<u8>(), 0..40))
            .prop_map(|(k, v)| Step::ConfigKey(k, v)),
        (0u64..1 << 40).prop_map(Step::GlobalIds),
        any::<bool>().prop_map(Step::Cipher),
    ]
}

proptest! {
    #[test]
    fn what_was_saved_is_read_back(steps in proptest::collection::vec(step(), 0..12)) {
        let mut state = new_state();
        steps.iter().for_each(|step| step.apply(&mut state));
        let saved = state.to_json();
        let again = State::from_json(&saved).unwrap();
        prop_assert_eq!(again.osdmap(), state.osdmap());
        prop_assert_eq!(again.monmap(), state.monmap());
        prop_assert_eq!(again.keys(), state.keys());
        prop_assert_eq!(again.filed_by(), state.filed_by());
        prop_assert_eq!(again.config(), state.config());
        prop_assert_eq!(again.config_keys(), state.config_keys());
        prop_assert_eq!(again.to_json(), saved);
    }

    #[test]
    fn damage_never_panics(at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<prop::sample::Index>()) {
        let saved = new_state().to_json();
        let mut damaged = saved.to_vec();
        let at = at.index(damaged.len());
        damaged[at] = byte;
        // If the damaged file can be read, the result is a valid state: it can be saved and read again.
        if let Ok(read) = State::from_json(&damaged) {
            let again = State::from_json(&read.to_json()).expect("what was saved is read");
            prop_assert_eq!(again.to_json(), read.to_json());
        }
        // A truncated file is refused, unless only the last newline is missing.
        if let Ok(read) = State::from_json(&saved[..cut.index(saved.len())]) {
            prop_assert_eq!(read.to_json(), saved);
        }
    }
}

#[test]
fn a_file_is_private_whole_and_replaced() {
    let dir = std::env::temp_dir().join(format!("loligo-mon-test-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let file = StateFile::new(dir.join("mon.json"));
    assert!(file.load().unwrap().is_none());
    let mut state = new_state();
    file.save(&state.to_json()).unwrap();
    state.create_pool(NOW, "later", 0).unwrap();
    file.save(&state.to_json()).unwrap();
    let again = file.load().unwrap().expect("it was saved");
    assert_eq!(again.osdmap(), state.osdmap());
    assert_eq!(std::fs::metadata(file.path()).unwrap().permissions().mode() & 0o777, 0o600);
    std::fs::write(file.path(), "{}").unwrap();
    assert!(file.load().is_err());
    std::fs::remove_dir_all(&dir).unwrap();
}

/// An empty directory.
fn new_dir(name: &str) -> std::path::PathBuf {
    let dir = std::env::temp_dir().join(format!("loligo-mon-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

/// The ways to damage a file: each gives the resulting content, or `None` if the file is removed.
fn harmed(whole: &[u8], other: &[u8]) -> [Option<Vec<u8>>; 6] {
    let mut changed = whole.to_vec();
    let state_len = whole.iter().rposition(|byte| *byte == b'}').unwrap();
    changed[state_len / 2] ^= 1;
    let no_check = whole.splitn(3, |byte| *byte == b'\n').nth(2).unwrap();
    let no_check = [b"{\n", no_check].concat();
    let cut = whole[..whole.len() / 2].to_vec();
    [None, Some(Vec::new()), Some(cut), Some(changed), Some(no_check), Some(other.to_vec())]
}

fn put(path: &std::path::Path, content: Option<&Vec<u8>>) {
    match content {
        Some(content) => std::fs::write(path, content).unwrap(),
        None => std::fs::remove_file(path).unwrap(),
    }
}

/// The files of a state that was saved twice.
fn saved_twice(dir: &std::path::Path) -> (StateFile, State, Vec<u8>) {
    let file = StateFile::new(dir.join("mon.json"));
    let mut state = new_state();
    file.save(&state.to_json()).unwrap();
    state.create_pool(NOW, "later", 0).unwrap();
    file.save(&state.to_json()).unwrap();
    let whole = std::fs::read(file.path()).unwrap();
    (file, state, whole)
}

/// The file of another cluster.
fn of_another(dir: &std::path::Path) -> Vec<u8> {
    let file = StateFile::new(dir.join("other.json"));
    let admin_key = CryptoKey::from_secret(NOW, [9; 16]);
    let new = loligo_mon::state::NewCluster {
        fsid: loligo_wire::Uuid([77; 16]),
        now: NOW,
        host: "h".to_owned(),
        admin_key,
    };
    let other = State::new(new).unwrap();
    file.save(&other.to_json()).unwrap();
    file.save(&other.to_json()).unwrap();
    std::fs::read(file.path()).unwrap()
}

#[test]
fn a_file_that_was_harmed_is_named_and_written_again_from_the_other() {
    let dir = new_dir("harmed");
    let (file, state, whole) = saved_twice(&dir);
    let other = of_another(&dir);
    let [first, copy] = file.paths();
    for path in [&first, &copy] {
        for (i, content) in harmed(&whole, &other).iter().enumerate() {
            put(path, content.as_ref());
            let error = file.load().expect_err("harmed").to_string();
            assert!(
                error.contains(&*path.display().to_string()) && error.contains("--repair"),
                "{i}: {error}"
            );
            let (wrong, done) = file.check(Some(state.fsid()), Some(&dir.join("lost+found"))).unwrap();
            assert_eq!((wrong.len(), done.len()), (1, 1), "{i}: {wrong:?} {done:?}");
            assert_eq!(file.load().unwrap().expect("mended").osdmap(), state.osdmap(), "{i}");
            assert_eq!(std::fs::read(&first).unwrap(), std::fs::read(&copy).unwrap(), "{i}");
        }
    }
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn two_files_that_were_harmed_are_refused() {
    let dir = new_dir("both");
    let (file, _, whole) = saved_twice(&dir);
    let other = of_another(&dir);
    let [first, copy] = file.paths();
    for (i, a) in harmed(&whole, &other).iter().enumerate() {
        for (j, b) in harmed(&whole, &other).iter().enumerate() {
            std::fs::write(&first, &whole).unwrap();
            std::fs::write(&copy, &whole).unwrap();
            put(&first, a.as_ref());
            put(&copy, b.as_ref());
            match file.load() {
                // The server knows whether there should be a state.
                Ok(None) => assert!(a.is_none() && b.is_none(), "{i} {j}"),
                // Both files are of another cluster, but the store is not.
                Ok(Some(found)) => assert_eq!((i, j, found.fsid().0), (5, 5, [77; 16])),
                Err(_) => {}
            }
        }
    }
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn the_newer_file_counts_if_a_save_was_cut_short() {
    let dir = new_dir("newer");
    let (file, mut state, older) = saved_twice(&dir);
    state.create_pool(NOW, "newest", 0).unwrap();
    file.save(&state.to_json()).unwrap();
    // The second file was not written.
    std::fs::write(&file.paths()[1], &older).unwrap();
    let again = StateFile::new(file.path());
    assert_eq!(again.load().unwrap().expect("both are whole").osdmap(), state.osdmap());
    // The next save is newer than both files.
    state.create_pool(NOW, "after that", 0).unwrap();
    again.save(&state.to_json()).unwrap();
    assert_eq!(again.load().unwrap().expect("saved").osdmap(), state.osdmap());
    // A single file is accepted after the first save, and from a release that kept one file.
    std::fs::remove_dir_all(&dir).unwrap();
    std::fs::create_dir_all(&dir).unwrap();
    let first = StateFile::new(file.path());
    first.save(&state.to_json()).unwrap();
    std::fs::remove_file(&first.paths()[1]).unwrap();
    assert_eq!(first.load().unwrap().expect("the first save").osdmap(), state.osdmap());
    let old = String::from_utf8(state.to_json().to_vec()).unwrap().replace("\"form\": 5", "\"form\": 1");
    std::fs::write(first.path(), old).unwrap();
    assert_eq!(first.load().unwrap().expect("an older program's").osdmap(), state.osdmap());
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn a_link_is_not_followed_to_a_state() {
    let dir = new_dir("link");
    let (file, _, _) = saved_twice(&dir);
    let elsewhere = dir.join("elsewhere");
    std::fs::rename(file.path(), &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, file.path()).unwrap();
    assert!(file.load().is_err());
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn global_ids_are_not_given_out_twice() {
    let mut state = new_state();
    let first = state.reserve_global_ids();
    let mut again = State::from_json(&state.to_json()).unwrap();
    assert!(again.reserve_global_ids().0 >= first.0 + 10_000);
}
