//! A socket and the handshake on it.

use std::io;

use bytes::Bytes;
use loligo_msgr_proto::{Established, Event, Handshake};

use crate::Error;
use crate::socket::Socket;

pub(crate) struct Dialog {
    stream: Socket,
    pub(crate) handshake: Handshake,
}

impl Dialog {
    pub(crate) fn new(stream: Socket, handshake: Handshake) -> Self {
        Self { stream, handshake }
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
            let bytes: Bytes = bytes;
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
