//! Objects of a pool: `loligo._native.Pool`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use loligo_rados::{
    IoCtx, LockMode, LockOptions, ObjectList, OpCode, OsdOp, ReadOp, SnapId, WhenFull, WriteOptions,
};
use loligo_wire::Name;
use pyo3::prelude::*;
use tokio::sync::Mutex;

use crate::bag::{self, ReadBag, WriteBag};
use crate::border::{Home, Kept, run};
use crate::error::{Failure, What};
use crate::settings::Settings;
use crate::value::{Data, Text, seconds};
use crate::watch::Watch;

/// Objects of a pool in one namespace. It never changes: the methods `with_…` return another one.
#[pyclass(frozen, module = "loligo._native")]
pub(crate) struct Pool {
    pub(crate) io: Kept<IoCtx>,
    pub(crate) settings: Arc<Settings>,
    when_full: WhenFull,
    /// The version of the object that the last operation found.
    version: Arc<AtomicU64>,
}

type Done = Option<Py<PyAny>>;
type Returned = PyResult<Py<PyAny>>;

impl Pool {
    pub(crate) fn new(home: &Arc<Home>, io: IoCtx, settings: Arc<Settings>) -> Self {
        let version = Arc::new(AtomicU64::new(0));
        Self { io: Kept::new(home, io), settings, when_full: WhenFull::Wait, version }
    }

    pub(crate) fn home(&self) -> &Arc<Home> {
        &self.io.home
    }

    /// The same objects, seen otherwise.
    fn with(&self, io: IoCtx, when_full: WhenFull) -> Self {
        let (settings, version) = (Arc::clone(&self.settings), Arc::clone(&self.version));
        Self { io: Kept::new(self.home(), io), settings, when_full, version }
    }

    fn change(&self, py: Python<'_>, verb: &'static str, oid: Text, op: OsdOp, done: Done) -> Returned {
        self.change_all(py, What::rados(verb, &oid.0), oid, vec![op], (0, None), done)
    }

    fn change_all(
        &self,
        py: Python<'_>,
        what: What,
        oid: Text,
        ops: Vec<OsdOp>,
        (flags, mtime): (i32, Option<u64>),
        done: Done,
    ) -> Returned {
        let (io, version) = (self.io.clone(), Arc::clone(&self.version));
        let mtime = mtime.map(|time| UNIX_EPOCH + Duration::from_secs(time));
        let options = WriteOptions { mtime, returning: false, when_full: self.when_full };
        run(py, self.home(), what, done, async move {
            version.store(bag::write(io, oid.0, ops, flags, options).await?, Ordering::Relaxed);
            Ok(())
        })
    }

    /// Executes one operation that reads; returns its output.
    fn ask(&self, py: Python<'_>, verb: &'static str, oid: Text, op: OsdOp, done: Done) -> Returned {
        let (io, version) = (self.io.clone(), Arc::clone(&self.version));
        run(py, self.home(), What::rados(verb, &oid.0), done, async move {
            let outcome = io.execute_read(oid.0, ReadOp::new().op(op)).await?;
            version.store(outcome.version, Ordering::Relaxed);
            if outcome.result < 0 {
                return Err(Failure::of_result(outcome.result));
            }
            Ok(Data(outcome.answers.into_iter().next().unwrap_or_default().data))
        })
    }

    /// Runs another operation of the client's.
    pub(crate) fn run<T, F>(
        &self,
        py: Python<'_>,
        what: What,
        done: Done,
        operation: impl FnOnce(IoCtx) -> F,
    ) -> Returned
    where
        T: for<'py> IntoPyObject<'py> + Send + 'static,
        F: Future<Output = Result<T, Failure>> + Send + 'static,
    {
        run(py, self.home(), what, done, operation(self.io.clone()))
    }
}

/// The methods of Python, each in the two forms of [`run`].
#[pymethods]
impl Pool {
    // Where and how.

    #[getter]
    fn id(&self) -> i64 {
        self.io.pool().0
    }

    #[getter]
    fn last_version(&self) -> u64 {
        self.version.load(Ordering::Relaxed)
    }

    #[getter]
    fn namespace(&self) -> Data {
        Data::from(self.io.namespace())
    }

    /// The size whose multiples appends must have; `None` if any will do.
    #[getter]
    fn alignment(&self) -> Option<u64> {
        self.io.required_alignment()
    }

    fn with_namespace(&self, namespace: Text) -> Self {
        self.with(self.io.with_namespace(namespace.0), self.when_full)
    }

    fn with_locator(&self, key: Text) -> Self {
        self.with(self.io.with_locator(key.0), self.when_full)
    }

    fn with_full_try(&self, is_on: bool) -> Self {
        let when_full = if is_on { WhenFull::Try } else { WhenFull::Wait };
        self.with(self.io.with_when_full(when_full), when_full)
    }

    fn at_snapshot(&self, snapshot: u64) -> Self {
        self.with(self.io.at_snapshot(SnapId(snapshot)), self.when_full)
    }

    /// Writes keep the state for these snapshots, the newest first.
    fn with_snapshots(&self, py: Python<'_>, newest: u64, snapshots: Vec<u64>) -> PyResult<Self> {
        let snapshots: Vec<SnapId> = snapshots.into_iter().map(SnapId).collect();
        let io = self.io.with_snap_context(SnapId(newest), &snapshots);
        let what = What::rados("use these snapshots", b"");
        Ok(self.with(io.map_err(|error| what.error(py, error.into()))?, self.when_full))
    }

    // Data.

    #[pyo3(signature = (oid, offset, len, done=None))]
    fn read(&self, py: Python<'_>, oid: Text, offset: u64, len: u64, done: Done) -> Returned {
        self.ask(py, "read object", oid, OsdOp::read(offset, len), done)
    }

    #[pyo3(signature = (oid, offset, data, done=None))]
    fn write(&self, py: Python<'_>, oid: Text, offset: u64, data: Data, done: Done) -> Returned {
        self.change(py, "write object", oid, OsdOp::write(offset, data.0), done)
    }

    #[pyo3(signature = (oid, data, done=None))]
    fn write_full(&self, py: Python<'_>, oid: Text, data: Data, done: Done) -> Returned {
        self.change(py, "write object", oid, OsdOp::write_full(data.0), done)
    }

    #[pyo3(signature = (oid, data, done=None))]
    fn append(&self, py: Python<'_>, oid: Text, data: Data, done: Done) -> Returned {
        self.change(py, "append to object", oid, OsdOp::append(data.0), done)
    }

    #[pyo3(signature = (oid, offset, len, data, done=None))]
    fn writesame(
        &self,
        py: Python<'_>,
        oid: Text,
        offset: u64,
        len: u64,
        data: Data,
        done: Done,
    ) -> Returned {
        let what = What::rados("write object", &oid.0);
        let op = bag::write_same(offset, len, data.0).map_err(|failure| what.error(py, failure))?;
        self.change_all(py, what, oid, vec![op], (0, None), done)
    }

    #[pyo3(signature = (oid, done=None))]
    fn remove(&self, py: Python<'_>, oid: Text, done: Done) -> Returned {
        self.change(py, "remove object", oid, OsdOp::new(OpCode::DELETE), done)
    }

    #[pyo3(signature = (oid, size, done=None))]
    fn truncate(&self, py: Python<'_>, oid: Text, size: u64, done: Done) -> Returned {
        self.change(py, "truncate object", oid, OsdOp::truncate(size), done)
    }

    /// Returns 0, or the negative number that tells where the object differs.
    #[pyo3(signature = (oid, data, offset, done=None))]
    fn cmpext(&self, py: Python<'_>, oid: Text, data: Data, offset: u64, done: Done) -> Returned {
        self.run(py, What::rados("compare object", &oid.0), done, |io| async move {
            let op = ReadOp::new().op(bag::compare(offset, data.0));
            let outcome = io.execute_read(oid.0, op).await?;
            if outcome.errno().is_some() && outcome.result > -4096 {
                return Err(Failure::of_result(outcome.result));
            }
            Ok(outcome.result)
        })
    }

    /// Returns the size and the seconds since 1970 when the object was changed.
    #[pyo3(signature = (oid, done=None))]
    fn stat(&self, py: Python<'_>, oid: Text, done: Done) -> Returned {
        self.run(py, What::rados("find object", &oid.0), done, |io| async move {
            let stat = io.stat(oid.0).await?;
            Ok((stat.size, seconds(stat.mtime)))
        })
    }

    /// Calls a method of an object class. It may change the object.
    #[pyo3(signature = (oid, class, method, input, done=None))]
    fn execute(
        &self,
        py: Python<'_>,
        oid: Text,
        class: &str,
        method: &str,
        input: Data,
        done: Done,
    ) -> Returned {
        let what = What::rados("call a method of object", &oid.0);
        let op = bag::call(class, method, &input.0).map_err(|failure| what.error(py, failure))?;
        self.ask(py, "call a method of object", oid, op, done)
    }

    /// Executes the operations of a bag.
    #[pyo3(signature = (oid, bag, flags=0, mtime=None, done=None))]
    fn operate(
        &self,
        py: Python<'_>,
        oid: Text,
        bag: &Bound<'_, WriteBag>,
        flags: i32,
        mtime: Option<u64>,
        done: Done,
    ) -> Returned {
        let ops = bag.get().take();
        self.change_all(py, What::rados("change object", &oid.0), oid, ops, (flags, mtime), done)
    }

    /// Executes the reads of a bag; returns their outputs.
    #[pyo3(signature = (oid, bag, flags=0, done=None))]
    fn operate_read(
        &self,
        py: Python<'_>,
        oid: Text,
        bag: &Bound<'_, ReadBag>,
        flags: i32,
        done: Done,
    ) -> Returned {
        let (ops, version) = (bag.get().take(), Arc::clone(&self.version));
        self.run(py, What::rados("read object", &oid.0), done, |io| async move {
            let (outputs, found) = bag::read(io, oid.0, ops, flags).await?;
            version.store(found, Ordering::Relaxed);
            Ok(outputs)
        })
    }

    // Attributes.

    #[pyo3(signature = (oid, name, done=None))]
    fn xattr(&self, py: Python<'_>, oid: Text, name: Text, done: Done) -> Returned {
        self.ask(py, "read an attribute of object", oid, bag::xattr(OpCode::GETXATTR, &name.0, b""), done)
    }

    #[pyo3(signature = (oid, name, value, done=None))]
    fn set_xattr(&self, py: Python<'_>, oid: Text, name: Text, value: Data, done: Done) -> Returned {
        let op = bag::xattr(OpCode::SETXATTR, &name.0, &value.0);
        self.change(py, "set an attribute of object", oid, op, done)
    }

    #[pyo3(signature = (oid, name, done=None))]
    fn rm_xattr(&self, py: Python<'_>, oid: Text, name: Text, done: Done) -> Returned {
        let op = bag::xattr(OpCode::RMXATTR, &name.0, b"");
        self.change(py, "remove an attribute of object", oid, op, done)
    }

    #[pyo3(signature = (oid, done=None))]
    fn xattrs(&self, py: Python<'_>, oid: Text, done: Done) -> Returned {
        self.run(py, What::rados("read the attributes of object", &oid.0), done, |io| async move {
            let found = io.xattrs(oid.0).await?;
            Ok(found.into_iter().map(|(name, value)| (Data(name.into()), Data(value))).collect::<Vec<_>>())
        })
    }

    // Snapshots of the pool, and those that the program manages.

    #[pyo3(signature = (name, done=None))]
    fn create_snap(&self, py: Python<'_>, name: Text, done: Done) -> Returned {
        self.run(py, What::rados("create snapshot", &name.0), done, |io| async move {
            Ok(io.create_snapshot(name.0).await?)
        })
    }

    #[pyo3(signature = (name, done=None))]
    fn remove_snap(&self, py: Python<'_>, name: Text, done: Done) -> Returned {
        self.run(py, What::rados("remove snapshot", &name.0), done, |io| async move {
            Ok(io.remove_snapshot(name.0).await?)
        })
    }

    /// Returns ids, names, and seconds since 1970.
    fn snaps(&self, py: Python<'_>) -> PyResult<Vec<(u64, Data, f64)>> {
        let found = self.io.snapshots();
        let found = found.map_err(|error| What::rados("list the snapshots", b"").error(py, error.into()))?;
        Ok(found.into_iter().map(|snap| (snap.id.0, Data(snap.name.into()), seconds(snap.made))).collect())
    }

    #[pyo3(signature = (oid, snapshot, done=None))]
    fn rollback(&self, py: Python<'_>, oid: Text, snapshot: u64, done: Done) -> Returned {
        self.change(py, "roll back object", oid, OsdOp::rollback(SnapId(snapshot)), done)
    }

    #[pyo3(signature = (done=None))]
    fn create_managed_snap(&self, py: Python<'_>, done: Done) -> Returned {
        self.run(py, What::rados("create a snapshot", b""), done, |io| async move {
            Ok(io.create_managed_snapshot().await?.0)
        })
    }

    #[pyo3(signature = (snapshot, done=None))]
    fn remove_managed_snap(&self, py: Python<'_>, snapshot: u64, done: Done) -> Returned {
        self.run(py, What::rados("remove a snapshot", b""), done, |io| async move {
            Ok(io.remove_managed_snapshot(SnapId(snapshot)).await?)
        })
    }

    // Locks, watches, lists, applications.

    #[pyo3(signature = (oid, name, cookie, shared, tag, description, duration, renew, must, done=None))]
    #[allow(clippy::too_many_arguments, reason = "as in librados; the package gives them names")]
    fn lock(
        &self,
        py: Python<'_>,
        oid: Text,
        name: Text,
        cookie: Text,
        shared: bool,
        tag: Text,
        description: Text,
        duration: Option<f64>,
        renew: bool,
        must: bool,
        done: Done,
    ) -> Returned {
        let duration = duration.map(|seconds| Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX));
        let options = LockOptions {
            cookie: Name::from(cookie.0),
            tag: Name::from(tag.0),
            description: Name::from(description.0),
            duration: duration.filter(|duration| !duration.is_zero()),
            renew,
        };
        let mode = if shared { LockMode::Shared } else { LockMode::Exclusive };
        self.run(py, What::rados("lock object", &oid.0), done, |io| async move {
            if must {
                io.renew_lock(oid.0, name.0, mode, &options).await?;
            } else {
                io.lock(oid.0, name.0, mode, &options).await?;
            }
            Ok(())
        })
    }

    #[pyo3(signature = (oid, name, cookie, done=None))]
    fn unlock(&self, py: Python<'_>, oid: Text, name: Text, cookie: Text, done: Done) -> Returned {
        self.run(py, What::rados("unlock object", &oid.0), done, |io| async move {
            Ok(io.unlock(oid.0, name.0, cookie.0).await?)
        })
    }

    /// Watches an object: `tell(notify, notifier, watch, data)` returns the answer, and `fail(watch, errno)`.
    #[pyo3(signature = (oid, timeout, tell, fail, done=None))]
    fn watch(
        &self,
        py: Python<'_>,
        oid: Text,
        timeout: u32,
        tell: Py<PyAny>,
        fail: Option<Py<PyAny>>,
        done: Done,
    ) -> Returned {
        let home = Arc::clone(self.home());
        self.run(py, What::rados("watch object", &oid.0), done, |io| async move {
            let watch = io.watch(oid.0.clone(), Duration::from_secs(timeout.into())).await?;
            Ok(Watch::start(&home, watch, &oid.0, tell, fail))
        })
    }

    /// Notifies watchers; returns the answers and who did not answer: `[(client, cookie, data)]`,
    /// `[(client, cookie)]`.
    #[pyo3(signature = (oid, data, timeout, done=None))]
    fn notify(&self, py: Python<'_>, oid: Text, data: Data, timeout: u64, done: Done) -> Returned {
        self.run(py, What::rados("notify the watchers of object", &oid.0), done, |io| async move {
            let notified = io.notify(oid.0, data.0, Duration::from_secs(timeout)).await?;
            let answers = notified.answers.into_iter();
            let answers: Vec<_> = answers.map(|(id, data)| (id.client.0, id.cookie, Data(data))).collect();
            let missing: Vec<_> = notified.missing.iter().map(|id| (id.client.0, id.cookie)).collect();
            Ok((answers, missing))
        })
    }

    /// Lists objects, of all namespaces if that is asked for.
    fn objects(&self, all_namespaces: bool) -> Objects {
        let list = if all_namespaces { self.io.objects_of_all_namespaces() } else { self.io.objects() };
        Objects { list: Arc::new(Kept::new(self.home(), Mutex::new(list))) }
    }

    #[pyo3(signature = (name, force, done=None))]
    fn application_enable(&self, py: Python<'_>, name: String, force: bool, done: Done) -> Returned {
        self.run(py, What::rados("enable application", name.as_bytes()), done, |io| async move {
            Ok(io.enable_application(&name, force).await?)
        })
    }

    #[pyo3(signature = (done=None))]
    fn applications(&self, py: Python<'_>, done: Done) -> Returned {
        self.run(py, What::rados("list the applications", b""), done, |io| async move {
            Ok(io.applications().await?)
        })
    }

    #[pyo3(signature = (name, done=None))]
    fn application_metadata(&self, py: Python<'_>, name: String, done: Done) -> Returned {
        let what = What::rados("read the metadata of application", name.as_bytes());
        self.run(py, what, done, |io| async move {
            Ok(io.application_metadata(&name).await?.into_iter().collect::<Vec<_>>())
        })
    }

    #[pyo3(signature = (name, key, value, done=None))]
    fn set_application_metadata(
        &self,
        py: Python<'_>,
        name: String,
        key: String,
        value: String,
        done: Done,
    ) -> Returned {
        let what = What::rados("set metadata of application", name.as_bytes());
        self.run(
            py,
            what,
            done,
            |io| async move { Ok(io.set_application_metadata(&name, &key, &value).await?) },
        )
    }

    #[pyo3(signature = (name, key, done=None))]
    fn remove_application_metadata(&self, py: Python<'_>, name: String, key: String, done: Done) -> Returned {
        let what = What::rados("remove metadata of application", name.as_bytes());
        self.run(py, what, done, |io| async move { Ok(io.remove_application_metadata(&name, &key).await?) })
    }
}

/// A list of objects, which is read piece by piece.
#[pyclass(frozen, module = "loligo._native")]
pub(crate) struct Objects {
    list: Arc<Kept<Mutex<ObjectList>>>,
}

#[pymethods]
impl Objects {
    /// Returns some objects: `[(name, locator, namespace)]`; none at the end.
    #[pyo3(signature = (done=None))]
    fn next_batch(&self, py: Python<'_>, done: Done) -> Returned {
        let list = Arc::clone(&self.list);
        run(py, &self.list.home, What::rados("list objects", b""), done, async move {
            let batch = list.lock().await.next_batch().await?;
            let object = |object: loligo_rados::ListedObject| {
                (Data(object.oid.into()), Data(object.locator.into()), Data(object.nspace.into()))
            };
            Ok(batch.into_iter().map(object).collect::<Vec<_>>())
        })
    }
}
