//! Every way through the handshake, in pieces of any length, and peers that mean ill.

use loligo_cephx::handshake::{AuthError, AuthMethod};
use loligo_cephx::key::{CryptoKey, KeyType};
use loligo_cephx::server::AuthConfig;
use loligo_msgr_proto::{Event, Misbehaviour, Misuse, ProtoError, Session, Unsupported, v1};
use loligo_wire::features::{CEPHX_V2, MSG_AUTH, RECONNECT_SEQ, SUPPORTED};
use loligo_wire::message::mon::MAuthReply;
use loligo_wire::message::mon::{MAuth, MMonSubscribe};
use loligo_wire::message::{Data, Header, Message as _, Msg};
use loligo_wire::{EntityType, Errno, Reader, UTime, Writer};

use super::{Pair, World, addr, connect, is_cephx};
use crate::util::{CLIENT_ADDR, SERVER_ADDR};

fn lossy() -> v1::Accept {
    v1::Accept { lossy: true, ..v1::Accept::default() }
}

#[test]
fn a_client_gets_tickets_from_a_monitor_and_shows_them_to_an_osd() {
    for world in [World::cephx(), World::none()] {
        for chunk in [1, 7, usize::MAX] {
            let (client, server) = world.to_mon().in_pieces(chunk).opened(connect(), lossy());
            let rounds = if is_cephx(&world) { 2 } else { 1 };
            assert_eq!((client.sent, client.received), (rounds, rounds), "messages of the handshake");
            assert_eq!((server.sent, server.received), (rounds, rounds));
            let identity = server.peer.identity.expect("the client is known");
            assert_eq!((identity.name.id.as_str(), identity.global_id), ("admin", client.peer.global_id));
            assert_eq!(client.peer.global_id, world.client.global_id());
            assert_eq!(client.peer.our_addr, addr(CLIENT_ADDR, 0));

            let (client, server) = world.to_osd().in_pieces(chunk).opened(connect(), lossy());
            assert_eq!((client.sent, server.received), (0, 0));
            let identity = server.peer.identity.expect("the client is known");
            assert_eq!((identity.name.id.as_str(), identity.global_id), ("admin", world.client.global_id()));
            let Session::V1(opened) = client.session else { panic!("{:?}", client.session) };
            assert_eq!((opened.global_seq, opened.connect_seq, opened.lossy), (8, 1, true));
            assert_eq!(opened.peer_in_seq, Some(0));
        }
    }
}

/// Stock clients take the first id for theirs, and begin anew when they are told another one.
#[test]
fn a_monitor_tells_the_same_global_id_from_the_first_answer_on() {
    let world = World::cephx();
    let mut pair = world.to_mon();
    pair.connect(connect()).expect("it asks");
    let told = ids_in(&pair.answered);
    assert_eq!(told, [world.client.global_id().0; 2]);
}

/// The global ids in a monitor's answers.
fn ids_in(mut bytes: &[u8]) -> Vec<u64> {
    // Banner, two addresses, the reply and what was received.
    bytes = &bytes[9 + 2 * 136 + 26 + 8..];
    let mut ids = Vec::new();
    while let Some(start) = bytes.get(..54) {
        let front = u32::from_le_bytes(start[23..27].try_into().expect("four bytes")) as usize;
        let front = &bytes[54..54 + front];
        let reply = MAuthReply::decode(&Header::default(), &mut Reader::new(front), &Data::new());
        ids.push(reply.expect("an answer").global_id.0);
        bytes = &bytes[54 + front.len() + 21..];
    }
    ids
}

#[test]
fn the_server_sees_what_the_client_says() {
    let world = World::none();
    world.enlist();
    let mut pair = world.to_osd();
    let asked = pair.connect(v1::Connect { connect_seq: 5, lossy: false, ..connect() }).expect("it asks");
    let [Event::Hello { kind, .. }, Event::Authenticated { .. }, Event::Connect(request)] = &asked[..] else {
        panic!("{asked:?}");
    };
    assert_eq!(*kind, EntityType::CLIENT);
    assert_eq!(request.addr, addr(CLIENT_ADDR, 99));
    assert_eq!((request.global_seq, request.connect_seq, request.lossy), (3, 5, false));
    let introduced =
        |event: &Event| matches!(event, Event::Introduced { addr: a } if *a == addr(SERVER_ADDR, 7));
    assert!(pair.client_events.iter().any(introduced), "{:?}", pair.client_events);
}

#[test]
fn a_wrong_key_is_refused() {
    let key = || Some(CryptoKey::generate_of(KeyType::Aes, UTime::now()));
    let world = World::with(AuthConfig::new(UTime::now), key(), key());
    let refused = world.to_mon().connect(connect());
    let why = ProtoError::Auth(AuthError::Refused { errno: Errno::EACCES, methods: Vec::new() });
    assert_eq!(refused.expect_err("the key is wrong"), why);
}

#[test]
fn methods_must_meet() {
    let cephx = AuthConfig::new(UTime::now);
    let world = World::with(cephx, None, None);
    let refused = world.to_mon().connect(connect());
    let why = AuthError::Refused { errno: Errno::EOPNOTSUPP, methods: vec![AuthMethod::CEPHX.0] };
    assert_eq!(refused.expect_err("the monitor wants cephx"), ProtoError::Auth(why));
}

/// A ticket for another cluster's OSD, and none at all.
#[test]
fn an_authorizer_of_another_cluster_is_refused() {
    let (here, there) = (World::cephx(), World::cephx());
    there.enlist();
    let client = there.client.service_auth(EntityType::OSD, there.client.global_id());
    let server = here.server.service_acceptor(EntityType::OSD);
    let refused = Pair::new(EntityType::OSD, client, server).connect(connect());
    let why = ProtoError::Auth(AuthError::Refused { errno: Errno::EACCES, methods: Vec::new() });
    assert_eq!(refused.expect_err("it is not known here"), why);
}

#[test]
fn a_refused_request_may_be_made_again_without_another_challenge() {
    let world = World::cephx();
    world.enlist();
    let mut pair = world.to_osd();
    let resuming = |connect_seq| v1::Connect { connect_seq, lossy: false, in_seq: 17, ..connect() };
    pair.connect(resuming(1)).expect("it asks");
    let told = pair.answer(|server| server.retry(4)).expect("it may ask again");
    assert!(matches!(&told[..], [Event::Retry { connect_seq: 4 }]), "{told:?}");
    for step in 0..2 {
        let asked = pair.connect(resuming(5)).expect("it asks");
        assert!(matches!(&asked[..], [Event::Connect(request)] if request.connect_seq == 5), "{asked:?}");
        let told = match step {
            0 => pair.answer(|server| server.retry_global(9)),
            _ => pair.answer(|server| server.reset()),
        };
        match (step, &told.expect("it may ask again")[..]) {
            (0, [Event::RetryGlobal { global_seq: 9 }]) | (1, [Event::Reset { full: true }]) => {}
            (_, other) => panic!("{other:?}"),
        }
    }
    pair.connect(v1::Connect { global_seq: 10, ..resuming(5) }).expect("it asks");
    let accept = v1::Accept { in_seq: 23, ..v1::Accept::default() };
    pair.answer(|server| server.accept(accept)).expect("it is accepted");
    let (client, server) = pair.ends();
    let (Session::V1(client), Session::V1(server)) = (client.session, server.session) else {
        panic!("another version");
    };
    assert_eq!((client.peer_in_seq, server.peer_in_seq), (Some(23), Some(17)));
    assert_eq!((client.connect_seq, server.connect_seq, server.global_seq), (6, 6, 10));
    assert!(!client.lossy && !server.lossy);
}

#[test]
fn two_that_meet_and_features_that_are_missing_end_the_handshake() {
    let world = World::none();
    world.enlist();
    let mut pair = world.to_osd();
    pair.connect(connect()).expect("it asks");
    let told = pair.answer(|server| server.wait()).expect("it is told");
    assert!(matches!(&told[..], [Event::Wait]), "{told:?}");
    assert_eq!(pair.client.connect(connect()), Err(Misuse::State("connect").into()));

    let mut pair = world.to_osd();
    pair.connect(connect()).expect("it asks");
    let bit = 1 << 17;
    let told = pair.answer(|server| server.missing_features(bit)).expect("it is told");
    assert!(matches!(&told[..], [Event::MissingFeatures { features }] if *features == bit), "{told:?}");

    let mut pair = world.to_osd();
    pair.connect(v1::Connect { required_features: bit, ..connect() }).expect("it asks");
    let error = pair.answer(|server| server.accept(lossy())).expect_err("the server lacks it");
    assert_eq!(error, Unsupported::Features { missing: bit }.into());
}

/// Without the second version of cephx there is no challenge, and an authorizer could be repeated.
#[test]
fn cephx_without_a_challenge_is_refused() {
    let world = World::cephx();
    world.enlist();
    let mut pair = world.to_osd();
    pair.connect(v1::Connect { features: SUPPORTED & !CEPHX_V2, ..connect() }).expect("it asks");
    let told = std::mem::take(&mut pair.client_events);
    let missing =
        |event: &Event| matches!(event, Event::MissingFeatures { features } if features & CEPHX_V2 != 0);
    assert!(told.iter().any(missing), "{told:?}");
}

#[test]
fn a_peer_that_begins_anew_is_not_told_what_arrived() {
    let world = World::none();
    world.enlist();
    let fresh = v1::Accept { fresh: true, ..v1::Accept::default() };
    let (client, _) = world.to_osd().opened(connect(), fresh);
    let Session::V1(client) = client.session else { panic!("another version") };
    assert_eq!(client.peer_in_seq, None);
    let old = v1::Connect { features: SUPPORTED & !RECONNECT_SEQ, ..connect() };
    let (_, server) = world.to_osd().opened(old, lossy());
    let Session::V1(server) = server.session else { panic!("another version") };
    assert_eq!(server.peer_in_seq, None);
}

/// What somebody has recorded, the answer to the challenge included, is worth nothing on another
/// connection.
#[test]
fn a_recorded_conversation_cannot_be_repeated() {
    let world = World::cephx();
    world.enlist();
    for kind in [EntityType::MON, EntityType::OSD] {
        let pair = || if kind == EntityType::MON { world.to_mon() } else { world.to_osd() };
        let is_known = |events: &[Event]| events.iter().any(|e| matches!(e, Event::Authenticated { .. }));
        let mut recorded = pair();
        assert!(is_known(&recorded.connect(connect()).expect("it asks")));
        let mut again = pair();
        let _ = said(&mut again.server, &recorded.said);
        let events: Vec<Event> = std::iter::from_fn(|| again.server.poll_event()).collect();
        assert!(!is_known(&events), "{kind}: {events:?}");
    }
}

fn server_of(kind: EntityType) -> v1::Handshake {
    let world = World::cephx();
    let pair = match kind {
        EntityType::MON => world.to_mon(),
        _ => world.to_osd_of_anybody(),
    };
    pair.server
}

impl World {
    /// A pair whose client is not used.
    fn to_osd_of_anybody(&self) -> Pair {
        Pair::new(EntityType::OSD, self.client.mon_auth(), self.server.service_acceptor(EntityType::OSD))
    }
}

fn introduction() -> Vec<u8> {
    let mut w = Writer::new();
    w.raw(b"ceph v027");
    addr(CLIENT_ADDR, 99).encode_legacy(&mut w);
    w.as_slice().to_vec()
}

fn connect_bytes(protocol: u32, auth_len: u32) -> Vec<u8> {
    let mut w = Writer::new();
    w.u64(SUPPORTED);
    [8, 1, 0, protocol, 2, auth_len].into_iter().for_each(|n| w.u32(n));
    w.u8(1);
    w.as_slice().to_vec()
}

fn said(server: &mut v1::Handshake, bytes: &[u8]) -> Result<(), ProtoError> {
    server.spare().extend_from_slice(bytes);
    server.receive()
}

#[test]
fn claimed_lengths_are_bounded_before_their_bytes_arrive() {
    let mut server = server_of(EntityType::OSD);
    said(&mut server, &introduction()).expect("the introduction");
    let error = said(&mut server, &connect_bytes(24, u32::MAX)).expect_err("too long");
    let Misbehaviour::PartTooLong { len, .. } = misbehaviour(error) else { panic!("another reason") };
    assert_eq!(len, u32::MAX);
    assert!(server.spare().capacity() < 1 << 20);

    // A message in front of the authentication may be short, and has one part.
    for (front, data) in [(64 << 10 | 1, 0), (10, 1)] {
        let mut server = server_of(EntityType::MON);
        said(&mut server, &introduction()).expect("the introduction");
        said(&mut server, &connect_bytes(15, 0)).expect("the request");
        let mut bytes = vec![0; 8];
        bytes.extend_from_slice(&message_start(17, front, data));
        let error = said(&mut server, &bytes).expect_err("too long");
        assert!(matches!(misbehaviour(error), Misbehaviour::PartTooLong { .. }));
    }
}

#[test]
fn nobody_talks_for_ever_before_being_known() {
    let mut server = server_of(EntityType::OSD);
    said(&mut server, &introduction()).expect("the introduction");
    let request = [connect_bytes(24, 1000), vec![7; 1000]].concat();
    let error = (0..1000).find_map(|_| said(&mut server, &request).err()).expect("it ends");
    assert!(matches!(misbehaviour(error), Misbehaviour::HandshakeTooLong { .. }));

    // Keepalives of both kinds, acknowledgements, and messages that are ignored.
    let ignored = sealed(&Msg::new(&MMonSubscribe::default()));
    let ack = [8, 0, 0, 0, 0, 0, 0, 0, 0];
    let keepalive = [14, 0, 0, 0, 0, 0, 0, 0, 0];
    for bytes in [&keepalive[..], &[9; 100], &ack, &ignored] {
        let mut server = server_of(EntityType::MON);
        said(&mut server, &introduction()).expect("the introduction");
        said(&mut server, &connect_bytes(15, 0)).expect("the request");
        said(&mut server, &[0; 8]).expect("what has been received");
        let error = (0..100_000).find_map(|_| said(&mut server, bytes).err());
        let error = error.unwrap_or_else(|| panic!("{:?} for ever", &bytes[..9]));
        assert!(matches!(misbehaviour(error), Misbehaviour::HandshakeTooLong { .. }));
    }
}

/// A client that has not authenticated is not served.
#[test]
fn a_monitor_ignores_what_is_not_authentication() {
    let world = World::cephx();
    let mut pair = world.to_mon();
    pair.run().expect("introduced");
    pair.client.connect(connect()).expect("it asks");
    let hello = pair.client.poll_transmit().expect("the request");
    said(&mut pair.server, &hello).expect("the request");
    said(&mut pair.server, &[0; 8]).expect("what has been received");
    let subscribe = sealed(&Msg::new(&MMonSubscribe::default()));
    said(&mut pair.server, &subscribe).expect("it is ignored");
    let bogus = Msg::new(&MAuth { protocol: 2, payload: vec![1, 2, 3].into(), ..MAuth::default() });
    said(&mut pair.server, &sealed(&bogus)).expect("it is refused");
    let events: Vec<Event> = std::iter::from_fn(|| pair.server.poll_event()).collect();
    assert!(matches!(&events[..], [Event::Hello { .. }]), "{events:?}");
}

/// A message with the longer footer, without a signature.
fn sealed(msg: &Msg) -> Vec<u8> {
    use loligo_wire::crc::crc32c;
    let front = msg.front.len() as u32;
    let mut bytes = message_start_of(&msg.header, front, 0);
    bytes.extend_from_slice(&msg.front);
    bytes.extend_from_slice(&crc32c(0, &msg.front).to_le_bytes());
    bytes.extend_from_slice(&[0; 16]);
    bytes.push(1);
    bytes
}

fn message_start(kind: u16, front: u32, data: u32) -> Vec<u8> {
    message_start_of(&Header { kind, seq: 1, ..Header::default() }, front, data)
}

fn message_start_of(header: &Header, front: u32, data: u32) -> Vec<u8> {
    let mut w = Writer::new();
    w.u64(header.seq);
    w.u64(header.tid.0);
    [header.kind, header.priority, header.version].into_iter().for_each(|n| w.u16(n));
    [front, 0, data].into_iter().for_each(|n| w.u32(n));
    w.u16(0);
    w.zeros(9);
    w.u16(header.compat_version);
    w.u16(0);
    let crc = loligo_wire::crc::crc32c(0, w.as_slice());
    w.u32(crc);
    [&[7], w.as_slice()].concat()
}

fn misbehaviour(error: ProtoError) -> Misbehaviour {
    match error {
        ProtoError::Misbehaving(how) => how,
        other => panic!("{other}"),
    }
}

#[test]
fn the_other_version_is_told_from_noise() {
    let mut server = server_of(EntityType::OSD);
    let error = said(&mut server, b"ceph v2\n\x10\0").expect_err("msgr2");
    assert!(error.to_string().contains("v2:HOST:PORT"), "{error}");
    let mut server = server_of(EntityType::OSD);
    let error = said(&mut server, b"GET / HTTP/1.1").expect_err("noise");
    assert!(matches!(error, ProtoError::Unsupported(Unsupported::OldBanner(_))), "{error}");
    // Noise is recognized by its first byte.
    assert!(said(&mut server_of(EntityType::OSD), b"X").is_err());
}

#[test]
fn a_client_of_another_protocol_is_told_which() {
    let mut server = server_of(EntityType::OSD);
    while server.poll_transmit().is_some() {}
    said(&mut server, &introduction()).expect("the introduction");
    said(&mut server, &connect_bytes(15, 0)).expect("a monitor's protocol");
    let reply = server.poll_transmit().expect("the reply");
    assert_eq!((reply[0], &reply[17..21]), (10, &[24, 0, 0, 0][..]));
    // It may try again.
    said(&mut server, &connect_bytes(24, 4)).expect("the right one");
    said(&mut server, b"junk").expect("an authorizer");
    let reply = server.poll_transmit().expect("the reply");
    assert_eq!(reply[0], 11, "a bad authorizer");
}

#[test]
fn without_agreed_signatures_footers_are_short() {
    let world = World::cephx();
    world.enlist();
    let unsigned = v1::Connect { features: SUPPORTED & !MSG_AUTH, ..connect() };
    let (mut client, mut server) = world.to_osd().opened(unsigned, lossy());
    let mut out = loligo_msgr_proto::OutBuf::new();
    client.sealer.message(&Msg::default(), &mut out).expect("it can be sealed");
    let bytes = out.take();
    assert_eq!(bytes.len(), 1 + 53 + 13);
    server.opener.spare().extend_from_slice(&bytes);
    assert!(matches!(server.opener.next(), Ok(Some(_))));
}
