//! Throttles on received messages that are not yet processed.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use tokio::sync::Notify;

/// Bounds messages that were read from peers and are not yet processed, in number and bytes.
///
/// Connections that share a throttle stop reading their sockets while it is full, so TCP flow control
/// stops the peers. A read that has begun is finished: the bounds are exceeded by at most one read per
/// connection. Messages that are processed inside [`Dispatcher::dispatch`](crate::Dispatcher::dispatch)
/// never count; see [`Connection::hold`](crate::Connection::hold).
pub struct Throttle {
    messages_max: usize,
    bytes_max: u64,
    messages: AtomicUsize,
    bytes: AtomicU64,
    released: Notify,
}

impl Throttle {
    /// A throttle that is full at `messages_max` messages or `bytes_max` bytes.
    pub fn new(messages_max: usize, bytes_max: u64) -> Arc<Self> {
        Arc::new(Self {
            messages_max,
            bytes_max,
            messages: AtomicUsize::new(0),
            bytes: AtomicU64::new(0),
            released: Notify::new(),
        })
    }

    /// Counts a message of `bytes` bytes until the guard is dropped. Never waits: only reading stops at
    /// the bound.
    pub fn hold(self: &Arc<Self>, bytes: usize) -> Hold {
        let bytes = bytes as u64;
        self.messages.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        Hold { throttle: Some(Arc::clone(self)), bytes }
    }

    /// Whether reading should stop.
    pub fn is_full(&self) -> bool {
        self.messages.load(Ordering::SeqCst) >= self.messages_max
            || self.bytes.load(Ordering::SeqCst) >= self.bytes_max
    }

    /// Messages held now.
    pub fn messages(&self) -> usize {
        self.messages.load(Ordering::Relaxed)
    }

    /// Bytes held now.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Waits until the throttle is not full.
    pub async fn wait(&self) {
        while self.is_full() {
            let released = self.released.notified();
            tokio::pin!(released);
            // Enlisted before the second check, so that a release between the two is not missed.
            released.as_mut().enable();
            if self.is_full() {
                released.await;
            }
        }
    }

    fn release(&self, bytes: u64) {
        let messages_before = self.messages.fetch_sub(1, Ordering::SeqCst);
        let bytes_before = self.bytes.fetch_sub(bytes, Ordering::SeqCst);
        // Each release from a full counter notifies the waiters, so the last one does.
        if messages_before >= self.messages_max || bytes_before >= self.bytes_max {
            self.released.notify_waiters();
        }
    }
}

impl fmt::Debug for Throttle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Throttle")
            .field("messages", &self.messages())
            .field("messages_max", &self.messages_max)
            .field("bytes", &self.bytes())
            .field("bytes_max", &self.bytes_max)
            .finish()
    }
}

/// One message's share of a [`Throttle`]; dropping it gives the share back.
#[derive(Debug, Default)]
pub struct Hold {
    throttle: Option<Arc<Throttle>>,
    bytes: u64,
}

impl Drop for Hold {
    fn drop(&mut self) {
        if let Some(throttle) = self.throttle.take() {
            throttle.release(self.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_full_throttle_lets_readers_go_when_a_hold_is_dropped() {
        let throttle = Throttle::new(2, 100);
        let first = throttle.hold(10);
        assert!(!throttle.is_full());
        let second = throttle.hold(10);
        assert!(throttle.is_full());
        let waiting = tokio::spawn({
            let throttle = Arc::clone(&throttle);
            async move { throttle.wait().await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(first);
        waiting.await.expect("the waiter ends");
        drop(second);
        assert_eq!((throttle.messages(), throttle.bytes()), (0, 0));
    }

    #[test]
    fn bytes_fill_it_too() {
        let throttle = Throttle::new(1000, 100);
        let hold = throttle.hold(100);
        assert!(throttle.is_full());
        drop(hold);
        assert!(!throttle.is_full());
    }
}
