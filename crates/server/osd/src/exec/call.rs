//! CALL: runs a method of an object class.

use loligo_wire::message::osd::OsdOp;

use super::execution::{Execution, Output};
use crate::classes::{self, Handle};
use crate::errno::Errno;

impl Execution<'_> {
    pub(super) fn call(&mut self, op: &OsdOp) -> Output {
        let input = op.call_input()?;
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
