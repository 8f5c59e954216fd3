//! The manager as a daemon: commands of `ceph tell mgr` go to its admin table, commands to the cluster
//! go to the monitor.

use std::sync::Arc;

use loligo_admin::Admin;
use loligo_mon::MonService;
use loligo_mon::state::MGR_ID;
use loligo_msgr::{AcceptAuth, Connection, Dispatcher, Error, Policies};
use loligo_wire::message::Msg;
use loligo_wire::{EntityAddrVec, EntityName, EntityType};

use crate::daemon::{Daemon, Introduction, Surroundings};
use crate::tell::{self, Teller};

/// Listens at any free port: clients learn the address from the monitor.
pub(crate) struct Mgr {
    around: Surroundings,
    admin: Admin,
}

impl Mgr {
    pub(crate) fn new(around: &Surroundings) -> Arc<Self> {
        Arc::new(Self { around: around.clone(), admin: tell::mgr_admin(&around.mon) })
    }
}

impl Daemon for Mgr {
    fn name(&self) -> EntityName {
        EntityName { kind: EntityType::MGR, id: MGR_ID.to_owned() }
    }

    fn number(&self) -> i64 {
        // A manager has no number.
        -1
    }

    fn dispatcher(&self) -> Arc<dyn Dispatcher> {
        let mon = Arc::clone(&self.around.mon);
        Arc::new(Door { mon, teller: Teller::of_mon(self.admin.clone()) })
    }

    fn auth(&self) -> Arc<dyn AcceptAuth> {
        self.around.tickets_for(EntityType::MGR)
    }

    fn policies(&self) -> Policies {
        self.around.mon.policies()
    }

    fn admin(&self) -> Option<Admin> {
        Some(self.admin.clone())
    }

    fn introduce(&self, addrs: EntityAddrVec) -> Option<Introduction> {
        Some(Box::new(move |state, now| {
            state.set_manager(now, addrs);
            Ok(())
        }))
    }
}

struct Door {
    mon: Arc<MonService>,
    teller: Teller,
}

impl Dispatcher for Door {
    fn accepted(&self, conn: &Arc<Connection>) {
        self.mon.accepted_at_manager(conn);
    }

    fn dispatch(&self, conn: &Arc<Connection>, msgs: &mut Vec<Msg>) {
        self.teller.take(conn, msgs);
        self.mon.dispatch(conn, msgs);
    }

    fn reset(&self, conn: &Arc<Connection>, why: &Error) {
        self.mon.reset(conn, why);
    }
}
