//! Client against server, without a network: every path through the handshake ends as it should, in
//! pieces of any length, and no tampered handshake succeeds.

use loligo_cephx::handshake::{AuthError, ConMode};
use loligo_msgr_proto::{CryptoError, Event, Misbehaviour, Misuse, ProtoError, Session, Tag, Unsupported};
use loligo_wire::{EntityType, Errno};

use crate::util::{
    CLIENT_ADDR, Direction, GLOBAL_ID, Pair, SERVER_ADDR, Setup, Tamper, addr, client_ident,
    reconnect_request, server_ident,
};

const MODES: [ConMode; 2] = [ConMode::Crc, ConMode::Secure];

/// Opens a session on a pair that may identify itself.
fn open(pair: &mut Pair) {
    let asked = pair.client_does(|hs| hs.identify(client_ident()));
    assert!(matches!(&asked[..], [Event::ClientIdent(ident)] if *ident == client_ident()));
    let answered = pair.server_does(|hs| hs.accept(server_ident()));
    assert!(matches!(&answered[..], [Event::Established]));
}

#[test]
fn a_session_opens_in_both_modes() {
    for mode in MODES {
        let mut pair = Setup::new(mode).pair();
        pair.authenticate();
        open(&mut pair);
        let (Ok(client), Ok(server)) = (pair.client.hs.into_established(), pair.server.hs.into_established())
        else {
            panic!("not established");
        };
        let session = Session::Opened { client: client_ident(), server: server_ident() };
        assert_eq!((&client.session, &server.session), (&session, &session));
        assert_eq!((client.peer.kind, server.peer.kind), (EntityType::OSD, EntityType::CLIENT));
        assert_eq!((client.peer.our_addr, server.peer.our_addr), (addr(CLIENT_ADDR), addr(SERVER_ADDR)));
        assert_eq!((client.peer.mode, server.peer.mode), (mode, mode));
        assert_eq!((client.peer.global_id, server.peer.global_id), (GLOBAL_ID, GLOBAL_ID));
        assert!(client.peer.identity.is_none());
        assert_eq!(server.peer.identity.map(|i| i.caps), Some("allow *".to_owned()));
    }
}

#[test]
fn bytes_may_arrive_one_by_one() {
    for mode in MODES {
        let mut pair = Setup { rounds: 3, ..Setup::new(mode) }.pair();
        pair.run(1);
        pair.authenticate();
        open(&mut pair);
    }
}

#[test]
fn the_events_come_in_order() {
    let mut pair = Setup::new(ConMode::Crc).pair();
    pair.run(usize::MAX);
    for (side, from, us) in [
        (&pair.client, EntityType::OSD, addr(CLIENT_ADDR)),
        (&pair.server, EntityType::CLIENT, addr(SERVER_ADDR)),
    ] {
        let [Event::Hello { kind, our_addr }, Event::Authenticated { identity, global_id, mode }] =
            &side.events[..]
        else {
            panic!("{:?}", side.events);
        };
        assert_eq!((*kind, *our_addr, *global_id, *mode), (from, us, GLOBAL_ID, ConMode::Crc));
        assert_eq!(identity.is_some(), from == EntityType::CLIENT);
    }
}

#[test]
fn a_refused_client_may_try_again_or_give_up() {
    let mut pair = Setup { refusals: 2, retries: 2, ..Setup::new(ConMode::Secure) }.pair();
    pair.authenticate();

    let mut pair = Setup { refusals: 2, retries: 1, ..Setup::new(ConMode::Secure) }.pair();
    pair.run(usize::MAX);
    let refused = AuthError::Refused { errno: Errno::EOPNOTSUPP, methods: vec![2] };
    assert_eq!(pair.client.error, Some(ProtoError::Auth(refused)));
}

#[test]
fn authentication_does_not_go_on_for_ever() {
    let mut pair = Setup { refusals: u32::MAX, retries: u32::MAX, ..Setup::new(ConMode::Crc) }.pair();
    pair.run(usize::MAX);
    let too_long = ProtoError::Misbehaving(Misbehaviour::HandshakeTooLong { max: 256 << 10 });
    assert!([pair.client.error, pair.server.error].contains(&Some(too_long)));
}

#[test]
fn other_session_keys_are_noticed() {
    for mode in MODES {
        let mut setup = Setup::new(mode);
        setup.client_secrets.session_key[0] ^= 1;
        let mut pair = setup.pair();
        pair.run(usize::MAX);
        for side in [pair.client, pair.server] {
            assert_eq!(side.error, Some(ProtoError::Misbehaving(Misbehaviour::Signature)));
        }
    }
}

#[test]
fn other_connection_secrets_are_noticed() {
    for byte in [0, 16, 28] {
        let mut setup = Setup::new(ConMode::Secure);
        setup.client_secrets.connection_secret[byte] ^= 1;
        let mut pair = setup.pair();
        pair.run(usize::MAX);
        let errors = [pair.client.error, pair.server.error];
        assert!(errors.contains(&Some(ProtoError::Crypto(CryptoError::Tag))), "byte {byte}: {errors:?}");
    }
}

#[test]
fn secure_mode_needs_a_secret() {
    let mut setup = Setup::new(ConMode::Secure);
    setup.server_secrets.connection_secret.truncate(39);
    let mut pair = setup.pair();
    pair.run(usize::MAX);
    assert_eq!(pair.server.error, Some(ProtoError::Crypto(CryptoError::ShortSecret(39))));
}

/// Without cephx there is no session key: the signatures are zeros.
#[test]
fn no_key_no_signature() {
    let mut setup = Setup::new(ConMode::Crc);
    setup.client_secrets.session_key.clear();
    setup.server_secrets.session_key.clear();
    let mut pair = setup.pair();
    pair.authenticate();
    open(&mut pair);
}

/// Cuts the bytes of either direction at each position: no side may complete the handshake or panic.
#[test]
fn nothing_is_established_with_bytes_missing() {
    for mode in MODES {
        let whole = whole_run(mode);
        for (direction, len) in [(Direction::ToServer, whole.0), (Direction::ToClient, whole.1)] {
            for cut in 0..len {
                let mut pair = Setup::new(mode).pair();
                run_to_the_end(&mut pair, &mut |d, at, piece| {
                    if d == direction {
                        piece.truncate(cut.saturating_sub(at));
                    }
                });
                let both = pair.client.is_established() && pair.server.is_established();
                assert!(!both, "{mode:?} {direction:?} cut at {cut}");
                assert_eq!((&pair.client.error, &pair.server.error), (&None, &None));
            }
        }
    }
}

/// Flips a bit of each byte in either direction: checksums, tags or signatures must detect it.
#[test]
fn nothing_is_established_with_bytes_changed() {
    for mode in MODES {
        let whole = whole_run(mode);
        for (direction, len) in [(Direction::ToServer, whole.0), (Direction::ToClient, whole.1)] {
            for at_byte in 0..len {
                let mut pair = Setup::new(mode).pair();
                run_to_the_end(&mut pair, &mut |d, at, piece| {
                    if d == direction && (at..at + piece.len()).contains(&at_byte) {
                        piece[at_byte - at] ^= 1 << (at_byte % 8);
                    }
                });
                let both = pair.client.is_established() && pair.server.is_established();
                assert!(!both, "{mode:?} {direction:?} byte {at_byte} changed");
            }
        }
    }
}

/// The lengths of an undisturbed handshake, to the server and to the client.
fn whole_run(mode: ConMode) -> (usize, usize) {
    let mut pair = Setup::new(mode).pair();
    run_to_the_end(&mut pair, &mut |_, _, _| ());
    assert!(pair.client.is_established() && pair.server.is_established());
    (pair.client.sent.len(), pair.server.sent.len())
}

/// Runs a handshake and issues each command as soon as it is required.
fn run_to_the_end(pair: &mut Pair, tamper: Tamper<'_>) {
    pair.run_tampered(usize::MAX, tamper);
    if matches!(pair.client.events.last(), Some(Event::Authenticated { .. })) {
        let result = pair.client.hs.identify(client_ident());
        pair.client.settle(result);
    }
    pair.run_tampered(usize::MAX, tamper);
    if matches!(pair.server.events.last(), Some(Event::ClientIdent(_))) {
        let result = pair.server.hs.accept(server_ident());
        pair.server.settle(result);
    }
    pair.run_tampered(usize::MAX, tamper);
}

#[test]
fn a_session_is_resumed() {
    for mode in MODES {
        let mut pair = Setup::new(mode).pair();
        pair.authenticate();
        let asked = pair.client_does(|hs| hs.reconnect(reconnect_request()));
        assert!(matches!(&asked[..], [Event::Reconnect(request)] if *request == reconnect_request()));
        let answered = pair.server_does(|hs| hs.reconnect_ok(23));
        assert!(matches!(&answered[..], [Event::Established]));
        let resumed = Session::Resumed { request: reconnect_request(), server_in_seq: 23 };
        for side in [pair.client, pair.server] {
            let Ok(end) = side.hs.into_established() else { panic!("not established") };
            assert_eq!(end.session, resumed);
        }
    }
}

#[test]
fn a_stale_client_retries_on_the_same_connection() {
    let mut pair = Setup::new(ConMode::Secure).pair();
    pair.authenticate();
    pair.client_does(|hs| hs.reconnect(reconnect_request()));
    let answer = pair.server_does(|hs| hs.retry(7));
    assert!(matches!(&answer[..], [Event::Retry { connect_seq: 7 }]));
    pair.client_does(|hs| hs.reconnect(reconnect_request()));
    let answer = pair.server_does(|hs| hs.retry_global(9));
    assert!(matches!(&answer[..], [Event::RetryGlobal { global_seq: 9 }]));
    pair.client_does(|hs| hs.reconnect(reconnect_request()));
    let answer = pair.server_does(|hs| hs.reconnect_ok(1));
    assert!(matches!(&answer[..], [Event::Established]));
}

#[test]
fn a_reset_client_opens_a_new_session() {
    for full in [true, false] {
        let mut pair = Setup::new(ConMode::Crc).pair();
        pair.authenticate();
        pair.client_does(|hs| hs.reconnect(reconnect_request()));
        let answer = pair.server_does(|hs| hs.reset(full));
        assert!(matches!(&answer[..], [Event::Reset { full: f }] if *f == full));
        let again = pair.client.hs.reconnect(reconnect_request());
        assert_eq!(again, Err(ProtoError::Misuse(Misuse::State("reconnect"))));
        open(&mut pair);
    }
}

#[test]
fn wait_ends_it() {
    for resumes in [true, false] {
        let mut pair = Setup::new(ConMode::Crc).pair();
        pair.authenticate();
        pair.client_does(|hs| match resumes {
            true => hs.reconnect(reconnect_request()),
            false => hs.identify(client_ident()),
        });
        let answer = pair.server_does(|hs| hs.wait());
        assert!(matches!(&answer[..], [Event::Wait]));
        assert!(pair.client.hs.identify(client_ident()).is_err());
        assert!(pair.client.hs.into_established().is_err());
    }
}

#[test]
fn missing_features_are_told_both_ways() {
    let mut pair = Setup::new(ConMode::Crc).pair();
    pair.authenticate();
    pair.client_does(|hs| hs.identify(client_ident()));
    let answer = pair.server_does(|hs| hs.missing_features(0x30));
    assert!(matches!(&answer[..], [Event::MissingFeatures { features: 0x30 }]));

    let mut pair = Setup::new(ConMode::Crc).pair();
    pair.authenticate();
    let mut demanding = client_ident();
    demanding.required_features = 1 << 63;
    pair.client_does(|hs| hs.identify(demanding));
    pair.server_does(|hs| hs.accept(server_ident()));
    let lacks = ProtoError::Unsupported(Unsupported::Features { missing: 1 << 63 });
    assert_eq!(pair.client.error, Some(lacks));
}

#[test]
fn a_client_without_an_address_is_refused() {
    let mut pair = Setup::new(ConMode::Crc).pair();
    pair.authenticate();
    let mut nobody = client_ident();
    nobody.addrs.0.clear();
    pair.client_does(|hs| hs.identify(nobody));
    assert_eq!(pair.server.error, Some(ProtoError::Misbehaving(Misbehaviour::NoAddress(Tag::ClientIdent))));
}

#[test]
fn commands_at_the_wrong_time_change_nothing() {
    let misuse = |name| Err(ProtoError::Misuse(Misuse::State(name)));
    let mut pair = Setup::new(ConMode::Crc).pair();
    assert_eq!(pair.client.hs.identify(client_ident()), misuse("identify"));
    assert_eq!(pair.client.hs.accept(server_ident()), misuse("accept"));
    assert_eq!(pair.server.hs.identify(client_ident()), misuse("identify"));
    assert_eq!(pair.server.hs.wait(), misuse("wait"));
    pair.authenticate();
    assert_eq!(pair.server.hs.accept(server_ident()), misuse("accept"));
    pair.client_does(|hs| hs.identify(client_ident()));
    assert_eq!(pair.server.hs.reconnect_ok(1), misuse("reconnect_ok"));
    assert_eq!(pair.server.hs.retry(1), misuse("retry"));
    assert_eq!(pair.server.hs.reset(true), misuse("reset"));
    let answered = pair.server_does(|hs| hs.accept(server_ident()));
    assert!(matches!(&answered[..], [Event::Established]));
    assert_eq!(pair.server.hs.accept(server_ident()), misuse("accept"));
}

#[test]
fn peers_that_speak_something_else_are_told_apart() {
    let got = |bytes: &[u8]| {
        let mut pair = Setup::new(ConMode::Crc).pair();
        pair.server.deliver(bytes);
        pair.server.error
    };
    let unsupported = |u| Some(ProtoError::Unsupported(u));
    assert_eq!(got(b"ceph v027"), unsupported(Unsupported::Banner(*b"ceph v02")));
    assert_eq!(got(b"GET"), unsupported(Unsupported::Banner(*b"GET\0\0\0\0\0")));
    assert_eq!(got(b"ceph v"), None);
    let banner = |payload: &[u8]| [b"ceph v2\n", &(payload.len() as u16).to_le_bytes()[..], payload].concat();
    let features =
        |supported: u64, required: u64| banner(&[supported.to_le_bytes(), required.to_le_bytes()].concat());
    assert_eq!(got(&features(0, 0)), unsupported(Unsupported::Revision { supported: 0 }));
    assert_eq!(got(&features(7, 4)), unsupported(Unsupported::Required { missing: 4 }));
    assert_eq!(got(&features(3, 1)), None);
    let too_long = Misbehaviour::BannerLen(0xffff);
    assert_eq!(got(b"ceph v2\n\xff\xff"), Some(ProtoError::Misbehaving(too_long)));
    assert!(matches!(got(&banner(&[1; 8])), Some(ProtoError::Misbehaving(Misbehaviour::Payload { .. }))));
    assert_eq!(got(&banner(&[[1, 0, 0, 0, 0, 0, 0, 0]; 3].concat())), None);
}
