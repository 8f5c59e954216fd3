//! Files of whole images with their snapshots and metadata, in the format `rbd image v2`
//! (`doc/dev/rbd-export.rst`), which stock `rbd` writes and reads with `--export-format 2`.
//!
//! A file has the image's properties, the number of differences, and the differences: from nothing to
//! the oldest snapshot, from each snapshot to the next one, and from the newest one to the current image.
//!
//! ```
//! use loligo_rbd::diff::file::Record;
//! use loligo_rbd::image_file::{Head, Reader, Writer};
//!
//! let head = Head { order: 22, features: 61, stripe_unit: 4 << 20, stripe_count: 1, ..Head::default() };
//! let mut writer = Writer::new(Vec::new(), &head, 1)?;
//! let mut diff = writer.diff()?;
//! diff.size(1 << 20)?;
//! diff.end()?;
//! let file = writer.into_inner();
//!
//! let mut reader = Reader::new(&file[..])?;
//! assert_eq!(reader.head(), &head);
//! let mut diff = reader.next_diff()?.expect("there is one");
//! assert_eq!(diff.next_record()?, Record::Size(1 << 20));
//! assert_eq!(diff.next_record()?, Record::End);
//! drop(diff);
//! assert!(reader.next_diff()?.is_none());
//! # Ok::<(), std::io::Error>(())
//! ```

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};

use bytes::Bytes;
use loligo_wire::Name;
use loligo_wire::rbd::feature;

use crate::diff::file;
use crate::diff::file::Format;
use crate::diff::input::{Input, agree};
use crate::image::Image;
use crate::{Error, NewImage, features};

const BANNER: &str = "rbd image v2\n";
const DIFFS_BANNER: &str = "rbd image diffs v2\n";

const ORDER: u8 = b'O';
const FEATURES: u8 = b'T';
const STRIPE_UNIT: u8 = b'U';
const STRIPE_COUNT: u8 = b'C';
const METADATA: u8 = b'M';
const END: u8 = b'E';

/// The most bytes of metadata, all pairs together. A larger request exceeds an OSD's limit
/// (`osd_max_write_size`), so an image's header cannot have more.
const METADATA_BYTES_MAX: u32 = 90 << 20;

/// Features that reflect an image's state, not a user's choice.
const OF_STATE: u64 = feature::DATA_POOL
    | feature::OPERATIONS
    | feature::MIGRATING
    | feature::NON_PRIMARY
    | feature::DIRTY_CACHE;

/// An image's properties, as stored in a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// The base-2 logarithm of the object size.
    pub order: u64,
    /// `RBD_FEATURE_*`, of any release.
    pub features: u64,
    /// The stripe unit in bytes.
    pub stripe_unit: u64,
    /// The stripe count in objects.
    pub stripe_count: u64,
    /// Metadata that users store with the image.
    pub metadata: BTreeMap<Name, Bytes>,
}

impl Head {
    /// Reads an image's properties.
    ///
    /// # Errors
    /// The metadata cannot be read.
    pub async fn of(image: &Image) -> Result<Self, Error> {
        let layout = image.layout();
        Ok(Self {
            order: image.order().into(),
            features: image.view().features,
            stripe_unit: layout.stripe_unit(),
            stripe_count: layout.stripe_count(),
            metadata: image.metadata().await?,
        })
    }

    /// The properties of an empty image with this layout. The file does not name a data pool, and
    /// features that reflect an image's state are left out.
    ///
    /// # Errors
    /// [`Error::Layout`] if the layout is not valid for an image.
    pub fn new_image(&self) -> Result<NewImage, Error> {
        let Self { stripe_unit, stripe_count, .. } = *self;
        let order = u8::try_from(self.order).ok();
        let object_size = order.and_then(|order| 1u64.checked_shl(order.into()));
        let (Some(order), Some(object_size)) = (order, object_size) else {
            return Err(Error::Layout { order: u8::MAX, stripe_unit, stripe_count });
        };
        let striping = (stripe_unit, stripe_count);
        Ok(NewImage {
            order,
            features: self.features & !OF_STATE,
            striping: Some(striping).filter(|striping| *striping != (object_size, 1)),
            ..NewImage::of_size(0)
        })
    }
}

/// Writes a file.
pub struct Writer<W>(W);

impl<W: Write> Writer<W> {
    /// Begins a file of an image with `diffs` differences.
    ///
    /// # Errors
    /// `out` cannot be written to, here and in the methods below.
    pub fn new(out: W, head: &Head, diffs: u64) -> io::Result<Self> {
        let mut writer = Self(out);
        writer.0.write_all(BANNER.as_bytes())?;
        writer.number(ORDER, head.order)?;
        writer.number(FEATURES, head.features)?;
        writer.number(STRIPE_UNIT, head.stripe_unit)?;
        writer.number(STRIPE_COUNT, head.stripe_count)?;
        for (key, value) in &head.metadata {
            writer.pair(key.as_bytes(), value)?;
        }
        writer.0.write_all(&[END])?;
        writer.0.write_all(DIFFS_BANNER.as_bytes())?;
        writer.0.write_all(&diffs.to_le_bytes())?;
        Ok(writer)
    }

    /// Begins the next difference.
    pub fn diff(&mut self) -> io::Result<file::Writer<&mut W>> {
        file::Writer::begin(&mut self.0, Format::V2)
    }

    /// Returns the underlying writer.
    pub fn into_inner(self) -> W {
        self.0
    }

    fn number(&mut self, tag: u8, number: u64) -> io::Result<()> {
        self.tag(tag, 8)?;
        self.0.write_all(&number.to_le_bytes())
    }

    fn pair(&mut self, key: &[u8], value: &[u8]) -> io::Result<()> {
        self.tag(METADATA, (key.len() + value.len()) as u64 + 8)?;
        [key, value].into_iter().try_for_each(|string| {
            let len = u32::try_from(string.len()).map_err(|_| io::Error::from(ErrorKind::InvalidInput))?;
            self.0.write_all(&len.to_le_bytes())?;
            self.0.write_all(string)
        })
    }

    fn tag(&mut self, tag: u8, len: u64) -> io::Result<()> {
        self.0.write_all(&[tag])?;
        self.0.write_all(&len.to_le_bytes())
    }
}

/// Reads a file. Lengths and counts in it are not trusted: memory is allocated only for data that is
/// there.
pub struct Reader<R> {
    input: Input<R>,
    head: Head,
    diffs: u64,
    diffs_read: u64,
}

impl<R: Read> Reader<R> {
    /// Reads the image's properties.
    ///
    /// # Errors
    /// `InvalidData` if it is not such a file; `UnexpectedEof` if it is truncated; errors of the reader.
    pub fn new(from: R) -> io::Result<Self> {
        let mut input = Input::new(from, 0);
        input.banner(BANNER)?;
        let head = read_head(&mut input)?;
        input.banner(DIFFS_BANNER)?;
        let diffs = input.number()?;
        Ok(Self { input, head, diffs, diffs_read: 0 })
    }

    /// The image's properties.
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// The number of differences, according to the file.
    pub fn diffs(&self) -> u64 {
        self.diffs
    }

    /// Begins the next difference, if there is one. The previous one must have been read to its end.
    ///
    /// # Errors
    /// As [`Reader::new`].
    pub fn next_diff(&mut self) -> io::Result<Option<file::Reader<impl Read + use<'_, R>>>> {
        if self.diffs_read == self.diffs {
            return Ok(None);
        }
        self.diffs_read += 1;
        let position = self.input.position();
        file::Reader::begin(Input::new(&mut self.input, position), Format::V2).map(Some)
    }
}

fn read_head(input: &mut Input<impl Read>) -> io::Result<Head> {
    let mut numbers = [None; 4];
    let (mut metadata, mut room) = (BTreeMap::new(), METADATA_BYTES_MAX);
    loop {
        let (at, tag) = (input.position(), input.byte()?);
        if tag == END {
            break;
        }
        let (len, begun) = (input.number()?, input.position());
        match [ORDER, FEATURES, STRIPE_UNIT, STRIPE_COUNT].iter().position(|known| *known == tag) {
            Some(which) => numbers[which] = Some(input.number()?),
            None if tag == METADATA => {
                let key = input.string(room)?;
                let value = input.string(room - key.len() as u32)?;
                room -= (key.len() + value.len()) as u32;
                metadata.insert(key.into(), value.into());
            }
            // Of another release.
            None => input.skip(len)?,
        }
        agree(at, Some(len), input.position() - begun)?;
    }
    let [order, features, stripe_unit, stripe_count] = numbers;
    // Missing properties default to those of a new image.
    let order = order.unwrap_or(NewImage::of_size(0).order.into());
    let object_size = u32::try_from(order).ok().and_then(|order| 1u64.checked_shl(order)).unwrap_or(0);
    Ok(Head {
        order,
        features: features.unwrap_or(features::DEFAULT),
        stripe_unit: stripe_unit.unwrap_or(object_size),
        stripe_count: stripe_count.unwrap_or(1),
        metadata,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diff::file::Record;

    fn head() -> Head {
        let metadata = [("conf_rbd_cache", "true"), ("key", "value")];
        let metadata = metadata.map(|(key, value)| (Name::from(key), Bytes::from_static(value.as_bytes())));
        Head { order: 20, features: 63, stripe_unit: 1 << 16, stripe_count: 3, metadata: metadata.into() }
    }

    fn file() -> Vec<u8> {
        let mut writer = Writer::new(Vec::new(), &head(), 2).expect("room");
        let mut diff = writer.diff().expect("room");
        diff.to_snap("s").expect("room");
        diff.protection(true).expect("room");
        diff.size(4096).expect("room");
        diff.data(7, b"data").expect("room");
        diff.end().expect("room");
        let mut diff = writer.diff().expect("room");
        diff.from_snap("s").expect("room");
        diff.size(8192).expect("room");
        diff.end().expect("room");
        writer.into_inner()
    }

    fn read(file: &[u8]) -> io::Result<(Head, Vec<Record>)> {
        let (mut reader, mut all, mut last) = (Reader::new(file)?, Vec::new(), 0);
        let head = reader.head().clone();
        while let Some(mut diff) = reader.next_diff()? {
            loop {
                let record = diff.next_record()?;
                assert!(diff.position() > last && diff.position() <= file.len() as u64);
                last = diff.position();
                all.push(record);
                if all.last() == Some(&Record::End) {
                    break;
                }
            }
        }
        Ok((head, all))
    }

    #[test]
    fn what_is_written_is_read() {
        let (read, records) = read(&file()).expect("whole");
        assert_eq!(read, head());
        let expected = [
            Record::ToSnap("s".into()),
            Record::Protection(true),
            Record::Size(4096),
            Record::Data { offset: 7, data: Bytes::from_static(b"data") },
            Record::End,
            Record::FromSnap("s".into()),
            Record::Size(8192),
            Record::End,
        ];
        assert_eq!(records, expected);
    }

    /// The head as stock `rbd` of 16.2.15 writes it.
    #[test]
    fn a_head_is_rbd_s() {
        let number = |tag: u8, n: u64| [&[tag][..], &8u64.to_le_bytes(), &n.to_le_bytes()].concat();
        let expected = [
            b"rbd image v2\n".to_vec(),
            number(b'O', 20),
            number(b'T', 63),
            number(b'U', 65536),
            number(b'C', 3),
            b"M\x1a\0\0\0\0\0\0\0\x0e\0\0\0conf_rbd_cache\x04\0\0\0true".to_vec(),
            b"M\x10\0\0\0\0\0\0\0\x03\0\0\0key\x05\0\0\0value".to_vec(),
            b"Erbd image diffs v2\n\x02\0\0\0\0\0\0\0rbd diff v2\nt".to_vec(),
        ];
        let expected = expected.concat();
        assert_eq!(&file()[..expected.len()], expected);
    }

    #[test]
    fn what_is_cut_off_is_refused() {
        let whole = file();
        for len in 0..whole.len() {
            let kind = read(&whole[..len]).expect_err("it ends too early").kind();
            assert_eq!(kind, ErrorKind::UnexpectedEof, "{len}");
        }
    }

    /// Any damaged byte is either read or refused, and no length is trusted without the data.
    #[test]
    fn what_is_damaged_is_read_or_refused() {
        let (whole, mut refused) = (file(), 0);
        for at in 0..whole.len() {
            for change in [1, 0x80, 0xff] {
                let mut other = whole.clone();
                other[at] ^= change;
                refused += usize::from(read(&other).is_err());
            }
        }
        assert!(refused > whole.len(), "{refused}");
    }

    #[test]
    fn parts_of_a_head_are_bounded() {
        let kind = |parts: &[&[u8]]| {
            let file = [&[BANNER.as_bytes()], parts].concat().concat();
            read(&file).expect_err("no such file").kind()
        };
        let number = |n: u64| n.to_le_bytes();
        assert_eq!(kind(&[b"M", &number(8), &[255; 4]]), ErrorKind::InvalidData);
        assert_eq!(
            kind(&[b"M", &number(u64::MAX), &[1, 0, 0, 0], b"k", &[0, 0, 0, 6]]),
            ErrorKind::InvalidData
        );
        assert_eq!(
            kind(&[b"M", &number(10), &[1, 0, 0, 0], &[0xff], &[1, 0, 0, 0], b"v"]),
            ErrorKind::UnexpectedEof,
            "a key is any bytes, and the file ends behind it"
        );
        assert_eq!(kind(&[b"O", &number(9), &number(1), b"E"]), ErrorKind::InvalidData);
        assert_eq!(kind(&[b"x", &number(u64::MAX), b"E"]), ErrorKind::UnexpectedEof);
        let many = [&b"E"[..], DIFFS_BANNER.as_bytes(), &number(u64::MAX)].concat();
        assert_eq!(kind(&[&many]), ErrorKind::UnexpectedEof);
    }

    #[test]
    fn what_is_not_said_is_as_in_a_new_image() {
        let file = [BANNER.as_bytes(), b"x\x02\0\0\0\0\0\0\0..E", DIFFS_BANNER.as_bytes(), &[0; 8]].concat();
        let (head, records) = read(&file).expect("whole");
        assert!(records.is_empty());
        let new = head.new_image().expect("an image");
        assert_eq!((new.order, new.features, new.striping), (22, features::DEFAULT, None));
    }

    #[test]
    fn a_new_image_is_like_it() {
        let new = head().new_image().expect("an image");
        assert_eq!((new.size, new.order, new.features), (0, 20, 63));
        assert_eq!(new.striping, Some((1 << 16, 3)));
        let plain = Head { stripe_unit: 1 << 20, stripe_count: 1, features: 0x1bd, ..head() };
        let new = plain.new_image().expect("an image");
        assert_eq!((new.features, new.striping), (61, None));
        for order in [64, 256, u64::MAX] {
            assert!(matches!(Head { order, ..head() }.new_image(), Err(Error::Layout { .. })));
        }
    }
}
