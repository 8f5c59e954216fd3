//! Callbacks for changes of an image's header.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use loligo_rbd::Updates;
use loligo_wire::Errno;

use super::image::ImageHandle;
use crate::border::{Arg, Lent, calls};
use crate::memory::put;
use crate::runtime::{runtime, wait};
use crate::strand::Strand;

/// `rbd_update_callback_t`.
type Callback = unsafe extern "C" fn(arg: *mut c_void);

/// Calls back for each change, one at a time: changes that come meanwhile are one.
async fn tell(mut updates: Updates, strand: Arc<Strand>, callback: Callback, arg: Arg) {
    while updates.next().await {
        // SAFETY: the program gave the callback for this argument, until it ends the watch.
        strand.push_and_wait(move || unsafe { callback({ arg }.0) }).await;
    }
}

calls! {
    /// Has the callback called when the image's header changes.
    fn rbd_update_watch(
        image: *mut c_void, handle: *mut u64, callback: Option<Callback>, arg: *mut c_void,
    ) -> c_int {
        let (image, callback) = (ImageHandle::of(image)?, callback.ok_or(Errno::EINVAL)?);
        let updates = ImageHandle::run(image.head().updates())?;
        let task = tell(updates, Arc::clone(&image.strand), callback, Lent(arg));
        put(handle, image.updates.add(runtime().spawn(task)));
        Ok(0)
    }

    /// Ends the calls. The callback does not run any more when this returns.
    fn rbd_update_unwatch(image: *mut c_void, handle: u64) -> c_int {
        let image = ImageHandle::of(image)?;
        let task = image.updates.remove(handle).ok_or(Errno::EINVAL)?;
        task.abort();
        let _ = wait(task);
        image.strand.flush();
        Ok(0)
    }
}
