//! [`MOSDOpReply`], and [`OsdReply`], the reduced form that a client decodes.

use std::mem;

use az::{SaturatingAs as _, WrappingAs as _};
use bytes::Bytes;
use smallvec::SmallVec;

use super::{MOSDOp, OsdFlags, OsdOp, RequestRedirect};
use crate::message::{Data, Header, Message, Msg, concat, skip_trace, write_no_trace};
use crate::{DecodeError, Epoch, Eversion, PgId, Reader, Writer};

/// One operation's echo, output and result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpResult {
    /// The operation; its data is the output.
    pub op: OsdOp,
    /// 0 or more, or a negative errno.
    pub rval: i32,
}

/// The reply to an [`MOSDOp`] (version 8 of the message).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MOSDOpReply {
    /// The object's name.
    pub oid: Vec<u8>,
    /// The placement group.
    pub pgid: PgId,
    /// The request's flags, with the kinds of reply that the request asked for replaced by the kind that
    /// this is.
    pub flags: OsdFlags,
    /// 0 or more, or the negative errno of the operation that failed.
    pub result: i32,
    /// The version, as clients before cuttlefish read it.
    pub bad_replay_version: Eversion,
    /// The epoch of the OSD's map.
    pub map_epoch: Epoch,
    /// The operations, in the request's order.
    pub ops: SmallVec<[OpResult; 2]>,
    /// The number of the attempt that this replies to. A client ignores a reply to an earlier attempt.
    pub retry_attempt: i32,
    /// The change's position in the placement group's history; zero for a read.
    pub replay_version: Eversion,
    /// The object's version.
    pub user_version: u64,
    /// The location to send the request to instead, if the OSD redirects it.
    pub redirect: Option<Box<RequestRedirect>>,
}

impl MOSDOpReply {
    /// Creates the reply to `request`, and moves its name and operations into the reply. The operations'
    /// inputs are dropped. The kind of reply is "durable", as Ceph replies to reads and writes since
    /// kraken.
    pub fn answer(mut request: MOSDOp, result: i32, map_epoch: Epoch) -> Self {
        Self::take_answer(&mut request, result, map_epoch)
    }

    /// As `answer`, but leaves the request with an empty name and no operations.
    pub fn take_answer(request: &mut MOSDOp, result: i32, map_epoch: Epoch) -> Self {
        const WANTED: OsdFlags = OsdFlags::ACK.union(OsdFlags::ONNVRAM).union(OsdFlags::ONDISK);
        const ANSWER: OsdFlags = OsdFlags::ACK.union(OsdFlags::ONDISK);
        let echo = |op: OsdOp| OpResult { op: op.with_data(Bytes::new()), rval: 0 };
        Self {
            oid: mem::take(&mut request.oid),
            pgid: request.spgid.pgid,
            flags: request.flags.difference(WANTED) | ANSWER,
            result,
            bad_replay_version: Eversion::default(),
            map_epoch,
            ops: mem::take(&mut request.ops).into_iter().map(echo).collect(),
            retry_attempt: request.retry_attempt,
            replay_version: Eversion::default(),
            user_version: 0,
            redirect: None,
        }
    }

    /// Sets all version fields as an OSD does after a change at position `at` that gave the object
    /// version `user_version`.
    pub fn with_versions(mut self, at: Eversion, user_version: u64) -> Self {
        self.replay_version = at;
        self.user_version = user_version;
        let version = if user_version == 0 { at.version } else { user_version };
        self.bad_replay_version = Eversion { version, ..at };
        self
    }

    /// Sets the version fields as an OSD does in a reply to a request that changed nothing: there is no
    /// change to replay.
    pub fn with_read_versions(mut self, at: Eversion, user_version: u64) -> Self {
        self.user_version = user_version;
        self.bad_replay_version = at;
        self
    }

    fn front_len(&self) -> usize {
        const FIXED: usize = 4 + PgId::ENCODED_LEN + 8 + 4 + 12 + 4 + 4 + 4 + 12 + 8 + 1 + 24;
        let redirect = self.redirect.as_ref().map_or(0, |r| r.locator.encoded_len() + r.object.len() + 14);
        FIXED + self.oid.len() + self.ops.len() * (OsdOp::ENCODED_LEN + 4) + redirect
    }
}

impl Message for MOSDOpReply {
    const NAME: &'static str = "osd_op_reply";
    const KIND: u16 = 43;
    const VERSION: u16 = 8;
    const COMPAT: u16 = 2;

    fn encode_front(&self, w: &mut Writer) {
        w.blob(&self.oid);
        w.put(&self.pgid);
        w.i64(i64::from(self.flags.bits()));
        w.i32(self.result);
        w.put(&self.bad_replay_version);
        w.put(&self.map_epoch);
        w.count(self.ops.len());
        self.ops.iter().for_each(|result| result.op.encode_fixed(w));
        w.i32(self.retry_attempt);
        self.ops.iter().for_each(|result| w.i32(result.rval));
        w.put(&self.replay_version);
        w.u64(self.user_version);
        w.bool(self.redirect.is_some());
        if let Some(redirect) = &self.redirect {
            w.put(&**redirect);
        }
        write_no_trace(w);
    }

    fn data(&self) -> Data {
        self.ops.iter().flat_map(|result| result.op.pieces()).cloned().collect()
    }

    fn front_len_hint(&self) -> usize {
        self.front_len()
    }

    fn decode(header: &Header, r: &mut Reader<'_>, data: &Data) -> Result<Self, DecodeError> {
        let fields = Fields::decode(header, r, data, OsdOp::decode_fixed)?;
        let ops = fields.ops.into_iter().map(|(op, rval)| OpResult { op, rval });
        Ok(Self {
            oid: fields.oid.to_vec(),
            pgid: fields.pgid,
            flags: fields.flags,
            result: fields.result,
            bad_replay_version: fields.bad_replay_version,
            map_epoch: fields.map_epoch,
            ops: ops.collect(),
            retry_attempt: fields.retry_attempt,
            replay_version: fields.replay_version,
            user_version: fields.user_version,
            redirect: fields.redirect,
        })
    }
}

/// The part of an [`MOSDOpReply`] that a client needs. The echo of the request is left out, so that no
/// memory is allocated for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OsdReply {
    /// The kind of reply, and the request's flags.
    pub flags: OsdFlags,
    /// 0 or more, or the negative errno of the operation that failed.
    pub result: i32,
    /// The epoch of the OSD's map.
    pub map_epoch: Epoch,
    /// Each operation's output and result.
    pub outs: SmallVec<[OpOutput; 2]>,
    /// The number of the attempt that this replies to; −1 if the OSD does not know it.
    pub retry_attempt: i32,
    /// The change's position in the placement group's history; zero for a read.
    pub replay_version: Eversion,
    /// The object's version.
    pub user_version: u64,
    /// The location to send the request to instead, if the OSD redirects it.
    pub redirect: Option<Box<RequestRedirect>>,
}

/// One operation's output and result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpOutput {
    /// The output: a slice of the message's data.
    pub data: Bytes,
    /// 0 or more, or a negative errno.
    pub rval: i32,
}

impl OsdReply {
    /// Decodes a message of kind [`MOSDOpReply::KIND`].
    pub fn open(msg: &Msg) -> Result<Self, DecodeError> {
        if msg.header.kind != MOSDOpReply::KIND {
            return Err(DecodeError::Invalid { what: "message kind", value: u64::from(msg.header.kind) });
        }
        let output = |r: &mut Reader<'_>, data: &mut Bytes| OsdOp::decode_fixed(r, data).map(|op| op.data);
        let fields = Fields::decode(&msg.header, &mut Reader::new(&msg.front), &msg.data, output)?;
        Ok(Self {
            flags: fields.flags,
            result: fields.result,
            map_epoch: fields.map_epoch,
            outs: fields.ops.into_iter().map(|(data, rval)| OpOutput { data, rval }).collect(),
            retry_attempt: fields.retry_attempt,
            replay_version: fields.replay_version,
            user_version: fields.user_version,
            redirect: fields.redirect,
        })
    }
}

/// The decoded fields of the message, with each operation decoded as an `O`.
struct Fields<'a, O> {
    oid: &'a [u8],
    pgid: PgId,
    flags: OsdFlags,
    result: i32,
    bad_replay_version: Eversion,
    map_epoch: Epoch,
    ops: SmallVec<[(O, i32); 2]>,
    retry_attempt: i32,
    replay_version: Eversion,
    user_version: u64,
    redirect: Option<Box<RequestRedirect>>,
}

impl<'a, O> Fields<'a, O> {
    fn decode(
        header: &Header,
        r: &mut Reader<'a>,
        data: &Data,
        op: impl Fn(&mut Reader<'a>, &mut Bytes) -> Result<O, DecodeError>,
    ) -> Result<Self, DecodeError> {
        let version = header.version;
        if version < 8 {
            return Err(DecodeError::TooOld {
                what: "osd_op_reply",
                version: version.saturating_as::<u8>(),
                oldest: 8,
            });
        }
        let oid = r.blob()?;
        let pgid = r.get()?;
        let flags = OsdFlags::from_bits_retain(r.i64()?.wrapping_as::<u32>());
        let result = r.i32()?;
        let bad_replay_version = r.get()?;
        let map_epoch = r.get()?;
        let num_ops = r.count(OsdOp::ENCODED_LEN)?;
        let mut outputs = concat(data);
        let mut ops: SmallVec<[(O, i32); 2]> =
            (0..num_ops).map(|_| op(r, &mut outputs).map(|op| (op, 0))).collect::<Result<_, _>>()?;
        let retry_attempt = r.i32()?;
        for (_, rval) in &mut ops {
            *rval = r.i32()?;
        }
        let replay_version = r.get()?;
        let user_version = r.u64()?;
        let redirect = if r.bool()? { Some(Box::new(r.get()?)) } else { None };
        skip_trace(r)?;
        Ok(Self {
            oid,
            pgid,
            flags,
            result,
            bad_replay_version,
            map_epoch,
            ops,
            retry_attempt,
            replay_version,
            user_version,
            redirect,
        })
    }
}
