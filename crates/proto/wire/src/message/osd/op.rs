//! One operation on an object: [`OsdOp`], its constructors, and accessors for its arguments.

use az::SaturatingAs as _;
use bytes::Bytes;

use super::{OpCode, OpFlags};
use crate::{DecodeError, Encode, Reader, SnapId, Writer};

/// The length of the argument union in `ceph_osd_op`, in bytes.
const ARGS_LEN: usize = 28;

/// One operation of a request, or its echo in a reply: `ceph_osd_op` and the payload that belongs to it.
///
/// ```text
/// offset  0   2       6            34            38
///         code flags   arguments    payload_len        38 bytes; the payload travels in the message's data
/// ```
/// The meaning of the arguments depends on the code: a constructor and the accessor of the same name
/// agree on it. An accessor for another code returns meaningless numbers but never fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OsdOp {
    /// The operation.
    pub code: OpCode,
    /// Its flags.
    pub flags: OpFlags,
    args: [u8; ARGS_LEN],
    /// The input (`indata`) in a request, the output (`outdata`) in a reply: a slice of the message's
    /// data, not a copy.
    pub data: Bytes,
    /// The rest of the input, if it comes in several buffers, none of them empty. There is none in an
    /// operation that was decoded.
    pub more: Box<[Bytes]>,
}

/// Arguments of READ, WRITE, WRITEFULL, APPEND, ZERO, TRUNCATE, SPARSE_READ, MAPEXT, CMPEXT: a byte
/// range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// Offset of the first byte; in TRUNCATE, the new size.
    pub offset: u64,
    /// Length in bytes; in READ, 0 means "to the end".
    pub length: u64,
    /// CephFS: the size of the last truncation, which the OSD applies lazily.
    pub truncate_size: u64,
    /// CephFS: the sequence number of the last truncation.
    pub truncate_seq: u32,
}

/// Arguments of the operations on one extended attribute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct XattrArgs {
    /// Length of the name in bytes; the name is at the start of the input.
    pub name_len: u32,
    /// Length of the value in bytes; the value follows the name.
    pub value_len: u32,
    /// CMPXATTR: the comparison, see [`CmpOp`].
    pub cmp_op: u8,
    /// CMPXATTR: [`XattrArgs::MODE_STRING`] or [`XattrArgs::MODE_U64`].
    pub cmp_mode: u8,
}

impl XattrArgs {
    /// Compares as byte strings.
    pub const MODE_STRING: u8 = 1;
    /// Compares as numbers: the attribute's text against the 64-bit integer in the input.
    pub const MODE_U64: u8 = 2;
}

/// The comparisons of CMPXATTR and OMAP_CMP. CMPXATTR tests "given OP stored"; OMAP_CMP tests "stored OP
/// given".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
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
    /// The comparison's number in operations.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// Returns the comparison with the number `code`, or `None` if there is none.
    pub fn from_code(code: u8) -> Option<Self> {
        [Self::Eq, Self::Ne, Self::Gt, Self::Gte, Self::Lt, Self::Lte]
            .into_iter()
            .find(|op| op.code() == code)
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
    /// The maximum number of entries.
    pub count: u64,
    /// The epoch in which the listing began.
    pub start_epoch: u32,
}

/// Arguments of WATCH.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WatchArgs {
    /// The cookie that the client chose for the watch.
    pub cookie: u64,
    /// The action, one of this type's constants.
    pub op: u8,
    /// Counts the client's registrations of this watch.
    pub generation: u32,
    /// The watch ends after this many seconds without a sign of life from the client; 0 selects the
    /// OSD's default.
    pub timeout_s: u32,
}

impl WatchArgs {
    /// End the watch.
    pub const UNWATCH: u8 = 0;
    /// Register, in the form of the oldest clients.
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
    /// The expected size of the object, in bytes.
    pub expected_object_size: u64,
    /// The expected size of a write, in bytes.
    pub expected_write_size: u64,
    /// `CEPH_OSD_ALLOC_HINT_FLAG_*`.
    pub flags: u32,
}

/// Arguments of WRITESAME.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteSame {
    /// Offset of the first byte.
    pub offset: u64,
    /// Total number of bytes written.
    pub length: u64,
    /// Length of the pattern in the input, in bytes.
    pub data_length: u64,
}

/// Arguments of CHECKSUM.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChecksumArgs {
    /// Offset of the first byte.
    pub offset: u64,
    /// Length in bytes; 0 means "to the end".
    pub length: u64,
    /// Bytes for each checksum; 0 computes one checksum for the whole range.
    pub chunk_size: u32,
    /// The algorithm, one of this type's constants.
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
    /// The snapshot of the source.
    pub snapid: SnapId,
    /// The version that the source must have; 0 accepts any version.
    pub src_version: u64,
    /// `CEPH_OSD_COPY_FROM_FLAG_*`.
    pub flags: u8,
    /// Hints for reading the source.
    pub src_fadvise_flags: u32,
}

impl CopyFrom {
    /// COPY_FROM2: the input names the copy's truncation (`CEPH_OSD_COPY_FROM_FLAG_TRUNCATE_SEQ`).
    pub const TRUNCATE_SEQ: u8 = 1 << 5;
}

/// The decoded input of a CALL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallInput {
    /// The object class.
    pub class: Bytes,
    /// The method.
    pub method: Bytes,
    /// The method's input.
    pub input: Bytes,
}

/// Constructors.
impl OsdOp {
    /// The length of the encoding in bytes, without the payload.
    pub const ENCODED_LEN: usize = 38;

    /// Creates an operation without arguments and input.
    pub fn new(code: OpCode) -> Self {
        Self { code, flags: OpFlags::empty(), args: [0; ARGS_LEN], data: Bytes::new(), more: Box::default() }
    }

    /// Creates an operation on a byte range.
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

    /// WRITE at `offset` of the bytes of several buffers.
    pub fn write_pieces(offset: u64, pieces: Vec<Bytes>) -> Self {
        let length = pieces.iter().map(|piece| piece.len() as u64).sum();
        let extent = Extent { offset, length, ..Extent::default() };
        Self::with_extent(OpCode::WRITE, extent, Bytes::new()).with_pieces(pieces)
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

    /// Creates an operation on the extended attribute `name`. `value` is empty unless the operation sets
    /// or compares a value.
    pub fn xattr(code: OpCode, name: &[u8], value: &[u8], cmp_op: u8, cmp_mode: u8) -> Self {
        let mut args = Args::default();
        args.u32(name.len().saturating_as::<u32>())
            .u32(value.len().saturating_as::<u32>())
            .u8(cmp_op)
            .u8(cmp_mode);
        Self::new(code).with_args(args).with_data([name, value].concat().into())
    }

    /// CALL of a method of an object class. The names of the class and the method must be shorter than
    /// 256 bytes.
    pub fn call(class: &str, method: &str, input: &[u8]) -> Self {
        let mut args = Args::default();
        args.u8(class.len().saturating_as::<u8>())
            .u8(method.len().saturating_as::<u8>())
            .u8(0)
            .u32(input.len().saturating_as::<u32>());
        let data = [class.as_bytes(), method.as_bytes(), input].concat();
        Self::new(OpCode::CALL).with_args(args).with_data(data.into())
    }

    /// PGNLS of at most `count` entries from `cursor` on.
    pub fn pgnls(count: u64, start_epoch: u32, cursor: &super::HObject) -> Self {
        let mut args = Args::default();
        args.u64(count).u32(start_epoch);
        Self::new(OpCode::PGNLS).with_args(args).with_data(cursor.to_bytes())
    }

    /// PGNLS of at most `count` entries from `cursor` on that pass a filter. `filter` is the filter's
    /// name and arguments.
    pub fn pgnls_filter(count: u64, start_epoch: u32, cursor: &super::HObject, filter: &[u8]) -> Self {
        let data = [filter, &cursor.to_bytes()].concat();
        Self { code: OpCode::PGNLS_FILTER, ..Self::pgnls(count, start_epoch, cursor) }.with_data(data.into())
    }

    /// SETALLOCHINT.
    pub fn set_alloc_hint(hint: AllocHint) -> Self {
        let mut args = Args::default();
        args.u64(hint.expected_object_size).u64(hint.expected_write_size).u32(hint.flags);
        // A store that cannot apply the hint must not fail the write that follows.
        Self { flags: OpFlags::FAILOK, ..Self::new(OpCode::SETALLOCHINT).with_args(args) }
    }

    /// WATCH.
    pub fn watch(watch: WatchArgs) -> Self {
        let mut args = Args::default();
        args.u64(watch.cookie).u64(0).u8(watch.op).u32(watch.generation).u32(watch.timeout_s);
        Self::new(OpCode::WATCH).with_args(args)
    }

    /// NOTIFY, with its input in Ceph's encoding.
    pub fn notify(cookie: u64, data: Bytes) -> Self {
        let mut args = Args::default();
        args.u64(cookie);
        Self::new(OpCode::NOTIFY).with_args(args).with_data(data)
    }

    /// ASSERT_VER: fails unless the object has this version.
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

    /// COPY_FROM of another object of the pool: its current state or a snapshot.
    pub fn copy_from(source: &[u8], locator: &super::ObjectLocator, from: CopyFrom) -> Self {
        let mut args = Args::default();
        args.u64(from.snapid.0).u64(from.src_version).u8(from.flags).u32(from.src_fadvise_flags);
        let mut w = Writer::new();
        w.blob(source);
        w.put(locator);
        Self::new(OpCode::COPY_FROM).with_args(args).with_data(w.into_bytes())
    }

    /// COPY_FROM2 of another object of the pool. The copy gets this truncation: sequence number and size.
    pub fn copy_from2(
        source: &[u8],
        locator: &super::ObjectLocator,
        from: CopyFrom,
        (truncate_seq, truncate_size): (u32, u64),
    ) -> Self {
        let flags = from.flags | CopyFrom::TRUNCATE_SEQ;
        let mut op = Self::copy_from(source, locator, CopyFrom { flags, ..from });
        let mut w = Writer::new();
        w.raw(&op.data);
        w.u32(truncate_seq);
        w.u64(truncate_size);
        op.code = OpCode::COPY_FROM2;
        op.with_data(w.into_bytes())
    }

    /// WRITESAME of `data` over `length` bytes at `offset`.
    pub fn write_same(offset: u64, length: u64, data: Bytes) -> Self {
        let mut args = Args::default();
        args.u64(offset).u64(length).u64(data.len() as u64);
        Self::new(OpCode::WRITESAME).with_args(args).with_data(data)
    }

    /// TMAP2OMAP with flags (`CEPH_OSD_TMAP2OMAP_*`).
    pub fn tmap_to_omap(flags: u8) -> Self {
        let mut args = Args::default();
        args.u8(flags);
        Self::new(OpCode::TMAP2OMAP).with_args(args)
    }

    /// CHECKSUM; `seed` is the encoded initial value of the checksum.
    pub fn checksum(checksum: ChecksumArgs, seed: Bytes) -> Self {
        let mut args = Args::default();
        args.u64(checksum.offset).u64(checksum.length).u32(checksum.chunk_size).u8(checksum.kind);
        Self::new(OpCode::CHECKSUM).with_args(args).with_data(seed)
    }

    /// Returns the operation with the given input or output.
    pub fn with_data(self, data: Bytes) -> Self {
        Self { data, more: Box::default(), ..self }
    }

    /// Returns the operation with an input in several buffers.
    pub fn with_pieces(self, pieces: impl IntoIterator<Item = Bytes>) -> Self {
        let mut pieces = pieces.into_iter().filter(|piece| !piece.is_empty());
        let data = pieces.next().unwrap_or_default();
        Self { data, more: pieces.collect(), ..self }
    }

    /// The length of the input or output, in bytes.
    pub fn data_len(&self) -> usize {
        self.data.len() + self.more.iter().map(Bytes::len).sum::<usize>()
    }

    /// The buffers of the input or output, without empty ones.
    pub fn pieces(&self) -> impl Iterator<Item = &Bytes> {
        std::iter::once(&self.data).chain(self.more.iter()).filter(|piece| !piece.is_empty())
    }

    /// Returns the operation with the given flags.
    pub fn with_flags(self, flags: OpFlags) -> Self {
        Self { flags, ..self }
    }

    fn with_args(self, args: Args) -> Self {
        Self { args: args.bytes, ..self }
    }
}

/// Accessors.
impl OsdOp {
    /// The byte range.
    pub fn extent(&self) -> Extent {
        Extent {
            offset: self.arg_u64(0),
            length: self.arg_u64(8),
            truncate_size: self.arg_u64(16),
            truncate_seq: self.arg_u32(24),
        }
    }

    /// The lengths and the comparison of an operation on an extended attribute.
    pub fn xattr_args(&self) -> XattrArgs {
        XattrArgs {
            name_len: self.arg_u32(0),
            value_len: self.arg_u32(4),
            cmp_op: self.args[8],
            cmp_mode: self.args[9],
        }
    }

    /// The name and value of an operation on an extended attribute: the start of the input, split by the
    /// lengths.
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

    /// The limits of a listing.
    pub fn pgls_args(&self) -> PgLsArgs {
        PgLsArgs { count: self.arg_u64(0), start_epoch: self.arg_u32(8) }
    }

    /// The arguments of WATCH.
    pub fn watch_args(&self) -> WatchArgs {
        WatchArgs {
            cookie: self.arg_u64(0),
            op: self.args[16],
            generation: self.arg_u32(17),
            timeout_s: self.arg_u32(21),
        }
    }

    /// The cookie of NOTIFY and related operations.
    pub fn cookie(&self) -> u64 {
        self.arg_u64(0)
    }

    /// The version that ASSERT_VER requires.
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

    /// The arguments of WRITESAME.
    pub fn write_same_args(&self) -> WriteSame {
        WriteSame { offset: self.arg_u64(0), length: self.arg_u64(8), data_length: self.arg_u64(16) }
    }

    /// The flags of TMAP2OMAP (`CEPH_OSD_TMAP2OMAP_*`).
    pub fn tmap_to_omap_flags(&self) -> u8 {
        self.args[0]
    }

    /// The arguments of CHECKSUM.
    pub fn checksum_args(&self) -> ChecksumArgs {
        ChecksumArgs {
            offset: self.arg_u64(0),
            length: self.arg_u64(8),
            chunk_size: self.arg_u32(16),
            kind: self.args[20],
        }
    }

    /// The arguments of COPY_FROM.
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

/// Encoding of the fixed part, which contains the payload's length but not the payload.
impl OsdOp {
    pub(super) fn encode_fixed(&self, w: &mut Writer) {
        let mut fixed = [0; Self::ENCODED_LEN];
        fixed[..2].copy_from_slice(&self.code.0.to_le_bytes());
        fixed[2..6].copy_from_slice(&self.flags.bits().to_le_bytes());
        fixed[6..34].copy_from_slice(&self.args);
        fixed[34..].copy_from_slice(&self.data_len().saturating_as::<u32>().to_le_bytes());
        w.raw(&fixed);
    }

    /// Decodes the fixed part, and splits the payload off the front of `payloads`.
    pub(super) fn decode_fixed(r: &mut Reader<'_>, payloads: &mut Bytes) -> Result<Self, DecodeError> {
        let mut op = Self::new(OpCode(r.u16()?));
        op.flags = OpFlags::from_bits_retain(r.u32()?);
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

/// Writes arguments one after the other, starting at the front.
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
    fn an_input_in_several_buffers_is_sent_as_one() {
        let buffers = ["", "ab", "", "cdef", "g"].map(|text| Bytes::from_static(text.as_bytes()));
        let op = OsdOp::write_pieces(4096, buffers.to_vec());
        assert_eq!((op.data_len(), op.pieces().count()), (7, 3));
        let mut w = Writer::new();
        op.encode_fixed(&mut w);
        let mut sent: Bytes = op.pieces().flatten().copied().collect();
        let seen = OsdOp::decode_fixed(&mut Reader::new(&w.into_bytes()), &mut sent).expect("decodes");
        assert_eq!(seen, OsdOp::write(4096, Bytes::from_static(b"abcdefg")));
        assert_eq!(OsdOp::write_pieces(0, Vec::new()), OsdOp::write(0, Bytes::new()));
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
