//! Requests to metadata servers, from a caller's first send to the reply, across servers and sessions.

use std::sync::Arc;

use loligo_rados::Errno;
use loligo_wire::message::Msg;
use loligo_wire::message::mds::{ClientRequest, HeadVersion, RequestRelease};
use loligo_wire::{DecodeError, Tid, UTime};
use tokio::sync::oneshot;

use crate::core::Core;
use crate::error::Error;
use crate::inode::Inode;
use crate::session::{Done, Event, Flight, Phase, Request, Session, State};
use crate::sink::Invalidation;

/// Servers that may pass a request on before this client gives up.
const FORWARDS_MAX: u32 = 32;

impl Core {
    /// Sends a request to the server that it concerns and waits for the reply. A request whose future is
    /// dropped may be carried out or not.
    ///
    /// # Errors
    /// The server's, or the end of this client's session.
    pub(crate) async fn call(&self, request: Request) -> Result<Done, Error> {
        let request = Arc::new(request);
        let (mut to, mut retries, mut forwards) = (None, 0, 0);
        let began = std::time::Instant::now();
        loop {
            let session = self.session_for(to, &request).await?;
            let (caller, called) = oneshot::channel();
            let flight = Flight {
                request: Arc::clone(&request),
                retries,
                forwards,
                sent_ms: self.now_ms(),
                made: None,
                caller: Some(caller),
            };
            self.submit(&session, flight);
            let answer = called.await;
            if matches!(answer, Ok(Event::Done(_) | Event::Failed(_))) {
                self.metrics.called(began.elapsed());
            }
            match answer {
                Ok(Event::Done(done)) => return Ok(done),
                Ok(Event::Failed(e)) => {
                    self.doubt_names(&request);
                    return Err(e);
                }
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

    /// Tells a cache above this client to ask again for the names of a request that has failed: what vouched
    /// for them may have gone with it.
    fn doubt_names(&self, request: &Request) {
        if !self.is_watched() || !request.op.is_write() {
            return;
        }
        for (dir, name) in request.entry.iter().chain(&request.renames) {
            self.invalidate(Invalidation::Name(dir.id.into(), name.clone()));
        }
    }

    /// Gives a request to a session: numbers and queues it in one step, so that requests leave in the
    /// order of their numbers. What the request spoils goes back with it.
    fn submit(&self, session: &Session, flight: Flight) {
        let releases = self.give_with(session, &flight.request);
        {
            let mut state = session.state();
            if matches!(state.phase, Phase::Ended(_)) {
                drop(state);
                let mut flight = flight;
                flight.tell(Event::Again);
                return;
            }
            let tid = self.next_tid();
            let msg = self.packed(tid, &flight, &state, Sending::First(releases));
            state.pending.insert(tid, flight);
            session.queue(msg);
        }
        session.run();
    }

    /// Encodes a request.
    pub(super) fn packed(&self, tid: Tid, flight: &Flight, state: &State, sending: Sending) -> Msg {
        let Flight { request, retries, forwards, made, .. } = flight;
        let replay = matches!(sending, Sending::Replay);
        let caller = request.caller.as_ref().unwrap_or(&self.caller);
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
            caller_uid: caller.uid,
            caller_gid: caller.gid,
            owner_uid: caller.uid,
            owner_gid: caller.gid,
            ino: made.as_ref().filter(|_| replay).map(|made| made.id.ino).unwrap_or_default(),
            op: request.op,
            path: request.path.clone(),
            path2: request.path2.clone(),
            stamp: UTime::now(),
            releases: match sending {
                Sending::First(releases) => releases,
                Sending::Again | Sending::Replay => Vec::new(),
            },
            gids: caller.groups.iter().map(|gid| u64::from(*gid)).collect(),
            data: request.data.clone(),
            ..ClientRequest::default()
        };
        Msg::new(&body).with_tid(tid)
    }

    /// Counts a request that is carried out and not durable with the inodes that it changes, or one that
    /// has become durable.
    pub(super) fn count_unconfirmed<'i>(inodes: impl Iterator<Item = &'i Arc<Inode>>, has_ended: bool) {
        for inode in inodes {
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
    pub(super) fn note_lost(flight: &Flight) {
        for inode in flight.changes() {
            inode.known().failures.note(Errno::EIO);
        }
        Self::count_unconfirmed(flight.changes(), true);
    }
}

/// Why a request is sent.
pub(super) enum Sending {
    /// The server has not had it in this session. It gives these capabilities back.
    First(Vec<RequestRelease>),
    /// The server may have it. It knows from the session's claims what this client holds.
    Again,
    /// The server had carried it out before its restart.
    Replay,
}

/// Returns what went wrong where a reply lacks what it must have.
pub(crate) fn missing(what: &'static str, rank: i32) -> Error {
    Error::Decode { what, rank, source: DecodeError::Invalid { what: "reply without an inode", value: 0 } }
}
