//! The outputs of the operations PGNLS and LIST_WATCHERS.

use super::HObject;
use crate::{Decode, DecodeError, Encode, EntityAddr, EntityNum, Reader, Writer};

/// One object of a listing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ListObject {
    /// The namespace.
    pub nspace: Vec<u8>,
    /// The name.
    pub oid: Vec<u8>,
    /// The locator key; empty if the object's name determines its placement.
    pub locator: Vec<u8>,
}

impl Encode for ListObject {
    fn encode(&self, w: &mut Writer) {
        w.blob(&self.nspace);
        w.blob(&self.oid);
        w.blob(&self.locator);
    }
}

impl Decode for ListObject {
    const MIN_LEN: usize = 12;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { nspace: r.blob()?.to_vec(), oid: r.blob()?.to_vec(), locator: r.blob()?.to_vec() })
    }
}

/// The output of PGNLS (`pg_nls_response_t`): some of a placement group's objects, in the pool's order.
///
/// The operation's result is 1 when the listing has reached the end of the placement group, otherwise 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PgNlsResponse {
    /// The position from which the next listing continues.
    pub handle: HObject,
    /// The objects.
    pub entries: Vec<ListObject>,
}

impl Encode for PgNlsResponse {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.put(&self.handle);
            w.put(&self.entries);
        });
    }
}

impl Decode for PgNlsResponse {
    const MIN_LEN: usize = 10;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.versioned("pg_nls_response_t", 1, 1, |r, _| Ok(Self { handle: r.get()?, entries: r.get()? }))
    }
}

/// One watcher of an object (`watch_item_t`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchItem {
    /// The watcher's client number.
    pub name: EntityNum,
    /// The cookie that the watcher chose for the watch.
    pub cookie: u64,
    /// The watch ends after this many seconds without a sign of life from the watcher.
    pub timeout_s: u32,
    /// The watcher's address.
    pub addr: EntityAddr,
}

impl Encode for WatchItem {
    fn encode(&self, w: &mut Writer) {
        w.versioned(2, 1, |w| {
            w.put(&self.name);
            w.u64(self.cookie);
            w.u32(self.timeout_s);
            w.put(&self.addr);
        });
    }
}

impl Decode for WatchItem {
    const MIN_LEN: usize = 34;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.versioned("watch_item_t", 2, 2, |r, _| {
            Ok(Self { name: r.get()?, cookie: r.u64()?, timeout_s: r.u32()?, addr: r.get()? })
        })
    }
}

/// The output of LIST_WATCHERS (`obj_list_watch_response_t`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListWatchersResponse {
    /// The watchers.
    pub entries: Vec<WatchItem>,
}

impl Encode for ListWatchersResponse {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| w.put(&self.entries));
    }
}

impl Decode for ListWatchersResponse {
    const MIN_LEN: usize = 10;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.versioned("obj_list_watch_response_t", 1, 1, |r, _| Ok(Self { entries: r.get()? }))
    }
}
