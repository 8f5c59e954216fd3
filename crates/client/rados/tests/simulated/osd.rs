//! An OSD: processes requests by placement group, and drops those that a real OSD drops.

use std::sync::Arc;
use std::time::Duration;

use loligo_msgr::{Connection, Dispatcher, State as ConnState};
use loligo_wire::message::osd::{
    BackoffOp, HObject, MOSDBackoff, MOSDOp, MOSDOpReply, ObjectLocator, OpCode, OsdFlags, RequestRedirect,
};
use loligo_wire::message::{Message as _, Msg};
use loligo_wire::{Epoch, Errno, Eversion, OsdId, PgId, Tid};
use tokio::time::{Instant, sleep};

use crate::cluster::{Backoff, Cluster, State};

const EAGAIN: i32 = Errno::EAGAIN.to_result();
const ENOENT: i32 = Errno::ENOENT.to_result();
const ENOSPC: i32 = Errno::ENOSPC.to_result();
/// The result of a byte comparison that differs at the first byte.
const MISMATCH: i32 = -4095;

pub(crate) struct Osd {
    pub(crate) osd: usize,
    pub(crate) life: u64,
    pub(crate) cluster: Arc<Cluster>,
}

/// A queued message.
#[derive(Clone)]
pub(crate) enum Item {
    Request(Request),
    /// The acknowledgement of a backoff, by its id. Requests that preceded it on the connection were
    /// sent before the client knew of the backoff.
    Ack {
        conn: Arc<Connection>,
        id: u64,
    },
}

#[derive(Clone)]
pub(crate) struct Request {
    conn: Arc<Connection>,
    tid: Tid,
    request: Arc<MOSDOp>,
}

/// The outcome of a request at the front of the queue.
enum Turn {
    Wait(u64),
    Dropped(&'static str),
    Answered(Box<MOSDOpReply>),
}

impl Dispatcher for Osd {
    fn dispatch(&self, conn: &Arc<Connection>, msgs: &mut Vec<Msg>) {
        for msg in msgs.drain(..) {
            match msg.header.kind {
                MOSDOp::KIND => self.receive(conn, &msg),
                MOSDBackoff::KIND => self.acknowledged(conn, &msg.open().expect("an acknowledgement")),
                _ => {}
            }
        }
    }
}

impl Osd {
    fn receive(&self, conn: &Arc<Connection>, msg: &Msg) {
        let request: MOSDOp = msg.open().expect("a request");
        let (tid, pg) = (msg.header.tid, request.spgid.pgid);
        let mut state = self.cluster.lock();
        if state.osds[self.osd].life != self.life || state.osds[self.osd].messenger.is_none() {
            return;
        }
        state.say(|| {
            let oid = String::from_utf8_lossy(&request.oid).into_owned();
            let (osd, attempt, epoch) = (self.osd, request.retry_attempt, request.map_epoch);
            let ops: Vec<_> =
                request.ops.iter().map(|op| (op.code, String::from_utf8_lossy(&op.data))).collect();
            format!("osd.{osd} receives {tid:?} attempt {attempt} for {oid} in {pg:?} by {epoch:?}: {ops:?}")
        });
        let object = request.hobject();
        let sent_into =
            state.backoffs.iter().any(|b| b.acked && !b.released && b.covers(conn, request.spgid, &object));
        if sent_into {
            state.violations.push(format!("{tid:?} was sent into a backoff"));
        }
        let known = state.osds[self.osd].known;
        if state.chance(50)
            && let Some((_, maps)) = state.maps_after(request.map_epoch, known)
        {
            let _ = conn.send(maps);
        }
        let request = Request { conn: Arc::clone(conn), tid, request: Arc::new(request) };
        self.enqueue(&mut state, pg, Item::Request(request));
    }

    fn enqueue(&self, state: &mut State, pg: PgId, item: Item) {
        let queue = state.queues.entry((self.osd, self.life, pg)).or_default();
        queue.push_back(item);
        if queue.len() == 1 {
            tokio::spawn(work(Arc::clone(&self.cluster), self.osd, self.life, pg));
        }
    }

    fn acknowledged(&self, conn: &Arc<Connection>, ack: &MOSDBackoff) {
        let mut state = self.cluster.lock();
        // The acknowledgement arrived in order with the requests, so it is queued with them.
        for backoff in state.backoffs.iter_mut().filter(|b| b.conn.id() == conn.id() && b.id == ack.id) {
            backoff.acked = true;
        }
        self.enqueue(&mut state, ack.pgid.pgid, Item::Ack { conn: Arc::clone(conn), id: ack.id });
    }
}

/// Processes a placement group's queue until it is empty or the OSD has died.
async fn work(cluster: Arc<Cluster>, osd: usize, life: u64, pg: PgId) {
    let key = (osd, life, pg);
    loop {
        let pause = cluster.lock().below(4);
        sleep(Duration::from_millis(pause)).await;
        match step(&cluster, key) {
            Some(0) => {}
            Some(wait) => sleep(Duration::from_millis(wait)).await,
            None => return,
        }
    }
}

/// Processes the front of a queue. Returns the milliseconds it has to wait, or `None` if the queue is empty.
fn step(cluster: &Arc<Cluster>, key: (usize, u64, PgId)) -> Option<u64> {
    let mut state = cluster.lock();
    let item = state.queues.get(&key)?.front()?.clone();
    let (osd, _, pg) = key;
    match item {
        Item::Ack { conn, id } => {
            for backoff in state.backoffs.iter_mut().filter(|b| b.conn.id() == conn.id() && b.id == id) {
                backoff.done = true;
            }
            state.backoffs.retain(|backoff| !(backoff.done && backoff.released));
        }
        Item::Request(item) => {
            let tid = item.tid;
            match state.turn(cluster, osd, pg, &item) {
                Turn::Wait(ms) => return Some(ms),
                Turn::Dropped(why) => state.say(|| format!("osd.{osd} drops {tid:?}: {why}")),
                Turn::Answered(reply) => {
                    state.say(|| format!("osd.{osd} answers {tid:?}: {}", reply.result));
                    let _ = item.conn.send(Msg::new(&*reply).with_tid(tid));
                }
            }
        }
    }
    let queue = state.queues.get_mut(&key)?;
    queue.pop_front();
    if queue.is_empty() {
        state.queues.remove(&key);
        return None;
    }
    Some(0)
}

impl State {
    fn turn(&mut self, cluster: &Arc<Cluster>, osd: usize, pg: PgId, item: &Request) -> Turn {
        let (request, epoch) = (&item.request, item.request.map_epoch);
        if self.osds[osd].hangs || epoch > self.osds[osd].known {
            return Turn::Wait(10);
        }
        if self.drops_orphans && item.conn.state() == ConnState::Closed {
            return Turn::Dropped("its connection is closed");
        }
        let object = request.hobject();
        if self.backoffs.iter().any(|backoff| backoff.covers(&item.conn, request.spgid, &object)) {
            return Turn::Dropped("backed off");
        }
        if let Err(why) = self.may_execute(osd, pg, request) {
            return Turn::Dropped(why);
        }
        let waits =
            self.pgs[&pg].active_at.checked_duration_since(Instant::now()).filter(|wait| !wait.is_zero());
        let is_primary = self.map.acting_primary(pg) == Some(OsdId(osd as i32));
        let annoyed = !self.calm && self.chance(3);
        if is_primary && (annoyed || (waits.is_some() && self.chance(50))) {
            self.back_off(cluster, item, &object);
            return Turn::Dropped("backs off");
        }
        if let Some(wait) = waits {
            return Turn::Wait(wait.as_millis() as u64 + 1);
        }
        if !is_primary && !self.calm && self.chance(40) {
            return Turn::Answered(Box::new(MOSDOpReply::answer(
                MOSDOp::clone(request),
                EAGAIN,
                self.map.epoch,
            )));
        }
        Turn::Answered(Box::new(self.execute(item.tid, MOSDOp::clone(request))))
    }

    /// Returns an error if a real OSD would drop the request: it is for another OSD, or was sent before
    /// a change that the client itself has to notice. The rules are those of `PG::can_discard_request`
    /// and `PrimaryLogPG::do_op`.
    fn may_execute(&self, osd: usize, pg: PgId, request: &MOSDOp) -> Result<(), &'static str> {
        let Some(pool) = self.map.pool(pg.pool) else { return Err("no pool") };
        if pool.fold(request.hash) != pg.seed {
            return Err("another placement group now");
        }
        let Some(history) = self.pgs.get(&pg) else { return Err("no placement group") };
        let id = OsdId(osd as i32);
        let placed = self.map.pg_to_up_acting(pg);
        if !self.map.is_up(id) || self.map.client_addrs(id) != Some(&self.osds[osd].addr.into()) {
            return Err("down");
        }
        let anywhere = OsdFlags::BALANCE_READS | OsdFlags::LOCALIZE_READS;
        let since = match placed.acting_primary == Some(id) {
            true => history.primary_since,
            false if request.flags.intersects(anywhere) && placed.acting.contains(&id) => {
                history.interval_since
            }
            false => return Err("not the primary"),
        };
        if request.map_epoch < since {
            return Err("from before the primary's time");
        }
        if request.map_epoch < history.split_at {
            return Err("from before a split");
        }
        let heeds_full = !request.flags.intersects(OsdFlags::FULL_TRY | OsdFlags::FULL_FORCE);
        if request.may_write() && heeds_full && request.map_epoch < self.last_full {
            return Err("from before it was full");
        }
        Ok(())
    }

    fn back_off(&mut self, cluster: &Arc<Cluster>, item: &Request, object: &HObject) {
        let pgid = item.request.spgid;
        let pool = HObject { pool: pgid.pgid.pool.0, ..HObject::min() };
        let (begin, end) =
            if self.chance(50) { (object.clone(), object.clone()) } else { (pool, HObject::max()) };
        self.version += 1;
        let id = self.version;
        let op = BackoffOp::Block;
        let block =
            MOSDBackoff { pgid, map_epoch: self.map.epoch, op, id, begin: begin.clone(), end: end.clone() };
        let _ = item.conn.send(Msg::new(&block));
        let conn = Arc::clone(&item.conn);
        self.backoffs.push(Backoff {
            conn,
            pgid,
            id,
            begin,
            end,
            acked: false,
            done: false,
            released: false,
        });
        let most = if self.chance(10) { 10_000 } else { 500 };
        let after = self.below(most);
        self.say(|| format!("{pgid:?} backs {:?} off for {after} ms as {id}", item.tid));
        cluster.spawn_later(after, move |cluster| {
            let mut state = cluster.lock();
            for backoff in state.backoffs.iter_mut().filter(|backoff| backoff.id == id) {
                backoff.released = true;
                let _ = backoff.conn.send(Msg::new(&MOSDBackoff { op: BackoffOp::Unblock, ..block.clone() }));
            }
            state.backoffs.retain(|backoff| !(backoff.done && backoff.released));
        });
    }

    /// Executes a request, or returns the recorded result if it was executed before.
    fn execute(&mut self, tid: Tid, request: MOSDOp) -> MOSDOpReply {
        let epoch = self.map.epoch;
        if request.oid.starts_with(b"r") && !request.flags.contains(OsdFlags::REDIRECTED) {
            let object = [b"to-", &request.oid[..]].concat();
            let redirect = RequestRedirect { locator: ObjectLocator::in_pool(request.locator.pool), object };
            let reply = MOSDOpReply::answer(request, 0, epoch);
            return MOSDOpReply { redirect: Some(Box::new(redirect)), ..reply };
        }
        if !request.may_write() {
            let object = self.objects.get(&request.oid).cloned();
            let mut reply = MOSDOpReply::answer(request, if object.is_some() { 0 } else { ENOENT }, epoch);
            reply.ops[0].op.data = object.unwrap_or_default().into();
            return reply;
        }
        let repeated = self.done.get(&tid).copied();
        let result = repeated.unwrap_or_else(|| self.apply(&request));
        self.done.insert(tid, result);
        self.version += 1;
        let version = self.version;
        self.answer_change(request, result, epoch, version)
    }

    fn answer_change(&self, request: MOSDOp, result: i32, epoch: Epoch, version: u64) -> MOSDOpReply {
        MOSDOpReply::answer(request, result, epoch).with_versions(Eversion { epoch, version }, version)
    }

    fn apply(&mut self, request: &MOSDOp) -> i32 {
        if self.is_full(request.locator.pool) && !request.flags.contains(OsdFlags::FULL_FORCE) {
            return ENOSPC;
        }
        let mut object = self.objects.get(&request.oid).cloned().unwrap_or_default();
        for op in &request.ops {
            match op.code {
                OpCode::APPEND => object.extend_from_slice(&op.data),
                OpCode::WRITEFULL => object = op.data.to_vec(),
                OpCode::CMPEXT if object != op.data[..] => return MISMATCH,
                OpCode::CMPEXT => {}
                other => panic!("the load asks for {other}"),
            }
        }
        self.objects.insert(request.oid.clone(), object);
        0
    }
}
