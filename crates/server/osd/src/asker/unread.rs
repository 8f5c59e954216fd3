//! Replies that clients have not read yet: how many bytes of them one connection and all connections
//! have.
//!
//! A request of a hundred bytes may ask for a hundred megabytes, so the bounds on bytes read from
//! clients do not limit the memory of replies. Only replies of [`COUNTED_FROM`] bytes and more are
//! counted: the number of requests and the connection's out-queue bound the small ones. At the bound the
//! server reads nothing more from the connection, and the requests already read from it are executed
//! after the client has read some of its replies. A client that reads nothing for [`SILENCE_MAX`] while
//! a request waits for room loses its connection.

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

/// Smaller replies are not counted.
pub(crate) const COUNTED_FROM: u64 = 64 << 10;
/// Bytes that one connection may have outstanding; its last reply may exceed the bound.
const CONNECTION_MAX: u64 = 64 << 20;
/// Bytes that all connections may have outstanding; each may exceed the bound by one reply.
const ALL_MAX: u64 = 512 << 20;
/// How long a client may read none of its replies while a request waits for room.
const SILENCE_MAX: Duration = Duration::from_secs(10);

/// Held to add a connection, or to check all connections after one has waited long.
static LISTED: Class = Class::new("osd.unread_connections");
/// Held to add a placement group with parked requests, or to take all out.
static PARKED: Class = Class::new("osd.unread_parked");

/// The outstanding bytes of all connections.
pub(crate) struct Unread {
    bytes: AtomicU64,
    /// Bytes counted for requests that write: the memory they hold while they wait; their replies are small.
    /// They count only against the bound of their own connection.
    pending: AtomicU64,
    listed: Mutex<Vec<Listed>>,
    hands: Arc<Hands>,
}

/// The outstanding bytes of one connection.
pub(crate) struct Account {
    bytes: AtomicU64,
    /// The part of `bytes` that was handed to the connection and now depends only on its client.
    handed: AtomicU64,
    is_listed: AtomicBool,
    /// Notified when there may be room.
    room: Notify,
    /// Placement groups in which requests of the connection wait for room.
    parked: Mutex<Vec<Weak<dyn Group>>>,
}

/// A connection that had counted replies, and when its client was last seen reading.
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

    /// Whether some connection may have no room. Costs two loads.
    #[inline]
    pub(crate) fn may_be_crowded(&self) -> bool {
        // Relaxed: a connection over its bound is noticed at most one request late.
        self.bytes.load(Ordering::Relaxed) + self.pending.load(Ordering::Relaxed) >= CONNECTION_MAX
    }

    /// Whether a connection's client must read replies before it gets more.
    pub(crate) fn is_over(&self, account: &Account) -> bool {
        let own = account.bytes.load(Ordering::SeqCst);
        own >= CONNECTION_MAX || (own > 0 && self.bytes.load(Ordering::SeqCst) >= ALL_MAX)
    }

    /// Counts the bytes of a request until the share is dropped. For a read they are its reply, also while
    /// it waits; for a write (`is_answer` is false) the memory it holds while it waits. `share` is the share
    /// it was counted with before. Never refuses: a request that may take much waits before it is executed.
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

    /// Returns a future that waits until a connection has room; `None` if it has room now.
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
                // Registered before the check, so that room made between the two is not missed.
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

    /// Registers a placement group to be notified when a connection has room. Returns true if it has
    /// room already.
    pub(crate) fn park(&self, account: &Account, group: Weak<dyn Group>) -> bool {
        let mut parked = account.parked.lock();
        if !parked.iter().any(|known| std::ptr::addr_eq(known.as_ptr(), group.as_ptr())) {
            parked.push(group);
        }
        drop(parked);
        !self.is_over(account)
    }

    /// Closes the connections whose clients have read nothing for too long.
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
            // Dropped after the lock is released, in case it is the last reference.
            askers.push(asker);
        }
        drop(listed);
        silent.iter().for_each(|asker| asker.give_up());
    }

    /// Notifies the waiters if the bytes given back may have made room.
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
        // On a thread of `hands`: the threads that read or write sockets must not execute parked
        // requests.
        for slot in parked.into_iter().filter_map(|slot| slot.upgrade()) {
            self.hands.give(move || slot.eased());
        }
    }
}

/// The bytes one request is counted with.
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

    /// Marks the reply as handed to the connection: from now on it depends only on its client.
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

/// The socket's writer drops the share, and so gives it back, after the reply's last byte or when the
/// connection is lost.
impl Watcher for Share {
    fn left(&self) {}

    fn sent(&self) {}
}

/// The guards that count a request until it is answered, and its reply until it is read.
#[derive(Default)]
pub(crate) struct Held {
    /// Counts the request against the bound on bytes read from clients.
    pub(crate) hold: Hold,
    /// Counts its reply against the bound on unread replies.
    pub(crate) share: Option<Share>,
    /// Counts the bytes the request has made.
    pub(crate) made: Option<Arc<Permit>>,
}

impl From<Hold> for Held {
    fn from(hold: Hold) -> Self {
        Self { hold, share: None, made: None }
    }
}

#[cfg(test)]
mod tests;
