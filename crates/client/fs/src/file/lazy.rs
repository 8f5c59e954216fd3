//! Lazy I/O: programs that know of one another say themselves when what one has written is to be seen by
//! the others. Names are those of libcephfs.

use loligo_wire::Caps;

use super::File;
use crate::error::Error;

impl File {
    /// Makes what was written of a range visible to all clients. The whole file is, as in stock clients.
    ///
    /// # Errors
    /// As [`File::sync`].
    pub async fn lazyio_propagate(&self, _offset: u64, _len: u64) -> Result<(), Error> {
        self.sync().await
    }

    /// Makes reads of a range see what other clients have propagated: data and size. The whole file is
    /// looked at anew, as in stock clients.
    ///
    /// # Errors
    /// As [`File::stat`].
    pub async fn lazyio_synchronize(&self, _offset: u64, _len: u64) -> Result<(), Error> {
        if let Some(cached) = &self.cached {
            cached.invalidate().await?;
        }
        self.fs.ask_attrs(&self.inode, Caps::FILE_SHARED).await
    }
}
