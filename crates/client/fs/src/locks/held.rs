//! The locks on one file that this client holds. Pure: no server is asked here.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use loligo_wire::message::mds::{FileLock, FileLockRecord, HeldLocks};

/// The two kinds of locks know nothing of one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rule {
    /// `fcntl`: of ranges.
    Range,
    /// `flock`: of the whole file.
    Whole,
}

impl Rule {
    pub(crate) fn number(self) -> u8 {
        match self {
            Self::Range => FileLock::FCNTL,
            Self::Whole => FileLock::FLOCK,
        }
    }

    /// Returns the rule of a request that ends the waiting of another one.
    pub(crate) fn interrupt(self) -> u8 {
        match self {
            Self::Range => FileLock::FCNTL_INTERRUPT,
            Self::Whole => FileLock::FLOCK_INTERRUPT,
        }
    }
}

/// All locks on a file that a server has granted to this client.
#[derive(Debug, Default)]
pub(crate) struct Held {
    locks: HeldLocks,
    /// Open files. With the last one the loss of locks is forgotten.
    files: u32,
    /// Locks were lost with a session: what they protected may have changed. Changed under the inode's lock;
    /// reads and writes look at it without.
    is_lost: Arc<AtomicBool>,
}

impl Held {
    /// A file was opened. Returns what tells it of a loss of locks.
    pub(crate) fn opened(&mut self) -> Arc<AtomicBool> {
        self.files += 1;
        Arc::clone(&self.is_lost)
    }

    pub(crate) fn closed(&mut self) {
        self.files = self.files.saturating_sub(1);
        if self.files == 0 {
            self.is_lost.store(false, Ordering::Release);
        }
    }

    /// Returns `true` if locks were lost, and a file that was open then is open still.
    #[cfg(test)]
    fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Acquire)
    }

    /// The server has forgotten the locks.
    pub(crate) fn lose(&mut self) {
        if !self.locks.is_empty() {
            self.locks = HeldLocks::default();
            self.is_lost.store(true, Ordering::Release);
        }
    }

    /// Returns `true` if an owner has a lock.
    pub(crate) fn has(&self, rule: Rule, owner: u64) -> bool {
        self.of(rule).iter().any(|lock| lock.owner == owner)
    }

    /// Returns the locks as a reconnecting client claims them.
    pub(crate) fn to_blob(&self) -> Bytes {
        self.locks.to_blob()
    }

    fn of(&self, rule: Rule) -> &[FileLockRecord] {
        match rule {
            Rule::Range => &self.locks.fcntl,
            Rule::Whole => &self.locks.flock,
        }
    }

    /// Notes what a server has granted: it replaces what its owner had in the range.
    pub(crate) fn set(&mut self, rule: Rule, lock: &FileLock) {
        let all = match rule {
            Rule::Range => &mut self.locks.fcntl,
            Rule::Whole => &mut self.locks.flock,
        };
        let (first, last) = (lock.start, last_byte(lock.start, lock.length));
        let mut kept = Vec::with_capacity(all.len() + 2);
        for old in all.drain(..) {
            let old_last = last_byte(old.start, old.length);
            if old.owner != lock.owner || old.start > last || old_last < first {
                kept.push(old);
                continue;
            }
            if old.start < first {
                kept.push(FileLockRecord { length: first - old.start, ..old });
            }
            if old_last > last {
                kept.push(FileLockRecord { start: last + 1, length: length(last + 1, old_last), ..old });
            }
        }
        if lock.kind != FileLock::UNLOCK {
            let FileLock { owner, pid, start, length, kind, .. } = *lock;
            // The server knows the client.
            kept.push(FileLockRecord { start, length, client: 0, owner, pid, kind });
        }
        *all = kept;
    }
}

/// Returns the last byte of a range, whose length 0 reaches to the end of any file.
fn last_byte(start: u64, length: u64) -> u64 {
    if length == 0 { u64::MAX } else { start.saturating_add(length - 1) }
}

/// Returns the length of a range by its last byte.
fn length(start: u64, last: u64) -> u64 {
    if last == u64::MAX { 0 } else { last - start + 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock(owner: u64, kind: u8, start: u64, length: u64) -> FileLock {
        FileLock { rule: FileLock::FCNTL, kind, owner, pid: 1, start, length, wait: false }
    }

    fn shown(held: &Held) -> Vec<(u64, u8, u64, u64)> {
        let mut all: Vec<_> = held
            .of(Rule::Range)
            .iter()
            .map(|lock| (lock.owner, lock.kind, lock.start, lock.length))
            .collect();
        all.sort_unstable();
        all
    }

    #[test]
    fn an_owners_new_lock_replaces_what_it_had_in_the_range() {
        let mut held = Held::default();
        held.set(Rule::Range, &lock(1, FileLock::SHARED, 0, 0));
        held.set(Rule::Range, &lock(2, FileLock::SHARED, 0, 100));
        held.set(Rule::Range, &lock(1, FileLock::EXCLUSIVE, 10, 10));
        assert_eq!(shown(&held), [(1, 1, 0, 10), (1, 1, 20, 0), (1, 2, 10, 10), (2, 1, 0, 100)]);
        held.set(Rule::Range, &lock(1, FileLock::UNLOCK, 5, 10));
        assert_eq!(shown(&held), [(1, 1, 0, 5), (1, 1, 20, 0), (1, 2, 15, 5), (2, 1, 0, 100)]);
        held.set(Rule::Range, &lock(1, FileLock::UNLOCK, 0, 0));
        assert_eq!(shown(&held), [(2, 1, 0, 100)]);
        assert!(held.has(Rule::Range, 2) && !held.has(Rule::Range, 1) && !held.has(Rule::Whole, 2));
    }

    #[test]
    fn ranges_at_the_end_of_all_numbers_do_not_wrap() {
        let mut held = Held::default();
        held.set(Rule::Range, &lock(1, FileLock::SHARED, u64::MAX, 5));
        held.set(Rule::Range, &lock(1, FileLock::UNLOCK, 0, u64::MAX));
        assert_eq!(shown(&held), [(1, 1, u64::MAX, 5)], "the last byte is another one");
        held.set(Rule::Range, &lock(1, FileLock::UNLOCK, 0, 0));
        assert_eq!(shown(&held), []);
    }

    #[test]
    fn lost_locks_are_told_until_the_file_is_closed() {
        let mut held = Held::default();
        let is_told = held.opened();
        held.lose();
        assert!(!held.is_lost(), "there was none");
        held.set(Rule::Whole, &lock(1, FileLock::EXCLUSIVE, 0, 0));
        held.opened();
        held.lose();
        assert!(held.is_lost() && held.to_blob().is_empty());
        held.closed();
        assert!(held.is_lost() && is_told.load(Ordering::Acquire));
        held.closed();
        assert!(!held.is_lost());
    }

    #[test]
    fn claims_are_written_as_stock_clients_write_them() {
        let mut held = Held::default();
        assert!(held.to_blob().is_empty());
        held.set(Rule::Whole, &lock(9, FileLock::EXCLUSIVE, 0, 0));
        let blob = held.to_blob();
        assert_eq!(blob.len(), 4 + 4 + 41);
        assert_eq!(HeldLocks::from_blob(&blob).expect("decodes").flock.len(), 1);
    }
}
