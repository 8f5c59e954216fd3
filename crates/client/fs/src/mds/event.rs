//! Events on an inode's capabilities: run under its lock, and what they ask for is carried out without it.

use std::sync::Arc;
use std::time::Duration;

use az::SaturatingAs as _;
use bytes::Bytes;
use loligo_fs_core::Moment;
use loligo_fs_core::caps::{Effect, Release, Update};
use loligo_fs_core::realm;
use loligo_layout::ObjectNo;
use loligo_rados::Errno;
use loligo_wire::message::Msg;
use loligo_wire::message::mds::{CapFile, CapOp, CapRelease, ClientCaps, Xattrs};
use loligo_wire::{Caps, Encode as _, Rank, SnapContext, Tid};
use tokio::time::timeout;

use crate::core::Core;
use crate::data::Objects;
use crate::error::Error;
use crate::inode::{Attrs, Clock, Grasp, Inode, Known};
use crate::session::Session;
use crate::sink::{Invalidation, WhenDone};

/// The bytes of a block of the cache.
const CACHE_BLOCK: u64 = 4096;
/// How long a server waits at most for a cache above this client: that one may itself wait for a server, in
/// ways that cannot be seen from here.
const ABOVE_MAX: Duration = Duration::from_secs(1);

/// What an event leaves to be done without the inode's lock.
#[derive(Default)]
struct Todo {
    sessions: Vec<Arc<Session>>,
    releases: Vec<Release>,
    /// Data is written to the store: for the capabilities' state, or for that of snapshots.
    flushes: bool,
    flushes_snaps: bool,
    /// Cached data is dropped: all of it, or what lies behind an end.
    drops: bool,
    cut: Option<u64>,
    /// Data is lost, since nobody may write it any more.
    loses: bool,
    wakes: bool,
}

impl Todo {
    /// Returns `true` if operations must wait from the start. Where the cache is only dropped, they go to the
    /// store until then.
    fn blocks(&self) -> bool {
        self.loses || self.cut.is_some()
    }
}

impl Core {
    /// Runs an event on what is known of an inode. Messages leave in the order of the events.
    pub(crate) fn event<T>(&self, inode: &Arc<Inode>, run: impl FnOnce(&mut Known, Clock<'_>) -> T) -> T {
        self.run_event(inode, Grasp::Takes, run)
    }

    /// Runs an event that takes nothing from operations on the inode's data: reads go on meanwhile.
    pub(crate) fn note(&self, inode: &Arc<Inode>, run: impl FnOnce(&mut Known, Clock<'_>)) {
        self.run_event(inode, Grasp::Leaves, run);
    }

    fn run_event<T>(
        &self,
        inode: &Arc<Inode>,
        grasp: Grasp,
        run: impl FnOnce(&mut Known, Clock<'_>) -> T,
    ) -> T {
        let clock = self.clock();
        let objects = |known: &Known, context: &SnapContext| self.objects(inode, known, context).ok();
        let (result, todo) = {
            let mut known = inode.known();
            let result = inode.event(&mut known, clock, grasp, objects, |known| {
                let result = run(known, clock);
                self.follow_context(known, clock);
                result
            });
            let todo = self.take_effects(inode, &mut known);
            if todo.blocks() {
                // Nothing is read or written until it is done.
                known.blocked += 1;
                inode.event(&mut known, clock, Grasp::Takes, objects, |_| ());
            }
            (result, todo)
        };
        self.carry_out(inode, todo);
        result
    }

    pub(crate) fn clock(&self) -> Clock<'_> {
        Clock { now: Moment(Duration::from_millis(self.now_ms())), tids: self.flush_tids() }
    }

    /// Returns the objects of a file as its attributes are now.
    pub(crate) fn objects(
        &self,
        inode: &Inode,
        known: &Known,
        context: &SnapContext,
    ) -> Result<Objects, Error> {
        let io = self.rados.ioctx_by_id(known.attrs.layout.pool);
        Objects::new(&io, inode.id.ino, &known.attrs, context)
    }

    /// Looks at the state again: something that it waited for may have ended.
    pub(crate) fn look(&self, inode: &Arc<Inode>) {
        self.event(inode, |known, clock| known.with_caps(clock, |caps, view| caps.check(view)));
    }

    /// Sends changed attributes, after the data that they belong to.
    pub(crate) fn flush(&self, inode: &Arc<Inode>) {
        self.event(inode, |known, clock| known.with_caps(clock, |caps, view| caps.flush(view)));
    }

    /// Takes the context of the inode's realm over. If it has a new snapshot, what is not durable belongs
    /// into the snapshot, and is kept apart from what comes later.
    fn follow_context(&self, known: &mut Known, clock: Clock<'_>) {
        let Some(realm) = known.moved_to.take() else { return };
        known.realm = realm;
        let new = self.realms.context(realm);
        let old = std::mem::replace(&mut known.context, new);
        if known.context.newest() > old.seq && known.caps.auth().is_some() {
            let used = known.caps.used();
            let before = realm::Before {
                dirty: known.caps.dirty(),
                issued: known.caps.issued(),
                is_writing: used.contains(Caps::FILE_WR),
                has_data: known.caps.has_data(),
            };
            known.snaps.snapshot(&old, before, &|| clock.flush_tid());
        }
    }

    /// Takes out what the states ask for. Messages are queued here, under the inode's lock.
    fn take_effects(&self, inode: &Inode, known: &mut Known) -> Todo {
        let mut todo = Todo {
            cut: known.cut.take().filter(|_| inode.cached.get().is_some() || self.is_watched()),
            ..Todo::default()
        };
        for effect in known.snaps.take_effects() {
            match effect {
                realm::Effect::KeepAttrs(follows) => {
                    let attrs = known.attrs.clone();
                    known.kept.insert(follows, attrs);
                }
                realm::Effect::FlushData(_) => todo.flushes_snaps = true,
                realm::Effect::Send(flush) => self.queue_snap(inode, known, &flush, &mut todo),
                realm::Effect::Wake => todo.wakes = true,
                realm::Effect::Forget(follows) => {
                    known.kept.remove(&follows);
                }
            }
        }
        for effect in known.caps.take_effects() {
            match effect {
                Effect::SendUpdate(update) => {
                    if let Some(tid) = update.flush_tid {
                        known.covered = (known.changes, tid);
                    }
                    let msg = self.update(inode, known, &update);
                    self.queue(update.rank, msg, &mut todo);
                }
                Effect::SendRelease(release) => todo.releases.push(release),
                Effect::DropCache => todo.drops = true,
                Effect::FlushData => todo.flushes = true,
                Effect::ForgetNames => known.forget_held_names(),
                Effect::Wake => todo.wakes = true,
                Effect::Lost(lost) => {
                    known.failures.note(Errno::EIO);
                    todo.loses |= lost.has_data;
                }
            }
        }
        todo
    }

    fn queue(&self, rank: Rank, msg: Msg, todo: &mut Todo) {
        let Some(session) = self.session_of(rank) else { return };
        session.queue(msg);
        if !todo.sessions.iter().any(|known| Arc::ptr_eq(known, &session)) {
            todo.sessions.push(session);
        }
    }

    fn queue_snap(&self, inode: &Inode, known: &Known, flush: &realm::FlushSnap, todo: &mut Todo) {
        let Some(rank) = known.caps.auth() else { return };
        let attrs = known.kept.get(&flush.follows).unwrap_or(&known.attrs);
        let body = ClientCaps {
            op: CapOp::FlushSnap,
            realm: known.realm,
            mseq: known.caps.migrations(rank).unwrap_or_default(),
            caps: flush.issued,
            dirty: flush.dirty,
            snap_follows: flush.follows,
            ..self.body(inode, attrs, flush.dirty)
        };
        self.queue(rank, Msg::new(&body).with_tid(flush.tid), todo);
    }

    /// Builds a message about a capability.
    fn update(&self, inode: &Inode, known: &Known, update: &Update) -> Msg {
        let snaps = &known.snaps;
        let flags = match (snaps.is_pending(), snaps.is_empty()) {
            (true, _) => ClientCaps::PENDING_CAPSNAP,
            (false, true) => ClientCaps::NO_CAPSNAP,
            (false, false) => 0,
        };
        let mut body = ClientCaps {
            op: CapOp::Update,
            cap_id: update.cap_id,
            seq: update.seq,
            issue_seq: update.issue_seq,
            mseq: update.mseq,
            caps: update.caps,
            wanted: update.wanted,
            dirty: update.dirty,
            snap_follows: known.context.seq,
            oldest_flush_tid: known.caps.oldest_flush().unwrap_or_default(),
            flags: flags | if update.is_urgent { ClientCaps::SYNC } else { 0 },
            ..self.body(inode, &known.attrs, update.dirty)
        };
        body.file.max_size = update.max_size;
        Msg::new(&body).with_tid(update.flush_tid.unwrap_or(Tid(0)))
    }

    /// Fills a message with attributes.
    fn body(&self, inode: &Inode, attrs: &Attrs, dirty: Caps) -> ClientCaps {
        let flushes_xattrs = dirty.contains(Caps::XATTR_EXCL);
        ClientCaps {
            ino: inode.id.ino,
            uid: attrs.uid,
            gid: attrs.gid,
            mode: attrs.mode,
            nlink: attrs.nlink,
            xattr_version: attrs.xattr_version,
            xattrs: if flushes_xattrs { Xattrs::to_bytes(&attrs.xattrs) } else { Bytes::new() },
            file: CapFile {
                size: attrs.size,
                max_size: 0,
                truncate_size: attrs.truncate_size,
                truncate_seq: attrs.truncate_seq,
                mtime: attrs.mtime,
                atime: attrs.atime,
                ctime: attrs.ctime,
                layout: attrs.layout,
                time_warp_seq: attrs.time_warp_seq,
            },
            pool_ns: attrs.pool_ns.clone(),
            btime: attrs.btime,
            change_attr: attrs.change_attr,
            osd_epoch_barrier: self.barrier.epoch(),
            caller_uid: self.options.uid,
            caller_gid: self.options.gid,
            ..ClientCaps::default()
        }
    }

    /// Does what an event has left to be done.
    fn carry_out(&self, inode: &Arc<Inode>, mut todo: Todo) {
        std::mem::take(&mut todo.sessions).iter().for_each(|session| session.run());
        for Release { rank, cap_id, mseq, issue_seq } in std::mem::take(&mut todo.releases) {
            if let Some(session) = self.session_of(rank) {
                session.release(CapRelease { ino: inode.id.ino, cap_id, mseq, issue_seq });
            }
        }
        if todo.wakes {
            inode.changed.notify_waiters();
        }
        if todo.flushes {
            self.beside(inode, |core, inode| async move {
                core.store_data(&inode).await;
                core.note(&inode, |known, clock| {
                    known.with_caps(clock, |caps, view| caps.data_flushed(view));
                });
            });
        }
        if todo.flushes_snaps {
            self.beside(inode, |core, inode| async move {
                core.store_data(&inode).await;
                core.event(&inode, |known, clock| known.snaps.data_flushed(&|| clock.flush_tid()));
            });
        }
        if todo.blocks() {
            // At once: whoever is told the new attributes next finds the data gone. Nobody waits for it,
            // since its end may have to wait for operations that wait for this.
            let data = if todo.loses || todo.drops { 0 } else { todo.cut.unwrap_or(0) }..u64::MAX;
            self.invalidate(Invalidation::Data(inode.id.into(), data, WhenDone::nothing()));
        }
        if todo.drops || todo.blocks() {
            self.beside(inode, move |core, inode| async move { core.drop_data(&inode, &todo).await });
        }
    }

    /// Runs a task for an inode, as long as the mount is there.
    fn beside<F: Future<Output = ()> + Send + 'static>(
        &self,
        inode: &Arc<Inode>,
        task: impl FnOnce(Arc<Self>, Arc<Inode>) -> F,
    ) {
        if let Some(core) = self.me.upgrade() {
            self.runtime.spawn(task(core, Arc::clone(inode)));
        }
    }

    /// Brings the cached data of a file to the store. What the store refuses is lost: the files that are open
    /// hear of it from the cache.
    async fn store_data(&self, inode: &Inode) {
        let Some(cached) = inode.cached.get() else { return };
        if cached.write_back().await.is_err() {
            cached.discard_all().await;
        }
    }

    /// Drops cached data, once no operation uses it.
    async fn drop_data(&self, inode: &Arc<Inode>, todo: &Todo) {
        if !todo.blocks() {
            self.forgotten_above(inode).await;
            self.event(inode, |known, _| known.blocked += 1);
        }
        self.operations_end(inode).await;
        if let Some(cached) = inode.cached.get() {
            match todo.cut {
                _ if todo.loses => cached.discard_all().await,
                _ if todo.drops => {
                    self.store_data(inode).await;
                    cached.discard_all().await;
                }
                Some(end) => self.cut_data(inode, end).await,
                None => {}
            }
        }
        let is_leaving = self.event(inode, |known, clock| {
            known.blocked = known.blocked.saturating_sub(1);
            if todo.drops {
                known.with_caps(clock, |caps, view| caps.cache_dropped(view));
            }
            known.is_leaving
        });
        inode.changed.notify_waiters();
        if is_leaving {
            self.forget(inode);
        }
    }

    /// Waits until a cache above this client has forgotten a file's data.
    async fn forgotten_above(&self, inode: &Inode) {
        if self.is_watched() {
            let (done, is_done) = tokio::sync::oneshot::channel::<()>();
            let when = WhenDone::new(move || drop(done));
            self.invalidate(Invalidation::Data(inode.id.into(), 0..u64::MAX, when));
            // Dropped when all has been forgotten.
            let _ = timeout(ABOVE_MAX, is_done).await;
        }
    }

    /// Drops the cached data behind a file's new end.
    async fn cut_data(&self, inode: &Inode, end: u64) {
        let Some(cached) = inode.cached.get() else { return };
        let view = inode.data.data_view();
        let Some(layout) = view.as_ref().and_then(|view| view.objects.as_ref()).map(Objects::layout) else {
            return cached.discard_all().await;
        };
        let is_dirty = inode.known().caps.has_data();
        for object in cached.objects() {
            let from = layout.object_len(ObjectNo(object), end);
            let rest = from.next_multiple_of(CACHE_BLOCK) - from;
            // The block at the end is written whole, if it is dirty: what is cut off must not come back.
            let zeros = match is_dirty && rest > 0 {
                true => cached.write(object, from, &vec![0; rest.saturating_as::<usize>()]).await,
                false => Ok(()),
            };
            if zeros.is_err() || cached.discard(object, from, u64::MAX).await.is_err() {
                return cached.discard_all().await;
            }
        }
    }

    /// Waits until no operation is in progress. None begins: the inode is blocked.
    async fn operations_end(&self, inode: &Inode) {
        loop {
            let changed = inode.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if !inode.known().is_in_use(&inode.data) || self.has_ended() {
                return;
            }
            changed.await;
        }
    }
}
