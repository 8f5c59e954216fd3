//! Where an operation belongs: the map, asked.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use loligo_maps::{MapFlags, OsdMap, PgPool, PoolFlags, Target, Targets};
use loligo_wire::message::osd::{ObjectLocator, OsdFlags};
use loligo_wire::{EntityAddr, Epoch, OsdId, PgId, PoolId, SpgId};

use super::replica::{ANYWHERE, Location, nearest};
use crate::error::Errno;

/// A map, with what was computed from it.
pub(crate) struct MapView {
    targets: Targets,
    location: Arc<Location>,
    /// How far each OSD is, once a read has wanted the nearest.
    distances: OnceLock<Box<[u16]>>,
    /// Which copy the next read that is to be balanced goes to.
    turn: AtomicUsize,
}

/// Where an operation belongs, by one map.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placement {
    pub(super) spgid: SpgId,
    /// The pool that was asked for; another serves it if a cache tier lies over it.
    pub(super) pool: PoolId,
    pub(super) hash: u32,
    pub(super) epoch: Epoch,
    /// Where it goes, mostly the primary; `None` while nobody serves the placement group. Its address is the
    /// session's.
    pub(super) osd: Option<OsdId>,
    /// Whether it has to wait: reads or writes are paused, or there is no space.
    pub(super) paused: bool,
    /// The operation's flags.
    pub(super) flags: OsdFlags,
}

/// Why an operation belongs nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unplaceable {
    /// There is no such pool (in this map).
    NoPool,
    /// The pool is set to fail everything.
    Failing,
}

impl Unplaceable {
    /// What such an operation ends with.
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
    /// The map, seen from a place.
    pub(crate) fn new(map: OsdMap, location: Arc<Location>) -> Self {
        let (distances, turn) = (OnceLock::new(), AtomicUsize::new(0));
        Self { targets: Targets::new(Arc::new(map)), location, distances, turn }
    }

    /// The map.
    pub(crate) fn map(&self) -> &OsdMap {
        self.targets.map()
    }

    pub(crate) fn epoch(&self) -> Epoch {
        self.map().epoch
    }

    /// The hash by which an object is placed; `None` if there is no such pool.
    pub(crate) fn hash_of(&self, pool: PoolId, nspace: &[u8], key: &[u8], oid: &[u8]) -> Option<u32> {
        self.targets.target(pool, nspace, key, oid).map(|target| target.hash)
    }

    /// Where an operation with these flags on this object belongs.
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

    /// For placing many operations again.
    pub(super) fn places_again(&self) -> PlacesAgain<'_> {
        PlacesAgain { view: self, known: None }
    }

    /// Where an operation belongs that was placed by an earlier map, for the same object and with the same
    /// flags.
    fn place_again(&self, place: &Placement) -> Result<Placement, Unplaceable> {
        // Full hashes do not change: how a pool hashes is settled when it is made.
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

    /// Where an OSD listens.
    pub(super) fn addr_of(&self, osd: OsdId) -> Option<EntityAddr> {
        self.map().client_addrs(osd)?.msgr2().copied()
    }

    /// Whether an OSD listens anywhere.
    fn listens(&self, osd: OsdId) -> bool {
        self.map().client_addrs(osd).is_some_and(|addrs| addrs.msgr2().is_some())
    }

    /// One of the OSDs that have a placement group: the nearest, or each in turn. Costs a CRUSH placement, a
    /// few microseconds.
    #[cold]
    fn copy_of(&self, pg: PgId, flags: OsdFlags) -> Option<OsdId> {
        let acting = self.map().pg_to_up_acting(pg).acting;
        if flags.contains(OsdFlags::LOCALIZE_READS) {
            let distances = self.distances.get_or_init(|| self.location.distances(self.map()));
            return nearest(distances, acting.iter().copied());
        }
        // Relaxed: that the copies take turns need not be exact.
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        acting.get(turn % acting.len().max(1)).copied()
    }

    /// The pool that serves a pool: itself, unless a cache tier lies over it.
    fn serving_pool(&self, id: PoolId, flags: OsdFlags) -> Result<PoolId, Unplaceable> {
        let pool = self.map().pool(id).ok_or(Unplaceable::NoPool)?;
        if pool.flags.has(PoolFlags::EIO) {
            return Err(Unplaceable::Failing);
        }
        let tier = match flags {
            _ if flags.contains(OsdFlags::IGNORE_OVERLAY) => PoolId(-1),
            _ if flags.contains(OsdFlags::WRITE) => pool.tier.write_tier,
            _ => pool.tier.read_tier,
        };
        Ok(if tier.0 >= 0 { tier } else { id })
    }

    /// The primary's position in an erasure-coded placement group.
    fn primary_shard(&self, pg: PgId, primary: Option<OsdId>) -> i8 {
        let acting = self.map().pg_to_up_acting(pg).acting;
        let at = acting.iter().position(|osd| Some(*osd) == primary);
        at.and_then(|at| i8::try_from(at).ok()).unwrap_or(SpgId::NO_SHARD)
    }

    /// Whether the map keeps the client out whose addresses have this number.
    pub(super) fn keeps_out(&self, nonce: u32) -> bool {
        // 0 stands for all clients of a host. Those, and networks, are told by the OSDs: only they know where
        // they see us.
        nonce != 0 && self.map().blocklist.addrs.keys().any(|addr| addr.nonce == nonce)
    }

    /// Whether operations with these flags on a pool have to wait.
    pub(super) fn pauses(&self, pool: PoolId, flags: OsdFlags) -> bool {
        let map = self.map();
        if flags.contains(OsdFlags::READ) && map.flags.has(MapFlags::PAUSERD) {
            return true;
        }
        if !flags.contains(OsdFlags::WRITE) {
            return false;
        }
        let heeds_full = !flags.intersects(OsdFlags::FULL_TRY | OsdFlags::FULL_FORCE);
        let full = || {
            map.flags.has(MapFlags::FULL)
                || map.pool(pool).is_some_and(|pool| pool.flags.has(PoolFlags::FULL))
        };
        map.flags.has(MapFlags::PAUSEWR) || (heeds_full && full())
    }

    /// Whether an OSD is up and listens there.
    pub(super) fn serves(&self, osd: OsdId, addr: EntityAddr) -> bool {
        self.map().client_addrs(osd).and_then(|addrs| addrs.msgr2()) == Some(&addr)
    }

    /// Whether a placement group goes on in this map as it was in `old`. If not, its OSDs may have dropped
    /// what was sent to them.
    pub(super) fn continues(&self, old: &Self, pg: PgId) -> bool {
        let (Some(before), Some(now)) = (old.map().pool(pg.pool), self.map().pool(pg.pool)) else {
            return false;
        };
        before.pg_num() == now.pg_num()
            && before.size == now.size
            && before.min_size == now.min_size
            && before.last_force_op_resend == now.last_force_op_resend
            && !now.flags.has(PoolFlags::EIO)
            && old.map().pg_to_up_acting(pg) == self.map().pg_to_up_acting(pg)
    }
}

/// Places operations again one after the other, and keeps in mind what those of one pool have in common.
pub(super) struct PlacesAgain<'a> {
    view: &'a MapView,
    known: Option<Known>,
}

/// Of a replicated pool's operations with the same flags, for the primary.
struct Known {
    pool: PoolId,
    serving: PoolId,
    flags: OsdFlags,
    paused: bool,
}

impl PlacesAgain<'_> {
    /// Gives an operation that was placed by an earlier map its place in this one, for the same object and
    /// with the same flags.
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

    /// `None` where each operation has to be looked at in full.
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
