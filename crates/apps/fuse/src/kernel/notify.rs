//! What is told to the kernel without being asked: that it must forget something.
//!
//! Messages about data and single names may wait in the kernel for a lock. A request may hold that lock while
//! it waits for this program. Only the thread of [`crate::invalidate`] sends such messages, and it serves no
//! requests.

use std::fs::File;
use std::io::{self, Write as _};

use super::numbers::Body;
use az::SaturatingAs as _;

/// The codes of the kernel's interface (`enum fuse_notify_code`).
const INVAL_INODE: i32 = 2;
const INVAL_ENTRY: i32 = 3;
const INC_EPOCH: i32 = 8;
/// Bytes before a message's own (`struct fuse_out_header`).
const HEADER: usize = 16;

/// The mount's device, to which notifications are written.
pub(crate) struct Kernel {
    device: File,
    has_epochs: bool,
}

impl Kernel {
    /// Takes a descriptor of the mount's device. Finds out whether the kernel can forget all names at
    /// once (Linux 6.16 and later).
    pub(crate) fn new(device: File) -> Self {
        let kernel = Self { device, has_epochs: true };
        let has_epochs = kernel.forget_names().is_ok();
        Self { has_epochs, ..kernel }
    }

    /// Returns `true` if the kernel can forget all names at once. Otherwise it may keep no name for
    /// which a whole directory's capability vouches.
    pub(crate) fn has_epochs(&self) -> bool {
        self.has_epochs
    }

    /// Has all names asked for again when they are used next.
    pub(crate) fn forget_names(&self) -> io::Result<()> {
        self.send(INC_EPOCH, Body::default())
    }

    /// Has a node's attributes asked for again.
    pub(crate) fn forget_attributes(&self, number: u64) -> io::Result<()> {
        self.send(INVAL_INODE, Body::default().u64(number).i64(-1).i64(0))
    }

    /// Drops a file's data, and has its attributes asked for again. Waits for pages that requests have
    /// locked.
    pub(crate) fn forget_data(&self, number: u64) -> io::Result<()> {
        // No bytes mean all that follow.
        self.send(INVAL_INODE, Body::default().u64(number).i64(0).i64(0))
    }

    /// Takes one name away, so that what it names can be forgotten.
    pub(crate) fn drop_name(&self, dir: u64, name: &[u8]) -> io::Result<()> {
        self.send(INVAL_ENTRY, entry(dir, name))
    }

    /// Writes a message. What the kernel does not know it need not forget.
    fn send(&self, code: i32, body: Body) -> io::Result<()> {
        match (&self.device).write(&message(code, &body)) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            done => done.map(drop),
        }
    }
}

fn message(code: i32, body: &Body) -> Vec<u8> {
    Body::default().u32((HEADER + body.0.len()).saturating_as::<u32>()).i32(code).u64(0).bytes(&body.0).0
}

fn entry(dir: u64, name: &[u8]) -> Body {
    Body::default().u64(dir).u32(name.len().saturating_as::<u32>()).u32(0).bytes(name).bytes(&[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_the_kernel_s_form() {
        let bytes = message(INVAL_ENTRY, &entry(5, b"abc"));
        let expected = Body::default().u32(36).i32(3).u64(0).u64(5).u32(3).u32(0).bytes(b"abc\0").0;
        assert_eq!(bytes, expected);
    }
}
