//! Access control lists of files that are made and changed.

use std::sync::Arc;

use bytes::Bytes;
use loligo_rados::Errno;
use loligo_wire::message::mds::Xattrs;
use loligo_wire::{Caps, Encode as _, Name};

use crate::acl::{self, Acl};
use crate::error::Error;
use crate::inode::{Inode, mode};
use crate::mount::FileSystem;

/// What setting an attribute with a list comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    /// The permissions that say the same as the list, if the file gets others by it.
    pub(crate) mode: Option<u32>,
    /// The attribute's value; none removes it, where the mode says all.
    pub(crate) value: Option<Bytes>,
}

/// Returns what storing an attribute of the system means; only lists are stored.
///
/// # Errors
/// EINVAL for no list, EACCES for a default list of what is no directory, EOPNOTSUPP for other attributes.
pub(crate) fn stored(name: &[u8], value: &Bytes, file_mode: u32) -> Result<Stored, Errno> {
    let is_dir = file_mode & mode::TYPE == mode::DIRECTORY;
    match name {
        acl::ACCESS => {
            let acl = if value.is_empty() { None } else { Acl::from_xattr(value)? };
            let Some(acl) = acl else { return Ok(Stored { mode: None, value: None }) };
            let new = (file_mode & !0o777) | acl.mode();
            Ok(Stored {
                mode: (new != file_mode).then_some(new),
                value: (!acl.is_mode()).then(|| value.clone()),
            })
        }
        acl::DEFAULT if value.is_empty() => Ok(Stored { mode: None, value: None }),
        acl::DEFAULT if !is_dir => Err(Errno::EACCES),
        acl::DEFAULT => {
            let acl = Acl::from_xattr(value).map_err(|_| Errno::EINVAL)?;
            Ok(Stored { mode: None, value: acl.map(|_| value.clone()) })
        }
        _ => Err(Errno::EOPNOTSUPP),
    }
}

/// Returns the mode of a new entry, and the attributes that it begins with, by its directory's default
/// list.
fn inherited(default: &Bytes, new_mode: u32) -> Result<(u32, Xattrs), Errno> {
    let mut xattrs = Xattrs::default();
    let Some(mut acl) = Acl::from_xattr(default).map_err(|_| Errno::EIO)? else {
        return Ok((new_mode, xattrs));
    };
    let new_mode = acl.inherit(new_mode);
    if !acl.is_mode() {
        xattrs.0.insert(Name::from(acl::ACCESS), acl.to_xattr().into());
    }
    if new_mode & mode::TYPE == mode::DIRECTORY {
        xattrs.0.insert(Name::from(acl::DEFAULT), default.clone());
    }
    Ok((new_mode, xattrs))
}

impl FileSystem {
    /// Returns the mode of a new entry of a directory, and the data of the request that makes it: the
    /// lists that it inherits.
    pub(crate) async fn inherit(&self, dir: &Arc<Inode>, new_mode: u32) -> Result<(u32, Bytes), Error> {
        if !self.core.enforced.acls {
            return Ok((new_mode, Bytes::new()));
        }
        self.refresh(dir, Caps::XATTR_SHARED).await?;
        let default = dir.known().attrs.xattrs.0.get(acl::DEFAULT).cloned();
        let Some(default) = default else { return Ok((new_mode, Bytes::new())) };
        let (new_mode, xattrs) = inherited(&default, new_mode)?;
        Ok((new_mode, if xattrs.0.is_empty() { Bytes::new() } else { xattrs.to_bytes() }))
    }

    /// Returns the list that a file has after its permissions were set; none if it has no list.
    pub(crate) async fn list_after_chmod(
        &self,
        inode: &Arc<Inode>,
        permissions: u32,
    ) -> Result<Option<Bytes>, Error> {
        if !self.core.enforced.acls {
            return Ok(None);
        }
        self.refresh(inode, Caps::XATTR_SHARED).await?;
        let list = inode.known().attrs.xattrs.0.get(acl::ACCESS).cloned();
        let Some(list) = list else { return Ok(None) };
        let Ok(Some(mut acl)) = Acl::from_xattr(&list) else { return Ok(None) };
        acl.change_mode(permissions);
        Ok(Some(acl.to_xattr().into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(entries: &[(u16, u16, u32)]) -> Bytes {
        let mut bytes = vec![2, 0, 0, 0];
        for (tag, permissions, id) in entries {
            bytes.extend_from_slice(&tag.to_le_bytes());
            bytes.extend_from_slice(&permissions.to_le_bytes());
            bytes.extend_from_slice(&id.to_le_bytes());
        }
        bytes.into()
    }

    const NONE: u32 = u32::MAX;

    #[test]
    fn a_list_that_a_mode_says_is_not_stored() {
        let plain = list(&[(1, 6, NONE), (4, 4, NONE), (32, 0, NONE)]);
        let stored_as = stored(acl::ACCESS, &plain, 0o100_644).expect("valid");
        assert_eq!(stored_as, Stored { mode: Some(0o100_640), value: None });
        let named = list(&[(1, 6, NONE), (2, 6, 5), (4, 4, NONE), (16, 6, NONE), (32, 4, NONE)]);
        let stored_as = stored(acl::ACCESS, &named, 0o100_664).expect("valid");
        assert_eq!(stored_as, Stored { mode: None, value: Some(named.clone()) });
        assert_eq!(stored(acl::DEFAULT, &named, 0o100_644), Err(Errno::EACCES));
        assert_eq!(stored(acl::DEFAULT, &Bytes::from_static(b"x"), 0o040_755), Err(Errno::EINVAL));
        assert_eq!(stored(b"system.x", &named, 0o040_755), Err(Errno::EOPNOTSUPP));
    }

    #[test]
    fn new_entries_inherit_the_default_list() {
        let default = list(&[(1, 7, NONE), (2, 6, 5), (4, 5, NONE), (16, 7, NONE), (32, 0, NONE)]);
        let (mode, xattrs) = inherited(&default, 0o100_644).expect("valid");
        assert_eq!(mode, 0o100_640);
        assert_eq!(xattrs.0.keys().map(Name::as_bytes).collect::<Vec<_>>(), [acl::ACCESS]);
        let (mode, xattrs) = inherited(&default, 0o040_777).expect("valid");
        assert_eq!(mode, 0o040_770);
        assert_eq!(xattrs.0.get(acl::DEFAULT), Some(&default));
    }
}
