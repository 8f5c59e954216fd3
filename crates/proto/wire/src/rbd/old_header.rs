//! The header of an image of format 1 (`rbd_obj_header_ondisk`): the contents of the object `NAME.rbd`.
//!
//! | bytes | field |
//! |---|---|
//! | 40 | a text that identifies the object |
//! | 24 | the prefix of the data objects' names, terminated by a zero |
//! | 4, 8 | signature, version |
//! | 1, 1, 1, 1 | log2 of the object size, encryption, compression, unused |
//! | 8 | the image's size in bytes |
//! | 8 | the highest snapshot id used so far |
//! | 4, 4 | number of snapshots, unused |
//! | 8 | total length of the snapshots' names in bytes |
//! | 16 each | id and size of a snapshot, newest first |
//! | | the snapshots' names in the same order, each terminated by a zero |

use az::SaturatingAs as _;

use crate::{Decode, DecodeError, Encode, Name, Reader, SnapId, Writer};

/// The text at the start of a header, with its terminating zero.
pub const TEXT: &[u8; 34] = b"<<< Rados Block Device Image >>>\n\0";

/// The text at the start of the header of an image that is being migrated.
pub const MIGRATING_TEXT: &[u8; 34] = b"<<< Migrating RBD Image      >>>\n\0";

const TEXT_LEN: usize = 40;
const PREFIX_LEN: usize = 24;
const SIGNATURE: [u8; 4] = *b"RBD\0";
const VERSION: [u8; 8] = *b"001.005\0";

/// The length of a header without snapshots, in bytes.
const FIXED_LEN: usize = 112;

/// The length of a snapshot's entry without the name, in bytes.
const SNAP_LEN: u64 = 16;

/// An image's header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OldHeader {
    text: [u8; TEXT_LEN],
    prefix: [u8; PREFIX_LEN],
    signature: [u8; 4],
    version: [u8; 8],
    /// log2 of the object size.
    pub order: u8,
    /// Encryption, compression and an unused byte.
    options: [u8; 3],
    /// The image's size in bytes.
    pub size: u64,
    /// The highest snapshot id used so far.
    pub snap_seq: SnapId,
    reserved: u32,
    /// The snapshots, newest first.
    pub snaps: Vec<OldSnap>,
}

/// A snapshot of an image of format 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OldSnap {
    /// Its id.
    pub id: SnapId,
    /// The image's size at the snapshot, in bytes.
    pub size: u64,
    /// The snapshot's name, without the terminating zero.
    pub name: Name,
}

impl OldHeader {
    /// Creates the header of a new image.
    ///
    /// # Errors
    /// [`DecodeError::Invalid`] if the prefix has 24 bytes or more.
    pub fn new(prefix: &str, order: u8, size: u64) -> Result<Self, DecodeError> {
        if prefix.len() >= PREFIX_LEN {
            return Err(DecodeError::Invalid { what: "block_name", value: prefix.len() as u64 });
        }
        Ok(Self {
            text: padded(TEXT),
            prefix: padded(prefix.as_bytes()),
            signature: SIGNATURE,
            version: VERSION,
            order,
            options: [0; 3],
            size,
            snap_seq: SnapId(0),
            reserved: 0,
            snaps: Vec::new(),
        })
    }

    /// Whether the text identifies an image that is not being migrated.
    pub fn is_image(&self) -> bool {
        self.text.starts_with(TEXT)
    }

    /// Whether the text identifies an image that is being migrated.
    pub fn is_migrating(&self) -> bool {
        self.text.starts_with(MIGRATING_TEXT)
    }

    /// The prefix of the data objects' names.
    pub fn prefix(&self) -> &[u8] {
        until_zero(&self.prefix)
    }
}

fn padded<const N: usize>(text: &[u8]) -> [u8; N] {
    let mut padded = [0; N];
    padded.iter_mut().zip(text).for_each(|(to, from)| *to = *from);
    padded
}

fn until_zero(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}

impl Encode for OldHeader {
    fn encode(&self, w: &mut Writer) {
        w.raw(&self.text);
        w.raw(&self.prefix);
        w.raw(&self.signature);
        w.raw(&self.version);
        w.u8(self.order);
        w.raw(&self.options);
        w.u64(self.size);
        w.u64(self.snap_seq.0);
        w.count(self.snaps.len());
        w.u32(self.reserved);
        w.u64(self.snaps.iter().map(|snap| snap.name.len() as u64 + 1).sum());
        for snap in &self.snaps {
            w.u64(snap.id.0);
            w.u64(snap.size);
        }
        for snap in &self.snaps {
            w.raw(&snap.name);
            w.u8(0);
        }
    }
}

impl Decode for OldHeader {
    const MIN_LEN: usize = FIXED_LEN;

    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let (text, prefix, signature, version) = (r.array()?, r.array()?, r.array()?, r.array()?);
        let (order, options) = (r.u8()?, r.array()?);
        let (size, snap_seq) = (r.u64()?, SnapId(r.u64()?));
        let (count, reserved, names_len) = (r.u32()?, r.u32()?, r.u64()?);
        let needed = (u64::from(count) * SNAP_LEN).saturating_add(names_len);
        if needed > r.remaining() as u64 {
            return Err(DecodeError::Truncated { needed, left: r.remaining() });
        }
        let mut ids = Reader::new(r.raw((u64::from(count) * SNAP_LEN).saturating_as::<usize>())?);
        let mut names = r.raw(names_len.saturating_as::<usize>())?;
        let mut snaps = Vec::with_capacity(count as usize);
        for number in 0..count {
            let Some(end) = names.iter().position(|byte| *byte == 0) else {
                return Err(DecodeError::Invalid { what: "snap_names", value: number.into() });
            };
            let name = Name::from(&names[..end]);
            names = &names[end + 1..];
            snaps.push(OldSnap { id: SnapId(ids.u64()?), size: ids.u64()?, name });
        }
        Ok(Self { text, prefix, signature, version, order, options, size, snap_seq, reserved, snaps })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The header that release 16 wrote for an image of 10 MiB with two snapshots.
    const STOCK: &[u8] = b"<<< Rados Block Device Image >>>\n\0\0\0\0\0\0\0rb.0.10ba.6b8b4567\0\0\0\0\0\0\
        RBD\x00001.005\0\x16\0\0\0\0\0\xa0\0\0\0\0\0\x0d\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\x07\0\0\0\0\0\0\0\
        \x0d\0\0\0\0\0\0\0\0\0\xa0\0\0\0\0\0\x0c\0\0\0\0\0\0\0\0\0\xa0\0\0\0\0\0s22\0s1\0";

    #[test]
    fn a_header_is_as_a_stock_client_writes_it() {
        let mut header = OldHeader::new("rb.0.10ba.6b8b4567", 22, 10 << 20).expect("a short prefix");
        header.snap_seq = SnapId(13);
        let snap = |id, name: &[u8]| OldSnap { id: SnapId(id), size: 10 << 20, name: name.into() };
        header.snaps = vec![snap(13, b"s22"), snap(12, b"s1")];
        assert_eq!(header.to_bytes(), STOCK);
        assert_eq!(OldHeader::from_bytes(STOCK), Ok(header));
        assert!(OldHeader::new("rb.0.0123456789ab.0123456789ab", 22, 0).is_err());
    }

    #[test]
    fn what_a_header_claims_must_be_there() {
        assert!(OldHeader::from_bytes(&STOCK[..STOCK.len() - 1]).is_err(), "a name is cut");
        assert!(OldHeader::from_bytes(&STOCK[..100]).is_err());
        for at in [96, 104, 111] {
            let mut bytes = STOCK.to_vec();
            bytes[at] = 0xff;
            assert!(OldHeader::from_bytes(&bytes).is_err(), "byte {at}");
        }
    }

    #[test]
    fn texts_say_what_it_is() {
        let header = OldHeader::from_bytes(STOCK).expect("a header");
        assert_eq!((header.is_image(), header.is_migrating()), (true, false));
        assert_eq!(header.prefix(), b"rb.0.10ba.6b8b4567");
        let moved = [&MIGRATING_TEXT[..], &STOCK[34..]].concat();
        assert!(OldHeader::from_bytes(&moved).expect("a header").is_migrating());
    }
}
