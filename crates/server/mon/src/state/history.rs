//! The osdmap and its earlier epochs, from which clients with older maps are updated.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use loligo_maps::{ApplyError, EncodedOsdMap, Incremental, NextEpoch, OsdMap};
use loligo_wire::{Epoch, UTime};

/// Maximum number of epochs kept (`mon_min_osdmap_epochs`).
const EPOCHS_MAX: usize = 500;
/// Maximum bytes of encoded maps kept.
const BYTES_MAX: usize = 16 << 20;

/// The current osdmap and the earlier epochs that are still kept.
///
/// The current epoch always has an entry, and the entries are contiguous.
#[derive(Clone, Debug)]
pub struct MapHistory {
    current: Arc<OsdMap>,
    epochs: BTreeMap<Epoch, EpochBytes>,
    bytes: usize,
}

/// An encoded epoch.
#[derive(Clone, Debug)]
pub struct EpochBytes {
    /// The full map.
    pub full: Bytes,
    /// The change that leads to it; `None` for the epoch that the history began with.
    pub incremental: Option<Bytes>,
}

impl MapHistory {
    /// Creates a history that begins with `map`.
    pub fn new(map: OsdMap) -> Self {
        let EncodedOsdMap { bytes: full, .. } = map.encode(loligo_maps::Features::PACIFIC);
        let mut history = Self { current: Arc::new(map), epochs: BTreeMap::new(), bytes: 0 };
        history.keep(EpochBytes { full, incremental: None });
        history
    }

    /// The current map.
    pub fn current(&self) -> &Arc<OsdMap> {
        &self.current
    }

    /// The current map, encoded.
    pub fn current_bytes(&self) -> &Bytes {
        &self.epochs[&self.current.epoch].full
    }

    /// The oldest epoch kept.
    pub fn oldest(&self) -> Epoch {
        self.epochs.first_key_value().map_or(self.current.epoch, |(epoch, _)| *epoch)
    }

    /// An epoch, if it is kept.
    pub fn epoch(&self, epoch: Epoch) -> Option<&EpochBytes> {
        self.epochs.get(&epoch)
    }

    /// The incrementals from epoch `from` to the current one; `None` if some of them are not kept.
    pub fn incrementals(&self, from: Epoch) -> Option<BTreeMap<Epoch, Bytes>> {
        let first = self.epochs.get(&from)?;
        first.incremental.as_ref()?;
        let changes = self.epochs.range(from..);
        Some(changes.filter_map(|(epoch, e)| Some((*epoch, e.incremental.clone()?))).collect())
    }

    /// Makes the next epoch. After an error nothing has changed.
    pub fn advance(
        &mut self,
        now: UTime,
        change: impl FnOnce(&OsdMap, &mut Incremental),
    ) -> Result<(), ApplyError> {
        let mut inc = self.current.next_incremental(now);
        change(&self.current, &mut inc);
        let NextEpoch { map, full, incremental } = self.current.advance(inc)?;
        self.current = Arc::new(map);
        self.keep(EpochBytes { full: full.bytes, incremental: Some(incremental) });
        Ok(())
    }

    fn keep(&mut self, epoch: EpochBytes) {
        self.bytes += epoch.len();
        self.epochs.insert(self.current.epoch, epoch);
        while self.epochs.len() > 1 && (self.epochs.len() > EPOCHS_MAX || self.bytes > BYTES_MAX) {
            let Some((_, oldest)) = self.epochs.pop_first() else { break };
            self.bytes -= oldest.len();
        }
    }
}

impl EpochBytes {
    fn len(&self) -> usize {
        self.full.len() + self.incremental.as_ref().map_or(0, Bytes::len)
    }
}

#[cfg(test)]
mod tests {
    use loligo_maps::{Name, PgPool};
    use loligo_wire::Uuid;

    use super::*;

    #[test]
    fn incrementals_lead_from_any_kept_epoch_to_the_current_one() {
        let first = OsdMap::build(Uuid([7; 16])).finish().unwrap();
        let mut history = MapHistory::new(first.clone());
        for i in 0..EPOCHS_MAX + 20 {
            let create = |map: &OsdMap, inc: &mut Incremental| {
                inc.create_pool(map, format!("p{i}").as_str(), PgPool::replicated(1, 1));
                if i > 0 {
                    inc.remove_pool(map, map.pool_max);
                }
            };
            history.advance(UTime { sec: i as u32, nsec: 0 }, create).unwrap();
        }
        assert_eq!(history.oldest(), Epoch(22));
        assert!(history.incrementals(Epoch(21)).is_none());
        assert!(history.incrementals(Epoch(999)).is_none());
        let mut map = OsdMap::decode(&history.epoch(Epoch(22)).unwrap().full).unwrap();
        while map.epoch < history.current().epoch {
            for inc in history.incrementals(Epoch(map.epoch.0 + 1)).unwrap().values() {
                map.apply_incremental(&Incremental::decode(inc).unwrap()).unwrap();
            }
        }
        assert_eq!(map, **history.current());
        assert_eq!(OsdMap::decode(history.current_bytes()).unwrap(), map);
        assert_eq!(map.pool_names.values().collect::<Vec<_>>(), [&Name::from("p519")]);
    }
}
