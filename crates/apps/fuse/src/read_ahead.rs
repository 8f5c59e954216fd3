//! How far the kernel reads ahead in a file that is read from the beginning on.

use std::fs;
use std::path::Path;

/// In KiB: as much as one request may ask for. By default the kernel reads 128 KiB ahead.
const KIB: &str = "1024";

/// Has the kernel read ahead as far as one request reaches. Only root may ask for it; otherwise the kernel's
/// default stays.
pub(crate) fn raise(dir: &Path) {
    let Ok(mounts) = fs::read_to_string("/proc/self/mountinfo") else { return };
    if let Some(device) = dir.to_str().and_then(|dir| device_at(&mounts, dir)) {
        let _ = fs::write(format!("/sys/class/bdi/{device}/read_ahead_kb"), KIB);
    }
}

/// Returns the numbers of the device that is mounted at a directory: of several, the last one hides the
/// others.
fn device_at<'m>(mounts: &'m str, dir: &str) -> Option<&'m str> {
    mounts.lines().rev().find_map(|line| {
        let mut words = line.split(' ').skip(2);
        let (device, at) = (words.next()?, words.nth(1)?);
        (at.replace("\\040", " ") == dir).then_some(device)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_mount_counts() {
        let mounts = "36 35 98:0 /mnt1 /mnt rw,noatime master:1 - ext3 /dev/root rw\n\
            40 36 0:51 / /mnt/a\\040b rw - fuse.loligo :/ rw\n\
            41 36 0:52 / /mnt rw - fuse.loligo :/ rw";
        assert_eq!(device_at(mounts, "/mnt"), Some("0:52"));
        assert_eq!(device_at(mounts, "/mnt/a b"), Some("0:51"));
        assert_eq!(device_at(mounts, "/"), None);
    }
}
