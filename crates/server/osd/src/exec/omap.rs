//! Operations on an object's omap.
//!
//! As in a stock OSD, the object's metadata records whether it has an omap at all: setting anything
//! creates one, even an empty one, and only clearing removes it.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use az::SaturatingAs as _;
use bytes::Bytes;
use loligo_store::{Change, KeyValues, OmapPage, OmapRange};
use loligo_wire::message::osd::{CmpOp, OsdOp};
use loligo_wire::{Encode, Errno, Reader, Writer};

use super::execution::{DONE, Execution, Output};

/// The cost of reading a pair, beside its bytes.
const PAIR_COST: u64 = 128;
/// The cost of looking up a key.
const KEY_COST: u64 = 64;
/// Keys whose values are read at once.
const KEYS_AT_ONCE: usize = 1024;
/// The cost factor of putting pairs into an omap, relative to copying their bytes.
const SET_COST: u64 = 4;

impl<'a> Execution<'a> {
    pub(super) fn omap_keys(&mut self, op: &OsdOp) -> Output {
        let mut r = Reader::new(&op.data);
        let (after, keys_max) = (r.blob()?, r.u64()?);
        let page = self.page(after, keys_max, b"")?;
        let mut w = Writer::new();
        w.seq(page.pairs.iter().map(|(key, _)| key).collect::<Vec<_>>());
        w.bool(page.more);
        self.same_result(w.into_bytes())
    }

    pub(super) fn omap_values(&mut self, op: &OsdOp) -> Output {
        let mut r = Reader::new(&op.data);
        let (after, keys_max, prefix) = (r.blob()?, r.u64()?, r.blob()?);
        let page = self.page(after, keys_max, prefix)?;
        let mut w = Writer::new();
        w.put(&page.pairs);
        w.bool(page.more);
        self.same_result(w.into_bytes())
    }

    fn page(&mut self, after: &[u8], keys_max: u64, prefix: &[u8]) -> Result<OmapPage, Errno> {
        let limits = &self.context.limits;
        // A page ends early rather than exceed the budget; its last pair may still exceed it.
        let keys_max = keys_max.min(limits.omap_entries);
        let left = self.context.budget.left().saturating_sub(keys_max * PAIR_COST);
        let bytes_max = left.min(limits.omap_bytes as u64).saturating_as::<usize>();
        let range = OmapRange {
            // Also after the empty key: a listing never shows that key.
            after: Some(after),
            prefix,
            keys_max: keys_max.saturating_as::<usize>(),
            bytes_max,
        };
        // An omap created by this request cannot be listed yet.
        let page = match self.info.has_omap {
            true => {
                let view = self.stored()?;
                self.context.fetches.now(|| view.omap_page(range))?
            }
            false => OmapPage::default(),
        };
        self.spend_on(&page.pairs)?;
        Ok(page)
    }

    pub(super) fn omap_header(&mut self) -> Output {
        let header = match &self.view {
            Some(view) if self.info.has_omap => self.context.fetches.now(|| view.omap_header())?,
            _ => Bytes::new(),
        };
        self.context.spend(header.len() as u64)?;
        self.same_result(header)
    }

    pub(super) fn omap_values_by_keys(&mut self, op: &OsdOp) -> Output {
        self.context.works(op.data.len() as u64 * SET_COST)?;
        let keys: BTreeSet<Bytes> = Reader::new(&op.data).get()?;
        let keys: Vec<Bytes> = keys.into_iter().collect();
        let values = self.values(&keys)?.to_bytes();
        self.same_result(values)
    }

    pub(super) fn compare_omap(&mut self, op: &OsdOp) -> Output {
        self.must_exist()?;
        self.context.works(op.data.len() as u64 * SET_COST)?;
        let wanted: BTreeMap<Bytes, (Bytes, i32)> = Reader::new(&op.data).get()?;
        if self.info.has_omap {
            self.stored()?;
        }
        let keys: Vec<Bytes> = wanted.keys().cloned().collect();
        let stored: BTreeMap<Bytes, Bytes> = self.values(&keys)?.into_iter().collect();
        for (key, (given, cmp)) in &wanted {
            let cmp = u8::try_from(*cmp).ok().and_then(CmpOp::from_code);
            let value = stored.get(key).map_or(&[][..], |value| value);
            let holds = match cmp {
                Some(cmp @ (CmpOp::Eq | CmpOp::Lt | CmpOp::Gt)) => cmp.holds(order(value, given)),
                _ => return Err(Errno::EINVAL),
            };
            if !holds {
                return Err(Errno::ECANCELED);
            }
        }
        self.same_result(Bytes::new())
    }

    fn values(&mut self, keys: &[Bytes]) -> Result<KeyValues, Errno> {
        self.context.spend(keys.len() as u64 * KEY_COST)?;
        let Some(view) = self.view.as_ref().filter(|_| self.info.has_omap) else {
            return Ok(KeyValues::new());
        };
        let mut values = KeyValues::new();
        // The size of the values is known only after reading them, so they are read and counted in
        // chunks.
        for some in keys.chunks(KEYS_AT_ONCE) {
            let found = self.context.fetches.now(|| view.omap_values(some))?;
            self.spend_on(&found)?;
            values.extend(found);
        }
        Ok(values)
    }

    fn spend_on(&self, pairs: &KeyValues) -> Result<(), Errno> {
        self.context
            .spend(pairs.iter().map(|(key, value)| (key.len() + value.len()) as u64 + PAIR_COST).sum())
    }

    pub(super) fn set_omap(&mut self, op: &OsdOp) -> Output {
        self.context.works(op.data.len() as u64 * SET_COST)?;
        let pairs: BTreeMap<Bytes, Bytes> = Reader::new(&op.data).get()?;
        self.info.has_omap = true;
        self.make(Change::SetOmap { pairs: pairs.into_iter().collect() });
        DONE
    }

    pub(super) fn set_omap_header(&mut self, op: &OsdOp) -> Output {
        self.context.works(op.data.len() as u64)?;
        self.info.has_omap = true;
        self.make(Change::SetOmapHeader { header: op.data.clone() });
        DONE
    }

    pub(super) fn clear_omap(&mut self) -> Output {
        self.must_exist()?;
        if self.info.has_omap {
            self.works_on_removal()?;
            self.info.has_omap = false;
            self.changes.push(Change::ClearOmap);
        }
        DONE
    }

    pub(super) fn remove_omap(&mut self, op: &OsdOp) -> Output {
        self.must_exist()?;
        self.context.works(op.data.len() as u64 * SET_COST)?;
        let keys: BTreeSet<Bytes> = Reader::new(&op.data).get()?;
        self.changes.push(Change::RemoveOmap { keys: keys.into_iter().collect() });
        DONE
    }

    pub(super) fn remove_omap_range(&mut self, op: &OsdOp) -> Output {
        self.must_exist()?;
        self.works_on_removal()?;
        let (from, until) = Reader::new(&op.data).get()?;
        self.changes.push(Change::RemoveOmapRange { from, until });
        DONE
    }
}

/// The order of values in OMAP_CMP: there, and only there, a stock OSD compares bytes as signed numbers.
fn order(one: &[u8], other: &[u8]) -> Ordering {
    one.iter().map(|byte| byte.cast_signed()).cmp(other.iter().map(|byte| byte.cast_signed()))
}
