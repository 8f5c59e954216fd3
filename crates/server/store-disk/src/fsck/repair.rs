//! Repairs damage as far as possible without inventing data.
//!
//! | fault | repair |
//! |---|---|
//! | blocks in use without an owner, or vice versa; wrong reference counts or sums | counted again |
//! | the row of an object that cannot be read | removed; its chunks and its omap then belong to nothing |
//! | rows that belong to nothing | removed |
//! | the row of a chunk that cannot be read | reads of its blocks fail; the rest of the object is readable |
//! | a block that does not exist | replaced by a block whose reads all fail |
//! | operation records that cannot be read | removed: a repeated operation would be applied twice |
//! | a journal that continues after an unreadable group | ends there: later acknowledged writes are lost |
//! | a superblock that is lost, truncated, or another store's | written again, from the other or the map |
//! | a journal that is lost, truncated, or another store's | created again: its unstored records are lost |
//! | a data file that is lost or too short | extended with zeros, which match no checksum |
//!
//! Removed data is passed to the caller, to be kept, before anything is changed. A block with a wrong
//! checksum stays: reads of it fail until it is written again. A lost row of a collection is reconstructed
//! (`lost`). If its contents are unknown, nothing is changed, as all its objects would belong to nothing.

use std::collections::BTreeMap;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use super::super::backend::files::Files;
use super::super::backend::{ALIGN, Backend, BackendFile, Batch, Buffer, Kv};
use super::super::block::{Block, Chunk, Place};
use super::super::config::{OpenError, open_error};
use super::super::keys;
use super::super::layout::{BLOCK, CHUNK_BLOCKS, Run, Superblock, VERSION_MARKED, block_crc};
use super::super::pair::{self, Found, Part};
use super::super::rows::{self, StoreRow};
use super::{Check, Checked, Finding, Wrong, examine};

/// The maximum number of bytes written at once when the journal is cleared.
const CLEAR_MAX: u64 = 1 << 20;

/// The faults found before a repair, and those left after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repaired {
    /// The result of the first check.
    pub before: Checked,
    /// The result of the check after the repair; the same if there was nothing to do.
    pub after: Checked,
}

/// The callbacks for the reports of a repair.
pub struct Listener<'a> {
    /// Called for each fault, as it is found.
    pub found: &'a mut dyn FnMut(&Finding),
    /// Called for each action, with a sentence.
    pub done: &'a mut dyn FnMut(&str),
    /// Called for each fault that is left.
    pub left: &'a mut dyn FnMut(&Finding),
    /// Called with the number of blocks read and their total.
    pub progress: &'a mut dyn FnMut(u64, u64),
}

/// Checks the store in a directory, which must not be open elsewhere, repairs what can be repaired, and
/// checks it again. Removed data is kept in files of the directory `lost`, which is created if necessary.
pub fn repair(dir: &Path, lost: &Path, listener: Listener<'_>) -> Result<Repaired, OpenError> {
    if !Files::has_any(dir) {
        return Err(pair::no_store());
    }
    let keep = &mut |name: &str, bytes: &[u8]| keep_in(lost, name, bytes);
    repair_on(&Files::open(dir).map_err(open_error)?, listener, keep)
}

/// Appends to a file of removed data.
fn keep_in(lost: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    DirBuilder::new().mode(0o700).recursive(true).create(lost)?;
    let mut file = OpenOptions::new().create(true).append(true).mode(0o600).open(lost.join(name))?;
    file.write_all(bytes)?;
    file.sync_all()?;
    File::open(lost)?.sync_all()
}

/// Receives removed data: a name, and bytes.
pub(crate) type Keep<'a> = &'a mut dyn FnMut(&str, &[u8]) -> io::Result<()>;

pub(crate) fn repair_on(
    backend: &dyn Backend,
    listener: Listener<'_>,
    keep: Keep<'_>,
) -> Result<Repaired, OpenError> {
    let Listener { found, done, left, progress } = listener;
    let mut errors = 0;
    let mut tell = |what: &str| {
        errors += 1;
        found(&Finding { object: None, offset: None, what: what.to_owned() });
    };
    let (superblock, kv) = match mend_files(backend, &mut *keep, &mut *done, &mut tell)? {
        Mended::Usable(superblock, kv) => (superblock, kv),
        Mended::Hopeless => {
            let before = Checked { errors, block_bytes: BLOCK as u64, ..Checked::default() };
            return Ok(Repaired { before, after: before });
        }
    };
    let disk = kv.snapshot();
    let mut check = examine(backend, &superblock, &*disk, found, progress)?;
    check.checked.errors += errors;
    let before = check.checked;
    if let Some(why) = check.hopeless.take() {
        done(&format!("nothing: {why}"));
        return Ok(Repaired { before, after: before });
    }
    if before.errors == 0 {
        return Ok(Repaired { before, after: before });
    }
    let data = backend.open("data")?;
    let mut repair =
        Repair { wrong: std::mem::take(&mut check.wrong), check, data, batch: Batch::default(), keep, done };
    repair.data_len()?;
    repair.journal(backend, &superblock)?;
    repair.collections()?;
    repair.rows()?;
    repair.chunks()?;
    repair.places()?;
    repair.operations();
    repair.count_anew()?;
    // The blocks before the rows that refer to them.
    repair.data.sync()?;
    kv.commit(repair.batch)?;
    let after = examine(backend, &superblock, &*kv.snapshot(), left, progress)?.checked;
    Ok(Repaired { before, after })
}

/// The result of repairing the files themselves.
enum Mended {
    Usable(Superblock, Arc<dyn Kv>),
    /// Data is missing that cannot be restored, and without which nothing else is usable. The fault was
    /// reported.
    Hopeless,
}

/// Repairs the superblocks, the journal and the data file so that the rest can be checked.
fn mend_files(
    backend: &dyn Backend,
    keep: Keep<'_>,
    done: &mut dyn FnMut(&str),
    tell: &mut dyn FnMut(&str),
) -> Result<Mended, OpenError> {
    let found = pair::find(backend)?;
    if matches!(found, Found::Making) || pair::traces(backend)?.is_empty() {
        return Err(pair::no_store());
    }
    let missing = pair::missing(backend)?;
    let is_lost = |part: &Part| matches!(part, Part::Map | Part::OtherData);
    let is_old = matches!(&found, Found::Store(superblock) if superblock.version < VERSION_MARKED);
    if !is_old && missing.iter().any(|(part, _)| is_lost(part)) {
        missing.iter().for_each(|(_, what)| tell(what));
        done("nothing: the map cannot be brought back; put `kv` back as it was");
        return Ok(Mended::Hopeless);
    }
    let kv = backend.kv()?;
    let superblock = match found {
        Found::Store(superblock) => superblock,
        Found::Wrong(_) | Found::Nothing | Found::Making => {
            match &found {
                Found::Wrong(wrong) => tell(&wrong.what),
                _ => tell("both superblocks are lost or empty"),
            }
            let row = kv.snapshot().get(keys::STORE)?.and_then(|row| StoreRow::decode(&row).ok());
            let mended = pair::mend(backend, row, keep, done)?;
            mended.ok_or_else(|| OpenError::Damaged("nothing says what was in the superblock".to_owned()))?
        }
    };
    let mut faults = if is_old { Vec::new() } else { missing };
    for fault in pair::faults(backend, &superblock, &*kv.snapshot())? {
        if faults.iter().all(|(part, _)| *part != fault.0) {
            faults.push(fault);
        }
    }
    faults.iter().for_each(|(_, what)| tell(what));
    if faults.iter().any(|(part, _)| is_lost(part)) {
        done(
            "nothing: what is another store's, or older than the rest, cannot be mended; put it back as it was",
        );
        return Ok(Mended::Hopeless);
    }
    pair::mend_files(backend, &superblock, &faults, keep, done)?;
    Ok(Mended::Usable(superblock, kv))
}

struct Repair<'a> {
    check: Check<'a>,
    wrong: Vec<Wrong>,
    data: Arc<dyn BackendFile>,
    batch: Batch,
    keep: Keep<'a>,
    done: &'a mut dyn FnMut(&str),
}

impl Repair<'_> {
    fn data_len(&mut self) -> io::Result<()> {
        if self.wrong.iter().any(|wrong| matches!(wrong, Wrong::DataLen)) {
            self.data.set_len(self.check.blocks * BLOCK as u64)?;
            (self.done)("the data file has its length again");
        }
        Ok(())
    }

    /// Ends the journal where it cannot be read. Everything except the part before that position is
    /// cleared: otherwise an old group could later seem to continue new ones.
    fn journal(&mut self, backend: &dyn Backend, superblock: &Superblock) -> Result<(), OpenError> {
        let cut = self.wrong.iter().find_map(|wrong| match wrong {
            Wrong::Journal { head, limit } => Some((*head, *limit)),
            _ => None,
        });
        let Some((head, limit)) = cut else { return Ok(()) };
        let row = self.check.disk.get(keys::STORE)?.map(|row| StoreRow::decode(&row)).transpose()?;
        let (tail, len) = (row.map_or(0, |row| row.journal_tail), superblock.journal_len);
        let until = limit.filter(|limit| *limit >= head).unwrap_or(u64::MAX).min(tail + len);
        let file = backend.open("journal")?;
        let file_len = file.len()?.min(len) / ALIGN as u64 * ALIGN as u64;
        let mut buffer = Buffer::default();
        for clear in [false, true] {
            let mut at = head;
            while at < until {
                let offset = at % len;
                let step = CLEAR_MAX.min(file_len.saturating_sub(offset)).min(until - at);
                if step == 0 {
                    at += len - offset;
                    continue;
                }
                buffer.reset(step as usize);
                if clear {
                    buffer.fill(0);
                    file.write(offset, &buffer)?;
                } else if file.read(offset, &mut buffer).is_ok() {
                    (self.keep)(&format!("journal-{head}"), &buffer)?;
                }
                at += step;
            }
        }
        file.sync()?;
        (self.done)(&format!(
            "the journal ends at position {head}; what was acknowledged later is lost, and kept as it is in journal-{head}"
        ));
        Ok(())
    }

    /// Keeps the remains of the rows that are reconstructed.
    fn collections(&mut self) -> Result<(), OpenError> {
        for wrong in std::mem::take(&mut self.wrong) {
            let Wrong::Collection(pg) = wrong else {
                self.wrong.push(wrong);
                continue;
            };
            let key = keys::collection(pg);
            if let Some(value) = self.check.disk.get(&key)? {
                (self.keep)(&format!("row-{}", file_name(&key)), &value)?;
            }
            (self.done)(&format!(
                "the row of the collection {pg} is made again, from its other rows and the journal"
            ));
        }
        Ok(())
    }

    /// Removes rows that belong to nothing, or cannot be read.
    fn rows(&mut self) -> Result<(), OpenError> {
        let mut count = 0;
        for wrong in std::mem::take(&mut self.wrong) {
            let Wrong::Row(key) = wrong else {
                self.wrong.push(wrong);
                continue;
            };
            count += 1;
            self.take_out(&key)?;
        }
        if count > 0 {
            (self.done)(&format!("{count} rows were taken out"));
        }
        Ok(())
    }

    fn take_out(&mut self, key: &Bytes) -> Result<(), OpenError> {
        if let Some(value) = self.check.disk.get(key)? {
            let name = file_name(key);
            (self.keep)(&format!("row-{name}"), &value)?;
            if key[0] == b'K'
                && let Ok(chunk) = rows::decode_chunk(&value)
            {
                self.keep_data(&format!("data-{name}"), &chunk)?;
            }
        }
        self.batch.remove(key.clone());
        Ok(())
    }

    /// Keeps the data of a chunk that belongs to nothing, with zeros for holes and for blocks with a wrong
    /// checksum.
    fn keep_data(&mut self, name: &str, chunk: &Chunk) -> io::Result<()> {
        let mut bytes = vec![0; chunk.blocks.len() * BLOCK];
        for (block, bytes) in chunk.blocks.iter().zip(bytes.chunks_exact_mut(BLOCK)) {
            if let Block::Disk(place) = block
                && let Some(data) = self.read(*place)
                && block_crc(&data) == place.crc
            {
                bytes.copy_from_slice(&data);
            }
        }
        (self.keep)(name, &bytes)
    }

    fn read(&self, place: Place) -> Option<Buffer> {
        if u64::from(place.block) >= self.check.blocks {
            return None;
        }
        let mut buffer = Buffer::zeroed(BLOCK);
        self.data.read(u64::from(place.block) * BLOCK as u64, &mut buffer).ok()?;
        Some(buffer)
    }

    /// Replaces the blocks of unreadable chunk rows with blocks whose reads all fail.
    fn chunks(&mut self) -> Result<(), OpenError> {
        for wrong in std::mem::take(&mut self.wrong) {
            let Wrong::Chunk { row, collection, blocks } = wrong else {
                self.wrong.push(wrong);
                continue;
            };
            if let Some(value) = self.check.disk.get(&row)? {
                (self.keep)(&format!("row-{}", file_name(&row)), &value)?;
            }
            let mut chunk = Chunk::default();
            for _ in 0..blocks.min(CHUNK_BLOCKS) {
                chunk.blocks.push(Block::Disk(self.unreadable(!block_crc(&[]))?));
            }
            if let Some((_, _, sums)) = self.check.collections.get_mut(&collection) {
                sums.bytes_allocated += chunk.blocks.len() as u64 * BLOCK as u64;
            }
            if chunk.blocks.is_empty() {
                self.batch.remove(row);
            } else {
                self.batch.set(row, rows::encode_chunk(&chunk));
            }
            (self.done)(&format!("{blocks} blocks of an object cannot be read any more; the rest of it can"));
        }
        Ok(())
    }

    /// Allocates a block in place of one that does not exist, with a checksum that does not match: the
    /// original contents are unknown.
    fn unreadable(&mut self, crc: u32) -> Result<Place, OpenError> {
        let is_free = |block: &u64| !self.check.used.bits().get(*block) && !self.check.named.get(*block);
        let Some(block) = (0..self.check.blocks).find(is_free) else {
            return Err(OpenError::Damaged("there is no room to mend it".to_owned()));
        };
        let run = Run { start: block as u32, len: 1 };
        self.check.used.refer(run)?;
        let buffer = Buffer::zeroed(BLOCK);
        self.data.write(run.offset(), &buffer)?;
        let fits = block_crc(&buffer) == crc;
        Ok(Place { block: run.start, crc: if fits { !crc } else { crc } })
    }

    fn places(&mut self) -> Result<(), OpenError> {
        let mut by_row: BTreeMap<Bytes, Vec<(usize, Place)>> = BTreeMap::new();
        for wrong in std::mem::take(&mut self.wrong) {
            match wrong {
                Wrong::Place { row, index, place } => by_row.entry(row).or_default().push((index, place)),
                other => self.wrong.push(other),
            }
        }
        for (row, places) in by_row {
            let Some(value) = self.check.disk.get(&row)? else { continue };
            let object = (row[0] == b'O').then(|| rows::decode_object(&value)).transpose()?;
            let mut chunk = match &object {
                Some((onode, ..)) => {
                    onode.chunks.first().cloned().flatten().map(|c| Chunk::clone(&c)).unwrap_or_default()
                }
                None => rows::decode_chunk(&value)?,
            };
            for (index, place) in places {
                let own = self.unreadable(place.crc)?;
                if let Some(block) = chunk.blocks.get_mut(index) {
                    *block = Block::Disk(own);
                }
                (self.done)(&format!(
                    "block {} does not exist; block {}, which cannot be read, is in its place",
                    place.block, own.block
                ));
            }
            let new = match &object {
                Some((onode, stored, _)) => rows::encode_object(onode, stored, Some(&chunk)),
                None => rows::encode_chunk(&chunk),
            };
            self.batch.set(row, new);
        }
        Ok(())
    }

    /// Makes a collection begin a new row of operation records.
    fn operations(&mut self) {
        for wrong in std::mem::take(&mut self.wrong) {
            let Wrong::Operations(number) = wrong else {
                self.wrong.push(wrong);
                continue;
            };
            let Some((pg, row, _)) = self.check.collections.get_mut(&number) else { continue };
            self.batch.remove(keys::records(number, row.records / keys::RECORDS_PER_ROW));
            row.records = row.records.next_multiple_of(keys::RECORDS_PER_ROW);
            (self.done)(&format!(
                "the newest operation records of {pg} are forgotten: a repetition of one of them would be done twice"
            ));
        }
    }

    /// Computes the sums of collections, the blocks in use and their reference counts again.
    fn count_anew(&mut self) -> Result<(), OpenError> {
        for (pg, row, sums) in self.check.collections.values_mut() {
            row.stats = *sums;
            // Rows are changed here; the next start counts them.
            row.object_rows = None;
            self.batch.set(keys::collection(*pg), row.encode());
        }
        for (key, _) in self.check.disk.range(b"R", b"T", usize::MAX)? {
            self.batch.remove(key);
        }
        self.check.used.save(&mut self.batch);
        (self.done)("sums and free blocks are counted anew");
        Ok(())
    }
}

/// Returns a row's key as a file name: its kind, and the rest in hexadecimal. A long key is shortened and
/// gets a checksum that distinguishes it.
fn file_name(key: &[u8]) -> String {
    const LEN_MAX: usize = 100;
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let (kind, rest) = key.split_first().map_or(('?', key), |(kind, rest)| (char::from(*kind), rest));
    match rest.get(..LEN_MAX) {
        Some(start) => format!("{kind}-{}-{:08x}", hex(start), loligo_wire::crc::crc32c_of([rest])),
        None => format!("{kind}-{}", hex(rest)),
    }
}
