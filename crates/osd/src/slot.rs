//! The slot of a placement group: its queue of requests, of which one thread at a time executes one after the other.

use std::sync::Arc;

use loligo_lane::{Action, Lane, PushError, RunEnd};
use loligo_lockstat::{Class, Mutex};
use loligo_msgr::{Connection, Hold};
use loligo_store::{Collection, CommitListener, ObjectStore, StoreError};
use loligo_wire::message::osd::MOSDOp;
use loligo_wire::{Eversion, PgId};

use crate::dups::Dups;
use crate::exec::{self, Context};
use crate::stats::{Counters, PoolStats};

/// The queue: held to take out all requests that are there; appending one takes no lock.
static SLOT: Class = Class::new("osd.slot");

/// Taken by whoever runs the slot's lane, which is one thread at a time: nobody ever waits for it.
static SLOT_STATE: Class = Class::new("osd.slot_state");

/// Requests that wait in one slot. The messenger's throttles bound the bytes.
const WAITING_MAX: usize = 64 << 10;

/// Requests that one thread executes before it hands a busy slot over: a millisecond or so of small operations, so that a
/// connection's reader does not serve others' requests for long.
const RUN_BUDGET: usize = 512;

/// A placement group as it is served.
pub(crate) struct Slot {
    lane: Lane<Request>,
    pub(crate) collection: Arc<dyn Collection>,
    state: Mutex<SlotState>,
    pub(crate) counters: Counters,
}

/// What changes from request to request.
pub(crate) struct SlotState {
    /// The newest change.
    pub(crate) version: Eversion,
    /// The newest version as users count.
    pub(crate) user_version: u64,
    pub(crate) dups: Dups,
}

/// A request that has passed all checks.
pub(crate) struct Request {
    pub(crate) conn: Arc<Connection>,
    pub(crate) op: MOSDOp,
    pub(crate) context: Context,
    /// Counts the request against what may be read from clients, until it is answered.
    pub(crate) hold: Hold,
}

impl Slot {
    /// Opens a placement group.
    pub(crate) fn open(pg: PgId, store: &dyn ObjectStore) -> Result<Self, StoreError> {
        let collection = store.open(pg, Arc::new(Synchronous))?;
        let version = collection.version();
        let state =
            SlotState { version, user_version: version.version, dups: Dups::new(collection.records()) };
        Ok(Self {
            lane: Lane::new(&SLOT, WAITING_MAX),
            collection,
            state: Mutex::new(&SLOT_STATE, state),
            counters: Counters::default(),
        })
    }

    /// Takes a request: executes it here and now, or leaves it to whoever is executing. False if too many wait already.
    #[must_use]
    pub(crate) fn submit(self: &Arc<Self>, request: Request) -> bool {
        match self.lane.push(request) {
            Ok(Action::Submit) => self.run(),
            Ok(Action::Nothing) => {}
            Err(PushError::Full(_) | PushError::Closed(_)) => return false,
        }
        true
    }

    fn run(self: &Arc<Self>) {
        if self.lane.run(RUN_BUDGET, |request| self.execute(request)) == RunEnd::Again {
            let slot = Arc::clone(self);
            tokio::spawn(async move { slot.run() });
        }
    }

    fn execute(&self, request: Request) {
        let Request { conn, op, context, hold } = request;
        let reply = {
            let mut state = self.state.lock();
            exec::execute(&context, op, &*self.collection, &mut state, &self.counters)
        };
        // A client whose connection is gone asks again, with the same number.
        let _ = conn.send(reply);
        drop(hold);
    }

    /// Adds what this group holds and was asked.
    pub(crate) fn add_to(&self, stats: &mut PoolStats) {
        stats.stored += self.collection.stats();
        self.counters.add_to(stats);
    }
}

/// For stores that commit before they return: there is nothing to hear of.
struct Synchronous;

impl CommitListener for Synchronous {
    fn committed(&self, _: Eversion) {}

    fn stopped(&self, _: &StoreError) {}
}
