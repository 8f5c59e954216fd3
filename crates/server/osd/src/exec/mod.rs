//! Executes one request: its operations in order, then one transaction.
//!
//! As in a stock OSD, an operation that reads data, attributes or omap sees the object as it was before
//! the request. Only the object's existence, its size and whether it has an omap follow the request's
//! earlier operations. All changes are made at the end, or none. The replies of a stock OSD are
//! established by `server/tests/differential`, which queries one.

mod access;
mod attrs;
mod call;
mod checksum;
mod clones;
mod copy;
mod data;
mod elsewhere;
mod execution;
mod filed;
mod limits;
mod list;
mod omap;
mod ranges;
mod rules;
mod scrubbed;
mod snaps;
mod state;
mod task;
#[cfg(test)]
mod tests;
mod tmap;
mod watches;
mod write;

use std::sync::Arc;

use loligo_store::{Collection, ObjectRef, ObjectView, OpRecord};
use loligo_wire::message::Msg;
use loligo_wire::message::osd::{MOSDOp, MOSDOpReply, OpCode, OsdFlags};
use loligo_wire::{EntityAddr, Epoch, Errno, Eversion, PoolId, SnapContext, SnapId, Tid};

use crate::fetches::Fetches;
use crate::made::Making;
use crate::scrubs::Scrubs;
use crate::stats::Counters;
use crate::watch::{self, Effects};
use clones::{Clones, Then};
use execution::Outputs;

pub(crate) use access::Needs;
pub(crate) use copy::source_of;
pub(crate) use elsewhere::Elsewhere;
use execution::Execution;
pub(crate) use limits::Budget;
pub use limits::Limits;
pub(crate) use rules::PoolRules;
pub(crate) use state::PgState;
pub(crate) use task::{TRIM_PAGE, Task, heads_with_clones};

/// The parameters of a request beside its message.
pub(crate) struct Context {
    pub(crate) client: u64,
    /// The client's address; set only for requests that need it.
    pub(crate) peer: EntityAddr,
    pub(crate) tid: Tid,
    pub(crate) epoch: Epoch,
    pub(crate) pool: PoolId,
    /// Placement groups of the pool.
    pub(crate) pg_num: u32,
    /// Whether the request may change its object.
    pub(crate) writes: bool,
    /// The writer's snapshots, without those being removed.
    pub(crate) snapc: SnapContext,
    /// The map, for requests about snapshots or other objects.
    pub(crate) places: Option<Arc<dyn Elsewhere>>,
    /// The findings of scrubs, for requests that list them.
    pub(crate) scrubs: Option<Arc<Scrubs>>,
    /// The task of an internal request, which has no operations.
    pub(crate) task: Option<Task>,
    pub(crate) room: Room,
    /// The operations the pool does not allow.
    pub(crate) rules: PoolRules,
    pub(crate) limits: Limits,
    /// The checksum of all the request's data, if the messenger knows it.
    pub(crate) data_crc: Option<u32>,
    /// The length of that data in bytes.
    pub(crate) data_len: usize,
    pub(crate) fetches: Fetches,
    pub(crate) budget: Budget,
    pub(crate) making: Making,
}

impl Context {
    /// The context of a read request without snapshots in a pool that is not full.
    pub(crate) fn plain(client: u64, tid: Tid, epoch: Epoch, pool: PoolId, pg_num: u32) -> Self {
        Self {
            client,
            peer: EntityAddr::default(),
            tid,
            epoch,
            pool,
            pg_num,
            writes: false,
            snapc: SnapContext::default(),
            places: None,
            scrubs: None,
            task: None,
            room: Room::There,
            rules: PoolRules::default(),
            limits: Limits::default(),
            data_crc: None,
            data_len: 0,
            fetches: Fetches::default(),
            budget: Budget::default(),
            making: Making::default(),
        }
    }

    /// Resets the counters; called before each execution.
    fn start(&self) {
        self.fetches.start();
        self.budget.start(&self.limits);
        self.making.start();
    }

    /// Whether a snapshot is being removed.
    fn is_removed(&self, snap: SnapId) -> bool {
        self.places.as_ref().is_some_and(|places| places.is_removed(self.pool, snap))
    }
}

/// The outcome of a request.
pub(crate) enum Executed {
    /// The reply, the version that must be committed before it is sent, and the effects on watches.
    Answer(Msg, Eversion, Option<Box<Effects>>),
    /// No reply is sent.
    Nothing,
    /// The request waits for a read ([`Fetches`]); nothing was changed.
    Waits,
}

/// How requests that grow an object are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// The pool is not full.
    There,
    /// Requests that grow an object are refused with this error.
    Refuse(Errno),
    /// Requests that grow an object get no reply: the client resends when the pool is no longer full.
    Wait,
}

/// Refuses requests whose form no execution can handle.
pub(crate) fn check_shape(op: &MOSDOp, writes: bool, limits: &Limits) -> Result<(), Errno> {
    if writes && op.snapid != SnapId::HEAD {
        return Err(Errno::EINVAL);
    }
    // A stock OSD checks this flag only in requests about an object.
    if op.flags.contains(OsdFlags::PARALLELEXEC) && !is_pg_request(op) {
        return Err(Errno::EINVAL);
    }
    // LIST_SNAPS requires the snapshot id DIR, and DIR allows no other operation.
    let about_clones = op.snapid == SnapId::DIR;
    if op.ops.iter().any(|op| (op.code == OpCode::LIST_SNAPS) != about_clones) {
        return Err(Errno::EINVAL);
    }
    let data_len: u64 = op.ops.iter().map(|op| op.data.len() as u64).sum();
    if writes && data_len > limits.write_bytes {
        return Err(Errno::EMSGSIZE);
    }
    Ok(())
}

/// Executes a request and builds the reply, into which the request's object name and operations are
/// moved. A request that waits is left unchanged.
pub(crate) fn execute(
    context: &Context,
    op: &mut MOSDOp,
    collection: &dyn Collection,
    state: &mut PgState,
    counters: &Counters,
) -> Executed {
    context.start();
    let mut known = Known::default();
    let reply = if context.task.is_some() {
        task::run(context, op, collection, state, &mut known)
    } else if is_pg_request(op) {
        pg_request(context, op, collection, (state.version, state.user_version))
    } else if context.writes {
        match known_result(context, op, state) {
            Some((record, outputs)) => Ok(Some(
                answer(context, op, record.result, outputs)
                    .with_versions(record.version, record.user_version),
            )),
            None => write::request(context, op, collection, state, counters, &mut known),
        }
    } else {
        read_request(context, op, collection, state, counters, &mut known)
    };
    match reply {
        Ok(Some(reply)) => {
            let reply = Msg { data_crc: known.data_crc, ..Msg::new(&reply).with_tid(context.tid) };
            let tells_of = known.tells_of.unwrap_or(state.submitted).min(state.submitted);
            Executed::Answer(reply, tells_of, known.effects)
        }
        Ok(None) => Executed::Nothing,
        Err(Waiting) => Executed::Waits,
    }
}

/// Builds the reply to a request that is not executed.
pub(crate) fn refuse(context: &Context, op: &mut MOSDOp, errno: Errno) -> Executed {
    let reply = MOSDOpReply::take_answer(op, errno.to_result(), context.epoch);
    Executed::Answer(Msg::new(&reply).with_tid(context.tid), Eversion::default(), None)
}

/// A version greater than all others.
const NEWEST: Eversion = Eversion { epoch: Epoch(u32::MAX), version: u64::MAX };

/// Results of a request beside its reply.
#[derive(Default)]
struct Known {
    /// The checksum of all outputs together, if the store has it.
    data_crc: Option<u32>,
    /// The version that must be committed before the reply leaves: that of the object for a read. `None`
    /// stands for the newest version submitted.
    tells_of: Option<Eversion>,
    effects: Option<Box<Effects>>,
}

/// The request waits for a read.
struct Waiting;

/// A reply or none; or the request waits.
type Answered = Result<Option<MOSDOpReply>, Waiting>;

/// Whether the request is about a placement group rather than an object.
pub(crate) fn is_pg_request(op: &MOSDOp) -> bool {
    op.ops.iter().any(|op| op.code.is_pg())
}

fn pg_request(
    context: &Context,
    op: &mut MOSDOp,
    collection: &dyn Collection,
    (version, user_version): (Eversion, u64),
) -> Answered {
    let mut outputs = Outputs::new();
    let result = list::list(context, op, collection, &mut outputs).unwrap_or_else(Errno::to_result);
    if context.fetches.waiting() {
        return Err(Waiting);
    }
    Ok(Some(answer(context, op, result, outputs).with_versions(version, user_version)))
}

/// The recorded result of a resent write.
fn known_result(context: &Context, op: &MOSDOp, state: &PgState) -> Option<(OpRecord, Outputs)> {
    if op.retry_attempt <= 0 && !op.flags.contains(OsdFlags::RETRY) {
        return None;
    }
    let (known, outputs) = state.dups.find(context.client, op.client_inc, context.tid)?;
    Some((known, outputs.iter().cloned().collect()))
}

fn read_request(
    context: &Context,
    op: &mut MOSDOp,
    collection: &dyn Collection,
    state: &mut PgState,
    counters: &Counters,
    known: &mut Known,
) -> Answered {
    let outputs = Outputs::new();
    let found = find(context, op, collection);
    let mark = context.fetches.mark();
    let view = match found {
        Ok(view) => view,
        Err(_) if context.fetches.waiting() => return Err(Waiting),
        Err(errno) => return Ok(Some(answer(context, op, errno.to_result(), outputs))),
    };
    let oid = oid_of(op);
    if let Err(errno) = watches::load(context, &op.ops, &mut state.watches, oid, &*view) {
        if context.fetches.waiting() {
            context.fetches.keep_view(&view, mark);
            return Err(Waiting);
        }
        known.tells_of = Some(view.info().version);
        return Ok(Some(answer(context, op, errno.to_result(), outputs)));
    }
    let watched = Watched { watchers: state.watches.of(oid), load: Some(state.watches.load()) };
    let newest = (state.version, state.user_version);
    read(context, op, collection, (view, mark), watched, newest, counters, known)
}

/// The watch state that a read request may need.
#[derive(Default)]
struct Watched<'a> {
    watchers: Option<&'a watch::Watchers>,
    load: Option<&'a watch::Load>,
}

/// Reads an object that was found; `newest` are the placement group's versions.
#[expect(clippy::too_many_arguments, reason = "the request, where it happens, and what is known there")]
fn read(
    context: &Context,
    op: &mut MOSDOp,
    collection: &dyn Collection,
    (view, mark): (Arc<dyn ObjectView>, u32),
    watched: Watched<'_>,
    newest: (Eversion, u64),
    counters: &Counters,
    known: &mut Known,
) -> Answered {
    let mut outputs = Outputs::new();
    known.tells_of = Some(view.info().version);
    let mut execution = Execution::new(context, collection, oid_of(op), Some(Arc::clone(&view)));
    execution.watchers = watched.watchers;
    execution.load = watched.load;
    let result = execution.run(&op.ops, &mut outputs);
    if context.fetches.waiting() {
        drop(execution);
        context.fetches.keep_view(&view, mark);
        return Err(Waiting);
    }
    known.data_crc = execution.crc_of_whole(&op.ops, &outputs);
    let (info, effects, _) = execution.into_parts();
    let user_version = info.user_version;
    known.effects = effects.filter(|_| result.is_ok());
    counters.read(outputs.iter().map(|(_, data)| data.len() as u64).sum());
    let reply = answer(context, op, result.unwrap_or_else(Errno::to_result), outputs);
    Ok(Some(match result {
        Ok(_) => reply.with_read_versions(version_as_read(user_version), user_version),
        Err(Errno::ENOENT) => reply.with_read_versions(newest.0, newest.1),
        Err(_) => reply,
    }))
}

/// Whether a request needs only the store's data and no state of its placement group, so that it can be
/// executed concurrently with others. It lists objects, or it has its view of the object and does not
/// see concurrent writes.
pub(crate) fn stands_alone(context: &Context, op: &MOSDOp) -> bool {
    let asks_group = |code| {
        use OpCode as C;
        matches!(code, C::WATCH | C::NOTIFY | C::NOTIFY_ACK | C::LIST_WATCHERS)
    };
    let reads = context.task.is_none() && !context.writes;
    let has_view = || context.fetches.has_view() && !op.ops.iter().any(|op| asks_group(op.code));
    reads && (is_pg_request(op) || has_view())
}

/// Executes a request that [stands alone](stands_alone); `newest` are the placement group's versions.
/// The reply comes with the version that must be committed before it leaves.
pub(crate) fn execute_alone(
    context: &Context,
    op: &mut MOSDOp,
    collection: &dyn Collection,
    newest: (Eversion, u64),
    counters: &Counters,
) -> Executed {
    context.start();
    let mut known = Known::default();
    let reply = if is_pg_request(op) {
        // A listing may have seen any submitted change.
        known.tells_of = Some(NEWEST);
        pg_request(context, op, collection, newest)
    } else {
        let Some(view) = context.fetches.resume() else { return Executed::Nothing };
        let mark = context.fetches.mark();
        read(context, op, collection, (view, mark), Watched::default(), newest, counters, &mut known)
    };
    match reply {
        Ok(Some(reply)) => {
            let reply = Msg { data_crc: known.data_crc, ..Msg::new(&reply).with_tid(context.tid) };
            Executed::Answer(reply, known.tells_of.unwrap_or_default(), None)
        }
        Ok(None) => Executed::Nothing,
        Err(Waiting) => Executed::Waits,
    }
}

/// Finds the object that a request reads: the head, or the clone for its snapshot.
fn find(context: &Context, op: &MOSDOp, collection: &dyn Collection) -> Result<Arc<dyn ObjectView>, Errno> {
    if let Some(view) = context.fetches.resume() {
        return Ok(view);
    }
    let head_oid = oid_of(op);
    let head = context.fetches.once_if(op.snapid != SnapId::HEAD, || collection.object(head_oid))?;
    let head = head.ok_or(Errno::ENOENT)?;
    let whiteout = head.info().whiteout;
    let then = match op.snapid {
        SnapId::DIR => return Ok(head),
        SnapId::HEAD => Then::Head,
        snap if context.is_removed(snap) => Then::Nothing,
        snap => Clones::of(context, &*head)?.then(snap),
    };
    match then {
        Then::Head if !whiteout => Ok(head),
        Then::Clone(id) => {
            let clone = ObjectRef { snap: id, ..head_oid };
            context.fetches.now(|| collection.object(clone))?.ok_or(Errno::ENOENT)
        }
        Then::Head | Then::Nothing => Err(Errno::ENOENT),
    }
}

fn answer(context: &Context, op: &mut MOSDOp, result: i32, outputs: Outputs) -> MOSDOpReply {
    let mut reply = MOSDOpReply::take_answer(op, result, context.epoch);
    for (slot, (rval, data)) in reply.ops.iter_mut().zip(outputs) {
        slot.rval = rval;
        slot.op.data = data;
    }
    reply
}

/// A read's version in the form a stock OSD shows it: without an epoch.
fn version_as_read(user_version: u64) -> Eversion {
    Eversion { epoch: Epoch(0), version: user_version }
}

pub(crate) fn oid_of(op: &MOSDOp) -> ObjectRef<'_> {
    // A key equal to the name has the same placement as the name, and is not stored.
    let key = if op.locator.key == op.oid { &[][..] } else { &op.locator.key };
    ObjectRef { hash: op.hash, nspace: &op.locator.nspace, key, name: &op.oid, snap: SnapId::HEAD }
}
