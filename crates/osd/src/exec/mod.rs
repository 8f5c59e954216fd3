//! One request: its operations in order, then one transaction.
//!
//! As in a stock OSD, an operation that looks at data, attributes or omap sees the object as it was before the request; only
//! whether the object exists, how large it is and whether it has a map follow what the request's earlier operations did.
//! All changes are made at the end, or none. What a stock OSD answers is settled by `server/tests/differential`, which
//! asks one.

mod attrs;
mod data;
mod execution;
mod fetches;
mod limits;
mod list;
mod omap;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use bytes::Bytes;
use loligo_cephx::caps::Access;
use loligo_store::{
    Collection, Commit, Fetch, Info, ObjectChanges, ObjectRef, ObjectView, OpRecord, Transaction,
};
use loligo_wire::message::Msg;
use loligo_wire::message::osd::{MOSDOp, MOSDOpReply, OsdFlags};
use loligo_wire::{Epoch, Eversion, SnapId, Tid};
use smallvec::smallvec;

use crate::errno::Errno;
use crate::slot::SlotState;
use crate::stats::Counters;
use execution::{Execution, Outputs};
pub(crate) use fetches::Fetches;

pub use limits::Limits;

/// What a request brings along beside its message.
pub(crate) struct Context {
    pub(crate) client: u64,
    pub(crate) tid: Tid,
    pub(crate) epoch: Epoch,
    /// Placement groups of the pool.
    pub(crate) pg_num: u32,
    pub(crate) room: Room,
    pub(crate) limits: Limits,
    /// The checksum of all the request's data, if the messenger knows it.
    pub(crate) data_crc: Option<u32>,
    /// Bytes of that data.
    pub(crate) data_len: usize,
    pub(crate) fetches: Fetches,
}

/// What came of a request.
pub(crate) enum Executed {
    /// The answer, and the version that must be safe before it is given.
    Answer(Msg, Eversion),
    /// There shall be none.
    Nothing,
    /// It waits for something ([`Fetches`]), and nothing was done.
    Waits(Box<MOSDOp>),
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
pub(crate) fn check_shape(op: &MOSDOp, access: Access, limits: &Limits) -> Result<(), Errno> {
    if access.write && op.snapid != SnapId::HEAD {
        return Err(Errno::EINVAL);
    }
    let data_len: u64 = op.ops.iter().map(|op| op.data.len() as u64).sum();
    if access.write && data_len > limits.write_bytes {
        return Err(Errno::EMSGSIZE);
    }
    if op.snapid != SnapId::HEAD || (access.write && !op.snaps.is_empty()) {
        return Err(Errno::EOPNOTSUPP);
    }
    Ok(())
}

/// Executes a request and makes the answer.
pub(crate) fn execute(
    context: &Context,
    op: MOSDOp,
    collection: &dyn Collection,
    state: &mut SlotState,
    counters: &Counters,
) -> Executed {
    context.fetches.start();
    let mut data_crc = None;
    // What the answer tells of must be safe: all there is, except that a read tells of its object only.
    let mut tells_of = None;
    let reply = if is_pg_request(&op) {
        pg_request(context, op, collection, state)
    } else if op.ops.iter().any(|op| op.code.is_modify()) {
        match known_result(context, &op, state) {
            Some((known, outputs)) => Ok(Some(
                answer(context, op, known.result, outputs).with_versions(known.version, known.user_version),
            )),
            None => write_request(context, op, collection, state, counters),
        }
    } else {
        read_request(context, op, collection, state, counters, &mut data_crc, &mut tells_of)
    };
    match reply {
        Ok(Some(reply)) => {
            let reply = Msg { data_crc, ..Msg::new(&reply).with_tid(context.tid) };
            Executed::Answer(reply, tells_of.unwrap_or(state.submitted).min(state.submitted))
        }
        Ok(None) => Executed::Nothing,
        Err(op) => Executed::Waits(op),
    }
}

/// An answer, or that there shall be none; or the request, if it waits.
type Answered = Result<Option<MOSDOpReply>, Box<MOSDOp>>;

/// Whether the request is about a placement group and not about an object.
pub(crate) fn is_pg_request(op: &MOSDOp) -> bool {
    op.ops.iter().any(|op| op.code.is_pg())
}

fn pg_request(context: &Context, op: MOSDOp, collection: &dyn Collection, state: &SlotState) -> Answered {
    let mut outputs = Outputs::new();
    let result = list::list(context, &op, collection, &mut outputs).unwrap_or_else(Errno::code);
    if context.fetches.waiting() {
        return Err(Box::new(op));
    }
    Ok(Some(answer(context, op, result, outputs).with_versions(state.version, state.user_version)))
}

/// What came of a write that was done before.
fn known_result(context: &Context, op: &MOSDOp, state: &SlotState) -> Option<(OpRecord, Outputs)> {
    if op.retry_attempt <= 0 && !op.flags.contains(OsdFlags::RETRY) {
        return None;
    }
    let (known, outputs) = state.dups.find(context.client, op.client_inc, context.tid)?;
    Some((known, outputs.iter().cloned().collect()))
}

/// Sets `data_crc` if the store knows the checksum of all outputs together, and `tells_of` to the object's version.
fn read_request(
    context: &Context,
    op: MOSDOp,
    collection: &dyn Collection,
    state: &SlotState,
    counters: &Counters,
    data_crc: &mut Option<u32>,
    tells_of: &mut Option<Eversion>,
) -> Answered {
    let mut outputs = Outputs::new();
    // Asked for even if it is known: reads are numbered.
    let found = context.fetches.now(|| match context.fetches.view() {
        Some(view) => Fetch::Now(Some(view)),
        None => collection.object(oid_of(&op)),
    });
    let view = match found.and_then(|view| view.ok_or(Errno::ENOENT)) {
        Ok(view) => view,
        Err(_) if context.fetches.waiting() => return Err(Box::new(op)),
        Err(errno) => return Ok(Some(answer(context, op, errno.code(), outputs))),
    };
    *tells_of = Some(view.info().version);
    let mut execution = Execution::new(context, Some(Arc::clone(&view)));
    let result = execution.run(&op.ops, &mut outputs);
    if context.fetches.waiting() {
        drop(execution);
        context.fetches.keep_view(&view);
        return Err(Box::new(op));
    }
    let user_version = execution.info.user_version;
    *data_crc = execution.crc_of_whole(&op.ops, &outputs);
    counters.read(outputs.iter().map(|(_, data)| data.len() as u64).sum());
    let reply = answer(context, op, result.unwrap_or_else(Errno::code), outputs);
    Ok(Some(match result {
        Ok(_) => reply.with_read_versions(version_as_read(user_version), user_version),
        Err(Errno::ENOENT) => reply.with_read_versions(state.version, state.user_version),
        Err(_) => reply,
    }))
}

/// The number of the read that finds a request's object.
const OBJECT: u32 = 0;

/// How a write went.
enum Written {
    /// The object is another now.
    Changed(i32),
    /// The operations were fine and changed nothing: a truncation of an object that is not there.
    Nothing(i32),
    /// One of them failed, so none was done.
    Failed(Errno),
    /// Done when there is room.
    Later,
}

/// Each write takes a place in the placement group's history, also one that failed or changed nothing: that is how a stock
/// OSD remembers what to answer to its repetition, and why versions have gaps.
fn write_request(
    context: &Context,
    op: MOSDOp,
    collection: &dyn Collection,
    state: &mut SlotState,
    counters: &Counters,
) -> Answered {
    let mut outputs = Outputs::new();
    let mut record = OpRecord {
        client: context.client,
        incarnation: op.client_inc,
        tid: context.tid,
        version: Eversion { epoch: context.epoch, version: state.version.version + 1 },
        user_version: 0,
        result: 0,
    };
    // Asked for anew each time: the slot keeps others from the object, and the store has it at hand now.
    context.fetches.forget(OBJECT);
    let view = context.fetches.now(|| collection.object(oid_of(&op)));
    let user_version_before =
        view.as_ref().ok().and_then(|view| view.as_ref()).map_or(0, |v| v.info().user_version);
    let written = match view {
        Ok(view) => write(context, &op, collection, state, view, &mut record, &mut outputs),
        Err(errno) => Written::Failed(errno),
    };
    if context.fetches.waiting() {
        return Err(Box::new(op));
    }
    let wants_outputs = op.flags.contains(OsdFlags::RETURNVEC);
    match written {
        Written::Later => return Ok(None),
        Written::Changed(result) => {
            counters.wrote(op.ops.iter().map(|op| op.data.len() as u64).sum());
            state.user_version = record.user_version;
            record.result = result;
            if !wants_outputs {
                outputs.iter_mut().for_each(|(_, data)| *data = Bytes::new());
            }
        }
        Written::Nothing(result) => record.result = result,
        Written::Failed(errno) => record.result = errno.code(),
    }
    let newest_before = state.version;
    state.version = record.version;
    state.dups.record(record, if wants_outputs { &outputs } else { &[] });
    let user_version = if record.user_version == 0 { user_version_before } else { record.user_version };
    let mut reply = answer(context, op, record.result, outputs).with_versions(record.version, user_version);
    if record.result == Errno::ENOENT.code() {
        reply = reply.with_read_versions(newest_before, state.user_version);
    }
    Ok(Some(reply))
}

/// Executes a write's operations and does what they change; `record` gets the object's version.
fn write(
    context: &Context,
    op: &MOSDOp,
    collection: &dyn Collection,
    state: &mut SlotState,
    view: Option<Arc<dyn ObjectView>>,
    record: &mut OpRecord,
    outputs: &mut Outputs,
) -> Written {
    let mut execution = Execution::new(context, view);
    let result = match execution.run(&op.ops, outputs) {
        Ok(result) => result,
        // Or it waits, which the caller sees.
        Err(errno) => return Written::Failed(errno),
    };
    if execution.changes.is_empty() {
        return Written::Nothing(result);
    }
    match context.room {
        Room::Refuse(errno) if execution.grows() => return Written::Failed(errno),
        Room::Wait if execution.grows() => return Written::Later,
        _ => {}
    }
    let wants_outputs = op.flags.contains(OsdFlags::RETURNVEC);
    if wants_outputs && let Err(errno) = check_outputs(context, outputs) {
        return Written::Failed(errno);
    }
    // A view that is dropped now need not be copied for the change.
    let Execution { changes, info, view: _, .. } = execution;
    record.user_version = record.version.version;
    record.result = if wants_outputs { result } else { 0 };
    let mtime = if op.mtime.is_zero() { info.mtime } else { op.mtime };
    let info = Info { version: record.version, user_version: record.user_version, mtime, ..info };
    let objects = smallvec![ObjectChanges { oid: oid_of(op), info, changes }];
    match collection.submit(Transaction { version: record.version, objects, record: Some(*record) }) {
        Ok(Commit::Done) => Written::Changed(record.result),
        Ok(Commit::Pending) => {
            state.submitted = record.version;
            Written::Changed(record.result)
        }
        Err(error) => Written::Failed(error.into()),
    }
}

/// Whether the outputs of a write are as short as they must be.
fn check_outputs(context: &Context, outputs: &mut Outputs) -> Result<(), Errno> {
    let mut fits = Ok(());
    for (rval, data) in outputs.iter_mut().filter(|(_, data)| data.len() > context.limits.write_reply_bytes) {
        (*rval, *data) = (Errno::EOVERFLOW.code(), Bytes::new());
        fits = Err(Errno::EOVERFLOW);
    }
    fits
}

fn answer(context: &Context, op: MOSDOp, result: i32, outputs: Outputs) -> MOSDOpReply {
    let mut reply = MOSDOpReply::answer(op, result, context.epoch);
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
