//! Operations on an object's bytes, its size and its existence.

use bytes::{Bytes, BytesMut};
use loligo_store::{Change, Data};
use loligo_wire::message::osd::{OpFlags, OsdOp};
use loligo_wire::{Encode, Writer};

use super::{DONE, Execution, Output, now};
use crate::errno::Errno;

/// The result of a comparison that differs at an offset is −(this + offset).
const MISMATCH_BASE: u64 = 4095;

impl<'a> Execution<'a> {
    pub(super) fn read(&self, op: &OsdOp) -> Output {
        let extent = op.extent();
        // Length 0 means "to the end".
        let len = if extent.length == 0 { self.size } else { extent.length };
        Ok((0, self.bytes(extent.offset, len)?))
    }

    pub(super) fn sparse_read(&self, op: &OsdOp) -> Output {
        let extent = op.extent();
        let extents = self.extents(extent.offset, extent.length)?;
        let mut data = BytesMut::new();
        for (offset, len) in &extents {
            data.extend_from_slice(&self.bytes(*offset, *len)?);
        }
        let mut w = Writer::with_capacity(8 + extents.len() * 16 + data.len());
        w.put(&extents);
        w.blob(&data);
        Ok((0, w.into_bytes()))
    }

    pub(super) fn map_extents(&self, op: &OsdOp) -> Output {
        let extent = op.extent();
        Ok((0, self.extents(extent.offset, extent.length)?.to_bytes()))
    }

    pub(super) fn stat(&self) -> Output {
        self.must_exist()?;
        let mtime = self.view.as_ref().map(|view| view.info().mtime).unwrap_or_default();
        let mut w = Writer::with_capacity(16);
        w.u64(self.size);
        w.put(&mtime);
        Ok((0, w.into_bytes()))
    }

    pub(super) fn compare_extent(&self, op: &OsdOp) -> Output {
        let extent = op.extent();
        if extent.length != op.data.len() as u64 {
            return Err(Errno::EINVAL);
        }
        self.context.limits.check_range(extent.offset, extent.length)?;
        let stored = self.bytes(extent.offset, extent.length)?;
        // What lies behind the object's end compares as zeros.
        let stored = stored.iter().copied().chain(std::iter::repeat(0));
        match op.data.iter().zip(stored).position(|(given, stored)| *given != stored) {
            None => DONE,
            Some(at) => Err(Errno((MISMATCH_BASE + at as u64) as i32)),
        }
    }

    pub(super) fn assert_version(&self, op: &OsdOp) -> Output {
        let version = self.view.as_ref().map_or(0, |view| view.info().user_version);
        match op.asserted_version() {
            0 => Err(Errno::EINVAL),
            asked if asked < version => Err(Errno::ERANGE),
            asked if asked > version => Err(Errno::EOVERFLOW),
            _ => DONE,
        }
    }

    pub(super) fn write(&mut self, op: &OsdOp, offset: u64) -> Output {
        if op.extent().length != op.data.len() as u64 {
            return Err(Errno::EINVAL);
        }
        self.put(offset, op.data.clone())
    }

    pub(super) fn write_same(&mut self, op: &OsdOp) -> Output {
        let args = op.write_same_args();
        if args.length == 0 {
            return DONE;
        }
        let pattern = op.data.len() as u64;
        if pattern == 0 || args.data_length != pattern || !args.length.is_multiple_of(pattern) {
            return Err(Errno::EINVAL);
        }
        self.context.limits.check_range(args.offset, args.length)?;
        self.put(args.offset, Bytes::from(op.data.repeat((args.length / pattern) as usize)))
    }

    fn put(&mut self, offset: u64, data: Bytes) -> Output {
        let len = data.len() as u64;
        self.context.limits.check_range(offset, len)?;
        if data.is_empty() {
            // Nothing to write: the object is made, and reaches at least to the offset.
            return if offset > self.size { self.resize(offset) } else { self.touch() };
        }
        self.size = self.size.max(offset + len);
        self.grow(Change::Write { offset, data });
        DONE
    }

    pub(super) fn write_full(&mut self, op: &OsdOp) -> Output {
        let len = op.data.len() as u64;
        if op.extent().length != len {
            return Err(Errno::EINVAL);
        }
        self.context.limits.check_range(0, len)?;
        self.size = len;
        self.grow(Change::WriteFull { data: op.data.clone() });
        DONE
    }

    pub(super) fn create(&mut self, op: &OsdOp) -> Output {
        if self.exists && op.flags.contains(OpFlags::EXCL) {
            return Err(Errno::EEXIST);
        }
        self.touch()
    }

    /// Makes the object if it does not exist.
    pub(super) fn touch(&mut self) -> Output {
        if !self.exists {
            self.grow(Change::Create);
        }
        DONE
    }

    pub(super) fn delete(&mut self) -> Output {
        self.must_exist()?;
        self.exists = false;
        self.size = 0;
        self.changes.push(Change::Remove);
        DONE
    }

    pub(super) fn truncate(&mut self, op: &OsdOp) -> Output {
        let size = op.extent().offset;
        if !self.exists {
            return DONE; // As in a stock OSD.
        }
        self.context.limits.check_range(size, 0)?;
        self.resize(size)
    }

    fn resize(&mut self, size: u64) -> Output {
        self.size = size;
        self.grow(Change::Truncate { size });
        DONE
    }

    pub(super) fn zero(&mut self, op: &OsdOp) -> Output {
        let extent = op.extent();
        self.context.limits.check_range(extent.offset, extent.length)?;
        if self.exists && extent.length > 0 {
            self.changes.push(Change::Zero { offset: extent.offset, len: extent.length });
        }
        DONE
    }

    /// The bytes of a range as they were before the request, as far as the object reaches.
    fn bytes(&self, offset: u64, len: u64) -> Result<Bytes, Errno> {
        let Some(view) = self.contents() else {
            return Ok(Bytes::new());
        };
        Ok(joined(now(view.read(offset, len))?))
    }

    fn extents(&self, offset: u64, len: u64) -> Result<Vec<(u64, u64)>, Errno> {
        self.contents().map_or(Ok(Vec::new()), |view| now(view.extents(offset, len)))
    }
}

/// One buffer, copied only if there are several.
fn joined(mut data: Data) -> Bytes {
    match data.len() {
        0 => Bytes::new(),
        1 => data.swap_remove(0),
        _ => data.concat().into(),
    }
}
