//! Where data and holes are, as `lseek(2)` asks for them.

use loligo_rados::Errno;

use super::File;
use crate::error::Error;

impl File {
    /// Returns the first place at or after an offset that holds data. Holes are not told from zeros, as in
    /// stock clients: all up to the file's end is data.
    ///
    /// # Errors
    /// ENXIO if the offset is at the file's end or beyond it.
    pub async fn seek_data(&self, offset: u64) -> Result<u64, Error> {
        let size = self.size_now().await?;
        if offset < size { Ok(offset) } else { Err(Errno::ENXIO.into()) }
    }

    /// Returns the first place at or after an offset that is a hole: the file's end.
    ///
    /// # Errors
    /// ENXIO if the offset is at the file's end or beyond it.
    pub async fn seek_hole(&self, offset: u64) -> Result<u64, Error> {
        let size = self.size_now().await?;
        if offset < size { Ok(size) } else { Err(Errno::ENXIO.into()) }
    }

    /// Returns the file's size, as a server vouches for it.
    pub(super) async fn size_now(&self) -> Result<u64, Error> {
        if self.inode.id.is_head() {
            self.fs.core.know_size(&self.inode, u64::MAX).await?;
            return Ok(self.inode.data.size());
        }
        Ok(self.inode.known().attrs.size)
    }
}
