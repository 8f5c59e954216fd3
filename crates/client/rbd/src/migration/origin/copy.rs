//! Copies an object from a migration's source, with its states at all snapshots.
//!
//! The states are copied oldest first. Each one is written with a snapshot context that ends before the
//! destination's snapshot of that state, so that the snapshot gets the source's data. A request fails if
//! the object was already written with this context or a newer one, by a concurrent or an interrupted
//! copy. The source's head is written before the first write of the destination's users, and is visible
//! at the snapshots that they created meanwhile.

use bytes::Bytes;
use loligo_rados::{Errno, IoCtx, Outcome, SnapId, WriteOp};
use loligo_stripe::{ObjectExtent, ObjectNo};
use loligo_wire::rbd::feature;
use loligo_wire::rbd::object_map::{EXISTS, EXISTS_CLEAN};

use crate::Error;
use crate::call::telling;
use crate::diff::{Grain, Maps, Span};
use crate::features::OBJECT_MAP_INVALID;
use crate::image::{Inner, Origin};
use crate::io::object_write::{ATTEMPTS, Before, ObjectChange};
use crate::io::turns::Turn;
use crate::space::nonzero_runs;

/// States for `assert_snapc_seq` (`AssertSnapcSeqState`): the given context is newer than the object's,
/// or is known to the object.
const NEWER: u8 = 0;
const KNOWN: u8 = 1;

/// Runs of zeros of at least this length are not copied.
const SPARSE_BYTES: usize = 4096;

/// Which objects to copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Copied {
    /// Objects that the source itself has; for the others the destination has the same parent.
    Own,
    /// Also objects that only the parent has data for: the object is about to be changed.
    All,
}

/// A state taken over.
struct State {
    /// The source's snapshot, or its head.
    from: SnapId,
    /// The destination's snapshot, or its head.
    to: SnapId,
}

/// The change of an object from one state to the next.
struct Step {
    /// The snapshot context: the newest id that ever existed, and the older snapshots, newest first.
    seq: u64,
    snaps: Vec<SnapId>,
    /// The destination's id of the state.
    to: SnapId,
    /// Whether the object exists in this state.
    exists: bool,
    op: Option<WriteOp>,
}

impl Origin {
    /// The states taken over, oldest first, including those of snapshots that the destination has
    /// removed: an interrupted copy may have begun with them.
    fn states(&self) -> Vec<State> {
        let mapped =
            self.spec.snap_seqs.iter().map(|(from, to)| State { from: SnapId(*from), to: SnapId(*to) });
        let mut states: Vec<State> = mapped.collect();
        states.sort_unstable_by_key(|state| state.to);
        states.push(State { from: SnapId::HEAD, to: SnapId::HEAD });
        states
    }

    /// Whether the source, without its parent, has or had data of an object of the destination.
    async fn has_some(&self, image: &Inner, whole: ObjectExtent) -> Result<bool, Error> {
        let source = &self.head;
        for (at, _, len) in image.pieces(whole) {
            for extent in source.fixed.layout.extents(at, len).collect::<Vec<_>>() {
                if !source.history(extent.object).await?.is_empty() {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }
}

impl Inner {
    /// An operation that fails with ERANGE if the object is still to be copied.
    pub(crate) async fn if_settled(&self) -> Result<WriteOp, Error> {
        let origin = if self.is_migrating() { self.origin().await? } else { None };
        Ok(origin.map_or_else(WriteOp::new, |origin| asserting(origin.newest(), KNOWN)))
    }

    /// Copies an object without changing it. The caller must hold a permit of the gate.
    pub(crate) async fn take_from_source(&self, number: u64) -> Result<(), Error> {
        let _held = self.map.holding(number).await;
        let turn = self.copies.own_turn(number).await;
        self.copy_from_source(number, Copied::Own, &turn).await
    }

    /// Changes an object of an image that is being migrated, and copies it before if needed.
    pub(crate) async fn change_migrating<F: Fn(WriteOp) -> WriteOp>(
        &self,
        io: &IoCtx,
        change: ObjectChange<F>,
    ) -> Result<Outcome, Error> {
        let number = change.extent.object.0;
        let Some(origin) = self.origin().await? else { return self.change_own(io, change).await };
        let reached = self.covered(number);
        let replaces = change.replaces(reached) && !self.has_snapshots() && origin.newest() == 0;
        if reached == 0 || replaces {
            return self.send_change(io, &change, WriteOp::new()).await;
        }
        for attempt in 0..ATTEMPTS {
            let guard = (asserting(origin.newest(), KNOWN), Errno::ERANGE);
            if let Some(done) = self.try_guarded(io, &change, guard, attempt).await? {
                return Ok(done);
            }
            let Some(turn) = self.copies.turn(number).await else { continue };
            self.copy_from_source(number, Copied::All, &turn).await?;
            if change.before == Before::Compared {
                // A request compares the state before it, so the object must exist at that time.
                io.operate(self.object(change.extent), WriteOp::new().create(false)).await?;
            }
            return self.send_change(io, &change, WriteOp::new().create(false)).await;
        }
        Err(Errno::EBUSY.into())
    }

    /// Copies all states of an object from the source.
    async fn copy_from_source(&self, number: u64, copied: Copied, _turn: &Turn<'_>) -> Result<(), Error> {
        let Some(origin) = self.origin().await? else { return Ok(()) };
        let len = self.fixed.layout.object_size();
        let whole = ObjectExtent { object: ObjectNo(number), offset: 0, len };
        let shares_parent = copied == Copied::Own && self.view.load().parent.is_some();
        if shares_parent && !origin.has_some(self, whole).await? {
            return Ok(());
        }
        let steps = self.steps(&origin, whole).await?;
        if steps.iter().all(|step| step.op.is_none()) {
            return Ok(());
        }
        self.tell_maps(number, &steps).await?;
        for Step { seq, snaps, op, .. } in steps {
            let Some(op) = op else { continue };
            let io = self.data.with_snap_context(SnapId(seq), &snaps)?;
            match io.operate(self.fixed.object(number), op).await {
                // Already copied, or the object to be removed does not exist.
                Err(e) if [Errno::ERANGE, Errno::ENOENT].contains(&e.errno()) => {}
                done => done?,
            }
        }
        Ok(())
    }

    /// Computes the step for each state.
    async fn steps(&self, origin: &Origin, whole: ObjectExtent) -> Result<Vec<Step>, Error> {
        let (mut steps, mut snaps, mut seq) = (Vec::<Step>::new(), Vec::new(), 0);
        let mut from = None;
        // The length of the object, and whether it exists.
        let (mut len, mut exists) = (0, false);
        for State { from: id, to } in origin.states() {
            let source = origin.at(id)?;
            let size =
                if to == SnapId::HEAD { source.size().min(self.view.load().size) } else { source.size() };
            let mut work =
                Work::new(asserting(if to == SnapId::HEAD { origin.newest() } else { seq }, NEWER));
            let room = self.fixed.layout.object_len(whole.object, size);
            if exists && room < len {
                work.end_at(room);
                (len, exists) = (room, room > 0);
            }
            let span = Span { from, to: id, grain: Grain::Bytes, with_parent: true };
            for (at, object_offset, piece) in self.pieces(ObjectExtent { len: room, ..whole }) {
                let piece = piece.min(size.saturating_sub(at));
                for change in source.changes(at, piece, span, &Maps::default()).await? {
                    let offset = object_offset + (change.offset - at);
                    let data = match change.exists {
                        true => source.read(change.offset, change.len).await?,
                        false => Bytes::from(vec![0; change.len as usize]),
                    };
                    work.put(offset, &data, &mut len);
                }
            }
            exists |= work.writes;
            if to == SnapId::HEAD {
                seq = origin.newest();
            }
            steps.push(Step { seq, snaps: snaps.clone(), to, exists, op: work.done() });
            if self.view.load().snapshot_by_id(to).is_some() {
                snaps.insert(0, to);
            }
            (seq, from) = (to.0, Some(id));
        }
        Ok(steps)
    }

    /// Marks the object in the object maps of the snapshots taken over, of those created since, and of
    /// the image.
    async fn tell_maps(&self, number: u64, steps: &[Step]) -> Result<(), Error> {
        let view = self.view.load_full();
        if !view.has(feature::OBJECT_MAP) {
            return Ok(());
        }
        let clean = if view.has(feature::FAST_DIFF) { EXISTS_CLEAN } else { EXISTS };
        let state = |is_changed| if is_changed { EXISTS } else { clean };
        for step in steps.iter().filter(|step| step.exists && step.to != SnapId::HEAD) {
            let flags = view.snapshot_by_id(step.to).map_or(OBJECT_MAP_INVALID, |snap| snap.flags);
            if flags & OBJECT_MAP_INVALID == 0 {
                self.tell_snapshot(number, step.to, state(step.op.is_some())).await?;
            }
        }
        let Some(head) = steps.last().filter(|head| head.exists) else { return Ok(()) };
        let mut is_changed = head.op.is_some();
        let is_new = |id: SnapId| steps.iter().all(|step| step.to != id);
        for snap in view.snapshots.iter().filter(|snap| is_new(snap.info.id)) {
            let room = self.fixed.layout.object_len(ObjectNo(number), snap.info.size);
            if snap.flags & OBJECT_MAP_INVALID == 0 && room > 0 {
                self.tell_snapshot(number, snap.info.id, state(is_changed)).await?;
            }
            is_changed = false;
        }
        self.map.copying(number, state(is_changed)).await
    }
}

/// An operation that fails unless the object's snapshot context is as `wanted`.
fn asserting(seq: u64, wanted: u8) -> WriteOp {
    telling(WriteOp::new(), "assert_snapc_seq", |w| {
        w.u64(seq);
        w.u8(wanted);
    })
}

/// An operation under construction.
struct Work {
    op: WriteOp,
    is_empty: bool,
    /// Whether it writes data.
    writes: bool,
}

impl Work {
    fn new(op: WriteOp) -> Self {
        Self { op, is_empty: true, writes: false }
    }

    fn add(&mut self, add: impl FnOnce(WriteOp) -> WriteOp) {
        self.op = add(std::mem::take(&mut self.op));
        self.is_empty = false;
    }

    /// Truncates the object to `len`; removes it if that is 0.
    fn end_at(&mut self, len: u64) {
        self.add(|op| if len == 0 { op.remove() } else { op.truncate(len) });
    }

    /// Writes data, and zeroes existing bytes where the data has zeros. `len` is the object's length.
    fn put(&mut self, offset: u64, data: &Bytes, len: &mut u64) {
        let mut at = 0;
        let end = data.len()..data.len();
        for run in nonzero_runs(data, SPARSE_BYTES).into_iter().chain([end]) {
            let (zeros, zeros_end) = (offset + at as u64, (offset + run.start as u64).min(*len));
            if zeros < zeros_end {
                self.add(|op| op.zero(zeros, zeros_end - zeros));
            }
            at = run.end;
            if !run.is_empty() {
                let start = offset + run.start as u64;
                *len = (*len).max(offset + run.end as u64);
                self.writes = true;
                self.add(|op| op.write(start, data.slice(run)));
            }
        }
    }

    fn done(self) -> Option<WriteOp> {
        (!self.is_empty).then_some(self.op)
    }
}
