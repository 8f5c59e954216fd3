//! News of changes of an image's header: its size, snapshots, features.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use loligo_rados::{Watch, WatchNews};
use loligo_wire::Decode as _;
use tokio::sync::{oneshot, watch};

use super::{Image, Inner};
use crate::Error;
use crate::lock::messages::Message;

/// Tells of changes of an image's header, by this client or another one. Several changes that come before
/// [`next`](Updates::next) is called are one.
#[derive(Debug)]
pub struct Updates {
    heard: watch::Receiver<u64>,
    /// The watch of an image that is open for reading only ends when this is dropped.
    _own: Option<oneshot::Sender<()>>,
}

impl Updates {
    /// Waits for the next change. What the image tells is new after [`Image::refresh`]. Ends with `false`
    /// when nothing is heard any more, because the image was closed.
    pub async fn next(&mut self) -> bool {
        self.heard.changed().await.is_ok()
    }
}

impl Image {
    /// Listens to changes of the header from now on. The image may be closed meanwhile.
    ///
    /// ```no_run
    /// # async fn example(image: loligo_rbd::Image) -> Result<(), loligo_rbd::Error> {
    /// let mut updates = image.updates().await?;
    /// while updates.next().await {
    ///     image.refresh().await?;
    ///     println!("{} bytes", image.size());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// An image that is open for reading only has no watch yet, and its header cannot be watched.
    pub async fn updates(&self) -> Result<Updates, Error> {
        let inner = &self.inner;
        if !inner.is_read_only() {
            return Ok(Updates { heard: inner.updates.subscribe(), _own: None });
        }
        let watch = inner.io.watch(&*inner.header, Duration::ZERO).await?;
        let (own, stopped) = oneshot::channel();
        let (told, heard) = watch::channel(0);
        self.runtime.spawn(listen(Arc::clone(inner), watch, told, stopped));
        Ok(Updates { heard, _own: Some(own) })
    }
}

/// Hears the notifications on the header of an image that is open for reading only.
async fn listen(
    inner: Arc<Inner>,
    mut watch: Watch,
    told: watch::Sender<u64>,
    mut stopped: oneshot::Receiver<()>,
) {
    loop {
        let news = tokio::select! {
            _ = &mut stopped => break,
            news = watch.next() => news,
        };
        let is_change = match news {
            Ok(WatchNews::Notified(notification)) => {
                matches!(Message::from_bytes(&notification.payload), Ok(Message::HeaderUpdate))
            }
            Ok(WatchNews::Missed) => true,
            Err(_) => return,
        };
        if is_change {
            inner.stale.store(true, Ordering::Release);
            told.send_modify(|count| *count += 1);
        }
    }
    // If this fails, the OSD ends the watch after its timeout.
    let _ = watch.unwatch().await;
}
