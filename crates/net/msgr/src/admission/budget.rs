//! Bounds the memory of incomplete messages; it is charged before it is allocated.
//!
//! At the bound readers wait, so TCP flow control stops their peers. The holder that needs least in
//! total may always continue, so that some frame completes and releases its memory. A holder that keeps
//! others waiting and whose peer sends nothing, or takes very long, loses its connection.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use loligo_lockstat::{Class, Mutex};
use tokio::sync::Notify;
use tokio::time::Instant;

static BUDGET: Class = Class::new("msgr.begun_bytes");

/// How long a peer may send nothing of an incomplete message while others wait.
const SILENCE_MAX: Duration = Duration::from_secs(10);
/// How long a complete message may take while others wait.
const WHOLE_MAX: Duration = Duration::from_secs(120);

/// A bound for the memory of incomplete messages, over all connections.
pub struct Budget {
    max: usize,
    used: AtomicUsize,
    next: AtomicU64,
    holders: Mutex<BTreeMap<u64, Arc<Holder>>>,
    /// Counts releases, so that a release just before a wait is not missed.
    releases: AtomicU64,
    released: Notify,
    epoch: Instant,
}

struct Holder {
    began: Instant,
    /// When bytes last arrived, in milliseconds since the budget's creation.
    heard_ms: AtomicU64,
    /// The holder waits for room, and its peer has sent more.
    waits: AtomicBool,
    /// The bytes needed until the message is complete.
    whole: AtomicUsize,
    evicted: Notify,
}

/// One connection's share of a [`Budget`]; dropping it releases the share.
pub struct Grant {
    budget: Arc<Budget>,
    bytes: usize,
    /// The budget's count of releases when it last had no room.
    seen: u64,
    holder: Option<(u64, Arc<Holder>)>,
}

impl Budget {
    /// Creates a budget of `max` bytes. One holder may exceed it.
    pub fn new(max: usize) -> Arc<Self> {
        Arc::new(Self {
            max,
            used: AtomicUsize::new(0),
            next: AtomicU64::new(0),
            holders: Mutex::new(&BUDGET, BTreeMap::new()),
            releases: AtomicU64::new(0),
            released: Notify::new(),
            epoch: Instant::now(),
        })
    }

    /// Creates an empty share.
    pub fn grant(self: &Arc<Self>) -> Grant {
        Grant { budget: Arc::clone(self), bytes: 0, seen: 0, holder: None }
    }

    /// Bytes charged now.
    pub fn used(&self) -> usize {
        self.used.load(Ordering::SeqCst)
    }

    fn try_charge(&self, bytes: usize) -> bool {
        let more = |used: usize| used.checked_add(bytes).filter(|sum| *sum <= self.max);
        self.used.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more).is_ok()
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Waits until memory is released, or until it is time to look for idle holders that keep others
    /// waiting.
    async fn pause(self: Arc<Self>, seen: u64) {
        let released = self.released.notified();
        tokio::pin!(released);
        released.as_mut().enable();
        if self.releases.load(Ordering::SeqCst) != seen {
            return;
        }
        if tokio::time::timeout(SILENCE_MAX / 4, released).await.is_err() {
            self.evict_idle();
        }
    }

    /// The holder that may exceed the budget: the one that needs least in total; of several, the first.
    fn favourite(&self) -> Option<u64> {
        let holders = self.holders.lock();
        let needs = |(number, holder): (&u64, &Arc<Holder>)| (holder.whole.load(Ordering::Relaxed), *number);
        holders.iter().map(needs).min().map(|(_, number)| number)
    }

    /// Evicts holders whose peers are silent or slow and thereby keep others waiting.
    fn evict_idle(&self) {
        let now = self.now_ms();
        let silence = u64::try_from(SILENCE_MAX.as_millis()).unwrap_or(u64::MAX);
        for holder in self.holders.lock().values() {
            let silent = now.saturating_sub(holder.heard_ms.load(Ordering::Relaxed)) >= silence;
            let slow = holder.began.elapsed() >= WHOLE_MAX;
            if slow || (silent && !holder.waits.load(Ordering::Relaxed)) {
                holder.evicted.notify_one();
            }
        }
    }
}

impl Grant {
    /// Raises the share to `bytes`, out of the `whole` bytes that the message will need. Returns `false`
    /// if there is no room: then call [`Grant::wait`] and try again. The holder that needs least always
    /// has room.
    pub fn grow(&mut self, bytes: usize, whole: usize) -> bool {
        let Some(more) = bytes.checked_sub(self.bytes).filter(|more| *more > 0) else { return true };
        let seen = self.budget.releases.load(Ordering::SeqCst);
        let (number, holder) = self.enlisted();
        holder.whole.store(whole, Ordering::Relaxed);
        if !self.budget.try_charge(more) {
            if self.budget.favourite() != Some(number) {
                self.seen = seen;
                return false;
            }
            self.budget.used.fetch_add(more, Ordering::SeqCst);
        }
        if holder.waits.swap(false, Ordering::Relaxed) {
            holder.heard_ms.store(self.budget.now_ms(), Ordering::Relaxed);
        }
        self.bytes = bytes;
        true
    }

    /// Waits until another attempt may succeed.
    pub fn wait(&self) -> impl Future<Output = ()> + Send + use<> {
        Arc::clone(&self.budget).pause(self.seen)
    }

    /// Notes that the peer has sent more than there is room for: it is not to blame that others wait.
    pub fn has_more(&self) {
        if let Some((_, holder)) = &self.holder {
            holder.waits.store(true, Ordering::Relaxed);
        }
    }

    /// Notes that the peer is still sending.
    pub fn heard(&self) {
        if let Some((_, holder)) = &self.holder {
            holder.heard_ms.store(self.budget.now_ms(), Ordering::Relaxed);
        }
    }

    /// Waits until the connection must be closed because it keeps others waiting for its memory.
    pub fn evicted(&self) -> impl Future<Output = ()> + Send + use<> {
        let holder = self.holder.as_ref().map(|(_, holder)| Arc::clone(holder));
        async move {
            match holder {
                Some(holder) => holder.evicted.notified().await,
                None => std::future::pending().await,
            }
        }
    }

    /// Releases the whole share: the message is complete.
    pub fn release(&mut self) {
        let Some((number, holder)) = self.holder.take() else { return };
        let listed = self.budget.holders.lock().remove(&number);
        drop((holder, listed));
        self.budget.used.fetch_sub(std::mem::take(&mut self.bytes), Ordering::SeqCst);
        self.budget.releases.fetch_add(1, Ordering::SeqCst);
        self.budget.released.notify_waiters();
    }

    fn enlisted(&mut self) -> (u64, Arc<Holder>) {
        let budget = &self.budget;
        let (number, holder) = self.holder.get_or_insert_with(|| {
            let number = budget.next.fetch_add(1, Ordering::Relaxed);
            let holder = Arc::new(Holder {
                began: Instant::now(),
                heard_ms: AtomicU64::new(budget.now_ms()),
                waits: AtomicBool::new(false),
                whole: AtomicUsize::new(0),
                evicted: Notify::new(),
            });
            budget.holders.lock().insert(number, Arc::clone(&holder));
            (number, holder)
        });
        (*number, Arc::clone(holder))
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        self.release();
    }
}

impl fmt::Debug for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Budget").field("max", &self.max).field("used", &self.used()).finish()
    }
}

impl fmt::Debug for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Grant").field("bytes", &self.bytes).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_that_needs_least_goes_on_and_others_wait() {
        let budget = Budget::new(100);
        let (mut large, mut small) = (budget.grant(), budget.grant());
        assert!(large.grow(50, 1000) && small.grow(50, 80));
        assert!(!large.grow(60, 1000));
        assert!(small.grow(80, 80), "so that something becomes whole");
        assert_eq!(budget.used(), 130);
        small.release();
        assert!(large.grow(60, 1000));
        drop((large, small));
        assert_eq!(budget.used(), 0);
        assert!(budget.holders.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn who_keeps_others_waiting_for_nothing_is_evicted() {
        let budget = Budget::new(100);
        let (mut idle, mut busy, mut waiting) = (budget.grant(), budget.grant(), budget.grant());
        assert!(idle.grow(60, 60) && busy.grow(40, 60) && !waiting.grow(50, 60));
        waiting.has_more();
        let evicted = tokio::spawn(idle.evicted());
        while !evicted.is_finished() {
            busy.heard();
            waiting.wait().await;
            tokio::task::yield_now().await;
        }
        let spared = tokio::time::timeout(Duration::from_millis(1), busy.evicted()).await;
        assert!(spared.is_err());
        drop(idle);
        assert!(waiting.grow(50, 60));
    }
}
