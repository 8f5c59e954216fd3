//! A list of addresses, each with a time. The list may have tens of thousands of entries and changes by
//! one entry from map to map, while several maps are alive. Unchanged parts are shared between maps.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use loligo_wire::{Decode, DecodeError, Encode, EntityAddr, Reader, UTime, Writer};

/// The maximum number of entries in a part, which is the unit that a change copies.
const PART_MAX: usize = 64;

/// Addresses with times, in the order of Ceph's maps. Cloning is cheap, and so is a change to a clone.
#[derive(Clone, Default)]
pub struct AddrTimes {
    /// The parts in ascending order of addresses; no part is empty.
    parts: Vec<Arc<Vec<Entry>>>,
    len: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    image: Image,
    addr: EntityAddr,
    until: UTime,
}

/// The in-memory layout of `entity_addr_t` on a little-endian machine: messenger, nonce, socket address.
/// Ceph's maps order addresses by these bytes.
type Image = [u8; 36];

fn image_of(addr: &EntityAddr) -> Image {
    let mut image = [0; 36];
    let mut at = 0;
    let mut put = |bytes: &[u8]| {
        image[at..at + bytes.len()].copy_from_slice(bytes);
        at += bytes.len();
    };
    put(&addr.kind.code().to_le_bytes());
    put(&addr.nonce.to_le_bytes());
    match addr.sock {
        None => {}
        Some(SocketAddr::V4(v4)) => {
            put(&2u16.to_le_bytes());
            put(&v4.port().to_be_bytes());
            put(&v4.ip().octets());
        }
        Some(SocketAddr::V6(v6)) => {
            put(&10u16.to_le_bytes());
            put(&v6.port().to_be_bytes());
            put(&v6.flowinfo().to_le_bytes());
            put(&v6.ip().octets());
            put(&v6.scope_id().to_le_bytes());
        }
    }
    image
}

impl AddrTimes {
    /// The number of addresses.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns an address's time, if the list contains the address.
    pub fn get(&self, addr: &EntityAddr) -> Option<UTime> {
        let (part, at) = self.find(&image_of(addr)).ok()?;
        Some(self.parts[part][at].until)
    }

    /// Whether the list contains an address.
    pub fn contains_key(&self, addr: &EntityAddr) -> bool {
        self.find(&image_of(addr)).is_ok()
    }

    /// Adds an address, or replaces its time. Returns the previous time.
    pub fn insert(&mut self, addr: EntityAddr, until: UTime) -> Option<UTime> {
        let entry = Entry { image: image_of(&addr), addr, until };
        match self.find(&entry.image) {
            Ok((part, at)) => {
                let part = Arc::make_mut(&mut self.parts[part]);
                Some(std::mem::replace(&mut part[at].until, until))
            }
            Err((part, at)) => {
                self.len += 1;
                if self.parts.is_empty() {
                    self.parts.push(Arc::default());
                }
                let is_last = part + 1 == self.parts.len();
                let entries = Arc::make_mut(&mut self.parts[part]);
                entries.insert(at, entry);
                if entries.len() > PART_MAX {
                    // An insertion at the end of the list, as when decoding a sorted one, leaves full parts
                    // behind. All others leave two halves, so that no order of insertions makes many parts.
                    let cut = if is_last && at == PART_MAX { PART_MAX } else { PART_MAX / 2 };
                    let behind = entries.split_off(cut);
                    self.parts.insert(part + 1, Arc::new(behind));
                }
                None
            }
        }
    }

    /// Adds an address unless the list contains it.
    pub fn insert_new(&mut self, addr: EntityAddr, until: UTime) {
        if !self.contains_key(&addr) {
            self.insert(addr, until);
        }
    }

    /// Removes an address. Returns its time, if the list contained it.
    pub fn remove(&mut self, addr: &EntityAddr) -> Option<UTime> {
        let (part, at) = self.find(&image_of(addr)).ok()?;
        self.len -= 1;
        let entries = Arc::make_mut(&mut self.parts[part]);
        let gone = entries.remove(at);
        let left = entries.len();
        if left == 0 {
            self.parts.remove(part);
        } else if let Some(next) = self.parts.get(part + 1)
            && left + next.len() <= PART_MAX / 2
        {
            let next = self.parts.remove(part + 1);
            Arc::make_mut(&mut self.parts[part]).extend_from_slice(&next);
        }
        Some(gone.until)
    }

    /// Iterates over addresses and times, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&EntityAddr, &UTime)> {
        self.parts.iter().flat_map(|part| part.iter()).map(|entry| (&entry.addr, &entry.until))
    }

    /// Iterates over the addresses, in order.
    pub fn keys(&self) -> impl Iterator<Item = &EntityAddr> {
        self.iter().map(|(addr, _)| addr)
    }

    /// The part and the index at which an address is (`Ok`), or would be inserted (`Err`).
    fn find(&self, image: &Image) -> Result<(usize, usize), (usize, usize)> {
        let behind =
            self.parts.partition_point(|part| part.first().is_some_and(|first| first.image <= *image));
        let part = behind.saturating_sub(1);
        let Some(entries) = self.parts.get(part) else { return Err((0, 0)) };
        match entries.binary_search_by(|entry| entry.image.cmp(image)) {
            Ok(at) => Ok((part, at)),
            Err(at) => Err((part, at)),
        }
    }
}

impl PartialEq for AddrTimes {
    fn eq(&self, other: &Self) -> bool {
        let same_parts = || {
            let pairs = self.parts.iter().zip(&other.parts);
            self.parts.len() == other.parts.len() && pairs.into_iter().all(|(a, b)| Arc::ptr_eq(a, b))
        };
        self.len == other.len && (same_parts() || self.iter().eq(other.iter()))
    }
}

impl Eq for AddrTimes {}

impl fmt::Debug for AddrTimes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl Extend<(EntityAddr, UTime)> for AddrTimes {
    fn extend<I: IntoIterator<Item = (EntityAddr, UTime)>>(&mut self, entries: I) {
        for (addr, until) in entries {
            self.insert(addr, until);
        }
    }
}

impl FromIterator<(EntityAddr, UTime)> for AddrTimes {
    fn from_iter<I: IntoIterator<Item = (EntityAddr, UTime)>>(entries: I) -> Self {
        let mut all = Self::default();
        all.extend(entries);
        all
    }
}

impl Encode for AddrTimes {
    fn encode(&self, w: &mut Writer) {
        w.count(self.len);
        for (addr, until) in self.iter() {
            w.put(addr);
            w.put(until);
        }
    }
}

impl Decode for AddrTimes {
    const MIN_LEN: usize = 4;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(r.get::<Vec<(EntityAddr, UTime)>>()?.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use loligo_wire::AddrKind;
    use proptest::prelude::*;

    use super::*;

    fn addr() -> impl Strategy<Value = EntityAddr> {
        let kind = prop_oneof![Just(AddrKind::Any), Just(AddrKind::Cidr)];
        let v4 = (0..4u8, 0..400u16).prop_map(|(host, port)| SocketAddr::from(([10, 0, 0, host], port)));
        let v6 =
            (0..4u16, 0..9u16).prop_map(|(host, port)| SocketAddr::from(([1, 0, 0, 0, 0, 0, 0, host], port)));
        let sock = prop_oneof![1 => Just(None), 9 => v4.prop_map(Some), 3 => v6.prop_map(Some)];
        (kind, 0..3u32, sock).prop_map(|(kind, nonce, sock)| EntityAddr { kind, nonce, sock })
    }

    /// Derives the image from the encoding, which has the same fields: seven bytes of envelope,
    /// messenger and nonce, the length of the socket address, the socket address.
    fn image_by_encoding(addr: &EntityAddr) -> Image {
        let encoded = addr.to_bytes();
        let mut image = [0; 36];
        image[..8].copy_from_slice(&encoded[7..15]);
        image[8..8 + encoded.len() - 19].copy_from_slice(&encoded[19..]);
        image
    }

    /// First a full part, then addresses behind it that come in descending order.
    #[test]
    fn no_order_of_insertions_makes_many_parts() {
        const MORE: usize = 5000;
        let addr = |number: usize| EntityAddr {
            kind: AddrKind::Any,
            nonce: 0,
            sock: Some(SocketAddr::from(([10, 0, (number >> 8) as u8, number as u8], 0))),
        };
        let mut list = AddrTimes::default();
        let ascending = 0..PART_MAX;
        for number in ascending.chain((PART_MAX..PART_MAX + MORE).rev()) {
            list.insert(addr(number), UTime::default());
        }
        assert_eq!(list.len(), PART_MAX + MORE);
        assert!(list.parts.len() <= 2 + list.len() / (PART_MAX / 2), "{} parts", list.parts.len());
    }

    proptest! {
        #[test]
        fn it_is_a_map_in_order_of_the_bytes_in_memory(
            steps in prop::collection::vec((0..3u8, addr(), 0..9u32), 0..600),
        ) {
            let (mut list, mut oracle) = (AddrTimes::default(), BTreeMap::new());
            for (what, addr, sec) in steps {
                let until = UTime { sec, nsec: 0 };
                let key = image_by_encoding(&addr);
                prop_assert_eq!(key, image_of(&addr));
                let before = list.clone();
                match what {
                    0 => {
                        let gone = oracle.remove(&key).map(|(_, until)| until);
                        prop_assert_eq!(list.remove(&addr), gone);
                        prop_assert_eq!(before != list, gone.is_some());
                    }
                    _ => prop_assert_eq!(
                        list.insert(addr, until),
                        oracle.insert(key, (addr, until)).map(|(_, until)| until)
                    ),
                }
                prop_assert_eq!(list.get(&addr), oracle.get(&key).map(|(_, until)| *until));
                prop_assert_eq!(list.contains_key(&addr), oracle.contains_key(&key));
            }
            prop_assert_eq!(list.len(), oracle.len());
            prop_assert!(list.iter().map(|(addr, until)| (*addr, *until)).eq(oracle.into_values()));
            prop_assert!(list.parts.iter().all(|part| (1..=PART_MAX).contains(&part.len())));
            prop_assert_eq!(AddrTimes::from_bytes(&list.to_bytes()), Ok(list));
        }
    }
}
