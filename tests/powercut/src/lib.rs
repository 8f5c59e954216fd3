//! A file system for tests that can simulate power failures.
//!
//! [`Mount`] shows a [`Disk`] through FUSE as a directory to unmodified programs. The disk is in memory.
//! It records the content of each file and directory at its last sync, and every change since.
//! [`Disk::after_power_cut`] returns the disk that a machine could find after a power failure: all
//! synced changes, and a random choice of the others.
//!
//! A power cut may lose what POSIX allows a file system to lose, which is more than any real file system
//! loses:
//!
//! - Data that were written and not synced by `fsync` or `fdatasync` of their file, or by `O_DSYNC`.
//!   Each 4 KiB page of a write survives or not, independently of earlier and later writes, and a page
//!   may be torn between its sectors of 512 bytes.
//! - Names of files that were created, renamed or removed in a directory that was not synced afterwards.
//!   Within one directory the oldest changes survive. A rename between two directories survives as a
//!   whole or not at all. A sync of a file does not make its name durable.
//!
//! Before a power cut, a test reads from a mounted disk all data that programs wrote, synced or not.

#![forbid(unsafe_code)]

mod disk;
mod image;
mod mount;

pub use self::disk::{Disk, DiskError, Ino};
pub use self::mount::{Mount, MountError, is_available};
