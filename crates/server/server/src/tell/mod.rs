//! `ceph tell osd.N …`, `ceph tell mon.a …` and `ceph tell mgr …`: the commands of the admin socket, for
//! clients that have `allow *` for the daemon.

mod common;
mod mon;
mod osd;
mod pg;
pub(crate) mod render;
mod settings;
mod teller;
mod watched;

use std::sync::Arc;

use loligo_admin::Admin;
use loligo_mon::MonService;
use loligo_mon::state::{MGR_ID, MON_ID};
use loligo_osd::Osd;
use loligo_wire::{EntityType, OsdId};

use crate::{ops, perf};

pub(crate) use teller::Teller;

/// The command table of one OSD. Several OSDs can share a store.
pub(crate) fn osd_admin(osd: &Arc<Osd>, mon: &Arc<MonService>, id: OsdId) -> Admin {
    let admin = Admin::new();
    common::register(&admin);
    settings::register(&admin, mon, EntityType::OSD, &id.0.to_string());
    pg::register(&admin, osd, mon);
    osd::register(&admin, osd, mon, id);
    ops::register(&admin, osd);
    perf::register(&admin, Arc::clone(osd));
    admin
}

/// The command table of the monitor.
pub(crate) fn mon_admin(mon: &Arc<MonService>, osd: &Arc<Osd>) -> Admin {
    let admin = Admin::new();
    common::register(&admin);
    settings::register(&admin, mon, EntityType::MON, MON_ID);
    mon::register(&admin, mon);
    perf::register_mon(&admin, Arc::clone(osd));
    admin
}

/// The command table of the manager.
pub(crate) fn mgr_admin(mon: &Arc<MonService>) -> Admin {
    let admin = Admin::new();
    common::register(&admin);
    settings::register(&admin, mon, EntityType::MGR, MGR_ID);
    admin
}
