//! Frames of an open session: a sealed frame opens on the other side in pieces of any length, damage and
//! garbage are refused, and nothing is copied or reserved without need.

use std::io::IoSlice;

use bytes::Bytes;
use loligo_cephx::handshake::ConMode;
use loligo_msgr_proto::{CryptoError, Frame, Misbehaviour, Opener, OutBuf, ProtoError, Sealer, Tag};
use loligo_wire::crc::{crc32c, crc32c_of};
use loligo_wire::message::{Header, Msg};
use loligo_wire::{Tid, UTime};
use proptest::prelude::*;

use crate::util::Setup;

const MODES: [ConMode; 2] = [ConMode::Crc, ConMode::Secure];
const MIB: usize = 1 << 20;

/// The halves of one direction, from the client to the server.
fn halves(mode: ConMode) -> (Sealer, Opener) {
    let (client, server) = Setup::new(mode).pair().established();
    assert!(client.out.is_empty() && server.out.is_empty());
    (client.sealer, server.opener)
}

fn bytes(len: usize, start: u8) -> Bytes {
    (0..len).map(|i| (i as u8).wrapping_mul(31).wrapping_add(start)).collect()
}

fn header() -> Header {
    Header {
        seq: 0x0102_0304_0506_0708,
        tid: Tid(0x1112_1314_1516_1718),
        kind: 42,
        priority: 63,
        version: 8,
        compat_version: 3,
        data_off: 512,
        ack_seq: 0x2122_2324_2526_2728,
        flags: 1,
    }
}

fn seal(sealer: &mut Sealer, msg: &Msg, out: &mut OutBuf) {
    sealer.message(msg, out).expect("it can be sealed");
}

fn sealed(mode: ConMode, msg: &Msg) -> (Vec<u8>, Opener) {
    let (mut sealer, opener) = halves(mode);
    let mut out = OutBuf::new();
    seal(&mut sealer, msg, &mut out);
    (out.take().to_vec(), opener)
}

fn message(front: usize, middle: usize, data: &[usize]) -> Msg {
    let data = data.iter().map(|len| bytes(*len, 3)).collect();
    Msg { header: header(), front: bytes(front, 1), middle: bytes(middle, 2), data, data_crc: None }
}

/// The message as the receiver must see it, with its data in one piece.
fn flat(msg: &Msg) -> (Header, Bytes, Bytes, Vec<u8>) {
    (msg.header, msg.front.clone(), msg.middle.clone(), msg.data.concat())
}

fn only_message(opener: &mut Opener) -> Msg {
    match opener.next() {
        Ok(Some(Frame::Message(msg))) => msg,
        other => panic!("{other:?}"),
    }
}

/// Opens all frames received.
fn drain(opener: &mut Opener) -> Result<Vec<Frame>, ProtoError> {
    std::iter::from_fn(|| opener.next().transpose()).collect()
}

#[derive(Clone, Debug)]
enum Op {
    Message(Msg),
    Ack(u64),
    Keepalive2(UTime),
    Keepalive2Ack(UTime),
}

impl Op {
    fn seal(&self, sealer: &mut Sealer, out: &mut OutBuf) {
        match self {
            Self::Message(msg) => seal(sealer, msg, out),
            Self::Ack(seq) => sealer.ack(*seq, out).expect("it can be sealed"),
            Self::Keepalive2(t) => sealer.keepalive2(*t, out).expect("it can be sealed"),
            Self::Keepalive2Ack(t) => sealer.keepalive2_ack(*t, out).expect("it can be sealed"),
        }
    }

    fn is(&self, frame: &Frame) -> bool {
        match (self, frame) {
            (Self::Message(sent), Frame::Message(got)) => got.data.len() <= 1 && flat(sent) == flat(got),
            (Self::Ack(sent), Frame::Ack { seq }) => sent == seq,
            (Self::Keepalive2(sent), Frame::Keepalive2(got)) => sent == got,
            (Self::Keepalive2Ack(sent), Frame::Keepalive2Ack(got)) => sent == got,
            _ => false,
        }
    }
}

fn any_op() -> impl Strategy<Value = Op> {
    let len = prop_oneof![Just(0), 1..70_usize, 1000..5000_usize, Just(70_000)];
    let time = (any::<u32>(), any::<u32>()).prop_map(|(sec, nsec)| UTime { sec, nsec });
    let message =
        (len.clone(), prop_oneof![9 => Just(0), 1 => 1..40_usize], prop::collection::vec(len, 0..4))
            .prop_map(|(front, middle, data)| Op::Message(message(front, middle, &data)));
    prop_oneof![
        4 => message,
        1 => any::<u64>().prop_map(Op::Ack),
        1 => time.clone().prop_map(Op::Keepalive2),
        1 => time.prop_map(Op::Keepalive2Ack),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_sealed_is_opened(
        secure: bool,
        ops in prop::collection::vec(any_op(), 1..12),
        chunks in prop::collection::vec(prop_oneof![1..40_usize, 1000..200_000_usize], 1..6),
    ) {
        let (mut sealer, mut opener) = halves(MODES[usize::from(secure)]);
        let mut out = OutBuf::new();
        ops.iter().for_each(|op| op.seal(&mut sealer, &mut out));
        let mut frames = Vec::new();
        for chunk in chunks.iter().cycle() {
            let mut slices = [IoSlice::new(&[]); 3];
            let set = out.io_slices(&mut slices);
            let taken: Vec<u8> = slices[..set].iter().flat_map(|s| s.iter().copied()).take(*chunk).collect();
            out.advance(taken.len());
            opener.spare().extend_from_slice(&taken);
            frames.extend(drain(&mut opener).map_err(|e| TestCaseError::fail(e.to_string()))?);
            if out.is_empty() {
                break;
            }
        }
        prop_assert_eq!(frames.len(), ops.len());
        for (op, frame) in ops.iter().zip(&frames) {
            prop_assert!(op.is(frame), "{:?} became {:?}", op, frame);
        }
        prop_assert_eq!(opener.buffered(), 0);
    }

    #[test]
    fn changed_bytes_are_noticed(
        secure: bool,
        front in 0..100_usize,
        data in 0..3000_usize,
        at: prop::sample::Index,
        bit in 0..8_u8,
    ) {
        let mode = MODES[usize::from(secure)];
        let msg = message(front, 0, &[data]);
        let (mut frame, mut opener) = sealed(mode, &msg);
        let at = at.index(frame.len());
        frame[at] ^= 1 << bit;
        opener.spare().extend_from_slice(&frame);
        let crc_epilogue = (front > 0 || data > 0).then(|| frame.len() - 13);
        match drain(&mut opener) {
            Err(ProtoError::Misbehaving(_)) => prop_assert!(!secure),
            Err(e) => prop_assert_eq!(e, ProtoError::Crypto(CryptoError::Tag)),
            // In crc mode no checksum covers the upper half of the late status, nor the checksum fields
            // of absent segments.
            Ok(frames) => {
                prop_assert!(!secure && crc_epilogue.is_some_and(|e| at >= e), "byte {at}");
                prop_assert!(matches!(&frames[..], [Frame::Message(got)] if flat(got) == flat(&msg)));
            }
        }
    }

    #[test]
    fn cut_frames_wait_for_the_rest(secure: bool, front in 0..100_usize, data in 0..3000_usize, at: prop::sample::Index) {
        let msg = message(front, 0, &[data]);
        let (frame, mut opener) = sealed(MODES[usize::from(secure)], &msg);
        let (a, b) = frame.split_at(at.index(frame.len()));
        opener.spare().extend_from_slice(a);
        prop_assert!(matches!(opener.next(), Ok(None)));
        opener.spare().extend_from_slice(b);
        prop_assert_eq!(flat(&only_message(&mut opener)), flat(&msg));
    }

    #[test]
    fn random_bytes_never_panic(secure: bool, bytes: Vec<u8>) {
        let (_, mut opener) = halves(MODES[usize::from(secure)]);
        opener.spare().extend_from_slice(&bytes);
        let _ = drain(&mut opener);
    }
}

/// The layout, byte by byte, as in `frames_v2.h`.
#[test]
fn a_crc_frame_is_laid_out_as_ceph_does() {
    let msg = message(5, 0, &[3]);
    let (frame, _) = sealed(ConMode::Crc, &msg);
    let mut expected = vec![17, 4];
    for (len, align) in [(41_u32, 8_u16), (5, 8), (0, 8), (3, 4096)] {
        expected.extend(len.to_le_bytes());
        expected.extend(align.to_le_bytes());
    }
    expected.extend([0, 0]);
    expected.extend(crc32c(0, &expected).to_le_bytes());
    let mut segment = Vec::new();
    segment.extend(0x0102_0304_0506_0708_u64.to_le_bytes());
    segment.extend(0x1112_1314_1516_1718_u64.to_le_bytes());
    for field in [42_u16, 63, 8, 0, 0, 512] {
        segment.extend(field.to_le_bytes());
    }
    segment.extend(0x2122_2324_2526_2728_u64.to_le_bytes());
    segment.extend([1, 3, 0, 0, 0]);
    expected.extend(&segment);
    expected.extend(crc32c(u32::MAX, &segment).to_le_bytes());
    expected.extend(&bytes(5, 1));
    expected.extend(&bytes(3, 3));
    expected.push(14);
    for segment in [bytes(5, 1), Bytes::new(), bytes(3, 3)] {
        expected.extend(crc32c(u32::MAX, &segment).to_le_bytes());
    }
    assert_eq!(frame, expected);
}

#[test]
fn secure_frames_have_the_right_lengths() {
    for (front, data, expected) in [(0, 0, 96), (1, 0, 96 + 16 + 32), (16, 17, 96 + 16 + 32 + 32)] {
        let (frame, _) = sealed(ConMode::Secure, &message(front, 0, &[data]));
        assert_eq!(frame.len(), expected);
    }
}

/// The checksum of long data is computed as the pieces arrive; damage in any of them is detected.
#[test]
fn long_data_is_summed_as_it_arrives() {
    let msg = message(10, 0, &[300_000]);
    let (stream, mut opener) = sealed(ConMode::Crc, &msg);
    let feed = |opener: &mut Opener, stream: &[u8]| {
        stream.chunks(7_001).try_fold(None, |_, piece| {
            opener.spare().extend_from_slice(piece);
            opener.next()
        })
    };
    let Ok(Some(Frame::Message(got))) = feed(&mut opener, &stream) else { panic!("no message") };
    assert_eq!(got.data_crc, Some(crc32c_of([&msg.data[0][..]])));
    // With the checksum that was received, the message leaves unchanged.
    let mut out = OutBuf::new();
    seal(&mut halves(ConMode::Crc).0, &Msg { data_crc: got.data_crc, ..msg.clone() }, &mut out);
    assert_eq!(out.take(), stream);
    for at in [20_000, 150_000, stream.len() - 14] {
        let mut bad = stream.clone();
        bad[at] ^= 4;
        let (_, mut opener) = halves(ConMode::Crc);
        let refused = feed(&mut opener, &bad);
        assert!(matches!(refused, Err(ProtoError::Misbehaving(Misbehaviour::Crc { .. }))), "{refused:?}");
    }
}

/// The test changes the late status, which no checksum covers in crc mode.
#[test]
fn an_aborted_frame_is_dropped() {
    let (mut sealer, mut opener) = halves(ConMode::Crc);
    let mut out = OutBuf::new();
    seal(&mut sealer, &message(5, 0, &[3]), &mut out);
    let mut frame = out.take().to_vec();
    let status = frame.len() - 13;
    frame[status] = 1;
    sealer.ack(9, &mut out).expect("it can be sealed");
    frame.extend_from_slice(&out.take());
    opener.spare().extend_from_slice(&frame);
    assert!(matches!(opener.next(), Ok(Some(Frame::Ack { seq: 9 }))));

    let (mut frame, mut opener) = sealed(ConMode::Crc, &message(5, 0, &[3]));
    frame[status] = 3;
    opener.spare().extend_from_slice(&frame);
    assert_eq!(opener.next().unwrap_err(), ProtoError::Misbehaving(Misbehaviour::LateStatus(3)));
}

/// A preamble that claims segments of these lengths.
fn preamble(tag: u8, lens: &[u32]) -> Vec<u8> {
    let mut b = vec![tag, lens.len() as u8];
    for len in lens {
        b.extend(len.to_le_bytes());
        b.extend(8_u16.to_le_bytes());
    }
    b.resize(28, 0);
    b.extend(crc32c(0, &b).to_le_bytes());
    b
}

fn refusal(bytes: &[u8]) -> Misbehaviour {
    let (_, mut opener) = halves(ConMode::Crc);
    opener.spare().extend_from_slice(bytes);
    match opener.next() {
        Err(ProtoError::Misbehaving(m)) => m,
        other => panic!("{other:?}"),
    }
}

#[test]
fn nonsense_is_refused_at_the_preamble() {
    let tag = Tag::Message;
    let too_long = |index, len, max| Misbehaviour::TooLong { tag, index, len, max };
    assert_eq!(refusal(&preamble(17, &[41, 1 << 30])), too_long(1, 1 << 30, 64 << 20));
    assert_eq!(refusal(&preamble(17, &[41, 0, 1 << 30])), too_long(2, 1 << 30, 16 << 20));
    assert_eq!(refusal(&preamble(17, &[41, 0, 0, 1 << 30])), too_long(3, 1 << 30, 256 << 20));
    assert_eq!(refusal(&preamble(17, &[40, 5])), Misbehaviour::HeaderLen(40));
    assert_eq!(refusal(&preamble(20, &[8, 8])), Misbehaviour::Segments { tag: Tag::Ack, segments: 2 });
    let long_ack = Misbehaviour::TooLong { tag: Tag::Ack, index: 0, len: 65_537, max: 65_536 };
    assert_eq!(refusal(&preamble(20, &[65_537])), long_ack);
    let mut late_hello = preamble(1, &[0]);
    late_hello.push(0);
    assert_eq!(refusal(&late_hello), Misbehaviour::Unexpected(Tag::Hello));
}

#[test]
fn short_payloads_are_refused() {
    for tag in [18_u8, 19, 20] {
        let mut frame = preamble(tag, &[4]);
        frame.extend([1, 2, 3, 4]);
        frame.extend(crc32c(u32::MAX, &[1, 2, 3, 4]).to_le_bytes());
        assert!(matches!(refusal(&frame), Misbehaviour::Payload { .. }));
        assert!(matches!(refusal(&preamble(tag, &[0])), Misbehaviour::Payload { .. }));
    }
}

#[test]
fn a_claimed_length_reserves_little() {
    let (_, mut opener) = halves(ConMode::Crc);
    opener.spare().extend_from_slice(&preamble(17, &[41, 0, 0, 256 << 20]));
    assert!(matches!(opener.next(), Ok(None)));
    assert_eq!(opener.begun_message_len(), Some(256 * MIB));
    let capacity = opener.spare().capacity();
    assert!((8 * MIB..9 * MIB).contains(&capacity), "{capacity}");
}

#[test]
fn a_long_message_is_moved_seldom() {
    let sent = message(100, 0, &[40 * MIB]);
    let (frame, mut opener) = sealed(ConMode::Crc, &sent);
    let (mut last_place, mut moves) = (0, 0);
    let mut at = 0;
    while at < frame.len() {
        let spare = opener.spare();
        let place = spare.as_ptr() as usize;
        moves += usize::from(place != std::mem::replace(&mut last_place, place));
        assert!(spare.capacity() <= spare.len() + spare.len().max(8 * MIB) + MIB, "no more than deserved");
        let room = spare.capacity() - spare.len();
        let n = room.min(64 << 10).min(frame.len() - at);
        spare.extend_from_slice(&frame[at..at + n]);
        at += n;
        if let Some(frame) = opener.next().expect("the frame is good") {
            assert!(Op::Message(sent.clone()).is(&frame));
        }
    }
    assert!(moves <= 6, "moved {moves} times");
    assert_eq!(opener.buffered(), 0);
}

#[test]
fn nothing_long_is_copied_on_the_way_out() {
    let (mut sealer, _) = halves(ConMode::Crc);
    let msg = message(200, 0, &[4096, 500, 8192]);
    let mut out = OutBuf::new();
    seal(&mut sealer, &msg, &mut out);
    let mut slices = [IoSlice::new(&[]); 8];
    let set = out.io_slices(&mut slices);
    let places: Vec<_> = slices[..set].iter().map(|s| s.as_ptr()).collect();
    assert_eq!(set, 5, "start and front, 4096, 500, 8192, epilogue");
    assert_eq!((places[1], places[3]), (msg.data[0].as_ptr(), msg.data[2].as_ptr()));
}

#[test]
fn nothing_is_copied_on_the_way_in() {
    for mode in MODES {
        let msg = message(200, 0, &[4096]);
        let (frame, mut opener) = sealed(mode, &msg);
        let spare = opener.spare();
        let start = spare.as_ptr() as usize;
        spare.extend_from_slice(&frame);
        let range = start..start + frame.len();
        let got = only_message(&mut opener);
        for part in [&got.front, &got.data[0]] {
            assert!(range.contains(&(part.as_ptr() as usize)));
        }
    }
}

#[test]
fn a_busy_connection_reads_more_at_once() {
    let (mut sealer, mut opener) = halves(ConMode::Crc);
    let mut out = OutBuf::new();
    (0..2000).for_each(|_| seal(&mut sealer, &message(300, 0, &[]), &mut out));
    let stream = out.take();
    let mut at = 0;
    let mut largest_read = 0;
    while at < stream.len() {
        let spare = opener.spare();
        let n = (spare.capacity() - spare.len()).min(stream.len() - at);
        spare.extend_from_slice(&stream[at..at + n]);
        at += n;
        largest_read = largest_read.max(n);
        drain(&mut opener).expect("the frames are good");
    }
    assert!(largest_read >= 128 << 10, "{largest_read}");
}

/// The nonces of the two directions differ, and those of each frame.
#[test]
fn the_same_message_never_looks_the_same_twice() {
    let (mut client, mut server) = Setup::new(ConMode::Secure).pair().established();
    let msg = message(100, 0, &[100]);
    let mut seen = Vec::new();
    for sealer in [&mut client.sealer, &mut server.sealer] {
        for _ in 0..2 {
            let mut out = OutBuf::new();
            seal(sealer, &msg, &mut out);
            seen.push(out.take());
        }
    }
    for (i, a) in seen.iter().enumerate() {
        assert!(seen[i + 1..].iter().all(|b| a != b));
    }
}

#[test]
fn long_data_is_aligned_for_direct_io() {
    // Simulates socket reads: at most as much as fits at once, and another frame in front, so that the
    // long one begins at any offset.
    for before in [1, 333, 4000] {
        let (mut sealer, mut opener) = halves(ConMode::Crc);
        let mut out = OutBuf::new();
        let (short, long) = (message(before, 0, &[]), message(200, 0, &[4 * MIB]));
        seal(&mut sealer, &short, &mut out);
        seal(&mut sealer, &long, &mut out);
        let all = out.take();
        let (mut at, mut found) = (0, Vec::new());
        while at < all.len() {
            let spare = opener.spare();
            let room = (spare.capacity() - spare.len()).min(all.len() - at);
            spare.extend_from_slice(&all[at..at + room]);
            at += room;
            found.extend(drain(&mut opener).expect("whole frames"));
        }
        let [Frame::Message(first), Frame::Message(second)] = &found[..] else { panic!("{found:?}") };
        assert!(flat(first) == flat(&short) && flat(second) == flat(&long));
        assert_eq!(second.data[0].as_ptr().addr() % 4096, 0, "behind {before} bytes");
    }
}

/// Long data is encrypted from its place into reused buffers, also while earlier frames still wait to be
/// written.
#[test]
fn long_data_in_secure_mode_arrive_whatever_was_sealed_before() {
    let (mut sealer, mut opener) = halves(ConMode::Secure);
    let mut out = OutBuf::new();
    let sizes = [300_000, 262_144, 262_145, 262_159, 4 * MIB, 300_001, 9 * MIB, 5, 700_000];
    for round in 0..6 {
        let msgs: Vec<Msg> =
            (0..=round).map(|at| message(at * 37, at % 3, &[sizes[(at + round) % 9]])).collect();
        for msg in &msgs {
            seal(&mut sealer, msg, &mut out);
        }
        opener.spare().extend_from_slice(&out.take());
        for msg in &msgs {
            let Ok(Some(Frame::Message(got))) = opener.next() else { panic!("no message") };
            assert!(got.data.concat() == msg.data[0] && got.front == msg.front && got.middle == msg.middle);
        }
        if round % 2 == 1 {
            sealer.keepalive2(UTime::now(), &mut out).expect("it can be sealed");
            opener.spare().extend_from_slice(&out.take());
            assert!(matches!(opener.next(), Ok(Some(Frame::Keepalive2(_)))), "a question");
        }
    }
}

#[test]
fn damage_to_long_data_in_secure_mode_is_found() {
    let (stream, _) = sealed(ConMode::Secure, &message(100, 0, &[300_000]));
    for at in [200, 150_000, stream.len() - 40, stream.len() - 20, stream.len() - 1] {
        let mut bad = stream.clone();
        bad[at] ^= 4;
        let (_, mut opener) = halves(ConMode::Secure);
        opener.spare().extend_from_slice(&bad);
        let refused = opener.next();
        assert!(matches!(refused, Err(ProtoError::Crypto(CryptoError::Tag))), "{at}: {refused:?}");
    }
}
