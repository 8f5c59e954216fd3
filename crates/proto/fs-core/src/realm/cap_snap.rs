//! Changes of an inode that belong into a snapshot, until the metadata server has them.

use std::collections::VecDeque;

use loligo_types::{Caps, SnapContext, SnapId, Tid};

/// What an inode has unflushed when its realm gets a new snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Before {
    /// Changed parts that are not sent.
    pub dirty: Caps,
    /// What the client holds.
    pub issued: Caps,
    /// Whether writes are in progress.
    pub is_writing: bool,
    /// Whether data is buffered.
    pub has_data: bool,
}

/// The message that carries what belongs into a snapshot (`CEPH_CAP_OP_FLUSHSNAP`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlushSnap {
    /// The number of the flush.
    pub tid: Tid,
    /// The snapshot number that the changes follow.
    pub follows: SnapId,
    /// The changed parts.
    pub dirty: Caps,
    /// What the client held.
    pub issued: Caps,
}

/// Something that the owner must do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Keep the inode's attributes as they are now, for the message that follows `follows`.
    KeepAttrs(SnapId),
    /// Write the buffered data to the store with this context, then call [`CapSnaps::data_flushed`].
    FlushData(SnapContext),
    /// Send the attributes that were kept.
    Send(FlushSnap),
    /// Writes that waited may begin.
    Wake,
    /// The attributes that were kept can be forgotten.
    Forget(SnapId),
}

#[derive(Clone, Debug)]
struct CapSnap {
    context: SnapContext,
    dirty: Caps,
    issued: Caps,
    is_writing: bool,
    has_data: bool,
    is_flushing: bool,
    tid: Option<Tid>,
}

/// The changes of one inode that belong into snapshots, oldest first.
#[derive(Clone, Debug, Default)]
pub struct CapSnaps {
    snaps: VecDeque<CapSnap>,
    effects: Vec<Effect>,
}

impl CapSnaps {
    /// None.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the effects of all events since the last call.
    pub fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// Whether nothing waits for a metadata server.
    pub fn is_empty(&self) -> bool {
        self.snaps.is_empty()
    }

    /// Whether something is not even sent: other updates of the inode say so
    /// (`CLIENT_CAPS_PENDING_CAPSNAP`).
    pub fn is_pending(&self) -> bool {
        self.snaps.iter().any(|snap| snap.tid.is_none())
    }

    /// Whether a write may begin. It waits for writes that began before the snapshot, because nobody could
    /// say which of the two sizes and times belong into it; and for buffered data of an older context.
    pub fn may_write(&self) -> bool {
        !self.snaps.iter().any(|snap| snap.is_writing || snap.has_data)
    }

    /// Whether writes that began before the last snapshot are in progress, as far as is known.
    pub fn is_writing(&self) -> bool {
        self.snaps.iter().any(|snap| snap.is_writing)
    }

    /// The context of writes now, if it is an older one than the realm's: that of the oldest snapshot whose
    /// data the store does not have.
    pub fn context(&self) -> Option<&SnapContext> {
        self.snaps.iter().find(|snap| snap.is_writing || snap.has_data).map(|snap| &snap.context)
    }

    /// The snapshot number that the oldest of the changes follow, if there are any.
    pub fn follows(&self) -> Option<SnapId> {
        self.snaps.front().map(|snap| snap.context.seq)
    }

    /// The realm's context changes from `old`. What is unflushed belongs into the snapshot.
    pub fn snapshot(&mut self, old: &SnapContext, before: Before, tid: &dyn Fn() -> Tid) {
        // Writes in progress began before the last snapshot already, if that one waits for them: none
        // could begin since.
        let waits = self.snaps.back().is_some_and(|last| last.is_writing);
        if waits || before.dirty.is_empty() && !before.is_writing && !before.has_data {
            return;
        }
        let Before { dirty, issued, is_writing, has_data } = before;
        let context = old.clone();
        let snap = CapSnap { context, dirty, issued, is_writing, has_data, is_flushing: false, tid: None };
        self.snaps.push_back(snap);
        if !is_writing {
            self.effects.push(Effect::KeepAttrs(old.seq));
        }
        self.go_on(tid);
    }

    /// The writes that were in progress have ended; `dirty` is what they have changed.
    pub fn writes_ended(&mut self, dirty: Caps, has_data: bool, tid: &dyn Fn() -> Tid) {
        let Some(snap) = self.snaps.back_mut().filter(|snap| snap.is_writing) else { return };
        snap.is_writing = false;
        snap.dirty |= dirty;
        snap.has_data |= has_data;
        let follows = snap.context.seq;
        self.effects.push(Effect::KeepAttrs(follows));
        self.go_on(tid);
    }

    /// The data that was buffered before a snapshot is in the store.
    pub fn data_flushed(&mut self, tid: &dyn Fn() -> Tid) {
        for snap in self.snaps.iter_mut().filter(|snap| snap.is_flushing) {
            snap.is_flushing = false;
            snap.has_data = false;
        }
        self.go_on(tid);
    }

    /// The metadata server has stored it (`CEPH_CAP_OP_FLUSHSNAP_ACK`).
    pub fn ack(&mut self, acked: Tid, tid: &dyn Fn() -> Tid) {
        let Some(at) = self.snaps.iter().position(|snap| snap.tid == Some(acked)) else { return };
        if let Some(snap) = self.snaps.remove(at) {
            self.effects.push(Effect::Forget(snap.context.seq));
        }
        self.go_on(tid);
    }

    /// The authority has moved or restarted: what is not acknowledged is sent again, in the same order.
    pub fn send_again(&mut self) {
        for snap in &self.snaps {
            let CapSnap { tid, ref context, dirty, issued, .. } = *snap;
            let Some(tid) = tid else { break };
            self.effects.push(Effect::Send(FlushSnap { tid, follows: context.seq, dirty, issued }));
        }
    }

    /// Everything is lost with its session.
    pub fn lost(&mut self) {
        for snap in self.snaps.drain(..) {
            self.effects.push(Effect::Forget(snap.context.seq));
        }
        self.effects.push(Effect::Wake);
    }

    /// Flushes data and sends what is ready. Nothing overtakes an older one.
    fn go_on(&mut self, tid: &dyn Fn() -> Tid) {
        let mut at = 0;
        while let Some(snap) = self.snaps.get_mut(at) {
            if snap.is_writing {
                return;
            }
            if snap.has_data {
                if !snap.is_flushing {
                    snap.is_flushing = true;
                    self.effects.push(Effect::FlushData(snap.context.clone()));
                }
                return;
            }
            let follows = snap.context.seq;
            if snap.tid.is_none() {
                let new = tid();
                snap.tid = Some(new);
                let CapSnap { dirty, issued, .. } = *snap;
                self.effects.push(Effect::Send(FlushSnap { tid: new, follows, dirty, issued }));
            }
            // A server that waits for the message goes on, but acknowledges none without changes.
            if snap.dirty.is_empty() {
                self.snaps.remove(at);
                self.effects.push(Effect::Forget(follows));
            } else {
                at += 1;
            }
        }
        self.effects.push(Effect::Wake);
    }
}
