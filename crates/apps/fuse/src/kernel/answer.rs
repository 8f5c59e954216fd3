//! Answers to the kernel's requests.

use std::time::Duration;

use az::SaturatingAs as _;
use bytes::Bytes;
use loligo_fs::{FileType, Lock, Metadata};

use super::numbers::Body;
use crate::attributes::{Shown, to_kernel};
use crate::locks;

/// Bytes of `struct fuse_entry_out`, of `struct fuse_attr` in it, and of an entry of a directory before its
/// name.
const ENTRY: usize = 128;
const ATTR: usize = 88;
const DIRENT: usize = 24;

/// What answers a request.
#[derive(Debug)]
pub(crate) enum Answer {
    /// The kernel expects none.
    Nothing,
    /// It is done.
    Done,
    Body(Vec<u8>),
    /// Data, without a copy.
    Data(Bytes),
    /// Data of a file in pieces, without a copy.
    Pieces(Vec<Bytes>),
}

/// A node, as the kernel is told of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry<'m> {
    /// The node's number, which the kernel counts; 0 if there is no node.
    pub(crate) number: u64,
    pub(crate) meta: &'m Metadata,
    /// For how long the kernel may believe the name, and the attributes.
    pub(crate) name_for: Duration,
    pub(crate) attrs_for: Duration,
}

/// How much room there is, for `statfs(2)`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sizes {
    pub(crate) block: u32,
    pub(crate) blocks: u64,
    pub(crate) free: u64,
    pub(crate) files: u64,
    pub(crate) free_files: u64,
    pub(crate) name_max: u32,
}

impl Answer {
    /// A node, found or made.
    pub(crate) fn entry(entry: Entry<'_>, shown: Shown) -> Self {
        Self::Body(entry_body(Body::default(), entry, shown).0)
    }

    /// A node's attributes.
    pub(crate) fn attr(number: u64, meta: &Metadata, believed: Duration, shown: Shown) -> Self {
        let body = Body::default().u64(believed.as_secs()).u32(believed.subsec_nanos()).u32(0);
        Self::Body(attr(body, number, meta, shown).0)
    }

    /// An open file or directory.
    pub(crate) fn opened(fh: u64, flags: u32) -> Self {
        Self::Body(opened(Body::default(), fh, flags).0)
    }

    /// A file that was made and opened.
    pub(crate) fn created(entry: Entry<'_>, shown: Shown, fh: u64, flags: u32) -> Self {
        Self::Body(opened(entry_body(Body::default(), entry, shown), fh, flags).0)
    }

    /// The bytes that were written or copied.
    pub(crate) fn written(len: u32) -> Self {
        Self::Body(Body::default().u32(len).u32(0).0)
    }

    /// As [`Answer::written`], of an operation that takes more at once.
    pub(crate) fn written_long(len: u64) -> Self {
        Self::Body(Body::default().u64(len).0)
    }

    /// A position in a file.
    pub(crate) fn offset(offset: u64) -> Self {
        Self::Body(Body::default().u64(offset).0)
    }

    /// The size that an extended attribute, or the list of their names, has.
    pub(crate) fn xattr_size(size: u32) -> Self {
        Self::Body(Body::default().u32(size).u32(0).0)
    }

    /// A lock that hinders, or none.
    pub(crate) fn lock(lock: Option<&Lock>) -> Self {
        let body = Body::default();
        Self::Body(match lock {
            Some(lock) => {
                let body = body.u64(lock.start).u64(locks::last_byte(lock));
                body.u32(locks::number(lock.kind)).u32(lock.pid).0
            }
            None => body.u64(0).u64(0).u32(locks::UNLOCK).u32(0).0,
        })
    }

    /// Room, as `df` shows it.
    pub(crate) fn sizes(sizes: Sizes) -> Self {
        let Sizes { block, blocks, free, files, free_files, name_max } = sizes;
        let body = Body::default().u64(blocks).u64(free).u64(free).u64(files).u64(free_files);
        Self::Body(body.u32(block).u32(name_max).u32(block).zeros(28).0)
    }
}

fn entry_body(body: Body, entry: Entry<'_>, shown: Shown) -> Body {
    let Entry { number, meta, name_for, attrs_for } = entry;
    // Numbers of inodes are never used again, so there is one generation only.
    let body = body.u64(number).u64(0).u64(name_for.as_secs()).u64(attrs_for.as_secs());
    let body = body.u32(name_for.subsec_nanos()).u32(attrs_for.subsec_nanos());
    attr(body, number, meta, shown)
}

/// `struct fuse_attr`.
fn attr(body: Body, number: u64, meta: &Metadata, shown: Shown) -> Body {
    let times = [meta.atime, meta.mtime, meta.ctime];
    let body = body.u64(number).u64(shown.size(meta)).u64(shown.blocks(meta));
    let body = times.iter().fold(body, |body, time| body.u64(time.sec.into()));
    let body = times.iter().fold(body, |body, time| body.u32(time.nsec));
    let body = body.u32(meta.mode).u32(meta.nlink).u32(meta.uid).u32(meta.gid);
    body.u32(to_kernel(meta.rdev)).u32(shown.io_size(meta)).u32(0)
}

fn opened(body: Body, fh: u64, flags: u32) -> Body {
    body.u64(fh).u32(flags).u32(0)
}

/// The entries of a directory that answer one request.
#[derive(Debug)]
pub(crate) struct DirPage {
    bytes: Vec<u8>,
    max: usize,
}

impl DirPage {
    pub(crate) fn new(max: u32) -> Self {
        let max = max as usize;
        // The kernel's pages are small; a hostile number must not allocate.
        Self { bytes: Vec::with_capacity(max.min(1 << 17)), max }
    }

    /// Adds an entry, if it fits: its name, the number shown for it, the position after it.
    #[must_use]
    pub(crate) fn add(&mut self, name: &[u8], number: u64, kind: FileType, next: u64) -> bool {
        if self.lacks(DIRENT + name.len()) {
            return false;
        }
        let body = Body(std::mem::take(&mut self.bytes));
        self.put_name(body, name, number, kind, next);
        true
    }

    /// Adds an entry with its attributes, if it fits. `tell` is called if it does: from then on the kernel
    /// knows the node, or not if there is no number left for it.
    #[must_use]
    pub(crate) fn add_entry<'m>(
        &mut self,
        (name, next): (&[u8], u64),
        shown: Shown,
        (number, kind): (u64, FileType),
        tell: impl FnOnce() -> Option<Entry<'m>>,
    ) -> bool {
        if self.lacks(ENTRY + DIRENT + name.len()) {
            return false;
        }
        let Some(entry) = tell() else { return self.add_without_node(name, number, kind, next) };
        let body = entry_body(Body(std::mem::take(&mut self.bytes)), entry, shown);
        self.put_name(body, name, number, kind, next);
        true
    }

    /// Adds an entry without a node, as `.` is one, in the form of those with attributes.
    #[must_use]
    pub(crate) fn add_without_node(&mut self, name: &[u8], number: u64, kind: FileType, next: u64) -> bool {
        if self.lacks(ENTRY + DIRENT + name.len()) {
            return false;
        }
        let body = Body(std::mem::take(&mut self.bytes)).zeros(ENTRY - ATTR).u64(number).zeros(ATTR - 8);
        self.put_name(body, name, number, kind, next);
        true
    }

    fn lacks(&self, len: usize) -> bool {
        self.bytes.len() + len.next_multiple_of(8) > self.max
    }

    /// `struct fuse_dirent`.
    fn put_name(&mut self, body: Body, name: &[u8], number: u64, kind: FileType, next: u64) {
        let body = body
            .u64(number)
            .u64(next)
            .u32(name.len().saturating_as::<u32>())
            .u32(dirent_type(kind))
            .bytes(name);
        let padding = body.0.len().next_multiple_of(8) - body.0.len();
        self.bytes = body.zeros(padding).0;
    }

    pub(crate) fn finish(self) -> Answer {
        Answer::Body(self.bytes)
    }
}

/// The type of a file as `readdir(3)` numbers it.
fn dirent_type(kind: FileType) -> u32 {
    match kind {
        FileType::Fifo => 1,
        FileType::CharDevice => 2,
        FileType::Directory => 4,
        FileType::BlockDevice => 6,
        FileType::Regular => 8,
        FileType::Symlink => 10,
        FileType::Socket => 12,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_takes_what_fits_and_no_more() {
        let mut page = DirPage::new(72);
        assert!(page.add(b"a", 5, FileType::Regular, 1));
        assert!(page.add(b"longname", 6, FileType::Directory, 2), "24 + 8 bytes after 32");
        assert!(!page.add(b"b", 7, FileType::Regular, 3));
        let Answer::Body(bytes) = page.finish() else { panic!("entries") };
        assert_eq!(bytes.len(), 64);
        assert_eq!(bytes[24], b'a');
        assert_eq!(&bytes[56..64], b"longname");
    }

    #[test]
    fn entries_without_a_node_have_the_size_of_those_with_one() {
        let mut page = DirPage::new(1000);
        assert!(page.add_without_node(b".", 5, FileType::Directory, 1));
        let Answer::Body(bytes) = page.finish() else { panic!("entries") };
        assert_eq!(bytes.len(), ENTRY + DIRENT + 8);
        assert_eq!(bytes[..8], [0; 8], "the kernel counts no node");
    }

    #[test]
    fn room_has_the_kernel_s_size() {
        let Answer::Body(bytes) = Answer::sizes(Sizes { block: 4096, ..Sizes::default() }) else {
            panic!("sizes")
        };
        assert_eq!(bytes.len(), 80);
    }
}
