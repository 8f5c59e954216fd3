//! Creates a store, or upgrades one to the newest format.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;

use loligo_wire::Uuid;

use super::backend::{ALIGN, Backend, Batch, Kv};
use super::config::{DiskConfig, OpenError};
use super::journal::Journal;
use super::keys;
use super::layout::{BLOCK, Superblock, VERSION, VERSION_MARKED};
use super::notes::{CHECKPOINT, LIMIT, Notes, SUPER};
use super::pair::{self, Found};
use super::rows::{StoreMark, StoreRow};

/// The part of the free space, as a divisor, that is left to the map, the file system's journal and other
/// users.
const SPARE_PART: u64 = 8;

/// Reads the superblock and checks that the other files belong to it. Creates a store if there is none and
/// nothing indicates one.
pub(super) fn find_or_make(
    backend: &dyn Backend,
    config: DiskConfig,
) -> Result<(Superblock, Arc<dyn Kv>), OpenError> {
    match pair::find(backend)? {
        Found::Wrong(wrong) => Err(pair::refuse(&wrong.what)),
        Found::Store(superblock) => open(backend, superblock, config),
        Found::Nothing | Found::Making if config.store.is_some() => Err(OpenError::Damaged(
            "its files are lost; put them back, or remove all of the server's directory to begin anew without the data"
                .to_owned(),
        )),
        found => {
            if found == Found::Nothing {
                pair::may_be_made(backend)?;
            }
            make(backend, config)
        }
    }
}

fn open(
    backend: &dyn Backend,
    superblock: Superblock,
    config: DiskConfig,
) -> Result<(Superblock, Arc<dyn Kv>), OpenError> {
    if superblock.fsid != config.fsid {
        return Err(OpenError::Foreign { found: superblock.fsid, expected: config.fsid });
    }
    if config.store.is_some_and(|store| store != superblock.salt) {
        return Err(OpenError::Damaged(
            "it is another store than the one that this server had; put that one back".to_owned(),
        ));
    }
    let is_marked = superblock.version >= VERSION_MARKED;
    let missing = pair::missing(backend)?;
    if is_marked && !missing.is_empty() {
        return Err(pair::refuse_all(&missing));
    }
    let kv =
        backend.kv().map_err(|e| OpenError::Damaged(format!("the map in `kv` cannot be opened: {e}")))?;
    let faults = pair::faults(backend, &superblock, &*kv.snapshot())?;
    if !faults.is_empty() {
        return Err(pair::refuse_all(&faults));
    }
    if superblock.version < VERSION {
        return Ok((upgrade(backend, superblock, &*kv)?, kv));
    }
    pair::complete(backend, &superblock)?;
    Ok((superblock, kv))
}

/// Marks the files of an older store. An older program can open it until the last write of this function.
fn upgrade(backend: &dyn Backend, old: Superblock, kv: &dyn Kv) -> Result<Superblock, OpenError> {
    let superblock = Superblock { version: VERSION, ready: true, ..old };
    let row = kv.snapshot().get(keys::STORE)?;
    let row = row.map_or(Ok(StoreRow::empty(old.fsid)), |row| StoreRow::decode(&row))?;
    if row.fsid != old.fsid {
        return Err(OpenError::Damaged("the map in `kv` belongs to another cluster".to_owned()));
    }
    let mut journal = Journal::new(backend.open("journal")?, old.salt, old.journal_len, 0)?;
    if row.journal_tail > 0 && !journal.is_ours()? {
        return Err(pair::refuse("`journal` is not that of this store: it was emptied or exchanged"));
    }
    let checkpoint = row.mark.map_or(0, |mark| mark.checkpoint);
    put_row(kv, row, &superblock, checkpoint)?;
    pair::mark(backend, &superblock, row.journal_tail)?;
    let limit = LIMIT.newest(backend, old.salt)?;
    superblock.store(&*backend.open(SUPER[1])?)?;
    if let Some(limit) = limit {
        Notes::open(backend, old.salt)?.store(LIMIT, limit)?;
    }
    pair::store(backend, &superblock)?;
    Ok(superblock)
}

fn put_row(kv: &dyn Kv, row: StoreRow, superblock: &Superblock, checkpoint: u64) -> Result<(), OpenError> {
    let Superblock { salt, journal_len, blocks, .. } = *superblock;
    let row = StoreRow { mark: Some(StoreMark { salt, journal_len, blocks, checkpoint }), ..row };
    let mut batch = Batch::default();
    batch.set(keys::STORE, row.encode());
    Ok(kv.commit(batch)?)
}

fn make(backend: &dyn Backend, config: DiskConfig) -> Result<(Superblock, Arc<dyn Kv>), OpenError> {
    let free = backend.free_bytes()?.saturating_sub(config.journal_bytes);
    let capacity = config.capacity.unwrap_or(free - free / SPARE_PART);
    let random = || RandomState::new().hash_one(0u8).to_le_bytes();
    let mut salt = [0; 16];
    salt[..8].copy_from_slice(&random());
    salt[8..].copy_from_slice(&random());
    let making = Superblock {
        version: VERSION,
        fsid: config.fsid,
        salt: Uuid(salt),
        journal_len: config.journal_bytes.next_multiple_of(ALIGN as u64),
        blocks: (capacity / BLOCK as u64).min(u64::from(u32::MAX)),
        ready: false,
    };
    for name in SUPER {
        let file = backend.open(name)?;
        // Remove the remains of a store whose creation was interrupted.
        file.set_len(0)?;
        making.store(&*file)?;
    }
    let journal = backend.open("journal")?;
    // The file grows as it is written (`ahead`); the space is reserved now.
    journal.set_len(0)?;
    journal.reserve(making.journal_len)?;
    journal.sync()?;
    backend.open("data")?.set_len(0)?;
    pair::mark(backend, &making, 0)?;
    let kv = backend.kv()?;
    put_row(&*kv, StoreRow::empty(config.fsid), &making, 0)?;
    Notes::open(backend, making.salt)?.store(CHECKPOINT, 0)?;
    let superblock = Superblock { ready: true, ..making };
    pair::store(backend, &superblock)?;
    Ok((superblock, kv))
}
