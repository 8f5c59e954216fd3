//! A file system for tests whose power can be cut.
//!
//! [`Mount`] shows a [`Disk`] as a directory, by FUSE, to programs that know nothing of it. The disk is in
//! memory. It remembers what each file and directory held when it was last synced, and every change since.
//! [`Disk::after_power_cut`] makes the disk that a machine could find after its power has failed: all that
//! was synced, and of the rest whatever chance leaves.
//!
//! What may be lost is what POSIX lets a file system lose, which is more than any one file system does:
//!
//! - data that were written and not synced by `fsync` or `fdatasync` of their file, or by `O_DSYNC`: each 4
//!   KiB page of a write is there or not, whatever was written before or after it, and a page may be torn
//!   between its sectors of 512 bytes;
//! - the names of files that were created, renamed or removed in a directory that was not synced afterwards.
//!   Within one directory the oldest changes survive; a rename between two directories survives as a whole or
//!   not at all. To sync a file does not keep its name.
//!
//! What a test reads with a mounted disk is what programs wrote, synced or not.

#![forbid(unsafe_code)]

mod disk;
mod image;
mod mount;

pub use self::disk::{Disk, DiskError, Ino};
pub use self::mount::{Mount, MountError, is_available};
