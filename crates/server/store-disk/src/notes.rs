//! Numbers stored in both superblock files, behind the superblock: the limit up to which the journal is
//! prepared ([`ahead`](super::ahead)), and the number of checkpoints.

use std::io;
use std::sync::Arc;

use loligo_wire::crc::crc32c_of;
use loligo_wire::{Reader, Uuid, Writer};

use super::backend::{ALIGN, Backend, BackendFile, Buffer};

/// The superblock and its copy.
pub(super) const SUPER: [&str; 2] = ["super", "super.copy"];
/// The length of the checksummed part: magic, number, the store's salt. The checksum follows.
const SUMMED: usize = 28;

/// One of the numbers. It has a sector of its own, which a disk writes completely or not at all.
#[derive(Clone, Copy, Debug)]
pub(super) struct Note {
    magic: u32,
    offset: u64,
}

/// The position that no group of the journal exceeds.
pub(super) const LIMIT: Note = Note { magic: 0x4147_4f4c, offset: ALIGN as u64 }; // "LOGA"
/// The minimum number of checkpoints that the map has. It is written before a checkpoint releases blocks
/// that the map no longer needs, so that a map older than this number, whose blocks may be reused, is
/// detected.
pub(super) const CHECKPOINT: Note = Note { magic: 0x4347_4f4c, offset: 2 * ALIGN as u64 }; // "LOGC"
/// The size of a superblock's file with all notes, in bytes.
pub(super) const SUPER_LEN: u64 = 3 * ALIGN as u64;

impl Note {
    /// Reads the number from one copy; `None` if the copy is invalid or was never written.
    pub(super) fn load(self, file: &dyn BackendFile, salt: Uuid) -> io::Result<Option<u64>> {
        if file.len()? < self.offset + ALIGN as u64 {
            return Ok(None);
        }
        let mut buffer = Buffer::zeroed(ALIGN);
        file.read(self.offset, &mut buffer)?;
        Ok(self.parse(&buffer, salt))
    }

    fn parse(self, bytes: &[u8], salt: Uuid) -> Option<u64> {
        let mut r = Reader::new(bytes);
        let (magic, number, found, crc) = (r.u32().ok()?, r.u64().ok()?, r.array().ok()?, r.u32().ok()?);
        let ours = magic == self.magic && Uuid(found) == salt && crc == crc32c_of([&bytes[..SUMMED]]);
        ours.then_some(number)
    }

    /// Returns the valid number, whichever copy was written last: the larger one.
    pub(super) fn newest(self, backend: &dyn Backend, salt: Uuid) -> io::Result<Option<u64>> {
        let load = |name| self.load(&*backend.open(name)?, salt);
        Ok(load(SUPER[0])?.max(load(SUPER[1])?))
    }

    fn store(self, file: &dyn BackendFile, salt: Uuid, number: u64) -> io::Result<()> {
        let mut w = Writer::with_capacity(SUMMED + 4);
        w.u32(self.magic);
        w.u64(number);
        w.raw(&salt.0);
        let crc = crc32c_of([w.as_slice()]);
        w.u32(crc);
        let mut buffer = Buffer::zeroed(ALIGN);
        buffer[..SUMMED + 4].copy_from_slice(w.as_slice());
        file.write_and_sync(self.offset, &buffer)
    }
}

/// The files of both superblocks, opened by one thread for its own use: the kernel reports a failed write
/// once to each handle.
pub(super) struct Notes {
    files: [Arc<dyn BackendFile>; 2],
    salt: Uuid,
}

impl Notes {
    pub(super) fn open(backend: &dyn Backend, salt: Uuid) -> io::Result<Self> {
        Ok(Self { files: [backend.open(SUPER[0])?, backend.open(SUPER[1])?], salt })
    }

    /// Writes a number to both copies; it is safe when this returns.
    pub(super) fn store(&self, note: Note, number: u64) -> io::Result<()> {
        self.files.iter().try_for_each(|file| note.store(&**file, self.salt, number))
    }
}
