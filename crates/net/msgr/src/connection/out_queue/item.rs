//! What waits in the queue, and what a runner carries.

use std::collections::VecDeque;
use std::sync::Arc;

use loligo_lockstat::{Class, SpinLock};
use loligo_wire::UTime;
use loligo_wire::message::Msg;

static TICKET: Class = Class::new("msgr.ticket");

/// A message that waits.
pub(crate) enum Item {
    /// The ordinary case.
    Plain(Msg),
    /// One that can be taken back while it waits; it stays counted until its turn comes.
    Revocable(Arc<Slot>),
    /// One whose way is watched.
    Watched(Box<(Msg, Arc<dyn Watcher>)>),
    /// Some that are packed when their turn comes.
    Unpacked(Box<dyn Unpacked>),
}

/// Hears of a message's way out: see [`Connection::send_watched`](crate::Connection::send_watched).
///
/// It is called by whoever writes the socket, with no lock held, and must be quick.
pub trait Watcher: Send + Sync {
    /// The message has left the queue: whoever runs it has begun to write it.
    fn left(&self);

    /// The kernel has its last byte.
    fn sent(&self);
}

/// Messages that are packed by whoever writes the socket, when their turn comes: see
/// [`Connection::leave`](crate::Connection::leave).
pub trait Unpacked: Send + Sync {
    /// How many they are at most.
    fn count(&self) -> usize;

    /// About how many bytes they are, counted against the queue's bound: the same whenever it is asked.
    fn bytes(&self) -> usize;

    /// Gives the messages out, in order, each with who watches it.
    fn pack(self: Box<Self>, each: &mut dyn FnMut(Msg, Option<Arc<dyn Watcher>>));
}

impl Item {
    /// The message, unless it was revoked; of several, which no lossless session's queue has, none.
    pub(crate) fn into_msg(self) -> Option<Msg> {
        match self {
            Self::Plain(msg) => Some(msg),
            Self::Revocable(slot) => slot.take(),
            Self::Watched(watched) => Some(watched.0),
            Self::Unpacked(_) => None,
        }
    }

    /// Gives the messages out that were not revoked, until one cannot be taken.
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

    /// Bytes, also of a message that was revoked.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Plain(msg) => msg.len(),
            Self::Revocable(slot) => slot.len,
            Self::Watched(watched) => watched.0.len(),
            Self::Unpacked(msg) => msg.bytes(),
        }
    }

    /// The sequence number of a message that was sent before and is to be repeated; 0 for others.
    pub(super) fn seq(&self) -> u64 {
        match self {
            Self::Plain(msg) => msg.header.seq,
            Self::Revocable(_) | Self::Watched(_) | Self::Unpacked(_) => 0,
        }
    }
}

/// Where a revocable message lies: whoever takes it out first, the runner or the revoker, has it.
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

/// What is sent besides messages. Each is sent once, however often it was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Control {
    /// Acknowledge what was received.
    pub(crate) ack: bool,
    /// Ask for a sign of life.
    pub(crate) keepalive: bool,
    /// Give one, to the question that bore this time.
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

/// The right to write the socket, with what is needed for it (`W`) and what is to be written next.
pub(crate) struct Baton<W> {
    /// Which of the connection's sockets, counted from 1. A runner may come back after its socket was given
    /// up.
    pub(super) generation: u64,
    /// Messages to write, in order.
    pub(crate) batch: VecDeque<Item>,
    /// What to write besides.
    pub(crate) control: Control,
    /// The socket and what seals frames for it.
    pub(crate) writer: W,
}

impl<W> Baton<W> {
    /// Whether there is a batch to be written.
    pub(crate) fn is_loaded(&self) -> bool {
        !self.batch.is_empty() || !self.control.is_empty()
    }
}
