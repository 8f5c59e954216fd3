//! File locks: of ranges, as `fcntl(2)` has them, and of whole files, as `flock(2)` does. The metadata
//! server that decides about the file keeps them, so that they hold for all clients.
//!
//! A lock that is granted after its caller has stopped waiting is given back, and so are those of a file that
//! is closed.
//! A server that restarts is told of the locks. If it ends the session instead, they are lost: then the
//! file's next lock, read or write fails with EIO, until each open file of it is closed.

mod held;
mod owners;
mod wait;

use std::sync::atomic::Ordering;

use loligo_rados::Errno;
use loligo_wire::message::mds::{FileLock, FileLockRecord, RequestOp};

pub(crate) use self::held::{Held, Rule};
pub(crate) use self::owners::Owners;
use crate::error::Error;
use crate::file::File;
use crate::session::{Extra, Request};

/// Servers tell an owner by this bit from one of old clients, which needs the process, too.
const OWNER_SUFFICES: u64 = 1 << 63;

/// What a lock keeps others from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LockKind {
    /// From locking exclusively.
    Shared,
    /// From locking.
    Exclusive,
    /// From nothing: the range is unlocked.
    Unlocked,
}

impl LockKind {
    fn number(self) -> u8 {
        match self {
            Self::Shared => FileLock::SHARED,
            Self::Exclusive => FileLock::EXCLUSIVE,
            Self::Unlocked => FileLock::UNLOCK,
        }
    }

    /// Returns the lock that a server's number means; `None` if there is none.
    fn of(number: u8) -> Option<Self> {
        match number {
            FileLock::SHARED => Some(Self::Shared),
            FileLock::EXCLUSIVE => Some(Self::Exclusive),
            _ => None,
        }
    }
}

/// A lock on a range of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lock {
    /// What it keeps others from.
    pub kind: LockKind,
    /// The first byte.
    pub start: u64,
    /// The number of bytes; 0 reaches to the end, however long the file grows.
    pub length: u64,
    /// The owner: locks of one owner do not hinder one another. Any number below 2⁶³ that is the owner's
    /// own among those of this client.
    pub owner: u64,
    /// The process. Others that find the lock are told of it.
    pub pid: u32,
}

impl Lock {
    fn args(self, wait: bool) -> FileLock {
        let Self { kind, start, length, owner, pid } = self;
        FileLock {
            rule: FileLock::FCNTL,
            kind: kind.number(),
            owner: owner | OWNER_SUFFICES,
            pid: pid.into(),
            start,
            length,
            // Unlocking never waits.
            wait: wait && kind != LockKind::Unlocked,
        }
    }

    fn of_record(record: &FileLockRecord) -> Option<Self> {
        Some(Self {
            kind: LockKind::of(record.kind)?,
            start: record.start,
            length: record.length,
            owner: record.owner & !OWNER_SUFFICES,
            pid: u32::try_from(record.pid).unwrap_or(u32::MAX),
        })
    }
}

impl File {
    /// Locks or unlocks a range. With `wait` the call waits while somebody else has a lock that forbids
    /// it; dropping the future ends the waiting.
    ///
    /// # Errors
    /// EAGAIN if it is locked, and the call does not wait; EDEADLK if waiting would never end; EIO if
    /// locks were lost while the file was open.
    pub async fn lock(&self, lock: Lock, wait: bool) -> Result<(), Error> {
        if lock.kind != LockKind::Unlocked && lock.length > 0 {
            lock.start.checked_add(lock.length - 1).ok_or(Errno::EOVERFLOW)?;
        }
        self.set_lock(Rule::Range, lock.args(wait)).await
    }

    /// Locks or unlocks the whole file. These locks do not hinder those of ranges.
    ///
    /// # Errors
    /// As [`File::lock`].
    pub async fn lock_whole(&self, kind: LockKind, owner: u64, wait: bool) -> Result<(), Error> {
        let lock = Lock { kind, start: 0, length: 0, owner, pid: std::process::id() };
        self.set_lock(Rule::Whole, FileLock { rule: FileLock::FLOCK, ..lock.args(wait) }).await
    }

    /// Returns a lock on a range that keeps this one from being taken; `None` if nothing does.
    ///
    /// # Errors
    /// EIO if locks were lost while the file was open.
    pub async fn find_lock(&self, lock: Lock) -> Result<Option<Lock>, Error> {
        self.locks_hold()?;
        let op = RequestOp::GetFileLock(lock.args(false));
        match self.fs.call(Request::about(&self.inode, op)).await?.extra {
            Extra::Lock(found) => Ok(Lock::of_record(&found)),
            _ => Err(crate::mds::missing("getfilelock", 0)),
        }
    }

    /// Gives back all locks on ranges that an owner has on the file, as the close of a process's
    /// descriptor does.
    pub async fn unlock_all(&self, owner: u64) -> Result<(), Error> {
        self.unlock_owner(Rule::Range, owner | OWNER_SUFFICES).await
    }

    async fn set_lock(&self, rule: Rule, args: FileLock) -> Result<(), Error> {
        if args.kind != FileLock::UNLOCK {
            self.locks_hold()?;
            self.owners.add(rule, args.owner);
        }
        if !self.inode.id.is_head() {
            // Nobody changes what is in a snapshot, and no server keeps locks on it.
            return Err(Errno::EROFS.into());
        }
        wait::ask(&self.fs, &self.inode, rule, args).await
    }

    async fn unlock_owner(&self, rule: Rule, owner: u64) -> Result<(), Error> {
        if !self.inode.known().locks.has(rule, owner) {
            return Ok(());
        }
        wait::ask(&self.fs, &self.inode, rule, everything(rule, owner)).await
    }

    /// Checks that the locks taken through this file hold still.
    ///
    /// # Errors
    /// EIO if they were lost.
    pub fn check_locks(&self) -> Result<(), Error> {
        Ok(self.locks_hold()?)
    }

    /// Checks that no lock was lost through which the file's data is relied on.
    ///
    /// # Errors
    /// EIO.
    pub(crate) fn locks_hold(&self) -> Result<(), Errno> {
        if self.owners.have_lost() { Err(Errno::EIO) } else { Ok(()) }
    }

    /// Gives back the locks taken through this file.
    pub(crate) async fn give_locks_back(&self) {
        for (rule, owner) in self.owners.take() {
            // The server takes the locks back by itself with the session, if not now.
            let _ = self.unlock_owner(rule, owner).await;
        }
    }

    /// Gives the locks back without waiting.
    pub(crate) fn drop_locks(&self) {
        if !self.owners.has_any.load(Ordering::Acquire) {
            return;
        }
        let owners = self.owners.take();
        let Some(runtime) = &self.owners.runtime else { return };
        for (rule, owner) in owners {
            let has_it = self.inode.known().locks.has(rule, owner);
            if has_it {
                let (fs, inode) = (self.fs.clone(), self.inode.clone());
                runtime.spawn(async move { wait::ask(&fs, &inode, rule, everything(rule, owner)).await });
            }
        }
    }
}

/// Unlocks the whole file for an owner.
fn everything(rule: Rule, owner: u64) -> FileLock {
    FileLock { rule: rule.number(), kind: FileLock::UNLOCK, owner, ..FileLock::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_are_told_from_those_of_old_clients() {
        let lock = Lock { kind: LockKind::Exclusive, start: 5, length: 6, owner: 7, pid: 8 };
        let args = lock.args(true);
        assert_eq!((args.owner, args.kind, args.wait), (7 | 1 << 63, FileLock::EXCLUSIVE, true));
        let record =
            FileLockRecord { start: 5, length: 6, client: 1, owner: args.owner, pid: 8, kind: args.kind };
        assert_eq!(Lock::of_record(&record), Some(lock));
        assert_eq!(Lock::of_record(&FileLockRecord { kind: FileLock::UNLOCK, ..record }), None);
        assert!(!Lock { kind: LockKind::Unlocked, ..lock }.args(true).wait);
    }
}
