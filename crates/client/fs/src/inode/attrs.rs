//! An inode's attributes, and how a server's account of them is merged with what this client knows.

use bytes::Bytes;
use loligo_wire::message::mds::{FileLayout, FragTree, InodeStat, Quota, RecursiveStat, Xattrs};
use loligo_wire::{Caps, Name, UTime};

/// The attributes of an inode as this client knows them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Attrs {
    pub(crate) version: u64,
    pub(crate) xattr_version: u64,
    pub(crate) rdev: u32,
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) nlink: u32,
    pub(crate) layout: FileLayout,
    pub(crate) pool_ns: Name,
    pub(crate) size: u64,
    pub(crate) max_size: u64,
    pub(crate) truncate_size: u64,
    pub(crate) truncate_seq: u32,
    pub(crate) time_warp_seq: u32,
    pub(crate) ctime: UTime,
    pub(crate) mtime: UTime,
    pub(crate) atime: UTime,
    pub(crate) btime: UTime,
    pub(crate) change_attr: u64,
    pub(crate) files: i64,
    pub(crate) subdirs: i64,
    pub(crate) recursive: RecursiveStat,
    pub(crate) frag_tree: FragTree,
    pub(crate) symlink: Vec<u8>,
    pub(crate) xattrs: Xattrs,
    pub(crate) quota: Quota,
    pub(crate) dir_pin: i32,
    pub(crate) snap_btime: UTime,
    /// Data that the metadata server keeps itself: file systems of old releases have such files.
    pub(crate) inline: Option<Bytes>,
}

/// What this client may rely on, when a server's account arrives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    /// What was issued before, with the bits of changes that the server has not acknowledged.
    pub(crate) issued: Caps,
    /// What the same message grants in addition.
    pub(crate) new: Caps,
    /// The account is that of the server which decides about the inode.
    pub(crate) is_auth: bool,
}

impl Attrs {
    /// Merges a server's account. It knows better unless this client holds the bit that lets it change
    /// the attribute itself; an account older than what is known changes nothing. Returns the end behind
    /// which cached data must go, if the file was truncated.
    pub(crate) fn merge(&mut self, stat: &InodeStat, held: Held) -> Option<u64> {
        let mut cut = None;
        let Held { issued, new, is_auth } = held;
        // Odd versions are those of changes in progress.
        let newer = self.version == 0 || (is_auth && stat.version > (self.version & !1));
        if (newer || new.contains(Caps::AUTH_SHARED)) && !issued.contains(Caps::AUTH_EXCL) {
            (self.mode, self.uid, self.gid, self.btime) = (stat.mode, stat.uid, stat.gid, stat.btime);
            self.snap_btime = stat.snap_btime;
        }
        if (newer || new.contains(Caps::LINK_SHARED)) && !issued.contains(Caps::LINK_EXCL) {
            self.nlink = stat.nlink;
        }
        self.merge_xattrs(&stat.xattrs, stat.xattr_version, issued);
        if newer || new.intersects(Caps::ANY_FILE) {
            (self.layout, self.pool_ns) = (stat.layout, stat.pool_ns.clone());
            cut = self.merge_size(stat.size, (stat.truncate_seq, stat.truncate_size));
            self.merge_times(issued, (stat.ctime, stat.mtime, stat.atime), stat.time_warp_seq);
        }
        if newer || new.contains(Caps::FILE_SHARED) {
            (self.files, self.subdirs) = (stat.nfiles, stat.nsubdirs);
        }
        if newer || is_auth {
            self.recursive = stat.recursive;
            (self.quota, self.dir_pin) = (stat.quota, stat.dir_pin);
        }
        self.frag_tree.clone_from(&stat.fragtree);
        if !stat.symlink.is_empty() {
            self.symlink.clone_from(&stat.symlink);
        }
        self.inline = (stat.inline_version != InodeStat::NOT_INLINE && stat.inline_version != 0)
            .then(|| stat.inline_data.clone());
        if is_auth {
            self.max_size = stat.max_size;
        }
        self.rdev = stat.rdev;
        self.change_attr = self.change_attr.max(stat.change_attr);
        self.version = self.version.max(stat.version);
        cut
    }

    /// Merges extended attributes, as a message's blob holds them; an empty blob says nothing.
    pub(crate) fn merge_xattrs(&mut self, blob: &[u8], version: u64, issued: Caps) {
        let is_first = self.xattr_version == 0;
        if is_first || (version > self.xattr_version && !issued.contains(Caps::XATTR_EXCL)) {
            // A blob that is no list of attributes says as little as an empty one.
            if let Ok(Some(xattrs)) = Xattrs::from_blob(blob) {
                (self.xattrs, self.xattr_version) = (xattrs, version);
            }
        }
    }

    /// Merges a size. Of one truncation's time the larger size is the newer one, since only truncations
    /// make files shorter. Returns the end behind which cached data must go.
    pub(crate) fn merge_size(&mut self, size: u64, (truncate_seq, truncate_size): (u32, u64)) -> Option<u64> {
        let cut = (truncate_seq > self.truncate_seq && truncate_size < self.size).then_some(truncate_size);
        if truncate_seq > self.truncate_seq || (truncate_seq == self.truncate_seq && size > self.size) {
            self.size = size;
        }
        if truncate_seq >= self.truncate_seq {
            (self.truncate_seq, self.truncate_size) = (truncate_seq, truncate_size);
        }
        cut
    }

    /// Merges times. While this client may change them itself, the later ones count; a larger
    /// `time_warp_seq` says that somebody set them, also to earlier ones.
    pub(crate) fn merge_times(
        &mut self,
        issued: Caps,
        (ctime, mtime, atime): (UTime, UTime, UTime),
        time_warp_seq: u32,
    ) {
        if issued.intersects(Caps::ANY_FILE_WR | Caps::AUTH_EXCL | Caps::XATTR_EXCL) {
            self.ctime = self.ctime.max(ctime);
            if time_warp_seq > self.time_warp_seq {
                (self.mtime, self.atime, self.time_warp_seq) = (mtime, atime, time_warp_seq);
            } else if time_warp_seq == self.time_warp_seq {
                (self.mtime, self.atime) = (self.mtime.max(mtime), self.atime.max(atime));
            }
        } else if time_warp_seq >= self.time_warp_seq {
            (self.ctime, self.mtime, self.atime) = (ctime, mtime, atime);
            self.time_warp_seq = time_warp_seq;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(sec: u32) -> UTime {
        UTime { sec, nsec: 0 }
    }

    fn stat(version: u64, size: u64, mtime: u32) -> InodeStat {
        InodeStat {
            version,
            size,
            mtime: at(mtime),
            ctime: at(mtime),
            mode: 0o100_644,
            ..InodeStat::default()
        }
    }

    fn held(issued: Caps, new: Caps) -> Held {
        Held { issued, new, is_auth: true }
    }

    #[test]
    fn an_older_account_changes_nothing() {
        let mut attrs = Attrs::default();
        attrs.merge(&stat(4, 100, 50), held(Caps::NONE, Caps::NONE));
        attrs.merge(&InodeStat { mode: 0o100_600, ..stat(3, 200, 40) }, held(Caps::NONE, Caps::NONE));
        assert_eq!((attrs.size, attrs.mtime, attrs.mode), (100, at(50), 0o100_644));
        attrs.merge(&InodeStat { mode: 0o100_600, ..stat(6, 200, 60) }, held(Caps::NONE, Caps::NONE));
        assert_eq!((attrs.size, attrs.mtime, attrs.mode), (200, at(60), 0o100_600));
    }

    #[test]
    fn what_this_client_changes_itself_is_kept() {
        let mut attrs = Attrs::default();
        attrs.merge(&stat(4, 100, 50), held(Caps::NONE, Caps::NONE));
        (attrs.size, attrs.mtime, attrs.mode) = (500, at(70), 0o100_777);
        let exclusive = Caps::FILE_WR | Caps::FILE_EXCL | Caps::AUTH_EXCL;
        attrs.merge(&stat(6, 100, 60), held(exclusive, Caps::NONE));
        assert_eq!((attrs.size, attrs.mtime, attrs.mode), (500, at(70), 0o100_777));
    }

    #[test]
    fn only_a_truncation_makes_a_file_shorter() {
        let mut attrs = Attrs { size: 100, truncate_seq: 1, ..Attrs::default() };
        assert_eq!(attrs.merge_size(50, (1, u64::MAX)), None);
        assert_eq!(attrs.size, 100);
        assert_eq!(attrs.merge_size(50, (2, 50)), Some(50), "cached data goes");
        assert_eq!((attrs.size, attrs.truncate_seq, attrs.truncate_size), (50, 2, 50));
        attrs.merge_size(70, (1, u64::MAX));
        assert_eq!((attrs.size, attrs.truncate_seq), (50, 2));
    }

    #[test]
    fn times_that_somebody_set_count_even_if_earlier() {
        let mut attrs = Attrs { mtime: at(50), time_warp_seq: 3, ..Attrs::default() };
        attrs.merge_times(Caps::FILE_WR, (at(1), at(20), at(20)), 3);
        assert_eq!(attrs.mtime, at(50));
        attrs.merge_times(Caps::FILE_WR, (at(1), at(20), at(20)), 4);
        assert_eq!((attrs.mtime, attrs.time_warp_seq), (at(20), 4));
        attrs.merge_times(Caps::NONE, (at(1), at(10), at(10)), 3);
        assert_eq!(attrs.mtime, at(20));
    }
}
