//! [`MOSDMap`]: osdmaps sent to clients and OSDs.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::message::{Data, Header, Message};
use crate::{DecodeError, Epoch, Reader, Uuid, Writer};

/// Encoded osdmaps; `loligo-maps` decodes them (version 4 of the message).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MOSDMap {
    /// The cluster.
    pub fsid: Uuid,
    /// Incremental maps by epoch. Each turns the map of the previous epoch into the map of its epoch.
    pub incrementals: BTreeMap<Epoch, Bytes>,
    /// Full maps.
    pub maps: BTreeMap<Epoch, Bytes>,
    /// The oldest epoch that the sender still stores, or that the cluster still needs.
    pub oldest: Epoch,
    /// The newest epoch that the sender has.
    pub newest: Epoch,
}

impl MOSDMap {
    /// Returns the newest epoch contained in the message.
    pub fn last(&self) -> Option<Epoch> {
        let last = |maps: &BTreeMap<Epoch, Bytes>| maps.last_key_value().map(|(epoch, _)| *epoch);
        last(&self.incrementals).max(last(&self.maps))
    }
}

impl Message for MOSDMap {
    const NAME: &'static str = "osdmap";
    const KIND: u16 = 41;
    const VERSION: u16 = 4;
    const COMPAT: u16 = 3;
    const PRIORITY: u16 = Header::PRIORITY_HIGH;

    fn encode_front(&self, w: &mut Writer) {
        w.put(&self.fsid);
        w.put(&self.incrementals);
        w.put(&self.maps);
        w.put(&self.oldest);
        w.put(&self.newest);
        w.u32(0); // removed snapshots by pool: used only by one version of mimic
    }

    fn front_len_hint(&self) -> usize {
        let maps = self.maps.values().chain(self.incrementals.values());
        64 + maps.map(|map| map.len() + 8).sum::<usize>()
    }

    fn decode(_: &Header, r: &mut Reader<'_>, _: &Data) -> Result<Self, DecodeError> {
        Ok(Self {
            fsid: r.get()?,
            incrementals: r.get()?,
            maps: r.get()?,
            oldest: r.get()?,
            newest: r.get()?,
        })
    }
}
