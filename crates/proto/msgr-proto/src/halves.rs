//! The two halves of an open connection, of either version.

use bytes::BytesMut;
use loligo_wire::UTime;
use loligo_wire::message::Msg;

use crate::{Frame, OutBuf, ProtoError, frame, v1};

/// The sending half of a connection: makes frames.
///
/// It does not number messages: the sender sets `seq` and `ack_seq` when a message leaves its queue. The
/// bytes that it appends to an [`OutBuf`] must reach the socket in the order in which they were made,
/// completely, and without any other bytes in between.
#[derive(Debug)]
pub struct Sealer(SealerOf);

#[derive(Debug)]
enum SealerOf {
    V2(frame::Sealer),
    V1(Box<v1::Sealer>),
}

impl From<frame::Sealer> for Sealer {
    fn from(sealer: frame::Sealer) -> Self {
        Self(SealerOf::V2(sealer))
    }
}

impl From<v1::Sealer> for Sealer {
    fn from(sealer: v1::Sealer) -> Self {
        Self(SealerOf::V1(Box::new(sealer)))
    }
}

impl Sealer {
    /// Appends a message. Its header is sent unchanged, `seq` and `ack_seq` included; version 1 has no place
    /// for `ack_seq` ([`acks_apart`](Self::acks_apart)).
    ///
    /// Without encryption a long `front`, `middle` or buffer of `data` is not copied; it is kept until it is
    /// written. In secure mode each byte is copied once and encrypted in the copy; if `data` is one long
    /// buffer, it is encrypted directly from there.
    ///
    /// # Errors
    /// [`Misuse::TooLong`](crate::Misuse::TooLong) if a part does not fit the format's 32-bit length,
    /// [`CryptoError::NoncesExhausted`](crate::CryptoError::NoncesExhausted). Nothing has been appended
    /// then.
    pub fn message(&mut self, msg: &Msg, out: &mut OutBuf) -> Result<(), ProtoError> {
        match &mut self.0 {
            SealerOf::V2(sealer) => sealer.message(msg, out),
            SealerOf::V1(sealer) => sealer.message(msg, out),
        }
    }

    /// Whether a message cannot acknowledge others, so that [`ack`](Self::ack) is needed besides.
    pub fn acks_apart(&self) -> bool {
        matches!(self.0, SealerOf::V1(_))
    }

    /// Appends an acknowledgement of all messages up to `seq`.
    ///
    /// # Errors
    /// [`CryptoError::NoncesExhausted`](crate::CryptoError::NoncesExhausted).
    pub fn ack(&mut self, seq: u64, out: &mut OutBuf) -> Result<(), ProtoError> {
        match &mut self.0 {
            SealerOf::V2(sealer) => sealer.ack(seq, out),
            SealerOf::V1(sealer) => {
                sealer.ack(seq, out);
                Ok(())
            }
        }
    }

    /// Appends a keepalive. `now` is the sender's clock; the peer returns it in its answer.
    ///
    /// # Errors
    /// [`CryptoError::NoncesExhausted`](crate::CryptoError::NoncesExhausted).
    pub fn keepalive2(&mut self, now: UTime, out: &mut OutBuf) -> Result<(), ProtoError> {
        match &mut self.0 {
            SealerOf::V2(sealer) => sealer.keepalive2(now, out),
            SealerOf::V1(sealer) => {
                sealer.keepalive2(now, out);
                Ok(())
            }
        }
    }

    /// Appends the answer to a [`Frame::Keepalive2`], with its time `theirs`.
    ///
    /// # Errors
    /// [`CryptoError::NoncesExhausted`](crate::CryptoError::NoncesExhausted).
    pub fn keepalive2_ack(&mut self, theirs: UTime, out: &mut OutBuf) -> Result<(), ProtoError> {
        match &mut self.0 {
            SealerOf::V2(sealer) => sealer.keepalive2_ack(theirs, out),
            SealerOf::V1(sealer) => {
                sealer.keepalive2_ack(theirs, out);
                Ok(())
            }
        }
    }
}

/// The receiving half of a connection: opens frames.
///
/// Call order: read the socket into [`Opener::spare`], call [`Opener::next`] until it returns `None`,
/// then read again.
///
/// ```text
/// buffer:  │ whole frame │ whole frame │ begun frame … │ spare …… │
///            next()        next()        next(): None    spare()
/// ```
///
/// The parts of a message are slices of the receive buffer. A part that is kept for long keeps up to 256
/// KiB allocated: copy it instead.
#[derive(Debug)]
pub struct Opener(OpenerOf);

#[derive(Debug)]
enum OpenerOf {
    V2(frame::Opener),
    V1(Box<v1::Opener>),
}

impl From<frame::Opener> for Opener {
    fn from(opener: frame::Opener) -> Self {
        Self(OpenerOf::V2(opener))
    }
}

impl From<v1::Opener> for Opener {
    fn from(opener: v1::Opener) -> Self {
        Self(OpenerOf::V1(Box::new(opener)))
    }
}

impl Opener {
    /// Returns the buffer to append received bytes to, with room for a read of reasonable size: the rest
    /// of the incomplete frame, but at most as much as has arrived of it or 8 MiB, whichever is more.
    pub fn spare(&mut self) -> &mut BytesMut {
        match &mut self.0 {
            OpenerOf::V2(opener) => opener.spare(),
            OpenerOf::V1(opener) => opener.spare(),
        }
    }

    /// Bytes received and not yet consumed.
    pub fn buffered(&self) -> usize {
        match &self.0 {
            OpenerOf::V2(opener) => opener.buffered(),
            OpenerOf::V1(opener) => opener.buffered(),
        }
    }

    /// Bytes of memory that the incomplete frame uses after the next call of [`Opener::spare`] (what has
    /// arrived and as much again, or 8 MiB, but not more than the frame's length), and the frame's length.
    /// `None` if no frame is incomplete.
    pub fn begun_len(&self) -> Option<(usize, usize)> {
        match &self.0 {
            OpenerOf::V2(opener) => opener.begun_len(),
            OpenerOf::V1(opener) => opener.begun_len(),
        }
    }

    /// Allows `bytes` bytes of memory for the next compressed messages, for the compressed and the
    /// decompressed form together. When they are used up [`Opener::next`] returns `None`, and
    /// [`Opener::packed_len`] returns the memory needed. Without a call there is no bound. Version 1 has no
    /// compression.
    pub fn allow(&mut self, bytes: usize) {
        match &mut self.0 {
            OpenerOf::V2(opener) => opener.allow(bytes),
            OpenerOf::V1(_) => {}
        }
    }

    /// Bytes of memory needed by a received compressed message that waits for an allowance: for its next
    /// step, and an upper bound for all of it. `None` if no message waits: then read on.
    pub fn packed_len(&self) -> Option<(usize, usize)> {
        match &self.0 {
            OpenerOf::V2(opener) => opener.packed_len(),
            OpenerOf::V1(_) => None,
        }
    }

    /// The length of the incomplete message's parts, once its beginning has been received, so that a
    /// throttle can wait before the rest is read.
    pub fn begun_message_len(&self) -> Option<usize> {
        match &self.0 {
            OpenerOf::V2(opener) => opener.begun_message_len(),
            OpenerOf::V1(opener) => opener.begun_message_len(),
        }
    }

    /// Returns the next frame; `None` if no complete frame has been received, or if it is compressed and
    /// needs more memory than [allowed](Opener::allow).
    ///
    /// # Errors
    /// [`Misbehaving`](ProtoError::Misbehaving) and [`Crypto`](ProtoError::Crypto). The connection
    /// cannot be used any more then.
    #[expect(clippy::should_implement_trait, reason = "a stream of frames ends with an error, not with None")]
    pub fn next(&mut self) -> Result<Option<Frame>, ProtoError> {
        match &mut self.0 {
            OpenerOf::V2(opener) => opener.next(),
            OpenerOf::V1(opener) => opener.next(),
        }
    }
}
