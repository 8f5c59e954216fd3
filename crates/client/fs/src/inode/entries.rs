//! What a directory's names mean, as far as that may be relied on, and what changes it.

use std::sync::Arc;

use loligo_fs_core::caps::InodeCaps;
use loligo_fs_core::dir::Mark;
use loligo_maps::ObjectHash;
use loligo_wire::{Caps, Rank};

use super::hot::Vouch;
use super::id::InodeId;
use super::known::{Clock, Known};
use super::mode;
use super::names::{Entry, NamePage, Named};
use super::trust::Trust;

/// What a directory's names mean.
impl Known {
    /// Returns what a name of this directory means, if that may be relied on.
    pub(crate) fn entry(&self, name: &[u8], now_ms: u64) -> Option<InodeId> {
        let entry = self.names.get(name)?;
        self.holds(entry, now_ms).then_some(entry.id)
    }

    fn holds(&self, entry: &Entry, now_ms: u64) -> bool {
        match &entry.lease {
            Some(lease) => lease.holds(now_ms),
            None => self.issued(now_ms).contains(Caps::FILE_SHARED),
        }
    }

    /// Returns until when a name may be relied on, by the client's clock; `None` if it may not.
    pub(crate) fn entry_until(&self, name: &[u8], now_ms: u64) -> Option<u64> {
        self.entry(name, now_ms)?;
        let lease = self.names.get(name)?.lease.as_ref().map(|lease| lease.until_ms);
        lease.max(self.holds_until(Caps::FILE_SHARED, now_ms))
    }

    /// Returns what vouches for a name, if it means this inode and that may be relied on.
    pub(crate) fn vouch(&mut self, name: &[u8], id: InodeId, now_ms: u64) -> Option<Vouch> {
        self.entry(name, now_ms).filter(|meant| *meant == id)?;
        let trusts = self.trusts();
        self.names.vouch(name, id, trusts)
    }

    /// Returns what a name of this directory meant last, whether or not that may be relied on.
    pub(crate) fn means(&self, name: &[u8]) -> Option<InodeId> {
        self.names.get(name).map(|entry| entry.id)
    }

    /// Returns the number of the lease on a name that a session gave, unless it is over.
    pub(crate) fn lease_of(&self, name: &[u8], of: &Arc<Trust>, now_ms: u64) -> Option<u32> {
        let lease = self.names.get(name)?.lease.as_ref()?;
        (Arc::ptr_eq(&lease.trust, of) && lease.holds(now_ms)).then_some(lease.seq)
    }

    /// Returns `true` if all names of this directory are known for sure.
    pub(crate) fn is_complete(&self, now_ms: u64) -> bool {
        self.at(now_ms, InodeCaps::is_complete)
    }

    /// Returns `true` if this directory has no such name: that is known for sure.
    pub(crate) fn lacks(&self, name: &[u8], now_ms: u64) -> bool {
        self.names.get(name).is_none() && self.is_complete(now_ms)
    }

    /// Returns the names after a place, so many at most, and none that may not be relied on; `None` unless
    /// all names are known.
    pub(crate) fn page(&self, place: (u32, Option<&[u8]>), max: usize, now_ms: u64) -> Option<NamePage> {
        if !self.is_complete(now_ms) {
            return None;
        }
        let mut names = Vec::new();
        for (hash, name, entry) in self.names.after(place) {
            if names.len() == max || !self.holds(entry, now_ms) {
                return Some(NamePage { names, is_last: false });
            }
            names.push((hash, name.to_vec(), entry.id));
        }
        Some(NamePage { names, is_last: true })
    }
}

/// What changes them.
impl Known {
    /// Takes over by which hash function, named by its number, the directory is ordered; without one it is
    /// Linux'.
    pub(crate) fn set_name_hash(&mut self, number: u8) {
        let hash = if number == 0 { ObjectHash::LINUX } else { ObjectHash(number) };
        if hash != self.names.hash {
            self.forget_names();
            self.names.hash = hash;
        }
    }

    /// Remembers what a name means.
    pub(crate) fn remember_name(&mut self, name: &[u8], entry: Entry) {
        if entry.lease.is_none() {
            self.caps.named();
        }
        self.names.insert(name, entry);
    }

    /// Forgets a name that may exist.
    pub(crate) fn forget_name(&mut self, name: &[u8]) {
        self.names.remove(name);
        self.becomes_incomplete();
    }

    /// The lease on a name goes back. Fs may vouch for it still.
    pub(crate) fn end_lease(&mut self, name: &[u8], now_ms: u64) {
        match self.means(name) {
            Some(id) if self.issued(now_ms).contains(Caps::FILE_SHARED) => {
                self.remember_name(name, Entry { id, lease: None });
            }
            _ => self.forget_name(name),
        }
    }

    /// Forgets names if they mean what they did. They exist, as far as is known.
    pub(crate) fn forget_these(&mut self, names: &[Named]) {
        for (_, name, id) in names {
            if self.names.get(name).is_some_and(|entry| entry.id == *id) {
                self.forget_name(name);
            }
        }
    }

    /// Forgets all names.
    pub(crate) fn forget_names(&mut self) {
        self.names.retain(|_| false);
        self.becomes_incomplete();
    }

    /// Forgets the names for which only the directory's Fs vouches.
    pub(crate) fn forget_held_names(&mut self) {
        self.names.retain(|entry| entry.lease.is_some());
        self.becomes_incomplete();
    }

    /// A rank says that there is no such name.
    pub(crate) fn name_is_gone(&mut self, name: &[u8], rank: Rank) {
        self.names.remove(name);
        // The words of several ranks may come in another order than that in which they were true: the name
        // may be there again.
        if !self.is_of_none_but(rank) {
            self.becomes_incomplete();
        }
    }

    fn becomes_incomplete(&mut self) {
        self.names.completeness.released();
        self.caps.incomplete();
    }

    fn is_of_none_but(&self, rank: Rank) -> bool {
        self.caps.ranks().all(|holder| holder == rank)
    }

    /// A rank's listing of this directory begins with the first name. Returns what [`Known::end_listing`]
    /// wants to have, unless the rank does not vouch for what it lists: what it takes back, it tells after
    /// this.
    pub(crate) fn begin_listing(&mut self, rank: Rank, now_ms: u64) -> Option<Mark> {
        let vouches = |caps: Caps| caps.contains(Caps::FILE_SHARED);
        if !(self.caps.issued_by(rank).is_some_and(vouches) && vouches(self.issued(now_ms))) {
            return None;
        }
        // Also if it has no name, the end of Fs must be heard.
        self.caps.named();
        Some(self.names.completeness.begin())
    }

    /// A listing that began at the first name has ended with the last.
    pub(crate) fn end_listing(&mut self, mark: Mark, clock: Clock<'_>) {
        if self.names.completeness.finish(mark) {
            self.with_caps(clock, |caps, view| caps.completed(view));
        }
    }

    /// Returns `true` for a directory that has no names, by the servers' counts.
    pub(crate) fn is_empty_dir(&self) -> bool {
        let attrs = &self.attrs;
        attrs.mode & mode::TYPE == mode::DIRECTORY && attrs.files == 0 && attrs.subdirs == 0
    }

    /// A rank with authority, which has granted Fs with these words, describes this directory as one without
    /// names.
    pub(crate) fn found_empty(&mut self, rank: Rank, clock: Clock<'_>) {
        if self.names.is_empty() && self.is_of_none_but(rank) {
            self.with_caps(clock, |caps, view| caps.completed(view));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
    use std::time::Duration;

    use loligo_fs_core::Moment;
    use loligo_fs_core::caps::{Effect, Grant, ReplyCap};
    use loligo_wire::{CapId, Ino};

    use super::super::lease::Lease;
    use super::super::names::Names;
    use super::*;

    const RANK: Rank = Rank(0);

    struct Bench {
        known: Known,
        count: Arc<AtomicUsize>,
        tids: AtomicU64,
    }

    impl Bench {
        /// A directory whose Fs a rank has granted.
        fn new() -> Self {
            let count = Arc::new(AtomicUsize::new(0));
            let known = Known::new(Ino(1), true, Names::new(Arc::clone(&count)));
            let mut bench = Self { known, count, tids: AtomicU64::new(1) };
            bench.grant(RANK);
            bench
        }

        fn grant(&mut self, rank: Rank) {
            let trust = Arc::new(Trust::default());
            trust.extend(100);
            self.known.trusts.insert(rank, trust);
            let (cap_id, caps) = (CapId(1), Caps::PIN | Caps::FILE_SHARED);
            let cap = ReplyCap { cap_id, caps, wanted: Caps::NONE, seq: 1, mseq: 0, is_auth: rank == RANK };
            let clock = Clock { now: Moment(Duration::ZERO), tids: &self.tids };
            self.known.with_caps(clock, |caps, view| caps.reply_cap(rank, &cap, view));
        }

        /// The rank takes Fs back.
        fn revoke(&mut self) {
            let (cap_id, caps) = (CapId(1), Caps::PIN);
            let grant = Grant { cap_id, caps, wanted: Caps::NONE, seq: 2, mseq: 0, is_revoke: true };
            let clock = Clock { now: Moment(Duration::ZERO), tids: &self.tids };
            self.known.with_caps(clock, |caps, view| caps.grant(RANK, &grant, view));
            if self.known.caps.take_effects().contains(&Effect::ForgetNames) {
                self.known.forget_held_names();
            }
        }

        fn list(&mut self, names: &[&str]) {
            let mark = self.known.begin_listing(RANK, 0).expect("Fs is held");
            names.iter().for_each(|name| self.name(name));
            self.end(mark);
        }

        fn end(&mut self, mark: Mark) {
            let clock = Clock { now: Moment(Duration::ZERO), tids: &self.tids };
            self.known.end_listing(mark, clock);
        }

        fn name(&mut self, name: &str) {
            self.known.remember_name(name.as_bytes(), Entry { id: InodeId::head(Ino(5)), lease: None });
        }

        fn lacks(&self, name: &str) -> bool {
            self.known.lacks(name.as_bytes(), 0)
        }

        fn page(&self, place: (u32, Option<&[u8]>), max: usize) -> Option<NamePage> {
            self.known.page(place, max, 0)
        }
    }

    #[test]
    fn names_are_relied_on_by_lease_or_by_capability() {
        let mut known = Known::new(Ino(1), false, Names::new(Arc::default()));
        let id = InodeId::head(Ino(5));
        let trust = Arc::new(Trust::default());
        let generation = trust.generation();
        let lease = Some(Lease { until_ms: 100, seq: 7, generation, trust: Arc::clone(&trust) });
        known.remember_name(b"leased", Entry { id, lease });
        known.remember_name(b"held", Entry { id, lease: None });
        assert_eq!(known.entry(b"leased", 99), Some(id));
        assert_eq!(known.entry(b"leased", 100), None);
        assert_eq!(known.lease_of(b"leased", &trust, 99), Some(7));
        assert_eq!(known.lease_of(b"leased", &trust, 100), None, "it is over");
        assert_eq!(known.lease_of(b"leased", &Arc::new(Trust::default()), 99), None, "of another session");
        assert_eq!(known.lease_of(b"held", &trust, 99), None);
        trust.end_generation();
        assert_eq!(known.entry(b"leased", 99), None, "given before the session grew stale");
        assert_eq!(known.entry(b"held", 0), None, "Fs is not held");
        known.of_snapshot = Caps::FILE_SHARED;
        assert_eq!(known.entry(b"held", 0), Some(id));
        known.forget_held_names();
        assert_eq!(known.entry(b"held", 0), None);
        assert!(known.names.get(b"leased").is_some());
    }

    #[test]
    fn a_lease_that_went_back_vouches_for_nothing() {
        let mut bench = Bench::new();
        let id = InodeId::head(Ino(5));
        let trust = Arc::new(Trust::default());
        let lease =
            || Lease { until_ms: 100, seq: 1, generation: trust.generation(), trust: Arc::clone(&trust) };
        for (fs, expected) in [(true, Some(id)), (false, None)] {
            bench.known.remember_name(b"x", Entry { id, lease: Some(lease()) });
            if !fs {
                bench.revoke();
            }
            bench.known.end_lease(b"x", 0);
            assert_eq!(bench.known.entry(b"x", 0), expected);
            assert!(!bench.lacks("x"));
        }
    }

    #[test]
    fn what_a_listing_has_not_shown_does_not_exist() {
        let mut bench = Bench::new();
        assert!(!bench.lacks("x") && bench.page((0, None), 10).is_none());
        bench.list(&["a", "b"]);
        assert!(bench.lacks("x") && !bench.lacks("a"));
        bench.known.name_is_gone(b"a", RANK);
        assert!(bench.lacks("a"));
        bench.name("a");
        assert!(!bench.lacks("a") && bench.lacks("x"), "a new name does not hide others");
        bench.known.forget_name(b"a");
        assert!(!bench.lacks("a") && !bench.lacks("x"), "it may be there");
        let mark = bench.known.begin_listing(RANK, 0).expect("Fs is held");
        bench.known.forget_name(b"b");
        bench.end(mark);
        assert!(!bench.lacks("x"), "a name was forgotten after it was listed");
    }

    #[test]
    fn a_listing_during_which_fs_was_away_shows_nothing_for_sure() {
        for listed in [&[][..], &["a"]] {
            let mut bench = Bench::new();
            let mark = bench.known.begin_listing(RANK, 0).expect("Fs is held");
            listed.iter().for_each(|name| bench.name(name));
            bench.revoke();
            bench.grant(RANK);
            bench.end(mark);
            assert!(!bench.lacks("x") && !bench.lacks("a"), "listed {listed:?}");
        }
    }

    #[test]
    fn of_several_ranks_none_is_believed_that_a_name_is_gone_for_good() {
        let mut bench = Bench::new();
        bench.list(&["a"]);
        bench.grant(Rank(1));
        bench.known.name_is_gone(b"a", Rank(1));
        assert!(!bench.lacks("a") && !bench.lacks("x"));
        assert!(bench.known.begin_listing(Rank(2), 0).is_none(), "it does not vouch for what it lists");
    }

    #[test]
    fn an_empty_directory_is_known_at_once() {
        let mut bench = Bench::new();
        let clock = Clock { now: Moment(Duration::ZERO), tids: &bench.tids };
        bench.known.found_empty(RANK, clock);
        assert!(bench.lacks("x"));
        assert!(bench.page((0, None), 10).is_some_and(|page| page.is_last && page.names.is_empty()));
        bench.known.forget_names();
        assert!(!bench.lacks("x"));
    }

    #[test]
    fn pages_have_every_name_once_in_the_order_of_hashes() {
        let mut bench = Bench::new();
        bench.known.set_name_hash(ObjectHash::RJENKINS.0);
        let names: Vec<String> = (0..100).map(|at| format!("name-{at}")).collect();
        bench.list(&names.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(bench.count.load(Ordering::Relaxed), 100);
        let mut shown: Vec<(u32, Vec<u8>)> = Vec::new();
        loop {
            let last = shown.last().cloned();
            let place = last.as_ref().map_or((0, None), |(hash, name)| (*hash, Some(&name[..])));
            let page = bench.page(place, 7).expect("all are known");
            shown.extend(page.names.into_iter().map(|(hash, name, _)| (hash, name)));
            if page.is_last {
                break;
            }
        }
        let hash_of = |name: &String| (bench.known.names.hash_of(name.as_bytes()), name.clone().into_bytes());
        let mut expected: Vec<_> = names.iter().map(hash_of).collect();
        expected.sort();
        assert_eq!(shown, expected);
        // A position without a name begins with all names of its hash.
        let (hash, name) = expected[50].clone();
        let page = bench.page((hash, None), 1).expect("all are known");
        assert_eq!(page.names[0].1, name);
        let Bench { known, count, .. } = bench;
        drop(known);
        assert_eq!(count.load(Ordering::Relaxed), 0);
    }
}
