//! Files of differences, in the format `rbd diff v1` (`doc/dev/rbd-diff.rst`) of stock `rbd`: names of
//! snapshots, the image's size, data and zeros. Numbers are little-endian. In the format `rbd diff v2`,
//! used only inside files of whole images ([`image_file`](crate::image_file)), each part has its length,
//! so that unknown parts can be skipped.
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

use loligo_wire::Name;

use super::input::{Input, agree, invalid};

const FROM_SNAP: u8 = b'f';
const TO_SNAP: u8 = b't';
const PROTECTION: u8 = b'p';
const SIZE: u8 = b's';
const DATA: u8 = b'w';
const ZEROS: u8 = b'z';
const END: u8 = b'e';

/// The most bytes of a snapshot's name; an image's header cannot hold a longer one.
const NAME_BYTES_MAX: u32 = 64 << 10;

/// The most bytes of data in one record; longer data is returned as several records.
const DATA_BYTES_MAX: u64 = 4 << 20;

/// The bytes of an offset and a length.
const RANGE_BYTES: u64 = 16;

/// The length of [`PROTECTION`] as stock `rbd` states it, up to release 16 at least, and the real one.
const PROTECTION_SAID: u64 = 8;
const PROTECTION_BYTES: u64 = 1;

/// One of the two formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    V1,
    V2,
}

impl Format {
    fn banner(self) -> &'static str {
        match self {
            Self::V1 => "rbd diff v1\n",
            Self::V2 => "rbd diff v2\n",
        }
    }
}

/// A part of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// The snapshot at the start of the differences.
    FromSnap(Name),
    /// The snapshot at the end of the differences.
    ToSnap(Name),
    /// Whether the end snapshot is protected; only in the format `rbd diff v2`.
    Protection(bool),
    /// The image's size in bytes at the end.
    Size(u64),
    /// Data at the end.
    Data {
        /// The offset of the first byte.
        offset: u64,
        /// The bytes, at most 4 MiB.
        data: Bytes,
    },
    /// A range of zeros.
    Zeros {
        /// The offset of the first byte.
        offset: u64,
        /// The length in bytes.
        len: u64,
    },
    /// A skipped part of an unknown kind; only in the format `rbd diff v2`.
    Unknown {
        /// Its tag.
        tag: u8,
    },
    /// The end of the file.
    End,
}

/// Writes a file of differences. Names and size must come before the differences.
pub struct Writer<W> {
    out: W,
    format: Format,
}

impl<W: Write> Writer<W> {
    /// Begins a file.
    ///
    /// # Errors
    /// `out` cannot be written to, here and in the methods below.
    pub fn new(out: W) -> io::Result<Self> {
        Self::begin(out, Format::V1)
    }

    pub(crate) fn begin(mut out: W, format: Format) -> io::Result<Self> {
        out.write_all(format.banner().as_bytes())?;
        Ok(Self { out, format })
    }

    /// Writes the snapshot at the start of the differences.
    pub fn from_snap(&mut self, name: impl Into<Name>) -> io::Result<()> {
        let name = &name.into();
        self.name(FROM_SNAP, name)
    }

    /// Writes the snapshot at the end of the differences.
    pub fn to_snap(&mut self, name: impl Into<Name>) -> io::Result<()> {
        let name = &name.into();
        self.name(TO_SNAP, name)
    }

    /// Writes whether the end snapshot is protected; does nothing in the format `rbd diff v1`.
    pub fn protection(&mut self, is_protected: bool) -> io::Result<()> {
        if self.format == Format::V1 {
            return Ok(());
        }
        self.tag(PROTECTION, PROTECTION_SAID)?;
        self.out.write_all(&[is_protected.into()])
    }

    /// Writes the image's size in bytes.
    pub fn size(&mut self, size: u64) -> io::Result<()> {
        self.tag(SIZE, 8)?;
        self.numbers(&[size])
    }

    /// Writes data.
    pub fn data(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        let len = data.len() as u64;
        self.tag(DATA, RANGE_BYTES + len)?;
        self.numbers(&[offset, len])?;
        self.out.write_all(data)
    }

    /// Writes a range of zeros.
    pub fn zeros(&mut self, offset: u64, len: u64) -> io::Result<()> {
        self.tag(ZEROS, RANGE_BYTES)?;
        self.numbers(&[offset, len])
    }

    /// Ends the file, flushes and returns the underlying writer.
    pub fn end(mut self) -> io::Result<W> {
        self.out.write_all(&[END])?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn name(&mut self, tag: u8, name: &Name) -> io::Result<()> {
        let len = u32::try_from(name.len()).map_err(|_| io::Error::from(ErrorKind::InvalidInput))?;
        self.tag(tag, 4 + u64::from(len))?;
        self.out.write_all(&len.to_le_bytes())?;
        self.out.write_all(name.as_bytes())
    }

    /// Writes the beginning of a part.
    fn tag(&mut self, tag: u8, len: u64) -> io::Result<()> {
        self.out.write_all(&[tag])?;
        match self.format {
            Format::V1 => Ok(()),
            Format::V2 => self.numbers(&[len]),
        }
    }

    fn numbers(&mut self, numbers: &[u64]) -> io::Result<()> {
        numbers.iter().try_for_each(|number| self.out.write_all(&number.to_le_bytes()))
    }
}

/// Reads a file of differences. Lengths in it are not trusted: memory is allocated only for data that is
/// there.
pub struct Reader<R> {
    input: Input<R>,
    format: Format,
    /// The offset and length of the rest of data returned in parts.
    rest: Option<(u64, u64)>,
}

impl<R: Read> Reader<R> {
    /// Begins to read a file.
    ///
    /// # Errors
    /// `InvalidData` if it is not such a file; errors of the reader.
    pub fn new(from: R) -> io::Result<Self> {
        Self::begin(Input::new(from, 0), Format::V1)
    }

    pub(crate) fn begin(mut input: Input<R>, format: Format) -> io::Result<Self> {
        input.banner(format.banner())?;
        Ok(Self { input, format, rest: None })
    }

    /// The number of bytes read; in a file of a whole image, from its beginning.
    pub fn position(&self) -> u64 {
        self.input.position()
    }

    /// Returns the next part; the last one is [`Record::End`].
    ///
    /// # Errors
    /// `InvalidData` if the part is not valid; `UnexpectedEof` if the file is truncated; errors of the
    /// reader.
    pub fn next_record(&mut self) -> io::Result<Record> {
        if let Some((offset, len)) = self.rest.take() {
            return self.part(offset, len);
        }
        let (at, tag) = (self.position(), self.input.byte()?);
        if tag == END {
            return Ok(Record::End);
        }
        let said = match self.format {
            Format::V1 => None,
            Format::V2 => Some(self.input.number()?),
        };
        let begun = self.position();
        let record = match (tag, said) {
            (FROM_SNAP, _) => Record::FromSnap(self.name()?),
            (TO_SNAP, _) => Record::ToSnap(self.name()?),
            (SIZE, _) => Record::Size(self.input.number()?),
            (DATA, _) => {
                let (offset, len) = self.range()?;
                agree(at, said, RANGE_BYTES.saturating_add(len))?;
                return self.part(offset, len);
            }
            (ZEROS, _) => {
                let (offset, len) = self.range()?;
                Record::Zeros { offset, len }
            }
            (PROTECTION, Some(len)) => {
                let is_protected = self.input.byte()? != 0;
                agree(at, Some(len).filter(|len| *len != PROTECTION_SAID), PROTECTION_BYTES)?;
                return Ok(Record::Protection(is_protected));
            }
            (tag, Some(len)) => {
                self.input.skip(len)?;
                return Ok(Record::Unknown { tag });
            }
            (tag, None) => return Err(invalid(format!("byte {at} is {tag:#04x}, which begins nothing"))),
        };
        agree(at, said, self.position() - begun)?;
        Ok(record)
    }

    fn part(&mut self, offset: u64, len: u64) -> io::Result<Record> {
        let now = len.min(DATA_BYTES_MAX);
        let data = self.input.exactly(now)?.into();
        self.rest = (len > now).then_some((offset + now, len - now));
        Ok(Record::Data { offset, data })
    }

    fn range(&mut self) -> io::Result<(u64, u64)> {
        let (offset, len) = (self.input.number()?, self.input.number()?);
        match offset.checked_add(len) {
            Some(_) => Ok((offset, len)),
            None => Err(invalid(format!("{len} bytes at {offset} are no range"))),
        }
    }

    fn name(&mut self) -> io::Result<Name> {
        let bytes = self.input.string(NAME_BYTES_MAX)?;
        Ok(bytes.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMATS: [Format; 2] = [Format::V1, Format::V2];

    fn file(format: Format) -> Vec<u8> {
        let mut writer = Writer::begin(Vec::new(), format).expect("room");
        writer.from_snap("a").expect("room");
        writer.to_snap("b").expect("room");
        writer.protection(true).expect("room");
        writer.size(10 << 20).expect("room");
        writer.data(7, &vec![3; (4 << 20) + 1]).expect("room");
        writer.zeros(5 << 20, 1 << 20).expect("room");
        writer.end().expect("room")
    }

    fn records(format: Format, file: &[u8]) -> io::Result<Vec<Record>> {
        let mut reader = Reader::begin(Input::new(file, 0), format)?;
        let mut all = Vec::new();
        while all.last() != Some(&Record::End) {
            all.push(reader.next_record()?);
        }
        assert_eq!(reader.position(), file.len() as u64);
        Ok(all)
    }

    #[test]
    fn what_is_written_is_read() {
        let data = |offset, len: usize| Record::Data { offset, data: vec![3; len].into() };
        let expected = [
            Record::FromSnap("a".into()),
            Record::ToSnap("b".into()),
            Record::Protection(true),
            Record::Size(10 << 20),
            data(7, 4 << 20),
            data((4 << 20) + 7, 1),
            Record::Zeros { offset: 5 << 20, len: 1 << 20 },
            Record::End,
        ];
        assert!(records(Format::V2, &file(Format::V2)).expect("whole") == expected);
        let without = expected.into_iter().filter(|record| *record != Record::Protection(true));
        assert!(records(Format::V1, &file(Format::V1)).expect("whole") == without.collect::<Vec<_>>());
        assert_eq!(&file(Format::V1)[..18], b"rbd diff v1\nf\x01\0\0\0a");
    }

    /// The bytes of stock `rbd` of 16.2.15, with its wrong length of the protection.
    #[test]
    fn the_second_format_is_rbd_s() {
        let begin = b"rbd diff v2\nf\x05\0\0\0\0\0\0\0\x01\0\0\0at\x05\0\0\0\0\0\0\0\x01\0\0\0bp\x08\0\0\0\0\0\0\0\x01s\x08\0\0\0\0\0\0\0\0\0\xa0\0\0\0\0\0w\x11\0\x40\0\0\0\0\0\x07\0";
        assert_eq!(&file(Format::V2)[..begin.len()], begin);
    }

    #[test]
    fn what_is_no_such_file_is_refused() {
        for format in FORMATS {
            let whole = file(format);
            for len in (0..150).chain(whole.len() - 30..whole.len()) {
                let kind = records(format, &whole[..len]).expect_err("it ends too early").kind();
                assert_eq!(kind, ErrorKind::UnexpectedEof, "{format:?} {len}");
            }
            let huge = [format.banner().as_bytes(), b"w", &[255; 24]].concat();
            let kind = |file: &[u8]| records(format, file).expect_err("no such file").kind();
            assert_eq!(kind(&huge), ErrorKind::InvalidData);
            let name = [format.banner().as_bytes(), b"f", &[255; 12]].concat();
            assert_eq!(kind(&name), ErrorKind::InvalidData);
            assert_eq!(kind(&file(FORMATS[usize::from(format == Format::V1)])), ErrorKind::InvalidData);
        }
        let unknown = [Format::V1.banner().as_bytes(), b"x\x01"].concat();
        let kind = records(Format::V1, &unknown).expect_err("no such part").kind();
        assert_eq!(kind, ErrorKind::InvalidData);
    }

    #[test]
    fn lengths_must_agree_and_what_is_unknown_is_left_out() {
        let parts = |parts: &[&[u8]]| [&[Format::V2.banner().as_bytes()], parts].concat().concat();
        let number = |n: u64| n.to_le_bytes();
        for len in [1, 8] {
            let file = parts(&[b"p", &number(len), b"\0e"]);
            assert_eq!(records(Format::V2, &file).expect("whole"), [Record::Protection(false), Record::End]);
        }
        let file = parts(&[b"x", &number(20_000), &[1; 20_000], b"e"]);
        assert_eq!(records(Format::V2, &file).expect("whole"), [Record::Unknown { tag: b'x' }, Record::End]);
        let endless = parts(&[b"x", &number(u64::MAX), b"e"]);
        let kind = records(Format::V2, &endless).expect_err("cut off").kind();
        assert_eq!(kind, ErrorKind::UnexpectedEof);
        for wrong in [
            parts(&[b"s", &number(9), &number(1), b"\0e"]),
            parts(&[b"p", &number(2), b"\0\0e"]),
            parts(&[b"z", &number(24), &number(1), &number(2), b"e"]),
            parts(&[b"w", &number(17), &number(1), &number(2), b"abe"]),
            parts(&[b"t", &number(6), &[1, 0, 0, 0], b"ae"]),
        ] {
            let kind = records(Format::V2, &wrong).expect_err("no such length").kind();
            assert_eq!(kind, ErrorKind::InvalidData);
        }
    }
}
