//! Operations on extended attributes.

use std::collections::BTreeMap;

use bytes::Bytes;
use loligo_store::Change;
use loligo_wire::message::osd::{CmpOp, OsdOp, XattrArgs};
use loligo_wire::{Encode, Reader};

use super::{DONE, Execution, Output, now};
use crate::errno::Errno;

impl<'a> Execution<'a> {
    pub(super) fn xattr(&self, op: &OsdOp) -> Output {
        let (name, _) = op.xattr_input()?;
        self.must_exist()?;
        Ok((0, self.value(&name)?.ok_or(Errno::ENODATA)?))
    }

    pub(super) fn xattrs(&self) -> Output {
        let all = self.contents().map_or(Ok(Vec::new()), |view| now(view.xattrs()))?;
        Ok((0, all.into_iter().collect::<BTreeMap<Bytes, Bytes>>().to_bytes()))
    }

    pub(super) fn compare_xattr(&self, op: &OsdOp) -> Output {
        let (name, given) = op.xattr_input()?;
        let args = op.xattr_args();
        let cmp = CmpOp::from_code(args.cmp_op).ok_or(Errno::EINVAL)?;
        // An attribute that is not there compares as an empty one.
        let stored = self.value(&name)?.unwrap_or_default();
        let ordering = match args.cmp_mode {
            XattrArgs::MODE_STRING => given[..].cmp(&stored[..]),
            XattrArgs::MODE_U64 => Reader::new(&given).u64()?.cmp(&number(&stored)),
            _ => return Err(Errno::EINVAL),
        };
        if cmp.holds(ordering) { Ok((1, Bytes::new())) } else { Err(Errno::ECANCELED) }
    }

    pub(super) fn set_xattr(&mut self, op: &OsdOp) -> Output {
        let (name, value) = op.xattr_input()?;
        if name.len() > self.context.limits.xattr_name_len {
            return Err(Errno::ENAMETOOLONG);
        }
        self.grow(Change::SetXattr { name, value });
        DONE
    }

    pub(super) fn remove_xattr(&mut self, op: &OsdOp) -> Output {
        let (name, _) = op.xattr_input()?;
        self.must_exist()?;
        self.changes.push(Change::RemoveXattr { name });
        DONE
    }

    fn value(&self, name: &[u8]) -> Result<Option<Bytes>, Errno> {
        self.contents().map_or(Ok(None), |view| now(view.xattr(name)))
    }
}

/// The number that an attribute's text begins with; 0 if there is none.
fn number(text: &[u8]) -> u64 {
    let digits = text.iter().take_while(|b| b.is_ascii_digit());
    digits.fold(0u64, |n, digit| n.saturating_mul(10).saturating_add(u64::from(digit - b'0')))
}
