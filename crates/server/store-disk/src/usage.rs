//! The usage of a store that is not open.

use std::collections::BTreeMap;
use std::path::Path;

use loligo_store::CollectionStats;
use loligo_wire::{PoolId, Reader, Uuid};

use super::backend::Backend;
use super::backend::files::Files;
use super::config::{OpenError, open_error};
use super::journal::Journal;
use super::keys;
use super::layout::{BLOCK, VERSION_MARKED};
use super::pair;
use super::rows::{CollectionRow, StoreRow};

/// The usage of a store, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// The capacity.
    pub capacity: u64,
    /// The part of the capacity in use.
    pub used: u64,
    /// The contents of its pools.
    pub pools: BTreeMap<PoolId, CollectionStats>,
    /// Records of the journal that these figures do not include; 0 if the store was closed.
    pub unstored_records: u64,
}

/// Reads the usage of the store in a directory. The store must not be open elsewhere.
pub fn usage(dir: &Path) -> Result<Usage, OpenError> {
    if !Files::has_any(dir) {
        return Err(pair::no_store());
    }
    usage_on(&Files::open(dir).map_err(open_error)?)
}

pub(super) fn usage_on(backend: &dyn Backend) -> Result<Usage, OpenError> {
    let superblock = pair::whole(backend)?;
    let missing = pair::missing(backend)?;
    if superblock.version >= VERSION_MARKED && !missing.is_empty() {
        return Err(pair::refuse_all(&missing));
    }
    let disk = backend.kv()?.snapshot();
    let mut usage = Usage { capacity: superblock.blocks * BLOCK as u64, ..Usage::default() };
    for (_, row) in disk.range(b"S", b"T", usize::MAX)? {
        let blocks: u64 = row.iter().map(|byte| u64::from(byte.count_ones())).sum();
        usage.used = usage.capacity.min(usage.used + blocks * BLOCK as u64);
    }
    for (key, row) in disk.range(b"C", b"D", usize::MAX)? {
        let row = CollectionRow::decode(&row)?;
        let pool = PoolId(Reader::new(&key[1..]).array().map(i64::from_be_bytes)?);
        if row.number != 0 {
            *usage.pools.entry(pool).or_default() += row.stats;
        }
    }
    let tail = disk.get(keys::STORE)?.map(|row| StoreRow::decode(&row)).transpose()?;
    let tail = tail.map_or(0, |row| row.journal_tail);
    let mut journal = Journal::new(backend.open("journal")?, superblock.salt, superblock.journal_len, tail)?;
    while let Some(records) = journal.read()? {
        usage.unstored_records += records.len() as u64;
    }
    Ok(usage)
}

/// Returns the id of the cluster that the store in a directory belongs to; `None` if there is no store or
/// its superblocks cannot be read.
pub fn fsid(dir: &Path) -> Option<Uuid> {
    if !Files::has_any(dir) {
        return None;
    }
    let backend = Files::open(dir).ok()?;
    pair::whole(&backend).ok().map(|superblock| superblock.fsid)
}
