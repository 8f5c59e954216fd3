//! The superblock and its copy, and whether the other files belong to them.
//!
//! Without a superblock nothing else can be read, and a store that seems to have none would be created
//! again. There are therefore two, and no store is created where any trace of data exists. Each file names
//! its store: the journal by the salt of the group at its start, the data file by a mark after its last
//! block, the map by its row of the store.
//!
//! The order of writing distinguishes the state after a crash from a loss. Creating a store writes: both
//! superblocks ("being made"), the other files with their marks, the copy ("ready"), the superblock.
//! Upgrading a store from an older format writes: the marks, the copy, the superblock.

use std::io;

use loligo_wire::crc::crc32c_of;
use loligo_wire::{Reader, Uuid, Writer};

use super::backend::{ALIGN, Backend, BackendFile, Buffer, Snapshot};
use super::config::OpenError;
use super::journal::Journal;
use super::keys;
use super::layout::{Superblock, VERSION_MARKED};
use super::notes::{CHECKPOINT, LIMIT, Notes, SUPER, SUPER_LEN};
use super::rows::{StoreMark, StoreRow};

/// Advice for a file with a fault.
const REPAIR: &str = "`loligo fsck DIR --repair` mends what can be mended; DIR is the server's directory";
/// Advice if nothing can be repaired.
const PUT_BACK: &str =
    "put back what belongs there, or remove all of the directory to begin anew without the data";
const DATA_MAGIC: u32 = 0x4447_4f4c; // "LOGD"
/// The length of the checksummed part: magic, the store's salt. The checksum follows.
const DATA_SUMMED: usize = 20;

/// One of the two copies as it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Copy {
    /// No file, or an empty one.
    Lost,
    Damaged(String),
    Good(Superblock),
}

impl Copy {
    fn load(backend: &dyn Backend, name: &'static str) -> io::Result<Self> {
        match Superblock::load(&*backend.open(name)?) {
            Ok(None) => Ok(Self::Lost),
            Ok(Some(found)) => Ok(Self::Good(found)),
            Err(e) if e.kind() == io::ErrorKind::InvalidData => Ok(Self::Damaged(e.to_string())),
            Err(e) => Err(e),
        }
    }

    fn good(&self) -> Option<Superblock> {
        if let Self::Good(found) = self { Some(*found) } else { None }
    }

    /// Returns what is wrong with it.
    fn fault(&self, name: &str) -> Option<String> {
        match self {
            Self::Lost => Some(format!("`{name}` is lost or empty")),
            Self::Damaged(what) => Some(format!("`{name}` cannot be read ({what})")),
            Self::Good(_) => None,
        }
    }
}

/// The result of reading both copies.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// There are none.
    Nothing,
    /// The creation of a store was interrupted; it never held data.
    Making,
    /// A store, of this format or an older one.
    Store(Superblock),
    /// One or both of them are wrong.
    Wrong(Wrong),
}

/// The fault of the superblocks.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Wrong {
    /// A description, for people.
    pub(super) what: String,
    /// The intact copy, if there is one.
    pub(super) whole: Option<Superblock>,
}

/// Reads both copies.
pub(super) fn find(backend: &dyn Backend) -> io::Result<Found> {
    let copies = [Copy::load(backend, SUPER[0])?, Copy::load(backend, SUPER[1])?];
    Ok(judge(&copies))
}

fn judge(copies: &[Copy; 2]) -> Found {
    let wrong = |what: String, whole| Found::Wrong(Wrong { what, whole });
    match copies {
        [Copy::Lost, Copy::Lost] => Found::Nothing,
        // Perhaps of two stores whose creation was interrupted.
        [Copy::Good(a), Copy::Good(b)] if !a.ready && !b.ready => Found::Making,
        // A store from before there were two copies, also during its upgrade.
        [Copy::Good(old), Copy::Lost] if old.version < VERSION_MARKED => Found::Store(*old),
        [Copy::Good(a), Copy::Good(b)] if a.salt != b.salt || a.fsid != b.fsid => {
            let [a, b] = [a.fsid, b.fsid];
            let [first, second] = SUPER;
            wrong(
                format!(
                    "`{first}` (of the cluster {a}) and `{second}` (of {b}) are not of the same store: one of them was exchanged"
                ),
                None,
            )
        }
        [Copy::Good(a), Copy::Good(b)] if a.version < VERSION_MARKED || b.ready => {
            Found::Store(if a.version < VERSION_MARKED { *a } else { *b })
        }
        // The copy is marked as ready first.
        [Copy::Good(a), Copy::Good(_)] => Found::Store(*a),
        [Copy::Good(one), Copy::Lost] | [Copy::Lost, Copy::Good(one)] if !one.ready => Found::Making,
        _ => {
            let faults: Vec<_> =
                copies.iter().zip(SUPER).filter_map(|(copy, name)| copy.fault(name)).collect();
            wrong(faults.join("; "), copies.iter().find_map(Copy::good))
        }
    }
}

/// The error for a store with a fault.
pub(super) fn refuse(what: &str) -> OpenError {
    OpenError::Damaged(format!("{what}; {REPAIR}"))
}

/// Called if there is no superblock: checks whether a store may be created. It may not if anything exists
/// that a store could have written.
pub(super) fn may_be_made(backend: &dyn Backend) -> Result<(), OpenError> {
    let mut traces = traces(backend)?;
    // They contain only zeros.
    traces.retain(|name| !SUPER.contains(&name.as_str()));
    if traces.is_empty() {
        return Ok(());
    }
    let [first, second] = SUPER;
    let files = traces.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    Err(refuse(&format!("`{first}` and `{second}` are lost or empty, but there are data: {files}")))
}

/// Returns the store's files that exist and are not empty.
pub(super) fn traces(backend: &dyn Backend) -> io::Result<Vec<String>> {
    let ours =
        |name: &String| SUPER.contains(&name.as_str()) || matches!(name.as_str(), "journal" | "data" | "kv");
    Ok(backend.traces()?.into_iter().filter(ours).collect())
}

/// Writes both superblocks, the authoritative one last.
pub(super) fn store(backend: &dyn Backend, superblock: &Superblock) -> io::Result<()> {
    [SUPER[1], SUPER[0]].iter().try_for_each(|name| superblock.store(&*backend.open(name)?))
}

/// Writes what a crash prevented from being written: before a store is used, both copies are marked as ready.
pub(super) fn complete(backend: &dyn Backend, superblock: &Superblock) -> io::Result<()> {
    for name in [SUPER[1], SUPER[0]] {
        if Copy::load(backend, name)? != Copy::Good(*superblock) {
            superblock.store(&*backend.open(name)?)?;
        }
    }
    Ok(())
}

/// Returns the superblock for read-only access to a store: one copy is enough.
pub(super) fn whole(backend: &dyn Backend) -> Result<Superblock, OpenError> {
    match find(backend)? {
        Found::Store(superblock) => Ok(superblock),
        Found::Wrong(Wrong { whole: Some(superblock), .. }) => Ok(superblock),
        Found::Wrong(wrong) => Err(refuse(&wrong.what)),
        Found::Nothing => {
            may_be_made(backend)?;
            Err(no_store())
        }
        Found::Making => Err(no_store()),
    }
}

pub(super) fn no_store() -> OpenError {
    OpenError::Damaged("there is no store".to_owned())
}

/// Marks the files of a store that is being created or upgraded.
pub(super) fn mark(backend: &dyn Backend, superblock: &Superblock, tail: u64) -> io::Result<()> {
    let file = backend.open("journal")?;
    let mut journal = Journal::new(file, superblock.salt, superblock.journal_len, 0)?;
    if tail == 0 && !journal.is_ours()? {
        // The journal is empty. A group without records makes it begin with a group of this store.
        journal.write(std::iter::empty())?;
    }
    mark_data(backend, superblock)
}

fn mark_data(backend: &dyn Backend, superblock: &Superblock) -> io::Result<()> {
    let mut w = Writer::with_capacity(DATA_SUMMED + 4);
    w.u32(DATA_MAGIC);
    w.raw(&superblock.salt.0);
    let crc = crc32c_of([w.as_slice()]);
    w.u32(crc);
    let mut buffer = Buffer::zeroed(ALIGN);
    buffer[..DATA_SUMMED + 4].copy_from_slice(w.as_slice());
    let data = backend.open("data")?;
    data.set_len(superblock.data_len())?;
    data.write(superblock.data_len() - ALIGN as u64, &buffer)?;
    data.sync()
}

/// Returns the store that the data file belongs to; `None` if it has no mark.
fn owner_of_data(data: &dyn BackendFile, superblock: &Superblock) -> io::Result<Option<Uuid>> {
    let mut buffer = Buffer::zeroed(ALIGN);
    data.read(superblock.data_len() - ALIGN as u64, &mut buffer)?;
    let mut r = Reader::new(&buffer);
    let (Ok(magic), Ok(salt), Ok(crc)) = (r.u32(), r.array(), r.u32()) else { return Ok(None) };
    let is_mark = magic == DATA_MAGIC && crc == crc32c_of([&buffer[..DATA_SUMMED]]);
    Ok(is_mark.then_some(Uuid(salt)))
}

/// One of the other files, with a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Journal,
    /// The end of the data file, or all of it.
    Data,
    /// The data file of another store, which cannot be used.
    OtherData,
    Map,
}

/// The faulty file and a description of the fault.
pub(super) type Fault = (Part, String);

/// Returns which of the other files are missing, before any is opened: opening one would create it.
pub(super) fn missing(backend: &dyn Backend) -> io::Result<Vec<Fault>> {
    let traces = traces(backend)?;
    let lost = [(Part::Journal, "journal"), (Part::Data, "data"), (Part::Map, "kv")];
    let lost = lost.into_iter().filter(|(_, name)| !traces.iter().any(|there| there == name));
    Ok(lost.map(|(part, name)| (part, format!("`{name}` is lost or empty"))).collect())
}

/// Returns which of them are truncated, or belong to another store.
pub(super) fn faults(
    backend: &dyn Backend,
    superblock: &Superblock,
    map: &dyn Snapshot,
) -> Result<Vec<Fault>, OpenError> {
    let mut faults = Vec::new();
    faults.extend(journal_fault(backend, superblock)?.map(|what| (Part::Journal, what)));
    faults.extend(data_fault(backend, superblock)?);
    faults.extend(map_fault(backend, superblock, map)?.map(|what| (Part::Map, what)));
    Ok(faults)
}

fn journal_fault(backend: &dyn Backend, superblock: &Superblock) -> io::Result<Option<String>> {
    let file = backend.open("journal")?;
    let len = file.len()?;
    let mut journal = Journal::new(file, superblock.salt, superblock.journal_len, 0)?;
    if superblock.version >= VERSION_MARKED && !journal.is_ours()? {
        return Ok(Some("`journal` is not that of this store: it was emptied or exchanged".to_owned()));
    }
    let limit = LIMIT.newest(backend, superblock.salt)?;
    Ok(limit.filter(|limit| !journal.reaches(*limit)).map(|limit| {
        let min = limit.min(superblock.journal_len);
        format!("`journal` was cut: it has {len} bytes, and should have {min} at least")
    }))
}

fn data_fault(backend: &dyn Backend, superblock: &Superblock) -> io::Result<Option<Fault>> {
    let data = backend.open("data")?;
    let (len, min) = (data.len()?, superblock.data_len());
    if len < min {
        let what = format!("`data` was cut or exchanged: it has {len} bytes, and should have {min}");
        return Ok(Some((Part::Data, what)));
    }
    if superblock.version < VERSION_MARKED {
        return Ok(None);
    }
    Ok(match owner_of_data(&*data, superblock)? {
        Some(salt) if salt == superblock.salt => None,
        Some(_) => Some((Part::OtherData, "`data` is that of another store".to_owned())),
        None => Some((Part::Data, "`data` does not end as it should: it was cut or exchanged".to_owned())),
    })
}

fn map_fault(
    backend: &dyn Backend,
    superblock: &Superblock,
    map: &dyn Snapshot,
) -> Result<Option<String>, OpenError> {
    if superblock.version < VERSION_MARKED {
        return Ok(None);
    }
    let row = match map.get(keys::STORE) {
        Ok(row) => row.map(|row| StoreRow::decode(&row)).transpose()?,
        Err(e) => return Ok(Some(format!("the map in `kv` cannot be read: {e}"))),
    };
    let Some(mark) = row.and_then(|row| row.mark) else {
        return Ok(Some("the map in `kv` has lost its row of the store: files of it are gone".to_owned()));
    };
    if mark.salt != superblock.salt {
        return Ok(Some("the map in `kv` is that of another store".to_owned()));
    }
    let noted = CHECKPOINT.newest(backend, superblock.salt)?.unwrap_or(0);
    Ok((mark.checkpoint < noted).then(|| {
        format!(
            "the map in `kv` is older than the store: it has {} checkpoints of {noted}; files of it are cut or gone",
            mark.checkpoint
        )
    }))
}

/// Joins all faults into one error, with advice.
pub(super) fn refuse_all(faults: &[Fault]) -> OpenError {
    let what = faults.iter().map(|(_, what)| what.as_str()).collect::<Vec<_>>().join("; ");
    match faults.iter().any(|(part, _)| matches!(part, Part::Map | Part::OtherData)) {
        true => OpenError::Damaged(format!("{what}; {PUT_BACK}")),
        false => refuse(&what),
    }
}

/// Restores a superblock from the other one, or both from the map. The old contents are passed to `keep`
/// first.
pub(super) fn mend(
    backend: &dyn Backend,
    row: Option<StoreRow>,
    keep: &mut dyn FnMut(&str, &[u8]) -> io::Result<()>,
    done: &mut dyn FnMut(&str),
) -> Result<Option<Superblock>, OpenError> {
    let copies = [Copy::load(backend, SUPER[0])?, Copy::load(backend, SUPER[1])?];
    let mark = row.and_then(|row| row.mark);
    let good: Vec<Superblock> = copies.iter().filter_map(Copy::good).collect();
    let ours = |found: &&Superblock| good.len() == 1 || mark.is_some_and(|mark| mark.salt == found.salt);
    let (superblock, from) = match good.iter().find(ours) {
        Some(found) => (*found, "the other copy"),
        None => match row.zip(mark) {
            Some((row, mark)) => (of_map(row, mark), "the map"),
            None => return Ok(None),
        },
    };
    let limit = LIMIT.newest(backend, superblock.salt)?;
    let checkpoint = CHECKPOINT.newest(backend, superblock.salt)?;
    for (copy, name) in copies.iter().zip(SUPER).rev() {
        if *copy == Copy::Good(superblock) {
            continue;
        }
        let file = backend.open(name)?;
        let len = file.len()?.min(SUPER_LEN) / ALIGN as u64 * ALIGN as u64;
        if len > 0 {
            let mut old = Buffer::zeroed(len as usize);
            file.read(0, &mut old)?;
            keep(name, &old)?;
        }
        file.set_len(0)?;
        superblock.store(&*file)?;
        done(&format!("`{name}` is written again, from {from}"));
    }
    let notes = Notes::open(backend, superblock.salt)?;
    if let Some(limit) = limit {
        notes.store(LIMIT, limit)?;
    }
    notes.store(CHECKPOINT, checkpoint.unwrap_or(0).max(mark.map_or(0, |mark| mark.checkpoint)))?;
    Ok(Some(superblock))
}

fn of_map(row: StoreRow, mark: StoreMark) -> Superblock {
    Superblock {
        version: VERSION_MARKED,
        fsid: row.fsid,
        salt: mark.salt,
        journal_len: mark.journal_len,
        blocks: mark.blocks,
        ready: true,
    }
}

/// Changes the journal and the data file so that the store can be opened. Lost contents stay lost and are
/// reported.
pub(super) fn mend_files(
    backend: &dyn Backend,
    superblock: &Superblock,
    faults: &[Fault],
    keep: &mut dyn FnMut(&str, &[u8]) -> io::Result<()>,
    done: &mut dyn FnMut(&str),
) -> Result<(), OpenError> {
    let has = |part| faults.iter().any(|(of, _)| *of == part);
    if has(Part::Journal) {
        mend_journal(backend, superblock, keep)?;
        done(
            "the journal is in order again; records that it had lost are lost: what was written since the last checkpoint",
        );
    }
    if has(Part::Data) {
        mark_data(backend, superblock)?;
        done(
            "the data file has its length and its mark again; what it had lost is zeros, which no checksum fits",
        );
    }
    Ok(())
}

fn mend_journal(
    backend: &dyn Backend,
    superblock: &Superblock,
    keep: &mut dyn FnMut(&str, &[u8]) -> io::Result<()>,
) -> io::Result<()> {
    const STEP: u64 = 1 << 20;
    let file = backend.open("journal")?;
    let limit = LIMIT.newest(backend, superblock.salt)?.unwrap_or(0).min(superblock.journal_len);
    let mut journal = Journal::new(backend.open("journal")?, superblock.salt, superblock.journal_len, 0)?;
    if !journal.is_ours()? {
        let len = file.len()? / ALIGN as u64 * ALIGN as u64;
        let mut buffer = Buffer::default();
        for at in (0..len).step_by(STEP as usize) {
            buffer.reset(STEP.min(len - at) as usize);
            file.read(at, &mut buffer)?;
            keep("journal", &buffer)?;
        }
        file.set_len(0)?;
        Journal::new(backend.open("journal")?, superblock.salt, superblock.journal_len, 0)?
            .write(std::iter::empty())?;
    }
    if file.len()? < limit {
        file.set_len(limit)?;
    }
    file.sync()
}
