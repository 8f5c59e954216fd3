//! Plays sequences of client actions in two placement groups of a store in memory.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

use az::WrappingAs as _;
use bytes::Bytes;
use loligo_maps::{OsdMap, PgPool};
use loligo_msgr::{Cork, Hold};
use loligo_store::ObjectStore;
use loligo_store::memory::MemoryStore;
use loligo_wire::message::osd::{MOSDOp, MOSDOpReply, ObjectLocator, Ops, OsdFlags, OsdOp, OsdReply};
use loligo_wire::message::{Message as _, Msg};
use loligo_wire::{Epoch, Errno, Eversion, PgId, SnapContext, SnapId, Tid, UTime, Uuid};
use smallvec::smallvec;

use super::model::{self, Model};
use super::script::{POOL, Script, Step};
use crate::asker::Asker;
use crate::exec::{self, Context, Limits, Needs};
use crate::group::Group as _;
use crate::helpers::Helpers;
use crate::place::Places;
use crate::slot::Request;

/// Small, so that a request that exceeds them is noticed.
const WORK_BYTES: u64 = 4 << 20;
const OBJECT_BYTES: u64 = 1 << 20;
/// Maximum number of steps and of snapshots, so that the stored data is bounded.
const STEPS_MAX: usize = 64;
const SNAPS_MAX: u64 = 6;
const CLIENTS: usize = 4;
const OBJECTS: u8 = 4;
const PGS: u32 = 2;
/// Requests sent before their replies are received.
const WAITING_MAX: usize = 4;
/// Bytes that may be allocated at once: each object's head and clones, the bytes one request makes,
/// waiting replies.
const MEMORY_MAX: usize = 192 << 20;
/// A reply that takes longer is considered missing.
const LONG: Duration = Duration::from_secs(60);

/// Plays the bytes as a script. Returns the number of successful writes that the model covers. `memory`
/// returns the peak of bytes allocated by the process since the start.
///
/// # Panics
/// If a step panics, a reply is missing or overtakes another one, a resent request has another result, a
/// reply or the memory exceeds its bound, a refused request changes its object, or an object does not
/// read back as the model expects.
pub fn sequences(data: &[u8], memory: impl Fn() -> usize) -> usize {
    let mut play = Play::new();
    let mut script = Script(data);
    for _ in 0..STEPS_MAX {
        let Some(step) = script.step() else { break };
        play.step(step);
        let bytes = memory();
        assert!(bytes <= MEMORY_MAX, "{bytes} bytes are allocated");
    }
    play.pause();
    play.known
}

struct Inbox {
    conn: u64,
    sender: Sender<(u64, Msg)>,
}

impl Asker for Inbox {
    fn answer(&self, reply: Msg) {
        // Notifications may end after the play.
        let _ = self.sender.send((self.conn, reply));
    }

    fn cork(&self) -> Option<Cork<'_>> {
        None
    }

    fn id(&self) -> u64 {
        self.conn
    }
}

struct Client {
    inbox: Arc<Inbox>,
    newest: Option<(Tid, MOSDOp)>,
}

/// A request that was sent, and its outcome.
struct Asked {
    conn: u64,
    client: usize,
    tid: Tid,
    object: u8,
    writes: bool,
    ops: Ops,
    outcome: Option<Outcome>,
}

/// The result and version of a request: a resent write must get the same.
type Outcome = (i32, Eversion);

struct Play {
    places: Arc<Places>,
    clients: Vec<Client>,
    sender: Sender<(u64, Msg)>,
    answers: Receiver<(u64, Msg)>,
    conns: u64,
    snaps: u64,
    tid: u64,
    /// In the order of sending, which is the order of execution.
    asked: Vec<Asked>,
    outcomes: BTreeMap<(usize, Tid), Outcome>,
    models: [Model; OBJECTS as usize],
    /// Successful writes that the model covers.
    known: usize,
}

fn places() -> Places {
    let map = OsdMap::build(Uuid([7; 16])).finish().expect("a map");
    let mut inc = map.next_incremental(UTime::default());
    inc.create_pool(&map, "p", PgPool::replicated(1, PGS));
    let map = map.advance(inc).expect("it follows").map;
    let store: Arc<dyn ObjectStore> = Arc::new(MemoryStore::new(1 << 30));
    let none = Places::none(store);
    let next = none.next(Arc::new(map), Bytes::new(), &BTreeMap::new(), &Helpers::default());
    next.expect("a store in memory opens")
}

impl Play {
    fn new() -> Self {
        let (sender, answers) = mpsc::channel();
        let client = |conn| Client { inbox: Arc::new(Inbox { conn, sender: sender.clone() }), newest: None };
        Self {
            places: Arc::new(places()),
            clients: (0..CLIENTS as u64).map(client).collect(),
            answers,
            conns: CLIENTS as u64,
            snaps: 0,
            tid: 0,
            asked: Vec::new(),
            outcomes: BTreeMap::new(),
            models: Default::default(),
            known: 0,
            sender,
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Request { client, object, snap, ops } => {
                let op = self.request(object, snap, *ops);
                self.tid += 1;
                self.send(client, Tid(self.tid), object, op);
            }
            Step::Again { client } => {
                let Some((tid, op)) = self.clients[client].newest.clone() else { return };
                let object = op.hash.wrapping_as::<u8>();
                self.send(client, tid, object, MOSDOp { retry_attempt: 1, ..op });
            }
            Step::Snapshot => self.snaps = (self.snaps + 1).min(SNAPS_MAX),
            Step::Lost { client } => {
                let pool = self.places.pool(POOL).expect("the pool");
                let conn = self.clients[client].inbox.conn;
                pool.slots.iter().cloned().for_each(|slot| slot.lost(conn));
                self.conns += 1;
                self.clients[client].inbox =
                    Arc::new(Inbox { conn: self.conns, sender: self.sender.clone() });
            }
            Step::Pause => self.pause(),
        }
    }

    /// Builds a request as a client does.
    fn request(&self, object: u8, snap: Option<u64>, ops: Ops) -> MOSDOp {
        let mut op = MOSDOp::new(ObjectLocator::in_pool(POOL), vec![b'0' + object], ops, OsdFlags::RETURNVEC);
        op.hash = object.into();
        op.spgid.pgid = PgId { pool: POOL, seed: u32::from(object) % PGS };
        op.map_epoch = self.places.epoch();
        op.snap_seq = SnapId(self.snaps);
        op.snaps = (1..=self.snaps).rev().map(SnapId).collect();
        if let Some(snap) = snap {
            op.snapid = if snap == 0 { SnapId::DIR } else { SnapId(snap & 7) };
        }
        op
    }

    fn send(&mut self, client: usize, tid: Tid, object: u8, op: MOSDOp) {
        let limits = Limits { object_bytes: OBJECT_BYTES, work_bytes: WORK_BYTES, ..Limits::default() };
        let (writes, refusal) = match check(&op, &limits) {
            Ok(writes) => (writes, None),
            Err(errno) => (false, Some(errno)),
        };
        let context = Context {
            writes,
            snapc: SnapContext { seq: op.snap_seq, snaps: op.snaps.clone() },
            places: Some(Arc::clone(&self.places) as _),
            limits,
            ..Context::plain(client as u64 + 100, tid, Epoch(2), POOL, PGS)
        };
        self.clients[client].newest = Some((tid, op.clone()));
        let inbox = Arc::clone(&self.clients[client].inbox);
        let (conn, ops) = (inbox.conn, op.ops.clone());
        self.asked.push(Asked { conn, client, tid, object, writes, ops, outcome: None });
        self.submit(inbox, op, context, refusal);
        if self.asked.len() == WAITING_MAX {
            self.pause();
        }
    }

    fn submit(&self, inbox: Arc<Inbox>, op: MOSDOp, context: Context, refusal: Option<Errno>) {
        let slot = self.places.pool(POOL).expect("the pool").slot(op.hash).expect("it opens");
        let mut request = Request::new(inbox, op, context, Hold::default(), Instant::now());
        request.refusal = refusal;
        assert!(slot.submit(request), "a few requests have room");
    }

    /// Waits for all replies, and compares all objects with the model.
    fn pause(&mut self) {
        while self.asked.iter().any(|asked| asked.outcome.is_none()) {
            self.hear();
        }
        let mut unknown = [false; OBJECTS as usize];
        for asked in std::mem::take(&mut self.asked).iter().filter(|asked| asked.writes) {
            self.judge(asked, &mut unknown[usize::from(asked.object)]);
        }
        for (object, unknown) in (0..OBJECTS).zip(unknown) {
            let read = self.read(object);
            let model = &mut self.models[usize::from(object)];
            if unknown {
                *model = read;
            } else if *model != read {
                let len = |object: &Model| object.as_ref().map(Vec::len);
                panic!("object {object}: {:?} bytes are read, of {:?}", len(&read), len(model));
            }
        }
    }

    /// Receives the next reply, which must answer the oldest request of its connection for its object.
    fn hear(&mut self) {
        let Some((conn, reply)) = self.next_reply() else { return };
        let mut waiting =
            self.asked.iter().enumerate().filter(|(_, a)| a.conn == conn && a.outcome.is_none());
        let found = waiting.clone().find(|(_, asked)| asked.tid == reply.0);
        let (index, asked) = found.unwrap_or_else(|| panic!("{} is answered twice", reply.0));
        let oldest = waiting.find(|(_, other)| other.object == asked.object).map(|(_, other)| other.tid);
        assert_eq!(oldest, Some(reply.0), "an answer has overtaken another one");
        self.asked[index].outcome = Some((reply.1.result, reply.1.replay_version));
    }

    /// The next reply and its connection; `None` for a message to a watcher.
    fn next_reply(&self) -> Option<(u64, (Tid, OsdReply))> {
        let (conn, msg) = self.answers.recv_timeout(LONG).expect("an answer to each request");
        if msg.header.kind != MOSDOpReply::KIND {
            return None;
        }
        let data = Bytes::from(msg.data.concat());
        assert!(data.len() as u64 <= 2 * WORK_BYTES, "{} bytes of output", data.len());
        let tid = msg.header.tid;
        let reply = OsdReply::open(&Msg { data: smallvec![data], ..msg }).expect("what we wrote opens");
        Some((conn, (tid, reply)))
    }

    fn judge(&mut self, asked: &Asked, unknown: &mut bool) {
        let outcome = asked.outcome.expect("all are answered");
        if let Some(known) = self.outcomes.insert((asked.client, asked.tid), outcome) {
            assert_eq!(known, outcome, "request {} came again", asked.tid);
            return;
        }
        if outcome.0 < 0 {
            return;
        }
        let model = &mut self.models[usize::from(asked.object)];
        match model::after(model, &asked.ops) {
            Some(next) => {
                *model = next;
                self.known += 1;
            }
            None => *unknown = true,
        }
    }

    /// Reads an object as a new client.
    fn read(&mut self, object: u8) -> Model {
        self.conns += 1;
        let inbox = Arc::new(Inbox { conn: self.conns, sender: self.sender.clone() });
        let op = self.request(object, None, smallvec![OsdOp::read(0, 0)]);
        self.submit(inbox, op, Context::plain(99, Tid(1), Epoch(2), POOL, PGS), None);
        loop {
            let Some((conn, (_, reply))) = self.next_reply() else { continue };
            assert_eq!(conn, self.conns, "an answer to nothing");
            return (reply.result >= 0).then(|| reply.outs[0].data.to_vec());
        }
    }
}

/// Runs the checks before a request enters its slot. Returns whether it may change its object.
fn check(op: &MOSDOp, limits: &Limits) -> Result<bool, Errno> {
    let needs = Needs::of(op)?;
    limits.check_count(op)?;
    if exec::is_pg_request(op) {
        return Ok(false);
    }
    limits.check_names(op)?;
    exec::check_shape(op, needs.writes(), limits)?;
    Ok(needs.writes())
}
