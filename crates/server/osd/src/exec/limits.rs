//! Bounds on objects and requests, and the work budget of a request.

use std::cell::Cell;

use loligo_wire::Errno;
use loligo_wire::message::osd::{MOSDOp, ObjectLocator};

use super::Context;

/// Bounds on objects and requests.
///
/// Most are a stock OSD's options with their defaults. One is not: a stock OSD does not bound the bytes
/// that a request's operations read and expand, so a request of 3 MiB may ask for terabytes. Our bound
/// is far above the needs of a well-behaved client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// `osd_max_object_size`, in bytes.
    pub object_bytes: u64,
    /// `osd_max_object_name_len`, in bytes.
    pub object_name_len: usize,
    /// `osd_max_object_namespace_len`, in bytes.
    pub namespace_len: usize,
    /// `osd_max_attr_name_len`, in bytes.
    pub xattr_name_len: usize,
    /// `osd_max_omap_entries_per_request`.
    pub omap_entries: u64,
    /// `osd_max_omap_bytes_per_request`.
    pub omap_bytes: usize,
    /// `osd_max_pgls`: objects in one reply of a listing.
    pub list_entries: u64,
    /// `osd_max_write_size`, in bytes: the data of a request that writes.
    pub write_bytes: u64,
    /// `osd_max_write_op_reply_len`, in bytes: the output of an operation in a request that writes and asks
    /// for outputs.
    pub write_reply_bytes: usize,
    /// Operations in a request: as many as the wire format can count. librbd reads an image's snapshots
    /// with one request of four operations for each.
    pub ops: usize,
    /// Not a Ceph option: total bytes that a request's operations may read, compare and expand from
    /// patterns; twice the largest object. A request that exceeds it fails with EMSGSIZE, even if its
    /// operations may fail.
    pub work_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            object_bytes: 128 << 20,
            object_name_len: 2048,
            namespace_len: 256,
            xattr_name_len: 100,
            omap_entries: 1024,
            omap_bytes: 1 << 30,
            list_entries: 1024,
            write_bytes: 90 << 20,
            write_reply_bytes: 64,
            ops: u16::MAX as usize,
            work_bytes: 256 << 20,
        }
    }
}

impl Limits {
    /// Checks that the request has operations, and not too many.
    pub(crate) fn check_count(&self, op: &MOSDOp) -> Result<(), Errno> {
        match op.ops.len() {
            0 => Err(Errno::EINVAL),
            n if n > self.ops => Err(Errno::EMSGSIZE),
            _ => Ok(()),
        }
    }

    /// Checks the request's object name, key and namespace.
    pub(crate) fn check_names(&self, op: &MOSDOp) -> Result<(), Errno> {
        self.check_name(&op.locator, &op.oid)
    }

    /// Checks an object's name, key and namespace.
    pub(crate) fn check_name(&self, locator: &ObjectLocator, name: &[u8]) -> Result<(), Errno> {
        let fits = name.len() <= self.object_name_len
            && locator.key.len() <= self.object_name_len
            && locator.nspace.len() <= self.namespace_len;
        if !fits {
            return Err(Errno::ENAMETOOLONG);
        }
        if name.is_empty() { Err(Errno::EINVAL) } else { Ok(()) }
    }

    /// Checks that a range lies within the maximum object size. As in a stock OSD, not even an empty
    /// range may begin at that size.
    pub(crate) fn check_range(&self, offset: u64, len: u64) -> Result<(), Errno> {
        let fits = offset < self.object_bytes && len <= self.object_bytes - offset;
        if fits { Ok(()) } else { Err(Errno::EFBIG) }
    }
}

/// More work than this is not done on a thread that reads sockets.
const HEAVY: u64 = 12 << 20;
/// The factor of [`Limits::work_bytes`] that all executions of one request may spend together: a request
/// is executed again from the start whenever it has waited for the disk.
const EXECUTIONS: u64 = 4;

/// The rest of a request's [`Limits::work_bytes`], and its work so far.
#[derive(Default)]
pub(crate) struct Budget {
    left: Cell<u64>,
    /// Bytes spent by this execution, and by all executions before it.
    spent: Cell<u64>,
    spent_before: Cell<u64>,
    /// The work of this execution, in bytes of copying; includes the bytes spent.
    work: Cell<u64>,
    is_exhausted: Cell<bool>,
    /// The request starts on a thread that also serves others, and moves to another thread if it turns
    /// out to be heavy.
    begins_light: bool,
    is_heavy: Cell<bool>,
}

impl Budget {
    /// The budget of a request that starts on a thread which also serves others.
    pub(crate) fn light() -> Self {
        Self { begins_light: true, ..Self::default() }
    }

    /// Resets the budget; called before each execution of the request.
    pub(super) fn start(&self, limits: &Limits) {
        let before = self.spent_before.get() + self.spent.replace(0);
        self.spent_before.set(before);
        self.work.set(0);
        let left = (EXECUTIONS * limits.work_bytes).saturating_sub(before);
        self.left.set(left.min(limits.work_bytes));
    }

    pub(super) fn left(&self) -> u64 {
        self.left.get()
    }

    /// Bytes the latest execution has spent, including those it was about to use when it paused.
    pub(crate) fn spent(&self) -> u64 {
        self.spent.get()
    }

    /// The work of the latest execution.
    pub(crate) fn work(&self) -> u64 {
        self.work.get()
    }

    /// Whether the budget was exceeded: the request fails, even if its operations may fail.
    pub(super) fn is_exhausted(&self) -> bool {
        self.is_exhausted.get()
    }

    /// Whether the request must not be executed on a thread that reads sockets.
    pub(crate) fn is_heavy(&self) -> bool {
        self.is_heavy.get()
    }

    /// Must be called before the work is done.
    fn spend(&self, bytes: u64) -> Result<(), Errno> {
        let Some(left) = self.left.get().checked_sub(bytes).filter(|_| !self.is_exhausted.get()) else {
            self.is_exhausted.set(true);
            return Err(Errno::EMSGSIZE);
        };
        self.left.set(left);
        self.spent.set(self.spent.get() + bytes);
        self.add(bytes);
        Ok(())
    }

    fn add(&self, work: u64) {
        self.work.set(self.work.get().saturating_add(work));
    }

    /// Marks the request heavy if it has just become so; returns true at that moment only.
    fn turns_heavy(&self) -> bool {
        let turns = self.begins_light && self.work.get() > HEAVY && !self.is_heavy.get();
        self.is_heavy.set(self.is_heavy.get() | turns);
        turns
    }
}

impl Context {
    /// Counts work that is about to be done against the request's budget. On an error the work must not
    /// be done; the error may mean that the request is executed again on another thread.
    pub(crate) fn spend(&self, bytes: u64) -> Result<(), Errno> {
        self.budget.spend(bytes)?;
        self.goes_on()
    }

    /// As `spend`, for work that never fails a request, because the client has sent the bytes
    /// or a stock OSD does the work, too.
    pub(super) fn works(&self, bytes: u64) -> Result<(), Errno> {
        self.budget.add(bytes);
        self.goes_on()
    }

    fn goes_on(&self) -> Result<(), Errno> {
        if self.budget.turns_heavy() {
            self.fetches.pause();
            return Err(Errno::EIO);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_and_its_repetitions_have_bounds() {
        let limits = Limits::default();
        let budget = Budget::default();
        for _ in 0..EXECUTIONS {
            budget.start(&limits);
            assert_eq!(budget.spend(limits.work_bytes), Ok(()));
            assert!(!budget.is_exhausted());
        }
        budget.start(&limits);
        assert_eq!(budget.spend(1), Err(Errno::EMSGSIZE));
        assert_eq!(budget.spend(0), Err(Errno::EMSGSIZE), "nothing more is done");
        assert!(budget.is_exhausted() && budget.work() == 0);
    }

    #[test]
    fn what_is_heavy_goes_elsewhere_once() {
        let (limits, light) = (Limits::default(), Budget::light());
        light.start(&limits);
        assert_eq!((light.spend(HEAVY), light.turns_heavy()), (Ok(()), false));
        light.add(1);
        assert!(light.turns_heavy() && light.is_heavy() && !light.turns_heavy());
        light.start(&limits);
        assert_eq!((light.spend(2 * HEAVY), light.turns_heavy(), light.is_heavy()), (Ok(()), false, true));
    }
}
