//! The listening ports of the daemons.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::ops::RangeInclusive;
use std::sync::Arc;

use loligo_admin::Admin;
use loligo_msgr::{Admission, Config, Log, Messenger};
use loligo_wire::{AddrKind, EntityAddr, EntityAddrVec, EntityName, EntityType};

use crate::builder::Announce;
use crate::daemon::{Daemon, Introduction, Listening, Listens};
use crate::host::nonce;
use crate::{Builder, StartError};

/// Opens the listening ports of a server.
pub(crate) struct Doors {
    host: IpAddr,
    /// Whether msgr2 is served.
    msgr2: bool,
    /// Where the monitor listens for version 1, if that is served.
    mon_addr_v1: Option<SocketAddr>,
    log: Log,
    announce: Option<Announce>,
    /// The IP address that clients are told, if it is not `host`.
    public: Option<IpAddr>,
    /// The ports of all daemons but the monitor; any free ones if `None`.
    ports: Option<RangeInclusive<u16>>,
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
        let mon_addr_v1 = builder.mon_addr_v1.or_else(|| (!builder.msgr2).then_some(builder.mon_addr));
        let mon_addr = mon_addr_v1.filter(|_| !builder.msgr2).unwrap_or(builder.mon_addr);
        Self {
            host: mon_addr.ip(),
            msgr2: builder.msgr2,
            mon_addr_v1,
            log: Arc::clone(&builder.log),
            announce: builder.announce.clone(),
            public: builder.public_ip.or_else(|| reached_at(mon_addr.ip())),
            ports: builder.ports.clone(),
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

    /// Listens at an address for each version that is served. If no port is given, the port of the daemon's
    /// last run is tried first; if that fails, any free port is used.
    pub(crate) async fn open(&self, daemon: &dyn Daemon) -> Result<OpenDoor, StartError> {
        let (name, listens) = (daemon.name(), daemon.listens());
        let mut config = Config::new(name.kind);
        config.num = daemon.number();
        config.nonce = if listens.by_address { 0 } else { nonce()? };
        config.policies = daemon.policies();
        config.compression = daemon.compression();
        config.log = Arc::clone(&self.log);
        config.admission = Arc::clone(&self.admission);
        let messenger = Messenger::new(config, daemon.dispatcher());
        let mut bound = None;
        for place in self.places(name.kind, &listens).into_iter().flatten() {
            let at = place.listen(&messenger, daemon).await?;
            bound.get_or_insert(at);
        }
        let Some(addr) = bound else { unreachable!("without msgr2, version 1 is served") };
        let told = |addr: EntityAddr| EntityAddr {
            sock: addr.sock.map(|sock| self.announced(name.kind, sock)),
            ..addr
        };
        messenger.set_addrs(EntityAddrVec(messenger.addrs().0.into_iter().map(told).collect()));
        let introduction = daemon.introduce(messenger.addrs());
        Ok(OpenDoor { name, addr, messenger, admin: daemon.admin(), introduction })
    }

    /// The address that clients are told of a daemon.
    fn announced(&self, kind: EntityType, listens: SocketAddr) -> SocketAddr {
        let public = SocketAddr::new(self.public.unwrap_or(listens.ip()), listens.port());
        self.announce.as_ref().map_or(public, |announce| announce(kind, public))
    }

    /// Where a daemon listens. Addresses of msgr2 come first in maps: clients that know both prefer it.
    fn places(&self, kind: EntityType, listens: &Listens) -> [Option<Place>; 2] {
        let any = SocketAddr::new(self.host, 0);
        let ports = self.ports.clone().filter(|_| kind != EntityType::MON);
        let here = |last: SocketAddr| last.ip() == self.public.unwrap_or(self.host);
        let v2 = self.msgr2.then(|| Place {
            speaks: AddrKind::Msgr2,
            addr: listens.at.unwrap_or(any),
            last: listens.last.v2.filter(|last| here(*last)).map(|last| last.port()),
            ports: ports.clone(),
        });
        let v1 = self.mon_addr_v1.map(|mon_addr| Place {
            speaks: AddrKind::Legacy,
            addr: if kind == EntityType::MON { mon_addr } else { any },
            last: listens.last.v1.filter(|last| here(*last)).map(|last| last.port()),
            ports,
        });
        [v2, v1]
    }
}

/// Where a daemon listens, and for which version.
struct Place {
    speaks: AddrKind,
    /// Port 0: the last run's, or the first free one of `ports`.
    addr: SocketAddr,
    /// The port of the last run, if clients were told the same IP address then.
    last: Option<u16>,
    ports: Option<RangeInclusive<u16>>,
}

impl Place {
    async fn listen(&self, messenger: &Messenger, daemon: &dyn Daemon) -> Result<SocketAddr, StartError> {
        let mut refused = None;
        for port in self.candidates() {
            let addr = SocketAddr::new(self.addr.ip(), port);
            let bound = match self.speaks {
                AddrKind::Legacy => messenger.bind_v1(addr, daemon.auth()).await,
                _ => messenger.bind(addr, daemon.auth()).await,
            };
            match bound {
                Ok(addr) => return Ok(addr),
                Err(source) => refused = Some(StartError::Listen { addr, source }),
            }
        }
        let Some(refused) = refused else { unreachable!("at least one port is tried") };
        Err(refused)
    }

    /// The ports to try, in this order.
    fn candidates(&self) -> impl Iterator<Item = u16> {
        let given = self.addr.port();
        let any = self.ports.clone().filter(|ports| !ports.is_empty()).unwrap_or(0..=0);
        let last = self.last.filter(|last| any == (0..=0) || any.contains(last));
        let tried = if given == 0 { any } else { given..=given };
        last.filter(|_| given == 0).into_iter().chain(tried)
    }
}

/// Where others reach a program that listens at all addresses of the machine. No packet is sent: the kernel
/// only chooses a route.
fn reached_at(host: IpAddr) -> Option<IpAddr> {
    // Addresses that documents may use as examples; no machine has them.
    let (elsewhere, loopback) = match host {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => (Ipv4Addr::new(192, 0, 2, 1).into(), Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => {
            (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into(), Ipv6Addr::LOCALHOST.into())
        }
        _ => return None,
    };
    let route = |elsewhere: IpAddr| {
        let socket = UdpSocket::bind((host, 0))?;
        socket.connect((elsewhere, 9))?;
        socket.local_addr()
    };
    Some(route(elsewhere).map_or(loopback, |addr| addr.ip()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tried(port: u16, last: Option<u16>, ports: Option<RangeInclusive<u16>>) -> Vec<u16> {
        let addr = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        Place { speaks: AddrKind::Msgr2, addr, last, ports }.candidates().collect()
    }

    #[test]
    fn a_given_port_is_the_only_one_that_is_tried() {
        assert_eq!(tried(3300, Some(7000), Some(6800..=6802)), [3300]);
    }

    #[test]
    fn the_port_of_the_last_run_comes_before_others() {
        assert_eq!(tried(0, Some(7000), None), [7000, 0]);
        assert_eq!(tried(0, Some(6801), Some(6800..=6802)), [6801, 6800, 6801, 6802]);
        assert_eq!(tried(0, Some(7000), Some(6800..=6802)), [6800, 6801, 6802], "it is outside now");
        assert_eq!(tried(0, None, None), [0]);
    }

    #[test]
    fn nobody_is_told_an_address_that_means_all() {
        assert_eq!(reached_at(Ipv4Addr::LOCALHOST.into()), None);
        for all in [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)] {
            let told = reached_at(all).expect("an address");
            assert!(!told.is_unspecified() && told.is_ipv4() == all.is_ipv4(), "{told}");
        }
    }
}
