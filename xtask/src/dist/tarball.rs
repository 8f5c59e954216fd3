//! Tar files that depend on nothing but their contents: no time, no name of a user, one form.

use std::io::Write;

use flate2::{Compression, GzBuilder};
use tar::{Builder, EntryType, Header};

use crate::Result;

/// A tar file in memory.
pub(super) struct Tarball {
    tar: Builder<Vec<u8>>,
}

impl Tarball {
    pub(super) fn new() -> Self {
        Self { tar: Builder::new(Vec::new()) }
    }

    /// Adds a file; `owner` is its user's and its group's number.
    pub(super) fn file(&mut self, name: &str, mode: u32, owner: u64, bytes: &[u8]) -> Result<()> {
        let mut header = header(EntryType::Regular, mode, owner);
        header.set_size(bytes.len().try_into()?);
        Ok(self.tar.append_data(&mut header, name, bytes)?)
    }

    /// Adds a folder, whose name ends with a slash.
    pub(super) fn folder(&mut self, name: &str, mode: u32, owner: u64) -> Result<()> {
        let mut header = header(EntryType::Directory, mode, owner);
        Ok(self.tar.append_data(&mut header, name, std::io::empty())?)
    }

    pub(super) fn finish(self) -> Result<Vec<u8>> {
        Ok(self.tar.into_inner()?)
    }
}

fn header(kind: EntryType, mode: u32, owner: u64) -> Header {
    let mut header = Header::new_ustar();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_uid(owner);
    header.set_gid(owner);
    header.set_mtime(0);
    header.set_size(0);
    header
}

/// Compresses with gzip, whose header gets no name and no time.
pub(super) fn compressed(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut gzip = GzBuilder::new().write(Vec::new(), Compression::best());
    gzip.write_all(bytes)?;
    Ok(gzip.finish()?)
}
