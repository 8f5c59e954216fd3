//! What reads and writes of a file need to know, without a lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use arc_swap::ArcSwapOption;
use az::WrappingAs as _;
use loligo_fs_core::word::{CapWord, Class};
use loligo_wire::UTime;

use super::trust::Trust;
use crate::data::Objects;

/// What the state knows of writes: [`DataPath::wrote`] need not tell it again.
pub(super) const KNOWS_SIZE: u8 = 1;
/// As [`KNOWS_SIZE`], of data in the cache.
pub(super) const KNOWS_DATA: u8 = 2;

/// The data path of a file. The inode's lock is taken where it says no, and at each first write after the
/// state was looked at; never for a read from the cache. It says no while capabilities are being taken.
///
/// A writer counts its write before it looks at what the state knows, and the state forgets what it knows
/// before it looks at the count: of the two, one sees the other (both are sequentially consistent).
pub(crate) struct DataPath {
    pub(crate) word: CapWord,
    /// Changed under the inode's lock, before the word. The cache's back end has it, too.
    pub(crate) view: Arc<ArcSwapOption<DataView>>,
    /// The size as the state has it.
    size: AtomicU64,
    /// The largest end of writes that the state has not seen, and the time of the last of them.
    written_to: AtomicU64,
    written_at: AtomicU64,
    is_buffered: AtomicBool,
    writes: AtomicU64,
    known: AtomicU8,
    /// How far the server permits writes, and how far it was asked for more.
    max_size: AtomicU64,
    asked_for: AtomicU64,
    /// The state waits for the end of a write. The end of reads is awaited only by what takes a capability
    /// from them, and their last one hears of that from the word.
    awaits_end: AtomicBool,
    /// Capabilities rest here for a while before they are given back.
    is_resting: AtomicBool,
}

/// How the file's data is reached.
#[derive(Debug)]
pub(crate) struct DataView {
    /// The objects; none if the layout is impossible.
    pub(crate) objects: Option<Objects>,
    /// The trust in the sessions that granted capabilities.
    trusts: Vec<Arc<Trust>>,
    /// The size cannot change without this client's knowledge.
    pub(crate) knows_size: bool,
    /// The metadata server keeps the data itself.
    pub(crate) is_inline: bool,
    /// The file runs as its owner or group, until somebody writes to it.
    pub(crate) loses_ids: bool,
}

/// Writes that the state has not seen.
pub(super) struct Unseen {
    pub(super) writes: u64,
    pub(super) end: u64,
    pub(super) at: UTime,
    pub(super) is_buffered: bool,
}

impl DataView {
    pub(super) fn new(
        objects: Option<Objects>,
        trusts: Vec<Arc<Trust>>,
        knows_size: bool,
        is_inline: bool,
        loses_ids: bool,
    ) -> Self {
        Self { objects, trusts, knows_size, is_inline, loses_ids }
    }

    /// Returns the generation of the capabilities: another one whenever a session's ends.
    fn generation(&self) -> u32 {
        generation_of(&self.trusts)
    }

    fn is_trusted(&self, now_ms: u64) -> bool {
        !self.trusts.is_empty() && self.trusts.iter().all(|trust| trust.holds_now(now_ms))
    }
}

/// Returns the generation of all sessions together. Each of them only grows, so the sum tells any change.
pub(super) fn generation_of(trusts: &[Arc<Trust>]) -> u32 {
    trusts.iter().fold(0, |sum, trust| sum.wrapping_add(trust.generation()))
}

impl DataPath {
    pub(super) fn new() -> Self {
        Self {
            word: CapWord::new(),
            view: Arc::new(ArcSwapOption::empty()),
            size: AtomicU64::new(0),
            written_to: AtomicU64::new(0),
            written_at: AtomicU64::new(0),
            is_buffered: AtomicBool::new(false),
            writes: AtomicU64::new(0),
            known: AtomicU8::new(0),
            max_size: AtomicU64::new(0),
            asked_for: AtomicU64::new(0),
            awaits_end: AtomicBool::new(false),
            is_resting: AtomicBool::new(false),
        }
    }

    /// Takes a reference to read or to write, without a lock. Returns its class.
    pub(crate) fn try_begin(&self, writes: bool, now_ms: u64) -> Option<Class> {
        let view = self.view.load();
        let view = view.as_ref()?;
        let generation = view.generation();
        if !view.is_trusted(now_ms) {
            return None;
        }
        self.word.begin(writes, generation).ok()
    }

    /// Runs `read` with the view if data in the cache may be read now, without a lock, and without a counter
    /// that other threads change at the same time. `thread` is the calling thread's number. `read` waits for
    /// nobody; what it may not do, or does not find, is `None`.
    ///
    /// Also returns whether the state must be looked at.
    pub(crate) fn read_cached<R>(
        &self,
        now_ms: u64,
        thread: usize,
        read: impl FnOnce(&DataView) -> Option<R>,
    ) -> (Option<R>, bool) {
        let view = self.view.load();
        let Some(generation) =
            view.as_ref().filter(|view| view.is_trusted(now_ms)).map(|view| view.generation())
        else {
            return (None, false);
        };
        let (read, looks) = self.word.short_read(thread, generation, || {
            // This view is at least as new as the reference.
            self.view.load().as_ref().and_then(|view| read(view))
        });
        (read.ok().flatten(), looks)
    }

    /// Puts a reference back. Returns `true` if the state must be looked at.
    pub(crate) fn end(&self, class: Class) -> bool {
        let drained = self.word.put(class);
        let writes = matches!(class, Class::Write | Class::BufferedWrite);
        !drained.is_empty() || (writes && self.awaits_end.load(Ordering::Acquire))
    }

    /// Returns how the data is reached.
    pub(crate) fn data_view(&self) -> Option<Arc<DataView>> {
        self.view.load_full()
    }

    /// Returns the file's size, as far as this client knows it.
    pub(crate) fn size(&self) -> u64 {
        // In this order: what the state has seen is in its size before it is taken out here.
        let unseen = self.written_to.load(Ordering::SeqCst);
        unseen.max(self.size.load(Ordering::SeqCst))
    }

    /// Returns `true` if a write may go as far as `end`.
    pub(crate) fn has_room(&self, end: u64) -> bool {
        end <= self.max_size.load(Ordering::Acquire)
    }

    /// Returns `true`, once, if a write that ends here should make the client ask for more room.
    pub(crate) fn should_ask(&self, end: u64) -> bool {
        let max = self.max_size.load(Ordering::Acquire);
        end > max / 2 && max > 0 && self.asked_for.swap(max.saturating_add(1), Ordering::AcqRel) <= max
    }

    /// Notes a write that has ended: its data is at the store, or in the cache. Returns `true` if the state
    /// must be told.
    #[must_use = "the state must be told, if it does not know"]
    pub(crate) fn wrote(&self, end: u64, is_buffered: bool) -> bool {
        let UTime { sec, nsec } = UTime::now();
        self.written_to.fetch_max(end, Ordering::SeqCst);
        self.written_at.fetch_max(u64::from(sec) << 32 | u64::from(nsec), Ordering::SeqCst);
        if is_buffered {
            self.is_buffered.store(true, Ordering::SeqCst);
        }
        self.writes.fetch_add(1, Ordering::SeqCst);
        let needs = if is_buffered { KNOWS_SIZE | KNOWS_DATA } else { KNOWS_SIZE };
        self.known.load(Ordering::SeqCst) & needs != needs
    }

    /// Returns what was written since the state saw `seen` writes. Called under the inode's lock.
    pub(super) fn unseen(&self, seen: u64) -> Option<Unseen> {
        let writes = self.writes.load(Ordering::SeqCst);
        if writes == seen {
            return None;
        }
        let is_buffered = self.is_buffered.swap(false, Ordering::SeqCst);
        let end = self.written_to.load(Ordering::SeqCst);
        let at = self.written_at.load(Ordering::SeqCst);
        let at = UTime {
            sec: (at >> 32).wrapping_as::<u32>(),
            nsec: (at & u64::from(u32::MAX)).wrapping_as::<u32>(),
        };
        self.size.fetch_max(end, Ordering::SeqCst);
        // A later write has raised it meanwhile: it is seen the next time.
        let _ = self.written_to.compare_exchange(end, 0, Ordering::SeqCst, Ordering::SeqCst);
        Some(Unseen { writes, end, at, is_buffered })
    }

    /// The state is being looked at: what it knows is decided anew.
    pub(super) fn forget_known(&self) {
        self.known.store(0, Ordering::SeqCst);
    }

    /// Publishes what the state has decided, but for the word.
    pub(super) fn publish(&self, size: u64, max_size: u64, known: u8) {
        self.size.store(size, Ordering::SeqCst);
        let before = self.max_size.swap(max_size, Ordering::AcqRel);
        if before != max_size {
            self.asked_for.store(0, Ordering::Release);
        }
        self.known.store(known, Ordering::SeqCst);
    }

    pub(super) fn set_awaits_end(&self, awaits: bool) {
        self.awaits_end.store(awaits, Ordering::Release);
    }

    pub(super) fn set_resting(&self, is_resting: bool) {
        self.is_resting.store(is_resting, Ordering::Release);
    }

    /// Returns `true` if capabilities may have to be given back after a while.
    pub(crate) fn is_resting(&self) -> bool {
        self.is_resting.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use loligo_wire::Caps;

    use super::*;

    fn trusted() -> (DataPath, Arc<Trust>) {
        let (path, trust) = (DataPath::new(), Arc::new(Trust::default()));
        trust.extend(100);
        let view = DataView::new(None, vec![Arc::clone(&trust)], false, false, false);
        let generation = view.generation();
        path.view.store(Some(Arc::new(view)));
        path.word.publish(Caps::FILE_RD | Caps::FILE_CACHE, generation);
        (path, trust)
    }

    #[test]
    fn a_stale_session_ends_the_data_path_at_once() {
        let (path, trust) = trusted();
        let class = path.try_begin(false, 99).expect("a reference");
        assert_eq!(class, Class::CachedRead);
        assert!(!path.end(class));
        assert_eq!(path.try_begin(true, 99), None);
        assert_eq!(path.try_begin(false, 100), None);
        trust.end_generation();
        trust.extend(1000);
        assert_eq!(path.try_begin(false, 99), None, "granted before it was stale");
    }

    #[test]
    fn the_cache_is_read_while_the_session_is_trusted() {
        let (path, trust) = trusted();
        assert_eq!(path.read_cached(99, 0, |view| Some(view.knows_size)), (Some(false), false));
        assert_eq!(path.read_cached(99, 0, |_| None::<()>), (None, false), "something is missing");
        assert_eq!(path.read_cached(100, 0, |_| Some(())), (None, false), "not renewed");
        let (read, looks) = path.read_cached(99, 0, |_| {
            let _ = path.word.revoke(Caps::FILE_CACHE);
            Some(())
        });
        assert_eq!((read, looks), (Some(()), true), "a revoke waits");
        assert_eq!(path.read_cached(99, 0, |_| Some(())).0, None);
        trust.end_generation();
    }

    #[test]
    fn the_last_reader_is_told_of_a_revoke() {
        let (path, _trust) = trusted();
        let (one, other) = (path.try_begin(false, 0).expect("one"), path.try_begin(false, 0).expect("other"));
        assert!(path.word.revoke(Caps::FILE_CACHE).is_empty());
        assert_eq!(path.try_begin(false, 0), Some(Class::Read), "the store is not revoked");
        assert!(!path.end(one));
        assert!(path.end(other));
    }

    #[test]
    fn a_write_is_seen_once_and_the_size_never_goes_back() {
        let path = DataPath::new();
        assert!(path.wrote(10, true));
        assert_eq!(path.size(), 10);
        let unseen = path.unseen(0).expect("a write");
        assert_eq!((unseen.writes, unseen.end, unseen.is_buffered), (1, 10, true));
        assert_eq!(path.size(), 10);
        assert!(path.unseen(1).is_none());
        path.publish(4, 100, KNOWS_SIZE);
        assert_eq!(path.size(), 4, "truncated");
        assert!(!path.wrote(6, false) && path.size() == 6);
        assert!(path.wrote(6, true), "nobody knows of data in the cache");
    }

    #[test]
    fn room_is_asked_for_once() {
        let path = DataPath::new();
        path.publish(0, 100, 0);
        assert!(path.has_room(100) && !path.has_room(101));
        assert!(!path.should_ask(50));
        assert!(path.should_ask(51) && !path.should_ask(60));
        path.publish(0, 200, 0);
        assert!(path.should_ask(101));
    }
}
