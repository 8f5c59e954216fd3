//! The table of devices.
//!
//! A lookup takes no lock: the table is immutable and is replaced as a whole. Adding or removing one of
//! n devices copies n references, which takes some tens of microseconds with hundreds of devices.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use loligo_rados::InFlight;
use tokio::runtime::Handle;
use tokio::time::timeout;

use super::{Attached, Change, Device, DeviceError, Phase};
use crate::access::{Allowed, Identity};
use crate::backend::{Backend, BackendState, Opener, Spec};
use crate::proto::{Can, NAME_MAX, Refused};

/// Time that a forced removal waits for the back end to close; after it the close continues in the
/// background.
const CLOSE_PATIENCE: Duration = Duration::from_secs(5);

/// All devices of a gateway.
pub struct Registry {
    devices: ArcSwap<Table>,
    opener: Arc<Opener>,
    runtime: Handle,
}

type Table = BTreeMap<Arc<str>, Arc<Device>>;

/// The definition of a device to be added.
#[derive(Clone, Debug)]
pub struct Definition {
    /// The device's name, of at most 4,096 bytes.
    pub name: String,
    /// A description for people, of at most 4,096 bytes.
    pub description: String,
    /// The back end.
    pub spec: Spec,
    /// The clients that may use the device. To other clients it does not exist.
    pub allow: Allowed,
}

/// The state of a device.
#[derive(Clone, Debug)]
pub struct Info {
    /// The device's name.
    pub name: String,
    /// The description for people.
    pub description: String,
    /// The specification of the back end.
    pub spec: String,
    /// The phase.
    pub phase: Phase,
    /// Number of attached clients.
    pub clients: u64,
    /// The back end's kind, size in bytes and abilities; `None` until it is open.
    pub backend: Option<(&'static str, u64, Can)>,
    /// Whether the back end can be used, once it is open.
    pub state: BackendState,
}

impl Registry {
    /// Creates an empty registry. Tasks of `runtime` do the work on devices.
    pub fn new(opener: Opener, runtime: Handle) -> Arc<Self> {
        Arc::new(Self { devices: ArcSwap::default(), opener: Arc::new(opener), runtime })
    }

    /// Adds a device and opens its back end. Clients that attach meanwhile wait.
    ///
    /// # Errors
    /// [`DeviceError::Exists`]; [`DeviceError::Backend`] if the back end cannot be opened: the device is
    /// removed then; `Name` if the name or the description is too long.
    pub async fn add(&self, definition: Definition) -> Result<(), DeviceError> {
        if definition.name.len() > NAME_MAX || definition.description.len() > NAME_MAX {
            return Err(DeviceError::Name);
        }
        let device = Device::new(definition, self.runtime.clone());
        // Queued before the device is published: any client that finds it waits behind the open.
        let asked = device.ask(Change::Open(Arc::clone(&self.opener)))?;
        self.insert(&device)?;
        let opened = device.answered(asked).await;
        if opened.is_err() {
            self.forget(&device);
        }
        opened
    }

    /// Adds a device whose back end is already open.
    ///
    /// # Errors
    /// [`DeviceError::Exists`].
    pub fn add_open(&self, name: &str, backend: Box<dyn Backend>) -> Result<(), DeviceError> {
        self.insert(&Device::with_backend(name, backend, self.runtime.clone()))
    }

    /// Removes a device. With `forced`, its clients are told and disconnected; without, no client may be
    /// attached. Returns when the back end is closed. A forced removal returns after 5 s even if the
    /// close still goes on.
    ///
    /// # Errors
    /// [`DeviceError::Unknown`], [`DeviceError::InUse`], [`DeviceError::Removing`]; or the error of the
    /// back end's close: the device is removed nevertheless.
    pub async fn remove(&self, name: &str, forced: bool) -> Result<(), DeviceError> {
        let device = self.find(name)?;
        device.begin_removal(forced)?;
        let closed = if forced {
            timeout(CLOSE_PATIENCE, device.close()).await.unwrap_or(Ok(()))
        } else {
            device.close().await
        };
        self.forget(&device);
        closed
    }

    /// Attaches a client with the identity that TLS has proved, if any. A device that the client may not
    /// use is reported as unknown.
    ///
    /// # Errors
    /// As [`Registry::attach`].
    pub(crate) async fn attach_as(&self, client: Option<&Identity>, name: &str) -> Result<Attached, Refused> {
        let device = self.find_or_only(name).filter(|device| device.allow.contains(client));
        self.enter(device.ok_or(Refused::Unknown)?).await
    }

    /// Attaches a client without checking its identity. The empty name selects the only device, if there
    /// is exactly one.
    ///
    /// # Errors
    /// The device does not exist, is being removed, or has a lost back end.
    pub async fn attach(&self, name: &str) -> Result<Attached, Refused> {
        self.enter(self.find_or_only(name).ok_or(Refused::Unknown)?).await
    }

    async fn enter(&self, device: Arc<Device>) -> Result<Attached, Refused> {
        let attached = device.attach().await.map_err(|_| Refused::Shutdown)?;
        match attached.backend().state() {
            BackendState::Lost(_) => Err(Refused::Lost),
            BackendState::Open | BackendState::Renewing(_) => Ok(attached),
        }
    }

    /// Makes new requests to a device wait, and returns when none is in flight.
    ///
    /// # Errors
    /// [`DeviceError::Unknown`], [`DeviceError::Removing`].
    pub async fn suspend(&self, name: &str) -> Result<(), DeviceError> {
        self.find(name)?.suspend().await
    }

    /// Lets waiting requests proceed.
    ///
    /// # Errors
    /// As [`Registry::suspend`].
    pub async fn resume(&self, name: &str) -> Result<(), DeviceError> {
        self.find(name)?.resume().await
    }

    /// Sets a device's size while no request is in flight. Clients see the new size when they connect
    /// again.
    ///
    /// # Errors
    /// As [`Registry::suspend`]; or the back end's error.
    pub async fn resize(&self, name: &str, size: u64) -> Result<(), DeviceError> {
        self.find(name)?.resize(size).await
    }

    /// Removes all devices, even if clients use them, and disconnects from the cluster.
    pub async fn close(&self) {
        let names: Vec<String> = self.all().iter().map(|device| device.name.clone()).collect();
        futures_util::future::join_all(names.iter().map(|name| self.remove(name, true))).await;
        self.opener.shutdown().await;
    }

    /// An observer of the devices' operations in flight to the cluster; `None` until a device has needed
    /// the cluster.
    pub fn observe(&self) -> Option<InFlight> {
        self.opener.observe()
    }

    /// The state of all devices, sorted by name.
    pub fn list(&self) -> Vec<Info> {
        self.all().iter().map(|device| device.info()).collect()
    }

    /// Names and descriptions of the devices that a client may use.
    pub(crate) fn exports(&self, client: Option<&Identity>) -> Vec<(String, String)> {
        let all = self.all();
        let usable =
            all.iter().filter(|device| device.phase() != Phase::Removing && device.allow.contains(client));
        usable.map(|device| (device.name.clone(), device.description.clone())).collect()
    }

    fn all(&self) -> Vec<Arc<Device>> {
        self.devices.load().values().cloned().collect()
    }

    fn find(&self, name: &str) -> Result<Arc<Device>, DeviceError> {
        let found = self.devices.load().get(name).cloned();
        found.ok_or_else(|| DeviceError::Unknown(name.to_owned()))
    }

    fn find_or_only(&self, name: &str) -> Option<Arc<Device>> {
        let devices = self.devices.load();
        let only = || devices.values().next().filter(|_| name.is_empty() && devices.len() == 1);
        devices.get(name).or_else(only).cloned()
    }

    fn insert(&self, device: &Arc<Device>) -> Result<(), DeviceError> {
        let mut exists = false;
        self.devices.rcu(|devices| {
            exists = devices.contains_key(&*device.name);
            if exists {
                return Arc::clone(devices);
            }
            let mut more = Table::clone(devices);
            more.insert((&*device.name).into(), Arc::clone(device));
            Arc::new(more)
        });
        if exists { Err(DeviceError::Exists(device.name.clone())) } else { Ok(()) }
    }

    /// Removes a device from the table, if its name still refers to it.
    fn forget(&self, device: &Arc<Device>) {
        self.devices.rcu(|devices| {
            if !devices.get(&*device.name).is_some_and(|known| Arc::ptr_eq(known, device)) {
                return Arc::clone(devices);
            }
            let mut fewer = Table::clone(devices);
            fewer.remove(&*device.name);
            Arc::new(fewer)
        });
    }
}

impl Device {
    fn info(&self) -> Info {
        Info {
            name: self.name.clone(),
            description: self.description.clone(),
            spec: self.spec.to_string(),
            phase: self.phase(),
            clients: self.clients(),
            state: self.backend.get().map_or(BackendState::Open, |backend| backend.state()),
            backend: self.backend.get().map(|backend| (backend.kind(), backend.size(), backend.can())),
        }
    }
}
