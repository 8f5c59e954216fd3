//! The file of a snapshot: the monitor's state, then the collections with their objects, then an end.
//!
//! Records about an object, in this order: [`Kind::Object`], attributes, the omap's header, the omap, data.
//! Watches are left out: their clients are clients of the server that was dumped. A clone is written in full,
//! even where the store shares its data with the object.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use loligo_mon::state::State;
use loligo_osd::is_watch;
use loligo_store::memory::{FrozenCollection, MemoryStore};
use loligo_store::{Fetch, Info, ObjectRef, ObjectView, OmapRange};
use loligo_wire::{PgId, Writer};

use super::codec::{FRAME_LEN, Fault, Kind, MAGIC, VERSION, read_record, write_record};
use super::load::Loader;
use super::{Snapshot, SnapshotError};
use crate::files::create_new;

/// The most bytes of data in a record; the same for keys and values, but for the last pair.
const PART_BYTES: u64 = 4 << 20;

/// Writes a snapshot: to a temporary file beside `path`, which then gets its name. The file has the cluster's
/// keys, so its owner alone may read it. `done` counts the bytes written.
pub(crate) fn write(path: &Path, snapshot: &Snapshot, done: &AtomicU64) -> Result<(), SnapshotError> {
    let fail = |source| SnapshotError::Path { path: path.to_owned(), source };
    let temporary = beside(path).map_err(fail)?;
    let written = create_new(&temporary, 0o600).and_then(|file| {
        let mut out = Counted { to: BufWriter::new(file), done };
        write_all(&mut out, snapshot)?;
        out.to.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
        fs::rename(&temporary, path)?;
        // The name is safe once the directory is.
        File::open(directory(path))?.sync_all()
    });
    written.map_err(|source| {
        let _ = fs::remove_file(&temporary);
        fail(source)
    })
}

/// About as many bytes as [`write()`] will write.
pub(crate) fn estimate(snapshot: &Snapshot) -> u64 {
    let stats = snapshot.objects.stats();
    stats.bytes_allocated + stats.omap_bytes
}

fn directory(path: &Path) -> &Path {
    match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    }
}

fn beside(path: &Path) -> io::Result<PathBuf> {
    if path.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let mut temporary = OsString::from(".");
    temporary.push(name);
    temporary.push(".new");
    Ok(directory(path).join(temporary))
}

/// A file that counts the bytes written to it.
struct Counted<'a, W> {
    to: W,
    done: &'a AtomicU64,
}

impl<W: Write> Write for Counted<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.to.write(bytes)?;
        self.done.fetch_add(written as u64, Ordering::Relaxed);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

pub(super) fn write_all(out: &mut impl Write, snapshot: &Snapshot) -> io::Result<()> {
    out.write_all(MAGIC)?;
    out.write_all(&VERSION.to_le_bytes())?;
    write_record(out, Kind::State, &[&snapshot.state.to_json()])?;
    let mut objects = 0u64;
    for (pg, collection) in snapshot.objects.collections() {
        objects += write_collection(out, pg, collection)?;
    }
    write_record(out, Kind::End, &[&objects.to_le_bytes()])
}

fn write_collection(out: &mut impl Write, pg: PgId, collection: &FrozenCollection) -> io::Result<u64> {
    let mut w = Writer::new();
    w.put(&pg);
    w.put(&collection.version());
    write_record(out, Kind::Collection, &[w.as_slice()])?;
    let mut objects = 0;
    for (name, info, object) in collection.objects() {
        write_object(out, name, info, object)?;
        objects += 1;
    }
    Ok(objects)
}

fn write_object(
    out: &mut impl Write,
    name: ObjectRef<'_>,
    info: Info,
    object: &dyn ObjectView,
) -> io::Result<()> {
    let mut w = Writer::new();
    w.u32(name.hash);
    [name.nspace, name.key, name.name].into_iter().for_each(|part| w.blob(part));
    w.put(&name.snap);
    put_info(&mut w, info);
    w.u64(object.size());
    w.bool(object.crc().is_some());
    w.u32(object.crc().unwrap_or(0));
    write_record(out, Kind::Object, &[w.as_slice()])?;
    let xattrs = now(object.xattrs())?.into_iter().filter(|(name, _)| !is_watch(name));
    write_pairs(out, Kind::Xattrs, xattrs)?;
    let header = now(object.omap_header())?;
    if !header.is_empty() {
        write_record(out, Kind::OmapHeader, &[&header])?;
    }
    write_omap(out, object)?;
    for (offset, len) in now(object.extents(0, object.size()))? {
        write_data(out, object, offset, offset + len)?;
    }
    Ok(())
}

fn put_info(w: &mut Writer, info: Info) {
    let Info { version, user_version, mtime, truncate_seq, truncate_size, .. } = info;
    let Info { has_omap, whiteout, has_snaps, watched: _, .. } = info;
    w.put(&version);
    w.u64(user_version);
    w.put(&mtime);
    w.u32(truncate_seq);
    w.u64(truncate_size);
    [has_omap, whiteout, has_snaps].into_iter().for_each(|flag| w.bool(flag));
}

fn write_pairs(
    out: &mut impl Write,
    kind: Kind,
    pairs: impl IntoIterator<Item = (Bytes, Bytes)>,
) -> io::Result<()> {
    let mut w = Writer::new();
    for (key, value) in pairs {
        w.blob(&key);
        w.blob(&value);
        if w.len() as u64 >= PART_BYTES {
            write_record(out, kind, &[std::mem::take(&mut w).as_slice()])?;
        }
    }
    if w.is_empty() { Ok(()) } else { write_record(out, kind, &[w.as_slice()]) }
}

fn write_omap(out: &mut impl Write, object: &dyn ObjectView) -> io::Result<()> {
    const KEYS_MAX: usize = 4096;
    let mut after: Option<Bytes> = None;
    loop {
        let bytes_max = usize::try_from(PART_BYTES).unwrap_or(usize::MAX);
        let range = OmapRange { after: after.as_deref(), prefix: b"", keys_max: KEYS_MAX, bytes_max };
        let page = now(object.omap_page(range))?;
        after = page.pairs.last().map(|(key, _)| key.clone());
        write_pairs(out, Kind::Omap, page.pairs)?;
        if !page.more {
            return Ok(());
        }
    }
}

fn write_data(out: &mut impl Write, object: &dyn ObjectView, from: u64, until: u64) -> io::Result<()> {
    let mut offset = from;
    while offset < until {
        let len = PART_BYTES.min(until - offset);
        let data = now(object.read(offset, len))?;
        let begin = offset.to_le_bytes();
        let parts: Vec<&[u8]> =
            std::iter::once(&begin[..]).chain(data.iter().map(|piece| &piece[..])).collect();
        write_record(out, Kind::Data, &parts)?;
        offset += len;
    }
    Ok(())
}

/// Objects in memory have everything at hand.
fn now<T>(fetch: Fetch<T>) -> io::Result<T> {
    fetch.now().ok_or_else(|| io::Error::other("an object is not in memory"))
}

/// A file whose state was read, and whose objects follow.
pub(crate) struct SnapshotFile<R> {
    path: PathBuf,
    from: R,
    /// The bytes read so far.
    at: u64,
}

/// Opens a file and reads the monitor's state.
pub(crate) fn open(path: &Path) -> Result<(SnapshotFile<BufReader<File>>, State), SnapshotError> {
    let file = File::open(path).map_err(|source| SnapshotError::Path { path: path.to_owned(), source })?;
    SnapshotFile::begin(path, BufReader::new(file))
}

/// Reads a file into a store in memory. `done` counts the bytes read.
pub(crate) fn read(path: &Path, capacity_bytes: u64, done: &AtomicU64) -> Result<Snapshot, SnapshotError> {
    let (file, state) = open(path)?;
    let store = Arc::new(MemoryStore::new(capacity_bytes));
    file.load(&*store, done)?;
    Ok(Snapshot { state, objects: store.freeze() })
}

impl<R: io::Read> SnapshotFile<R> {
    pub(super) fn begin(path: &Path, from: R) -> Result<(Self, State), SnapshotError> {
        let mut file = Self { path: path.to_owned(), from, at: 0 };
        let mut head = [0; 12];
        file.from.read_exact(&mut head).map_err(|e| file.fault(e.into()))?;
        let (magic, version) = head.split_at(MAGIC.len());
        if magic != MAGIC {
            return Err(file.fault(Fault::Content("this is no snapshot of a server")));
        }
        let version = u32::from_le_bytes([version[0], version[1], version[2], version[3]]);
        if version != VERSION {
            return Err(SnapshotError::Version { path: file.path, version });
        }
        file.at = 12;
        let state = match file.record()? {
            (Kind::State, json) => State::from_json(&json).map_err(|e| file.wrong(e.to_string()))?,
            _ => return Err(file.wrong("the state is missing")),
        };
        Ok((file, state))
    }

    /// Writes the objects to an empty store, and waits until they are safe there. Blocks.
    pub(crate) fn load(
        mut self,
        store: &dyn loligo_store::ObjectStore,
        done: &AtomicU64,
    ) -> Result<(), SnapshotError> {
        let mut loader = Loader::new(store);
        loop {
            let (kind, body) = self.record()?;
            done.store(self.at, Ordering::Relaxed);
            let taken = loader.take(kind, body.into());
            if taken.map_err(|refusal| refusal.at(&self.path, self.at))? {
                break;
            }
        }
        match self.from.read(&mut [0]) {
            Ok(0) => Ok(()),
            Ok(_) => Err(self.wrong("there is more behind the end")),
            Err(e) => Err(self.fault(Fault::Io(e))),
        }
    }

    fn record(&mut self) -> Result<(Kind, Vec<u8>), SnapshotError> {
        let (kind, body) = read_record(&mut self.from).map_err(|fault| self.fault(fault))?;
        self.at += FRAME_LEN + body.len() as u64;
        Ok((kind, body))
    }

    fn fault(&self, fault: Fault) -> SnapshotError {
        match fault {
            Fault::Io(source) => SnapshotError::Path { path: self.path.clone(), source },
            Fault::Content(what) => self.wrong(what),
        }
    }

    fn wrong(&self, what: impl Into<String>) -> SnapshotError {
        SnapshotError::Content { path: self.path.clone(), at: self.at, what: what.into() }
    }
}
