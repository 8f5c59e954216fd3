//! Finds the objects of a collection by name, and walks them in Ceph's order.
//!
//! The order is by reversed hash alone, because 32-bit keys make small, dense tree nodes that are
//! searched without touching an object. Objects with the same hash are rare unless a user gives many
//! objects one locator key. Such objects have a tree of their own.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Bound;
use std::sync::Arc;

use super::object::Object;
use crate::{ObjectName, ObjectRef};

/// The objects of one collection.
#[derive(Clone, Debug, Default)]
pub(super) struct Index {
    /// By reversed hash.
    slots: BTreeMap<u32, Slot>,
}

#[derive(Clone, Debug)]
enum Slot {
    One(Arc<Object>),
    /// Two or more.
    #[expect(clippy::box_collection, reason = "a bare map would double the size of every slot")]
    Many(Box<BTreeMap<ObjectName, Arc<Object>>>),
}

impl Index {
    pub(super) fn get(&self, oid: ObjectRef<'_>) -> Option<&Arc<Object>> {
        match self.slots.get(&oid.reversed_hash())? {
            Slot::One(object) => is(object, oid).then_some(object),
            Slot::Many(objects) => objects.get(&oid as &dyn Named),
        }
    }

    pub(super) fn get_mut(&mut self, oid: ObjectRef<'_>) -> Option<&mut Arc<Object>> {
        match self.slots.get_mut(&oid.reversed_hash())? {
            Slot::One(object) => is(object, oid).then_some(object),
            Slot::Many(objects) => objects.get_mut(&oid as &dyn Named),
        }
    }

    /// Adds an object that is not in the index.
    pub(super) fn insert(&mut self, object: Arc<Object>) {
        match self.slots.entry(object.name.as_ref().reversed_hash()) {
            Entry::Vacant(place) => {
                place.insert(Slot::One(object));
            }
            Entry::Occupied(mut place) => match place.get_mut() {
                Slot::Many(objects) => {
                    objects.insert(object.name.clone(), object);
                }
                Slot::One(other) => {
                    let both = [other.clone(), object].map(|o| (o.name.clone(), o));
                    place.insert(Slot::Many(Box::new(BTreeMap::from(both))));
                }
            },
        }
    }

    pub(super) fn remove(&mut self, oid: ObjectRef<'_>) -> Option<Arc<Object>> {
        let Entry::Occupied(mut place) = self.slots.entry(oid.reversed_hash()) else { return None };
        match place.get_mut() {
            Slot::One(object) if !is(object, oid) => None,
            Slot::One(_) => match place.remove() {
                Slot::One(object) => Some(object),
                Slot::Many(_) => unreachable!("the slot holds one object"),
            },
            Slot::Many(objects) => {
                let removed = objects.remove(&oid as &dyn Named);
                if let (1, Some((_, last))) = (objects.len(), objects.first_key_value()) {
                    let last = last.clone();
                    place.insert(Slot::One(last));
                }
                removed
            }
        }
    }

    /// Returns all objects, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<Object>> {
        self.slots.values().flat_map(|slot| slot.range(ObjectRef::first_of_hash(0)))
    }

    /// Returns the objects from `from` on, in order.
    pub(super) fn range(&self, from: ObjectRef<'_>) -> impl Iterator<Item = &Arc<Object>> {
        let first = from.reversed_hash();
        let same_hash = self.slots.get(&first).into_iter().flat_map(move |slot| slot.range(from));
        let behind = self.slots.range((Bound::Excluded(first), Bound::Unbounded));
        same_hash.chain(behind.flat_map(|(_, slot)| slot.range(ObjectRef::first_of_hash(0))))
    }
}

impl Slot {
    /// Returns the slot's objects from `from` on; the hash of `from` is ignored.
    fn range(&self, from: ObjectRef<'_>) -> impl Iterator<Item = &Arc<Object>> {
        let (one, many) = match self {
            Self::One(o) => ((o.name.as_ref().cmp_same_hash(&from) != Ordering::Less).then_some(o), None),
            Self::Many(objects) => {
                let hash = objects.first_key_value().map_or(0, |(name, _)| name.as_ref().hash);
                let from = ObjectRef { hash, ..from };
                let start = Bound::Included(&from as &dyn Named);
                (None, Some(objects.range::<dyn Named, _>((start, Bound::Unbounded)).map(|(_, o)| o)))
            }
        };
        one.into_iter().chain(many.into_iter().flatten())
    }
}

fn is(object: &Object, oid: ObjectRef<'_>) -> bool {
    object.name.as_ref() == oid
}

/// The common view of an owned and a borrowed name, so that a tree keyed by one can be searched with the
/// other.
trait Named {
    fn oid(&self) -> ObjectRef<'_>;
}

impl Named for ObjectName {
    fn oid(&self) -> ObjectRef<'_> {
        self.as_ref()
    }
}

impl Named for ObjectRef<'_> {
    fn oid(&self) -> ObjectRef<'_> {
        *self
    }
}

impl<'a> Borrow<dyn Named + 'a> for ObjectName {
    fn borrow(&self) -> &(dyn Named + 'a) {
        self
    }
}

impl PartialEq for dyn Named + '_ {
    fn eq(&self, other: &Self) -> bool {
        self.oid() == other.oid()
    }
}

impl Eq for dyn Named + '_ {}

impl PartialOrd for dyn Named + '_ {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for dyn Named + '_ {
    fn cmp(&self, other: &Self) -> Ordering {
        self.oid().cmp(&other.oid())
    }
}
