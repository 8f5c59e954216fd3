//! The secrets that seal tickets. Each service has three at a time: the previous one (for tickets still
//! in use), the current one (for new tickets), and the next one (so that services can learn it before it
//! is used).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use az::SaturatingAs as _;
use loligo_wire::{Decode, DecodeError, Encode, EntityType, Reader, UTime, Writer};

use crate::key::{CryptoKey, KeyType};

/// `KEY_ROTATE_NUM`.
const KEYS_PER_SERVICE: usize = 3;
const CURRENT: usize = 1;
const SERVICES: [EntityType; 5] =
    [EntityType::AUTH, EntityType::MON, EntityType::OSD, EntityType::MGR, EntityType::MDS];

/// The types and lifetimes of secrets.
#[derive(Clone, Copy, Debug)]
pub struct Rotation {
    /// The validity of the monitors' own tickets (`auth_mon_ticket_ttl`).
    pub mon_ttl: Duration,
    /// The validity of all other tickets (`auth_service_ticket_ttl`).
    pub service_ttl: Duration,
    /// The type of new secrets.
    pub cipher: KeyType,
}

/// The rotating secrets of all services. Readers never block.
pub struct ServiceKeys {
    rotation: Rotation,
    rings: ArcSwap<BTreeMap<EntityType, Ring>>,
}

/// A service's secrets, oldest first, with consecutive ids.
#[derive(Clone)]
struct Ring([ServiceKey; KEYS_PER_SERVICE]);

#[derive(Clone)]
struct ServiceKey {
    id: u64,
    key: CryptoKey,
    /// The time at which it stops being the current one.
    expires: UTime,
}

impl ServiceKeys {
    /// Generates new secrets. A secret seals tickets for as long as a ticket is valid.
    pub fn new(rotation: Rotation, now: UTime) -> Self {
        let keys = Self { rotation, rings: ArcSwap::default() };
        let rings = SERVICES.into_iter().map(|s| (s, Ring::new(rotation.of(s), 1, now))).collect();
        keys.rings.store(Arc::new(rings));
        keys
    }

    /// Restores the secrets that [`ServiceKeys::to_bytes`] encoded, so that clients keep their tickets
    /// over a restart.
    pub fn restore(rotation: Rotation, bytes: &[u8], now: UTime) -> Result<Self, DecodeError> {
        let rings: BTreeMap<EntityType, Ring> = Reader::new(bytes)
            .versioned("service keys", 1, 1, |r, _| r.seq::<(u32, Ring), Vec<_>>())?
            .into_iter()
            .map(|(service, ring)| (EntityType(service), ring))
            .collect();
        let keys = Self::new(rotation, now);
        keys.rings.rcu(|fresh| {
            let mut all = BTreeMap::clone(fresh);
            all.extend(rings.clone());
            all
        });
        Ok(keys)
    }

    /// Encodes the secrets, to keep them over a restart. Store them where no other user can read them.
    pub fn to_bytes(&self) -> bytes::Bytes {
        let mut w = Writer::new();
        let rings = self.rings.load();
        w.versioned(1, 1, |w| {
            w.count(rings.len());
            for (service, ring) in rings.iter() {
                w.u32(service.0);
                w.put(ring);
            }
        });
        w.into_bytes()
    }

    /// Replaces secrets that have been current for long enough. Call it every few minutes, from one
    /// thread. Returns `true` if a secret was replaced: the secrets should then be saved again.
    pub fn rotate(&self, now: UTime) -> bool {
        let rings = self.rings.load();
        if rings.values().all(|ring| ring.0[CURRENT].expires > now) {
            return false;
        }
        let turned =
            rings.iter().map(|(service, ring)| (*service, ring.turned(self.rotation.of(*service), now)));
        self.rings.store(Arc::new(turned.collect()));
        true
    }

    /// The secret that seals a service's new tickets, and its id; `None` if `service` is not a service.
    pub(super) fn current(&self, service: EntityType) -> Option<(u64, CryptoKey)> {
        self.rings.load().get(&service).map(|ring| (ring.0[CURRENT].id, ring.0[CURRENT].key.clone()))
    }

    /// The secret that sealed a ticket.
    pub(super) fn find(&self, service: EntityType, id: u64) -> Option<CryptoKey> {
        let rings = self.rings.load();
        rings.get(&service)?.0.iter().find(|k| k.id == id).map(|k| k.key.clone())
    }
}

/// The parameters of one service's secrets.
#[derive(Clone, Copy)]
struct Mould {
    ttl: Duration,
    cipher: KeyType,
}

impl Rotation {
    fn of(self, service: EntityType) -> Mould {
        let ttl = if service == EntityType::AUTH { self.mon_ttl } else { self.service_ttl };
        Mould { ttl, cipher: self.cipher }
    }
}

impl Ring {
    fn new(Mould { ttl, cipher }: Mould, first_id: u64, now: UTime) -> Self {
        Self(std::array::from_fn(|i| ServiceKey {
            id: first_id + i as u64,
            key: CryptoKey::generate_of(cipher, now),
            expires: now + ttl * i.saturating_as::<u32>(),
        }))
    }

    /// Returns the ring with a current secret that is valid at `now`.
    fn turned(&self, mould: Mould, now: UTime) -> Self {
        let [_, current, next] = &self.0;
        if current.expires > now {
            return self.clone();
        }
        if next.expires <= now {
            return Self::new(mould, next.id + 1, now); // `rotate` was not called for a whole lifetime
        }
        let key = CryptoKey::generate_of(mould.cipher, now);
        let newest = ServiceKey { id: next.id + 1, key, expires: next.expires + mould.ttl };
        Self([current.clone(), next.clone(), newest])
    }
}

impl Encode for Ring {
    fn encode(&self, w: &mut Writer) {
        for key in &self.0 {
            w.u64(key.id);
            w.put(&key.key);
            w.put(&key.expires);
        }
    }
}

impl Decode for Ring {
    const MIN_LEN: usize = KEYS_PER_SERVICE * 44;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut key = || Ok(ServiceKey { id: r.u64()?, key: r.get()?, expires: r.get()? });
        Ok(Self([key()?, key()?, key()?]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);
    const DAY: Duration = Duration::from_secs(86_400);
    const ROTATION: Rotation = Rotation { mon_ttl: DAY, service_ttl: HOUR, cipher: KeyType::Aes };

    fn at(hours: u32) -> UTime {
        UTime { sec: 1_700_000_000, nsec: 0 } + HOUR * hours
    }

    #[test]
    fn a_ticket_can_be_opened_for_its_whole_life() {
        let keys = ServiceKeys::new(ROTATION, at(0));
        assert_eq!(keys.current(EntityType::OSD).unwrap().0, 2);
        assert!(!keys.rotate(at(0)));
        for hour in 1..50 {
            let (id, key) = keys.current(EntityType::OSD).unwrap();
            assert!(keys.rotate(at(hour)));
            assert_eq!(keys.find(EntityType::OSD, id), Some(key), "one lifetime later");
        }
        assert_eq!(keys.find(EntityType::OSD, 2), None);
        assert_eq!(keys.current(EntityType::AUTH).unwrap().0, 4);
        assert!(keys.current(EntityType::CLIENT).is_none());
    }

    #[test]
    fn a_long_sleep_leaves_no_old_secret() {
        let keys = ServiceKeys::new(ROTATION, at(0));
        let (old, _) = keys.current(EntityType::MGR).unwrap();
        assert!(keys.rotate(at(100)));
        assert!(!keys.rotate(at(100)));
        assert_eq!(keys.find(EntityType::MGR, old), None);
        assert!(keys.current(EntityType::MGR).is_some());
    }

    #[test]
    fn secrets_survive_a_restart() {
        let keys = ServiceKeys::new(ROTATION, at(0));
        let again = ServiceKeys::restore(ROTATION, &keys.to_bytes(), at(0)).unwrap();
        for service in SERVICES {
            assert_eq!(again.current(service), keys.current(service));
        }
        assert!(ServiceKeys::restore(ROTATION, &keys.to_bytes()[..50], at(0)).is_err());
    }

    #[test]
    fn secrets_of_another_type_come_with_time() {
        let keys = ServiceKeys::new(ROTATION, at(0));
        let new = Rotation { cipher: KeyType::Aes256k, ..ROTATION };
        let again = ServiceKeys::restore(new, &keys.to_bytes(), at(0)).unwrap();
        let kind = || again.current(EntityType::OSD).unwrap().1.kind();
        assert_eq!(kind(), KeyType::Aes, "tickets that are about stay good");
        let turned: Vec<_> = (1..4).map(|hour| (again.rotate(at(hour)), kind())).collect();
        assert_eq!(turned[2], (true, KeyType::Aes256k));
        let once_more = ServiceKeys::restore(new, &again.to_bytes(), at(3)).unwrap();
        assert_eq!(once_more.current(EntityType::OSD), again.current(EntityType::OSD));
    }
}
