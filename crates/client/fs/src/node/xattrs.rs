//! Extended attributes of a node.

use bytes::Bytes;
use loligo_rados::Errno;
use loligo_wire::Caps;
use loligo_wire::message::mds::{FilePath, RequestOp};

use super::Node;
use crate::acl;
use crate::attributes::{Changes, XattrMode};
use crate::error::Error;
use crate::inode::writable;
use crate::permission::{self, READ, Stored, WRITE};
use crate::session::{Extra, Request};
use crate::virtual_xattrs::{Source, VIRTUAL, Virtual};

/// The beginnings of names that programs may choose.
const FREE: [&[u8]; 4] = [b"user.", b"security.", b"trusted.", VIRTUAL];
/// The beginning of names that have a meaning for systems: access control lists.
const SYSTEM: &[u8] = b"system.";

impl Node {
    /// Returns the value of an extended attribute. Names that begin with `ceph.` are the virtual ones of
    /// stock clients: `ceph.dir.rbytes`, `ceph.file.layout`, `ceph.quota.max_bytes`.
    ///
    /// # Errors
    /// ENODATA if there is none of this name; EOPNOTSUPP for access control lists, unless they count
    /// ([`crate::MountOptions::acls`]).
    pub async fn xattr(&self, name: impl AsRef<[u8]>) -> Result<Bytes, Error> {
        let name = name.as_ref();
        self.fs.may_use_xattr(&self.inode, name, READ).await?;
        if let Some(of) = Virtual::of(self.inode.kind(), name) {
            return self.virtual_xattr(of).await;
        }
        if name.starts_with(VIRTUAL)
            && let Some(value) = self.served_xattr(name).await?
        {
            return Ok(value);
        }
        if name.starts_with(SYSTEM) && !self.fs.core.enforced.acls {
            return Err(Errno::EOPNOTSUPP.into());
        }
        self.fs.refresh(&self.inode, Caps::XATTR_SHARED).await?;
        let known = self.inode.known();
        known.attrs.xattrs.0.get(name).cloned().ok_or(Errno::ENODATA.into())
    }

    /// Returns the value of a virtual attribute, as the server knows it now.
    async fn virtual_xattr(&self, of: Virtual<'_>) -> Result<Bytes, Error> {
        self.fs.ask_attrs(&self.inode, of.needs | Caps::XATTR_SHARED).await?;
        let (attrs, issued, realm) = {
            let known = self.inode.known();
            (known.attrs.clone(), known.issued(self.fs.core.now_ms()), known.realm)
        };
        let id = self.inode.id;
        let has_quota_realm = !id.is_head() || realm == id.ino;
        let value = self.fs.virtual_value(of, &Source { attrs: &attrs, issued, has_quota_realm });
        value.map(Bytes::from).ok_or(Errno::ENODATA.into())
    }

    /// Asks the server for a virtual attribute that this client does not know.
    async fn served_xattr(&self, name: &[u8]) -> Result<Option<Bytes>, Error> {
        let path2 = FilePath::name(name);
        let request = Request { path2, ..Request::about(&self.inode, RequestOp::GetVxattr) };
        match self.fs.call(request).await {
            Ok(done) => match done.extra {
                Extra::Value(value) => Ok(Some(value)),
                _ => Err(crate::mds::missing("getvxattr", 0)),
            },
            // Servers of old releases know no such request.
            Err(e) if [Errno::ENODATA, Errno::EOPNOTSUPP].contains(&e.errno()) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Lists the names of extended attributes; virtual ones are not listed, as in stock clients.
    pub async fn list_xattrs(&self) -> Result<Vec<Vec<u8>>, Error> {
        self.fs.refresh(&self.inode, Caps::XATTR_SHARED).await?;
        let known = self.inode.known();
        let names = known.attrs.xattrs.0.keys().map(|name| name.as_bytes());
        Ok(names.filter(|name| !name.starts_with(VIRTUAL)).map(<[u8]>::to_vec).collect())
    }

    /// Sets an extended attribute. Setting a virtual one changes a layout, a quota or a pin.
    ///
    /// # Errors
    /// EOPNOTSUPP for a name that has no meaning here, and for a virtual one that only shows something;
    /// of a layout: ENOTEMPTY if the file has data, EINVAL if it is none, or its pool is none of the file
    /// system's.
    pub async fn set_xattr(
        &self,
        name: impl AsRef<[u8]>,
        value: impl Into<Bytes>,
        how: XattrMode,
    ) -> Result<(), Error> {
        let (name, value) = (name.as_ref(), value.into());
        writable(&self.inode)?;
        self.fs.may_use_xattr(&self.inode, name, WRITE).await?;
        if name.starts_with(SYSTEM) && self.fs.core.enforced.acls {
            return self.set_list(name, &value, how).await;
        }
        if !FREE.iter().any(|beginning| name.starts_with(beginning)) {
            return Err(Errno::EOPNOTSUPP.into());
        }
        let known = Virtual::of(self.inode.kind(), name);
        if let Some(of) = known {
            if of.is_read_only {
                return Err(Errno::EOPNOTSUPP.into());
            }
            if of.names_pool() {
                self.know_pool(name, &value).await?;
            }
        }
        self.store_xattr(name, Some(value), how).await?;
        match known {
            Some(of) if of.is_quota() => self.check_quota_realm(),
            _ => Ok(()),
        }
    }

    /// Sets an access control list, which changes the permissions, too.
    async fn set_list(&self, name: &[u8], value: &Bytes, how: XattrMode) -> Result<(), Error> {
        self.fs.refresh(&self.inode, Caps::AUTH_SHARED).await?;
        let mode = self.inode.known().attrs.mode;
        let Stored { mode, value } = permission::stored(name, value, mode)?;
        if mode.is_some() {
            self.set_unchecked(Changes { permissions: mode, ..Changes::default() }).await?;
        }
        match self.store_xattr(name, value.clone(), how).await {
            // There was no list that could be removed.
            Err(e) if value.is_none() && e.errno() == Errno::ENODATA => Ok(()),
            done => done,
        }
    }

    /// Stores an attribute; no value removes it.
    pub(crate) async fn store_xattr(
        &self,
        name: &[u8],
        value: Option<Bytes>,
        how: XattrMode,
    ) -> Result<(), Error> {
        let flags = match how {
            XattrMode::Any => 0,
            XattrMode::Create => RequestOp::XATTR_CREATE,
            XattrMode::Replace => RequestOp::XATTR_REPLACE,
        };
        let flags = if value.is_none() { flags | RequestOp::XATTR_REMOVE } else { flags };
        // The server may have to learn of a layout's pool first.
        let op = RequestOp::SetXattr { flags, osdmap_epoch: self.fs.rados().map_epoch().0 };
        let data = value.unwrap_or_default();
        let request = Request { path2: FilePath::name(name), data, ..Request::about(&self.inode, op) };
        self.fs.call(request).await.map(drop)
    }

    /// Makes sure that the client's map of the OSDs has a layout's pool, which may be new: the server waits
    /// for that map before it says that there is no such pool.
    async fn know_pool(&self, name: &[u8], value: &[u8]) -> Result<(), Error> {
        let text = String::from_utf8_lossy(value);
        let pool = match name.ends_with(b".pool") {
            true => Some(&*text),
            false => text.split_whitespace().find_map(|part| part.strip_prefix("pool=")),
        };
        let Some(pool) = pool else { return Ok(()) };
        let is_it = |(id, name): &(loligo_wire::PoolId, String)| name == pool || id.to_string() == pool;
        if !self.fs.rados().pools().iter().any(is_it) {
            self.fs.rados().wait_for_latest_osdmap().await?;
        }
        Ok(())
    }

    /// Checks that the server counts what is below a directory with a quota.
    fn check_quota_realm(&self) -> Result<(), Error> {
        let known = self.inode.known();
        let counts = !known.attrs.quota.is_set() || known.realm == self.inode.id.ino;
        if counts { Ok(()) } else { Err(Errno::EOPNOTSUPP.into()) }
    }

    /// Removes an extended attribute.
    ///
    /// # Errors
    /// ENODATA if there is none of this name; EOPNOTSUPP as for [`Node::set_xattr`].
    pub async fn remove_xattr(&self, name: impl AsRef<[u8]>) -> Result<(), Error> {
        let name = name.as_ref();
        writable(&self.inode)?;
        self.fs.may_use_xattr(&self.inode, name, WRITE).await?;
        let is_list = name == acl::ACCESS || name == acl::DEFAULT;
        if !is_list && !FREE.iter().any(|beginning| name.starts_with(beginning)) {
            return Err(Errno::EOPNOTSUPP.into());
        }
        if Virtual::of(self.inode.kind(), name).is_some_and(|of| of.is_read_only) {
            return Err(Errno::EOPNOTSUPP.into());
        }
        let path2 = FilePath::name(name);
        let request = Request { path2, ..Request::about(&self.inode, RequestOp::RmXattr) };
        match self.fs.call(request).await {
            // A file without a list has the one that its mode says.
            Err(e) if is_list && e.errno() == Errno::ENODATA => Ok(()),
            done => done.map(drop),
        }
    }
}
