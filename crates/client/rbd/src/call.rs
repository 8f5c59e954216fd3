//! Calls of the class `rbd`.

use bytes::Bytes;
use loligo_rados::{Answer, Errno, IoCtx, ReadOp, WriteOp};
use loligo_wire::{Decode, Reader, Writer};

use crate::Error;

pub(crate) const CLASS: &str = "rbd";

/// Encodes an input.
pub(crate) fn input(fill: impl FnOnce(&mut Writer)) -> Bytes {
    let mut w = Writer::new();
    fill(&mut w);
    w.into_bytes()
}

/// Calls a reading method.
pub(crate) async fn ask<T: Decode>(
    io: &IoCtx,
    oid: impl Into<Vec<u8>>,
    method: &'static str,
    fill: impl FnOnce(&mut Writer),
) -> Result<T, Error> {
    decoded(method, &io.exec(oid, CLASS, method, &input(fill)).await?)
}

/// Calls a writing method.
pub(crate) async fn tell(
    io: &IoCtx,
    oid: impl Into<Vec<u8>>,
    method: &str,
    fill: impl FnOnce(&mut Writer),
) -> Result<(), Error> {
    Ok(io.exec_write(oid, CLASS, method, &input(fill)).await?)
}

/// Treats ENOENT as success.
pub(crate) fn gone(done: Result<(), Error>) -> Result<(), Error> {
    match done {
        Err(e) if !e.is_not_found() => Err(e),
        _ => Ok(()),
    }
}

/// Names in one reply (`RBD_MAX_KEYS_READ` is 64).
const NAMES_AT_A_TIME: u64 = 1024;

/// Reads a whole list page by page, in the order of the names. A missing object yields an empty list.
pub(crate) async fn listed<T: Decode>(
    io: &IoCtx,
    oid: impl Into<Vec<u8>>,
    method: &'static str,
    name: fn(&T) -> &[u8],
) -> Result<Vec<T>, Error> {
    let begin = |last: Option<&T>, w: &mut Writer| w.blob(last.map_or(&[][..], name));
    match listed_behind(io, oid, method, begin, |one, last| name(one) > name(last)).await {
        Err(e) if e.is_not_found() => Ok(Vec::new()),
        all => all,
    }
}

/// Reads a whole list page by page. `begin` encodes the item behind which a page begins; `follows`
/// returns whether an item sorts after another.
pub(crate) async fn listed_behind<T: Decode>(
    io: &IoCtx,
    oid: impl Into<Vec<u8>>,
    method: &'static str,
    begin: impl Fn(Option<&T>, &mut Writer),
    follows: impl Fn(&T, &T) -> bool,
) -> Result<Vec<T>, Error> {
    let (mut all, oid): (Vec<T>, _) = (Vec::new(), oid.into());
    loop {
        let page: Vec<T> = ask(io, &*oid, method, |w| {
            begin(all.last(), w);
            w.u64(NAMES_AT_A_TIME);
        })
        .await?;
        // A page that does not advance would be repeated forever.
        let goes_on = page.last().is_some_and(|one| all.last().is_none_or(|last| follows(one, last)));
        if !goes_on {
            return Ok(all);
        }
        let is_last = (page.len() as u64) < NAMES_AT_A_TIME;
        all.extend(page);
        if is_last {
            return Ok(all);
        }
    }
}

/// Adds a call to a read operation.
pub(crate) fn asking(op: ReadOp, method: &str, fill: impl FnOnce(&mut Writer)) -> ReadOp {
    op.exec(CLASS, method, &input(fill))
}

/// Adds a call to a write operation.
pub(crate) fn telling(op: WriteOp, method: &str, fill: impl FnOnce(&mut Writer)) -> WriteOp {
    op.exec(CLASS, method, &input(fill))
}

/// Decodes an output.
pub(crate) fn decoded<T: Decode>(what: &'static str, out: &[u8]) -> Result<T, Error> {
    Reader::new(out).get().map_err(|source| Error::Decode { what, source })
}

/// Decodes the next answer of an operation.
pub(crate) fn next<T: Decode>(
    answers: &mut impl Iterator<Item = Answer>,
    what: &'static str,
) -> Result<T, Error> {
    let answer = answers.next().ok_or(Errno::EPROTO)?;
    if answer.result < 0 {
        return Err(Errno(answer.result.saturating_neg()).into());
    }
    decoded(what, &answer.data)
}
