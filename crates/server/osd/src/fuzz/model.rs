//! A small model of an object's content.

use loligo_wire::message::osd::{OpCode, OpFlags, Ops};

/// An object's bytes; `None` if it does not exist.
pub(super) type Model = Option<Vec<u8>>;

/// The object after a successful request; `None` if the model does not cover the request.
pub(super) fn after(before: &Model, ops: &Ops) -> Option<Model> {
    let mut object = before.clone();
    for op in ops {
        if op.code == OpCode::CALL || op.flags.contains(OpFlags::FAILOK) {
            return None;
        }
        if !op.code.is_modify() {
            continue;
        }
        let (extent, data) = (op.extent(), &op.data);
        let (offset, len) = (usize::try_from(extent.offset).ok()?, usize::try_from(extent.length).ok()?);
        let is_whole = len == data.len() && len > 0;
        match op.code {
            OpCode::SETXATTR | OpCode::OMAPSETHEADER | OpCode::SETALLOCHINT | OpCode::CREATE => {
                object.get_or_insert_default();
            }
            OpCode::DELETE => object = None,
            OpCode::WRITEFULL if len == data.len() => object = Some(data.to_vec()),
            OpCode::WRITE if is_whole => put(object.get_or_insert_default(), offset, data),
            OpCode::APPEND if is_whole => object.get_or_insert_default().extend_from_slice(data),
            OpCode::TRUNCATE if object.is_some() => object.get_or_insert_default().resize(offset, 0),
            OpCode::ZERO => {
                if let Some(bytes) = &mut object {
                    zero(bytes, offset, len);
                }
            }
            _ => return None,
        }
    }
    Some(object)
}

/// As in a stock OSD, zeroing up to the end truncates.
fn zero(bytes: &mut Vec<u8>, offset: usize, len: usize) {
    let end = offset.saturating_add(len);
    if len > 0 && end >= bytes.len() {
        bytes.truncate(offset);
    } else if let Some(range) = bytes.get_mut(offset..end) {
        range.fill(0);
    }
}

fn put(bytes: &mut Vec<u8>, offset: usize, data: &[u8]) {
    let end = offset + data.len();
    bytes.resize(bytes.len().max(end), 0);
    bytes[offset..end].copy_from_slice(data);
}
