//! The blocklist of an osdmap.

use std::net::SocketAddr;

use loligo_wire::{AddrKind, EntityAddr, EntityAddrVec};

use super::addr_times::AddrTimes;

/// Addresses that must not access OSDs, each with the time at which its entry expires. The messenger
/// kind of the entries is always "any".
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Blocklist {
    /// Single clients. With port and nonce 0, all clients of a host.
    pub addrs: AddrTimes,
    /// Networks (release 17 and up). The nonce holds the prefix length.
    pub ranges: AddrTimes,
}

impl Blocklist {
    /// Whether the blocklist is empty.
    pub fn is_empty(&self) -> bool {
        self.addrs.is_empty() && self.ranges.is_empty()
    }

    /// Whether one of a peer's addresses is blocked.
    pub fn contains(&self, peer: &EntityAddrVec) -> bool {
        !self.is_empty() && peer.0.iter().any(|addr| self.contains_addr(addr))
    }

    /// Whether an address is blocked: by its own entry, by an entry for its host, or by a network.
    pub fn contains_addr(&self, addr: &EntityAddr) -> bool {
        let addr = EntityAddr { kind: AddrKind::Any, ..*addr };
        let host =
            addr.sock.map(|sock| EntityAddr { nonce: 0, sock: Some(SocketAddr::new(sock.ip(), 0)), ..addr });
        self.addrs.contains_key(&addr)
            || host.is_some_and(|host| self.addrs.contains_key(&host))
            || self.ranges.keys().any(|range| is_within(&addr, range))
    }
}

fn is_within(addr: &EntityAddr, range: &EntityAddr) -> bool {
    let (Some(addr), Some(network)) = (addr.sock, range.sock) else { return false };
    match (addr, network) {
        (SocketAddr::V4(a), SocketAddr::V4(n)) => {
            (a.ip().to_bits() ^ n.ip().to_bits()).leading_zeros() >= range.nonce.min(32)
        }
        (SocketAddr::V6(a), SocketAddr::V6(n)) => {
            (a.ip().to_bits() ^ n.ip().to_bits()).leading_zeros() >= range.nonce.min(128)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use loligo_wire::UTime;

    use super::*;

    fn addr(kind: AddrKind, sock: &str, nonce: u32) -> EntityAddr {
        EntityAddr { kind, nonce, sock: Some(sock.parse().expect("a socket address")) }
    }

    #[test]
    fn clients_hosts_and_networks_are_found() {
        let mut list = Blocklist::default();
        assert!(list.is_empty());
        list.addrs.insert(addr(AddrKind::Any, "10.0.0.1:0", 7), UTime::default());
        list.addrs.insert(addr(AddrKind::Any, "10.0.0.2:0", 0), UTime::default());
        list.ranges.insert(addr(AddrKind::Cidr, "192.168.0.0:0", 16), UTime::default());
        list.ranges.insert(addr(AddrKind::Cidr, "[2001:db8::]:0", 32), UTime::default());
        for (sock, nonce, listed) in [
            ("10.0.0.1:0", 7, true),
            ("10.0.0.1:0", 8, false),
            ("10.0.0.2:6800", 9, true),
            ("192.168.77.1:1", 1, true),
            ("192.169.0.1:1", 1, false),
            ("[2001:db8:1::1]:1", 1, true),
            ("[2001:db9::1]:1", 1, false),
        ] {
            let peer = EntityAddrVec::from(addr(AddrKind::Msgr2, sock, nonce));
            assert_eq!(list.contains(&peer), listed, "{sock}/{nonce}");
        }
    }
}
