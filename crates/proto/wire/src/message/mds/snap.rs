//! Snapshot realms: the traces that replies and capability messages carry, and [`ClientSnap`].

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::message::{Data, Header, Message};
use crate::{Decode, DecodeError, Encode, Ino, Name, Reader, SnapId, UTime, Writer};

/// A snapshot realm: a directory, and everything below it up to directories that are realms themselves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapRealmInfo {
    /// The directory.
    pub ino: Ino,
    /// The snapshot number at which the realm was created.
    pub created: SnapId,
    /// The realm above.
    pub parent: Ino,
    /// The snapshot number at which `parent` became the realm above.
    pub parent_since: SnapId,
    /// The newest snapshot number of which the realm has heard.
    pub seq: SnapId,
    /// The realm's own snapshots, newest first.
    pub snaps: Vec<SnapId>,
    /// The snapshots of realms that were above before `parent_since`, newest first.
    pub prior_parent_snaps: Vec<SnapId>,
    /// The change of the realm; sent only to clients with the feature NEW_SNAPREALM_INFO.
    pub change: Option<SnapRealmChange>,
}

/// The last change of a realm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SnapRealmChange {
    /// The time of the change.
    pub last_modified: UTime,
    /// Counts the changes.
    pub change_attr: u64,
}

/// A trace of realms: the first one belongs to an inode, each further one is above the one before it, and
/// the last one is the root's. An empty trace means that nothing changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapTrace(pub Vec<SnapRealmInfo>);

impl SnapTrace {
    /// Decodes a trace. `with_changes`: both sides have the feature NEW_SNAPREALM_INFO, so that each realm
    /// is a versioned struct. The bytes themselves do not tell.
    pub fn from_blob(blob: &[u8], with_changes: bool) -> Result<Self, DecodeError> {
        let mut r = Reader::new(blob);
        let mut realms = Vec::new();
        while !r.is_empty() {
            realms.push(SnapRealmInfo::decode_as(&mut r, with_changes)?);
        }
        Ok(Self(realms))
    }

    /// Encodes the trace.
    pub fn to_blob(&self, with_changes: bool) -> Bytes {
        let mut w = Writer::new();
        self.0.iter().for_each(|realm| realm.encode_as(with_changes, &mut w));
        w.into_bytes()
    }
}

impl SnapRealmInfo {
    fn encode_as(&self, with_change: bool, w: &mut Writer) {
        if !with_change {
            return self.encode_plain(w);
        }
        let change = self.change.unwrap_or_default();
        w.versioned(1, 1, |w| {
            self.encode_plain(w);
            w.put(&change.last_modified);
            w.u64(change.change_attr);
        });
    }

    fn encode_plain(&self, w: &mut Writer) {
        w.put(&self.ino);
        w.put(&self.created);
        w.put(&self.parent);
        w.put(&self.parent_since);
        w.put(&self.seq);
        w.count(self.snaps.len());
        w.count(self.prior_parent_snaps.len());
        self.snaps.iter().chain(&self.prior_parent_snaps).for_each(|snap| w.put(snap));
    }

    fn decode_as(r: &mut Reader<'_>, with_change: bool) -> Result<Self, DecodeError> {
        if !with_change {
            return Self::decode_plain(r);
        }
        r.versioned("SnapRealmInfoNew", 1, 1, |r, _| {
            let realm = Self::decode_plain(r)?;
            let change = SnapRealmChange { last_modified: r.get()?, change_attr: r.u64()? };
            Ok(Self { change: Some(change), ..realm })
        })
    }

    fn decode_plain(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut realm = Self {
            ino: r.get()?,
            created: r.get()?,
            parent: r.get()?,
            parent_since: r.get()?,
            seq: r.get()?,
            ..Self::default()
        };
        let (snaps, prior) = (r.u32()?, r.u32()?);
        realm.snaps = decode_list(r, snaps)?;
        realm.prior_parent_snaps = decode_list(r, prior)?;
        Ok(realm)
    }
}

/// Reads `count` values that follow each other without a count of their own.
pub(super) fn decode_list<T: Decode>(r: &mut Reader<'_>, count: u32) -> Result<Vec<T>, DecodeError> {
    let needed = u64::from(count) * T::MIN_LEN as u64;
    if needed > r.remaining() as u64 {
        return Err(DecodeError::Truncated { needed, left: r.remaining() });
    }
    (0..count).map(|_| r.get()).collect()
}

/// What happened to a realm (`CEPH_SNAP_OP_*`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SnapOp {
    /// The realms' contexts changed.
    #[default]
    Update = 0,
    /// A snapshot was created.
    Create = 1,
    /// A snapshot was removed.
    Destroy = 2,
    /// A directory became a realm: the listed inodes and realms now belong to it.
    Split = 3,
}

/// A server tells a client of a change in snapshot realms.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientSnap {
    /// What happened.
    pub op: SnapOp,
    /// SPLIT: the new realm.
    pub split: Ino,
    /// SPLIT: the inodes that move into it.
    pub split_inos: Vec<Ino>,
    /// SPLIT: the realms that are now below it.
    pub split_realms: Vec<Ino>,
    /// The realms, to be decoded with [`SnapTrace::from_blob`].
    pub trace: Bytes,
}

impl Message for ClientSnap {
    const NAME: &'static str = "client_snap";
    const KIND: u16 = 0x312;
    const VERSION: u16 = 1;
    const COMPAT: u16 = 1;

    fn encode_front(&self, w: &mut Writer) {
        w.u32(self.op as u32);
        w.put(&self.split);
        w.count(self.split_inos.len());
        w.count(self.split_realms.len());
        w.count(self.trace.len());
        self.split_inos.iter().chain(&self.split_realms).for_each(|ino| w.put(ino));
        w.raw(&self.trace);
    }

    fn decode(_: &Header, r: &mut Reader<'_>, _: &Data) -> Result<Self, DecodeError> {
        let op = match r.u32()? {
            0 => SnapOp::Update,
            1 => SnapOp::Create,
            2 => SnapOp::Destroy,
            3 => SnapOp::Split,
            other => return Err(DecodeError::Invalid { what: "snap op", value: other.into() }),
        };
        let split = r.get()?;
        let (inos, realms, trace) = (r.u32()?, r.u32()?, r.u32()?);
        Ok(Self {
            op,
            split,
            split_inos: decode_list(r, inos)?,
            split_realms: decode_list(r, realms)?,
            trace: Bytes::copy_from_slice(r.raw(trace as usize)?),
        })
    }
}

/// What a client stores with a snapshot: the data of a request to create one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapPayload {
    /// Names and values.
    pub metadata: BTreeMap<Name, Name>,
}

impl Encode for SnapPayload {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| w.put(&self.metadata));
    }
}

impl Decode for SnapPayload {
    const MIN_LEN: usize = 10;
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        r.versioned("SnapPayload", 1, 1, |r, _| Ok(Self { metadata: r.get()? }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Msg;
    use proptest::prelude::*;

    fn realm(ino: u64, snaps: &[u64], prior: &[u64]) -> SnapRealmInfo {
        let ids = |ids: &[u64]| ids.iter().map(|id| SnapId(*id)).collect();
        SnapRealmInfo {
            ino: Ino(ino),
            created: SnapId(1),
            parent: Ino::ROOT,
            parent_since: SnapId(2),
            seq: SnapId(9),
            snaps: ids(snaps),
            prior_parent_snaps: ids(prior),
            change: None,
        }
    }

    #[test]
    fn traces_have_two_forms() {
        let plain = SnapTrace(vec![realm(0x1000, &[9, 4], &[1]), realm(1, &[], &[])]);
        let blob = plain.to_blob(false);
        assert_eq!(blob.len(), 48 + 24 + 48);
        assert_eq!(&blob[40..56], b"\x02\0\0\0\x01\0\0\0\x09\0\0\0\0\0\0\0");
        assert_eq!(SnapTrace::from_blob(&blob, false), Ok(plain.clone()));
        assert_eq!(SnapTrace::from_blob(b"", true), Ok(SnapTrace::default()));

        let mut changed = plain;
        changed.0.iter_mut().for_each(|realm| {
            realm.change = Some(SnapRealmChange { last_modified: UTime { sec: 1, nsec: 0 }, change_attr: 3 });
        });
        let blob = changed.to_blob(true);
        assert_eq!(blob.len(), 48 + 24 + 48 + 2 * (6 + 16));
        assert_eq!(SnapTrace::from_blob(&blob, true), Ok(changed));
    }

    #[test]
    fn claimed_snapshots_are_checked() {
        let mut blob = SnapTrace(vec![realm(1, &[], &[])]).to_blob(false).to_vec();
        blob[40..44].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(matches!(SnapTrace::from_blob(&blob, false), Err(DecodeError::Truncated { left: 0, .. })));
    }

    #[test]
    fn a_split_lists_what_moves() {
        let body = ClientSnap {
            op: SnapOp::Split,
            split: Ino(7),
            split_inos: vec![Ino(8), Ino(9)],
            split_realms: vec![Ino(10)],
            trace: SnapTrace(vec![realm(7, &[], &[])]).to_blob(false),
        };
        let msg = Msg::new(&body);
        assert_eq!(msg.front.len(), 24 + 24 + 48);
        assert_eq!(&msg.front[..12], b"\x03\0\0\0\x07\0\0\0\0\0\0\0");
        assert_eq!(msg.open(), Ok(body));
        let mut front = msg.front.to_vec();
        front[0] = 4;
        assert!(Msg { front: front.into(), ..msg }.open::<ClientSnap>().is_err());
    }

    #[test]
    fn metadata_of_a_snapshot() {
        let payload = SnapPayload { metadata: BTreeMap::from([("k".into(), "v".into())]) };
        assert_eq!(&payload.to_bytes()[..], b"\x01\x01\x0e\0\0\0\x01\0\0\0\x01\0\0\0k\x01\0\0\0v");
        assert_eq!(SnapPayload::from_bytes(&payload.to_bytes()), Ok(payload));
    }

    proptest! {
        #[test]
        fn any_trace_is_read_back(
            realms in prop::collection::vec((1_u64.., prop::collection::vec(any::<u64>(), 0..5)), 0..5),
            with_changes: bool,
        ) {
            let mut trace = SnapTrace(realms.iter().map(|(ino, snaps)| realm(*ino, snaps, snaps)).collect());
            for realm in &mut trace.0 {
                realm.change = with_changes.then(SnapRealmChange::default);
            }
            let blob = trace.to_blob(with_changes);
            prop_assert_eq!(SnapTrace::from_blob(&blob, with_changes), Ok(trace));
        }

        #[test]
        fn any_blob_does_no_harm(blob in prop::collection::vec(any::<u8>(), 0..200), with_changes: bool) {
            let _ = SnapTrace::from_blob(&blob, with_changes);
        }
    }
}
