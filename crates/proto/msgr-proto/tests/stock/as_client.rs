//! Connects to a stock monitor. `CEPH_CONF` names a configuration whose `mon host` has a `v2:` address.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use loligo_cephx::client::{AuthClient, ClientConfig};
use loligo_cephx::handshake::{AuthError, AuthKeys, AuthMethod, AuthRequest, ClientAuth, ConMode};
use loligo_cephx::keyring::Keyring;
use loligo_msgr_proto::{
    ClientIdent, Established, Event, FLAG_LOSSY, Frame, Handshake, Limits, Local, ProtoError, Reconnect,
};
use loligo_wire::features::SUPPORTED;
use loligo_wire::message::{Header, Msg};
use loligo_wire::{EntityAddr, EntityName, EntityType, Errno, GlobalId, Reader, UTime, Writer};

use crate::{drive, next_frame};

/// Requests authentication method none, and gives up when refused.
struct AskForNone;

impl ClientAuth for AskForNone {
    fn request(&mut self) -> Result<AuthRequest, AuthError> {
        Ok(AuthRequest { method: AuthMethod::NONE, modes: vec![ConMode::Crc], payload: Bytes::new() })
    }

    fn bad_method(
        &mut self,
        method: AuthMethod,
        errno: Errno,
        methods: &[u32],
        _: &[u32],
    ) -> Result<AuthRequest, AuthError> {
        assert_eq!(method, AuthMethod::NONE);
        Err(AuthError::Refused { errno, methods: methods.to_vec() })
    }

    fn more(&mut self, _: &[u8]) -> Result<Bytes, AuthError> {
        Err(AuthError::PeerUnproven("it asks for more"))
    }

    fn done(&mut self, _: GlobalId, _: ConMode, _: &[u8]) -> Result<AuthKeys, AuthError> {
        Err(AuthError::PeerUnproven("it is content with nothing"))
    }
}

fn stock_monitor() -> SocketAddr {
    let path = std::env::var("CEPH_CONF").expect("CEPH_CONF names the stock cluster's configuration");
    let conf = std::fs::read_to_string(&path).expect("the configuration can be read");
    let from = conf.find("v2:").expect("mon host has a v2 address") + 3;
    let text: String =
        conf[from..].chars().take_while(|c| !matches!(c, ',' | ']' | '/' | '\n' | ' ')).collect();
    text.parse().expect("the address can be read")
}

fn connect() -> (TcpStream, Local) {
    let mon = stock_monitor();
    let socket = TcpStream::connect(mon).expect("the monitor listens");
    socket.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout can be set");
    let local =
        Local { kind: EntityType::CLIENT, peer_addr: EntityAddr::msgr2(mon), limits: Limits::default() };
    (socket, local)
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn a_stock_monitor_says_hello_and_refuses_to_go_without_authentication() {
    let (mut socket, local) = connect();
    let mut hs = Handshake::client(local, Box::new(AskForNone));
    let mut hello = None;
    let end = drive(&mut hs, &mut socket, &mut |_, event| {
        if let Event::Hello { kind, our_addr } = event {
            hello = Some((kind, our_addr));
        }
        Ok(false)
    });
    let (kind, our_addr) = hello.expect("HELLO comes first");
    assert_eq!(kind, EntityType::MON);
    assert_eq!(our_addr.sock, socket.local_addr().ok());
    assert_eq!(end, Err(ProtoError::Auth(AuthError::Refused { errno: Errno::EACCES, methods: vec![2] })));
}

#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn a_stock_monitor_answers_in_both_modes() {
    for mode in [ConMode::Crc, ConMode::Secure] {
        let (mut socket, local) = connect();
        let mut hs = Handshake::client(local, authenticate_as_admin(mode));
        drive(&mut hs, &mut socket, &mut |hs, event| match event {
            Event::Authenticated { global_id, mode: agreed, .. } => {
                assert_eq!(agreed, mode);
                hs.identify(ident(&local.peer_addr, global_id)).map(|()| true)
            }
            _ => Ok(false),
        })
        .expect("the session opens");
        let conn = hs.into_established().expect("it is open");
        assert_eq!((conn.peer.kind, conn.peer.mode), (EntityType::MON, mode));
        ask_for_a_version(conn, &mut socket);
    }
}

/// A stock monitor keeps no sessions of clients: it resets a resumed session and accepts a new one on
/// the same connection.
#[test]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
fn a_stock_monitor_resets_a_session_that_it_does_not_know() {
    let (mut socket, local) = connect();
    let mut hs = Handshake::client(local, authenticate_as_admin(ConMode::Secure));
    let mut was_reset = false;
    drive(&mut hs, &mut socket, &mut |hs, event| match event {
        Event::Authenticated { global_id, .. } => {
            let request = Reconnect {
                addrs: ident(&local.peer_addr, global_id).addrs,
                client_cookie: 1,
                server_cookie: 2,
                global_seq: 3,
                connect_seq: 4,
                msg_seq: 5,
            };
            hs.reconnect(request).map(|()| true)
        }
        Event::Reset { full } => {
            was_reset = full;
            hs.identify(ident(&local.peer_addr, GlobalId(1))).map(|()| true)
        }
        _ => Ok(false),
    })
    .expect("the session opens");
    assert!(was_reset);
    ask_for_a_version(hs.into_established().expect("it is open"), &mut socket);
}

/// Sends a keepalive and asks for the newest version of the osdmap (MMonGetVersion), and reads until
/// both have been answered.
fn ask_for_a_version(mut conn: Established, socket: &mut TcpStream) {
    const MON_GET_VERSION: u16 = 19;
    const MON_GET_VERSION_REPLY: u16 = 20;
    let mut front = Writer::new();
    front.u64(77);
    front.put("osdmap");
    let header = Header {
        seq: 1,
        kind: MON_GET_VERSION,
        version: 1,
        compat_version: 1,
        priority: Header::PRIORITY_DEFAULT,
        ..Header::default()
    };
    let out = &mut conn.out;
    conn.sealer.message(&Msg { header, front: front.into_bytes(), ..Msg::default() }, out).expect("it fits");
    let now = UTime { sec: 1_000_000, nsec: 5 };
    conn.sealer.keepalive2(now, out).expect("it fits");
    socket.write_all(&out.take()).expect("the monitor takes what we write");

    let (mut newest, mut alive) = (None, false);
    while newest.is_none() || !alive {
        match next_frame(&mut conn.opener, socket) {
            Frame::Message(msg) if msg.header.kind == MON_GET_VERSION_REPLY => {
                let mut r = Reader::new(&msg.front);
                assert_eq!(r.u64(), Ok(77));
                newest = r.u64().ok();
            }
            Frame::Keepalive2Ack(theirs) => {
                assert_eq!(theirs, now);
                alive = true;
            }
            _ => {}
        }
    }
    assert!(newest.is_some_and(|epoch| epoch > 0));
}

fn authenticate_as_admin(mode: ConMode) -> Box<dyn ClientAuth> {
    let conf = std::env::var("CEPH_CONF").expect("CEPH_CONF names the stock cluster's configuration");
    let keyring =
        std::fs::read_to_string(Path::new(&conf).with_file_name("keyring")).expect("a keyring beside it");
    let keyring = Keyring::parse(&keyring).expect("a keyring");
    let name = EntityName::client("admin");
    let key = keyring.key(&name).cloned();
    let mut config = ClientConfig::new(name, key, UTime::now);
    config.mon_modes = vec![mode];
    AuthClient::new(config).mon_auth()
}

fn ident(mon: &EntityAddr, global_id: GlobalId) -> ClientIdent {
    ClientIdent {
        addrs: EntityAddr::msgr2(([127, 0, 0, 1], 0).into()).with_nonce(std::process::id()).into(),
        target_addr: *mon,
        gid: global_id.0 as i64,
        global_seq: 1,
        supported_features: SUPPORTED,
        required_features: 0,
        flags: FLAG_LOSSY,
        cookie: 0,
    }
}
