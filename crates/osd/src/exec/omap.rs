//! Operations on an object's ordered key-value map.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use loligo_store::{Change, OmapPage, OmapRange};
use loligo_wire::message::osd::{CmpOp, OsdOp};
use loligo_wire::{Encode, Reader, Writer};

use super::{DONE, Execution, Output, now};
use crate::errno::Errno;

impl<'a> Execution<'a> {
    pub(super) fn omap_keys(&self, op: &OsdOp) -> Output {
        let mut r = Reader::new(&op.data);
        let (after, keys_max) = (r.blob()?, r.u64()?);
        let page = self.page(after, keys_max, b"")?;
        let mut w = Writer::new();
        w.seq(page.pairs.iter().map(|(key, _)| key).collect::<Vec<_>>());
        w.bool(page.more);
        Ok((0, w.into_bytes()))
    }

    pub(super) fn omap_values(&self, op: &OsdOp) -> Output {
        let mut r = Reader::new(&op.data);
        let (after, keys_max, prefix) = (r.blob()?, r.u64()?, r.blob()?);
        let page = self.page(after, keys_max, prefix)?;
        let mut w = Writer::new();
        w.put(&page.pairs);
        w.bool(page.more);
        Ok((0, w.into_bytes()))
    }

    fn page(&self, after: &[u8], keys_max: u64, prefix: &[u8]) -> Result<OmapPage, Errno> {
        let limits = &self.context.limits;
        let range = OmapRange {
            after: (!after.is_empty()).then_some(after),
            prefix,
            keys_max: keys_max.min(limits.omap_entries) as usize,
            bytes_max: limits.omap_bytes,
        };
        self.contents().map_or(Ok(OmapPage::default()), |view| now(view.omap_page(range)))
    }

    pub(super) fn omap_header(&self) -> Output {
        let header = self.contents().map_or(Ok(Bytes::new()), |view| now(view.omap_header()))?;
        Ok((0, header))
    }

    pub(super) fn omap_values_by_keys(&self, op: &OsdOp) -> Output {
        let keys: BTreeSet<Bytes> = Reader::new(&op.data).get()?;
        let keys: Vec<Bytes> = keys.into_iter().collect();
        Ok((0, self.values(&keys)?.to_bytes()))
    }

    pub(super) fn compare_omap(&self, op: &OsdOp) -> Output {
        self.must_exist()?;
        let wanted: BTreeMap<Bytes, (Bytes, i32)> = Reader::new(&op.data).get()?;
        let keys: Vec<Bytes> = wanted.keys().cloned().collect();
        let stored: BTreeMap<Bytes, Bytes> = self.values(&keys)?.into_iter().collect();
        for (key, (given, cmp)) in &wanted {
            let cmp = u8::try_from(*cmp).ok().and_then(CmpOp::from_code).ok_or(Errno::EINVAL)?;
            let value = stored.get(key).map_or(&[][..], |value| value);
            if !cmp.holds(value.cmp(given)) {
                return Err(Errno::ECANCELED);
            }
        }
        DONE
    }

    fn values(&self, keys: &[Bytes]) -> Result<Vec<(Bytes, Bytes)>, Errno> {
        self.contents().map_or(Ok(Vec::new()), |view| now(view.omap_values(keys)))
    }

    pub(super) fn set_omap(&mut self, op: &OsdOp) -> Output {
        let pairs: BTreeMap<Bytes, Bytes> = Reader::new(&op.data).get()?;
        self.grow(Change::SetOmap { pairs: pairs.into_iter().collect() });
        DONE
    }

    pub(super) fn set_omap_header(&mut self, op: &OsdOp) -> Output {
        self.grow(Change::SetOmapHeader { header: op.data.clone() });
        DONE
    }

    pub(super) fn clear_omap(&mut self) -> Output {
        self.must_exist()?;
        self.changes.push(Change::ClearOmap);
        DONE
    }

    pub(super) fn remove_omap(&mut self, op: &OsdOp) -> Output {
        self.must_exist()?;
        let keys: BTreeSet<Bytes> = Reader::new(&op.data).get()?;
        self.changes.push(Change::RemoveOmap { keys: keys.into_iter().collect() });
        DONE
    }

    pub(super) fn remove_omap_range(&mut self, op: &OsdOp) -> Output {
        self.must_exist()?;
        let (from, until) = Reader::new(&op.data).get()?;
        self.changes.push(Change::RemoveOmapRange { from, until });
        DONE
    }
}
