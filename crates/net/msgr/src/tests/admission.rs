//! Goal: greedy peers neither keep others from being served nor exceed the bounds of admission. Method:
//! peers that open as many handshakes and sessions, or announce as much data, as they can.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::*;
use crate::{Admission, AdmissionLimits};

fn admission(change: impl FnOnce(&mut AdmissionLimits)) -> Arc<Admission> {
    let mut limits = AdmissionLimits::for_descriptors(1024);
    change(&mut limits);
    Admission::new(limits)
}

both_versions!(handshakes_that_do_not_end_keep_nobody_out);
async fn handshakes_that_do_not_end_keep_nobody_out() {
    let admission = admission(|limits| (limits.handshakes_max, limits.handshakes_per_host_max) = (8, 6));
    let (server, addr) = Side::server(Peer::echo(), Policy::stateless_server(), |config| {
        config.admission = Arc::clone(&admission);
        config.limits.handshake_timeout = LONG;
    })
    .await;
    let sock = addr.sock.expect("an address");
    let mut silent = Vec::new();
    for _ in 0..100 {
        silent.push(TcpStream::connect(sock).await.expect("it accepts"));
    }
    let client = Side::client(|_| {});
    let conn = client.connect(addr, Policy::lossy_client());
    conn.send(small(1)).expect("queued");
    client.peer.until_count(1).await;
    assert!(client.peer.events().iter().all(|event| event == "connected"), "{:?}", client.peer.events());
    assert!(admission.handshakes() <= 6, "{admission:?}");
    // The oldest handshakes are ended, in the order in which they came.
    for stream in &mut silent[..94] {
        let _ = stream.read_to_end(&mut Vec::new()).await;
    }
    drop(silent);
    server.peer.until("the end of all handshakes", |_| admission.handshakes() == 0).await;
}

both_versions!(sessions_of_one_user_are_bounded_and_those_of_others_go_on);
async fn sessions_of_one_user_are_bounded_and_those_of_others_go_on() {
    let admission = admission(|limits| (limits.sessions_max, limits.sessions_per_user_max) = (100, 5));
    let (server, addr) = Side::server(Peer::echo(), Policy::anonymous_server(), |config| {
        config.admission = Arc::clone(&admission);
    })
    .await;
    let greedy = Side::client(|_| {});
    let open = |side: &Side, user: &str| {
        let auth = OpenDoor::client(user);
        side.msgr.connect(EntityType::OSD, addr, Policy::lossy_client(), auth)
    };
    let first: Vec<_> = (0..5).map(|_| open(&greedy, "greedy")).collect();
    server.peer.until("five sessions", |_| admission.sessions() == 5).await;
    let sixth = open(&greedy, "greedy");
    greedy.peer.until("a refusal", |peer| peer.events().iter().any(|e| e.starts_with("refused"))).await;
    let line = server.peer.errors().pop().expect("a line");
    assert!(line.contains("too many sessions: client.greedy has 5"), "{line}");
    let modest = Side::client(|_| {});
    open(&modest, "modest").send(small(1)).expect("queued");
    modest.peer.until_count(1).await;
    // A slot that is released goes to the next session.
    first[0].mark_down();
    greedy.peer.until("the sixth", |_| sixth.state() == State::Open).await;
    assert_eq!(admission.sessions(), 6);
    server.msgr.shutdown().await;
    assert_eq!(admission.sessions(), 0);
}

both_versions!(a_client_that_comes_again_needs_no_further_place);
async fn a_client_that_comes_again_needs_no_further_place() {
    let admission = admission(|limits| (limits.sessions_max, limits.sessions_per_user_max) = (100, 1));
    let (server, addr) = Side::server(Peer::echo(), Policy::stateless_server(), |config| {
        config.admission = Arc::clone(&admission);
    })
    .await;
    let proxy = crate::testing::FaultProxy::start(addr.sock.expect("an address"), 1, u64::MAX, 0);
    let proxy = proxy.expect("a proxy");
    let client = Side::client(|_| {});
    let through = EntityAddr { sock: Some(proxy.addr()), ..addr };
    for tid in 1..5 {
        // The server has not noticed yet that the former socket is gone.
        let conn = client.connect(through, Policy::lossy_client());
        conn.send(small(tid)).expect("queued");
        client.peer.until_count(tid as usize).await;
    }
    assert_eq!((admission.sessions(), server.peer.errors().len()), (1, 0));
}

/// The bytes that a peer sends of a message that never becomes complete: a beginning that announces its
/// data, then `sent` zero bytes.
fn begun(announced: u32, sent: usize) -> Vec<u8> {
    let mut start = match SPEAKS.get() {
        AddrKind::Legacy => header_v1(announced),
        _ => preamble(announced),
    };
    start.resize(start.len() + sent, 0);
    start
}

fn preamble(announced: u32) -> Vec<u8> {
    let mut preamble = vec![17, 4];
    for (len, align) in [(41_u32, 8_u16), (5, 8), (0, 8), (announced, 4096)] {
        preamble.extend(len.to_le_bytes());
        preamble.extend(align.to_le_bytes());
    }
    preamble.extend([0, 0]);
    preamble.extend(loligo_wire::crc::crc32c(0, &preamble).to_le_bytes());
    preamble
}

/// Tag and header of a message of version 1 with a front of 5 bytes: sequence number and tid, kind, priority
/// and version, the lengths, then what does not matter here.
fn header_v1(announced: u32) -> Vec<u8> {
    let mut header = [1, 1].map(u64::to_le_bytes).concat();
    header.extend([1, 0, 0, 0, 0, 0]);
    header.extend([5, 0, announced].map(u32::to_le_bytes).concat());
    header.extend([0; 15]);
    header.extend(loligo_wire::crc::crc32c(0, &header).to_le_bytes());
    [&[7], &header[..]].concat()
}

/// Completes a client's handshake, then sends `bytes` in place of messages.
async fn open_and_send(addr: EntityAddr, bytes: &[u8]) -> TcpStream {
    use crate::ConnectAuth as _;
    use crate::dialog::Talk;
    use loligo_msgr_proto::{ClientIdent, Event, FLAG_LOSSY, Handshake, Local, v1};
    let sock = addr.sock.expect("an address");
    let mut stream = TcpStream::connect(sock).await.expect("it accepts");
    let local = Local { kind: EntityType::CLIENT, peer_addr: addr, limits: Default::default() };
    let auth = OpenDoor::client("attacker").connector(EntityType::OSD);
    let me = EntityAddr { kind: addr.kind, nonce: rand_nonce(), sock: Some(([127, 0, 0, 1], 0).into()) };
    let features = loligo_wire::features::SUPPORTED;
    let mut talk: Talk = match addr.kind {
        AddrKind::Legacy => v1::Handshake::client(local, EntityType::OSD, auth).into(),
        _ => Handshake::client(local, auth).into(),
    };
    loop {
        while let Some(out) = talk.poll_transmit() {
            stream.write_all(&out).await.expect("it listens");
        }
        let event = talk.poll_event();
        match (&mut talk, event) {
            (Talk::V2(handshake), Some(Event::Authenticated { .. })) => {
                let ident = ClientIdent {
                    addrs: me.into(),
                    target_addr: addr,
                    global_seq: 1,
                    supported_features: features,
                    flags: FLAG_LOSSY,
                    ..ClientIdent::default()
                };
                handshake.identify(ident).expect("it is time");
            }
            (Talk::V1(handshake), Some(Event::Introduced { .. })) => {
                let connect = v1::Connect { addr: me, features, lossy: true, ..v1::Connect::default() };
                handshake.connect(connect).expect("it is time");
            }
            (_, Some(Event::Established)) => break,
            (_, Some(_)) => {}
            (talk, None) => {
                assert_ne!(stream.read_buf(talk.spare()).await.expect("it answers"), 0);
                talk.receive().expect("it speaks the protocol");
            }
        }
    }
    stream.write_all(bytes).await.expect("it takes what it has room for");
    stream
}

fn rand_nonce() -> u32 {
    crate::Network::default().random_u32()
}

both_versions!(messages_that_do_not_become_whole_have_one_budget);
async fn messages_that_do_not_become_whole_have_one_budget() {
    const MIB: usize = 1 << 20;
    let admission = admission(|limits| limits.begun_bytes_max = 32 * MIB);
    let (server, addr) = Side::server(Peer::echo(), Policy::stateless_server(), |config| {
        config.admission = Arc::clone(&admission);
    })
    .await;
    let mut attackers = Vec::new();
    for _ in 0..8 {
        let bytes = begun(200 << 20, 8 * MIB);
        attackers.push(tokio::spawn(async move { open_and_send(addr, &bytes).await }));
    }
    server.peer.until("a full budget", |_| admission.begun_bytes() > 24 * MIB).await;
    // Small messages are not charged to the budget.
    let client = Side::client(|_| {});
    let conn = client.connect(addr, Policy::lossy_client());
    conn.send(large(1, 128 << 10)).expect("queued");
    client.peer.until_count(1).await;
    // The holder that came first may exceed the bound by its own message.
    assert!(admission.begun_bytes() <= 32 * MIB + 16 * MIB, "{admission:?}");
    // A large message waits until the silent peers have lost their connections.
    conn.send(large(2, 24 * MIB)).expect("queued");
    client.peer.until_count(2).await;
    attackers.iter().for_each(tokio::task::JoinHandle::abort);
    drop(attackers);
    server.peer.until("an empty budget", |_| admission.begun_bytes() == 0).await;
}

both_versions!(another_s_session_does_not_end_by_a_claim_to_its_address);
async fn another_s_session_does_not_end_by_a_claim_to_its_address() {
    let (server, addr) = Side::server(Peer::echo(), Policy::stateless_server(), |_| {}).await;
    let same_nonce = |config: &mut Config| config.nonce = 77;
    let victim = Side::client(same_nonce);
    let held = victim.msgr.connect(EntityType::OSD, addr, Policy::lossy_client(), OpenDoor::client("a"));
    held.send(small(1)).expect("queued");
    victim.peer.until_count(1).await;
    let thief = Side::client(|config| {
        config.nonce = 77;
        config.num = 4711;
    });
    let stolen = thief.msgr.connect(EntityType::OSD, addr, Policy::lossy_client(), OpenDoor::client("b"));
    stolen.send(small(2)).expect("queued");
    thief.peer.until_count(1).await;
    held.send(small(3)).expect("queued");
    victim.peer.until_count(2).await;
    assert_eq!(victim.peer.events(), ["connected"]);
    let thief = server.peer.conn().peer();
    assert_ne!(thief.num, 4711, "the number is authentication's");
    assert_eq!(thief.from.map(|from| from.ip()), Some([127, 0, 0, 1].into()));
}
