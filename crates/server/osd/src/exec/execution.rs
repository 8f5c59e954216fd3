//! Runs the operations of one request in order.

use std::sync::Arc;

use bytes::Bytes;
use loligo_store::{Change, Collection, Info, ObjectRef, ObjectView};
use loligo_wire::message::osd::{OpCode, OpFlags, Ops, OsdOp};
use loligo_wire::{Errno, UTime};
use smallvec::SmallVec;

use super::Context;
use super::clones::Clones;
use super::ranges::Touched;
use crate::made::Made;
use crate::watch::{Effects, Load, Watchers};

/// The result and output of one operation.
pub(crate) type Output = Result<(i32, Bytes), Errno>;

/// The output of an operation that returns nothing but success.
pub(crate) const DONE: Output = Ok((0, Bytes::new()));

/// The cost of an operation beside the bytes it reads and makes.
const OP_COST: u64 = 64;
/// The extra cost of an operation that changes the object, however small the change: the store finds the
/// position and splits and joins stored extents.
pub(super) const CHANGE_COST: u64 = 1024;

/// Results and outputs in the order of the operations; fewer than the operations if one failed.
pub(super) type Outputs = SmallVec<[(i32, Bytes); 2]>;

/// The state of the object during a request's operations.
pub(crate) struct Execution<'a> {
    pub(crate) context: &'a Context,
    pub(crate) collection: &'a dyn Collection,
    /// The object's head, also when a clone is read.
    pub(crate) oid: ObjectRef<'a>,
    /// The object before the request, which every operation reads.
    pub(crate) view: Option<Arc<dyn ObjectView>>,
    /// Whether the object exists at this point of the request; a whiteout does not.
    pub(crate) exists: bool,
    /// Its size at this point.
    pub(super) size: u64,
    /// Its metadata at this point; the version is still that from before the request.
    pub(crate) info: Info,
    pub(crate) changes: SmallVec<[Change<'a>; 2]>,
    /// Its clones; read requests look them up when needed.
    pub(super) snaps: Clones,
    /// Ranges of bytes that the request has, or may have, changed.
    pub(super) modified: Touched,
    /// Whether the user-visible version changes: not if only watches change, or if a copy brings its
    /// source's version.
    pub(super) user_modify: bool,
    /// The object's watchers before the request, if any.
    pub(crate) watchers: Option<&'a Watchers>,
    /// The OSD's watch and notification counts; `None` for internal requests.
    pub(crate) load: Option<&'a Load>,
    /// Counts the bytes the request makes; `None` if it makes none.
    pub(super) made: Option<&'a Arc<Made>>,
    /// The effects on watches if the request succeeds.
    pub(crate) effects: Option<Box<Effects>>,
    /// Whether the request has rolled back to a clone.
    pub(super) rolled_back: bool,
    /// Whether it failed on the source of a copy; such a request takes no place in the placement group's
    /// history.
    pub(super) copy_failed: bool,
    /// The modification time of a copy's source, which the copy gets.
    pub(super) copied_mtime: Option<UTime>,
    /// The output of the running operation if it fails.
    pub(crate) explanation: Bytes,
    /// The result of the latest operation.
    result: i32,
    /// The newest user version of the placement group before the request.
    pub(super) user_version: u64,
    /// Operations that succeeded or were allowed to fail, including those that methods ran.
    processed: u64,
    /// Whether the running operation is part of another one, so that its data is not the data that came
    /// with the request.
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
            snaps: Clones::default(),
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

    /// Returns the object's new metadata, the effects on watches, and the changes.
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
                // Not a result, even if the operation may fail: the request waits.
                Err(errno) if self.context.fetches.waiting() => return Err(errno),
                Err(errno) => {
                    outputs.push((errno.to_result(), std::mem::take(&mut self.explanation)));
                    // FAILOK does not cover exceeding the request's budget.
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

    /// Whether the object takes more space than before.
    pub(super) fn grows(&self) -> bool {
        let size_before = self.view.as_ref().map_or(0, |view| view.size());
        let existed = self.view.as_ref().is_some_and(|view| !view.info().whiteout);
        self.size > size_before || (self.exists && !existed)
    }

    /// Runs an operation on behalf of a class method or of another operation.
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

    /// Returns a name that is unique among the requests of the placement group. Within a request it
    /// changes with each completed operation.
    pub(super) fn place_in_history(&self) -> String {
        let (version, number) = (self.user_version, self.processed);
        format!("{version}.{number}")
    }

    /// Counts work against the request's budget.
    pub(crate) fn spend(&mut self, bytes: u64) -> Result<(), Errno> {
        self.context.spend(bytes)
    }

    /// Counts bytes that are about to be made against the bound of all requests. An error may mean that
    /// the request waits.
    pub(super) fn makes(&self, bytes: u64) -> Result<(), Errno> {
        let Some(made) = self.made else { return Ok(()) };
        self.context.making.add(&self.context.fetches, made, self.context.client, bytes)
    }

    /// The output of an operation without a result of its own. As in a stock OSD, the previous
    /// operation's result stays, which is visible after a CMPXATTR, whose result is 1.
    pub(crate) fn same_result(&self, data: Bytes) -> Output {
        Ok((self.result, data))
    }

    pub(crate) fn must_exist(&self) -> Result<(), Errno> {
        if self.exists { Ok(()) } else { Err(Errno::ENOENT) }
    }

    /// The stored object, for operations that read the store without checking whether the object still
    /// exists.
    pub(super) fn stored(&self) -> Result<&Arc<dyn ObjectView>, Errno> {
        self.view.as_ref().ok_or(Errno::ENOENT)
    }

    /// Adds a change that creates the object if needed.
    pub(crate) fn make(&mut self, change: Change<'a>) {
        self.exists = true;
        self.info.whiteout = false;
        self.changes.push(change);
    }
}
