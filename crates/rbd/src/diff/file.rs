//! Files of differences, in the format `rbd diff v1` (`doc/dev/rbd-diff.rst`), which stock `rbd` writes and reads too: names of snapshots, the
//! image's size, data and zeros. Numbers are little-endian.
//!
//! ```
//! use loligo_rbd::diff::file::{Reader, Record, Writer};
//!
//! let mut writer = Writer::new(Vec::new())?;
//! writer.size(1 << 20)?;
//! writer.data(4096, b"abc")?;
//! let file = writer.end()?;
//! let mut reader = Reader::new(&file[..])?;
//! assert_eq!(reader.next_record()?, Record::Size(1 << 20));
//! assert_eq!(reader.next_record()?, Record::Data { offset: 4096, data: b"abc".to_vec().into() });
//! assert_eq!(reader.next_record()?, Record::End);
//! # Ok::<(), std::io::Error>(())
//! ```

use std::io::{self, ErrorKind, Read, Write};

use bytes::Bytes;

const BANNER: &[u8] = b"rbd diff v1\n";

const FROM_SNAP: u8 = b'f';
const TO_SNAP: u8 = b't';
const SIZE: u8 = b's';
const DATA: u8 = b'w';
const ZEROS: u8 = b'z';
const END: u8 = b'e';

/// Bytes of a snapshot's name at most: more are no name that an image's header could hold.
const NAME_BYTES_MAX: u32 = 64 << 10;

/// Bytes of data that are read at once at most; what is longer comes as several records.
const DATA_BYTES_MAX: u64 = 4 << 20;

/// A part of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// The snapshot that the differences are to.
    FromSnap(String),
    /// What the image is called as it is with them: a snapshot.
    ToSnap(String),
    /// Bytes of the image then.
    Size(u64),
    /// Bytes that are there then.
    Data {
        /// The first.
        offset: u64,
        /// They; at most 4 MiB.
        data: Bytes,
    },
    /// A range of zeros.
    Zeros {
        /// The first byte.
        offset: u64,
        /// Bytes.
        len: u64,
    },
    /// There is no more.
    End,
}

/// Writes a file of differences: first names and size, then what differs.
pub struct Writer<W>(W);

impl<W: Write> Writer<W> {
    /// Begins a file.
    ///
    /// # Errors
    /// It cannot be written to, here and below.
    pub fn new(mut out: W) -> io::Result<Self> {
        out.write_all(BANNER)?;
        Ok(Self(out))
    }

    /// The snapshot that the differences are to.
    pub fn from_snap(&mut self, name: &str) -> io::Result<()> {
        self.name(FROM_SNAP, name)
    }

    /// The snapshot with them.
    pub fn to_snap(&mut self, name: &str) -> io::Result<()> {
        self.name(TO_SNAP, name)
    }

    /// Bytes of the image.
    pub fn size(&mut self, size: u64) -> io::Result<()> {
        self.numbers(SIZE, &[size])
    }

    /// Bytes that are there.
    pub fn data(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.numbers(DATA, &[offset, data.len() as u64])?;
        self.0.write_all(data)
    }

    /// A range of zeros.
    pub fn zeros(&mut self, offset: u64, len: u64) -> io::Result<()> {
        self.numbers(ZEROS, &[offset, len])
    }

    /// Ends the file: what was written to, flushed.
    pub fn end(mut self) -> io::Result<W> {
        self.0.write_all(&[END])?;
        self.0.flush()?;
        Ok(self.0)
    }

    fn name(&mut self, tag: u8, name: &str) -> io::Result<()> {
        let len = u32::try_from(name.len()).map_err(|_| io::Error::from(ErrorKind::InvalidInput))?;
        self.0.write_all(&[tag])?;
        self.0.write_all(&len.to_le_bytes())?;
        self.0.write_all(name.as_bytes())
    }

    fn numbers(&mut self, tag: u8, numbers: &[u64]) -> io::Result<()> {
        self.0.write_all(&[tag])?;
        numbers.iter().try_for_each(|number| self.0.write_all(&number.to_le_bytes()))
    }
}

/// Reads a file of differences. What it says of lengths is not believed before the bytes are there.
pub struct Reader<R> {
    from: R,
    position: u64,
    /// Where data go on, and how many bytes are to come.
    rest: Option<(u64, u64)>,
}

impl<R: Read> Reader<R> {
    /// Begins to read.
    ///
    /// # Errors
    /// `InvalidData` if it is no such file; it cannot be read.
    pub fn new(from: R) -> io::Result<Self> {
        let mut reader = Self { from, position: 0, rest: None };
        match reader.exactly(BANNER.len() as u64)? == BANNER {
            true => Ok(reader),
            false => Err(invalid("it does not begin with 'rbd diff v1'")),
        }
    }

    /// Bytes that have been read.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The next part; [`Record::End`] is the last.
    ///
    /// # Errors
    /// `InvalidData` if it is none; `UnexpectedEof` if the file ends before; it cannot be read.
    pub fn next_record(&mut self) -> io::Result<Record> {
        if let Some((offset, len)) = self.rest.take() {
            return self.part(offset, len);
        }
        let tag = self.exactly(1)?[0];
        match tag {
            FROM_SNAP => Ok(Record::FromSnap(self.name()?)),
            TO_SNAP => Ok(Record::ToSnap(self.name()?)),
            SIZE => Ok(Record::Size(self.number()?)),
            DATA => {
                let (offset, len) = self.range()?;
                self.part(offset, len)
            }
            ZEROS => {
                let (offset, len) = self.range()?;
                Ok(Record::Zeros { offset, len })
            }
            END => Ok(Record::End),
            tag => Err(invalid(format!("byte {} is {tag:#04x}, which begins nothing", self.position - 1))),
        }
    }

    fn part(&mut self, offset: u64, len: u64) -> io::Result<Record> {
        let now = len.min(DATA_BYTES_MAX);
        let data = self.exactly(now)?.into();
        self.rest = (len > now).then_some((offset + now, len - now));
        Ok(Record::Data { offset, data })
    }

    fn exactly(&mut self, len: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.from.by_ref().take(len).read_to_end(&mut bytes)?;
        self.position += bytes.len() as u64;
        match bytes.len() as u64 == len {
            true => Ok(bytes),
            false => Err(io::Error::new(ErrorKind::UnexpectedEof, "it ends too early")),
        }
    }

    fn number(&mut self) -> io::Result<u64> {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&self.exactly(8)?);
        Ok(u64::from_le_bytes(bytes))
    }

    fn range(&mut self) -> io::Result<(u64, u64)> {
        let (offset, len) = (self.number()?, self.number()?);
        match offset.checked_add(len) {
            Some(_) => Ok((offset, len)),
            None => Err(invalid(format!("{len} bytes at {offset} are no range"))),
        }
    }

    fn name(&mut self) -> io::Result<String> {
        let mut bytes = [0; 4];
        bytes.copy_from_slice(&self.exactly(4)?);
        let len = u32::from_le_bytes(bytes);
        if len > NAME_BYTES_MAX {
            return Err(invalid(format!("a snapshot's name of {len} bytes")));
        }
        String::from_utf8(self.exactly(len.into())?).map_err(|_| invalid("a snapshot's name is no text"))
    }
}

fn invalid(why: impl Into<String>) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, why.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> Vec<u8> {
        let mut writer = Writer::new(Vec::new()).expect("room");
        writer.from_snap("a").expect("room");
        writer.to_snap("b").expect("room");
        writer.size(10 << 20).expect("room");
        writer.data(7, &vec![3; (4 << 20) + 1]).expect("room");
        writer.zeros(5 << 20, 1 << 20).expect("room");
        writer.end().expect("room")
    }

    fn records(file: &[u8]) -> io::Result<Vec<Record>> {
        let mut reader = Reader::new(file)?;
        let mut all = Vec::new();
        while all.last() != Some(&Record::End) {
            all.push(reader.next_record()?);
        }
        assert_eq!(reader.position(), file.len() as u64);
        Ok(all)
    }

    #[test]
    fn what_is_written_is_read() {
        let all = records(&file()).expect("whole");
        let data = |offset, len: usize| Record::Data { offset, data: vec![3; len].into() };
        let expected = [
            Record::FromSnap("a".to_owned()),
            Record::ToSnap("b".to_owned()),
            Record::Size(10 << 20),
            data(7, 4 << 20),
            data((4 << 20) + 7, 1),
            Record::Zeros { offset: 5 << 20, len: 1 << 20 },
            Record::End,
        ];
        assert!(all == expected);
        assert_eq!(&file()[..18], b"rbd diff v1\nf\x01\0\0\0a");
    }

    #[test]
    fn what_is_no_such_file_is_refused() {
        let whole = file();
        for len in (0..100).chain(whole.len() - 30..whole.len()) {
            let kind = records(&whole[..len]).expect_err("it ends too early").kind();
            assert_eq!(kind, ErrorKind::UnexpectedEof, "{len}");
        }
        let changes: [(&[u8], &[u8]); 3] =
            [(b"v1", b"v2"), (b"f\x01", b"x\x01"), (b"f\x01\0\0\0", b"f\xff\xff\xff\xff")];
        for (from, to) in changes {
            let at = whole.windows(from.len()).position(|here| here == from).expect("it is there");
            let mut other = whole.clone();
            other[at..at + from.len()].copy_from_slice(to);
            assert_eq!(records(&other).expect_err("no such file").kind(), ErrorKind::InvalidData);
        }
        let huge = [BANNER, b"w", &[255; 16]].concat();
        assert_eq!(records(&huge).expect_err("no range").kind(), ErrorKind::InvalidData);
    }
}
