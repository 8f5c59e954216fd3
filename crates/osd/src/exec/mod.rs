//! One request: its operations in order, then one transaction.
//!
//! As in a stock OSD, an operation that looks at data, attributes or omap sees the object as it was before the request; only
//! whether the object exists and how large it is follows what the request's earlier operations did. All changes are made
//! at the end, or none.

mod attrs;
mod data;
mod limits;
mod list;
mod omap;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use bytes::Bytes;
use loligo_cephx::caps::Access;
use loligo_store::{
    Change, Collection, Commit, Fetch, Info, ObjectChanges, ObjectRef, ObjectView, OpRecord, Transaction,
};
use loligo_wire::message::Msg;
use loligo_wire::message::osd::{MOSDOp, MOSDOpReply, OpCode, OpFlags, Ops, OsdFlags, OsdOp};
use loligo_wire::{Epoch, Eversion, SnapId, Tid};
use smallvec::{SmallVec, smallvec};

use crate::errno::Errno;
use crate::osd::mtime_of;
use crate::slot::SlotState;
use crate::stats::Counters;

pub use limits::Limits;

/// What a request brings along beside its message.
pub(crate) struct Context {
    pub(crate) client: u64,
    pub(crate) tid: Tid,
    pub(crate) epoch: Epoch,
    /// Placement groups of the pool.
    pub(crate) pg_num: u32,
    /// Only what frees room is done.
    pub(crate) full: bool,
    pub(crate) limits: Limits,
}

/// The result and output of one operation.
pub(crate) type Output = Result<(i32, Bytes), Errno>;

/// An operation that says nothing but that it went well.
const DONE: Output = Ok((0, Bytes::new()));

/// Refuses requests that no execution can make sense of.
pub(crate) fn check_shape(op: &MOSDOp, access: Access) -> Result<(), Errno> {
    if op.ops.is_empty() {
        return Err(Errno::EINVAL);
    }
    let snapshots = op.snapid != SnapId::HEAD && !op.ops.iter().any(|op| op.code.is_pg());
    if snapshots || (access.write && !op.snaps.is_empty()) {
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
) -> Msg {
    let write = op.ops.iter().any(|op| op.code.is_modify());
    let may_be_known = write && (op.retry_attempt > 0 || op.flags.contains(OsdFlags::RETRY));
    if may_be_known && let Some(known) = state.dups.find(context.client, op.client_inc, context.tid) {
        let reply = MOSDOpReply::answer(op, known.result, context.epoch);
        return Msg::new(&reply.with_versions(known.version, known.user_version)).with_tid(context.tid);
    }
    let reply = if write {
        write_request(context, op, collection, state, counters)
    } else {
        read_request(context, op, collection, state, counters)
    };
    Msg::new(&reply).with_tid(context.tid)
}

fn read_request(
    context: &Context,
    op: MOSDOp,
    collection: &dyn Collection,
    state: &SlotState,
    counters: &Counters,
) -> MOSDOpReply {
    let mut outputs = Outputs::new();
    let (result, user_version) = match read_ops(context, &op, collection, &mut outputs) {
        Ok((result, user_version)) => (result, user_version),
        Err(errno) => (errno.code(), state.user_version),
    };
    counters.read(outputs.iter().map(|(_, data)| data.len() as u64).sum());
    answer(context, op, result, outputs).with_read_versions(version_as_read(user_version), user_version)
}

/// The last operation's result, and the object's version.
fn read_ops(
    context: &Context,
    op: &MOSDOp,
    collection: &dyn Collection,
    outputs: &mut Outputs,
) -> Result<(i32, u64), Errno> {
    if op.ops[0].code.is_pg() {
        return list::list(context, op, collection, outputs).map(|result| (result, 0));
    }
    let view = now(collection.object(oid_of(op)))?.ok_or(Errno::ENOENT)?;
    let user_version = view.info().user_version;
    let mut execution = Execution::new(context, Some(view));
    let result = execution.run(&op.ops, outputs)?;
    Ok((result, user_version))
}

fn write_request(
    context: &Context,
    op: MOSDOp,
    collection: &dyn Collection,
    state: &mut SlotState,
    counters: &Counters,
) -> MOSDOpReply {
    let mut outputs = Outputs::new();
    let done = write_ops(context, &op, collection, state, &mut outputs);
    let incarnation = op.client_inc;
    let record = |version, user_version, result| OpRecord {
        client: context.client,
        incarnation,
        tid: context.tid,
        version,
        user_version,
        result,
    };
    match done {
        Ok(Written::Changed(version, user_version)) => {
            counters.wrote(op.ops.iter().map(|op| op.data.len() as u64).sum());
            state.dups.record(record(version, user_version, 0));
            if !op.flags.contains(OsdFlags::RETURNVEC) {
                outputs.clear(); // What a write says of its parts is told only to who asks for it.
            }
            answer(context, op, 0, outputs).with_versions(version, user_version)
        }
        Ok(Written::Nothing { result, user_version }) => answer(context, op, result, outputs)
            .with_read_versions(version_as_read(user_version), user_version),
        Err(errno) => {
            state.dups.record(record(state.version, state.user_version, errno.code()));
            answer(context, op, errno.code(), outputs)
                .with_read_versions(version_as_read(state.user_version), state.user_version)
        }
    }
}

enum Written {
    Changed(Eversion, u64),
    /// The operations were fine and changed nothing: a truncation of an object that is not there.
    Nothing {
        result: i32,
        user_version: u64,
    },
}

fn write_ops(
    context: &Context,
    op: &MOSDOp,
    collection: &dyn Collection,
    state: &mut SlotState,
    outputs: &mut Outputs,
) -> Result<Written, Errno> {
    let oid = oid_of(op);
    let view = now(collection.object(oid))?;
    let before = view.as_ref().map_or(0, |view| view.info().user_version);
    let mut execution = Execution::new(context, view);
    let result = execution.run(&op.ops, outputs)?;
    let Execution { changes, view, frees, .. } = execution;
    if changes.is_empty() {
        return Ok(Written::Nothing { result, user_version: before });
    }
    if context.full && !frees {
        return Err(Errno::ENOSPC);
    }
    // A view that is dropped now need not be copied for the change.
    drop(view);
    let version = Eversion { epoch: context.epoch, version: state.version.version + 1 };
    let user_version = state.user_version.max(before) + 1;
    let record = OpRecord {
        client: context.client,
        incarnation: op.client_inc,
        tid: context.tid,
        version,
        user_version,
        result: 0,
    };
    let info = Info { version, user_version, mtime: mtime_of(op) };
    let objects = smallvec![ObjectChanges { oid, info, changes }];
    match collection.submit(Transaction { version, objects, record: Some(record) })? {
        Commit::Done => {}
        // Answering now would promise what may be lost. The stores there are never say so.
        Commit::Pending => return Err(Errno::EIO),
    }
    state.version = version;
    state.user_version = user_version;
    Ok(Written::Changed(version, user_version))
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

fn oid_of(op: &MOSDOp) -> ObjectRef<'_> {
    // A key equal to the name places as the name does, and is not kept.
    let key = if op.locator.key == op.oid { &[][..] } else { &op.locator.key };
    ObjectRef { hash: op.hash, nspace: &op.locator.nspace, key, name: &op.oid, snap: SnapId::HEAD }
}

/// What is at hand. Every store there is answers at once.
pub(crate) fn now<T>(fetch: Fetch<T>) -> Result<T, Errno> {
    fetch.now().ok_or(Errno::EIO)
}

/// Results and outputs, in the order of the operations; shorter than they are if one failed.
pub(crate) type Outputs = SmallVec<[(i32, Bytes); 2]>;

/// The state in which a request's operations find the object.
pub(crate) struct Execution<'a> {
    context: &'a Context,
    /// The object before the request.
    view: Option<Arc<dyn ObjectView>>,
    /// Whether it exists by now.
    exists: bool,
    /// How large it is by now.
    size: u64,
    changes: SmallVec<[Change<'a>; 2]>,
    /// Whether the changes only free room, so that they are done in a full pool too.
    frees: bool,
}

impl<'a> Execution<'a> {
    fn new(context: &'a Context, view: Option<Arc<dyn ObjectView>>) -> Self {
        let size = view.as_ref().map_or(0, |view| view.size());
        Self { context, exists: view.is_some(), size, view, changes: SmallVec::new(), frees: true }
    }

    /// Runs the operations until one fails; returns the last result.
    fn run(&mut self, ops: &Ops, outputs: &mut Outputs) -> Result<i32, Errno> {
        let mut last = 0;
        for op in ops {
            match self.one(op) {
                Ok((result, data)) => {
                    last = result;
                    outputs.push((result, data));
                }
                Err(errno) => {
                    outputs.push((errno.code(), Bytes::new()));
                    if !op.flags.contains(OpFlags::FAILOK) {
                        return Err(errno);
                    }
                    last = 0;
                }
            }
        }
        Ok(last)
    }

    fn one(&mut self, op: &OsdOp) -> Output {
        match op.code {
            OpCode::READ | OpCode::SYNC_READ => self.read(op),
            OpCode::SPARSE_READ => self.sparse_read(op),
            OpCode::MAPEXT => self.map_extents(op),
            OpCode::STAT => self.stat(),
            OpCode::CMPEXT => self.compare_extent(op),
            OpCode::ASSERT_VER => self.assert_version(op),
            OpCode::WRITE => self.write(op, op.extent().offset),
            OpCode::APPEND => self.write(op, self.size),
            OpCode::WRITEFULL => self.write_full(op),
            OpCode::WRITESAME => self.write_same(op),
            OpCode::CREATE => self.create(op),
            OpCode::DELETE => self.delete(),
            OpCode::TRUNCATE => self.truncate(op),
            OpCode::ZERO => self.zero(op),
            OpCode::SETALLOCHINT => self.touch(),
            OpCode::GETXATTR => self.xattr(op),
            OpCode::GETXATTRS => self.xattrs(),
            OpCode::CMPXATTR => self.compare_xattr(op),
            OpCode::SETXATTR => self.set_xattr(op),
            OpCode::RMXATTR => self.remove_xattr(op),
            OpCode::OMAPGETKEYS => self.omap_keys(op),
            OpCode::OMAPGETVALS => self.omap_values(op),
            OpCode::OMAPGETHEADER => self.omap_header(),
            OpCode::OMAPGETVALSBYKEYS => self.omap_values_by_keys(op),
            OpCode::OMAP_CMP => self.compare_omap(op),
            OpCode::OMAPSETVALS => self.set_omap(op),
            OpCode::OMAPSETHEADER => self.set_omap_header(op),
            OpCode::OMAPCLEAR => self.clear_omap(),
            OpCode::OMAPRMKEYS => self.remove_omap(op),
            OpCode::OMAPRMKEYRANGE => self.remove_omap_range(op),
            _ => Err(Errno::EOPNOTSUPP),
        }
    }

    /// The object before the request, if it still counts: what was removed in between has no contents.
    fn contents(&self) -> Option<&Arc<dyn ObjectView>> {
        self.view.as_ref().filter(|_| self.exists)
    }

    fn must_exist(&self) -> Result<(), Errno> {
        if self.exists { Ok(()) } else { Err(Errno::ENOENT) }
    }

    /// A change that takes room and makes the object if need be.
    fn grow(&mut self, change: Change<'a>) {
        self.exists = true;
        self.frees = false;
        self.changes.push(change);
    }
}
