//! The clones of an object: its states at snapshots.

use bytes::Bytes;
use loligo_store::{Change, ObjectView};
use loligo_wire::message::osd::SnapClone;
use loligo_wire::{Decode, DecodeError, Encode, Errno, Reader, SnapId, Writer};

use super::Context;
use super::ranges::Ranges;

/// The attribute that stores the list of clones.
const ATTRIBUTE: Bytes = Bytes::from_static(b"\0snaps");

/// The clones of an object (Ceph's `SnapSet`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Clones {
    /// The newest snapshot that a writer of the object has named.
    pub(crate) seq: SnapId,
    /// Oldest first.
    pub(crate) clones: Vec<Clone>,
}

/// A clone: an earlier state of the object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Clone {
    /// The newest snapshot when the clone was made, which is its id.
    pub(crate) id: SnapId,
    /// The snapshots it represents, newest first.
    pub(crate) snaps: Vec<SnapId>,
    /// Size in bytes.
    pub(crate) size: u64,
    /// The bytes it shares with the next newer clone or the head.
    pub(crate) overlap: Ranges,
}

/// The state of an object at a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    /// The same as the head.
    Head,
    /// This clone.
    Clone(SnapId),
    /// The object did not exist.
    Nothing,
}

impl Clones {
    /// Reads the list of an object.
    pub(crate) fn of(context: &Context, view: &dyn ObjectView) -> Result<Self, Errno> {
        if !view.info().has_snaps {
            return Ok(Self::default());
        }
        let bytes = context.fetches.now(|| view.xattr(&ATTRIBUTE))?;
        Self::from_bytes(&bytes.unwrap_or_default()).map_err(|_| Errno::EIO)
    }

    /// The change that stores the list.
    pub(crate) fn keep(&self) -> Change<'static> {
        Change::SetXattr { name: ATTRIBUTE, value: self.to_bytes() }
    }

    pub(crate) fn then(&self, snap: SnapId) -> Then {
        if snap > self.seq {
            return Then::Head;
        }
        match self.clones.iter().find(|clone| clone.id >= snap) {
            // The writer did not name this snapshot, so nothing is visible at it, even if it is the
            // clone's id or lies within the clone's range.
            Some(clone) if clone.snaps.contains(&snap) => Then::Clone(clone.id),
            _ => Then::Nothing,
        }
    }

    /// Removes a clone from the list. The older neighbour's overlap becomes the one it shares with the
    /// newer neighbour.
    pub(crate) fn remove(&mut self, index: usize) -> Clone {
        let gone = self.clones.remove(index);
        if let Some(older) = index.checked_sub(1).and_then(|i| self.clones.get_mut(i)) {
            older.overlap.intersect(&gone.overlap);
        }
        gone
    }
}

impl Encode for Clones {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.put(&self.seq);
            w.put(&self.clones);
        });
    }
}

impl Decode for Clones {
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

impl Clone {
    /// The form in which LIST_SNAPS shows it.
    pub(super) fn shown(&self) -> SnapClone {
        let snaps = self.snaps.iter().rev().copied().collect();
        SnapClone { id: self.id, snaps, overlap: self.overlap.iter().collect(), size: self.size }
    }
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
        let set = Clones { seq: SnapId(9), clones: vec![clone(4, &[4, 3], 5), clone(8, &[8], 7)] };
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
        assert_eq!(Clones::from_bytes(&set.to_bytes()), Ok(set));
    }

    #[test]
    fn what_is_between_goes_with_a_clone() {
        let mut set = Clones { seq: SnapId(9), clones: vec![clone(4, &[4], 9), clone(8, &[8], 5)] };
        assert_eq!(set.remove(1).id, SnapId(8));
        assert_eq!(set.clones[0].overlap, Ranges::first(5));
    }
}
