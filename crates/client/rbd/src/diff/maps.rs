//! Differences between two states according to the object maps.

use std::sync::Arc;

use loligo_rados::{Errno, SnapId};
use loligo_wire::rbd::object_map::{EXISTS_CLEAN, NONEXISTENT};
use loligo_wire::rbd::{ObjectMap, feature};

use super::{Grain, Span};
use crate::features::{FAST_DIFF_INVALID, OBJECT_MAP_INVALID};
use crate::header::View;
use crate::image::Inner;
use crate::object_map::load;
use crate::{Error, names};

/// The maps from one state to another, if they are valid.
#[derive(Clone, Debug, Default)]
pub(crate) struct Maps(Option<Arc<Known>>);

#[derive(Debug)]
struct Known {
    /// The first state's map; `None`: the differences are from nothing.
    from: Option<ObjectMap>,
    /// The maps after it, the last state's at the end. If the maps do not record changes, only the last
    /// state's.
    then: Vec<ObjectMap>,
    /// Whether the maps record changes (fast-diff).
    tell_changes: bool,
}

/// The difference of an object according to the maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It was not written.
    Same,
    /// It exists in neither state.
    Missing,
    /// It existed, and does not any more.
    Gone,
    /// It exists, and was written.
    Changed,
}

impl Maps {
    /// Loads the maps of an image, if they are valid.
    pub(super) async fn load(inner: &Inner, view: &View, span: Span) -> Result<Self, Error> {
        let states = states(view, span);
        let says = |flag: u64| states.iter().all(|state| state.flags & flag == 0);
        if !view.has(feature::OBJECT_MAP) || !says(OBJECT_MAP_INVALID) {
            return Ok(Self::default());
        }
        let tell_changes =
            span.grain == Grain::Objects && view.has(feature::FAST_DIFF) && says(FAST_DIFF_INVALID);
        let mut maps = Vec::with_capacity(states.len());
        for (place, state) in states.iter().enumerate() {
            let is_end = place + 1 == states.len() || (place == 0 && span.from.is_some());
            if is_end || tell_changes {
                let snap = (state.id != SnapId::HEAD).then_some(state.id.0);
                match load(&inner.io, &names::object_map(&inner.id, snap)).await {
                    Ok(map) if map.count() >= inner.fixed.layout.object_count(state.size) => maps.push(map),
                    // A map that is missing, too short or damaged is not used.
                    Ok(_) | Err(Error::Decode { .. }) => return Ok(Self::default()),
                    Err(e) if e.is_not_found() || e.errno() == Errno::EINVAL => return Ok(Self::default()),
                    Err(e) => return Err(e),
                }
            }
        }
        let from = span.from.is_some().then(|| maps.remove(0));
        Ok(Self(Some(Arc::new(Known { from, then: maps, tell_changes }))))
    }

    /// Whether the object exists in neither state, regardless of the states in between.
    pub(super) fn is_missing(&self, number: u64) -> bool {
        let Some(known) = &self.0 else { return false };
        known.from.iter().chain(known.then.last()).all(|map| map.get(number) == NONEXISTENT)
    }

    /// The difference of an object; `None` if the maps do not record it.
    pub(super) fn tell(&self, number: u64) -> Option<State> {
        let known = self.0.as_ref().filter(|known| known.tell_changes)?;
        let there = |map: &ObjectMap| map.get(number) != NONEXISTENT;
        let was = known.from.as_ref().is_some_and(there);
        if !known.then.last().is_some_and(there) {
            return Some(if was { State::Gone } else { State::Missing });
        }
        // An object that was removed in between was created again.
        let is_same = was && known.then.iter().all(|map| map.get(number) == EXISTS_CLEAN);
        Some(if is_same { State::Same } else { State::Changed })
    }
}

/// A state of an image: a snapshot, or its head.
struct Stage {
    id: SnapId,
    flags: u64,
    size: u64,
}

/// The states whose maps are needed, oldest first.
fn states(view: &View, span: Span) -> Vec<Stage> {
    let begins = span.from.unwrap_or(SnapId(0));
    let snaps = view.snapshots.iter();
    let snaps = snaps.map(|snap| Stage { id: snap.info.id, flags: snap.flags, size: snap.info.size });
    let all = snaps.chain([Stage { id: SnapId::HEAD, flags: view.flags, size: view.size }]);
    all.filter(|state| state.id >= begins && state.id <= span.to).collect()
}

#[cfg(test)]
mod tests {
    use loligo_wire::rbd::object_map::EXISTS;

    use super::*;

    fn map(states: &[u8]) -> ObjectMap {
        let mut map = ObjectMap::default();
        map.resize(states.len() as u64, NONEXISTENT);
        states.iter().enumerate().for_each(|(n, state)| map.set(n as u64, *state));
        map
    }

    /// An object removed by a shrink is gone, even if the image has grown again.
    #[test]
    fn maps_tell_what_has_changed() {
        let (clean, new, none) = (EXISTS_CLEAN, EXISTS, NONEXISTENT);
        let from = Some(map(&[new, new, new, none, new, none]));
        let then = vec![map(&[clean, new, clean]), map(&[clean, clean, none, new, none, none])];
        let maps = Maps(Some(Arc::new(Known { from, then, tell_changes: true })));
        let told: Vec<State> = (0..6).filter_map(|n| maps.tell(n)).collect();
        assert_eq!(
            told,
            [State::Same, State::Changed, State::Gone, State::Changed, State::Gone, State::Missing]
        );
        assert!(!maps.is_missing(4) && maps.is_missing(7));
        assert_eq!(Maps::default().tell(0), None);
    }
}
