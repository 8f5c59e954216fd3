//! The errno of a failed request to the store.

use loligo_logring::{log, text};
use loligo_store::StoreError;
use loligo_wire::Errno;

/// The errno that a client gets when the store fails its request.
pub(crate) fn of_store(error: StoreError) -> Errno {
    match error {
        StoreError::Full { .. } => Errno::ENOSPC,
        StoreError::TooLarge { .. } => Errno::EFBIG,
        StoreError::Name(_) => Errno::ENAMETOOLONG,
        StoreError::NoCollection(_) => Errno::ENOENT,
        StoreError::Stopped => Errno::EIO,
        StoreError::BadData { .. } => {
            // Clients get only the error number; the log tells an administrator where the damage is.
            log!(OSD, 0, "{}", text(&error));
            Errno::EIO
        }
    }
}
