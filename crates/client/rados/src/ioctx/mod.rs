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
use loligo_wire::{DecodeError, PoolId, Reader, SnapContext, SnapId, UTime};
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
pub use self::watch::{Confirmation, Notification, Notified, Watch, WatchNews, WatcherId};
pub use self::write_op::WriteOp;

/// A pool with a namespace and a locator key, in which objects are named. Cheap to clone.
///
/// Names of objects, namespaces, keys and attributes are bytes. An operation is sent when its future is
/// first polled. Operations on one object are executed in the order in which their futures were first
/// polled. Dropping an unfinished future cancels the operation; whether it was executed is then unknown.
#[derive(Clone, Debug)]
pub struct IoCtx {
    rados: Rados,
    locator: ObjectLocator,
    /// The snapshot to read, or the current state of the objects.
    snapid: SnapId,
    /// The snapshot context sent with each write.
    snapc: Option<Arc<SnapContext>>,
    read_from: ReadFrom,
    when_full: WhenFull,
}

/// Which copy of an object serves reads from a replicated pool.
///
/// All copies have every acknowledged write. They may differ in writes that are still in progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadFrom {
    /// The primary's, where all changes are made.
    #[default]
    Primary,
    /// Each copy in turn.
    Balanced,
    /// The nearest copy, by `crush_location` and the cluster's CRUSH map.
    Nearest,
}

impl ReadFrom {
    /// Returns the flags to send; none if one of the operations must go to the primary.
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

/// Size and modification time of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectStat {
    /// Size in bytes.
    pub size: u64,
    /// Time of the last change, by the clock of the client that made it.
    pub mtime: SystemTime,
}

/// Flags of every request. Since kraken every write is acknowledged when it is durable (ONDISK), and
/// since hammer every client supports redirects.
const ALWAYS: OsdFlags = OsdFlags::ONDISK.union(OsdFlags::KNOWN_REDIR).union(OsdFlags::SUPPORTSPOOLEIO);

impl Rados {
    /// Opens a pool for object operations.
    pub async fn ioctx(&self, pool: &str) -> Result<IoCtx, Error> {
        let id = self.pool_id(pool).await?;
        Ok(self.ioctx_by_id(id))
    }

    /// Opens a pool by its id. If the pool does not exist, operations on it fail with ENOENT.
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

    /// Returns the client.
    pub fn rados(&self) -> &Rados {
        &self.rados
    }

    /// Returns the pool's id.
    pub fn pool(&self) -> PoolId {
        self.locator.pool
    }

    /// Returns the alignment in bytes that every write but an object's last must have, if the pool
    /// requires one: an erasure-coded pool whose objects only grow
    /// (`rados_ioctx_pool_required_alignment2`). By the current map.
    pub fn required_alignment(&self) -> Option<u64> {
        let view = self.rados.core().objecter.view();
        let pool = view.map().pool(self.pool())?;
        pool.requires_aligned_append().then_some(u64::from(pool.stripe_width)).filter(|bytes| *bytes > 0)
    }

    /// Returns the namespace; empty is the default one.
    pub fn namespace(&self) -> &[u8] {
        &self.locator.nspace
    }

    /// Returns the same pool with another namespace; empty is the default one.
    pub fn with_namespace(&self, nspace: impl Into<Vec<u8>>) -> Self {
        let locator = ObjectLocator { nspace: nspace.into(), ..self.locator.clone() };
        Self { locator, ..self.clone() }
    }

    /// Returns the same context with another policy for writes to a full cluster or pool.
    pub fn with_when_full(&self, when_full: WhenFull) -> Self {
        Self { when_full, ..self.clone() }
    }

    /// Returns the same pool and namespace with a locator key: objects are placed by the key instead of
    /// by name. An empty key means by name.
    pub fn with_locator(&self, key: impl Into<Vec<u8>>) -> Self {
        let locator = ObjectLocator { key: key.into(), ..self.locator.clone() };
        Self { locator, ..self.clone() }
    }

    /// Returns the same context with reads from other copies than the primary's. Object class calls, watches,
    /// listings and snapshot listings still go to the primary. Another copy may lack writes that are not
    /// acknowledged yet: to read its own write, a client waits for the write's acknowledgement first.
    pub fn reading_from(&self, read_from: ReadFrom) -> Self {
        Self { read_from, ..self.clone() }
    }
}

/// Object data.
impl IoCtx {
    /// Reads `len` bytes at `offset`, or fewer if the object ends before. `len` 0 reads to the end.
    pub async fn read(&self, oid: impl Into<Vec<u8>>, offset: u64, len: u64) -> Result<Bytes, Error> {
        self.read_one(oid.into(), OsdOp::read(offset, len)).await
    }

    /// Writes `data` at `offset`. Creates the object if it does not exist; grows it as needed.
    pub async fn write(&self, oid: impl Into<Vec<u8>>, offset: u64, data: Bytes) -> Result<(), Error> {
        self.write_one(oid.into(), OsdOp::write(offset, data)).await
    }

    /// Replaces the object's data with `data`. Creates the object if it does not exist.
    pub async fn write_full(&self, oid: impl Into<Vec<u8>>, data: Bytes) -> Result<(), Error> {
        self.write_one(oid.into(), OsdOp::write_full(data)).await
    }

    /// Appends `data` to the object, exactly once. Creates the object if it does not exist.
    pub async fn append(&self, oid: impl Into<Vec<u8>>, data: Bytes) -> Result<(), Error> {
        self.write_one(oid.into(), OsdOp::append(data)).await
    }

    /// Creates an empty object. If it exists, fails with EEXIST if `exclusive`, otherwise does nothing.
    pub async fn create(&self, oid: impl Into<Vec<u8>>, exclusive: bool) -> Result<(), Error> {
        self.write_one(oid.into(), OsdOp::create(exclusive)).await
    }

    /// Removes an object.
    pub async fn remove(&self, oid: impl Into<Vec<u8>>) -> Result<(), Error> {
        self.write_one(oid.into(), OsdOp::new(OpCode::DELETE)).await
    }

    /// Truncates an object to `size` bytes, or extends it with zeros.
    pub async fn truncate(&self, oid: impl Into<Vec<u8>>, size: u64) -> Result<(), Error> {
        self.write_one(oid.into(), OsdOp::truncate(size)).await
    }

    /// Zeroes `len` bytes at `offset`. The object does not grow.
    pub async fn zero(&self, oid: impl Into<Vec<u8>>, offset: u64, len: u64) -> Result<(), Error> {
        self.write_one(oid.into(), OsdOp::zero(offset, len)).await
    }

    /// Returns the allocated parts of a range of an object as offsets and lengths, as the OSD's store
    /// reports them. The rest reads as zeros.
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

    /// Returns size and modification time.
    pub async fn stat(&self, oid: impl Into<Vec<u8>>) -> Result<ObjectStat, Error> {
        let out = self.read_one(oid.into(), OsdOp::new(OpCode::STAT)).await?;
        decode("the output of stat", &out, |r| {
            Ok(ObjectStat { size: r.u64()?, mtime: r.get::<UTime>()?.to_system() })
        })
    }
}

/// Extended attributes.
impl IoCtx {
    /// Returns the value of an attribute; ENODATA if the object does not have it.
    pub async fn xattr(&self, oid: impl Into<Vec<u8>>, name: impl AsRef<[u8]>) -> Result<Bytes, Error> {
        self.read_one(oid.into(), OsdOp::xattr(OpCode::GETXATTR, name.as_ref(), b"", 0, 0)).await
    }

    /// Returns all attributes, by name.
    pub async fn xattrs(&self, oid: impl Into<Vec<u8>>) -> Result<BTreeMap<Vec<u8>, Bytes>, Error> {
        let out = self.read_one(oid.into(), OsdOp::new(OpCode::GETXATTRS)).await?;
        decode("the output of getxattrs", &out, |r| r.get())
    }

    /// Sets an attribute. Creates the object if it does not exist.
    pub async fn set_xattr(
        &self,
        oid: impl Into<Vec<u8>>,
        name: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<(), Error> {
        self.write_one(oid.into(), OsdOp::xattr(OpCode::SETXATTR, name.as_ref(), value.as_ref(), 0, 0)).await
    }

    /// Removes an attribute; ENODATA if the object does not have it.
    pub async fn remove_xattr(&self, oid: impl Into<Vec<u8>>, name: impl AsRef<[u8]>) -> Result<(), Error> {
        self.write_one(oid.into(), OsdOp::xattr(OpCode::RMXATTR, name.as_ref(), b"", 0, 0)).await
    }
}

/// Compound operations, and listing.
impl IoCtx {
    /// Executes the operations of `op` on one object atomically: all or none.
    pub async fn operate(&self, oid: impl Into<Vec<u8>>, op: WriteOp) -> Result<(), Error> {
        self.request(oid.into(), op.into_ops(), OsdFlags::WRITE).await.map(drop)
    }

    /// Like `operate`, and returns each operation's output, at most 64 bytes each
    /// (`osd_max_write_op_reply_len`).
    pub async fn operate_returning(
        &self,
        oid: impl Into<Vec<u8>>,
        op: WriteOp,
    ) -> Result<Vec<Answer>, Error> {
        let reply = self.request(oid.into(), op.into_ops(), OsdFlags::WRITE | OsdFlags::RETURNVEC).await?;
        Ok(reply.outs.into_iter().map(Answer::from).collect())
    }

    /// Executes the reads of `op` on one state of one object. Returns each operation's output.
    pub async fn operate_read(&self, oid: impl Into<Vec<u8>>, op: ReadOp) -> Result<Vec<Answer>, Error> {
        let reply = self.request(oid.into(), op.into_ops(), OsdFlags::READ).await?;
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

    /// Calls an object class method that writes, and discards its output.
    pub async fn exec_write(
        &self,
        oid: impl Into<Vec<u8>>,
        class: &str,
        method: &str,
        input: &[u8],
    ) -> Result<(), Error> {
        self.write_one(oid.into(), OsdOp::call(class, method, input)).await
    }

    /// Lists the objects of this context's namespace, in the pool's order.
    pub fn objects(&self) -> ObjectList {
        ObjectList::new(self.clone(), ListCursor::start(), ListCursor::end())
    }

    /// Lists the objects of all namespaces, in the pool's order.
    pub fn objects_of_all_namespaces(&self) -> ObjectList {
        self.with_namespace(list::ALL_NAMESPACES).objects()
    }

    /// Lists the objects from the position of an earlier listing on.
    pub fn objects_from(&self, cursor: ListCursor) -> ObjectList {
        ObjectList::new(self.clone(), cursor, ListCursor::end())
    }

    fn write_one(&self, oid: Vec<u8>, op: OsdOp) -> impl Future<Output = Result<(), Error>> + use<'_> {
        self.request(oid, smallvec![op], OsdFlags::WRITE).map(|reply| reply.map(drop))
    }

    fn read_one(&self, oid: Vec<u8>, op: OsdOp) -> impl Future<Output = Result<Bytes, Error>> + use<'_> {
        let data = |reply: OsdReply| reply.outs.into_iter().next().unwrap_or_default().data;
        self.request(oid, smallvec![op], OsdFlags::READ).map(move |reply| reply.map(data))
    }

    /// Not an `async fn`, so that the request moves to the heap at once instead of into each enclosing
    /// future. The callers are not `async` either and have no `async` blocks: such a block has room for
    /// the future twice, once as an argument and once while it is awaited.
    fn request(
        &self,
        oid: Vec<u8>,
        ops: Ops,
        mode: OsdFlags,
    ) -> impl Future<Output = Result<OsdReply, Error>> + use<'_> {
        match self.build_request(oid, ops, mode) {
            Ok(request) => Either::Left(self.reply_to(request).map(|reply| succeeded(reply?))),
            Err(errno) => Either::Right(ready(Err(errno.into()))),
        }
    }

    /// Builds the request with this context's snapshots, flags and locator.
    fn build_request(&self, oid: Vec<u8>, ops: Ops, mode: OsdFlags) -> Result<MOSDOp, Errno> {
        if oid.is_empty() {
            return Err(Errno::EINVAL);
        }
        // Stock clients count modulo 65,536 and send a request that no OSD can decode.
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

    /// Sends a request and returns the reply, whatever its result.
    fn reply_to(&self, request: MOSDOp) -> impl Future<Output = Result<OsdReply, Error>> + use<'_> {
        let objecter = &self.rados.core().objecter;
        objecter.perform(objecter.prepare(request))
    }
}

/// Converts the result of a failed request to an error.
fn succeeded(reply: OsdReply) -> Result<OsdReply, Error> {
    match Errno::from_result(reply.result) {
        None => Ok(reply),
        Some(errno) => Err(errno.into()),
    }
}

/// Decodes an operation's output.
fn decode<T>(
    what: &'static str,
    out: &[u8],
    read: impl FnOnce(&mut Reader<'_>) -> Result<T, DecodeError>,
) -> Result<T, Error> {
    read(&mut Reader::new(out)).map_err(|source| Error::Decode { what, source })
}
