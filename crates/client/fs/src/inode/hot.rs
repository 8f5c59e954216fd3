//! Names that lookups have found before, found again without a lock.
//!
//! A directory has them beside its [`Names`](super::names::Names), which has all that are known. A name's
//! hash says in which few slots it may lie. Where more names need these slots than there are, one name
//! loses its slot: the next lookup finds it under the directory's lock. Slots are changed under that lock;
//! lookups only read them.
//!
//! A name is believed as long as what vouches for it: its lease, or a *tenure* of the directory's Fs. When
//! Fs goes, its tenure is over before the server hears that Fs is returned. A name that means something else
//! leaves its slot before anybody hears of the change.

use std::hash::BuildHasher;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use arc_swap::ArcSwapOption;
use az::WrappingAs as _;
use rustc_hash::FxBuildHasher;

use super::lease::Lease;
use super::path::generation_of;
use super::trust::Trust;

/// Slots of a directory with few names; a power of two.
const SLOTS_MIN: usize = 64;
/// Slots of a directory with many: 1 MiB.
const SLOTS_MAX: usize = 1 << 17;
/// Slots in which a name may lie; a power of two.
const WAYS: usize = 4;

/// What names lead to.
pub(crate) trait Kept {
    /// Returns `false` once the table that all lookups fall back on does not lead to it any more.
    fn is_kept(&self) -> bool;
}

/// What forgets names that mean something else.
pub(crate) trait Cool: Send + Sync {
    /// Forgets what a name means. Called under the directory's lock.
    fn forget(&self, name: &[u8]);
    /// Forgets all names. Called under the directory's lock.
    fn clear(&self);
}

/// The names of a directory that were looked up, and what they lead to.
pub(crate) struct Hot<T>(ArcSwapOption<Table<T>>);

struct Table<T> {
    slots: Box<[ArcSwapOption<Hit<T>>]>,
    /// Slots with a name. Relaxed: changed under the directory's lock.
    taken: AtomicUsize,
}

struct Hit<T> {
    name: Box<[u8]>,
    inode: Weak<T>,
    by: Vouch,
}

/// What vouches for a name.
pub(crate) enum Vouch {
    Lease(Lease),
    Tenure(Arc<Tenure>),
}

/// The time from when names are vouched for by a directory's Fs until Fs goes.
pub(crate) struct Tenure {
    is_over: AtomicBool,
    /// The trust in the sessions that granted capabilities on the directory. In a snapshot there are none:
    /// nothing changes there.
    trusts: Vec<Arc<Trust>>,
    generation: u32,
}

impl<T> Default for Hot<T> {
    fn default() -> Self {
        Self(ArcSwapOption::empty())
    }
}

impl<T: Kept> Hot<T> {
    /// Finds what a name means, if something vouches for it now.
    pub(crate) fn find(&self, name: &[u8], now_ms: u64) -> Option<Arc<T>> {
        let table = self.0.load();
        let found = |slot: &ArcSwapOption<Hit<T>>| {
            let hit = slot.load();
            let hit = hit.as_ref().filter(|hit| *hit.name == *name)?;
            Some(if hit.by.holds(now_ms) { hit.inode.upgrade() } else { None })
        };
        table.as_ref()?.slots(name).iter().find_map(found)?.filter(|inode| inode.is_kept())
    }

    /// Remembers a name. Called under the directory's lock.
    pub(super) fn keep(&self, name: &[u8], inode: &Arc<T>, by: Vouch) {
        let hit = Arc::new(Hit { name: name.into(), inode: Arc::downgrade(inode), by });
        let known = self.0.load_full();
        let table = known.as_ref().filter(|table| !table.is_tight()).cloned().unwrap_or_else(|| {
            let larger = Arc::new(Table::after(known.as_deref()));
            self.0.store(Some(Arc::clone(&larger)));
            larger
        });
        table.put(hit);
    }
}

impl<T: Send + Sync> Cool for Hot<T> {
    fn forget(&self, name: &[u8]) {
        let table = self.0.load();
        let Some(table) = table.as_ref() else { return };
        let has_it =
            |slot: &&ArcSwapOption<Hit<T>>| slot.load().as_ref().is_some_and(|hit| *hit.name == *name);
        if let Some(slot) = table.slots(name).iter().find(has_it) {
            slot.store(None);
            table.taken.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn clear(&self) {
        self.0.store(None);
    }
}

impl<T> Table<T> {
    fn of(slots: usize) -> Self {
        let slots = (0..slots).map(|_| ArcSwapOption::empty()).collect();
        Self { slots, taken: AtomicUsize::new(0) }
    }

    /// Creates the successor of a table, with more slots and the same names.
    fn after(smaller: Option<&Self>) -> Self {
        let Some(smaller) = smaller else { return Self::of(SLOTS_MIN) };
        let larger = Self::of((smaller.slots.len() * 4).min(SLOTS_MAX));
        for hit in smaller.slots.iter().filter_map(ArcSwapOption::load_full) {
            larger.put(hit);
        }
        larger
    }

    /// Returns `true` if a larger table would help.
    fn is_tight(&self) -> bool {
        let slots = self.slots.len();
        slots < SLOTS_MAX && self.taken.load(Ordering::Relaxed) > slots / 2
    }

    /// Puts a name into its slot, into a free one, or into that of another name.
    fn put(&self, hit: Arc<Hit<T>>) {
        let (hash, slots) = (hash(&hit.name), self.slots(&hit.name));
        let has = |slot: &ArcSwapOption<Hit<T>>, name: Option<&[u8]>| {
            slot.load().as_ref().map(|known| &*known.name) == name
        };
        let own = slots.iter().find(|slot| has(slot, Some(&hit.name)));
        let free = || slots.iter().find(|slot| has(slot, None));
        let slot = own.or_else(free).unwrap_or(&slots[hash.leading_zeros() as usize % WAYS]);
        if slot.swap(Some(hit)).is_none() {
            self.taken.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The slots in which a name may lie.
    fn slots(&self, name: &[u8]) -> &[ArcSwapOption<Hit<T>>] {
        let first = hash(name).wrapping_as::<usize>() & (self.slots.len() - 1) & !(WAYS - 1);
        &self.slots[first..first + WAYS]
    }
}

fn hash(name: &[u8]) -> u64 {
    FxBuildHasher.hash_one(name)
}

impl Vouch {
    fn holds(&self, now_ms: u64) -> bool {
        match self {
            Self::Lease(lease) => lease.holds(now_ms),
            Self::Tenure(tenure) => tenure.holds(now_ms),
        }
    }
}

impl Tenure {
    pub(super) fn new(trusts: Vec<Arc<Trust>>) -> Arc<Self> {
        let generation = generation_of(&trusts);
        Arc::new(Self { is_over: AtomicBool::new(false), trusts, generation })
    }

    /// Fs has gone.
    pub(super) fn end(&self) {
        // With Release: a thread that sees something that happened after the end also sees the end.
        self.is_over.store(true, Ordering::Release);
    }

    fn holds(&self, now_ms: u64) -> bool {
        !self.is_over.load(Ordering::Acquire)
            && self.trusts.iter().all(|trust| trust.holds_now(now_ms))
            && generation_of(&self.trusts) == self.generation
    }

    /// Returns `true` if it is that of these sessions, in their current generations.
    pub(super) fn is_of(&self, trusts: &[Arc<Trust>]) -> bool {
        let same = |(one, other): (&Arc<Trust>, &Arc<Trust>)| Arc::ptr_eq(one, other);
        self.trusts.len() == trusts.len()
            && self.trusts.iter().zip(trusts).all(same)
            && generation_of(trusts) == self.generation
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Thing(u64);

    impl Kept for Thing {
        fn is_kept(&self) -> bool {
            self.0 != u64::MAX
        }
    }

    fn tenure() -> (Arc<Tenure>, Arc<Trust>) {
        let trust = Arc::new(Trust::default());
        trust.extend(100);
        (Tenure::new(vec![Arc::clone(&trust)]), trust)
    }

    #[test]
    fn a_name_is_found_while_something_vouches_for_it() {
        // Two, since the names may need one slot.
        let (hot, by_lease, file) = (Hot::<Thing>::default(), Hot::default(), Arc::new(Thing(7)));
        let (held, trust) = tenure();
        let finds = |name: &[u8], now| {
            let hot = if name == b"leased" { &by_lease } else { &hot };
            hot.find(name, now).map(|thing| thing.0)
        };
        hot.keep(b"held", &file, Vouch::Tenure(Arc::clone(&held)));
        let lease = Lease { until_ms: 50, seq: 1, generation: trust.generation(), trust: Arc::clone(&trust) };
        by_lease.keep(b"leased", &file, Vouch::Lease(lease));
        assert_eq!((finds(b"held", 99), finds(b"held", 100), finds(b"other", 0)), (Some(7), None, None));
        assert_eq!((finds(b"leased", 49), finds(b"leased", 50)), (Some(7), None));
        held.end();
        assert_eq!((finds(b"held", 0), finds(b"leased", 0)), (None, Some(7)));
        trust.end_generation();
        trust.extend(100);
        assert_eq!(finds(b"leased", 0), None);
        let (held, trust) = tenure();
        hot.keep(b"held", &file, Vouch::Tenure(held));
        assert_eq!(finds(b"held", 0), Some(7));
        hot.forget(b"held");
        assert_eq!(finds(b"held", 0), None);
        hot.keep(b"held", &file, Vouch::Tenure(Tenure::new(vec![trust])));
        drop(file);
        assert_eq!(finds(b"held", 0), None, "nobody has it");
        let (gone, (held, _trust)) = (Arc::new(Thing(u64::MAX)), tenure());
        hot.keep(b"held", &gone, Vouch::Tenure(held));
        assert_eq!(finds(b"held", 0), None, "another one is found in its place");
    }

    #[test]
    fn many_names_have_room() {
        let (hot, held) = (Hot::default(), tenure().0);
        let files: Vec<_> = (0..5000).map(|at| Arc::new(Thing(at))).collect();
        let name = |at: usize| format!("name-{at}").into_bytes();
        for (at, file) in files.iter().enumerate() {
            hot.keep(&name(at), file, Vouch::Tenure(Arc::clone(&held)));
        }
        let found = (0..5000).filter_map(|at| Some((at, hot.find(&name(at), 0)?)));
        let found: Vec<_> = found.collect();
        assert!(found.iter().all(|(at, inode)| inode.0 == *at as u64));
        assert!(found.len() > 4500, "{} of 5000", found.len());
        hot.clear();
        assert!(hot.find(&name(0), 0).is_none());
    }
}
