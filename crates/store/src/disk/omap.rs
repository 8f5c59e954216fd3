//! An object's omap: what the map on disk has, with what was changed since put over it.

use std::collections::BTreeMap;
use std::io;
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;

use super::backend::Snapshot;
use super::keys;
use crate::store::{OmapPage, OmapRange};

/// Rows taken from the map at once.
const PAGE: usize = 512;

/// Changes of an omap, as one layer over another.
#[derive(Clone, Debug, Default)]
pub(super) struct Delta {
    /// Nothing below shows.
    pub(super) cleared: bool,
    /// Ranges (from, until) below which nothing shows.
    pub(super) gone: Vec<(Bytes, Bytes)>,
    /// Set, or removed.
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
        if !self.cleared {
            self.gone.push((from.clone(), until.clone()));
        }
    }

    /// Whether a key of a layer below is not to be seen.
    pub(super) fn hides(&self, key: &[u8]) -> bool {
        self.cleared
            || self.keys.contains_key(key)
            || self.gone.iter().any(|(from, until)| &from[..] <= key && key < &until[..])
    }
}

/// An omap at one moment.
#[derive(Clone, Debug, Default)]
pub(super) struct Omap {
    /// The map on disk may have rows of it.
    pub(super) stored: bool,
    /// What a checkpoint is writing down.
    pub(super) flushing: Option<Arc<Delta>>,
    /// What was changed since that began.
    pub(super) new: Option<Arc<Delta>>,
}

impl Omap {
    /// To be changed.
    pub(super) fn delta(&mut self) -> &mut Delta {
        Arc::make_mut(self.new.get_or_insert_default())
    }

    /// Whether all there is of it is in memory.
    pub(super) fn is_in_memory(&self) -> bool {
        !self.stored || self.layers().any(|delta| delta.cleared)
    }

    /// The newest first.
    fn layers(&self) -> impl Iterator<Item = &Delta> {
        self.new.iter().chain(&self.flushing).map(|delta| &**delta)
    }

    /// A part of the omap of the object of that number.
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

    /// Pairs from `from` on, in order, and where to go on if that are not all.
    #[expect(clippy::type_complexity, reason = "said in the comment")]
    fn some(
        &self,
        object: u64,
        disk: Option<&dyn Snapshot>,
        from: &[u8],
    ) -> io::Result<(Vec<(Bytes, Bytes)>, Option<Vec<u8>>)> {
        let mut stored = Vec::new();
        if let Some(disk) = disk.filter(|_| !self.is_in_memory()) {
            let until = keys::omap(object + 1, b"");
            for (key, value) in disk.range(&keys::omap(object, from), &until, PAGE)? {
                stored.push((key.slice(keys::OMAP_PREFIX_LEN.min(key.len())..), value));
            }
        }
        // Behind the last row that was read there may be more.
        let end = (stored.len() == PAGE).then(|| [&stored[PAGE - 1].0[..], &[0]].concat());
        let mut merged: BTreeMap<Bytes, Option<Bytes>> =
            stored.into_iter().map(|(k, v)| (k, Some(v))).collect();
        let until = end.as_ref().map_or(Bound::Unbounded, |end| Bound::Excluded(&end[..]));
        for delta in [&self.flushing, &self.new].into_iter().flatten() {
            merged.retain(|key, _| !delta.hides(key));
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
        for delta in self.layers() {
            if let Some(value) = delta.keys.get(key) {
                return Ok(value.clone());
            }
            if delta.hides(key) {
                return Ok(None);
            }
        }
        match disk.filter(|_| self.stored) {
            Some(disk) => disk.get(&keys::omap(object, key)),
            None => Ok(None),
        }
    }

    /// The same for another object, all in memory. `stored` is what the map on disk has, if that is to be seen.
    pub(super) fn cloned(&self, stored: Option<&BTreeMap<Bytes, Bytes>>) -> Self {
        let mut keys: BTreeMap<Bytes, Option<Bytes>> =
            stored.into_iter().flatten().map(|(k, v)| (k.clone(), Some(v.clone()))).collect();
        for delta in [&self.flushing, &self.new].into_iter().flatten() {
            keys.retain(|key, _| !delta.hides(key));
            keys.extend(delta.keys.iter().map(|(k, v)| (k.clone(), v.clone())));
        }
        keys.retain(|_, value| value.is_some());
        Self { new: Some(Arc::new(Delta { cleared: true, keys, ..Delta::default() })), ..Self::default() }
    }

    /// Takes what has changed for a checkpoint to write down.
    pub(super) fn capture(&mut self) {
        debug_assert!(self.flushing.is_none(), "one checkpoint at a time");
        self.flushing = self.new.take();
    }

    /// The checkpoint has written it down.
    pub(super) fn rebase(&mut self) {
        self.stored |= self.flushing.take().is_some();
    }
}
