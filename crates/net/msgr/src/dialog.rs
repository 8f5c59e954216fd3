//! A socket and the handshake on it.

use std::io;

use bytes::{Bytes, BytesMut};
use loligo_msgr_proto::{Established, Event, Handshake, ProtoError, v1};

use crate::Error;
use crate::socket::Socket;

pub(crate) struct Dialog {
    stream: Socket,
    pub(crate) handshake: Talk,
}

/// A handshake of either version. Both have the same order of calls.
pub(crate) enum Talk {
    V2(Handshake),
    V1(v1::Handshake),
}

impl From<Handshake> for Talk {
    fn from(handshake: Handshake) -> Self {
        Self::V2(handshake)
    }
}

impl From<v1::Handshake> for Talk {
    fn from(handshake: v1::Handshake) -> Self {
        Self::V1(handshake)
    }
}

impl Dialog {
    pub(crate) fn new(stream: Socket, handshake: impl Into<Talk>) -> Self {
        Self { stream, handshake: handshake.into() }
    }

    /// Transmits pending bytes and reads until the handshake yields an event. The caller issues the
    /// commands that the event calls for before the next call.
    pub(crate) async fn next(&mut self) -> Result<Event, Error> {
        loop {
            self.transmit().await?;
            if let Some(event) = self.handshake.poll_event() {
                return Ok(event);
            }
            if self.stream.read_buf(self.handshake.spare()).await? == 0 {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
            if let Err(e) = self.handshake.receive() {
                // Transmit what the handshake may have for the peer, such as the reason.
                let _ = self.transmit().await;
                return Err(e.into());
            }
        }
    }

    /// Writes the handshake's pending bytes.
    pub(crate) async fn transmit(&mut self) -> io::Result<()> {
        while let Some(bytes) = self.handshake.poll_transmit() {
            self.stream.write_all(&bytes).await?;
        }
        Ok(())
    }

    /// Returns the socket and the established session. Call only after [`Event::Established`].
    pub(crate) fn finish(self) -> (Socket, Established) {
        let established = self.handshake.into_established();
        (self.stream, established.expect("called after Event::Established"))
    }
}

impl Talk {
    pub(crate) fn spare(&mut self) -> &mut BytesMut {
        match self {
            Self::V2(handshake) => handshake.spare(),
            Self::V1(handshake) => handshake.spare(),
        }
    }

    pub(crate) fn receive(&mut self) -> Result<(), ProtoError> {
        match self {
            Self::V2(handshake) => handshake.receive(),
            Self::V1(handshake) => handshake.receive(),
        }
    }

    pub(crate) fn poll_transmit(&mut self) -> Option<Bytes> {
        match self {
            Self::V2(handshake) => handshake.poll_transmit(),
            Self::V1(handshake) => handshake.poll_transmit(),
        }
    }

    pub(crate) fn poll_event(&mut self) -> Option<Event> {
        match self {
            Self::V2(handshake) => handshake.poll_event(),
            Self::V1(handshake) => handshake.poll_event(),
        }
    }

    fn into_established(self) -> Option<Established> {
        match self {
            Self::V2(handshake) => handshake.into_established().ok(),
            Self::V1(handshake) => handshake.into_established().ok(),
        }
    }

    /// Refuses because this side is connecting to the peer, and that connection wins.
    pub(crate) fn wait(&mut self) -> Result<(), ProtoError> {
        match self {
            Self::V2(handshake) => handshake.wait(),
            Self::V1(handshake) => handshake.wait(),
        }
    }

    /// Refuses because a newer socket of the session is known.
    pub(crate) fn retry(&mut self, connect_seq: u64) -> Result<(), ProtoError> {
        match self {
            Self::V2(handshake) => handshake.retry(connect_seq),
            Self::V1(handshake) => handshake.retry(connect_seq),
        }
    }

    /// Refuses because a newer connection of the peer is known.
    pub(crate) fn retry_global(&mut self, global_seq: u64) -> Result<(), ProtoError> {
        match self {
            Self::V2(handshake) => handshake.retry_global(global_seq),
            Self::V1(handshake) => handshake.retry_global(global_seq),
        }
    }

    /// Refuses because the session is unknown. Version 1 knows full resets alone.
    pub(crate) fn reset(&mut self, full: bool) -> Result<(), ProtoError> {
        match self {
            Self::V2(handshake) => handshake.reset(full),
            Self::V1(handshake) => handshake.reset(),
        }
    }

    /// Refuses because the peer lacks features.
    pub(crate) fn missing_features(&mut self, features: u64) -> Result<(), ProtoError> {
        match self {
            Self::V2(handshake) => handshake.missing_features(features),
            Self::V1(handshake) => handshake.missing_features(features),
        }
    }
}
