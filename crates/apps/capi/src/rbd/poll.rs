//! The functions by which a program collects completions.

use std::ffi::{c_int, c_void};

use loligo_wire::Errno;

use super::events::{EVENTFD, PIPE};
use super::image::ImageHandle;
use crate::border::{Fail, calls};

/// Whether the number is of an open descriptor.
fn is_open(descriptor: c_int) -> bool {
    // SAFETY: F_GETFD only asks.
    unsafe { libc::fcntl(descriptor, libc::F_GETFD) >= 0 }
}

calls! {
    /// Has a descriptor told of each completion from now on.
    fn rbd_set_image_notification(image: *mut c_void, descriptor: c_int, kind: c_int) -> c_int {
        let image = ImageHandle::of(image)?;
        if !(PIPE..=EVENTFD).contains(&kind) || !is_open(descriptor) {
            return Err(Errno::EINVAL.into());
        }
        image.events.tell_by(descriptor, kind);
        Ok(0)
    }

    /// Collects completions; returns how many.
    fn rbd_poll_io_events(image: *mut c_void, to: *mut *mut c_void, room: c_int) -> c_int {
        let collected = ImageHandle::of(image)?.events.take(usize::try_from(room).unwrap_or(0));
        for (at, completion) in collected.iter().enumerate() {
            to.add(at).write(completion.0);
        }
        c_int::try_from(collected.len()).map_err(|_| Fail::from(Errno::ERANGE))
    }
}
