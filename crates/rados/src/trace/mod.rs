//! Timelines: when each operation was new, had a place in flight, was queued for its OSD, was answered, and when its caller went on.
//!
//! ```text
//! new ──throttle──▶ place ──submit──▶ queued ──flight──▶ acked ──wake──▶ done
//!                                        ▲          │ sent again: the next flight
//!                                        └──────────┘
//! ```
//!
//! A traced operation carries its moments along ([`Marks`]) and is told of once, at its end: so a line that is lost loses a
//! whole operation and never half of one, and what does not end is not told of. A client that is not traced pays a look at
//! an `Option` at each of these moments.

mod write;

use std::fmt;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Instant;

use loligo_lockstat::{Class, Mutex};
use loligo_wire::message::osd::{MOSDOp, OpCode, OsdReply};
use loligo_wire::{OsdId, PgId, PoolId, Tid};
use smallvec::SmallVec;

use crate::Error;
use crate::objecter::Op;

/// Operations that may wait for the writer; what is more is dropped and counted. About a second of small ones.
const WAITING_MAX: usize = 1 << 16;
/// Attempts told of one operation, the first ones.
const ATTEMPTS_MAX: usize = 32;
/// Operations of one request that are named.
const NAMED_MAX: usize = 16;

/// An operation's moments: its submitter, who sends it again and the reader note them, one after the other.
static MARKS: Class = Class::new("rados.trace_marks");

/// Writes the timelines of all operations of the clients it is given to ([`Builder::trace`](crate::Builder::trace)), as
/// trace events in JSON that Perfetto and Chrome show and `loligo trace` draws.
///
/// The file is the JSON array form of the trace event format, one event on a line, times in microseconds since the start.
/// Each operation is a nestable asynchronous event with its number as `id`, and within it its phases; their edges are its
/// events: `throttle` from *new* until it had a place in flight, `submit` until it was *queued* for its OSD, `flight` until it
/// was *acked* (one for each attempt), `wake` until *done*: its caller went on.
///
/// Source of the format: "Trace Event Format", Google, 2016, and Perfetto's documentation of it.
pub struct Trace {
    sender: Arc<Sender>,
    writer: JoinHandle<io::Result<u64>>,
}

/// What a trace holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traced {
    /// Operations written.
    pub written: u64,
    /// Operations that ended while the writer was behind, and are not in the file. It says so in its last line.
    pub dropped: u64,
}

impl Trace {
    /// Begins a trace into `out`, with a thread that writes it.
    ///
    /// # Errors
    /// No thread could be started.
    pub fn start(out: impl Write + Send + 'static) -> io::Result<Self> {
        let (records, incoming) = sync_channel(WAITING_MAX);
        let sender = Arc::new(Sender { records, dropped: AtomicU64::new(0), began: Instant::now() });
        let (counted, began) = (Arc::downgrade(&sender), sender.began);
        let writer = std::thread::Builder::new().name("trace".to_owned()).spawn(move || {
            let dropped = move || counted.upgrade().map_or(0, |sender| sender.dropped());
            write::run(&mut Incoming(incoming), out, began, dropped)
        })?;
        Ok(Self { sender, writer })
    }

    /// Writes what has ended so far and closes the file. What ends later is not traced.
    ///
    /// # Errors
    /// The file could not be written.
    pub fn finish(self) -> io::Result<Traced> {
        // Waits while the queue is full. An error means that the writer has ended: it will say why.
        let _ = self.sender.records.send(None);
        let written = self.writer.join().map_err(|_| io::Error::other("the writer panicked"))??;
        Ok(Traced { written, dropped: self.sender.dropped() })
    }

    pub(crate) fn sender(&self) -> Arc<Sender> {
        Arc::clone(&self.sender)
    }
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trace").field("dropped", &self.sender.dropped()).finish_non_exhaustive()
    }
}

/// Takes records to the writer without waiting.
pub(crate) struct Sender {
    /// `None`: the end.
    records: SyncSender<Option<Box<Record>>>,
    dropped: AtomicU64,
    began: Instant,
}

impl Sender {
    /// Follows an operation until its end, or until this is dropped.
    pub(crate) fn follow(&self, op: &Arc<Op>) -> Following<'_> {
        Following { sender: self, op: Arc::clone(op), ended: Ended::Dropped, received: 0 }
    }

    fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

/// Records until the end.
struct Incoming(Receiver<Option<Box<Record>>>);

impl Iterator for Incoming {
    type Item = Box<Record>;

    fn next(&mut self) -> Option<Box<Record>> {
        self.0.recv().ok().flatten()
    }
}

/// The moments of an operation that is on its way.
pub(crate) struct Marks {
    new: Instant,
    moments: Mutex<Moments>,
}

#[derive(Clone, Default)]
struct Moments {
    place: Option<Instant>,
    attempts: SmallVec<[Attempt; 1]>,
    attempts_untold: u64,
    acked: Option<Instant>,
}

/// One sending of an operation.
#[derive(Clone, Copy)]
struct Attempt {
    queued: Instant,
    pg: PgId,
    osd: Option<OsdId>,
}

impl Marks {
    pub(crate) fn new() -> Box<Self> {
        Box::new(Self { new: Instant::now(), moments: Mutex::new(&MARKS, Moments::default()) })
    }

    /// It has a place in flight.
    pub(crate) fn placed(&self) {
        self.moments.lock().place = Some(Instant::now());
    }

    /// Its message stands in its OSD's queue.
    pub(crate) fn queued(&self, pg: PgId, osd: Option<OsdId>) {
        let attempt = Attempt { queued: Instant::now(), pg, osd };
        let mut moments = self.moments.lock();
        if moments.attempts.len() < ATTEMPTS_MAX {
            moments.attempts.push(attempt);
        } else {
            moments.attempts_untold += 1;
        }
    }

    /// Its answer has come.
    pub(crate) fn acked(&self) {
        self.moments.lock().acked = Some(Instant::now());
    }
}

/// How an operation ended for its caller.
#[derive(Clone, Debug)]
enum Ended {
    /// Answered: 0 or more, or a negative errno.
    Answered(i32),
    Failed(String),
    /// Its caller waits no longer.
    Dropped,
}

/// An operation whose caller waits.
pub(crate) struct Following<'a> {
    sender: &'a Sender,
    op: Arc<Op>,
    ended: Ended,
    received: u64,
}

impl Following<'_> {
    /// The caller goes on.
    pub(crate) fn end(mut self, outcome: &Result<OsdReply, Error>) {
        self.ended = match outcome {
            Ok(reply) => {
                self.received = reply.outs.iter().map(|out| out.data.len() as u64).sum();
                Ended::Answered(reply.result)
            }
            Err(e) => Ended::Failed(e.to_string()),
        };
    }
}

impl Drop for Following<'_> {
    fn drop(&mut self) {
        let Some(marks) = &self.op.marks else { return };
        let ended = std::mem::replace(&mut self.ended, Ended::Dropped);
        let record = Record::of(self.op.tid, &self.op.request, marks, ended, self.received);
        if self.sender.records.try_send(Some(Box::new(record))).is_err() {
            self.sender.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// What is told of an operation. It holds none of its data.
struct Record {
    tid: Tid,
    pool: PoolId,
    namespace: Vec<u8>,
    object: Vec<u8>,
    codes: SmallVec<[OpCode; 4]>,
    /// Bytes of data, there and back.
    sent: u64,
    received: u64,
    new: Instant,
    moments: Moments,
    done: Instant,
    ended: Ended,
}

impl Record {
    fn of(tid: Tid, request: &MOSDOp, marks: &Marks, ended: Ended, received: u64) -> Self {
        Self {
            tid,
            pool: request.locator.pool,
            namespace: request.locator.nspace.clone(),
            object: request.oid.clone(),
            codes: request.ops.iter().map(|op| op.code).take(NAMED_MAX).collect(),
            sent: request.ops.iter().map(|op| op.data.len() as u64).sum(),
            received,
            new: marks.new,
            moments: marks.moments.lock().clone(),
            done: Instant::now(),
            ended,
        }
    }
}
