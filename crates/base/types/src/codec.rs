//! The codec: little-endian integers, length-prefixed containers and the versioned-struct envelope
//! (`ENCODE_START`/`DECODE_START` in Ceph's `src/include/encoding.h`).

use std::collections::{BTreeMap, BTreeSet};

use bytes::{Bytes, BytesMut};

use crate::DecodeError;

/// A type that has a Ceph encoding.
pub trait Encode {
    /// Appends the encoding to `w`.
    fn encode(&self, w: &mut Writer);

    /// Returns the encoding in a new buffer.
    fn to_bytes(&self) -> Bytes {
        let mut w = Writer::new();
        self.encode(&mut w);
        w.into_bytes()
    }
}

/// A type that can be decoded from its Ceph encoding.
pub trait Decode: Sized {
    /// The length in bytes of the shortest encoding of the type. It bounds the allocation for a claimed
    /// element count.
    const MIN_LEN: usize = 1;

    /// Decodes one value. After an error, the reader's position is unspecified.
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError>;

    /// Decodes one value from the start of `bytes`; bytes after the value are ignored.
    fn from_bytes(bytes: &[u8]) -> Result<Self, DecodeError> {
        Self::decode(&mut Reader::new(bytes))
    }
}

/// Appends encoded values to a growing buffer.
#[derive(Debug, Default)]
pub struct Writer {
    buf: BytesMut,
}

impl Writer {
    /// Creates an empty writer.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates an empty writer with room for `n` bytes.
    pub fn with_capacity(n: usize) -> Self {
        Self { buf: BytesMut::with_capacity(n) }
    }

    /// Creates a writer that appends to `buf`, which may already hold bytes.
    pub fn on(buf: BytesMut) -> Self {
        Self { buf }
    }

    /// The number of bytes in the buffer.
    pub fn len(&self) -> usize {
        self.buf.len()
    }

    /// Whether the buffer is empty.
    pub fn is_empty(&self) -> bool {
        self.buf.is_empty()
    }

    /// The bytes in the buffer.
    pub fn as_slice(&self) -> &[u8] {
        &self.buf
    }

    /// Returns the buffer.
    pub fn into_bytes(self) -> Bytes {
        self.buf.freeze()
    }

    /// Returns the buffer, still growable.
    pub fn into_bytes_mut(self) -> BytesMut {
        self.buf
    }

    /// Appends raw bytes, without a length.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.buf.extend_from_slice(bytes);
    }

    /// Appends `n` zero bytes.
    pub fn zeros(&mut self, n: usize) {
        self.buf.resize(self.buf.len() + n, 0);
    }

    /// Appends one byte.
    pub fn u8(&mut self, v: u8) {
        self.buf.extend_from_slice(&[v]);
    }

    /// Appends a 16-bit integer.
    pub fn u16(&mut self, v: u16) {
        self.buf.extend_from_slice(&v.to_le_bytes());
    }

    /// Appends a 32-bit integer.
    pub fn u32(&mut self, v: u32) {
        self.buf.extend_from_slice(&v.to_le_bytes());
    }

    /// Appends a 64-bit integer.
    pub fn u64(&mut self, v: u64) {
        self.buf.extend_from_slice(&v.to_le_bytes());
    }

    /// Appends a signed 32-bit integer.
    pub fn i32(&mut self, v: i32) {
        self.buf.extend_from_slice(&v.to_le_bytes());
    }

    /// Appends a signed 64-bit integer.
    pub fn i64(&mut self, v: i64) {
        self.buf.extend_from_slice(&v.to_le_bytes());
    }

    /// Appends a boolean, as one byte.
    pub fn bool(&mut self, v: bool) {
        self.u8(u8::from(v));
    }

    /// Appends a byte string with its 32-bit length: Ceph's `string` and `bufferlist`.
    ///
    /// # Panics
    /// If the string is 4 GiB or longer. No caller builds one.
    pub fn blob(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.raw(bytes);
    }

    /// Appends an element count or byte length in 32 bits, as Ceph does.
    ///
    /// # Panics
    /// If `n` does not fit in 32 bits. No caller passes such a count.
    pub fn count(&mut self, n: usize) {
        self.u32(u32::try_from(n).expect("encoded containers are below 4 Gi elements"));
    }

    /// Appends a value.
    pub fn put<T: Encode + ?Sized>(&mut self, v: &T) {
        v.encode(self);
    }

    /// Appends a container: its element count, then each element.
    pub fn seq<'a, T: Encode + 'a, I>(&mut self, items: I)
    where
        I: IntoIterator<Item = &'a T, IntoIter: ExactSizeIterator>,
    {
        let items = items.into_iter();
        self.count(items.len());
        items.for_each(|item| item.encode(self));
    }

    /// Appends a versioned struct (`ENCODE_START`): the version, the oldest version whose readers can
    /// read it, the byte length, and the body.
    pub fn versioned(&mut self, version: u8, compat: u8, body: impl FnOnce(&mut Self)) {
        self.u8(version);
        self.u8(compat);
        self.sized(body);
    }

    /// Appends the 32-bit byte length of the bytes that `body` writes, followed by those bytes.
    pub fn sized(&mut self, body: impl FnOnce(&mut Self)) {
        let at = self.buf.len();
        self.u32(0);
        body(self);
        let len = u32::try_from(self.buf.len() - at - 4).expect("an encoded struct is below 4 GiB");
        self.patch_u32(at, len);
    }

    /// Overwrites the four bytes at `at`, which must already be written.
    ///
    /// # Panics
    /// If the buffer ends before `at + 4`.
    pub fn patch_u32(&mut self, at: usize, v: u32) {
        self.buf[at..at + 4].copy_from_slice(&v.to_le_bytes());
    }
}

/// Reads encoded values from a buffer. A reader never panics and never reads past the end.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Creates a reader over all of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The number of bytes not yet read.
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// Whether all bytes have been read.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Returns the unread bytes without consuming them.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Reads `n` raw bytes.
    pub fn raw(&mut self, n: usize) -> Result<&'a [u8], DecodeError> {
        let Some((head, rest)) = self.rest.split_at_checked(n) else {
            return Err(DecodeError::Truncated { needed: n as u64, left: self.rest.len() });
        };
        self.rest = rest;
        Ok(head)
    }

    /// Reads an array of `N` raw bytes.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let Some((head, rest)) = self.rest.split_first_chunk::<N>() else {
            return Err(DecodeError::Truncated { needed: N as u64, left: self.rest.len() });
        };
        self.rest = rest;
        Ok(*head)
    }

    /// Skips `n` bytes.
    pub fn skip(&mut self, n: usize) -> Result<(), DecodeError> {
        self.raw(n).map(|_| ())
    }

    /// Reads one byte.
    pub fn u8(&mut self) -> Result<u8, DecodeError> {
        self.array::<1>().map(|b| b[0])
    }

    /// Reads a 16-bit integer.
    pub fn u16(&mut self) -> Result<u16, DecodeError> {
        self.array().map(u16::from_le_bytes)
    }

    /// Reads a 32-bit integer.
    pub fn u32(&mut self) -> Result<u32, DecodeError> {
        self.array().map(u32::from_le_bytes)
    }

    /// Reads a 64-bit integer.
    pub fn u64(&mut self) -> Result<u64, DecodeError> {
        self.array().map(u64::from_le_bytes)
    }

    /// Reads a signed 32-bit integer.
    pub fn i32(&mut self) -> Result<i32, DecodeError> {
        self.array().map(i32::from_le_bytes)
    }

    /// Reads a signed 64-bit integer.
    pub fn i64(&mut self) -> Result<i64, DecodeError> {
        self.array().map(i64::from_le_bytes)
    }

    /// Reads a boolean; any byte but zero is true, as in Ceph.
    pub fn bool(&mut self) -> Result<bool, DecodeError> {
        self.u8().map(|b| b != 0)
    }

    /// Reads a 32-bit length and the byte string that follows it: Ceph's `string` and `bufferlist`.
    pub fn blob(&mut self) -> Result<&'a [u8], DecodeError> {
        let len = self.u32()?;
        self.raw(len as usize)
    }

    /// Reads a value.
    pub fn get<T: Decode>(&mut self) -> Result<T, DecodeError> {
        T::decode(self)
    }

    /// Reads an element count, and rejects a count that the remaining bytes cannot hold.
    ///
    /// `min_len` is the length in bytes of the shortest element. It is therefore safe to allocate for
    /// the returned count.
    pub fn count(&mut self, min_len: usize) -> Result<usize, DecodeError> {
        let n = self.u32()? as usize;
        let needed = n as u64 * min_len.max(1) as u64;
        if needed > self.rest.len() as u64 {
            return Err(DecodeError::Truncated { needed, left: self.rest.len() });
        }
        Ok(n)
    }

    /// Reads a container: its element count, then each element.
    pub fn seq<T: Decode, C: FromIterator<T>>(&mut self) -> Result<C, DecodeError> {
        let n = self.count(T::MIN_LEN)?;
        (0..n).map(|_| T::decode(self)).collect()
    }

    /// Reads a versioned struct of Ceph type `what` (`DECODE_START`).
    ///
    /// `body` gets a reader confined to the struct, and the writer's version. Bytes that `body` leaves
    /// unread were appended by a newer writer and are skipped. `oldest` and `newest` are the versions
    /// that `body` understands. A newer writer is accepted if it declares that readers of version
    /// `newest` can read the struct.
    pub fn versioned<T>(
        &mut self,
        what: &'static str,
        oldest: u8,
        newest: u8,
        body: impl FnOnce(&mut Reader<'a>, u8) -> Result<T, DecodeError>,
    ) -> Result<T, DecodeError> {
        let version = self.u8()?;
        let compat = self.u8()?;
        if compat > newest {
            return Err(DecodeError::TooNew { what, compat, supported: newest });
        }
        if version < oldest {
            return Err(DecodeError::TooOld { what, version, oldest });
        }
        let mut inner = self.sized()?;
        body(&mut inner, version)
    }

    /// Reads a 32-bit byte length and returns a reader confined to the bytes that follow it.
    pub fn sized(&mut self) -> Result<Reader<'a>, DecodeError> {
        self.blob().map(Reader::new)
    }
}

macro_rules! codec_for_int {
    ($($ty:ident)*) => {$(
        impl Encode for $ty {
            fn encode(&self, w: &mut Writer) {
                w.raw(&self.to_le_bytes());
            }
        }
        impl Decode for $ty {
            const MIN_LEN: usize = size_of::<$ty>();
            fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
                r.array().map(Self::from_le_bytes)
            }
        }
    )*};
}
codec_for_int!(u8 u16 u32 u64 i8 i16 i32 i64);

impl Encode for bool {
    fn encode(&self, w: &mut Writer) {
        w.bool(*self);
    }
}

impl Decode for bool {
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.bool()
    }
}

impl Encode for str {
    fn encode(&self, w: &mut Writer) {
        w.blob(self.as_bytes());
    }
}

impl Encode for String {
    fn encode(&self, w: &mut Writer) {
        w.blob(self.as_bytes());
    }
}

/// For strings that Ceph itself chooses (pool names, configuration keys, …). Names that users choose
/// freely are read as bytes.
impl Decode for String {
    const MIN_LEN: usize = 4;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let bytes = r.blob()?;
        std::str::from_utf8(bytes)
            .map(str::to_owned)
            .map_err(|e| DecodeError::Invalid { what: "utf-8 string", value: e.valid_up_to() as u64 })
    }
}

impl Encode for Bytes {
    fn encode(&self, w: &mut Writer) {
        w.blob(self);
    }
}

impl Decode for Bytes {
    const MIN_LEN: usize = 4;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.blob().map(Bytes::copy_from_slice)
    }
}

impl<T: Encode> Encode for Vec<T> {
    fn encode(&self, w: &mut Writer) {
        w.seq(self);
    }
}

impl<T: Decode> Decode for Vec<T> {
    const MIN_LEN: usize = 4;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.seq()
    }
}

impl<T: Encode> Encode for BTreeSet<T> {
    fn encode(&self, w: &mut Writer) {
        w.seq(self);
    }
}

impl<T: Decode + Ord> Decode for BTreeSet<T> {
    const MIN_LEN: usize = 4;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.seq()
    }
}

impl<K: Encode, V: Encode> Encode for BTreeMap<K, V> {
    fn encode(&self, w: &mut Writer) {
        w.count(self.len());
        for (k, v) in self {
            k.encode(w);
            v.encode(w);
        }
    }
}

impl<K: Decode + Ord, V: Decode> Decode for BTreeMap<K, V> {
    const MIN_LEN: usize = 4;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.seq::<(K, V), _>()
    }
}

impl<A: Encode, B: Encode> Encode for (A, B) {
    fn encode(&self, w: &mut Writer) {
        self.0.encode(w);
        self.1.encode(w);
    }
}

impl<A: Decode, B: Decode> Decode for (A, B) {
    const MIN_LEN: usize = A::MIN_LEN + B::MIN_LEN;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok((A::decode(r)?, B::decode(r)?))
    }
}

/// Ceph's `std::optional` and `boost::optional`: a byte that tells whether the value follows.
impl<T: Encode> Encode for Option<T> {
    fn encode(&self, w: &mut Writer) {
        w.bool(self.is_some());
        if let Some(v) = self {
            v.encode(w);
        }
    }
}

impl<T: Decode> Decode for Option<T> {
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        if r.bool()? { T::decode(r).map(Some) } else { Ok(None) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newer_struct_is_read_and_its_appended_fields_skipped() {
        let mut w = Writer::new();
        w.versioned(9, 2, |w| {
            w.u32(7);
            w.raw(b"appended later");
        });
        w.u8(42);
        let bytes = w.into_bytes();
        let mut r = Reader::new(&bytes);
        let got = r.versioned("thing", 1, 3, |r, v| {
            assert_eq!(v, 9);
            r.u32()
        });
        assert_eq!(got, Ok(7));
        assert_eq!(r.u8(), Ok(42));
    }

    #[test]
    fn too_new_and_too_old_structs_are_refused() {
        let mut w = Writer::new();
        w.versioned(2, 2, |_| {});
        let bytes = w.into_bytes();
        let read = |oldest, newest| Reader::new(&bytes).versioned("thing", oldest, newest, |_, _| Ok(()));
        assert_eq!(read(1, 1), Err(DecodeError::TooNew { what: "thing", compat: 2, supported: 1 }));
        assert_eq!(read(3, 4), Err(DecodeError::TooOld { what: "thing", version: 2, oldest: 3 }));
    }

    #[test]
    fn a_struct_cannot_read_past_its_end() {
        let mut w = Writer::new();
        w.versioned(1, 1, |w| w.u8(1));
        w.u32(0xdead_beef);
        let bytes = w.into_bytes();
        let got = Reader::new(&bytes).versioned("thing", 1, 1, |r, _| r.u32());
        assert_eq!(got, Err(DecodeError::Truncated { needed: 4, left: 1 }));
    }

    #[test]
    fn a_claimed_count_is_checked_against_the_bytes_at_hand() {
        let mut w = Writer::new();
        w.u32(u32::MAX);
        w.u64(0);
        let bytes = w.into_bytes();
        assert!(matches!(Vec::<u64>::from_bytes(&bytes), Err(DecodeError::Truncated { left: 8, .. })));
        assert!(BTreeMap::<u32, u32>::from_bytes(&bytes).is_err());
    }
}
