//! The state as a file. It is JSON, so that people can inspect it. Structures for which Ceph has an
//! encoding are stored in that encoding, in base64 (`osdmaptool` and `monmaptool` open it).
//!
//! Later changes are saved separately (`change`).
//!
//! The log and old epochs of the osdmap are not saved. The file holds every secret of the cluster.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use loligo_cephx::key::KeyType;
use loligo_cephx::keyring::Keyring;
use loligo_maps::{MonMap, OsdMap};
use loligo_wire::{Decode as _, Encode as _, GlobalId, OsdId, PoolId, UTime, Uuid};
use serde_json::{Map, Value, json};
use zeroize::Zeroizing;

use super::change::Large;
use super::config::ConfigDb;
use super::config_log::{Change, ChangeSet, ConfigLog};
use super::error::StateError;
use super::history::MapHistory;
use super::log::ClusterLog;
use super::mutes::Mute;
use super::pools::PG_NUM_MAX;
use super::{Changes, State};

/// The file's format version. A program refuses versions that it does not know.
const FORM: u64 = 1;
/// Format version of files with pools whose `pg_num` has changed. A program that ignored the field would
/// look for their objects in the wrong places.
const FORM_FILED_BY: u64 = 2;
/// Format version of files with reserved OSDs, which have no store. A program that ignored the field
/// would serve them.
const FORM_RESERVED: u64 = 3;
/// Format version of files that are kept as a pair, with checksums (`StateFile`). A program that knew a
/// single file would not update the other one.
pub(crate) const FORM_PAIR: u64 = 4;
/// Format version of files with a log of changes after the state. A program that ignored the log would
/// load an older state.
const FORM_LOG: u64 = 5;

impl State {
    /// The content of the file.
    pub fn to_json(&self) -> Zeroizing<Vec<u8>> {
        let config_keys: BTreeMap<_, _> =
            self.config_keys.iter().map(|(k, v)| (k, BASE64.encode(v))).collect();
        let mut fields = self.small_fields();
        let mut put = |name: &str, value| drop(fields.insert(name.to_owned(), value));
        put("osdmap_epoch", json!(self.osdmap().epoch.0));
        put("osdmap", json!(BASE64.encode(self.maps.current_bytes())));
        put("keyring", json!(self.keys.format().as_str()));
        put("config_keys", json!(config_keys));
        Zeroizing::new(format!("{:#}\n", Value::Object(fields)).into_bytes())
    }

    /// The fields whose size does not grow with the clients' work, and the settings.
    pub(super) fn small_fields(&self) -> Map<String, Value> {
        let config: Vec<_> =
            self.config.iter().map(|(section, name, value)| json!([section, name, value])).collect();
        let filed_by: Vec<_> = self.filed_by.iter().map(|(pool, number)| json!([pool.0, number])).collect();
        let fields = [
            ("form", json!(FORM_LOG)),
            ("fsid", json!(self.fsid().to_string())),
            ("monmap", json!(BASE64.encode(self.monmap.to_bytes()))),
            ("auth_cipher", json!(self.auth_cipher.as_str())),
            ("service_keys", json!(BASE64.encode(&self.service_keys))),
            ("global_id_end", json!(self.global_id_end.0)),
            ("config", json!(config)),
            ("config_log", json!(self.config_log.iter().map(change_set).collect::<Vec<_>>())),
            ("pools_filed_by", json!(filed_by)),
            ("reserved_osds", json!(self.reserved_osds.iter().map(|osd| osd.0).collect::<Vec<_>>())),
            ("mutes", json!(self.mutes.iter().map(mute).collect::<Vec<_>>())),
            ("store", json!(self.store.map(|store| store.to_string()))),
        ];
        fields.map(|(name, value)| (name.to_owned(), value)).into_iter().collect()
    }

    /// Reads the output of [`State::to_json`].
    pub fn from_json(bytes: &[u8]) -> Result<Self, StateError> {
        Self::restore(bytes, &[]).map(|(_, state)| state)
    }

    /// Reads the output of [`State::to_json`] and applies the changes since. Also returns the format
    /// version.
    pub(crate) fn restore(bytes: &[u8], changes: &[&[u8]]) -> Result<(u64, Self), StateError> {
        let file = File(serde_json::from_slice(bytes)?);
        let form = file.number("form")?;
        if !matches!(form, FORM | FORM_FILED_BY | FORM_RESERVED | FORM_PAIR | FORM_LOG) {
            return Err(StateError::Form(form));
        }
        let mut large = Large {
            osdmap: OsdMap::decode(&file.blob("osdmap")?).map_err(|e| StateError::Map("osdmap", e))?,
            keys: Keyring::parse(file.text("keyring")?)?,
            config_keys: file.config_keys()?,
        };
        let mut fields = file.0;
        for change in changes {
            large.put_over(&mut fields, &serde_json::from_slice(change)?)?;
        }
        let file = File(fields);
        let monmap = MonMap::from_bytes(&file.blob("monmap")?).map_err(|e| StateError::Map("monmap", e))?;
        let state = Self {
            monmap,
            maps: MapHistory::new(large.osdmap),
            keys: large.keys,
            auth_cipher: file.auth_cipher()?,
            config: file.config()?,
            config_log: file.config_log()?,
            overrides: BTreeMap::new(),
            fenced_by: BTreeMap::new(),
            config_keys: large.config_keys,
            service_keys: Bytes::from(file.blob("service_keys")?),
            global_id_end: GlobalId(file.number("global_id_end")?),
            filed_by: file.filed_by()?,
            reserved_osds: file.reserved_osds()?,
            mutes: file.mutes()?,
            store: file.store()?,
            log: ClusterLog::default(),
            started: Default::default(),
            manager: None,
            changes: Changes::default(),
        };
        Ok((form, state))
    }
}

/// Encodes a mute: code, expiry, stickiness, summary and count.
fn mute((code, mute): (&String, &Mute)) -> Value {
    let until = mute.until.map(|until| [until.sec, until.nsec]);
    json!([code, until, mute.sticky, mute.summary, mute.count])
}

/// Decodes the output of [`mute`].
fn read_mute(value: &Value) -> Option<(String, Mute)> {
    let until = if value[1].is_null() { None } else { Some(time(&value[1])?) };
    let (sticky, summary) = (value[2].as_bool()?, value[3].as_str()?.to_owned());
    let count = usize::try_from(value[4].as_u64()?).ok()?;
    Some((value[0].as_str()?.to_owned(), Mute { until, sticky, summary, count }))
}

/// Decodes a time from seconds and nanoseconds.
fn time(value: &Value) -> Option<UTime> {
    let number = |value: &Value| u32::try_from(value.as_u64()?).ok();
    Some(UTime { sec: number(&value[0])?, nsec: number(&value[1])? })
}

/// Encodes a version of the settings: its number, time and name, and for each change the section, the
/// option, and the values before and after.
fn change_set(set: &ChangeSet) -> Value {
    let ChangeSet { version, stamp, name, changes } = set;
    let change = |((section, option), Change { old, new }): (&(String, String), &Change)| {
        json!([section, option, old, new])
    };
    json!([version, [stamp.sec, stamp.nsec], name, changes.iter().map(change).collect::<Vec<_>>()])
}

/// Decodes the output of [`change_set`].
fn read_change_set(value: &Value) -> Option<ChangeSet> {
    let said = |value: &Value| match value {
        Value::Null => Some(None),
        value => Some(Some(value.as_str()?.to_owned())),
    };
    let change = |value: &Value| {
        let key = (value[0].as_str()?.to_owned(), value[1].as_str()?.to_owned());
        Some((key, Change { old: said(&value[2])?, new: said(&value[3])? }))
    };
    Some(ChangeSet {
        version: value[0].as_u64()?,
        stamp: time(&value[1])?,
        name: value[2].as_str()?.to_owned(),
        changes: value[3].as_array()?.iter().map(change).collect::<Option<_>>()?,
    })
}

struct File(Value);

impl File {
    fn text(&self, field: &'static str) -> Result<&str, StateError> {
        self.0[field].as_str().ok_or(StateError::Field(field))
    }

    fn number(&self, field: &'static str) -> Result<u64, StateError> {
        self.0[field].as_u64().ok_or(StateError::Field(field))
    }

    fn blob(&self, field: &'static str) -> Result<Vec<u8>, StateError> {
        BASE64.decode(self.text(field)?).map_err(|_| StateError::Field(field))
    }

    /// Absent in files written before the type could be chosen.
    fn auth_cipher(&self) -> Result<KeyType, StateError> {
        match &self.0["auth_cipher"] {
            Value::Null => Ok(KeyType::Aes),
            Value::String(name) => name.parse().map_err(|_| StateError::Field("auth_cipher")),
            _ => Err(StateError::Field("auth_cipher")),
        }
    }

    fn config(&self) -> Result<ConfigDb, StateError> {
        let bad = || StateError::Field("config");
        let mut db = ConfigDb::default();
        for setting in self.0["config"].as_array().ok_or_else(bad)? {
            let part = |i: usize| setting[i].as_str().ok_or_else(bad);
            db.set(part(0)?, part(1)?, part(2)?);
        }
        Ok(db)
    }

    /// Absent in files written before `osd new` was supported.
    fn reserved_osds(&self) -> Result<BTreeSet<OsdId>, StateError> {
        let bad = || StateError::Field("reserved_osds");
        let Some(osds) = self.0.get("reserved_osds") else { return Ok(BTreeSet::new()) };
        let id =
            |osd: &Value| osd.as_i64().and_then(|osd| i32::try_from(osd).ok()).map(OsdId).ok_or_else(bad);
        osds.as_array().ok_or_else(bad)?.iter().map(id).collect()
    }

    /// Absent in files written before the field existed, and null for servers that keep nothing on disk.
    fn store(&self) -> Result<Option<Uuid>, StateError> {
        let bad = || StateError::Field("store");
        match self.0.get("store") {
            None | Some(Value::Null) => Ok(None),
            Some(store) => store.as_str().and_then(|store| store.parse().ok()).map(Some).ok_or_else(bad),
        }
    }

    /// Absent in files written before mutes were supported.
    fn mutes(&self) -> Result<BTreeMap<String, Mute>, StateError> {
        let bad = || StateError::Field("mutes");
        let Some(mutes) = self.0.get("mutes") else { return Ok(BTreeMap::new()) };
        mutes.as_array().ok_or_else(bad)?.iter().map(|mute| read_mute(mute).ok_or_else(bad)).collect()
    }

    /// Absent in files written before versions were kept.
    fn config_log(&self) -> Result<ConfigLog, StateError> {
        let bad = || StateError::Field("config_log");
        let Some(sets) = self.0.get("config_log") else { return Ok(ConfigLog::default()) };
        let sets = sets.as_array().ok_or_else(bad)?.iter().map(read_change_set);
        sets.collect::<Option<_>>().and_then(ConfigLog::from_sets).ok_or_else(bad)
    }

    /// Absent in files written before `pg_num` could be changed.
    fn filed_by(&self) -> Result<BTreeMap<PoolId, u32>, StateError> {
        let bad = || StateError::Field("pools_filed_by");
        let Some(pools) = self.0.get("pools_filed_by") else { return Ok(BTreeMap::new()) };
        let pair = |pool: &Value| {
            let number = pool[1].as_u64().and_then(|number| u32::try_from(number).ok());
            let number = number.filter(|number| (1..=PG_NUM_MAX).contains(number));
            Ok((PoolId(pool[0].as_i64().ok_or_else(bad)?), number.ok_or_else(bad)?))
        };
        pools.as_array().ok_or_else(bad)?.iter().map(pair).collect()
    }

    fn config_keys(&self) -> Result<BTreeMap<String, Vec<u8>>, StateError> {
        let bad = || StateError::Field("config_keys");
        let fields = self.0["config_keys"].as_object().ok_or_else(bad)?;
        let decode = |v: &Value| BASE64.decode(v.as_str().ok_or_else(bad)?).map_err(|_| bad());
        fields.iter().map(|(key, value)| Ok((key.clone(), decode(value)?))).collect()
    }
}
