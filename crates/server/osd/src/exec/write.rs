//! Requests that change their object.

use std::sync::Arc;

use bytes::Bytes;
use loligo_store::{
    Change, Collection, Commit, Info, ObjectChanges, ObjectRef, ObjectView, OpRecord, Transaction,
};
use loligo_wire::Eversion;
use loligo_wire::message::osd::{MOSDOp, OsdFlags};
use smallvec::{SmallVec, smallvec};

use super::execution::{Execution, Outputs};
use super::snaps::{self, SnapSet};
use super::{Answered, Context, Known, Room, Waiting, answer, oid_of};
use crate::errno::Errno;
use crate::slot::SlotState;
use crate::stats::Counters;
use crate::watch;

/// The number of the read that finds a request's object.
pub(super) const OBJECT: u32 = 0;

/// How a write went.
enum Written {
    /// The object is another now.
    Changed(i32),
    /// The operations were fine and changed nothing: a truncation of an object that is not there.
    Nothing(i32),
    /// One of them failed, so none was done.
    Failed(Errno),
    /// What was to be copied could not be.
    CopyFailed(Errno),
    /// Done when there is room.
    Later,
}

/// Each write takes a place in the placement group's history, also one that failed or changed nothing: that
/// is how a stock OSD remembers what to answer to its repetition, and why versions have gaps. But not one
/// that could not copy (`CopyFromCallback` in `PrimaryLogPG.cc`).
pub(super) fn request(
    context: &Context,
    op: &mut MOSDOp,
    collection: &dyn Collection,
    state: &mut SlotState,
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
    // Asked for anew each time: the slot keeps others from the object, and the store has it at hand now.
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
            let reply = answer(context, op, errno.code(), outputs);
            return Ok(Some(reply.with_versions(Eversion::default(), 0)));
        }
        Written::Failed(errno) => {
            known.effects = None;
            record.result = errno.code();
        }
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
#[expect(
    clippy::too_many_arguments,
    reason = "the request, where it happens, and three things that come of it"
)]
fn write(
    context: &Context,
    op: &MOSDOp,
    collection: &dyn Collection,
    state: &mut SlotState,
    view: Option<Arc<dyn ObjectView>>,
    record: &mut OpRecord,
    outputs: &mut Outputs,
    known: &mut Known,
) -> Written {
    let oid = oid_of(op);
    // What comes faster than the store can make it safe waits here.
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
        // Or it waits, which the caller sees.
        Err(errno) if execution.copy_failed => return Written::CopyFailed(errno),
        Err(errno) => return Written::Failed(errno),
    };
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
        // The store has to know that there is none: it must not have to look on the disk then.
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
        Err(error) => Written::Failed(error.into()),
    }
}

/// Looks at what else must be known of the object before the operations run; its clones.
fn prepare(
    context: &Context,
    op: &MOSDOp,
    state: &mut SlotState,
    oid: ObjectRef<'_>,
    view: Option<&Arc<dyn ObjectView>>,
) -> Result<SnapSet, Errno> {
    if !context.snapc.is_valid() {
        return Err(Errno::EINVAL);
    }
    let Some(view) = view else { return Ok(SnapSet::default()) };
    watch::load(context, &op.ops, &mut state.watches, oid, &**view)?;
    let snaps = SnapSet::of(context, &**view)?;
    if op.flags.contains(OsdFlags::ORDERSNAP) && context.snapc.seq < snaps.seq {
        return Err(Errno::EOLDSNAPC);
    }
    Ok(snaps)
}

/// Does what an execution has come to: first the clone of what was there, then the changes.
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
        // The clone has a place of its own in the history.
        record.version.version += 1;
    }
    let Execution { changes, info, view, collection, user_modify, copied_mtime, .. } = execution;
    // What nobody views need not be copied for the change.
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

/// Whether the outputs of a write are as short as they must be.
fn check_outputs(context: &Context, outputs: &mut Outputs) -> Result<(), Errno> {
    let mut fits = Ok(());
    for (rval, data) in outputs.iter_mut().filter(|(_, data)| data.len() > context.limits.write_reply_bytes) {
        (*rval, *data) = (Errno::EOVERFLOW.code(), Bytes::new());
        fits = Err(Errno::EOVERFLOW);
    }
    fits
}
