//! A device's gate: every I/O passes it; a change of the device closes it and waits until all I/O has
//! left.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

/// Bit 0 of the word: the gate is closed. The other bits count the I/Os inside.
const CLOSED: u64 = 1;
const ONE: u64 = 2;

/// A gate, initially open. Passing it takes no lock.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    word: AtomicU64,
    empty: Notify,
    opened: Notify,
}

impl Gate {
    /// Enters if the gate is open. If it returns `true`, the caller must [leave](Gate::leave).
    pub(crate) fn enter(&self) -> bool {
        // Acquire: changes made while the gate was closed are visible.
        if self.word.fetch_add(ONE, Ordering::Acquire) & CLOSED == 0 {
            return true;
        }
        self.leave();
        false
    }

    /// Leaves the gate after the I/O.
    pub(crate) fn leave(&self) {
        // Release: the closer of the gate sees the effects of the I/O.
        if self.word.fetch_sub(ONE, Ordering::Release) == CLOSED + ONE {
            self.empty.notify_waiters();
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.word.load(Ordering::Relaxed) & CLOSED != 0
    }

    /// Closes the gate and waits until no I/O is inside. Only one caller at a time. If the future is
    /// dropped, the gate stays closed.
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

    /// Enters the gate; waits while it is closed.
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
