//! An operation's placement and history.
//!
//! They are stored in the operation, so that it moves between tables as a pointer. They need no lock, because
//! only an exclusive holder of the operation writes a flight: at first the submitter, which writes under the
//! lock of the session that admits the operation, and afterwards the one [steward](super::steward), because
//! only the steward resends. Other readers (reply handlers, observers) find the operation in a table under
//! its session's lock, which the writer held to put it there.

use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwapOption;
use loligo_wire::message::osd::{HObject, MOSDOp, ObjectLocator, OsdFlags};
use loligo_wire::{Epoch, OsdId, PgId, PoolId, SpgId};

use super::replica::ANYWHERE;
use super::target::{MapView, Placement};

/// An operation's placement and history at one moment.
#[derive(Clone)]
pub(super) struct Flight {
    pub(super) place: Placement,
    /// How often the operation was sent or queued to be sent.
    pub(super) attempts: i32,
    /// The target that replaces the requested one.
    pub(super) elsewhere: Option<Arc<Elsewhere>>,
    /// `true` after EAGAIN or a redirect: the operation then goes to the primary.
    pub(super) primary_only: bool,
}

/// The target of a redirect by an OSD: another object, or the same object in another pool (a cache tier
/// redirects to its base pool).
pub(super) struct Elsewhere {
    pub(super) locator: ObjectLocator,
    pub(super) oid: Vec<u8>,
    pub(super) flags: OsdFlags,
}

impl Flight {
    /// Returns a request's target: locator, object name and flags.
    pub(super) fn address<'a>(&'a self, request: &'a MOSDOp) -> (&'a ObjectLocator, &'a [u8], OsdFlags) {
        let flags = if self.primary_only { request.flags.difference(ANYWHERE) } else { request.flags };
        match &self.elsewhere {
            Some(elsewhere) => (&elsewhere.locator, &elsewhere.oid, flags | elsewhere.flags),
            None => (&request.locator, &request.oid, flags),
        }
    }

    /// Returns the flight of an unplaced request by this map. A request that cannot be placed has no OSD.
    pub(super) fn expected(request: &MOSDOp, view: &MapView) -> Self {
        let MOSDOp { locator, oid, flags, .. } = request;
        let place = view.place(locator, oid, *flags).unwrap_or_else(|_| Placement {
            spgid: SpgId::whole(PgId { pool: locator.pool, seed: 0 }),
            pool: locator.pool,
            hash: 0,
            epoch: view.epoch(),
            osd: None,
            paused: false,
            flags: *flags,
        });
        Self { place, attempts: 0, elsewhere: None, primary_only: false }
    }

    /// Returns the target object.
    pub(super) fn object(&self, request: &MOSDOp) -> HObject {
        let (locator, oid, _) = self.address(request);
        HObject {
            key: locator.key.clone(),
            oid: oid.to_vec(),
            snap: request.snapid,
            hash: self.place.hash,
            max: false,
            nspace: locator.nspace.clone(),
            pool: self.place.spgid.pgid.pool.0,
        }
    }
}

/// A [`Flight`] that is read and written field by field, without a lock. The [module's](self)
/// documentation says which code may write it.
///
/// All accesses are Relaxed. A write happens before a read because of the lock of the session under
/// which the reader found the operation, or because reader and writer are the same task.
pub(super) struct FlightCell {
    serving: AtomicU64,
    pool: AtomicU64,
    hash: AtomicU32,
    seed: AtomicU32,
    epoch: AtomicU32,
    /// [`NOBODY`] if there is no OSD.
    osd: AtomicI32,
    flags: AtomicU32,
    attempts: AtomicI32,
    /// The shard in the lowest eight bits, and [`PAUSED`], [`PRIMARY_ONLY`] and [`ELSEWHERE`].
    rest: AtomicU32,
    /// Created on first use, because dropping an `ArcSwap` searches for concurrent readers.
    elsewhere: OnceLock<ArcSwapOption<Elsewhere>>,
}

/// Stands for "no OSD" in `osd`.
const NOBODY: i32 = -1;
const PAUSED: u32 = 1 << 8;
const PRIMARY_ONLY: u32 = 1 << 9;
/// Set if there is an [`Elsewhere`]. There rarely is one, and this flag is cheaper to test.
const ELSEWHERE: u32 = 1 << 10;

impl FlightCell {
    /// Creates a cell without a placement.
    pub(super) fn new() -> Self {
        Self {
            serving: AtomicU64::new(0),
            pool: AtomicU64::new(0),
            hash: AtomicU32::new(0),
            seed: AtomicU32::new(0),
            epoch: AtomicU32::new(0),
            osd: AtomicI32::new(NOBODY),
            flags: AtomicU32::new(0),
            attempts: AtomicI32::new(0),
            rest: AtomicU32::new(0),
            elsewhere: OnceLock::new(),
        }
    }

    pub(super) fn load(&self) -> Flight {
        let rest = self.rest.load(Ordering::Relaxed);
        let elsewhere = (rest & ELSEWHERE != 0).then(|| self.elsewhere.get()?.load_full()).flatten();
        let primary_only = rest & PRIMARY_ONLY != 0;
        Flight { place: self.place(), attempts: self.attempts(), elsewhere, primary_only }
    }

    pub(super) fn store(&self, flight: Flight) {
        let primary_only = if flight.primary_only { PRIMARY_ONLY } else { 0 };
        let elsewhere = if flight.elsewhere.is_some() { ELSEWHERE } else { 0 };
        self.rest.store(primary_only | elsewhere, Ordering::Relaxed);
        self.attempts.store(flight.attempts, Ordering::Relaxed);
        match flight.elsewhere {
            Some(elsewhere) => self.elsewhere.get_or_init(ArcSwapOption::empty).store(Some(elsewhere)),
            None => self.elsewhere.get().into_iter().for_each(|cell| cell.store(None)),
        }
        self.set_place(&flight.place);
    }

    #[inline]
    pub(super) fn place(&self) -> Placement {
        let rest = self.rest.load(Ordering::Relaxed);
        let pool = |pool: &AtomicU64| PoolId(pool.load(Ordering::Relaxed) as i64);
        let pgid = PgId { pool: pool(&self.serving), seed: self.seed.load(Ordering::Relaxed) };
        let osd = self.osd.load(Ordering::Relaxed);
        Placement {
            spgid: SpgId { pgid, shard: rest as u8 as i8 },
            pool: pool(&self.pool),
            hash: self.hash.load(Ordering::Relaxed),
            epoch: Epoch(self.epoch.load(Ordering::Relaxed)),
            osd: (osd != NOBODY).then_some(OsdId(osd)),
            paused: rest & PAUSED != 0,
            flags: OsdFlags::from_bits_retain(self.flags.load(Ordering::Relaxed)),
        }
    }

    #[inline]
    pub(super) fn set_place(&self, place: &Placement) {
        let Placement { spgid, pool, hash, epoch, osd, paused, flags } = *place;
        self.serving.store(spgid.pgid.pool.0 as u64, Ordering::Relaxed);
        self.pool.store(pool.0 as u64, Ordering::Relaxed);
        self.hash.store(hash, Ordering::Relaxed);
        self.seed.store(spgid.pgid.seed, Ordering::Relaxed);
        self.epoch.store(epoch.0, Ordering::Relaxed);
        self.osd.store(osd.map_or(NOBODY, |osd| osd.0), Ordering::Relaxed);
        self.flags.store(flags.bits(), Ordering::Relaxed);
        let kept = self.rest.load(Ordering::Relaxed) & (PRIMARY_ONLY | ELSEWHERE);
        let paused = if paused { PAUSED } else { 0 };
        self.rest.store(kept | paused | u32::from(spgid.shard as u8), Ordering::Relaxed);
    }

    /// Returns the placement seed and the hash if they describe the whole target: the requested pool,
    /// the whole placement group, the named object.
    #[inline]
    pub(super) fn usual(&self) -> Option<(u32, u32)> {
        let rest = self.rest.load(Ordering::Relaxed);
        let is_whole = rest as u8 as i8 == SpgId::NO_SHARD && rest & (PRIMARY_ONLY | ELSEWHERE) == 0;
        let serves_itself = self.serving.load(Ordering::Relaxed) == self.pool.load(Ordering::Relaxed);
        (is_whole && serves_itself)
            .then(|| (self.seed.load(Ordering::Relaxed), self.hash.load(Ordering::Relaxed)))
    }

    #[inline]
    pub(super) fn is_paused(&self) -> bool {
        self.rest.load(Ordering::Relaxed) & PAUSED != 0
    }

    /// Increments the number of attempts. There is one writer at a time.
    #[inline]
    pub(super) fn next_attempt(&self) -> i32 {
        let attempts = self.attempts() + 1;
        self.set_attempts(attempts);
        attempts
    }

    /// How often the operation was sent or queued to be sent.
    #[inline]
    pub(super) fn attempts(&self) -> i32 {
        self.attempts.load(Ordering::Relaxed)
    }

    pub(super) fn set_attempts(&self, attempts: i32) {
        self.attempts.store(attempts, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_gives_back_what_was_put_in() {
        let cell = FlightCell::new();
        let pgid = PgId { pool: PoolId(-7), seed: u32::MAX };
        let place = Placement {
            spgid: SpgId { pgid, shard: -1 },
            pool: PoolId(i64::MAX),
            hash: 0xdead_beef,
            epoch: Epoch(9),
            osd: Some(OsdId(3)),
            paused: true,
            flags: OsdFlags::READ | OsdFlags::BALANCE_READS,
        };
        let elsewhere = Elsewhere {
            locator: ObjectLocator::default(),
            oid: b"there".to_vec(),
            flags: OsdFlags::REDIRECTED,
        };
        cell.store(Flight { place, attempts: 4, elsewhere: Some(Arc::new(elsewhere)), primary_only: true });
        let shown = |place: Placement| format!("{place:?}");
        let flight = cell.load();
        assert_eq!(shown(flight.place), shown(place));
        assert_eq!((flight.attempts, flight.primary_only), (4, true));
        assert_eq!(flight.elsewhere.expect("there is one").oid, b"there");
        let next = Placement { spgid: SpgId { pgid, shard: 5 }, osd: None, paused: false, ..place };
        cell.set_place(&next);
        assert_eq!(shown(cell.place()), shown(next));
        assert!(cell.load().primary_only, "it outlives the place");
        cell.set_attempts(5);
        assert_eq!((cell.attempts(), cell.next_attempt(), cell.attempts()), (5, 6, 6));
        assert_eq!(cell.usual(), None, "it goes elsewhere");
        cell.store(Flight { place, attempts: 0, elsewhere: None, primary_only: false });
        assert_eq!(cell.usual(), None, "another pool serves it");
        cell.set_place(&Placement { pool: pgid.pool, ..place });
        assert_eq!(cell.usual(), Some((u32::MAX, 0xdead_beef)));
    }
}
