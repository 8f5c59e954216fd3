//! `--direct`: local files are read and written past the page cache (O_DIRECT). Offsets, lengths and
//! memory must be multiples of the disk's block size. So other files' pages stay in the cache, and reads
//! return the data on the disk.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, FileTypeExt as _, OpenOptionsExt as _};
use std::path::Path;

use bytes::Bytes;
use loligo_stripe::Segment;
use rustix::fs::OFlags;

/// Alignment of offsets, lengths and memory: no disk and no file system requires more than a page.
const ALIGN: u64 = 4096;

/// The bytes that are read or written at a time, of all local files.
pub(super) const PIECE_BYTES: u64 = 4 << 20;

/// Reads a file in order.
pub(super) struct Reader {
    file: File,
    /// The offset of the next byte to return.
    at: u64,
    at_end: bool,
}

impl Reader {
    /// Opens a file for reading from `offset`.
    pub(super) fn open(path: &Path, offset: u64) -> io::Result<Self> {
        is_for_direct(path)?;
        let file = open(OpenOptions::new().read(true), path)?;
        Ok(Self { file, at: offset, at_end: false })
    }

    /// Returns the next piece; `None` at the end.
    pub(super) fn next(&mut self) -> io::Result<Option<Bytes>> {
        if self.at_end {
            return Ok(None);
        }
        let begins = self.at - self.at % ALIGN;
        let mut buf = Aligned::new();
        let mut filled = 0;
        while filled < PIECE_BYTES && !self.at_end {
            let got = self.file.read_at(&mut buf.bytes()[filled as usize..], begins + filled);
            let got = got.map_err(told)? as u64;
            filled += got;
            // Only the last read of a file is not a multiple of the alignment.
            self.at_end = got == 0 || !got.is_multiple_of(ALIGN);
        }
        let skipped = (self.at - begins).min(filled);
        self.at = begins + filled.max(skipped);
        Ok((filled > skipped).then(|| buf.freeze(skipped as usize, filled as usize)))
    }
}

/// Writes a file in order.
pub(super) struct Writer {
    direct: File,
    /// For the end of the file, which is not a whole block.
    cached: File,
    /// Data that is not written yet; it belongs at `at`, which is aligned.
    buf: Aligned,
    held: usize,
    at: u64,
    /// Set if holes need no write.
    keeps_holes: bool,
}

impl Writer {
    /// Opens a file for writing from `offset`, and truncates it there.
    pub(super) fn open(path: &Path, offset: u64) -> io::Result<Self> {
        is_for_direct(path)?;
        // Opened first: if this fails, the file is not changed.
        let direct = open(OpenOptions::new().write(true).create(true).truncate(false), path)?;
        let cached = OpenOptions::new().read(true).write(true).open(path)?;
        let keeps_holes = cached.metadata()?.is_file();
        if keeps_holes {
            cached.set_len(offset)?;
        }
        let (mut buf, held) = (Aligned::new(), (offset % ALIGN) as usize);
        let at = offset - held as u64;
        // The block in which writing continues.
        cached.read_exact_at(&mut buf.bytes()[..held], at)?;
        Ok(Self { direct, cached, buf, held, at, keeps_holes })
    }

    /// Writes a segment; data of less than a buffer is kept until more follows.
    pub(super) fn write(&mut self, part: &Segment) -> io::Result<()> {
        match part {
            Segment::Data(data) => self.data(data),
            Segment::Hole(len) => self.hole(*len),
        }
    }

    fn data(&mut self, mut data: &[u8]) -> io::Result<()> {
        while !data.is_empty() {
            let room = self.buf.bytes().len() - self.held;
            let (here, rest) = data.split_at(room.min(data.len()));
            self.buf.bytes()[self.held..][..here.len()].copy_from_slice(here);
            self.held += here.len();
            data = rest;
            if self.held == self.buf.bytes().len() {
                self.flush()?;
            }
        }
        Ok(())
    }

    fn hole(&mut self, mut len: u64) -> io::Result<()> {
        if self.keeps_holes {
            // Zeros up to the next block; whole blocks of a hole are not written.
            let zeros = (self.held as u64).next_multiple_of(ALIGN) - self.held as u64;
            let zeros = zeros.min(len);
            self.zeros(zeros)?;
            len -= zeros;
            if len >= ALIGN {
                self.flush()?;
                self.at += len - len % ALIGN;
                len %= ALIGN;
            }
        }
        self.zeros(len)
    }

    fn zeros(&mut self, mut len: u64) -> io::Result<()> {
        let zeros = [0; ALIGN as usize];
        while len > 0 {
            let here = len.min(ALIGN);
            self.data(&zeros[..here as usize])?;
            len -= here;
        }
        Ok(())
    }

    /// Writes the whole blocks of the buffer, and keeps the rest.
    fn flush(&mut self) -> io::Result<()> {
        let whole = self.held - self.held % ALIGN as usize;
        let mut written = 0;
        while written < whole {
            let here = self.direct.write_at(&self.buf.bytes()[written..whole], self.at + written as u64);
            written += match here.map_err(told)? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                n => n,
            };
        }
        self.buf.bytes().copy_within(whole..self.held, 0);
        self.held -= whole;
        self.at += whole as u64;
        Ok(())
    }

    /// Writes the rest. The last bytes, less than a block, go through the page cache.
    pub(super) fn finish(mut self) -> io::Result<()> {
        self.flush()?;
        self.cached.write_all_at(&self.buf.bytes()[..self.held], self.at)?;
        // A hole at the end exists only if the file is extended over it.
        if self.keeps_holes { self.cached.set_len(self.at + self.held as u64) } else { Ok(()) }
    }
}

fn open(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    options.custom_flags(OFlags::DIRECT.bits().cast_signed()).open(path).map_err(told)
}

/// Explains an invalid argument: with O_DIRECT it means that the file system does not support it, or
/// requires more than page alignment.
fn told(e: io::Error) -> io::Error {
    match e.kind() {
        io::ErrorKind::InvalidInput => io::Error::new(
            e.kind(),
            "its file system has no direct I/O (O_DIRECT); it goes through the page cache without --direct",
        ),
        _ => e,
    }
}

/// Refuses pipes and terminals, which have no page cache.
fn is_for_direct(path: &Path) -> io::Result<()> {
    match path.metadata() {
        Ok(meta) if !meta.is_file() && !meta.file_type().is_block_device() => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "neither a file nor a block device: nothing that --direct is for",
        )),
        // A missing file is created, or opening it fails.
        _ => Ok(()),
    }
}

/// A piece's memory, aligned to a page.
struct Aligned {
    memory: Vec<u8>,
    begins: usize,
}

impl Aligned {
    fn new() -> Self {
        let memory = vec![0; (PIECE_BYTES + ALIGN) as usize];
        let begins = memory.as_ptr().align_offset(ALIGN as usize);
        Self { memory, begins }
    }

    fn bytes(&mut self) -> &mut [u8] {
        &mut self.memory[self.begins..][..PIECE_BYTES as usize]
    }

    /// Returns a part of the buffer without a copy.
    fn freeze(self, from: usize, to: usize) -> Bytes {
        Bytes::from(self.memory).slice(self.begins + from..self.begins + to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(len: usize) -> Vec<u8> {
        (0..len).map(|at| (at * 7 % 251) as u8 ^ (at >> 12) as u8).collect()
    }

    /// Returns the path of a file on a file system with direct I/O: the one that has this program.
    fn scratch(name: &str) -> std::path::PathBuf {
        let program = std::env::current_exe().expect("it was started");
        program.with_file_name(format!("loligo-direct-{name}-{}", std::process::id()))
    }

    fn all(path: &Path, offset: u64) -> Vec<u8> {
        let mut reader = Reader::open(path, offset).expect("direct I/O");
        let mut read = Vec::new();
        while let Some(piece) = reader.next().expect("readable") {
            read.extend_from_slice(&piece);
        }
        read
    }

    #[test]
    fn any_length_is_read_from_any_place() {
        let path = scratch("read");
        let piece = PIECE_BYTES as usize;
        for len in [0, 1, 4095, 4096, 4097, piece, piece + 1, 2 * piece + 12_345] {
            let data = pattern(len);
            std::fs::write(&path, &data).expect("room");
            for from in [0, 1, 4096, 5000, piece, piece + 4097, len] {
                assert!(all(&path, from as u64) == data.get(from..).unwrap_or_default(), "{len} from {from}");
            }
        }
        std::fs::remove_file(&path).expect("it is there");
    }

    #[test]
    fn data_and_holes_are_written_wherever_they_begin() {
        let path = scratch("write");
        let mut random = fastrand::Rng::with_seed(3);
        for round in 0..60 {
            let begin = random.usize(..10_000);
            let mut expected = pattern(begin);
            std::fs::write(&path, [&expected[..], b"to be cut off"].concat()).expect("room");
            let mut writer = Writer::open(&path, begin as u64).expect("direct I/O");
            for _ in 0..random.usize(..6) {
                let len = [1, 4095, 4096, 9000, 70_000, 5_000_000][random.usize(..6)] + random.usize(..3);
                if random.bool() {
                    let data = pattern(len);
                    expected.extend_from_slice(&data);
                    writer.data(&data).expect("written");
                } else {
                    expected.resize(expected.len() + len, 0);
                    writer.hole(len as u64).expect("skipped");
                }
            }
            writer.finish().expect("written");
            assert!(std::fs::read(&path).expect("there") == expected, "round {round}");
        }
        std::fs::remove_file(&path).expect("it is there");
    }

    #[test]
    fn what_has_no_direct_io_is_told() {
        for e in [
            Reader::open(Path::new("/proc/version"), 0).err(),
            Writer::open(Path::new("/proc/self/comm"), 0).err(),
        ] {
            let said = e.expect("refused").to_string();
            assert!(said.contains("O_DIRECT") && said.contains("without --direct"), "{said}");
        }
        let said = Reader::open(Path::new("/dev/null"), 0).err().expect("refused").to_string();
        assert!(said.contains("neither a file nor a block device"), "{said}");
    }
}
