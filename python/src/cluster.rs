//! A cluster: configuration, connection, pools, commands: `loligo._native.Client`.

use std::collections::BTreeMap;
use std::net::{IpAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use loligo_conf::Conf;
use loligo_lockstat::{Class, Mutex};
use loligo_rados::{Builder, EntityName, LogEntry, OsdId, PgId, PoolId, Rados};
use loligo_wire::Errno;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use tokio::task::JoinHandle;

use crate::border::{Home, Kept, call_back, run};
use crate::error::{Failure, What};
use crate::pool::Pool;
use crate::settings::Settings;
use crate::value::{Data, Text};

static LOG: Class = Class::new("python.log");

type Done = Option<Py<PyAny>>;
type Returned = PyResult<Py<PyAny>>;

/// A client of a cluster.
#[pyclass(frozen, module = "loligo._native")]
pub(crate) struct Client {
    settings: Arc<Settings>,
    log: Mutex<Option<Kept<JoinHandle<()>>>>,
}

impl Client {
    fn connected(&self, py: Python<'_>, what: &What) -> PyResult<Arc<Kept<Rados>>> {
        self.settings.rados().map_err(|failure| what.error(py, failure))
    }

    /// Runs an operation of the connected client.
    fn run<T, F>(
        &self,
        py: Python<'_>,
        what: What,
        done: Done,
        operation: impl FnOnce(Rados) -> F,
    ) -> Returned
    where
        T: for<'py> IntoPyObject<'py> + Send + 'static,
        F: Future<Output = Result<T, Failure>> + Send + 'static,
    {
        let rados = self.connected(py, &what)?;
        run(py, &rados.home, what, done, operation(Rados::clone(&rados)))
    }
}

#[pymethods]
impl Client {
    /// A client that is not connected, with the settings of the environment only.
    #[new]
    #[pyo3(signature = (name, cluster=None))]
    fn new(py: Python<'_>, name: &str, cluster: Option<String>) -> PyResult<Self> {
        let what = What::rados("use the name", name.as_bytes());
        let name: Result<EntityName, _> = name.parse();
        let name = name.map_err(|_| what.error(py, Failure::new(Errno::EINVAL, "it is no TYPE.ID")))?;
        let settings = Settings::new(cluster, name).map_err(|error| what.error(py, error.into()))?;
        Ok(Self { settings: Arc::new(settings), log: Mutex::new(&LOG, None) })
    }

    // Configuration.

    /// Reads a file under the settings that were made; without a path the usual ones.
    fn read_file(&self, py: Python<'_>, path: Option<&str>) -> PyResult<()> {
        let read = self.settings.configure(|options| {
            options.no_config_file = false;
            options.conf_file = path.map(str::to_owned);
            Ok(())
        });
        let what = What::rados("read the configuration file", path.unwrap_or_default().as_bytes());
        read.map_err(|error| what.error(py, error.into()))?;
        if !self.settings.has_file() {
            return Err(what.error(py, Failure::new(Errno::ENOENT, "there is none")));
        }
        Ok(())
    }

    /// Takes the words that are options; returns those that are not.
    fn parse_words(&self, py: Python<'_>, words: Vec<String>) -> PyResult<Vec<String>> {
        let left = self.settings.configure(|options| {
            let mut left = words.clone();
            options.take(&mut left, |_| false)?;
            Ok(left)
        });
        left.map_err(|error| What::rados("read the options", b"").error(py, error.into()))
    }

    fn conf_get(&self, option: &str) -> Option<String> {
        self.settings.get(option)
    }

    fn conf_set(&self, py: Python<'_>, option: &str, value: &str) -> PyResult<()> {
        let set = self.settings.set(option, value);
        set.map_err(|failure| What::rados("set the option", option.as_bytes()).error(py, failure))
    }

    // The connection.

    #[pyo3(signature = (done=None))]
    fn connect(&self, py: Python<'_>, done: Done) -> Returned {
        let home = Home::get()?;
        let (settings, kept_by) = (Arc::clone(&self.settings), Arc::clone(&home));
        let what = What::rados("connect to the cluster", b"");
        run(py, &home, what, done, async move {
            if settings.rados.load().is_some() {
                return Err(Failure::new(Errno::EISCONN, "the client is connected"));
            }
            let rados = Builder::new().conf(settings.conf()).connect().await?;
            settings.rados.store(Some(Arc::new(Kept::new(&kept_by, rados))));
            Ok(())
        })
    }

    /// Ends the client. Operations under way fail.
    #[pyo3(signature = (done=None))]
    fn shutdown(&self, py: Python<'_>, done: Done) -> Returned {
        if let Some(log) = self.log.lock().take() {
            log.abort();
        }
        let home = Home::get()?;
        // In a child after `fork` there is nothing to end.
        let rados = self.settings.rados.swap(None).filter(|rados| rados.home.is_here());
        run(py, &home, What::rados("end the client", b""), done, async move {
            if let Some(rados) = rados {
                rados.shutdown().await;
            }
            Ok(())
        })
    }

    #[getter]
    fn is_connected(&self) -> bool {
        self.settings.rados.load().is_some()
    }

    // The cluster.

    fn fsid(&self, py: Python<'_>) -> PyResult<String> {
        Ok(self.connected(py, &What::rados("find the cluster's id", b""))?.fsid().to_string())
    }

    fn instance_id(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.connected(py, &What::rados("find the client's id", b""))?.instance_id().0)
    }

    /// This client's address as the blocklist has it.
    fn address(&self, py: Python<'_>) -> PyResult<String> {
        let what = What::rados("find the client's address", b"");
        let rados = self.connected(py, &what)?;
        own_address(&rados, &self.settings.conf()).map_err(|failure| what.error(py, failure))
    }

    /// Returns sizes in KiB and a number: all, used, free, objects.
    #[pyo3(signature = (done=None))]
    fn statfs(&self, py: Python<'_>, done: Done) -> Returned {
        self.run(py, What::rados("read the cluster's space", b""), done, |rados| async move {
            let found = rados.statfs().await?;
            Ok((found.kb, found.kb_used, found.kb_avail, found.num_objects))
        })
    }

    #[pyo3(signature = (done=None))]
    fn wait_for_latest_osdmap(&self, py: Python<'_>, done: Done) -> Returned {
        self.run(py, What::rados("wait for the newest map", b""), done, |rados| async move {
            Ok(rados.wait_for_latest_osdmap().await?)
        })
    }

    #[pyo3(signature = (address, seconds, done=None))]
    fn blocklist_add(&self, py: Python<'_>, address: String, seconds: u64, done: Done) -> Returned {
        let what = What::rados("block the client", address.as_bytes());
        self.run(py, what, done, |rados| async move {
            let lasting = (seconds > 0).then(|| Duration::from_secs(seconds));
            Ok(rados.block(&address, lasting).await?)
        })
    }

    /// Sends a command; returns its result, output and status text. The target is `mon`, `mon.NAME` (the
    /// session's monitor answers), `mgr`, `mgr.NAME`, `osd.NUMBER` or `pg.ID`.
    #[pyo3(signature = (target, command, input, done=None))]
    fn command(&self, py: Python<'_>, target: &str, command: Text, input: Data, done: Done) -> Returned {
        let what = What::rados("send a command to", target.as_bytes());
        let target = Target::of(target).ok_or_else(|| PyValueError::new_err("no such target"))?;
        self.run(py, what, done, |rados| async move {
            let reply = target.ask(&rados, vec![Bytes::from(command.0)], input.0).await?;
            Ok((reply.result, Data(reply.output), reply.status))
        })
    }

    // Pools.

    fn pools(&self, py: Python<'_>) -> PyResult<Vec<(i64, String)>> {
        let rados = self.connected(py, &What::rados("list the pools", b""))?;
        Ok(rados.pools().into_iter().map(|(id, name)| (id.0, name)).collect())
    }

    #[pyo3(signature = (name, done=None))]
    fn pool_id(&self, py: Python<'_>, name: String, done: Done) -> Returned {
        self.run(py, What::rados("find pool", name.as_bytes()), done, |rados| async move {
            Ok(rados.pool_id(&name).await?.0)
        })
    }

    /// Returns the pool's name, `None` if there is no such pool.
    #[pyo3(signature = (id, done=None))]
    fn pool_name(&self, py: Python<'_>, id: i64, done: Done) -> Returned {
        self.run(py, What::rados("find a pool", b""), done, |rados| async move {
            if let Some(name) = name_of(&rados, PoolId(id)) {
                return Ok(Some(name));
            }
            rados.wait_for_latest_osdmap().await?;
            Ok(name_of(&rados, PoolId(id)))
        })
    }

    #[pyo3(signature = (name, done=None))]
    fn create_pool(&self, py: Python<'_>, name: String, done: Done) -> Returned {
        self.run(py, What::rados("create pool", name.as_bytes()), done, |rados| async move {
            // The monitors accept a second creation.
            if rados.pools().iter().any(|(_, known)| *known == name) {
                return Err(Errno::EEXIST.into());
            }
            Ok(rados.create_pool(&name).await?.0)
        })
    }

    #[pyo3(signature = (name, done=None))]
    fn delete_pool(&self, py: Python<'_>, name: String, done: Done) -> Returned {
        self.run(py, What::rados("remove pool", name.as_bytes()), done, |rados| async move {
            Ok(rados.delete_pool(&name).await?)
        })
    }

    #[pyo3(signature = (id, done=None))]
    fn base_tier(&self, py: Python<'_>, id: i64, done: Done) -> Returned {
        self.run(py, What::rados("find a pool", b""), done, |rados| async move {
            rados.wait_for_latest_osdmap().await?;
            Ok(rados.base_tier(PoolId(id)).ok_or(Errno::ENOENT)?.0)
        })
    }

    /// Returns the pool's statistics by name.
    #[pyo3(signature = (name, done=None))]
    fn pool_stats(&self, py: Python<'_>, name: String, done: Done) -> Returned {
        let what = What::rados("read the statistics of pool", name.as_bytes());
        self.run(py, what, done, |rados| async move {
            let found = rados.pool_stats(&[&name]).await?;
            let (_, stat) = found.first().ok_or(Errno::ENOENT)?;
            // What the stores of all copies use, if they tell it.
            let is_told = stat.num_store_stats > 0;
            let bytes = if is_told { stat.store_stats.allocated } else { stat.sum.num_bytes };
            let sum = &stat.sum;
            Ok(BTreeMap::from([
                ("num_bytes", bytes),
                ("num_objects", sum.num_objects),
                ("num_object_clones", sum.num_object_clones),
                ("num_object_copies", sum.num_object_copies),
                ("num_objects_missing_on_primary", sum.num_objects_missing_on_primary),
                ("num_objects_unfound", sum.num_objects_unfound),
                ("num_objects_degraded", sum.num_objects_degraded),
                ("num_rd", sum.num_rd),
                ("num_rd_kb", sum.num_rd_kb),
                ("num_wr", sum.num_wr),
                ("num_wr_kb", sum.num_wr_kb),
            ]))
        })
    }

    /// Opens a pool by its name. Returns a future's result if `done` is given.
    #[pyo3(signature = (name, done=None))]
    fn open(&self, py: Python<'_>, name: String, done: Done) -> Returned {
        let settings = Arc::clone(&self.settings);
        let home = Arc::clone(&self.connected(py, &What::rados("open pool", name.as_bytes()))?.home);
        self.run(py, What::rados("open pool", name.as_bytes()), done, |rados| async move {
            Ok(Pool::new(&home, rados.ioctx(&name).await?, settings))
        })
    }

    /// Opens a pool by its id, which need not be that of a pool.
    fn open_by_id(&self, py: Python<'_>, id: i64) -> PyResult<Pool> {
        let rados = self.connected(py, &What::rados("open a pool", b""))?;
        Ok(Pool::new(&rados.home, rados.ioctx_by_id(PoolId(id)), Arc::clone(&self.settings)))
    }

    // Services, the log.

    fn register_service(
        &self,
        py: Python<'_>,
        service: &str,
        daemon: &str,
        metadata: BTreeMap<String, String>,
    ) -> PyResult<()> {
        let what = What::rados("register as a daemon of service", service.as_bytes());
        let registered = self.connected(py, &what)?.register_service(service, daemon, metadata);
        registered.map_err(|error| what.error(py, error.into()))
    }

    fn update_service(&self, py: Python<'_>, status: BTreeMap<String, String>) -> PyResult<()> {
        let what = What::rados("update the service's status", b"");
        let updated = self.connected(py, &what)?.update_service_status(status);
        updated.map_err(|error| what.error(py, error.into()))
    }

    /// Has `tell` called with the cluster's log from now on, or with `None` no longer: `tell(line, channel,
    /// who, name, seconds, nanoseconds, number, level, text)`.
    fn log(&self, py: Python<'_>, level: &str, tell: Option<Py<PyAny>>) -> PyResult<()> {
        let what = What::rados("follow the cluster's log", b"");
        let rados = self.connected(py, &what)?;
        rados.home.expect_here().map_err(|failure| what.error(py, failure))?;
        let before = self.log.lock().take();
        if let Some(task) = before {
            task.abort();
            // The subscription ends with the task.
            let _ = rados.home.wait(py, task.into_inner())?;
        }
        let Some(tell) = tell else { return Ok(()) };
        let level = log_level(level).ok_or_else(|| PyValueError::new_err("no such level of a log"))?;
        let mut entries = rados.cluster_log(level).map_err(|error| what.error(py, error.into()))?;
        let (home, tell) = (Arc::clone(&rados.home), Arc::new(tell));
        let task = rados.home.runtime.spawn(async move {
            // One entry at a time: those that come meanwhile wait in the bounded queue of the subscription.
            while let Some(entry) = entries.recv().await {
                let tell = Arc::clone(&tell);
                let told = home.events.ask(move |py| drop(call_back(py, &tell, told_of(&entry))));
                if told.await.is_none() {
                    return;
                }
            }
        });
        *self.log.lock() = Some(Kept::new(&rados.home, task));
        Ok(())
    }
}

/// Whom a command is for.
enum Target {
    Monitors,
    Monitor,
    Manager,
    ManagerItself(String),
    Osd(OsdId),
    Pg(PgId),
}

impl Target {
    fn of(text: &str) -> Option<Self> {
        let (kind, name) = text.split_once('.').unwrap_or((text, ""));
        Some(match (kind, name) {
            ("mon", "") => Self::Monitors,
            ("mon", _) => Self::Monitor,
            ("mgr", "") => Self::Manager,
            ("mgr", name) => Self::ManagerItself(name.to_owned()),
            ("osd", name) => Self::Osd(OsdId(name.parse().ok()?)),
            ("pg", name) => Self::Pg(name.parse().ok()?),
            _ => return None,
        })
    }

    async fn ask(
        self,
        rados: &Rados,
        words: Vec<Bytes>,
        input: Bytes,
    ) -> Result<loligo_rados::CommandReply, loligo_rados::Error> {
        match self {
            Self::Monitors => rados.ask_monitors(words, input).await,
            Self::Monitor => rados.ask_monitor_itself(words, input).await,
            Self::Manager => rados.ask_manager(words, input).await,
            Self::ManagerItself(name) => rados.ask_manager_itself(Some(&name), words, input).await,
            Self::Osd(osd) => rados.ask_osd(osd, words, input).await,
            Self::Pg(pg) => rados.ask_pg(pg, words, input).await,
        }
    }
}

/// The name of a pool.
pub(crate) fn name_of(rados: &Rados, pool: PoolId) -> Option<String> {
    rados.pools().into_iter().find(|(id, _)| *id == pool).map(|(_, name)| name)
}

/// The name of a level as the monitors have it.
fn log_level(name: &str) -> Option<&'static str> {
    Some(match name {
        "debug" => "log-debug",
        "info" => "log-info",
        "warn" | "warning" => "log-warn",
        "err" | "error" => "log-error",
        "sec" => "log-sec",
        _ => return None,
    })
}

type Told = (String, String, String, String, u64, u32, u64, &'static str, String);

/// An entry of the log as callbacks get it.
fn told_of(entry: &LogEntry) -> Told {
    let since = entry.stamp.to_system().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let level = match entry.prio {
        0 => "[DBG]",
        1 => "[INF]",
        2 => "[SEC]",
        3 => "[WRN]",
        4 => "[ERR]",
        _ => "[???]",
    };
    let line = format!("{} {} {level} {}", since.as_secs_f64(), entry.name, entry.message);
    let (channel, who, name) = (entry.channel.clone(), entry.rank.to_string(), entry.name.to_string());
    let (seconds, nanoseconds) = (since.as_secs(), since.subsec_nanos());
    (line, channel, who, name, seconds, nanoseconds, entry.seq, level, entry.message.clone())
}

/// The address with which other daemons know this client: that of the way to the monitors, with the
/// client's nonce.
fn own_address(rados: &Rados, conf: &Conf) -> Result<String, Failure> {
    let hosts = conf.mon_hosts()?;
    let local = hosts.iter().flatten().find_map(|mon| {
        // No packet is sent: the kernel only chooses the local address.
        let family = if mon.host.contains(':') { "[::]:0" } else { "0.0.0.0:0" };
        let socket = UdpSocket::bind(family).ok()?;
        socket.connect((mon.host.as_str(), mon.port)).ok()?;
        Some(socket.local_addr().ok()?.ip())
    });
    let nonce = rados.cluster().nonce();
    match local.ok_or(Errno::EADDRNOTAVAIL)? {
        IpAddr::V4(ip) => Ok(format!("{ip}:0/{nonce}")),
        IpAddr::V6(ip) => Ok(format!("[{ip}]:0/{nonce}")),
    }
}
