//! The object map of an image that is being written.
//!
//! The map is stored in the cluster; a copy of it is in memory while this client owns the exclusive
//! lock. Before the first write to an object the map marks it EXISTS; before a removal, PENDING; after
//! it, NONEXISTENT. A failure in between never leaves an existing object marked NONEXISTENT.
//!
//! Each object that is being changed has an entry. Writers share the entry; a removal holds it
//! exclusively. A task therefore waits only for changes of the same object.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use loligo_lockstat::{Class, Mutex};
use loligo_rados::{Errno, IoCtx, LockMode, LockOptions, WriteOp};
use loligo_wire::rbd::ObjectMap;
use loligo_wire::rbd::object_map::{EXISTS, NONEXISTENT, PENDING};
use loligo_wire::{Encode as _, Name, Writer};
use smallvec::SmallVec;
use tokio::sync::Notify;

use crate::call::{ask, telling};
use crate::{Error, names};

/// Held for a short access to the entries when a change of objects begins or ends.
static ENTRIES: Class = Class::new("rbd.object_map.entries");

/// The name of the lock on an object map's object, and of the exclusive lock (`RBD_LOCK_NAME`).
pub(crate) const LOCK: &str = "rbd_lock";

/// The object map of an image, and the objects being changed.
pub(crate) struct Keeper {
    io: IoCtx,
    oid: Name,
    state: Mutex<State>,
    changed: Notify,
    /// A change of the whole map was dropped before its result was known: the copy may differ from the
    /// stored map.
    doubtful: AtomicBool,
}

#[derive(Default)]
struct State {
    /// `None`: there is no map, or it is invalid.
    map: Option<ObjectMap>,
    entries: HashMap<u64, Entry>,
}

#[derive(Default)]
struct Entry {
    writers: u32,
    /// The object is being removed.
    busy: bool,
}

impl Keeper {
    pub(crate) fn new(io: IoCtx, id: &str) -> Self {
        let state = Mutex::new(&ENTRIES, State::default());
        Self {
            io,
            oid: names::object_map(id, None),
            state,
            changed: Notify::new(),
            doubtful: AtomicBool::new(false),
        }
    }

    /// Takes the map's lock, breaking that of a previous holder, and reads the map. The caller must own
    /// the exclusive lock.
    pub(crate) async fn open(&self, objects: u64) -> Result<(), Error> {
        self.take_lock().await?;
        let mut map = load(&self.io, &self.oid).await?;
        if map.count() < objects {
            self.resize_stored(objects).await?;
            map.resize(objects, NONEXISTENT);
        }
        self.state.lock().map = Some(map);
        self.doubtful.store(false, Ordering::Release);
        Ok(())
    }

    async fn take_lock(&self) -> Result<(), Error> {
        loop {
            let done = self.io.lock(&*self.oid, LOCK, LockMode::Exclusive, &LockOptions::default()).await;
            match done {
                Err(e) if e.errno() == Errno::EBUSY => {
                    for holder in self.io.lock_info(&*self.oid, LOCK).await?.holders {
                        let broken =
                            self.io.break_lock(&*self.oid, LOCK, holder.client, &holder.cookie).await;
                        if let Err(e) = broken
                            && !e.is_not_found()
                        {
                            return Err(e.into());
                        }
                    }
                }
                Err(e) if e.errno() == Errno::EEXIST => return Ok(()),
                done => return Ok(done?),
            }
        }
    }

    /// Drops the map and releases its lock.
    pub(crate) async fn close(&self) -> Result<(), Error> {
        let had_map = {
            let mut state = self.state.lock();
            debug_assert!(state.entries.is_empty(), "who closes the map is alone");
            state.map.take().is_some()
        };
        if !had_map {
            return Ok(());
        }
        match self.io.unlock(&*self.oid, LOCK, "").await {
            Err(e) if !e.is_not_found() => Err(e.into()),
            _ => Ok(()),
        }
    }

    pub(crate) fn is_doubtful(&self) -> bool {
        self.doubtful.load(Ordering::Acquire)
    }

    /// Reloads the copy if it is doubtful. Needs exclusive access.
    pub(crate) async fn be_certain(&self) -> Result<(), Error> {
        if self.is_doubtful() && self.is_open() {
            self.reload().await?;
        }
        self.doubtful.store(false, Ordering::Release);
        Ok(())
    }

    fn doubt(&self) {
        self.doubtful.store(true, Ordering::Release);
    }

    pub(crate) fn is_open(&self) -> bool {
        self.state.lock().map.is_some()
    }

    /// Whether the map marks the object NONEXISTENT. Without a map the object may exist.
    pub(crate) fn is_missing(&self, object: u64) -> bool {
        self.state.lock().map.as_ref().is_some_and(|map| map.get(object) == NONEXISTENT)
    }

    /// Marks these objects, in ascending order, EXISTS. None of them is removed while the result lives.
    pub(crate) async fn writing(&self, objects: &[u64]) -> Result<Writing<'_>, Error> {
        let mut held = self.held(objects).await;
        let (unmarked, missing) = self.unmarked(objects);
        if !unmarked.is_empty() {
            // Boxed, so that futures stay small for writes to objects already marked.
            Box::pin(self.mark(&unmarked)).await?;
        }
        held.missing = missing;
        Ok(held)
    }

    /// Keeps an object from being removed while the result lives, without marking it.
    pub(crate) async fn holding(&self, object: u64) -> Writing<'_> {
        self.held(&[object]).await
    }

    async fn held(&self, objects: &[u64]) -> Writing<'_> {
        let mut held =
            Writing { keeper: self, objects: SmallVec::with_capacity(objects.len()), missing: Vec::new() };
        for object in objects {
            self.enter(*object, |entry| {
                entry.writers += 1;
                true
            })
            .await;
            held.objects.push(*object);
        }
        held
    }

    /// Marks a held object that was copied up with `state`. A mark set meanwhile by a writer has
    /// precedence.
    pub(crate) async fn copying(&self, object: u64, state: u8) -> Result<(), Error> {
        let now = self.state.lock().map.as_ref().map(|map| map.get(object));
        match now {
            Some(NONEXISTENT) => self.update(object, object + 1, state, now).await,
            Some(PENDING) => self.mark(&[object]).await,
            _ => Ok(()),
        }
    }

    /// Waits until no removal of the object runs.
    async fn enter(&self, object: u64, mut take: impl FnMut(&mut Entry) -> bool) {
        loop {
            let changed = self.changed.notified();
            {
                let mut state = self.state.lock();
                let entry = state.entries.entry(object).or_default();
                if !entry.busy && take(entry) {
                    return;
                }
            }
            changed.await;
        }
    }

    /// Returns the objects the map does not mark EXISTS, and, of those, the ones it marks NONEXISTENT.
    fn unmarked(&self, objects: &[u64]) -> (Vec<u64>, Vec<u64>) {
        let state = self.state.lock();
        let Some(map) = &state.map else { return Default::default() };
        let unmarked = objects.iter().copied().filter(|n| map.get(*n) != EXISTS);
        let missing = objects.iter().copied().filter(|n| map.get(*n) == NONEXISTENT);
        (unmarked.collect(), missing.collect())
    }

    /// Marks objects EXISTS.
    async fn mark(&self, objects: &[u64]) -> Result<(), Error> {
        // Concurrent tasks may mark the same object; the mark is the same.
        let updates = runs(objects).into_iter().map(|(from, to)| self.update(from, to, EXISTS, None));
        futures_util::future::try_join_all(updates).await.map(drop)
    }

    /// Removes an object exclusively, and updates the map before and after.
    pub(crate) async fn removing(
        &self,
        object: u64,
        remove: impl Future<Output = Result<(), Error>>,
    ) -> Result<(), Error> {
        self.thinning(object, async { remove.await.map(|()| false) }).await
    }

    /// As `Keeper::removing`, for a change that may remove the object; `change` returns whether the
    /// object still exists.
    pub(crate) async fn thinning(
        &self,
        object: u64,
        change: impl Future<Output = Result<bool, Error>>,
    ) -> Result<(), Error> {
        if self.is_missing(object) {
            return Ok(());
        }
        self.enter(object, |entry| {
            entry.busy = entry.writers == 0;
            entry.busy
        })
        .await;
        let _busy = Removing { keeper: self, object };
        if self.is_open() {
            // The copy first: if this future is dropped before the reply, the next writer still marks
            // the object EXISTS.
            self.set(object, object + 1, PENDING, None);
            self.update(object, object + 1, PENDING, None).await?;
        }
        let changed = change.await;
        if !self.is_open() {
            return changed.map(drop);
        }
        // After a failure the object may still exist.
        let state = if changed.as_ref().is_ok_and(|is_there| !is_there) { NONEXISTENT } else { EXISTS };
        let told = self.update(object, object + 1, state, Some(PENDING)).await;
        // The first failure is returned.
        changed.and(told)
    }

    async fn update(&self, from: u64, to: u64, state: u8, only: Option<u8>) -> Result<(), Error> {
        let op = telling(self.locked(), "object_map_update", |w| {
            w.u64(from);
            w.u64(to);
            w.u8(state);
            w.put(&only);
        });
        self.io.operate(&*self.oid, op).await?;
        self.set(from, to, state, only);
        Ok(())
    }

    fn set(&self, from: u64, to: u64, state: u8, only: Option<u8>) {
        if let Some(map) = &mut self.state.lock().map {
            (from..to)
                .filter(|n| only.is_none_or(|only| map.get(*n) == only))
                .collect::<Vec<_>>()
                .into_iter()
                .for_each(|n| map.set(n, state));
        }
    }

    /// An operation that fails unless this client still holds the map's lock.
    fn locked(&self) -> WriteOp {
        let mut w = Writer::new();
        w.versioned(1, 1, |w| {
            w.put(LOCK);
            w.u8(1);
            w.put("");
            w.put("");
        });
        WriteOp::new().exec("lock", "assert_locked", &w.into_bytes())
    }

    /// Resizes the map to `objects`. Objects behind the new end must be gone.
    pub(crate) async fn resize(&self, objects: u64) -> Result<(), Error> {
        if !self.is_open() {
            return Ok(());
        }
        self.doubt();
        self.resize_stored(objects).await?;
        if let Some(map) = &mut self.state.lock().map {
            map.resize(objects, NONEXISTENT);
        }
        self.doubtful.store(false, Ordering::Release);
        Ok(())
    }

    async fn resize_stored(&self, objects: u64) -> Result<(), Error> {
        let op = telling(self.locked(), "object_map_resize", |w| {
            w.u64(objects);
            w.u8(NONEXISTENT);
        });
        Ok(self.io.operate(&*self.oid, op).await?)
    }

    /// Stores the map as that of a snapshot.
    pub(crate) async fn keep_as(&self, id: &str, snap: u64) -> Result<(), Error> {
        if !self.is_open() {
            return Ok(());
        }
        let stored = self.io.read(&*self.oid, 0, 0).await?;
        Ok(self.io.write_full(names::object_map(id, Some(snap)), stored).await?)
    }

    /// Marks all existing objects of the image's map unchanged since the newest snapshot.
    pub(crate) async fn begin_diff(&self) -> Result<(), Error> {
        if !self.is_open() {
            return Ok(());
        }
        self.doubt();
        self.io.operate(&*self.oid, telling(self.locked(), "object_map_snap_add", |_| {})).await?;
        self.reload().await
    }

    /// Adds the changes before this snapshot to the next snapshot's map (`next`, or the image's). It may
    /// be repeated.
    pub(crate) async fn pass_on(&self, id: &str, snap: u64, next: Option<u64>) -> Result<(), Error> {
        if !self.is_open() {
            return Ok(());
        }
        let map = load(&self.io, &names::object_map(id, Some(snap))).await?;
        let (op, oid) = match next {
            Some(next) => (WriteOp::new(), names::object_map(id, Some(next))),
            None => (self.locked(), self.oid.clone()),
        };
        self.doubt();
        let op = telling(op, "object_map_snap_remove", |w| map.encode_with(w, true));
        self.io.operate(oid, op).await?;
        self.reload().await
    }

    /// Removes the map of a removed snapshot.
    pub(crate) async fn forget(&self, id: &str, snap: u64) -> Result<(), Error> {
        match self.io.remove(names::object_map(id, Some(snap))).await {
            Err(e) if !e.is_not_found() => Err(e.into()),
            _ => Ok(()),
        }
    }

    /// Prepares a roll-back of the image, which has `objects` objects, to a snapshot: during it the
    /// image may have the objects of both.
    pub(crate) async fn begin_roll_back(&self, id: &str, snap: u64, objects: u64) -> Result<(), Error> {
        if !self.is_open() {
            return Ok(());
        }
        let then = load(&self.io, &names::object_map(id, Some(snap))).await?;
        let mut map = load(&self.io, &self.oid).await?;
        map.resize(objects, NONEXISTENT);
        let there = then.count().min(objects);
        (0..there).filter(|n| then.get(*n) != NONEXISTENT).for_each(|n| map.set(n, EXISTS));
        self.replace(map).await
    }

    /// Finishes a roll-back of the image, which has `objects` objects, to a snapshot.
    pub(crate) async fn roll_back(&self, id: &str, snap: u64, objects: u64) -> Result<(), Error> {
        if !self.is_open() {
            return Ok(());
        }
        let mut map = load(&self.io, &names::object_map(id, Some(snap))).await?;
        map.resize(objects, NONEXISTENT);
        // All existing objects count as changed since the newest snapshot.
        (0..objects)
            .filter(|n| map.get(*n) != NONEXISTENT)
            .collect::<Vec<_>>()
            .iter()
            .for_each(|n| map.set(*n, EXISTS));
        self.replace(map).await
    }

    /// Creates the map, or replaces an existing one.
    pub(crate) async fn make(&self, map: ObjectMap) -> Result<(), Error> {
        self.take_lock().await?;
        self.replace(map).await
    }

    /// Replaces the map.
    pub(crate) async fn replace(&self, map: ObjectMap) -> Result<(), Error> {
        self.doubt();
        self.io.operate(&*self.oid, self.locked().write_full(map.to_bytes())).await?;
        self.state.lock().map = Some(map);
        self.doubtful.store(false, Ordering::Release);
        Ok(())
    }

    async fn reload(&self) -> Result<(), Error> {
        let map = load(&self.io, &self.oid).await?;
        self.state.lock().map = Some(map);
        self.doubtful.store(false, Ordering::Release);
        Ok(())
    }
}

/// Reads a stored map.
pub(crate) async fn load(io: &IoCtx, oid: &Name) -> Result<ObjectMap, Error> {
    ask(io, oid, "object_map_load", |_| {}).await
}

/// Objects that are being written.
pub(crate) struct Writing<'a> {
    keeper: &'a Keeper,
    objects: SmallVec<[u64; 1]>,
    missing: Vec<u64>,
}

impl Writing<'_> {
    /// Whether the map marked the object NONEXISTENT before this write.
    pub(crate) fn was_missing(&self, object: u64) -> bool {
        self.missing.binary_search(&object).is_ok()
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        let mut state = self.keeper.state.lock();
        for object in &self.objects {
            if let Some(entry) = state.entries.get_mut(object) {
                entry.writers -= 1;
                if entry.writers == 0 && !entry.busy {
                    state.entries.remove(object);
                }
            }
        }
        drop(state);
        self.keeper.changed.notify_waiters();
    }
}

struct Removing<'a> {
    keeper: &'a Keeper,
    object: u64,
}

impl Drop for Removing<'_> {
    fn drop(&mut self) {
        self.keeper.state.lock().entries.remove(&self.object);
        self.keeper.changed.notify_waiters();
    }
}

/// Groups consecutive numbers into ranges: the first number and the one behind the last.
fn runs(numbers: &[u64]) -> Vec<(u64, u64)> {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for n in numbers {
        match runs.last_mut() {
            Some((_, end)) if *end == *n => *end += 1,
            _ => runs.push((*n, *n + 1)),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_of_neighbours() {
        assert_eq!(runs(&[1, 2, 3, 7, 9, 10]), [(1, 4), (7, 8), (9, 11)]);
        assert_eq!(runs(&[]), []);
    }
}
