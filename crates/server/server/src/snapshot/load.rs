//! Writes the objects of a snapshot's file to a store.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use bytes::{Buf as _, Bytes};
use loligo_store::{
    Change, Collection, Commit, CommitListener, Fetch, Info, OBJECT_BYTES_MAX, ObjectChanges, ObjectName,
    ObjectRef, ObjectStore, StoreError, Transaction,
};
use loligo_wire::{DecodeError, Eversion, PgId, Reader, SnapId};
use smallvec::{SmallVec, smallvec};

use super::SnapshotError;
use super::codec::Kind;

/// Takes the records of a file in order, and writes them to a store.
pub(super) struct Loader<'s> {
    store: &'s dyn ObjectStore,
    collection: Option<Open>,
    object: Option<Object>,
    objects: u64,
}

/// The collection whose objects are being read.
struct Open {
    collection: Arc<dyn Collection>,
    version: Eversion,
    is_pending: bool,
    committed: Receiver<Result<Eversion, String>>,
}

/// The object that is being read.
struct Object {
    name: ObjectName,
    info: Info,
    size: u64,
    crc: Option<u32>,
}

/// Why a record is refused.
pub(super) enum Refusal {
    Content(String),
    Store(StoreError),
}

impl Refusal {
    pub(super) fn at(self, path: &Path, at: u64) -> SnapshotError {
        match self {
            Self::Content(what) => SnapshotError::Content { path: path.to_owned(), at, what },
            Self::Store(e) => SnapshotError::Store(e),
        }
    }
}

impl From<DecodeError> for Refusal {
    fn from(e: DecodeError) -> Self {
        Self::Content(e.to_string())
    }
}

impl From<StoreError> for Refusal {
    fn from(e: StoreError) -> Self {
        Self::Store(e)
    }
}

impl From<&str> for Refusal {
    fn from(what: &str) -> Self {
        Self::Content(what.to_owned())
    }
}

/// Passes on what a store reports of commits.
struct Commits(Sender<Result<Eversion, String>>);

impl CommitListener for Commits {
    fn committed(&self, version: Eversion) {
        let _ = self.0.send(Ok(version)); // the loader may have failed
    }

    fn stopped(&self, error: &StoreError) {
        let _ = self.0.send(Err(error.to_string()));
    }
}

impl<'s> Loader<'s> {
    pub(super) fn new(store: &'s dyn ObjectStore) -> Self {
        Self { store, collection: None, object: None, objects: 0 }
    }

    /// Takes one record. Returns `true` for the last one.
    pub(super) fn take(&mut self, kind: Kind, body: Bytes) -> Result<bool, Refusal> {
        if matches!(kind, Kind::Collection | Kind::Object | Kind::End) {
            self.end_object()?;
        }
        match kind {
            Kind::State => return Err("a second state".into()),
            Kind::Collection => self.begin_collection(&body)?,
            Kind::Object => self.begin_object(&body)?,
            Kind::Xattrs => {
                let xattrs = pairs(body)?.into_iter();
                let changes = xattrs.map(|(name, value)| Change::SetXattr { name, value });
                self.change(changes.collect())?;
            }
            Kind::OmapHeader => self.change(smallvec![Change::SetOmapHeader { header: body }])?,
            Kind::Omap => self.change(smallvec![Change::SetOmap { pairs: pairs(body)? }])?,
            Kind::Data => self.write(body)?,
            Kind::End => {
                self.end_collection()?;
                let objects = Reader::new(&body).u64()?;
                if objects != self.objects {
                    return Err("objects are missing".into());
                }
            }
        }
        Ok(kind == Kind::End)
    }

    fn begin_collection(&mut self, body: &Bytes) -> Result<(), Refusal> {
        self.end_collection()?;
        let mut r = Reader::new(body);
        let (pg, version): (PgId, Eversion) = (r.get()?, r.get()?);
        let (tell, committed) = channel();
        let collection = self.store.open(pg, Arc::new(Commits(tell)))?;
        if collection.version() != Eversion::default() {
            return Err("a collection is there twice".into());
        }
        self.collection = Some(Open { collection, version, is_pending: false, committed });
        Ok(())
    }

    fn begin_object(&mut self, body: &Bytes) -> Result<(), Refusal> {
        let mut r = Reader::new(body);
        let (hash, nspace, key, name, snap) = (r.u32()?, r.blob()?, r.blob()?, r.blob()?, r.get::<SnapId>()?);
        let oid = ObjectRef { hash, nspace, key, name, snap };
        let name = ObjectName::new(oid).map_err(|e| Refusal::Content(e.to_string()))?;
        let info = info(&mut r)?;
        let size = r.u64()?;
        let (has_crc, crc) = (r.bool()?, r.u32()?);
        if size > OBJECT_BYTES_MAX {
            return Err("an object of more bytes than any store keeps".into());
        }
        self.objects += 1;
        self.object = Some(Object { name, info, size, crc: has_crc.then_some(crc) });
        self.change(smallvec![Change::Create, Change::Truncate { size }])
    }

    fn write(&mut self, mut body: Bytes) -> Result<(), Refusal> {
        let offset = Reader::new(&body).u64()?;
        body.advance(size_of::<u64>());
        let size = self.object.as_ref().map_or(0, |object| object.size);
        let end = offset.checked_add(body.len() as u64).filter(|end| *end <= size);
        match end.ok_or("data beyond the end of an object")? {
            end if offset == 0 && end == size => self.change(smallvec![Change::WriteFull { data: body }]),
            _ => self.change(smallvec![Change::Write { offset, data: body }]),
        }
    }

    fn end_object(&mut self) -> Result<(), Refusal> {
        if let Some(crc) = self.object.as_ref().and_then(|object| object.crc) {
            self.change(smallvec![Change::NoteCrc { crc }])?;
        }
        self.object = None;
        Ok(())
    }

    /// Changes the object that is being read.
    fn change<'a>(&'a mut self, changes: SmallVec<[Change<'a>; 2]>) -> Result<(), Refusal> {
        let object = self.object.as_ref().ok_or("contents without an object")?;
        let open = self.collection.as_mut().ok_or("an object without a collection")?;
        if let Fetch::Later(later) = open.collection.room() {
            let (tell, told) = channel();
            later.then(move |room| drop(tell.send(room)));
            told.recv().unwrap_or(Err(StoreError::Stopped))?;
        }
        open.version.version = open.version.version.checked_add(1).ok_or("a version without a next one")?;
        let changes = ObjectChanges { oid: object.name.as_ref(), info: object.info, changes };
        let txn = Transaction { version: open.version, objects: smallvec![changes], record: None };
        open.is_pending = open.collection.submit(txn)? == Commit::Pending;
        Ok(())
    }

    /// Waits until all changes of the collection are safe.
    fn end_collection(&mut self) -> Result<(), Refusal> {
        let Some(open) = self.collection.take() else { return Ok(()) };
        let mut is_safe = !open.is_pending;
        while !is_safe {
            let told = open.committed.recv().unwrap_or_else(|_| Err("the store has stopped".to_owned()));
            is_safe = told.map_err(Refusal::Content)? >= open.version;
        }
        Ok(())
    }
}

fn info(r: &mut Reader<'_>) -> Result<Info, DecodeError> {
    Ok(Info {
        version: r.get()?,
        user_version: r.u64()?,
        mtime: r.get()?,
        truncate_seq: r.u32()?,
        truncate_size: r.u64()?,
        has_omap: r.bool()?,
        whiteout: r.bool()?,
        has_snaps: r.bool()?,
        watched: false,
    })
}

/// Names (or keys) and values, as parts of the record.
fn pairs(body: Bytes) -> Result<Vec<(Bytes, Bytes)>, DecodeError> {
    let (mut pairs, mut r) = (Vec::new(), Reader::new(&body));
    while !r.is_empty() {
        let (key, value) = (r.blob()?, r.blob()?);
        pairs.push((body.slice_ref(key), body.slice_ref(value)));
    }
    Ok(pairs)
}
