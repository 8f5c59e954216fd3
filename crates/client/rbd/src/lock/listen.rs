//! Hears the notifications on an image's header.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use loligo_rados::{Errno, Notification, Watch, WatchNews};
use loligo_wire::Decode as _;
use tokio::sync::oneshot;

use super::messages::{Message, response};
use super::serve::serve;
use crate::Error;
use crate::image::Inner;

/// Handles notifications on the image until `stop`.
pub(crate) async fn listen(inner: Arc<Inner>, mut watch: Watch, mut stop: oneshot::Receiver<()>) {
    loop {
        tokio::select! {
            _ = &mut stop => {
                // If this fails, the OSD ends the watch after its timeout.
                let _ = watch.unwatch().await;
                return;
            }
            news = watch.next() => match news {
                Ok(WatchNews::Notified(notification)) => heard(&inner, notification),
                Ok(WatchNews::Missed) => {
                    inner.header_was_changed();
                    inner.freed.notify_waiters();
                    inner.doubt_lock();
                }
                Err(e) => {
                    inner.ended.store(e.errno().0, Ordering::Release);
                    return;
                }
            }
        }
    }
}

fn heard(inner: &Arc<Inner>, notification: Notification) {
    let owned = inner.owned.load(Ordering::Acquire);
    let is_foreign = notification.notifier.0 != inner.client_id().client;
    match Message::from_bytes(&notification.payload) {
        Ok(Message::HeaderUpdate) => {
            inner.header_was_changed();
            if is_foreign {
                // A client that breaks the lock for a user sends this notification.
                inner.doubt_lock();
            }
        }
        Ok(Message::AcquiredLock(client) | Message::ReleasedLock(client)) => {
            inner.freed.notify_waiters();
            if client != inner.client_id() {
                inner.doubt_lock();
            }
        }
        Ok(Message::RequestLock(client)) if owned && client != inner.client_id() => {
            if inner.kept.load(Ordering::Acquire) {
                notification.answer(response(-Errno::EROFS.0));
                return;
            }
            notification.answer(response(0));
            let inner = Arc::clone(inner);
            tokio::spawn(async move {
                match inner.release().await {
                    // The lock is kept while there is dirty data. The other client repeats its request,
                    // and a flush reports the failure.
                    Ok(()) | Err(Error::WriteBack(_)) => {}
                    Err(e) => inner.ended.store(e.errno().0, Ordering::Release),
                }
            });
            return;
        }
        Ok(Message::Request { of, wanted }) if owned => return serve(inner, of, wanted, notification),
        Ok(Message::Progress { of, done, all }) => inner.requests.progress(of, inner.client_id(), done, all),
        Ok(Message::Complete { of, result }) => inner.requests.complete(of, inner.client_id(), result),
        // Not for this client, or of a newer release.
        Ok(_) | Err(_) => {}
    }
    drop(notification);
}
