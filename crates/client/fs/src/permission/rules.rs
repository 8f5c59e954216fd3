//! The rules of POSIX permissions, as stock clients apply them. Pure: all that they need is given.

use loligo_rados::Errno;

use crate::acl::Acl;
use crate::inode::mode;

/// Reading a file's data or a directory's names.
pub(crate) const READ: u32 = 4;
/// Changing a file's data or a directory's names.
pub(crate) const WRITE: u32 = 2;
/// Running a file, or passing through a directory.
pub(crate) const EXECUTE: u32 = 1;

/// All execute bits of a mode.
const ANY_EXECUTE: u32 = 0o111;
const STICKY: u32 = 0o1000;
const SET_GROUP_ID: u32 = 0o2000;
const SET_USER_ID: u32 = 0o4000;

/// The user on whose behalf something is done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct User<'a> {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) groups: &'a [u32],
}

impl User<'_> {
    pub(crate) fn is_root(self) -> bool {
        self.uid == 0
    }

    pub(crate) fn is_in(self, group: u32) -> bool {
        self.gid == group || self.groups.contains(&group)
    }
}

/// What the rules look at in an inode.
#[derive(Clone, Debug, Default)]
pub(crate) struct Subject {
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// The access control list, if lists are considered.
    pub(crate) acl: Option<Acl>,
}

impl Subject {
    fn is_dir(&self) -> bool {
        self.mode & mode::TYPE == mode::DIRECTORY
    }

    /// Checks whether a user has all `wanted` permissions.
    ///
    /// # Errors
    /// EACCES.
    pub(crate) fn permits(&self, user: User<'_>, wanted: u32) -> Result<(), Errno> {
        let may = if user.is_root() {
            // A file that nobody may run cannot be run by root either.
            self.is_dir() || wanted & EXECUTE == 0 || self.mode & ANY_EXECUTE != 0
        } else {
            match &self.acl {
                Some(acl) if user.uid != self.uid && self.mode & 0o070 != 0 => {
                    acl.permits((self.uid, self.gid), user.uid, |group| user.is_in(group), wanted)
                }
                _ => self.mode >> self.shift(user) & wanted == wanted,
            }
        };
        if may { Ok(()) } else { Err(Errno::EACCES) }
    }

    /// Returns where in the mode the bits of a user are.
    fn shift(&self, user: User<'_>) -> u32 {
        match () {
            () if user.uid == self.uid => 6,
            () if user.is_in(self.gid) => 3,
            () => 0,
        }
    }

    /// Checks whether a user may remove or replace a name of this directory that leads to `entry`.
    ///
    /// # Errors
    /// EACCES; EPERM in a sticky directory of others.
    pub(crate) fn may_delete(&self, user: User<'_>, entry: Option<&Self>) -> Result<(), Errno> {
        self.permits(user, WRITE | EXECUTE)?;
        let is_others = |entry: &Self| self.uid != user.uid && entry.uid != user.uid;
        if !user.is_root() && self.mode & STICKY != 0 && entry.is_some_and(is_others) {
            return Err(Errno::EPERM);
        }
        Ok(())
    }

    /// Checks whether a user may give this file another name: others' files only if it may read and write
    /// them, and not those that run as somebody else.
    ///
    /// # Errors
    /// EPERM or EACCES.
    pub(crate) fn may_link(&self, user: User<'_>) -> Result<(), Errno> {
        if user.is_root() || user.uid == self.uid {
            return Ok(());
        }
        let runs_as_group = SET_GROUP_ID | 0o010;
        if self.mode & mode::TYPE != mode::REGULAR
            || self.mode & SET_USER_ID != 0
            || self.mode & runs_as_group == runs_as_group
        {
            return Err(Errno::EPERM);
        }
        self.permits(user, READ | WRITE)
    }
}

/// A wish to change attributes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wish {
    pub(crate) mode: Option<u32>,
    pub(crate) uid: Option<u32>,
    pub(crate) gid: Option<u32>,
    pub(crate) changes_size: bool,
    /// Times are set to given ones.
    pub(crate) sets_times: bool,
    /// Times are set to the present one.
    pub(crate) touches: bool,
}

impl Wish {
    /// Checks whether a user may change an inode's attributes so. Returns the mode that is to be set: a
    /// user who is not in the file's group cannot make it run as that group.
    ///
    /// # Errors
    /// EPERM or EACCES.
    pub(crate) fn check(self, user: User<'_>, subject: &Subject) -> Result<Option<u32>, Errno> {
        if self.changes_size {
            subject.permits(user, WRITE)?;
        }
        if user.is_root() {
            return Ok(self.mode);
        }
        let owns = user.uid == subject.uid;
        let keeps_owner = self.uid.is_none_or(|uid| owns && uid == subject.uid);
        let may_give = |gid| owns && (user.is_in(gid) || gid == subject.gid);
        if !keeps_owner || !self.gid.is_none_or(may_give) || (self.mode.is_some() && !owns) {
            return Err(Errno::EPERM);
        }
        if self.sets_times && !owns {
            return Err(Errno::EPERM);
        }
        if self.touches && !owns {
            subject.permits(user, WRITE)?;
        }
        let in_group = user.is_in(self.gid.unwrap_or(subject.gid));
        Ok(self.mode.map(|mode| if in_group { mode } else { mode & !SET_GROUP_ID }))
    }
}

/// Returns `true` if a file of this mode stops running as somebody else when it is written to.
pub(crate) fn loses_ids(mode: u32) -> bool {
    mode & mode::TYPE == mode::REGULAR && mode & (SET_USER_ID | SET_GROUP_ID) != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: User<'_> = User { uid: 0, gid: 0, groups: &[] };
    const OWNER: User<'_> = User { uid: 1, gid: 9, groups: &[] };
    const MEMBER: User<'_> = User { uid: 5, gid: 9, groups: &[2] };
    const OTHER: User<'_> = User { uid: 6, gid: 9, groups: &[8] };

    fn file(bits: u32) -> Subject {
        Subject { mode: mode::REGULAR | bits, uid: 1, gid: 2, acl: None }
    }

    fn dir(bits: u32) -> Subject {
        Subject { mode: mode::DIRECTORY | bits, ..file(0) }
    }

    #[test]
    fn each_class_of_users_has_its_bits() {
        for (user, may) in [(OWNER, READ | WRITE), (MEMBER, READ), (OTHER, EXECUTE)] {
            for wanted in 1..8 {
                let expected = if wanted & may == wanted { Ok(()) } else { Err(Errno::EACCES) };
                assert_eq!(file(0o641).permits(user, wanted), expected, "{user:?} {wanted}");
            }
        }
        assert_eq!(file(0o070).permits(OWNER, READ), Err(Errno::EACCES), "the owner is not looked for on");
    }

    #[test]
    fn root_may_all_but_run_what_nobody_may_run() {
        assert_eq!(file(0).permits(ROOT, READ | WRITE), Ok(()));
        assert_eq!(file(0o644).permits(ROOT, EXECUTE), Err(Errno::EACCES));
        assert_eq!(file(0o001).permits(ROOT, EXECUTE), Ok(()));
        assert_eq!(dir(0).permits(ROOT, READ | WRITE | EXECUTE), Ok(()));
    }

    #[test]
    fn in_a_sticky_directory_only_owners_remove() {
        let entry = Subject { uid: 5, ..file(0o644) };
        assert_eq!(dir(0o777).may_delete(OTHER, Some(&entry)), Ok(()));
        assert_eq!(dir(0o1777).may_delete(OTHER, Some(&entry)), Err(Errno::EPERM));
        for user in [ROOT, OWNER, MEMBER] {
            assert_eq!(dir(0o1777).may_delete(user, Some(&entry)), Ok(()));
        }
        assert_eq!(dir(0o755).may_delete(MEMBER, Some(&entry)), Err(Errno::EACCES));
    }

    #[test]
    fn others_files_are_linked_only_by_who_could_read_and_write_them() {
        assert_eq!(file(0o666).may_link(OTHER), Ok(()));
        assert_eq!(file(0o644).may_link(OTHER), Err(Errno::EACCES));
        assert_eq!(file(0o4666).may_link(OTHER), Err(Errno::EPERM));
        assert_eq!(file(0o2676).may_link(OTHER), Err(Errno::EPERM));
        assert_eq!(file(0o4600).may_link(OWNER), Ok(()));
    }

    #[test]
    fn attributes_are_the_owners() {
        let wish = Wish::default();
        let (mode, time) = (Wish { mode: Some(0o2755), ..wish }, Wish { sets_times: true, ..wish });
        assert_eq!(mode.check(ROOT, &file(0)), Ok(Some(0o2755)));
        assert_eq!(mode.check(OWNER, &file(0)), Ok(Some(0o755)), "it is not in the group");
        assert_eq!(mode.check(MEMBER, &file(0o777)), Err(Errno::EPERM));
        assert_eq!(time.check(MEMBER, &file(0o777)), Err(Errno::EPERM));
        let touch = Wish { touches: true, ..wish };
        assert_eq!(touch.check(MEMBER, &file(0o020)), Ok(None));
        assert_eq!(touch.check(OTHER, &file(0o020)), Err(Errno::EACCES));
        let give = |uid, gid| Wish { uid, gid, ..wish };
        assert_eq!(give(Some(1), None).check(OWNER, &file(0)), Ok(None));
        assert_eq!(give(Some(5), None).check(OWNER, &file(0)), Err(Errno::EPERM));
        assert_eq!(give(None, Some(9)).check(OWNER, &file(0)), Ok(None));
        assert_eq!(give(None, Some(7)).check(OWNER, &file(0)), Err(Errno::EPERM));
        let size = Wish { changes_size: true, ..wish };
        assert_eq!(size.check(MEMBER, &file(0o640)), Err(Errno::EACCES));
        assert_eq!(size.check(OWNER, &file(0o640)), Ok(None));
    }

    #[test]
    fn lists_are_looked_at_where_the_group_has_something() {
        let entries =
            [(1_u16, 6_u16, u32::MAX), (2, 6, 6), (4, 0, u32::MAX), (16, 6, u32::MAX), (32, 0, u32::MAX)];
        let mut bytes = vec![2, 0, 0, 0];
        for (tag, permissions, id) in entries {
            bytes.extend_from_slice(&tag.to_le_bytes());
            bytes.extend_from_slice(&permissions.to_le_bytes());
            bytes.extend_from_slice(&id.to_le_bytes());
        }
        let acl = Acl::from_xattr(&bytes).expect("valid");
        let with = Subject { acl, ..file(0o660) };
        assert_eq!(with.permits(OTHER, READ | WRITE), Ok(()));
        assert_eq!(with.permits(MEMBER, READ), Err(Errno::EACCES));
        assert_eq!(Subject { mode: mode::REGULAR | 0o600, ..with }.permits(OTHER, READ), Err(Errno::EACCES));
    }
}
