//! Requests to metadata servers, from a caller's first send to the reply, across servers and sessions.

use std::sync::Arc;

use bytes::Bytes;
use loligo_rados::Errno;
use loligo_wire::message::Msg;
use loligo_wire::message::mds::{ClientRequest, FilePath, HeadVersion, RequestOp};
use loligo_wire::{Ino, Rank, Tid, UTime};
use tokio::sync::oneshot;

use super::session::{Session, State};
use crate::core::Core;
use crate::error::Error;
use crate::inode::{Inode, mode};

/// Servers that may pass a request on before this client gives up.
const FORWARDS_MAX: u32 = 32;

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
    /// Whether the request opens a file to read and to write.
    pub(crate) opens: Option<(bool, bool)>,
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
            opens: None,
        }
    }

    /// Creates a request about a name in a directory.
    pub(crate) fn in_dir(dir: &Arc<Inode>, name: &[u8], op: RequestOp) -> Self {
        let entry = Some((Arc::clone(dir), name.to_vec()));
        Self { path: dir.address_of(name), entry, ..Self::about(dir, op) }
    }

    /// The inodes whose state the request changes: what waits for their durability waits for it.
    fn changes(&self) -> impl Iterator<Item = &Arc<Inode>> {
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
    Listing(super::replies::Listing),
    /// The file was made, and was not there before.
    Created,
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
    pub(crate) created: Option<Ino>,
    caller: Option<Caller>,
}

/// Who waits for a reply.
pub(super) type Caller = oneshot::Sender<Event>;

impl Flight {
    /// Tells the caller, unless it was told, or waits no longer. Returns `false` if nobody heard it.
    pub(crate) fn tell(&mut self, event: Event) -> bool {
        self.caller.take().is_some_and(|caller| caller.send(event).is_ok())
    }

    /// Takes the caller out, to tell it.
    pub(super) fn take_caller(&mut self) -> Option<Caller> {
        self.caller.take()
    }

    /// Returns `true` if the caller has its answer.
    pub(crate) fn is_told(&self) -> bool {
        self.caller.is_none()
    }
}

impl Core {
    /// Sends a request to the server that it concerns and waits for the reply. A request whose future is
    /// dropped may be carried out or not.
    ///
    /// # Errors
    /// The server's, or the end of this client's session.
    pub(crate) async fn call(&self, request: Request) -> Result<Done, Error> {
        let request = Arc::new(request);
        let (mut to, mut retries, mut forwards) = (None, 0, 0);
        loop {
            let session = self.session_for(to, &request.about).await?;
            let (caller, called) = oneshot::channel();
            let flight = Flight {
                request: Arc::clone(&request),
                retries,
                forwards,
                sent_ms: self.now_ms(),
                created: None,
                caller: Some(caller),
            };
            self.submit(&session, flight);
            match called.await {
                Ok(Event::Done(done)) => return Ok(done),
                Ok(Event::Failed(e)) => return Err(e),
                Ok(Event::Forward(rank, times)) => {
                    // A server that passes an old forward on again has not seen the last one.
                    if times <= forwards || times > FORWARDS_MAX {
                        return Err(Error::Forwards(times));
                    }
                    (to, forwards) = (Some(rank), times);
                }
                Ok(Event::Again) | Err(_) => (to, retries) = (None, retries + 1),
            }
        }
    }

    /// Gives a request to a session: numbers and queues it in one step, so that requests leave in the
    /// order of their numbers.
    fn submit(&self, session: &Session, flight: Flight) {
        {
            let mut state = session.state();
            if matches!(state.phase, super::session::Phase::Ended(_)) {
                drop(state);
                let mut flight = flight;
                flight.tell(Event::Again);
                return;
            }
            let tid = self.next_tid();
            let msg = self.packed(tid, &flight, &state, false);
            state.pending.insert(tid, flight);
            session.queue(msg);
        }
        session.run();
    }

    /// Encodes a request.
    pub(super) fn packed(&self, tid: Tid, flight: &Flight, state: &State, replay: bool) -> Msg {
        let Flight { request, retries, forwards, created, .. } = flight;
        let options = &self.options;
        let mut flags = 0;
        if replay {
            flags |= ClientRequest::REPLAY;
        }
        if request.entry.is_some() {
            flags |= ClientRequest::WANT_DENTRY;
        }
        let body = ClientRequest {
            head: HeadVersion::for_server(&state.features),
            oldest_client_tid: state.oldest().map_or(tid, |oldest| oldest.min(tid)),
            mdsmap_epoch: self.map_epoch(),
            flags,
            num_retry: *retries,
            num_fwd: *forwards,
            caller_uid: options.uid,
            caller_gid: options.gid,
            owner_uid: options.uid,
            owner_gid: options.gid,
            ino: created.filter(|_| replay).unwrap_or_default(),
            op: request.op,
            path: request.path.clone(),
            path2: request.path2.clone(),
            stamp: UTime::now(),
            gids: options.gids.iter().map(|gid| u64::from(*gid)).collect(),
            data: request.data.clone(),
            ..ClientRequest::default()
        };
        Msg::new(&body).with_tid(tid)
    }

    /// Counts a request that is carried out and not durable with the inodes that it changes, or one that
    /// has become durable.
    pub(super) fn count_unconfirmed(request: &Request, has_ended: bool) {
        for inode in request.changes() {
            {
                let mut known = inode.known();
                known.unconfirmed = match has_ended {
                    true => known.unconfirmed.saturating_sub(1),
                    false => known.unconfirmed + 1,
                };
            }
            if has_ended {
                inode.changed.notify_waiters();
            }
        }
    }

    /// Remembers at the inodes of a request that what it did may be lost.
    pub(super) fn note_lost(request: &Request) {
        for inode in request.changes() {
            inode.known().failed.get_or_insert(Errno::EIO);
        }
        Self::count_unconfirmed(request, true);
    }
}

/// Returns the mode of a new file: its type bits and the permissions.
pub(crate) fn regular(permissions: u32) -> u32 {
    mode::REGULAR | (permissions & mode::PERMISSIONS)
}
