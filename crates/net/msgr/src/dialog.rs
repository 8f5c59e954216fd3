//! A socket and the handshake that takes place on it.

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

    /// Writes what is to be written and reads until something has happened. Commands that the event wants are
    /// to be given before the next call.
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
                // The peer should learn why, if there is something to tell it.
                let _ = self.transmit().await;
                return Err(e.into());
            }
        }
    }

    /// Writes what is to be written.
    pub(crate) async fn transmit(&mut self) -> io::Result<()> {
        while let Some(bytes) = self.handshake.poll_transmit() {
            let bytes: Bytes = bytes;
            self.stream.write_all(&bytes).await?;
        }
        Ok(())
    }

    /// The open session: after [`Event::Established`].
    pub(crate) fn finish(self) -> (Socket, Established) {
        let established = self.handshake.into_established();
        (self.stream, established.expect("called after Event::Established"))
    }
}
