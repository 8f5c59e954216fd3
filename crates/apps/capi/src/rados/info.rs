//! What a cluster tells of itself: id, space, addresses, releases; and the blocklist.

use std::ffi::{c_char, c_int, c_void};
use std::net::UdpSocket;
use std::time::Duration;

use az::SaturatingAs as _;
use loligo_conf::Conf;
use loligo_rados::Rados;
use loligo_wire::Errno;

use super::Client;
use crate::border::{Fail, calls, plain};
use crate::memory::{allocated_text, fill_text, put, text};
use crate::runtime::wait;

/// `struct rados_cluster_stat_t`.
#[repr(C)]
pub(super) struct ClusterStat {
    kb: u64,
    kb_used: u64,
    kb_avail: u64,
    num_objects: u64,
}

calls! {
    /// Copies the cluster's id, 36 characters; returns their number.
    fn rados_cluster_fsid(cluster: *mut c_void, to: *mut c_char, room: usize) -> c_int {
        let fsid = Client::of(cluster)?.rados()?.fsid().to_string();
        Ok(fill_text(to, room, fsid.as_bytes())?.saturating_as::<c_int>())
    }

    /// The cluster's space.
    fn rados_cluster_stat(cluster: *mut c_void, result: *mut ClusterStat) -> c_int {
        let found = wait(Client::of(cluster)?.rados()?.statfs())?;
        put(result, ClusterStat {
            kb: found.kb,
            kb_used: found.kb_used,
            kb_avail: found.kb_avail,
            num_objects: found.num_objects,
        });
        Ok(0)
    }

    /// The oldest release that OSDs must have, as the map says.
    fn rados_get_min_compatible_osd(cluster: *mut c_void, release: *mut i8) -> c_int {
        put(release, Client::of(cluster)?.rados()?.require_osd_release().saturating_as::<i8>());
        Ok(0)
    }

    /// The oldest release that clients can have for the features in use, and the one that is demanded.
    fn rados_get_min_compatible_client(
        cluster: *mut c_void, in_use: *mut i8, demanded: *mut i8,
    ) -> c_int {
        let rados = Client::of(cluster)?.rados()?;
        put(in_use, rados.require_min_compat_client().saturating_as::<i8>());
        put(demanded, rados.require_min_compat_client().saturating_as::<i8>());
        Ok(0)
    }

    /// This client's address as the blocklist has it, allocated.
    fn rados_getaddrs(cluster: *mut c_void, addrs: *mut *mut c_char) -> c_int {
        let client = Client::of(cluster)?;
        let address = own_address(&client.rados()?, &client.conf())?;
        put(addrs, allocated_text(address.as_bytes()));
        Ok(0)
    }

    /// Adds a client to the blocklist; 0 seconds is the monitors' default.
    fn rados_blocklist_add(cluster: *mut c_void, address: *mut c_char, seconds: u32) -> c_int {
        block(Client::of(cluster)?, text(address)?, seconds)
    }

    /// The older name of `rados_blocklist_add`.
    fn rados_blacklist_add(cluster: *mut c_void, address: *mut c_char, seconds: u32) -> c_int {
        block(Client::of(cluster)?, text(address)?, seconds)
    }
}

plain! {
    /// The id that the monitors gave this client; 0 if it is not connected.
    fn rados_get_instance_id(cluster: *mut c_void) -> u64 {
        let rados = Client::of(cluster).and_then(Client::rados);
        rados.map_or(0, |rados| rados.instance_id().0)
    }
}

fn block(client: &Client, address: &str, seconds: u32) -> Result<c_int, Fail> {
    let lasting = (seconds > 0).then(|| Duration::from_secs(seconds.into()));
    wait(client.rados()?.block(address, lasting))?;
    Ok(0)
}

/// The address with which other daemons know this client: that of the way to the monitors, with the
/// client's nonce.
fn own_address(rados: &Rados, conf: &Conf) -> Result<String, Fail> {
    let nonce = rados.cluster().nonce();
    let hosts = conf.mon_hosts().map_err(super::client::conf_fail)?;
    let local = hosts.iter().flatten().find_map(|mon| {
        // No packet is sent: the kernel only chooses the local address.
        let target = (mon.host.as_str(), mon.port);
        let family = if mon.host.contains(':') { "[::]:0" } else { "0.0.0.0:0" };
        let socket = UdpSocket::bind(family).ok()?;
        socket.connect(target).ok()?;
        Some(socket.local_addr().ok()?.ip())
    });
    let local = local.ok_or(Errno::EADDRNOTAVAIL)?;
    Ok(match local {
        std::net::IpAddr::V4(ip) => format!("{ip}:0/{nonce}"),
        std::net::IpAddr::V6(ip) => format!("[{ip}]:0/{nonce}"),
    })
}
