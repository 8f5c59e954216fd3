//! Extended attributes, and the virtual ones by which CephFS shows layouts, quotas and statistics.

use std::fmt::Write as _;

use bytes::Bytes;
use loligo_rados::Errno;
use loligo_wire::Caps;
use loligo_wire::message::mds::{FilePath, Quota, RequestOp};

use crate::attributes::XattrMode;
use crate::error::Error;
use crate::inode::{Attrs, mode};
use crate::mount::FileSystem;
use crate::names::writable;
use crate::session::Request;
use crate::walk::Last;

/// The beginning of virtual attributes' names.
const VIRTUAL: &[u8] = b"ceph.";

impl FileSystem {
    /// Returns the value of an extended attribute. Names that begin with `ceph.` are the virtual ones of
    /// stock clients: `ceph.dir.rbytes`, `ceph.file.layout`, `ceph.quota.max_bytes`.
    ///
    /// # Errors
    /// ENODATA if there is none of this name.
    pub async fn xattr(&self, path: impl AsRef<[u8]>, name: impl AsRef<[u8]>) -> Result<Bytes, Error> {
        let (inode, name) = (self.core.walk(path.as_ref(), Last::Follow).await?, name.as_ref());
        if let Some(name) = name.strip_prefix(VIRTUAL) {
            self.core.ask_attrs(&inode, Caps::STAT | Caps::STAT_RECURSIVE).await?;
            let attrs = inode.known().attrs.clone();
            let text = str::from_utf8(name).ok().and_then(|name| self.virtual_value(&attrs, name));
            return text.map(Bytes::from).ok_or(Errno::ENODATA.into());
        }
        self.core.refresh(&inode, Caps::XATTR_SHARED).await?;
        let known = inode.known();
        known.attrs.xattrs.0.get(name).cloned().ok_or(Errno::ENODATA.into())
    }

    /// Lists the names of extended attributes; virtual ones are not listed, as in stock clients.
    pub async fn xattrs(&self, path: impl AsRef<[u8]>) -> Result<Vec<Vec<u8>>, Error> {
        let inode = self.core.walk(path.as_ref(), Last::Follow).await?;
        self.core.refresh(&inode, Caps::XATTR_SHARED).await?;
        let known = inode.known();
        Ok(known.attrs.xattrs.0.keys().map(|name| name.as_bytes().to_vec()).collect())
    }

    /// Sets an extended attribute. Setting a virtual one changes a layout, a quota or a pin.
    pub async fn set_xattr(
        &self,
        path: impl AsRef<[u8]>,
        name: impl AsRef<[u8]>,
        value: impl Into<Bytes>,
        how: XattrMode,
    ) -> Result<(), Error> {
        let inode = self.core.walk(path.as_ref(), Last::Follow).await?;
        writable(&inode)?;
        let flags = match how {
            XattrMode::Any => 0,
            XattrMode::Create => RequestOp::XATTR_CREATE,
            XattrMode::Replace => RequestOp::XATTR_REPLACE,
        };
        // The server may have to learn of a layout's pool first.
        let op = RequestOp::SetXattr { flags, osdmap_epoch: self.rados().map_epoch().0 };
        let path2 = FilePath::name(name.as_ref());
        let request = Request { path2, data: value.into(), ..Request::about(&inode, op) };
        self.core.call(request).await.map(drop)
    }

    /// Removes an extended attribute.
    ///
    /// # Errors
    /// ENODATA if there is none of this name.
    pub async fn remove_xattr(&self, path: impl AsRef<[u8]>, name: impl AsRef<[u8]>) -> Result<(), Error> {
        let inode = self.core.walk(path.as_ref(), Last::Follow).await?;
        writable(&inode)?;
        let path2 = FilePath::name(name.as_ref());
        let request = Request { path2, ..Request::about(&inode, RequestOp::RmXattr) };
        self.core.call(request).await.map(drop)
    }

    /// Returns the value of a virtual attribute, without the beginning of its name.
    fn virtual_value(&self, attrs: &Attrs, name: &str) -> Option<String> {
        let is_dir = attrs.mode & mode::TYPE == mode::DIRECTORY;
        match name.split_once('.') {
            Some(("dir", rest)) if is_dir && !rest.starts_with("layout") => dir_value(attrs, rest),
            Some(("dir", rest)) if is_dir => self.layout_value(attrs, rest),
            Some(("file", rest)) if !is_dir => self.layout_value(attrs, rest),
            Some(("quota", rest)) if is_dir => quota_value(attrs.quota, rest),
            Some(("snap", "btime")) if attrs.snap_btime.sec > 0 => {
                Some(format!("{}.{:09}", attrs.snap_btime.sec, attrs.snap_btime.nsec))
            }
            None if name == "quota" && is_dir => quota_value(attrs.quota, ""),
            None if name == "cluster_fsid" => Some(self.rados().fsid().to_string()),
            None if name == "client_id" => Some(format!("client{}", self.rados().instance_id())),
            _ => None,
        }
    }

    fn layout_value(&self, attrs: &Attrs, name: &str) -> Option<String> {
        let raw = attrs.layout;
        if raw.object_size == 0 {
            // A directory without a layout of its own.
            return None;
        }
        let pool = self.pool_name(raw.pool);
        let namespace = attrs.pool_ns.to_string();
        Some(match name {
            "layout" => {
                let mut all = format!(
                    "stripe_unit={} stripe_count={} object_size={} pool={pool}",
                    raw.stripe_unit, raw.stripe_count, raw.object_size
                );
                if !namespace.is_empty() {
                    let _ = write!(all, " pool_namespace={namespace}");
                }
                all
            }
            "layout.stripe_unit" => raw.stripe_unit.to_string(),
            "layout.stripe_count" => raw.stripe_count.to_string(),
            "layout.object_size" => raw.object_size.to_string(),
            "layout.pool" | "layout.pool_name" => pool,
            "layout.pool_id" => raw.pool.to_string(),
            "layout.pool_namespace" => namespace,
            _ => return None,
        })
    }

    /// Returns a pool's name, or its number if it has none any more.
    pub(crate) fn pool_name(&self, pool: loligo_wire::PoolId) -> String {
        let pools = self.rados().pools();
        pools.into_iter().find(|(id, _)| *id == pool).map_or_else(|| pool.to_string(), |(_, name)| name)
    }
}

fn dir_value(attrs: &Attrs, name: &str) -> Option<String> {
    let all = attrs.recursive;
    Some(match name {
        "entries" => (attrs.files + attrs.subdirs).to_string(),
        "files" => attrs.files.to_string(),
        "subdirs" => attrs.subdirs.to_string(),
        "rentries" => (all.rfiles + all.rsubdirs).to_string(),
        "rfiles" => all.rfiles.to_string(),
        "rsubdirs" => all.rsubdirs.to_string(),
        "rsnaps" => all.rsnaps.to_string(),
        "rbytes" => all.rbytes.to_string(),
        "rctime" => format!("{}.{:09}", all.rctime.sec, all.rctime.nsec),
        "pin" => attrs.dir_pin.to_string(),
        _ => return None,
    })
}

fn quota_value(quota: Quota, name: &str) -> Option<String> {
    let Quota { max_bytes, max_files } = quota;
    if max_bytes == 0 && max_files == 0 {
        return None;
    }
    Some(match name {
        "" => format!("max_bytes={max_bytes} max_files={max_files}"),
        "max_bytes" => max_bytes.to_string(),
        "max_files" => max_files.to_string(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_are_numbers() {
        let attrs = Attrs { files: 3, subdirs: 2, dir_pin: -1, ..Attrs::default() };
        assert_eq!(dir_value(&attrs, "entries").as_deref(), Some("5"));
        assert_eq!(dir_value(&attrs, "pin").as_deref(), Some("-1"));
        assert_eq!(dir_value(&attrs, "nothing"), None);
    }

    #[test]
    fn a_directory_without_a_quota_has_no_such_attribute() {
        assert_eq!(quota_value(Quota::default(), "max_bytes"), None);
        let quota = Quota { max_bytes: 100, max_files: 0 };
        assert_eq!(quota_value(quota, "").as_deref(), Some("max_bytes=100 max_files=0"));
        assert_eq!(quota_value(quota, "max_files").as_deref(), Some("0"));
    }
}
