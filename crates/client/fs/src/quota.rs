//! Quotas of directories. The servers count what is below a directory and tell its clients; the clients
//! keep the limits. Counting takes its time, and several clients write at once, so that a limit can be
//! passed a little.

use std::sync::Arc;

use futures_util::future::join_all;
use loligo_fs_core::caps::{QuotaLimits, RecursiveStats};
use loligo_fs_core::quota::{self, Growth, Limited};
use loligo_rados::Errno;
use loligo_wire::message::mds::{FilePath, Quota};
use loligo_wire::{Caps, Ino};

use crate::error::Error;
use crate::inode::{Attrs, Inode, InodeId};
use crate::mount::FileSystem;

/// Bytes of a block in [`Space`]: CephFS's own (4 MiB).
const BLOCK_SHIFT: u32 = 22;
/// Bytes of a block where a quota is less than one of CephFS's.
const SMALL_BLOCK_SHIFT: u32 = 12;

/// The errnos that say of a directory that this client never sees it: another one may see it the next time.
const HIDDEN: [Errno; 4] = [Errno::EACCES, Errno::EPERM, Errno::ENOENT, Errno::ESTALE];

/// The room of a file system, in blocks, as `statfs(2)` shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Bytes of a block.
    pub block_size: u64,
    /// All blocks: the cluster's, or those of the quota that the mount's root has or is under.
    pub blocks: u64,
    /// The blocks that are free.
    pub free: u64,
    /// Files and directories that are there.
    pub files: u64,
    /// Bytes of a name at most.
    pub name_max: u64,
}

impl FileSystem {
    /// Checks that quotas have room for one more name in a directory.
    ///
    /// # Errors
    /// EDQUOT.
    pub(crate) async fn room_for_name(&self, dir: &Arc<Inode>) -> Result<(), Error> {
        if !self.core.enforced.quotas {
            return Ok(());
        }
        let growth = Growth { bytes: 0, files: 1 };
        quota::check(self.limits(dir).await, growth).map_err(|_| Errno::EDQUOT.into())
    }

    /// Checks that quotas have room for more bytes in a file, which then ends at `end`. Returns `true` if its
    /// growth is to be told soon, since a limit is near.
    ///
    /// # Errors
    /// EDQUOT.
    pub(crate) async fn room_for_bytes(
        &self,
        file: &Arc<Inode>,
        bytes: u64,
        end: u64,
    ) -> Result<bool, Error> {
        if bytes == 0 || !self.core.enforced.quotas {
            return Ok(false);
        }
        let limits = self.limits(file).await;
        let growth = Growth { bytes, files: 0 };
        quota::check(limits.iter().copied(), growth).map_err(|_| Errno::EDQUOT)?;
        Ok(limits.iter().any(|limited| is_near(limited, end)))
    }

    /// Checks that a move between two directories leaves the counts of all quotas as they are: otherwise
    /// the program copies, and what it copies is counted.
    ///
    /// # Errors
    /// EXDEV.
    pub(crate) async fn same_quotas(&self, from: &Arc<Inode>, to: &Arc<Inode>) -> Result<(), Error> {
        if !self.core.enforced.quotas || from.id == to.id {
            return Ok(());
        }
        let leaves = quota::leaves_realm(self.limits(from).await, self.limits(to).await);
        if leaves { Err(Errno::EXDEV.into()) } else { Ok(()) }
    }

    /// Returns an inode's limits, and those of the directories above it, from below.
    async fn limits(&self, inode: &Arc<Inode>) -> Vec<Limited> {
        let (realm, own) = {
            let known = inode.known();
            (known.realm, limited(inode.id.ino, &known.attrs))
        };
        let mut all: Vec<Limited> = own.into_iter().collect();
        // A directory with a quota is a snapshot realm: so its clients hear of it. Of those that are not
        // known the server is asked for all at once.
        let above = self.core.realms.with_parents(realm).into_iter().filter(|ino| *ino != inode.id.ino);
        for dir in join_all(above.map(|ino| self.realm_dir(ino))).await.into_iter().flatten() {
            let known = dir.known();
            all.extend(limited(dir.id.ino, &known.attrs));
        }
        all
    }

    /// Returns the directory of a realm, if the key allows this client to see it: a limit that it cannot
    /// see does not hold for it, as in a stock client. What it cannot see it asks for once.
    async fn realm_dir(&self, ino: Ino) -> Option<Arc<Inode>> {
        if ino.0 < Ino::FIRST_OF_USERS.0 && ino != Ino::ROOT {
            return None;
        }
        let id = InodeId::head(ino);
        let dir = self.core.inodes.get_or_add(id, || FilePath::new(ino, Vec::new()));
        let (is_known, is_hidden) = {
            let known = dir.known();
            (known.attrs.version > 0, known.is_hidden)
        };
        if is_known {
            return Some(dir);
        }
        if is_hidden {
            return None;
        }
        match self.core.ask_attrs(&dir, Caps::STAT_RECURSIVE).await {
            Ok(()) => Some(dir),
            Err(e) => {
                dir.known().is_hidden = HIDDEN.contains(&e.errno());
                None
            }
        }
    }

    /// Describes the room of the file system: of the quota that its root has, or is under, if there is
    /// one (`client_quota_df`), and otherwise of the cluster.
    pub async fn statfs(&self) -> Result<Space, Error> {
        let root = self.core.root()?;
        let files = |attrs: &Attrs| count(attrs.recursive.rfiles) + count(attrs.recursive.rsubdirs);
        if self.core.enforced.quotas && self.core.enforced.quota_is_space {
            self.core.ask_attrs(&root, Caps::STAT_RECURSIVE).await?;
            let files = files(&root.known().attrs);
            let limits = self.limits(&root).await;
            if let Some(limited) = limits.into_iter().find(|limited| limited.limits.bytes > 0) {
                return Ok(of_quota(&limited, files));
            }
        }
        let cluster = self.rados().statfs().await?;
        let shift = BLOCK_SHIFT - 10;
        Ok(Space {
            block_size: 1 << BLOCK_SHIFT,
            blocks: cluster.kb >> shift,
            free: cluster.kb_avail >> shift,
            files: files(&root.known().attrs),
            name_max: crate::path::NAME_BYTES_MAX as u64,
        })
    }
}

fn count(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// Returns the limits of a directory, if it has any.
fn limited(ino: Ino, attrs: &Attrs) -> Option<Limited> {
    let Quota { max_bytes, max_files } = attrs.quota;
    let all = attrs.recursive;
    attrs.quota.is_set().then(|| Limited {
        ino,
        limits: QuotaLimits { bytes: max_bytes, files: max_files },
        there: RecursiveStats {
            bytes: all.rbytes,
            files: all.rfiles,
            subdirs: all.rsubdirs,
            ..RecursiveStats::default()
        },
    })
}

/// Less than sixteen times a file's size is left.
fn is_near(limited: &Limited, size: u64) -> bool {
    let (max, there) = (count(limited.limits.bytes), count(limited.there.bytes));
    max > 0 && max.saturating_sub(there) >> 4 < size
}

fn of_quota(limited: &Limited, files: u64) -> Space {
    let (max, there) = (count(limited.limits.bytes), count(limited.there.bytes));
    let shift = if max >> BLOCK_SHIFT == 0 { SMALL_BLOCK_SHIFT } else { BLOCK_SHIFT };
    let (blocks, used) = (max >> shift, there >> shift);
    Space {
        block_size: 1 << shift,
        blocks,
        free: blocks.saturating_sub(used),
        files,
        name_max: crate::path::NAME_BYTES_MAX as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(max: i64, there: i64) -> Limited {
        let attrs = Attrs { quota: Quota { max_bytes: max, max_files: 0 }, ..Attrs::default() };
        let mut limited = limited(Ino(16), &attrs).expect("a limit");
        limited.there.bytes = there;
        limited
    }

    #[test]
    fn a_directory_without_limits_limits_nothing() {
        assert_eq!(limited(Ino(16), &Attrs::default()), None);
    }

    #[test]
    fn the_room_of_a_quota_is_never_less_than_nothing() {
        let space = of_quota(&with(10 << 22, 3 << 22), 5);
        assert_eq!((space.block_size, space.blocks, space.free, space.files), (4 << 20, 10, 7, 5));
        assert_eq!(of_quota(&with(10 << 22, 30 << 22), 5).free, 0);
        let small = of_quota(&with(8192, 4096), 1);
        assert_eq!((small.block_size, small.blocks, small.free), (4096, 2, 1));
    }

    #[test]
    fn growth_is_told_when_little_is_left() {
        assert!(!is_near(&with(1600, 0), 100));
        assert!(is_near(&with(1600, 800), 100));
        assert!(is_near(&with(1600, 9000), 1), "passed");
    }
}
