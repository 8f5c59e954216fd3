//! Who does I/O on a device passes its gate; who changes the device closes it and waits until all are out.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

/// The word: bit 0 says that the gate is closed, the rest counts those who are inside.
const CLOSED: u64 = 1;
const ONE: u64 = 2;

/// A gate that is open. To pass it takes no lock.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    word: AtomicU64,
    empty: Notify,
    opened: Notify,
}

impl Gate {
    /// Whether one may do I/O. Who may must [leave](Gate::leave).
    pub(crate) fn enter(&self) -> bool {
        // Acquire: what was changed while the gate was closed is seen.
        if self.word.fetch_add(ONE, Ordering::Acquire) & CLOSED == 0 {
            return true;
        }
        self.leave();
        false
    }

    /// The I/O is done.
    pub(crate) fn leave(&self) {
        // Release: who has closed the gate sees what was done.
        if self.word.fetch_sub(ONE, Ordering::Release) == CLOSED + ONE {
            self.empty.notify_waiters();
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.word.load(Ordering::Relaxed) & CLOSED != 0
    }

    /// Closes it and waits until nobody is inside. To be called by one at a time. It stays closed if this is
    /// dropped.
    pub(crate) async fn close(&self) {
        self.word.fetch_or(CLOSED, Ordering::Relaxed);
        loop {
            let mut empty = std::pin::pin!(self.empty.notified());
            empty.as_mut().enable();
            if self.word.load(Ordering::Acquire) == CLOSED {
                return;
            }
            empty.await;
        }
    }

    pub(crate) fn open(&self) {
        self.word.fetch_and(!CLOSED, Ordering::Release);
        self.opened.notify_waiters();
    }

    /// Passes it, if need be when it is open again.
    pub(crate) async fn wait(&self) {
        loop {
            let mut opened = std::pin::pin!(self.opened.notified());
            opened.as_mut().enable();
            if self.enter() {
                return;
            }
            opened.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn who_closes_it_waits_for_those_inside_and_keeps_others_out() {
        let gate = Arc::new(Gate::default());
        assert!(gate.enter());
        let closer = Arc::clone(&gate);
        let closing = tokio::spawn(async move { closer.close().await });
        while !gate.is_closed() {
            tokio::task::yield_now().await;
        }
        assert!(!gate.enter());
        assert!(!closing.is_finished());
        gate.leave();
        closing.await.expect("it ends");
        let waiter = Arc::clone(&gate);
        let waiting = tokio::spawn(async move { waiter.wait().await });
        tokio::time::sleep(Duration::from_millis(5)).await;
        assert!(!waiting.is_finished());
        gate.open();
        waiting.await.expect("it ends");
        gate.leave();
        assert_eq!(gate.word.load(Ordering::Relaxed), 0);
    }
}
