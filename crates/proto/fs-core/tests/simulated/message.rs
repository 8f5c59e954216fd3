//! What clients, the server and the store say to each other, and what happens by itself.

use loligo_fs_core::caps::{CapClaim, Returned, Update};
use loligo_fs_core::grant::{HoldId, Kind, Told};
use loligo_fs_core::session::{Outgoing, SessionEvent};
use loligo_types::{CapId, GlobalId, Tid};

/// A file, by its number in the simulation.
pub(crate) type File = usize;
/// An operation of a program, by its number in the history.
pub(crate) type OpId = usize;

/// Which life of which client: a client that restarts has another number, and another session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Life {
    pub(crate) client: usize,
    pub(crate) number: u64,
}

impl Life {
    pub(crate) fn id(self) -> GlobalId {
        GlobalId(self.client as u64 * 1000 + self.number)
    }
}

/// From a client to the server.
#[derive(Clone, Debug)]
pub(crate) enum Ask {
    Session(Outgoing),
    Open(File, loligo_types::Caps),
    Update(File, Update),
    Release(File, CapId, u32),
    /// A request that changes parts of an inode, and what it gives back.
    Change(File, loligo_types::Caps, Option<Returned>),
    Reconnect(Vec<(File, CapClaim)>),
}

/// From the server to a client.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    Session(SessionEvent),
    /// With the number of the names' last change.
    Opened(File, Told, u64),
    Told(File, Kind, Told),
    FlushAck(File, Tid),
}

/// What a client asks of the store.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Access {
    Read(OpId),
    /// A write by a program, and its value.
    Write(OpId, u64),
    /// Buffered data.
    Flush(u64),
}

/// Something that happens at its time.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    ToServer(Life, u64, Ask),
    ToClient(Life, u64, Answer),
    ToStore(Life, File, Access),
    FromStore(Life, File, Access, Result<u64, Refused>),
    CacheDropped(Life, File),
    ClientTick(Life),
    ServerTick,
    /// The client learns from the map that the server has restarted.
    ServerSeen(Life, u64),
    ReconnectEnds(u64),
    Blocklist(Life),
    Removed(Life),
    Unhold(File, HoldId, u64),
    Begin,
    Trouble,
}

/// The store does not know the client any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refused;
