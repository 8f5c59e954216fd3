//! Entry points for fuzzing.

use az::SaturatingAs as _;
use bytes::{Buf as _, Bytes, BytesMut};

use crate::{
    Asked, Can, Decoder, Encoder, Export, Extent, Handshake, Io, Order, PAYLOAD_MAX, Piece, Refused, Sink,
    Style, To,
};

/// Size of the export in bytes.
const SIZE: u64 = 1 << 20;
const CAN: Can = Can { write: true, trim: true, fast_zero: true, multi_conn: true };

/// Plays a client that sends arbitrary bytes: a handshake and the requests behind it, in pieces. Checks
/// that every request is answered and that no answer exceeds the allowed length.
pub fn connection(data: &[u8]) {
    let Some((&first, data)) = data.split_first() else { return };
    let mut client = Client { data, inbound: BytesMut::new(), piece: usize::from(first >> 2) + 1 };
    let mut handshake = Handshake::new(first & 1 != 0);
    let mut out = BytesMut::new();
    handshake.greet(&mut out);
    loop {
        let asked = match handshake.next(&mut client.inbound, &mut out) {
            Err(_) => return,
            Ok(None) if client.send() => continue,
            Ok(None) => return,
            Ok(Some(asked)) => asked,
        };
        match asked {
            Asked::End => return,
            Asked::Tls => handshake.secured(),
            Asked::List => handshake.list([("a", "b"), ("", "")].into_iter(), &mut out),
            Asked::Exists { name } => {
                handshake.contexts(if name == "x" { Err(Refused::Unknown) } else { Ok(()) }, &mut out);
            }
            Asked::Export { name, .. } => {
                let export = Export { name: name.clone(), description: "d".to_owned(), size: SIZE, can: CAN };
                let export = if name == "x" { Err(Refused::Shutdown) } else { Ok(&export) };
                match handshake.export(export, &mut out) {
                    Err(_) => return,
                    Ok(None) => {}
                    Ok(Some(chosen)) => return requests(&mut client, chosen.style, chosen.status),
                }
            }
        }
    }
}

/// The client's bytes.
struct Client<'a> {
    data: &'a [u8],
    inbound: BytesMut,
    piece: usize,
}

impl Client<'_> {
    /// Sends one more piece; returns `false` if none is left.
    fn send(&mut self) -> bool {
        let these = self.piece.min(self.data.len());
        self.inbound.extend_from_slice(&self.data[..these]);
        self.data.advance(these);
        these > 0
    }
}

fn requests(client: &mut Client<'_>, style: Style, status: bool) {
    let (decoder, encoder) = (Decoder::new(style), Encoder::new(style));
    loop {
        let before = client.inbound.len();
        let request = match decoder.next(&mut client.inbound) {
            Err(_) => return,
            Ok(None) => {
                assert!(decoder.lacks(&client.inbound) > 0);
                if client.send() {
                    continue;
                }
                return;
            }
            Ok(Some(request)) => request,
        };
        assert!(client.inbound.len() < before, "a request has bytes");
        let to = To { cookie: request.cookie, offset: request.offset };
        let mut out = Counting::default();
        match request.check(SIZE, CAN, style, status) {
            Err(fault) => encoder.fault(to, fault, &mut out),
            Ok(Order::Disconnect) => return,
            Ok(Order::Io(io)) => {
                assert!(io.end() <= SIZE, "{io:?}");
                match io {
                    Io::Read { len, whole, .. } => {
                        assert!(len <= PAYLOAD_MAX);
                        let half = u64::from(len / 2);
                        let pieces = vec![
                            Piece::Data(Bytes::from(vec![0; half.saturating_as::<usize>()])),
                            Piece::Hole(u64::from(len) - half),
                        ];
                        encoder.data(to, pieces, whole, &mut out);
                    }
                    Io::Status { len, .. } => {
                        encoder.extents(to, &[Extent { len, hole: true }], &mut out);
                    }
                    _ => encoder.done(to, &mut out),
                }
            }
        }
        assert!(out.len() >= 16, "every request but one is answered");
    }
}

/// Counts the bytes that would be sent.
#[derive(Default)]
struct Counting {
    tail: BytesMut,
    more: u64,
}

impl Counting {
    fn len(&self) -> u64 {
        self.tail.len() as u64 + self.more
    }
}

impl Sink for Counting {
    fn tail(&mut self) -> &mut BytesMut {
        &mut self.tail
    }

    fn put(&mut self, data: Bytes) {
        self.more += data.len() as u64;
    }

    fn put_zeros(&mut self, len: u64) {
        self.more += len;
    }
}
