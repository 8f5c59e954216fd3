//! The table of devices.
//!
//! Who looks for a device takes no lock: the table is never changed, but replaced by another one. To add or
//! remove one of n devices copies n references, which takes some tens of microseconds with hundreds of them.

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

/// How long a forced removal waits for the back end's end; then that goes on by itself.
const CLOSE_PATIENCE: Duration = Duration::from_secs(5);

/// All devices of a gateway.
pub struct Registry {
    devices: ArcSwap<Table>,
    opener: Arc<Opener>,
    runtime: Handle,
}

type Table = BTreeMap<Arc<str>, Arc<Device>>;

/// A device that is to be.
#[derive(Clone, Debug)]
pub struct Definition {
    /// Its name, of at most 4,096 bytes.
    pub name: String,
    /// For people.
    pub description: String,
    /// What it stands on.
    pub spec: Spec,
    /// Who may use it. For others there is no such device.
    pub allow: Allowed,
}

/// What is told of a device.
#[derive(Clone, Debug)]
pub struct Info {
    /// Its name.
    pub name: String,
    /// For people.
    pub description: String,
    /// As it was specified.
    pub spec: String,
    /// What it is in.
    pub phase: Phase,
    /// Clients that use it.
    pub clients: u64,
    /// What kind of back end it has, how many bytes, and what it can do, once it is open.
    pub backend: Option<(&'static str, u64, Can)>,
    /// Whether the back end can be used, once it is open.
    pub state: BackendState,
}

impl Registry {
    /// An empty one. Devices are worked on by tasks of `runtime`.
    pub fn new(opener: Opener, runtime: Handle) -> Arc<Self> {
        Arc::new(Self { devices: ArcSwap::default(), opener: Arc::new(opener), runtime })
    }

    /// Adds a device and opens what it stands on. Clients that ask for it meanwhile wait.
    ///
    /// # Errors
    /// [`DeviceError::Exists`]; [`DeviceError::Backend`] if that cannot be opened: then there is no device.
    pub async fn add(&self, definition: Definition) -> Result<(), DeviceError> {
        if definition.name.len() > NAME_MAX || definition.description.len() > NAME_MAX {
            return Err(DeviceError::Name);
        }
        let device = Device::new(definition, self.runtime.clone());
        // Before anybody finds the device, so that who does waits behind it.
        let asked = device.ask(Change::Open(Arc::clone(&self.opener)))?;
        self.insert(&device)?;
        let opened = device.answered(asked).await;
        if opened.is_err() {
            self.forget(&device);
        }
        opened
    }

    /// Adds a device with a back end that is open.
    ///
    /// # Errors
    /// [`DeviceError::Exists`].
    pub fn add_open(&self, name: &str, backend: Box<dyn Backend>) -> Result<(), DeviceError> {
        self.insert(&Device::with_backend(name, backend, self.runtime.clone()))
    }

    /// Removes a device. If it is `forced` its clients are told and disconnected; else there must be none.
    /// Returns when the back end is closed; if that takes long and the removal is forced, before.
    ///
    /// # Errors
    /// [`DeviceError::Unknown`], [`DeviceError::InUse`], [`DeviceError::Removing`]; or what closing the back
    /// end said: then the device is removed all the same.
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

    /// Comes in as a client that TLS has named, if it has. A device that the client may not use is as if it
    /// were not there.
    ///
    /// # Errors
    /// As [`Registry::attach`].
    pub(crate) async fn attach_as(&self, client: Option<&Identity>, name: &str) -> Result<Attached, Refused> {
        let device = self.find_or_only(name).filter(|device| device.allow.contains(client));
        self.enter(device.ok_or(Refused::Unknown)?).await
    }

    /// Comes in, whoever may. The empty name is that of the only device, if there is one.
    ///
    /// # Errors
    /// There is no such device, or it goes.
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

    /// Lets requests to a device wait, and returns when none is under way.
    ///
    /// # Errors
    /// [`DeviceError::Unknown`], [`DeviceError::Removing`].
    pub async fn suspend(&self, name: &str) -> Result<(), DeviceError> {
        self.find(name)?.suspend().await
    }

    /// Lets requests go on.
    ///
    /// # Errors
    /// As [`Registry::suspend`].
    pub async fn resume(&self, name: &str) -> Result<(), DeviceError> {
        self.find(name)?.resume().await
    }

    /// Sets a device's size, while no request is under way. Clients learn of it when they connect again.
    ///
    /// # Errors
    /// As [`Registry::suspend`]; what the back end says.
    pub async fn resize(&self, name: &str, size: u64) -> Result<(), DeviceError> {
        self.find(name)?.resize(size).await
    }

    /// Removes all devices, whoever uses them.
    pub async fn close(&self) {
        let names: Vec<String> = self.all().iter().map(|device| device.name.clone()).collect();
        futures_util::future::join_all(names.iter().map(|name| self.remove(name, true))).await;
        self.opener.shutdown().await;
    }

    /// A look at what its devices have in flight to the cluster; `None` as long as none of them has needed
    /// one.
    pub fn observe(&self) -> Option<InFlight> {
        self.opener.observe()
    }

    /// What is told of all devices, by name.
    pub fn list(&self) -> Vec<Info> {
        self.all().iter().map(|device| device.info()).collect()
    }

    /// Names and descriptions of the devices that a client can use.
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

    /// Takes a device out, if it is still the one of its name.
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
