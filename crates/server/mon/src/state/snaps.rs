//! Pool snapshots, and ids for snapshots that clients manage. A pool supports only one of the two.

use loligo_maps::{PgPool, PoolFlags, PoolSnap, SnapSet};
use loligo_wire::{Epoch, PoolId, SnapId, UTime};

use super::State;
use crate::failure::Failure;
use crate::text;

/// The id before the first one that is assigned to a client, as in Ceph.
const UNMANAGED_SEQ_FIRST: u64 = 1;

impl State {
    /// Creates a snapshot of a whole pool. Returns `false` if one of this name exists.
    ///
    /// # Errors
    /// The pool's snapshots are managed by clients, or the pool does not exist.
    pub fn create_pool_snap(&mut self, now: UTime, id: PoolId, name: &str) -> Result<bool, Failure> {
        let pool = self.pool_with_snaps(id)?;
        if pool.snap_named(&text::to_bytes(name)).is_some() {
            return Ok(false);
        }
        let epoch = self.next_epoch();
        self.change_pool(now, id, |pool| {
            pool.snap_seq.0 += 1;
            pool.snap_epoch = epoch;
            pool.flags = pool.flags.union(PoolFlags::POOL_SNAPS);
            pool.snaps
                .insert(pool.snap_seq, PoolSnap { id: pool.snap_seq, stamp: now, name: text::name(name) });
        })?;
        Ok(true)
    }

    /// Removes a snapshot of a whole pool. Returns `false` if none has this name. The OSD removes it
    /// from all objects.
    ///
    /// # Errors
    /// As for [`State::create_pool_snap`].
    pub fn remove_pool_snap(&mut self, now: UTime, id: PoolId, name: &str) -> Result<bool, Failure> {
        let pool = self.pool_with_snaps(id)?;
        let Some(snap) = pool.snap_named(&text::to_bytes(name)) else { return Ok(false) };
        let mut after = pool.clone();
        after.snaps.remove(&snap);
        self.remove_snap(now, id, after, snap)?;
        Ok(true)
    }

    /// Assigns an id to a client-managed snapshot.
    ///
    /// # Errors
    /// The pool has pool snapshots, or does not exist.
    pub fn create_snap_id(&mut self, now: UTime, id: PoolId) -> Result<SnapId, Failure> {
        self.check_selfmanaged(id)?;
        let epoch = self.next_epoch();
        let mut snap = SnapId(0);
        self.change_pool(now, id, |pool| {
            pool.snap_seq = SnapId(pool.snap_seq.0.max(UNMANAGED_SEQ_FIRST) + 1);
            pool.snap_epoch = epoch;
            pool.flags = pool.flags.union(PoolFlags::SELFMANAGED_SNAPS);
            snap = pool.snap_seq;
        })?;
        Ok(snap)
    }

    /// Removes a client-managed snapshot. Removing it again has no effect.
    ///
    /// # Errors
    /// The id was never assigned; the pool has pool snapshots, or does not exist.
    pub fn remove_snap_id(&mut self, now: UTime, id: PoolId, snap: SnapId) -> Result<(), Failure> {
        let pool = self.check_selfmanaged(id)?;
        if snap > pool.snap_seq {
            return Err(Failure::missing(format!("snapshot {snap} of pool {id} does not exist")));
        }
        if self.osdmap().removed_snaps_queue.get(&id).is_some_and(|queue| queue.contains(snap)) {
            return Ok(());
        }
        let after = pool.clone();
        self.remove_snap(now, id, after, snap)
    }

    /// Records that the OSD has removed snapshots from all objects of a pool. They leave the queue of
    /// removed snapshots.
    pub fn purged_snaps(&mut self, now: UTime, id: PoolId, snaps: &SnapSet) -> Result<(), Failure> {
        let Some(queue) = self.osdmap().removed_snaps_queue.get(&id) else { return Ok(()) };
        let mut kept = queue.clone();
        kept.subtract(snaps);
        let mut purged = queue.clone();
        purged.subtract(&kept);
        if purged.is_empty() {
            return Ok(());
        }
        self.change_osdmap(now, |_, inc| drop(inc.new_purged_snaps.insert(id, purged))).map(|_| ())
    }

    /// Removes a snapshot. The removal also takes an id, so that clients with an older snapshot context
    /// see that the pool's snapshots have changed.
    fn remove_snap(
        &mut self,
        now: UTime,
        id: PoolId,
        mut after: PgPool,
        snap: SnapId,
    ) -> Result<(), Failure> {
        after.snap_seq.0 += 1;
        after.snap_epoch = self.next_epoch();
        self.change_osdmap(now, |_, inc| {
            inc.new_pools.insert(id, after);
            inc.new_removed_snaps.entry(id).or_default().insert(snap);
        })
        .map(|_| ())
    }

    fn next_epoch(&self) -> Epoch {
        Epoch(self.osdmap().epoch.0 + 1)
    }

    fn pool_with_snaps(&self, id: PoolId) -> Result<&PgPool, Failure> {
        match self.osdmap().pool(id) {
            None => Err(Failure::missing(format!("there is no pool {id}"))),
            Some(pool) if pool.flags.contains(PoolFlags::SELFMANAGED_SNAPS) => {
                let name = self.osdmap().pool_name(id).map(text::of).unwrap_or_default();
                Err(Failure::invalid(format!("pool {name} is in unmanaged snaps mode")))
            }
            Some(pool) => Ok(pool),
        }
    }

    fn check_selfmanaged(&self, id: PoolId) -> Result<&PgPool, Failure> {
        match self.osdmap().pool(id) {
            None => Err(Failure::missing(format!("there is no pool {id}"))),
            Some(pool) if pool.flags.contains(PoolFlags::POOL_SNAPS) => {
                Err(Failure::invalid(format!("pool {id} has pool snapshots")))
            }
            Some(pool) => Ok(pool),
        }
    }
}
