//! The netlink socket to the kernel's client.

use std::io;
use std::num::NonZeroI32;
use std::os::fd::OwnedFd;

use netlink_packet_core::{NetlinkBuffer, NetlinkMessage, NetlinkPayload};
use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

use super::KernelError;
use super::messages::{Connect, Generic};

/// Buffer for one answer: the controller's description of a family takes some hundred bytes, and the
/// kernel fills at most a page.
const ANSWER_BYTES: usize = 32 << 10;

/// A socket, with the NBD family's number.
pub(super) struct Netlink {
    socket: OwnedFd,
    family: u16,
    sequence: u32,
}

impl Netlink {
    /// Opens the socket and looks up the NBD family.
    pub(super) fn open() -> Result<Self, KernelError> {
        let kind = (AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC);
        let socket = rustix::net::socket_with(kind.0, kind.1, kind.2, Some(netlink::GENERIC));
        let socket = socket.map_err(|e| KernelError::Refused(e.into()))?;
        let mut netlink = Self { socket, family: 0, sequence: 0 };
        let found = netlink.ask(Generic::find()).map_err(|e| match e {
            KernelError::Refused(e) if e.kind() == io::ErrorKind::NotFound => KernelError::NoClient,
            e => e,
        })?;
        netlink.family = found.and_then(|answer| answer.family_id()).ok_or(KernelError::Answer)?;
        Ok(netlink)
    }

    /// Hands sockets to the kernel; returns the device's number.
    pub(super) fn connect(&mut self, connect: &Connect) -> Result<u32, KernelError> {
        let answer = self.ask(Generic::connect(self.family, connect))?;
        answer.and_then(|answer| answer.index()).ok_or(KernelError::Answer)
    }

    pub(super) fn disconnect(&mut self, device: u32) -> Result<(), KernelError> {
        self.ask(Generic::disconnect(self.family, device)).map(drop)
    }

    /// Sends a request and returns the answer that precedes its acknowledgement. The kernel has carried
    /// the request out when the send returns, so that the answers are already there.
    fn ask(&mut self, request: Generic) -> Result<Option<Generic>, KernelError> {
        let refused = |e: rustix::io::Errno| KernelError::Refused(e.into());
        self.sequence += 1;
        let bytes = request.request(self.sequence);
        let kernel = SocketAddrNetlink::new(0, 0);
        rustix::net::sendto(&self.socket, &bytes, SendFlags::empty(), &kernel).map_err(refused)?;
        let mut answer = None;
        loop {
            let mut bytes = vec![0; ANSWER_BYTES];
            let (_, n) = rustix::net::recv(&self.socket, &mut *bytes, RecvFlags::TRUNC).map_err(refused)?;
            let mut rest = bytes.get(..n).ok_or(KernelError::Answer)?;
            while !rest.is_empty() {
                let (message, behind) = next_message(rest)?;
                rest = behind;
                if message.header.sequence_number != self.sequence {
                    continue;
                }
                match message.payload {
                    NetlinkPayload::Error(e) => return outcome(e.code).map(|()| answer),
                    NetlinkPayload::InnerMessage(message) => answer = Some(message),
                    _ => return Err(KernelError::Answer),
                }
            }
        }
    }
}

/// Splits off the first of the messages in a datagram.
fn next_message(bytes: &[u8]) -> Result<(NetlinkMessage<Generic>, &[u8]), KernelError> {
    let whole = NetlinkBuffer::new_checked(bytes).map_err(|_| KernelError::Answer)?;
    // Each message begins at a multiple of four.
    let len = (whole.length() as usize).next_multiple_of(4).min(bytes.len());
    let message = NetlinkMessage::deserialize(bytes).map_err(|_| KernelError::Answer)?;
    Ok((message, &bytes[len..]))
}

fn outcome(code: Option<NonZeroI32>) -> Result<(), KernelError> {
    let Some(code) = code else { return Ok(()) };
    let e = io::Error::from_raw_os_error(code.get().saturating_abs());
    Err(if e.kind() == io::ErrorKind::PermissionDenied {
        KernelError::NotRoot
    } else {
        KernelError::Refused(e)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Asks the kernel that the test runs on; the controller always exists.
    #[test]
    fn the_kernel_has_the_client_or_not() {
        match Netlink::open() {
            Ok(netlink) => assert!(netlink.family > 0x10),
            Err(KernelError::NoClient) => {}
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn messages_that_came_together_are_taken_apart() {
        let one = Generic::find().request(1);
        let two = [one.clone(), Generic::disconnect(0x20, 1).request(2)].concat();
        let (first, rest) = next_message(&two).expect("it is one");
        assert_eq!(first.header.sequence_number, 1);
        let (second, rest) = next_message(rest).expect("it is one");
        assert_eq!((second.header.sequence_number, rest), (2, &[][..]));
        for cut in 0..one.len() {
            assert!(matches!(next_message(&one[..cut]), Err(KernelError::Answer)), "{cut}");
        }
    }

    #[test]
    fn refusals_say_what_is_missing() {
        let said = |errno: i32| outcome(NonZeroI32::new(-errno)).map_err(|e| e.to_string());
        assert_eq!(said(0), Ok(()));
        assert!(said(1).is_err_and(|e| e.contains("root alone")));
        assert!(said(16).is_err_and(|e| e.contains("busy")));
    }
}
