//! Bits of modes.

pub(crate) const TYPE: u32 = 0o170_000;
pub(crate) const DIRECTORY: u32 = 0o040_000;
pub(crate) const REGULAR: u32 = 0o100_000;
pub(crate) const SYMLINK: u32 = 0o120_000;
pub(crate) const PERMISSIONS: u32 = 0o7777;

/// Returns the mode of a new file: its type and the permissions.
pub(crate) fn regular(permissions: u32) -> u32 {
    REGULAR | (permissions & PERMISSIONS)
}
