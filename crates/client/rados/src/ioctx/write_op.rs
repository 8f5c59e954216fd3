//! Requests of several changes to one object.

use bytes::Bytes;
use loligo_wire::SnapId;
use loligo_wire::message::osd::{AllocHint, CmpOp, CopyFrom, Extent, OpCode, OpFlags, Ops, OsdOp, XattrArgs};

use super::IoCtx;

/// Operations that change one object atomically: all or none. They are executed in the order in which
/// they were added.
///
/// Reads in the request (comparisons, class methods) see the object as it was before the first operation.
#[derive(Clone, Debug, Default)]
#[must_use = "nothing happens before it is given to IoCtx::operate"]
pub struct WriteOp {
    ops: Ops,
}

impl WriteOp {
    /// Creates a request without operations.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds any operation.
    pub fn op(mut self, op: OsdOp) -> Self {
        self.ops.push(op);
        self
    }

    /// Lets the request continue if the operation added last fails.
    pub fn may_fail(self) -> Self {
        self.flags(OpFlags::FAILOK)
    }

    /// Adds flags to the operation added last, such as hints about how its data will be used.
    pub fn flags(mut self, flags: OpFlags) -> Self {
        if let Some(last) = self.ops.last_mut() {
            last.flags |= flags;
        }
        self
    }

    pub(super) fn into_ops(self) -> Ops {
        self.ops
    }
}

/// Conditions: if one fails, the request changes nothing.
impl WriteOp {
    /// Fails with ENOENT if the object does not exist.
    pub fn assert_exists(self) -> Self {
        self.op(OsdOp::new(OpCode::STAT))
    }

    /// Fails with ERANGE if the object is newer than this version, and with EOVERFLOW if it is older.
    pub fn assert_version(self, version: u64) -> Self {
        self.op(OsdOp::assert_ver(version))
    }

    /// Fails with ECANCELED unless `value` `cmp` `stored` holds, where `stored` is the attribute's value.
    pub fn compare_xattr(self, name: impl AsRef<[u8]>, cmp: CmpOp, value: impl AsRef<[u8]>) -> Self {
        self.op(compare_xattr(name.as_ref(), cmp, value.as_ref()))
    }

    /// Like `compare_xattr`, but compares numbers: the attribute's value is parsed as a decimal number.
    pub fn compare_xattr_number(self, name: impl AsRef<[u8]>, cmp: CmpOp, value: u64) -> Self {
        self.op(compare_xattr_number(name.as_ref(), cmp, value))
    }

    /// Fails with ECANCELED unless `stored` `cmp` `value` holds, where `stored` is the key's omap value.
    pub fn compare_omap(self, key: impl AsRef<[u8]>, cmp: CmpOp, value: Bytes) -> Self {
        self.op(OsdOp::omap_compare([(key, cmp, value)]))
    }

    /// Fails with −(4095 + the position of the first differing byte) unless `data` is at `offset`.
    pub fn compare_bytes(self, offset: u64, data: Bytes) -> Self {
        self.op(compare_bytes(offset, data))
    }
}

/// Object data.
impl WriteOp {
    /// Creates the object. If it exists, fails with EEXIST if `exclusive`.
    pub fn create(self, exclusive: bool) -> Self {
        self.op(OsdOp::create(exclusive))
    }

    /// Writes `data` at `offset`.
    pub fn write(self, offset: u64, data: Bytes) -> Self {
        self.op(OsdOp::write(offset, data))
    }

    /// Writes the bytes of several buffers at `offset`, without putting them together.
    pub fn write_pieces(self, offset: u64, pieces: Vec<Bytes>) -> Self {
        self.op(OsdOp::write_pieces(offset, pieces))
    }

    /// Writes `data` repeatedly from `offset` on, `len` bytes in all. `len` is a multiple of the length
    /// of `data`.
    pub fn write_same(self, offset: u64, len: u64, data: Bytes) -> Self {
        self.op(OsdOp::write_same(offset, len, data))
    }

    /// Replaces the object's data with `data`.
    pub fn write_full(self, data: Bytes) -> Self {
        self.op(OsdOp::write_full(data))
    }

    /// Appends `data` to the object.
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

    /// Zeroes a range.
    pub fn zero(self, offset: u64, len: u64) -> Self {
        self.op(OsdOp::zero(offset, len))
    }

    /// Replaces the object with a copy of another object of the pool, with its attributes and omap.
    /// `source` selects the namespace and the snapshot of the source. The source must have this version,
    /// unless `version` is 0.
    pub fn copy_from(self, source: &IoCtx, oid: impl AsRef<[u8]>, version: u64) -> Self {
        let from = CopyFrom { snapid: source.snapid, src_version: version, ..CopyFrom::default() };
        self.op(OsdOp::copy_from(oid.as_ref(), &source.locator, from))
    }

    /// Replaces the object with a copy of another object of the pool, and gives it the truncation of the
    /// file that it is part of: sequence number and size, as CephFS's clients name them with each operation.
    /// `source` selects the namespace and the snapshot of the source.
    pub fn copy_from_truncated(self, source: &IoCtx, oid: impl AsRef<[u8]>, truncation: (u32, u64)) -> Self {
        let from = CopyFrom { snapid: source.snapid, ..CopyFrom::default() };
        self.op(OsdOp::copy_from2(oid.as_ref(), &source.locator, from, truncation))
    }

    /// Restores the object's state at a snapshot; removes the object if it did not exist then.
    pub fn rollback(self, snap: SnapId) -> Self {
        self.op(OsdOp::rollback(snap))
    }

    /// Hints at the expected size of the object and of writes to it, in bytes.
    pub fn set_alloc_hint(self, expected_object_size: u64, expected_write_size: u64) -> Self {
        self.op(OsdOp::set_alloc_hint(AllocHint { expected_object_size, expected_write_size, flags: 0 }))
    }
}

/// Attributes, the omap, and methods.
impl WriteOp {
    /// Sets an extended attribute.
    pub fn set_xattr(self, name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Self {
        self.op(OsdOp::xattr(OpCode::SETXATTR, name.as_ref(), value.as_ref(), 0, 0))
    }

    /// Removes an extended attribute.
    pub fn remove_xattr(self, name: impl AsRef<[u8]>) -> Self {
        self.op(OsdOp::xattr(OpCode::RMXATTR, name.as_ref(), b"", 0, 0))
    }

    /// Sets omap keys.
    pub fn set_omap<K: AsRef<[u8]>>(self, pairs: impl IntoIterator<Item = (K, Bytes)>) -> Self {
        self.op(OsdOp::omap_set(pairs))
    }

    /// Removes omap keys; missing keys are ignored.
    pub fn remove_omap_keys<K: AsRef<[u8]>>(self, keys: impl IntoIterator<Item = K>) -> Self {
        self.op(OsdOp::omap_remove(keys))
    }

    /// Removes the omap keys in `from..until`.
    pub fn remove_omap_range(self, from: impl AsRef<[u8]>, until: impl AsRef<[u8]>) -> Self {
        self.op(OsdOp::omap_remove_range(from.as_ref(), until.as_ref()))
    }

    /// Removes all omap keys and the header.
    pub fn clear_omap(self) -> Self {
        self.op(OsdOp::new(OpCode::OMAPCLEAR))
    }

    /// Sets the omap header.
    pub fn set_omap_header(self, header: Bytes) -> Self {
        self.op(OsdOp::new(OpCode::OMAPSETHEADER).with_data(header))
    }

    /// Calls an object class method.
    pub fn exec(self, class: &str, method: &str, input: &[u8]) -> Self {
        self.op(OsdOp::call(class, method, input))
    }
}

pub(super) fn compare_xattr(name: &[u8], cmp: CmpOp, value: &[u8]) -> OsdOp {
    OsdOp::xattr(OpCode::CMPXATTR, name, value, cmp.code(), XattrArgs::MODE_STRING)
}

pub(super) fn compare_xattr_number(name: &[u8], cmp: CmpOp, value: u64) -> OsdOp {
    OsdOp::xattr(OpCode::CMPXATTR, name, &value.to_le_bytes(), cmp.code(), XattrArgs::MODE_U64)
}

pub(super) fn compare_bytes(offset: u64, data: Bytes) -> OsdOp {
    let extent = Extent { offset, length: data.len() as u64, ..Extent::default() };
    OsdOp::with_extent(OpCode::CMPEXT, extent, data)
}
