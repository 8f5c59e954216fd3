//! File locks, as the kernel asks for them.

use std::future::Future;
use std::sync::Arc;

use loligo_fs::{Errno, Error, Lock, LockKind};
use loligo_lockstat::{Class, Mutex};
use rustc_hash::FxHashMap;
use tokio::sync::Notify;

use crate::kernel::LockWish;

/// Returns the kind of a lock, as `fcntl(2)` numbers them.
fn kind(typ: u32) -> Option<LockKind> {
    match typ {
        READ => Some(LockKind::Shared),
        WRITE => Some(LockKind::Exclusive),
        UNLOCK => Some(LockKind::Unlocked),
        _ => None,
    }
}

/// `F_RDLCK`, `F_WRLCK` and `F_UNLCK`.
const READ: u32 = 0;
const WRITE: u32 = 1;
pub(crate) const UNLOCK: u32 = 2;

/// Returns the number by which the kernel knows a kind.
pub(crate) fn number(kind: LockKind) -> u32 {
    match kind {
        LockKind::Shared => READ,
        LockKind::Exclusive => WRITE,
        LockKind::Unlocked => UNLOCK,
    }
}

/// Returns a lock as the client takes it. The kernel names the last byte; its greatest number is the end.
pub(crate) fn wished(wish: &LockWish) -> Option<Lock> {
    let to_the_end = wish.end >= i64::MAX as u64;
    let length = if to_the_end { 0 } else { wish.end.saturating_sub(wish.start).saturating_add(1) };
    Some(Lock { kind: kind(wish.typ)?, start: wish.start, length, owner: owner(wish.owner), pid: wish.pid })
}

/// Returns an owner as the client numbers them: it has the first bit to itself.
pub(crate) fn owner(owner: u64) -> u64 {
    owner & (u64::MAX >> 1)
}

/// Returns the last byte of a lock, as the kernel names it.
pub(crate) fn last_byte(lock: &Lock) -> u64 {
    if lock.length == 0 { i64::MAX as u64 } else { lock.start.saturating_add(lock.length - 1) }
}

/// The requests that wait for a lock.
///
/// The kernel names a request when its process has a signal to handle. The interrupt may be read before the
/// request that it ends is listed here, by another thread: then the kernel is asked to send it again.
pub(crate) struct Waiting(Mutex<FxHashMap<u64, Arc<Notify>>>);

/// Held to list or to find a request.
static WAITING: Class = Class::new("fuse.waiting");

impl Default for Waiting {
    fn default() -> Self {
        Self(Mutex::new(&WAITING, FxHashMap::default()))
    }
}

impl Waiting {
    /// A request was interrupted. Returns `false` if it does not wait for a lock, or not yet.
    pub(crate) fn interrupt(&self, unique: u64) -> bool {
        let request = self.0.lock().get(&unique).cloned();
        request.map(|request| request.notify_one()).is_some()
    }

    /// Waits for `asked`, unless the request is interrupted: then `asked` is dropped.
    ///
    /// # Errors
    /// EINTR; and those of `asked`.
    pub(crate) async fn unless_interrupted(
        &self,
        unique: u64,
        asked: impl Future<Output = Result<(), Error>>,
    ) -> Result<(), Error> {
        let interrupted = Arc::new(Notify::new());
        self.0.lock().insert(unique, Arc::clone(&interrupted));
        let _listed = Listed { waiting: self, unique };
        tokio::select! {
            biased;
            done = asked => done,
            () = interrupted.notified() => Err(Errno::EINTR.into()),
        }
    }
}

/// Takes a request out when it ends.
struct Listed<'w> {
    waiting: &'w Waiting,
    unique: u64,
}

impl Drop for Listed<'_> {
    fn drop(&mut self) {
        self.waiting.0.lock().remove(&self.unique);
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    #[test]
    fn ranges_reach_to_the_end_by_the_greatest_number() {
        let lock = |start, end| {
            let wish = LockWish { start, end, owner: u64::MAX, ..LockWish::default() };
            wished(&wish).expect("a kind")
        };
        assert_eq!((lock(5, 9).start, lock(5, 9).length), (5, 5));
        assert_eq!(lock(5, i64::MAX as u64).length, 0);
        for (start, end) in [(0, 0), (5, 9), (7, i64::MAX as u64)] {
            assert_eq!(last_byte(&lock(start, end)), end);
        }
        assert_eq!(lock(0, 0).owner >> 63, 0);
        assert!(wished(&LockWish { typ: 77, ..LockWish::default() }).is_none());
    }

    #[tokio::test]
    async fn an_interrupt_ends_the_waiting() {
        let waiting = Arc::new(Waiting::default());
        assert!(waiting.unless_interrupted(1, ready(Ok(()))).await.is_ok());
        let begun = Arc::clone(&waiting);
        assert!(!waiting.interrupt(2), "it does not wait yet");
        let asked = tokio::spawn(async move { begun.unless_interrupted(2, pending()).await });
        while !waiting.interrupt(2) {
            tokio::task::yield_now().await;
        }
        let ended = asked.await.expect("it ends").expect_err("interrupted");
        assert_eq!(ended.errno(), Errno::EINTR);
        assert!(!waiting.interrupt(2) && waiting.0.lock().is_empty());
    }
}
