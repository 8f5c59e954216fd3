//! Room for data, as `fallocate(2)` has it.

use loligo_rados::Errno;

use super::File;
use crate::error::Error;

/// The file's size stays (`FALLOC_FL_KEEP_SIZE`).
const KEEP_SIZE: i32 = 1;
/// The range becomes a hole (`FALLOC_FL_PUNCH_HOLE`).
const PUNCH_HOLE: i32 = 2;

impl File {
    /// Makes a hole: a range that reads as zeros and takes no room; the size stays. `mode` is that of
    /// `fallocate(2)`.
    ///
    /// # Errors
    /// EOPNOTSUPP for all else that `fallocate(2)` can be asked for: nothing in Ceph can promise room. The
    /// kernel's client and stock clients from 18.2.5 on answer so, too. EINVAL for an empty range.
    pub async fn fallocate(&self, mode: i32, offset: u64, len: u64) -> Result<(), Error> {
        if len == 0 || offset.checked_add(len).is_none() {
            return Err(Errno::EINVAL.into());
        }
        match mode {
            mode if mode == KEEP_SIZE | PUNCH_HOLE => self.punch_hole(offset, len).await,
            _ => Err(Errno::EOPNOTSUPP.into()),
        }
    }
}
