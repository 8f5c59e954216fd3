//! Attributes as the kernel takes them.

use std::time::Duration;

use loligo_fs::{Changes, Metadata, Trust, UTime};

use crate::kernel::{SetAttr, Time};

/// The unit in which `st_blocks` counts.
const BLOCK: u64 = 512;
/// The smallest size that programs are told to read and write in.
const IO_MIN: u32 = 4096;

/// How attributes are shown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shown {
    /// A directory's size is that of all files below it, not the number of its entries.
    pub(crate) recursive: bool,
}

impl Shown {
    /// Returns the size that `stat` shows.
    pub(crate) fn size(self, meta: &Metadata) -> u64 {
        if meta.is_dir() && !self.recursive { meta.entries } else { meta.size }
    }

    /// Returns the number of blocks that `stat` shows.
    pub(crate) fn blocks(self, meta: &Metadata) -> u64 {
        if meta.is_dir() { 1 } else { meta.size.div_ceil(BLOCK) }
    }

    /// Returns the size in which programs should read and write.
    pub(crate) fn io_size(self, meta: &Metadata) -> u32 {
        meta.layout.stripe_unit.max(IO_MIN)
    }
}

/// For how long the kernel may believe attributes: not at all unless a server vouches for them.
pub(crate) fn believed(trust: Trust) -> Duration {
    trust.attrs.unwrap_or(Duration::ZERO)
}

/// Returns the changes that a request asks for.
pub(crate) fn changes(set: &SetAttr) -> Changes {
    let at = |time: Option<Time>| match time {
        Some(Time::At(sec, nsec)) => {
            // CephFS has no times before 1970.
            Some(UTime { sec: u32::try_from(sec.max(0)).unwrap_or(u32::MAX), nsec })
        }
        _ => None,
    };
    Changes {
        permissions: set.mode(),
        uid: set.uid(),
        gid: set.gid(),
        size: set.size(),
        mtime: at(set.mtime()),
        atime: at(set.atime()),
        mtime_now: set.mtime() == Some(Time::Now),
        atime_now: set.atime() == Some(Time::Now),
    }
}

/// The bits of a device's minor number in CephFS, which has the form inside of Linux.
const MINOR_BITS: u32 = 20;

/// Returns a device's number in the form in which it passes between the kernel and programs.
pub(crate) fn to_kernel(rdev: u32) -> u32 {
    let (major, minor) = (rdev >> MINOR_BITS, rdev & ((1 << MINOR_BITS) - 1));
    (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12)
}

/// Returns a device's number in the form that CephFS keeps.
pub(crate) fn from_kernel(rdev: u32) -> u32 {
    let (major, minor) = ((rdev & 0xf_ff00) >> 8, (rdev & 0xff) | ((rdev >> 12) & 0xf_ff00));
    (major << MINOR_BITS) | minor
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_keep_their_numbers() {
        // 8:1, as `mknod` passes it.
        assert_eq!(from_kernel(0x801), 8 << MINOR_BITS | 1);
        for (major, minor) in [(8, 1), (259, 70_000), (4095, 0xf_ffff), (0, 0)] {
            let kept = major << MINOR_BITS | minor;
            assert_eq!(from_kernel(to_kernel(kept)), kept, "{major}:{minor}");
        }
    }

    #[test]
    fn nothing_is_believed_that_nobody_vouches_for() {
        assert_eq!(believed(Trust::default()), Duration::ZERO);
        let trust = Trust { attrs: Some(Duration::from_secs(3)), data: false };
        assert_eq!(believed(trust), Duration::from_secs(3));
    }
}
