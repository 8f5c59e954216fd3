//! The permissions a request needs.

use loligo_cephx::caps::{Access, ClassCall};
use loligo_wire::Errno;
use loligo_wire::message::osd::{MOSDOp, OpCode, WatchArgs};
use smallvec::SmallVec;

/// The kinds of access a request needs to its object.
#[derive(Default)]
pub(crate) struct Needs {
    /// The access that its operations need.
    pub(crate) access: Access,
    /// The object class methods it calls.
    pub(crate) calls: SmallVec<[ClassCall<'static>; 1]>,
}

impl Needs {
    /// # Errors
    /// EOPNOTSUPP if it calls a method that does not exist.
    pub(crate) fn of(op: &MOSDOp) -> Result<Self, Errno> {
        let mut needs = Self::default();
        for op in &op.ops {
            if op.code == OpCode::CALL {
                let input = op.call_input()?;
                needs
                    .calls
                    .push(loligo_classes::needs(&input.class, &input.method).ok_or(Errno::EOPNOTSUPP)?);
                continue;
            }
            // A ping changes nothing; its result tells whether the client still watches the object.
            let watches = op.code == OpCode::WATCH;
            let pings = watches && op.watch_args().op == WatchArgs::PING;
            needs.access.read |= op.code.is_read() || watches;
            needs.access.write |= op.code.is_modify() && !pings;
        }
        Ok(needs)
    }

    /// Whether the request may change the object.
    pub(crate) fn writes(&self) -> bool {
        self.access.write || self.calls.iter().any(|call| call.write)
    }
}
