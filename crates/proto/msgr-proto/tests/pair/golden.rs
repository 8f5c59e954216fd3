//! Bytes of a stock 16.2.15 cluster in crc mode (the fuzzers' corpus) are decoded, and encoded again to
//! the same bytes.
//!
//! In the captured handshakes the signatures are replaced by zeros, because their keys are not
//! available; the stock tests check real ones.

use std::path::Path;

use bytes::Bytes;
use loligo_cephx::handshake::{AuthKeys, AuthMethod, ConMode, Identity, ServerAuth, ServerStep};
use loligo_msgr_proto::{Event, FLAG_LOSSY, Frame, Handshake, OutBuf};
use loligo_wire::{EntityAddr, EntityName, EntityType, GlobalId};

use crate::util::{CLIENT_ADDR, Setup, local, server_ident};

fn captured(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/corpus").join(name);
    std::fs::read(path).expect("the corpus is there")
}

#[test]
fn stock_messages_are_written_as_they_are_read() {
    let mut seen = Vec::new();
    for name in [
        "pacific_mon_client",
        "pacific_mon_server",
        "pacific_osd_read_client",
        "pacific_osd_read_server",
        "pacific_osd_write_client",
        "pacific_osd_write_server",
    ] {
        // The first byte is an argument of the fuzz target.
        let stream = captured(&format!("frames/{name}")).split_off(1);
        let (mut client, mut server) = Setup::new(ConMode::Crc).pair().established();
        server.opener.spare().extend_from_slice(&stream);
        let mut again = OutBuf::new();
        while let Some(frame) = server.opener.next().expect("stock frames are good") {
            let Frame::Message(msg) = frame else { panic!("{frame:?}") };
            seen.push((msg.header.kind, msg.data_len()));
            let sealed = client.sealer.message(&msg, &mut again);
            sealed.expect("it can be sealed");
        }
        assert_eq!(server.opener.buffered(), 0);
        assert_eq!(again.take(), stream, "{name}");
    }
    const OSD_OP: u16 = 42;
    const OSD_OP_REPLY: u16 = 43;
    for of_5000_bytes in [(OSD_OP, 5000), (OSD_OP_REPLY, 5000)] {
        assert!(seen.contains(&of_5000_bytes), "{seen:?}");
    }
}

/// Accepts every peer, whatever its payload.
struct Trusting;

impl ServerAuth for Trusting {
    fn request(&mut self, peer: EntityType, method: AuthMethod, _: &[u32], payload: &[u8]) -> ServerStep {
        assert_eq!((peer, method), (EntityType::CLIENT, AuthMethod::CEPHX));
        assert!(!payload.is_empty());
        ServerStep::More(Bytes::new())
    }

    fn more(&mut self, _: &[u8]) -> ServerStep {
        let name = EntityName::client("admin");
        ServerStep::Done {
            identity: Identity { name, global_id: GlobalId(1), caps: String::new(), challenge: 0 },
            mode: ConMode::Crc,
            payload: Bytes::new(),
            keys: AuthKeys::default(),
        }
    }
}

#[test]
fn a_stock_client_is_understood() {
    for name in ["pacific_mon_client", "pacific_osd_client"] {
        let stream = captured(&format!("handshake/{name}")).split_off(2);
        let mut hs = Handshake::server(local(EntityType::OSD, CLIENT_ADDR), Box::new(Trusting));
        hs.spare().extend_from_slice(&stream);
        hs.receive().expect("a stock client does it right");
        let events: Vec<_> = std::iter::from_fn(|| hs.poll_event()).collect();
        let [
            Event::Hello { kind: EntityType::CLIENT, our_addr },
            Event::Authenticated { .. },
            Event::ClientIdent(ident),
        ] = &events[..]
        else {
            panic!("{events:?}");
        };
        assert_eq!(our_addr.sock, ident.target_addr.sock);
        assert_eq!((ident.flags, ident.cookie), (FLAG_LOSSY, 0));
        assert_eq!(ident.addrs.0.len(), 1);
        assert_ne!(ident.addrs.0[0], EntityAddr::default());
        assert_eq!(ident.required_features & !ident.supported_features, 0);
        hs.accept(server_ident()).expect("it can be accepted");
        assert!(matches!(hs.poll_event(), Some(Event::Established)));
    }
}
