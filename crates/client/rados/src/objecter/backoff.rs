//! Backoffs: ranges of objects for which an OSD asked the client to hold back requests.

use loligo_wire::SpgId;
use loligo_wire::message::osd::{HObject, MOSDBackoff};

/// A backoff.
#[derive(Debug)]
pub(super) struct Backoff {
    pgid: SpgId,
    id: u64,
    begin: HObject,
    /// Exclusive, unless it equals `begin`.
    end: HObject,
}

impl Backoff {
    pub(super) fn of(msg: &MOSDBackoff) -> Self {
        Self { pgid: msg.pgid, id: msg.id, begin: msg.begin.clone(), end: msg.end.clone() }
    }

    /// Returns `true` if `msg` concerns this backoff.
    pub(super) fn is(&self, msg: &MOSDBackoff) -> bool {
        self.pgid == msg.pgid && self.id == msg.id
    }

    /// Returns `true` if the range contains an object of a placement group.
    pub(super) fn covers(&self, pgid: SpgId, object: &HObject) -> bool {
        if self.pgid != pgid {
            return false;
        }
        if self.begin == self.end {
            *object == self.begin
        } else {
            self.begin <= *object && *object < self.end
        }
    }
}

#[cfg(test)]
mod tests {
    use loligo_wire::message::osd::BackoffOp;
    use loligo_wire::{Epoch, PgId, PoolId};

    use super::*;

    fn object(hash: u32) -> HObject {
        HObject { pool: 1, hash, ..HObject::min() }
    }

    fn backoff(begin: HObject, end: HObject) -> (SpgId, Backoff) {
        let pgid = SpgId::whole(PgId { pool: PoolId(1), seed: 3 });
        let msg = MOSDBackoff { pgid, map_epoch: Epoch(1), op: BackoffOp::Block, id: 7, begin, end };
        (pgid, Backoff::of(&msg))
    }

    #[test]
    fn a_range_ends_before_its_end_and_a_point_is_itself() {
        // Hashes are ordered by their reversed bits: 0, 2, 1, 3.
        let (pgid, range) = backoff(object(2), object(3));
        let covered: Vec<_> =
            [0, 2, 1, 3].into_iter().filter(|hash| range.covers(pgid, &object(*hash))).collect();
        assert_eq!(covered, [2, 1]);
        let (pgid, point) = backoff(object(1), object(1));
        assert!(point.covers(pgid, &object(1)) && !point.covers(pgid, &object(2)));
        let other = SpgId::whole(PgId { pool: PoolId(1), seed: 4 });
        assert!(!point.covers(other, &object(1)));
    }
}
