//! Writes a checkpoint of one collection: blocks to the data file, rows to a batch for the map.

use std::sync::Arc;

use bytes::Bytes;
use loligo_store::StoreError;
use smallvec::SmallVec;

use super::backend::{Batch, Buffer, Snapshot};
use super::block::{Block, Chunk, Place, patch};
use super::core::Core;
use super::cut::{CutEntry, Flushed, Grown};
use super::keys;
use super::layout::{BLOCK, Run, Runs, block_crc, push_block};
use super::omap::{self, Base, Delta};
use super::onode::{Captured, Onode};
use super::placing::write_large;
use super::rows::{self, Stored, bad, encode_chunk, encode_object, row_bytes, runs_of};
use super::space;
use super::view::{ReadError, read_blocks};

/// The maximum number of blocks written at once.
const WRITE_BLOCKS_MAX: usize = 256;
/// The number of rows read at once when a collection is removed.
const PAGE: usize = 1024;

pub(super) struct Flush<'a> {
    core: &'a Core,
    /// The references that the map will have.
    stored: &'a mut space::Stored,
    batch: &'a mut Batch,
    number: u32,
    disk: Arc<dyn Snapshot>,
    /// Blocks that objects no longer refer to. They are released when all new references have been
    /// counted.
    pub(super) lost: Runs,
    writer: &'a mut Writer,
}

/// Buffers blocks that are written to adjacent places.
#[derive(Default)]
pub(super) struct Writer {
    buffer: Buffer,
    /// The run that the buffer's blocks are written to.
    run: Option<Run>,
    /// The number of blocks in the buffer.
    filled: usize,
}

impl Writer {
    /// Writes the buffered blocks and frees the unused rest of the run.
    pub(super) fn write_out(&mut self, core: &Core) -> Result<(), StoreError> {
        let Some(run) = self.run.take() else { return Ok(()) };
        let filled = std::mem::take(&mut self.filled);
        let rest = Run { start: run.start + filled as u32, len: run.len - filled as u32 };
        if rest.len > 0 {
            core.space.free(&[rest]);
        }
        if filled > 0 {
            self.buffer.reset(filled * BLOCK);
            core.io.data.write(run.offset(), &self.buffer).map_err(failed)?;
        }
        Ok(())
    }
}

impl<'a> Flush<'a> {
    pub(super) fn new(
        core: &'a Core,
        stored: &'a mut space::Stored,
        batch: &'a mut Batch,
        number: u32,
        writer: &'a mut Writer,
    ) -> Self {
        let disk = core.io.kv().snapshot();
        Self { core, stored, batch, number, disk, lost: Runs::new(), writer }
    }

    /// Writes objects. Some blocks may remain in the writer's buffer. Also returns how much the rows have
    /// grown.
    pub(super) fn entries(&mut self, entries: Vec<CutEntry>) -> Result<(Vec<Flushed>, Grown), StoreError> {
        let mut grown = Grown::default();
        let mut flushed = Vec::with_capacity(entries.len());
        for CutEntry { name, live, stored } in entries {
            let key = keys::object(self.number, name.as_ref().as_ref());
            if let Some(old) =
                stored.as_deref().filter(|old| live.as_ref().is_none_or(|l| l.onode.number != old.number))
            {
                self.remove_object(&key, old, &mut grown)?;
            }
            let old = stored.filter(|old| live.as_ref().is_some_and(|live| live.onode.number == old.number));
            let (new, clean) = match &live {
                Some(live) => self.object(key, live, old.as_deref(), &mut grown)?,
                None => (None, Vec::new()),
            };
            let live = live.map(|live| live.onode);
            flushed.push(Flushed { name, live, stored: new.map(Arc::new), clean });
        }
        Ok((flushed, grown))
    }

    /// Writes one object. Returns its state in the map and the chunks that were dirty.
    #[expect(clippy::type_complexity, reason = "chunks with their numbers")]
    fn object(
        &mut self,
        key: Bytes,
        Captured { onode: live, dirty }: &Captured,
        old: Option<&Stored>,
        grown: &mut Grown,
    ) -> Result<(Option<Stored>, Vec<(u32, Arc<Chunk>)>), StoreError> {
        let inline = live.chunks.len() == 1;
        let mut new = Stored {
            number: live.number,
            inline,
            omap: false,
            omap_bytes: None,
            row_bytes: 0,
            chunks: SmallVec::with_capacity(live.chunks.len()),
        };
        let moved = old.is_some_and(|old| old.inline) != inline;
        let mut clean = Vec::with_capacity(dirty.len());
        let mut only = None;
        let count = live.chunks.len().max(old.map_or(0, |old| old.chunks.len()));
        for index in 0..count {
            let old_runs = old.and_then(|old| old.chunks.get(index)).map_or(&[][..], |runs| runs);
            let chunk = live.chunks.get(index).and_then(Option::as_ref);
            let (runs, written) = match chunk {
                Some(chunk) if dirty.binary_search(&(index as u32)).is_ok() => {
                    let placed = Arc::new(self.chunk(chunk)?);
                    self.exchange(old_runs, chunk, &placed)?;
                    clean.push((index as u32, Arc::clone(&placed)));
                    (runs_of(&placed), Some(placed))
                }
                Some(chunk) => (Runs::from_slice(old_runs), (moved || inline).then(|| Arc::clone(chunk))),
                None => {
                    self.lost.extend_from_slice(old_runs);
                    (Runs::new(), None)
                }
            };
            let row = keys::chunk(live.number, index as u32);
            match (written, inline) {
                (Some(chunk), true) => only = Some(chunk),
                (Some(chunk), false) if !runs.is_empty() => self.batch.set(row, encode_chunk(&chunk)),
                (Some(_), false) => self.batch.remove(row),
                (None, _) if !old_runs.is_empty() && runs.is_empty() => self.batch.remove(row),
                (None, _) => {}
            }
            if inline && old.is_some_and(|old| !old.inline) {
                self.batch.remove(keys::chunk(live.number, index as u32));
            }
            if index < live.chunks.len() {
                new.chunks.push(runs);
            }
        }
        let before = grown.omap_map_bytes();
        new.omap = self.omap(live, old.is_some_and(|old| old.omap), grown)?;
        let by = grown.omap_map_bytes() - before;
        new.omap_bytes =
            old.map_or(Some(0), |old| old.omap_bytes).map(|bytes| bytes.saturating_add_signed(by));
        let only = inline.then(|| only.unwrap_or_default());
        let row = encode_object(live, &new, only.as_deref());
        new.row_bytes = row_bytes(&key, &row);
        grown.object_rows += new.row_bytes as i64 - old.map_or(0, |old| old.row_bytes as i64);
        self.batch.set(key, row);
        Ok((Some(new), clean))
    }

    /// Writes every block of a chunk that has no place yet.
    fn chunk(&mut self, chunk: &Chunk) -> Result<Chunk, StoreError> {
        let mut clean = Chunk { blocks: Vec::with_capacity(chunk.blocks.len()), dirty: false };
        for block in &chunk.blocks {
            let placed = match block {
                Block::Hole => Block::Hole,
                Block::Disk(place) => Block::Disk(*place),
                Block::Fresh(fresh) => {
                    let place = self.write(&fresh.data, None)?;
                    self.keep(place, &fresh.data);
                    Block::Disk(place)
                }
                Block::Patched(patched) => match read_blocks(&self.core.io, &[patched.base]) {
                    Ok(mut whole) => {
                        patch(&mut whole, &patched.patches);
                        Block::Disk(self.write(&whole, None)?)
                    }
                    // The rest of the block is lost. Reads must keep reporting that: the block gets a
                    // checksum that it cannot have.
                    Err(ReadError::Checksum { .. }) => Block::Disk(self.write(&[], Some(!block_crc(&[])))?),
                    Err(e) => return Err(bad(e.to_string())),
                },
                Block::Large(large, index) => {
                    // The committer may not have written it yet.
                    write_large(self.core, large).map_err(failed)?;
                    Block::Disk(large.place(*index))
                }
            };
            clean.blocks.push(placed);
        }
        Ok(clean)
    }

    /// Places a block next to the previous one; `crc` overrides its checksum.
    fn write(&mut self, data: &[u8], crc: Option<u32>) -> Result<Place, StoreError> {
        let full = self.writer.run.is_none_or(|run| self.writer.filled == run.len as usize);
        if full {
            self.writer.write_out(self.core)?;
            let run = self.core.space.take_promised(WRITE_BLOCKS_MAX as u64);
            let run = run.ok_or_else(|| bad("no block is left of those that were promised".to_owned()))?;
            self.writer.buffer.reset(run.len as usize * BLOCK);
            self.writer.run = Some(run);
        }
        let Some(run) = self.writer.run else { unreachable!("just made") };
        let at = self.writer.filled * BLOCK;
        let place = &mut self.writer.buffer[at..at + BLOCK];
        place[..data.len()].copy_from_slice(data);
        place[data.len()..].fill(0);
        let block = run.start + self.writer.filled as u32;
        let crc = crc.unwrap_or_else(|| block_crc(data));
        self.writer.filled += 1;
        Ok(Place { block, crc })
    }

    /// Caches a copy of a block; `data` itself is a part of a journal record.
    fn keep(&mut self, place: Place, data: &[u8]) {
        if self.core.io.may_keep(1) {
            self.core.io.data_cache.put(place, Bytes::copy_from_slice(data));
        }
    }

    /// Updates the references of a row: `placed` has the new places of the blocks of `chunk`.
    fn exchange(&mut self, old: &[Run], chunk: &Chunk, placed: &Chunk) -> Result<(), StoreError> {
        let mut old_blocks: SmallVec<[u32; 4]> = old.iter().flat_map(|run| run.start..run.end()).collect();
        old_blocks.sort_unstable();
        let mut new_blocks: SmallVec<[u32; 4]> = SmallVec::with_capacity(placed.blocks.len());
        let (mut new, mut shared, mut either) = (Runs::new(), Runs::new(), Runs::new());
        for (was, is) in chunk.blocks.iter().zip(&placed.blocks) {
            let Block::Disk(place) = is else { continue };
            new_blocks.push(place.block);
            if old_blocks.binary_search(&place.block).is_ok() {
                continue;
            }
            let runs = match was {
                // It belongs, or belonged, to another object.
                Block::Disk(_) => &mut shared,
                Block::Large(large, _) if large.is_shared() => &mut either,
                _ => &mut new,
            };
            push_block(runs, place.block);
        }
        new_blocks.sort_unstable();
        for block in old_blocks.into_iter().filter(|block| new_blocks.binary_search(block).is_err()) {
            push_block(&mut self.lost, block);
        }
        new.into_iter().try_for_each(|run| self.stored.refer(run)).map_err(failed)?;
        shared.into_iter().try_for_each(|run| self.stored.refer_again(run)).map_err(failed)?;
        either.into_iter().try_for_each(|run| self.stored.refer_or_again(run)).map_err(failed)
    }

    /// Removes all rows of an object.
    fn remove_object(&mut self, key: &Bytes, old: &Stored, grown: &mut Grown) -> Result<(), StoreError> {
        for (index, runs) in old.chunks.iter().enumerate() {
            self.lost.extend_from_slice(runs);
            if !old.inline && !runs.is_empty() {
                self.batch.remove(keys::chunk(old.number, index as u32));
            }
        }
        if old.omap {
            self.remove_omap(old.number, b"", None, grown)?;
        }
        grown.object_rows -= old.row_bytes as i64;
        self.batch.remove(key.clone());
        Ok(())
    }

    /// Updates an omap's rows; returns whether the map may have rows of it afterwards.
    fn omap(&mut self, live: &Onode, stored: bool, grown: &mut Grown) -> Result<bool, StoreError> {
        let Some(delta) = live.omap.flushing.as_deref().filter(|delta| !delta.is_empty()) else {
            return Ok(stored);
        };
        let Delta { cleared, base, gone, keys: changed } = delta;
        if stored && *cleared {
            self.remove_omap(live.number, b"", None, grown)?;
        }
        for (from, until) in joined(gone).iter().filter(|_| stored && !cleared) {
            self.remove_omap(live.number, from, Some(until), grown)?;
        }
        let based = match base {
            Some(base) => self.copy_omap(base, delta, live.number, grown)?,
            None => false,
        };
        for (key, value) in changed {
            let row = keys::omap(live.number, key);
            let hidden = *cleared || gone.iter().any(|(from, until)| from <= key && key < until);
            let old = if stored && !hidden { self.disk.get(&row).map_err(failed)? } else { None };
            if let Some(old) = &old {
                grown.omap_bytes -= (key.len() + old.len()) as i64;
                grown.omap_keys -= 1;
            }
            match value {
                Some(value) => {
                    grown.omap_bytes += (key.len() + value.len()) as i64;
                    grown.omap_keys += 1;
                    self.batch.set(row, value.clone());
                }
                None => self.batch.remove(row),
            }
        }
        Ok((stored && !cleared) || based || changed.values().any(Option::is_some))
    }

    /// Writes rows of its own for a clone that has used another object's rows until now; returns whether
    /// there are any.
    fn copy_omap(
        &mut self,
        base: &Base,
        over: &Delta,
        number: u64,
        grown: &mut Grown,
    ) -> Result<bool, StoreError> {
        let mut copied = false;
        let mut from = Some(Vec::new());
        while let Some(start) = from {
            let rows = base.rows(&start).map_err(failed)?;
            from = omap::behind(&rows);
            for (key, value) in rows.into_iter().filter(|(key, _)| !over.covers(key)) {
                grown.omap_bytes += (key.len() + value.len()) as i64;
                grown.omap_keys += 1;
                self.batch.set(keys::omap(number, &key), value);
                copied = true;
            }
        }
        Ok(copied)
    }

    /// Removes a range of an omap's rows.
    fn remove_omap(
        &mut self,
        number: u64,
        from: &[u8],
        until: Option<&Bytes>,
        grown: &mut Grown,
    ) -> Result<(), StoreError> {
        let until = until.map_or_else(|| keys::omap(number + 1, b""), |until| keys::omap(number, until));
        let mut start = keys::omap(number, from);
        loop {
            let rows = self.disk.range(&start, &until, PAGE).map_err(failed)?;
            let full = rows.len() == PAGE;
            for (key, value) in rows {
                grown.omap_bytes -= (key.len() - keys::OMAP_PREFIX_LEN + value.len()) as i64;
                grown.omap_keys -= 1;
                start = [&key[..], &[0]].concat().into();
                self.batch.remove(key);
            }
            if !full {
                return Ok(());
            }
        }
    }

    /// Removes all rows of the collection from the map.
    pub(super) fn remove_all(&mut self) -> Result<(), StoreError> {
        let until = keys::objects(self.number + 1);
        let mut start = keys::objects(self.number);
        loop {
            let rows = self.disk.range(&start, &until, PAGE).map_err(failed)?;
            let full = rows.len() == PAGE;
            for (key, _) in rows {
                let name = keys::object_name(&key).ok_or_else(|| bad(format!("an object's key: {key:?}")))?;
                if let Some((_, stored)) = rows::load(&*self.disk, self.number, name.as_ref())? {
                    self.remove_object(&key, &stored, &mut Grown::default())?;
                }
                start = [&key[..], &[0]].concat().into();
            }
            if !full {
                break;
            }
        }
        let (from, until) = (keys::records(self.number, 0), keys::records(self.number, u64::MAX));
        for (key, _) in self.disk.range(&from, &until, usize::MAX).map_err(failed)? {
            self.batch.remove(key);
        }
        Ok(())
    }
}

/// Returns the same ranges without overlaps.
fn joined(ranges: &[(Bytes, Bytes)]) -> Vec<(Bytes, Bytes)> {
    let mut sorted = ranges.to_vec();
    sorted.sort_unstable();
    let mut joined: Vec<(Bytes, Bytes)> = Vec::new();
    for (from, until) in sorted {
        match joined.last_mut() {
            Some((_, end)) if *end >= from => *end = until.max(end.clone()),
            _ => joined.push((from, until)),
        }
    }
    joined
}

fn failed(e: std::io::Error) -> StoreError {
    bad(e.to_string())
}
