//! Operations on the objects of one pool.

mod application;
mod execute;
mod list;
mod lock_guard;
mod locks;
mod omap;
mod read_op;
mod scrubbed;
mod snaps;
mod watch;
mod write_op;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::{Either, ready};
use loligo_wire::message::osd::{Extent, MOSDOp, ObjectLocator, OpCode, Ops, OsdFlags, OsdOp, OsdReply};
use loligo_wire::{DecodeError, PoolId, Reader, SnapId, UTime};
use smallvec::smallvec;

use crate::error::Errno;
use crate::{Error, Rados};

pub use self::execute::{Outcome, WhenFull, WriteOptions};
pub use self::list::{ListCursor, ListedObject, ObjectList};
pub use self::lock_guard::{LockGuard, LockState};
pub use self::locks::{LockHolder, LockInfo, LockMode, LockOptions};
pub use self::read_op::{Answer, Checksum, ChecksumKind, ReadOp};
pub use self::scrubbed::Damaged;
pub use self::snaps::PoolSnapshot;
use self::snaps::SnapContext;
pub use self::watch::{Confirmation, Notification, Notified, Watch, WatchNews, WatcherId};
pub use self::write_op::WriteOp;

/// A pool, with a namespace and a locator key, in which objects are named. Cheap to clone.
///
/// Names of objects, namespaces, keys and attributes are bytes. An operation is sent when its future is first
/// polled; operations on the same object that are polled one after the other are executed in that order. A
/// future that is dropped before its end gives the operation up: whether it was executed is not known then.
#[derive(Clone, Debug)]
pub struct IoCtx {
    rados: Rados,
    locator: ObjectLocator,
    /// What is read: the objects as they are, or as they were.
    snapid: SnapId,
    /// What is told with each write.
    snapc: Option<Arc<SnapContext>>,
    read_from: ReadFrom,
    when_full: WhenFull,
}

/// Which copy of an object answers what is read from a replicated pool.
///
/// Copies are equal, but for changes that are on their way to them: what a write has acknowledged is in all
/// of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadFrom {
    /// The primary's, as all changes are made there.
    #[default]
    Primary,
    /// Each in turn.
    Balanced,
    /// The nearest, by `crush_location` and the cluster's CRUSH map.
    Nearest,
}

impl ReadFrom {
    /// What an OSD has to be told; nothing, if some of the operations are the primary's business.
    fn flags(self, ops: &[OsdOp]) -> OsdFlags {
        let reads = |op: &OsdOp| {
            matches!(
                op.code,
                OpCode::READ
                    | OpCode::MAPEXT
                    | OpCode::SYNC_READ
                    | OpCode::SPARSE_READ
                    | OpCode::CHECKSUM
                    | OpCode::CMPEXT
                    | OpCode::STAT
                    | OpCode::GETXATTR
                    | OpCode::GETXATTRS
                    | OpCode::CMPXATTR
                    | OpCode::OMAPGETKEYS
                    | OpCode::OMAPGETVALS
                    | OpCode::OMAPGETVALSBYKEYS
                    | OpCode::OMAPGETHEADER
                    | OpCode::OMAP_CMP
            )
        };
        match self {
            Self::Balanced if ops.iter().all(reads) => OsdFlags::BALANCE_READS,
            Self::Nearest if ops.iter().all(reads) => OsdFlags::LOCALIZE_READS,
            _ => OsdFlags::empty(),
        }
    }
}

/// What is known of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectStat {
    /// Its length in bytes.
    pub size: u64,
    /// When it was last changed, by the clock of whoever changed it.
    pub mtime: SystemTime,
}

/// Every write since kraken is answered when it is durable, and every client since hammer knows redirects.
const ALWAYS: OsdFlags = OsdFlags::ONDISK.union(OsdFlags::KNOWN_REDIR).union(OsdFlags::SUPPORTSPOOLEIO);

impl Rados {
    /// Opens a pool for object operations.
    pub async fn ioctx(&self, pool: &str) -> Result<IoCtx, Error> {
        let id = self.pool_id(pool).await?;
        Ok(self.ioctx_by_id(id))
    }

    /// Opens a pool by its number. If there is no such pool, operations on it end with ENOENT.
    pub fn ioctx_by_id(&self, pool: PoolId) -> IoCtx {
        IoCtx::new(self.clone(), pool)
    }
}

impl IoCtx {
    pub(crate) fn new(rados: Rados, pool: PoolId) -> Self {
        Self {
            rados,
            locator: ObjectLocator::in_pool(pool),
            snapid: SnapId::HEAD,
            snapc: None,
            read_from: ReadFrom::Primary,
            when_full: WhenFull::Wait,
        }
    }

    /// The client.
    pub fn rados(&self) -> &Rados {
        &self.rados
    }

    /// The pool.
    pub fn pool(&self) -> PoolId {
        self.locator.pool
    }

    /// The bytes of which every write but an object's last must have a multiple, where the pool wants that:
    /// one of coded chunks whose objects only grow (`rados_ioctx_pool_required_alignment2`). By the current
    /// map.
    pub fn required_alignment(&self) -> Option<u64> {
        let view = self.rados.core().objecter.view();
        let pool = view.map().pool(self.pool())?;
        pool.requires_aligned_append().then_some(u64::from(pool.stripe_width)).filter(|bytes| *bytes > 0)
    }

    /// The namespace; empty is the default one.
    pub fn namespace(&self) -> &[u8] {
        &self.locator.nspace
    }

    /// The same pool with another namespace; empty is the default one.
    pub fn with_namespace(&self, nspace: impl Into<Vec<u8>>) -> Self {
        let locator = ObjectLocator { nspace: nspace.into(), ..self.locator.clone() };
        Self { locator, ..self.clone() }
    }

    /// The same, with changes that do not simply wait where the cluster, or the pool, is full.
    pub fn with_when_full(&self, when_full: WhenFull) -> Self {
        Self { when_full, ..self.clone() }
    }

    /// The same pool and namespace with a locator key: objects are placed by it instead of by their names.
    /// Empty: by name.
    pub fn with_locator(&self, key: impl Into<Vec<u8>>) -> Self {
        let locator = ObjectLocator { key: key.into(), ..self.locator.clone() };
        Self { locator, ..self.clone() }
    }

    /// The same, with what is read coming from other copies than the primary's. Calls of object classes,
    /// watches, listings and what an object's snapshots are stay the primary's business. Another copy may not
    /// have writes yet that were not acknowledged: who wants to read behind a write of his own waits for its
    /// answer first.
    pub fn reading_from(&self, read_from: ReadFrom) -> Self {
        Self { read_from, ..self.clone() }
    }
}

/// Bytes.
impl IoCtx {
    /// Reads `len` bytes at `offset`, fewer if the object ends before; `len` 0 reads to the end.
    pub async fn read(&self, oid: impl Into<Vec<u8>>, offset: u64, len: u64) -> Result<Bytes, Error> {
        self.read_one(oid.into(), OsdOp::read(offset, len)).await
    }

    /// Writes `data` at `offset`. The object is made if there is none, and grows as needed.
    pub async fn write(&self, oid: impl Into<Vec<u8>>, offset: u64, data: Bytes) -> Result<(), Error> {
        self.write_one(oid.into(), OsdOp::write(offset, data)).await
    }

    /// Makes `data` all that is in the object. The object is made if there is none.
    pub async fn write_full(&self, oid: impl Into<Vec<u8>>, data: Bytes) -> Result<(), Error> {
        self.write_one(oid.into(), OsdOp::write_full(data)).await
    }

    /// Writes `data` at the object's end, exactly once. The object is made if there is none.
    pub async fn append(&self, oid: impl Into<Vec<u8>>, data: Bytes) -> Result<(), Error> {
        self.write_one(oid.into(), OsdOp::append(data)).await
    }

    /// Makes an empty object; if there is one already it fails with EEXIST if `exclusive`, else does nothing.
    pub async fn create(&self, oid: impl Into<Vec<u8>>, exclusive: bool) -> Result<(), Error> {
        self.write_one(oid.into(), OsdOp::create(exclusive)).await
    }

    /// Removes an object.
    pub async fn remove(&self, oid: impl Into<Vec<u8>>) -> Result<(), Error> {
        self.write_one(oid.into(), OsdOp::new(OpCode::DELETE)).await
    }

    /// Cuts an object off at `size` bytes, or extends it with zeros.
    pub async fn truncate(&self, oid: impl Into<Vec<u8>>, size: u64) -> Result<(), Error> {
        self.write_one(oid.into(), OsdOp::truncate(size)).await
    }

    /// Makes `len` bytes at `offset` zero. The object does not grow.
    pub async fn zero(&self, oid: impl Into<Vec<u8>>, offset: u64, len: u64) -> Result<(), Error> {
        self.write_one(oid.into(), OsdOp::zero(offset, len)).await
    }

    /// Which parts of a range of an object hold something, as the OSD's store says: offsets and lengths. What
    /// they do not cover reads as zeros.
    pub async fn extents(
        &self,
        oid: impl Into<Vec<u8>>,
        offset: u64,
        len: u64,
    ) -> Result<BTreeMap<u64, u64>, Error> {
        let extent = Extent { offset, length: len, ..Extent::default() };
        let out = self.read_one(oid.into(), OsdOp::with_extent(OpCode::MAPEXT, extent, Bytes::new())).await?;
        decode("the output of mapext", &out, |r| r.get())
    }

    /// Size and modification time.
    pub async fn stat(&self, oid: impl Into<Vec<u8>>) -> Result<ObjectStat, Error> {
        let out = self.read_one(oid.into(), OsdOp::new(OpCode::STAT)).await?;
        decode("the output of stat", &out, |r| {
            Ok(ObjectStat { size: r.u64()?, mtime: r.get::<UTime>()?.to_system() })
        })
    }
}

/// Extended attributes.
impl IoCtx {
    /// The value of an attribute; ENODATA if the object has none of that name.
    pub async fn xattr(&self, oid: impl Into<Vec<u8>>, name: impl AsRef<[u8]>) -> Result<Bytes, Error> {
        self.read_one(oid.into(), OsdOp::xattr(OpCode::GETXATTR, name.as_ref(), b"", 0, 0)).await
    }

    /// All attributes, by name.
    pub async fn xattrs(&self, oid: impl Into<Vec<u8>>) -> Result<BTreeMap<Vec<u8>, Bytes>, Error> {
        let out = self.read_one(oid.into(), OsdOp::new(OpCode::GETXATTRS)).await?;
        decode("the output of getxattrs", &out, |r| r.get())
    }

    /// Sets an attribute. The object is made if there is none.
    pub async fn set_xattr(
        &self,
        oid: impl Into<Vec<u8>>,
        name: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<(), Error> {
        self.write_one(oid.into(), OsdOp::xattr(OpCode::SETXATTR, name.as_ref(), value.as_ref(), 0, 0)).await
    }

    /// Removes an attribute; ENODATA if the object has none of that name.
    pub async fn remove_xattr(&self, oid: impl Into<Vec<u8>>, name: impl AsRef<[u8]>) -> Result<(), Error> {
        self.write_one(oid.into(), OsdOp::xattr(OpCode::RMXATTR, name.as_ref(), b"", 0, 0)).await
    }
}

/// Several operations at once, and listing.
impl IoCtx {
    /// Executes the operations of `op` on one object, all or none.
    pub async fn operate(&self, oid: impl Into<Vec<u8>>, op: WriteOp) -> Result<(), Error> {
        self.perform(oid.into(), op.into_ops(), OsdFlags::WRITE).await.map(drop)
    }

    /// The same; returns what each operation answered, at most 64 bytes of each
    /// (`osd_max_write_op_reply_len`).
    pub async fn operate_returning(
        &self,
        oid: impl Into<Vec<u8>>,
        op: WriteOp,
    ) -> Result<Vec<Answer>, Error> {
        let reply = self.perform(oid.into(), op.into_ops(), OsdFlags::WRITE | OsdFlags::RETURNVEC).await?;
        Ok(reply.outs.into_iter().map(Answer::from).collect())
    }

    /// Executes the reading operations of `op` on one object, in one state of it. Returns what each answered.
    pub async fn operate_read(&self, oid: impl Into<Vec<u8>>, op: ReadOp) -> Result<Vec<Answer>, Error> {
        let reply = self.perform(oid.into(), op.into_ops(), OsdFlags::READ).await?;
        Ok(reply.outs.into_iter().map(Answer::from).collect())
    }

    /// Calls a method of an object class and returns its output.
    pub async fn exec(
        &self,
        oid: impl Into<Vec<u8>>,
        class: &str,
        method: &str,
        input: &[u8],
    ) -> Result<Bytes, Error> {
        self.read_one(oid.into(), OsdOp::call(class, method, input)).await
    }

    /// Calls a method of an object class that writes, and whose output is of no interest.
    pub async fn exec_write(
        &self,
        oid: impl Into<Vec<u8>>,
        class: &str,
        method: &str,
        input: &[u8],
    ) -> Result<(), Error> {
        self.write_one(oid.into(), OsdOp::call(class, method, input)).await
    }

    /// The objects of this context's namespace, in the pool's order.
    pub fn objects(&self) -> ObjectList {
        ObjectList::new(self.clone(), ListCursor::start(), ListCursor::end())
    }

    /// The objects of all namespaces, in the pool's order.
    pub fn objects_of_all_namespaces(&self) -> ObjectList {
        self.with_namespace(list::ALL_NAMESPACES).objects()
    }

    /// The objects from a place on where a listing was.
    pub fn objects_from(&self, cursor: ListCursor) -> ObjectList {
        ObjectList::new(self.clone(), cursor, ListCursor::end())
    }

    fn write_one(&self, oid: Vec<u8>, op: OsdOp) -> impl Future<Output = Result<(), Error>> + use<'_> {
        self.perform(oid, smallvec![op], OsdFlags::WRITE).map(|reply| reply.map(drop))
    }

    fn read_one(&self, oid: Vec<u8>, op: OsdOp) -> impl Future<Output = Result<Bytes, Error>> + use<'_> {
        let data = |reply: OsdReply| reply.outs.into_iter().next().unwrap_or_default().data;
        self.perform(oid, smallvec![op], OsdFlags::READ).map(move |reply| reply.map(data))
    }

    /// Not an `async fn`: the request moves to the heap at once, instead of into each of the futures around
    /// it. Nor are its callers, nor do they have blocks: those would have room for the future that they are
    /// given and for the same one when it is waited for.
    fn perform(
        &self,
        oid: Vec<u8>,
        ops: Ops,
        mode: OsdFlags,
    ) -> impl Future<Output = Result<OsdReply, Error>> + use<'_> {
        match self.request(oid, ops, mode) {
            Ok(request) => Either::Left(self.submit(request).map(|reply| succeeded(reply?))),
            Err(errno) => Either::Right(ready(Err(errno.into()))),
        }
    }

    /// The request with what this context says of it.
    fn request(&self, oid: Vec<u8>, ops: Ops, mode: OsdFlags) -> Result<MOSDOp, Errno> {
        if oid.is_empty() {
            return Err(Errno::EINVAL);
        }
        // Stock clients count modulo 65,536 and send what no OSD can read.
        if ops.len() > MOSDOp::OPS_MAX {
            return Err(Errno::EMSGSIZE);
        }
        let mut request = MOSDOp::new(self.locator.clone(), oid, ops, ALWAYS | mode);
        if !mode.contains(OsdFlags::WRITE) {
            request.snapid = self.snapid;
            request.flags |= self.read_from.flags(&request.ops);
            return Ok(request);
        }
        if self.snapid != SnapId::HEAD {
            return Err(Errno::EROFS);
        }
        request.flags |= self.when_full.flags();
        request.mtime = UTime::now();
        if let Some(snapc) = &self.snapc {
            (request.snap_seq, request.snaps) = (snapc.seq, snapc.snaps.clone());
        }
        Ok(request)
    }

    /// Whatever was answered.
    fn submit(&self, request: MOSDOp) -> impl Future<Output = Result<OsdReply, Error>> + use<'_> {
        let objecter = &self.rados.core().objecter;
        objecter.perform(objecter.prepare(request))
    }
}

/// A request's failure as an error.
fn succeeded(reply: OsdReply) -> Result<OsdReply, Error> {
    match Errno::from_result(reply.result) {
        None => Ok(reply),
        Some(errno) => Err(errno.into()),
    }
}

/// Reads an operation's output.
fn decode<T>(
    what: &'static str,
    out: &[u8],
    read: impl FnOnce(&mut Reader<'_>) -> Result<T, DecodeError>,
) -> Result<T, Error> {
    read(&mut Reader::new(out)).map_err(|source| Error::Decode { what, source })
}
