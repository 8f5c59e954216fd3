//! Carries out the requests of other clients to the owner of the exclusive lock. The owner changes the
//! image as a whole for other clients while it writes to it.
//!
//! A request is a notification on the header. The owner acknowledges it at once, does the work in the
//! background, reports its progress periodically, and its result in the end. A request of an older
//! release has no number and is answered when the work is done. If the owner does not support a request,
//! the client takes the lock instead; if the owner is silent, the client looks up the current owner and
//! asks again. Facts: `librbd/ImageWatcher.cc`, `librbd/Operations.cc`.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use loligo_rados::{Errno, Notification};
use loligo_wire::Encode as _;
use loligo_wire::rbd::SnapKind;

use super::messages::{Message, NEWS_TIMEOUT, RequestId, Wanted, response};
use crate::image::{Image, Inner};
use crate::pool::directory::name_of;
use crate::{Error, Shrink};

/// How often progress is reported: other clients wait for 30 s (`rbd_request_timed_out_seconds`).
const TELL_EVERY: Duration = Duration::from_secs(1);

/// The most attempts to report a result.
const TELL_ATTEMPTS: u32 = 3;

/// A request of another client in progress.
struct Served {
    inner: Arc<Inner>,
    of: RequestId,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.inner.requests.leave(self.of);
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
        let Some(place) = inner.requests.enter_nameless() else { return };
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
            let (from, _) = name_of(&inner.io, &inner.id).await?;
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
