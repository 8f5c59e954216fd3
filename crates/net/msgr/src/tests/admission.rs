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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
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

/// The bytes that a peer sends of a message that never becomes complete: a preamble that announces its
/// data, then `sent` zero bytes.
fn begun(announced: u32, sent: usize) -> Vec<u8> {
    let mut preamble = vec![17, 4];
    for (len, align) in [(41_u32, 8_u16), (5, 8), (0, 8), (announced, 4096)] {
        preamble.extend(len.to_le_bytes());
        preamble.extend(align.to_le_bytes());
    }
    preamble.extend([0, 0]);
    preamble.extend(loligo_wire::crc::crc32c(0, &preamble).to_le_bytes());
    preamble.resize(preamble.len() + sent, 0);
    preamble
}

/// Completes a client's handshake, then sends `bytes` in place of messages.
async fn open_and_send(addr: EntityAddr, bytes: &[u8]) -> TcpStream {
    use crate::ConnectAuth as _;
    use loligo_msgr_proto::{ClientIdent, Event, FLAG_LOSSY, Handshake, Local};
    let sock = addr.sock.expect("an address");
    let mut stream = TcpStream::connect(sock).await.expect("it accepts");
    let local = Local { kind: EntityType::CLIENT, peer_addr: addr, limits: Default::default() };
    let auth = OpenDoor::client("attacker").connector(EntityType::OSD);
    let mut handshake = Handshake::client(local, auth);
    loop {
        while let Some(out) = handshake.poll_transmit() {
            stream.write_all(&out).await.expect("it listens");
        }
        match handshake.poll_event() {
            Some(Event::Authenticated { .. }) => {
                let me = EntityAddr::msgr2(([127, 0, 0, 1], 0).into()).with_nonce(rand_nonce());
                let ident = ClientIdent {
                    addrs: me.into(),
                    target_addr: addr,
                    global_seq: 1,
                    supported_features: loligo_wire::features::SUPPORTED,
                    flags: FLAG_LOSSY,
                    ..ClientIdent::default()
                };
                handshake.identify(ident).expect("it is time");
            }
            Some(Event::Established) => break,
            Some(_) => {}
            None => {
                assert_ne!(stream.read_buf(handshake.spare()).await.expect("it answers"), 0);
                handshake.receive().expect("it speaks the protocol");
            }
        }
    }
    stream.write_all(bytes).await.expect("it takes what it has room for");
    stream
}

fn rand_nonce() -> u32 {
    crate::Network::default().random_u32()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
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
