//! Timelines: when each operation was new, had a place in flight, was queued for its OSD, left the queue, was
//! sent, was answered, and when its caller went on; and for which locks threads waited meanwhile.
//!
//! ```text
//! new ──throttle──▶ place ──submit──▶ queued ──lane──▶ left ──write──▶ sent ──flight──▶ acked ──wake──▶ done
//!                                        ▲                                    │ sent again
//!                                        └────────────────────────────────────┘
//! ```
//!
//! A traced operation carries its moments along ([`Marks`]) and is told of once, at its end: so a line that
//! is lost loses a whole operation and never half of one, and what does not end is not told of. A client that
//! is not traced pays a look at an `Option` at each of these moments.

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

/// Operations that may wait for the writer; what is more is dropped and counted. About a second of small
/// ones.
const WAITING_MAX: usize = 1 << 16;
/// Attempts told of one operation, the first ones.
const ATTEMPTS_MAX: usize = 32;
/// Operations of one request that are named.
const NAMED_MAX: usize = 16;

/// An operation's moments: its submitter, who sends it again and the reader note them, one after the other.
static MARKS: Class = Class::new("rados.trace_marks");

/// Writes the timelines of all operations of the clients it is given to
/// ([`Builder::trace`](crate::Builder::trace)), as trace events in JSON that Perfetto and Chrome show and
/// `loligo trace` draws.
///
/// The file is the JSON array form of the trace event format, one event on a line, times in microseconds
/// since the start. Each operation is a nestable asynchronous event with its number as `id`, and within it
/// its phases; their edges are its events: `throttle` from *new* until it had a place in flight, `submit`
/// until it was *queued* for its OSD, `lane` until the connection's queue gave it out, `write` until the
/// kernel had its last byte (*sent*), `flight` until it was *acked* (these three once for each attempt),
/// `wake` until *done*: its caller went on. `submit` says how long locks were waited for in it
/// (`lock_wait_us`).
///
/// Each wait of any thread of the process for one of our locks is an event of its own on that thread's line,
/// `lock` and the lock's class, with who waited and who had the lock.
///
/// Source of the format: "Trace Event Format", Google, 2016, and Perfetto's documentation of it.
pub struct Trace {
    sender: Arc<Sender>,
    /// Ends before the writer does.
    observing: Observing,
    writer: JoinHandle<io::Result<u64>>,
}

/// What a trace holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traced {
    /// Operations written.
    pub written: u64,
    /// Operations that ended, and waits for locks, while the writer was behind, and are not in the file. It
    /// says so in its last line.
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

    /// Writes what has ended so far and closes the file. What ends later is not traced.
    ///
    /// # Errors
    /// The file could not be written.
    pub fn finish(self) -> io::Result<Traced> {
        drop(self.observing);
        // Waits while the queue is full. An error means that the writer has ended: it will say why.
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

/// Takes records to the writer without waiting.
pub(crate) struct Sender {
    records: SyncSender<Told>,
    dropped: AtomicU64,
    began: Instant,
}

impl Sender {
    /// Takes an operation that has ended to the writer.
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

/// What the writer is told.
enum Told {
    Op(Box<Record>),
    Lock(Box<LockWait>),
    End,
}

/// What is told until the end.
struct Incoming(Receiver<Told>);

impl Iterator for Incoming {
    type Item = Told;

    fn next(&mut self) -> Option<Told> {
        self.0.recv().ok().filter(|told| !matches!(told, Told::End))
    }
}

/// A wait for a lock, and whose it was.
struct LockWait {
    wait: Wait,
    thread: i32,
    name: Option<String>,
}

impl LockWait {
    /// By the thread that has waited.
    fn of(wait: &Wait) -> Box<Self> {
        let name = std::thread::current().name().map(str::to_owned);
        Box::new(Self { wait: *wait, thread: rustix::thread::gettid().as_raw_nonzero().get(), name })
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
    /// How long the thread that gave the place had waited for locks by then, and which it was.
    waited_before: Option<(std::thread::ThreadId, Duration)>,
    /// How long locks were waited for from then until the first attempt was queued, as far as that was one
    /// thread's doing.
    lock_wait: Duration,
    attempts: SmallVec<[Attempt; 1]>,
    attempts_untold: u64,
    acked: Option<Instant>,
}

/// One sending of an operation.
#[derive(Clone, Copy)]
struct Attempt {
    queued: Instant,
    /// The queue of its connection gave it out.
    left: Option<Instant>,
    /// The kernel had all of it.
    sent: Option<Instant>,
    pg: PgId,
    osd: Option<OsdId>,
}

impl Marks {
    pub(crate) fn new() -> Box<Self> {
        Box::new(Self { new: Instant::now(), moments: Mutex::new(&MARKS, Moments::default()) })
    }

    /// It has a place in flight.
    pub(crate) fn placed(&self) {
        let (thread, waited) = (std::thread::current().id(), waited_by_this_thread());
        let mut moments = self.moments.lock();
        (moments.place, moments.waited_before) = (Some(Instant::now()), Some((thread, waited)));
    }

    /// Its message stands in its OSD's queue, or will the next moment.
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

    /// Its answer has come.
    pub(crate) fn acked(&self) {
        self.moments.lock().acked = Some(Instant::now());
    }

    /// Which attempt was queued last; none if it is not told of.
    pub(crate) fn last(&self) -> Option<usize> {
        let moments = self.moments.lock();
        if moments.attempts_untold == 0 { moments.attempts.len().checked_sub(1) } else { None }
    }

    /// The queue of its connection has given an attempt out.
    pub(crate) fn left(&self, attempt: usize) {
        self.note(attempt, |attempt, now| attempt.left = Some(now));
    }

    /// The kernel has all of an attempt.
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

/// How an operation ended for its caller.
#[derive(Clone, Debug)]
pub(crate) enum Ended {
    /// Answered: 0 or more, or a negative errno.
    Answered(i32),
    Failed(String),
    /// Its caller waits no longer.
    Dropped,
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
