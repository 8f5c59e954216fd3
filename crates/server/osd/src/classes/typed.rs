//! What classes keep in an object's map: encoded values under keys.

use bytes::Bytes;
use loligo_wire::{Decode, Encode, Reader};

use super::Handle;
use super::handle::Pairs;
use crate::errno::Errno;

/// Keys that [`Handle::each`] reads in one operation.
const KEYS_AT_A_TIME: u64 = 1024;

/// A part of an object's map.
#[derive(Default)]
pub(super) struct Page {
    /// Keys and values, in order.
    pub(super) pairs: Vec<(Bytes, Bytes)>,
    /// Whether there are more.
    pub(super) more: bool,
}

impl Handle<'_> {
    /// Bytes of the object; `ENOENT` if there is none.
    pub(super) fn size(&mut self) -> Result<u64, Errno> {
        self.stat().map(|(size, _)| size)
    }

    pub(super) fn must_exist(&mut self) -> Result<(), Errno> {
        self.stat().map(drop)
    }

    /// What is encoded under a key; `ENOENT` if there is nothing, `EIO` if it is something else.
    pub(super) fn get<T: Decode>(&mut self, key: impl AsRef<[u8]>) -> Result<T, Errno> {
        let value = self.value(key.as_ref())?;
        decoded(&value)
    }

    /// The same, `None` if there is nothing.
    pub(super) fn find<T: Decode>(&mut self, key: impl AsRef<[u8]>) -> Result<Option<T>, Errno> {
        some(self.get(key))
    }

    /// Whether there is anything under a key.
    pub(super) fn has(&mut self, key: impl AsRef<[u8]>) -> Result<bool, Errno> {
        some(self.value(key.as_ref())).map(|found| found.is_some())
    }

    pub(super) fn set<T: Encode + ?Sized>(&mut self, key: impl AsRef<[u8]>, value: &T) -> Result<(), Errno> {
        self.set_value(key.as_ref(), value.to_bytes())
    }

    pub(super) fn set_all(&mut self, pairs: &[(Bytes, Bytes)]) -> Result<(), Errno> {
        self.set_values(pairs.iter().cloned().collect())
    }

    /// Removes a key, if it is there.
    pub(super) fn unset(&mut self, key: impl AsRef<[u8]>) -> Result<(), Errno> {
        self.remove_value(key.as_ref())
    }

    /// At most `max` pairs behind the key `after` whose keys begin with `prefix`. The OSD's own limit may end
    /// it earlier.
    pub(super) fn page(&mut self, after: &[u8], prefix: &[u8], max: u64) -> Result<Page, Errno> {
        let (pairs, more): (Pairs, bool) = self.values(after, prefix, max)?;
        Ok(Page { pairs: pairs.into_iter().collect(), more })
    }

    /// All pairs behind the key `after` whose keys begin with `prefix`, one after the other, until `each`
    /// fails.
    pub(super) fn each(
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

/// What was stored must be what this class stores.
pub(super) fn decoded<T: Decode>(stored: &[u8]) -> Result<T, Errno> {
    Reader::new(stored).get().map_err(|_| Errno::EIO)
}

/// `None` for what does not exist.
pub(super) fn some<T>(found: Result<T, Errno>) -> Result<Option<T>, Errno> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(Errno::ENOENT) => Ok(None),
        Err(errno) => Err(errno),
    }
}
