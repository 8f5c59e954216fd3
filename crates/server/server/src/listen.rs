//! The listening ports of the daemons.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use loligo_admin::Admin;
use loligo_msgr::{Admission, Config, Log, Messenger};
use loligo_wire::{EntityAddr, EntityAddrVec, EntityName, EntityType};

use crate::builder::Announce;
use crate::daemon::{Daemon, Introduction, Listening};
use crate::host::nonce;
use crate::{Builder, StartError};

/// Opens the listening ports of a server.
pub(crate) struct Doors {
    host: IpAddr,
    /// Where the monitor listens for version 1, if that is served.
    mon_addr_v1: Option<SocketAddr>,
    /// The addresses of msgr2 are kept from clients.
    announces_v1_alone: bool,
    log: Log,
    announce: Option<Announce>,
    admission: Arc<Admission>,
}

/// A daemon that listens.
pub(crate) struct OpenDoor {
    pub(crate) name: EntityName,
    pub(crate) addr: SocketAddr,
    pub(crate) messenger: Arc<Messenger>,
    pub(crate) admin: Option<Admin>,
    /// Registers the daemon with the monitor.
    pub(crate) introduction: Option<Introduction>,
}

impl OpenDoor {
    pub(crate) fn listening(&self) -> Listening {
        Listening { name: self.name.clone(), at: self.addr, addrs: self.messenger.addrs() }
    }
}

impl Doors {
    pub(crate) fn new(builder: &Builder) -> Self {
        Self {
            host: builder.mon_addr.ip(),
            mon_addr_v1: builder.mon_addr_v1,
            announces_v1_alone: builder.announces_v1_alone,
            log: Arc::clone(&builder.log),
            announce: builder.announce.clone(),
            admission: builder.admission.map_or_else(Admission::of_process, Admission::new),
        }
    }

    /// Starts to listen for each of the daemons.
    pub(crate) async fn open_all(&self, daemons: &[Arc<dyn Daemon>]) -> Result<Vec<OpenDoor>, StartError> {
        let mut open = Vec::with_capacity(daemons.len());
        for daemon in daemons {
            open.push(self.open(&**daemon).await?);
        }
        Ok(open)
    }

    /// Listens at the address that the daemon gives, and at a second one for version 1 if that is served.
    /// If the daemon leaves the port open, the port of its last run is tried first; if that fails, any free
    /// port is used.
    pub(crate) async fn open(&self, daemon: &dyn Daemon) -> Result<OpenDoor, StartError> {
        let (name, listens) = (daemon.name(), daemon.listens());
        let mut config = Config::new(name.kind);
        config.num = daemon.number();
        config.nonce = if listens.by_address { 0 } else { nonce()? };
        config.policies = daemon.policies();
        config.compression = daemon.compression();
        config.log = Arc::clone(&self.log);
        config.admission = Arc::clone(&self.admission);
        let (messenger, auth) = (Messenger::new(config, daemon.dispatcher()), daemon.auth());
        let addr = listens.at.unwrap_or(SocketAddr::new(self.host, 0));
        let known = listens.last.filter(|last| addr.port() == 0 && last.ip() == addr.ip());
        let bound = match messenger.bind(known.unwrap_or(addr), Arc::clone(&auth)).await {
            Err(_) if known.is_some() => messenger.bind(addr, auth).await,
            bound => bound,
        };
        let bound = bound.map_err(|source| StartError::Listen { addr, source })?;
        if let Some(mon_addr) = self.mon_addr_v1 {
            let is_mon = name.kind == EntityType::MON;
            let addr = if is_mon { mon_addr } else { SocketAddr::new(self.host, 0) };
            let bound = messenger.bind_v1(addr, daemon.auth()).await;
            bound.map_err(|source| StartError::Listen { addr, source })?;
        }
        if self.announces_v1_alone {
            messenger.set_addrs(
                messenger.addrs().legacy().copied().map_or_else(EntityAddrVec::default, Into::into),
            );
        }
        if let Some(announce) = &self.announce {
            let told = |addr: EntityAddr| EntityAddr {
                sock: addr.sock.map(|sock| announce(name.kind, sock)),
                ..addr
            };
            messenger.set_addrs(EntityAddrVec(messenger.addrs().0.into_iter().map(told).collect()));
        }
        let introduction = daemon.introduce(messenger.addrs());
        Ok(OpenDoor { name, addr: bound, messenger, admin: daemon.admin(), introduction })
    }
}
