//! An inode's attributes on a client, and how those of a reply replace them.

use std::collections::BTreeMap;

use loligo_types::{Caps, UTime};

use super::cap::is_after;

/// The counts of a directory's own entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DirStats {
    /// Entries that are no directories.
    pub files: i64,
    /// Entries that are directories.
    pub subdirs: i64,
}

/// The counts of everything below a directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecursiveStats {
    /// Bytes of all files.
    pub bytes: i64,
    /// Entries that are no directories.
    pub files: i64,
    /// Directories.
    pub subdirs: i64,
    /// The last change.
    pub changed: UTime,
}

/// The limits of a directory; zero means none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuotaLimits {
    /// Bytes of all files below.
    pub bytes: i64,
    /// Entries below.
    pub files: i64,
}

/// What a client knows of an inode.
///
/// `L` is the layout's type: the rules only pass it on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InodeAttrs<L> {
    /// The metadata server's version; zero if nothing is known.
    pub version: u64,
    /// Type and permissions.
    pub mode: u32,
    /// The owner.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// When the inode was created.
    pub born: UTime,
    /// The number of names.
    pub nlink: u32,
    /// The file's size.
    pub size: u64,
    /// The size that the metadata server permits.
    pub max_size: u64,
    /// How often the file was truncated.
    pub truncate_seq: u32,
    /// The size of the last truncation.
    pub truncate_size: u64,
    /// The last change of the data.
    pub modified: UTime,
    /// The last access.
    pub accessed: UTime,
    /// The last change of anything.
    pub changed: UTime,
    /// How often times were set explicitly.
    pub time_warp_seq: u32,
    /// How often anything was changed.
    pub change_attr: u64,
    /// The layout.
    pub layout: L,
    /// The extended attributes.
    pub xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Their version.
    pub xattr_version: u64,
    /// A directory's counts.
    pub dir: DirStats,
    /// A directory's recursive counts.
    pub recursive: RecursiveStats,
    /// A directory's limits.
    pub quota: QuotaLimits,
}

/// What a message tells of an inode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InodeNews<L> {
    /// The bits of the capability in the message.
    pub caps: Caps,
    /// Whether the sender has authority over the inode.
    pub is_auth: bool,
    /// The attributes. An empty set of extended attributes tells nothing unless `has_xattrs`.
    pub attrs: InodeAttrs<L>,
    /// Whether the message has extended attributes.
    pub has_xattrs: bool,
}

/// What a merge changed that its caller must act on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Merged {
    /// The file was truncated: cached data beyond this size is dropped.
    pub truncated_to: Option<u64>,
    /// The size that may be written has grown.
    pub max_size_grew: bool,
    /// An empty directory came with Fs, and the client did not have Fx: all its entries, none, are known.
    pub is_complete: bool,
}

impl<L: Clone> InodeAttrs<L> {
    /// Takes from a message what is newer than what the client has.
    ///
    /// `issued` is what the client held before the message, with the parts whose changes are not yet
    /// acknowledged: what the client may change itself is not overwritten.
    pub fn merge(&mut self, news: &InodeNews<L>, issued: Caps) -> Merged {
        let theirs = &news.attrs;
        let new = news.caps - issued;
        // The lowest bit marks a version that is not durable yet.
        let is_newer = self.version == 0 || news.is_auth && theirs.version > self.version & !1;
        let mut merged = Merged::default();
        if (is_newer || new.contains(Caps::AUTH_SHARED)) && !issued.contains(Caps::AUTH_EXCL) {
            (self.mode, self.uid, self.gid) = (theirs.mode, theirs.uid, theirs.gid);
            self.born = theirs.born;
        }
        if (is_newer || new.contains(Caps::LINK_SHARED)) && !issued.contains(Caps::LINK_EXCL) {
            self.nlink = theirs.nlink;
        }
        let may_take = !issued.contains(Caps::XATTR_EXCL) || self.xattr_version == 0;
        if news.has_xattrs && theirs.xattr_version > self.xattr_version && may_take {
            self.xattrs.clone_from(&theirs.xattrs);
            self.xattr_version = theirs.xattr_version;
        }
        if is_newer || new.intersects(Caps::ANY_FILE) {
            self.layout = theirs.layout.clone();
            merged.truncated_to = self.merge_size(theirs.size, theirs.truncate_seq, theirs.truncate_size);
        }
        if is_newer || new.contains(Caps::FILE_SHARED) {
            self.dir = theirs.dir;
        }
        if is_newer || news.is_auth {
            (self.recursive, self.quota) = (theirs.recursive, theirs.quota);
        }
        self.merge_times(theirs, issued);
        self.change_attr = self.change_attr.max(theirs.change_attr);
        if news.is_auth && theirs.max_size != self.max_size {
            merged.max_size_grew = theirs.max_size > self.max_size;
            self.max_size = theirs.max_size;
        }
        self.version = self.version.max(theirs.version);
        merged.is_complete = self.dir == DirStats::default()
            && news.caps.contains(Caps::FILE_SHARED)
            && !issued.contains(Caps::FILE_EXCL);
        merged
    }

    /// Takes a size if the file was truncated since, or if it has grown. Returns the size beyond which
    /// cached data must go.
    pub fn merge_size(&mut self, size: u64, truncate_seq: u32, truncate_size: u64) -> Option<u64> {
        let is_truncated = is_after(truncate_seq, self.truncate_seq);
        let is_same = truncate_seq == self.truncate_seq;
        let mut cut = None;
        if is_truncated || is_same && size > self.size {
            cut = (is_truncated && truncate_size < self.size).then_some(truncate_size);
            self.size = size;
            self.truncate_seq = truncate_seq;
        }
        if is_truncated || is_same {
            self.truncate_size = truncate_size;
        }
        cut
    }

    /// Takes times. A client that may set them itself accepts only later ones, unless somebody has set
    /// them explicitly.
    fn merge_times(&mut self, theirs: &Self, issued: Caps) {
        let own = Caps::ANY_FILE_WR | Caps::AUTH_EXCL | Caps::XATTR_EXCL;
        let warped = theirs.time_warp_seq.wrapping_sub(self.time_warp_seq).cast_signed();
        if !issued.intersects(own) {
            if warped >= 0 {
                self.changed = theirs.changed;
                (self.modified, self.accessed) = (theirs.modified, theirs.accessed);
                self.time_warp_seq = theirs.time_warp_seq;
            }
            return;
        }
        self.changed = self.changed.max(theirs.changed);
        if warped > 0 {
            (self.modified, self.accessed) = (theirs.modified, theirs.accessed);
            self.time_warp_seq = theirs.time_warp_seq;
        } else if warped == 0 {
            self.modified = self.modified.max(theirs.modified);
            self.accessed = self.accessed.max(theirs.accessed);
        }
    }
}
