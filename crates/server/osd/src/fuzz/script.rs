//! Decodes bytes as a script of client actions.
//!
//! A step begins with a byte: bits 0 and 1 select the client, 2 and 3 the object, 4 and 5 the number of
//! operations, bit 6 whether a snapshot is read. With bit 7 the next byte selects another action instead
//! of a request. Missing bytes are zeros.

use az::SaturatingAs as _;
use bytes::Bytes;
use loligo_wire::message::osd::{
    CopyFrom, Extent, HObject, ObjectLocator, OpCode, OpFlags, Ops, OsdOp, WatchArgs,
};
use loligo_wire::{PoolId, SnapId};

pub(super) const POOL: PoolId = PoolId(1);

/// An action.
pub(super) enum Step {
    /// A request. The operations are boxed, since they are much larger than any other step.
    Request { client: usize, object: u8, snap: Option<u64>, ops: Box<Ops> },
    /// A client resends its newest request.
    Again { client: usize },
    /// A snapshot is taken; all clients know of it.
    Snapshot,
    /// A client's connection is lost.
    Lost { client: usize },
    /// Waits for all replies.
    Pause,
}

const CODES: [OpCode; 48] = [
    OpCode::WRITE,
    OpCode::READ,
    OpCode::WRITEFULL,
    OpCode::APPEND,
    OpCode::TRUNCATE,
    OpCode::ZERO,
    OpCode::DELETE,
    OpCode::CREATE,
    OpCode::STAT,
    OpCode::MAPEXT,
    OpCode::SPARSE_READ,
    OpCode::NOTIFY,
    OpCode::NOTIFY_ACK,
    OpCode::ASSERT_VER,
    OpCode::LIST_WATCHERS,
    OpCode::LIST_SNAPS,
    OpCode::SYNC_READ,
    OpCode::TMAPGET,
    OpCode::OMAPGETKEYS,
    OpCode::OMAPGETVALS,
    OpCode::OMAPGETHEADER,
    OpCode::OMAPGETVALSBYKEYS,
    OpCode::OMAP_CMP,
    OpCode::CHECKSUM,
    OpCode::CMPEXT,
    OpCode::TRIMTRUNC,
    OpCode::TMAPPUT,
    OpCode::ROLLBACK,
    OpCode::WATCH,
    OpCode::OMAPSETVALS,
    OpCode::OMAPSETHEADER,
    OpCode::OMAPCLEAR,
    OpCode::OMAPRMKEYS,
    OpCode::OMAPRMKEYRANGE,
    OpCode::COPY_FROM,
    OpCode::COPY_FROM2,
    OpCode::SETALLOCHINT,
    OpCode::WRITESAME,
    OpCode::TMAPUP,
    OpCode::TMAP2OMAP,
    OpCode::GETXATTR,
    OpCode::GETXATTRS,
    OpCode::CMPXATTR,
    OpCode::SETXATTR,
    OpCode::RMXATTR,
    OpCode::CALL,
    OpCode::PGNLS,
    OpCode::CACHE_FLUSH,
];

/// The remaining bytes.
pub(super) struct Script<'a>(pub(super) &'a [u8]);

impl Script<'_> {
    /// The next step; `None` at the end.
    pub(super) fn step(&mut self) -> Option<Step> {
        if self.0.is_empty() {
            return None;
        }
        let head = self.byte();
        let (client, object) = (usize::from(head & 3), head >> 2 & 3);
        if head & 0x80 != 0 {
            return Some(match self.byte() % 4 {
                0 => Step::Snapshot,
                1 => Step::Again { client },
                2 => Step::Lost { client },
                _ => Step::Pause,
            });
        }
        let snap = (head & 0x40 != 0).then(|| u64::from(self.byte()));
        let ops = (0..=head >> 4 & 3).map(|_| self.op()).collect();
        Some(Step::Request { client, object, snap, ops: Box::new(ops) })
    }

    fn byte(&mut self) -> u8 {
        let Some((byte, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *byte
    }

    /// Two bytes; the upper four bits give the shift of the others, so that numbers are small or huge.
    fn number(&mut self) -> u64 {
        let both = u64::from(u16::from_le_bytes([self.byte(), self.byte()]));
        (both & 0xfff) << (both >> 12 & 15).saturating_sub(4).saturating_mul(5)
    }

    /// A length, a repeat count, and that many bytes.
    fn bytes(&mut self) -> Bytes {
        let (len, times) = (usize::from(self.byte() & 0x7f), 1 << (self.byte() & 7));
        let (bytes, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        bytes.repeat(times).into()
    }

    fn op(&mut self) -> OsdOp {
        let (code, flags) = (self.byte(), self.byte());
        let code = CODES[usize::from(code) % CODES.len()];
        let op = match code {
            OpCode::GETXATTR | OpCode::CMPXATTR | OpCode::SETXATTR | OpCode::RMXATTR => {
                let name = [b"abcd_"[usize::from(self.byte()) % 5]];
                let (how, mode) = (self.byte() % 8, self.byte() % 4);
                OsdOp::xattr(code, &name, &self.bytes(), how, mode)
            }
            OpCode::WATCH => {
                let (op, cookie) = (self.byte() % 9, u64::from(self.byte() & 3));
                OsdOp::watch(WatchArgs { op, cookie, generation: 1, timeout_s: u32::from(self.byte()) })
            }
            OpCode::NOTIFY => OsdOp::notify(u64::from(self.byte()), self.bytes()),
            OpCode::COPY_FROM | OpCode::COPY_FROM2 => self.copy(code),
            OpCode::ROLLBACK => OsdOp::rollback(self.snap()),
            OpCode::WRITESAME => OsdOp::write_same(self.number(), self.number(), self.bytes()),
            OpCode::CALL => self.call(),
            OpCode::PGNLS => OsdOp::pgnls(self.number(), 0, &HObject::min()),
            OpCode::ASSERT_VER => OsdOp::assert_ver(u64::from(self.byte())),
            _ => {
                let (offset, length) = (self.number(), self.number());
                let data = self.bytes();
                let length = if flags & 2 == 0 { data.len() as u64 } else { length };
                OsdOp::with_extent(code, Extent { offset, length, ..Extent::default() }, data)
            }
        };
        let flag = |bit: u8, flag: OpFlags| if flags & bit == 0 { OpFlags::empty() } else { flag };
        op.with_flags(flag(1, OpFlags::FAILOK) | flag(4, OpFlags::EXCL))
    }

    fn snap(&mut self) -> SnapId {
        match self.byte() {
            0 => SnapId::HEAD,
            number => SnapId(u64::from(number & 15)),
        }
    }

    fn copy(&mut self, code: OpCode) -> OsdOp {
        let source = [b'0' + self.byte() % 5];
        let from = CopyFrom { snapid: self.snap(), flags: self.byte(), ..CopyFrom::default() };
        let mut op = OsdOp::copy_from(&source, &ObjectLocator::in_pool(POOL), from);
        op.code = code;
        op
    }

    fn call(&mut self) -> OsdOp {
        let (class, method) = loligo_classes::nth(usize::from(self.byte()), usize::from(self.byte()));
        let input = self.bytes();
        // Most inputs are structures that begin with their version and length.
        let mut framed = vec![1, 1];
        framed.extend(input.len().saturating_as::<u32>().to_le_bytes());
        framed.extend_from_slice(&input);
        OsdOp::call(class, method, if self.byte() & 1 == 0 { &framed } else { &input })
    }
}
