//! The state that a connection keeps from one socket to the next, and the rules by which two sockets of
//! one session are told apart.

use std::sync::Arc;

use loligo_msgr_proto::{ClientIdent, Reconnect, v1};
use loligo_wire::EntityAddr;
use tokio::time::Instant;

use super::incoming::{Incoming, Verdict};
use super::{PeerInfo, State};
use crate::admission::Place;
use crate::socket::Socket;
use crate::{Error, Policy};

/// Guarded by the connection's own lock, `msgr.session`. `state` is also in the out-queue, and is
/// written under both locks.
pub(crate) struct Session {
    pub(crate) state: State,
    pub(crate) peer: PeerInfo,
    /// The socket, while open.
    pub(crate) socket: Option<Arc<Socket>>,
    /// Why this side shut the socket down, if it did: the reader only sees the end.
    pub(crate) shut_down: Option<Error>,
    /// A socket that the peer has opened for this session, and that will replace the current one.
    pub(crate) incoming: Option<Box<Incoming>>,
    /// The session's place among the accepted sessions, until it is closed.
    pub(crate) place: Option<Place>,
    pub(crate) numbers: Numbers,
    pub(crate) keepalive: Keepalive,
}

/// The numbers by which the two sides identify a lossless session and its newest socket.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Numbers {
    /// The random number chosen by the side that opened the session; 0 if lossy.
    pub(crate) client_cookie: u64,
    /// The random number chosen by the side that accepted the session; 0 until it is known.
    pub(crate) server_cookie: u64,
    /// Counts the sockets of the session.
    pub(crate) connect_seq: u64,
    /// The highest connection count that the peer has announced, over all its connections.
    pub(crate) peer_global_seq: u64,
}

/// When a keepalive was last sent, and when the peer was last heard.
pub(crate) struct Keepalive {
    /// Whether keepalives are sent.
    pub(crate) watched: bool,
    pub(crate) asked_at: Instant,
    pub(crate) heard_at: Instant,
    /// The connection's count of reads at `heard_at`.
    pub(crate) reads: u64,
}

impl Session {
    /// Decides about a peer that opens a session while this one, with the same peer, exists. The rules
    /// are those of `ProtocolV2::handle_existing_connection` in `src/msg/async/ProtocolV2.cc`.
    pub(crate) fn judge_ident(&self, policy: &Policy, ident: &ClientIdent, ours: &EntityAddr) -> Verdict {
        let known = &self.numbers;
        if known.peer_global_seq > ident.global_seq {
            return Verdict::Stale;
        }
        if policy.lossy {
            return Verdict::Replace;
        }
        if known.client_cookie == ident.cookie {
            // The session was accepted, but the peer has not learned of it.
            return Verdict::Adopt { fresh: false };
        }
        if known.server_cookie != 0 && known.client_cookie != 0 {
            // There was a session, and the peer has forgotten it.
            return Verdict::Adopt { fresh: true };
        }
        // Both sides are connecting to each other: both must choose the same one of the two connections.
        if policy.server || addr_key(&self.peer.addr) < addr_key(ours) {
            Verdict::Adopt { fresh: false }
        } else {
            Verdict::Wait
        }
    }

    /// Decides about a peer that resumes a session. The rules are those of
    /// `ProtocolV2::handle_reconnect`.
    pub(crate) fn judge_reconnect(&self, policy: &Policy, request: &Reconnect, ours: &EntityAddr) -> Verdict {
        let known = &self.numbers;
        if known.client_cookie != request.client_cookie || known.server_cookie == 0 {
            return Verdict::Reset { full: policy.resetcheck };
        }
        if known.peer_global_seq > request.global_seq {
            return Verdict::RetryGlobal { global_seq: known.peer_global_seq };
        }
        if known.connect_seq > request.connect_seq {
            return Verdict::Retry { connect_seq: known.connect_seq };
        }
        let race = known.connect_seq == request.connect_seq;
        if race && !policy.server && addr_key(&self.peer.addr) > addr_key(ours) {
            return Verdict::Wait;
        }
        Verdict::Adopt { fresh: false }
    }
}

impl Session {
    /// Decides about a peer that opens or resumes a session by version 1. The rules are those of
    /// `ProtocolV1::handle_connect_message_2` in `src/msg/async/ProtocolV1.cc`.
    pub(crate) fn judge_v1(&self, policy: &Policy, request: &v1::Request, ours: &EntityAddr) -> Verdict {
        let known = &self.numbers;
        if policy.lossy {
            return Verdict::Replace;
        }
        if known.peer_global_seq > request.global_seq {
            return Verdict::RetryGlobal { global_seq: known.peer_global_seq };
        }
        if known.has_forgotten(request) {
            return Verdict::Adopt { fresh: policy.resetcheck };
        }
        if known.connect_seq > request.connect_seq {
            return Verdict::Retry { connect_seq: known.connect_seq };
        }
        if known.connect_seq == request.connect_seq {
            let has_been_open = matches!(self.state, State::Open | State::Standby);
            if has_been_open && !(policy.resetcheck && known.connect_seq == 0) {
                // No race: the peer has not learned that its last request was granted.
                return Verdict::Retry { connect_seq: known.connect_seq };
            }
            if !has_been_open && !policy.server && addr_key(&self.peer.addr) > addr_key(ours) {
                return Verdict::Wait;
            }
            return Verdict::Adopt { fresh: false };
        }
        if policy.resetcheck && known.connect_seq == 0 {
            return Verdict::Reset { full: true };
        }
        Verdict::Adopt { fresh: false }
    }
}

impl Numbers {
    /// Whether a peer that connects by version 1 has forgotten the session.
    pub(crate) fn has_forgotten(&self, request: &v1::Request) -> bool {
        request.connect_seq == 0 && self.connect_seq > 0
    }

    /// Counts the socket that a peer opens by version 1.
    pub(crate) fn count_v1(&mut self, request: &v1::Request) {
        self.peer_global_seq = request.global_seq;
        self.connect_seq = request.connect_seq + 1;
    }
}

/// The order of addresses by which both sides agree on the winning connection.
fn addr_key(addr: &EntityAddr) -> impl Ord {
    (addr.sock, addr.nonce)
}

#[cfg(test)]
mod tests {
    use loligo_wire::EntityType;

    use super::*;

    fn addr(port: u16) -> EntityAddr {
        EntityAddr::msgr2(([127, 0, 0, 1], port).into())
    }

    fn session(numbers: Numbers) -> Session {
        let now = Instant::now();
        Session {
            state: State::Connecting,
            peer: PeerInfo { kind: EntityType::OSD, num: 1, addr: addr(10), from: None, features: 0 },
            socket: None,
            shut_down: None,
            incoming: None,
            place: None,
            numbers,
            keepalive: Keepalive { watched: false, asked_at: now, heard_at: now, reads: 0 },
        }
    }

    fn ident(cookie: u64, global_seq: u64) -> ClientIdent {
        ClientIdent { cookie, global_seq, ..ClientIdent::default() }
    }

    const UP: Numbers = Numbers { client_cookie: 5, server_cookie: 6, connect_seq: 2, peer_global_seq: 9 };

    #[test]
    fn idents_are_judged_by_cookie_then_by_address() {
        let peer = Policy::lossless_peer();
        assert_eq!(session(UP).judge_ident(&peer, &ident(5, 8), &addr(9)), Verdict::Stale);
        assert_eq!(session(UP).judge_ident(&peer, &ident(5, 9), &addr(9)), Verdict::Adopt { fresh: false });
        assert_eq!(session(UP).judge_ident(&peer, &ident(7, 9), &addr(9)), Verdict::Adopt { fresh: true });
        assert_eq!(
            session(UP).judge_ident(&Policy::stateless_server(), &ident(0, 9), &addr(9)),
            Verdict::Replace
        );
        let connecting = Numbers { client_cookie: 5, ..Numbers::default() };
        assert_eq!(session(connecting).judge_ident(&peer, &ident(7, 9), &addr(9)), Verdict::Wait);
        assert_eq!(
            session(connecting).judge_ident(&peer, &ident(7, 9), &addr(11)),
            Verdict::Adopt { fresh: false }
        );
    }

    /// Each rule of version 1 once: for peers, for a server that keeps sessions, and for one that does not.
    #[test]
    fn requests_of_version_1_are_judged_by_counts_then_by_address() {
        let request = |global_seq, connect_seq| v1::Request {
            addr: addr(10),
            features: 0,
            global_seq,
            connect_seq,
            lossy: false,
        };
        let known = |state, connect_seq| {
            let mut session = session(Numbers { connect_seq, peer_global_seq: 9, ..Numbers::default() });
            session.state = state;
            session
        };
        let (peer, server) = (Policy::lossless_peer(), Policy::stateful_server());
        let (adopt, anew) = (Verdict::Adopt { fresh: false }, Verdict::Adopt { fresh: true });
        use State::{Connecting, Open, Standby};
        for (policy, state, ours, theirs, our_port, verdict) in [
            (&peer, Open, 2, (8, 3), 9, Verdict::RetryGlobal { global_seq: 9 }),
            (&peer, Open, 2, (9, 0), 9, adopt),
            (&server, Open, 2, (9, 0), 9, anew),
            (&peer, Open, 2, (9, 1), 9, Verdict::Retry { connect_seq: 2 }),
            (&peer, Open, 2, (9, 2), 9, Verdict::Retry { connect_seq: 2 }),
            (&peer, Standby, 2, (9, 2), 11, Verdict::Retry { connect_seq: 2 }),
            (&server, Standby, 0, (9, 0), 9, Verdict::Adopt { fresh: false }),
            (&peer, Connecting, 0, (9, 0), 9, Verdict::Wait),
            (&peer, Connecting, 0, (9, 0), 11, Verdict::Adopt { fresh: false }),
            (&server, Connecting, 2, (9, 2), 9, Verdict::Adopt { fresh: false }),
            (&server, Connecting, 0, (9, 4), 9, Verdict::Reset { full: true }),
            (&peer, Connecting, 0, (9, 4), 9, Verdict::Adopt { fresh: false }),
            (&peer, Open, 2, (9, 3), 9, Verdict::Adopt { fresh: false }),
            (&Policy::stateless_server(), Open, 2, (1, 0), 9, Verdict::Replace),
        ] {
            let judged = known(state, ours).judge_v1(policy, &request(theirs.0, theirs.1), &addr(our_port));
            assert_eq!(judged, verdict, "{state:?}, ours {ours}, theirs {theirs:?}, {policy:?}");
        }
    }

    #[test]
    fn reconnects_are_judged_by_cookie_then_by_count() {
        let peer = Policy::lossless_peer();
        let request = |client_cookie, global_seq, connect_seq| Reconnect {
            client_cookie,
            global_seq,
            connect_seq,
            ..Reconnect::default()
        };
        let judge = |r: Reconnect, ours| session(UP).judge_reconnect(&peer, &r, &addr(ours));
        assert_eq!(judge(request(4, 9, 3), 9), Verdict::Reset { full: false });
        assert_eq!(judge(request(5, 8, 3), 9), Verdict::RetryGlobal { global_seq: 9 });
        assert_eq!(judge(request(5, 9, 1), 9), Verdict::Retry { connect_seq: 2 });
        assert_eq!(judge(request(5, 9, 2), 9), Verdict::Wait);
        assert_eq!(judge(request(5, 9, 2), 11), Verdict::Adopt { fresh: false });
        assert_eq!(judge(request(5, 9, 3), 9), Verdict::Adopt { fresh: false });
        let half = Numbers { server_cookie: 0, ..UP };
        let verdict = session(half).judge_reconnect(&Policy::stateful_server(), &request(5, 9, 3), &addr(9));
        assert_eq!(verdict, Verdict::Reset { full: true });
    }
}
