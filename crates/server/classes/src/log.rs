//! Class `log`: a log in an object's omap, ordered by time (`src/cls/log`).

use std::cmp::Ordering;

use bytes::Bytes;
use loligo_wire::{Decode, DecodeError, Encode, Errno, Reader, UTime, Writer};

use crate::class::{Class, DONE, Outcome, give, rd, rw};
use crate::handle::Handle;

pub(crate) static CLASS: Class =
    Class { name: "log", methods: &[rw("add", add), rd("list", list), rw("trim", trim), rd("info", info)] };

/// Prefix of the entries' keys.
const PREFIX: &str = "1_";
/// Entries in one reply, or removed by one call.
const ENTRIES_MAX: u64 = 1000;

struct Entry {
    id: Bytes,
    section: Bytes,
    name: Bytes,
    timestamp: UTime,
    data: Bytes,
}

impl Encode for Entry {
    fn encode(&self, w: &mut Writer) {
        w.versioned(2, 1, |w| {
            w.put(&self.section);
            w.put(&self.name);
            w.put(&self.timestamp);
            w.put(&self.data);
            w.put(&self.id);
        });
    }
}

impl Decode for Entry {
    const MIN_LEN: usize = 26;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.versioned("cls_log_entry", 1, 2, |r, version| {
            let (section, name, timestamp, data) = (r.get()?, r.get()?, r.get()?, r.get()?);
            Ok(Self {
                id: if version >= 2 { r.get()? } else { Bytes::new() },
                section,
                name,
                timestamp,
                data,
            })
        })
    }
}

/// The newest entry that was ever added.
#[derive(Default)]
struct Header {
    max_marker: Bytes,
    max_time: UTime,
}

impl Encode for Header {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.put(&self.max_marker);
            w.put(&self.max_time);
        });
    }
}

impl Decode for Header {
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.versioned("cls_log_header", 1, 1, |r, _| Ok(Self { max_marker: r.get()?, max_time: r.get()? }))
    }
}

impl Header {
    fn load(object: &mut Handle<'_>) -> Result<Self, Errno> {
        let bytes = object.header()?;
        if bytes.is_empty() { Ok(Self::default()) } else { Self::from_bytes(&bytes).map_err(|_| Errno::EIO) }
    }
}

/// The key prefix of the entries of a time.
fn at(time: UTime) -> String {
    format!("{PREFIX}{:010}.{:06}_", time.sec, time.nsec / 1000)
}

fn add(object: &mut Handle<'_>, input: &[u8]) -> Outcome {
    let (entries, monotonic) = Reader::new(input).versioned("cls_log_add_op", 1, 2, |r, version| {
        let entries: Vec<Entry> = r.get()?;
        Ok((entries, if version >= 2 { r.bool()? } else { true }))
    })?;
    let mut header = Header::load(object)?;
    for mut entry in entries {
        // The time used for its key, which may be later than its own timestamp.
        let place = if monotonic { entry.timestamp.max(header.max_time) } else { entry.timestamp };
        header.max_time = header.max_time.max(entry.timestamp);
        let key = if entry.id.is_empty() {
            let key = Bytes::from(format!("{}{}", at(place), object.unique_id()));
            entry.id = key.clone();
            key
        } else {
            entry.id.clone()
        };
        header.max_marker = header.max_marker.max(key.clone());
        object.set_value(&key, entry.to_bytes())?;
    }
    object.set_header(header.to_bytes())?;
    DONE
}

fn list(object: &mut Handle<'_>, input: &[u8]) -> Outcome {
    let (from, marker, to, max) = Reader::new(input).versioned("cls_log_list_op", 1, 1, |r, _| {
        Ok((r.get::<UTime>()?, r.get::<Bytes>()?, r.get::<UTime>()?, r.i32()?))
    })?;
    let after = if marker.is_empty() { Bytes::from(at(from)) } else { marker };
    let until = (!from.is_zero() && !to.is_zero() && to >= from).then(|| at(to));
    let max = u64::try_from(max).ok().filter(|max| (1..=ENTRIES_MAX).contains(max)).unwrap_or(ENTRIES_MAX);
    let (found, more) = object.values(&after, PREFIX.as_bytes(), max)?;
    let mut entries = Vec::new();
    let (mut last, mut truncated) = (Bytes::new(), more);
    for (key, value) in found {
        last = key;
        if until.as_ref().is_some_and(|until| compared(&last, until).is_ge()) {
            truncated = false;
            break;
        }
        // Entries that cannot be decoded are skipped.
        entries.extend(Entry::from_bytes(&value));
    }
    let mut w = Writer::new();
    w.versioned(1, 1, |w| {
        w.put(&entries);
        w.put(&last);
        w.bool(truncated);
    });
    give(w.into_bytes())
}

/// Compares a key with a time's prefix; `Equal` if the entry has that time.
fn compared(key: &[u8], moment: &str) -> Ordering {
    key[..key.len().min(moment.len())].cmp(moment.as_bytes())
}

fn trim(object: &mut Handle<'_>, input: &[u8]) -> Outcome {
    let (from_time, to_time, from, to) =
        Reader::new(input).versioned("cls_log_trim_op", 1, 2, |r, version| {
            let (from_time, to_time): (UTime, UTime) = (r.get()?, r.get()?);
            let markers: (Bytes, Bytes) =
                if version >= 2 { (r.get()?, r.get()?) } else { Default::default() };
            Ok((from_time, to_time, markers.0, markers.1))
        })?;
    let after = if from.is_empty() { Bytes::from(at(from_time)) } else { from };
    let until = at(to_time);
    // Unlike in a listing, entries of the end time are included.
    let goes = |key: &Bytes| if to.is_empty() { compared(key, &until).is_le() } else { *key <= to };
    let (found, _) = object.values(&after, PREFIX.as_bytes(), ENTRIES_MAX)?;
    let gone: Vec<Bytes> = found.into_keys().take_while(goes).collect();
    if gone.is_empty() {
        return Err(Errno::ENODATA);
    }
    gone.iter().try_for_each(|key| object.remove_value(key))?;
    DONE
}

fn info(object: &mut Handle<'_>, input: &[u8]) -> Outcome {
    Reader::new(input).versioned("cls_log_info_op", 1, 1, |_, _| Ok(()))?;
    let header = Header::load(object)?;
    let mut w = Writer::new();
    w.versioned(1, 1, |w| w.put(&header));
    give(w.into_bytes())
}
