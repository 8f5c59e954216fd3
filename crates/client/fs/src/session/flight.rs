//! Requests: as a caller makes them, while a server has them, and what their replies bring.

use std::sync::Arc;

use bytes::Bytes;
use loligo_fs_core::caps::OpenMode;
use loligo_fs_core::dir::Mark;
use loligo_wire::Rank;
use loligo_wire::message::mds::{FileLockRecord, FilePath, Frag, RequestOp};
use tokio::sync::oneshot;

use crate::caller;
use crate::error::Error;
use crate::inode::{Inode, InodeId};

/// A request as its caller makes it.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) op: RequestOp,
    pub(crate) path: FilePath,
    pub(crate) path2: FilePath,
    pub(crate) data: Bytes,
    /// The inode whose server is asked.
    pub(crate) about: Arc<Inode>,
    /// The directory and the name in it, if the request is about a name.
    pub(crate) entry: Option<(Arc<Inode>, Vec<u8>)>,
    /// Another inode that the request changes.
    pub(crate) also: Option<Arc<Inode>>,
    /// The directory and the name in it that what is renamed has had.
    pub(crate) renames: Option<(Arc<Inode>, Vec<u8>)>,
    /// How the request opens a file, if it does.
    pub(crate) opens: Option<OpenMode>,
    /// What the name meant that the request removes or replaces, as far as is known.
    pub(crate) removes: Option<InodeId>,
    /// As whom the server is asked; the mount's own user if nobody is named.
    pub(crate) caller: Option<Arc<caller::Caller>>,
}

impl Request {
    /// Creates a request about an inode.
    pub(crate) fn about(inode: &Arc<Inode>, op: RequestOp) -> Self {
        Self {
            op,
            path: inode.address.clone(),
            path2: FilePath::default(),
            data: Bytes::new(),
            about: Arc::clone(inode),
            entry: None,
            also: None,
            renames: None,
            opens: None,
            removes: None,
            caller: None,
        }
    }

    /// Creates a request about a name in a directory.
    pub(crate) fn in_dir(dir: &Arc<Inode>, name: &[u8], op: RequestOp) -> Self {
        let entry = Some((Arc::clone(dir), name.to_vec()));
        let removes = match op {
            RequestOp::Unlink | RequestOp::RmDir | RequestOp::Rename => {
                dir.known().names.get(name).map(|entry| entry.id)
            }
            _ => None,
        };
        Self { path: dir.address_of(name), entry, removes, ..Self::about(dir, op) }
    }

    /// Returns the address of an inode of a snapshot that the reply tells of, as far as the request says it:
    /// of the inode that it is about, and of its target, which is found in a directory of the snapshot.
    pub(crate) fn address_in_snapshot(&self, id: InodeId, is_target: bool) -> Option<FilePath> {
        match &self.entry {
            Some((dir, name)) if is_target && !dir.id.is_head() => Some(dir.address_of(name)),
            _ if self.about.id == id => Some(self.about.address.clone()),
            _ => None,
        }
    }

    /// The inodes whose state the request changes: what waits for their durability waits for it.
    pub(crate) fn changes(&self) -> impl Iterator<Item = &Arc<Inode>> {
        std::iter::once(&self.about).chain(&self.also)
    }
}

/// What a request's reply brought.
#[derive(Debug, Default)]
pub(crate) struct Done {
    /// The inode that the request is about, or made.
    pub(crate) target: Option<Arc<Inode>>,
    /// What only this kind of request has.
    pub(crate) extra: Extra,
}

/// The part of a reply that only one kind of request has.
#[derive(Debug, Default)]
pub(crate) enum Extra {
    #[default]
    None,
    /// A part of a directory.
    Listing(Listing),
    /// The file was made, and was not there before.
    Created,
    /// A lock that keeps another one from being taken.
    Lock(FileLockRecord),
    /// The value of a virtual attribute.
    Value(Bytes),
}

/// What ends a request's stay with one server.
#[derive(Debug)]
pub(crate) enum Event {
    Done(Done),
    Failed(Error),
    /// Another server is to be asked; so many have passed the request on.
    Forward(Rank, u32),
    /// The session has ended; another one is to be tried.
    Again,
}

/// A request that a server has.
#[derive(Debug)]
pub(crate) struct Flight {
    pub(crate) request: Arc<Request>,
    /// The number of times that it was sent before.
    pub(crate) retries: u32,
    pub(crate) forwards: u32,
    /// When it was sent, by the client's clock: leases count from then.
    pub(crate) sent_ms: u64,
    /// The inode that it made, according to a reply that is not durable.
    pub(crate) made: Option<Arc<Inode>>,
    pub(crate) caller: Option<Caller>,
}

/// The task that waits for a reply.
pub(crate) type Caller = oneshot::Sender<Event>;

impl Flight {
    /// Tells the caller, unless it was told, or waits no longer. Returns `false` if nobody heard it.
    pub(crate) fn tell(&mut self, event: Event) -> bool {
        self.caller.take().is_some_and(|caller| caller.send(event).is_ok())
    }

    /// The inodes that wait for the request's durability: those that it changes, and the one that it made.
    pub(crate) fn changes(&self) -> impl Iterator<Item = &Arc<Inode>> {
        self.request.changes().chain(&self.made)
    }

    /// Takes the caller out, to tell it.
    pub(crate) fn take_caller(&mut self) -> Option<Caller> {
        self.caller.take()
    }

    /// Returns `true` if the caller has its answer.
    pub(crate) fn is_told(&self) -> bool {
        self.caller.is_none()
    }
}

/// A part of a directory's listing.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    /// The fragment that the server listed.
    pub(crate) frag: Frag,
    /// The entries are in the order of their names' hashes.
    pub(crate) is_by_hash: bool,
    /// The fragment has no more entries.
    pub(crate) is_end: bool,
    /// The names, in the directory's order, and what they name.
    pub(crate) entries: Vec<(Vec<u8>, Arc<Inode>)>,
    /// What was known when they came, if the server vouches for what it lists.
    pub(crate) mark: Option<Mark>,
}
