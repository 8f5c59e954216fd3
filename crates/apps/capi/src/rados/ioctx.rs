//! The handle of a pool, `rados_ioctx_t`.

use std::collections::BTreeSet;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::future::Future;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use az::SaturatingAs as _;
use loligo_lockstat::{Class, Mutex};
use loligo_rados::{IoCtx, PoolId, WhenFull};
use loligo_wire::Errno;
use tokio::sync::watch;

use super::{Client, pool};
use crate::border::{Fail, calls, plain};
use crate::handle;
use crate::memory::{fill_text, optional_text, put, range, text};
use crate::runtime::wait;

static WRITES: Class = Class::new("capi.writes");

/// A pool handle: namespace, locator and snapshots can be changed, operations take what is set when they
/// are submitted.
pub(crate) struct Pool {
    pub(crate) client: Arc<Client>,
    io: ArcSwap<IoCtx>,
    last_version: AtomicU64,
    /// Asynchronous writes, for flush.
    pub(super) writes: Arc<Writes>,
}

impl Pool {
    pub(crate) fn new(client: Arc<Client>, io: IoCtx) -> Self {
        let writes = Arc::new(Writes::default());
        Self { client, io: ArcSwap::from_pointee(io), last_version: AtomicU64::new(0), writes }
    }

    /// Returns the handle behind the program's pointer.
    ///
    /// # Safety
    /// The pointer is a handle that was not destroyed.
    pub(crate) unsafe fn of<'a>(handle: *mut c_void) -> Result<&'a Self, Fail> {
        // SAFETY: by this function's contract.
        unsafe { handle::borrowed(handle) }
    }

    /// Like [`Pool::of`], with a reference of the library's.
    ///
    /// # Safety
    /// As for [`Pool::of`].
    pub(crate) unsafe fn shared(handle: *mut c_void) -> Result<Arc<Self>, Fail> {
        // SAFETY: by this function's contract.
        unsafe { handle::shared(handle) }
    }

    /// Returns the context with what is set now.
    pub(crate) fn io(&self) -> impl Deref<Target = Arc<IoCtx>> + use<> {
        self.io.load()
    }

    /// Returns a copy of the context, for an operation that outlives the call.
    pub(crate) fn owned_io(&self) -> IoCtx {
        IoCtx::clone(&self.io.load())
    }

    pub(super) fn change(&self, change: impl FnOnce(&IoCtx) -> IoCtx) {
        let changed = change(&self.io.load());
        self.io.store(Arc::new(changed));
    }

    /// Remembers the version of an object that a synchronous operation found.
    pub(super) fn saw_version(&self, version: u64) {
        self.last_version.store(version, Ordering::Relaxed);
    }

    /// Waits for the asynchronous writes that were submitted before, and for their callbacks.
    pub(crate) fn flush(&self) {
        wait(self.writes.flushed());
        self.client.strand.flush();
    }

    /// Runs an operation on the caller's thread.
    pub(super) fn run<T, E>(&self, operation: impl Future<Output = Result<T, E>>) -> Result<T, Fail>
    where
        Fail: From<E>,
    {
        wait(operation).map_err(Fail::from)
    }
}

/// Asynchronous writes of a pool handle that are not complete.
pub(super) struct Writes {
    state: Mutex<Numbers>,
    /// The number of the oldest incomplete write, or of the next one.
    oldest: watch::Sender<u64>,
}

#[derive(Default)]
struct Numbers {
    next: u64,
    incomplete: BTreeSet<u64>,
}

impl Default for Writes {
    fn default() -> Self {
        Self { state: Mutex::new(&WRITES, Numbers::default()), oldest: watch::Sender::new(0) }
    }
}

/// A write that is not complete.
pub(super) struct Write {
    writes: Arc<Writes>,
    number: u64,
}

impl Writes {
    pub(super) fn begin(self: &Arc<Self>) -> Write {
        let mut state = self.state.lock();
        let number = state.next;
        state.next += 1;
        state.incomplete.insert(number);
        Write { writes: Arc::clone(self), number }
    }

    /// Waits for the writes that have begun before.
    pub(super) fn flushed(self: &Arc<Self>) -> impl Future<Output = ()> + Send + use<> {
        let target = self.state.lock().next;
        let mut oldest = self.oldest.subscribe();
        let writes = Arc::clone(self);
        async move {
            let _ = oldest.wait_for(|oldest| *oldest >= target).await;
            drop(writes);
        }
    }
}

impl Drop for Write {
    fn drop(&mut self) {
        let mut state = self.writes.state.lock();
        state.incomplete.remove(&self.number);
        let oldest = state.incomplete.first().copied().unwrap_or(state.next);
        drop(state);
        // Another thread may have told of a newer one already.
        self.writes.oldest.send_if_modified(|told| {
            let is_newer = oldest > *told;
            *told = oldest.max(*told);
            is_newer
        });
    }
}

calls! {
    /// Opens a pool by its name.
    fn rados_ioctx_create(
        cluster: *mut c_void, name: *const c_char, ioctx: *mut *mut c_void,
    ) -> c_int {
        let client = Client::shared(cluster)?;
        let io = wait(client.rados()?.ioctx(text(name)?))?;
        handle::hand_out(ioctx, Pool::new(client, io))
    }

    /// Opens a pool by its id.
    fn rados_ioctx_create2(cluster: *mut c_void, id: i64, ioctx: *mut *mut c_void) -> c_int {
        let client = Client::shared(cluster)?;
        let rados = client.rados()?;
        pool::wait_for_name(&rados, PoolId(id))?;
        let io = rados.ioctx_by_id(PoolId(id));
        handle::hand_out(ioctx, Pool::new(client, io))
    }

    /// The pool's id.
    fn rados_ioctx_get_id(ioctx: *mut c_void) -> i64 {
        Ok(Pool::of(ioctx)?.io().pool().0)
    }

    /// Copies the pool's name; returns its length.
    fn rados_ioctx_get_pool_name(ioctx: *mut c_void, to: *mut c_char, room: c_uint) -> c_int {
        let io = Pool::of(ioctx)?.owned_io();
        let name = pool::name_of(io.rados(), io.pool()).ok_or(Errno::ENOENT)?;
        Ok(fill_text(to, room.saturating_as::<usize>(), name.as_bytes())?.saturating_as::<c_int>())
    }

    /// Copies the namespace; returns its length.
    fn rados_ioctx_get_namespace(ioctx: *mut c_void, to: *mut c_char, room: c_uint) -> c_int {
        let io = Pool::of(ioctx)?.owned_io();
        Ok(fill_text(to, room.saturating_as::<usize>(), io.namespace())?.saturating_as::<c_int>())
    }

    /// Whether writes must be aligned.
    fn rados_ioctx_pool_requires_alignment2(ioctx: *mut c_void, is_required: *mut c_int) -> c_int {
        let io = Pool::of(ioctx)?.owned_io();
        put(is_required, io.required_alignment().is_some().into());
        Ok(0)
    }

    /// The alignment of writes in bytes; 0 if there is none.
    fn rados_ioctx_pool_required_alignment2(ioctx: *mut c_void, alignment: *mut u64) -> c_int {
        let io = Pool::of(ioctx)?.owned_io();
        put(alignment, io.required_alignment().unwrap_or(0));
        Ok(0)
    }

    /// The older form of `rados_ioctx_pool_requires_alignment2`.
    fn rados_ioctx_pool_requires_alignment(ioctx: *mut c_void) -> c_int {
        Ok(Pool::of(ioctx)?.io().required_alignment().is_some().into())
    }

    /// Pools have no owner any more.
    fn rados_ioctx_pool_set_auid(_ioctx: *mut c_void, _auid: u64) -> c_int {
        Err(Errno::EOPNOTSUPP.into())
    }

    /// Pools have no owner any more.
    fn rados_ioctx_pool_get_auid(_ioctx: *mut c_void, _auid: *mut u64) -> c_int {
        Err(Errno::EOPNOTSUPP.into())
    }
}

/// What writes do from now on if the cluster is full.
///
/// # Safety
/// `ioctx` is a handle that was not destroyed.
unsafe fn when_full(ioctx: *mut c_void, when_full: WhenFull) {
    // SAFETY: by this function's contract.
    if let Ok(pool) = unsafe { Pool::of(ioctx) } {
        pool.change(|io| io.with_when_full(when_full));
    }
}

plain! {
    /// Frees the handle. Operations under way go on.
    fn rados_ioctx_destroy(ioctx: *mut c_void) -> () {
        if !ioctx.is_null() {
            drop(Arc::from_raw(ioctx.cast::<Pool>().cast_const()));
        }
    }

    /// The cluster's handle.
    fn rados_ioctx_get_cluster(ioctx: *mut c_void) -> *mut c_void {
        match Pool::of(ioctx) {
            Ok(pool) => Arc::as_ptr(&pool.client).cast_mut().cast(),
            Err(_) => std::ptr::null_mut(),
        }
    }

    /// The cluster's context: see `rados_cct`.
    fn rados_ioctx_cct(ioctx: *mut c_void) -> *mut c_void {
        match Pool::of(ioctx) {
            Ok(pool) => super::client::Context::of(&pool.client).cast(),
            Err(_) => std::ptr::null_mut(),
        }
    }

    /// The alignment of writes in bytes; 0 if there is none.
    fn rados_ioctx_pool_required_alignment(ioctx: *mut c_void) -> u64 {
        Pool::of(ioctx).ok().and_then(|pool| pool.io().required_alignment()).unwrap_or(0)
    }

    /// The version that the last synchronous operation found.
    fn rados_get_last_version(ioctx: *mut c_void) -> u64 {
        Pool::of(ioctx).map_or(0, |pool| pool.last_version.load(Ordering::Relaxed))
    }

    /// Objects are placed by this key from now on; NULL is by their names.
    fn rados_ioctx_locator_set_key(ioctx: *mut c_void, key: *const c_char) -> () {
        let key = if key.is_null() { &[] } else { crate::memory::bytes(key).unwrap_or_default() };
        if let Ok(pool) = Pool::of(ioctx) {
            pool.change(|io| io.with_locator(key));
        }
    }

    /// Objects are named in this namespace from now on; NULL is the default one.
    fn rados_ioctx_set_namespace(ioctx: *mut c_void, namespace: *const c_char) -> () {
        let len = if namespace.is_null() { 0 } else { libc::strlen(namespace) };
        if let Ok(pool) = Pool::of(ioctx) {
            pool.change(|io| io.with_namespace(range(namespace, len)));
        }
    }

    /// Writes to a full pool fail from now on instead of waiting, unless they free space.
    fn rados_set_pool_full_try(ioctx: *mut c_void) -> () {
        when_full(ioctx, WhenFull::Try);
    }

    /// Writes to a full pool wait again.
    fn rados_unset_pool_full_try(ioctx: *mut c_void) -> () {
        when_full(ioctx, WhenFull::Wait);
    }

    /// The older name of `rados_set_pool_full_try`.
    fn rados_set_osdmap_full_try(ioctx: *mut c_void) -> () {
        when_full(ioctx, WhenFull::Try);
    }

    /// The older name of `rados_unset_pool_full_try`.
    fn rados_unset_osdmap_full_try(ioctx: *mut c_void) -> () {
        when_full(ioctx, WhenFull::Wait);
    }
}

/// Returns the text, or an empty one for NULL.
///
/// # Safety
/// As [`text`].
pub(super) unsafe fn text_or_empty<'a>(pointer: *const c_char) -> Result<&'a str, Fail> {
    // SAFETY: by this function's contract.
    Ok(unsafe { optional_text(pointer) }?.unwrap_or(""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flush_waits_for_the_writes_before_it_and_no_others() {
        let writes = Arc::new(Writes::default());
        let (first, second) = (writes.begin(), writes.begin());
        let flushed = writes.flushed();
        let third = writes.begin();
        drop(second);
        let mut flushed = Box::pin(flushed);
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(flushed.as_mut().poll(&mut context).is_pending());
        drop(first);
        assert!(flushed.as_mut().poll(&mut context).is_ready());
        drop(third);
        wait(writes.flushed());
    }
}
