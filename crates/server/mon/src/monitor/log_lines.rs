//! Clients that follow the cluster's log (`ceph -w`).

use loligo_cephx::caps::Perms;
use loligo_wire::message::Msg;
use loligo_wire::message::mon::{LogEntry, MLog, PaxosHeader};

use super::{Monitor, SessionId, send};
use crate::session::Session;
use crate::state::State;
use crate::state::log::{SUBSCRIPTIONS, severity};

impl Monitor {
    /// Sends new lines of the log to its subscribers.
    pub(super) fn tell_of_new_lines(&mut self) {
        let count = self.state.log().count();
        if count == self.lines_told {
            return;
        }
        self.lines_told = count;
        for (id, session) in &mut self.sessions {
            tell(&mut self.out, *id, session, &self.state);
        }
    }
}

/// Sends new lines to one client. As in Ceph, a new subscriber gets the last line, so that its output is
/// not empty.
pub(super) fn tell(out: &mut Vec<(SessionId, Msg)>, id: SessionId, session: &mut Session, state: &State) {
    let count = state.log().count();
    for (what, least) in SUBSCRIPTIONS {
        if !session.may("mon", Perms::R) {
            return;
        }
        let Some(start) = session.take_due(what, count) else { continue };
        let entries: Vec<LogEntry> = match start {
            0 => state.log().last(1, least, "*").into_iter().cloned().collect(),
            start => state.log().since(start).filter(|line| severity(line) >= least).cloned().collect(),
        };
        if !entries.is_empty() {
            send(out, id, &MLog { paxos: PaxosHeader { version: count }, fsid: state.fsid(), entries });
        }
    }
}
