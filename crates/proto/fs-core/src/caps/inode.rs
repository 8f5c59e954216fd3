//! The state itself, and the events of the client's own operations.

use std::collections::BTreeMap;
use std::time::Duration;

use loligo_types::{Caps, Ino, Rank, Tid};

use super::cap::{Cap, View};
use super::effect::{Effect, Release, Returned};
use super::uses::{Access, Buffer, Cache, Hold, Names, OpenMode, Opens, Running};
use crate::time::Moment;
use crate::word::Busy;

/// How long unused capabilities are kept, in case they are needed again (`client_caps_release_delay`).
pub const RELEASE_DELAY: Duration = Duration::from_secs(5);

/// The reply to [`InodeCaps::acquire`].
#[derive(Debug, PartialEq, Eq)]
pub enum Acquired {
    /// The operation may run.
    Now(Hold),
    /// The operation must wait for [`Effect::Wake`] or for a renewal of the session.
    Wait,
}

/// The capabilities of one inode on a client.
#[derive(Clone, Debug)]
pub struct InodeCaps {
    pub(super) ino: Ino,
    /// Whether the client has a cache: otherwise Fc and Fb are of no use to it.
    has_cache: bool,
    pub(super) caps: BTreeMap<Rank, Cap>,
    /// The rank that has authority over the inode, if its capability is held.
    pub(super) auth: Option<Rank>,
    pub(super) opens: Opens,
    pub(super) running: Running,
    /// Operations that run by the inode's word.
    outside: Busy,
    pub(super) waits_to_read: u32,
    pub(super) waits_to_write: u32,
    pub(super) cache: Cache,
    pub(super) buffer: Buffer,
    pub(super) names: Names,
    /// Whether this client changes the directory's names.
    changes_names: bool,
    /// Changed parts that no message has carried yet.
    pub(super) dirty: Caps,
    /// Changed parts in messages that are not acknowledged.
    pub(super) flushing: BTreeMap<Tid, Caps>,
    /// When unused capabilities go back.
    pub(super) hold_until: Option<Moment>,
    /// Whether the owner asked that changed attributes be sent now.
    pub(super) flush_asked: bool,
    /// Whether the owner asked for a flush of the data that has not begun.
    pub(super) data_flush_asked: bool,
    pub(super) max_size_wanted: u64,
    pub(super) max_size_asked: u64,
    pub(super) effects: Vec<Effect>,
}

impl InodeCaps {
    /// The state of an inode for which the client holds nothing.
    pub fn new(ino: Ino) -> Self {
        Self {
            ino,
            has_cache: true,
            caps: BTreeMap::new(),
            auth: None,
            opens: Opens::default(),
            running: Running::default(),
            outside: Busy::default(),
            waits_to_read: 0,
            waits_to_write: 0,
            cache: Cache::Empty,
            buffer: Buffer::Clean,
            names: Names::None,
            changes_names: false,
            dirty: Caps::NONE,
            flushing: BTreeMap::new(),
            hold_until: None,
            flush_asked: false,
            data_flush_asked: false,
            max_size_wanted: 0,
            max_size_asked: 0,
            effects: Vec::new(),
        }
    }

    /// The same state for a client that caches no data: every operation goes to the store.
    pub fn without_cache(self) -> Self {
        Self { has_cache: false, ..self }
    }

    /// Whether the client has a cache.
    pub fn has_cache(&self) -> bool {
        self.has_cache
    }

    /// The inode.
    pub fn ino(&self) -> Ino {
        self.ino
    }

    /// Takes the effects of all events since the last call.
    pub fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// What all metadata servers together have issued, whether or not it may be trusted now.
    pub fn issued(&self) -> Caps {
        self.caps.values().fold(Caps::NONE, |all, cap| all | cap.issued)
    }

    /// What the client may still be using: what is issued and what is being revoked.
    pub fn implemented(&self) -> Caps {
        self.caps.values().fold(Caps::NONE, |all, cap| all | cap.implemented)
    }

    /// What is being revoked and has not been returned.
    pub fn revoking(&self) -> Caps {
        self.caps.values().fold(Caps::NONE, |all, cap| all | cap.revoking())
    }

    /// The capabilities that an operation may begin to use now.
    pub fn trusted(&self, view: &View<'_>) -> Caps {
        self.caps.iter().fold(Caps::NONE, |all, (rank, cap)| all | cap.trusted(*rank, view))
    }

    /// What one rank has issued.
    pub fn issued_by(&self, rank: Rank) -> Option<Caps> {
        self.caps.get(&rank).map(|cap| cap.issued)
    }

    /// The ranks whose capability is held.
    pub fn ranks(&self) -> impl Iterator<Item = Rank> + '_ {
        self.caps.keys().copied()
    }

    /// The rank that has authority over the inode, as far as is known.
    pub fn auth(&self) -> Option<Rank> {
        self.auth
    }

    /// What the client wants: for open files, for operations, and for what it buffers.
    pub fn wanted(&self) -> Caps {
        let mut wanted = self.opens.wanted() | self.used();
        if self.waits_to_read > 0 {
            wanted |= OpenMode { reads: true, writes: false, is_lazy: false }.wanted();
        }
        if self.waits_to_write > 0 {
            wanted |= OpenMode { reads: false, writes: true, is_lazy: false }.wanted();
        }
        // Without Fx the server takes Fs back before each of this client's own changes.
        if self.names == Names::All && self.changes_names {
            wanted |= Caps::FILE_SHARED | Caps::FILE_EXCL;
        }
        if !self.has_cache {
            wanted -= Caps::FILE_CACHE | Caps::FILE_BUFFER;
        }
        wanted
    }

    /// What operations, the cache and the buffer use now.
    pub fn used(&self) -> Caps {
        let mut used = self.running.used() | self.outside_used();
        if self.cache != Cache::Empty {
            used |= Caps::FILE_CACHE;
        }
        if self.buffer != Buffer::Clean {
            used |= Caps::FILE_BUFFER;
        }
        used
    }

    /// The parts with changes that no metadata server has acknowledged.
    pub fn unacknowledged(&self) -> Caps {
        self.flushing.values().fold(self.dirty, |all, bits| all | *bits)
    }

    /// How often a rank's capability has moved.
    pub fn migrations(&self, rank: Rank) -> Option<u32> {
        self.caps.get(&rank).map(|cap| cap.mseq)
    }

    /// Whether a file is open.
    pub fn is_open(&self) -> bool {
        !self.opens.wanted().is_empty()
    }

    /// Whether operations run that the state has begun.
    pub fn is_running(&self) -> bool {
        !self.running.used().is_empty()
    }

    /// The parts with changes that no message has carried.
    pub fn dirty(&self) -> Caps {
        self.dirty
    }

    /// Whether data was written that the store does not have.
    pub fn has_data(&self) -> bool {
        self.buffer != Buffer::Clean
    }

    /// Whether data has been buffered since the last flush of data began.
    pub fn has_new_data(&self) -> bool {
        matches!(self.buffer, Buffer::Dirty | Buffer::Refilled)
    }

    /// Whether a flush that the owner asked for waits for buffered writes in progress to end.
    pub fn awaits_writes(&self) -> bool {
        self.data_flush_asked || (self.has_new_data() && !self.issued().contains(Caps::FILE_BUFFER))
    }

    /// Whether nothing is being taken: no capability is revoked or void, and nothing waits for the cache or
    /// the buffer. An event that by itself takes nothing then leaves operations what they have.
    pub fn is_settled(&self, view: &View<'_>) -> bool {
        let is_cache_true = match self.cache {
            Cache::Empty => true,
            Cache::Filled => self.issued().contains(Caps::FILE_CACHE),
            Cache::Void | Cache::Dropping => false,
        };
        let is_current = self.caps.iter().all(|(rank, cap)| cap.generation == view.generation(*rank));
        is_cache_true && is_current && self.revoking().is_empty() && !self.awaits_writes()
    }

    /// Whether [`InodeCaps::tick`] has something to wait for.
    pub fn is_resting(&self) -> bool {
        self.hold_until.is_some()
    }

    /// The first flush that is not acknowledged.
    pub fn oldest_flush(&self) -> Option<Tid> {
        self.flushing.keys().next().copied()
    }

    /// Whether the metadata servers have all changes and the store all data.
    pub fn is_clean(&self) -> bool {
        self.unacknowledged().is_empty() && self.buffer == Buffer::Clean
    }

    /// Whether no operation runs or waits, no file is open, and nothing is unsaved.
    pub fn is_idle(&self) -> bool {
        !self.is_needed() && self.is_clean()
    }

    /// Whether a file is open, an operation runs or waits, or data is buffered. A cache alone needs nothing
    /// that would keep others from anything.
    pub(super) fn is_needed(&self) -> bool {
        !(self.running.used() | self.outside_used()).is_empty()
            || self.waits_to_read + self.waits_to_write > 0
            || self.is_open()
            || self.buffer != Buffer::Clean
    }

    /// A file was opened.
    pub fn opened(&mut self, mode: OpenMode, view: &View<'_>) {
        self.opens.add(mode);
        self.check(view);
    }

    /// A file was closed.
    pub fn closed(&mut self, mode: OpenMode, view: &View<'_>) {
        self.opens.remove(mode);
        self.rest(view);
        self.check(view);
    }

    /// An operation that could not begin waits, or no longer waits, for its capabilities.
    pub fn wait(&mut self, access: Access, waits: bool, view: &View<'_>) {
        let count = match access {
            Access::Read => &mut self.waits_to_read,
            Access::Write => &mut self.waits_to_write,
        };
        *count = if waits { *count + 1 } else { count.saturating_sub(1) };
        if !waits {
            self.rest(view);
        }
        self.check(view);
    }

    /// Tries to begin an operation on the file's data.
    ///
    /// It waits while what it needs or wants is being revoked by any rank: otherwise operations that follow
    /// each other could keep a revoke from being answered. One that goes to the store waits for what this
    /// client has buffered, and one that writes there also for the cache to be dropped.
    pub fn acquire(&mut self, access: Access, view: &View<'_>) -> Acquired {
        let trusted = self.trusted(view);
        let asked = access.need() | access.want();
        if !trusted.contains(access.need()) || self.revoking().intersects(asked) {
            return Acquired::Wait;
        }
        let is_local = trusted.contains(access.want()) && self.may_be_local(access);
        if !is_local && !self.may_go_to_the_store(access) {
            self.check(view);
            return Acquired::Wait;
        }
        if is_local && access == Access::Read && self.cache == Cache::Empty {
            self.cache = Cache::Filled;
        }
        let hold = Hold { access, is_local };
        *self.running.count(&hold) += 1;
        Acquired::Now(hold)
    }

    /// Whether the cache or the buffer is in a state in which the operation may use it.
    fn may_be_local(&self, access: Access) -> bool {
        if !self.has_cache {
            return false;
        }
        match access {
            Access::Read => matches!(self.cache, Cache::Empty | Cache::Filled) && !self.writes_to_store(),
            Access::Write => !self.writes_to_store(),
        }
    }

    /// Whether the store has what the operation must see, and what it leaves there is not hidden by the
    /// client's own cache. If not, what stands in the way begins to go.
    fn may_go_to_the_store(&mut self, access: Access) -> bool {
        if self.buffer != Buffer::Clean || self.fills_buffer() {
            self.flush_data();
            return false;
        }
        if access == Access::Write && self.cache != Cache::Empty {
            self.void_cache();
            return false;
        }
        true
    }

    /// Tells which operations run by the inode's word. The owner calls this before each event of a message,
    /// after it has revoked in the word what the message takes, and after a revoke is drained there.
    pub fn outside(&mut self, busy: Busy) {
        let before = std::mem::replace(&mut self.outside, busy);
        let has_ended = before.reads && !busy.reads
            || before.cached_reads && !busy.cached_reads
            || before.writes && !busy.writes
            || before.buffered_writes && !busy.buffered_writes;
        if has_ended {
            self.effects.push(Effect::Wake);
        }
    }

    /// What the word may hold, until the next event. Operations that take references there follow the rules
    /// of [`InodeCaps::acquire`]: with Fc they read the cache, with Fb they write into the buffer, and
    /// nothing is published with which they could miss what this client has buffered or cached.
    pub fn publishable(&mut self, view: &View<'_>) -> Caps {
        let trusted = self.trusted(view) - self.revoking();
        let local = |access: Access| access.need() | access.want();
        let (mut held, mut caches) = (Caps::NONE, false);
        if trusted.contains(local(Access::Write)) && self.may_be_local(Access::Write) {
            held |= local(Access::Write);
        }
        // A write to the store would not reach a cache that is filled at the same time.
        let writes_through = held.is_empty() && trusted.contains(Caps::FILE_WR);
        if trusted.contains(local(Access::Read)) && self.may_be_local(Access::Read) && !writes_through {
            held |= local(Access::Read);
            caches = true;
        }
        let is_in_store = self.buffer == Buffer::Clean && !self.fills_buffer();
        if writes_through && is_in_store && self.cache == Cache::Empty {
            held |= Caps::FILE_WR;
        }
        // With Fb a read must look at the buffer, which only the cache does.
        if trusted.contains(Caps::FILE_RD) && is_in_store && !held.contains(Caps::FILE_BUFFER) {
            held |= Caps::FILE_RD;
        }
        if caches && self.cache == Cache::Empty {
            self.cache = Cache::Filled;
        }
        held
    }

    fn outside_used(&self) -> Caps {
        let Busy { reads, cached_reads, writes, buffered_writes } = self.outside;
        let running = Running {
            reads: reads.into(),
            cached_reads: cached_reads.into(),
            writes: writes.into(),
            buffered_writes: buffered_writes.into(),
        };
        running.used()
    }

    fn reads_cache(&self) -> bool {
        self.running.cached_reads > 0 || self.outside.cached_reads
    }

    fn writes_to_store(&self) -> bool {
        self.running.writes > 0 || self.outside.writes
    }

    fn fills_buffer(&self) -> bool {
        self.running.buffered_writes > 0 || self.outside.buffered_writes
    }

    /// An operation has ended.
    pub fn put(&mut self, hold: &Hold, view: &View<'_>) {
        let count = self.running.count(hold);
        *count = count.saturating_sub(1);
        self.effects.push(Effect::Wake);
        self.rest(view);
        self.check(view);
    }

    /// A buffered write has put data into the buffer; its operation is still counted.
    pub fn buffered(&mut self) {
        self.buffer.fill();
    }

    /// All data that was buffered when [`Effect::FlushData`] was taken is in the store. There may have been
    /// none: data that came between the effect and its taking is flushed by it, and counted after it.
    pub fn data_flushed(&mut self, view: &View<'_>) {
        self.buffer.flushed();
        self.data_flush_asked &= self.buffer != Buffer::Clean;
        self.rest_with_spare(view);
        self.effects.push(Effect::Wake);
        self.check(view);
    }

    /// The cached data has been dropped.
    pub fn cache_dropped(&mut self, view: &View<'_>) {
        self.cache = Cache::Empty;
        self.effects.push(Effect::Wake);
        self.check(view);
    }

    /// Asks that buffered data be written to the store and changes be sent, as `fsync` does.
    pub fn flush(&mut self, view: &View<'_>) {
        self.flush_asked = !self.dirty.is_empty();
        self.data_flush_asked = matches!(self.buffer, Buffer::Dirty | Buffer::Refilled);
        self.check(view);
    }

    /// The client has changed attributes locally. Returns false, and notes nothing, if it has no exclusive
    /// capability for them: the change must be a request then.
    pub fn changed(&mut self, parts: Caps, view: &View<'_>) -> bool {
        let usable = self.trusted(view) | self.running.used() | self.outside_used();
        let file = Caps::FILE_EXCL | Caps::FILE_WR;
        let may_file = !parts.intersects(file) || usable.intersects(file);
        let may_rest = usable.contains((parts - file) & (Caps::AUTH_EXCL | Caps::XATTR_EXCL));
        if !may_file || !may_rest {
            return false;
        }
        // Of Fx and Fw either covers the file's size and times: the change goes with one that is held.
        let named = parts & usable & file;
        let covering = if named.is_empty() && parts.intersects(file) { usable & file } else { named };
        self.dirty |= covering | parts & (Caps::AUTH_EXCL | Caps::XATTR_EXCL);
        self.rest(view);
        self.check(view);
        true
    }

    /// A write would end beyond the size that the metadata server permits.
    pub fn want_max_size(&mut self, size: u64, view: &View<'_>) {
        self.max_size_wanted = self.max_size_wanted.max(size);
        self.check(view);
    }

    /// The metadata server permits sizes up to this one.
    pub fn max_size_granted(&mut self, size: u64) {
        if size >= self.max_size_wanted {
            self.max_size_wanted = 0;
        }
        self.max_size_asked = 0;
        self.effects.push(Effect::Wake);
    }

    /// The owner remembers a name of the directory for which Fs vouches.
    pub fn named(&mut self) {
        if self.names == Names::None {
            self.names = Names::Some;
        }
    }

    /// The owner remembers all names of the directory. Returns false, and notes nothing, without Fs.
    pub fn completed(&mut self, view: &View<'_>) -> bool {
        if !self.trusted(view).contains(Caps::FILE_SHARED) {
            return false;
        }
        self.names = Names::All;
        self.check(view);
        true
    }

    /// Whether the owner remembers all names of the directory, and may trust in that.
    pub fn is_complete(&self, view: &View<'_>) -> bool {
        self.names == Names::All && self.trusted(view).contains(Caps::FILE_SHARED)
    }

    /// The owner has forgotten a name of the directory that may exist.
    pub fn incomplete(&mut self) {
        if self.names == Names::All {
            self.names = Names::Some;
        }
    }

    /// Nothing vouches any more for the names that the owner remembers.
    pub(super) fn forget_names(&mut self) {
        if std::mem::take(&mut self.names) != Names::None {
            self.effects.push(Effect::ForgetNames);
        }
    }

    /// Whether this client changes the directory's names.
    pub fn changes_names(&self) -> bool {
        self.changes_names
    }

    /// This client has changed the directory's names, and may do so again: while the owner remembers all of
    /// them, the client wants to have the directory for itself, unless others want that, too.
    pub fn change_names(&mut self, view: &View<'_>) {
        self.changes_names = true;
        self.check(view);
    }

    /// Time has passed: capabilities that were unused for [`RELEASE_DELAY`] go back. Returns when to call
    /// again.
    pub fn tick(&mut self, view: &View<'_>) -> Option<Moment> {
        if self.hold_until.is_some_and(|until| view.now >= until) {
            self.hold_until = None;
            self.give_back(view);
        }
        self.hold_until
    }

    /// Gives everything back, if the inode is idle; returns whether it did. A cache is dropped first: the
    /// caller tries again afterwards.
    pub fn release(&mut self) -> bool {
        if !self.is_idle() {
            return false;
        }
        if self.cache != Cache::Empty {
            self.void_cache();
            return false;
        }
        for (rank, cap) in std::mem::take(&mut self.caps) {
            let Cap { id: cap_id, mseq, issue_seq, .. } = cap;
            self.effects.push(Effect::SendRelease(Release { rank, cap_id, mseq, issue_seq }));
        }
        self.auth = None;
        self.forget_names();
        self.hold_until = None;
        true
    }

    /// A request is about to make a rank want `parts`: what is unused of them goes back with it, so that the
    /// rank need not ask first. Nothing goes if the rank has issued one of `unless`: it permits the change
    /// without. Returns what the request tells of the capability, if one is held.
    ///
    /// The request must be queued at once, and not be sent to another rank with this.
    pub fn give_with_request(
        &mut self,
        rank: Rank,
        parts: Caps,
        unless: Caps,
        view: &View<'_>,
    ) -> Option<Returned> {
        self.refresh(rank, view);
        let unused = parts - self.busy(rank);
        let cap = self.caps.get_mut(&rank)?;
        let given = if cap.issued.intersects(unless) { Caps::NONE } else { cap.issued & unused };
        cap.issued -= given;
        cap.implemented -= given;
        let Cap { id: cap_id, told: wanted, implemented: caps, seq, issue_seq, mseq, .. } = *cap;
        if !given.is_empty() {
            self.check(view);
        }
        Some(Returned { cap_id, caps, wanted, seq, issue_seq, mseq, given })
    }

    /// Something is no longer used: the delay begins, unless it has.
    fn rest(&mut self, view: &View<'_>) {
        self.hold_until.get_or_insert(view.now + RELEASE_DELAY);
    }

    /// What lets this client change a file goes back after the delay if nothing uses it by then: servers
    /// issue it with the file that a client has made, and others would have to wait for it.
    pub(super) fn rest_with_spare(&mut self, view: &View<'_>) {
        let spare = self.issued() - self.wanted();
        if spare.intersects(Caps::FILE_WR | Caps::FILE_BUFFER) {
            self.rest(view);
        }
    }

    /// The cached data must not be used any more.
    pub(super) fn void_cache(&mut self) {
        if self.cache == Cache::Filled {
            self.cache = Cache::Void;
        }
        if self.cache == Cache::Void && !self.reads_cache() {
            self.cache = Cache::Dropping;
            self.effects.push(Effect::DropCache);
        }
    }

    pub(super) fn flush_data(&mut self) {
        if self.buffer == Buffer::Dirty && !self.fills_buffer() {
            self.buffer = Buffer::Flushing;
            self.data_flush_asked = false;
            self.effects.push(Effect::FlushData);
        }
    }
}
