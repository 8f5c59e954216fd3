//! [`MOSDMap`]: maps on their way to clients and OSDs.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::message::{Data, Header, Message};
use crate::{DecodeError, Epoch, Reader, Uuid, Writer};

/// Some osdmaps, encoded: `loligo-maps` opens them (version 4 of the message).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MOSDMap {
    /// The cluster.
    pub fsid: Uuid,
    /// Changes; the one of an epoch leads from the epoch before to it.
    pub incrementals: BTreeMap<Epoch, Bytes>,
    /// Whole maps.
    pub maps: BTreeMap<Epoch, Bytes>,
    /// The oldest epoch that the sender still has, or that the cluster still needs.
    pub oldest: Epoch,
    /// The newest epoch that the sender has.
    pub newest: Epoch,
}

impl MOSDMap {
    /// The newest epoch in the message itself.
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
        w.u32(0); // removed snapshots by pool: used by one version of mimic
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
