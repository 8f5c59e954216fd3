//! An object's omap: its rows in the map on disk, with later changes layered over them.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::{fmt, io};

use bytes::Bytes;
use loligo_store::{OmapPage, OmapRange};

use super::backend::Snapshot;
use super::keys;

/// The number of rows read from the map at once.
const PAGE: usize = 512;

/// The rows that a cloned omap shares with its source: the source's rows in a snapshot of the map from the
/// time of the clone. Cloning reads nothing. Reads of the clone use the snapshot until a checkpoint has
/// written rows of the clone's own.
#[derive(Clone)]
pub(super) struct Base {
    /// The source's number.
    object: u64,
    disk: Arc<dyn Snapshot>,
    /// The capacity that these rows take, in bytes.
    map_bytes: u64,
}

/// Changes of an omap: one layer over another.
#[derive(Clone, Debug, Default)]
pub(super) struct Delta {
    /// Whether the layers below are hidden.
    pub(super) cleared: bool,
    /// Only if `cleared`: the rows that replace the layers below.
    pub(super) base: Option<Base>,
    /// Ranges (from, until) in which the layers below are hidden.
    pub(super) gone: Vec<(Bytes, Bytes)>,
    /// Keys that were set (`Some`) or removed (`None`).
    pub(super) keys: BTreeMap<Bytes, Option<Bytes>>,
}

impl Delta {
    pub(super) fn is_empty(&self) -> bool {
        !self.cleared && self.gone.is_empty() && self.keys.is_empty()
    }

    pub(super) fn clear(&mut self) {
        *self = Self { cleared: true, ..Self::default() };
    }

    pub(super) fn remove_range(&mut self, from: &Bytes, until: &Bytes) {
        if from >= until {
            return;
        }
        self.keys.retain(|key, _| key < from || key >= until);
        if !self.cleared || self.base.is_some() {
            self.gone.push((from.clone(), until.clone()));
        }
    }

    /// Whether this layer hides a key of the base or of a layer below.
    pub(super) fn covers(&self, key: &[u8]) -> bool {
        self.keys.contains_key(key) || self.is_gone(key)
    }

    /// Whether a key lies in a removed range.
    pub(super) fn is_gone(&self, key: &[u8]) -> bool {
        self.gone.iter().any(|(from, until)| &from[..] <= key && key < &until[..])
    }

    /// Applies the changes of a newer layer to this one.
    fn put_over(&mut self, newer: &Self) {
        self.keys.retain(|key, _| !newer.covers(key));
        self.keys.extend(newer.keys.iter().map(|(key, value)| (key.clone(), value.clone())));
        self.gone.extend_from_slice(&newer.gone);
    }
}

impl Base {
    /// Returns rows from `from` on, up to one page, with the prefix removed from their keys.
    pub(super) fn rows(&self, from: &[u8]) -> io::Result<Vec<(Bytes, Bytes)>> {
        rows(&*self.disk, self.object, from)
    }
}

impl fmt::Debug for Base {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Base({})", self.object)
    }
}

/// Returns the rows of an object's omap in the map from `from` on, up to [`PAGE`], with the prefix removed
/// from their keys.
fn rows(disk: &dyn Snapshot, object: u64, from: &[u8]) -> io::Result<Vec<(Bytes, Bytes)>> {
    let rows = disk.range(&keys::omap(object, from), &keys::omap(object + 1, b""), PAGE)?;
    let key = |key: Bytes| key.slice(keys::OMAP_PREFIX_LEN.min(key.len())..);
    Ok(rows.into_iter().map(|(row, value)| (key(row), value)).collect())
}

/// Returns the key where reading continues after a page of rows; `None` if the page was not full.
pub(super) fn behind(rows: &[(Bytes, Bytes)]) -> Option<Vec<u8>> {
    rows.last().filter(|_| rows.len() == PAGE).map(|(last, _)| [&last[..], &[0]].concat())
}

/// An omap at one moment.
#[derive(Clone, Debug, Default)]
pub(super) struct Omap {
    /// Whether the map on disk may have rows of it.
    pub(super) stored: bool,
    /// The changes that a checkpoint is writing.
    pub(super) flushing: Option<Arc<Delta>>,
    /// The changes since that checkpoint began.
    pub(super) new: Option<Arc<Delta>>,
}

impl Omap {
    /// Returns the newest layer, for changes.
    pub(super) fn delta(&mut self) -> &mut Delta {
        Arc::make_mut(self.new.get_or_insert_default())
    }

    /// The number of keys in memory.
    pub(super) fn changed_keys(&self) -> usize {
        self.newest_first().map(|delta| delta.keys.len()).sum()
    }

    /// Whether the whole omap is in memory.
    pub(super) fn is_in_memory(&self) -> bool {
        match self.lowest() {
            Some(delta) => delta.base.is_none(),
            None => !self.stored,
        }
    }

    /// The layer that hides all layers below it. Only its base, if any, shows below it.
    fn lowest(&self) -> Option<&Delta> {
        self.newest_first().find(|delta| delta.cleared)
    }

    fn newest_first(&self) -> impl Iterator<Item = &Delta> {
        self.new.iter().chain(&self.flushing).map(|delta| &**delta)
    }

    /// The visible layers, the oldest first.
    fn visible(&self) -> impl Iterator<Item = &Delta> {
        let new_hides = self.new.as_ref().is_some_and(|new| new.cleared);
        let flushing = self.flushing.as_deref().filter(|_| !new_hides);
        flushing.into_iter().chain(self.new.as_deref())
    }

    /// Returns the rows of the map that are visible below the layers, from `from` on, up to one page.
    fn below(
        &self,
        object: u64,
        disk: Option<&dyn Snapshot>,
        from: &[u8],
    ) -> io::Result<Vec<(Bytes, Bytes)>> {
        match (self.lowest(), disk) {
            (Some(Delta { base: Some(base), .. }), _) => base.rows(from),
            (None, Some(disk)) if self.stored => rows(disk, object, from),
            _ => Ok(Vec::new()),
        }
    }

    /// Returns a part of the omap of the object number `object`.
    pub(super) fn page(
        &self,
        object: u64,
        disk: Option<&dyn Snapshot>,
        range: OmapRange<'_>,
    ) -> io::Result<OmapPage> {
        let mut page = OmapPage::default();
        let mut bytes = 0;
        let mut from = match range.after {
            Some(after) if after >= range.prefix => [after, &[0]].concat(),
            _ => range.prefix.to_vec(),
        };
        loop {
            let (pairs, end) = self.some(object, disk, &from)?;
            for (key, value) in pairs {
                if !key.starts_with(range.prefix) {
                    return Ok(page);
                }
                if page.pairs.len() >= range.keys_max || bytes >= range.bytes_max {
                    page.more = true;
                    return Ok(page);
                }
                bytes += key.len() + value.len();
                page.pairs.push((key, value));
            }
            match end {
                Some(end) => from = end,
                None => return Ok(page),
            }
        }
    }

    /// Returns pairs from `from` on, in order, and the key where to continue if there may be more.
    #[expect(clippy::type_complexity, reason = "said in the comment")]
    fn some(
        &self,
        object: u64,
        disk: Option<&dyn Snapshot>,
        from: &[u8],
    ) -> io::Result<(Vec<(Bytes, Bytes)>, Option<Vec<u8>>)> {
        let stored = self.below(object, disk, from)?;
        // After the last row read there may be more.
        let end = behind(&stored);
        let mut merged: BTreeMap<Bytes, Option<Bytes>> =
            stored.into_iter().map(|(k, v)| (k, Some(v))).collect();
        let until = end.as_ref().map_or(Bound::Unbounded, |end| Bound::Excluded(&end[..]));
        for delta in self.visible() {
            merged.retain(|key, _| !delta.covers(key));
            let changed = delta.keys.range::<[u8], _>((Bound::Included(from), until));
            merged.extend(changed.map(|(k, v)| (k.clone(), v.clone())));
        }
        let pairs = merged.into_iter().filter_map(|(key, value)| Some((key, value?))).collect();
        Ok((pairs, end))
    }

    /// The value of a key.
    pub(super) fn value(
        &self,
        object: u64,
        disk: Option<&dyn Snapshot>,
        key: &[u8],
    ) -> io::Result<Option<Bytes>> {
        for delta in self.newest_first() {
            if let Some(value) = delta.keys.get(key) {
                return Ok(value.clone());
            }
            match &delta.base {
                _ if delta.is_gone(key) => return Ok(None),
                Some(base) => return base.disk.get(&keys::omap(base.object, key)),
                None if delta.cleared => return Ok(None),
                None => {}
            }
        }
        match disk.filter(|_| self.stored) {
            Some(disk) => disk.get(&keys::omap(object, key)),
            None => Ok(None),
        }
    }

    /// Returns the capacity that a clone of it takes, at most. Its own rows in the map take `stored` bytes.
    pub(super) fn map_bytes_max(&self, stored: u64) -> u64 {
        let below = match self.lowest() {
            Some(delta) => delta.base.as_ref().map_or(0, |base| base.map_bytes),
            None => stored,
        };
        let pairs = self.visible().flat_map(|delta| &delta.keys);
        let row = |(key, value): (&Bytes, &Option<Bytes>)| {
            value.as_ref().map_or(0, |value| keys::OMAP_PREFIX_LEN + key.len() + value.len())
        };
        below + pairs.map(row).sum::<usize>() as u64
    }

    /// Returns the omap for a clone of the object. The clone reads the rows in the map, which take
    /// `stored` bytes, through a [`Base`]; everything else is copied. `object` is the number of the
    /// source, `disk` the map under the source's changes.
    pub(super) fn cloned(&self, object: u64, disk: &Arc<dyn Snapshot>, stored: u64) -> Self {
        let base = match self.lowest() {
            Some(delta) => delta.base.clone(),
            None => self.stored.then(|| Base { object, disk: Arc::clone(disk), map_bytes: stored }),
        };
        let mut copy = Delta { cleared: true, base, ..Delta::default() };
        self.visible().for_each(|delta| copy.put_over(delta));
        if copy.base.is_none() {
            copy.gone.clear();
            copy.keys.retain(|_, value| value.is_some());
        }
        Self { new: Some(Arc::new(copy)), ..Self::default() }
    }

    /// Hands the changes to a checkpoint, which writes them.
    pub(super) fn capture(&mut self) {
        debug_assert!(self.flushing.is_none(), "one checkpoint at a time");
        self.flushing = self.new.take();
    }

    /// Called when the checkpoint has written the changes.
    pub(super) fn rebase(&mut self) {
        self.stored |= self.flushing.take().is_some();
    }
}
