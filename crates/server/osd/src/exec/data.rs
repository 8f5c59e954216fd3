//! Operations on an object's bytes, its size and its existence.

use az::SaturatingAs as _;
use bytes::{Bytes, BytesMut};
use loligo_store::{Change, Data};
use loligo_wire::message::osd::{Extent, OpCode, OpFlags, OsdOp};
use loligo_wire::{Encode, Errno, Reader, Writer};

use super::execution::{DONE, Execution, Output};

/// The result of a comparison that differs at an offset is −(this + offset).
const MISMATCH_BASE: u64 = 4095;

/// The bytes of a range in the reply of a sparse read.
const EXTENT_LEN: u64 = 16;

/// The cost of finding a range.
const EXTENT_COST: u64 = 64;

/// Pairs are removed faster than their bytes are copied, by this factor.
const REMOVAL_SHARE: u64 = 4;

impl<'a> Execution<'a> {
    pub(super) fn read(&mut self, op: &OsdOp) -> Output {
        let extent = current(op);
        let size = self.size_for_read(extent);
        // Length 0 means "to the end".
        let len = if extent.length == 0 { size } else { extent.length };
        let len = len.min(size.saturating_sub(extent.offset));
        if len == 0 {
            return DONE;
        }
        self.stored()?;
        Ok((0, self.bytes(extent.offset, len)?))
    }

    /// The size seen by a reader that knows of a truncation which has not arrived here yet.
    fn size_for_read(&self, extent: Extent) -> u64 {
        let cut = self.info.truncate_seq < extent.truncate_seq
            && extent.offset.wrapping_add(extent.length) > extent.truncate_size;
        if cut { self.size.min(extent.truncate_size) } else { self.size }
    }

    /// If the reader knows of a truncation that has not arrived here yet, the reply is that of releases
    /// from 18 on; release 16 refuses the request.
    pub(super) fn sparse_read(&mut self, op: &OsdOp) -> Output {
        let extent = current(op);
        let size = self.size_for_read(extent);
        let length = extent.length.min(size.saturating_sub(extent.offset));
        // An erasure-coded pool has no holes.
        let extents = match self.context.rules.is_erasure() {
            true => (length > 0).then_some((extent.offset, length)).into_iter().collect(),
            false => self.extents(Extent { length, ..extent })?,
        };
        let mut data = BytesMut::new();
        for (offset, len) in &extents {
            data.extend_from_slice(&self.bytes(*offset, *len)?);
        }
        let mut w =
            Writer::with_capacity(8 + extents.len() * EXTENT_LEN.saturating_as::<usize>() + data.len());
        w.put(&extents);
        w.blob(&data);
        Ok((0, w.into_bytes()))
    }

    pub(super) fn map_extents(&mut self, op: &OsdOp) -> Output {
        let extents = self.extents(current(op))?.to_bytes();
        self.same_result(extents)
    }

    pub(super) fn stat(&self) -> Output {
        self.must_exist()?;
        let mut w = Writer::with_capacity(16);
        w.u64(self.size);
        w.put(&self.info.mtime);
        self.same_result(w.into_bytes())
    }

    pub(super) fn compare_extent(&mut self, op: &OsdOp) -> Output {
        let extent = current(op);
        let size = self.size_for_compare(extent);
        let len = extent.length.min(size.saturating_sub(extent.offset));
        // No more bytes are compared than were sent.
        let stored = self.bytes(extent.offset, len.min(op.data.len() as u64))?;
        match difference(&op.data, &stored) {
            None => DONE,
            Some(at) => Err(Errno((MISMATCH_BASE + at as u64).saturating_as::<i32>())),
        }
    }

    fn size_for_compare(&self, extent: Extent) -> u64 {
        let cut = self.info.truncate_seq < extent.truncate_seq
            && extent.offset.wrapping_add(extent.length) > extent.truncate_size;
        if cut { extent.truncate_size } else { self.size }
    }

    pub(super) fn assert_version(&self, op: &OsdOp) -> Output {
        let version = self.info.user_version;
        match op.asserted_version() {
            0 => Err(Errno::EINVAL),
            asked if asked < version => Err(Errno::ERANGE),
            asked if asked > version => Err(Errno::EOVERFLOW),
            _ => self.same_result(Bytes::new()),
        }
    }

    pub(super) fn write(&mut self, op: &OsdOp) -> Output {
        let extent = current(op);
        if extent.length != op.data.len() as u64 {
            return Err(Errno::EINVAL);
        }
        self.context.works(extent.length)?;
        let mut data = op.data.clone();
        let known = self.info.truncate_seq;
        if known > extent.truncate_seq && extent.offset.saturating_add(extent.length) > self.size {
            // Sent before a truncation that was already applied: no data may appear beyond the new end.
            let kept = self.size.saturating_sub(extent.offset).min(extent.length);
            data.truncate(kept.saturating_as::<usize>());
        }
        if extent.truncate_seq > known {
            self.truncate_before_write(extent)?;
        }
        self.put(extent.offset, data)
    }

    /// Applies the truncation that a write's sender knew of and that the write has overtaken.
    fn truncate_before_write(&mut self, extent: Extent) -> Result<(), Errno> {
        if self.exists {
            // Unlike a stock OSD, which accepts any size.
            self.context.limits.check_range(0, extent.truncate_size)?;
            self.resize(extent.truncate_size);
        }
        self.info.truncate_seq = extent.truncate_seq;
        self.info.truncate_size = extent.truncate_size;
        Ok(())
    }

    pub(super) fn append(&mut self, op: &OsdOp) -> Output {
        let len = op.data.len() as u64;
        if op.extent().length != len {
            return Err(Errno::EINVAL);
        }
        self.context.works(len)?;
        self.put(self.size, op.data.clone())
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
        self.context.spend(args.length)?;
        self.makes(args.length)?;
        self.put(args.offset, Bytes::from(op.data.repeat((args.length / pattern).saturating_as::<usize>())))
    }

    fn put(&mut self, offset: u64, data: Bytes) -> Output {
        let len = data.len() as u64;
        self.context.limits.check_range(offset, len)?;
        if !data.is_empty() {
            let whole = offset == 0 && len >= self.size;
            let crc = self.crc_of_input(&data).filter(|_| whole);
            self.modified.insert(offset, len);
            self.size = self.size.max(offset + len);
            self.make(Change::Write { offset, data });
            self.changes.extend(crc.map(|crc| Change::NoteCrc { crc }));
        } else if offset > self.size {
            // There is nothing to write, but the object is extended to the offset.
            self.resize(offset);
        } else {
            self.make(Change::Create);
        }
        DONE
    }

    pub(super) fn write_full(&mut self, op: &OsdOp) -> Output {
        let len = op.data.len() as u64;
        if op.extent().length != len {
            return Err(Errno::EINVAL);
        }
        self.context.limits.check_range(0, len)?;
        self.context.works(len)?;
        if len == 0 && self.size == 0 && (self.exists || self.info.whiteout) {
            // Not even a new version is given, and a whiteout stays one unless another operation changes
            // it.
            (self.exists, self.info.whiteout) = (true, false);
            return DONE;
        }
        self.modified.insert(0, self.size);
        self.size = len;
        self.make(Change::WriteFull { data: op.data.clone() });
        self.changes.extend(self.crc_of_input(&op.data).map(|crc| Change::NoteCrc { crc }));
        DONE
    }

    /// The checksum sent with `data`, if that is all the data of the request.
    fn crc_of_input(&self, data: &Bytes) -> Option<u32> {
        let is_all = !self.is_nested && data.len() == self.context.data_len;
        self.context.data_crc.filter(|_| is_all)
    }

    /// The checksum of the outputs, if they are one read of the whole object.
    pub(super) fn crc_of_whole(&self, ops: &[OsdOp], outputs: &[(i32, Bytes)]) -> Option<u32> {
        let ([op], [(_, data)]) = (ops, outputs) else { return None };
        let reads = matches!(op.code, OpCode::READ | OpCode::SYNC_READ) && op.extent().offset == 0;
        let whole = reads && !data.is_empty() && data.len() as u64 == self.size;
        self.view.as_ref().filter(|_| whole)?.crc()
    }

    pub(super) fn create(&mut self, op: &OsdOp) -> Output {
        if self.exists && op.flags.contains(OpFlags::EXCL) {
            return Err(Errno::EEXIST);
        }
        if !op.data.is_empty() {
            // A category, which old clients send and which is ignored.
            Reader::new(&op.data).blob()?;
        }
        self.touch()
    }

    /// Creates the object if it does not exist, and gives it a new version in any case.
    pub(super) fn touch(&mut self) -> Output {
        self.make(Change::Create);
        DONE
    }

    pub(super) fn delete(&mut self) -> Output {
        let stays = self.stays_for_snaps();
        if !self.exists && (stays || !self.info.whiteout) {
            return Err(Errno::ENOENT);
        }
        self.works_on_removal()?;
        self.modified.insert(0, self.size);
        self.exists = false;
        self.size = 0;
        self.changes.clear();
        if self.view.is_some() {
            self.changes.push(Change::Remove);
        }
        self.forget_watchers()?;
        self.info.whiteout = stays;
        if stays {
            // `has_omap` is kept although the whiteout has no omap, as in a stock OSD: the next
            // OMAPCLEAR is a change.
            self.changes.push(Change::Create);
        }
        DONE
    }

    /// Counts the work of removing the object's attributes and omap, or a part of the omap, whose size
    /// is known only after its removal.
    pub(super) fn works_on_removal(&self) -> Result<(), Errno> {
        let all = self.view.as_ref().map_or(0, |view| view.cloned_bytes());
        self.context.works(all / REMOVAL_SHARE)
    }

    pub(super) fn truncate(&mut self, op: &OsdOp) -> Output {
        self.truncate_to(current(op))
    }

    fn truncate_to(&mut self, extent: Extent) -> Output {
        if !self.exists {
            return DONE;
        }
        self.context.limits.check_range(extent.offset, extent.length)?;
        if extent.truncate_seq != 0 {
            if extent.offset != extent.truncate_size {
                return Err(Errno::EINVAL); // Where a stock OSD aborts.
            }
            if extent.truncate_seq <= self.info.truncate_seq {
                return DONE;
            }
            self.info.truncate_seq = extent.truncate_seq;
            self.info.truncate_size = extent.truncate_size;
        }
        self.resize(extent.offset);
        DONE
    }

    pub(super) fn trim_truncate(&mut self, op: &OsdOp) -> Output {
        let extent = current(op);
        self.truncate_to(Extent { offset: extent.truncate_size, ..extent })
    }

    fn resize(&mut self, size: u64) {
        self.modified.insert(size, self.size.saturating_sub(size));
        self.size = size;
        self.make(Change::Truncate { size });
    }

    pub(super) fn zero(&mut self, op: &OsdOp) -> Output {
        let extent = current(op);
        let limit = self.context.limits.object_bytes;
        // A whiteout counts as an object of length 0 here, as in a stock OSD.
        let is_there = self.exists || self.info.whiteout;
        let reaches_end = is_there
            && extent.offset < limit
            && (1..=limit).contains(&extent.length)
            && extent.offset + extent.length >= self.size;
        if reaches_end && extent.offset >= self.size {
            return self.same_result(Bytes::new());
        }
        if reaches_end {
            return self.truncate_to(extent);
        }
        self.context.limits.check_range(extent.offset, extent.length)?;
        // With a length of 0 a stock OSD aborts.
        if self.exists && extent.length > 0 {
            self.modified.insert(extent.offset, extent.length);
            self.changes.push(Change::Zero { offset: extent.offset, len: extent.length });
        }
        DONE
    }

    /// The bytes of a range before the request, up to the object's end.
    pub(super) fn bytes(&mut self, offset: u64, len: u64) -> Result<Bytes, Errno> {
        let Some(view) = &self.view else {
            return Ok(Bytes::new());
        };
        self.context.spend(len.min(view.size().saturating_sub(offset)))?;
        Ok(joined(self.context.fetches.now(|| view.read(offset, len))?))
    }

    fn extents(&mut self, extent: Extent) -> Result<Vec<(u64, u64)>, Errno> {
        let view = self.stored()?;
        let extents = self.context.fetches.now(|| view.extents(extent.offset, extent.length))?;
        self.context.spend(extents.len() as u64 * EXTENT_COST)?;
        Ok(extents)
    }
}

/// The first offset at which `given` differs from `stored`; bytes beyond the object's end compare as
/// zeros.
fn difference(given: &[u8], stored: &[u8]) -> Option<usize> {
    let both = given.len().min(stored.len());
    let differs = |at: usize| given.get(at) != stored.get(at);
    if given[..both] != stored[..both] {
        return (0..both).find(|at| differs(*at));
    }
    let behind = given[both..].iter().position(|byte| *byte != 0)?;
    Some(both + behind)
}

/// The range of an operation. The values old CephFS clients send for "never truncated" are normalized to
/// zeros.
fn current(op: &OsdOp) -> Extent {
    let extent = op.extent();
    if extent.truncate_seq == 1 && extent.truncate_size == u64::MAX {
        return Extent { truncate_seq: 0, truncate_size: 0, ..extent };
    }
    extent
}

/// Joins the buffers; copies only if there are several.
fn joined(mut data: Data) -> Bytes {
    match data.len() {
        0 => Bytes::new(),
        1 => data.swap_remove(0),
        _ => data.concat().into(),
    }
}
