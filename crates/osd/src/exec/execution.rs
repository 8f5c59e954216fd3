//! The operations of one request, one after the other.

use std::sync::Arc;

use bytes::Bytes;
use loligo_store::{Change, Info, ObjectView};
use loligo_wire::message::osd::{OpCode, OpFlags, Ops, OsdOp};
use smallvec::SmallVec;

use super::Context;
use super::limits::Budget;
use crate::errno::Errno;

/// The result and output of one operation.
pub(super) type Output = Result<(i32, Bytes), Errno>;

/// An operation that says nothing but that it went well.
pub(super) const DONE: Output = Ok((0, Bytes::new()));

/// Results and outputs, in the order of the operations; shorter than they are if one failed.
pub(super) type Outputs = SmallVec<[(i32, Bytes); 2]>;

/// The state in which a request's operations find the object.
pub(super) struct Execution<'a> {
    pub(super) context: &'a Context,
    pub(super) budget: Budget,
    /// The object before the request, which is what every operation reads.
    pub(super) view: Option<Arc<dyn ObjectView>>,
    /// Whether it exists by now.
    pub(super) exists: bool,
    /// How large it is by now.
    pub(super) size: u64,
    /// What is kept about it by now; the version is still that before the request.
    pub(super) info: Info,
    pub(super) changes: SmallVec<[Change<'a>; 2]>,
    /// The result of the newest operation.
    result: i32,
}

impl<'a> Execution<'a> {
    pub(super) fn new(context: &'a Context, view: Option<Arc<dyn ObjectView>>) -> Self {
        Self {
            context,
            budget: Budget::new(&context.limits),
            exists: view.is_some(),
            size: view.as_ref().map_or(0, |view| view.size()),
            info: view.as_ref().map(|view| view.info()).unwrap_or_default(),
            view,
            changes: SmallVec::new(),
            result: 0,
        }
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
                    outputs.push((errno.code(), Bytes::new()));
                    if !op.flags.contains(OpFlags::FAILOK) {
                        return Err(errno);
                    }
                    self.result = 0;
                }
            }
        }
        Ok(self.result)
    }

    /// Whether the object takes more room than before.
    pub(super) fn grows(&self) -> bool {
        let size_before = self.view.as_ref().map_or(0, |view| view.size());
        self.size > size_before || (self.exists && self.view.is_none())
    }

    fn one(&mut self, op: &OsdOp) -> Output {
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
            _ => Err(Errno::EOPNOTSUPP),
        }
    }

    /// An output of an operation that has no result of its own: in a stock OSD the result of the operation before it stays,
    /// which shows behind a CMPXATTR, whose result is 1.
    pub(super) fn same_result(&self, data: Bytes) -> Output {
        Ok((self.result, data))
    }

    pub(super) fn must_exist(&self) -> Result<(), Errno> {
        if self.exists { Ok(()) } else { Err(Errno::ENOENT) }
    }

    /// The stored object, for what asks the store without looking whether the object exists by now.
    pub(super) fn stored(&self) -> Result<&Arc<dyn ObjectView>, Errno> {
        self.view.as_ref().ok_or(Errno::ENOENT)
    }

    /// A change that makes the object if need be.
    pub(super) fn make(&mut self, change: Change<'a>) {
        self.exists = true;
        self.changes.push(change);
    }
}
