//! The OSDs as daemons. All of them lead to the same `Osd`, and their clients share one throttle:
//! commands go to the daemon's admin table, everything else to the OSD.

use std::pin::Pin;
use std::sync::Arc;

use loligo_admin::Admin;
use loligo_msgr::{AcceptAuth, Compression, Connection, Dispatcher, Error, Policies, Policy, Throttle};
use loligo_osd::Door;
use loligo_wire::message::Msg;
use loligo_wire::{EntityAddrVec, EntityName, EntityType, OsdId, Uuid};

use crate::daemon::{Daemon, Introduction, LastAddrs, Listens, Surroundings};
use crate::tell::{self, Teller};

/// The most requests, and bytes of them, that may wait for placement groups, over all clients
/// (`osd_client_message_size_cap`).
const WAITING_MAX: (usize, u64) = (65_536, 512 << 20);

pub(crate) struct OsdDaemon {
    around: Surroundings,
    id: OsdId,
    /// The OSD's UUID, used if the monitor does not have one for this number.
    new: Uuid,
    last: LastAddrs,
    compression: Option<Compression>,
    throttle: Arc<Throttle>,
    admin: Admin,
}

impl OsdDaemon {
    /// The throttle for the requests of all OSDs.
    pub(crate) fn throttle() -> Arc<Throttle> {
        Throttle::new(WAITING_MAX.0, WAITING_MAX.1)
    }

    /// `last` are the addresses at which the last run listened.
    pub(crate) fn new(
        around: &Surroundings,
        (id, new): (OsdId, Uuid),
        last: LastAddrs,
        compression: Option<Compression>,
        throttle: &Arc<Throttle>,
    ) -> Arc<Self> {
        let admin = tell::osd_admin(&around.osd, &around.mon, id);
        let (around, throttle) = (around.clone(), Arc::clone(throttle));
        Arc::new(Self { around, id, new, last, compression, throttle, admin })
    }
}

impl Daemon for OsdDaemon {
    fn name(&self) -> EntityName {
        EntityName { kind: EntityType::OSD, id: self.id.0.to_string() }
    }

    fn number(&self) -> i64 {
        self.id.0.into()
    }

    fn dispatcher(&self) -> Arc<dyn Dispatcher> {
        let osd = Door::new(Arc::clone(&self.around.osd), self.id);
        Arc::new(OsdDoor { osd, teller: Teller::of_osd(self.admin.clone()) })
    }

    fn auth(&self) -> Arc<dyn AcceptAuth> {
        self.around.tickets_for(EntityType::OSD)
    }

    fn policies(&self) -> Policies {
        Policies::new(Policy::stateless_server().with_throttle(Arc::clone(&self.throttle)))
    }

    fn compression(&self) -> Option<Compression> {
        self.compression.clone()
    }

    fn listens(&self) -> Listens {
        Listens { last: self.last, ..Listens::default() }
    }

    fn admin(&self) -> Option<Admin> {
        Some(self.admin.clone())
    }

    fn introduce(&self, addrs: EntityAddrVec) -> Option<Introduction> {
        let (id, new) = (self.id, self.new);
        Some(Box::new(move |state, now| {
            // A memory store is new at each start, but the OSDs keep their UUIDs.
            let known = state.osdmap().osd(id).map(|osd| osd.uuid).filter(|uuid| *uuid != Uuid::default());
            state.boot_osd(now, id, known.unwrap_or(new), addrs)
        }))
    }
}

struct OsdDoor {
    osd: Door,
    teller: Teller,
}

impl Dispatcher for OsdDoor {
    fn dispatch(&self, conn: &Arc<Connection>, msgs: &mut Vec<Msg>) {
        self.teller.take(conn, msgs);
        self.osd.dispatch(conn, msgs);
    }

    fn room(&self, conn: &Arc<Connection>) -> Option<Pin<Box<dyn Future<Output = ()> + Send>>> {
        self.osd.room(conn)
    }

    fn reset(&self, conn: &Arc<Connection>, why: &Error) {
        self.osd.reset(conn, why);
    }
}
