//! The operations of one request, one after the other.

use std::sync::Arc;

use bytes::Bytes;
use loligo_store::{Change, Collection, Info, ObjectRef, ObjectView};
use loligo_wire::message::osd::{OpCode, OpFlags, Ops, OsdOp};
use loligo_wire::{SnapId, UTime};
use smallvec::SmallVec;

use super::Context;
use super::ranges::Touched;
use super::snaps::SnapSet;
use crate::errno::Errno;
use crate::made::Made;
use crate::watch::{Effects, Load, Watchers};

/// The result and output of one operation.
pub(crate) type Output = Result<(i32, Bytes), Errno>;

/// An operation that says nothing but that it went well.
pub(crate) const DONE: Output = Ok((0, Bytes::new()));

/// What an operation costs beside what it reads and makes.
const OP_COST: u64 = 64;
/// What one that changes the object costs more, however little it changes: the store looks for the place,
/// splits and joins what is there.
pub(super) const CHANGE_COST: u64 = 1024;

/// Results and outputs, in the order of the operations; shorter than they are if one failed.
pub(super) type Outputs = SmallVec<[(i32, Bytes); 2]>;

/// The state in which a request's operations find the object.
pub(crate) struct Execution<'a> {
    pub(crate) context: &'a Context,
    pub(crate) collection: &'a dyn Collection,
    /// The object: the head, also where a clone is read.
    pub(crate) oid: ObjectRef<'a>,
    /// The object before the request, which is what every operation reads.
    pub(crate) view: Option<Arc<dyn ObjectView>>,
    /// Whether it exists by now; a whiteout does not.
    pub(crate) exists: bool,
    /// How large it is by now.
    pub(super) size: u64,
    /// What is kept about it by now; the version is still that before the request.
    pub(crate) info: Info,
    pub(crate) changes: SmallVec<[Change<'a>; 2]>,
    /// Its clones; in a request that reads they are looked up where they are asked for.
    pub(super) snaps: SnapSet,
    /// Bytes that are others by now, or may be.
    pub(super) modified: Touched,
    /// Whether users see another version: not if only watches change, or if a copy brings its version along.
    pub(super) user_modify: bool,
    /// Who watched the object before the request, if anybody did.
    pub(crate) watchers: Option<&'a Watchers>,
    /// What all watches and notifications of the OSD come to; `None` where no client asks.
    pub(crate) load: Option<&'a Load>,
    /// Where what the request makes is counted; `None` where it makes nothing.
    pub(super) made: Option<&'a Arc<Made>>,
    /// What is to be done for watchers if the request goes well.
    pub(crate) effects: Option<Box<Effects>>,
    /// Whether it has rolled back to a clone.
    pub(super) rolled_back: bool,
    /// Whether it failed because of what it was to copy: the placement group's history says nothing of that.
    pub(super) copy_failed: bool,
    /// When the source of a copy was changed: that comes along.
    pub(super) copied_mtime: Option<UTime>,
    /// The output of the operation that runs, if it fails.
    pub(crate) explanation: Bytes,
    /// The result of the newest operation.
    result: i32,
    /// The newest version of the placement group's objects before the request, as users count.
    pub(super) user_version: u64,
    /// Operations that went well or were allowed to fail, those that methods asked for too.
    processed: u64,
    /// Whether the operation that runs is a part of another one: its data are not those that came with the
    /// request.
    pub(super) is_nested: bool,
}

impl<'a> Execution<'a> {
    pub(super) fn new(
        context: &'a Context,
        collection: &'a dyn Collection,
        oid: ObjectRef<'a>,
        view: Option<Arc<dyn ObjectView>>,
    ) -> Self {
        let info = view.as_ref().map(|view| view.info()).unwrap_or_default();
        Self {
            context,
            collection,
            oid,
            exists: view.is_some() && !info.whiteout,
            size: view.as_ref().map_or(0, |view| view.size()),
            info,
            view,
            changes: SmallVec::new(),
            snaps: SnapSet::default(),
            modified: Touched::default(),
            user_modify: false,
            watchers: None,
            load: None,
            made: None,
            effects: None,
            rolled_back: false,
            copy_failed: false,
            copied_mtime: None,
            explanation: Bytes::new(),
            result: 0,
            user_version: 0,
            processed: 0,
            is_nested: false,
        }
    }

    /// What is kept about the object by now, what is to be done for watchers, and what changes.
    pub(super) fn into_parts(self) -> (Info, Option<Box<Effects>>, SmallVec<[Change<'a>; 2]>) {
        (self.info, self.effects, self.changes)
    }

    /// Runs the operations until one fails; returns the last result.
    pub(super) fn run(&mut self, ops: &Ops, outputs: &mut Outputs) -> Result<i32, Errno> {
        for op in ops {
            match self.one(op) {
                Ok((result, data)) => {
                    self.result = result;
                    outputs.push((result, data));
                }
                // Whatever the operation allows: this is no answer.
                Err(errno) if self.context.fetches.waiting() => return Err(errno),
                Err(errno) => {
                    outputs.push((errno.code(), std::mem::take(&mut self.explanation)));
                    // What one request may do is no operation's to exceed.
                    if self.context.budget.is_exhausted() || !op.flags.contains(OpFlags::FAILOK) {
                        return Err(errno);
                    }
                    self.result = 0;
                }
            }
            self.processed += 1;
        }
        Ok(self.result)
    }

    /// Whether the object takes more room than before.
    pub(super) fn grows(&self) -> bool {
        let size_before = self.view.as_ref().map_or(0, |view| view.size());
        let existed = self.view.as_ref().is_some_and(|view| !view.info().whiteout);
        self.size > size_before || (self.exists && !existed)
    }

    /// Runs an operation that a method of an object class, or another operation, asks for.
    pub(crate) fn nested(&mut self, op: &OsdOp) -> Output {
        let result = std::mem::take(&mut self.result);
        let was_nested = std::mem::replace(&mut self.is_nested, true);
        let output = self.one(op);
        self.is_nested = was_nested;
        self.processed += u64::from(output.is_ok());
        self.result = result;
        output
    }

    fn one(&mut self, op: &OsdOp) -> Output {
        self.user_modify |=
            op.code.is_modify() && !matches!(op.code, OpCode::WATCH | OpCode::COPY_FROM | OpCode::COPY_FROM2);
        self.context.spend(OP_COST)?;
        if op.code.is_modify() {
            self.context.works(CHANGE_COST)?;
        }
        self.check_rules(op)?;
        match op.code {
            OpCode::READ | OpCode::SYNC_READ => self.read(op),
            OpCode::SPARSE_READ => self.sparse_read(op),
            OpCode::MAPEXT => self.map_extents(op),
            OpCode::STAT => self.stat(),
            OpCode::CMPEXT => self.compare_extent(op),
            OpCode::ASSERT_VER => self.assert_version(op),
            OpCode::WRITE => self.write(op),
            OpCode::APPEND => self.append(op),
            OpCode::WRITEFULL => self.write_full(op),
            OpCode::WRITESAME => self.write_same(op),
            OpCode::CREATE => self.create(op),
            OpCode::DELETE => self.delete(),
            OpCode::TRUNCATE => self.truncate(op),
            OpCode::TRIMTRUNC => self.trim_truncate(op),
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
            OpCode::TMAPGET => self.tmap(),
            OpCode::TMAPPUT => self.put_tmap(op),
            OpCode::TMAPUP => self.update_tmap(op),
            OpCode::TMAP2OMAP => self.tmap_to_omap(op),
            OpCode::CHECKSUM => self.checksum(op),
            OpCode::COPY_FROM | OpCode::COPY_FROM2 => self.copy_from(op),
            OpCode::ROLLBACK => self.rollback(op),
            OpCode::LIST_SNAPS => self.list_snaps(),
            OpCode::WATCH => self.watch(op),
            OpCode::NOTIFY => self.notify(op),
            OpCode::NOTIFY_ACK => self.acknowledge(op),
            OpCode::LIST_WATCHERS => self.list_watchers(),
            OpCode::CALL => self.call(op),
            _ => Err(Errno::EOPNOTSUPP),
        }
    }

    /// A name that no other request of the placement group gets (`cls_cxx_subop_version`). The next one of
    /// this request is another as soon as an operation was done.
    pub(crate) fn unique_id(&mut self) -> String {
        let (version, number) = (self.user_version, self.processed);
        format!("{version}.{number}")
    }

    /// The newest snapshot that writers of the object have told of, as a request that writes knows it; `None`
    /// if there is no object.
    pub(crate) fn snap_seq(&self) -> Option<SnapId> {
        self.exists.then_some(self.snaps.seq)
    }

    /// Counts against what one request may do.
    pub(crate) fn spend(&mut self, bytes: u64) -> Result<(), Errno> {
        self.context.spend(bytes)
    }

    /// Counts bytes that are about to be made, against what all requests may have made at a time. An error
    /// may mean that the request waits.
    pub(super) fn makes(&self, bytes: u64) -> Result<(), Errno> {
        let Some(made) = self.made else { return Ok(()) };
        self.context.making.add(&self.context.fetches, made, self.context.client, bytes)
    }

    /// An output of an operation that has no result of its own: in a stock OSD the result of the operation
    /// before it stays, which shows behind a CMPXATTR, whose result is 1.
    pub(crate) fn same_result(&self, data: Bytes) -> Output {
        Ok((self.result, data))
    }

    pub(crate) fn must_exist(&self) -> Result<(), Errno> {
        if self.exists { Ok(()) } else { Err(Errno::ENOENT) }
    }

    /// The stored object, for what asks the store without looking whether the object exists by now.
    pub(super) fn stored(&self) -> Result<&Arc<dyn ObjectView>, Errno> {
        self.view.as_ref().ok_or(Errno::ENOENT)
    }

    /// A change that makes the object if need be.
    pub(crate) fn make(&mut self, change: Change<'a>) {
        self.exists = true;
        self.info.whiteout = false;
        self.changes.push(change);
    }
}
