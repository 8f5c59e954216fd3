//! Metadata servers and a file system.

use super::Cluster;
use crate::Result;

/// The name of the file system.
const NAME: &str = "fs";
/// The names of its pools, for metadata and for data.
const POOLS: [&str; 2] = ["cephfs.fs.meta", "cephfs.fs.data"];

impl Cluster {
    /// Starts `count` metadata servers and creates a file system. Returns when `ranks` of them serve it and
    /// the others stand by.
    pub(super) fn start_fs(&self, count: u8, ranks: u8) -> Result<()> {
        for pool in POOLS {
            self.quiet("ceph", &["osd", "pool", "create", pool, "16", "16"])?;
        }
        self.quiet("ceph", &["fs", "new", NAME, POOLS[0], POOLS[1]])?;
        for id in ids(count) {
            std::fs::create_dir_all(self.dir.join(format!("mds.{id}")))?;
            self.quiet("ceph-mds", &["-i", &id])?;
        }
        if ranks > 1 {
            self.quiet("ceph", &["fs", "set", NAME, "max_mds", &ranks.to_string()])?;
        }
        let standby = format!("{} up:standby", count - ranks);
        self.wait_for("metadata servers", &["mds", "stat"], |text| {
            let active = text.matches("=up:active").count();
            active == usize::from(ranks) && (count == ranks || text.contains(&standby))
        })?;
        self.wait_until_clean()
    }
}

/// The names of `count` metadata servers: a, b and so on.
pub(super) fn ids(count: u8) -> impl Iterator<Item = String> {
    ('a'..='z').map(String::from).take(count.into())
}
