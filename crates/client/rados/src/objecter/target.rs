//! Placement of operations by the map.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use loligo_maps::{MapFlags, OsdMap, PgPool, PoolFlags, Target, Targets};
use loligo_wire::message::osd::{ObjectLocator, OsdFlags};
use loligo_wire::{EntityAddr, Epoch, OsdId, PgId, PoolId, SpgId};

use super::replica::{ANYWHERE, Location, nearest};
use crate::error::Errno;

/// An OSD map, with values derived from it.
pub(crate) struct MapView {
    targets: Targets,
    location: Arc<Location>,
    /// Distance of each OSD; computed by the first read that wants the nearest copy.
    distances: OnceLock<Box<[u16]>>,
    /// Selects the copy for the next balanced read.
    turn: AtomicUsize,
}

/// An operation's placement by one map.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placement {
    pub(super) spgid: SpgId,
    /// The requested pool. If it has a cache tier, another pool serves it.
    pub(super) pool: PoolId,
    pub(super) hash: u32,
    pub(super) epoch: Epoch,
    /// The target OSD, usually the primary; `None` while no OSD serves the placement group. The session
    /// has its address.
    pub(super) osd: Option<OsdId>,
    /// Whether the operation has to wait: reads or writes are paused, or there is no space.
    pub(super) paused: bool,
    /// The operation's flags.
    pub(super) flags: OsdFlags,
}

/// Why an operation cannot be placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unplaceable {
    /// This map has no such pool.
    NoPool,
    /// The pool is set to fail all operations.
    Failing,
}

impl Unplaceable {
    /// Returns the errno that such an operation fails with.
    pub(super) fn errno(self) -> Errno {
        match self {
            Self::NoPool => Errno::ENOENT,
            Self::Failing => Errno::EIO,
        }
    }
}

impl Default for MapView {
    fn default() -> Self {
        Self::new(OsdMap::default(), Arc::default())
    }
}

impl MapView {
    /// Creates the view of a map from a location.
    pub(crate) fn new(map: OsdMap, location: Arc<Location>) -> Self {
        let (distances, turn) = (OnceLock::new(), AtomicUsize::new(0));
        Self { targets: Targets::new(Arc::new(map)), location, distances, turn }
    }

    /// Returns the map.
    pub(crate) fn map(&self) -> &OsdMap {
        self.targets.map()
    }

    pub(crate) fn epoch(&self) -> Epoch {
        self.map().epoch
    }

    /// Returns the hash that places an object; `None` if the pool does not exist.
    pub(crate) fn hash_of(&self, pool: PoolId, nspace: &[u8], key: &[u8], oid: &[u8]) -> Option<u32> {
        self.targets.target(pool, nspace, key, oid).map(|target| target.hash)
    }

    /// Places an operation with these flags on this object.
    #[inline]
    pub(super) fn place(
        &self,
        locator: &ObjectLocator,
        oid: &[u8],
        flags: OsdFlags,
    ) -> Result<Placement, Unplaceable> {
        let pool_id = self.serving_pool(locator.pool, flags)?;
        let target = match u32::try_from(locator.hash) {
            Ok(hash) => self.targets.target_of_hash(pool_id, hash),
            Err(_) => self.targets.target(pool_id, &locator.nspace, &locator.key, oid),
        };
        Ok(self.placement(locator.pool, target.ok_or(Unplaceable::NoPool)?, flags))
    }

    /// Returns a placer for many operations that are placed again.
    pub(super) fn places_again(&self) -> PlacesAgain<'_> {
        PlacesAgain { view: self, known: None }
    }

    /// Places an operation again that an earlier map has placed, for the same object and flags.
    fn place_again(&self, place: &Placement) -> Result<Placement, Unplaceable> {
        // The full hash does not change: a pool's hash function is fixed at its creation.
        let pool_id = self.serving_pool(place.pool, place.flags)?;
        let target = self.targets.target_of_hash(pool_id, place.hash);
        Ok(self.placement(place.pool, target.ok_or(Unplaceable::NoPool)?, place.flags))
    }

    fn placement(&self, pool: PoolId, target: Target, flags: OsdFlags) -> Placement {
        let mut spgid = SpgId::whole(target.pg);
        let mut osd = target.primary;
        if self.map().pool(target.pg.pool).is_some_and(PgPool::is_erasure) {
            spgid.shard = self.primary_shard(target.pg, target.primary);
        } else if flags.intersects(ANYWHERE) && !flags.contains(OsdFlags::WRITE) {
            osd = self.copy_of(target.pg, flags).or(osd);
        }
        Placement {
            spgid,
            pool,
            hash: target.hash,
            epoch: self.epoch(),
            osd: osd.filter(|osd| self.listens(*osd)),
            paused: self.pauses(pool, flags),
            flags,
        }
    }

    /// Returns the address of an OSD.
    pub(super) fn addr_of(&self, osd: OsdId) -> Option<EntityAddr> {
        self.map().client_addrs(osd)?.to_dial().copied()
    }

    /// Returns `true` if an OSD has an address.
    fn listens(&self, osd: OsdId) -> bool {
        self.map().client_addrs(osd).is_some_and(|addrs| addrs.to_dial().is_some())
    }

    /// Returns one of the OSDs that store a placement group: the nearest, or each in turn. Costs a CRUSH
    /// placement, a few microseconds.
    #[cold]
    fn copy_of(&self, pg: PgId, flags: OsdFlags) -> Option<OsdId> {
        let acting = self.map().pg_to_up_acting(pg).acting;
        if flags.contains(OsdFlags::LOCALIZE_READS) {
            let distances = self.distances.get_or_init(|| self.location.distances(self.map()));
            return nearest(distances, acting.iter().copied());
        }
        // Relaxed: the rotation between the copies need not be exact.
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        acting.get(turn % acting.len().max(1)).copied()
    }

    /// Returns the pool that serves a pool: the pool itself, unless it has a cache tier.
    fn serving_pool(&self, id: PoolId, flags: OsdFlags) -> Result<PoolId, Unplaceable> {
        let pool = self.map().pool(id).ok_or(Unplaceable::NoPool)?;
        if pool.flags.contains(PoolFlags::EIO) {
            return Err(Unplaceable::Failing);
        }
        let tier = match flags {
            _ if flags.contains(OsdFlags::IGNORE_OVERLAY) => PoolId(-1),
            _ if flags.contains(OsdFlags::WRITE) => pool.tier.write_tier,
            _ => pool.tier.read_tier,
        };
        Ok(if tier.0 >= 0 { tier } else { id })
    }

    /// Returns the primary's position in an erasure-coded placement group.
    fn primary_shard(&self, pg: PgId, primary: Option<OsdId>) -> i8 {
        let acting = self.map().pg_to_up_acting(pg).acting;
        let at = acting.iter().position(|osd| Some(*osd) == primary);
        at.and_then(|at| i8::try_from(at).ok()).unwrap_or(SpgId::NO_SHARD)
    }

    /// Returns `true` if the map's blocklist contains an address with this nonce.
    pub(super) fn keeps_out(&self, nonce: u32) -> bool {
        // Nonce 0 stands for all clients of a host. Such entries, and networks, are left to the OSDs:
        // only they know the address they see for this client.
        nonce != 0 && self.map().blocklist.addrs.keys().any(|addr| addr.nonce == nonce)
    }

    /// Returns `true` if operations with these flags on a pool have to wait.
    pub(super) fn pauses(&self, pool: PoolId, flags: OsdFlags) -> bool {
        let map = self.map();
        if flags.contains(OsdFlags::READ) && map.flags.contains(MapFlags::PAUSERD) {
            return true;
        }
        if !flags.contains(OsdFlags::WRITE) {
            return false;
        }
        let heeds_full = !flags.intersects(OsdFlags::FULL_TRY | OsdFlags::FULL_FORCE);
        let full = || {
            map.flags.contains(MapFlags::FULL)
                || map.pool(pool).is_some_and(|pool| pool.flags.contains(PoolFlags::FULL))
        };
        map.flags.contains(MapFlags::PAUSEWR) || (heeds_full && full())
    }

    /// Returns `true` if an OSD is up at this address.
    pub(super) fn serves(&self, osd: OsdId, addr: EntityAddr) -> bool {
        self.map().client_addrs(osd).and_then(|addrs| addrs.to_dial()) == Some(&addr)
    }

    /// Returns `true` if a placement group's interval continues from `old` to this map. If not, its OSDs
    /// may have dropped the operations sent to them.
    pub(super) fn continues(&self, old: &Self, pg: PgId) -> bool {
        let (Some(before), Some(now)) = (old.map().pool(pg.pool), self.map().pool(pg.pool)) else {
            return false;
        };
        before.pg_num() == now.pg_num()
            && before.size == now.size
            && before.min_size == now.min_size
            && before.last_force_op_resend == now.last_force_op_resend
            && !now.flags.contains(PoolFlags::EIO)
            && old.map().pg_to_up_acting(pg) == self.map().pg_to_up_acting(pg)
    }
}

/// Places operations again one by one, and caches what operations on one pool have in common.
pub(super) struct PlacesAgain<'a> {
    view: &'a MapView,
    known: Option<Known>,
}

/// Values shared by operations with the same flags on a replicated pool, sent to the primary.
struct Known {
    pool: PoolId,
    serving: PoolId,
    flags: OsdFlags,
    paused: bool,
}

impl PlacesAgain<'_> {
    /// Replaces an operation's placement by an earlier map with the one by this map, for the same object
    /// and flags.
    pub(super) fn place(&mut self, place: &mut Placement) -> Result<(), Unplaceable> {
        if self.known.as_ref().is_none_or(|known| known.pool != place.pool || known.flags != place.flags) {
            self.known = self.learn(place)?;
        }
        let Some(known) = &self.known else {
            *place = self.view.place_again(place)?;
            return Ok(());
        };
        let targets = &self.view.targets;
        let target = targets.target_of_hash(known.serving, place.hash).ok_or(Unplaceable::NoPool)?;
        place.spgid = SpgId::whole(target.pg);
        place.epoch = targets.map().epoch;
        place.paused = known.paused;
        place.osd = target.primary.filter(|osd| self.view.listens(*osd));
        Ok(())
    }

    /// Returns `None` if each operation needs a full placement.
    fn learn(&self, place: &Placement) -> Result<Option<Known>, Unplaceable> {
        let view = self.view;
        let (pool, flags) = (place.pool, place.flags);
        let serving = view.serving_pool(pool, flags)?;
        let is_erasure = view.map().pool(serving).is_some_and(PgPool::is_erasure);
        if is_erasure || flags.intersects(ANYWHERE) {
            return Ok(None);
        }
        Ok(Some(Known { pool, serving, flags, paused: view.pauses(pool, flags) }))
    }
}
