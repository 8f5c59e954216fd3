//! Entry point for fuzzing. A corpus file is one record of the journal, one value or key of the map, a
//! superblock with its limit, or the beginning of a journal, as a store on disk wrote it; each is read as all
//! of them.

/// Reads bytes as everything that a store keeps on disk. What can be read must be the same when it is written
/// and read again. As how many kinds of it they make sense.
pub fn store(data: &[u8]) -> usize {
    crate::disk::fuzz::read(data)
}
