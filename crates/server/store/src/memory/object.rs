//! One object and its view.

use std::collections::BTreeMap;
use std::ops::Bound;

use bytes::Bytes;

use super::contents::Contents;
use super::gaps::{GAPS_COST_MAX, Gaps};
use crate::store::{OmapPage, OmapRange};
use crate::transaction::is_own;
use crate::{Change, CollectionStats, Data, Fetch, Info, KeyValues, ObjectName, ObjectRef, ObjectView};

/// The memory, in bytes, that an object takes in addition to its name and its contents: the object
/// itself and its share of the index.
const OBJECT_COST: u64 = 184;
/// The memory that an attribute or an omap key takes in addition to its bytes.
const PAIR_COST: u64 = 56;
/// The memory that an object with attributes or an omap takes in addition.
const EXTRAS_COST: u64 = 96;

/// An object. It is shared with its views, hence copied when it is changed while a view exists.
#[derive(Clone, Debug)]
pub(super) struct Object {
    pub(super) name: ObjectName,
    pub(super) info: Info,
    size: u64,
    /// The CRC-32C of all the data, if it was recorded.
    crc: Option<u32>,
    contents: Contents,
    /// The parts of the contents that are not data.
    gaps: Gaps,
    /// Most objects have none.
    extras: Option<Box<Extras>>,
}

type Blob = Box<[u8]>;

#[derive(Clone, Debug, Default)]
struct Extras {
    /// In order of the names.
    xattrs: Vec<(Blob, Blob)>,
    omap_header: Blob,
    omap: BTreeMap<Blob, Blob>,
    /// Bytes of the omap's keys and values.
    omap_bytes: u64,
    /// Bytes of attributes' names and values.
    xattr_bytes: u64,
}

/// The contribution of one object to the sums over all objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Weight {
    pub(super) objects: u64,
    pub(super) size: u64,
    pub(super) allocated: u64,
    pub(super) omap_bytes: u64,
    pub(super) omap_keys: u64,
    /// Bytes of memory, bookkeeping included.
    pub(super) footprint: u64,
}

impl Weight {
    pub(super) fn stats(self) -> CollectionStats {
        let Self { objects, size, allocated, omap_bytes, omap_keys, footprint: _ } = self;
        CollectionStats { objects, bytes: size, bytes_allocated: allocated, omap_bytes, omap_keys }
    }

    /// Subtracts `before` from the sum and adds `after`.
    pub(super) fn replace(&mut self, before: Self, after: Self) {
        let swap = |sum: &mut u64, before: u64, after: u64| *sum = *sum + after - before;
        swap(&mut self.objects, before.objects, after.objects);
        swap(&mut self.size, before.size, after.size);
        swap(&mut self.allocated, before.allocated, after.allocated);
        swap(&mut self.omap_bytes, before.omap_bytes, after.omap_bytes);
        swap(&mut self.omap_keys, before.omap_keys, after.omap_keys);
        swap(&mut self.footprint, before.footprint, after.footprint);
    }
}

impl Object {
    pub(super) fn new(name: ObjectName) -> Self {
        let (contents, gaps) = (Contents::default(), Gaps::default());
        Self { name, info: Info::default(), size: 0, crc: None, contents, gaps, extras: None }
    }

    pub(super) fn weight(&self) -> Weight {
        let mut weight = Weight {
            objects: 1,
            size: self.size,
            allocated: self.contents.allocated(),
            footprint: OBJECT_COST + self.name.heap_len() as u64 + self.contents.footprint(),
            ..Weight::default()
        };
        weight.footprint += self.gaps.footprint();
        if let Some(extras) = &self.extras {
            weight.omap_keys = extras.omap.len() as u64;
            weight.omap_bytes = extras.omap_bytes + extras.omap_header.len() as u64;
            let pairs = weight.omap_keys + extras.xattrs.len() as u64;
            weight.footprint += EXTRAS_COST + weight.omap_bytes + extras.xattr_bytes + pairs * PAIR_COST;
        }
        weight
    }

    /// The most that creating an object adds to the footprint.
    pub(super) fn cost_max(oid: &ObjectRef<'_>) -> u64 {
        OBJECT_COST + EXTRAS_COST + (oid.nspace.len() + oid.key.len() + oid.name.len() + 8) as u64
    }

    /// The most that a change adds to the footprint of an object of `size` bytes. The caller accounts
    /// for clones.
    pub(super) fn change_cost_max(size: u64, change: &Change<'_>) -> u64 {
        let pair = |k: &Bytes, v: &Bytes| (k.len() + v.len()) as u64 + PAIR_COST;
        match change {
            Change::Write { offset, data } => {
                Contents::write_cost_max(size, *offset, data.len() as u64) + GAPS_COST_MAX
            }
            Change::WriteFull { data } => Contents::write_cost_max(0, 0, data.len() as u64),
            // Splits extents and rewrites two blocks, as a write without bytes would.
            Change::Zero { .. } => Contents::write_cost_max(size, 0, 0) + GAPS_COST_MAX,
            Change::Truncate { .. } => GAPS_COST_MAX,
            Change::SetXattr { name, value } => pair(name, value),
            Change::SetOmap { pairs } => pairs.iter().map(|(k, v)| pair(k, v)).sum(),
            Change::SetOmapHeader { header } => header.len() as u64,
            _ => 0,
        }
    }

    /// Applies one change. `Remove` and `CloneFrom` concern the collection and do nothing here. Data
    /// that is no longer needed and may be large goes to `trash`, to be freed later.
    pub(super) fn apply(&mut self, change: Change<'_>, trash: &mut Vec<Trash>) {
        if change.concerns_data() {
            self.crc = None;
        }
        match change {
            Change::NoteCrc { crc } => self.crc = Some(crc),
            Change::Create | Change::Remove | Change::CloneFrom { .. } => {}
            Change::Write { offset, data } => {
                let end = offset + data.len() as u64;
                self.size = self.size.max(end);
                if !data.is_empty() {
                    self.gaps.insert(self.contents.lead(offset, end));
                    self.gaps.remove(offset..end);
                }
                self.contents.write(offset, &data);
            }
            Change::WriteFull { data } => {
                self.size = data.len() as u64;
                let old = std::mem::replace(&mut self.contents, Contents::whole(&data));
                self.gaps = Gaps::default();
                trash.push(Trash::Contents(old));
            }
            Change::Zero { offset, len } => {
                let end = offset.saturating_add(len).min(self.size);
                if self.contents.keeps_zeros(offset, end) && offset < end {
                    self.gaps.insert(offset..end);
                }
                self.contents.punch(offset, end);
            }
            Change::Truncate { size } => {
                if size < self.size {
                    self.contents.cut(size);
                    self.gaps.remove(size..u64::MAX);
                }
                self.size = size;
            }
            Change::SetXattr { .. } | Change::SetOmap { .. } | Change::SetOmapHeader { .. } => {
                self.extras.get_or_insert_default().apply(change);
            }
            removes_only => {
                if let Some(extras) = &mut self.extras {
                    extras.apply(removes_only);
                }
            }
        }
    }

    /// Copies everything of `source` except its name, its info and the OSD's own attributes.
    pub(super) fn clone_from(&mut self, source: &Self) {
        self.size = source.size;
        self.crc = source.crc;
        self.contents = source.contents.clone();
        self.gaps = source.gaps.clone();
        let own = self.extras.take().map(|extras| extras.xattrs).unwrap_or_default();
        self.extras = source.extras.clone();
        if let Some(extras) = &mut self.extras {
            extras.remove_own();
        }
        for (name, value) in own.iter().filter(|(name, _)| is_own(name)) {
            self.extras.get_or_insert_default().set_xattr(name, value);
        }
    }

    /// The part of a range that lies within the object.
    fn clip(&self, offset: u64, len: u64) -> std::ops::Range<u64> {
        offset.min(self.size)..offset.saturating_add(len).min(self.size)
    }
}

/// Data that a transaction removed from a collection: dropped after the collection's lock is released.
#[derive(Debug)]
#[expect(dead_code, reason = "held only to be dropped later")]
pub(super) enum Trash {
    Object(std::sync::Arc<Object>),
    Contents(Contents),
}

impl Extras {
    fn apply(&mut self, change: Change<'_>) {
        match change {
            Change::SetXattr { name, value } => self.set_xattr(&name, &value),
            Change::RemoveXattr { name } => {
                if let Ok(i) = self.find_xattr(&name) {
                    let (name, value) = self.xattrs.remove(i);
                    self.xattr_bytes -= (name.len() + value.len()) as u64;
                }
            }
            Change::ClearXattrs => {
                self.xattrs.retain(|(name, _)| is_own(name));
                self.xattr_bytes = self.xattrs.iter().map(|(n, v)| (n.len() + v.len()) as u64).sum();
            }
            Change::SetOmap { pairs } => pairs.iter().for_each(|(key, value)| self.set_omap(key, value)),
            Change::RemoveOmap { keys } => keys.iter().for_each(|key| self.remove_omap(key)),
            Change::RemoveOmapRange { from, until } => self.remove_omap_range(&from, &until),
            Change::ClearOmap => {
                self.omap = BTreeMap::new();
                self.omap_header = Blob::default();
                self.omap_bytes = 0;
            }
            Change::SetOmapHeader { header } => self.omap_header = Blob::from(&*header),
            Change::Create
            | Change::Remove
            | Change::NoteCrc { .. }
            | Change::Write { .. }
            | Change::WriteFull { .. }
            | Change::Zero { .. }
            | Change::Truncate { .. }
            | Change::CloneFrom { .. } => {}
        }
    }

    fn find_xattr(&self, name: &[u8]) -> Result<usize, usize> {
        self.xattrs.binary_search_by(|(n, _)| (**n).cmp(name))
    }

    fn set_xattr(&mut self, name: &[u8], value: &[u8]) {
        match self.find_xattr(name) {
            Ok(i) => {
                self.xattr_bytes = self.xattr_bytes + value.len() as u64 - self.xattrs[i].1.len() as u64;
                self.xattrs[i].1 = value.into();
            }
            Err(i) => {
                self.xattr_bytes += (name.len() + value.len()) as u64;
                self.xattrs.insert(i, (name.into(), value.into()));
            }
        }
    }

    fn remove_own(&mut self) {
        self.xattrs.retain(|(name, _)| !is_own(name));
        self.xattr_bytes = self.xattrs.iter().map(|(n, v)| (n.len() + v.len()) as u64).sum();
    }

    fn set_omap(&mut self, key: &[u8], value: &[u8]) {
        if let Some(old) = self.omap.get_mut(key) {
            self.omap_bytes = self.omap_bytes + value.len() as u64 - old.len() as u64;
            *old = value.into();
        } else {
            self.omap_bytes += (key.len() + value.len()) as u64;
            self.omap.insert(key.into(), value.into());
        }
    }

    fn remove_omap(&mut self, key: &[u8]) {
        if let Some(value) = self.omap.remove(key) {
            self.omap_bytes -= (key.len() + value.len()) as u64;
        }
    }

    fn remove_omap_range(&mut self, from: &[u8], until: &[u8]) {
        if from >= until {
            return;
        }
        let range = (Bound::Included(from), Bound::Excluded(until));
        let gone: Vec<Blob> = self.omap.range::<[u8], _>(range).map(|(key, _)| key.clone()).collect();
        gone.iter().for_each(|key| self.remove_omap(key));
    }

    fn omap_page(&self, range: OmapRange<'_>) -> OmapPage {
        let start = match range.after {
            Some(after) if after >= range.prefix => Bound::Excluded(after),
            _ => Bound::Included(range.prefix),
        };
        let mut page = OmapPage::default();
        let mut bytes = 0;
        for (key, value) in self.omap.range::<[u8], _>((start, Bound::Unbounded)) {
            if !key.starts_with(range.prefix) {
                break;
            }
            if page.pairs.len() >= range.keys_max || bytes >= range.bytes_max {
                page.more = true;
                break;
            }
            bytes += key.len() + value.len();
            page.pairs.push(copied(key, value));
        }
        page
    }
}

fn copied(key: &[u8], value: &[u8]) -> (Bytes, Bytes) {
    (Bytes::copy_from_slice(key), Bytes::copy_from_slice(value))
}

impl ObjectView for Object {
    fn size(&self) -> u64 {
        self.size
    }

    fn info(&self) -> Info {
        self.info
    }

    fn read(&self, offset: u64, len: u64) -> Fetch<Data> {
        let mut out = Data::new();
        self.contents.read(self.clip(offset, len), &mut out);
        out.iter().for_each(|piece: &Bytes| super::near::fetch(piece));
        Fetch::Now(out)
    }

    fn crc(&self) -> Option<u32> {
        self.crc
    }

    fn extents(&self, offset: u64, len: u64) -> Fetch<Vec<(u64, u64)>> {
        Fetch::Now(self.gaps.cut_out_of(self.contents.extents(self.clip(offset, len))))
    }

    fn xattr(&self, name: &[u8]) -> Fetch<Option<Bytes>> {
        let value = |e: &Extras| e.find_xattr(name).ok().map(|i| Bytes::copy_from_slice(&e.xattrs[i].1));
        Fetch::Now(self.extras.as_deref().and_then(value))
    }

    fn xattrs(&self) -> Fetch<KeyValues> {
        let all = |e: &Extras| e.xattrs.iter().map(|(n, v)| copied(n, v)).collect();
        Fetch::Now(self.extras.as_deref().map(all).unwrap_or_default())
    }

    fn xattr_bytes(&self) -> u64 {
        self.extras.as_deref().map_or(0, |extras| extras.xattr_bytes)
    }

    fn cloned_bytes(&self) -> u64 {
        let bytes = |e: &Extras| {
            let pairs = (e.omap.len() + e.xattrs.len()) as u64;
            e.xattr_bytes + e.omap_bytes + e.omap_header.len() as u64 + pairs * PAIR_COST
        };
        self.extras.as_deref().map_or(0, bytes)
    }

    fn omap_header(&self) -> Fetch<Bytes> {
        let header = |e: &Extras| Bytes::copy_from_slice(&e.omap_header);
        Fetch::Now(self.extras.as_deref().map(header).unwrap_or_default())
    }

    fn omap_page(&self, range: OmapRange<'_>) -> Fetch<OmapPage> {
        Fetch::Now(self.extras.as_deref().map(|e| e.omap_page(range)).unwrap_or_default())
    }

    fn omap_values(&self, keys: &[Bytes]) -> Fetch<KeyValues> {
        let Some(extras) = self.extras.as_deref() else { return Fetch::Now(Vec::new()) };
        let mut wanted: Vec<&Bytes> = keys.iter().collect();
        wanted.sort_unstable();
        wanted.dedup();
        let found = wanted.into_iter().filter_map(|key| extras.omap.get(&**key).map(|v| copied(key, v)));
        Fetch::Now(found.collect())
    }
}
