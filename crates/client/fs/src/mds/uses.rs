//! The right to read or to write a file's data, for the time of one operation.

use std::sync::Arc;

use loligo_fs_core::caps::{Access, Acquired, Hold};
use loligo_fs_core::word::Class;
use loligo_rados::Errno;
use loligo_wire::message::mds::{OpenArgs, RequestOp};
use loligo_wire::{Caps, Rank};

use crate::core::Core;
use crate::error::Error;
use crate::inode::{DataView, Inode};
use crate::session::Request;

/// The right to read or to write a file's data, for the time of one operation.
pub(crate) struct Use<'c> {
    core: &'c Core,
    inode: &'c Arc<Inode>,
    held: Held,
    /// How the data is reached.
    pub(crate) view: Arc<DataView>,
}

/// What the right is counted in: the inode's word, without a lock, or its state.
enum Held {
    Word(Class),
    State(Hold),
}

impl Use<'_> {
    /// Returns `true` if the data may be in the client's cache.
    pub(crate) fn is_cached(&self) -> bool {
        match &self.held {
            Held::Word(class) => matches!(class, Class::CachedRead | Class::BufferedWrite),
            Held::State(hold) => hold.is_local(),
        }
    }
}

impl Drop for Use<'_> {
    fn drop(&mut self) {
        match &self.held {
            Held::Word(class) => {
                // A revoke may have waited for it.
                if self.inode.data.end(*class) {
                    self.core.look(self.inode);
                }
            }
            Held::State(hold) => self.core.event(self.inode, |known, clock| {
                known.with_caps(clock, |caps, view| caps.put(hold, view));
            }),
        }
    }
}

/// An operation that waits, as the server hears of it.
struct Waiting<'c> {
    core: &'c Core,
    inode: &'c Arc<Inode>,
    access: Access,
}

impl<'c> Waiting<'c> {
    fn new(core: &'c Core, inode: &'c Arc<Inode>, access: Access) -> Self {
        core.event(inode, |known, clock| known.with_caps(clock, |caps, view| caps.wait(access, true, view)));
        Self { core, inode, access }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let access = self.access;
        self.core.event(self.inode, |known, clock| {
            known.with_caps(clock, |caps, view| caps.wait(access, false, view));
        });
    }
}

/// What an attempt to begin an operation has come to.
enum Attempt {
    Begun(Hold),
    /// It must wait, for the server that decides, if there is one.
    Waits(Option<Rank>),
}

impl Core {
    /// Begins to read or to write a file's data if nothing stands in the way, without a lock.
    pub(crate) fn try_acquire<'c>(
        &'c self,
        inode: &'c Arc<Inode>,
        access: Access,
        end: Option<u64>,
    ) -> Option<Use<'c>> {
        if self.barrier.is_up() || end.is_some_and(|end| !inode.data.has_room(end)) {
            return None;
        }
        let class = inode.data.try_begin(access == Access::Write, self.now_ms())?;
        // The view is at least as new as the reference.
        match inode.data.data_view() {
            Some(view) => Some(Use { core: self, inode, held: Held::Word(class), view }),
            None => {
                if inode.data.end(class) {
                    self.look(inode);
                }
                None
            }
        }
    }

    /// Waits until this client may read or write a file's data, and, for a write, up to `end`.
    ///
    /// # Errors
    /// The mount has ended, or the server gives nothing after its session was lost; EROFS for a write if the
    /// server permits no changes.
    pub(crate) async fn acquire<'c>(
        &'c self,
        inode: &'c Arc<Inode>,
        access: Access,
        end: Option<u64>,
    ) -> Result<Use<'c>, Error> {
        if self.has_ended() {
            return Err(Error::Unmounted);
        }
        if let Some(begun) = self.try_acquire(inode, access, end) {
            return Ok(begun);
        }
        self.pass_barrier().await?;
        let mut waiting = None;
        loop {
            let changed = inode.changed.notified();
            tokio::pin!(changed);
            // Enlisted before the check, so that a change between the two is not missed.
            changed.as_mut().enable();
            if self.has_ended() {
                return Err(Error::Unmounted);
            }
            let auth = match self.attempt(inode, access, end) {
                Attempt::Begun(hold) => {
                    let held = Held::State(hold);
                    match inode.data.data_view() {
                        Some(view) => return Ok(Use { core: self, inode, held, view }),
                        None => return Err(self.not_a_file(inode, held)),
                    }
                }
                Attempt::Waits(auth) => auth,
            };
            let Some(auth) = auth else {
                // The session in which the file was opened is lost.
                self.open_again(inode).await?;
                continue;
            };
            if access == Access::Write && self.is_read_only(auth) {
                return Err(Errno::EROFS.into());
            }
            if self.is_over(auth) {
                self.event(inode, |known, clock| {
                    known.with_caps(clock, |caps, view| caps.lost(auth, view));
                });
                continue;
            }
            if waiting.is_none() {
                waiting = Some((Waiting::new(self, inode, access), self.waits_for_server(auth)));
                // What the server grants meanwhile is not missed.
                continue;
            }
            changed.await;
        }
    }

    fn attempt(&self, inode: &Arc<Inode>, access: Access, end: Option<u64>) -> Attempt {
        self.event(inode, |known, clock| {
            let auth = known.caps.auth();
            if known.is_blocked(access == Access::Write) {
                return Attempt::Waits(auth);
            }
            if let Some(end) = end.filter(|end| *end > known.attrs.max_size) {
                known.with_caps(clock, |caps, view| caps.want_max_size(end, view));
                return Attempt::Waits(auth);
            }
            match known.with_caps(clock, |caps, view| caps.acquire(access, view)) {
                Acquired::Now(hold) => Attempt::Begun(hold),
                Acquired::Wait => Attempt::Waits(auth),
            }
        })
    }

    /// A capability without a file's data: only a broken server grants one.
    fn not_a_file(&self, inode: &Arc<Inode>, held: Held) -> Error {
        if let Held::State(hold) = held {
            self.event(inode, |known, clock| {
                known.with_caps(clock, |caps, view| caps.put(&hold, view));
            });
        }
        Errno::EINVAL.into()
    }

    /// Returns `true` if a server permits no changes, because it cannot make them durable.
    fn is_read_only(&self, rank: Rank) -> bool {
        self.session_of(rank).is_some_and(|session| session.state().is_read_only)
    }

    /// Returns `true` if the session with a server has ended, and no other one follows it.
    fn is_over(&self, rank: Rank) -> bool {
        self.session_of(rank).is_none_or(|session| session.ended().is_some())
    }

    /// Opens a file in a new session, so that the server grants what the open files need.
    async fn open_again(&self, inode: &Arc<Inode>) -> Result<(), Error> {
        let writes = inode.known().caps.wanted().contains(Caps::FILE_WR);
        let flags = if writes { OpenArgs::RDWR } else { 0 };
        let args = OpenArgs { flags, mask: Caps::STAT, pool: -1, ..OpenArgs::default() };
        self.call(Request::about(inode, RequestOp::Open(args))).await.map(drop)
    }
}
