//! An image's data objects.

use std::collections::BTreeMap;

use bytes::Bytes;
use loligo_wire::{Errno, Reader, SnapId};

use super::Answer;
use crate::handle::Handle;

/// Ranges in one call: four times the number of 4 KiB blocks of the largest data object.
const EXTENTS_MAX: usize = 32 << 10;

/// Maximum number of ranges left in an object; beyond it smaller holes are stored as zeros.
const RUNS_MAX: usize = EXTENTS_MAX;

/// Writes the parent's data, unless the clone's object already exists.
pub(super) fn copyup(object: &mut Handle<'_>, input: &[u8]) -> Answer {
    if !object.exists()? {
        object.write(0, Bytes::copy_from_slice(input))?;
    }
    Ok(Bytes::new())
}

/// As `copyup`, with a list of ranges.
pub(super) fn sparse_copyup(object: &mut Handle<'_>, input: &[u8]) -> Answer {
    let mut r = Reader::new(input);
    let (extents, data): (BTreeMap<u64, u64>, Bytes) = (r.get()?, r.get()?);
    if extents.len() > EXTENTS_MAX {
        return Err(Errno::EINVAL);
    }
    if object.exists()? {
        return Ok(Bytes::new());
    }
    if extents.is_empty() {
        object.create(true)?;
    }
    let mut rest = data;
    for (offset, len) in extents {
        let len = usize::try_from(len).ok().filter(|len| *len <= rest.len()).ok_or(Errno::EINVAL)?;
        object.write(offset, rest.split_to(len))?;
    }
    Ok(Bytes::new())
}

/// Releases the space of blocks of zeros.
pub(super) fn sparsify(object: &mut Handle<'_>, input: &[u8]) -> Answer {
    let (block, remove_empty): (u64, bool) = Reader::new(input).get()?;
    object.must_exist()?;
    // With a block size of 0 a stock OSD hangs and serves no client any more.
    if block == 0 {
        return Err(Errno::EINVAL);
    }
    let mut block = usize::try_from(block).map_err(|_| Errno::EINVAL)?;
    let data = object.read(0, 0)?;
    let runs = loop {
        match runs(&data, block) {
            Some(runs) => break runs,
            None => block = block.saturating_mul(2),
        }
    };
    if runs.is_empty() {
        if remove_empty {
            object.remove()?;
        } else if !data.is_empty() {
            object.write_full(Bytes::new())?;
        }
        return Ok(Bytes::new());
    }
    if runs == [(0, data.len())] {
        return Ok(Bytes::new());
    }
    object.write_full(Bytes::new())?;
    for (from, to) in runs {
        object.write(from as u64, data.slice(from..to))?;
    }
    Ok(Bytes::new())
}

/// The start and end of each run of blocks that are not all zeros; `None` if there are too many.
fn runs(data: &[u8], block: usize) -> Option<Vec<(usize, usize)>> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    let mut from = 0;
    for block in data.chunks(block) {
        let to = from + block.len();
        if block.iter().any(|byte| *byte != 0) {
            let count = runs.len();
            match runs.last_mut() {
                Some((_, end)) if *end == from => *end = to,
                _ if count == RUNS_MAX => return None,
                _ => runs.push((from, to)),
            }
        }
        from = to;
    }
    Some(runs)
}

/// Compares a writer's snapshot sequence with the object's newest known snapshot. Succeeds if it is
/// newer (`wanted` is 0) or not newer (1), otherwise ERANGE.
pub(super) fn assert_snapc_seq(object: &mut Handle<'_>, input: &[u8]) -> Answer {
    let (seq, wanted): (u64, u8) = Reader::new(input).get()?;
    let known: Option<SnapId> = object.snap_seq();
    let newer = known.is_none_or(|known| seq > known.0);
    match wanted {
        0 if newer => Ok(Bytes::new()),
        1 if !newer => Ok(Bytes::new()),
        0 | 1 => Err(Errno::ERANGE),
        _ => Err(Errno::EOPNOTSUPP),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_those_of_blocks_with_something_in_them() {
        assert_eq!(runs(&[0, 0, 1, 0, 0, 2, 0, 0, 3], 2), Some(vec![(2, 6), (8, 9)]));
        assert_eq!(runs(&[1, 1], 4), Some(vec![(0, 2)]));
        assert_eq!(runs(&[0; 7], 4), Some(vec![]));
        assert_eq!(runs(&[], 4), Some(vec![]));
        assert_eq!(runs(&[0, 1].repeat(RUNS_MAX), 1).map(|runs| runs.len()), Some(RUNS_MAX));
        assert_eq!(runs(&[0, 1].repeat(RUNS_MAX + 1), 1), None);
    }
}
