//! A method's access to its object.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, RandomState};

use az::SaturatingAs as _;
use bytes::Bytes;
use loligo_wire::message::osd::{OpCode, OsdOp};
use loligo_wire::{Encode, EntityAddr, EntityNum, Errno, Reader, SnapId, UTime, Writer};

use crate::object::Object;

/// What a method may do with its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Marks {
    pub(crate) read: bool,
    pub(crate) write: bool,
}

/// A method's handle of its object (`cls_method_context_t`).
pub(crate) struct Handle<'e> {
    object: &'e mut dyn Object,
    marks: Marks,
}

/// Names (or keys) and values.
pub(crate) type Pairs = BTreeMap<Bytes, Bytes>;

impl<'e> Handle<'e> {
    pub(crate) fn new(object: &'e mut dyn Object, marks: Marks) -> Self {
        Self { object, marks }
    }

    /// The calling client.
    pub(crate) fn client(&self) -> EntityNum {
        EntityNum::client(self.object.client())
    }

    /// The caller's address.
    pub(crate) fn client_addr(&self) -> EntityAddr {
        self.object.client_addr()
    }

    pub(crate) fn now(&self) -> UTime {
        UTime::now()
    }

    /// Random letters and digits that cannot be guessed.
    pub(crate) fn random_text(&self, len: usize) -> String {
        const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        // The state of a hash table's hasher is random, and this is called rarely enough.
        let number = |i: usize| RandomState::new().hash_one(i).saturating_as::<usize>();
        (0..len).map(|i| char::from(LETTERS[number(i) % LETTERS.len()])).collect()
    }

    /// A random UUID (version 4).
    pub(crate) fn random_uuid(&self) -> String {
        let (high, low) = (RandomState::new().hash_one(0), RandomState::new().hash_one(1));
        let (high, low) = (high & !0xf000 | 0x4000, low & !(0b11 << 62) | 0b10 << 62);
        let hex = format!("{high:016x}{low:016x}");
        [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
    }

    /// A text that is unique among the requests of this placement group.
    pub(crate) fn unique_id(&self) -> String {
        self.object.unique_id()
    }

    /// The newest snapshot that the object's writers have named; `None` if the object does not exist.
    pub(crate) fn snap_seq(&self) -> Option<SnapId> {
        self.object.snap_seq()
    }

    /// Sets the output of the call in case it fails.
    pub(crate) fn explain(&mut self, output: Bytes) {
        self.object.explain(output);
    }

    fn run(&mut self, op: &OsdOp) -> Result<(i32, Bytes), Errno> {
        // An operation that the method is not marked for is a bug of the method, as in a stock OSD.
        if (op.code.is_read() && !self.marks.read) || (op.code.is_modify() && !self.marks.write) {
            return Err(Errno::EIO);
        }
        self.object.run(op)
    }

    fn ask(&mut self, code: OpCode, input: Bytes) -> Result<Bytes, Errno> {
        self.run(&OsdOp::new(code).with_data(input)).map(|(_, data)| data)
    }

    fn change(&mut self, op: &OsdOp) -> Result<(), Errno> {
        self.run(op).map(drop)
    }

    /// Size and time of the last change. The method need not be marked for reading.
    pub(crate) fn stat(&mut self) -> Result<(u64, UTime), Errno> {
        let (_, data) = self.object.run(&OsdOp::new(OpCode::STAT))?;
        let mut r = Reader::new(&data);
        Ok((r.u64()?, r.get()?))
    }

    /// Whether the object exists.
    pub(crate) fn exists(&mut self) -> Result<bool, Errno> {
        match self.stat() {
            Ok(_) => Ok(true),
            Err(Errno::ENOENT) => Ok(false),
            Err(errno) => Err(errno),
        }
    }

    /// Reads bytes of the object; length 0 reads all.
    pub(crate) fn read(&mut self, offset: u64, len: u64) -> Result<Bytes, Errno> {
        // SYNC_READ, as in a stock OSD: erasure-coded pools refuse it.
        let mut read = OsdOp::read(offset, len);
        read.code = OpCode::SYNC_READ;
        self.run(&read).map(|(_, data)| data)
    }

    pub(crate) fn write(&mut self, offset: u64, data: Bytes) -> Result<(), Errno> {
        self.change(&OsdOp::write(offset, data))
    }

    pub(crate) fn write_full(&mut self, data: Bytes) -> Result<(), Errno> {
        self.change(&OsdOp::write_full(data))
    }

    pub(crate) fn create(&mut self, exclusive: bool) -> Result<(), Errno> {
        self.change(&OsdOp::create(exclusive))
    }

    pub(crate) fn remove(&mut self) -> Result<(), Errno> {
        self.change(&OsdOp::new(OpCode::DELETE))
    }

    /// # Errors
    /// ENODATA if there is no such attribute, ENOENT if there is no object.
    pub(crate) fn xattr(&mut self, name: impl AsRef<[u8]>) -> Result<Bytes, Errno> {
        self.run(&OsdOp::xattr(OpCode::GETXATTR, name.as_ref(), b"", 0, 0)).map(|(_, data)| data)
    }

    pub(crate) fn xattrs(&mut self) -> Result<Pairs, Errno> {
        Ok(Reader::new(&self.ask(OpCode::GETXATTRS, Bytes::new())?).get()?)
    }

    pub(crate) fn set_xattr(&mut self, name: impl AsRef<[u8]>, value: &[u8]) -> Result<(), Errno> {
        self.change(&OsdOp::xattr(OpCode::SETXATTR, name.as_ref(), value, 0, 0))
    }

    /// One value of the omap.
    ///
    /// # Errors
    /// ENOENT if there is no such key.
    pub(crate) fn value(&mut self, key: &[u8]) -> Result<Bytes, Errno> {
        let keys = BTreeSet::from([Bytes::copy_from_slice(key)]).to_bytes();
        let found: Pairs = Reader::new(&self.ask(OpCode::OMAPGETVALSBYKEYS, keys)?).get()?;
        found.into_values().next().ok_or(Errno::ENOENT)
    }

    /// Keys and values after `after` that begin with `prefix`, and whether there are more.
    pub(crate) fn values(&mut self, after: &[u8], prefix: &[u8], max: u64) -> Result<(Pairs, bool), Errno> {
        let mut w = Writer::new();
        w.blob(after);
        w.u64(max);
        w.blob(prefix);
        let page = self.ask(OpCode::OMAPGETVALS, w.into_bytes())?;
        let mut r = Reader::new(&page);
        Ok((r.get()?, r.bool()?))
    }

    pub(crate) fn set_value(&mut self, key: &[u8], value: Bytes) -> Result<(), Errno> {
        self.set_values(Pairs::from([(Bytes::copy_from_slice(key), value)]))
    }

    pub(crate) fn set_values(&mut self, pairs: Pairs) -> Result<(), Errno> {
        self.change(&OsdOp::new(OpCode::OMAPSETVALS).with_data(pairs.to_bytes()))
    }

    pub(crate) fn remove_value(&mut self, key: &[u8]) -> Result<(), Errno> {
        let keys = BTreeSet::from([Bytes::copy_from_slice(key)]).to_bytes();
        self.change(&OsdOp::new(OpCode::OMAPRMKEYS).with_data(keys))
    }

    pub(crate) fn header(&mut self) -> Result<Bytes, Errno> {
        self.ask(OpCode::OMAPGETHEADER, Bytes::new())
    }

    pub(crate) fn set_header(&mut self, header: Bytes) -> Result<(), Errno> {
        self.change(&OsdOp::new(OpCode::OMAPSETHEADER).with_data(header))
    }
}
