//! The requests to owners of the exclusive lock that are in progress: those of other clients that this
//! client carries out, and those of this client.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use loligo_lockstat::{Class, Mutex};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use super::messages::{ClientId, RequestId};

/// Held to insert or remove a request of another client; a leaf.
static SERVED: Class = Class::new("rbd.requests.served");
/// Held to insert, remove or find a request of this client; a leaf.
static ASKED: Class = Class::new("rbd.requests.asked");

/// The most requests of other clients carried out at a time; the limit applies separately to those with
/// a number and those without. Further requests are not answered, and the client repeats them.
const SERVED_MAX: usize = 64;

/// Requests in progress.
pub(crate) struct Requests {
    served: Mutex<HashSet<RequestId>>,
    /// Permits for requests of older releases, which have no number.
    nameless: Arc<Semaphore>,
    asked: Mutex<HashMap<u64, watch::Sender<News>>>,
    next: AtomicU64,
}

/// The progress of a request of this client.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct News {
    pub(super) done: u64,
    pub(super) all: u64,
    /// The result of the request.
    pub(super) result: Option<i32>,
}

impl Default for Requests {
    fn default() -> Self {
        Self {
            served: Mutex::new(&SERVED, HashSet::new()),
            nameless: Arc::new(Semaphore::new(SERVED_MAX)),
            asked: Mutex::new(&ASKED, HashMap::new()),
            next: AtomicU64::new(1),
        }
    }
}

impl Requests {
    pub(crate) fn progress(&self, of: RequestId, us: ClientId, done: u64, all: u64) {
        self.news(of, us, |news| (news.done, news.all) = (done, all));
    }

    pub(crate) fn complete(&self, of: RequestId, us: ClientId, result: i32) {
        self.news(of, us, |news| news.result = Some(result));
    }

    fn news(&self, of: RequestId, us: ClientId, change: impl FnOnce(&mut News)) {
        let told = self.asked.lock().get(&of.number).filter(|_| of.client == us).cloned();
        if let Some(told) = told {
            told.send_modify(change);
        }
    }

    /// Inserts a request of another client. Returns `false` if it is already in progress, `None` if
    /// there are too many.
    pub(super) fn enter(&self, of: RequestId) -> Option<bool> {
        let mut served = self.served.lock();
        if served.len() >= SERVED_MAX && !served.contains(&of) {
            return None;
        }
        Some(served.insert(of))
    }

    /// Removes a request of another client that is done.
    pub(super) fn leave(&self, of: RequestId) {
        self.served.lock().remove(&of);
    }

    /// Inserts a request without a number; `None` if there are too many. It ends with the permit.
    pub(super) fn enter_nameless(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.nameless).try_acquire_owned().ok()
    }

    /// Inserts a request of this client. It ends when the result is dropped.
    pub(super) fn ask(&self) -> Asked<'_> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let (told, news) = watch::channel(News::default());
        self.asked.lock().insert(number, told);
        Asked { requests: self, number, news }
    }
}

/// A request of this client.
pub(super) struct Asked<'a> {
    requests: &'a Requests,
    pub(super) number: u64,
    pub(super) news: watch::Receiver<News>,
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        self.requests.asked.lock().remove(&self.number);
    }
}
