//! The load and its invariants. An acknowledged change was executed once and in the order of submission,
//! a cancelled one at most once, a failed one never. Reads see all changes acknowledged before.

use std::collections::BTreeMap;
use std::future::{Future as _, poll_fn};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use loligo_msgr::testing::Random;
use loligo_rados::{Errno, Error, IoCtx, ReadFrom, WhenFull, WriteOp, WriteOptions};
use tokio::time::{sleep, timeout};

/// The known outcome of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Submitted, without a reply.
    Pending,
    Acked,
    /// Cancelled or timed out.
    Unknown,
    Refused,
}

/// The appends to one object, by number.
#[derive(Default)]
pub(crate) struct Log(Mutex<Vec<Fate>>);

impl Log {
    fn begin(&self) -> usize {
        let mut fates = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        fates.push(Fate::Pending);
        fates.len() - 1
    }

    fn end(&self, number: usize, fate: Fate) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)[number] = fate;
    }

    fn fates(&self) -> Vec<Fate> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Checks that an object's content is a possible result of these appends. `fates` are those from
    /// before the read.
    fn check(fates: &[Fate], latest: &[Fate], content: &[u8]) -> Result<(), String> {
        let text = String::from_utf8_lossy(content);
        let numbers: Vec<usize> =
            text.split_terminator('|').map(|n| n.parse().unwrap_or(usize::MAX)).collect();
        let mut seen = BTreeMap::new();
        for (at, number) in numbers.iter().enumerate() {
            match latest.get(*number) {
                None => return Err(format!("{number} was never written")),
                Some(Fate::Refused) => return Err(format!("{number} was refused and is there")),
                Some(_) => {}
            }
            if seen.insert(*number, at).is_some() {
                return Err(format!("{number} is there twice"));
            }
        }
        let mut before = None;
        for (number, _) in fates.iter().enumerate().filter(|(_, fate)| **fate == Fate::Acked) {
            let Some(at) = seen.get(&number) else {
                return Err(format!("{number} was acknowledged and is lost"));
            };
            if before.is_some_and(|before| before > *at) {
                return Err(format!("{number} overtook one that was submitted before"));
            }
            before = Some(*at);
        }
        Ok(())
    }
}

/// State of the load.
pub(crate) struct Load {
    pub(crate) pool: IoCtx,
    pub(crate) logs: Vec<(String, Log)>,
    /// Number of increments that were acknowledged, and of those that may have been executed.
    counter: Mutex<(u64, u64)>,
    pool_goes: AtomicBool,
    /// `true` if some callers cancel their operations.
    gives_up: bool,
    errors: Mutex<Vec<String>>,
    pub(crate) answered: Mutex<u64>,
}

const COUNTER: &str = "counter";
const LOGS: [&str; 4] = ["a", "b", TRIES, "redirected"];
/// Appends to this object fail while the cluster is full, instead of waiting.
const TRIES: &str = "c";

impl Load {
    pub(crate) fn new(pool: IoCtx, gives_up: bool) -> Arc<Self> {
        Arc::new(Self {
            pool,
            logs: LOGS.map(|name| (name.to_owned(), Log::default())).into(),
            counter: Mutex::default(),
            pool_goes: AtomicBool::new(false),
            gives_up,
            errors: Mutex::default(),
            answered: Mutex::default(),
        })
    }

    /// From now on operations may fail because the pool does not exist.
    pub(crate) fn pool_goes(&self) {
        self.pool_goes.store(true, Ordering::Relaxed);
    }

    fn complain(&self, what: String) {
        self.errors.lock().unwrap_or_else(PoisonError::into_inner).push(what);
    }

    pub(crate) fn complaints(&self) -> Vec<String> {
        self.errors.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn has_gone(&self, why: &Error) -> bool {
        why.errno() == Errno::ENOENT && self.pool_goes.load(Ordering::Relaxed)
    }

    /// Returns the fate of a change that failed.
    fn fate_of(&self, what: &str, error: &Error) -> Fate {
        match error {
            Error::Timeout(_) => Fate::Unknown,
            e if self.has_gone(e) => Fate::Unknown,
            e if e.errno() == Errno::ENOSPC => Fate::Refused,
            e => {
                self.complain(format!("{what}: {e}"));
                Fate::Unknown
            }
        }
    }

    /// Appends numbers to a log in order, several at once.
    pub(crate) async fn append(self: Arc<Self>, which: usize, count: usize, window: usize, seed: u64) {
        let mut random = Random(seed);
        let mut in_flight = FuturesUnordered::new();
        for _ in 0..count {
            while in_flight.len() >= window {
                in_flight.next().await;
            }
            let number = self.logs[which].1.begin();
            let mut append = Box::pin(self.append_one(which, number, random.next()));
            // Polled here to submit in this order; the set polls it again.
            if poll_fn(|cx| Poll::Ready(append.as_mut().poll(cx))).await.is_pending() {
                in_flight.push(append);
            }
            if random.next().is_multiple_of(3) {
                let pause = sleep(Duration::from_millis(random.next() % 1500));
                tokio::pin!(pause);
                loop {
                    tokio::select! {
                        biased;
                        () = &mut pause => break,
                        Some(()) = in_flight.next() => {}
                        else => break,
                    }
                }
            }
        }
        while in_flight.next().await.is_some() {}
    }

    async fn append_one(&self, which: usize, number: usize, chance: u64) {
        let (name, log) = &self.logs[which];
        let data = Bytes::from(format!("{number:05}|"));
        // Not both on one object: an append that tries would overtake one that waits.
        let when_full = if name == TRIES { WhenFull::Try } else { WhenFull::Wait };
        let options = WriteOptions { when_full, ..WriteOptions::default() };
        let append = self.pool.execute(name.as_str(), WriteOp::new().append(data), options);
        let patience =
            if self.gives_up && (chance >> 8).is_multiple_of(10) { (chance >> 16) % 400 } else { 1 << 40 };
        let fate = match timeout(Duration::from_millis(patience), append).await {
            Err(_) => Fate::Unknown,
            Ok(Err(e)) => self.fate_of(name, &e),
            Ok(Ok(outcome)) => match outcome.errno() {
                None => Fate::Acked,
                Some(errno) => self.fate_of(name, &errno.into()),
            },
        };
        *self.answered.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        log.end(number, fate);
    }

    /// Reads logs and checks that they contain the acknowledged appends.
    pub(crate) async fn read(self: Arc<Self>, count: usize, seed: u64) {
        let mut random = Random(seed);
        for _ in 0..count {
            sleep(Duration::from_millis(random.next() % 1500)).await;
            let (name, log) = &self.logs[(random.next() % LOGS.len() as u64) as usize];
            let from = if random.next().is_multiple_of(2) { ReadFrom::Balanced } else { ReadFrom::Primary };
            let before = log.fates();
            let content = match self.pool.reading_from(from).read(name.as_str(), 0, 0).await {
                Ok(content) => content,
                Err(Error::Timeout(_)) => continue,
                Err(e) if self.has_gone(&e) => return,
                Err(e) if e.errno() == Errno::ENOENT => Bytes::new(),
                Err(e) => {
                    self.complain(format!("reading {name}: {e}"));
                    continue;
                }
            };
            if let Err(why) = Log::check(&before, &log.fates(), &content) {
                self.complain(format!("read of {name} from {from:?}: {why}"));
            }
        }
    }

    /// Increments a counter with compare-and-swap, concurrently with other tasks.
    pub(crate) async fn count(self: Arc<Self>, count: usize, seed: u64) {
        let mut random = Random(seed);
        for _ in 0..count {
            sleep(Duration::from_millis(random.next() % 1500)).await;
            let content = match self.pool.read(COUNTER, 0, 0).await {
                Ok(content) => content,
                Err(Error::Timeout(_)) => continue,
                Err(e) if self.has_gone(&e) => return,
                Err(e) if e.errno() == Errno::ENOENT => Bytes::new(),
                Err(e) => {
                    self.complain(format!("reading the counter: {e}"));
                    continue;
                }
            };
            let value: u64 = std::str::from_utf8(&content).unwrap_or("?").parse().unwrap_or(0);
            let next = Bytes::from(format!("{:08}", value + 1));
            let swap = WriteOp::new().compare_bytes(0, content).write_full(next);
            let outcome = self.pool.execute(COUNTER, swap, WriteOptions::default()).await;
            let mut counter = self.counter.lock().unwrap_or_else(PoisonError::into_inner);
            match outcome.as_ref().map(|outcome| outcome.result) {
                Ok(0) => counter.0 += 1,
                Ok(result) if result <= -4095 => {}
                Ok(result) => self.complain(format!("counting: {result}")),
                Err(e) if self.fate_of(COUNTER, e) == Fate::Unknown => counter.1 += 1,
                Err(_) => {}
            }
        }
    }

    /// Checks the final state of all objects.
    pub(crate) fn check(&self, objects: &BTreeMap<Vec<u8>, Vec<u8>>) -> Result<(), String> {
        let content = |name: &str| objects.get(name.as_bytes()).cloned().unwrap_or_default();
        for (name, log) in &self.logs {
            let stored = if name.starts_with('r') { format!("to-{name}") } else { name.clone() };
            let fates = log.fates();
            if fates.contains(&Fate::Pending) {
                return Err(format!("{name}: an append was never answered"));
            }
            Log::check(&fates, &fates, &content(&stored)).map_err(|why| format!("{name}: {why}"))?;
        }
        let (done, perhaps) = *self.counter.lock().unwrap_or_else(PoisonError::into_inner);
        let value: u64 = String::from_utf8_lossy(&content(COUNTER)).parse().unwrap_or(0);
        if value < done || value > done + perhaps {
            return Err(format!("the counter is {value} after {done} to {} increments", done + perhaps));
        }
        Ok(())
    }
}
