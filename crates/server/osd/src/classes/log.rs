//! Class `log`: a log in an object's omap, in order of time (`src/cls/log`).

use std::cmp::Ordering;

use bytes::Bytes;
use loligo_wire::{Decode, DecodeError, Encode, Reader, UTime, Writer};

use super::{Class, DONE, Handle, Outcome, give, rd, rw};
use crate::errno::Errno;

pub(super) static CLASS: Class =
    Class { name: "log", methods: &[rw("add", add), rd("list", list), rw("trim", trim), rd("info", info)] };

/// What the keys of entries begin with.
const PREFIX: &str = "1_";
/// Entries that one answer has, or one call removes.
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

/// The newest entry there ever was.
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

/// What the keys of a moment's entries begin with.
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
        // Where it stands, which may be later than what it says of itself.
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
        // One that cannot be read is left out.
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

/// Where a key stands to a moment; `Equal` if its entry is of that moment.
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
    // Unlike in a listing, entries of the last moment belong to it.
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
