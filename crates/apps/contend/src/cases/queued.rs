//! The "before" of cases about a placement group's lock: shards with queues, threads that serve them,
//! and one lock per PG.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex as StdMutex, MutexGuard as StdGuard, PoisonError};
use std::thread::{self, JoinHandle};

use loligo_lockstat::{Class, Mutex};
use loligo_msgr::{Connection, Dispatcher};
use loligo_osd::Osd;
use loligo_wire::message::Msg;
use loligo_wire::{Decode, PgId, Reader, SpgId};
use tokio::runtime::Runtime;

use crate::Error;

/// Held while a request of the PG is executed.
pub(super) static PG: Class = Class::new("before.pg");

/// Ceph's defaults for solid-state disks: `osd_op_num_shards_ssd` and `osd_op_num_threads_per_shard_ssd`
/// of Luminous.
const SHARDS: usize = 8;
const THREADS_PER_SHARD: usize = 2;

/// An OSD behind shards.
pub(super) struct Queued {
    osd: Arc<Osd>,
    pgs: Vec<Mutex<()>>,
    shards: [Shard; SHARDS],
}

/// A queue on which threads sleep. Its lock is not measured, and must work with a condition variable.
#[derive(Default)]
struct Shard {
    queue: StdMutex<Queue>,
    wake: Condvar,
}

#[derive(Default)]
struct Queue {
    requests: VecDeque<Request>,
    closed: bool,
}

struct Request {
    conn: Arc<Connection>,
    msg: Msg,
    seed: u32,
}

impl Queued {
    pub(super) fn new(osd: Arc<Osd>, pgs: u32) -> Self {
        Self { osd, pgs: (0..pgs).map(|_| Mutex::new(&PG, ())).collect(), shards: Default::default() }
    }

    /// The loop of a shard's thread.
    fn work(&self, shard: usize) {
        let mut msgs = Vec::with_capacity(1);
        while let Some(Request { conn, msg, seed }) = self.shards[shard].pop() {
            msgs.push(msg);
            let pg = self.pgs[seed as usize].lock();
            // The reply is queued under the PG's lock and written without it, as in a stock OSD.
            let cork = conn.cork();
            // The PG's slot is idle, since this thread holds the PG's lock: `dispatch` executes the
            // request at once, with the product's code.
            self.osd.dispatch(&conn, &mut msgs);
            drop(pg);
            drop(cork);
        }
    }
}

impl Dispatcher for Queued {
    fn dispatch(&self, conn: &Arc<Connection>, msgs: &mut Vec<Msg>) {
        for msg in msgs.drain(..) {
            // A request begins with its PG, so that only the PG needs to be decoded here.
            match SpgId::decode(&mut Reader::new(&msg.front)) {
                Ok(SpgId { pgid: PgId { seed, .. }, .. }) if (seed as usize) < self.pgs.len() => {
                    self.shards[seed as usize % SHARDS].push(Request { conn: Arc::clone(conn), msg, seed });
                }
                _ => conn.mark_down(),
            }
        }
    }
}

impl Shard {
    fn push(&self, request: Request) {
        self.queue().requests.push_back(request);
        self.wake.notify_one();
    }

    /// Waits for a request; returns `None` when the shard is closed.
    fn pop(&self) -> Option<Request> {
        let mut queue = self.queue();
        loop {
            if queue.closed {
                return None;
            }
            if let Some(request) = queue.requests.pop_front() {
                return Some(request);
            }
            queue = self.wake.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn close(&self) {
        self.queue().closed = true;
        self.wake.notify_all();
    }

    fn queue(&self) -> StdGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The threads of all shards.
pub(super) struct Workers {
    queued: Arc<Queued>,
    threads: Vec<JoinHandle<()>>,
}

impl Workers {
    pub(super) fn start(queued: &Arc<Queued>, runtime: &Runtime) -> Result<Self, Error> {
        let mut workers = Self { queued: Arc::clone(queued), threads: Vec::new() };
        for number in 0..SHARDS * THREADS_PER_SHARD {
            let (queued, runtime) = (Arc::clone(queued), runtime.handle().clone());
            let body = move || {
                // An OSD may spawn work on the current runtime.
                let _entered = runtime.enter();
                queued.work(number % SHARDS);
            };
            match thread::Builder::new().name("before.op_tp".to_owned()).spawn(body) {
                Ok(thread) => workers.threads.push(thread),
                Err(error) => {
                    workers.stop()?;
                    return Err(Error::Io { what: "start a worker", error });
                }
            }
        }
        Ok(workers)
    }

    pub(super) fn stop(self) -> Result<(), Error> {
        self.queued.shards.iter().for_each(Shard::close);
        let panicked = self.threads.into_iter().map(JoinHandle::join).filter(Result::is_err).count();
        if panicked > 0 {
            Err(Error::talk("serve requests")(format!("{panicked} workers panicked")))
        } else {
            Ok(())
        }
    }
}
