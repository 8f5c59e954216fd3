//! Features of CephFS clients and metadata servers (`src/mds/cephfs_features.h`), which sessions
//! negotiate.

use az::SaturatingAs as _;

use crate::{Decode, DecodeError, Encode, Reader, Writer};

/// A set of features, or of kinds of metrics, as bit numbers (`feature_bitset_t`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeatureBits {
    words: Vec<u64>,
}

impl FeatureBits {
    /// Creates the set of the given bits.
    pub fn of(bits: &[u32]) -> Self {
        let mut set = Self::default();
        bits.iter().for_each(|bit| set.insert(*bit));
        set
    }

    /// Adds a bit.
    pub fn insert(&mut self, bit: u32) {
        let word = (bit / u64::BITS) as usize;
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= 1 << (bit % u64::BITS);
    }

    /// Whether the set has the bit.
    pub fn contains(&self, bit: u32) -> bool {
        let word = self.words.get((bit / u64::BITS) as usize);
        word.is_some_and(|word| word >> (bit % u64::BITS) & 1 == 1)
    }

    /// Whether the set has no bit.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// The first of `needed` that the set does not have.
    pub fn missing(&self, needed: &[u32]) -> Option<u32> {
        needed.iter().copied().find(|bit| !self.contains(*bit))
    }

    /// The bits, in ascending order.
    pub fn bits(&self) -> impl Iterator<Item = u32> {
        let in_word = |(at, word): (usize, &u64)| {
            let (first, word) = (at.saturating_as::<u32>().saturating_mul(u64::BITS), *word);
            (0..u64::BITS).filter(move |bit| word >> bit & 1 == 1).map(move |bit| first.saturating_add(bit))
        };
        self.words.iter().enumerate().flat_map(in_word)
    }

    /// Whether nothing was written: not even words of zeros.
    pub(super) fn is_absent(&self) -> bool {
        self.words.is_empty()
    }
}

impl Encode for FeatureBits {
    fn encode(&self, w: &mut Writer) {
        w.count(self.words.len() * size_of::<u64>());
        self.words.iter().for_each(|word| w.u64(*word));
    }
}

impl Decode for FeatureBits {
    const MIN_LEN: usize = 4;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let word = |chunk: &[u8]| {
            let mut word = [0; size_of::<u64>()];
            word[..chunk.len()].copy_from_slice(chunk);
            u64::from_le_bytes(word)
        };
        Ok(Self { words: r.blob()?.chunks(size_of::<u64>()).map(word).collect() })
    }
}

/// The numbers of the features. Bits 0 to 4 are reserved.
pub mod feature {
    /// Release 10.
    pub const JEWEL: u32 = 5;
    /// Release 11.
    pub const KRAKEN: u32 = 6;
    /// Release 12.
    pub const LUMINOUS: u32 = 7;
    /// Release 13. A server sends metadata and features only to clients that have this bit.
    pub const MIMIC: u32 = 8;
    /// Replies have versioned structs. All supported releases and kernels have it.
    pub const REPLY_ENCODING: u32 = 9;
    /// A client may take over the session of an earlier one.
    pub const RECLAIM_CLIENT: u32 = 10;
    /// Clients report that they want lazy I/O only for files opened for it.
    pub const LAZY_CAP_WANTED: u32 = 11;
    /// A reconnect may be split over several messages. Release 14.
    pub const MULTI_RECONNECT: u32 = 12;
    /// The server delegates inode numbers for asynchronous creation. Release 15.
    pub const DELEG_INO: u32 = 13;
    /// Clients send metrics.
    pub const METRIC_COLLECT: u32 = 14;
    /// Dentries may have a second name.
    pub const ALTERNATE_NAME: u32 = 15;
    /// A client may ask for the state of an open session.
    pub const NOTIFY_SESSION_STATE: u32 = 16;
    /// The server answers requests for virtual extended attributes.
    pub const OP_GETVXATTR: u32 = 17;
    /// Requests count retries and forwards in 32 bits. The last one of release 16.
    pub const WIDE_RETRY_FWD: u32 = 18;
    /// Snapshot realms have times and change counters.
    pub const NEW_SNAPREALM_INFO: u32 = 19;
    /// Requests have the owner of a new inode beside the caller.
    pub const HAS_OWNER_UIDGID: u32 = 20;
    /// Clients check the capabilities of their key. The last one of release 18.
    pub const MDS_AUTH_CAPS_CHECK: u32 = 21;
    /// Directories may fold case.
    pub const CHARMAP: u32 = 22;
    /// The server lists the changed blocks between snapshots. The last one of release 20.
    pub const BLOCKDIFF: u32 = 23;

    /// The features without which a peer's messages cannot be read: neither side opens a session.
    pub const REQUIRED: &[u32] = &[REPLY_ENCODING];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_travel_in_words_of_64() {
        let set = FeatureBits::of(&[5, 9, 64]);
        let bytes = set.to_bytes();
        assert_eq!(&bytes[..], b"\x10\0\0\0\x20\x02\0\0\0\0\0\0\x01\0\0\0\0\0\0\0");
        assert_eq!(FeatureBits::from_bytes(&bytes), Ok(set.clone()));
        assert_eq!(set.bits().collect::<Vec<_>>(), [5, 9, 64]);
        assert!(set.contains(64) && !set.contains(6) && !set.contains(1000));
        assert!(FeatureBits::default().is_empty());
        assert_eq!(set.missing(feature::REQUIRED), None);
        assert_eq!(FeatureBits::of(&[5]).missing(feature::REQUIRED), Some(feature::REPLY_ENCODING));
    }

    #[test]
    fn an_incomplete_word_is_filled_with_zeros() {
        let set = FeatureBits::from_bytes(b"\x02\0\0\0\x20\x02").expect("a set");
        assert_eq!(set, FeatureBits::of(&[5, 9]));
        assert!(FeatureBits::from_bytes(b"\xff\xff\xff\xff\x20\x02").is_err());
    }
}
