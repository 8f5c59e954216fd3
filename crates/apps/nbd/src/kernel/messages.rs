//! The generic netlink messages of the kernel's client (`linux/netlink.h`, `linux/genetlink.h`,
//! `linux/nbd-netlink.h`).
//!
//! ```text
//! header (16): length, kind = the family's number, flags, sequence, port │ command (1), version (1), 0 (2) │ attributes
//! attribute:   length (2), kind (2), value, up to the next multiple of 4
//!
//! CONNECT      INDEX u32 │ SIZE_BYTES u64 │ BLOCK_SIZE_BYTES u64 │ SERVER_FLAGS u64 │ SOCKETS { SOCK_ITEM { SOCK_FD u32 } … }
//! DISCONNECT   INDEX u32
//! ```
//!
//! Numbers are in native byte order. The answer to CONNECT names the device in INDEX.

use std::convert::Infallible;

use netlink_packet_core::{
    DefaultNla, Emitable as _, NLA_F_NESTED, NLA_HEADER_SIZE, NLM_F_ACK, NLM_F_REQUEST,
    NetlinkDeserializable, NetlinkHeader, NetlinkMessage, NetlinkPayload, NetlinkSerializable, NlasIterator,
    emit_u32, emit_u64, parse_u16, parse_u32,
};

/// The controller family, which resolves names of other families to numbers.
pub(super) const CONTROLLER: u16 = 0x10;
const GETFAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;

/// The NBD family's name and its commands.
const NBD: &[u8] = b"nbd\0";
const CONNECT: u8 = 1;
const DISCONNECT: u8 = 2;
const VERSION: u8 = 1;

/// Attributes.
const INDEX: u16 = 1;
const SIZE_BYTES: u16 = 2;
const BLOCK_SIZE_BYTES: u16 = 3;
const SERVER_FLAGS: u16 = 5;
const SOCKETS: u16 = 7;
const SOCK_ITEM: u16 = 1;
const SOCK_FD: u16 = 1;

/// Bytes before the attributes: command, version, reserved.
const HEAD: usize = 4;

/// A message of any generic family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Generic {
    family: u16,
    command: u8,
    attributes: Vec<u8>,
}

/// A CONNECT request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Connect {
    /// The device's number; `None`: the kernel selects a free one.
    pub(super) device: Option<u32>,
    /// Size in bytes.
    pub(super) size: u64,
    /// Sector size in bytes.
    pub(super) block_size: u32,
    /// The transmission flags.
    pub(super) flags: u16,
    /// File descriptors of connections whose handshake has chosen the export.
    pub(super) sockets: Vec<u32>,
}

impl Generic {
    /// A request to the controller for the NBD family's number.
    pub(super) fn find() -> Self {
        let attributes = emitted(&[DefaultNla::new(FAMILY_NAME, NBD.to_vec())]);
        Self { family: CONTROLLER, command: GETFAMILY, attributes }
    }

    pub(super) fn connect(family: u16, connect: &Connect) -> Self {
        let sockets: Vec<DefaultNla> = connect
            .sockets
            .iter()
            .map(|fd| DefaultNla::new(SOCK_ITEM | NLA_F_NESTED, emitted(&[number(SOCK_FD, *fd)])))
            .collect();
        let mut attributes: Vec<DefaultNla> = connect.device.map(|n| number(INDEX, n)).into_iter().collect();
        attributes.extend([
            long_number(SIZE_BYTES, connect.size),
            long_number(BLOCK_SIZE_BYTES, connect.block_size.into()),
            long_number(SERVER_FLAGS, connect.flags.into()),
            DefaultNla::new(SOCKETS | NLA_F_NESTED, emitted(&sockets)),
        ]);
        Self { family, command: CONNECT, attributes: emitted(&attributes) }
    }

    pub(super) fn disconnect(family: u16, device: u32) -> Self {
        Self { family, command: DISCONNECT, attributes: emitted(&[number(INDEX, device)]) }
    }

    /// The number of the requested family.
    pub(super) fn family_id(&self) -> Option<u16> {
        parse_u16(self.attribute(FAMILY_ID)?).ok()
    }

    /// The device that an answer is about.
    pub(super) fn index(&self) -> Option<u32> {
        parse_u32(self.attribute(INDEX)?).ok()
    }

    fn attribute(&self, kind: u16) -> Option<&[u8]> {
        let mut all = NlasIterator::new(&*self.attributes).map_while(Result::ok);
        let found = all.find(|attribute| attribute.kind() == kind)?;
        let len = usize::from(found.length());
        found.into_inner().get(NLA_HEADER_SIZE..len)
    }

    /// Serializes it as a request whose outcome the kernel must acknowledge.
    pub(super) fn request(self, sequence: u32) -> Vec<u8> {
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | NLM_F_ACK;
        header.sequence_number = sequence;
        let mut message = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(self));
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        bytes
    }
}

impl NetlinkSerializable for Generic {
    fn message_type(&self) -> u16 {
        self.family
    }

    fn buffer_len(&self) -> usize {
        HEAD + self.attributes.len()
    }

    fn serialize(&self, buffer: &mut [u8]) {
        let (head, rest) = buffer.split_at_mut(HEAD);
        head.copy_from_slice(&[self.command, VERSION, 0, 0]);
        rest.copy_from_slice(&self.attributes);
    }
}

impl NetlinkDeserializable for Generic {
    type Error = Infallible;

    fn deserialize(header: &NetlinkHeader, payload: &[u8]) -> Result<Self, Infallible> {
        let command = payload.first().copied().unwrap_or_default();
        let attributes = payload.get(HEAD..).unwrap_or_default().to_vec();
        Ok(Self { family: header.message_type, command, attributes })
    }
}

fn emitted(attributes: &[DefaultNla]) -> Vec<u8> {
    let mut bytes = vec![0; attributes.buffer_len()];
    attributes.emit(&mut bytes);
    bytes
}

fn number(kind: u16, number: u32) -> DefaultNla {
    let mut value = vec![0; 4];
    emit_u32(&mut value, number).expect("there are four bytes");
    DefaultNla::new(kind, value)
}

fn long_number(kind: u16, number: u64) -> DefaultNla {
    let mut value = vec![0; 8];
    emit_u64(&mut value, number).expect("there are eight bytes");
    DefaultNla::new(kind, value)
}

#[cfg(test)]
#[cfg(target_endian = "little")]
mod tests {
    use super::*;

    #[test]
    fn the_controller_is_asked_by_name() {
        let expected = [
            28, 0, 0, 0, 0x10, 0, 5, 0, 7, 0, 0, 0, 0, 0, 0,
            0, // header: request, acknowledged; sequence 7
            3, 1, 0, 0, // GETFAMILY
            8, 0, 2, 0, b'n', b'b', b'd', 0,
        ];
        assert_eq!(Generic::find().request(7), expected);
    }

    #[test]
    fn a_device_is_connected_and_disconnected() {
        let connect =
            Connect { device: Some(3), size: 1 << 32, block_size: 4096, flags: 0x10d, sockets: vec![5, 6] };
        let attributes = [
            &[8, 0, 1, 0, 3, 0, 0, 0][..],
            &[12, 0, 2, 0, 0, 0, 0, 0, 1, 0, 0, 0],
            &[12, 0, 3, 0, 0, 0x10, 0, 0, 0, 0, 0, 0],
            &[12, 0, 5, 0, 0x0d, 1, 0, 0, 0, 0, 0, 0],
            &[28, 0, 7, 0x80],
            &[12, 0, 1, 0x80, 8, 0, 1, 0, 5, 0, 0, 0],
            &[12, 0, 1, 0x80, 8, 0, 1, 0, 6, 0, 0, 0],
        ];
        let head = [92, 0, 0, 0, 0x1f, 0, 5, 0, 9, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0];
        assert_eq!(Generic::connect(0x1f, &connect).request(9), [&head[..], &attributes.concat()].concat());
        // Without a number the attribute is omitted, and the kernel selects a device.
        let any = Generic::connect(0x1f, &Connect { device: None, ..connect }).request(9);
        assert_eq!(any[20..], attributes[1..].concat());
        let expected =
            [28, 0, 0, 0, 0x1f, 0, 5, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 1, 0, 0, 8, 0, 1, 0, 3, 0, 0, 0];
        assert_eq!(Generic::disconnect(0x1f, 3).request(1), expected);
    }

    #[test]
    fn what_the_kernel_answers_is_read_and_nonsense_is_nothing() {
        let of = |payload: &[u8]| {
            let Ok(message) = Generic::deserialize(&NetlinkHeader::default(), payload);
            (message.family_id(), message.index())
        };
        // A name, then the number. INDEX has the same kind as FAMILY_ID and is two bytes longer.
        assert_eq!(
            of(&[1, 2, 0, 0, 8, 0, 2, 0, b'n', b'b', b'd', 0, 6, 0, 1, 0, 0x1f, 0, 0, 0]).0,
            Some(0x1f)
        );
        assert_eq!(of(&[1, 0, 0, 0, 8, 0, 1, 0, 4, 0, 0, 0]).1, Some(4));
        for nonsense in
            [&[][..], &[1], &[1, 2, 0, 0], &[1, 2, 0, 0, 9, 0, 1, 0, 4, 0, 0, 0], &[1, 2, 0, 0, 2, 0, 1, 0]]
        {
            assert_eq!(of(nonsense), (None, None), "{nonsense:?}");
        }
    }
}
