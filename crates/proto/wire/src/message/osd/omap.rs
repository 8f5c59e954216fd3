//! Omap operations on objects, and decoders of their replies.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use super::{CmpOp, OpCode, OsdOp};
use crate::{DecodeError, Encode, Reader, Writer};

/// Part of an omap, as OMAPGETVALS returns it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OmapPairs {
    /// Keys and values, sorted by key.
    pub pairs: Vec<(Bytes, Bytes)>,
    /// Whether more pairs follow.
    pub more: bool,
}

/// Part of an omap's keys, as OMAPGETKEYS returns it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OmapKeys {
    /// The keys, sorted.
    pub keys: Vec<Bytes>,
    /// Whether more keys follow.
    pub more: bool,
}

impl OmapPairs {
    /// Decodes the operation's output.
    pub fn from_answer(answer: &[u8]) -> Result<Self, DecodeError> {
        let mut r = Reader::new(answer);
        let pairs: BTreeMap<Bytes, Bytes> = r.get()?;
        Ok(Self { pairs: pairs.into_iter().collect(), more: r.bool()? })
    }
}

impl OmapKeys {
    /// Decodes the operation's output.
    pub fn from_answer(answer: &[u8]) -> Result<Self, DecodeError> {
        let mut r = Reader::new(answer);
        Ok(Self { keys: r.get()?, more: r.bool()? })
    }
}

impl OsdOp {
    /// OMAPGETVALS: returns at most `max` pairs whose keys follow `after` and begin with `prefix`.
    pub fn omap_values(after: &[u8], max: u64, prefix: &[u8]) -> Self {
        let mut w = Writer::new();
        w.blob(after);
        w.u64(max);
        w.blob(prefix);
        Self::new(OpCode::OMAPGETVALS).with_data(w.into_bytes())
    }

    /// OMAPGETKEYS: returns at most `max` keys that follow `after`.
    pub fn omap_keys(after: &[u8], max: u64) -> Self {
        let mut w = Writer::new();
        w.blob(after);
        w.u64(max);
        Self::new(OpCode::OMAPGETKEYS).with_data(w.into_bytes())
    }

    /// OMAPGETVALSBYKEYS: returns a map of the given keys that exist.
    pub fn omap_values_by_keys<K: AsRef<[u8]>>(keys: impl IntoIterator<Item = K>) -> Self {
        Self::new(OpCode::OMAPGETVALSBYKEYS).with_data(set_of(keys).to_bytes())
    }

    /// OMAP_CMP: fails with ECANCELED unless, for each key, the comparison `stored OP given` holds.
    pub fn omap_compare<K: AsRef<[u8]>>(assertions: impl IntoIterator<Item = (K, CmpOp, Bytes)>) -> Self {
        let assertions: BTreeMap<Bytes, (Bytes, i32)> = assertions
            .into_iter()
            .map(|(key, cmp, value)| (Bytes::copy_from_slice(key.as_ref()), (value, cmp as i32)))
            .collect();
        Self::new(OpCode::OMAP_CMP).with_data(assertions.to_bytes())
    }

    /// OMAPSETVALS.
    pub fn omap_set<K: AsRef<[u8]>>(pairs: impl IntoIterator<Item = (K, Bytes)>) -> Self {
        let pairs: BTreeMap<Bytes, Bytes> =
            pairs.into_iter().map(|(key, value)| (Bytes::copy_from_slice(key.as_ref()), value)).collect();
        Self::new(OpCode::OMAPSETVALS).with_data(pairs.to_bytes())
    }

    /// OMAPRMKEYS.
    pub fn omap_remove<K: AsRef<[u8]>>(keys: impl IntoIterator<Item = K>) -> Self {
        Self::new(OpCode::OMAPRMKEYS).with_data(set_of(keys).to_bytes())
    }

    /// OMAPRMKEYRANGE: removes the keys that are at least `from` and less than `until`.
    pub fn omap_remove_range(from: &[u8], until: &[u8]) -> Self {
        let mut w = Writer::new();
        w.blob(from);
        w.blob(until);
        Self::new(OpCode::OMAPRMKEYRANGE).with_data(w.into_bytes())
    }
}

fn set_of<K: AsRef<[u8]>>(keys: impl IntoIterator<Item = K>) -> BTreeSet<Bytes> {
    keys.into_iter().map(|key| Bytes::copy_from_slice(key.as_ref())).collect()
}
