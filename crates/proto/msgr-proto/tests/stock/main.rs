//! Tests against stock Ceph over TCP, as a client and as a server.

mod as_client;
mod as_server;

use std::io::{Read, Write};
use std::net::TcpStream;

use bytes::{BufMut, BytesMut};
use loligo_msgr_proto::{Event, Frame, Handshake, Opener, ProtoError};

/// Runs a handshake until the session is open, or an error occurs. `on_event` returns whether it issued
/// a command.
fn drive(
    hs: &mut Handshake,
    socket: &mut TcpStream,
    on_event: &mut dyn FnMut(&mut Handshake, Event) -> Result<bool, ProtoError>,
) -> Result<(), ProtoError> {
    loop {
        while let Some(bytes) = hs.poll_transmit() {
            socket.write_all(&bytes).expect("the peer takes what we write");
        }
        let mut commanded = false;
        while let Some(event) = hs.poll_event() {
            if matches!(event, Event::Established) {
                return Ok(());
            }
            commanded |= on_event(hs, event)?;
        }
        if !commanded {
            read_some(socket, hs.spare());
            hs.receive()?;
        }
    }
}

/// Reads until a complete frame has been received.
fn next_frame(opener: &mut Opener, socket: &mut TcpStream) -> Frame {
    loop {
        match opener.next().expect("the peer's frames can be read") {
            Some(frame) => return frame,
            None => read_some(socket, opener.spare()),
        }
    }
}

fn read_some(socket: &mut TcpStream, to: &mut BytesMut) {
    let mut chunk = [0; 1000];
    let n = socket.read(&mut chunk).expect("the peer says something");
    assert!(n > 0, "the peer closed the connection");
    to.put_slice(&chunk[..n]);
}
