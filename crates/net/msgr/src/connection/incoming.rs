//! A socket whose peer wants a session, and what it can be answered.

use std::sync::Arc;

use loligo_msgr_proto::{ClientIdent, Reconnect};

use super::{Connection, PeerInfo};
use crate::Policy;
use crate::dialog::Dialog;

/// A socket on which a peer wants to open or resume a session. The connection that it is for answers.
pub(crate) struct Incoming {
    pub(crate) dialog: Dialog,
    pub(crate) request: Request,
    pub(crate) peer: PeerInfo,
    /// The session there was is to be forgotten.
    pub(crate) fresh: bool,
    /// The lossy session that this one takes the place of. What the peer sends again must not overtake what
    /// it sent there.
    pub(crate) former: Option<Arc<Connection>>,
}

/// What the peer asks for.
pub(crate) enum Request {
    Ident(ClientIdent),
    Reconnect(Reconnect),
}

/// What to answer to a peer that opens or resumes a session of which we know something.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The new socket takes the old one's place. `fresh`: the session starts anew, what was in it is lost.
    Adopt { fresh: bool },
    /// The known connection is lossy, so it is over.
    Replace,
    /// We are connecting to the peer ourselves, and that connection wins.
    Wait,
    /// We know a newer socket of the session.
    Retry { connect_seq: u64 },
    /// We know a newer connection of the peer.
    RetryGlobal { global_seq: u64 },
    /// We do not know the session.
    Reset { full: bool },
    /// The peer itself has given this socket up: close it.
    Stale,
}

impl Request {
    /// The verdict if there is no connection that could be meant.
    pub(crate) fn unknown(&self, policy: &Policy) -> Verdict {
        match self {
            Self::Ident(_) => Verdict::Replace,
            Self::Reconnect(_) => Verdict::Reset { full: policy.resetcheck },
        }
    }
}
