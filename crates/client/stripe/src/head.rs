//! The first object of a striped file, which holds the file's size, layout and lock.
//!
//! The attributes, their text and the lock are those of libradosstriper
//! (`src/libradosstriper/RadosStriperImpl.cc`). Readers and writers hold the lock shared, with the tag
//! `Tag`; a client that truncates or removes the file holds it exclusively, without a tag. The cookie is
//! a random UUID and the description is empty. Stock programs hold the lock until they release it. This
//! crate's locks expire and are renewed, so that the lock of a program that died is free a minute later.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use loligo_rados::{CmpOp, Errno, IoCtx, LockGuard, LockMode, LockOptions, Name, ReadOp, WriteOp};

use crate::FILE_BYTES_MAX;
use crate::error::Error;
use loligo_layout::Layout;

const STRIPE_UNIT: &str = "striper.layout.stripe_unit";
const STRIPE_COUNT: &str = "striper.layout.stripe_count";
const OBJECT_SIZE: &str = "striper.layout.object_size";
const SIZE: &str = "striper.size";

const LOCK: &str = "striper.lock";
const SHARED_TAG: &str = "Tag";
/// How long a lock outlives its owner, unless [set](crate::Striper::with_lock_time) otherwise.
pub(crate) const LOCK_TIME: Duration = Duration::from_secs(60);

/// The properties of a striped file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStat {
    /// Size in bytes.
    pub size: u64,
    /// When the first object was last changed, which stock programs report as the file's modification
    /// time.
    pub mtime: SystemTime,
    /// The layout.
    pub layout: Layout,
}

/// The first object of a file.
#[derive(Clone, Debug)]
pub(crate) struct Head {
    io: IoCtx,
    name: Vec<u8>,
    lock_time: Duration,
}

impl Head {
    pub(crate) fn new(io: IoCtx, name: Vec<u8>, lock_time: Duration) -> Self {
        Self { io, name, lock_time }
    }

    /// Reads the file's properties atomically.
    pub(crate) async fn stat(&self) -> Result<FileStat, Error> {
        Ok(self.stat_with_xattrs().await?.0)
    }

    /// Reads the properties together with all attributes, including the file's own, atomically.
    pub(crate) async fn stat_with_xattrs(&self) -> Result<(FileStat, BTreeMap<Bytes, Bytes>), Error> {
        let answers = self.io.operate_read(self.name.clone(), ReadOp::new().stat().xattrs()).await?;
        let [stat, attributes] = answers.as_slice() else { return Err(Error::Rados(Errno::EPROTO.into())) };
        let attributes = attributes.map()?;
        let number = |name| number(&attributes, name);
        let layout = Layout::new(number(STRIPE_UNIT)?, number(STRIPE_COUNT)?, number(OBJECT_SIZE)?)?;
        let stat = FileStat { size: number(SIZE)?, mtime: stat.stat()?.mtime, layout };
        Ok((stat, attributes))
    }

    pub(crate) async fn size(&self) -> Result<u64, Error> {
        let value = self.io.xattr(self.name.clone(), SIZE).await;
        let value = value
            .map_err(|e| if e.errno() == Errno::ENODATA { Error::NotStriped(SIZE) } else { e.into() })?;
        parse(SIZE, &value)
    }

    /// Creates the object, with an optional attribute of the user, and takes its lock. EEXIST if the
    /// object exists.
    pub(crate) async fn create(
        &self,
        layout: Layout,
        mark: Option<&(Vec<u8>, Vec<u8>)>,
    ) -> Result<LockGuard, Error> {
        let text = |n: u64| n.to_string();
        let op = WriteOp::new()
            .create(true)
            .set_xattr(OBJECT_SIZE, text(layout.object_size()))
            .set_xattr(STRIPE_UNIT, text(layout.stripe_unit()))
            .set_xattr(STRIPE_COUNT, text(layout.stripe_count()))
            .set_xattr(SIZE, text(0));
        let op = match mark {
            Some((name, _)) if is_striper_attribute(name) => return Err(Error::OwnAttribute(name.clone())),
            Some((name, value)) => op.set_xattr(name, value),
            None => op,
        };
        self.locked(op, LockMode::Shared).await
    }

    /// Takes the lock; ENOENT if the object does not exist.
    pub(crate) async fn lock(&self, mode: LockMode) -> Result<LockGuard, Error> {
        self.locked(WriteOp::new().assert_exists(), mode).await
    }

    async fn locked(&self, op: WriteOp, mode: LockMode) -> Result<LockGuard, Error> {
        let tag = if mode == LockMode::Shared { SHARED_TAG } else { "" };
        let options = LockOptions {
            cookie: uuid()?.into(),
            tag: tag.into(),
            duration: Some(self.lock_time),
            ..LockOptions::default()
        };
        match self.io.operate(self.name.clone(), op.lock(LOCK, mode, &options)).await {
            Ok(()) => Ok(self.io.keep_lock(self.name.clone(), LOCK, mode, self.lock_time, &options)),
            Err(e) if e.errno() == Errno::EBUSY => Err(Error::InUse { holders: self.holders().await }),
            Err(e) => Err(e.into()),
        }
    }

    /// The cookies of the lock's owners.
    pub(crate) async fn lock_cookies(&self) -> Result<Vec<Name>, Error> {
        let info = self.io.lock_info(self.name.clone(), LOCK).await?;
        Ok(info.holders.into_iter().map(|holder| holder.cookie).collect())
    }

    /// The lock's owners, as text for people; empty if they are unknown.
    async fn holders(&self) -> String {
        let info = self.io.lock_info(self.name.clone(), LOCK).await;
        let holders = info.map(|info| info.holders).unwrap_or_default();
        let named = holders.iter().map(|holder| format!("{} (cookie {})", holder.client, holder.cookie));
        named.collect::<Vec<_>>().join(", ")
    }

    /// Raises the size to at least `size`. Done before data is written behind the old end, so that a
    /// client that removes the file finds all its objects. Until the data is written, zeros are read
    /// there.
    pub(crate) async fn grow(&self, size: u64) -> Result<(), Error> {
        let op = WriteOp::new().compare_xattr_number(SIZE, CmpOp::Gt, size).set_xattr(SIZE, size.to_string());
        match self.io.operate(self.name.clone(), op).await {
            Err(e) if e.errno() == Errno::ECANCELED => Ok(()),
            done => Ok(done?),
        }
    }

    /// Changes the size from `from` to `to` and sets an attribute, in one operation. Returns `false` if
    /// the size is not `from`.
    pub(crate) async fn exchange_size(
        &self,
        from: u64,
        to: u64,
        note: Option<(&[u8], Vec<u8>)>,
    ) -> Result<bool, Error> {
        let op = WriteOp::new().compare_xattr_number(SIZE, CmpOp::Eq, from).set_xattr(SIZE, to.to_string());
        let op = match note {
            Some((name, _)) if is_striper_attribute(name) => return Err(Error::OwnAttribute(name.to_vec())),
            Some((name, value)) => op.set_xattr(name, value),
            None => op,
        };
        match self.io.operate(self.name.clone(), op).await {
            Ok(()) => Ok(true),
            Err(e) if e.errno() == Errno::ECANCELED => Ok(false),
            Err(e) => Err(e.into()),
        }
    }

    pub(crate) async fn set_size(&self, size: u64) -> Result<(), Error> {
        Ok(self.io.set_xattr(self.name.clone(), SIZE, size.to_string()).await?)
    }

    /// The attributes set by users.
    pub(crate) async fn xattrs(&self) -> Result<BTreeMap<Vec<u8>, Bytes>, Error> {
        let mut all = self.io.xattrs(self.name.clone()).await?;
        all.retain(|name, _| !is_striper_attribute(name));
        Ok(all)
    }

    pub(crate) async fn xattr(&self, name: &[u8]) -> Result<Bytes, Error> {
        Ok(self.io.xattr(self.name.clone(), name).await?)
    }

    /// Changes an attribute set by users, if the object exists.
    pub(crate) async fn change_xattr(
        &self,
        name: &[u8],
        change: impl FnOnce(WriteOp) -> WriteOp,
    ) -> Result<(), Error> {
        if is_striper_attribute(name) {
            return Err(Error::OwnAttribute(name.to_vec()));
        }
        Ok(self.io.operate(self.name.clone(), change(WriteOp::new().assert_exists())).await?)
    }

    pub(crate) fn name(&self) -> &[u8] {
        &self.name
    }
}

/// Whether an attribute is the file's own, not one set by users (`RadosStriperImpl::getxattrs` leaves
/// these out).
pub fn is_striper_attribute(name: &[u8]) -> bool {
    let own = [STRIPE_UNIT, STRIPE_COUNT, OBJECT_SIZE, SIZE];
    own.iter().any(|own| own.as_bytes() == name) || name.strip_prefix(b"lock.") == Some(LOCK.as_bytes())
}

fn number(attributes: &BTreeMap<Bytes, Bytes>, name: &'static str) -> Result<u64, Error> {
    let value = attributes.get(name.as_bytes()).ok_or(Error::NotStriped(name))?;
    parse(name, value)
}

fn parse(name: &'static str, value: &[u8]) -> Result<u64, Error> {
    let number = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
    let wrong = || Error::Attribute { name, value: String::from_utf8_lossy(value).into_owned() };
    number.filter(|number| *number <= FILE_BYTES_MAX).ok_or_else(wrong)
}

/// A random UUID, version 4, as text.
fn uuid() -> Result<String, Error> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|_| loligo_rados::Error::Os(Errno::EIO))?;
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let n = u128::from_be_bytes(bytes);
    let part = |shift: u32, digits: u32| (n >> shift) & ((1 << (4 * digits)) - 1);
    let (a, b, c, d, e) = (part(96, 8), part(80, 4), part(64, 4), part(48, 4), part(0, 12));
    Ok(format!("{a:08x}-{b:04x}-{c:04x}-{d:04x}-{e:012x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_are_random_and_of_version_4() {
        let one = uuid().expect("random numbers");
        let lens: Vec<usize> = one.split('-').map(str::len).collect();
        assert_eq!(lens, [8, 4, 4, 4, 12], "{one}");
        assert!(one.as_bytes()[14] == b'4' && b"89ab".contains(&one.as_bytes()[19]), "{one}");
        assert_ne!(one, uuid().expect("random numbers"));
    }

    #[test]
    fn numbers_that_are_none_are_refused() {
        assert_eq!(parse(SIZE, b"123").expect("a number"), 123);
        for wrong in [&b""[..], b"-1", b"12x", b"9223372036854775808", b"\xff"] {
            assert!(matches!(parse(SIZE, wrong), Err(Error::Attribute { .. })));
        }
    }

    #[test]
    fn own_attributes_are_told_from_users() {
        assert!(is_striper_attribute(b"striper.size") && is_striper_attribute(b"lock.striper.lock"));
        assert!(!is_striper_attribute(b"colour") && !is_striper_attribute(b"lock.mine"));
    }
}
