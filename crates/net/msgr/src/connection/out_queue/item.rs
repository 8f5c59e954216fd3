//! The items of the queue, and the baton that a runner carries.

use std::collections::VecDeque;
use std::sync::Arc;

use loligo_lockstat::{Class, SpinLock};
use loligo_wire::UTime;
use loligo_wire::message::Msg;

static TICKET: Class = Class::new("msgr.ticket");

/// A queued message.
pub(crate) enum Item {
    /// The ordinary case.
    Plain(Msg),
    /// A message that can be revoked while it waits; a revoked one stays counted until its turn comes.
    Revocable(Arc<Slot>),
    /// A message with a watcher.
    Watched(Box<(Msg, Arc<dyn Watcher>)>),
    /// Messages that are packed when their turn comes.
    Unpacked(Box<dyn Unpacked>),
}

/// Is notified when a message is sent: see
/// [`Connection::send_watched`](crate::Connection::send_watched).
///
/// The runner that writes the socket calls it, with no lock held. It must return quickly.
pub trait Watcher: Send + Sync {
    /// The message has left the queue: the runner has begun to write it.
    fn left(&self);

    /// The kernel has accepted the message's last byte.
    fn sent(&self);
}

/// Messages that the runner packs when their turn comes: see
/// [`Connection::leave`](crate::Connection::leave).
pub trait Unpacked: Send + Sync {
    /// The number of messages, at most.
    fn count(&self) -> usize;

    /// Their approximate size in bytes, counted against the queue's bound. Must return the same value
    /// each time.
    fn bytes(&self) -> usize;

    /// Passes the messages to `each`, in order, each with its watcher.
    fn pack(self: Box<Self>, each: &mut dyn FnMut(Msg, Option<Arc<dyn Watcher>>));
}

impl Item {
    /// Returns the message, or `None` if it was revoked or if the item holds several messages (which a
    /// lossless session's queue never contains).
    pub(crate) fn into_msg(self) -> Option<Msg> {
        match self {
            Self::Plain(msg) => Some(msg),
            Self::Revocable(slot) => slot.take(),
            Self::Watched(watched) => Some(watched.0),
            Self::Unpacked(_) => None,
        }
    }

    /// Passes the messages that were not revoked to `each`, until it returns an error.
    pub(crate) fn unpack<E>(
        self,
        mut each: impl FnMut(Msg, Option<Arc<dyn Watcher>>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut taken = Ok(());
        match self {
            Self::Unpacked(msgs) => msgs.pack(&mut |msg, watcher| {
                if taken.is_ok() {
                    taken = each(msg, watcher);
                }
            }),
            Self::Watched(watched) => taken = each(watched.0, Some(watched.1)),
            one => taken = one.into_msg().map_or(Ok(()), |msg| each(msg, None)),
        }
        taken
    }

    /// The size in bytes, also of a revoked message.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Plain(msg) => msg.len(),
            Self::Revocable(slot) => slot.len,
            Self::Watched(watched) => watched.0.len(),
            Self::Unpacked(msg) => msg.bytes(),
        }
    }

    /// The sequence number of a message that was sent before and is repeated; 0 for others.
    pub(super) fn seq(&self) -> u64 {
        match self {
            Self::Plain(msg) => msg.header.seq,
            Self::Revocable(_) | Self::Watched(_) | Self::Unpacked(_) => 0,
        }
    }
}

/// Holds a revocable message: the runner and the revoker compete to take it out, and the first one has
/// it.
pub(crate) struct Slot {
    msg: SpinLock<Option<Msg>>,
    len: usize,
}

impl Slot {
    pub(crate) fn new(msg: Msg) -> Arc<Self> {
        Arc::new(Self { len: msg.len(), msg: SpinLock::new(&TICKET, Some(msg)) })
    }

    pub(crate) fn take(&self) -> Option<Msg> {
        self.msg.lock().take()
    }
}

/// Frames to send besides messages. Each is sent once, however often it was requested.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Control {
    /// Acknowledge the messages received.
    pub(crate) ack: bool,
    /// Send a keepalive.
    pub(crate) keepalive: bool,
    /// Answer the keepalive that carried this time.
    pub(crate) keepalive_ack: Option<UTime>,
}

impl Control {
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub(super) fn add(&mut self, other: Self) {
        self.ack |= other.ack;
        self.keepalive |= other.keepalive;
        self.keepalive_ack = other.keepalive_ack.or(self.keepalive_ack);
    }
}

/// The right to write the socket, with the writer's state (`W`) and the next batch.
pub(crate) struct Baton<W> {
    /// The connection's socket that the baton belongs to, counted from 1. A runner may return after its
    /// socket was given up.
    pub(super) generation: u64,
    /// Messages to write, in order.
    pub(crate) batch: VecDeque<Item>,
    /// Control frames to write besides.
    pub(crate) control: Control,
    /// The socket and its sealer.
    pub(crate) writer: W,
}

impl<W> Baton<W> {
    /// Whether there is a batch to be written.
    pub(crate) fn is_loaded(&self) -> bool {
        !self.batch.is_empty() || !self.control.is_empty()
    }
}
