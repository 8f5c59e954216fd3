//! One request: its operations in order, then one transaction.
//!
//! As in a stock OSD, an operation that looks at data, attributes or omap sees the object as it was before
//! the request; only whether the object exists, how large it is and whether it has a map follow what the
//! request's earlier operations did. All changes are made at the end, or none. What a stock OSD answers is
//! settled by `server/tests/differential`, which asks one.

mod access;
mod attrs;
mod call;
mod checksum;
mod copy;
mod data;
mod execution;
mod fetches;
mod limits;
mod list;
mod omap;
mod ranges;
mod rules;
mod scrubbed;
mod snaps;
mod task;
#[cfg(test)]
mod tests;
mod tmap;
mod write;

use std::sync::Arc;

use loligo_store::{Collection, ObjectRef, ObjectView, OpRecord};
use loligo_wire::message::Msg;
use loligo_wire::message::osd::{MOSDOp, MOSDOpReply, OpCode, OsdFlags};
use loligo_wire::{EntityAddr, Epoch, Eversion, PoolId, SnapId, Tid};

use crate::errno::Errno;
use crate::made::Making;
use crate::place::Places;
use crate::scrub::Scrubs;
use crate::slot::SlotState;
use crate::stats::Counters;
use crate::watch::{self, Effects};
use execution::Outputs;
use snaps::Then;

pub(crate) use access::Needs;
pub(crate) use copy::source_of;
pub(crate) use execution::{DONE, Execution, Output};
pub(crate) use fetches::Fetches;
pub(crate) use limits::Budget;
pub use limits::Limits;
pub(crate) use rules::PoolRules;
pub(crate) use snaps::{SnapContext, SnapSet};
pub(crate) use task::{TRIM_PAGE, Task, heads_with_clones};

/// What a request brings along beside its message.
pub(crate) struct Context {
    pub(crate) client: u64,
    /// Where the client is; known only to requests that ask for it.
    pub(crate) peer: EntityAddr,
    pub(crate) tid: Tid,
    pub(crate) epoch: Epoch,
    pub(crate) pool: PoolId,
    /// Placement groups of the pool.
    pub(crate) pg_num: u32,
    /// Whether the request may change its object.
    pub(crate) writes: bool,
    /// What it knows of snapshots, without those that are being removed.
    pub(crate) snapc: SnapContext,
    /// The map, for requests about snapshots or other objects.
    pub(crate) places: Option<Arc<Places>>,
    /// What scrubs have found, for requests that list it.
    pub(crate) scrubs: Option<Arc<Scrubs>>,
    /// What the OSD wants of itself; then there are no operations.
    pub(crate) task: Option<Task>,
    pub(crate) room: Room,
    /// What the pool does not allow.
    pub(crate) rules: PoolRules,
    pub(crate) limits: Limits,
    /// The checksum of all the request's data, if the messenger knows it.
    pub(crate) data_crc: Option<u32>,
    /// Bytes of that data.
    pub(crate) data_len: usize,
    pub(crate) fetches: Fetches,
    pub(crate) budget: Budget,
    pub(crate) making: Making,
}

impl Context {
    /// The context of a request that reads, knows nothing of snapshots and finds room.
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

    /// Before each execution.
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

/// What came of a request.
pub(crate) enum Executed {
    /// The answer, the version that must be safe before it is given, and what is to be done for watchers.
    Answer(Msg, Eversion, Option<Box<Effects>>),
    /// There shall be none.
    Nothing,
    /// It waits for something ([`Fetches`]), and nothing was done.
    Waits,
}

/// Whether the pool takes more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// It does.
    There,
    /// What grows is refused with this.
    Refuse(Errno),
    /// What grows is left unanswered: the client sends it again when the pool is full no longer.
    Wait,
}

/// Refuses requests that no execution can make sense of.
pub(crate) fn check_shape(op: &MOSDOp, writes: bool, limits: &Limits) -> Result<(), Errno> {
    if writes && op.snapid != SnapId::HEAD {
        return Err(Errno::EINVAL);
    }
    // A stock OSD looks at this flag only where the request is about an object.
    if op.flags.contains(OsdFlags::PARALLELEXEC) && !is_pg_request(op) {
        return Err(Errno::EINVAL);
    }
    // Only who lists clones asks for their directory.
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

/// Executes a request and makes the answer, into which the request's name and operations go. A request that
/// waits is left as it was.
pub(crate) fn execute(
    context: &Context,
    op: &mut MOSDOp,
    collection: &dyn Collection,
    state: &mut SlotState,
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

/// The answer to a request that is not executed.
pub(crate) fn refuse(context: &Context, op: &mut MOSDOp, errno: Errno) -> Executed {
    let reply = MOSDOpReply::take_answer(op, errno.code(), context.epoch);
    Executed::Answer(Msg::new(&reply).with_tid(context.tid), Eversion::default(), None)
}

/// A version behind all others.
const NEWEST: Eversion = Eversion { epoch: Epoch(u32::MAX), version: u64::MAX };

/// What is known of a request beside its answer.
#[derive(Default)]
struct Known {
    /// The checksum of all outputs together, if the store has it.
    data_crc: Option<u32>,
    /// What the answer tells of must be safe: all there is, except that a read tells of its object only.
    tells_of: Option<Eversion>,
    effects: Option<Box<Effects>>,
}

/// The request waits for something.
struct Waiting;

/// An answer, or that there shall be none; or that the request waits.
type Answered = Result<Option<MOSDOpReply>, Waiting>;

/// Whether the request is about a placement group and not about an object.
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
    let result = list::list(context, op, collection, &mut outputs).unwrap_or_else(Errno::code);
    if context.fetches.waiting() {
        return Err(Waiting);
    }
    Ok(Some(answer(context, op, result, outputs).with_versions(version, user_version)))
}

/// What came of a write that was done before.
fn known_result(context: &Context, op: &MOSDOp, state: &SlotState) -> Option<(OpRecord, Outputs)> {
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
    state: &mut SlotState,
    counters: &Counters,
    known: &mut Known,
) -> Answered {
    let outputs = Outputs::new();
    let found = find(context, op, collection);
    let mark = context.fetches.mark();
    let view = match found {
        Ok(view) => view,
        Err(_) if context.fetches.waiting() => return Err(Waiting),
        Err(errno) => return Ok(Some(answer(context, op, errno.code(), outputs))),
    };
    let oid = oid_of(op);
    if let Err(errno) = watch::load(context, &op.ops, &mut state.watches, oid, &*view) {
        if context.fetches.waiting() {
            context.fetches.keep_view(&view, mark);
            return Err(Waiting);
        }
        known.tells_of = Some(view.info().version);
        return Ok(Some(answer(context, op, errno.code(), outputs)));
    }
    let watched = Watched { watchers: state.watches.of(oid), load: Some(state.watches.load()) };
    let newest = (state.version, state.user_version);
    read(context, op, collection, (view, mark), watched, newest, counters, known)
}

/// What a request that reads may want to know of who watches its object.
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
    let reply = answer(context, op, result.unwrap_or_else(Errno::code), outputs);
    Ok(Some(match result {
        Ok(_) => reply.with_read_versions(version_as_read(user_version), user_version),
        Err(Errno::ENOENT) => reply.with_read_versions(newest.0, newest.1),
        Err(_) => reply,
    }))
}

/// Whether a request needs nothing of its placement group but what the store has: then it can be executed
/// beside others. It lists objects, or has its view of the object and so sees nothing of what is written
/// meanwhile.
pub(crate) fn stands_alone(context: &Context, op: &MOSDOp) -> bool {
    let asks_group = |code| {
        use OpCode as C;
        matches!(code, C::WATCH | C::NOTIFY | C::NOTIFY_ACK | C::LIST_WATCHERS)
    };
    let reads = context.task.is_none() && !context.writes;
    let has_view = || context.fetches.has_view() && !op.ops.iter().any(|op| asks_group(op.code));
    reads && (is_pg_request(op) || has_view())
}

/// Executes a request that [stands alone](stands_alone); `newest` are the placement group's versions. An
/// answer comes with the version that it tells of.
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
        // It may have seen whatever is there.
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

/// The object that a request reads: the head, or what it was at a snapshot.
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
        snap => SnapSet::of(context, &*head)?.then(snap),
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

/// How a stock OSD shows a read's version: no epoch.
fn version_as_read(user_version: u64) -> Eversion {
    Eversion { epoch: Epoch(0), version: user_version }
}

pub(crate) fn oid_of(op: &MOSDOp) -> ObjectRef<'_> {
    // A key equal to the name places as the name does, and is not kept.
    let key = if op.locator.key == op.oid { &[][..] } else { &op.locator.key };
    ObjectRef { hash: op.hash, nspace: &op.locator.nspace, key, name: &op.oid, snap: SnapId::HEAD }
}
