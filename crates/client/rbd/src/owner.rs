//! Requests to the owner of the exclusive lock. The owner changes the image as a whole for other clients
//! while it writes to it.
//!
//! A request is a notification on the header. The owner acknowledges it at once, does the work in the
//! background, reports its progress periodically, and its result in the end. A request of an older
//! release has no number and is answered when the work is done. If the owner does not support a request,
//! the client takes the lock instead; if the owner is silent, the client looks up the current owner and
//! asks again. Facts: `librbd/ImageWatcher.cc`, `librbd/Operations.cc`.

use std::collections::{HashMap, HashSet};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use loligo_lockstat::{Class, Mutex};
use loligo_rados::{Errno, Notification};
use loligo_wire::Encode as _;
use loligo_wire::rbd::SnapKind;
use tokio::sync::{Semaphore, watch};

use crate::image::{Image, Inner};
use crate::lock::{ANSWER_TIMEOUT, NEWS_TIMEOUT, TRY_EVERY};
use crate::messages::{ClientId, Message, RequestId, Wanted, response, result_of};
use crate::{Error, Shrink};

/// Held to insert or remove a request of another client; a leaf.
static SERVED: Class = Class::new("rbd.requests.served");
/// Held to insert, remove or find a request of this client; a leaf.
static ASKED: Class = Class::new("rbd.requests.asked");

/// The most requests of other clients carried out at a time; the limit applies separately to those with
/// a number and those without. Further requests are not answered, and the client repeats them.
const SERVED_MAX: usize = 64;

/// How often progress is reported: other clients wait for 30 s (`rbd_request_timed_out_seconds`).
const TELL_EVERY: Duration = Duration::from_secs(1);

/// How long an owner may be silent about a request.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// The most attempts to report a result.
const TELL_ATTEMPTS: u32 = 3;

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
struct News {
    done: u64,
    all: u64,
    /// The result of the request.
    result: Option<i32>,
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
    fn enter(&self, of: RequestId) -> Option<bool> {
        let mut served = self.served.lock();
        if served.len() >= SERVED_MAX && !served.contains(&of) {
            return None;
        }
        Some(served.insert(of))
    }
}

/// A request of another client in progress.
struct Served {
    inner: Arc<Inner>,
    of: RequestId,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.inner.requests.served.lock().remove(&self.of);
    }
}

/// A request of this client.
struct Asked<'a> {
    requests: &'a Requests,
    number: u64,
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        self.requests.asked.lock().remove(&self.number);
    }
}

/// The progress of work.
#[derive(Default)]
struct Progress {
    done: AtomicU64,
    all: AtomicU64,
}

impl Progress {
    /// Relaxed, here and below: the numbers are only displayed.
    fn is(&self, done: u64, all: u64) {
        self.done.store(done, Ordering::Relaxed);
        self.all.store(all, Ordering::Relaxed);
    }
}

/// Carries out a request to the lock's owner.
pub(crate) fn serve(inner: &Arc<Inner>, of: Option<RequestId>, wanted: Wanted, notification: Notification) {
    let inner = Arc::clone(inner);
    let Some(of) = of else {
        let Ok(place) = Arc::clone(&inner.requests.nameless).try_acquire_owned() else { return };
        tokio::spawn(async move {
            let _place = place;
            let done = carry_out(&inner, wanted, &Progress::default()).await;
            notification.answer(response(code(&done)));
        });
        return;
    };
    match inner.requests.enter(of) {
        Some(true) => {
            notification.answer(response(0));
            tokio::spawn(served(Served { inner, of }, wanted));
        }
        Some(false) => notification.answer(response(0)),
        None => drop(notification),
    }
}

async fn served(request: Served, wanted: Wanted) {
    let Served { inner, of } = &request;
    let (inner, of, progress) = (inner, *of, Progress::default());
    let done = {
        let mut work = pin!(carry_out(inner, wanted, &progress));
        loop {
            tokio::select! {
                done = &mut work => break done,
                () = tokio::time::sleep(TELL_EVERY) => {
                    let (done, all) =
                        (progress.done.load(Ordering::Relaxed), progress.all.load(Ordering::Relaxed));
                    inner.announce(Message::Progress { of, done, all });
                }
            }
        }
    };
    let message = Message::Complete { of, result: code(&done) }.to_bytes();
    for _ in 0..TELL_ATTEMPTS {
        if inner.io.notify(&*inner.header, message.clone(), NEWS_TIMEOUT).await.is_ok() {
            break;
        }
    }
}

fn code(done: &Result<(), Error>) -> i32 {
    done.as_ref().map_or_else(|e| e.errno().to_result(), |()| 0)
}

async fn carry_out(inner: &Arc<Inner>, wanted: Wanted, progress: &Progress) -> Result<(), Error> {
    let image = Image::borrowed(Arc::clone(inner));
    let told = |done, all| progress.is(done, all);
    match wanted {
        Wanted::Flatten => image.flatten(told).await,
        Wanted::Migrate => image.migrate(told).await,
        Wanted::Resize { size, may_shrink } => {
            let shrink = if may_shrink { Shrink::Allowed } else { Shrink::Refused };
            image.resize_telling(size, shrink, told).await
        }
        Wanted::RebuildObjectMap => image.rebuild_object_map(told).await,
        Wanted::CreateSnapshot { name, kind: kind @ (SnapKind::User | SnapKind::Group { .. }), .. } => {
            image.create_snapshot_of(&name, &kind).await
        }
        Wanted::RemoveSnapshot { name, kind: kind @ (SnapKind::User | SnapKind::Group { .. }) } => {
            image.remove_snapshot_of(&name, &kind).await
        }
        Wanted::RemoveSnapshot { name, kind: SnapKind::Trash { .. } } => {
            inner.refresh().await?;
            let id = inner.view.load().trashed(&name).ok_or(Errno::ENOENT)?;
            image.remove_trashed_snapshot(id).await
        }
        Wanted::RenameSnapshot { id, name } => image.rename_snapshot_of(id, &name).await,
        Wanted::ProtectSnapshot { name, kind: SnapKind::User } => image.protect_snapshot(&name).await,
        Wanted::UnprotectSnapshot { name, kind: SnapKind::User } => image.unprotect_snapshot(&name).await,
        Wanted::Rename(to) => {
            let (from, _) = crate::parent::name_of(&inner.io, &inner.id).await?;
            crate::rename(&inner.io, &from, &to).await
        }
        Wanted::Features { features, enabled: true } => image.enable_features(features).await,
        Wanted::Features { features, enabled: false } => image.disable_features(features).await,
        Wanted::Sparsify { block_bytes } => image.sparsify(block_bytes, told).await,
        Wanted::Metadata { key, value: Some(value) } => image.set_metadata(&key, value).await,
        Wanted::Metadata { key, value: None } => image.remove_metadata(&key).await,
        // Operations on mirrors' snapshots, and on other kinds where only users' snapshots are allowed.
        _ => Err(Errno::EOPNOTSUPP.into()),
    }
}

impl Image {
    /// Asks the lock's owner to do something, if the owner is another client, alive, and supports it;
    /// reports its progress. Returns `false` if this client must do it itself, with the lock.
    ///
    /// # Errors
    /// The owner's error, as an errno; failures to ask the owner.
    pub(crate) async fn has_owner_do(
        &self,
        wanted: Wanted,
        mut progress: impl FnMut(u64, u64),
    ) -> Result<bool, Error> {
        let inner = &self.inner;
        loop {
            inner.check()?;
            inner.check_header().await?;
            inner.confirm_lock().await?;
            if inner.may_write() {
                return Ok(false);
            }
            let Some(owner) = inner.owner().await? else { return Ok(false) };
            if !inner.is_alive(&owner).await? {
                return Ok(false);
            }
            let _wait = inner.io.rados().waits_for(inner.locked_by(&owner, "change it"));
            match inner.ask_owner(wanted.clone(), &mut progress).await? {
                Some(0..) => {
                    inner.refresh().await?;
                    return Ok(true);
                }
                Some(result) if result == Errno::EOPNOTSUPP.to_result() => return Ok(false),
                Some(result) => return Err(Errno(result.saturating_neg()).into()),
                // The owner has changed, or is about to.
                None => tokio::time::sleep(TRY_EVERY / 4).await,
            }
        }
    }
}

impl Inner {
    /// Sends a request and returns its result; `None` if the owner is silent.
    async fn ask_owner(
        &self,
        wanted: Wanted,
        progress: &mut impl FnMut(u64, u64),
    ) -> Result<Option<i32>, Error> {
        let number = self.requests.next.fetch_add(1, Ordering::Relaxed);
        let (told, mut news) = watch::channel(News::default());
        self.requests.asked.lock().insert(number, told);
        let _asked = Asked { requests: &self.requests, number };
        let mut freed = pin!(self.freed.notified());
        freed.as_mut().enable();
        let of = Some(RequestId { client: self.client_id(), number });
        let message = Message::Request { of, wanted }.to_bytes();
        let answered = self.io.notify(&*self.header, message, ANSWER_TIMEOUT).await?;
        match answered.answers.values().find_map(|answer| result_of(answer)) {
            Some(0..) => {}
            refused => return Ok(refused),
        }
        let mut is_freed = false;
        loop {
            // An owner that releases the lock to carry out the request announces that before the result.
            let silence = if is_freed { ANSWER_TIMEOUT } else { SILENCE_MAX };
            tokio::select! {
                biased;
                told = news.changed() => told.map_err(|_| Errno::ENOTCONN)?,
                () = &mut freed, if !is_freed => {
                    is_freed = true;
                    continue;
                }
                () = tokio::time::sleep(silence) => return Ok(None),
            }
            let News { done, all, result } = *news.borrow_and_update();
            if result.is_some() {
                return Ok(result);
            }
            progress(done, all);
        }
    }
}
