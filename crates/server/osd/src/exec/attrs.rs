//! Operations on extended attributes.

use std::collections::BTreeMap;

use bytes::Bytes;
use loligo_store::Change;
use loligo_wire::message::osd::{CmpOp, OsdOp, XattrArgs};
use loligo_wire::{Encode, Errno, Reader};

use super::execution::{DONE, Execution, Output};

/// The cost of passing one other attribute.
const ENTRY_COST: u64 = 32;

impl<'a> Execution<'a> {
    pub(super) fn xattr(&mut self, op: &OsdOp) -> Output {
        let (name, _) = op.xattr_input()?;
        Ok((0, self.value(&name)?.ok_or(Errno::ENODATA)?))
    }

    pub(super) fn xattrs(&mut self) -> Output {
        let view = self.stored()?;
        // The attributes are read and then encoded.
        self.context.spend(2 * view.xattr_bytes())?;
        let all = self.context.fetches.now(|| view.xattrs())?;
        let all = all.into_iter().filter(|(name, _)| !is_own(name));
        let output = all.collect::<BTreeMap<Bytes, Bytes>>().to_bytes();
        Ok((0, output))
    }

    pub(super) fn compare_xattr(&mut self, op: &OsdOp) -> Output {
        let args = op.xattr_args();
        let (name, given) = op.xattr_input()?;
        // A missing attribute compares as an empty one.
        let stored = self.value(&name)?.unwrap_or_default();
        let ordering = match args.cmp_mode {
            XattrArgs::MODE_STRING => given[..].cmp(&stored[..]),
            XattrArgs::MODE_U64 => Reader::new(&op.data[name.len()..]).u64()?.cmp(&number(&stored)),
            _ => return Err(Errno::EINVAL),
        };
        let cmp = CmpOp::from_code(args.cmp_op).ok_or(Errno::EINVAL)?;
        if cmp.holds(ordering) { Ok((1, Bytes::new())) } else { Err(Errno::ECANCELED) }
    }

    pub(super) fn set_xattr(&mut self, op: &OsdOp) -> Output {
        if op.xattr_args().name_len as usize > self.context.limits.xattr_name_len {
            return Err(Errno::ENAMETOOLONG);
        }
        let (name, value) = op.xattr_input()?;
        self.context.works(op.data.len() as u64)?;
        self.spend_on_place()?;
        if is_own(&name) {
            return Err(Errno::EINVAL); // no client library lets a program name such an attribute
        }
        // In a stock OSD the attribute without a name is its own record of the object, which it writes
        // again at once.
        self.make(if name.is_empty() { Change::Create } else { Change::SetXattr { name, value } });
        DONE
    }

    pub(super) fn remove_xattr(&mut self, op: &OsdOp) -> Output {
        let (name, _) = op.xattr_input()?;
        self.must_exist()?;
        self.spend_on_place()?;
        if is_own(&name) {
            return Err(Errno::EINVAL);
        }
        self.make(Change::RemoveXattr { name });
        DONE
    }

    /// Counts the cost of inserting or removing an attribute. Stores keep attributes in one sorted list,
    /// so the cost grows with the stored attributes and the request's earlier changes.
    fn spend_on_place(&mut self) -> Result<(), Errno> {
        let stored = self.view.as_ref().map_or(0, |view| view.xattr_bytes());
        self.context.spend(stored + self.changes.len() as u64 * ENTRY_COST)
    }

    fn value(&mut self, name: &[u8]) -> Result<Option<Bytes>, Errno> {
        let view = self.stored()?;
        if is_own(name) {
            return Ok(None);
        }
        let value = self.context.fetches.now(|| view.xattr(name))?;
        self.context.spend(value.as_ref().map_or(0, |value| value.len() as u64))?;
        Ok(value)
    }
}

/// Whether an attribute holds the OSD's own state of the object. Clients do not see such attributes.
pub(super) fn is_own(name: &[u8]) -> bool {
    name.first() == Some(&0)
}

/// The number at the beginning of an attribute's text, as C's `strtoull` reads it.
fn number(text: &[u8]) -> u64 {
    let text = text.trim_ascii_start(); // C also skips \v, which does not occur in practice
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    let mut digits = digits.iter().take_while(|b| b.is_ascii_digit()).map(|digit| u64::from(digit - b'0'));
    let number = digits.try_fold(0u64, |n, digit| n.checked_mul(10)?.checked_add(digit));
    match number {
        None => u64::MAX,
        Some(number) if negative => number.wrapping_neg(),
        Some(number) => number,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_in_c() {
        let max = u64::MAX;
        let cases: [(&str, u64); 9] = [
            ("", 0),
            ("12", 12),
            (" \t+7x", 7),
            ("-1", max),
            ("-", 0),
            ("x1", 0),
            ("18446744073709551615", max),
            ("18446744073709551616", max),
            ("-99999999999999999999", max),
        ];
        cases.iter().for_each(|(text, value)| assert_eq!(number(text.as_bytes()), *value, "{text:?}"));
    }
}
