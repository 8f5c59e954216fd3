//! Class `user`: the buckets of a user of the object gateway, and sums over them (`src/cls/user`).

use bytes::Bytes;
use loligo_wire::{Decode, DecodeError, Encode, Errno, Reader, UTime, Writer};

use crate::class::{Class, DONE, Outcome, give, rd, rw};
use crate::handle::Handle;

pub(crate) static CLASS: Class = Class {
    name: "user",
    methods: &[
        rw("set_buckets_info", set_buckets),
        rw("complete_stats_sync", complete_sync),
        rw("remove_bucket", remove_bucket),
        rd("list_buckets", list_buckets),
        rd("get_header", get_header),
        rw("reset_user_stats", reset_stats),
        rw("reset_user_stats2", reset_stats_in_parts),
    ],
};

/// Buckets in one reply.
const ENTRIES_MAX: u64 = 1000;

/// A bucket: its name, and the rest of its encoding unchanged.
#[derive(Clone)]
struct Bucket {
    name: Bytes,
    version: u8,
    compat: u8,
    rest: Bytes,
}

impl Encode for Bucket {
    fn encode(&self, w: &mut Writer) {
        w.versioned(self.version, self.compat, |w| {
            w.put(&self.name);
            w.raw(&self.rest);
        });
    }
}

impl Decode for Bucket {
    const MIN_LEN: usize = 10;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let (version, compat) = (r.u8()?, r.u8()?);
        if compat > 9 {
            return Err(DecodeError::TooNew { what: "cls_user_bucket", compat, supported: 9 });
        }
        let mut inner = r.sized()?;
        let name = inner.get()?;
        Ok(Self { name, version, compat, rest: Bytes::copy_from_slice(inner.rest()) })
    }
}

#[derive(Clone)]
struct Entry {
    bucket: Bucket,
    size: u64,
    size_rounded: u64,
    creation_time: UTime,
    count: u64,
    /// Whether it is included in the sums.
    synced: bool,
}

impl Encode for Entry {
    fn encode(&self, w: &mut Writer) {
        w.versioned(9, 5, |w| {
            w.blob(b""); // was the bucket's name
            w.u64(self.size);
            w.u32(self.creation_time.sec);
            w.u64(self.count);
            w.put(&self.bucket);
            w.u64(self.size_rounded);
            w.bool(self.synced);
            w.put(&self.creation_time);
        });
    }
}

impl Decode for Entry {
    const MIN_LEN: usize = 50;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.versioned("cls_user_bucket_entry", 7, 9, |r, _| {
            r.blob()?;
            let size = r.u64()?;
            r.u32()?;
            let (count, bucket, size_rounded) = (r.u64()?, r.get()?, r.u64()?);
            Ok(Self { bucket, size, size_rounded, synced: r.bool()?, creation_time: r.get()?, count })
        })
    }
}

#[derive(Clone, Copy, Default)]
struct Stats {
    entries: u64,
    bytes: u64,
    bytes_rounded: u64,
}

impl Encode for Stats {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.u64(self.entries);
            w.u64(self.bytes);
            w.u64(self.bytes_rounded);
        });
    }
}

impl Decode for Stats {
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.versioned("cls_user_stats", 1, 1, |r, _| {
            Ok(Self { entries: r.u64()?, bytes: r.u64()?, bytes_rounded: r.u64()? })
        })
    }
}

impl Stats {
    fn add(&mut self, entry: &Entry) {
        self.entries = self.entries.wrapping_add(entry.count);
        self.bytes = self.bytes.wrapping_add(entry.size);
        self.bytes_rounded = self.bytes_rounded.wrapping_add(entry.size_rounded);
    }

    fn take(&mut self, entry: &Entry) {
        self.entries = self.entries.wrapping_sub(entry.count);
        self.bytes = self.bytes.wrapping_sub(entry.size);
        self.bytes_rounded = self.bytes_rounded.wrapping_sub(entry.size_rounded);
    }
}

#[derive(Clone, Copy, Default)]
struct Header {
    stats: Stats,
    last_sync: UTime,
    last_update: UTime,
}

impl Encode for Header {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.put(&self.stats);
            w.put(&self.last_sync);
            w.put(&self.last_update);
        });
    }
}

impl Decode for Header {
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.versioned("cls_user_header", 1, 1, |r, _| {
            Ok(Self { stats: r.get()?, last_sync: r.get()?, last_update: r.get()? })
        })
    }
}

fn header(object: &mut Handle<'_>) -> Result<Header, Errno> {
    let bytes = object.header()?;
    if bytes.is_empty() { Ok(Header::default()) } else { Header::from_bytes(&bytes).map_err(|_| Errno::EIO) }
}

fn entry(object: &mut Handle<'_>, name: &[u8]) -> Result<Option<Entry>, Errno> {
    if name.is_empty() {
        return Err(Errno::EINVAL);
    }
    match object.value(name) {
        Ok(bytes) => Entry::from_bytes(&bytes).map(Some).map_err(|_| Errno::EIO),
        Err(Errno::ENOENT) => Ok(None),
        Err(errno) => Err(errno),
    }
}

fn set_buckets(object: &mut Handle<'_>, input: &[u8]) -> Outcome {
    let (entries, add, time) = Reader::new(input).versioned("cls_user_set_buckets_op", 1, 1, |r, _| {
        Ok((r.get::<Vec<Entry>>()?, r.bool()?, r.get::<UTime>()?))
    })?;
    let mut header = match header(object) {
        Err(Errno::ENOENT) => Header::default(),
        header => header?,
    };
    for update in entries {
        let name = update.bucket.name.clone();
        let old = match entry(object, &name)? {
            Some(old) => old,
            // An entry that claims to be included in the sums is subtracted from them below, as stock
            // OSDs do.
            None if add => update.clone(),
            None => continue, // removed meanwhile
        };
        if old.synced {
            header.stats.take(&old);
        }
        let Entry { size, size_rounded, count, .. } = update;
        let new = Entry { size, size_rounded, count, synced: true, ..old };
        header.stats.add(&new);
        object.set_value(&name, new.to_bytes())?;
    }
    header.last_update = header.last_update.max(time);
    object.set_header(header.to_bytes())?;
    DONE
}

fn complete_sync(object: &mut Handle<'_>, input: &[u8]) -> Outcome {
    let time: UTime =
        Reader::new(input).versioned("cls_user_complete_stats_sync_op", 1, 1, |r, _| r.get())?;
    let mut header = header(object)?;
    header.last_sync = header.last_sync.max(time);
    object.set_header(header.to_bytes())?;
    DONE
}

fn remove_bucket(object: &mut Handle<'_>, input: &[u8]) -> Outcome {
    let bucket: Bucket = Reader::new(input).versioned("cls_user_remove_bucket_op", 1, 1, |r, _| r.get())?;
    let mut header = header(object)?;
    let Some(entry) = entry(object, &bucket.name)? else { return DONE };
    if entry.synced {
        header.stats.take(&entry);
    }
    object.remove_value(&bucket.name)?;
    object.set_header(header.to_bytes())?;
    DONE
}

fn list_buckets(object: &mut Handle<'_>, input: &[u8]) -> Outcome {
    let (marker, max, end) =
        Reader::new(input).versioned("cls_user_list_buckets_op", 1, 2, |r, version| {
            let (marker, max): (Bytes, i32) = (r.get()?, r.i32()?);
            Ok((marker, max, if version >= 2 { r.get()? } else { Bytes::new() }))
        })?;
    let max = u64::try_from(max).map_or(ENTRIES_MAX, |max| max.min(ENTRIES_MAX));
    let (found, more) = object.values(&marker, b"", max)?;
    let mut entries = Vec::new();
    let (mut last, mut truncated) = (Bytes::new(), more);
    for (key, value) in found {
        last = key;
        if !end.is_empty() && end <= last {
            truncated = false;
            break;
        }
        entries.extend(Entry::from_bytes(&value));
    }
    let mut w = Writer::new();
    w.versioned(1, 1, |w| {
        w.put(&entries);
        w.blob(if truncated { &last } else { b"" });
        w.bool(truncated);
    });
    give(w.into_bytes())
}

fn get_header(object: &mut Handle<'_>, input: &[u8]) -> Outcome {
    Reader::new(input).versioned("cls_user_get_header_op", 1, 1, |_, _| Ok(()))?;
    let header = header(object)?;
    let mut w = Writer::new();
    w.versioned(1, 1, |w| w.put(&header));
    give(w.into_bytes())
}

/// Adds up a page of buckets; returns the last key if there are more.
fn add_up(object: &mut Handle<'_>, after: &[u8], stats: &mut Stats) -> Result<Option<Bytes>, Errno> {
    let (found, more) = object.values(after, b"", ENTRIES_MAX)?;
    let mut last = None;
    for (key, value) in found {
        stats.add(&Entry::from_bytes(&value).map_err(|_| Errno::EIO)?);
        last = Some(key);
    }
    Ok(last.filter(|_| more))
}

fn reset_stats(object: &mut Handle<'_>, input: &[u8]) -> Outcome {
    let time: UTime = Reader::new(input).versioned("cls_user_reset_stats_op", 1, 1, |r, _| r.get())?;
    let mut header = Header { last_update: time, ..Header::default() };
    let mut after = Bytes::new();
    while let Some(last) = add_up(object, &after, &mut header.stats)? {
        after = last;
    }
    object.set_header(header.to_bytes())?;
    DONE
}

fn reset_stats_in_parts(object: &mut Handle<'_>, input: &[u8]) -> Outcome {
    let (time, marker, mut stats) =
        Reader::new(input).versioned("cls_user_reset_stats2_op", 1, 1, |r, _| {
            Ok((r.get::<UTime>()?, r.get::<Bytes>()?, r.get::<Stats>()?))
        })?;
    let last = add_up(object, &marker, &mut stats)?;
    if last.is_none() {
        object.set_header(Header { stats, last_update: time, ..Header::default() }.to_bytes())?;
    }
    let mut w = Writer::new();
    w.versioned(1, 1, |w| {
        w.put(&last.clone().unwrap_or_default());
        w.put(&stats);
        w.bool(last.is_some());
    });
    give(w.into_bytes())
}
