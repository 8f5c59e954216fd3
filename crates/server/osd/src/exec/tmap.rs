//! TMAP: a map stored in an object's bytes, used by programs from before omaps existed.
//!
//! The bytes are a header, the number of pairs, and the pairs in key order. The directory of images of
//! the first format is such a map. Where a stock OSD aborts (a stored map or a header that cannot be
//! decoded) the result is EINVAL. Facts: `osd/PrimaryLogPG.cc` (`do_tmapup`, `do_tmap2omap`),
//! `include/rados.h`.

use std::collections::BTreeMap;

use bytes::Bytes;
use loligo_wire::message::osd::{OpCode, OsdOp};
use loligo_wire::{DecodeError, Errno, Reader, Writer};

use super::execution::{DONE, Execution, Output};

/// Steps of an update (`CEPH_OSD_TMAP_*`).
mod step {
    /// Replaces the header.
    pub(super) const HEADER: u8 = b'h';
    /// Sets a key.
    pub(super) const SET: u8 = b's';
    /// Sets a key that must not exist.
    pub(super) const CREATE: u8 = b'c';
    /// Removes a key that must exist.
    pub(super) const REMOVE: u8 = b'r';
    /// Removes a key if it exists.
    pub(super) const REMOVE_SLOPPY: u8 = b'R';
}

/// TMAP2OMAP: an empty object is no error (`CEPH_OSD_TMAP2OMAP_NULLOK`).
const NULL_OK: u8 = 1;

impl Execution<'_> {
    /// Returns the stored map unchanged.
    pub(super) fn tmap(&mut self) -> Output {
        self.read(&OsdOp::read(0, 0))
    }

    /// Replaces the map. A map whose keys are out of order is sorted.
    pub(super) fn put_tmap(&mut self, op: &OsdOp) -> Output {
        self.context.works(op.data.len() as u64)?;
        self.makes(op.data.len() as u64)?;
        let data = if is_ordered(&op.data)? { op.data.clone() } else { ordered(&op.data)? };
        self.nested(&OsdOp::write_full(data))
    }

    pub(super) fn update_tmap(&mut self, op: &OsdOp) -> Output {
        if op.data.is_empty() {
            return DONE;
        }
        let (_, stored) = self.tmap()?;
        let most = (stored.len() + op.data.len()) as u64;
        self.context.spend(most)?;
        self.makes(most)?;
        let updated = match merged(&stored, &op.data)? {
            Some(updated) => updated,
            None => updated_in_any_order(&stored, &op.data)?,
        };
        self.nested(&OsdOp::write_full(updated))
    }

    pub(super) fn tmap_to_omap(&mut self, op: &OsdOp) -> Output {
        if self.size == 0 {
            return if op.tmap_to_omap_flags() & NULL_OK != 0 { DONE } else { Err(Errno::ENODATA) };
        }
        let (_, stored) = self.tmap()?;
        let mut r = Reader::new(&stored);
        let header: Bytes = r.get()?;
        let pairs = Bytes::copy_from_slice(r.rest());
        self.truncate(&OsdOp::truncate(0))?;
        self.set_omap_header(&OsdOp::new(OpCode::OMAPSETHEADER).with_data(header))?;
        self.set_omap(&OsdOp::new(OpCode::OMAPSETVALS).with_data(pairs))
    }
}

/// Whether the keys are in ascending order.
fn is_ordered(map: &[u8]) -> Result<bool, DecodeError> {
    let mut r = Reader::new(map);
    r.blob()?;
    let mut last: &[u8] = b"";
    for _ in 0..r.u32()? {
        let (key, _) = (r.blob()?, r.blob()?);
        if key < last {
            return Ok(false);
        }
        last = key;
    }
    Ok(true)
}

fn ordered(map: &[u8]) -> Result<Bytes, Errno> {
    let (header, pairs) = decoded(map)?;
    Ok(encoded(&header, &pairs))
}

type Pairs = BTreeMap<Bytes, Bytes>;

/// Decodes a map; no bytes are an empty map.
fn decoded(map: &[u8]) -> Result<(Bytes, Pairs), Errno> {
    if map.is_empty() {
        return Ok(Default::default());
    }
    let mut r = Reader::new(map);
    let map = r.get()?;
    if r.is_empty() { Ok(map) } else { Err(Errno::EINVAL) }
}

fn encoded(header: &Bytes, pairs: &Pairs) -> Bytes {
    let mut w = Writer::new();
    w.put(header);
    w.put(pairs);
    w.into_bytes()
}

/// Applies an update whose keys are in order; returns `None` if they are not.
///
/// As in a stock OSD, a step looks for its key among the stored ones, not among those set by earlier
/// steps.
fn merged(stored: &[u8], update: &[u8]) -> Result<Option<Bytes>, Errno> {
    let (mut stored, mut update) = (Reader::new(stored), Reader::new(update));
    let (mut header, mut count) = match stored.is_empty() {
        true => (&b""[..], 0),
        false => (stored.blob()?, stored.u32()?),
    };
    if update.rest().first() == Some(&step::HEADER) {
        update.u8()?;
        header = update.blob()?;
    }
    let mut pairs = Writer::new();
    let mut next = next_pair(&mut stored)?;
    let mut last: &[u8] = b"";
    while !update.is_empty() {
        let (step, key) = (update.u8()?, update.blob()?);
        if key < last {
            return Ok(None);
        }
        last = key;
        let mut found = false;
        while let Some((before, value)) = next.filter(|(before, _)| !found && *before <= key) {
            found = before == key;
            if found {
                count = u32::wrapping_sub(count, 1);
            } else {
                put_pair(&mut pairs, before, value);
            }
            next = next_pair(&mut stored)?;
        }
        match step {
            step::CREATE if found => return Err(Errno::EEXIST),
            step::SET | step::CREATE => {
                put_pair(&mut pairs, key, update.blob()?);
                count = count.wrapping_add(1);
            }
            step::REMOVE if !found => return Err(Errno::ENOENT),
            step::REMOVE | step::REMOVE_SLOPPY => {}
            _ => return Err(Errno::EINVAL),
        }
    }
    if let Some((key, value)) = next {
        put_pair(&mut pairs, key, value);
    }
    pairs.raw(stored.rest());
    let mut w = Writer::new();
    w.blob(header);
    w.u32(count);
    w.raw(pairs.as_slice());
    Ok(Some(w.into_bytes()))
}

/// A key and its value.
type Pair<'a> = (&'a [u8], &'a [u8]);

fn next_pair<'a>(r: &mut Reader<'a>) -> Result<Option<Pair<'a>>, DecodeError> {
    if r.is_empty() { Ok(None) } else { Ok(Some((r.blob()?, r.blob()?))) }
}

fn put_pair(w: &mut Writer, key: &[u8], value: &[u8]) {
    w.blob(key);
    w.blob(value);
}

/// Applies an update whose keys are in any order. CREATE is not supported here, as in a stock OSD.
fn updated_in_any_order(stored: &[u8], update: &[u8]) -> Result<Bytes, Errno> {
    let (mut header, mut pairs) = decoded(stored)?;
    let mut update = Reader::new(update);
    while !update.is_empty() {
        match update.u8()? {
            step::SET => drop(pairs.insert(update.get()?, update.get()?)),
            step::REMOVE => drop(pairs.remove(&update.get::<Bytes>()?).ok_or(Errno::ENOENT)?),
            step::REMOVE_SLOPPY => drop(pairs.remove(&update.get::<Bytes>()?)),
            step::HEADER => header = update.get()?,
            _ => return Err(Errno::EINVAL),
        }
    }
    Ok(encoded(&header, &pairs))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Encodes a map of these pairs.
    fn map(header: &str, pairs: &[(&str, &str)]) -> Bytes {
        let mut w = Writer::new();
        w.put(header);
        w.count(pairs.len());
        pairs.iter().for_each(|(key, value)| put_pair(&mut w, key.as_bytes(), value.as_bytes()));
        w.into_bytes()
    }

    fn update(steps: &[(u8, &str, &str)]) -> Vec<u8> {
        let mut w = Writer::new();
        for (step, key, value) in steps {
            w.u8(*step);
            w.put(*key);
            if matches!(*step, step::SET | step::CREATE) {
                w.put(*value);
            }
        }
        w.into_bytes().to_vec()
    }

    #[test]
    fn an_update_in_order_is_merged() {
        let stored = map("h", &[("a", "1"), ("c", "3"), ("e", "5")]);
        let steps = update(&[(b's', "b", "2"), (b's', "c", "x"), (b'r', "e", ""), (b'R', "f", "")]);
        let wanted = map("h", &[("a", "1"), ("b", "2"), ("c", "x")]);
        assert_eq!(merged(&stored, &steps), Ok(Some(wanted)));
        // Onto an empty map, with a new header.
        let header = [&b"h\x01\0\0\0H"[..], &update(&[(b's', "a", "1")])].concat();
        assert_eq!(merged(b"", &header), Ok(Some(map("H", &[("a", "1")]))));
    }

    #[test]
    fn an_update_that_cannot_be_is_an_errno() {
        let stored = map("", &[("a", "1")]);
        for (steps, errno) in [
            (update(&[(b'r', "b", "")]), Errno::ENOENT),
            (update(&[(b'c', "a", "2")]), Errno::EEXIST),
            (update(&[(b'x', "a", "")]), Errno::EINVAL),
            (update(&[(b's', "a", "2")])[..7].to_vec(), Errno::EINVAL),
            (b"h\xff\xff\xff\xff".to_vec(), Errno::EINVAL),
        ] {
            assert_eq!(merged(&stored, &steps), Err(errno), "{steps:?}");
        }
        assert_eq!(merged(b"\x05", &update(&[(b's', "a", "")])), Err(Errno::EINVAL));
        assert_eq!(decoded(&[&stored[..], b"x"].concat()), Err(Errno::EINVAL));
    }

    proptest! {
        /// If no key occurs twice, merging equals setting and removing the keys one by one.
        #[test]
        fn merging_is_updating(
            stored in prop::collection::btree_map("[a-f]{0,2}", "[x-z]{0,2}", 0..8),
            steps in prop::collection::btree_map("[a-f]{0,2}", (0..2usize, "[x-z]{0,2}"), 1..8),
        ) {
            let stored: Pairs = stored.into_iter().map(|(k, v)| (k.into(), v.into())).collect();
            let stored = encoded(&Bytes::from_static(b"head"), &stored);
            let steps: Vec<(u8, &str, &str)> =
                steps.iter().map(|(key, (step, value))| (b"sR"[*step], &**key, &**value)).collect();
            let update = update(&steps);
            let merged = merged(&stored, &update);
            prop_assert_eq!(merged, updated_in_any_order(&stored, &update).map(Some));
        }

        #[test]
        fn nonsense_is_refused(stored in prop::collection::vec(0..8u8, 0..40), update in prop::collection::vec(any::<u8>(), 0..40)) {
            let _ = merged(&stored, &update);
            let _ = updated_in_any_order(&stored, &update);
            let _ = is_ordered(&update).map(|_| ordered(&update));
        }
    }
}
