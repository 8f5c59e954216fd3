//! One operation on an object: [`OsdOp`], its constructors and the views of its arguments.

use az::SaturatingAs as _;
use bytes::Bytes;

use super::{OpCode, OpFlags};
use crate::{DecodeError, Encode, Reader, SnapId, Writer};

/// Bytes of the union of all arguments in `ceph_osd_op`.
const ARGS_LEN: usize = 28;

/// One operation of a request, or its echo in a reply: `ceph_osd_op` and the bytes that belong to it.
///
/// ```text
/// offset  0   2       6            34            38
///         code flags   arguments    payload_len        38 bytes; the payload travels in the message's data
/// ```
/// What the arguments mean depends on the code: constructors and views of the same name keep the two
/// together. A view of the wrong code yields numbers without meaning, but never fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OsdOp {
    /// Which operation.
    pub code: OpCode,
    /// Its flags.
    pub flags: OpFlags,
    args: [u8; ARGS_LEN],
    /// In a request the input (`indata`), in a reply the output (`outdata`). A slice of the message's data,
    /// not a copy.
    pub data: Bytes,
}

/// Arguments of READ, WRITE, WRITEFULL, APPEND, ZERO, TRUNCATE, SPARSE_READ, MAPEXT, CMPEXT: a range of
/// bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// First byte; TRUNCATE: the new size.
    pub offset: u64,
    /// Bytes; in a READ, 0 is "to the end".
    pub length: u64,
    /// CephFS: the size of the last truncation, applied lazily.
    pub truncate_size: u64,
    /// CephFS: the number of the last truncation.
    pub truncate_seq: u32,
}

/// Arguments of the operations on one extended attribute, and of OMAP_CMP's kin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct XattrArgs {
    /// Bytes of the name, at the start of the input.
    pub name_len: u32,
    /// Bytes of the value, behind the name.
    pub value_len: u32,
    /// CMPXATTR: how to compare, see [`CmpOp`].
    pub cmp_op: u8,
    /// CMPXATTR: [`XattrArgs::MODE_STRING`] or [`XattrArgs::MODE_U64`].
    pub cmp_mode: u8,
}

impl XattrArgs {
    /// Compare as byte strings.
    pub const MODE_STRING: u8 = 1;
    /// Compare as numbers: the attribute's text against the input's 64-bit integer.
    pub const MODE_U64: u8 = 2;
}

/// How CMPXATTR and OMAP_CMP compare: value given OP value stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CmpOp {
    /// Equal.
    Eq = 1,
    /// Not equal.
    Ne = 2,
    /// Greater.
    Gt = 3,
    /// Greater or equal.
    Gte = 4,
    /// Less.
    Lt = 5,
    /// Less or equal.
    Lte = 6,
}

impl CmpOp {
    /// The comparison with a number; `None` if there is none.
    pub fn from_code(code: u8) -> Option<Self> {
        [Self::Eq, Self::Ne, Self::Gt, Self::Gte, Self::Lt, Self::Lte]
            .into_iter()
            .find(|op| *op as u8 == code)
    }

    /// Whether two values that compare as `ordering` satisfy this comparison.
    pub fn holds(self, ordering: std::cmp::Ordering) -> bool {
        match self {
            Self::Eq => ordering.is_eq(),
            Self::Ne => ordering.is_ne(),
            Self::Gt => ordering.is_gt(),
            Self::Gte => ordering.is_ge(),
            Self::Lt => ordering.is_lt(),
            Self::Lte => ordering.is_le(),
        }
    }
}

/// Arguments of PGLS and PGNLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PgLsArgs {
    /// At most so many entries.
    pub count: u64,
    /// The epoch in which the listing began.
    pub start_epoch: u32,
}

/// Arguments of WATCH.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WatchArgs {
    /// The client's name for the watch.
    pub cookie: u64,
    /// What to do, one of this type's constants.
    pub op: u8,
    /// Counts the client's registrations of this watch.
    pub generation: u32,
    /// Seconds without a sign of life until the watch ends; 0 is the OSD's default.
    pub timeout_s: u32,
}

impl WatchArgs {
    /// End the watch.
    pub const UNWATCH: u8 = 0;
    /// Register, as the oldest clients do.
    pub const LEGACY_WATCH: u8 = 1;
    /// Register.
    pub const WATCH: u8 = 3;
    /// Register again after a lost connection.
    pub const RECONNECT: u8 = 5;
    /// Renew.
    pub const PING: u8 = 7;
}

/// Arguments of SETALLOCHINT.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AllocHint {
    /// Bytes the object will have.
    pub expected_object_size: u64,
    /// Bytes a write will have.
    pub expected_write_size: u64,
    /// `CEPH_OSD_ALLOC_HINT_FLAG_*`.
    pub flags: u32,
}

/// Arguments of WRITESAME.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteSame {
    /// First byte.
    pub offset: u64,
    /// Bytes written in all.
    pub length: u64,
    /// Bytes of the pattern in the input.
    pub data_length: u64,
}

/// Arguments of CHECKSUM.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChecksumArgs {
    /// First byte.
    pub offset: u64,
    /// Bytes; 0 is "to the end".
    pub length: u64,
    /// Bytes for each checksum; 0 is one for all.
    pub chunk_size: u32,
    /// One of this type's constants.
    pub kind: u8,
}

impl ChecksumArgs {
    /// xxHash, 32 bits.
    pub const XXHASH32: u8 = 0;
    /// xxHash, 64 bits.
    pub const XXHASH64: u8 = 1;
    /// CRC32C.
    pub const CRC32C: u8 = 2;
}

/// Arguments of COPY_FROM and COPY_FROM2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CopyFrom {
    /// The source's snapshot.
    pub snapid: SnapId,
    /// The source must have this version, unless 0.
    pub src_version: u64,
    /// `CEPH_OSD_COPY_FROM_FLAG_*`.
    pub flags: u8,
    /// Hints for reading the source.
    pub src_fadvise_flags: u32,
}

/// A CALL's input, opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallInput {
    /// The object class.
    pub class: Bytes,
    /// The method.
    pub method: Bytes,
    /// What the method gets.
    pub input: Bytes,
}

/// What goes into an operation.
impl OsdOp {
    /// Bytes of the encoding, without the payload.
    pub const ENCODED_LEN: usize = 38;

    /// An operation without arguments and input.
    pub fn new(code: OpCode) -> Self {
        Self { code, flags: OpFlags::empty(), args: [0; ARGS_LEN], data: Bytes::new() }
    }

    /// An operation on a range of bytes.
    pub fn with_extent(code: OpCode, extent: Extent, data: Bytes) -> Self {
        let mut args = Args::default();
        args.u64(extent.offset).u64(extent.length).u64(extent.truncate_size).u32(extent.truncate_seq);
        Self::new(code).with_args(args).with_data(data)
    }

    /// READ of `length` bytes at `offset`; length 0 reads to the end.
    pub fn read(offset: u64, length: u64) -> Self {
        Self::with_extent(OpCode::READ, Extent { offset, length, ..Extent::default() }, Bytes::new())
    }

    /// WRITE of `data` at `offset`.
    pub fn write(offset: u64, data: Bytes) -> Self {
        let extent = Extent { offset, length: data.len() as u64, ..Extent::default() };
        Self::with_extent(OpCode::WRITE, extent, data)
    }

    /// WRITEFULL with `data`.
    pub fn write_full(data: Bytes) -> Self {
        let extent = Extent { length: data.len() as u64, ..Extent::default() };
        Self::with_extent(OpCode::WRITEFULL, extent, data)
    }

    /// APPEND of `data`.
    pub fn append(data: Bytes) -> Self {
        let extent = Extent { length: data.len() as u64, ..Extent::default() };
        Self::with_extent(OpCode::APPEND, extent, data)
    }

    /// TRUNCATE to `size` bytes.
    pub fn truncate(size: u64) -> Self {
        Self::with_extent(OpCode::TRUNCATE, Extent { offset: size, ..Extent::default() }, Bytes::new())
    }

    /// ZERO of `length` bytes at `offset`.
    pub fn zero(offset: u64, length: u64) -> Self {
        Self::with_extent(OpCode::ZERO, Extent { offset, length, ..Extent::default() }, Bytes::new())
    }

    /// CREATE; with `exclusive` it fails if the object exists.
    pub fn create(exclusive: bool) -> Self {
        let flags = if exclusive { OpFlags::EXCL } else { OpFlags::empty() };
        Self { flags, ..Self::new(OpCode::CREATE) }
    }

    /// An operation on the extended attribute `name`; `value` is empty unless one is set or compared.
    pub fn xattr(code: OpCode, name: &[u8], value: &[u8], cmp_op: u8, cmp_mode: u8) -> Self {
        let mut args = Args::default();
        args.u32(name.len().saturating_as::<u32>())
            .u32(value.len().saturating_as::<u32>())
            .u8(cmp_op)
            .u8(cmp_mode);
        Self::new(code).with_args(args).with_data([name, value].concat().into())
    }

    /// CALL of a method of an object class, whose names are shorter than 256 bytes.
    pub fn call(class: &str, method: &str, input: &[u8]) -> Self {
        let mut args = Args::default();
        args.u8(class.len().saturating_as::<u8>())
            .u8(method.len().saturating_as::<u8>())
            .u8(0)
            .u32(input.len().saturating_as::<u32>());
        let data = [class.as_bytes(), method.as_bytes(), input].concat();
        Self::new(OpCode::CALL).with_args(args).with_data(data.into())
    }

    /// PGNLS of at most `count` entries behind `cursor`.
    pub fn pgnls(count: u64, start_epoch: u32, cursor: &super::HObject) -> Self {
        let mut args = Args::default();
        args.u64(count).u32(start_epoch);
        Self::new(OpCode::PGNLS).with_args(args).with_data(cursor.to_bytes())
    }

    /// PGNLS of at most `count` entries behind `cursor` that a filter lets through: its name and its
    /// arguments.
    pub fn pgnls_filter(count: u64, start_epoch: u32, cursor: &super::HObject, filter: &[u8]) -> Self {
        let data = [filter, &cursor.to_bytes()].concat();
        Self { code: OpCode::PGNLS_FILTER, ..Self::pgnls(count, start_epoch, cursor) }.with_data(data.into())
    }

    /// SETALLOCHINT.
    pub fn set_alloc_hint(hint: AllocHint) -> Self {
        let mut args = Args::default();
        args.u64(hint.expected_object_size).u64(hint.expected_write_size).u32(hint.flags);
        // A store that cannot heed the hint must not fail the write that follows.
        Self { flags: OpFlags::FAILOK, ..Self::new(OpCode::SETALLOCHINT).with_args(args) }
    }

    /// WATCH.
    pub fn watch(watch: WatchArgs) -> Self {
        let mut args = Args::default();
        args.u64(watch.cookie).u64(0).u8(watch.op).u32(watch.generation).u32(watch.timeout_s);
        Self::new(OpCode::WATCH).with_args(args)
    }

    /// NOTIFY, with the input that Ceph encodes for it.
    pub fn notify(cookie: u64, data: Bytes) -> Self {
        let mut args = Args::default();
        args.u64(cookie);
        Self::new(OpCode::NOTIFY).with_args(args).with_data(data)
    }

    /// ASSERT_VER: the object must have this version.
    pub fn assert_ver(version: u64) -> Self {
        let mut args = Args::default();
        args.u64(0).u64(version);
        Self::new(OpCode::ASSERT_VER).with_args(args)
    }

    /// ROLLBACK to a snapshot.
    pub fn rollback(snapid: SnapId) -> Self {
        let mut args = Args::default();
        args.u64(snapid.0);
        Self::new(OpCode::ROLLBACK).with_args(args)
    }

    /// COPY_FROM of another object of the pool, as it is or was.
    pub fn copy_from(source: &[u8], locator: &super::ObjectLocator, from: CopyFrom) -> Self {
        let mut args = Args::default();
        args.u64(from.snapid.0).u64(from.src_version).u8(from.flags).u32(from.src_fadvise_flags);
        let mut w = Writer::new();
        w.blob(source);
        w.put(locator);
        Self::new(OpCode::COPY_FROM).with_args(args).with_data(w.into_bytes())
    }

    /// WRITESAME of `data` over `length` bytes at `offset`.
    pub fn write_same(offset: u64, length: u64, data: Bytes) -> Self {
        let mut args = Args::default();
        args.u64(offset).u64(length).u64(data.len() as u64);
        Self::new(OpCode::WRITESAME).with_args(args).with_data(data)
    }

    /// TMAP2OMAP with its flags (`CEPH_OSD_TMAP2OMAP_*`).
    pub fn tmap_to_omap(flags: u8) -> Self {
        let mut args = Args::default();
        args.u8(flags);
        Self::new(OpCode::TMAP2OMAP).with_args(args)
    }

    /// CHECKSUM; `seed` is the encoded initial value.
    pub fn checksum(checksum: ChecksumArgs, seed: Bytes) -> Self {
        let mut args = Args::default();
        args.u64(checksum.offset).u64(checksum.length).u32(checksum.chunk_size).u8(checksum.kind);
        Self::new(OpCode::CHECKSUM).with_args(args).with_data(seed)
    }

    /// The same with an input or output.
    pub fn with_data(self, data: Bytes) -> Self {
        Self { data, ..self }
    }

    /// The same with flags.
    pub fn with_flags(self, flags: OpFlags) -> Self {
        Self { flags, ..self }
    }

    fn with_args(self, args: Args) -> Self {
        Self { args: args.bytes, ..self }
    }
}

/// What an operation says.
impl OsdOp {
    /// The range of bytes.
    pub fn extent(&self) -> Extent {
        Extent {
            offset: self.arg_u64(0),
            length: self.arg_u64(8),
            truncate_size: self.arg_u64(16),
            truncate_seq: self.arg_u32(24),
        }
    }

    /// The lengths and the comparison of an extended attribute's operation.
    pub fn xattr_args(&self) -> XattrArgs {
        XattrArgs {
            name_len: self.arg_u32(0),
            value_len: self.arg_u32(4),
            cmp_op: self.args[8],
            cmp_mode: self.args[9],
        }
    }

    /// Name and value of an extended attribute's operation: the start of the input, cut by the lengths.
    pub fn xattr_input(&self) -> Result<(Bytes, Bytes), DecodeError> {
        let args = self.xattr_args();
        let name = self.input_slice(0, u64::from(args.name_len))?;
        let value = self.input_slice(u64::from(args.name_len), u64::from(args.value_len))?;
        Ok((name, value))
    }

    /// A CALL's class, method and input.
    pub fn call_input(&self) -> Result<CallInput, DecodeError> {
        let (class_len, method_len) = (u64::from(self.args[0]), u64::from(self.args[1]));
        let input_len = u64::from(self.arg_u32(3));
        Ok(CallInput {
            class: self.input_slice(0, class_len)?,
            method: self.input_slice(class_len, method_len)?,
            input: self.input_slice(class_len + method_len, input_len)?,
        })
    }

    /// The bounds of a listing.
    pub fn pgls_args(&self) -> PgLsArgs {
        PgLsArgs { count: self.arg_u64(0), start_epoch: self.arg_u32(8) }
    }

    /// What to do with a watch.
    pub fn watch_args(&self) -> WatchArgs {
        WatchArgs {
            cookie: self.arg_u64(0),
            op: self.args[16],
            generation: self.arg_u32(17),
            timeout_s: self.arg_u32(21),
        }
    }

    /// The cookie of NOTIFY and of its kin.
    pub fn cookie(&self) -> u64 {
        self.arg_u64(0)
    }

    /// The version that ASSERT_VER asks for.
    pub fn asserted_version(&self) -> u64 {
        self.arg_u64(8)
    }

    /// The snapshot of ROLLBACK.
    pub fn snapid(&self) -> SnapId {
        SnapId(self.arg_u64(0))
    }

    /// The hint of SETALLOCHINT.
    pub fn alloc_hint(&self) -> AllocHint {
        AllocHint {
            expected_object_size: self.arg_u64(0),
            expected_write_size: self.arg_u64(8),
            flags: self.arg_u32(16),
        }
    }

    /// The ranges of WRITESAME.
    pub fn write_same_args(&self) -> WriteSame {
        WriteSame { offset: self.arg_u64(0), length: self.arg_u64(8), data_length: self.arg_u64(16) }
    }

    /// The flags of TMAP2OMAP (`CEPH_OSD_TMAP2OMAP_*`).
    pub fn tmap_to_omap_flags(&self) -> u8 {
        self.args[0]
    }

    /// What CHECKSUM computes.
    pub fn checksum_args(&self) -> ChecksumArgs {
        ChecksumArgs {
            offset: self.arg_u64(0),
            length: self.arg_u64(8),
            chunk_size: self.arg_u32(16),
            kind: self.args[20],
        }
    }

    /// The source of COPY_FROM.
    pub fn copy_from_args(&self) -> CopyFrom {
        CopyFrom {
            snapid: SnapId(self.arg_u64(0)),
            src_version: self.arg_u64(8),
            flags: self.args[16],
            src_fadvise_flags: self.arg_u32(17),
        }
    }

    fn input_slice(&self, start: u64, len: u64) -> Result<Bytes, DecodeError> {
        let left = self.data.len().saturating_sub(start.saturating_as::<usize>());
        if len > left as u64 {
            return Err(DecodeError::Truncated { needed: len, left });
        }
        Ok(self.data.slice(start.saturating_as::<usize>()..(start + len).saturating_as::<usize>()))
    }

    fn arg_u64(&self, at: usize) -> u64 {
        u64::from_le_bytes(std::array::from_fn(|i| self.args[at + i]))
    }

    fn arg_u32(&self, at: usize) -> u32 {
        u32::from_le_bytes(std::array::from_fn(|i| self.args[at + i]))
    }
}

/// The fixed part. The payload's length stands in it, the payload does not.
impl OsdOp {
    pub(super) fn encode_fixed(&self, w: &mut Writer) {
        let mut fixed = [0; Self::ENCODED_LEN];
        fixed[..2].copy_from_slice(&self.code.0.to_le_bytes());
        fixed[2..6].copy_from_slice(&self.flags.0.to_le_bytes());
        fixed[6..34].copy_from_slice(&self.args);
        fixed[34..].copy_from_slice(&self.data.len().saturating_as::<u32>().to_le_bytes());
        w.raw(&fixed);
    }

    /// Reads the fixed part; the payload comes off the front of `payloads`.
    pub(super) fn decode_fixed(r: &mut Reader<'_>, payloads: &mut Bytes) -> Result<Self, DecodeError> {
        let mut op = Self::new(OpCode(r.u16()?));
        op.flags = OpFlags(r.u32()?);
        op.args = r.array()?;
        let payload_len = r.u32()? as usize;
        if payload_len > payloads.len() {
            return Err(DecodeError::Truncated { needed: payload_len as u64, left: payloads.len() });
        }
        if payload_len > 0 {
            op.data = payloads.split_to(payload_len);
        }
        Ok(op)
    }
}

/// Fills the arguments from the front.
#[derive(Default)]
struct Args {
    bytes: [u8; ARGS_LEN],
    filled: usize,
}

impl Args {
    fn u64(&mut self, v: u64) -> &mut Self {
        self.raw(&v.to_le_bytes())
    }

    fn u32(&mut self, v: u32) -> &mut Self {
        self.raw(&v.to_le_bytes())
    }

    fn u8(&mut self, v: u8) -> &mut Self {
        self.raw(&[v])
    }

    fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes[self.filled..self.filled + bytes.len()].copy_from_slice(bytes);
        self.filled += bytes.len();
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recode(op: &OsdOp) -> OsdOp {
        let mut w = Writer::new();
        op.encode_fixed(&mut w);
        assert_eq!(w.len(), OsdOp::ENCODED_LEN);
        let bytes = w.into_bytes();
        let mut payloads = op.data.clone();
        OsdOp::decode_fixed(&mut Reader::new(&bytes), &mut payloads).expect("decodes")
    }

    #[test]
    fn views_read_what_constructors_wrote() {
        let extent = recode(&OsdOp::write(4096, Bytes::from_static(b"abc"))).extent();
        assert_eq!(extent, Extent { offset: 4096, length: 3, ..Extent::default() });

        let (name, value) =
            recode(&OsdOp::xattr(OpCode::SETXATTR, b"n", b"value", 0, 0)).xattr_input().expect("whole");
        assert_eq!((&name[..], &value[..]), (&b"n"[..], &b"value"[..]));

        let call = recode(&OsdOp::call("lock", "get_info", b"in")).call_input().expect("whole");
        assert_eq!(
            (&call.class[..], &call.method[..], &call.input[..]),
            (&b"lock"[..], &b"get_info"[..], &b"in"[..])
        );

        let watch = WatchArgs { cookie: 7, op: WatchArgs::RECONNECT, generation: 3, timeout_s: 30 };
        assert_eq!(recode(&OsdOp::watch(watch)).watch_args(), watch);

        let hint = AllocHint { expected_object_size: 1 << 22, expected_write_size: 4096, flags: 5 };
        assert_eq!(recode(&OsdOp::set_alloc_hint(hint)).alloc_hint(), hint);

        let checksum = ChecksumArgs { offset: 1, length: 2, chunk_size: 3, kind: ChecksumArgs::CRC32C };
        assert_eq!(recode(&OsdOp::checksum(checksum, Bytes::new())).checksum_args(), checksum);

        assert_eq!(recode(&OsdOp::assert_ver(9)).asserted_version(), 9);
        assert_eq!(recode(&OsdOp::rollback(SnapId(4))).snapid(), SnapId(4));
    }

    #[test]
    fn lengths_beyond_the_input_are_refused() {
        let short =
            OsdOp::xattr(OpCode::SETXATTR, b"name", b"value", 0, 0).with_data(Bytes::from_static(b"nam"));
        assert_eq!(short.xattr_input(), Err(DecodeError::Truncated { needed: 4, left: 3 }));
        let short = OsdOp::call("lock", "lock", b"input").with_data(Bytes::from_static(b"lock"));
        assert_eq!(short.call_input(), Err(DecodeError::Truncated { needed: 4, left: 0 }));
    }
}
