//! CALL: runs a method of an object class at the object of the request.

use bytes::Bytes;
use loligo_classes::Object;
use loligo_wire::message::osd::OsdOp;
use loligo_wire::{EntityAddr, Errno, GlobalId, SnapId};

use super::execution::{Execution, Output};

/// The cost of a method call beside its operations, its input and its output: its input is decoded and
/// its output encoded.
const METHOD_COST: u64 = 1024;

impl Execution<'_> {
    pub(super) fn call(&mut self, op: &OsdOp) -> Output {
        let input = op.call_input()?;
        self.context.works(METHOD_COST + input.input.len() as u64)?;
        let method = loligo_classes::method(&input.class, &input.method).ok_or(Errno::EOPNOTSUPP)?;
        self.user_modify |= method.writes();
        let output = method.run(self, &input.input);
        if self.context.fetches.waiting() {
            return Err(Errno::EIO); // whatever the method returned: it runs again
        }
        let (result, data) = output?;
        self.spend(data.len() as u64)?;
        if result < 0 { Err(Errno(-result)) } else { Ok((result, data)) }
    }
}

impl Object for Execution<'_> {
    fn client(&self) -> GlobalId {
        GlobalId(self.context.client)
    }

    fn client_addr(&self) -> EntityAddr {
        self.context.peer
    }

    fn unique_id(&self) -> String {
        self.place_in_history()
    }

    fn snap_seq(&self) -> Option<SnapId> {
        self.exists.then_some(self.snaps.seq)
    }

    fn explain(&mut self, output: Bytes) {
        self.explanation = output;
    }

    fn run(&mut self, op: &OsdOp) -> Output {
        self.nested(op)
    }
}
