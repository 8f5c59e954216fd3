//! Requests of several operations that read an object.

use std::collections::BTreeMap;

use bytes::Bytes;
use loligo_wire::message::osd::{
    ChecksumArgs, CmpOp, Extent, OmapKeys, OmapPairs, OpCode, OpFlags, OpOutput, Ops, OsdOp,
};
use loligo_wire::{DecodeError, Reader, UTime};

use super::{ObjectStat, decode, write_op};
use crate::Error;
use crate::error::Errno;

/// Operations that read one object in one state of it. The answers come in the order in which they were
/// added.
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

    /// Lets the whole go on if the operation added last fails.
    pub fn may_fail(self) -> Self {
        self.flags(OpFlags::FAILOK)
    }

    /// Adds flags to the operation added last, such as hints how its data will be used.
    pub fn flags(mut self, flags: OpFlags) -> Self {
        if let Some(last) = self.ops.last_mut() {
            last.flags |= flags;
        }
        self
    }

    /// ERANGE if the object is newer than this version, EOVERFLOW if it is older.
    pub fn assert_version(self, version: u64) -> Self {
        self.op(OsdOp::assert_ver(version))
    }

    /// ECANCELED unless the attribute compares so with `value`: as `value` OP what is stored.
    pub fn compare_xattr(self, name: impl AsRef<[u8]>, cmp: CmpOp, value: impl AsRef<[u8]>) -> Self {
        self.op(write_op::compare_xattr(name.as_ref(), cmp, value.as_ref()))
    }

    /// ECANCELED unless the value of the key in the object's map compares so with `value`: as the stored one
    /// OP `value`.
    pub fn compare_omap(self, key: impl AsRef<[u8]>, cmp: CmpOp, value: Bytes) -> Self {
        self.op(OsdOp::omap_compare([(key, cmp, value)]))
    }

    /// Fails with −(4095 + the place of the first byte that differs) unless these bytes are at `offset`.
    pub fn compare_bytes(self, offset: u64, data: Bytes) -> Self {
        self.op(write_op::compare_bytes(offset, data))
    }

    /// Reads a range; `len` 0 reads to the end.
    pub fn read(self, offset: u64, len: u64) -> Self {
        self.op(OsdOp::read(offset, len))
    }

    /// Reads what is not a hole of a range: see [`Answer::sparse`].
    pub fn sparse_read(self, offset: u64, len: u64) -> Self {
        let extent = Extent { offset, length: len, ..Extent::default() };
        self.op(OsdOp::with_extent(OpCode::SPARSE_READ, extent, Bytes::new()))
    }

    /// Checksums of a range, by the OSD: see [`Checksum`] and [`Answer::checksums`].
    pub fn checksum(self, checksum: Checksum) -> Self {
        self.op(checksum.into_op())
    }

    /// Size and modification time: see [`Answer::stat`].
    pub fn stat(self) -> Self {
        self.op(OsdOp::new(OpCode::STAT))
    }

    /// An extended attribute.
    pub fn xattr(self, name: impl AsRef<[u8]>) -> Self {
        self.op(OsdOp::xattr(OpCode::GETXATTR, name.as_ref(), b"", 0, 0))
    }

    /// All extended attributes: see [`Answer::map`].
    pub fn xattrs(self) -> Self {
        self.op(OsdOp::new(OpCode::GETXATTRS))
    }

    /// At most `max` pairs of the object's map behind the key `after` whose keys begin with `prefix`: see
    /// [`Answer::omap`].
    pub fn omap(self, after: impl AsRef<[u8]>, prefix: impl AsRef<[u8]>, max: u64) -> Self {
        self.op(OsdOp::omap_values(after.as_ref(), max, prefix.as_ref()))
    }

    /// At most `max` keys of the object's map behind the key `after`: see [`Answer::omap_keys`].
    pub fn omap_keys(self, after: impl AsRef<[u8]>, max: u64) -> Self {
        self.op(OsdOp::omap_keys(after.as_ref(), max))
    }

    /// Those of the keys that are in the object's map, with their values: see [`Answer::map`].
    pub fn omap_values<K: AsRef<[u8]>>(self, keys: impl IntoIterator<Item = K>) -> Self {
        self.op(OsdOp::omap_values_by_keys(keys))
    }

    /// The header of the object's map.
    pub fn omap_header(self) -> Self {
        self.op(OsdOp::new(OpCode::OMAPGETHEADER))
    }

    /// Calls a method of an object class that only reads.
    pub fn exec(self, class: &str, method: &str, input: &[u8]) -> Self {
        self.op(OsdOp::call(class, method, input))
    }

    pub(super) fn into_ops(self) -> Ops {
        self.ops
    }
}

/// Which checksums an OSD computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checksum {
    /// How.
    pub kind: ChecksumKind,
    /// What each begins with.
    pub seed: u64,
    /// First byte.
    pub offset: u64,
    /// Bytes; 0 is "to the end".
    pub len: u64,
    /// Bytes under each checksum; 0 makes one of all.
    pub chunk: u32,
}

/// How a checksum is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChecksumKind {
    /// xxHash of 32 bits.
    XxHash32,
    /// xxHash of 64 bits.
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

/// What one operation of a request answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// 0 or more, or a negative errno: then the operation was allowed to fail.
    pub result: i32,
    /// Its output.
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

    /// The output of [`ReadOp::stat`].
    pub fn stat(&self) -> Result<ObjectStat, Error> {
        self.read("the output of stat", |r| {
            Ok(ObjectStat { size: r.u64()?, mtime: r.get::<UTime>()?.to_system() })
        })
    }

    /// Names and values, as several operations answer.
    pub fn map(&self) -> Result<BTreeMap<Bytes, Bytes>, Error> {
        self.read("names and values", |r| r.get())
    }

    /// The output of [`ReadOp::omap`].
    pub fn omap(&self) -> Result<OmapPairs, Error> {
        self.read("a part of a map", |r| OmapPairs::from_answer(r.rest()))
    }

    /// The output of [`ReadOp::omap_keys`].
    pub fn omap_keys(&self) -> Result<OmapKeys, Error> {
        self.read("a part of a map's keys", |r| OmapKeys::from_answer(r.rest()))
    }

    /// The output of [`ReadOp::sparse_read`]: ranges that hold something, with where they begin.
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

    /// The output of [`ReadOp::checksum`], of whatever kind.
    pub fn checksums(&self, kind: ChecksumKind) -> Result<Vec<u64>, Error> {
        self.read("checksums", |r| {
            let count = r.count(4)?;
            (0..count)
                .map(|_| if kind == ChecksumKind::XxHash64 { r.u64() } else { r.u32().map(u64::from) })
                .collect()
        })
    }
}
