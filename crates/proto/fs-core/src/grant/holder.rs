//! What one client has, as far as the server knows.

use std::collections::VecDeque;

use loligo_types::{CapId, Caps};

/// Of how many messages without an answer each is remembered. Older ones are remembered together.
const SENT_MAX: usize = 16;

/// A message that the client need not have processed.
#[derive(Clone, Copy, Debug)]
struct Sent {
    seq: u32,
    /// What the client may have until it has: by this message, or by the one before.
    caps: Caps,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Holder {
    pub(super) cap_id: CapId,
    /// What the client may have, by the last message to it.
    pub(super) pending: Caps,
    /// What the client had when it last said so.
    confirmed: Caps,
    /// The messages since.
    sent: VecDeque<Sent>,
    pub(super) wanted: Caps,
    pub(super) seq: u32,
    pub(super) issue_seq: u32,
    /// Whether the session missed its renewals.
    pub(super) is_stale: bool,
    /// Whether the server has asked for the session's eviction.
    pub(super) is_doomed: bool,
}

impl Holder {
    /// What the client may be using.
    pub(super) fn issued(&self) -> Caps {
        self.sent.iter().fold(self.confirmed | self.pending, |all, sent| all | sent.caps)
    }

    /// Whether the client has not yet returned what was revoked.
    pub(super) fn is_gathering(&self) -> bool {
        !(self.issued() - self.pending).is_empty()
    }

    /// The client is told that it may have `caps`. Returns the number of the message.
    pub(super) fn send(&mut self, caps: Caps) -> u32 {
        self.seq = self.seq.wrapping_add(1);
        // As in stock servers, what is revoked stays issued until this message itself is answered, also if
        // the client returns it with an older one.
        let caps_until = caps | std::mem::replace(&mut self.pending, caps);
        self.sent.push_back(Sent { seq: self.seq, caps: caps_until });
        if self.sent.len() > SENT_MAX
            && let Some(first) = self.sent.pop_front()
            && let Some(second) = self.sent.front_mut()
        {
            second.caps |= first.caps;
        }
        self.seq
    }

    /// The client says what it has, after it has processed message `seq`.
    pub(super) fn confirm(&mut self, seq: u32, caps: Caps) {
        let may_have = self.issued();
        if is_after(seq, self.seq) {
            return;
        }
        while self.sent.front().is_some_and(|sent| !is_after(sent.seq, seq)) {
            self.sent.pop_front();
        }
        // A client cannot give itself bits.
        self.confirmed = caps & may_have;
        if seq == self.seq {
            self.pending &= caps;
        }
    }

    /// Everything that only reads is void: the client does not count on it any more.
    pub(super) fn void(&mut self) {
        let kept = self.issued() & Caps::PIN;
        self.pending = kept;
        self.confirmed = kept;
        self.sent.clear();
    }

    /// A client that has `caps`: none at first, more if it claims them after a restart.
    pub(super) fn new(cap_id: CapId, caps: Caps, wanted: Caps) -> Self {
        Self { cap_id, pending: caps, confirmed: caps, wanted, ..Self::default() }
    }
}

/// Whether `a` comes after `b`, by numbers that wrap around.
pub(super) fn is_after(a: u32, b: u32) -> bool {
    a.wrapping_sub(b).cast_signed() > 0
}
