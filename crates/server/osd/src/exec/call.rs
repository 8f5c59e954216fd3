//! CALL: runs a method of an object class.

use loligo_wire::message::osd::OsdOp;

use super::execution::{Execution, Output};
use crate::classes::{self, Handle};
use crate::errno::Errno;

/// What a call of a method costs beside the operations that the method asks for, its input and its output:
/// what it reads is decoded, what it answers encoded.
const METHOD_COST: u64 = 1024;

impl Execution<'_> {
    pub(super) fn call(&mut self, op: &OsdOp) -> Output {
        let input = op.call_input()?;
        self.spend(METHOD_COST + input.input.len() as u64)?;
        let method = classes::method(&input.class, &input.method).ok_or(Errno::EOPNOTSUPP)?;
        self.user_modify |= method.write;
        let output = (method.run)(&mut Handle::new(self, method), &input.input);
        if self.context.fetches.waiting() {
            return Err(Errno::EIO); // whatever the method made of it: it runs again
        }
        let (result, data) = output?;
        self.spend(data.len() as u64)?;
        if result < 0 { Err(Errno(-result)) } else { Ok((result, data)) }
    }
}
