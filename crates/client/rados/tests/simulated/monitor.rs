//! A monitor: publishes maps as it learns of them, and replies to requests.

use std::sync::Arc;

use loligo_maps::MonMap;
use loligo_msgr::{Connection, Dispatcher};
use loligo_wire::message::mon::{
    MConfig, MMonGetVersion, MMonGetVersionReply, MMonMap, MMonSubscribe, MStatfs, MStatfsReply,
};
use loligo_wire::message::{Message as _, Msg};
use loligo_wire::{Encode as _, Epoch, UTime};

use crate::cluster::{Cluster, FSID, MONS, State, addrs_of, mon_addr};

pub(crate) struct Mon {
    pub(crate) mon: usize,
    pub(crate) cluster: Arc<Cluster>,
}

/// A connection subscribed to all maps after `epoch`.
pub(crate) struct Subscriber {
    pub(crate) mon: usize,
    conn: Arc<Connection>,
    epoch: Epoch,
}

impl Dispatcher for Mon {
    fn accepted(&self, conn: &Arc<Connection>) {
        let mons = ["a", "b", "c"].into_iter().zip(0..MONS);
        let addrs = |mon| addrs_of(self.cluster.entity(mon_addr(mon)));
        let mons = mons.map(|(name, mon)| (name.into(), addrs(mon)));
        let monmap = MonMap::new(FSID, UTime { sec: 1, nsec: 0 }, mons);
        let _ = conn.send(Msg::new(&MMonMap { monmap: monmap.to_bytes() }));
        let _ = conn.send(Msg::new(&MConfig::default()));
    }

    fn dispatch(&self, conn: &Arc<Connection>, msgs: &mut Vec<Msg>) {
        for msg in msgs.drain(..) {
            hear(&self.cluster, self.mon, conn, msg);
        }
    }
}

/// Handles a message, or retries later while the monitor hangs.
fn hear(cluster: &Arc<Cluster>, mon: usize, conn: &Arc<Connection>, msg: Msg) {
    let mut state = cluster.lock();
    if state.mons[mon].hangs {
        let conn = Arc::clone(conn);
        return cluster.spawn_later(50, move |cluster| hear(cluster, mon, &conn, msg));
    }
    match msg.header.kind {
        MMonSubscribe::KIND => {
            let wanted: MMonSubscribe = msg.open().expect("a subscription");
            let Some(wanted) = wanted.what.get("osdmap") else { return };
            state.say(|| format!("mon.{mon} is asked for maps from {}", wanted.start));
            state.subscribers.retain(|there| there.conn.id() != conn.id());
            let epoch = Epoch((wanted.start as u32).saturating_sub(1));
            state.subscribers.push(Subscriber { mon, conn: Arc::clone(conn), epoch });
            state.send_maps(mon);
        }
        MMonGetVersion::KIND => {
            let asked: MMonGetVersion = msg.open().expect("a question");
            let version = state.map.epoch.0.into();
            let _ = conn.send(Msg::new(&MMonGetVersionReply { handle: asked.handle, version, oldest: 1 }));
        }
        MStatfs::KIND => {
            let _ = conn.send(Msg::new(&MStatfsReply::default()).with_tid(msg.header.tid));
        }
        _ => {}
    }
}

impl State {
    /// Sends a monitor's subscribers the maps they do not have yet.
    fn send_maps(&mut self, mon: usize) {
        let known = self.mons[mon].known;
        let mut subscribers = std::mem::take(&mut self.subscribers);
        for subscriber in subscribers.iter_mut().filter(|subscriber| subscriber.mon == mon) {
            while let Some((last, msg)) = self.maps_after(subscriber.epoch, known) {
                subscriber.epoch = last;
                let _ = subscriber.conn.send(msg);
            }
        }
        self.subscribers = subscribers;
    }
}

impl Cluster {
    /// Tells a monitor of a new map.
    pub(crate) fn mon_learns(self: &Arc<Self>, mon: usize, epoch: Epoch) {
        let mut state = self.lock();
        if state.mons[mon].hangs {
            return self.spawn_later(50, move |cluster| cluster.mon_learns(mon, epoch));
        }
        state.mons[mon].known = state.mons[mon].known.max(epoch);
        state.send_maps(mon);
    }
}
