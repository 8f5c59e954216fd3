//! Goal: replies have the bytes that the specification defines, and no input of a client does harm.
//! Method: golden bytes written by hand from the specification, random requests cut anywhere, and random
//! bytes.

use bytes::{BufMut as _, Bytes, BytesMut};
use proptest::prelude::*;

use super::*;

/// The bytes sent, in one buffer.
#[derive(Default)]
struct Sent(BytesMut);

impl Sink for Sent {
    fn tail(&mut self) -> &mut BytesMut {
        &mut self.0
    }

    fn put(&mut self, data: Bytes) {
        self.0.put_slice(&data);
    }

    fn put_zeros(&mut self, len: u64) {
        self.0.put_bytes(0, len as usize);
    }
}

const CAN: Can = Can { write: true, trim: true, fast_zero: true, multi_conn: true };
const SIZE: u64 = 1 << 20;

fn option(option: u32, data: &[u8]) -> Vec<u8> {
    [b"IHAVEOPT".as_slice(), &option.to_be_bytes(), &(data.len() as u32).to_be_bytes(), data].concat()
}

fn option_reply(option: u32, kind: u32, data: &[u8]) -> Vec<u8> {
    let magic = 0x0003_e889_0455_65a9_u64.to_be_bytes();
    [&magic[..], &option.to_be_bytes(), &kind.to_be_bytes(), &(data.len() as u32).to_be_bytes(), data]
        .concat()
}

/// A handshake that has received the client's flags.
fn begun(needs_tls: bool) -> Handshake {
    let mut handshake = Handshake::new(needs_tls);
    let mut from = BytesMut::from(&[0, 0, 0, 3][..]);
    assert_eq!(handshake.next(&mut from, &mut BytesMut::new()), Ok(None));
    handshake
}

/// The answer to an option that needs no question to the caller.
fn told(handshake: &mut Handshake, kind: u32, data: &[u8]) -> Vec<u8> {
    let mut out = BytesMut::new();
    let mut from = BytesMut::from(&option(kind, data)[..]);
    assert_eq!(handshake.next(&mut from, &mut out), Ok(None));
    assert!(from.is_empty());
    out.to_vec()
}

/// The kind of an answer.
fn kind_of(answer: &[u8]) -> u32 {
    u32::from_be_bytes(answer[12..16].try_into().expect("four bytes"))
}

fn export(name: &str) -> Export {
    Export { name: name.to_owned(), description: "d".to_owned(), size: SIZE, can: CAN }
}

fn go(name: &str) -> Vec<u8> {
    [&(name.len() as u32).to_be_bytes()[..], name.as_bytes(), &[0, 1, 0, 3]].concat()
}

#[test]
fn a_client_greets_asks_for_structured_replies_and_goes() {
    let (handshake, mut out) = (Handshake::new(false), BytesMut::new());
    handshake.greet(&mut out);
    assert_eq!(&out[..], b"NBDMAGICIHAVEOPT\0\x03");
    let mut handshake = begun(false);
    assert_eq!(told(&mut handshake, 8, b""), option_reply(8, 1, b""));
    let mut from = BytesMut::from(&option(7, &go("x"))[..]);
    out.clear();
    let asked = handshake.next(&mut from, &mut out).expect("it is well-formed");
    assert_eq!(asked, Some(Asked::Export { name: "x".to_owned(), chosen: true }));
    let chosen = handshake.export(Ok(&export("x")), &mut out).expect("there is one");
    assert_eq!(chosen, Some(Chosen { style: Style::Structured, status: false }));
    // All flags but READ_ONLY, ROTATIONAL and RESIZE.
    let flags = 0b1101_1110_1101_u16.to_be_bytes();
    let about = [&[0, 0][..], &SIZE.to_be_bytes(), &flags].concat();
    let sizes = [0, 3, 0, 0, 0, 1, 0, 0, 16, 0, 2, 0, 0, 0];
    let answers = [option_reply(7, 3, &about), option_reply(7, 3, &sizes), option_reply(7, 1, b"")];
    assert_eq!(&out[..], answers.concat());
}

#[test]
fn the_oldest_way_to_choose_has_124_zeros_if_the_client_wants_them() {
    for (flags, len) in [(1, 134), (3, 10)] {
        let mut handshake = Handshake::new(false);
        let mut from = BytesMut::from(&[&[0, 0, 0, flags], &option(1, b"x")[..]].concat()[..]);
        let mut out = BytesMut::new();
        let asked = handshake.next(&mut from, &mut out);
        assert_eq!(asked, Ok(Some(Asked::Export { name: "x".to_owned(), chosen: true })));
        assert!(handshake.export(Ok(&export("x")), &mut out).expect("there is one").is_some());
        assert_eq!(out.len(), len);
    }
}

#[test]
fn an_export_that_is_not_there_is_told_or_ends_the_connection() {
    let mut handshake = begun(false);
    let mut out = BytesMut::new();
    let mut from = BytesMut::from(&option(6, &go("y"))[..]);
    handshake.next(&mut from, &mut out).expect("it is well-formed");
    assert_eq!(handshake.export(Err(Refused::Unknown), &mut out), Ok(None));
    assert_eq!(kind_of(&out), (1 << 31) + 6);
    let mut from = BytesMut::from(&option(1, b"y")[..]);
    handshake.next(&mut from, &mut out).expect("it is well-formed");
    assert_eq!(handshake.export(Err(Refused::Unknown), &mut out), Err(Broken::NoExport));
}

#[test]
fn what_makes_no_sense_is_refused() {
    let mut handshake = begun(false);
    const UNSUP: u32 = (1 << 31) + 1;
    const INVALID: u32 = (1 << 31) + 3;
    for (kind, data, answer) in [
        (99, &b""[..], UNSUP),
        (5, b"", UNSUP),
        (3, b"x", INVALID),
        (8, b"x", INVALID),
        (7, b"", INVALID),
        (7, &[0, 0, 0, 9, b'x', 0, 0], INVALID),
        // More kinds of information than the data hold.
        (7, &[0, 0, 0, 1, b'x', 255, 255], INVALID),
        (6, &[255, 255, 255, 255], INVALID),
        (6, &[0, 0, 0, 1, 0xff, 0, 0], INVALID),
        // Contexts before structured replies.
        (10, &[0, 0, 0, 0, 0, 0, 0, 0], INVALID),
    ] {
        assert_eq!(kind_of(&told(&mut handshake, kind, data)), answer, "{kind} {data:?}");
    }
    told(&mut handshake, 8, b"");
    for data in [&[0, 0, 0, 0, 255, 255, 255, 255][..], &[0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 9, b'b']] {
        assert_eq!(kind_of(&told(&mut handshake, 10, data)), INVALID, "{data:?}");
    }
}

#[test]
fn what_is_too_long_is_skipped() {
    let mut handshake = begun(false);
    let long = vec![0; OPTION_BYTES_MAX as usize + 1];
    let answer = told(&mut handshake, 10, &long);
    assert_eq!(kind_of(&answer), (1 << 31) + 9);
    assert_eq!(told(&mut handshake, 8, b""), option_reply(8, 1, b""));
    let mut from = BytesMut::from(&b"IHAVEOPT\0\0\0\x07\xff\xff\xff\xff"[..]);
    assert_eq!(handshake.next(&mut from, &mut BytesMut::new()), Err(Broken::OptionLength(u32::MAX)));
}

#[test]
fn a_client_that_breaks_the_handshake_is_dropped() {
    let mut from = BytesMut::from(&[0, 0, 0, 4][..]);
    assert_eq!(Handshake::new(false).next(&mut from, &mut BytesMut::new()), Err(Broken::Flags(4)));
    let mut from = BytesMut::from(&b"NBDMAGIC\0\0\0\0\0\0\0\0"[..]);
    let magic = u64::from_be_bytes(*b"NBDMAGIC");
    assert_eq!(begun(false).next(&mut from, &mut BytesMut::new()), Err(Broken::OptionMagic(magic)));
}

#[test]
fn before_tls_nothing_is_told_and_nothing_said_before_counts() {
    let mut handshake = begun(true);
    for kind in [3, 6, 7, 8, 9, 10, 11] {
        assert_eq!(kind_of(&told(&mut handshake, kind, b"")), (1 << 31) + 5);
    }
    let early = [option(5, b""), option(8, b"")].concat();
    let mut from = BytesMut::from(&early[..]);
    assert_eq!(handshake.next(&mut from, &mut BytesMut::new()), Err(Broken::PlainText(16)));
    let mut from = BytesMut::from(&option(1, b"x")[..]);
    assert_eq!(begun(true).next(&mut from, &mut BytesMut::new()), Err(Broken::NoExport));
    let mut handshake = begun(true);
    let mut from = BytesMut::from(&option(5, b"")[..]);
    assert_eq!(handshake.next(&mut from, &mut BytesMut::new()), Ok(Some(Asked::Tls)));
    handshake.secured();
    assert_eq!(told(&mut handshake, 8, b""), option_reply(8, 1, b""));
}

#[test]
fn allocation_may_be_asked_of_the_export_for_which_it_was_selected() {
    for (name, status) in [("x", true), ("y", false)] {
        let mut handshake = begun(false);
        told(&mut handshake, 8, b"");
        let query = [&[0, 0, 0, 1, b'x', 0, 0, 0, 1, 0, 0, 0, 15][..], b"base:allocation"].concat();
        let mut from = BytesMut::from(&option(10, &query)[..]);
        let mut out = BytesMut::new();
        let asked = handshake.next(&mut from, &mut out);
        assert_eq!(asked, Ok(Some(Asked::Exists { name: "x".to_owned() })));
        handshake.contexts(Ok(()), &mut out);
        let context = [&[0, 0, 0, 1][..], b"base:allocation"].concat();
        assert_eq!(&out[..], [option_reply(10, 4, &context), option_reply(10, 1, b"")].concat());
        let mut from = BytesMut::from(&option(7, &go(name))[..]);
        handshake.next(&mut from, &mut out).expect("it is well-formed");
        let chosen = handshake.export(Ok(&export(name)), &mut out).expect("there is one");
        assert_eq!(chosen.map(|chosen| chosen.status), Some(status));
    }
}

#[test]
fn replies_have_the_bytes_of_their_style() {
    let to = To { cookie: 0x0102_0304_0506_0708, offset: 0x1000 };
    let cookie = [1, 2, 3, 4, 5, 6, 7, 8];
    let written = |style, write: &dyn Fn(Encoder, &mut Sent)| {
        let mut sent = Sent::default();
        write(Encoder::new(style), &mut sent);
        sent.0.to_vec()
    };
    let done = |encoder: Encoder, sent: &mut Sent| encoder.done(to, sent);
    let simple = [&[0x67, 0x44, 0x66, 0x98, 0, 0, 0, 0][..], &cookie].concat();
    assert_eq!(written(Style::Simple, &done), simple);
    let extended =
        [&[0x6e, 0x8a, 0x27, 0x8c, 0, 1, 0, 0][..], &cookie, &[0; 6], &[0x10, 0], &[0; 8]].concat();
    assert_eq!(written(Style::Extended, &done), extended);
    let pieces = || vec![Piece::Data(Bytes::from_static(b"ab")), Piece::Hole(512), Piece::Hole(0)];
    let data = |encoder: Encoder, sent: &mut Sent| encoder.data(to, pieces(), false, sent);
    assert_eq!(written(Style::Simple, &data), [&simple[..], b"ab", &[0; 512]].concat());
    let structured = [
        &[0x66, 0x8e, 0x33, 0xef, 0, 0, 0, 1][..],
        &cookie,
        &[0, 0, 0, 10, 0, 0, 0, 0, 0, 0, 0x10, 0],
        b"ab",
        &[0x66, 0x8e, 0x33, 0xef, 0, 1, 0, 2],
        &cookie,
        &[0, 0, 0, 12, 0, 0, 0, 0, 0, 0, 0x10, 2, 0, 0, 2, 0],
    ];
    assert_eq!(written(Style::Structured, &data), structured.concat());
    let whole = |encoder: Encoder, sent: &mut Sent| encoder.data(to, pieces(), true, sent);
    assert_eq!(written(Style::Structured, &whole).len(), 20 + 8 + 514);
    let status = |encoder: Encoder, sent: &mut Sent| {
        encoder.extents(to, &[Extent { len: 512, hole: true }], sent);
    };
    let told = [
        &[0x66, 0x8e, 0x33, 0xef, 0, 1, 0, 5][..],
        &cookie,
        &[0, 0, 0, 12, 0, 0, 0, 1, 0, 0, 2, 0, 0, 0, 0, 3],
    ];
    assert_eq!(written(Style::Structured, &status), told.concat());
    let fault = |encoder: Encoder, sent: &mut Sent| encoder.fault(to, Fault::Perm, sent);
    assert_eq!(written(Style::Simple, &fault)[4..8], [0, 0, 0, 1]);
    let message = Fault::Perm.to_string();
    assert_eq!(written(Style::Structured, &fault)[6..8], [0x80, 1]);
    assert!(written(Style::Structured, &fault).ends_with(message.as_bytes()));
}

/// Encodes a request as a client does.
fn sent(style: Style, flags: u16, command: u16, offset: u64, len: u64, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.put_u32(if style == Style::Extended { 0x21e4_1c71 } else { 0x2560_9513 });
    bytes.put_u16(flags);
    bytes.put_u16(command);
    bytes.put_u64(offset ^ 0xabcd);
    bytes.put_u64(offset);
    if style == Style::Extended {
        bytes.put_u64(len)
    } else {
        bytes.put_u32(len as u32)
    }
    bytes.put_slice(payload);
    bytes
}

fn checked(style: Style, can: Can, bytes: &[u8]) -> Result<Order, Fault> {
    let mut from = BytesMut::from(bytes);
    let request = Decoder::new(style).next(&mut from).expect("well-formed").expect("whole");
    assert!(from.is_empty());
    request.check(SIZE, can, style, true)
}

#[test]
fn requests_that_cannot_be_carried_out_have_the_fault_of_their_command() {
    let simple = |flags, command, offset, len| {
        checked(Style::Simple, CAN, &sent(Style::Simple, flags, command, offset, len, b""))
    };
    assert_eq!(simple(0, 0, SIZE, 1), Err(Fault::Invalid), "a read behind the end");
    assert_eq!(simple(0, 0, u64::MAX, u64::from(u32::MAX)), Err(Fault::Invalid), "a range that wraps");
    assert_eq!(simple(0, 6, SIZE - 1, 2), Err(Fault::NoSpace), "zeros behind the end");
    assert_eq!(simple(0, 4, SIZE - 1, 2), Err(Fault::Invalid), "a trim behind the end");
    assert_eq!(simple(0, 7, SIZE - 1, 2), Err(Fault::Invalid), "a status behind the end");
    assert_eq!(simple(4, 0, 0, 1), Err(Fault::Invalid), "DF without structured replies");
    assert_eq!(simple(1 << 9, 0, 0, 1), Err(Fault::Invalid), "a flag that is none");
    assert_eq!(simple(0, 77, 0, 1), Err(Fault::Invalid), "a command that is none");
    assert_eq!(simple(0, 3, 1, 0), Err(Fault::Invalid), "a flush of a place");
    assert_eq!(simple(0, 7, 0, 0), Err(Fault::Invalid), "the status of nothing");
    assert_eq!(simple(1, 3, 0, 0), Ok(Order::Io(Io::Flush)), "FUA is allowed everywhere");
    assert_eq!(simple(0, 2, 0, 0), Ok(Order::Disconnect));
    let read_only = Can { write: false, ..CAN };
    for (command, payload) in [(1, &b"x"[..]), (4, b""), (6, b"")] {
        let bytes = sent(Style::Simple, 0, command, 0, 1, payload);
        assert_eq!(checked(Style::Simple, read_only, &bytes), Err(Fault::Perm), "{command}");
    }
    let slow = Can { fast_zero: false, ..CAN };
    let fast = sent(Style::Simple, 16, 6, 0, 1, b"");
    assert_eq!(checked(Style::Simple, slow, &fast), Err(Fault::Invalid), "FAST_ZERO was not offered");
    let far = sent(Style::Extended, 0, 0, 0, u64::from(PAYLOAD_MAX) + 1, b"");
    let mut from = BytesMut::from(&far[..]);
    let request = Decoder::new(Style::Extended).next(&mut from).expect("well-formed").expect("whole");
    assert_eq!(request.check(u64::MAX, CAN, Style::Extended, true), Err(Fault::Overflow));
    let bare = sent(Style::Extended, 0, 1, 0, 1, b"");
    assert_eq!(checked(Style::Extended, CAN, &bare), Err(Fault::Invalid), "a write without its data");
    let laden = sent(Style::Extended, 32, 7, 0, 8, &[0; 8]);
    assert_eq!(checked(Style::Extended, CAN, &laden), Err(Fault::Invalid), "data where there are none");
}

#[test]
fn requests_that_break_the_protocol_end_the_connection() {
    let mut from = BytesMut::from(&[0; 28][..]);
    assert_eq!(Decoder::new(Style::Simple).next(&mut from), Err(Broken::RequestMagic(0)));
    let huge = sent(Style::Simple, 0, 1, 0, u64::from(PAYLOAD_MAX) + 1, b"");
    let mut from = BytesMut::from(&huge[..]);
    let refused = Err(Broken::Payload(u64::from(PAYLOAD_MAX) + 1));
    assert_eq!(Decoder::new(Style::Simple).next(&mut from), refused);
    let huge = sent(Style::Extended, 32, 7, 0, u64::MAX, b"");
    let mut from = BytesMut::from(&huge[..]);
    assert_eq!(Decoder::new(Style::Extended).next(&mut from), Err(Broken::Payload(u64::MAX)));
}

prop_compose! {
    fn any_request(style: Style)(
        command in 0u16..9,
        flags in prop_oneof![Just(0u16), 0u16..64],
        offset in prop_oneof![0..2 * SIZE, any::<u64>()],
        len in 0u64..200,
        fill in any::<u8>(),
    ) -> Vec<u8> {
        let has_payload = if style == Style::Extended { flags & 32 != 0 } else { command == 1 };
        let payload = vec![fill; if has_payload { len as usize } else { 0 }];
        sent(style, flags, command, offset, len, &payload)
    }
}

fn any_style() -> impl Strategy<Value = Style> {
    prop_oneof![Just(Style::Simple), Just(Style::Structured), Just(Style::Extended)]
}

proptest! {
    /// However the bytes are cut, the same requests are decoded, and none before it is complete.
    #[test]
    fn requests_may_be_cut_anywhere(
        (style, requests) in any_style().prop_flat_map(|style| {
            (Just(style), prop::collection::vec(any_request(style), 1..8))
        }),
        piece in 1usize..40,
    ) {
        let decoder = Decoder::new(style);
        let whole: Vec<Request> = requests
            .iter()
            .map(|bytes| decoder.next(&mut BytesMut::from(&bytes[..])).expect("well-formed").expect("whole"))
            .collect();
        let (mut from, mut found) = (BytesMut::new(), Vec::new());
        for piece in requests.concat().chunks(piece) {
            from.extend_from_slice(piece);
            while let Some(request) = decoder.next(&mut from).expect("well-formed") {
                found.push(request);
            }
            prop_assert!(decoder.lacks(&from) > 0);
        }
        prop_assert_eq!(found, whole);
        prop_assert!(from.is_empty());
    }

    /// The range of every order lies within the export.
    #[test]
    fn what_is_let_through_can_be_done(
        (style, bytes) in any_style().prop_flat_map(|style| (Just(style), any_request(style))),
    ) {
        if let Ok(Order::Io(io)) = checked(style, CAN, &bytes) {
            prop_assert!(io.end() <= SIZE);
        }
    }

    /// A handshake that may choose the export, then random bytes.
    #[test]
    fn any_bytes_do_no_harm(
        first in any::<u8>(),
        options in prop::collection::vec((0u32..13, prop::collection::vec(any::<u8>(), 0..40)), 0..6),
        chooses in any::<bool>(),
        rest in prop::collection::vec(any::<u8>(), 0..200),
        magic in any::<bool>(),
    ) {
        let mut bytes = vec![first, 0, 0, 0, 3];
        for (kind, data) in options {
            bytes.extend(option(kind, &data));
        }
        if chooses {
            bytes.extend(option(7, &go("y")));
            if magic {
                bytes.put_u32(0x2560_9513);
            }
        }
        bytes.extend(rest);
        crate::fuzz::connection(&bytes);
    }
}
