//! The limit on operations in flight, in number and bytes (`objecter_inflight_ops`,
//! `objecter_inflight_op_bytes`).

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use tokio::sync::{Notify, Semaphore, SemaphorePermit};

/// Both counters in one word, so that one compare-and-swap acquires a place or fails.
///
/// ```text
/// bits 63..40  operations    bits 39..0  bytes
/// ```
const OPS_SHIFT: u32 = 40;
const BYTES_MASK: u64 = (1 << OPS_SHIFT) - 1;

/// Counts the operations in flight. An operation acquires a place before it is sent and releases it when
/// it is answered.
pub(crate) struct Throttle {
    ops_max: u64,
    bytes_max: u64,
    held: AtomicU64,
    /// Number of waiting operations, including the one whose turn it is.
    waiting: AtomicUsize,
    turns: Semaphore,
    released: Notify,
}

impl Throttle {
    /// Limits to `ops_max` operations (below 16 Mi) and `bytes_max` bytes (below 1 TiB). A single
    /// operation alone may exceed the byte limit.
    pub(crate) fn new(ops_max: u64, bytes_max: u64) -> Self {
        Self {
            ops_max: ops_max.clamp(1, (1 << 24) - 1),
            bytes_max: bytes_max.clamp(1, BYTES_MASK >> 1),
            held: AtomicU64::new(0),
            waiting: AtomicUsize::new(0),
            turns: Semaphore::new(1),
            released: Notify::new(),
        }
    }

    /// Waits for a place for one operation of `bytes` bytes, after the operations that already wait.
    /// Returns `None` if a place was free at once. A waiting operation holds the value that `enlist`
    /// returns meanwhile.
    pub(crate) async fn acquire<G>(&self, bytes: u64, enlist: impl FnOnce() -> G) -> Option<Turn<'_>> {
        if self.waiting.load(Ordering::SeqCst) == 0 && self.try_acquire(bytes) {
            return None;
        }
        // Boxed, so that futures stay small when there is no wait.
        let waits = Box::pin(async {
            let _enlisted = enlist();
            self.wait(bytes).await
        });
        Some(waits.await)
    }

    #[cold]
    async fn wait(&self, bytes: u64) -> Turn<'_> {
        let waiting = Waiting::enlist(self);
        // The semaphore is fair. Only the owner of the turn tries to acquire a place.
        let permit = self.turns.acquire().await.expect("never closed");
        loop {
            let released = self.released.notified();
            tokio::pin!(released);
            // Enabled before the check, so that a release in between is not missed.
            released.as_mut().enable();
            if self.try_acquire(bytes) {
                return Turn { _permit: permit, _waiting: waiting };
            }
            released.await;
        }
    }

    /// Acquires a place if one is free. Every success must be followed by a `release` of the same bytes.
    fn try_acquire(&self, bytes: u64) -> bool {
        let bytes = bytes.min(BYTES_MASK >> 1);
        let take = |held: u64| {
            let (ops, held_bytes) = (held >> OPS_SHIFT, held & BYTES_MASK);
            let fits = ops == 0 || (ops < self.ops_max && held_bytes + bytes <= self.bytes_max);
            fits.then(|| held + (1 << OPS_SHIFT) + bytes)
        };
        self.held.fetch_update(Ordering::SeqCst, Ordering::Relaxed, take).is_ok()
    }

    /// Releases the places of `ops` operations with `bytes` bytes in total.
    pub(crate) fn release(&self, ops: u64, bytes: u64) {
        self.held.fetch_sub((ops << OPS_SHIFT) + bytes, Ordering::SeqCst);
        if self.waiting.load(Ordering::SeqCst) > 0 {
            self.released.notify_one();
        }
    }

    /// Returns the number of operations in flight and their bytes.
    pub(crate) fn held(&self) -> (u64, u64) {
        let held = self.held.load(Ordering::Relaxed);
        (held >> OPS_SHIFT, held & BYTES_MASK)
    }

    /// Returns the bytes that an operation is charged.
    pub(crate) fn cost(bytes: usize) -> u64 {
        (bytes as u64).min(BYTES_MASK >> 1)
    }
}

/// The turn of an operation that had to wait. No later operation gets a place until it is dropped. Keep
/// it until the operation is sent, or operations submitted later could be sent first.
#[must_use = "the turn ends when this is dropped"]
pub(crate) struct Turn<'a> {
    // Dropped before `_waiting`: an operation that arrives in between waits for a turn, which is free.
    _permit: SemaphorePermit<'a>,
    _waiting: Waiting<'a>,
}

/// A waiting operation, or the one whose turn it is; counted in `Throttle::waiting`.
struct Waiting<'a>(&'a Throttle);

impl<'a> Waiting<'a> {
    fn enlist(throttle: &'a Throttle) -> Self {
        throttle.waiting.fetch_add(1, Ordering::SeqCst);
        Self(throttle)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::sync::Arc;
    use std::sync::atomic::AtomicU64;
    use std::task::{Context, Poll, Waker};

    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn never_more_than_the_bounds_and_nobody_waits_for_ever() {
        let throttle = Arc::new(Throttle::new(4, 100));
        let most = Arc::new(AtomicU64::new(0));
        let tasks: Vec<_> = (0..64u64)
            .map(|i| {
                let (throttle, most) = (Arc::clone(&throttle), Arc::clone(&most));
                tokio::spawn(async move {
                    for _ in 0..200 {
                        let bytes = i % 40;
                        drop(throttle.acquire(bytes, || ()).await);
                        most.fetch_max(throttle.held().0, Ordering::Relaxed);
                        tokio::task::yield_now().await;
                        throttle.release(1, bytes);
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.expect("the task ends");
        }
        assert_eq!(throttle.held(), (0, 0));
        assert!(most.load(Ordering::Relaxed) <= 4);
    }

    #[tokio::test]
    async fn one_large_operation_passes_alone() {
        let throttle = Throttle::new(4, 100);
        drop(throttle.acquire(1000, || ()).await);
        assert!(!throttle.try_acquire(1));
        throttle.release(1, 1000);
        assert!(throttle.try_acquire(1));
    }

    /// Covers operations that arrive later, that are polled first, and that stop waiting.
    #[tokio::test]
    async fn those_who_wait_are_served_in_the_order_in_which_they_came() {
        fn poll<'a>(future: &mut Pin<Box<impl Future<Output = Option<Turn<'a>>>>>) -> Poll<Option<Turn<'a>>> {
            future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
        }
        let throttle = Throttle::new(1, 100);
        assert!(throttle.acquire(1, || ()).await.is_none(), "there was place");
        let mut gives_up = Box::pin(throttle.acquire(1, || ()));
        let mut first = Box::pin(throttle.acquire(1, || ()));
        let mut second = Box::pin(throttle.acquire(1, || ()));
        assert!(poll(&mut gives_up).is_pending() && poll(&mut first).is_pending());
        assert!(poll(&mut second).is_pending());
        drop(gives_up);
        throttle.release(1, 1);
        let mut late = Box::pin(throttle.acquire(1, || ()));
        assert!(poll(&mut late).is_pending() && poll(&mut second).is_pending());
        let Poll::Ready(Some(turn)) = poll(&mut first) else { panic!("it is the first one's turn") };
        throttle.release(1, 1);
        assert!(poll(&mut late).is_pending() && poll(&mut second).is_pending(), "the turn is not over");
        drop(turn);
        assert!(poll(&mut late).is_pending());
        assert!(poll(&mut second).is_ready());
        throttle.release(1, 1);
        assert!(poll(&mut late).is_ready());
    }
}
