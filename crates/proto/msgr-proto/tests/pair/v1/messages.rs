//! Messages of an open session: what is sealed is opened in pieces of any length; damage is refused.

use bytes::Bytes;
use loligo_msgr_proto::{Established, Frame, Misbehaviour, Opener, OutBuf, ProtoError, Sealer, v1};
use loligo_wire::features::{MSG_AUTH, SUPPORTED};
use loligo_wire::message::{Header, Msg};
use loligo_wire::{Tid, UTime};
use proptest::prelude::*;

use super::{World, connect};

/// What the two sides agree on.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// Checksums, and short footers.
    Short,
    /// Checksums, without a key.
    Unsigned,
    /// Checksums and signatures.
    Signed,
}

const KINDS: [Kind; 3] = [Kind::Short, Kind::Unsigned, Kind::Signed];

fn ends(kind: Kind) -> (Established, Established) {
    let (world, features) = match kind {
        Kind::Short => (World::cephx(), SUPPORTED & !MSG_AUTH),
        Kind::Unsigned => (World::none(), SUPPORTED),
        Kind::Signed => (World::cephx(), SUPPORTED),
    };
    world.enlist();
    let accept = v1::Accept { lossy: true, ..v1::Accept::default() };
    world.to_osd().opened(v1::Connect { features, ..connect() }, accept)
}

fn halves(kind: Kind) -> (Sealer, Opener) {
    let (client, server) = ends(kind);
    (client.sealer, server.opener)
}

fn bytes(len: usize, start: u8) -> Bytes {
    (0..len).map(|i| (i as u8).wrapping_mul(31).wrapping_add(start)).collect()
}

/// `ack_seq` and `flags` have no place in this version.
fn message(seq: u64, front: usize, middle: usize, data: &[usize]) -> Msg {
    let header = Header {
        seq,
        tid: Tid(0x1112_1314_1516_1718),
        kind: 42,
        priority: 63,
        version: 8,
        compat_version: 3,
        data_off: 512,
        ..Header::default()
    };
    let data = data.iter().map(|len| bytes(*len, 3)).collect();
    Msg { header, front: bytes(front, 1), middle: bytes(middle, 2), data, data_crc: None }
}

fn flat(msg: &Msg) -> (Header, Bytes, Bytes, Vec<u8>) {
    (msg.header, msg.front.clone(), msg.middle.clone(), msg.data.concat())
}

fn drain(opener: &mut Opener) -> Result<Vec<Frame>, ProtoError> {
    std::iter::from_fn(|| opener.next().transpose()).collect()
}

fn sealed(sealer: &mut Sealer, msg: &Msg) -> Vec<u8> {
    let mut out = OutBuf::new();
    sealer.message(msg, &mut out).expect("it can be sealed");
    out.take().to_vec()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_sealed_is_opened(
        kind in prop::sample::select(KINDS.to_vec()),
        lens in prop::collection::vec((0..3000_usize, 0..30_usize, prop::collection::vec(0..70_000_usize, 0..3)), 1..6),
        chunk in prop_oneof![1..40_usize, 1000..200_000_usize],
        time: (u32, u32),
    ) {
        let (mut sealer, mut opener) = halves(kind);
        let msgs: Vec<Msg> =
            (1..).zip(&lens).map(|(seq, (front, middle, data))| message(seq, *front, *middle, data)).collect();
        let time = UTime { sec: time.0, nsec: time.1 };
        let mut out = OutBuf::new();
        for msg in &msgs {
            sealer.ack(msg.header.seq, &mut out).expect("sealed");
            sealer.message(msg, &mut out).expect("sealed");
            sealer.keepalive2(time, &mut out).expect("sealed");
            sealer.keepalive2_ack(time, &mut out).expect("sealed");
        }
        let mut frames = Vec::new();
        for piece in out.take().chunks(chunk) {
            opener.spare().extend_from_slice(piece);
            frames.extend(drain(&mut opener).map_err(|e| TestCaseError::fail(e.to_string()))?);
        }
        prop_assert_eq!(frames.len(), 4 * msgs.len());
        for (msg, frames) in msgs.iter().zip(frames.chunks(4)) {
            let [Frame::Ack { seq }, Frame::Message(got), Frame::Keepalive2(asked), Frame::Keepalive2Ack(told)] =
                frames
            else {
                return Err(TestCaseError::fail(format!("{frames:?}")));
            };
            prop_assert_eq!(*seq, msg.header.seq);
            prop_assert_eq!((*asked, *told), (time, time));
            prop_assert!(got.data.len() <= 1 && flat(got) == flat(msg));
        }
        prop_assert_eq!(opener.buffered(), 0);
    }
}

/// Without a signature, the place of one and the flags are covered by nothing; with one, only the flags
/// that mean nothing.
#[test]
fn a_flipped_bit_is_refused() {
    for kind in KINDS {
        let len = sealed(&mut halves(kind).0, &message(1, 40, 3, &[100])).len();
        let uncovered = match kind {
            Kind::Short => 1,
            Kind::Unsigned => 9,
            Kind::Signed => 1,
        };
        for bit in (8..(len - uncovered) * 8).step_by(7) {
            let (mut sealer, mut opener) = halves(kind);
            let mut bad = sealed(&mut sealer, &message(1, 40, 3, &[100]));
            bad[bit / 8] ^= 1 << (bit % 8);
            opener.spare().extend_from_slice(&bad);
            let opened = opener.next();
            assert!(opened.is_err(), "{kind:?}: bit {bit}: {opened:?}");
        }
    }
}

#[test]
fn a_signature_covers_the_number() {
    let (mut sealer, mut opener) = halves(Kind::Signed);
    let first = sealed(&mut sealer, &message(1, 40, 0, &[]));
    let second = sealed(&mut sealer, &message(2, 40, 0, &[]));
    // The first message's body and signature behind the second one's header.
    let forged = [&second[..54], &first[54..]].concat();
    opener.spare().extend_from_slice(&first);
    assert!(matches!(opener.next(), Ok(Some(Frame::Message(_)))));
    opener.spare().extend_from_slice(&forged);
    let error = opener.next().expect_err("it was signed as the first");
    assert_eq!(error, Misbehaviour::MessageSignature { seq: 2 }.into());
}

#[test]
fn who_agreed_to_sign_must_sign() {
    let (_, server) = ends(Kind::Signed);
    let (mut sealer, _) = halves(Kind::Unsigned);
    let mut opener = server.opener;
    opener.spare().extend_from_slice(&sealed(&mut sealer, &message(1, 4, 0, &[])));
    assert_eq!(opener.next().expect_err("unsigned"), Misbehaviour::MessageSignature { seq: 1 }.into());
}

#[test]
fn data_without_a_checksum_passes_and_an_incomplete_message_does_not() {
    let (mut sealer, mut opener) = halves(Kind::Unsigned);
    let mut unsummed = sealed(&mut sealer, &message(1, 4, 0, &[10]));
    let flags = unsummed.len() - 1;
    let data_crc = flags - 12;
    unsummed[data_crc..data_crc + 4].fill(0);
    unsummed[flags] |= 2;
    opener.spare().extend_from_slice(&unsummed);
    assert!(matches!(opener.next(), Ok(Some(Frame::Message(_)))));
    unsummed[flags] &= !1;
    opener.spare().extend_from_slice(&unsummed);
    assert_eq!(opener.next().expect_err("incomplete"), Misbehaviour::NotComplete { seq: 1, flags: 2 }.into());
}

#[test]
fn old_keepalives_are_skipped_and_a_close_is_seen() {
    let (_, mut opener) = halves(Kind::Unsigned);
    opener.spare().extend_from_slice(&[9, 9, 6]);
    assert!(matches!(opener.next(), Ok(Some(Frame::Close))));
    opener.spare().extend_from_slice(&[17]);
    assert_eq!(opener.next().expect_err("no such tag"), Misbehaviour::OldTag(17).into());
}

/// A claimed length costs nothing before its bytes arrive.
#[test]
fn memory_grows_with_what_has_arrived() {
    const MIB: usize = 1 << 20;
    let (mut sealer, mut opener) = halves(Kind::Signed);
    let whole = sealed(&mut sealer, &message(1, 10, 0, &[64 * MIB]));
    opener.spare().extend_from_slice(&whole[..100]);
    assert!(matches!(opener.next(), Ok(None)));
    assert_eq!(opener.begun_message_len(), Some(64 * MIB + 10));
    assert_eq!(opener.begun_len(), Some((8 * MIB, whole.len())));
    assert!(opener.spare().capacity() < 9 * MIB);
    opener.spare().extend_from_slice(&whole[100..]);
    assert!(matches!(opener.next(), Ok(Some(Frame::Message(_)))));
    assert_eq!(opener.begun_len(), None);
}
