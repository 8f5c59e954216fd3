//! Encoded values that classes store under keys of an object's omap.

use bytes::Bytes;
use loligo_wire::{Decode, Encode, Errno, Reader};

use crate::handle::{Handle, Pairs};

/// Keys that [`Handle::each`] reads in one operation.
const KEYS_AT_A_TIME: u64 = 1024;

/// A part of an object's omap.
#[derive(Default)]
pub(crate) struct Page {
    /// Keys and values, in order.
    pub(crate) pairs: Vec<(Bytes, Bytes)>,
    /// Whether there are more.
    pub(crate) more: bool,
}

impl Handle<'_> {
    /// The object's size in bytes; `ENOENT` if it does not exist.
    pub(crate) fn size(&mut self) -> Result<u64, Errno> {
        self.stat().map(|(size, _)| size)
    }

    pub(crate) fn must_exist(&mut self) -> Result<(), Errno> {
        self.stat().map(drop)
    }

    /// Decodes the value of a key; `ENOENT` if there is none, `EIO` if it cannot be decoded.
    pub(crate) fn get<T: Decode>(&mut self, key: impl AsRef<[u8]>) -> Result<T, Errno> {
        let value = self.value(key.as_ref())?;
        decoded(&value)
    }

    /// Decodes the value of a key; `None` if there is none.
    pub(crate) fn find<T: Decode>(&mut self, key: impl AsRef<[u8]>) -> Result<Option<T>, Errno> {
        some(self.get(key))
    }

    /// Whether a key exists.
    pub(crate) fn has(&mut self, key: impl AsRef<[u8]>) -> Result<bool, Errno> {
        some(self.value(key.as_ref())).map(|found| found.is_some())
    }

    pub(crate) fn set<T: Encode + ?Sized>(&mut self, key: impl AsRef<[u8]>, value: &T) -> Result<(), Errno> {
        self.set_value(key.as_ref(), value.to_bytes())
    }

    pub(crate) fn set_all(&mut self, pairs: &[(Bytes, Bytes)]) -> Result<(), Errno> {
        self.set_values(pairs.iter().cloned().collect())
    }

    /// Removes a key if it exists.
    pub(crate) fn unset(&mut self, key: impl AsRef<[u8]>) -> Result<(), Errno> {
        self.remove_value(key.as_ref())
    }

    /// At most `max` pairs after the key `after` whose keys begin with `prefix`. The OSD's own limit may
    /// end the page earlier.
    pub(crate) fn page(&mut self, after: &[u8], prefix: &[u8], max: u64) -> Result<Page, Errno> {
        let (pairs, more): (Pairs, bool) = self.values(after, prefix, max)?;
        Ok(Page { pairs: pairs.into_iter().collect(), more })
    }

    /// Calls `each` for all pairs after the key `after` whose keys begin with `prefix`, until it fails.
    pub(crate) fn each(
        &mut self,
        after: &[u8],
        prefix: &[u8],
        mut each: impl FnMut(&Bytes, &Bytes) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let mut after = Bytes::copy_from_slice(after);
        loop {
            let page = self.page(&after, prefix, KEYS_AT_A_TIME)?;
            page.pairs.iter().try_for_each(|(key, value)| each(key, value))?;
            match page.pairs.into_iter().next_back() {
                Some((last, _)) if page.more => after = last,
                _ => return Ok(()),
            }
        }
    }
}

/// Decodes a stored value; EIO if it is not of this type.
pub(crate) fn decoded<T: Decode>(stored: &[u8]) -> Result<T, Errno> {
    Reader::new(stored).get().map_err(|_| Errno::EIO)
}

/// Maps ENOENT to `None`.
pub(crate) fn some<T>(found: Result<T, Errno>) -> Result<Option<T>, Errno> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(Errno::ENOENT) => Ok(None),
        Err(errno) => Err(errno),
    }
}
