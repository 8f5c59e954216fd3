//! Requests of several reads of one object.

use std::collections::BTreeMap;

use bytes::Bytes;
use loligo_wire::message::osd::{
    ChecksumArgs, CmpOp, Extent, OmapKeys, OmapPairs, OpCode, OpFlags, OpOutput, Ops, OsdOp,
};
use loligo_wire::{DecodeError, Reader, UTime};

use super::{ObjectStat, decode, write_op};
use crate::Error;
use crate::error::Errno;

/// Operations that read one state of one object. Their outputs come in the order in which the operations
/// were added.
#[derive(Clone, Debug, Default)]
#[must_use = "nothing happens before it is given to IoCtx::operate_read"]
pub struct ReadOp {
    ops: Ops,
}

impl ReadOp {
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

    /// Fails with ERANGE if the object is newer than this version, and with EOVERFLOW if it is older.
    pub fn assert_version(self, version: u64) -> Self {
        self.op(OsdOp::assert_ver(version))
    }

    /// Fails with ECANCELED unless `value` `cmp` `stored` holds, where `stored` is the attribute's value.
    pub fn compare_xattr(self, name: impl AsRef<[u8]>, cmp: CmpOp, value: impl AsRef<[u8]>) -> Self {
        self.op(write_op::compare_xattr(name.as_ref(), cmp, value.as_ref()))
    }

    /// Fails with ECANCELED unless `stored` `cmp` `value` holds, where `stored` is the key's omap value.
    pub fn compare_omap(self, key: impl AsRef<[u8]>, cmp: CmpOp, value: Bytes) -> Self {
        self.op(OsdOp::omap_compare([(key, cmp, value)]))
    }

    /// Fails with −(4095 + the position of the first differing byte) unless `data` is at `offset`.
    pub fn compare_bytes(self, offset: u64, data: Bytes) -> Self {
        self.op(write_op::compare_bytes(offset, data))
    }

    /// Reads a range; `len` 0 reads to the end.
    pub fn read(self, offset: u64, len: u64) -> Self {
        self.op(OsdOp::read(offset, len))
    }

    /// Reads the parts of a range that are not holes: see [`Answer::sparse`].
    pub fn sparse_read(self, offset: u64, len: u64) -> Self {
        let extent = Extent { offset, length: len, ..Extent::default() };
        self.op(OsdOp::with_extent(OpCode::SPARSE_READ, extent, Bytes::new()))
    }

    /// Has the OSD compute checksums of a range: see [`Checksum`] and [`Answer::checksums`].
    pub fn checksum(self, checksum: Checksum) -> Self {
        self.op(checksum.into_op())
    }

    /// Reads size and modification time: see [`Answer::stat`].
    pub fn stat(self) -> Self {
        self.op(OsdOp::new(OpCode::STAT))
    }

    /// Reads an extended attribute.
    pub fn xattr(self, name: impl AsRef<[u8]>) -> Self {
        self.op(OsdOp::xattr(OpCode::GETXATTR, name.as_ref(), b"", 0, 0))
    }

    /// Reads all extended attributes: see [`Answer::map`].
    pub fn xattrs(self) -> Self {
        self.op(OsdOp::new(OpCode::GETXATTRS))
    }

    /// Reads at most `max` omap pairs after the key `after` whose keys begin with `prefix`: see
    /// [`Answer::omap`].
    pub fn omap(self, after: impl AsRef<[u8]>, prefix: impl AsRef<[u8]>, max: u64) -> Self {
        self.op(OsdOp::omap_values(after.as_ref(), max, prefix.as_ref()))
    }

    /// Reads at most `max` omap keys after the key `after`: see [`Answer::omap_keys`].
    pub fn omap_keys(self, after: impl AsRef<[u8]>, max: u64) -> Self {
        self.op(OsdOp::omap_keys(after.as_ref(), max))
    }

    /// Reads the omap values of the given keys; missing keys are left out: see [`Answer::map`].
    pub fn omap_values<K: AsRef<[u8]>>(self, keys: impl IntoIterator<Item = K>) -> Self {
        self.op(OsdOp::omap_values_by_keys(keys))
    }

    /// Reads the omap header.
    pub fn omap_header(self) -> Self {
        self.op(OsdOp::new(OpCode::OMAPGETHEADER))
    }

    /// Calls an object class method that only reads.
    pub fn exec(self, class: &str, method: &str, input: &[u8]) -> Self {
        self.op(OsdOp::call(class, method, input))
    }

    pub(super) fn into_ops(self) -> Ops {
        self.ops
    }
}

/// Parameters of a checksum computation by an OSD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checksum {
    /// The algorithm.
    pub kind: ChecksumKind,
    /// Initial value of each checksum.
    pub seed: u64,
    /// Offset of the first byte.
    pub offset: u64,
    /// Length in bytes; 0 means to the end.
    pub len: u64,
    /// Bytes covered by each checksum; 0 computes a single checksum.
    pub chunk: u32,
}

/// A checksum algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChecksumKind {
    /// 32-bit xxHash.
    XxHash32,
    /// 64-bit xxHash.
    XxHash64,
    /// CRC-32C.
    Crc32c,
}

impl Checksum {
    fn into_op(self) -> OsdOp {
        let (kind, seed) = match self.kind {
            ChecksumKind::XxHash32 => (ChecksumArgs::XXHASH32, self.seed.to_le_bytes()[..4].to_vec()),
            ChecksumKind::XxHash64 => (ChecksumArgs::XXHASH64, self.seed.to_le_bytes().to_vec()),
            ChecksumKind::Crc32c => (ChecksumArgs::CRC32C, self.seed.to_le_bytes()[..4].to_vec()),
        };
        let args = ChecksumArgs { offset: self.offset, length: self.len, chunk_size: self.chunk, kind };
        OsdOp::checksum(args, seed.into())
    }
}

/// The result of one operation of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// 0 or more, or a negative errno if the operation was allowed to fail.
    pub result: i32,
    /// The operation's output.
    pub data: Bytes,
}

impl From<OpOutput> for Answer {
    fn from(output: OpOutput) -> Self {
        Self { result: output.rval, data: output.data }
    }
}

impl Answer {
    fn read<T>(
        &self,
        what: &'static str,
        read: impl FnOnce(&mut Reader<'_>) -> Result<T, DecodeError>,
    ) -> Result<T, Error> {
        match Errno::from_result(self.result) {
            None => decode(what, &self.data, read),
            Some(errno) => Err(errno.into()),
        }
    }

    /// Decodes the output of [`ReadOp::stat`].
    pub fn stat(&self) -> Result<ObjectStat, Error> {
        self.read("the output of stat", |r| {
            Ok(ObjectStat { size: r.u64()?, mtime: r.get::<UTime>()?.to_system() })
        })
    }

    /// Decodes names and values, the output of several operations.
    pub fn map(&self) -> Result<BTreeMap<Bytes, Bytes>, Error> {
        self.read("names and values", |r| r.get())
    }

    /// Decodes the output of [`ReadOp::omap`].
    pub fn omap(&self) -> Result<OmapPairs, Error> {
        self.read("a part of a map", |r| OmapPairs::from_answer(r.rest()))
    }

    /// Decodes the output of [`ReadOp::omap_keys`].
    pub fn omap_keys(&self) -> Result<OmapKeys, Error> {
        self.read("a part of a map's keys", |r| OmapKeys::from_answer(r.rest()))
    }

    /// Decodes the output of [`ReadOp::sparse_read`]: the data of the ranges that are not holes, each
    /// with its offset.
    pub fn sparse(&self) -> Result<Vec<(u64, Bytes)>, Error> {
        let (extents, data): (Vec<(u64, u64)>, Bytes) = self.read("ranges", |r| Ok((r.get()?, r.get()?)))?;
        let mut rest = data;
        let cut = |(offset, len): (u64, u64)| {
            let len = usize::try_from(len).ok().filter(|len| *len <= rest.len())?;
            Some((offset, rest.split_to(len)))
        };
        let ranges: Option<Vec<(u64, Bytes)>> = extents.into_iter().map(cut).collect();
        ranges.ok_or(Error::Os(Errno::EIO))
    }

    /// Decodes the output of [`ReadOp::checksum`] of the given kind.
    pub fn checksums(&self, kind: ChecksumKind) -> Result<Vec<u64>, Error> {
        self.read("checksums", |r| {
            let count = r.count(4)?;
            (0..count)
                .map(|_| if kind == ChecksumKind::XxHash64 { r.u64() } else { r.u32().map(u64::from) })
                .collect()
        })
    }
}
