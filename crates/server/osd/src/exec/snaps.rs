//! Snapshots of objects.
//!
//! As in a stock OSD, a write that knows of a newer snapshot than the object leaves a clone of what was
//! there, named by the context's newest snapshot. The head keeps a list of its clones ([`SnapSet`]) in an
//! attribute of the OSD's own. An object that is deleted while it has clones stays as a *whiteout*, an empty
//! head that only keeps the list.

use bytes::Bytes;
use loligo_store::{Change, Info, ObjectRef, ObjectView};
use loligo_wire::message::osd::{ObjectSnaps, OsdOp, SnapClone};
use loligo_wire::{Decode, DecodeError, Encode, Reader, SnapId, Writer};
use smallvec::SmallVec;

use super::Context;
use super::execution::{DONE, Execution, Output};
use super::ranges::Ranges;
use crate::errno::Errno;

/// The attribute in which the list of clones is kept.
const ATTRIBUTE: Bytes = Bytes::from_static(b"\0snaps");

/// Parts that a clone's overlap may have. A stock OSD has no bound. What is forgotten counts as changed,
/// which costs only those who ask what has changed.
const OVERLAP_PARTS_MAX: usize = 4096;
/// What it costs to look at one of them.
const PART_COST: u64 = 32;

/// The newest snapshot id that a context may name (`CEPH_MAXSNAP`).
const SNAP_MAX: SnapId = SnapId(u64::MAX - 2);

/// What a writer knows of snapshots (`SnapContext`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SnapContext {
    /// The newest snapshot id that was given out.
    pub(crate) seq: SnapId,
    /// Snapshots there are, newest first.
    pub(crate) snaps: SmallVec<[SnapId; 2]>,
}

impl SnapContext {
    pub(crate) fn is_valid(&self) -> bool {
        self.seq <= SNAP_MAX
            && self.snaps.first().is_none_or(|newest| *newest <= self.seq)
            && self.snaps.windows(2).all(|pair| pair[0] > pair[1])
            && self.snaps.last().is_none_or(|oldest| self.snaps.len() == 1 || oldest.0 > 0)
    }

    fn newest(&self) -> SnapId {
        self.snaps.first().copied().unwrap_or_default()
    }
}

/// The clones of an object (`SnapSet`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SnapSet {
    /// The newest snapshot that a writer of the object has known of.
    pub(crate) seq: SnapId,
    /// Oldest first.
    pub(crate) clones: Vec<Clone>,
}

/// A clone: what the object was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Clone {
    /// The newest snapshot when it was made, which names it.
    pub(crate) id: SnapId,
    /// The snapshots it stands for, newest first.
    pub(crate) snaps: Vec<SnapId>,
    /// Bytes.
    pub(crate) size: u64,
    /// What it has in common with the next newer clone, or the head.
    pub(crate) overlap: Ranges,
}

/// What an object was at a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    /// As it is now.
    Head,
    /// This clone.
    Clone(SnapId),
    /// It did not exist.
    Nothing,
}

impl SnapSet {
    /// Reads the list of an object.
    pub(crate) fn of(context: &Context, view: &dyn ObjectView) -> Result<Self, Errno> {
        if !view.info().has_snaps {
            return Ok(Self::default());
        }
        let bytes = context.fetches.now(|| view.xattr(&ATTRIBUTE))?;
        Self::from_bytes(&bytes.unwrap_or_default()).map_err(|_| Errno::EIO)
    }

    /// The change that keeps the list.
    pub(crate) fn keep(&self) -> Change<'static> {
        Change::SetXattr { name: ATTRIBUTE, value: self.to_bytes() }
    }

    pub(crate) fn then(&self, snap: SnapId) -> Then {
        if snap > self.seq {
            return Then::Head;
        }
        match self.clones.iter().find(|clone| clone.id >= snap) {
            // A snapshot that the writer did not name saw nothing, though the clone is named by it or lies
            // around it.
            Some(clone) if clone.snaps.contains(&snap) => Then::Clone(clone.id),
            _ => Then::Nothing,
        }
    }

    /// Takes a clone out of the list. What it had in common with its neighbours these now have with each
    /// other.
    pub(crate) fn remove(&mut self, index: usize) -> Clone {
        let gone = self.clones.remove(index);
        if let Some(older) = index.checked_sub(1).and_then(|i| self.clones.get_mut(i)) {
            older.overlap.intersect(&gone.overlap);
        }
        gone
    }
}

impl Encode for SnapSet {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.put(&self.seq);
            w.put(&self.clones);
        });
    }
}

impl Decode for SnapSet {
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.versioned("clones of an object", 1, 1, |r, _| Ok(Self { seq: r.get()?, clones: r.get()? }))
    }
}

impl Encode for Clone {
    fn encode(&self, w: &mut Writer) {
        w.put(&self.id);
        w.put(&self.snaps);
        w.u64(self.size);
        w.put(&self.overlap);
    }
}

impl Decode for Clone {
    const MIN_LEN: usize = 24;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { id: r.get()?, snaps: r.get()?, size: r.u64()?, overlap: r.get()? })
    }
}

impl<'a> Execution<'a> {
    /// Whether the object must stay as a whiteout if it is deleted: it has clones, or is about to get one.
    pub(super) fn stays_for_snaps(&self) -> bool {
        !self.snaps.clones.is_empty() || self.context.snapc.newest() > self.snaps.seq
    }

    /// The clone that these changes call for, if the object is to be kept as it was.
    pub(super) fn clone_to_come(&self) -> Option<SnapId> {
        let snapc = &self.context.snapc;
        let is_there = self.view.as_ref().is_some_and(|view| !view.info().whiteout);
        (is_there && snapc.newest() > self.snaps.seq).then_some(snapc.seq)
    }

    /// What the end of a write does for snapshots (`make_writeable`): the clone that the request makes, if it
    /// does.
    pub(super) fn settle_snaps(&mut self) -> Option<SnapId> {
        let snapc = &self.context.snapc;
        let cloned = self.clone_to_come();
        if let Some(id) = cloned {
            let size = self.view.as_ref().map_or(0, |view| view.size());
            let snaps = snapc.snaps.iter().copied().take_while(|snap| *snap > self.snaps.seq).collect();
            self.snaps.clones.push(Clone { id, snaps, size, overlap: Ranges::first(size) });
        }
        let changed = cloned.is_some() || snapc.seq > self.snaps.seq;
        let known = changed || self.info.has_snaps;
        if let Some(newest) = self.snaps.clones.last_mut() {
            newest.overlap.subtract(&std::mem::take(&mut self.modified).joined());
            newest.overlap.cut(OVERLAP_PARTS_MAX);
        }
        self.snaps.seq = self.snaps.seq.max(snapc.seq);
        if known && (self.exists || self.info.whiteout) {
            self.info.has_snaps = true;
            self.changes.push(self.snaps.keep());
        }
        cloned
    }

    pub(super) fn rollback(&mut self, op: &OsdOp) -> Output {
        let snap = op.snapid();
        let removed = self.context.is_removed(snap);
        let then = if removed { Then::Nothing } else { self.snaps.then(snap) };
        match then {
            Then::Clone(id) => self.rollback_to(id),
            // Nothing to do, but it counts as a change.
            Then::Head if self.view.as_ref().is_some_and(|view| !view.info().whiteout) => self.touch(),
            Then::Head | Then::Nothing if self.watchers.is_some_and(|w| !w.is_empty()) => Err(Errno::EBUSY),
            Then::Head | Then::Nothing => {
                let _ = self.delete(); // if there is something to delete
                DONE
            }
        }
    }

    fn rollback_to(&mut self, id: SnapId) -> Output {
        let source = ObjectRef { snap: id, ..self.oid };
        let clone = self.context.fetches.now(|| self.collection.object(source))?.ok_or(Errno::EIO)?;
        let cloned = clone.cloned_bytes();
        self.makes(cloned)?;
        // Once is what a stock OSD does, too; a request may ask for it thousands of times.
        if std::mem::replace(&mut self.rolled_back, true) {
            let parts: usize = self.snaps.clones.iter().map(|clone| 1 + clone.overlap.iter().len()).sum();
            self.context.spend(cloned + clone.size() / 16 + parts as u64 * PART_COST)?;
        }
        let mut common = Ranges::first(self.size);
        for clone in self.snaps.clones.iter().filter(|clone| clone.id >= id) {
            common.intersect(&clone.overlap);
        }
        let mut modified = Ranges::first(self.size);
        modified.subtract(&common);
        modified.iter().for_each(|(start, len)| self.modified.insert(start, len));
        self.size = clone.size();
        self.info.has_omap = clone.info().has_omap;
        self.info.whiteout = false;
        self.make(Change::CloneFrom { source });
        DONE
    }

    pub(super) fn list_snaps(&mut self) -> Output {
        let view = self.stored()?;
        let (info, size) = (view.info(), view.size());
        let snaps = SnapSet::of(self.context, &**view)?;
        let mut clones: Vec<SnapClone> = snaps.clones.iter().map(Clone::shown).collect();
        if !info.whiteout {
            clones.push(SnapClone { id: SnapId::HEAD, size, ..SnapClone::default() });
        }
        let output = ObjectSnaps { clones, seq: snaps.seq }.to_bytes();
        self.context.spend(output.len() as u64)?;
        Ok((0, output))
    }
}

impl Clone {
    /// As LIST_SNAPS shows it.
    fn shown(&self) -> SnapClone {
        let snaps = self.snaps.iter().rev().copied().collect();
        SnapClone { id: self.id, snaps, overlap: self.overlap.iter().collect(), size: self.size }
    }
}

/// What is kept about a clone of an object of which `info` is kept.
pub(super) fn info_of_clone(info: &Info, version: loligo_wire::Eversion) -> Info {
    Info { version, whiteout: false, has_snaps: false, watched: false, ..*info }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clone(id: u64, snaps: &[u64], size: u64) -> Clone {
        let snaps = snaps.iter().copied().map(SnapId).collect();
        Clone { id: SnapId(id), snaps, size, overlap: Ranges::first(size) }
    }

    #[test]
    fn a_snapshot_finds_its_clone() {
        let set = SnapSet { seq: SnapId(9), clones: vec![clone(4, &[4, 3], 5), clone(8, &[8], 7)] };
        let cases = [
            (2, Then::Nothing),
            (3, Then::Clone(SnapId(4))),
            (4, Then::Clone(SnapId(4))),
            (6, Then::Nothing),
            (8, Then::Clone(SnapId(8))),
            (9, Then::Nothing),
            (10, Then::Head),
        ];
        cases.iter().for_each(|(snap, then)| assert_eq!(set.then(SnapId(*snap)), *then, "{snap}"));
        assert_eq!(SnapSet::from_bytes(&set.to_bytes()), Ok(set));
    }

    #[test]
    fn what_is_between_goes_with_a_clone() {
        let mut set = SnapSet { seq: SnapId(9), clones: vec![clone(4, &[4], 9), clone(8, &[8], 5)] };
        assert_eq!(set.remove(1).id, SnapId(8));
        assert_eq!(set.clones[0].overlap, Ranges::first(5));
    }

    #[test]
    fn contexts_must_descend() {
        let context = |seq, snaps: &[u64]| SnapContext {
            seq: SnapId(seq),
            snaps: snaps.iter().copied().map(SnapId).collect(),
        };
        assert!(
            context(0, &[]).is_valid() && context(5, &[5, 3, 1]).is_valid() && context(9, &[3]).is_valid()
        );
        for (seq, snaps) in [(4, &[5][..]), (9, &[3, 3]), (9, &[3, 5]), (u64::MAX, &[])] {
            assert!(!context(seq, snaps).is_valid(), "{seq} {snaps:?}");
        }
    }
}
