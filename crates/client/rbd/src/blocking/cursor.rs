//! An image as a file.

use std::io::{self, Read, Seek, SeekFrom, Write};

use bytes::Bytes;

use super::Image;
use crate::Error;
use crate::io::IO_BYTES_MAX;

/// A position in an image for reads and writes. The image has a fixed size, as a block device: writes
/// behind its end write nothing.
///
/// Each call is an I/O of its own; `BufReader` and `BufWriter` make larger ones of small ones.
pub struct Cursor<'a> {
    image: &'a Image,
    at: u64,
}

impl Image {
    /// Returns a cursor at the first byte, to use the image as a file.
    pub fn cursor(&self) -> Cursor<'_> {
        Cursor { image: self, at: 0 }
    }
}

impl Cursor<'_> {
    /// The length of an I/O from the position, limited by the image's end and the largest I/O.
    fn len(&self, wanted: usize) -> usize {
        let left = self.image.size().saturating_sub(self.at).min(IO_BYTES_MAX);
        usize::try_from(left).map_or(wanted, |left| left.min(wanted))
    }
}

impl Read for Cursor<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let len = self.len(to.len());
        if len == 0 {
            return Ok(0);
        }
        let data = self.image.read(self.at, len as u64).map_err(failed)?;
        to[..data.len()].copy_from_slice(&data);
        self.at += data.len() as u64;
        Ok(data.len())
    }
}

impl Write for Cursor<'_> {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        let len = self.len(from.len());
        if len == 0 {
            return Ok(0);
        }
        self.image.write(self.at, Bytes::copy_from_slice(&from[..len])).map_err(failed)?;
        self.at += len as u64;
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.image.flush().map_err(failed)
    }
}

impl Seek for Cursor<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.image.size().checked_add_signed(by),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
        };
        self.at = at.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        Ok(self.at)
    }
}

/// Converts an error to the kind of its errno.
fn failed(e: Error) -> io::Error {
    io::Error::new(io::Error::from_raw_os_error(e.errno().0).kind(), e)
}
