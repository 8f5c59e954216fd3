//! POSIX access control lists, in the form in which Linux stores them as extended attributes
//! (`system.posix_acl_access`, `system.posix_acl_default`). Pure: bytes in, bytes out.

use az::SaturatingAs as _;
use loligo_rados::Errno;

/// The attribute that refines a file's permissions.
pub(crate) const ACCESS: &[u8] = b"system.posix_acl_access";
/// The attribute of a directory that new entries inherit.
pub(crate) const DEFAULT: &[u8] = b"system.posix_acl_default";

/// The only version of the format.
const VERSION: u32 = 2;
/// Bytes before the entries.
const HEAD_LEN: usize = 4;
/// Bytes of an entry: tag, permissions, id.
const ENTRY_LEN: usize = 8;
/// The id of entries that have none.
const NO_ID: u32 = u32::MAX;

/// Whom an entry is about. The numbers are those of the format, and rise in a valid list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Tag {
    Owner,
    User,
    Group,
    NamedGroup,
    Mask,
    Other,
}

impl Tag {
    fn of(number: u16) -> Option<Self> {
        Some(match number {
            0x01 => Self::Owner,
            0x02 => Self::User,
            0x04 => Self::Group,
            0x08 => Self::NamedGroup,
            0x10 => Self::Mask,
            0x20 => Self::Other,
            _ => return None,
        })
    }

    fn number(self) -> u16 {
        match self {
            Self::Owner => 0x01,
            Self::User => 0x02,
            Self::Group => 0x04,
            Self::NamedGroup => 0x08,
            Self::Mask => 0x10,
            Self::Other => 0x20,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    tag: Tag,
    /// Read 4, write 2, execute 1.
    permissions: u32,
    id: u32,
}

/// A list of permissions: the owner's, the group's, the others', and those of named users and groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Acl(Vec<Entry>);

impl Acl {
    /// Decodes a list. `None` for a list without entries.
    ///
    /// # Errors
    /// EINVAL if it is none, or lacks an entry that each list must have; EOPNOTSUPP for another version.
    pub(crate) fn from_xattr(bytes: &[u8]) -> Result<Option<Self>, Errno> {
        let (head, rest) = bytes.split_first_chunk::<HEAD_LEN>().ok_or(Errno::EINVAL)?;
        if u32::from_le_bytes(*head) != VERSION {
            return Err(Errno::EOPNOTSUPP);
        }
        let (entries, []) = rest.as_chunks::<ENTRY_LEN>() else { return Err(Errno::EINVAL) };
        let entries = entries.iter().map(|[t0, t1, p0, p1, id @ ..]| {
            let tag = Tag::of(u16::from_le_bytes([*t0, *t1])).ok_or(Errno::EINVAL)?;
            let permissions = u32::from(u16::from_le_bytes([*p0, *p1]));
            Ok(Entry { tag, permissions, id: u32::from_le_bytes(*id) })
        });
        let acl = Self(entries.collect::<Result<_, Errno>>()?);
        if acl.0.is_empty() {
            return Ok(None);
        }
        acl.is_valid().then_some(Some(acl)).ok_or(Errno::EINVAL)
    }

    /// Encodes the list.
    pub(crate) fn to_xattr(&self) -> Vec<u8> {
        let mut bytes = VERSION.to_le_bytes().to_vec();
        for Entry { tag, permissions, id } in &self.0 {
            bytes.extend_from_slice(&tag.number().to_le_bytes());
            bytes.extend_from_slice(&(*permissions & 7).saturating_as::<u16>().to_le_bytes());
            bytes.extend_from_slice(&id.to_le_bytes());
        }
        bytes
    }

    /// Each of owner, group and others occurs once, a mask at most once, and where somebody is named,
    /// there is one. The tags rise.
    fn is_valid(&self) -> bool {
        let count = |tag| self.0.iter().filter(|entry| entry.tag == tag).count();
        let names = count(Tag::User) + count(Tag::NamedGroup) > 0;
        let has_names = |entry: &Entry| match entry.tag {
            Tag::User | Tag::NamedGroup => entry.id != NO_ID,
            _ => true,
        };
        self.0.is_sorted_by_key(|entry| entry.tag)
            && self.0.iter().all(|entry| entry.permissions <= 7 && has_names(entry))
            && [Tag::Owner, Tag::Group, Tag::Other].into_iter().all(|tag| count(tag) == 1)
            && count(Tag::Mask) <= 1
            && (!names || count(Tag::Mask) == 1)
    }

    fn of(&self, tag: Tag) -> Option<u32> {
        self.0.iter().find(|entry| entry.tag == tag).map(|entry| entry.permissions)
    }

    fn of_mut(&mut self, tag: Tag) -> Option<&mut u32> {
        self.0.iter_mut().find(|entry| entry.tag == tag).map(|entry| &mut entry.permissions)
    }

    /// Returns the nine permission bits that say the same as the list, as far as they can.
    pub(crate) fn mode(&self) -> u32 {
        let of = |(tag, shift): (Tag, u32)| self.of(tag).unwrap_or(0) << shift;
        self.classes().into_iter().fold(0, |mode, class| mode | of(class))
    }

    /// Returns the entries that a mode's permission bits stand for, and where in the mode these bits are. A
    /// mask stands in the group's place.
    fn classes(&self) -> [(Tag, u32); 3] {
        let group = if self.of(Tag::Mask).is_some() { Tag::Mask } else { Tag::Group };
        [(Tag::Owner, 6), (group, 3), (Tag::Other, 0)]
    }

    /// Returns `true` if a mode says all that the list says.
    pub(crate) fn is_mode(&self) -> bool {
        self.0.iter().all(|entry| matches!(entry.tag, Tag::Owner | Tag::Group | Tag::Other))
    }

    /// Changes the list as `chmod` does: the owner's and the others' permissions, and the mask, or where
    /// there is none, the group's.
    pub(crate) fn change_mode(&mut self, mode: u32) {
        for (tag, shift) in self.classes() {
            if let Some(permissions) = self.of_mut(tag) {
                *permissions = mode >> shift & 7;
            }
        }
    }

    /// Makes a directory's default list that of a new entry with this mode. Returns the entry's mode.
    pub(crate) fn inherit(&mut self, mode: u32) -> u32 {
        let mut inherited = mode & !0o777;
        for (tag, shift) in self.classes() {
            if let Some(permissions) = self.of_mut(tag) {
                *permissions &= mode >> shift & 7;
                inherited |= *permissions << shift;
            }
        }
        inherited
    }

    /// Returns whether the list gives all `wanted` permissions to a user with these groups.
    pub(crate) fn permits(
        &self,
        owner: (u32, u32),
        user: u32,
        in_group: impl Fn(u32) -> bool,
        wanted: u32,
    ) -> bool {
        let (uid, gid) = owner;
        let mask = self.of(Tag::Mask).unwrap_or(7);
        let has = |permissions: u32| permissions & wanted == wanted;
        if user == uid {
            return self.of(Tag::Owner).is_some_and(has);
        }
        let named = self.0.iter().find(|entry| entry.tag == Tag::User && entry.id == user);
        if let Some(named) = named {
            return has(named.permissions & mask);
        }
        let groups = self.0.iter().filter(|entry| match entry.tag {
            Tag::Group => in_group(gid),
            Tag::NamedGroup => in_group(entry.id),
            _ => false,
        });
        let mut is_member = false;
        for group in groups {
            is_member = true;
            if has(group.permissions & mask) {
                return true;
            }
        }
        !is_member && self.of(Tag::Other).is_some_and(has)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Entries in the form of the attribute.
    fn encoded(entries: &[(u16, u16, u32)]) -> Vec<u8> {
        let mut bytes = VERSION.to_le_bytes().to_vec();
        for (tag, permissions, id) in entries {
            bytes.extend_from_slice(&tag.to_le_bytes());
            bytes.extend_from_slice(&permissions.to_le_bytes());
            bytes.extend_from_slice(&id.to_le_bytes());
        }
        bytes
    }

    /// The owner may all, user 5 reads and writes, group 7 reads, the mask lets read, others nothing.
    fn named() -> Acl {
        let bytes =
            encoded(&[(1, 7, NO_ID), (2, 6, 5), (4, 5, NO_ID), (8, 4, 7), (16, 4, NO_ID), (32, 0, NO_ID)]);
        let acl = Acl::from_xattr(&bytes).expect("valid").expect("a list");
        assert_eq!(acl.to_xattr(), bytes);
        acl
    }

    #[test]
    fn lists_are_checked() {
        for (bytes, errno) in [
            (vec![2, 0, 0], Errno::EINVAL),
            (vec![1, 0, 0, 0], Errno::EOPNOTSUPP),
            (encoded(&[(1, 7, 0), (4, 7, 0), (32, 7, 0)])[..20].to_vec(), Errno::EINVAL),
            (encoded(&[(1, 7, 0), (4, 7, 0)]), Errno::EINVAL),
            (encoded(&[(4, 7, 0), (1, 7, 0), (32, 7, 0)]), Errno::EINVAL),
            (encoded(&[(1, 8, 0), (4, 7, 0), (32, 7, 0)]), Errno::EINVAL),
            (encoded(&[(3, 7, 0), (4, 7, 0), (32, 7, 0)]), Errno::EINVAL),
            (encoded(&[(1, 7, 0), (2, 7, 5), (4, 7, 0), (32, 7, 0)]), Errno::EINVAL),
        ] {
            assert_eq!(Acl::from_xattr(&bytes), Err(errno), "{bytes:?}");
        }
        assert_eq!(Acl::from_xattr(&encoded(&[])), Ok(None));
    }

    #[test]
    fn a_list_without_names_is_a_mode() {
        let plain = Acl::from_xattr(&encoded(&[(1, 7, NO_ID), (4, 5, NO_ID), (32, 1, NO_ID)]));
        let plain = plain.expect("valid").expect("a list");
        assert_eq!((plain.is_mode(), plain.mode()), (true, 0o751));
        assert_eq!((named().is_mode(), named().mode()), (false, 0o740));
    }

    #[test]
    fn the_mask_limits_all_but_owner_and_others() {
        let acl = named();
        let may =
            |user, groups: &[u32], wanted| acl.permits((1, 2), user, |group| groups.contains(&group), wanted);
        assert!(may(1, &[], 7), "the owner");
        assert!(may(5, &[], 4) && !may(5, &[], 2), "the mask takes a named user's writing");
        assert!(may(6, &[2], 4) && !may(6, &[2], 1), "the group");
        assert!(may(6, &[7], 4), "a named group");
        assert!(!may(6, &[8], 4), "others");
        assert!(!may(5, &[2], 1), "a named user is not looked for among the groups");
    }

    #[test]
    fn chmod_changes_the_mask() {
        let mut acl = named();
        acl.change_mode(0o621);
        assert_eq!((acl.mode(), acl.of(Tag::Group), acl.of(Tag::Mask)), (0o621, Some(5), Some(2)));
    }

    #[test]
    fn new_entries_get_what_both_list_and_mode_allow() {
        let mut acl = named();
        assert_eq!(acl.inherit(0o100_666), 0o100_640);
        assert_eq!((acl.of(Tag::Owner), acl.of(Tag::Mask), acl.of(Tag::Group)), (Some(6), Some(4), Some(5)));
    }
}
