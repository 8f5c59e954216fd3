//! The users that this client acts for.

use crate::options::MountOptions;

/// A user, as the metadata servers hear of it: new files are its own, and keys that are limited to users
/// are compared with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// The user.
    pub uid: u32,
    /// The user's group.
    pub gid: u32,
    /// Further groups of the user.
    pub groups: Vec<u32>,
}

impl Caller {
    /// A user without further groups.
    pub fn new(uid: u32, gid: u32) -> Self {
        Self { uid, gid, groups: Vec::new() }
    }

    /// The user that the mount was made for.
    pub(crate) fn of_mount(options: &MountOptions) -> Self {
        Self { uid: options.uid, gid: options.gid, groups: options.gids.clone() }
    }
}
