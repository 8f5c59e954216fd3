//! Bytes of a stock 16.2.15 cluster without msgr2 (the fuzzers' corpus) are read: the handshakes with
//! monitor and OSD, and the messages that follow them. Signatures are not checked, because their keys are
//! not available; the tests against stock programs check real ones.

use std::path::Path;

use bytes::Bytes;
use loligo_cephx::handshake::{
    AuthError, AuthKeys, AuthMethod, AuthRequest, ClientAuth, ConMode, Identity, ServerAuth, ServerStep,
};
use loligo_msgr_proto::{Established, Event, Frame, Limits, Local, v1};
use loligo_wire::features::SUPPORTED;
use loligo_wire::message::Msg;
use loligo_wire::{EntityName, EntityType, Errno, GlobalId};

use super::{addr, connect};
use crate::util::{CLIENT_ADDR, SERVER_ADDR};

const AUTH: u16 = 17;
const OSD_OP: u16 = 42;
const OSD_OP_REPLY: u16 = 43;

/// What one side has said; the first two bytes are arguments of the fuzz target.
fn captured(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/corpus/v1_handshake").join(name);
    std::fs::read(path).expect("the corpus is there").split_off(2)
}

/// Accepts every peer after one more round.
struct Trusting;

impl ServerAuth for Trusting {
    fn request(&mut self, peer: EntityType, method: AuthMethod, _: &[u32], payload: &[u8]) -> ServerStep {
        assert_eq!((peer, method), (EntityType::CLIENT, AuthMethod::CEPHX));
        assert!(!payload.is_empty());
        ServerStep::More(Bytes::from_static(b"challenge"))
    }

    fn more(&mut self, _: &[u8]) -> ServerStep {
        let identity = Identity {
            name: EntityName::client("admin"),
            global_id: GlobalId(1),
            caps: String::new(),
            challenge: 0,
        };
        ServerStep::Done { identity, mode: ConMode::Crc, payload: Bytes::new(), keys: AuthKeys::default() }
    }
}

impl ClientAuth for Trusting {
    fn request(&mut self) -> Result<AuthRequest, AuthError> {
        let payload = Bytes::from_static(b"authorizer");
        Ok(AuthRequest { method: AuthMethod::CEPHX, modes: vec![ConMode::Crc], payload })
    }

    fn bad_method(
        &mut self,
        _: AuthMethod,
        errno: Errno,
        methods: &[u32],
        _: &[u32],
    ) -> Result<AuthRequest, AuthError> {
        Err(AuthError::Refused { errno, methods: methods.to_vec() })
    }

    fn more(&mut self, payload: &[u8]) -> Result<Bytes, AuthError> {
        assert!(payload.len() >= 9, "a challenge");
        Ok(Bytes::from_static(b"answer"))
    }

    fn done(&mut self, _: GlobalId, _: ConMode, payload: &[u8]) -> Result<AuthKeys, AuthError> {
        assert!(!payload.is_empty(), "a proof");
        Ok(AuthKeys::default())
    }
}

fn local(kind: EntityType, peer: ([u8; 4], u16)) -> Local {
    Local { kind, peer_addr: addr(peer, 0), limits: Limits::default() }
}

/// The end of the handshake in which a server of this kind has heard this.
fn heard_by_server(kind: EntityType, stream: &[u8]) -> (Established, v1::Request) {
    let offer = v1::Offer { addr: addr(SERVER_ADDR, 0), features: SUPPORTED, num: 0, global_seq: 1 };
    let mut hs = v1::Handshake::server(local(kind, CLIENT_ADDR), offer, Box::new(Trusting));
    hs.spare().extend_from_slice(stream);
    hs.receive().expect("a stock client");
    let mut asked = None;
    while let Some(event) = hs.poll_event() {
        if let Event::Connect(request) = event {
            hs.accept(v1::Accept { lossy: true, ..v1::Accept::default() }).expect("it is accepted");
            asked = Some(request);
        }
    }
    (hs.into_established().expect("the session is open"), asked.expect("it has asked"))
}

fn heard_by_client(server: EntityType, stream: &[u8]) -> Established {
    let local = local(EntityType::CLIENT, SERVER_ADDR);
    let mut hs = v1::Handshake::client(local, server, Box::new(Trusting));
    hs.spare().extend_from_slice(stream);
    hs.receive().expect("a stock server");
    while let Some(event) = hs.poll_event() {
        if let Event::Introduced { .. } = event {
            hs.connect(connect()).expect("it answers");
        }
    }
    hs.into_established().expect("the session is open")
}

fn messages(end: &mut Established) -> Vec<Msg> {
    let frames = std::iter::from_fn(|| end.opener.next().expect("stock frames are good"));
    let of_frame = |frame| match frame {
        Frame::Message(msg) => Some(msg),
        _ => None,
    };
    frames.filter_map(of_frame).collect()
}

#[test]
fn a_stock_client_is_understood() {
    let (mut mon, request) = heard_by_server(EntityType::MON, &captured("pacific_mon_client"));
    assert_eq!(request.connect_seq, 0);
    assert_eq!(mon.received, 2, "its two messages of the authentication");
    assert!(!messages(&mut mon).is_empty(), "it goes on");
    let (mut osd, _) = heard_by_server(EntityType::OSD, &captured("pacific_osd_write_client"));
    let msgs = messages(&mut osd);
    let kinds: Vec<_> = msgs.iter().map(|msg| (msg.header.kind, msg.data_len())).collect();
    assert!(kinds.contains(&(OSD_OP, 5000)), "{kinds:?}");
    assert!(msgs.iter().zip(1..).all(|(msg, seq)| msg.header.seq == seq), "numbered from 1");
}

#[test]
fn a_stock_server_is_understood() {
    let mut mon = heard_by_client(EntityType::MON, &captured("pacific_mon_server_says"));
    assert!(mon.peer.global_id.0 > 0 && messages(&mut mon).iter().all(|msg| msg.header.kind != AUTH));
    let mut osd = heard_by_client(EntityType::OSD, &captured("pacific_osd_server_says_read"));
    let kinds: Vec<_> = messages(&mut osd).iter().map(|msg| (msg.header.kind, msg.data_len())).collect();
    assert!(kinds.contains(&(OSD_OP_REPLY, 5000)), "{kinds:?}");
}
