//! Connects a command to its cluster and pool.

use std::fmt;
use std::time::Duration;

use loligo_conf::Conf;
use loligo_rados::{Builder, Errno, IoCtx, Rados, SnapId, Waits};
use tokio::runtime::Runtime;

use crate::admin::Observed;
use crate::failure::{Context, Failure};
use crate::format::Format;
use crate::name::Name;
use crate::options::Options;
use crate::{log, waits};

/// The cluster and pool that the command line names, before a connection is made.
pub(crate) struct Client {
    builder: Builder,
    pool: Option<String>,
    namespace: Name,
    snap: Option<Name>,
    snap_id: Option<u64>,
    /// Creates the pool first.
    create: bool,
    locator: Option<Name>,
    observed: Option<Observed>,
    pub(crate) format: Format,
}

/// A pool of a connected cluster.
pub(crate) struct Pool {
    pub(crate) rados: Rados,
    pub(crate) ioctx: IoCtx,
    /// The pool's name, for messages.
    pub(crate) name: String,
    pub(crate) format: Format,
}

/// Prints warnings about a configuration that is usable all the same.
fn warn(conf: &Conf) {
    conf.warnings().iter().chain(&conf.keyring_warnings()).for_each(|warning| eprintln!("loligo: {warning}"));
}

/// Prints warnings about the configuration, and switches to the user that it names.
pub(crate) fn prepare(conf: &Conf) -> Result<(), Failure> {
    warn(conf);
    crate::user::become_configured(conf)
}

impl Client {
    pub(crate) fn new(builder: Builder, options: &Options) -> Result<Self, Failure> {
        let Options { pool, namespace, snap, .. } = options;
        let format = options.format.of_client(options.pretty_format);
        let format =
            format.ok_or_else(|| Failure::new("--format", "a cluster's answers have no such form"))?;
        let (pool, namespace, snap) = (pool.last().cloned(), namespace.clone(), snap.clone());
        let (locator, snap_id, create) = (options.object_locator.clone(), options.snapid, options.create);
        Ok(Self { builder, pool, namespace, snap, snap_id, create, locator, observed: None, format })
    }

    /// Returns the client with `observed` set, so that an admin socket shows its operations in flight.
    pub(crate) fn observed(self, observed: Option<Observed>) -> Self {
        Self { observed, ..self }
    }

    /// Returns the pool, namespace and snapshot that the command line names.
    pub(crate) fn place(&self) -> (Option<&str>, &Name, Option<&Name>) {
        (self.pool.as_deref(), &self.namespace, self.snap.as_ref())
    }

    /// Loads the configuration, without the settings that come from a cluster.
    pub(crate) fn conf(&self) -> Result<Conf, Failure> {
        self.builder.load().context(|| "connect".to_owned())
    }

    pub(crate) async fn cluster(self) -> Result<Rados, Failure> {
        let waits = Waits::default();
        waits::tell(waits.clone());
        let conf = self.conf()?;
        let rados = self.builder.waits(&waits).connect().await.context(|| "connect".to_owned())?;
        log::follow(&conf, &rados)?;
        if let Some(observed) = self.observed {
            // A command connects once.
            let _ = observed.set(rados.observe());
        }
        Ok(rados)
    }

    pub(crate) async fn pool(self) -> Result<Pool, Failure> {
        let name =
            self.pool.clone().ok_or_else(|| Failure::new("pool", "not given; name it with -p POOL"))?;
        let (namespace, snap, format) = (self.namespace.clone(), self.snap.clone(), self.format);
        let locator = self.locator.as_ref().map_or(&[][..], Name::as_bytes).to_vec();
        let (snap_id, create) = (self.snap_id, self.create);
        let rados = self.cluster().await?;
        if create {
            make_pool(&rados, &name).await?;
        }
        let ioctx = rados.ioctx(&name).await.context(|| format!("open pool {name}"))?;
        let mut ioctx = ioctx.with_namespace(namespace.as_bytes()).with_locator(locator);
        if let Some(snap) = snap {
            let what = || format!("open snapshot {snap} of pool {name}");
            let id = ioctx.snapshot(&snap).context(what)?.id;
            ioctx = ioctx.at_snapshot(id);
        }
        if let Some(id) = snap_id {
            let all = ioctx.snapshots().context(|| format!("list snapshots of pool {name}"))?;
            if all.iter().all(|known| known.id.0 != id) {
                let what = format!("open snapshot {id} of pool {name}");
                return Err(Failure::of(Errno::ENOENT, what, "there is no snapshot of this number"));
            }
            ioctx = ioctx.at_snapshot(SnapId(id));
        }
        Ok(Pool { rados, ioctx, name, format })
    }
}

impl Client {
    /// Runs `work` in the pool, which `work` may change, and disconnects.
    pub(crate) fn in_pool(
        self,
        work: impl AsyncFnOnce(&mut Pool) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        runtime(1)?.block_on(async {
            let mut pool = self.pool().await?;
            let done = work(&mut pool).await;
            pool.rados.shutdown().await;
            done
        })
    }
}

/// Creates a pool. A pool that exists is an error, as for stock programs.
async fn make_pool(rados: &Rados, name: &str) -> Result<(), Failure> {
    let what = || format!("create pool {name}");
    if rados.pool_id(name).await.is_ok() {
        return Err(Failure::of(Errno::EEXIST, what(), "it is there already"));
    }
    rados.create_pool(name).await.map(drop).context(what)
}

impl Pool {
    /// Names a command and its object, for messages.
    pub(crate) fn names(&self, command: &str, object: &(impl fmt::Display + ?Sized)) -> String {
        format!("{command} {}/{object}", self.name)
    }
}

/// Creates a runtime. With one thread it is a current-thread runtime, so no work moves between threads.
pub(crate) fn runtime(threads: usize) -> Result<Runtime, Failure> {
    let mut builder = match threads {
        0 | 1 => tokio::runtime::Builder::new_current_thread(),
        n => {
            let mut builder = tokio::runtime::Builder::new_multi_thread();
            builder.worker_threads(n);
            builder
        }
    };
    builder.enable_all().build().context(|| "start threads".to_owned())
}

/// How long a thread for work that may block is kept when it has nothing to do.
const IDLE_MAX: Duration = Duration::from_secs(1);

/// Creates a runtime with this number of threads, in addition to the thread that starts it. A thread
/// calls `before_sleep` before it parks.
pub(crate) fn workers(
    threads: usize,
    before_sleep: impl Fn() + Send + Sync + 'static,
) -> Result<Runtime, Failure> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(threads.max(1)).on_thread_park(before_sleep).thread_keep_alive(IDLE_MAX);
    builder.enable_all().build().context(|| "start threads".to_owned())
}
