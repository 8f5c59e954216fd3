//! The layout on disk. `docs/disk-store.md` describes it byte by byte.

use std::io;

use loligo_wire::crc::crc32c_of;
use loligo_wire::{DecodeError, Reader, Uuid, Writer};
use smallvec::SmallVec;

use super::backend::{ALIGN, BackendFile, Buffer};

/// Data is allocated, checksummed and read in blocks of this size.
pub(super) const BLOCK: usize = 4096;
/// Blocks of an object whose places share one row of the map: 128 KiB of data.
pub(super) const CHUNK_BLOCKS: u64 = 32;
/// Blocks whose bits form one row of the map: 512 bytes.
pub(super) const ROW_BLOCKS: u64 = 4096;
/// Writes of at least this size always go straight to their final place.
pub(super) const LARGE: usize = 64 << 10;

const MAGIC: &[u8; 8] = b"LOLIGODS";
/// The format's version. It increases with changes that older programs cannot read.
pub(super) const VERSION: u32 = 4;
/// The first version whose files name the store they belong to, and that has two superblocks.
pub(super) const VERSION_MARKED: u32 = 4;
/// The oldest version that can be read. It does not record how far the journal is prepared, and its
/// journal's file has its full length. In versions before 3 no block has more than one reference.
const VERSION_MIN: u32 = 1;
/// The length of a superblock before [`VERSION_MARKED`], without the checksum that follows.
const OLD_LEN: usize = 60;
/// The length of the superblock, without the checksum that follows. It is within one sector, which a disk
/// writes completely or not at all.
const SUPERBLOCK_LEN: usize = 64;
/// The state after the sizes in the superblock: the store is ready, or is being created.
const READY: u32 = 0;
const MAKING: u32 = 1;

/// The file that is read first; it describes the other files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Superblock {
    /// The format's version.
    pub(super) version: u32,
    /// The cluster's id.
    pub(super) fsid: Uuid,
    /// Random and secret, so that data written by clients never looks like a group of the journal.
    pub(super) salt: Uuid,
    /// The length of the journal, in bytes.
    pub(super) journal_len: u64,
    /// The number of blocks of the data file.
    pub(super) blocks: u64,
    /// Whether the store was ever ready. Until then it contains nothing worth keeping.
    pub(super) ready: bool,
}

impl Superblock {
    /// Returns `None` if there is no superblock: no file, an empty one, or one that a loss of power during
    /// its creation left as zeros.
    pub(super) fn load(file: &dyn BackendFile) -> io::Result<Option<Self>> {
        if file.len()? < ALIGN as u64 {
            return Ok(None);
        }
        let mut buffer = Buffer::zeroed(ALIGN);
        file.read(0, &mut buffer)?;
        if buffer.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        Self::parse(&buffer).map(Some)
    }

    pub(super) fn store(&self, file: &dyn BackendFile) -> io::Result<()> {
        let mut w = Writer::with_capacity(SUPERBLOCK_LEN + 4);
        w.raw(MAGIC);
        w.u32(self.version);
        w.raw(&self.fsid.0);
        w.raw(&self.salt.0);
        w.u64(self.journal_len);
        w.u64(self.blocks);
        if self.version >= VERSION_MARKED {
            w.u32(if self.ready { READY } else { MAKING });
        }
        let crc = crc32c_of([w.as_slice()]);
        w.u32(crc);
        let mut buffer = Buffer::zeroed(ALIGN);
        buffer[..w.as_slice().len()].copy_from_slice(w.as_slice());
        file.write(0, &buffer)?;
        file.sync()
    }

    fn parse(bytes: &[u8]) -> io::Result<Self> {
        let bad = |what: &str| io::Error::new(io::ErrorKind::InvalidData, format!("superblock: {what}"));
        if bytes.get(..8) != Some(MAGIC) {
            return Err(bad("this is no store"));
        }
        let short = |_: DecodeError| bad("too short");
        let mut r = Reader::new(&bytes[8..]);
        let mut read = || Ok((r.u32()?, r.array()?, r.array()?, r.u64()?, r.u64()?));
        let (version, fsid, salt, journal_len, blocks) = read().map_err(short)?;
        if !(VERSION_MIN..=VERSION).contains(&version) {
            return Err(bad(&format!("format {version}; this program knows {VERSION_MIN} to {VERSION}")));
        }
        let is_marked = version >= VERSION_MARKED;
        let state = if is_marked { r.u32().map_err(short)? } else { READY };
        let len = if is_marked { SUPERBLOCK_LEN } else { OLD_LEN };
        if r.u32().map_err(short)? != crc32c_of([&bytes[..len]]) {
            return Err(bad("damaged"));
        }
        let sane = journal_len > 0
            && journal_len.is_multiple_of(ALIGN as u64)
            && blocks <= u64::from(u32::MAX)
            && matches!(state, READY | MAKING);
        if !sane {
            return Err(bad("impossible sizes"));
        }
        Ok(Self { version, fsid: Uuid(fsid), salt: Uuid(salt), journal_len, blocks, ready: state == READY })
    }

    /// The length of the data file, in bytes: its blocks, followed by its mark.
    pub(super) fn data_len(&self) -> u64 {
        (self.blocks + u64::from(self.version >= VERSION_MARKED)) * BLOCK as u64
    }
}

/// Adjacent blocks of the data file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Run {
    pub(super) start: u32,
    pub(super) len: u32,
}

impl Run {
    pub(super) fn end(&self) -> u32 {
        self.start + self.len
    }

    pub(super) fn offset(&self) -> u64 {
        u64::from(self.start) * BLOCK as u64
    }
}

/// Runs of blocks, most often a single one.
pub(super) type Runs = SmallVec<[Run; 2]>;

/// Appends a block to runs that are filled in order.
pub(super) fn push_block(runs: &mut Runs, block: u32) {
    match runs.last_mut() {
        Some(run) if run.end() == block => run.len += 1,
        _ => runs.push(Run { start: block, len: 1 }),
    }
}

/// The checksum of a block: of `data` and zeros up to the block's end.
pub(super) fn block_crc(data: &[u8]) -> u32 {
    static ZEROS: [u8; BLOCK] = [0; BLOCK];
    crc32c_of([data, &ZEROS[..BLOCK - data.len()]])
}

#[cfg(test)]
mod tests {
    use super::super::backend::Backend;
    use super::super::backend::sim::Machine;
    use super::*;

    #[test]
    fn a_superblock_is_read_back_and_damage_is_found() {
        let machine = Machine::new(1, 0);
        let file = machine.open("super").expect("simulated");
        assert_eq!(Superblock::load(&*file).expect("empty"), None);
        let superblock = Superblock {
            version: VERSION,
            fsid: Uuid([3; 16]),
            salt: Uuid([4; 16]),
            journal_len: 8192,
            blocks: 77,
            ready: true,
        };
        superblock.store(&*file).expect("simulated");
        assert_eq!(Superblock::load(&*file).expect("just written"), Some(superblock));
        for bit in 0..(SUPERBLOCK_LEN + 4) * 8 {
            machine.flip("super", bit as u64 / 8, (bit % 8) as u8);
            let error = Superblock::load(&*file).expect_err("damaged");
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "bit {bit}");
            machine.flip("super", bit as u64 / 8, (bit % 8) as u8);
        }
    }
}
