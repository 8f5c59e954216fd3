//! Finding the monitors' addresses before a monitor has sent a monmap: from the configuration, otherwise
//! from DNS.
//!
//! Without `mon host`, the monitors are the targets of the SRV records of `_ceph-mon._tcp`
//! (`mon_dns_srv_name`, which may name a domain too: `ceph-mon_example.com`), looked up in the search
//! domains of `/etc/resolv.conf` (`MonMap::init_with_dns_srv`).

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use domain::base::name::{Name, RelativeName};
use domain::resolv::StubResolver;
use domain::resolv::stub::conf::{ResolvConf, ServerConf, Transport};
use loligo_conf::{Conf, ConfError, Messenger as ConfMessenger};
use loligo_wire::EntityAddr;

use crate::error::Error;

/// Monitors in the order of trial: the first group, then the next group if no monitor of the first replies.
pub(crate) type Groups = Vec<Vec<EntityAddr>>;

/// Time limit for all DNS queries together. The C library would wait ten seconds for each server.
const DNS_MAX: Duration = Duration::from_secs(10);
/// The port at which a monitor speaks version 1 of the messenger's protocol. On any other port msgr2 is
/// tried.
const PORT_V1: u16 = 6789;

/// Returns the monitors' addresses. `dns` is the server to query instead of the system's.
pub(crate) async fn monitors(conf: &Conf, dns: Option<SocketAddr>) -> Result<Groups, Error> {
    match configured(conf).await {
        Err(Error::Conf(ConfError::NoMonitors)) if conf.mon_hosts().is_err() => {
            let service = conf.mon_dns_srv_name();
            let asked = tokio::time::timeout(DNS_MAX, from_dns(&service, dns)).await;
            let found = asked.unwrap_or_else(|_| Err(format!("no answer within {} s", DNS_MAX.as_secs())));
            found.map_err(|why| Error::NotInDns { service, why })
        }
        found => found,
    }
}

/// Returns the addresses from the configuration: each monitor's first one, which is the msgr2 address if
/// there is one, and as the second group the others. Host names are resolved. A name that cannot be resolved
/// is skipped if another address remains.
async fn configured(conf: &Conf) -> Result<Groups, Error> {
    let mut found = [Vec::new(), Vec::new()];
    let mut unknown = None;
    let hosts = conf.mon_hosts()?;
    for (i, addr) in hosts.iter().flat_map(|addrs| addrs.iter().enumerate()) {
        let group = &mut found[i.min(1)];
        let entity = match addr.messenger {
            ConfMessenger::V1 => EntityAddr::legacy,
            ConfMessenger::V2 => EntityAddr::msgr2,
        };
        if let Some(ip) = addr.ip() {
            group.push(entity(SocketAddr::new(ip, addr.port)));
            continue;
        }
        match tokio::net::lookup_host((addr.host.as_str(), addr.port)).await {
            Ok(socks) => group.extend(socks.map(entity)),
            Err(e) => unknown = Some(format!("{}: {e}", addr.host)),
        }
    }
    let found: Groups = found.into_iter().filter(|group| !group.is_empty()).collect();
    match (found.is_empty(), unknown) {
        (false, _) => Ok(found),
        (true, Some(last)) => Err(Error::NoMonitor { after: Duration::ZERO, last }),
        (true, None) => Err(ConfError::NoMonitors.into()),
    }
}

/// Returns the monitors named by DNS, or the reason why there are none.
async fn from_dns(srv_name: &str, server: Option<SocketAddr>) -> Result<Groups, String> {
    let (service, in_domain) = match srv_name.split_once('_') {
        Some((service, in_domain)) => (service, Some(in_domain)),
        None => (srv_name, None),
    };
    let service = format!("_{service}._tcp");
    let service = RelativeName::<Vec<u8>>::vec_from_str(&service).map_err(|e| format!("{service}: {e}"))?;
    let resolver = StubResolver::from_conf(match server {
        None => ResolvConf::default(),
        Some(addr) => {
            let mut conf = ResolvConf::new();
            conf.servers.push(ServerConf::new(addr, Transport::UdpTcp));
            conf
        }
    });
    let mut domains: Vec<Name<Vec<u8>>> = Vec::new();
    match in_domain {
        Some(name) => domains.push(Name::vec_from_str(name).map_err(|e| format!("{name}: {e}"))?),
        None => {
            let suffixes = resolver.options().search.as_slice();
            domains.extend(suffixes.iter().filter_map(|suffix| Name::vec_from_str(&suffix.to_string()).ok()));
            domains.push(Name::root());
        }
    }
    let mut why = "there is no such record".to_owned();
    for domain in domains {
        match lookup(&resolver, &service, &domain).await {
            Ok(found) if !found.is_empty() => return Ok(found),
            Ok(_) => {}
            Err(e) => why = e,
        }
    }
    Err(why)
}

/// Returns the monitors of one domain, grouped by priority, and for each priority those with msgr2 first.
/// Within a group the order is random, weighted by the records' weights.
async fn lookup(
    resolver: &StubResolver,
    service: &RelativeName<Vec<u8>>,
    domain: &Name<Vec<u8>>,
) -> Result<Groups, String> {
    /// Port number by which the library's fallback entry is recognised: it stands for "no SRV record".
    const NONE: u16 = 0;
    let found = resolver.lookup_srv(service, domain, NONE).await.map_err(|e| e.to_string())?;
    let records = found.into_iter().flat_map(|found| found.into_srvs());
    let mut groups: BTreeMap<(u16, bool), Vec<EntityAddr>> = BTreeMap::new();
    let mut unknown = None;
    for record in records.filter(|record| record.port() != NONE) {
        let is_v1 = record.port() == PORT_V1;
        match resolver.lookup_host(record.target()).await {
            Ok(hosts) => {
                let entity = if is_v1 { EntityAddr::legacy } else { EntityAddr::msgr2 };
                let addrs = hosts.port_iter(record.port()).map(entity);
                groups.entry((record.priority(), is_v1)).or_default().extend(addrs);
            }
            Err(e) => unknown = Some(format!("{}: {e}", record.target())),
        }
    }
    groups.retain(|_, group| !group.is_empty());
    match unknown {
        Some(why) if groups.is_empty() => Err(why),
        _ => Ok(groups.into_values().collect()),
    }
}
