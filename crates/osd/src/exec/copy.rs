//! COPY_FROM: makes an object what another one is, which may lie in another placement group or pool.
//!
//! A stock OSD asks the source's OSD in pieces. Here the source is a view of an object of the same process, so the copy is one
//! moment of the source, and nobody waits for the source's placement group.

use std::sync::Arc;

use bytes::Bytes;
use loligo_store::{Change, ObjectRef, ObjectView, OmapRange};
use loligo_wire::message::osd::{ObjectLocator, OpCode, OsdOp};
use loligo_wire::{Reader, SnapId};

use super::execution::{DONE, Execution, Output};
use super::snaps::{SnapSet, Then};
use crate::errno::Errno;

/// The request says what the last truncation was (`CEPH_OSD_COPY_FROM_FLAG_TRUNCATE_SEQ`).
const TRUNCATE_SEQ: u8 = 64;
/// Bytes of an omap that are taken at once.
const OMAP_PAGE: usize = 1 << 20;

impl Execution<'_> {
    pub(super) fn copy_from(&mut self, op: &OsdOp) -> Output {
        let args = op.copy_from_args();
        let mut r = Reader::new(&op.data);
        let name = r.blob()?;
        let locator: ObjectLocator = r.get()?;
        let truncation = match args.flags & TRUNCATE_SEQ {
            0 => None,
            _ if op.code == OpCode::COPY_FROM2 => Some((r.u32()?, r.u64()?)),
            _ => return Err(Errno::EINVAL),
        };
        let source = self.source(&locator, name, args.snapid)?;
        match args.src_version {
            0 => {}
            asked if asked < source.info().user_version => return Err(Errno::ERANGE),
            asked if asked > source.info().user_version => return Err(Errno::EOVERFLOW),
            _ => {}
        }
        self.take_over(&*source)?;
        let info = source.info();
        (self.info.truncate_seq, self.info.truncate_size) =
            truncation.unwrap_or((info.truncate_seq, info.truncate_size));
        self.info.user_version = info.user_version;
        DONE
    }

    /// The object to copy.
    fn source(
        &self,
        locator: &ObjectLocator,
        name: &[u8],
        snap: SnapId,
    ) -> Result<Arc<dyn ObjectView>, Errno> {
        let places = self.context.places.as_ref().ok_or(Errno::EIO)?;
        let pool = places.pool(locator.pool).ok_or(Errno::ENOENT)?;
        let hash = pool.pool.hash_object(&locator.nspace, &locator.key, name);
        let key = if locator.key == name { &[][..] } else { &locator.key };
        let head = ObjectRef { hash, nspace: &locator.nspace, key, name, snap: SnapId::HEAD };
        if locator.pool == self.context.pool && snap == SnapId::HEAD && head == self.oid {
            return Err(Errno::EINVAL); // a copy of itself
        }
        let collection = &pool.slots[pool.pool.fold(hash) as usize].collection;
        let fetches = &self.context.fetches;
        // Remembered, since a repetition of this request must copy the same.
        let found = fetches.once(|| collection.object(head))?.ok_or(Errno::ENOENT)?;
        if snap == SnapId::HEAD {
            return if found.info().whiteout { Err(Errno::ENOENT) } else { Ok(found) };
        }
        if places.is_removed(locator.pool, snap) {
            return Err(Errno::ENOENT);
        }
        match SnapSet::of(self.context, &*found)?.then(snap) {
            Then::Head if !found.info().whiteout => Ok(found),
            Then::Clone(id) => {
                let clone = ObjectRef { snap: id, ..head };
                fetches.once(|| collection.object(clone))?.ok_or(Errno::ENOENT)
            }
            Then::Head | Then::Nothing => Err(Errno::ENOENT),
        }
    }

    /// Makes data, attributes and omap those of another object.
    fn take_over(&mut self, source: &dyn ObjectView) -> Result<(), Errno> {
        let (fetches, size) = (&self.context.fetches, source.size());
        self.context.limits.check_range(0, size)?;
        self.budget.spend(size)?;
        let extents = fetches.now(|| source.extents(0, size))?;
        let mut changes = vec![Change::Truncate { size: 0 }, Change::ClearXattrs, Change::ClearOmap];
        for (mut offset, len) in extents {
            for data in fetches.now(|| source.read(offset, len))? {
                let len = data.len() as u64;
                changes.push(Change::Write { offset, data });
                offset += len;
            }
        }
        changes.push(Change::Truncate { size });
        for (name, value) in
            fetches.now(|| source.xattrs())?.into_iter().filter(|(n, _)| !super::attrs::is_own(n))
        {
            self.budget.spend((name.len() + value.len()) as u64)?;
            changes.push(Change::SetXattr { name, value });
        }
        if source.info().has_omap {
            changes.push(Change::SetOmapHeader { header: fetches.now(|| source.omap_header())? });
            self.take_over_omap(source, &mut changes)?;
        }
        self.modified.insert(0, self.size);
        self.size = size;
        self.info.has_omap = source.info().has_omap;
        self.info.whiteout = false;
        changes.into_iter().for_each(|change| self.make(change));
        Ok(())
    }

    fn take_over_omap(
        &mut self,
        source: &dyn ObjectView,
        changes: &mut Vec<Change<'_>>,
    ) -> Result<(), Errno> {
        let mut after: Option<Bytes> = None;
        loop {
            let range = OmapRange {
                after: after.as_deref(),
                prefix: b"",
                keys_max: usize::MAX,
                bytes_max: OMAP_PAGE,
            };
            let page = self.context.fetches.now(|| source.omap_page(range))?;
            self.budget.spend(page.pairs.iter().map(|(k, v)| (k.len() + v.len()) as u64).sum())?;
            let last = page.pairs.last().map(|(key, _)| key.clone());
            changes.push(Change::SetOmap { pairs: page.pairs });
            if !page.more || last.is_none() {
                return Ok(());
            }
            after = last;
        }
    }
}
