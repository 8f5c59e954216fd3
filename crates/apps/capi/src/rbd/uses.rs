//! Who uses an open image: what closes it waits for them.

use std::ops::Deref;
use std::sync::Arc;

use loligo_rbd::Image;
use tokio::sync::watch;

/// Counts the uses of an image that are under way.
#[derive(Clone)]
pub(super) struct Uses(watch::Sender<usize>);

/// An image that is used: it is not closed meanwhile.
pub(super) struct InUse {
    // Dropped before the use is counted as ended.
    image: Arc<Image>,
    _count: Count,
}

struct Count(watch::Sender<usize>);

impl Uses {
    pub(super) fn new() -> Self {
        Self(watch::Sender::new(0))
    }

    /// Begins to use an image.
    pub(super) fn of(&self, image: Arc<Image>) -> InUse {
        self.0.send_modify(|count| *count += 1);
        InUse { image, _count: Count(self.0.clone()) }
    }

    /// Waits until no image is used.
    pub(super) async fn ended(&self) {
        // The sender is this one: it does not end before.
        let _ = self.0.subscribe().wait_for(|count| *count == 0).await;
    }
}

impl Deref for InUse {
    type Target = Image;

    fn deref(&self) -> &Image {
        &self.image
    }
}

impl Drop for Count {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}
