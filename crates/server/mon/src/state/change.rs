//! The changes since the last save, as a line of JSON. The cost of saving it does not depend on the size
//! of the rest of the state.
//!
//! A change holds the new incrementals of the osdmap, the changed entries of the keys and of the
//! `config-key` store, and each other field that changed.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use loligo_cephx::keyring::{Entry, Keyring};
use loligo_maps::{Incremental, OsdMap};
use loligo_wire::{EntityName, Epoch};
use serde_json::{Map, Value, json};
use zeroize::Zeroizing;

use super::State;
use super::error::StateError;

/// The parts of the last saved state that are needed to compute the next change.
#[derive(Debug)]
pub(crate) struct Saved {
    fields: Map<String, Value>,
    keys: Keyring,
    config_keys: BTreeMap<String, Vec<u8>>,
    osdmap: Epoch,
}

impl Saved {
    /// Records that the whole state is saved.
    pub(crate) fn of(state: &State) -> Self {
        Self {
            fields: state.small_fields(),
            keys: state.keys.clone(),
            config_keys: state.config_keys.clone(),
            osdmap: state.osdmap().epoch,
        }
    }

    /// Returns the changes since then, and records them as saved. Returns `None` if an incremental is
    /// not kept any more.
    pub(crate) fn advance(&mut self, state: &State) -> Option<Zeroizing<Vec<u8>>> {
        let mut change = Map::new();
        if self.osdmap != state.osdmap().epoch {
            let incrementals = state.maps.incrementals(Epoch(self.osdmap.0 + 1))?;
            let incrementals: Vec<_> = incrementals.values().map(|inc| BASE64.encode(inc)).collect();
            change.insert("osdmap".to_owned(), json!(incrementals));
            self.osdmap = state.osdmap().epoch;
        }
        let mut fields = state.small_fields();
        let same = |name: &String, value: &mut Value| self.fields.get(name) == Some(value);
        let changed: Map<_, _> =
            fields.iter_mut().filter_map(|(k, v)| (!same(k, v)).then(|| (k.clone(), v.clone()))).collect();
        if !changed.is_empty() {
            change.insert("fields".to_owned(), Value::Object(changed));
            self.fields = fields;
        }
        if self.keys != state.keys {
            change.insert("keys".to_owned(), Value::Object(changed_keys(&self.keys, &state.keys)));
            self.keys.clone_from(&state.keys);
        }
        if self.config_keys != state.config_keys {
            let changed = changed_config_keys(&self.config_keys, &state.config_keys);
            change.insert("config_keys".to_owned(), Value::Object(changed));
            self.config_keys.clone_from(&state.config_keys);
        }
        Some(Zeroizing::new(Value::Object(change).to_string().into_bytes()))
    }
}

/// The changed keys by name, each as a keyring of its own; null for removed keys.
fn changed_keys(old: &Keyring, new: &Keyring) -> Map<String, Value> {
    let keyring = |name: &EntityName, entry: &Entry| {
        let mut one = Keyring::new();
        one.insert(name.clone(), entry.clone());
        json!(one.format().as_str())
    };
    let changed = new.iter().filter(|(name, entry)| old.entry(name) != Some(entry));
    let changed = changed.map(|(name, entry)| (name.to_string(), keyring(name, entry)));
    let gone = old.iter().filter(|(name, _)| new.entry(name).is_none());
    changed.chain(gone.map(|(name, _)| (name.to_string(), Value::Null))).collect()
}

fn changed_config_keys(
    old: &BTreeMap<String, Vec<u8>>,
    new: &BTreeMap<String, Vec<u8>>,
) -> Map<String, Value> {
    let changed = new.iter().filter(|(key, value)| old.get(*key) != Some(value));
    let changed = changed.map(|(key, value)| (key.clone(), json!(BASE64.encode(value))));
    let gone = old.keys().filter(|key| !new.contains_key(*key));
    changed.chain(gone.map(|key| (key.clone(), Value::Null))).collect()
}

/// The large parts of a state, for which changes hold single entries.
pub(super) struct Large {
    pub(super) osdmap: OsdMap,
    pub(super) keys: Keyring,
    pub(super) config_keys: BTreeMap<String, Vec<u8>>,
}

impl Large {
    /// Applies a change to these parts, and its other fields to `fields`.
    pub(super) fn put_over(&mut self, fields: &mut Value, change: &Value) -> Result<(), StateError> {
        for (name, value) in entries(change, "fields")? {
            fields[name] = value.clone();
        }
        for (name, keyring) in entries(change, "keys")? {
            match keyring.as_str() {
                Some(keyring) => {
                    let keyring = Keyring::parse(keyring)?;
                    keyring
                        .iter()
                        .for_each(|(name, entry)| drop(self.keys.insert(name.clone(), entry.clone())));
                }
                None => drop(self.keys.remove(&name.parse().map_err(|_| StateError::Field("keys"))?)),
            }
        }
        for (key, value) in entries(change, "config_keys")? {
            match value.as_str() {
                Some(value) => drop(self.config_keys.insert(key.clone(), blob(value, "config_keys")?)),
                None => drop(self.config_keys.remove(key)),
            }
        }
        for incremental in change["osdmap"].as_array().into_iter().flatten() {
            let bytes = blob(incremental.as_str().ok_or(StateError::Field("osdmap"))?, "osdmap")?;
            let incremental = Incremental::decode(&bytes).map_err(|e| StateError::Map("osdmap", e))?;
            self.osdmap.apply_incremental(&incremental)?;
        }
        Ok(())
    }
}

fn entries<'a>(
    change: &'a Value,
    part: &'static str,
) -> Result<impl Iterator<Item = (&'a String, &'a Value)>, StateError> {
    let entries = match &change[part] {
        Value::Null => None,
        value => Some(value.as_object().ok_or(StateError::Field(part))?),
    };
    Ok(entries.into_iter().flatten())
}

fn blob(text: &str, part: &'static str) -> Result<Vec<u8>, StateError> {
    BASE64.decode(text).map_err(|_| StateError::Field(part))
}
