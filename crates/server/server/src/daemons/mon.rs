//! The monitor as a daemon: commands of `ceph tell mon.a` go to its admin table.

use std::net::SocketAddr;
use std::sync::Arc;

use loligo_admin::Admin;
use loligo_mon::MonService;
use loligo_mon::state::MON_ID;
use loligo_msgr::{AcceptAuth, Connection, Dispatcher, Error, Policies};
use loligo_wire::message::Msg;
use loligo_wire::{EntityAddrVec, EntityName, EntityType};

use crate::daemon::{Daemon, Introduction, LastAddrs, Listens, Surroundings};
use crate::tell::{self, Teller};

pub(crate) struct Mon {
    mon: Arc<MonService>,
    admin: Admin,
    listens: Listens,
}

impl Mon {
    /// `last` are the addresses of the last run, where running clients look for the monitor.
    pub(crate) fn new(around: &Surroundings, at: SocketAddr, last: LastAddrs) -> Arc<Self> {
        let admin = tell::mon_admin(&around.mon, &around.osd);
        let listens = Listens { at: Some(at), last, by_address: true };
        Arc::new(Self { mon: Arc::clone(&around.mon), admin, listens })
    }
}

impl Daemon for Mon {
    fn name(&self) -> EntityName {
        EntityName { kind: EntityType::MON, id: MON_ID.to_owned() }
    }

    fn dispatcher(&self) -> Arc<dyn Dispatcher> {
        Arc::new(Door { mon: Arc::clone(&self.mon), teller: Teller::of_mon(self.admin.clone()) })
    }

    fn auth(&self) -> Arc<dyn AcceptAuth> {
        Arc::clone(&self.mon) as _
    }

    fn policies(&self) -> Policies {
        self.mon.policies()
    }

    fn listens(&self) -> Listens {
        self.listens
    }

    fn admin(&self) -> Option<Admin> {
        Some(self.admin.clone())
    }

    fn introduce(&self, addrs: EntityAddrVec) -> Option<Introduction> {
        Some(Box::new(move |state, now| {
            state.start(now, addrs);
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
        self.mon.accepted(conn);
    }

    fn dispatch(&self, conn: &Arc<Connection>, msgs: &mut Vec<Msg>) {
        self.teller.take(conn, msgs);
        self.mon.dispatch(conn, msgs);
    }

    fn reset(&self, conn: &Arc<Connection>, why: &Error) {
        self.mon.reset(conn, why);
    }
}
