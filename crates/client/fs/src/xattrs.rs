//! Extended attributes, by paths.

use bytes::Bytes;

use crate::attributes::XattrMode;
use crate::error::Error;
use crate::mount::FileSystem;

impl FileSystem {
    /// Returns the value of an extended attribute. Names that begin with `ceph.` are the virtual ones of
    /// stock clients: `ceph.dir.rbytes`, `ceph.file.layout`, `ceph.quota.max_bytes`.
    ///
    /// # Errors
    /// ENODATA if there is none of this name.
    pub async fn xattr(&self, path: impl AsRef<[u8]>, name: impl AsRef<[u8]>) -> Result<Bytes, Error> {
        self.find(path).await?.xattr(name).await
    }

    /// Lists the names of extended attributes; virtual ones are not listed, as in stock clients.
    pub async fn xattrs(&self, path: impl AsRef<[u8]>) -> Result<Vec<Vec<u8>>, Error> {
        self.find(path).await?.list_xattrs().await
    }

    /// Sets an extended attribute. Setting a virtual one changes a layout, a quota or a pin.
    pub async fn set_xattr(
        &self,
        path: impl AsRef<[u8]>,
        name: impl AsRef<[u8]>,
        value: impl Into<Bytes>,
        how: XattrMode,
    ) -> Result<(), Error> {
        self.find(path).await?.set_xattr(name, value, how).await
    }

    /// Removes an extended attribute.
    ///
    /// # Errors
    /// ENODATA if there is none of this name.
    pub async fn remove_xattr(&self, path: impl AsRef<[u8]>, name: impl AsRef<[u8]>) -> Result<(), Error> {
        self.find(path).await?.remove_xattr(name).await
    }
}
