//! The client without `async`, for threads that may block.

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

/// Worker threads of the client's own runtime.
const WORKERS: usize = 2;

/// Blocking form of [`crate::Rados`]. Must not be used on a thread of an asynchronous runtime.
#[derive(Clone, Debug)]
pub struct Rados {
    inner: crate::Rados,
    runtime: Arc<Runtime>,
}

/// Blocking form of [`crate::IoCtx`].
#[derive(Clone, Debug)]
pub struct IoCtx {
    inner: crate::IoCtx,
    runtime: Arc<Runtime>,
}

impl Rados {
    /// Connects, on a new runtime.
    pub fn connect(builder: Builder) -> Result<Self, Error> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(WORKERS)
            .thread_name("loligo-rados")
            .enable_all()
            .build()
            .map_err(|e: io::Error| crate::Errno(e.raw_os_error().unwrap_or(crate::Errno::EIO.0)))?;
        Self::connect_on(Arc::new(runtime), builder)
    }

    /// Connects, on a shared runtime.
    pub fn connect_on(runtime: Arc<Runtime>, builder: Builder) -> Result<Self, Error> {
        let inner = runtime.block_on(builder.connect())?;
        Ok(Self { inner, runtime })
    }

    /// Returns the asynchronous client.
    pub fn asynchronous(&self) -> &crate::Rados {
        &self.inner
    }

    /// Returns the pools in the order of their ids.
    pub fn pools(&self) -> Vec<(PoolId, String)> {
        self.inner.pools()
    }

    /// Returns the id of a pool.
    pub fn pool_id(&self, name: &str) -> Result<PoolId, Error> {
        self.wait(self.inner.pool_id(name))
    }

    /// Opens a pool for object operations.
    pub fn ioctx(&self, pool: &str) -> Result<IoCtx, Error> {
        let inner = self.wait(self.inner.ioctx(pool))?;
        Ok(IoCtx { inner, runtime: Arc::clone(&self.runtime) })
    }

    /// Creates a pool.
    pub fn create_pool(&self, name: &str) -> Result<PoolId, Error> {
        self.wait(self.inner.create_pool(name))
    }

    /// Removes a pool and its contents.
    pub fn delete_pool(&self, name: &str) -> Result<(), Error> {
        self.wait(self.inner.delete_pool(name))
    }

    /// Returns the cluster's space usage.
    pub fn statfs(&self) -> Result<ClusterStatfs, Error> {
        self.wait(self.inner.statfs())
    }

    /// Returns statistics of pools, by name.
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

/// Each method is the blocking form of the method of the same name in [`crate::IoCtx`].
impl IoCtx {
    /// Returns the asynchronous context.
    pub fn asynchronous(&self) -> &crate::IoCtx {
        &self.inner
    }

    /// Returns the client's runtime, for other blocking calls on the client.
    pub fn runtime(&self) -> &Arc<Runtime> {
        &self.runtime
    }

    /// Returns the same pool with another namespace.
    pub fn with_namespace(&self, nspace: impl Into<Vec<u8>>) -> Self {
        Self { inner: self.inner.with_namespace(nspace), runtime: Arc::clone(&self.runtime) }
    }

    /// Returns the same pool and namespace with a locator key.
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

    /// Replaces an object's data.
    pub fn write_full(&self, oid: impl Into<Vec<u8>>, data: Bytes) -> Result<(), Error> {
        self.wait(self.inner.write_full(oid, data))
    }

    /// Appends bytes, exactly once.
    pub fn append(&self, oid: impl Into<Vec<u8>>, data: Bytes) -> Result<(), Error> {
        self.wait(self.inner.append(oid, data))
    }

    /// Creates an empty object.
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

    /// Zeroes a range.
    pub fn zero(&self, oid: impl Into<Vec<u8>>, offset: u64, len: u64) -> Result<(), Error> {
        self.wait(self.inner.zero(oid, offset, len))
    }

    /// Returns size and modification time.
    pub fn stat(&self, oid: impl Into<Vec<u8>>) -> Result<ObjectStat, Error> {
        self.wait(self.inner.stat(oid))
    }

    /// Returns the value of an extended attribute.
    pub fn xattr(&self, oid: impl Into<Vec<u8>>, name: impl AsRef<[u8]>) -> Result<Bytes, Error> {
        self.wait(self.inner.xattr(oid, name))
    }

    /// Returns all extended attributes.
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

    /// Executes several changes atomically: all or none.
    pub fn operate(&self, oid: impl Into<Vec<u8>>, op: WriteOp) -> Result<(), Error> {
        self.wait(self.inner.operate(oid, op))
    }

    /// Executes several reads.
    pub fn operate_read(&self, oid: impl Into<Vec<u8>>, op: ReadOp) -> Result<Vec<Answer>, Error> {
        self.wait(self.inner.operate_read(oid, op))
    }

    /// Lists the objects of this context's namespace.
    pub fn objects(&self) -> impl Iterator<Item = Result<ListedObject, Error>> + use<> {
        self.iterate(self.inner.objects())
    }

    /// Splits the objects of this context's namespace into lists of about equal size.
    pub fn object_parts(&self, parts: u32) -> Vec<impl Iterator<Item = Result<ListedObject, Error>> + use<>> {
        self.inner.object_parts(parts).into_iter().map(|part| self.iterate(part)).collect()
    }

    /// Lists the objects of all namespaces.
    pub fn objects_of_all_namespaces(&self) -> impl Iterator<Item = Result<ListedObject, Error>> + use<> {
        self.iterate(self.inner.objects_of_all_namespaces())
    }

    /// Returns the same context with reads from other copies than the primary's.
    pub fn reading_from(&self, read_from: ReadFrom) -> Self {
        Self { inner: self.inner.reading_from(read_from), runtime: Arc::clone(&self.runtime) }
    }

    /// Returns the same context, reading objects as they were at a snapshot.
    pub fn at_snapshot(&self, snap: SnapId) -> Self {
        Self { inner: self.inner.at_snapshot(snap), runtime: Arc::clone(&self.runtime) }
    }

    /// Returns the same context with a snapshot context for writes.
    pub fn with_snap_context(&self, seq: SnapId, snaps: &[SnapId]) -> Result<Self, Error> {
        Ok(Self { inner: self.inner.with_snap_context(seq, snaps)?, runtime: Arc::clone(&self.runtime) })
    }

    /// Creates a snapshot of the pool.
    pub fn create_snapshot(&self, name: impl AsRef<[u8]>) -> Result<(), Error> {
        self.wait(self.inner.create_snapshot(name))
    }

    /// Removes a snapshot of the pool.
    pub fn remove_snapshot(&self, name: impl AsRef<[u8]>) -> Result<(), Error> {
        self.wait(self.inner.remove_snapshot(name))
    }

    /// Returns the pool's snapshots, oldest first.
    pub fn snapshots(&self) -> Result<Vec<PoolSnapshot>, Error> {
        self.inner.snapshots()
    }

    /// Allocates the id of a snapshot that writers manage.
    pub fn create_managed_snapshot(&self) -> Result<SnapId, Error> {
        self.wait(self.inner.create_managed_snapshot())
    }

    /// Removes a snapshot that writers manage.
    pub fn remove_managed_snapshot(&self, snap: SnapId) -> Result<(), Error> {
        self.wait(self.inner.remove_managed_snapshot(snap))
    }

    /// Restores an object's state at a snapshot.
    pub fn rollback(&self, oid: impl Into<Vec<u8>>, snap: SnapId) -> Result<(), Error> {
        self.wait(self.inner.rollback(oid, snap))
    }

    /// Returns an object's states at its snapshots.
    pub fn object_snapshots(&self, oid: impl Into<Vec<u8>>) -> Result<ObjectSnaps, Error> {
        self.wait(self.inner.object_snapshots(oid))
    }

    /// Iterates over the omap pairs whose keys begin with `prefix`.
    pub fn omap(
        &self,
        oid: impl Into<Vec<u8>>,
        prefix: impl Into<Vec<u8>>,
    ) -> impl Iterator<Item = Result<(Bytes, Bytes), Error>> {
        let mut pairs = self.inner.omap(oid, prefix);
        std::iter::from_fn(move || self.wait(pairs.next()))
    }

    /// Returns part of an object's omap.
    pub fn omap_page(
        &self,
        oid: impl Into<Vec<u8>>,
        after: impl AsRef<[u8]>,
        prefix: impl AsRef<[u8]>,
        max: u64,
    ) -> Result<OmapPairs, Error> {
        self.wait(self.inner.omap_page(oid, after, prefix, max))
    }

    /// Returns part of an object's omap keys.
    pub fn omap_keys(
        &self,
        oid: impl Into<Vec<u8>>,
        after: impl AsRef<[u8]>,
        max: u64,
    ) -> Result<OmapKeys, Error> {
        self.wait(self.inner.omap_keys(oid, after, max))
    }

    /// Returns the omap values of the given keys.
    pub fn omap_values<K: AsRef<[u8]>>(
        &self,
        oid: impl Into<Vec<u8>>,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<BTreeMap<Bytes, Bytes>, Error> {
        self.wait(self.inner.omap_values(oid, keys))
    }

    /// Sets omap keys.
    pub fn set_omap<K: AsRef<[u8]>>(
        &self,
        oid: impl Into<Vec<u8>>,
        pairs: impl IntoIterator<Item = (K, Bytes)>,
    ) -> Result<(), Error> {
        self.wait(self.inner.set_omap(oid, pairs))
    }

    /// Removes omap keys.
    pub fn remove_omap_keys<K: AsRef<[u8]>>(
        &self,
        oid: impl Into<Vec<u8>>,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<(), Error> {
        self.wait(self.inner.remove_omap_keys(oid, keys))
    }

    /// Removes a range of omap keys.
    pub fn remove_omap_range(
        &self,
        oid: impl Into<Vec<u8>>,
        from: impl AsRef<[u8]>,
        until: impl AsRef<[u8]>,
    ) -> Result<(), Error> {
        self.wait(self.inner.remove_omap_range(oid, from, until))
    }

    /// Removes all omap keys and the header.
    pub fn clear_omap(&self, oid: impl Into<Vec<u8>>) -> Result<(), Error> {
        self.wait(self.inner.clear_omap(oid))
    }

    /// Returns the omap header.
    pub fn omap_header(&self, oid: impl Into<Vec<u8>>) -> Result<Bytes, Error> {
        self.wait(self.inner.omap_header(oid))
    }

    /// Sets the omap header.
    pub fn set_omap_header(&self, oid: impl Into<Vec<u8>>, header: Bytes) -> Result<(), Error> {
        self.wait(self.inner.set_omap_header(oid, header))
    }

    /// Executes several changes atomically, and returns each operation's output.
    pub fn operate_returning(&self, oid: impl Into<Vec<u8>>, op: WriteOp) -> Result<Vec<Answer>, Error> {
        self.wait(self.inner.operate_returning(oid, op))
    }

    /// Calls an object class method.
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

    /// Releases an advisory lock.
    pub fn unlock(
        &self,
        oid: impl Into<Vec<u8>>,
        name: impl AsRef<[u8]>,
        cookie: impl AsRef<[u8]>,
    ) -> Result<(), Error> {
        self.wait(self.inner.unlock(oid, name, cookie))
    }

    /// Returns an advisory lock and its holders.
    pub fn lock_info(&self, oid: impl Into<Vec<u8>>, name: impl AsRef<[u8]>) -> Result<LockInfo, Error> {
        self.wait(self.inner.lock_info(oid, name))
    }

    /// Watches an object.
    pub fn watch(&self, oid: impl Into<Vec<u8>>, timeout: Duration) -> Result<Watch, Error> {
        Ok(Watch { inner: self.wait(self.inner.watch(oid, timeout))?, runtime: Arc::clone(&self.runtime) })
    }

    /// Notifies all watchers of an object, and waits for their replies.
    pub fn notify(
        &self,
        oid: impl Into<Vec<u8>>,
        payload: Bytes,
        timeout: Duration,
    ) -> Result<Notified, Error> {
        self.wait(self.inner.notify(oid, payload, timeout))
    }

    /// Returns an object's watchers.
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

/// Blocking form of [`crate::Watch`].
#[derive(Debug)]
pub struct Watch {
    inner: crate::Watch,
    runtime: Arc<Runtime>,
}

impl Watch {
    /// Returns the client's cookie for the watch.
    pub fn cookie(&self) -> u64 {
        self.inner.cookie()
    }

    /// Waits for the next event; returns `None` after `limit`.
    pub fn next(&mut self, limit: Duration) -> Result<Option<WatchNews>, Error> {
        self.runtime.block_on(async { tokio::time::timeout(limit, self.inner.next()).await.ok().transpose() })
    }

    /// Returns how long ago the watch was last confirmed.
    pub fn confirmed_before(&self) -> Duration {
        self.inner.confirmed_before()
    }

    /// Unregisters the watch.
    pub fn unwatch(self) -> Result<(), Error> {
        self.runtime.block_on(self.inner.unwatch())
    }
}
