//! The object that a method runs at, as its OSD gives it to the method.

use bytes::Bytes;
use loligo_wire::message::osd::OsdOp;
use loligo_wire::{EntityAddr, Errno, GlobalId, SnapId};

/// The object of a request, and the request's sender.
pub trait Object {
    /// The global id of the calling client.
    fn client(&self) -> GlobalId;

    /// The client's address.
    fn client_addr(&self) -> EntityAddr;

    /// A name that is unique among the requests of the placement group (`cls_cxx_subop_version`). Within
    /// a request it changes with each completed operation.
    fn unique_id(&self) -> String;

    /// The newest snapshot that the object's writers have named; `None` if the object does not exist.
    fn snap_seq(&self) -> Option<SnapId>;

    /// Sets the output of the call in case it fails.
    fn explain(&mut self, output: Bytes);

    /// Runs an operation. Reads see the object as it was before the request.
    ///
    /// # Errors
    /// Those that a client gets for the operation.
    fn run(&mut self, op: &OsdOp) -> Result<(i32, Bytes), Errno>;
}
