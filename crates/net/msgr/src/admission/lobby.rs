//! Sockets whose handshake is in progress. A newcomer always gets a seat: if none is free, the oldest
//! handshake of the host that has most of them is ended.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use loligo_lockstat::{Class, Mutex};
use tokio::sync::Notify;

static LOBBY: Class = Class::new("msgr.lobby");

/// The unit among which seats are shared: an IPv4 address, or the upper 64 bits of an IPv6 address,
/// which one site has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Host(IpAddr);

impl From<IpAddr> for Host {
    fn from(ip: IpAddr) -> Self {
        match ip.to_canonical() {
            IpAddr::V6(ip) => Self(Ipv6Addr::from_bits(ip.to_bits() >> 64 << 64).into()),
            ip => Self(ip),
        }
    }
}

/// The seats of sockets whose handshake is in progress.
pub struct Lobby {
    max: usize,
    per_host_max: usize,
    seats: Mutex<Seats>,
}

/// By host, and per host by age.
#[derive(Default)]
struct Seats {
    next: u64,
    len: usize,
    by_host: HashMap<Host, BTreeMap<u64, Arc<Notify>>>,
}

/// One socket's seat in a [`Lobby`], released when it is dropped.
pub struct Seat {
    lobby: Arc<Lobby>,
    host: Host,
    number: u64,
    evicted: Arc<Notify>,
}

impl Lobby {
    /// Creates a lobby with `max` seats in total, at most `per_host_max` for one host.
    pub fn new(max: usize, per_host_max: usize) -> Arc<Self> {
        Arc::new(Self { max, per_host_max, seats: Mutex::new(&LOBBY, Seats::default()) })
    }

    /// Takes a seat, if necessary that of an older handshake.
    pub fn enter(self: &Arc<Self>, host: IpAddr) -> Seat {
        let host = Host::from(host);
        let evicted = Arc::new(Notify::new());
        let mut seats = self.seats.lock();
        if seats.by_host.get(&host).is_some_and(|of_host| of_host.len() >= self.per_host_max) {
            seats.evict_oldest_of(host);
        } else if seats.len >= self.max {
            seats.evict();
        }
        let number = seats.next;
        seats.next += 1;
        seats.len += 1;
        seats.by_host.entry(host).or_default().insert(number, Arc::clone(&evicted));
        drop(seats);
        Seat { lobby: Arc::clone(self), host, number, evicted }
    }

    /// Ends a handshake to free its descriptor. Returns `false` if there is none.
    pub fn evict(&self) -> bool {
        self.seats.lock().evict()
    }

    /// Whether no seat is taken.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of taken seats.
    pub fn len(&self) -> usize {
        self.seats.lock().len
    }
}

impl fmt::Debug for Lobby {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lobby({} of {})", self.len(), self.max)
    }
}

impl Seats {
    /// Evicts the oldest handshake of the host that has most; among several such hosts, of the one with
    /// the oldest handshake.
    fn evict(&mut self) -> bool {
        let most = self.by_host.iter().max_by_key(|(_, seats)| {
            (seats.len(), std::cmp::Reverse(seats.keys().next().copied().unwrap_or(u64::MAX)))
        });
        let Some(host) = most.map(|(host, _)| *host) else { return false };
        self.evict_oldest_of(host);
        true
    }

    fn evict_oldest_of(&mut self, host: Host) {
        let Some(number) = self.by_host.get(&host).and_then(|of_host| of_host.keys().next().copied()) else {
            return;
        };
        if let Some(evicted) = self.leave(host, number) {
            evicted.notify_one();
        }
    }

    fn leave(&mut self, host: Host, number: u64) -> Option<Arc<Notify>> {
        let of_host = self.by_host.get_mut(&host)?;
        let seat = of_host.remove(&number)?;
        self.len -= 1;
        if of_host.is_empty() {
            self.by_host.remove(&host);
        }
        Some(seat)
    }
}

impl Seat {
    /// Waits until the seat is given to another socket.
    pub async fn evicted(&self) {
        self.evicted.notified().await;
    }
}

impl fmt::Debug for Seat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Seat({})", self.number)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let left = self.lobby.seats.lock().leave(self.host, self.number);
        drop(left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(n: u8) -> IpAddr {
        [10, 0, 0, n].into()
    }

    fn evicted(seat: &Seat) -> bool {
        !seat.lobby.seats.lock().by_host.get(&seat.host).is_some_and(|of| of.contains_key(&seat.number))
    }

    #[test]
    fn the_oldest_of_the_host_that_has_most_goes() {
        let lobby = Lobby::new(6, 4);
        let greedy: Vec<Seat> = (0..4).map(|_| lobby.enter(host(1))).collect();
        let modest: Vec<Seat> = (2..4).map(|n| lobby.enter(host(n))).collect();
        let newcomer = lobby.enter(host(9));
        assert_eq!(greedy.iter().map(evicted).collect::<Vec<_>>(), [true, false, false, false]);
        assert!(!modest.iter().any(evicted) && !evicted(&newcomer));
        assert_eq!(lobby.len(), 6);
        drop(greedy);
        drop(modest);
        assert_eq!(lobby.len(), 1);
        drop(newcomer);
        assert!(lobby.seats.lock().by_host.is_empty());
    }

    #[test]
    fn a_host_has_its_share_and_the_newest_stay() {
        let lobby = Lobby::new(100, 4);
        let seats: Vec<Seat> = (0..1000).map(|_| lobby.enter(host(1))).collect();
        assert_eq!(lobby.len(), 4);
        assert!(seats[..996].iter().all(evicted) && !seats[996..].iter().any(evicted));
    }

    #[test]
    fn addresses_of_one_site_are_one_host() {
        let of = |text: &str| Host::from(text.parse::<IpAddr>().expect("an address"));
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:2"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:10.0.0.1"), host(1).into());
        assert_ne!(Host::from(host(1)), host(2).into());
    }
}
