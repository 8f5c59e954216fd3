//! Answers that clients have not read yet: how many bytes of them one connection and all together have.
//!
//! A request of a hundred bytes may ask for a hundred megabytes, so the bounds on what is read from clients
//! say nothing of what their answers take. Only answers of [`COUNTED_FROM`] bytes and more are counted: the
//! small ones are bounded by the number of requests and by the connection's out-queue. At the bound nothing
//! more is read from the connection, and what was read of it already is executed when its client has taken
//! some of its answers. A client that takes nothing, while somebody waits, for [`SILENCE_MAX`] loses its
//! connection.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use loligo_lockstat::{Class, Mutex};
use loligo_msgr::{Hold, Watcher};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::Asker;
use crate::group::Group;
use crate::hands::Hands;
use crate::made::Permit;

/// Answers of fewer bytes are not counted.
pub(crate) const COUNTED_FROM: u64 = 64 << 10;
/// Bytes that one connection may have outstanding; its last answer may go beyond.
const CONNECTION_MAX: u64 = 64 << 20;
/// Bytes that all connections may have outstanding; each may have one answer beyond.
const ALL_MAX: u64 = 512 << 20;
/// How long a client may take none of its answers while somebody waits for room.
const SILENCE_MAX: Duration = Duration::from_secs(10);

/// Held to add a connection, or to look at all of them when one has waited long.
static LISTED: Class = Class::new("osd.unread_connections");
/// Held to add a placement group in which requests wait, or to take all out.
static PARKED: Class = Class::new("osd.unread_parked");

/// What all connections have outstanding.
pub(crate) struct Unread {
    bytes: AtomicU64,
    /// What requests make that wait and whose answers are small. It counts for their connections alone.
    pending: AtomicU64,
    listed: Mutex<Vec<Listed>>,
    hands: Arc<Hands>,
}

/// What one connection has outstanding.
pub(crate) struct Account {
    bytes: AtomicU64,
    /// Of these, what was left to the connection and depends on nothing but its client.
    handed: AtomicU64,
    is_listed: AtomicBool,
    /// There may be room.
    room: Notify,
    /// Placement groups in which requests of the connection wait for room.
    parked: Mutex<Vec<Weak<dyn Group>>>,
}

/// A connection that had counted answers, and when it was last seen to take some.
struct Listed {
    asker: Weak<dyn Asker>,
    account: Arc<Account>,
    written: u64,
    since: Instant,
}

impl Default for Account {
    fn default() -> Self {
        Self {
            bytes: AtomicU64::new(0),
            handed: AtomicU64::new(0),
            is_listed: AtomicBool::new(false),
            room: Notify::new(),
            parked: Mutex::new(&PARKED, Vec::new()),
        }
    }
}

impl Unread {
    pub(crate) fn new(hands: Arc<Hands>) -> Arc<Self> {
        Arc::new(Self {
            bytes: AtomicU64::new(0),
            pending: AtomicU64::new(0),
            listed: Mutex::new(&LISTED, Vec::new()),
            hands,
        })
    }

    /// Whether some connection may have no room: a look at two numbers.
    #[inline]
    pub(crate) fn may_be_crowded(&self) -> bool {
        // Relaxed: whoever is let go on is one request late at most.
        self.bytes.load(Ordering::Relaxed) + self.pending.load(Ordering::Relaxed) >= CONNECTION_MAX
    }

    /// Whether a connection must take answers before it gets more.
    pub(crate) fn is_over(&self, account: &Account) -> bool {
        let own = account.bytes.load(Ordering::SeqCst);
        own >= CONNECTION_MAX || (own > 0 && self.bytes.load(Ordering::SeqCst) >= ALL_MAX)
    }

    /// Counts what a request takes until the share is dropped: its answer, or (`is_answer` is false) what it
    /// makes while it waits. `share` is what it was counted with before. Never refuses: requests that may
    /// take much wait before they are executed.
    pub(crate) fn count(
        self: &Arc<Self>,
        asker: &Arc<dyn Asker>,
        share: Option<Share>,
        bytes: u64,
        is_answer: bool,
    ) -> Option<Share> {
        if bytes < COUNTED_FROM {
            return None;
        }
        if let Some(mut share) = share {
            share.resize(bytes);
            return Some(share);
        }
        let account = asker.account()?;
        self.list(asker, &account);
        let mut share = Share { unread: Arc::clone(self), account, bytes: 0, is_handed: false, is_answer };
        share.resize(bytes);
        Some(share)
    }

    fn list(&self, asker: &Arc<dyn Asker>, account: &Arc<Account>) {
        if account.is_listed.swap(true, Ordering::Relaxed) {
            return;
        }
        let (account, asker) = (Arc::clone(account), Arc::downgrade(asker));
        let new = Listed { asker, account, written: 0, since: Instant::now() };
        let mut listed = self.listed.lock();
        let (kept, gone) = listed.drain(..).partition(|other| other.asker.strong_count() > 0);
        *listed = kept;
        listed.push(new);
        drop(listed);
        let gone: Vec<Listed> = gone;
        drop(gone);
    }

    /// Waits until a connection has room; `None` if it has some.
    pub(crate) fn room(
        self: &Arc<Self>,
        account: &Arc<Account>,
    ) -> Option<Pin<Box<dyn Future<Output = ()> + Send>>> {
        if !self.is_over(account) {
            return None;
        }
        let (unread, account) = (Arc::clone(self), Arc::clone(account));
        Some(Box::pin(async move {
            loop {
                let room = account.room.notified();
                tokio::pin!(room);
                // Enlisted before the look, so that room that is made between the two is not missed.
                room.as_mut().enable();
                if !unread.is_over(&account) {
                    return;
                }
                if tokio::time::timeout(SILENCE_MAX / 4, room).await.is_err() {
                    unread.give_up_silent(Instant::now());
                }
            }
        }))
    }

    /// Has a placement group told when a connection has room; true if it has some already.
    pub(crate) fn park(&self, account: &Account, group: Weak<dyn Group>) -> bool {
        let mut parked = account.parked.lock();
        if !parked.iter().any(|known| std::ptr::addr_eq(known.as_ptr(), group.as_ptr())) {
            parked.push(group);
        }
        drop(parked);
        !self.is_over(account)
    }

    /// Ends the connections whose clients have taken nothing for long.
    fn give_up_silent(&self, now: Instant) {
        let mut askers = Vec::new();
        let mut silent = Vec::new();
        let mut listed = self.listed.lock();
        for one in listed.iter_mut() {
            let Some(asker) = one.asker.upgrade() else { continue };
            let written = asker.written();
            if written != one.written || one.account.handed.load(Ordering::Relaxed) == 0 {
                (one.written, one.since) = (written, now);
            } else if now.duration_since(one.since) >= SILENCE_MAX {
                silent.push(Arc::clone(&asker));
            }
            // To be dropped without the lock, in case that it is the last.
            askers.push(asker);
        }
        drop(listed);
        silent.iter().for_each(|asker| asker.give_up());
    }

    /// Tells those who wait, if what was given back can have made room.
    fn eased(&self, account: &Account, own_before: u64, all_before: u64) {
        if own_before >= CONNECTION_MAX || all_before >= ALL_MAX {
            self.wake(account);
        }
        if all_before >= ALL_MAX {
            let listed = self.listed.lock();
            let accounts: Vec<_> = listed.iter().map(|one| Arc::clone(&one.account)).collect();
            drop(listed);
            accounts.iter().for_each(|account| self.wake(account));
        }
    }

    fn wake(&self, account: &Account) {
        account.room.notify_waiters();
        let parked = std::mem::take(&mut *account.parked.lock());
        // On a thread of its own: who reads or writes a socket has not come to execute requests.
        for slot in parked.into_iter().filter_map(|slot| slot.upgrade()) {
            self.hands.give(move || slot.eased());
        }
    }
}

/// What one request is counted with.
pub(crate) struct Share {
    unread: Arc<Unread>,
    account: Arc<Account>,
    bytes: u64,
    is_handed: bool,
    is_answer: bool,
}

impl Share {
    fn resize(&mut self, bytes: u64) {
        let before = std::mem::replace(&mut self.bytes, bytes);
        match bytes.checked_sub(before) {
            Some(more) => {
                self.account.bytes.fetch_add(more, Ordering::SeqCst);
                self.all().fetch_add(more, Ordering::SeqCst);
            }
            None => self.give_back(before - bytes),
        }
    }

    fn give_back(&self, bytes: u64) {
        let own = self.account.bytes.fetch_sub(bytes, Ordering::SeqCst);
        let all = self.all().fetch_sub(bytes, Ordering::SeqCst);
        self.unread.eased(&self.account, own, if self.is_answer { all } else { 0 });
    }

    fn all(&self) -> &AtomicU64 {
        if self.is_answer { &self.unread.bytes } else { &self.unread.pending }
    }

    /// The answer depends on nothing but its client from now on.
    pub(crate) fn handed(mut self) -> Self {
        self.is_handed = true;
        self.account.handed.fetch_add(self.bytes, Ordering::Relaxed);
        self
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        if self.is_handed {
            self.account.handed.fetch_sub(self.bytes, Ordering::Relaxed);
        }
        self.give_back(self.bytes);
    }
}

/// A share is given back when whoever writes the socket drops it: behind the answer's last byte, or when the
/// connection is lost.
impl Watcher for Share {
    fn left(&self) {}

    fn sent(&self) {}
}

/// What a request is counted with until it is answered, and its answer until it is read.
#[derive(Default)]
pub(crate) struct Held {
    /// Counts the request against what may be read from clients.
    pub(crate) hold: Hold,
    /// Counts its answer against what they may leave unread.
    pub(crate) share: Option<Share>,
    /// Counts what the request has made.
    pub(crate) made: Option<Arc<Permit>>,
}

impl From<Hold> for Held {
    fn from(hold: Hold) -> Self {
        Self { hold, share: None, made: None }
    }
}

#[cfg(test)]
mod tests;
