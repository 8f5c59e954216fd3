//! What object maps say of the difference between two states.

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

/// The maps from one state to another, as far as they can be relied on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Maps(Option<Arc<Known>>);

#[derive(Debug)]
struct Known {
    /// The first state's; `None`: there was nothing.
    from: Option<ObjectMap>,
    /// Those behind it, the last state's at the end. If only what is there counts, that one alone.
    then: Vec<ObjectMap>,
    /// Whether they say what has changed.
    tell_changes: bool,
}

/// What maps say of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Nobody has written to it.
    Same,
    /// There is none, as there was none.
    Missing,
    /// It was there, and is not.
    Gone,
    /// It is there, and was written to.
    Changed,
}

impl Maps {
    /// Those of an image, if it has valid ones.
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
                    // A map that is lost, too short or damaged says nothing.
                    Ok(_) | Err(Error::Decode { .. }) => return Ok(Self::default()),
                    Err(e) if e.is_not_found() || e.errno() == Errno::EINVAL => return Ok(Self::default()),
                    Err(e) => return Err(e),
                }
            }
        }
        let from = span.from.is_some().then(|| maps.remove(0));
        Ok(Self(Some(Arc::new(Known { from, then: maps, tell_changes }))))
    }

    /// Whether there is no such object in either state, and it does not matter what was in between.
    pub(super) fn is_missing(&self, number: u64) -> bool {
        let Some(known) = &self.0 else { return false };
        known.from.iter().chain(known.then.last()).all(|map| map.get(number) == NONEXISTENT)
    }

    /// What has become of an object; `None` if the maps do not say.
    pub(super) fn tell(&self, number: u64) -> Option<State> {
        let known = self.0.as_ref().filter(|known| known.tell_changes)?;
        let there = |map: &ObjectMap| map.get(number) != NONEXISTENT;
        let was = known.from.as_ref().is_some_and(there);
        if !known.then.last().is_some_and(there) {
            return Some(if was { State::Gone } else { State::Missing });
        }
        // One that was gone in between has come anew.
        let is_same = was && known.then.iter().all(|map| map.get(number) == EXISTS_CLEAN);
        Some(if is_same { State::Same } else { State::Changed })
    }
}

/// An image at a snapshot, or now.
struct Stage {
    id: SnapId,
    flags: u64,
    size: u64,
}

/// The states whose maps count, oldest first.
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

    /// What a shrink takes away is gone, also if the image has grown again.
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
