//! What an operation demands of an inode.

use loligo_rados::Errno;

use super::known::Inode;
use super::mode;

/// Refuses changes in a snapshot.
pub(crate) fn writable(dir: &Inode) -> Result<(), Errno> {
    if dir.id.is_head() { Ok(()) } else { Err(Errno::EROFS) }
}

/// Returns an error unless the inode is a file with data.
pub(crate) fn regular_file(inode: &Inode) -> Result<(), Errno> {
    match inode.kind() {
        mode::REGULAR => Ok(()),
        mode::DIRECTORY => Err(Errno::EISDIR),
        _ => Err(Errno::EINVAL),
    }
}
