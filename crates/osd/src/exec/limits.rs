use std::cell::Cell;

use loligo_wire::message::osd::{MOSDOp, ObjectLocator};

use crate::errno::Errno;

/// How large things may be.
///
/// Most are a stock OSD's options with their defaults. One is not: a stock OSD does not bound what a
/// request's operations read and expand, so that a request of 3 MiB may ask for terabytes. The bound is far
/// above what a client does that means no harm.
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
    /// `osd_max_pgls`: objects in one answer of a listing.
    pub list_entries: u64,
    /// `osd_max_write_size`, in bytes: the data of a request that writes.
    pub write_bytes: u64,
    /// `osd_max_write_op_reply_len`, in bytes: the output of an operation in a request that writes and asks for outputs.
    pub write_reply_bytes: usize,
    /// Operations in a request: as many as the wire can count. librbd reads an image's snapshots by one
    /// request of four operations for each.
    pub ops: usize,
    /// Ours: bytes that a request's operations may read, compare and make out of patterns in all; twice the largest object.
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
    /// Whether the request has operations, and not too many.
    pub(crate) fn check_count(&self, op: &MOSDOp) -> Result<(), Errno> {
        match op.ops.len() {
            0 => Err(Errno::EINVAL),
            n if n > self.ops => Err(Errno::EMSGSIZE),
            _ => Ok(()),
        }
    }

    /// Whether the request's names are such as objects may have.
    pub(crate) fn check_names(&self, op: &MOSDOp) -> Result<(), Errno> {
        self.check_name(&op.locator, &op.oid)
    }

    /// Whether an object may be named so, and so placed.
    pub(crate) fn check_name(&self, locator: &ObjectLocator, name: &[u8]) -> Result<(), Errno> {
        let fits = name.len() <= self.object_name_len
            && locator.key.len() <= self.object_name_len
            && locator.nspace.len() <= self.namespace_len;
        if !fits {
            return Err(Errno::ENAMETOOLONG);
        }
        if name.is_empty() { Err(Errno::EINVAL) } else { Ok(()) }
    }

    /// Whether a range lies within what an object may be. As in a stock OSD, not even an empty one may begin at the end.
    pub(crate) fn check_range(&self, offset: u64, len: u64) -> Result<(), Errno> {
        let fits = offset < self.object_bytes && len <= self.object_bytes - offset;
        if fits { Ok(()) } else { Err(Errno::EFBIG) }
    }
}

/// What is left of a request's [`Limits::work_bytes`].
#[derive(Default)]
pub(crate) struct Budget {
    left: Cell<u64>,
    spent: Cell<u64>,
}

impl Budget {
    /// Before each execution of the request.
    pub(super) fn start(&self, limits: &Limits) {
        self.left.set(limits.work_bytes);
        self.spent.set(0);
    }

    pub(super) fn left(&self) -> u64 {
        self.left.get()
    }

    /// What the newest execution has spent, or was about to spend when it ended.
    pub(crate) fn spent(&self) -> u64 {
        self.spent.get()
    }

    pub(super) fn spend(&self, bytes: u64) -> Result<(), Errno> {
        self.left.set(self.left.get().checked_sub(bytes).ok_or(Errno::EMSGSIZE)?);
        self.spent.set(self.spent.get() + bytes);
        Ok(())
    }
}
