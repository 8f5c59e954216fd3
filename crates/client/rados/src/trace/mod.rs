//! Timelines of operations: when each was new, had a place in flight, was queued for its OSD, left the
//! queue, was sent, was acked, and was done for its caller. Also the threads' waits for locks.
//!
//! ```text
//! new ──throttle──▶ place ──submit──▶ queued ──lane──▶ left ──write──▶ sent ──flight──▶ acked ──wake──▶ done
//!                                        ▲                                    │ sent again
//!                                        └────────────────────────────────────┘
//! ```
//!
//! A traced operation carries its moments ([`Marks`]) and is recorded once, at its end. A lost record
//! therefore loses a whole operation and never part of one, and an operation that does not end is not
//! recorded. Without tracing, each of these moments costs a test of an `Option`.

mod write;

use std::fmt;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use loligo_lockstat::{Class, Mutex, Observing, Wait, waited_by_this_thread};
use loligo_wire::message::osd::{MOSDOp, OpCode};
use loligo_wire::{OsdId, PgId, PoolId, Tid};
use smallvec::SmallVec;

/// Maximum number of records queued for the writer; further ones are dropped and counted. About a second
/// of small operations.
const WAITING_MAX: usize = 1 << 16;
/// Maximum number of attempts recorded for an operation; the first ones are kept.
const ATTEMPTS_MAX: usize = 32;
/// Maximum number of operations of a request that are named.
const NAMED_MAX: usize = 16;

/// Guards an operation's moments. The submitter, the steward and the reader record them one after the other.
static MARKS: Class = Class::new("rados.trace_marks");

/// Writes the timelines of all operations of the clients it is given to
/// ([`Builder::trace`](crate::Builder::trace)), as trace events in JSON that Perfetto and Chrome show and
/// `loligo trace` draws.
///
/// The file is the JSON array form of the trace event format, one event per line, with times in
/// microseconds since the start. Each operation is a nestable asynchronous event with its tid as `id`.
/// It contains its phases, whose edges are the operation's moments: `throttle` from *new* until it had a
/// place in flight, `submit` until it was *queued* for its OSD, `lane` until it left the connection's
/// queue, `write` until the kernel had its last byte (*sent*), `flight` until it was *acked* (these
/// three once for each attempt), `wake` until it was *done* and its caller continued. The event of
/// `submit` has the time spent waiting for locks in it as `lock_wait_us`.
///
/// Each wait of any thread of the process for one of our locks is a separate event on that thread's line. It
/// is named `lock` and the lock's class, and has the code locations of the waiter and of the lock's holder.
///
/// Source of the format: "Trace Event Format", Google, 2016, and Perfetto's documentation of it.
pub struct Trace {
    sender: Arc<Sender>,
    /// Ends before the writer.
    observing: Observing,
    writer: JoinHandle<io::Result<u64>>,
}

/// The contents of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traced {
    /// Operations written.
    pub written: u64,
    /// Operations that ended and lock waits that are missing from the file because the writer was
    /// behind. The last line of the file has this number.
    pub dropped: u64,
}

impl Trace {
    /// Starts a trace into `out`, with a thread that writes it.
    ///
    /// # Errors
    /// The thread could not be started.
    pub fn start(out: impl Write + Send + 'static) -> io::Result<Self> {
        let (records, incoming) = sync_channel(WAITING_MAX);
        let sender = Arc::new(Sender { records, dropped: AtomicU64::new(0), began: Instant::now() });
        let (counted, began) = (Arc::downgrade(&sender), sender.began);
        let locks = Arc::downgrade(&sender);
        let observing = loligo_lockstat::observe(move |wait| {
            if let Some(sender) = locks.upgrade() {
                sender.tell(Told::Lock(LockWait::of(wait)));
            }
        });
        let writer = std::thread::Builder::new().name("trace".to_owned()).spawn(move || {
            let dropped = move || counted.upgrade().map_or(0, |sender| sender.dropped());
            write::run(&mut Incoming(incoming), out, began, dropped)
        })?;
        Ok(Self { sender, observing, writer })
    }

    /// Writes all operations that have ended and closes the file. Operations that end later are not traced.
    ///
    /// # Errors
    /// The file could not be written.
    pub fn finish(self) -> io::Result<Traced> {
        drop(self.observing);
        // Blocks while the queue is full. An error means that the writer has ended; `join` returns its error.
        let _ = self.sender.records.send(Told::End);
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

/// Sends records to the writer without blocking.
pub(crate) struct Sender {
    records: SyncSender<Told>,
    dropped: AtomicU64,
    began: Instant,
}

impl Sender {
    /// Sends the record of an ended operation.
    pub(crate) fn ended(&self, tid: Tid, request: &MOSDOp, marks: &Marks, ended: Ended, received: u64) {
        self.tell(Told::Op(Box::new(Record::of(tid, request, marks, ended, received))));
    }

    fn tell(&self, told: Told) {
        if self.records.try_send(told).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

/// A record for the writer.
enum Told {
    Op(Box<Record>),
    Lock(Box<LockWait>),
    End,
}

/// The records up to `End`.
struct Incoming(Receiver<Told>);

impl Iterator for Incoming {
    type Item = Told;

    fn next(&mut self) -> Option<Told> {
        self.0.recv().ok().filter(|told| !matches!(told, Told::End))
    }
}

/// A wait for a lock, with the thread that waited.
struct LockWait {
    wait: Wait,
    thread: i32,
    name: Option<String>,
}

impl LockWait {
    /// Creates the record. Must be called by the thread that waited.
    fn of(wait: &Wait) -> Box<Self> {
        let name = std::thread::current().name().map(str::to_owned);
        Box::new(Self { wait: *wait, thread: rustix::thread::gettid().as_raw_nonzero().get(), name })
    }
}

/// The moments of an operation in flight.
pub(crate) struct Marks {
    new: Instant,
    moments: Mutex<Moments>,
}

#[derive(Clone, Default)]
struct Moments {
    place: Option<Instant>,
    /// The thread that acquired the place, and its accumulated lock wait at that time.
    waited_before: Option<(std::thread::ThreadId, Duration)>,
    /// Time spent waiting for locks from `place` until the first attempt was queued. Measured only if
    /// one thread did both.
    lock_wait: Duration,
    attempts: SmallVec<[Attempt; 1]>,
    attempts_untold: u64,
    acked: Option<Instant>,
}

/// One attempt to send an operation.
#[derive(Clone, Copy)]
struct Attempt {
    queued: Instant,
    /// When the connection's queue released it.
    left: Option<Instant>,
    /// When the kernel had all of it.
    sent: Option<Instant>,
    pg: PgId,
    osd: Option<OsdId>,
}

impl Marks {
    pub(crate) fn new() -> Box<Self> {
        Box::new(Self { new: Instant::now(), moments: Mutex::new(&MARKS, Moments::default()) })
    }

    /// Records that the operation has a place in flight.
    pub(crate) fn placed(&self) {
        let (thread, waited) = (std::thread::current().id(), waited_by_this_thread());
        let mut moments = self.moments.lock();
        (moments.place, moments.waited_before) = (Some(Instant::now()), Some((thread, waited)));
    }

    /// Records that the operation's message is in its OSD's queue, or is about to be.
    pub(crate) fn queued(&self, pg: PgId, osd: Option<OsdId>) {
        let (thread, waited) = (std::thread::current().id(), waited_by_this_thread());
        let attempt = Attempt { queued: Instant::now(), left: None, sent: None, pg, osd };
        let mut moments = self.moments.lock();
        if let Some((_, before)) = moments.waited_before.take().filter(|(by, _)| *by == thread) {
            moments.lock_wait = waited.saturating_sub(before);
        }
        if moments.attempts.len() < ATTEMPTS_MAX {
            moments.attempts.push(attempt);
        } else {
            moments.attempts_untold += 1;
        }
    }

    /// Records that the reply has arrived.
    pub(crate) fn acked(&self) {
        self.moments.lock().acked = Some(Instant::now());
    }

    /// Returns the index of the last queued attempt; `None` if that attempt is not recorded.
    pub(crate) fn last(&self) -> Option<usize> {
        let moments = self.moments.lock();
        if moments.attempts_untold == 0 { moments.attempts.len().checked_sub(1) } else { None }
    }

    /// Records that an attempt has left the connection's queue.
    pub(crate) fn left(&self, attempt: usize) {
        self.note(attempt, |attempt, now| attempt.left = Some(now));
    }

    /// Records that the kernel has all of an attempt.
    pub(crate) fn sent(&self, attempt: usize) {
        self.note(attempt, |attempt, now| attempt.sent = Some(now));
    }

    fn note(&self, attempt: usize, note: impl FnOnce(&mut Attempt, Instant)) {
        let now = Instant::now();
        if let Some(attempt) = self.moments.lock().attempts.get_mut(attempt) {
            note(attempt, now);
        }
    }
}

/// The outcome of an operation for its caller.
#[derive(Clone, Debug)]
pub(crate) enum Ended {
    /// The result of the reply: 0 or more, or a negative errno.
    Answered(i32),
    Failed(String),
    /// The caller stopped waiting.
    Dropped,
}

/// The record of an operation. It contains none of the operation's data.
struct Record {
    tid: Tid,
    pool: PoolId,
    namespace: Vec<u8>,
    object: Vec<u8>,
    codes: SmallVec<[OpCode; 4]>,
    /// Bytes of data sent; `received` has those of the reply.
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
            sent: request.ops.iter().map(|op| op.data_len() as u64).sum(),
            received,
            new: marks.new,
            moments: marks.moments.lock().clone(),
            done: Instant::now(),
            ended,
        }
    }
}
