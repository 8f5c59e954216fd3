//! A socket whose peer requests a session, and the possible answers.

use std::sync::Arc;

use loligo_msgr_proto::{ClientIdent, Reconnect, v1};

use super::{Connection, PeerInfo};
use crate::Policy;
use crate::dialog::Dialog;

/// A socket on which a peer opens or resumes a session. The connection that it belongs to answers.
pub(crate) struct Incoming {
    pub(crate) dialog: Dialog,
    pub(crate) request: Request,
    pub(crate) peer: PeerInfo,
    /// The existing session must be reset.
    pub(crate) fresh: bool,
    /// Version 1: the peer has forgotten the existing session, and counts its messages from 1 again.
    pub(crate) anew: bool,
    /// The lossy session that this one replaces. Messages that the peer repeats must not overtake those
    /// it sent on the former session.
    pub(crate) former: Option<Arc<Connection>>,
}

/// The peer's request.
pub(crate) enum Request {
    Ident(ClientIdent),
    Reconnect(Reconnect),
    /// Version 1 has one request for both.
    V1(v1::Request),
}

/// The answer to a peer that opens or resumes a session this side has state for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The new socket replaces the old one. `fresh`: the session starts anew, and its messages are lost.
    Adopt { fresh: bool },
    /// The known connection is lossy and is replaced by a new one.
    Replace,
    /// This side is connecting to the peer, and that connection wins.
    Wait,
    /// A newer socket of the session is known.
    Retry { connect_seq: u64 },
    /// A newer connection of the peer is known.
    RetryGlobal { global_seq: u64 },
    /// The session is unknown.
    Reset { full: bool },
    /// The peer itself has abandoned this socket: close it.
    Stale,
}

impl Incoming {
    pub(crate) fn new(dialog: Dialog, request: Request, peer: PeerInfo) -> Self {
        Self { dialog, request, peer, fresh: false, anew: false, former: None }
    }
}

impl Request {
    /// The verdict if there is no connection that the request could refer to.
    pub(crate) fn unknown(&self, policy: &Policy) -> Verdict {
        match self {
            Self::Ident(_) => Verdict::Replace,
            Self::Reconnect(_) => Verdict::Reset { full: policy.resetcheck },
            Self::V1(request) if request.connect_seq > 0 && !policy.lossy => Verdict::Reset { full: true },
            Self::V1(_) => Verdict::Replace,
        }
    }
}
