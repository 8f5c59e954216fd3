//! An inode, and what this client knows of it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
use std::sync::{Arc, OnceLock};

use loligo_cache::CachedFile;
use loligo_fs_core::Moment;
use loligo_fs_core::caps::{InodeCaps, View};
use loligo_fs_core::realm::CapSnaps;
use loligo_fs_core::word::Busy;
use loligo_lockstat::{Class, Mutex, MutexGuard};
use loligo_wire::message::mds::{FileLayout, FilePath};
use loligo_wire::{Caps, Ino, Rank, SnapContext, SnapId, Tid};
use tokio::sync::Notify;

use super::attrs::Attrs;
use super::failures::Failures;
use super::hot::{Hot, Kept};
use super::id::InodeId;
use super::mode;
use super::names::Names;
use super::path::{DataPath, DataView, KNOWS_DATA, KNOWS_SIZE, generation_of};
use super::trust::Trust;
use crate::cached::Backing;
use crate::data::Objects;
use crate::life::Fragments;

/// Held for the time of looking at an inode or changing what is known of it; never while waiting.
static INODE: Class = Class::new("fs.inode");

/// A file, directory, link or device.
pub(crate) struct Inode {
    pub(crate) id: InodeId,
    /// How requests name it: by its number, or, in a snapshot, by the path below the directory that has
    /// the snapshot.
    pub(crate) address: FilePath,
    known: Mutex<Known>,
    /// When it was looked for last, by the table's clock.
    pub(super) used: AtomicU32,
    /// What reads and writes look at instead.
    pub(crate) data: DataPath,
    /// The data in the cache, once a file was opened that uses it.
    pub(crate) cached: OnceLock<CachedFile<Backing>>,
    /// A directory's names that lookups have found.
    hot: OnceLock<Arc<Hot<Self>>>,
    /// The mode's file type bits, once they are known: they never change.
    kind: AtomicU32,
    /// The table does not have it any more.
    is_gone: AtomicBool,
    /// Something has changed that an operation may wait for.
    pub(crate) changed: Notify,
}

/// The time, and the counter of flushes.
#[derive(Clone, Copy)]
pub(crate) struct Clock<'a> {
    pub(crate) now: Moment,
    pub(crate) tids: &'a AtomicU64,
}

/// What an event does to operations on the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grasp {
    /// It may take capabilities: meanwhile no operation begins.
    Takes,
    /// It takes nothing, unless something is being taken already: operations go on.
    Leaves,
}

impl Clock<'_> {
    /// Numbers a flush.
    pub(crate) fn flush_tid(&self) -> Tid {
        Tid(self.tids.fetch_add(1, Ordering::Relaxed))
    }
}

/// What is known of an inode.
pub(crate) struct Known {
    pub(crate) attrs: Attrs,
    pub(crate) caps: InodeCaps,
    /// The trust in each session that granted a capability.
    pub(crate) trusts: BTreeMap<Rank, Arc<Trust>>,
    /// What belongs into snapshots, and the attributes of their times.
    pub(crate) snaps: CapSnaps,
    pub(crate) kept: BTreeMap<SnapId, Attrs>,
    /// The snapshot context of the realm, and the realm whose context must be looked at.
    pub(crate) context: SnapContext,
    pub(crate) moved_to: Option<Ino>,
    /// Tasks that drop cached data. Until they end, nothing is read or written.
    pub(crate) blocked: u32,
    /// All capabilities go back once the cached data is dropped.
    pub(crate) is_leaving: bool,
    /// A name of it was removed: it is not kept for later.
    pub(crate) is_removed: bool,
    /// The server does not show it to this client.
    pub(crate) is_hidden: bool,
    /// A directory has lost a name in a request of this client, whose reply did not describe it: what Fs
    /// covers is asked for again, though Fs is held.
    pub(crate) is_outdated: bool,
    /// The file was truncated: cached data from here on must be dropped.
    pub(crate) cut: Option<u64>,
    /// Counts changes of the attributes here. The last flush that was sent, and how many it covers.
    pub(crate) changes: u64,
    pub(crate) covered: (u64, Tid),
    writes_seen: u64,
    /// Whether there were writes, and writes into the cache, that the capabilities' state has not heard of.
    unmarked: (bool, bool),
    shown: Option<Shown>,
    /// In a snapshot nothing changes: what was read once is known for ever.
    pub(crate) of_snapshot: Caps,
    /// The snapshot realm.
    pub(crate) realm: Ino,
    /// A directory's names that are known.
    pub(crate) names: Names,
    /// Which ranks decide about the parts of a directory.
    pub(crate) fragments: Fragments,
    /// Requests that the metadata server has carried out and not made durable.
    pub(crate) unconfirmed: u32,
    /// What went wrong behind the callers' backs; fsync and close report it.
    pub(crate) failures: Failures,
    /// The file's locks that this client holds.
    pub(crate) locks: crate::locks::Held,
    /// A directory and a name in it by which the inode was found last. It may have another place by now.
    pub(crate) found_in: Option<(InodeId, Vec<u8>)>,
}

/// What the data path's view was made from.
#[derive(PartialEq)]
struct Shown {
    layout: FileLayout,
    truncation: (u32, u64),
    context: SnapContext,
    /// Their addresses: the view keeps them alive.
    trusts: Vec<usize>,
    is_inline: bool,
    loses_ids: bool,
    knows_size: bool,
}

impl Inode {
    pub(super) fn new(id: InodeId, address: FilePath, has_cache: bool, names: Names) -> Arc<Self> {
        let known = Known::new(id.ino, has_cache, names);
        Arc::new(Self {
            id,
            address,
            known: Mutex::new(&INODE, known),
            used: AtomicU32::new(0),
            data: DataPath::new(),
            cached: OnceLock::new(),
            hot: OnceLock::new(),
            kind: AtomicU32::new(0),
            is_gone: AtomicBool::new(false),
            changed: Notify::new(),
        })
    }

    /// Returns when it was looked for last, by the table's clock.
    pub(crate) fn used(&self) -> u32 {
        self.used.load(Ordering::Relaxed)
    }

    /// Locks what is known, with what was written until now.
    pub(crate) fn known(&self) -> MutexGuard<'_, Known> {
        let mut known = self.known.lock();
        known.see_writes(&self.data);
        known
    }

    /// Runs an event on the capabilities, under the inode's lock, and publishes what operations on the data
    /// may begin afterwards. Meanwhile none can, but for events that leave what was published before.
    pub(crate) fn event<T>(
        &self,
        known: &mut Known,
        clock: Clock<'_>,
        grasp: Grasp,
        objects: impl FnOnce(&Known, &SnapContext) -> Option<Objects>,
        run: impl FnOnce(&mut Known) -> T,
    ) -> T {
        let data = &self.data;
        if grasp == Grasp::Takes || !known.is_settled(data, clock) {
            // What is drained is looked at below.
            let _ = data.word.revoke(DATA);
        }
        data.forget_known();
        known.see_writes(data);
        known.caps.outside(data.word.busy());
        known.mark_writes(clock);
        let result = run(known);
        if known.snaps.is_writing() && !known.caps.used().contains(Caps::FILE_WR) {
            let (dirty, has_data) = (known.caps.dirty(), known.caps.has_data());
            known.snaps.writes_ended(dirty, has_data, &|| clock.flush_tid());
        }
        known.publish(self, clock, objects);
        result
    }

    /// Returns the address of an entry of this directory.
    pub(crate) fn address_of(&self, name: &[u8]) -> FilePath {
        let Self { id, address, .. } = self;
        let path = match (id.is_head(), id.is_snap_dir()) {
            (true, _) => name.to_vec(),
            // The empty name before it is that of the directory of snapshots.
            (_, true) => [b"/", name].concat(),
            _ => [&address.path[..], b"/", name].concat(),
        };
        FilePath { base: address.base, path }
    }

    /// Returns the mode's file type bits.
    pub(crate) fn kind(&self) -> u32 {
        // Relaxed: it is the same whenever it is known.
        let known = self.kind.load(Ordering::Relaxed);
        if known != 0 {
            return known;
        }
        let kind = self.known().attrs.mode & mode::TYPE;
        self.kind.store(kind, Ordering::Relaxed);
        kind
    }

    /// Finds a name of this directory that was looked up before, without a lock.
    pub(crate) fn find_hot(&self, name: &[u8], now_ms: u64) -> Option<Arc<Self>> {
        self.hot.get()?.find(name, now_ms)
    }

    /// Has the next lookups of a name find what it means without a lock, if it means this inode and that may
    /// be relied on.
    pub(crate) fn heat(&self, name: &[u8], inode: &Arc<Self>, now_ms: u64) {
        let mut known = self.known();
        let Some(by) = known.vouch(name, inode.id, now_ms) else { return };
        let hot = self.hot.get_or_init(Arc::default);
        hot.keep(name, inode, by);
        known.names.cools(hot);
    }

    /// The table is about to remove it, or keeps it after all.
    pub(super) fn set_gone(&self, is_gone: bool) {
        self.is_gone.store(is_gone, Ordering::Release);
        fence(Ordering::SeqCst);
    }

    /// Returns `true` for a directory.
    pub(crate) fn is_dir(&self) -> bool {
        self.kind() == mode::DIRECTORY
    }
}

impl Kept for Inode {
    /// The caller has a reference that it did not get from the table, then looks here. The table says that
    /// the inode is gone, then counts the references. Between the two steps both have a SeqCst fence: of the
    /// two, one sees the other.
    fn is_kept(&self) -> bool {
        fence(Ordering::SeqCst);
        !self.is_gone.load(Ordering::Acquire)
    }
}

impl fmt::Debug for Inode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "inode {} of snapshot {}", self.id.ino, self.id.snap)
    }
}

/// The capabilities of the data path.
const DATA: Caps = Caps::FILE_RD.union(Caps::FILE_WR).union(Caps::FILE_CACHE).union(Caps::FILE_BUFFER);

impl Known {
    pub(super) fn new(ino: Ino, has_cache: bool, names: Names) -> Self {
        let caps = InodeCaps::new(ino);
        Self {
            attrs: Attrs::default(),
            caps: if has_cache { caps } else { caps.without_cache() },
            trusts: BTreeMap::new(),
            snaps: CapSnaps::new(),
            kept: BTreeMap::new(),
            context: SnapContext::default(),
            moved_to: None,
            blocked: 0,
            is_leaving: false,
            is_removed: false,
            is_hidden: false,
            is_outdated: false,
            cut: None,
            changes: 0,
            covered: (0, Tid(0)),
            writes_seen: 0,
            unmarked: (false, false),
            shown: None,
            of_snapshot: Caps::NONE,
            realm: Ino::ROOT,
            names,
            fragments: Fragments::default(),
            unconfirmed: 0,
            failures: Failures::default(),
            locks: crate::locks::Held::default(),
            found_in: None,
        }
    }

    /// Looks at the capabilities as they are at a time.
    pub(crate) fn with_caps<T>(
        &mut self,
        clock: Clock<'_>,
        look: impl FnOnce(&mut InodeCaps, &View<'_>) -> T,
    ) -> T {
        let Self { caps, trusts, .. } = self;
        let validity = |rank: Rank| trusts.get(&rank).map(|trust| trust.validity());
        let flush_tid = || clock.flush_tid();
        look(caps, &View { now: clock.now, validity: &validity, flush_tid: &flush_tid })
    }

    /// Looks at what may be relied on at a time of the client's clock.
    pub(super) fn at<T>(&self, now_ms: u64, look: impl FnOnce(&InodeCaps, &View<'_>) -> T) -> T {
        let validity = |rank: Rank| self.trusts.get(&rank).map(|trust| trust.validity());
        let now = Moment(std::time::Duration::from_millis(now_ms));
        look(&self.caps, &View { now, validity: &validity, flush_tid: &|| Tid(0) })
    }

    /// Returns what may be relied on now.
    pub(crate) fn issued(&self, now_ms: u64) -> Caps {
        self.at(now_ms, InodeCaps::trusted) | self.of_snapshot
    }

    /// Returns `true` if what is known of these parts may be relied on now.
    pub(crate) fn is_vouched_for(&self, parts: Caps, now_ms: u64) -> bool {
        let is_outdated = self.is_outdated && parts.contains(Caps::FILE_SHARED);
        self.issued(now_ms).contains(parts) && !is_outdated
    }

    /// Returns `true` if operations may do all that there is, and nothing is about to change that: an event
    /// that takes nothing publishes the same again, whatever begins meanwhile.
    fn is_settled(&mut self, data: &DataPath, clock: Clock<'_>) -> bool {
        let is_free = self.blocked == 0 && !self.is_leaving && self.moved_to.is_none() && self.cut.is_none();
        is_free
            && self.snaps.may_write()
            && data.word.usable() == DATA
            && self.with_caps(clock, |caps, view| caps.is_settled(view))
    }

    /// Returns `true` if a rank's capability is held.
    pub(crate) fn is_of(&self, rank: Rank) -> bool {
        self.caps.issued_by(rank).is_some()
    }

    /// Returns `true` if a new operation on the data must wait for what is in progress here.
    pub(crate) fn is_blocked(&self, writes: bool) -> bool {
        self.blocked > 0 || (writes && !self.snaps.may_write())
    }

    /// The server permits writes up to here.
    pub(crate) fn permit_size(&mut self, max: u64) {
        self.attrs.max_size = max;
        self.caps.max_size_granted(max);
    }

    /// Returns `true` if an operation on the data is in progress.
    pub(crate) fn is_in_use(&self, data: &DataPath) -> bool {
        self.caps.is_running() || data.word.busy() != Busy::default()
    }

    /// Takes over the size and the times of writes.
    fn see_writes(&mut self, data: &DataPath) {
        let Some(unseen) = data.unseen(self.writes_seen) else { return };
        let attrs = &mut self.attrs;
        attrs.size = attrs.size.max(unseen.end);
        (attrs.mtime, attrs.ctime) = (attrs.mtime.max(unseen.at), attrs.ctime.max(unseen.at));
        attrs.change_attr = attrs.change_attr.saturating_add(unseen.writes - self.writes_seen);
        self.writes_seen = unseen.writes;
        self.unmarked = (true, self.unmarked.1 | unseen.is_buffered);
    }

    /// Tells the capabilities' state of writes. The operations that made them are still counted, or the state
    /// knows of earlier ones of the same kind.
    fn mark_writes(&mut self, clock: Clock<'_>) {
        let (wrote, buffered) = std::mem::take(&mut self.unmarked);
        if buffered {
            self.caps.buffered();
        }
        if wrote {
            self.changes += 1;
            self.with_caps(clock, |caps, view| caps.changed(Caps::FILE_WR, view));
        }
    }

    /// Publishes what operations may do without the lock.
    fn publish(
        &mut self,
        inode: &Inode,
        clock: Clock<'_>,
        objects: impl FnOnce(&Self, &SnapContext) -> Option<Objects>,
    ) {
        self.look_at_tenure(clock);
        let data = &inode.data;
        let is_dirty = self.caps.dirty().intersects(Caps::FILE_WR | Caps::FILE_EXCL);
        let knows = [(is_dirty, KNOWS_SIZE), (self.caps.has_new_data(), KNOWS_DATA)];
        let knows = knows.into_iter().filter(|(does, _)| *does).fold(0, |all, (_, bit)| all | bit);
        data.publish(self.attrs.size, self.attrs.max_size, knows);
        data.set_awaits_end(self.caps.awaits_writes());
        data.set_resting(self.caps.is_resting());
        if self.attrs.mode & mode::TYPE != mode::REGULAR || !inode.id.is_head() {
            return;
        }
        let trusts = self.trusts();
        // Before the capabilities are looked at: if a session's generation ends in between, one of both
        // says so.
        let generation = generation_of(&trusts);
        // What leaves does not fill its cache again.
        let mut held = match self.is_leaving {
            true => Caps::NONE,
            false => self.with_caps(clock, |caps, view| caps.publishable(view)),
        };
        if self.blocked > 0 {
            held = Caps::NONE;
        } else if !self.snaps.may_write() {
            held -= Caps::FILE_WR | Caps::FILE_BUFFER;
        }
        let vouched = self.with_caps(clock, |caps, view| caps.trusted(view));
        let shown = Shown {
            layout: self.attrs.layout,
            truncation: (self.attrs.truncate_seq, self.attrs.truncate_size),
            context: self.snaps.context().unwrap_or(&self.context).clone(),
            trusts: trusts.iter().map(|trust| Arc::as_ptr(trust).addr()).collect(),
            is_inline: self.attrs.inline.is_some(),
            loses_ids: crate::permission::loses_ids(self.attrs.mode),
            knows_size: vouched.intersects(Caps::FILE_SHARED | Caps::FILE_EXCL),
        };
        if self.shown.as_ref() != Some(&shown) {
            let view = (!trusts.is_empty()).then(|| {
                let objects = objects(self, &shown.context);
                let Shown { knows_size, is_inline, loses_ids, .. } = shown;
                Arc::new(DataView::new(objects, trusts, knows_size, is_inline, loses_ids))
            });
            data.view.store(view);
            self.shown = Some(shown);
        }
        data.word.publish(held, generation);
    }

    /// Returns the trust in the sessions that granted capabilities.
    pub(super) fn trusts(&self) -> Vec<Arc<Trust>> {
        self.caps.ranks().filter_map(|rank| self.trusts.get(&rank).cloned()).collect()
    }

    /// Ends the tenure of a directory's Fs, if Fs has gone: before a message says so.
    fn look_at_tenure(&mut self, clock: Clock<'_>) {
        let Some(tenure) = self.names.tenure() else { return };
        let is_of_these = tenure.is_of(&self.trusts());
        let issued = self.with_caps(clock, |caps, view| caps.trusted(view)) | self.of_snapshot;
        if !is_of_these || !issued.contains(Caps::FILE_SHARED) {
            self.names.end_tenure();
        }
    }

    /// Returns until when capabilities may be relied on, by the client's clock; `None` if they may not.
    pub(crate) fn holds_until(&self, caps: Caps, now_ms: u64) -> Option<u64> {
        if self.of_snapshot.contains(caps) {
            return Some(u64::MAX);
        }
        if caps.contains(Caps::FILE_CACHE) && !self.caps.has_cache() {
            // Nobody would hear of its end.
            return None;
        }
        let trusts = || self.caps.ranks().filter_map(|rank| self.trusts.get(&rank));
        let until = || trusts().map(|trust| trust.until()).filter(|until| *until > now_ms).min();
        self.issued(now_ms).contains(caps).then(|| until().unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use loligo_fs_core::caps::{OpenMode, ReplyCap};
    use loligo_wire::CapId;

    use super::*;

    #[test]
    fn things_in_snapshots_are_addressed_from_the_directory_that_has_them() {
        let new = |id, address| Inode::new(id, address, true, Names::new(Arc::default()));
        let dir = new(InodeId::head(Ino(16)), FilePath { base: Ino(16), path: Vec::new() });
        assert_eq!(dir.address_of(b"a").path, b"a");
        let snaps = new(InodeId { ino: Ino(16), snap: SnapId::DIR }, dir.address.clone());
        let snap = snaps.address_of(b"yesterday");
        assert_eq!((snap.base, &snap.path[..]), (Ino(16), &b"/yesterday"[..]));
        let snap = new(InodeId { ino: Ino(16), snap: SnapId(4) }, snap);
        assert_eq!(snap.address_of(b"b").path, b"/yesterday/b");
    }

    /// Grants a regular file's data, which a program has open.
    fn grant(clock: Clock<'_>) -> impl FnOnce(&mut Known) {
        let trust = Arc::new(Trust::default());
        trust.extend(1000);
        let caps = Caps::PIN | DATA;
        let reply = ReplyCap { cap_id: CapId(1), caps, wanted: caps, seq: 1, mseq: 0, is_auth: true };
        move |known| {
            known.attrs.mode = mode::REGULAR;
            known.trusts.insert(Rank(0), trust);
            known.with_caps(clock, |caps, view| {
                caps.opened(OpenMode { reads: true, writes: true, is_lazy: false }, view);
                caps.reply_cap(Rank(0), &reply, view);
            });
        }
    }

    /// An event that takes nothing does not keep readers waiting; where something is being taken, it does.
    #[test]
    fn operations_begin_while_an_event_leaves_them_alone() {
        let address = FilePath { base: Ino(16), path: Vec::new() };
        let inode = Inode::new(InodeId::head(Ino(16)), address, true, Names::new(Arc::default()));
        let tids = AtomicU64::new(1);
        let clock = Clock { now: Moment::default(), tids: &tids };
        let mut known = inode.known();
        let begins = |known: &mut Known, grasp| {
            let begun = inode.event(known, clock, grasp, |_, _| None, |_| inode.data.try_begin(false, 0));
            begun.map(|class| inode.data.end(class))
        };
        assert_eq!(begins(&mut known, Grasp::Leaves), None, "nothing is held");
        inode.event(&mut known, clock, Grasp::Takes, |_, _| None, grant(clock));
        assert_eq!(begins(&mut known, Grasp::Leaves), Some(false));
        assert_eq!(begins(&mut known, Grasp::Takes), None);
        assert_eq!(begins(&mut known, Grasp::Leaves), Some(false), "it was published again");
        known.blocked = 1;
        assert_eq!(begins(&mut known, Grasp::Leaves), None, "something is being taken");
        known.blocked = 0;
        assert_eq!(begins(&mut known, Grasp::Leaves), None, "what is published says so still");
        assert_eq!(begins(&mut known, Grasp::Leaves), Some(false));
    }
}
