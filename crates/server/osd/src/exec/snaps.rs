//! Snapshots of objects.
//!
//! As in a stock OSD, a write whose context has a newer snapshot than the object knows leaves a clone of
//! the previous state, named by the context's newest snapshot id. The head keeps the list of its clones
//! ([`Clones`]) in an internal attribute. An object that is deleted while it has clones stays as a
//! *whiteout*, an empty head that only keeps the list.

use loligo_store::{Change, Info, ObjectRef};
use loligo_wire::message::osd::{ObjectSnaps, OsdOp, SnapClone};
use loligo_wire::{Encode as _, Errno, SnapId};

use super::clones::{Clone, Clones, Then};
use super::execution::{DONE, Execution, Output};
use super::ranges::Ranges;

/// Maximum parts of a clone's overlap; a stock OSD has no bound. Dropped parts count as changed, which
/// only makes listings of changes larger.
const OVERLAP_PARTS_MAX: usize = 4096;
/// The cost of examining one part.
const PART_COST: u64 = 32;

impl<'a> Execution<'a> {
    /// Whether the object must stay as a whiteout if it is deleted: it has clones, or is about to get one.
    pub(super) fn stays_for_snaps(&self) -> bool {
        !self.snaps.clones.is_empty() || self.context.snapc.newest() > self.snaps.seq
    }

    /// The id of the clone that this write must leave, if any.
    pub(super) fn clone_to_come(&self) -> Option<SnapId> {
        let snapc = &self.context.snapc;
        let is_there = self.view.as_ref().is_some_and(|view| !view.info().whiteout);
        (is_there && snapc.newest() > self.snaps.seq).then_some(snapc.seq)
    }

    /// Updates the snapshot state at the end of a write (`make_writeable`). Returns the id of the clone
    /// the request makes, if any.
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
            Then::Head | Then::Nothing => match self.delete() {
                Err(Errno::ENOENT) => DONE, // there is nothing to delete
                other => other,
            },
        }
    }

    fn rollback_to(&mut self, id: SnapId) -> Output {
        let source = ObjectRef { snap: id, ..self.oid };
        let clone = self.context.fetches.now(|| self.collection.object(source))?.ok_or(Errno::EIO)?;
        let cloned = clone.cloned_bytes();
        self.makes(cloned)?;
        // A stock OSD does one rollback uncounted, too; further ones are charged, since a request may
        // ask for thousands.
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
        let snaps = Clones::of(self.context, &**view)?;
        let mut clones: Vec<SnapClone> = snaps.clones.iter().map(Clone::shown).collect();
        if !info.whiteout {
            clones.push(SnapClone { id: SnapId::HEAD, size, ..SnapClone::default() });
        }
        let output = ObjectSnaps { clones, seq: snaps.seq }.to_bytes();
        self.context.spend(output.len() as u64)?;
        Ok((0, output))
    }
}

/// The metadata of a clone of an object with metadata `info`.
pub(super) fn info_of_clone(info: &Info, version: loligo_wire::Eversion) -> Info {
    Info { version, whiteout: false, has_snaps: false, watched: false, ..*info }
}
