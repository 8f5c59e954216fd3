//! Class `lock`: advisory locks on objects (`src/cls/lock`). A lock is an attribute `lock.NAME` that
//! lists its owners.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use loligo_wire::{Decode, DecodeError, Encode, EntityAddr, EntityNum, Errno, Reader, UTime, Writer};

use crate::class::{Class, DONE, Outcome, give, rd, rw};
use crate::handle::Handle;

pub(crate) static CLASS: Class = Class {
    name: "lock",
    methods: &[
        rw("lock", lock),
        rw("unlock", unlock),
        rw("break_lock", break_lock),
        rd("get_info", get_info),
        rd("list_locks", list_locks),
        rd("assert_locked", assert_locked),
        rw("set_cookie", set_cookie),
    ],
};

const PREFIX: &str = "lock.";

/// Kinds of locks (`ClsLockType`).
const EXCLUSIVE: u8 = 1;
const SHARED: u8 = 2;
/// As `EXCLUSIVE`; releasing the lock removes the object.
const EXCLUSIVE_EPHEMERAL: u8 = 3;

/// The caller may lock again a lock it already holds (`LOCK_FLAG_MAY_RENEW`).
const MAY_RENEW: u8 = 1;
/// As `MAY_RENEW`, and the caller must already hold the lock (`LOCK_FLAG_MUST_RENEW`).
const MUST_RENEW: u8 = 2;

/// The owners of a lock, by client and cookie.
type Lockers = BTreeMap<(EntityNum, Bytes), Locker>;

struct Locker {
    /// Zero means never.
    expiration: UTime,
    addr: EntityAddr,
    description: Bytes,
}

#[derive(Default)]
struct Lock {
    lockers: Lockers,
    kind: u8,
    tag: Bytes,
}

impl Encode for Lock {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.count(self.lockers.len());
            for ((name, cookie), locker) in &self.lockers {
                w.versioned(1, 1, |w| {
                    w.put(name);
                    w.put(cookie);
                });
                w.versioned(1, 1, |w| {
                    w.put(&locker.expiration);
                    w.put(&locker.addr);
                    w.put(&locker.description);
                });
            }
            w.u8(self.kind);
            w.put(&self.tag);
        });
    }
}

impl Decode for Lock {
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.versioned("lock_info_t", 1, 1, |r, _| {
            let mut lockers = Lockers::new();
            for _ in 0..r.count(12)? {
                let id = r.versioned("locker_id_t", 1, 1, |r, _| Ok((r.get()?, r.get()?)))?;
                let locker = r.versioned("locker_info_t", 1, 1, |r, _| {
                    Ok(Locker { expiration: r.get()?, addr: r.get()?, description: r.get()? })
                })?;
                lockers.insert(id, locker);
            }
            Ok(Self { lockers, kind: r.u8()?, tag: r.get()? })
        })
    }
}

fn attribute(name: &[u8]) -> Vec<u8> {
    [PREFIX.as_bytes(), name].concat()
}

/// Loads a lock without its expired owners. A lock that does not exist has no owners.
fn load(object: &mut Handle<'_>, name: &[u8]) -> Result<Lock, Errno> {
    let mut lock = match object.xattr(attribute(name)) {
        Ok(bytes) => Lock::from_bytes(&bytes).map_err(|_| Errno::EIO)?,
        Err(Errno::ENODATA) => Lock::default(),
        Err(errno) => return Err(errno),
    };
    let now = object.now();
    lock.lockers.retain(|_, locker| locker.expiration.is_zero() || locker.expiration >= now);
    Ok(lock)
}

fn store(object: &mut Handle<'_>, name: &[u8], lock: &Lock) -> Result<(), Errno> {
    object.set_xattr(attribute(name), &lock.to_bytes())
}

fn lock(object: &mut Handle<'_>, input: &[u8]) -> Outcome {
    let mut r = Reader::new(input);
    let (name, kind, cookie, tag, description, duration, flags) =
        r.versioned("cls_lock_lock_op", 1, 1, |r, _| {
            let (name, kind, cookie): (Bytes, u8, Bytes) = (r.get()?, r.u8()?, r.get()?);
            let (tag, description): (Bytes, Bytes) = (r.get()?, r.get()?);
            Ok((name, kind, cookie, tag, description, r.get::<UTime>()?, r.u8()?))
        })?;
    let exclusive = matches!(kind, EXCLUSIVE | EXCLUSIVE_EPHEMERAL);
    if !(exclusive || kind == SHARED)
        || name.is_empty()
        || (flags & MAY_RENEW != 0 && flags & MUST_RENEW != 0)
    {
        return Err(Errno::EINVAL);
    }
    let mut lock = match load(object, &name) {
        Err(Errno::ENOENT) => Lock::default(),
        loaded => loaded?,
    };
    if !lock.lockers.is_empty() && tag != lock.tag {
        return Err(Errno::EBUSY);
    }
    let id = (object.client(), cookie);
    let held = lock.lockers.remove(&id).is_some();
    if held && flags & (MAY_RENEW | MUST_RENEW) == 0 {
        return Err(Errno::EEXIST);
    }
    if !held && flags & MUST_RENEW != 0 {
        return Err(Errno::ENOENT);
    }
    if !lock.lockers.is_empty() && (exclusive || lock.kind != kind) {
        return Err(Errno::EBUSY);
    }
    let length = duration.since_epoch();
    let expiration = if length == Duration::ZERO { UTime::default() } else { object.now() + length };
    lock.kind = kind;
    lock.tag = tag;
    lock.lockers.insert(id, Locker { expiration, addr: object.client_addr(), description });
    store(object, &name, &lock)?;
    DONE
}

fn unlock(object: &mut Handle<'_>, input: &[u8]) -> Outcome {
    let mut r = Reader::new(input);
    let (name, cookie): (Bytes, Bytes) =
        r.versioned("cls_lock_unlock_op", 1, 1, |r, _| Ok((r.get()?, r.get()?)))?;
    let client = object.client();
    release(object, &name, (client, cookie))
}

fn break_lock(object: &mut Handle<'_>, input: &[u8]) -> Outcome {
    let mut r = Reader::new(input);
    let (name, locker, cookie): (Bytes, EntityNum, Bytes) =
        r.versioned("cls_lock_break_op", 1, 1, |r, _| Ok((r.get()?, r.get()?, r.get()?)))?;
    release(object, &name, (locker, cookie))
}

fn release(object: &mut Handle<'_>, name: &[u8], id: (EntityNum, Bytes)) -> Outcome {
    let mut lock = load(object, name)?;
    lock.lockers.remove(&id).ok_or(Errno::ENOENT)?;
    if lock.kind == EXCLUSIVE_EPHEMERAL {
        object.remove()?;
    } else {
        store(object, name, &lock)?;
    }
    DONE
}

fn get_info(object: &mut Handle<'_>, input: &[u8]) -> Outcome {
    let name: Bytes = Reader::new(input).versioned("cls_lock_get_info_op", 1, 1, |r, _| r.get())?;
    // The reply has the stored format of a lock.
    give(load(object, &name)?.to_bytes())
}

fn list_locks(object: &mut Handle<'_>, _: &[u8]) -> Outcome {
    let names = object.xattrs()?.into_keys();
    let locks: Vec<Bytes> = names
        .filter_map(|name| name.strip_prefix(PREFIX.as_bytes()).map(|lock| name.slice_ref(lock)))
        .collect();
    let mut w = Writer::new();
    w.versioned(1, 1, |w| w.put(&locks));
    give(w.into_bytes())
}

/// Decodes name, kind, cookie and tag, the common arguments of two methods; `more` decodes the rest.
/// Fails unless the caller holds the lock in this way.
fn held_as<T>(
    object: &mut Handle<'_>,
    input: &[u8],
    more: impl FnOnce(&mut Reader<'_>) -> Result<T, DecodeError>,
) -> Result<(Bytes, Lock, (EntityNum, Bytes), T), Errno> {
    let mut r = Reader::new(input);
    let (name, kind, cookie, tag, more) = r.versioned("cls_lock_assert_op", 1, 1, |r, _| {
        Ok((r.get::<Bytes>()?, r.u8()?, r.get::<Bytes>()?, r.get::<Bytes>()?, more(r)?))
    })?;
    if !matches!(kind, EXCLUSIVE | SHARED | EXCLUSIVE_EPHEMERAL) || name.is_empty() {
        return Err(Errno::EINVAL);
    }
    let lock = load(object, &name)?;
    let id = (object.client(), cookie);
    if lock.kind != kind || lock.tag != tag || !lock.lockers.contains_key(&id) {
        return Err(Errno::EBUSY);
    }
    Ok((name, lock, id, more))
}

fn assert_locked(object: &mut Handle<'_>, input: &[u8]) -> Outcome {
    held_as(object, input, |_| Ok(()))?;
    DONE
}

fn set_cookie(object: &mut Handle<'_>, input: &[u8]) -> Outcome {
    let (name, mut lock, (client, cookie), new) = held_as(object, input, |r| r.get::<Bytes>())?;
    if lock.lockers.contains_key(&(client, new.clone())) {
        return Err(Errno::EBUSY);
    }
    if let Some(locker) = lock.lockers.remove(&(client, cookie)) {
        lock.lockers.insert((client, new), locker);
    }
    store(object, &name, &lock)?;
    DONE
}
