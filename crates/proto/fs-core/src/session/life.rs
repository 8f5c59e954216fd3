//! The states of a session, from its opening to its end.

use std::collections::VecDeque;
use std::time::Duration;

use loligo_types::Rank;

use crate::caps::Validity;
use crate::time::Moment;

/// A session is renewed this many times within its time-out.
const RENEWALS_PER_TIMEOUT: u32 = 3;

/// Of how many renewals without an acknowledgement the time is kept.
const RENEWALS_KEPT: usize = 8;

/// Where a session is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// There is none.
    Closed,
    /// The server was asked to open it.
    Opening,
    /// It is open.
    Open,
    /// The server has restarted, and the client claims what it holds.
    Reconnecting,
    /// The server was asked to close it.
    Closing,
    /// The server refused it. A new attempt needs another reason than time.
    Rejected,
}

/// A message of a client about its session (`MClientSession`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outgoing {
    /// Opens the session.
    RequestOpen,
    /// Closes it. The server ignores a number that is not that of its pushes.
    RequestClose {
        /// The number of pushes that the client has processed.
        pushes: u64,
    },
    /// Renews it.
    RequestRenew {
        /// The number of the renewal.
        seq: u64,
    },
    /// Everything that the client knew when [`SessionEvent::Flush`] came has been sent.
    FlushAck {
        /// The number in the server's message.
        seq: u64,
    },
    /// Asks the server to make its journal durable, for an `fsync` that waits.
    FlushJournal,
}

/// A message of a metadata server, or another event of its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionEvent {
    /// The session is open (also the reply to a reconnect).
    Opened,
    /// The session is closed.
    Closed,
    /// A renewal is acknowledged.
    Renewed {
        /// The number of the renewal.
        seq: u64,
    },
    /// The server missed renewals, and all capabilities are void.
    Stale,
    /// The server wants the client to hold fewer capabilities.
    Recall {
        /// How many it may keep.
        max_caps: u32,
    },
    /// The server wants to know when the client has sent its releases.
    Flush {
        /// The number to reply with.
        seq: u64,
    },
    /// The session is read-only from now on.
    ForceReadOnly,
    /// The server refuses the session.
    Rejected {
        /// Whether the client's address is blocklisted.
        is_blocklisted: bool,
    },
    /// A message about a capability, a lease, a snapshot or a quota: the server counts them.
    Push,
    /// The connection was reset by the server: it has forgotten the session.
    Reset,
    /// The map shows that the rank waits for its clients to reconnect.
    RankReconnects,
}

/// Something that the owner must do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Send a message.
    Send(Outgoing),
    /// Requests and capabilities can be sent: the session is open.
    Opened,
    /// Look again at inodes with revoked capabilities. If `was_void`, the session's capabilities had not
    /// counted since before, and operations wait for them.
    Renewed {
        /// Whether capabilities did not count before.
        was_void: bool,
    },
    /// All capabilities of the session are void.
    Voided,
    /// Drop capabilities until no more than this many are left.
    Trim(u32),
    /// Send all releases that are due; the reply to the server follows.
    SendReleases,
    /// Writes and changes fail with EROFS.
    ReadOnly,
    /// Resend unsafe requests, claim capabilities with this previous generation (none has it if the session's
    /// time was over: all are void then), resend flushes and
    /// requests; then call [`Session::reconnect_sent`].
    Reconnect {
        /// The generation before the reconnect.
        previous: u32,
    },
    /// The session is closed, as the client wanted.
    Closed,
    /// The session is lost: capabilities, locks and unsafe changes with it.
    Lost,
    /// The server refuses the client.
    Rejected {
        /// Whether the client's address is blocklisted.
        is_blocklisted: bool,
    },
}

/// One session.
#[derive(Clone, Debug)]
pub struct Session {
    rank: Rank,
    phase: Phase,
    timeout: Duration,
    generation: u32,
    until: Moment,
    renewal: u64,
    /// When the last renewal, or what counts as one, was sent.
    renewal_sent: Moment,
    /// The renewals that are not acknowledged, and when each was sent. An acknowledgement may take longer
    /// than the time between two renewals.
    renewals: VecDeque<(u64, Moment)>,
    pushes: u64,
    is_read_only: bool,
    effects: Vec<Effect>,
}

impl Session {
    /// A session that is closed. `timeout` is that of the file system (`session_timeout`).
    pub fn new(rank: Rank, timeout: Duration) -> Self {
        Self {
            rank,
            phase: Phase::Closed,
            timeout,
            generation: 1,
            until: Moment::default(),
            renewal: 0,
            renewal_sent: Moment::default(),
            renewals: VecDeque::new(),
            pushes: 0,
            is_read_only: false,
            effects: Vec::new(),
        }
    }

    /// Takes the effects of all events since the last call.
    pub fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// The rank of the metadata server.
    pub fn rank(&self) -> Rank {
        self.rank
    }

    /// Where the session is in its life.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Whether changes are refused.
    pub fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    /// How far the session's capabilities may be trusted.
    pub fn validity(&self) -> Validity {
        let until = if self.phase == Phase::Open { self.until } else { Moment::default() };
        Validity { generation: self.generation, until }
    }

    /// A newer map has another time-out. It counts from the next renewal.
    pub fn set_timeout(&mut self, timeout: Duration) {
        self.timeout = timeout;
    }

    /// Opens a session that is closed or was refused.
    pub fn open(&mut self, now: Moment) {
        if matches!(self.phase, Phase::Closed | Phase::Rejected) {
            self.phase = Phase::Opening;
            self.renewal_sent = now;
            self.pushes = 0;
            self.renewals.clear();
            self.is_read_only = false;
            self.send(Outgoing::RequestOpen);
        }
    }

    /// Closes the session, after the owner has flushed and released everything.
    pub fn close(&mut self) {
        match self.phase {
            Phase::Open | Phase::Opening => {
                self.phase = Phase::Closing;
                self.send(Outgoing::RequestClose { pushes: self.pushes });
            }
            Phase::Reconnecting => {
                self.phase = Phase::Closed;
                self.effects.push(Effect::Closed);
            }
            Phase::Closed | Phase::Closing | Phase::Rejected => {}
        }
    }

    /// Asks the server to make its journal durable.
    pub fn flush_journal(&mut self) {
        if self.phase == Phase::Open {
            self.send(Outgoing::FlushJournal);
        }
    }

    /// Time has passed. Returns when to call again.
    pub fn tick(&mut self, now: Moment) -> Option<Moment> {
        if self.phase != Phase::Open {
            return None;
        }
        let interval = self.timeout / RENEWALS_PER_TIMEOUT;
        if now >= self.renewal_sent + interval {
            self.renew(now);
        }
        Some(self.renewal_sent + interval)
    }

    /// An event of the server.
    pub fn event(&mut self, event: SessionEvent, now: Moment) {
        match event {
            SessionEvent::Opened => self.opened(),
            SessionEvent::Closed => self.ended(),
            SessionEvent::Reset => self.ended(),
            SessionEvent::Renewed { seq } => self.renewed(seq, now),
            SessionEvent::Stale => self.stale(now),
            SessionEvent::Recall { max_caps } => self.effects.push(Effect::Trim(max_caps)),
            SessionEvent::Flush { seq } => {
                self.effects.push(Effect::SendReleases);
                self.send(Outgoing::FlushAck { seq });
            }
            SessionEvent::ForceReadOnly => {
                self.is_read_only = true;
                self.effects.push(Effect::ReadOnly);
            }
            SessionEvent::Rejected { is_blocklisted } => {
                let was_open = !matches!(self.phase, Phase::Opening | Phase::Closed);
                self.phase = Phase::Rejected;
                if was_open {
                    self.effects.push(Effect::Lost);
                }
                self.effects.push(Effect::Rejected { is_blocklisted });
            }
            SessionEvent::Push => self.pushed(),
            SessionEvent::RankReconnects => self.reconnect(now),
        }
    }

    /// The reconnect has been sent at this moment; the server takes it for a renewal.
    pub fn reconnect_sent(&mut self, now: Moment) {
        self.renewal_sent = now;
    }

    fn opened(&mut self) {
        match self.phase {
            Phase::Opening | Phase::Reconnecting => {
                self.phase = Phase::Open;
                self.until = self.renewal_sent + self.timeout;
                self.effects.push(Effect::Opened);
            }
            // An open session is opened again when the server's features have changed.
            Phase::Open | Phase::Closed | Phase::Closing | Phase::Rejected => {}
        }
    }

    fn ended(&mut self) {
        let effect = match self.phase {
            Phase::Closed | Phase::Rejected => return,
            Phase::Closing => Effect::Closed,
            Phase::Opening | Phase::Open | Phase::Reconnecting => Effect::Lost,
        };
        self.phase = Phase::Closed;
        self.generation = self.generation.wrapping_add(1);
        self.until = Moment::default();
        self.effects.push(effect);
    }

    fn renewed(&mut self, seq: u64, now: Moment) {
        if self.phase != Phase::Open {
            return;
        }
        let Some(sent) = self.renewals.iter().find(|(other, _)| *other == seq).map(|(_, sent)| *sent) else {
            return;
        };
        self.renewals.retain(|(other, _)| *other > seq);
        let was_void = now >= self.until;
        self.until = self.until.max(sent + self.timeout);
        self.effects.push(Effect::Renewed { was_void });
    }

    fn stale(&mut self, now: Moment) {
        if self.phase != Phase::Open {
            return;
        }
        self.generation = self.generation.wrapping_add(1);
        self.until = Moment::default();
        self.effects.push(Effect::Voided);
        self.renew(now);
    }

    fn renew(&mut self, now: Moment) {
        self.renewal += 1;
        self.renewal_sent = now;
        self.renewals.push_back((self.renewal, now));
        if self.renewals.len() > RENEWALS_KEPT {
            self.renewals.pop_front();
        }
        self.send(Outgoing::RequestRenew { seq: self.renewal });
    }

    fn pushed(&mut self) {
        self.pushes += 1;
        if self.phase == Phase::Closing {
            // The server has ignored the request, whose number was too small.
            self.send(Outgoing::RequestClose { pushes: self.pushes });
        }
    }

    fn reconnect(&mut self, now: Moment) {
        match self.phase {
            Phase::Open | Phase::Reconnecting => {
                // The old server may have given others what this client had, and its word of that is lost.
                if self.phase == Phase::Open && now >= self.until {
                    self.generation = self.generation.wrapping_add(1);
                }
                let previous = self.generation;
                self.phase = Phase::Reconnecting;
                self.generation = self.generation.wrapping_add(1);
                self.until = Moment::default();
                self.pushes = 0;
                self.renewals.clear();
                self.effects.push(Effect::Voided);
                self.effects.push(Effect::Reconnect { previous });
            }
            // The server has not heard of the request, or has forgotten it.
            Phase::Opening => self.send(Outgoing::RequestOpen),
            Phase::Closing => self.ended(),
            Phase::Closed | Phase::Rejected => {}
        }
    }

    fn send(&mut self, message: Outgoing) {
        self.effects.push(Effect::Send(message));
    }
}
