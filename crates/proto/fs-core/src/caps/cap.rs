//! One metadata server's capability on an inode.

use loligo_types::{CapId, Caps, Rank, Tid};

use crate::time::Moment;

/// How far the capabilities of one session may be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// How often the session has been declared stale. Capabilities of earlier generations are void.
    pub generation: u32,
    /// From this moment on no capability of the session counts, until it is renewed.
    pub until: Moment,
}

/// What the state of an inode must know about its surroundings at an event.
#[derive(Clone, Copy)]
pub struct View<'a> {
    /// The time.
    pub now: Moment,
    /// The validity of the session with a rank; none if there is no session.
    pub validity: &'a dyn Fn(Rank) -> Option<Validity>,
    /// Returns a number for a flush, larger than all before. All inodes of a mount share the counter.
    pub flush_tid: &'a dyn Fn() -> Tid,
}

impl View<'_> {
    /// The generation of a session; zero if there is none.
    pub(super) fn generation(&self, rank: Rank) -> u32 {
        (self.validity)(rank).map_or(0, |validity| validity.generation)
    }
}

/// Whether `a` comes after `b`, by sequence numbers that wrap around.
pub(super) fn is_after(a: u32, b: u32) -> bool {
    a.wrapping_sub(b).cast_signed() > 0
}

#[derive(Clone, Debug)]
pub(super) struct Cap {
    pub(super) id: CapId,
    /// What the metadata server lets the client do.
    pub(super) issued: Caps,
    /// What the client may still be doing: `issued`, and what was revoked and not yet returned.
    pub(super) implemented: Caps,
    /// What the client said last that it wants.
    pub(super) told: Caps,
    pub(super) seq: u32,
    pub(super) issue_seq: u32,
    pub(super) mseq: u32,
    /// The session's generation when the capability was last issued.
    pub(super) generation: u32,
    /// The server waits for an answer to its last revoke, also if nothing is left to return.
    pub(super) owes_answer: bool,
}

impl Cap {
    pub(super) fn revoking(&self) -> Caps {
        self.implemented - self.issued
    }

    /// What the client may begin to use now.
    pub(super) fn trusted(&self, rank: Rank, view: &View<'_>) -> Caps {
        match (view.validity)(rank) {
            Some(validity) if validity.generation == self.generation && view.now < validity.until => {
                self.issued
            }
            _ => self.issued & Caps::PIN,
        }
    }
}
