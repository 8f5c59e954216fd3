//! A client of toy metadata servers: a small version of how a file system client uses `cluster`.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use loligo_cluster::{Cluster, Dialer, MonClient, Peers};
use loligo_msgr::{Connection, Policy};
use loligo_wire::message::{Message as _, Msg};
use loligo_wire::{EntityAddr, EntityType};

use super::{Answer, Ask, Map, lock};

/// See the [module](self).
pub(crate) struct MdsClient {
    monitors: Arc<MonClient>,
    dialer: Arc<Dialer>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    map: Map,
    conn: Option<Arc<Connection>>,
    unanswered: VecDeque<u64>,
    answers: Vec<u64>,
    opened: usize,
    connected: usize,
    lost: usize,
    forgotten: usize,
}

impl MdsClient {
    pub(crate) fn new(cluster: &Cluster) -> Arc<Self> {
        let (monitors, dialer) = (Arc::clone(cluster.monitors()), Arc::clone(cluster.dialer()));
        Arc::new(Self { monitors, dialer, state: Mutex::default() })
    }

    /// Sends a number to the server, now or as soon as there is a server.
    pub(crate) fn ask(&self, number: u64) {
        let mut state = lock(&self.state);
        state.unanswered.push_back(number);
        if let Some(conn) = &state.conn {
            conn.send(Msg::new(&Ask { number })).expect("a lossless connection takes it");
        }
    }

    pub(crate) fn answers(&self) -> Vec<u64> {
        lock(&self.state).answers.clone()
    }

    /// Number of sessions opened.
    pub(crate) fn opened(&self) -> usize {
        lock(&self.state).opened
    }

    pub(crate) fn times_connected(&self) -> usize {
        lock(&self.state).connected
    }

    pub(crate) fn times_lost(&self) -> usize {
        lock(&self.state).lost
    }

    pub(crate) fn times_forgotten(&self) -> usize {
        lock(&self.state).forgotten
    }

    fn open(&self, state: &mut State, addr: EntityAddr) {
        if let Some(conn) = state.conn.take() {
            conn.mark_down();
        }
        state.opened += 1;
        let conn = self.dialer.connect(EntityType::MDS, addr, Policy::lossless_client(), |_| {});
        state.conn = conn;
        self.ask_again(state);
    }

    fn ask_again(&self, state: &State) {
        let Some(conn) = &state.conn else { return };
        for number in &state.unanswered {
            conn.send(Msg::new(&Ask { number: *number })).expect("a lossless connection takes it");
        }
    }
}

impl Peers for MdsClient {
    fn dispatch(&self, _: &Arc<Connection>, msgs: &mut Vec<Msg>) {
        let mut state = lock(&self.state);
        for msg in msgs.drain(..).filter(|msg| msg.header.kind == Answer::KIND) {
            let Answer { number } = msg.open().expect("an answer");
            state.unanswered.retain(|asked| *asked != number);
            state.answers.push(number);
        }
    }

    fn take_map(&self, msg: &Msg) {
        let map: Map = msg.open().expect("a map");
        self.monitors.got("mdsmap", map.epoch.into());
        let mut state = lock(&self.state);
        if map.epoch > state.map.epoch {
            state.map = map;
            self.open(&mut state, map.addr);
        }
    }

    fn connected(&self, _: &Arc<Connection>) {
        lock(&self.state).connected += 1;
    }

    fn lost(&self, _: &Arc<Connection>) {
        lock(&self.state).lost += 1;
    }

    fn forgotten(&self, _: &Arc<Connection>) {
        let mut state = lock(&self.state);
        state.forgotten += 1;
        self.ask_again(&state);
    }
}
