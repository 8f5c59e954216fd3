//! The monitor: the map of the OSDs, the names of file systems, and the map of the only one.

use std::collections::BTreeMap;
use std::sync::Arc;

use loligo_maps::{Features, FsMapUser, FsName, MonMap};
use loligo_msgr::{Connection, Dispatcher};
use loligo_wire::message::mon::{
    MConfig, MFSMapUser, MMDSMap, MMonGetVersion, MMonGetVersionReply, MMonMap, MMonSubscribe,
};
use loligo_wire::message::osd::MOSDMap;
use loligo_wire::message::{Message as _, Msg};
use loligo_wire::{Encode as _, EntityAddr, EntityAddrVec, Epoch, Fscid, UTime};

use crate::cluster::{FS, FSID, Shared, lock};

/// See the [module](self).
pub(crate) struct Monitor(pub(crate) Arc<Shared>);

impl Dispatcher for Monitor {
    fn accepted(&self, conn: &Arc<Connection>) {
        let mons = [("a".into(), EntityAddrVec::from(EntityAddr::default()))];
        let monmap = MonMap::new(FSID, UTime::now(), mons);
        let _ = conn.send(Msg::new(&MMonMap { monmap: monmap.to_bytes() }));
        let _ = conn.send(Msg::new(&MConfig::default()));
    }

    fn dispatch(&self, conn: &Arc<Connection>, msgs: &mut Vec<Msg>) {
        for msg in msgs.drain(..) {
            match msg.header.kind {
                MMonSubscribe::KIND => self.subscribe(conn, &msg.open().expect("a subscription")),
                MMonGetVersion::KIND => {
                    let asked: MMonGetVersion = msg.open().expect("a question");
                    let version = lock(&self.0.osd_map).epoch.0.into();
                    let reply = MMonGetVersionReply { handle: asked.handle, version, oldest: 1 };
                    let _ = conn.send(Msg::new(&reply));
                }
                _ => {}
            }
        }
    }
}

impl Monitor {
    fn subscribe(&self, conn: &Arc<Connection>, wanted: &MMonSubscribe) {
        for what in wanted.what.keys() {
            let msg = match what.as_str() {
                "osdmap" => self.0.osd_map_msg(),
                "fsmap.user" => names(),
                "mdsmap" | "mdsmap.1" => self.0.mds_map_msg(),
                _ => continue,
            };
            let _ = conn.send(msg);
        }
        let mut followers = lock(&self.0.followers);
        if followers.iter().all(|there| there.id() != conn.id()) {
            followers.push(Arc::clone(conn));
        }
    }
}

/// Returns the names of the file systems.
fn names() -> Msg {
    let names = FsMapUser {
        epoch: Epoch(1),
        legacy_fscid: Fscid(FS.0),
        filesystems: vec![FsName { fscid: Fscid(FS.0), name: FS.1.into() }],
    };
    Msg::new(&MFSMapUser { epoch: Epoch(1), map: names.to_bytes() })
}

impl Shared {
    /// Returns the newest map of the OSDs.
    pub(crate) fn osd_map_msg(&self) -> Msg {
        let map = lock(&self.osd_map);
        let maps = BTreeMap::from([(map.epoch, map.encode(Features::PACIFIC).bytes)]);
        Msg::new(&MOSDMap { fsid: FSID, maps, oldest: Epoch(1), newest: map.epoch, ..MOSDMap::default() })
    }

    /// Returns the newest map of the file system.
    pub(crate) fn mds_map_msg(&self) -> Msg {
        let map = lock(&self.mds_map);
        Msg::new(&MMDSMap { fsid: FSID, epoch: map.epoch, map: map.to_bytes(), fs_name: None })
    }

    /// Sends a map to all clients.
    pub(crate) fn tell_followers(&self, msg: &Msg) {
        for conn in lock(&self.followers).iter() {
            let _ = conn.send(msg.clone());
        }
    }
}
