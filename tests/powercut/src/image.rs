//! The content of a file and its changes.

use std::collections::BTreeMap;
use std::sync::Arc;

use fastrand::Rng;

/// The unit in which changes survive or are lost.
pub(crate) const PAGE_BYTES: u64 = 4096;
/// The unit that a disk writes atomically.
const SECTOR_BYTES: usize = 512;

type Page = Arc<[u8; PAGE_BYTES as usize]>;

/// The content of a file. Missing pages read as zeros.
#[derive(Clone, Debug, Default)]
pub(crate) struct Image {
    pages: BTreeMap<u64, Page>,
    len: u64,
}

/// A change of a file that is not durable yet.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    /// Data within one page.
    Write {
        page: u64,
        offset: usize,
        data: Arc<[u8]>,
    },
    Zero {
        from: u64,
        to: u64,
    },
    SetLen(u64),
}

impl Image {
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    pub(crate) fn pages(&self) -> u64 {
        self.pages.len() as u64
    }

    /// Returns up to `len` bytes from `from` on; fewer at the end of the file.
    pub(crate) fn read(&self, from: u64, len: usize) -> Vec<u8> {
        let to = from.saturating_add(len as u64).min(self.len);
        let mut bytes = Vec::with_capacity(to.saturating_sub(from) as usize);
        let mut at = from;
        while at < to {
            let (page, offset) = (at / PAGE_BYTES, at % PAGE_BYTES);
            let end = to.min((page + 1) * PAGE_BYTES);
            match self.pages.get(&page) {
                Some(page) => bytes.extend_from_slice(&page[offset as usize..(offset + end - at) as usize]),
                None => bytes.resize(bytes.len() + (end - at) as usize, 0),
            }
            at = end;
        }
        bytes
    }

    pub(crate) fn apply(&mut self, change: &Change) {
        match change {
            Change::Write { page, offset, data } => {
                self.page(*page)[*offset..*offset + data.len()].copy_from_slice(data);
                self.len = self.len.max(page * PAGE_BYTES + (*offset + data.len()) as u64);
            }
            Change::Zero { from, to } => self.zero(*from, *to),
            Change::SetLen(len) => {
                if *len < self.len {
                    self.zero(*len, self.len);
                }
                self.len = *len;
            }
        }
    }

    /// Applies a random part of the sectors of a write; applies any other change as a whole.
    pub(crate) fn apply_torn(&mut self, change: &Change, rng: &mut Rng) {
        let Change::Write { page, offset, data } = change else {
            return self.apply(change);
        };
        let mut at = 0;
        while at < data.len() {
            let end = data.len().min(at + SECTOR_BYTES - (offset + at) % SECTOR_BYTES);
            if rng.bool() {
                self.apply(&Change::Write { page: *page, offset: offset + at, data: data[at..end].into() });
            }
            at = end;
        }
    }

    fn page(&mut self, page: u64) -> &mut [u8; PAGE_BYTES as usize] {
        Arc::make_mut(self.pages.entry(page).or_insert_with(|| Arc::new([0; PAGE_BYTES as usize])))
    }

    fn zero(&mut self, from: u64, to: u64) {
        let mut at = from;
        while at < to {
            let page = at / PAGE_BYTES;
            let end = to.min((page + 1) * PAGE_BYTES);
            if end - at == PAGE_BYTES {
                // Removes all whole pages at once, since allocated and truncated files are large.
                let whole = to / PAGE_BYTES;
                let kept = self.pages.split_off(&whole);
                drop(self.pages.split_off(&page));
                self.pages.extend(kept);
                at = whole * PAGE_BYTES;
                continue;
            }
            if let Some(bytes) = self.pages.get_mut(&page) {
                Arc::make_mut(bytes)[(at % PAGE_BYTES) as usize..][..(end - at) as usize].fill(0);
            }
            at = end;
        }
    }
}

/// Splits a write into changes of single pages.
pub(crate) fn writes(from: u64, data: &[u8]) -> impl Iterator<Item = Change> {
    let first = (PAGE_BYTES - from % PAGE_BYTES).min(data.len() as u64) as usize;
    let (head, rest) = data.split_at(first);
    let rest_from = from + first as u64;
    let head = (!head.is_empty()).then(|| write(from, head));
    head.into_iter().chain(
        rest.chunks(PAGE_BYTES as usize)
            .enumerate()
            .map(move |(i, piece)| write(rest_from + i as u64 * PAGE_BYTES, piece)),
    )
}

fn write(from: u64, piece: &[u8]) -> Change {
    Change::Write { page: from / PAGE_BYTES, offset: (from % PAGE_BYTES) as usize, data: piece.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_holds_what_a_vector_does() {
        let mut rng = Rng::with_seed(1);
        let (mut image, mut model) = (Image::default(), Vec::<u8>::new());
        for _ in 0..3000 {
            let from = rng.usize(..40_000);
            match rng.u8(..4) {
                0 => {
                    let to = from + rng.usize(..20_000);
                    image.apply(&Change::Zero { from: from as u64, to: to as u64 });
                    let end = to.min(model.len());
                    model[from.min(end)..end].fill(0);
                }
                1 => {
                    image.apply(&Change::SetLen(from as u64));
                    model.resize(from, 0);
                }
                _ => {
                    let data: Vec<u8> = (0..rng.usize(1..9000)).map(|_| rng.u8(..)).collect();
                    writes(from as u64, &data).for_each(|change| image.apply(&change));
                    model.resize(model.len().max(from + data.len()), 0);
                    model[from..from + data.len()].copy_from_slice(&data);
                }
            }
            assert_eq!(image.len(), model.len() as u64);
            let at = rng.usize(..50_000);
            let len = rng.usize(..10_000);
            let end = (at + len).min(model.len());
            assert_eq!(image.read(at as u64, len), model[at.min(end)..end]);
        }
    }
}
