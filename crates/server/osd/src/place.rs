//! The map of one epoch with the slots of its pools' placement groups.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use loligo_cephx::caps::PoolFacts;
use loligo_maps::{HOLE, MapFlags, OsdMap, PgPool, Targets};
use loligo_store::{Collection, ObjectStore, StoreError};
use loligo_wire::message::osd::MOSDMap;
use loligo_wire::{Epoch, OsdId, PgId, PoolId, SnapId};
use rustc_hash::FxHashMap;

use crate::exec::Elsewhere;
use crate::filing::Cut;
use crate::helpers::Helpers;
use crate::slot::Slot;
use crate::slots::Slots;

/// A map and the state derived from it. Never modified: the next epoch gets its own value, which shares
/// the slots.
pub(crate) struct Places {
    pub(crate) map: Arc<OsdMap>,
    encoded: Bytes,
    pools: FxHashMap<PoolId, Arc<Pool>>,
    /// Caches the primaries of placement groups.
    targets: Targets,
    pub(crate) store: Arc<dyn ObjectStore>,
}

/// One pool of the map.
pub(crate) struct Pool {
    name: String,
    applications: BTreeMap<String, BTreeMap<String, String>>,
    pub(crate) pool: PgPool,
    pub(crate) slots: Arc<Slots>,
}

impl Places {
    /// The state before the first map: no pools.
    pub(crate) fn none(store: Arc<dyn ObjectStore>) -> Self {
        let map = Arc::new(OsdMap::default());
        let targets = Targets::new(Arc::clone(&map));
        Self { map, encoded: Bytes::new(), pools: FxHashMap::default(), targets, store }
    }

    /// Computes the places of the next map: the slots of remaining pools are kept, new pools get new
    /// ones. `filed_by` lists the pools that were created with a number of placement groups other than
    /// the map's, and that number.
    pub(crate) fn next(
        &self,
        map: Arc<OsdMap>,
        encoded: Bytes,
        filed_by: &BTreeMap<PoolId, u32>,
        helpers: &Helpers,
    ) -> Result<Self, StoreError> {
        let store = &self.store;
        let is_new = |id: &PoolId| !self.pools.contains_key(id);
        let there = if map.pools.keys().any(is_new) { store.collections() } else { Vec::new() };
        let mut pools = FxHashMap::default();
        for (id, pool) in &map.pools {
            let slots = match self.pools.get(id) {
                Some(old) => old.slots.clone(),
                None => {
                    let number = filed_by.get(id).copied().unwrap_or(pool.pg_num());
                    Arc::new(Slots::new(*id, number, &there, store, helpers)?)
                }
            };
            pools.insert(*id, Arc::new(Pool::new(&map, *id, pool.clone(), slots)));
        }
        let targets = Targets::new(Arc::clone(&map));
        Ok(Self { map, encoded, pools, targets, store: Arc::clone(store) })
    }

    /// The slots of pools that `next` no longer has.
    pub(crate) fn gone_in(&self, next: &Self) -> Vec<Arc<Slots>> {
        let gone = self.pools.iter().filter(|(id, _)| !next.pools.contains_key(id));
        gone.map(|(_, pool)| Arc::clone(&pool.slots)).collect()
    }

    pub(crate) fn epoch(&self) -> Epoch {
        self.map.epoch
    }

    pub(crate) fn pool(&self, id: PoolId) -> Option<&Arc<Pool>> {
        self.pools.get(&id)
    }

    /// Whether this OSD is the primary to which clients send a placement group's requests.
    pub(crate) fn is_primary(&self, osd: OsdId, pg: PgId) -> bool {
        self.targets.primary(pg) == Some(osd)
    }

    /// Whether the OSD has a copy of a placement group.
    pub(crate) fn has_copy(&self, osd: OsdId, pg: PgId) -> bool {
        osd != HOLE && self.map.pg_to_up_acting(pg).acting.contains(&osd)
    }

    pub(crate) fn pools(&self) -> impl Iterator<Item = (PoolId, &Arc<Pool>)> {
        self.pools.iter().map(|(id, pool)| (*id, pool))
    }

    /// Whether the whole cluster is marked full.
    pub(crate) fn full(&self) -> bool {
        self.map.flags.contains(MapFlags::FULL)
    }

    /// The map as a message. It claims that there is no older map, so that a client several epochs
    /// behind accepts it.
    pub(crate) fn message(&self) -> MOSDMap {
        let epoch = self.epoch();
        MOSDMap {
            fsid: self.map.fsid,
            maps: BTreeMap::from([(epoch, self.encoded.clone())]),
            oldest: epoch,
            newest: epoch,
            ..MOSDMap::default()
        }
    }
}

impl Elsewhere for Places {
    fn facts(&self, pool: PoolId) -> Option<&PgPool> {
        self.pool(pool).map(|pool| &pool.pool)
    }

    fn filed(&self, pool: PoolId) -> Option<Cut> {
        self.pool(pool).map(|pool| pool.filed())
    }

    fn collection(&self, pool: PoolId, hash: u32) -> Option<&dyn Collection> {
        self.pool(pool)?.collection(hash).map(|collection| &**collection)
    }

    fn is_removed(&self, pool: PoolId, snap: SnapId) -> bool {
        self.map.removed_snaps_queue.get(&pool).is_some_and(|removed| removed.contains(snap))
    }

    fn acting_primary(&self, pg: PgId) -> Option<OsdId> {
        self.map.pg_to_up_acting(pg).acting_primary
    }
}

impl Pool {
    fn new(map: &OsdMap, id: PoolId, pool: PgPool, slots: Arc<Slots>) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let name = map.pool_name(id).map(|name| text(name.as_bytes())).unwrap_or_default();
        let metadata = |pairs: &BTreeMap<_, _>| {
            pairs
                .iter()
                .map(|(k, v): (&loligo_maps::Name, &loligo_maps::Name)| {
                    (text(k.as_bytes()), text(v.as_bytes()))
                })
                .collect()
        };
        let applications = pool
            .application_metadata
            .iter()
            .map(|(app, pairs)| (text(app.as_bytes()), metadata(pairs)))
            .collect();
        Self { name, applications, pool, slots }
    }

    /// How the pool's objects are filed in its slots.
    pub(crate) fn filed(&self) -> Cut {
        Cut(self.slots.len())
    }

    /// Returns the slot for objects of this hash. `None` if the store has stopped. Must not be called
    /// with a lock held: the store may be accessed.
    pub(crate) fn slot(&self, hash: u32) -> Option<&Arc<Slot>> {
        self.slots.get(self.filed().part_of(hash))
    }

    /// The collection for objects of this hash, if its slot is opened.
    pub(crate) fn collection(&self, hash: u32) -> Option<&Arc<dyn Collection>> {
        self.slots.opened(self.filed().part_of(hash)).map(|slot| &slot.collection)
    }

    /// The facts about the pool that capabilities depend on.
    pub(crate) fn facts(&self) -> PoolFacts<'_> {
        PoolFacts { name: &self.name, applications: &self.applications }
    }
}
