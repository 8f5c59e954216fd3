//! Users: keys with capabilities.

use std::collections::BTreeMap;

use loligo_cephx::caps::{CapsError, MdsCaps, MonCaps, OsdCaps};
use loligo_cephx::key::CryptoKey;
use loligo_cephx::keyring::Entry;
use loligo_wire::{EntityName, UTime};

use super::State;
use crate::failure::Failure;

/// Capabilities by service, as text.
pub type Caps = BTreeMap<String, String>;

/// Checks that capabilities are for services that exist, and that each can be parsed.
///
/// # Errors
/// EINVAL, in the words of a stock monitor.
pub fn check_caps(caps: &Caps) -> Result<(), Failure> {
    caps.iter().try_for_each(|(service, cap)| {
        let bad = |e: CapsError| {
            let CapsError { text, at, .. } = e;
            Failure::invalid(format!("{service} capability parse failed, stopped at '{at}' of '{text}'"))
        };
        match service.as_str() {
            "mon" => MonCaps::parse(cap).map(|_| ()).map_err(bad),
            "osd" => OsdCaps::parse(cap).map(|_| ()).map_err(bad),
            "mds" => MdsCaps::parse(cap).map(|_| ()).map_err(bad),
            "mgr" => Ok(()), // stored for keys that are used elsewhere; nothing here checks it
            _ => Err(Failure::invalid(format!("unknown cap type '{service}'"))),
        }
    })
}

/// The administrator: all capabilities.
pub(super) fn admin(key: CryptoKey) -> (EntityName, Entry) {
    let services = ["mds", "mgr", "mon", "osd"];
    let entry = services.into_iter().fold(Entry::new(key), |entry, s| entry.with_caps(s, "allow *"));
    (EntityName::client("admin"), entry)
}

impl State {
    /// A user's key and capabilities; `None` if there is no such user.
    ///
    /// # Errors
    /// EINVAL if the user has another capability for one of the services in `caps`.
    pub fn user_with(&self, name: &EntityName, caps: &Caps) -> Result<Option<&Entry>, Failure> {
        let Some(user) = self.keys.entry(name) else { return Ok(None) };
        match caps.iter().find(|(service, cap)| user.caps.get(*service) != Some(cap)) {
            Some((service, _)) => {
                Err(Failure::invalid(format!("key for {name} exists but cap {service} does not match")))
            }
            None => Ok(Some(user)),
        }
    }

    /// Creates a user with a new key, or finds one that has these capabilities, as `ceph auth get-or-create`.
    ///
    /// # Errors
    /// As [`check_caps`] and [`user_with`](Self::user_with).
    pub fn get_or_create_user(&mut self, now: UTime, name: &EntityName, caps: Caps) -> Result<(), Failure> {
        check_caps(&caps)?;
        if self.user_with(name, &caps)?.is_none() {
            let key = CryptoKey::generate_of(self.auth_cipher(), now);
            self.set_key(name.clone(), Entry { key, caps });
        }
        Ok(())
    }

    /// Gives `client.admin` this key. Its capabilities stay; if it was removed, it gets all.
    pub fn set_admin_key(&mut self, key: CryptoKey) {
        let (name, new) = admin(key);
        let caps = self.keys.entry(&name).map(|entry| entry.caps.clone());
        self.set_key(name, Entry { caps: caps.unwrap_or(new.caps), ..new });
    }
}

#[cfg(test)]
mod tests {
    use loligo_wire::Uuid;

    use super::*;
    use crate::state::NewCluster;

    fn key(byte: u8) -> CryptoKey {
        CryptoKey::from_secret(UTime { sec: 1, nsec: 0 }, [byte; 16])
    }

    fn state() -> State {
        let cluster = NewCluster {
            fsid: Uuid::default(),
            now: UTime { sec: 1, nsec: 0 },
            host: "here".to_owned(),
            admin_key: key(1),
        };
        State::new(cluster).expect("a cluster")
    }

    fn caps(pairs: &[(&str, &str)]) -> Caps {
        pairs.iter().map(|(service, cap)| ((*service).to_owned(), (*cap).to_owned())).collect()
    }

    #[test]
    fn a_user_is_created_once() {
        let (mut state, now, app) = (state(), UTime { sec: 2, nsec: 0 }, EntityName::client("app"));
        let all = caps(&[("mon", "allow r"), ("osd", "allow rw pool=p")]);
        state.get_or_create_user(now, &app, all.clone()).expect("it is created");
        let first = state.keys().entry(&app).expect("it is there").clone();
        assert_eq!(first.caps, all);
        state.get_or_create_user(now, &app, all).expect("it is found");
        assert_eq!(state.keys().entry(&app), Some(&first), "the key stays");
        for (wrong, said) in [
            (caps(&[("osd", "allow *")]), "key for client.app exists but cap osd does not match"),
            (caps(&[("osd", "allow nonsense")]), "osd capability parse failed, stopped at"),
            (caps(&[("ods", "allow r")]), "unknown cap type 'ods'"),
        ] {
            let refused = state.get_or_create_user(now, &app, wrong).expect_err(said);
            assert!(refused.status.starts_with(said), "{refused}");
        }
    }

    #[test]
    fn the_administrator_gets_a_key_and_keeps_its_capabilities() {
        let (mut state, admin) = (state(), EntityName::client("admin"));
        let before = state.keys().entry(&admin).expect("it is there").caps.clone();
        assert_eq!(before.len(), 4);
        state.set_admin_key(key(2));
        assert_eq!(state.keys().entry(&admin), Some(&Entry { key: key(2), caps: before.clone() }));
        assert!(state.remove_key(&admin));
        state.set_admin_key(key(3));
        assert_eq!(state.keys().entry(&admin), Some(&Entry { key: key(3), caps: before }));
    }
}
