//! The stored form of a watch: one attribute of its object for each watch, so that the cost of one
//! watcher does not grow with the number of others.

use bytes::Bytes;
use loligo_store::Change;
use loligo_wire::{EntityAddr, Reader, Writer};

use super::WatchKey;

const PREFIX: &[u8] = b"\0watch";

/// The change that stores a watch.
pub(crate) fn keep(key: WatchKey, timeout_s: u32, addr: EntityAddr) -> Change<'static> {
    let mut w = Writer::new();
    w.u32(timeout_s);
    w.put(&addr);
    Change::SetXattr { name: name(key), value: w.into_bytes() }
}

/// The change that removes a stored watch.
pub(crate) fn forget(key: WatchKey) -> Change<'static> {
    Change::RemoveXattr { name: name(key) }
}

fn name((cookie, client): WatchKey) -> Bytes {
    [PREFIX, &cookie.to_be_bytes(), &client.to_be_bytes()].concat().into()
}

/// Whether an object's attribute is a stored watch.
pub fn is_watch(attribute: &[u8]) -> bool {
    attribute.starts_with(PREFIX)
}

/// Decodes the watch stored in an attribute. `None` if the attribute is not a watch or cannot be
/// decoded.
pub(crate) fn read(name: &[u8], value: &[u8]) -> Option<(WatchKey, u32, EntityAddr)> {
    let (cookie, client) = name.strip_prefix(PREFIX)?.split_at_checked(8)?;
    let number = |bytes: &[u8]| bytes.try_into().map(u64::from_be_bytes).ok();
    let mut r = Reader::new(value);
    Some(((number(cookie)?, number(client)?), r.u32().ok()?, r.get().ok()?))
}
