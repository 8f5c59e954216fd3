//! Compression: both sides agree on a method, compressed frames open to the original in both modes and
//! in pieces of any length, and a peer whose frames are compressed wrongly or without agreement is
//! refused.

use bytes::Bytes;
use loligo_cephx::handshake::ConMode;
use loligo_msgr_proto::{Compression, Frame, Method, Misbehaviour, Opener, OutBuf, ProtoError, Sealer};
use loligo_wire::UTime;
use loligo_wire::message::{Header, Msg};

use crate::util::Setup;

const MODES: [ConMode; 2] = [ConMode::Crc, ConMode::Secure];

fn wants(methods: &[Method]) -> Option<Compression> {
    Some(Compression { methods: methods.to_vec(), frame_len_min: 1, secure: true })
}

fn setup(mode: ConMode, client: Option<Compression>, server: Option<Compression>) -> Setup {
    Setup { client_compression: client, server_compression: server, ..Setup::new(mode) }
}

fn text(len: usize) -> Bytes {
    b"again and ".iter().copied().cycle().take(len).collect()
}

fn message(front: usize, middle: usize, data: &[usize]) -> Msg {
    let header = Header { seq: 1, kind: 42, version: 8, compat_version: 3, ..Header::default() };
    let data = data.iter().map(|len| text(*len)).collect();
    Msg { header, front: text(front), middle: text(middle), data, data_crc: None }
}

fn sealed(sealer: &mut Sealer, msg: &Msg) -> Vec<u8> {
    let mut out = OutBuf::new();
    sealer.message(msg, &mut out).expect("it can be sealed");
    out.take().to_vec()
}

/// Receives a message in pieces of `piece_len` bytes.
fn received(opener: &mut Opener, bytes: &[u8], piece_len: usize) -> Msg {
    let mut found = None;
    for piece in bytes.chunks(piece_len) {
        opener.spare().extend_from_slice(piece);
        while let Some(frame) = opener.next().expect("it can be opened") {
            let Frame::Message(msg) = frame else { panic!("{frame:?}") };
            assert!(found.replace(msg).is_none());
        }
    }
    found.expect("a message")
}

#[test]
fn messages_arrive_as_they_were() {
    let shapes = [
        (0, 0, vec![]),
        (7, 0, vec![]),
        (0, 0, vec![5000]),
        (9000, 3, vec![100_000, 1, 70_000]),
        (0, 5, vec![]),
    ];
    for mode in MODES {
        for method in Method::ALL {
            let both = wants(&[method]);
            let (mut client, mut server) = setup(mode, both.clone(), both).pair().established();
            for (front, middle, data) in &shapes {
                let msg = message(*front, *middle, data);
                for (sealer, opener) in
                    [(&mut client.sealer, &mut server.opener), (&mut server.sealer, &mut client.opener)]
                {
                    let bytes = sealed(sealer, &msg);
                    assert!(msg.len() < 5000 || bytes.len() < msg.len() / 4, "{method:?}: {}", bytes.len());
                    let got = received(opener, &bytes, 997);
                    assert_eq!((got.header, &got.front, &got.middle), (msg.header, &msg.front, &msg.middle));
                    assert_eq!(got.data.concat(), msg.data.concat());
                    assert_eq!(got.data_crc, None, "what was summed is not the data");
                }
            }
            let mut out = OutBuf::new();
            let now = UTime { sec: 7, nsec: 0 };
            client.sealer.keepalive2(now, &mut out).expect("sealed");
            client.sealer.ack(9, &mut out).expect("sealed");
            server.opener.spare().extend_from_slice(&out.take());
            assert!(matches!(server.opener.next(), Ok(Some(Frame::Keepalive2(then))) if then == now));
            assert!(matches!(server.opener.next(), Ok(Some(Frame::Ack { seq: 9 }))));
        }
    }
}

/// Decompression uses only the memory that the receiver allows, step by step; the need is reported
/// before each step.
#[test]
fn nothing_is_decompressed_beyond_what_is_allowed() {
    const LEN: usize = 16 << 20;
    for mode in MODES {
        for method in Method::ALL {
            let both = wants(&[method]);
            let (mut client, mut server) = setup(mode, both.clone(), both).pair().established();
            let msg = message(9000, 0, &[LEN]);
            let mut bytes = sealed(&mut client.sealer, &msg);
            bytes.extend(sealed(&mut client.sealer, &message(100, 0, &[])));
            let opener = &mut server.opener;
            opener.allow(4096);
            opener.spare().extend_from_slice(&bytes);
            let mut allowed = 4096;
            let got = loop {
                match opener.next().expect("it can be opened") {
                    Some(Frame::Message(msg)) => break msg,
                    Some(other) => panic!("{other:?}"),
                    None => {}
                }
                let (next, whole) = opener.packed_len().expect("it waits for an allowance");
                assert!(allowed < next && next <= whole + 2, "{method:?}: {allowed} {next} {whole}");
                assert!(opener.next().expect("nothing is wrong").is_none(), "it still waits");
                allowed = next;
                opener.allow(next);
            };
            assert!(allowed > LEN && got.data.concat() == msg.data.concat(), "{method:?}");
            assert!(opener.next().expect("nothing is wrong").is_none(), "the allowance is used up");
            // A method that does not state the decompressed length needs some more at first.
            opener.allow(256 << 10);
            assert!(matches!(opener.next(), Ok(Some(Frame::Message(msg))) if msg.front.len() == 100));
            assert_eq!((opener.packed_len(), opener.buffered()), (None, 0));
        }
    }
}

/// Once compression is agreed, every frame may be compressed, first of all the one that opens the
/// session.
#[test]
fn the_session_s_opening_is_compressed_already() {
    const FLAGS_AT: usize = 26;
    for method in Method::ALL {
        let both = wants(&[method]);
        let mut pair = setup(ConMode::Crc, both.clone(), both).pair();
        pair.authenticate();
        let at = pair.client.sent.len();
        let events = pair.client_does(|hs| hs.identify(crate::util::client_ident()));
        assert_eq!(pair.client.sent[at + FLAGS_AT], 1, "{method:?}");
        let ident = crate::util::client_ident();
        assert!(matches!(&events[..], [loligo_msgr_proto::Event::ClientIdent(got)] if *got == ident));
    }
}

/// The encoded length of a compressible message from client to server.
fn onwire_len(setup: &Setup) -> usize {
    let (mut client, mut server) = setup.pair().established();
    let msg = message(0, 0, &[50_000]);
    let bytes = sealed(&mut client.sealer, &msg);
    assert_eq!(received(&mut server.opener, &bytes, usize::MAX).data.concat(), msg.data.concat());
    bytes.len()
}

#[test]
fn it_takes_two_to_compress() {
    use Method::{Lz4, Snappy, Zlib, Zstd};
    let is_compressed = |client, server| onwire_len(&setup(ConMode::Crc, client, server)) < 25_000;
    assert!(!is_compressed(None, None));
    assert!(!is_compressed(wants(&[Lz4]), None));
    assert!(!is_compressed(None, wants(&[Lz4])));
    assert!(!is_compressed(wants(&[Lz4]), wants(&[Zlib, Snappy])));
    assert!(!is_compressed(wants(&[]), wants(&[Zlib])), "it knows of it and wants none");
    assert!(!is_compressed(wants(&[Zlib]), wants(&[])));
    assert!(is_compressed(wants(&[Zstd, Zlib]), wants(&[Snappy, Zlib])));
}

#[test]
fn what_is_encrypted_is_compressed_only_if_both_say_so() {
    let but_not_secure = || wants(&[Method::Snappy]).map(|c| Compression { secure: false, ..c });
    let is_compressed = |mode, client, server| onwire_len(&setup(mode, client, server)) < 25_000;
    assert!(!is_compressed(ConMode::Secure, but_not_secure(), wants(&Method::ALL)));
    assert!(!is_compressed(ConMode::Secure, wants(&Method::ALL), but_not_secure()));
    assert!(is_compressed(ConMode::Secure, wants(&Method::ALL), wants(&Method::ALL)));
    assert!(is_compressed(ConMode::Crc, but_not_secure(), but_not_secure()));
}

#[test]
fn what_is_short_or_gets_no_shorter_goes_out_as_it_is() {
    let both = wants(&[Method::Zstd]).map(|c| Compression { frame_len_min: 2000, ..c });
    let (mut client, mut server) = setup(ConMode::Crc, both.clone(), both.clone()).pair().established();
    let plain_len = |msg: &Msg| {
        let (mut plain, _) = Setup::new(ConMode::Crc).pair().established();
        sealed(&mut plain.sealer, msg).len()
    };
    let short = message(0, 0, &[1500]);
    assert_eq!(sealed(&mut client.sealer, &short).len(), plain_len(&short));
    let long = message(0, 0, &[3000]);
    assert!(sealed(&mut client.sealer, &long).len() < plain_len(&long) / 2);
    let mut state = 1_u64;
    let noise: Bytes = (0..5000)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        })
        .collect();
    let noise = Msg { data: [noise].into_iter().collect(), ..message(0, 0, &[]) };
    let bytes = sealed(&mut client.sealer, &noise);
    assert_eq!(bytes.len(), plain_len(&noise));
    assert_eq!(received(&mut server.opener, &bytes, 64).data.concat(), noise.data.concat());
}

/// A compressed frame on a connection without agreed compression is refused.
#[test]
fn nobody_compresses_unasked() {
    let both = wants(&[Method::Lz4]);
    let (mut client, _) = setup(ConMode::Crc, both.clone(), both).pair().established();
    let bytes = sealed(&mut client.sealer, &message(0, 0, &[5000]));
    let (_, mut server) = Setup::new(ConMode::Crc).pair().established();
    server.opener.spare().extend_from_slice(&bytes);
    assert_eq!(server.opener.next().err(), Some(ProtoError::Misbehaving(Misbehaviour::Flags(1))));
}

/// Each segment of the frame is compressed with another method than the agreed one.
#[test]
fn segments_that_are_something_else_are_refused() {
    for mode in MODES {
        let [theirs, ours] = [Method::Zstd, Method::Snappy].map(|method| {
            let both = wants(&[method]);
            setup(mode, both.clone(), both).pair().established()
        });
        let (mut client, _) = theirs;
        let (_, mut server) = ours;
        let bytes = sealed(&mut client.sealer, &message(0, 0, &[5000]));
        server.opener.spare().extend_from_slice(&bytes);
        let error = server.opener.next().expect_err("refused");
        assert!(
            matches!(error, ProtoError::Misbehaving(Misbehaviour::Compressed { method: Method::Snappy, .. })),
            "{mode:?}: {error}"
        );
    }
}
