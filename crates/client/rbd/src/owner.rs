//! Requests to the owner of the exclusive lock, who changes the image as a whole for others while he writes
//! to it.
//!
//! A request is a notification on the header. The owner answers at once, does the work in the background,
//! tells from time to time how far he is, and in the end what came of it; one of an older release is answered
//! when it is done. Who hears that the owner does not know how asks for the lock instead; who hears nothing
//! looks who is the owner now, and asks again. Facts: `librbd/ImageWatcher.cc`, `librbd/Operations.cc`.

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

/// Held to enter or strike out a request of others; a leaf.
static SERVED: Class = Class::new("rbd.requests.served");
/// Held to enter, strike out or find a request of ours; a leaf.
static ASKED: Class = Class::new("rbd.requests.asked");

/// Requests of others that are carried out at a time at most, of those with a number and of those without.
/// Who asks for more is not answered, and asks again.
const SERVED_MAX: usize = 64;

/// How often others are told how far a request is: they wait for 30 s (`rbd_request_timed_out_seconds`).
const TELL_EVERY: Duration = Duration::from_secs(1);

/// How long an owner may say nothing of a request.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// Attempts to tell what came of a request.
const TELL_ATTEMPTS: u32 = 3;

/// Requests under way.
pub(crate) struct Requests {
    served: Mutex<HashSet<RequestId>>,
    /// Places for requests of older releases, which have no number.
    nameless: Arc<Semaphore>,
    asked: Mutex<HashMap<u64, watch::Sender<News>>>,
    next: AtomicU64,
}

/// What is known of a request of ours.
#[derive(Clone, Copy, Debug, Default)]
struct News {
    done: u64,
    all: u64,
    /// What came of it.
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

    /// Enters a request of others; false if it is there already, `None` if there are too many.
    fn enter(&self, of: RequestId) -> Option<bool> {
        let mut served = self.served.lock();
        if served.len() >= SERVED_MAX && !served.contains(&of) {
            return None;
        }
        Some(served.insert(of))
    }
}

/// A request of others that is carried out.
struct Served {
    inner: Arc<Inner>,
    of: RequestId,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.inner.requests.served.lock().remove(&self.of);
    }
}

/// A request of ours.
struct Asked<'a> {
    requests: &'a Requests,
    number: u64,
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        self.requests.asked.lock().remove(&self.number);
    }
}

/// How far work is.
#[derive(Default)]
struct Progress {
    done: AtomicU64,
    all: AtomicU64,
}

impl Progress {
    /// Relaxed, here and below: it is told to people.
    fn is(&self, done: u64, all: u64) {
        self.done.store(done, Ordering::Relaxed);
        self.all.store(all, Ordering::Relaxed);
    }
}

/// Does what the lock's owner is asked to do.
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
    done.as_ref().map_or_else(|e| -e.errno().0, |()| 0)
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
        // Snapshots of mirrors, and what is done with users' only.
        _ => Err(Errno::EOPNOTSUPP.into()),
    }
}

impl Image {
    /// Has the lock's owner do something, if that is somebody else who lives and knows how; tells how far it
    /// is. False: it is to be done here, with the lock.
    ///
    /// # Errors
    /// The owner's, as an errno; what keeps one from asking.
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
                Some(result) if result == -Errno::EOPNOTSUPP.0 => return Ok(false),
                Some(result) => return Err(Errno(result.saturating_neg()).into()),
                // He is owner no more, or about to be.
                None => tokio::time::sleep(TRY_EVERY / 4).await,
            }
        }
    }
}

impl Inner {
    /// What came of a request; `None` if nobody says.
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
            // Who gives the lock up for what he was asked says so before he says that it is done.
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
