//! The journal: a ring of groups of records.
//!
//! Positions only increase; position `p` is at byte `p mod length` of the file. Each group begins at a
//! multiple of 4,096: a header, the records one after the other, zeros. A group does not wrap around the
//! ring's end: a group too long for the rest of the ring begins at its start. One group is written at a
//! time, so only the last one can be incomplete.
//!
//! In the ring's first round the file ends after the prepared part, and grows ahead of the groups
//! (`ahead`).

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use loligo_wire::crc::crc32c_of;
use loligo_wire::{Reader, Uuid, Writer};

use super::backend::{ALIGN, BackendFile, Buffer};

const MAGIC: u32 = 0x314a_474c; // "LGJ1"
/// Magic, number of records, position, length of the records, checksum of the records, the store's salt,
/// checksum of the fields before it, padding.
const HEADER_LEN: usize = 48;
const HEADER_SUMMED: usize = 40;
/// The bytes that a record takes in addition to its contents: its length.
const RECORD_COST: usize = 4;

/// The space in the journal, in bytes, that one record may take; larger records are refused.
pub(super) fn record_max(journal_len: u64) -> u64 {
    journal_len / 4
}

/// The length of a group with these records, in bytes.
pub(super) fn group_len(records: usize, bytes: usize) -> u64 {
    (HEADER_LEN + records * RECORD_COST + bytes).next_multiple_of(ALIGN) as u64
}

/// The ring, and the position of its next group.
#[derive(Debug)]
pub(super) struct Journal {
    file: Arc<dyn BackendFile>,
    salt: Uuid,
    len: u64,
    /// The length of the file when it was opened, in bytes.
    found_len: u64,
    head: u64,
    buffer: Buffer,
}

/// The header of a group that was found.
struct Header {
    records: u32,
    at: u64,
    len: u32,
    crc: u32,
}

impl Journal {
    pub(super) fn new(file: Arc<dyn BackendFile>, salt: Uuid, len: u64, head: u64) -> io::Result<Self> {
        // A write that a loss of power cut short may have left a partial block, which was never prepared.
        let found_len = file.len()?.min(len) / ALIGN as u64 * ALIGN as u64;
        Ok(Self { file, salt, len, found_len, head, buffer: Buffer::default() })
    }

    /// Whether the file was long enough, when opened, for a journal prepared up to this limit.
    pub(super) fn reaches(&self, limit: u64) -> bool {
        self.found_len >= limit.min(self.len)
    }

    pub(super) fn head(&self) -> u64 {
        self.head
    }

    /// Returns the position where a group of this length will begin.
    pub(super) fn place_of(&self, len: u64) -> u64 {
        let room = self.len - self.head % self.len;
        if len <= room { self.head } else { self.head + room }
    }

    /// Writes records as one group; they are safe when this returns. The caller has checked that there is
    /// room.
    pub(super) fn write<'r>(&mut self, records: impl Iterator<Item = &'r [u8]> + Clone) -> io::Result<()> {
        let (count, bytes) = records.clone().fold((0, 0), |(n, bytes), record| (n + 1, bytes + record.len()));
        let len = group_len(count, bytes);
        let at = self.place_of(len);
        self.buffer.reset(len as usize);
        let mut end = HEADER_LEN;
        for record in records {
            self.buffer[end..end + 4].copy_from_slice(&(record.len() as u32).to_le_bytes());
            self.buffer[end + 4..end + 4 + record.len()].copy_from_slice(record);
            end += RECORD_COST + record.len();
        }
        self.buffer[end..].fill(0);
        let crc = crc32c_of([&self.buffer[HEADER_LEN..end]]);
        let mut w = Writer::with_capacity(HEADER_LEN);
        w.u32(MAGIC);
        w.u32(count as u32);
        w.u64(at);
        w.u32((end - HEADER_LEN) as u32);
        w.u32(crc);
        w.raw(&self.salt.0);
        let header_crc = crc32c_of([&w.as_slice()[..HEADER_SUMMED]]);
        w.u32(header_crc);
        w.u32(0);
        self.buffer[..HEADER_LEN].copy_from_slice(w.as_slice());
        self.file.write_and_sync(at % self.len, &self.buffer)?;
        self.head = at + len;
        if self.buffer.len() > KEEP_MAX {
            self.buffer = Buffer::default();
        }
        Ok(())
    }

    /// Reads the group at the head and moves the head past it; `None` if there is none.
    pub(super) fn read(&mut self) -> io::Result<Option<Vec<Bytes>>> {
        let wrapped = self.head.next_multiple_of(self.len);
        for at in [self.head, wrapped] {
            if let Some((records, len)) = self.read_at(at)? {
                self.head = at + len;
                return Ok(Some(records));
            }
        }
        Ok(None)
    }

    fn read_at(&mut self, at: u64) -> io::Result<Option<(Vec<Bytes>, u64)>> {
        let Some(header) = self.header(at)?.filter(|header| header.at == at) else { return Ok(None) };
        let len = (HEADER_LEN + header.len as usize).next_multiple_of(ALIGN) as u64;
        if at % self.len + len > self.found_len {
            return Ok(None);
        }
        let mut buffer = Buffer::zeroed(len as usize);
        self.file.read(at % self.len, &mut buffer)?;
        let bytes = &buffer[HEADER_LEN..HEADER_LEN + header.len as usize];
        if crc32c_of([bytes]) != header.crc {
            return Ok(None);
        }
        let bytes = Bytes::copy_from_slice(bytes);
        let mut r = Reader::new(&bytes);
        let mut records = Vec::new();
        while !r.is_empty() {
            match r.blob() {
                Ok(record) => records.push(bytes.slice_ref(record)),
                Err(_) => return Ok(None),
            }
        }
        Ok((records.len() == header.records as usize).then_some((records, len)))
    }

    fn header(&mut self, at: u64) -> io::Result<Option<Header>> {
        if at % self.len + ALIGN as u64 > self.found_len {
            return Ok(None);
        }
        self.buffer.reset(ALIGN);
        self.file.read(at % self.len, &mut self.buffer)?;
        Ok(self.parse(&self.buffer[..HEADER_LEN]))
    }

    fn parse(&self, bytes: &[u8]) -> Option<Header> {
        let mut r = Reader::new(bytes);
        let (magic, records, at) = (r.u32().ok()?, r.u32().ok()?, r.u64().ok()?);
        let (len, crc, salt, header_crc) = (r.u32().ok()?, r.u32().ok()?, r.array().ok()?, r.u32().ok()?);
        let ours =
            magic == MAGIC && Uuid(salt) == self.salt && header_crc == crc32c_of([&bytes[..HEADER_SUMMED]]);
        ours.then_some(Header { records, at, len, crc })
    }

    /// Whether the file begins with a group of this store. A new store's journal does from its creation
    /// on: a group that reaches the ring's end is followed by one at its start.
    pub(super) fn is_ours(&mut self) -> io::Result<bool> {
        Ok(self.found_len > 0 && self.header(0)?.is_some())
    }

    /// Called after [`read`](Self::read) found its last group: returns whether a later group exists all
    /// the same. In that case a group in between, which was safe once, was damaged: a group is written
    /// only when the one before it is safe.
    ///
    /// No group ends after `limit`, so only the part before it is read. The whole ring is read if the
    /// limit is unknown, or is wrong because a group was found after it.
    pub(super) fn has_later(&self, limit: Option<u64>) -> io::Result<bool> {
        const STEP: u64 = 1 << 20;
        let until = limit.filter(|limit| *limit >= self.head).unwrap_or(u64::MAX);
        let until = until.min(self.head + self.len);
        let mut buffer = Buffer::default();
        let mut at = self.head;
        while at < until {
            let offset = at % self.len;
            if offset >= self.found_len {
                at += self.len - offset;
                continue;
            }
            let step = STEP.min(self.found_len - offset).min(until - at);
            buffer.reset(step as usize);
            self.file.read(offset, &mut buffer)?;
            let headers = buffer.chunks_exact(ALIGN).filter_map(|block| self.parse(&block[..HEADER_LEN]));
            // The group at the head itself, or the same group at the ring's start, may be incomplete.
            let torn = [self.head, self.head.next_multiple_of(self.len)];
            if headers.into_iter().any(|header| header.at > self.head && !torn.contains(&header.at)) {
                return Ok(true);
            }
            at += step;
        }
        Ok(false)
    }
}

/// Larger buffers are not kept.
const KEEP_MAX: usize = 4 << 20;

#[cfg(test)]
mod tests {
    use super::super::backend::Backend;
    use super::super::backend::sim::Machine;
    use super::*;

    const LEN: u64 = 64 << 10;

    fn journal(machine: &Machine, head: u64) -> Journal {
        let file = machine.open("journal").expect("simulated");
        Journal::new(file, Uuid([1; 16]), LEN, head).expect("simulated")
    }

    fn formatted(seed: u64) -> Machine {
        let machine = Machine::new(seed, 0);
        machine.open("journal").expect("simulated").set_len(LEN).expect("simulated");
        machine
    }

    fn record(n: usize) -> Vec<u8> {
        vec![n as u8; n * 37 % 9000]
    }

    fn write(journal: &mut Journal, n: usize) {
        let records: Vec<_> = (n..n + n % 3 + 1).map(record).collect();
        journal.write(records.iter().map(|r| &r[..])).expect("simulated");
    }

    #[test]
    fn groups_are_found_again_around_the_ring() {
        let machine = formatted(1);
        let mut to = journal(&machine, 0);
        let mut from = journal(&machine, 0);
        for n in 0..200 {
            write(&mut to, n);
            let records = from.read().expect("simulated").expect("just written");
            assert!(
                records.iter().zip(n..).all(|(found, n)| *found == record(n)) && records.len() == n % 3 + 1
            );
            assert_eq!(from.head(), to.head());
        }
        assert!(from.read().expect("simulated").is_none());
        assert!(!from.has_later(None).expect("simulated"));
    }

    #[test]
    fn damage_in_the_middle_is_told_from_the_end() {
        let machine = formatted(1);
        let mut to = journal(&machine, 0);
        (1..4).for_each(|n| write(&mut to, n));
        let mut whole = journal(&machine, 0);
        whole.read().expect("simulated").expect("the first group");
        let second = whole.head();
        whole.read().expect("simulated").expect("the second group");
        let third = whole.head();
        for (damaged, is_middle) in [(second, true), (third, false)] {
            for byte in [0, 8, 20, 60] {
                machine.flip("journal", damaged + byte, 3);
                let mut from = journal(&machine, 0);
                while from.read().expect("simulated").is_some() {}
                assert_eq!(from.head(), damaged);
                for limit in
                    [None, Some(to.head()), Some(to.head() + 4096), Some(u64::MAX), Some(second - 4096)]
                {
                    let found = from.has_later(limit).expect("simulated");
                    assert_eq!(found, is_middle, "byte {byte}, limit {limit:?}");
                }
                machine.flip("journal", damaged + byte, 3);
            }
        }
    }

    #[test]
    fn what_was_damaged_around_the_rings_end_is_found_before_the_limit() {
        let machine = formatted(1);
        let mut to = journal(&machine, 0);
        (0..40)
            .take_while(|n| {
                write(&mut to, *n);
                to.head() < LEN * 7 / 8
            })
            .for_each(drop);
        let damaged = to.head();
        let tail = damaged;
        while to.head() < LEN + LEN / 4 {
            write(&mut to, 4);
        }
        machine.flip("journal", damaged % LEN + 9, 1);
        let from = journal(&machine, tail);
        assert!(from.has_later(Some(to.head())).expect("simulated"));
        assert!(!from.has_later(Some(damaged)).expect("simulated"), "no group can be behind it");
    }

    #[test]
    fn a_short_file_holds_what_was_written_and_nothing_else() {
        let machine = Machine::new(1, 0);
        let mut to = journal(&machine, 0);
        (1..4).for_each(|n| write(&mut to, n));
        let mut from = journal(&machine, 0);
        assert_eq!(from.found_len, to.head());
        while from.read().expect("the file ends there").is_some() {}
        assert_eq!(from.head(), to.head());
        assert!(!from.has_later(None).expect("simulated"));
    }
}
