//! Makes messages and control bytes of version 1.

use bytes::Bytes;
use loligo_cephx::signature::{MessageSigner, Signed};
use loligo_wire::crc::crc32c;
use loligo_wire::message::Msg;
use loligo_wire::{Encode as _, UTime, Writer};

use super::Agreed;
use super::wire::{Footer, HEADER_LEN, HeaderMsg, Source, tag};
use crate::frame::append;
use crate::{Misuse, OutBuf, ProtoError};

/// The sending half of a connection.
#[derive(Debug)]
pub(crate) struct Sealer {
    source: Source,
    /// Footers have a place for a signature.
    with_signature: bool,
    signer: Option<MessageSigner>,
}

impl Sealer {
    pub(super) fn new(source: Source, agreed: &Agreed) -> Self {
        Self { source, with_signature: agreed.has_signatures(), signer: agreed.signer() }
    }

    /// Names this side's number in the headers of later messages.
    pub(super) fn set_num(&mut self, num: i64) {
        self.source.num = num;
    }

    pub(crate) fn message(&mut self, msg: &Msg, out: &mut OutBuf) -> Result<(), ProtoError> {
        // A checksum that the message has is of no use here: it has another seed.
        let Msg { header, front, middle, data, data_crc: _ } = msg;
        let data_len = data.iter().map(Bytes::len).sum();
        let lens = [len_u32(front.len())?, len_u32(middle.len())?, len_u32(data_len)?];
        let (header_bytes, header_crc) = HeaderMsg::encode(header, lens, self.source);
        let crcs = [crc32c(0, front), crc32c(0, middle), data.iter().fold(0, |crc, buf| crc32c(crc, buf))];
        let signed = Signed {
            header_crc,
            front: (crcs[0], lens[0]),
            middle: (crcs[1], lens[1]),
            data: (crcs[2], lens[2]),
            seq: header.seq,
        };
        let signature = self.signer.as_ref().map(|signer| signer.sign(&signed));
        let footer = Footer { crcs, signature, no_data_crc: false, complete: true };
        let mut start = [tag::MSG; 1 + HEADER_LEN];
        start[1..].copy_from_slice(&header_bytes);
        out.copy(&start);
        [front, middle].into_iter().chain(data).for_each(|buf| append(buf, out));
        let mut w = Writer::with_capacity(Footer::len(self.with_signature));
        footer.encode(self.with_signature, &mut w);
        out.copy(w.as_slice());
        Ok(())
    }

    pub(crate) fn ack(&mut self, seq: u64, out: &mut OutBuf) {
        out.copy(&[tag::ACK]);
        out.copy(&seq.to_le_bytes());
    }

    pub(crate) fn keepalive2(&mut self, now: UTime, out: &mut OutBuf) {
        out.copy(&[tag::KEEPALIVE2]);
        out.copy(&now.to_bytes());
    }

    pub(crate) fn keepalive2_ack(&mut self, theirs: UTime, out: &mut OutBuf) {
        out.copy(&[tag::KEEPALIVE2_ACK]);
        out.copy(&theirs.to_bytes());
    }
}

fn len_u32(len: usize) -> Result<u32, Misuse> {
    u32::try_from(len).map_err(|_| Misuse::TooLong { len: len as u64, max: u32::MAX.into() })
}
