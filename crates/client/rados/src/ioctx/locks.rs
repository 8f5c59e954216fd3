//! Advisory locks on objects (class `lock`).

use std::collections::BTreeMap;
use std::time::Duration;

use loligo_wire::{Decode, DecodeError, EntityAddr, EntityNum, Name, Reader, UTime, Writer};

use super::{IoCtx, WriteOp, decode};
use crate::Error;

/// The mode of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockMode {
    /// At most one holder.
    Exclusive,
    /// Several holders, which all use the same tag.
    Shared,
}

/// Options for taking a lock.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LockOptions {
    /// Distinguishes several holds of one client.
    pub cookie: Name,
    /// All holders of a shared lock must use the same tag.
    pub tag: Name,
    /// A description for people.
    pub description: Name,
    /// Time after which the lock expires unless it is renewed; `None` means never.
    pub duration: Option<Duration>,
    /// Whether the current holder may take the lock again, for another `duration`.
    pub renew: bool,
}

/// A holder of a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockHolder {
    /// The client.
    pub client: EntityNum,
    /// The cookie of its hold.
    pub cookie: Name,
    /// The client's address.
    pub addr: EntityAddr,
    /// The holder's description.
    pub description: Name,
    /// When the lock expires; `None` means never.
    pub expires: Option<std::time::SystemTime>,
}

/// A lock and its holders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockInfo {
    /// The mode; `None` if the lock was never taken.
    pub mode: Option<LockMode>,
    /// The tag that shared holders must use.
    pub tag: Name,
    /// The holders.
    pub holders: Vec<LockHolder>,
}

const EXCLUSIVE: u8 = 1;
const SHARED: u8 = 2;
/// `LOCK_FLAG_MAY_RENEW`.
const MAY_RENEW: u8 = 1;
/// `LOCK_FLAG_MUST_RENEW`.
const MUST_RENEW: u8 = 2;

/// Advisory locks: they exclude only clients that take them too. They outlive the client that took them.
impl IoCtx {
    /// Takes a lock. Creates the object if it does not exist. Fails with EBUSY if another holder has the
    /// lock, and with EEXIST if this client has it.
    pub async fn lock(
        &self,
        oid: impl Into<Vec<u8>>,
        name: impl AsRef<[u8]>,
        mode: LockMode,
        options: &LockOptions,
    ) -> Result<(), Error> {
        self.take_lock(oid.into(), name, mode, options, if options.renew { MAY_RENEW } else { 0 }).await
    }

    /// Renews a lock that this client holds, for another `duration`. Fails with ENOENT if it does not
    /// hold the lock.
    pub async fn renew_lock(
        &self,
        oid: impl Into<Vec<u8>>,
        name: impl AsRef<[u8]>,
        mode: LockMode,
        options: &LockOptions,
    ) -> Result<(), Error> {
        self.take_lock(oid.into(), name, mode, options, MUST_RENEW).await
    }

    async fn take_lock(
        &self,
        oid: Vec<u8>,
        name: impl AsRef<[u8]>,
        mode: LockMode,
        options: &LockOptions,
        flags: u8,
    ) -> Result<(), Error> {
        self.exec_write(oid, "lock", "lock", &lock_input(name.as_ref(), mode, options, flags)).await
    }

    /// Releases a lock of this client. Fails with ENOENT if it does not hold the lock.
    pub async fn unlock(
        &self,
        oid: impl Into<Vec<u8>>,
        name: impl AsRef<[u8]>,
        cookie: impl AsRef<[u8]>,
    ) -> Result<(), Error> {
        let input = versioned(|w| {
            w.blob(name.as_ref());
            w.blob(cookie.as_ref());
        });
        self.exec_write(oid, "lock", "unlock", &input).await
    }

    /// Breaks a lock: takes it away from the given holder.
    pub async fn break_lock(
        &self,
        oid: impl Into<Vec<u8>>,
        name: impl AsRef<[u8]>,
        client: EntityNum,
        cookie: impl AsRef<[u8]>,
    ) -> Result<(), Error> {
        let input = versioned(|w| {
            w.blob(name.as_ref());
            w.put(&client);
            w.blob(cookie.as_ref());
        });
        self.exec_write(oid, "lock", "break_lock", &input).await
    }

    /// Returns a lock and its holders.
    pub async fn lock_info(
        &self,
        oid: impl Into<Vec<u8>>,
        name: impl AsRef<[u8]>,
    ) -> Result<LockInfo, Error> {
        let input = versioned(|w| w.blob(name.as_ref()));
        let out = self.exec(oid, "lock", "get_info", &input).await?;
        decode("cls_lock_get_info_reply", &out, LockInfo::decode)
    }

    /// Returns the names of an object's locks, including locks without a holder.
    pub async fn locks(&self, oid: impl Into<Vec<u8>>) -> Result<Vec<Name>, Error> {
        let out = self.exec(oid, "lock", "list_locks", &[]).await?;
        decode("cls_lock_list_locks_reply", &out, |r| {
            r.versioned("cls_lock_list_locks_reply", 1, 1, |r, _| r.get())
        })
    }
}

/// Taking locks as part of a request.
impl WriteOp {
    /// Takes a lock, as [`IoCtx::lock`] does.
    pub fn lock(self, name: impl AsRef<[u8]>, mode: LockMode, options: &LockOptions) -> Self {
        let flags = if options.renew { MAY_RENEW } else { 0 };
        self.exec("lock", "lock", &lock_input(name.as_ref(), mode, options, flags))
    }
}

/// `cls_lock_lock_op`.
fn lock_input(name: &[u8], mode: LockMode, options: &LockOptions, flags: u8) -> Vec<u8> {
    let duration = UTime::default() + options.duration.unwrap_or_default();
    versioned(|w| {
        w.blob(name);
        w.u8(if mode == LockMode::Exclusive { EXCLUSIVE } else { SHARED });
        w.put(&options.cookie);
        w.put(&options.tag);
        w.put(&options.description);
        w.put(&duration);
        w.u8(flags);
    })
}

fn versioned(body: impl FnOnce(&mut Writer)) -> Vec<u8> {
    let mut w = Writer::new();
    w.versioned(1, 1, body);
    w.into_bytes().to_vec()
}

impl LockInfo {
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.versioned("cls_lock_get_info_reply", 1, 1, |r, _| {
            let holders: BTreeMap<Id, Terms> = r.get()?;
            let mode = match r.u8()? {
                EXCLUSIVE => Some(LockMode::Exclusive),
                SHARED => Some(LockMode::Shared),
                _ => None,
            };
            let holder = |(id, terms): (Id, Terms)| LockHolder {
                client: id.client,
                cookie: id.cookie,
                addr: terms.addr,
                description: terms.description,
                expires: (!terms.expires.is_zero()).then(|| terms.expires.to_system()),
            };
            Ok(Self { mode, tag: r.get()?, holders: holders.into_iter().map(holder).collect() })
        })
    }
}

/// `locker_id_t`.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Id {
    client: EntityNum,
    cookie: Name,
}

/// `locker_info_t`.
struct Terms {
    expires: UTime,
    addr: EntityAddr,
    description: Name,
}

impl Decode for Id {
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.versioned("locker_id_t", 1, 1, |r, _| Ok(Self { client: r.get()?, cookie: r.get()? }))
    }
}

impl Decode for Terms {
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.versioned("locker_info_t", 1, 1, |r, _| {
            Ok(Self { expires: r.get()?, addr: r.get()?, description: r.get()? })
        })
    }
}
