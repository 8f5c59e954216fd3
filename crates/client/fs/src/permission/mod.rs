//! Permissions, checked by this client before it asks a server: the servers check keys, not users. The
//! option `client_permissions` of stock clients turns the checks off, [`client_acl_type`] lets access
//! control lists count.
//!
//! [`client_acl_type`]: crate::MountOptions::acls

mod acls;
mod rules;

use std::sync::Arc;

use loligo_rados::Errno;
use loligo_wire::Caps;

pub(crate) use self::acls::{Stored, stored};
pub(crate) use self::rules::{EXECUTE, READ, Subject, User, WRITE, Wish, loses_ids};
use crate::acl::{self, Acl};
use crate::attributes::Changes;
use crate::error::Error;
use crate::file::OpenOptions;
use crate::inode::Inode;
use crate::mount::FileSystem;

impl FileSystem {
    /// Returns the user on whose behalf requests are made.
    pub(crate) fn user(&self) -> User<'_> {
        let caller = &self.caller;
        User { uid: caller.uid, gid: caller.gid, groups: &caller.groups }
    }

    fn checks(&self) -> bool {
        self.core.enforced.permissions
    }

    /// Returns `true` if no permission keeps the user from opening a file.
    pub(crate) fn may_all(&self) -> bool {
        !self.checks() || self.user().is_root()
    }

    /// Returns what the rules look at, as a server vouches for it.
    async fn subject(&self, inode: &Arc<Inode>) -> Result<Subject, Error> {
        let with_acls = self.core.enforced.acls;
        let mask = if with_acls { Caps::AUTH_SHARED | Caps::XATTR_SHARED } else { Caps::AUTH_SHARED };
        self.refresh(inode, mask).await?;
        let known = inode.known();
        let attrs = &known.attrs;
        let acl = attrs.xattrs.0.get(acl::ACCESS).filter(|_| with_acls);
        // A list that is none permits nothing.
        let acl = acl.map(|bytes| Acl::from_xattr(bytes).map_err(|_| Errno::EACCES)).transpose()?;
        Ok(Subject { mode: attrs.mode, uid: attrs.uid, gid: attrs.gid, acl: acl.flatten() })
    }

    /// Checks that the user may do what is `wanted` with an inode.
    ///
    /// # Errors
    /// EACCES.
    async fn may(&self, inode: &Arc<Inode>, wanted: u32) -> Result<(), Error> {
        if !self.checks() || (self.user().is_root() && wanted & EXECUTE == 0) {
            return Ok(());
        }
        Ok(self.subject(inode).await?.permits(self.user(), wanted)?)
    }

    /// Checks that the user may find a name in a directory.
    pub(crate) async fn may_look_up(&self, dir: &Arc<Inode>) -> Result<(), Error> {
        // Nobody keeps root out of a directory, and most mounts are root's: nothing needs to be asked.
        if self.user().is_root() {
            return Ok(());
        }
        self.may(dir, EXECUTE).await
    }

    /// Checks that the user may list a directory.
    pub(crate) async fn may_list(&self, dir: &Arc<Inode>) -> Result<(), Error> {
        self.may(dir, READ).await
    }

    /// Checks that the user may open a file.
    pub(crate) async fn may_open(&self, inode: &Arc<Inode>, options: OpenOptions) -> Result<(), Error> {
        let read = if options.reads() { READ } else { 0 };
        let write = if options.writes() || options.truncates() { WRITE } else { 0 };
        self.may(inode, read | write).await
    }

    /// Checks that the user may make a name in a directory.
    pub(crate) async fn may_create(&self, dir: &Arc<Inode>) -> Result<(), Error> {
        if self.user().is_root() {
            return Ok(());
        }
        self.may(dir, WRITE | EXECUTE).await
    }

    /// Checks that the user may remove a name of a directory, or put another thing in its place.
    ///
    /// # Errors
    /// EPERM in a sticky directory, if the name is others'.
    pub(crate) async fn may_delete(&self, dir: &Arc<Inode>, name: &[u8]) -> Result<(), Error> {
        if self.may_all() {
            return Ok(());
        }
        let subject = self.subject(dir).await?;
        subject.permits(self.user(), WRITE | EXECUTE)?;
        let entry = match self.lookup(dir, name).await {
            Ok(entry) => Some(self.subject(&entry).await?),
            Err(e) if e.is_not_found() => None,
            Err(e) => return Err(e),
        };
        Ok(subject.may_delete(self.user(), entry.as_ref())?)
    }

    /// Checks that the user may give a file another name.
    pub(crate) async fn may_link(&self, inode: &Arc<Inode>) -> Result<(), Error> {
        if self.may_all() {
            return Ok(());
        }
        Ok(self.subject(inode).await?.may_link(self.user())?)
    }

    /// Checks that the user may change attributes so. Returns what is to be changed.
    pub(crate) async fn may_change(&self, inode: &Arc<Inode>, changes: Changes) -> Result<Changes, Error> {
        if self.may_all() {
            return Ok(changes);
        }
        let wish = Wish {
            mode: changes.permissions,
            uid: changes.uid,
            gid: changes.gid,
            changes_size: changes.size.is_some(),
            sets_times: (changes.mtime.is_some() && !changes.mtime_now)
                || (changes.atime.is_some() && !changes.atime_now),
            touches: changes.mtime_now || changes.atime_now,
        };
        let permissions = wish.check(self.user(), &self.subject(inode).await?)?;
        Ok(Changes { permissions, ..changes })
    }

    /// Checks that the user may read or write an extended attribute: those of the system are their
    /// owner's to change, the others belong to the data.
    pub(crate) async fn may_use_xattr(
        &self,
        inode: &Arc<Inode>,
        name: &[u8],
        wanted: u32,
    ) -> Result<(), Error> {
        if self.may_all() {
            return Ok(());
        }
        let subject = self.subject(inode).await?;
        if !name.starts_with(b"system.") {
            return Ok(subject.permits(self.user(), wanted)?);
        }
        match wanted & WRITE != 0 && subject.uid != self.caller.uid {
            true => Err(Errno::EPERM.into()),
            false => Ok(()),
        }
    }
}
