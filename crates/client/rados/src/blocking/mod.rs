//! The client without `async`, for threads that may wait.

mod cluster;
mod lock_guard;
mod object;

pub use self::cluster::MonitorsSettings;
pub use self::lock_guard::LockGuard;

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use loligo_wire::PoolId;
use tokio::runtime::Runtime;

use futures_util::StreamExt as _;

use crate::{
    Answer, Builder, ClusterStatfs, Error, ListedObject, LockInfo, LockMode, LockOptions, Notified,
    ObjectSnaps, ObjectStat, OmapKeys, OmapPairs, PoolSnapshot, PoolStat, ReadFrom, ReadOp, SnapId,
    WatchItem, WatchNews, WriteOp,
};

/// Threads that serve the client's connections, unless a runtime is given.
const WORKERS: usize = 2;

/// As [`crate::Rados`], for threads that may wait. Must not be used on a thread of an asynchronous runtime.
#[derive(Clone, Debug)]
pub struct Rados {
    inner: crate::Rados,
    runtime: Arc<Runtime>,
}

/// As [`crate::IoCtx`], for threads that may wait.
#[derive(Clone, Debug)]
pub struct IoCtx {
    inner: crate::IoCtx,
    runtime: Arc<Runtime>,
}

impl Rados {
    /// Connects, on a runtime of its own.
    pub fn connect(builder: Builder) -> Result<Self, Error> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(WORKERS)
            .thread_name("loligo-rados")
            .enable_all()
            .build()
            .map_err(|e: io::Error| crate::Errno(e.raw_os_error().unwrap_or(crate::Errno::EIO.0)))?;
        Self::connect_on(Arc::new(runtime), builder)
    }

    /// Connects, on a runtime that others use too.
    pub fn connect_on(runtime: Arc<Runtime>, builder: Builder) -> Result<Self, Error> {
        let inner = runtime.block_on(builder.connect())?;
        Ok(Self { inner, runtime })
    }

    /// The asynchronous client.
    pub fn asynchronous(&self) -> &crate::Rados {
        &self.inner
    }

    /// The pools, in the order of their numbers.
    pub fn pools(&self) -> Vec<(PoolId, String)> {
        self.inner.pools()
    }

    /// The number of a pool.
    pub fn pool_id(&self, name: &str) -> Result<PoolId, Error> {
        self.wait(self.inner.pool_id(name))
    }

    /// Opens a pool for object operations.
    pub fn ioctx(&self, pool: &str) -> Result<IoCtx, Error> {
        let inner = self.wait(self.inner.ioctx(pool))?;
        Ok(IoCtx { inner, runtime: Arc::clone(&self.runtime) })
    }

    /// Makes a pool.
    pub fn create_pool(&self, name: &str) -> Result<PoolId, Error> {
        self.wait(self.inner.create_pool(name))
    }

    /// Removes a pool and everything in it.
    pub fn delete_pool(&self, name: &str) -> Result<(), Error> {
        self.wait(self.inner.delete_pool(name))
    }

    /// The cluster's space.
    pub fn statfs(&self) -> Result<ClusterStatfs, Error> {
        self.wait(self.inner.statfs())
    }

    /// Statistics of pools, by name.
    pub fn pool_stats(&self, pools: &[&str]) -> Result<Vec<(String, PoolStat)>, Error> {
        self.wait(self.inner.pool_stats(pools))
    }

    /// Sends the monitors a command in JSON.
    pub fn mon_command(&self, command: &str, input: Bytes) -> Result<(Bytes, String), Error> {
        self.wait(self.inner.mon_command(command, input))
    }

    /// Ends the client.
    pub fn shutdown(&self) {
        self.wait(self.inner.shutdown());
    }

    fn wait<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }
}

/// Each method as the one of the same name in [`crate::IoCtx`].
impl IoCtx {
    /// The asynchronous context.
    pub fn asynchronous(&self) -> &crate::IoCtx {
        &self.inner
    }

    /// The runtime on which the client lives, for what else is to wait for it.
    pub fn runtime(&self) -> &Arc<Runtime> {
        &self.runtime
    }

    /// The same pool with another namespace.
    pub fn with_namespace(&self, nspace: impl Into<Vec<u8>>) -> Self {
        Self { inner: self.inner.with_namespace(nspace), runtime: Arc::clone(&self.runtime) }
    }

    /// The same pool and namespace with a locator key.
    pub fn with_locator(&self, key: impl Into<Vec<u8>>) -> Self {
        Self { inner: self.inner.with_locator(key), runtime: Arc::clone(&self.runtime) }
    }

    /// Reads bytes.
    pub fn read(&self, oid: impl Into<Vec<u8>>, offset: u64, len: u64) -> Result<Bytes, Error> {
        self.wait(self.inner.read(oid, offset, len))
    }

    /// Writes bytes.
    pub fn write(&self, oid: impl Into<Vec<u8>>, offset: u64, data: Bytes) -> Result<(), Error> {
        self.wait(self.inner.write(oid, offset, data))
    }

    /// Replaces an object's bytes.
    pub fn write_full(&self, oid: impl Into<Vec<u8>>, data: Bytes) -> Result<(), Error> {
        self.wait(self.inner.write_full(oid, data))
    }

    /// Appends bytes, exactly once.
    pub fn append(&self, oid: impl Into<Vec<u8>>, data: Bytes) -> Result<(), Error> {
        self.wait(self.inner.append(oid, data))
    }

    /// Makes an empty object.
    pub fn create(&self, oid: impl Into<Vec<u8>>, exclusive: bool) -> Result<(), Error> {
        self.wait(self.inner.create(oid, exclusive))
    }

    /// Removes an object.
    pub fn remove(&self, oid: impl Into<Vec<u8>>) -> Result<(), Error> {
        self.wait(self.inner.remove(oid))
    }

    /// Sets an object's size.
    pub fn truncate(&self, oid: impl Into<Vec<u8>>, size: u64) -> Result<(), Error> {
        self.wait(self.inner.truncate(oid, size))
    }

    /// Makes a range zero.
    pub fn zero(&self, oid: impl Into<Vec<u8>>, offset: u64, len: u64) -> Result<(), Error> {
        self.wait(self.inner.zero(oid, offset, len))
    }

    /// Size and modification time.
    pub fn stat(&self, oid: impl Into<Vec<u8>>) -> Result<ObjectStat, Error> {
        self.wait(self.inner.stat(oid))
    }

    /// The value of an extended attribute.
    pub fn xattr(&self, oid: impl Into<Vec<u8>>, name: impl AsRef<[u8]>) -> Result<Bytes, Error> {
        self.wait(self.inner.xattr(oid, name))
    }

    /// All extended attributes.
    pub fn xattrs(&self, oid: impl Into<Vec<u8>>) -> Result<BTreeMap<Vec<u8>, Bytes>, Error> {
        self.wait(self.inner.xattrs(oid))
    }

    /// Sets an extended attribute.
    pub fn set_xattr(
        &self,
        oid: impl Into<Vec<u8>>,
        name: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<(), Error> {
        self.wait(self.inner.set_xattr(oid, name, value))
    }

    /// Removes an extended attribute.
    pub fn remove_xattr(&self, oid: impl Into<Vec<u8>>, name: impl AsRef<[u8]>) -> Result<(), Error> {
        self.wait(self.inner.remove_xattr(oid, name))
    }

    /// Executes several changing operations, all or none.
    pub fn operate(&self, oid: impl Into<Vec<u8>>, op: WriteOp) -> Result<(), Error> {
        self.wait(self.inner.operate(oid, op))
    }

    /// Executes several reading operations.
    pub fn operate_read(&self, oid: impl Into<Vec<u8>>, op: ReadOp) -> Result<Vec<Answer>, Error> {
        self.wait(self.inner.operate_read(oid, op))
    }

    /// The objects of this context's namespace.
    pub fn objects(&self) -> impl Iterator<Item = Result<ListedObject, Error>> + use<> {
        self.iterate(self.inner.objects())
    }

    /// The objects of this context's namespace in lists that have about as many each and together all.
    pub fn object_parts(&self, parts: u32) -> Vec<impl Iterator<Item = Result<ListedObject, Error>> + use<>> {
        self.inner.object_parts(parts).into_iter().map(|part| self.iterate(part)).collect()
    }

    /// The objects of all namespaces.
    pub fn objects_of_all_namespaces(&self) -> impl Iterator<Item = Result<ListedObject, Error>> + use<> {
        self.iterate(self.inner.objects_of_all_namespaces())
    }

    /// The same context, with what is read coming from other copies than the primary's.
    pub fn reading_from(&self, read_from: ReadFrom) -> Self {
        Self { inner: self.inner.reading_from(read_from), runtime: Arc::clone(&self.runtime) }
    }

    /// The same context, reading objects as they were at a snapshot.
    pub fn at_snapshot(&self, snap: SnapId) -> Self {
        Self { inner: self.inner.at_snapshot(snap), runtime: Arc::clone(&self.runtime) }
    }

    /// The same context with a snapshot context for writing.
    pub fn with_snap_context(&self, seq: SnapId, snaps: &[SnapId]) -> Result<Self, Error> {
        Ok(Self { inner: self.inner.with_snap_context(seq, snaps)?, runtime: Arc::clone(&self.runtime) })
    }

    /// Makes a snapshot of the pool.
    pub fn create_snapshot(&self, name: &str) -> Result<(), Error> {
        self.wait(self.inner.create_snapshot(name))
    }

    /// Removes a snapshot of the pool.
    pub fn remove_snapshot(&self, name: &str) -> Result<(), Error> {
        self.wait(self.inner.remove_snapshot(name))
    }

    /// The pool's snapshots, oldest first.
    pub fn snapshots(&self) -> Result<Vec<PoolSnapshot>, Error> {
        self.inner.snapshots()
    }

    /// The id of a new snapshot that writers manage.
    pub fn create_managed_snapshot(&self) -> Result<SnapId, Error> {
        self.wait(self.inner.create_managed_snapshot())
    }

    /// Removes a snapshot that writers manage.
    pub fn remove_managed_snapshot(&self, snap: SnapId) -> Result<(), Error> {
        self.wait(self.inner.remove_managed_snapshot(snap))
    }

    /// Makes an object what it was at a snapshot.
    pub fn rollback(&self, oid: impl Into<Vec<u8>>, snap: SnapId) -> Result<(), Error> {
        self.wait(self.inner.rollback(oid, snap))
    }

    /// What an object was at its snapshots.
    pub fn object_snapshots(&self, oid: impl Into<Vec<u8>>) -> Result<ObjectSnaps, Error> {
        self.wait(self.inner.object_snapshots(oid))
    }

    /// Keys and values of an object's map whose keys begin with `prefix`.
    pub fn omap(
        &self,
        oid: impl Into<Vec<u8>>,
        prefix: impl Into<Vec<u8>>,
    ) -> impl Iterator<Item = Result<(Bytes, Bytes), Error>> {
        let mut pairs = self.inner.omap(oid, prefix);
        std::iter::from_fn(move || self.wait(pairs.next()))
    }

    /// Part of an object's map.
    pub fn omap_page(
        &self,
        oid: impl Into<Vec<u8>>,
        after: impl AsRef<[u8]>,
        prefix: impl AsRef<[u8]>,
        max: u64,
    ) -> Result<OmapPairs, Error> {
        self.wait(self.inner.omap_page(oid, after, prefix, max))
    }

    /// Part of the keys of an object's map.
    pub fn omap_keys(
        &self,
        oid: impl Into<Vec<u8>>,
        after: impl AsRef<[u8]>,
        max: u64,
    ) -> Result<OmapKeys, Error> {
        self.wait(self.inner.omap_keys(oid, after, max))
    }

    /// Values of an object's map by their keys.
    pub fn omap_values<K: AsRef<[u8]>>(
        &self,
        oid: impl Into<Vec<u8>>,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<BTreeMap<Bytes, Bytes>, Error> {
        self.wait(self.inner.omap_values(oid, keys))
    }

    /// Sets keys of an object's map.
    pub fn set_omap<K: AsRef<[u8]>>(
        &self,
        oid: impl Into<Vec<u8>>,
        pairs: impl IntoIterator<Item = (K, Bytes)>,
    ) -> Result<(), Error> {
        self.wait(self.inner.set_omap(oid, pairs))
    }

    /// Removes keys of an object's map.
    pub fn remove_omap_keys<K: AsRef<[u8]>>(
        &self,
        oid: impl Into<Vec<u8>>,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<(), Error> {
        self.wait(self.inner.remove_omap_keys(oid, keys))
    }

    /// Removes a range of keys of an object's map.
    pub fn remove_omap_range(
        &self,
        oid: impl Into<Vec<u8>>,
        from: impl AsRef<[u8]>,
        until: impl AsRef<[u8]>,
    ) -> Result<(), Error> {
        self.wait(self.inner.remove_omap_range(oid, from, until))
    }

    /// Removes all keys and the header of an object's map.
    pub fn clear_omap(&self, oid: impl Into<Vec<u8>>) -> Result<(), Error> {
        self.wait(self.inner.clear_omap(oid))
    }

    /// The header of an object's map.
    pub fn omap_header(&self, oid: impl Into<Vec<u8>>) -> Result<Bytes, Error> {
        self.wait(self.inner.omap_header(oid))
    }

    /// Sets the header of an object's map.
    pub fn set_omap_header(&self, oid: impl Into<Vec<u8>>, header: Bytes) -> Result<(), Error> {
        self.wait(self.inner.set_omap_header(oid, header))
    }

    /// Executes several changing operations, all or none, and returns what each answered.
    pub fn operate_returning(&self, oid: impl Into<Vec<u8>>, op: WriteOp) -> Result<Vec<Answer>, Error> {
        self.wait(self.inner.operate_returning(oid, op))
    }

    /// Calls a method of an object class.
    pub fn exec(
        &self,
        oid: impl Into<Vec<u8>>,
        class: &str,
        method: &str,
        input: &[u8],
    ) -> Result<Bytes, Error> {
        self.wait(self.inner.exec(oid, class, method, input))
    }

    /// Takes an advisory lock.
    pub fn lock(
        &self,
        oid: impl Into<Vec<u8>>,
        name: impl AsRef<[u8]>,
        mode: LockMode,
        options: &LockOptions,
    ) -> Result<(), Error> {
        self.wait(self.inner.lock(oid, name, mode, options))
    }

    /// Gives up an advisory lock.
    pub fn unlock(
        &self,
        oid: impl Into<Vec<u8>>,
        name: impl AsRef<[u8]>,
        cookie: impl AsRef<[u8]>,
    ) -> Result<(), Error> {
        self.wait(self.inner.unlock(oid, name, cookie))
    }

    /// An advisory lock and who holds it.
    pub fn lock_info(&self, oid: impl Into<Vec<u8>>, name: impl AsRef<[u8]>) -> Result<LockInfo, Error> {
        self.wait(self.inner.lock_info(oid, name))
    }

    /// Watches an object.
    pub fn watch(&self, oid: impl Into<Vec<u8>>, timeout: Duration) -> Result<Watch, Error> {
        Ok(Watch { inner: self.wait(self.inner.watch(oid, timeout))?, runtime: Arc::clone(&self.runtime) })
    }

    /// Tells all who watch an object something, and waits for their answers.
    pub fn notify(
        &self,
        oid: impl Into<Vec<u8>>,
        payload: Bytes,
        timeout: Duration,
    ) -> Result<Notified, Error> {
        self.wait(self.inner.notify(oid, payload, timeout))
    }

    /// Who watches an object.
    pub fn watchers(&self, oid: impl Into<Vec<u8>>) -> Result<Vec<WatchItem>, Error> {
        self.wait(self.inner.watchers(oid))
    }

    fn iterate(
        &self,
        mut list: crate::ObjectList,
    ) -> impl Iterator<Item = Result<ListedObject, Error>> + use<> {
        let runtime = Arc::clone(&self.runtime);
        std::iter::from_fn(move || runtime.block_on(list.next()).transpose())
    }

    fn wait<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }
}

/// As [`crate::Watch`], for threads that may wait.
#[derive(Debug)]
pub struct Watch {
    inner: crate::Watch,
    runtime: Arc<Runtime>,
}

impl Watch {
    /// The client's name for the watch.
    pub fn cookie(&self) -> u64 {
        self.inner.cookie()
    }

    /// What is heard next, if that is within `limit`.
    pub fn next(&mut self, limit: Duration) -> Result<Option<WatchNews>, Error> {
        self.runtime.block_on(async { tokio::time::timeout(limit, self.inner.next()).await.ok().transpose() })
    }

    /// How long ago the watch was known to be there.
    pub fn confirmed_before(&self) -> Duration {
        self.inner.confirmed_before()
    }

    /// Ends the watch.
    pub fn unwatch(self) -> Result<(), Error> {
        self.runtime.block_on(self.inner.unwatch())
    }
}
