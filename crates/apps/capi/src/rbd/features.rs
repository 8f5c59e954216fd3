//! The names of features, and the version of the interface.

use std::ffi::{c_char, c_int};

use loligo_rbd::features;
use loligo_wire::Errno;

use crate::border::{calls, plain};
use crate::memory::{ended, fill, put, text};

/// Reads names of features, with commas or pluses, or a number; `None` if a name is not known.
pub(super) fn read(text: &str) -> Option<u64> {
    match text.parse() {
        Ok(number) => Some(number),
        Err(_) => text
            .split([',', '+'])
            .try_fold(0, |bits, name| features::by_name(name.trim()).map(|feature| bits | feature)),
    }
}

calls! {
    /// Copies the names of features, with commas; EINVAL if one has no name.
    fn rbd_features_to_string(bits: u64, to: *mut c_char, len: *mut usize) -> c_int {
        let mut names = features::names(bits);
        let known = names.iter().filter_map(|name| features::by_name(name)).fold(0, |all, bit| all | bit);
        if known != bits {
            return Err(Errno::EINVAL.into());
        }
        // As librbd orders them.
        names.sort_unstable();
        fill(to, len, &ended(names.join(",").as_bytes()))?;
        Ok(0)
    }

    /// Reads names of features, with commas, or a number.
    fn rbd_features_from_string(names: *const c_char, bits: *mut u64) -> c_int {
        put(bits, read(text(names)?).ok_or(Errno::EINVAL)?);
        Ok(0)
    }
}

plain! {
    /// The version of the interface: that of release 20.
    fn rbd_version(major: *mut c_int, minor: *mut c_int, extra: *mut c_int) -> () {
        put(major, 1);
        put(minor, 20);
        put(extra, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_are_read_by_name_or_number() {
        assert_eq!(read("61"), Some(61));
        assert_eq!(read("layering, exclusive-lock"), Some(5));
        assert_eq!(read("layering+layering"), Some(1));
        assert_eq!(read("layering,no-such"), None);
    }
}
