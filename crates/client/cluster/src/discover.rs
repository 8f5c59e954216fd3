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
/// The port on which a monitor speaks the old messenger protocol. On any other port msgr2 is tried.
const PORT_V1: u16 = 6789;

/// Returns the monitors' msgr2 addresses. `dns` is the server to query instead of the system's.
pub(crate) async fn monitors(conf: &Conf, dns: Option<SocketAddr>) -> Result<Groups, Error> {
    match configured(conf).await {
        Err(Error::Conf(ConfError::NoMonitors)) if conf.mon_hosts().is_err() => {
            let service = conf.mon_dns_srv_name();
            let asked = tokio::time::timeout(DNS_MAX, from_dns(&service, dns)).await;
            let found = asked.unwrap_or_else(|_| Err(format!("no answer within {} s", DNS_MAX.as_secs())));
            found.map_err(|why| Error::NotInDns { service, why })
        }
        found => found.map(|addrs| vec![addrs]),
    }
}

/// Returns the addresses from the configuration; host names are resolved. A name that cannot be resolved
/// is skipped if another address remains.
async fn configured(conf: &Conf) -> Result<Vec<EntityAddr>, Error> {
    let mut found = Vec::new();
    let mut unknown = None;
    let hosts = conf.mon_hosts()?;
    for addr in hosts.iter().flatten().filter(|addr| addr.messenger == ConfMessenger::V2) {
        if let Some(ip) = addr.ip() {
            found.push(EntityAddr::msgr2(SocketAddr::new(ip, addr.port)));
            continue;
        }
        match tokio::net::lookup_host((addr.host.as_str(), addr.port)).await {
            Ok(socks) => found.extend(socks.map(EntityAddr::msgr2)),
            Err(e) => unknown = Some(format!("{}: {e}", addr.host)),
        }
    }
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

/// Returns the monitors of one domain, grouped by priority. Within a group the order is random, weighted
/// by the records' weights.
async fn lookup(
    resolver: &StubResolver,
    service: &RelativeName<Vec<u8>>,
    domain: &Name<Vec<u8>>,
) -> Result<Groups, String> {
    /// Port number by which the library's fallback entry is recognised: it stands for "no SRV record".
    const NONE: u16 = 0;
    let found = resolver.lookup_srv(service, domain, NONE).await.map_err(|e| e.to_string())?;
    let records = found.into_iter().flat_map(|found| found.into_srvs());
    let mut groups: BTreeMap<u16, Vec<EntityAddr>> = BTreeMap::new();
    let mut unknown = None;
    for record in records.filter(|record| record.port() != NONE && record.port() != PORT_V1) {
        match resolver.lookup_host(record.target()).await {
            Ok(hosts) => {
                let addrs = hosts.port_iter(record.port()).map(EntityAddr::msgr2);
                groups.entry(record.priority()).or_default().extend(addrs);
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
