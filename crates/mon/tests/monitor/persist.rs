//! Goal: what was saved is read back, whatever it is; what is damaged is refused; the file is nobody else's
//! to read.

use std::os::unix::fs::PermissionsExt as _;

use loligo_cephx::key::{CryptoKey, KeyType};
use loligo_cephx::keyring::Entry;
use loligo_mon::StateFile;
use loligo_mon::state::State;
use loligo_wire::{EntityName, GlobalId};
use proptest::prelude::*;

use crate::common::{NOW, new_state};

/// A change of the state, as commands make them.
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
        let _ = State::from_json(&damaged);
        let _ = State::from_json(&saved[..cut.index(saved.len())]);
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

#[test]
fn global_ids_are_not_given_out_twice() {
    let mut state = new_state();
    let first = state.reserve_global_ids();
    let mut again = State::from_json(&state.to_json()).unwrap();
    assert!(again.reserve_global_ids().0 >= first.0 + 10_000);
}
