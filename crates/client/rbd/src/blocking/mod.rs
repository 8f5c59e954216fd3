//! A blocking API without `async`. It must not be used on a thread of an asynchronous runtime.
//!
//! ```no_run
//! use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
//!
//! use loligo_rados::{Builder, blocking};
//! use loligo_rbd::blocking::Image;
//! use loligo_rbd::{Mode, NewImage};
//!
//! let pool = blocking::Rados::connect(Builder::new())?.ioctx("rbd")?;
//! loligo_rbd::blocking::create(&pool, "disk", NewImage::of_size(1 << 30))?;
//! let image = Image::open(&pool, "disk", Mode::ReadWrite)?;
//! let mut cursor = image.cursor();
//! cursor.seek(SeekFrom::Start(4096))?;
//! cursor.write_all(b"bytes")?;
//! cursor.rewind()?;
//! let mut sector = [0; 512];
//! cursor.read_exact(&mut sector)?;
//! image.close()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod cursor;
mod image;
pub mod migration;

use std::collections::BTreeMap;

use loligo_rados::blocking::IoCtx;
use loligo_wire::Name;

pub use self::cursor::Cursor;
pub use self::image::Image;
use crate::{Error, NewClone, NewImage};

/// As [`crate::create()`].
pub fn create(io: &IoCtx, name: impl Into<Name>, image: NewImage) -> Result<(), Error> {
    io.runtime().block_on(crate::create(io.asynchronous(), name, image))
}

/// As [`crate::list`].
pub fn list(io: &IoCtx) -> Result<BTreeMap<Name, String>, Error> {
    io.runtime().block_on(crate::list(io.asynchronous()))
}

/// As [`crate::remove`].
pub fn remove(io: &IoCtx, name: impl Into<Name>, progress: impl FnMut(u64, u64)) -> Result<(), Error> {
    io.runtime().block_on(crate::remove(io.asynchronous(), name, progress))
}

/// As [`crate::rename`].
pub fn rename(io: &IoCtx, from: impl Into<Name>, to: impl Into<Name>) -> Result<(), Error> {
    io.runtime().block_on(crate::rename(io.asynchronous(), from, to))
}

/// As [`crate::clone()`].
pub fn clone(
    parent_io: &IoCtx,
    parent: impl Into<Name>,
    snapshot: impl Into<Name>,
    io: &IoCtx,
    name: impl Into<Name>,
    new: NewClone,
) -> Result<(), Error> {
    let made = crate::clone(parent_io.asynchronous(), parent, snapshot, io.asynchronous(), name, new);
    io.runtime().block_on(made)
}
