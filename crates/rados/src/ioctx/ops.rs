//! Requests of several operations.

use bytes::Bytes;
use loligo_wire::message::osd::{AllocHint, OpCode, OpFlags, Ops, OsdOp};

/// Operations that change one object, all or none. They are executed in the order in which they were added.
#[derive(Clone, Debug, Default)]
#[must_use = "nothing happens before it is given to IoCtx::operate"]
pub struct WriteOp {
    ops: Ops,
}

impl WriteOp {
    /// No operation yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Any operation.
    pub fn op(mut self, op: OsdOp) -> Self {
        self.ops.push(op);
        self
    }

    /// Fails the whole with ENOENT if there is no object.
    pub fn assert_exists(self) -> Self {
        self.op(OsdOp::new(OpCode::STAT))
    }

    /// Fails the whole unless the object has this version.
    pub fn assert_version(self, version: u64) -> Self {
        self.op(OsdOp::assert_ver(version))
    }

    /// Makes the object; if there is one already it fails with EEXIST if `exclusive`.
    pub fn create(self, exclusive: bool) -> Self {
        self.op(OsdOp::create(exclusive))
    }

    /// Writes `data` at `offset`.
    pub fn write(self, offset: u64, data: Bytes) -> Self {
        self.op(OsdOp::write(offset, data))
    }

    /// Makes `data` all that is in the object.
    pub fn write_full(self, data: Bytes) -> Self {
        self.op(OsdOp::write_full(data))
    }

    /// Writes `data` at the object's end.
    pub fn append(self, data: Bytes) -> Self {
        self.op(OsdOp::append(data))
    }

    /// Removes the object.
    pub fn remove(self) -> Self {
        self.op(OsdOp::new(OpCode::DELETE))
    }

    /// Sets the object's size.
    pub fn truncate(self, size: u64) -> Self {
        self.op(OsdOp::truncate(size))
    }

    /// Makes a range zero.
    pub fn zero(self, offset: u64, len: u64) -> Self {
        self.op(OsdOp::zero(offset, len))
    }

    /// Sets an extended attribute.
    pub fn set_xattr(self, name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Self {
        self.op(OsdOp::xattr(OpCode::SETXATTR, name.as_ref(), value.as_ref(), 0, 0))
    }

    /// Removes an extended attribute.
    pub fn remove_xattr(self, name: impl AsRef<[u8]>) -> Self {
        self.op(OsdOp::xattr(OpCode::RMXATTR, name.as_ref(), b"", 0, 0))
    }

    /// Says how large the object and a write to it will be, in bytes.
    pub fn set_alloc_hint(self, expected_object_size: u64, expected_write_size: u64) -> Self {
        self.op(OsdOp::set_alloc_hint(AllocHint { expected_object_size, expected_write_size, flags: 0 }))
    }

    /// Lets the whole go on if the operation added last fails.
    pub fn may_fail(mut self) -> Self {
        if let Some(last) = self.ops.last_mut() {
            last.flags |= OpFlags::FAILOK;
        }
        self
    }

    pub(super) fn into_ops(self) -> Ops {
        self.ops
    }
}

/// Operations that read one object in one state of it.
#[derive(Clone, Debug, Default)]
#[must_use = "nothing happens before it is given to IoCtx::operate_read"]
pub struct ReadOp {
    ops: Ops,
}

impl ReadOp {
    /// No operation yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Any operation.
    pub fn op(mut self, op: OsdOp) -> Self {
        self.ops.push(op);
        self
    }

    /// Fails the whole unless the object has this version.
    pub fn assert_version(self, version: u64) -> Self {
        self.op(OsdOp::assert_ver(version))
    }

    /// Reads a range; `len` 0 reads to the end.
    pub fn read(self, offset: u64, len: u64) -> Self {
        self.op(OsdOp::read(offset, len))
    }

    /// Size and modification time: the output is the size in 64 bits and a `utime_t`.
    pub fn stat(self) -> Self {
        self.op(OsdOp::new(OpCode::STAT))
    }

    /// An extended attribute.
    pub fn xattr(self, name: impl AsRef<[u8]>) -> Self {
        self.op(OsdOp::xattr(OpCode::GETXATTR, name.as_ref(), b"", 0, 0))
    }

    pub(super) fn into_ops(self) -> Ops {
        self.ops
    }
}
