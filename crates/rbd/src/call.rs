//! Calls of class `rbd`.

use bytes::Bytes;
use loligo_rados::{Answer, Errno, IoCtx, ReadOp, WriteOp};
use loligo_wire::{Decode, Reader, Writer};

use crate::Error;

const CLASS: &str = "rbd";

/// An input.
pub(crate) fn input(fill: impl FnOnce(&mut Writer)) -> Bytes {
    let mut w = Writer::new();
    fill(&mut w);
    w.into_bytes()
}

/// Calls a method that reads.
pub(crate) async fn ask<T: Decode>(
    io: &IoCtx,
    oid: &str,
    method: &'static str,
    fill: impl FnOnce(&mut Writer),
) -> Result<T, Error> {
    decoded(method, &io.exec(oid, CLASS, method, &input(fill)).await?)
}

/// Calls a method that writes.
pub(crate) async fn tell(
    io: &IoCtx,
    oid: &str,
    method: &str,
    fill: impl FnOnce(&mut Writer),
) -> Result<(), Error> {
    Ok(io.exec_write(oid, CLASS, method, &input(fill)).await?)
}

/// A call as a part of a request that reads.
pub(crate) fn asking(op: ReadOp, method: &str, fill: impl FnOnce(&mut Writer)) -> ReadOp {
    op.exec(CLASS, method, &input(fill))
}

/// A call as a part of a request that writes.
pub(crate) fn telling(op: WriteOp, method: &str, fill: impl FnOnce(&mut Writer)) -> WriteOp {
    op.exec(CLASS, method, &input(fill))
}

/// Reads an output.
pub(crate) fn decoded<T: Decode>(what: &'static str, out: &[u8]) -> Result<T, Error> {
    Reader::new(out).get().map_err(|source| Error::Decode { what, source })
}

/// The next answer of a request.
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
