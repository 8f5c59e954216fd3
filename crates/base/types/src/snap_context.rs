//! What a writer knows of snapshots.

use crate::{Decode, DecodeError, Encode, Reader, SnapId, Writer};

/// A writer's knowledge of snapshots (`SnapContext`). An OSD keeps the state of an object before the first
/// write whose context names a snapshot that earlier ones did not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapContext {
    /// The newest snapshot id that was allocated.
    pub seq: SnapId,
    /// Existing snapshots, newest first.
    pub snaps: Vec<SnapId>,
}

impl SnapContext {
    /// The newest snapshot id that a context may name (`CEPH_MAXSNAP`).
    const SNAP_MAX: SnapId = SnapId(u64::MAX - 2);

    /// Whether the ids descend, and none is newer than `seq`.
    pub fn is_valid(&self) -> bool {
        self.seq <= Self::SNAP_MAX
            && self.snaps.first().is_none_or(|newest| *newest <= self.seq)
            && self.snaps.windows(2).all(|pair| pair[0] > pair[1])
            && self.snaps.last().is_none_or(|oldest| self.snaps.len() == 1 || oldest.0 > 0)
    }

    /// The newest existing snapshot; 0 if there is none.
    pub fn newest(&self) -> SnapId {
        self.snaps.first().copied().unwrap_or_default()
    }
}

impl Encode for SnapContext {
    fn encode(&self, w: &mut Writer) {
        w.put(&self.seq);
        w.put(&self.snaps);
    }
}

impl Decode for SnapContext {
    const MIN_LEN: usize = 12;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { seq: r.get()?, snaps: r.get()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let some = context(5, &[5, 3]);
        assert_eq!((some.newest(), context(5, &[]).newest()), (SnapId(5), SnapId(0)));
        assert_eq!(SnapContext::from_bytes(&some.to_bytes()), Ok(some));
    }
}
