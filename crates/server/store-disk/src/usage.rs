//! How much a store holds that nobody has open.

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

/// How much a store holds, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// What it can hold.
    pub capacity: u64,
    /// What is taken of that.
    pub used: u64,
    /// What its pools hold.
    pub pools: BTreeMap<PoolId, CollectionStats>,
    /// Records of the journal that are not part of these figures; none if the store was closed.
    pub unstored_records: u64,
}

/// Reads how much the store in a directory holds. Nobody else may have it open.
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

/// Whose the store in a directory is; nothing if there is none, or nobody can tell.
pub fn fsid(dir: &Path) -> Option<Uuid> {
    if !Files::has_any(dir) {
        return None;
    }
    let backend = Files::open(dir).ok()?;
    pair::whole(&backend).ok().map(|superblock| superblock.fsid)
}
