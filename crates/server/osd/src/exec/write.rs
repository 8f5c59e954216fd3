//! Executes requests that change their object.

use std::sync::Arc;

use bytes::Bytes;
use loligo_store::{
    Change, Collection, Commit, Info, ObjectChanges, ObjectRef, ObjectView, OpRecord, Transaction,
};
use loligo_wire::message::osd::{MOSDOp, OsdFlags};
use loligo_wire::{Errno, Eversion};
use smallvec::{SmallVec, smallvec};

use super::clones::Clones;
use super::execution::{Execution, Outputs};
use super::snaps;
use super::state::PgState;
use super::{Answered, Context, Known, Room, Waiting, answer, oid_of, watches};
use crate::errno;
use crate::stats::Counters;

/// The number of the read that finds a request's object.
pub(super) const OBJECT: u32 = 0;

/// The outcome of a write.
enum Written {
    /// The object was changed.
    Changed(i32),
    /// The operations succeeded and changed nothing, for example a truncation of an object that does not
    /// exist.
    Nothing(i32),
    /// An operation failed, so nothing was changed.
    Failed(Errno),
    /// The source of a copy could not be read.
    CopyFailed(Errno),
    /// The pool is full; the request gets no reply.
    Later,
}

/// Executes a write request. Each write takes a place in the placement group's history, even if it
/// failed or changed nothing: a stock OSD uses it to answer a resent request, and so versions have gaps.
/// The exception is a write whose copy failed (`CopyFromCallback` in `PrimaryLogPG.cc`).
pub(super) fn request(
    context: &Context,
    op: &mut MOSDOp,
    collection: &dyn Collection,
    state: &mut PgState,
    counters: &Counters,
    known: &mut Known,
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
    // Read again each time: the slot keeps other requests from the object, and the store now has it in
    // memory.
    context.fetches.forget(OBJECT);
    let view = context.fetches.now(|| collection.object(oid_of(op)));
    let user_version_before =
        view.as_ref().ok().and_then(|view| view.as_ref()).map_or(0, |v| v.info().user_version);
    let written = match view {
        Ok(view) => write(context, op, collection, state, view, &mut record, &mut outputs, known),
        Err(errno) => Written::Failed(errno),
    };
    if context.fetches.waiting() {
        return Err(Waiting);
    }
    let wants_outputs = op.flags.contains(OsdFlags::RETURNVEC);
    match written {
        Written::Later => return Ok(None),
        Written::Changed(result) => {
            counters.wrote(op.ops.iter().map(|op| op.data.len() as u64).sum());
            state.user_version = state.user_version.max(record.user_version);
            record.result = result;
            if !wants_outputs {
                outputs.iter_mut().for_each(|(_, data)| *data = Bytes::new());
            }
        }
        Written::Nothing(result) => record.result = result,
        Written::CopyFailed(errno) => {
            known.effects = None;
            let reply = answer(context, op, errno.to_result(), outputs);
            return Ok(Some(reply.with_versions(Eversion::default(), 0)));
        }
        Written::Failed(errno) => {
            known.effects = None;
            record.result = errno.to_result();
        }
    }
    let newest_before = state.version;
    state.version = record.version;
    state.dups.record(record, if wants_outputs { &outputs } else { &[] });
    let user_version = if record.user_version == 0 { user_version_before } else { record.user_version };
    let mut reply = answer(context, op, record.result, outputs).with_versions(record.version, user_version);
    if record.result == Errno::ENOENT.to_result() {
        reply = reply.with_read_versions(newest_before, state.user_version);
    }
    Ok(Some(reply))
}

/// Runs a write's operations and submits the changes; sets the object's version in `record`.
#[expect(
    clippy::too_many_arguments,
    reason = "the request, where it happens, and three things that come of it"
)]
fn write(
    context: &Context,
    op: &MOSDOp,
    collection: &dyn Collection,
    state: &mut PgState,
    view: Option<Arc<dyn ObjectView>>,
    record: &mut OpRecord,
    outputs: &mut Outputs,
    known: &mut Known,
) -> Written {
    let oid = oid_of(op);
    // A write that arrives faster than the store commits waits here.
    if let Err(errno) = context.fetches.now(|| collection.room()) {
        return Written::Failed(errno);
    }
    let prepared = prepare(context, op, state, oid, view.as_ref());
    let mut execution = Execution::new(context, collection, oid, view);
    execution.watchers = state.watches.of(oid);
    execution.load = Some(state.watches.load());
    execution.made = Some(&state.made);
    execution.user_version = state.user_version;
    let result = prepared.and_then(|snaps| {
        execution.snaps = snaps;
        execution.run(&op.ops, outputs)
    });
    let result = match result {
        Ok(result) => result,
        // The request may also be waiting; the caller checks that.
        Err(errno) if execution.copy_failed => return Written::CopyFailed(errno),
        Err(errno) => return Written::Failed(errno),
    };
    // A request that is to be executed again must not change anything, whatever an operation made of the
    // error that said so.
    if context.fetches.waiting() {
        return Written::Failed(Errno::EIO);
    }
    known.effects = execution.effects.take();
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
    record.result = if wants_outputs { result } else { 0 };
    if let Some(id) = execution.clone_to_come() {
        // The store must know that the clone does not exist, so that it need not read the disk on
        // submit.
        let clone = ObjectRef { snap: id, ..oid };
        let cloned = execution.view.as_ref().map_or(0, |view| view.cloned_bytes());
        let made = context.works(cloned).and_then(|()| execution.makes(cloned));
        if let Err(errno) = made.and_then(|()| context.fetches.now(|| collection.object(clone))) {
            return Written::Failed(errno);
        }
    }
    match submit(execution, op, state.user_version, record) {
        Ok(Commit::Done) => Written::Changed(record.result),
        Ok(Commit::Pending) => {
            state.submitted = record.version;
            Written::Changed(record.result)
        }
        Err(error) => Written::Failed(errno::of_store(error)),
    }
}

/// Loads the object's watches and checks the snapshot context before the operations run. Returns the
/// object's clones.
fn prepare(
    context: &Context,
    op: &MOSDOp,
    state: &mut PgState,
    oid: ObjectRef<'_>,
    view: Option<&Arc<dyn ObjectView>>,
) -> Result<Clones, Errno> {
    if !context.snapc.is_valid() {
        return Err(Errno::EINVAL);
    }
    let Some(view) = view else { return Ok(Clones::default()) };
    watches::load(context, &op.ops, &mut state.watches, oid, &**view)?;
    let snaps = Clones::of(context, &**view)?;
    if op.flags.contains(OsdFlags::ORDERSNAP) && context.snapc.seq < snaps.seq {
        return Err(Errno::EOLDSNAPC);
    }
    Ok(snaps)
}

/// Submits the changes of an execution: first the clone of the previous state, then the changes.
fn submit(
    mut execution: Execution<'_>,
    op: &MOSDOp,
    user_version_newest: u64,
    record: &mut OpRecord,
) -> Result<Commit, loligo_store::StoreError> {
    let before = execution.view.as_ref().map(|view| view.info()).unwrap_or_default();
    let mut objects: SmallVec<[ObjectChanges<'_>; 1]> = SmallVec::new();
    let oid = execution.oid;
    if let Some(id) = execution.settle_snaps() {
        let info = snaps::info_of_clone(&before, record.version);
        let changes = smallvec![Change::CloneFrom { source: oid }];
        objects.push(ObjectChanges { oid: ObjectRef { snap: id, ..oid }, info, changes });
        // The clone takes its own place in the history.
        record.version.version += 1;
    }
    let Execution { changes, info, view, collection, user_modify, copied_mtime, .. } = execution;
    // Data without a view need not be copied for the change.
    drop(view);
    record.user_version = if user_modify {
        record.version.version.max(user_version_newest.max(info.user_version) + 1)
    } else {
        info.user_version
    };
    let asked_mtime = if op.mtime.is_zero() { info.mtime } else { op.mtime };
    let mtime = copied_mtime.unwrap_or(asked_mtime);
    let info = Info { version: record.version, user_version: record.user_version, mtime, ..info };
    objects.push(ObjectChanges { oid, info, changes });
    collection.submit(Transaction { version: record.version, objects, record: Some(*record) })
}

/// Checks the bound on a write's outputs and clears those that exceed it.
fn check_outputs(context: &Context, outputs: &mut Outputs) -> Result<(), Errno> {
    let mut fits = Ok(());
    for (rval, data) in outputs.iter_mut().filter(|(_, data)| data.len() > context.limits.write_reply_bytes) {
        (*rval, *data) = (Errno::EOVERFLOW.to_result(), Bytes::new());
        fits = Err(Errno::EOVERFLOW);
    }
    fits
}
