//! The handle of a cluster, `rados_t`.

use std::collections::{BTreeMap, HashMap};
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwapOption;
use loligo_conf::{Conf, ConfError, Environment, Options};
use loligo_lockstat::{Class, Mutex};
use loligo_rados::{Builder, EntityName, Rados};
use loligo_wire::Errno;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::watch_info::WatchEntry;
use crate::border::Fail;
use crate::handle;
use crate::runtime::wait;
use crate::strand::Strand;

static SETTINGS: Class = Class::new("capi.settings");
static WATCHES: Class = Class::new("capi.watches");
static SERVICE: Class = Class::new("capi.service");
static LOG: Class = Class::new("capi.log");

const NEW: u8 = 0;
const CONNECTING: u8 = 1;
const CONNECTED: u8 = 2;

/// A cluster handle. A pool's handle keeps it alive, so one that outlives `rados_shutdown` fails instead
/// of touching freed memory.
pub(crate) struct Client {
    settings: Mutex<Settings>,
    phase: AtomicU8,
    rados: ArcSwapOption<Rados>,
    /// Callbacks of completions.
    pub(crate) strand: Arc<Strand>,
    /// Callbacks of watches.
    pub(crate) watch_strand: Arc<Strand>,
    pub(crate) watches: Mutex<HashMap<u64, Arc<WatchEntry>>>,
    /// A service that was registered before the client connected.
    pub(super) service: Mutex<Option<Service>>,
    /// The task that delivers the cluster's log.
    pub(super) log: Mutex<Option<LogListener>>,
    /// When the newest entry was written that was told of, in nanoseconds since 1970.
    pub(super) log_told: Arc<AtomicU64>,
    /// Operations whose completions are outstanding.
    underway: watch::Sender<usize>,
    /// What `rados_cct` gave.
    pub(super) context: OnceLock<Box<Context>>,
}

/// The callback that is told of the cluster's log.
pub(super) struct LogListener {
    pub(super) task: JoinHandle<()>,
    /// Whether entries that were received are still to be told of.
    pub(super) wanted: Arc<AtomicBool>,
}

/// The configuration, and what it is made of.
#[derive(Clone)]
struct Settings {
    options: Options,
    environment: Environment,
    conf: Conf,
    /// How many changes were made.
    changes: u64,
}

/// A daemon of a service: its name and id, metadata, and status.
#[derive(Clone)]
pub(super) struct Service {
    pub(super) name: String,
    pub(super) daemon: String,
    pub(super) metadata: BTreeMap<String, String>,
    pub(super) status: Option<BTreeMap<String, String>>,
}

impl Client {
    /// Creates a handle that is not connected, with the settings of the environment only.
    pub(super) fn new(cluster: Option<String>, name: EntityName) -> Result<Self, Fail> {
        // CEPH_ARGS is read by rados_conf_parse_env, not earlier.
        let environment = Environment { args: None, ..Environment::current() };
        let options = Options { cluster, name: Some(name), no_config_file: true, ..Options::default() };
        let conf = Conf::load(&options, environment.clone()).map_err(conf_fail)?;
        Ok(Self {
            settings: Mutex::new(&SETTINGS, Settings { options, environment, conf, changes: 0 }),
            phase: AtomicU8::new(NEW),
            rados: ArcSwapOption::empty(),
            strand: Strand::new(),
            watch_strand: Strand::new(),
            watches: Mutex::new(&WATCHES, HashMap::new()),
            service: Mutex::new(&SERVICE, None),
            log: Mutex::new(&LOG, None),
            log_told: Arc::default(),
            underway: watch::Sender::new(0),
            context: OnceLock::new(),
        })
    }

    /// Returns the handle behind the program's pointer.
    ///
    /// # Safety
    /// The pointer is a handle that was not shut down.
    pub(crate) unsafe fn of<'a>(handle: *mut c_void) -> Result<&'a Self, Fail> {
        // SAFETY: by this function's contract.
        unsafe { handle::borrowed(handle) }
    }

    /// Like [`Client::of`], with a reference of the library's.
    ///
    /// # Safety
    /// As for [`Client::of`].
    pub(crate) unsafe fn shared(handle: *mut c_void) -> Result<Arc<Self>, Fail> {
        // SAFETY: by this function's contract.
        unsafe { handle::shared(handle) }
    }

    /// Returns the connected client.
    ///
    /// # Errors
    /// ENOTCONN before `rados_connect` and after `rados_shutdown`.
    pub(crate) fn rados(&self) -> Result<Rados, Fail> {
        match &*self.rados.load() {
            Some(rados) => Ok(Rados::clone(rados)),
            None => Err(Errno::ENOTCONN.into()),
        }
    }

    pub(super) fn connect(&self) -> Result<(), Fail> {
        match self.phase.compare_exchange(NEW, CONNECTING, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => {}
            Err(CONNECTING) => return Err(Errno::EINPROGRESS.into()),
            Err(_) => return Err(Errno::EISCONN.into()),
        }
        let connected = wait(Builder::new().conf(self.conf()).connect());
        let rados = match connected {
            Ok(rados) => rados,
            Err(why) => {
                self.phase.store(NEW, Ordering::Release);
                return Err(why.into());
            }
        };
        self.go_on_with(rados)
    }

    /// Stores the connected client, and registers the service that was announced before.
    fn go_on_with(&self, rados: Rados) -> Result<(), Fail> {
        let service = {
            // A service that is announced after this lock finds the client connected.
            let service = self.service.lock();
            self.rados.store(Some(Arc::new(rados.clone())));
            self.phase.store(CONNECTED, Ordering::Release);
            service.clone()
        };
        // Without the lock: requests are sent.
        let Some(service) = service else { return Ok(()) };
        rados.register_service(&service.name, &service.daemon, service.metadata)?;
        if let Some(status) = service.status {
            rados.update_service_status(status)?;
        }
        Ok(())
    }

    /// Ends the delivery of the cluster's log, and the subscription. When the watches' strand is flushed
    /// after that, no callback runs or will run.
    pub(super) fn stop_log(&self) {
        let listener = self.log.lock().take();
        if let Some(listener) = listener {
            listener.wanted.store(false, Ordering::Release);
            listener.task.abort();
            // The subscription ends with the task.
            let _ = wait(listener.task);
        }
    }

    /// Ends the client: operations under way fail, and their callbacks have returned when this returns.
    pub(super) fn shut_down(&self) {
        self.stop_log();
        let watches = std::mem::take(&mut *self.watches.lock());
        watches.into_values().for_each(|watch| watch.leave());
        self.watch_strand.flush();
        if let Some(rados) = self.rados.swap(None) {
            wait(rados.shutdown());
        }
        let mut underway = self.underway.subscribe();
        let _ = wait(underway.wait_for(|count| *count == 0));
        self.strand.flush();
    }

    /// Counts an operation until what this returns is dropped: [`shut_down`](Self::shut_down) waits for it.
    pub(crate) fn begin(self: &Arc<Self>) -> Counted {
        self.underway.send_modify(|count| *count += 1);
        Counted(Arc::clone(self))
    }
}

/// An operation under way.
pub(crate) struct Counted(Arc<Client>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.underway.send_modify(|count| *count -= 1);
    }
}

/// Configuration.
impl Client {
    /// The configuration with what is set so far, and once connected also with the monitors' settings.
    pub(crate) fn conf(&self) -> Conf {
        let conf = self.settings.lock().conf.clone();
        match &*self.rados.load() {
            Some(rados) => conf.with_monitors(rados.monitors_settings()),
            None => conf,
        }
    }

    /// Changes the options and makes the configuration anew, or changes nothing.
    pub(super) fn configure<T>(
        &self,
        change: impl Fn(&mut Options) -> Result<T, ConfError>,
    ) -> Result<T, Fail> {
        loop {
            let Settings { mut options, environment, changes, .. } = self.settings.lock().clone();
            let done = change(&mut options).map_err(conf_fail)?;
            // A file may be read here, so without the lock.
            let conf = Conf::load(&options, environment.clone()).map_err(conf_fail)?;
            let mut settings = self.settings.lock();
            if settings.changes == changes {
                *settings = Settings { options, environment, conf, changes: changes + 1 };
                return Ok(done);
            }
            // Another thread has changed the options meanwhile.
        }
    }

    /// Reads a file under the settings that were made; without a path the usual ones.
    ///
    /// # Errors
    /// ENOENT if there is none; EINVAL if it is no configuration.
    pub(super) fn read_file(&self, path: Option<&str>) -> Result<(), Fail> {
        self.configure(|options| {
            options.no_config_file = false;
            options.conf_file = path.map(str::to_owned);
            Ok(())
        })?;
        if self.settings.lock().conf.file().is_none() {
            return Err(Errno::ENOENT.into());
        }
        Ok(())
    }

    /// Gives another handle the settings of this one.
    pub(super) fn copy_settings_to(&self, other: &Self) {
        let copy = self.settings.lock().clone();
        *other.settings.lock() = copy;
    }

    /// Sets one option over all others.
    pub(super) fn set(&self, option: &str, value: &str) {
        let mut settings = self.settings.lock();
        settings.options.set(option, value);
        settings.conf.set(option, value);
        settings.changes += 1;
    }
}

/// The errno of a configuration error, as `rados_conf_read_file` returns it.
pub(super) fn conf_fail(error: ConfError) -> Fail {
    match &error {
        ConfError::Io { source, .. } => Fail(-source.raw_os_error().unwrap_or(libc::EINVAL)),
        _ => Errno::EINVAL.into(),
    }
}

/// What tells a context of this library from one of Ceph's own.
pub(super) const MAGIC: u64 = 0x6c6f_6c69_676f_6363;

/// What `rados_cct` points to: enough to find the handle, then zeros.
#[repr(C)]
pub(super) struct Context {
    pub(super) magic: u64,
    pub(super) client: *const Client,
    zeros: [u8; 8192],
}

// SAFETY: the pointer is only compared and followed while its handle lives.
unsafe impl Send for Context {}
// SAFETY: as above; a context is never changed.
unsafe impl Sync for Context {}

impl Context {
    /// The handle's context, made when it is first asked for.
    pub(super) fn of(client: &Client) -> *mut Self {
        let make = || Box::new(Self { magic: MAGIC, client, zeros: [0; 8192] });
        std::ptr::from_ref::<Self>(client.context.get_or_init(make)).cast_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_several_threads_are_all_kept() {
        const EACH: usize = 50;
        let client = Client::new(None, EntityName::client("admin")).expect("a handle");
        // A change may be tried again, on the options as another thread has left them.
        std::thread::scope(|scope| {
            for thread in 0..2 {
                let client = &client;
                scope.spawn(move || {
                    for number in 0..EACH {
                        let set = |options: &mut Options| {
                            options.set(&format!("setting_{thread}_{number}"), "kept");
                            Ok(())
                        };
                        client.configure(set).expect("it is set");
                        client.set(&format!("other_{thread}_{number}"), "kept");
                    }
                });
            }
        });
        let conf = client.conf();
        for (thread, number) in (0..2).flat_map(|thread| (0..EACH).map(move |number| (thread, number))) {
            for option in [format!("setting_{thread}_{number}"), format!("other_{thread}_{number}")] {
                assert_eq!(conf.text(&option).as_deref(), Some("kept"), "{option}");
            }
        }
    }
}
