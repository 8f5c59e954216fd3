//! The monitor's state of the cluster.
//!
//! A [`State`] has no clock, no socket and no file: time is an argument, and [`State::take_changes`]
//! returns what must be saved or sent. [`persist`] converts it to bytes and back, `change` converts its
//! changes.

pub(crate) mod change;
pub mod config;
pub mod config_log;
pub mod erasure;
pub(crate) mod error;
mod fences;
mod full;
pub mod history;
pub mod log;
mod manager;
pub mod mutes;
mod osds;
pub mod persist;
pub mod pools;
mod replace;
pub mod reserved;
pub mod snaps;
pub mod users;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use loligo_cephx::key::{CryptoKey, KeyType};
use loligo_cephx::keyring::{Entry, Keyring};
use loligo_maps::{Incremental, MapFlags, MonMap, OsdMap, OsdState};
use loligo_wire::{
    EntityAddr, EntityAddrVec, EntityName, EntityType, Epoch, GlobalId, OsdId, PoolId, UTime, Uuid,
};

use crate::failure::Failure;
use config::ConfigDb;
use config_log::{Change, ConfigLog};
use history::MapHistory;
use log::{ClusterLog, Severity};
pub use manager::{MGR_ID, Manager};
use mutes::Mute;
pub use osds::OsdCount;

/// The monitor's id: the monitor is `mon.a`.
pub const MON_ID: &str = "a";
/// Global ids are reserved in blocks of this size, so that reservations are rarely saved.
const GLOBAL_IDS_PER_BLOCK: u64 = 1_000_000;
/// The first global id (Ceph's first clients get numbers from about here).
const FIRST_GLOBAL_ID: u64 = 4_100;

/// The monitor's state of the cluster.
#[derive(Clone, Debug)]
pub struct State {
    monmap: MonMap,
    maps: MapHistory,
    keys: Keyring,
    /// The type of new keys.
    auth_cipher: KeyType,
    config: ConfigDb,
    config_log: ConfigLog,
    /// Settings of a single running daemon, by its name and the option. Not saved.
    overrides: BTreeMap<(String, String), String>,
    /// The blocklist entries of each user without `allow *`. Not saved.
    fenced_by: BTreeMap<EntityName, BTreeSet<EntityAddr>>,
    config_keys: BTreeMap<String, Vec<u8>>,
    /// The secrets that seal tickets, as `loligo-cephx` writes them; empty before the first start.
    service_keys: Bytes,
    /// Global ids from here on are unused.
    global_id_end: GlobalId,
    /// See [`State::filed_by`].
    filed_by: BTreeMap<PoolId, u32>,
    /// See [`State::is_served`].
    reserved_osds: BTreeSet<OsdId>,
    mutes: BTreeMap<String, Mute>,
    /// See [`State::store`].
    store: Option<Uuid>,
    log: ClusterLog,
    started: UTime,
    /// Not saved.
    manager: Option<Manager>,
    changes: Changes,
}

/// An osdmap in the form that the OSD needs.
#[derive(Clone, Debug)]
pub struct NewOsdMap {
    /// The map.
    pub map: Arc<OsdMap>,
    /// The same map, encoded for clients.
    pub encoded: Bytes,
    /// See [`State::filed_by`].
    pub filed_by: BTreeMap<PoolId, u32>,
}

impl NewOsdMap {
    /// The current osdmap.
    pub fn of(state: &State) -> Self {
        let maps = state.maps();
        Self {
            map: Arc::clone(maps.current()),
            encoded: maps.current_bytes().clone(),
            filed_by: state.filed_by.clone(),
        }
    }
}

/// The parts that changed since the last call of `take_changes`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// The osdmap.
    pub osdmap: bool,
    /// Keys or capabilities.
    pub keys: bool,
    /// Settings for clients.
    pub config: bool,
    /// Anything else that must be saved.
    pub other: bool,
}

impl Changes {
    /// Whether the state must be saved.
    pub fn any(self) -> bool {
        self != Self::default()
    }
}

/// The parameters of a new cluster.
#[derive(Clone, Debug)]
pub struct NewCluster {
    /// The cluster's id.
    pub fsid: Uuid,
    /// The time of creation.
    pub now: UTime,
    /// The host name, for the CRUSH map.
    pub host: String,
    /// The secret of `client.admin`. New keys have the same type.
    pub admin_key: CryptoKey,
}

impl State {
    /// Creates a new cluster: one OSD, which is not up yet; no pools; one key, `client.admin`, with all
    /// capabilities.
    ///
    /// # Errors
    /// A host name that the CRUSH map cannot hold, such as `default`.
    pub fn new(cluster: NewCluster) -> Result<Self, Failure> {
        let NewCluster { fsid, now, host, admin_key } = cluster;
        let map = OsdMap::build(fsid).created(now).host(&host).finish();
        let map = map.map_err(|e| Failure::invalid(e.to_string()))?;
        let mut keys = Keyring::new();
        let auth_cipher = admin_key.kind();
        let (name, admin) = users::admin(admin_key);
        keys.insert(name, admin);
        Ok(Self {
            monmap: MonMap::new(fsid, now, [(MON_ID.into(), EntityAddrVec::default())]),
            maps: MapHistory::new(map),
            keys,
            auth_cipher,
            config: ConfigDb::default(),
            config_log: ConfigLog::default(),
            overrides: BTreeMap::new(),
            fenced_by: BTreeMap::new(),
            config_keys: BTreeMap::new(),
            service_keys: Bytes::new(),
            global_id_end: GlobalId(FIRST_GLOBAL_ID),
            filed_by: BTreeMap::new(),
            reserved_osds: BTreeSet::new(),
            mutes: BTreeMap::new(),
            store: None,
            log: ClusterLog::default(),
            started: now,
            manager: None,
            changes: Changes { other: true, ..Changes::default() },
        })
    }

    /// The cluster's id.
    pub fn fsid(&self) -> Uuid {
        self.osdmap().fsid
    }

    /// Returns `true` if a message is for this cluster. A client of version 1 of the messenger may send its
    /// first messages before it has the monitors' map, and then names no cluster (all zeros).
    pub(crate) fn is_meant_by(&self, fsid: Uuid) -> bool {
        fsid == self.fsid() || fsid == Uuid::default()
    }

    /// When this process started.
    pub fn started(&self) -> UTime {
        self.started
    }

    /// The monitor map.
    pub fn monmap(&self) -> &MonMap {
        &self.monmap
    }

    /// The current osdmap.
    pub fn osdmap(&self) -> &OsdMap {
        self.maps.current()
    }

    /// The osdmap and its earlier epochs.
    pub fn maps(&self) -> &MapHistory {
        &self.maps
    }

    /// The pools whose `pg_num` differs from the original one, each with the original: the OSD stores
    /// their objects by it.
    pub fn filed_by(&self) -> &BTreeMap<PoolId, u32> {
        &self.filed_by
    }

    /// Keys and capabilities.
    pub fn keys(&self) -> &Keyring {
        &self.keys
    }

    /// The type of new keys, unless a command names another one.
    pub fn auth_cipher(&self) -> KeyType {
        self.auth_cipher
    }

    /// Changes the type of new keys. Existing keys keep theirs.
    pub fn set_auth_cipher(&mut self, cipher: KeyType) {
        self.changes.other |= self.auth_cipher != cipher;
        self.auth_cipher = cipher;
    }

    /// The id of the OSDs' object store, if it is on disk and has been opened once. Any other store is
    /// refused.
    pub fn store(&self) -> Option<Uuid> {
        self.store
    }

    /// Sets the id of the object store.
    pub fn set_store(&mut self, store: Uuid) {
        self.changes.other |= self.store != Some(store);
        self.store = Some(store);
    }

    /// The configuration database.
    pub fn config(&self) -> &ConfigDb {
        &self.config
    }

    /// The history of the configuration database.
    pub fn config_log(&self) -> &ConfigLog {
        &self.config_log
    }

    /// The `config-key` store.
    pub fn config_keys(&self) -> &BTreeMap<String, Vec<u8>> {
        &self.config_keys
    }

    /// The cluster's log.
    pub fn log(&self) -> &ClusterLog {
        &self.log
    }

    /// The cluster's log, for writing. The log is not saved.
    pub fn log_mut(&mut self) -> &mut ClusterLog {
        &mut self.log
    }

    /// The secrets that seal tickets, as last set.
    pub fn service_keys(&self) -> &Bytes {
        &self.service_keys
    }

    /// Returns what has changed since the last call.
    pub fn take_changes(&mut self) -> Changes {
        std::mem::take(&mut self.changes)
    }

    /// Whether a setting of the monitor is on.
    pub fn own_flag(&self, option: &str) -> bool {
        matches!(self.own_value(option), Some("true" | "1" | "yes" | "on"))
    }

    /// The value of a setting for the monitor.
    pub fn own_value(&self, option: &str) -> Option<&str> {
        let me = EntityName { kind: EntityType::MON, id: MON_ID.to_owned() };
        self.overridden(&me, option).or_else(|| self.config.value(&me, option))
    }

    /// The override of a setting for a single running daemon.
    pub fn overridden(&self, who: &EntityName, option: &str) -> Option<&str> {
        self.overrides.get(&(who.to_string(), config::normal(option))).map(String::as_str)
    }

    /// Sets or removes the override of a setting for a single running daemon.
    pub fn set_override(&mut self, who: &EntityName, option: &str, value: Option<&str>) {
        let key = (who.to_string(), config::normal(option));
        match value {
            Some(value) => drop(self.overrides.insert(key, value.to_owned())),
            None => drop(self.overrides.remove(&key)),
        }
    }

    /// The value that a running daemon uses, if any is set.
    pub fn running_value(&self, who: &EntityName, option: &str) -> Option<String> {
        let set = self.overridden(who, option).map(str::to_owned);
        set.or_else(|| self.config.value_at(who, &self.place_of(who), option).map(str::to_owned))
    }

    /// Makes the next epoch of the osdmap.
    ///
    /// # Errors
    /// The change cannot be applied; then nothing has changed.
    pub fn change_osdmap(
        &mut self,
        now: UTime,
        change: impl FnOnce(&OsdMap, &mut Incremental),
    ) -> Result<Epoch, Failure> {
        self.maps.advance(now, change).map_err(|e| Failure::invalid(e.to_string()))?;
        self.changes.osdmap = true;
        Ok(self.osdmap().epoch)
    }

    /// Records the start of the process, and the monitor's addresses.
    pub fn start(&mut self, now: UTime, addrs: EntityAddrVec) {
        self.started = now;
        let Some(me) = self.monmap.mons.get_mut(MON_ID.as_bytes()) else { return };
        if me.public_addrs == addrs {
            return;
        }
        let moved = !me.public_addrs.0.is_empty();
        me.public_addrs = addrs;
        if moved {
            self.monmap.epoch.0 += 1;
            self.monmap.last_changed = now;
        }
        self.changes.other = true;
    }

    /// Marks an OSD up at these addresses.
    pub fn boot_osd(
        &mut self,
        now: UTime,
        osd: OsdId,
        uuid: Uuid,
        addrs: EntityAddrVec,
    ) -> Result<(), Failure> {
        if self.osdmap().is_up(osd) {
            self.change_osdmap(now, |_, inc| inc.osd_down(osd))?;
        }
        self.change_osdmap(now, |map, inc| {
            if map.osd(osd).is_none_or(|o| o.uuid != uuid) {
                inc.new_uuid.insert(osd, uuid);
            }
            inc.osd_up(osd, addrs.clone(), addrs);
            if map.last_in_change.is_zero() {
                inc.new_last_in_change = now; // the OSD was `in` from the start; its first boot sets the time
            }
        })?;
        self.log.say(now, Severity::Info, "cluster", format!("osd.{osd} boot"));
        Ok(())
    }

    /// Brings OSDs up again that commands have marked down. They run in this process, and a stock OSD
    /// that is marked down wrongly boots again, unless `noup` forbids it.
    ///
    /// # Errors
    /// A change cannot be applied.
    pub fn revive_osds(&mut self, now: UTime) -> Result<(), Failure> {
        let map = self.osdmap();
        if map.flags.contains(MapFlags::NOUP) {
            return Ok(());
        }
        // An OSD that was never up has no addresses yet. It boots by itself.
        let down = map.osd_ids().filter(|osd| !map.is_up(*osd)).filter_map(|osd| Some((osd, map.osd(osd)?)));
        let down = down.filter(|(_, facts)| facts.info.up_from > Epoch(0) && facts.info.down_at > Epoch(0));
        let down = down.filter(|(osd, _)| !map.state(*osd).contains(OsdState::NOUP));
        let down: Vec<_> = down.map(|(osd, facts)| (osd, facts.uuid, facts.client_addrs.clone())).collect();
        down.into_iter().try_for_each(|(osd, uuid, addrs)| self.boot_osd(now, osd, uuid, addrs))
    }

    /// Adds or changes a key.
    pub fn set_key(&mut self, name: EntityName, entry: Entry) {
        if self.keys.entry(&name) != Some(&entry) {
            self.keys.insert(name, entry);
            self.changes.keys = true;
        }
    }

    /// Removes a key. Returns `false` if there is none.
    pub fn remove_key(&mut self, name: &EntityName) -> bool {
        let removed = self.keys.remove(name).is_some();
        self.changes.keys |= removed;
        removed
    }

    /// The place of a daemon or client, as settings depend on it: for OSDs, the location in CRUSH.
    pub fn place_of(&self, who: &EntityName) -> config::Place {
        let osd = who.id.parse::<i32>().ok().filter(|_| who.kind == EntityType::OSD);
        let Some(osd) = osd else { return config::Place::default() };
        let crush = &self.osdmap().crush;
        let class = crush.classes.get(&osd).and_then(|class| crush.class_names.get(class));
        let location = crate::hierarchy::location(crush, osd);
        config::Place { class: class.map(ToString::to_string), location }
    }

    /// Adds or changes a setting.
    pub fn set_config(&mut self, now: UTime, section: &str, option: &str, value: &str) {
        self.change_config(now, "", [((section, option), Some(value))]);
    }

    /// Removes a setting.
    pub fn remove_config(&mut self, now: UTime, section: &str, option: &str) {
        self.change_config(now, "", [((section, option), None)]);
    }

    /// Changes settings as one named version of the database.
    pub fn change_config<'a>(
        &mut self,
        now: UTime,
        name: &str,
        settings: impl IntoIterator<Item = ((&'a str, &'a str), Option<&'a str>)>,
    ) {
        let change = |((section, option), new): ((&str, &str), Option<&str>)| {
            let old = self.config.stored(section, option).map(str::to_owned);
            ((section.to_owned(), config::normal(option)), Change { old, new: new.map(str::to_owned) })
        };
        let changes = settings.into_iter().map(change).collect();
        self.apply_config(now, name.to_owned(), changes);
    }

    /// Resets the settings to a version.
    ///
    /// # Errors
    /// The version does not exist, or is not kept any more.
    pub fn reset_config(&mut self, now: UTime, version: u64) -> Result<(), Failure> {
        if !self.config_log.reaches(version) {
            let status = "must specify a valid historical version to revert to; see 'ceph config log' for a list of \
                          avialable configuration historical versions";
            return Err(Failure::invalid(status));
        }
        let changes = self.config_log.way_back(&self.config, version);
        self.apply_config(now, format!("reset to {version}"), changes);
        Ok(())
    }

    fn apply_config(
        &mut self,
        now: UTime,
        name: String,
        changes: BTreeMap<(config::Section, String), Change>,
    ) {
        for ((section, option), Change { new, .. }) in &changes {
            self.changes.config |= match new {
                Some(value) => self.config.set(section, option, value),
                None => self.config.remove(section, option),
            };
        }
        self.config_log.push(now, name, changes);
    }

    /// Adds or changes an entry of the `config-key` store.
    pub fn set_config_key(&mut self, key: &str, value: Vec<u8>) {
        self.config_keys.insert(key.to_owned(), value);
        self.changes.other = true;
    }

    /// Removes an entry of the `config-key` store.
    pub fn remove_config_key(&mut self, key: &str) {
        self.changes.other |= self.config_keys.remove(key).is_some();
    }

    /// Replaces the secrets that seal tickets.
    pub fn set_service_keys(&mut self, keys: Bytes) {
        self.service_keys = keys;
        self.changes.other = true;
    }

    /// Reserves global ids for this run of the process. Returns the first one.
    pub fn reserve_global_ids(&mut self) -> GlobalId {
        let first = self.global_id_end;
        self.global_id_end.0 += GLOBAL_IDS_PER_BLOCK;
        self.changes.other = true;
        first
    }

    /// The end of the reserved global ids. Ids below it may be assigned once the state is saved.
    pub fn global_id_end(&self) -> GlobalId {
        self.global_id_end
    }

    /// Reserves more global ids if `next`, the next one to be assigned, comes near the end of the
    /// reserved ones.
    pub fn note_global_id(&mut self, next: GlobalId) {
        if next.0 + GLOBAL_IDS_PER_BLOCK / 2 > self.global_id_end.0 {
            self.global_id_end.0 = next.0 + GLOBAL_IDS_PER_BLOCK;
            self.changes.other = true;
        }
    }
}
