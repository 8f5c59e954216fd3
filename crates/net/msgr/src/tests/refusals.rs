//! Peers that do not exist, are silent, or send garbage.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::testing::{FaultProxy, Random};
use tokio::time::Instant;

/// What a client says first: after it, noise is taken for the next part of the handshake.
fn beginning() -> Vec<u8> {
    match SPEAKS.get() {
        AddrKind::Legacy => [&b"ceph v027"[..], &[0; EntityAddr::LEGACY_LEN]].concat(),
        _ => b"ceph v2\n\x10\x00\x03\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0".to_vec(),
    }
}

both_versions!(nonsense_closes_its_connection_with_one_line_and_no_other);
async fn nonsense_closes_its_connection_with_one_line_and_no_other() {
    let (server, addr) = Side::server(Peer::echo(), Policy::stateless_server(), |_| {}).await;
    let sock = addr.sock.expect("an address");
    let client = Side::client(|_| {});
    let good = client.connect(addr, Policy::lossy_client());
    good.send(small(1)).expect("queued");
    client.peer.until_count(1).await;
    let mut random = Random(7);
    let rounds = 30;
    for round in 0..rounds {
        let mut stream = TcpStream::connect(sock).await.expect("it listens");
        let mut nonsense = beginning();
        if round % 3 != 0 {
            nonsense.truncate(round % 9);
        }
        nonsense.extend((0..4096).map(|_| random.next() as u8));
        let _ = stream.write_all(&nonsense).await;
        let mut rest = Vec::new();
        // The server closes the connection: the read ends or fails with a reset.
        let _ = tokio::time::timeout(LONG, stream.read_to_end(&mut rest)).await.expect("it hangs up");
    }
    server.peer.until("all lines", |peer| peer.errors().len() >= rounds).await;
    good.send(small(2)).expect("queued");
    client.peer.until_count(2).await;
    assert_eq!(server.peer.errors().len(), rounds, "{:?}", server.peer.errors());
    assert!(server.peer.errors().iter().all(|line| line.contains("127.0.0.1:") && !line.contains('\n')));
    assert_eq!((good.state(), server.msgr.connections().len()), (State::Open, 1));
}

both_versions!(damage_on_an_open_connection_closes_that_one);
async fn damage_on_an_open_connection_closes_that_one() {
    const LAST: u64 = 1000;
    let (server, addr) = Side::server(Peer::echo(), Policy::stateless_server(), |_| {}).await;
    let proxy = FaultProxy::start(addr.sock.expect("an address"), 1, u64::MAX, 0).expect("a proxy");
    let client = Side::client(|_| {});
    let good = client.connect(addr, Policy::lossy_client());
    let other = Side::client(|_| {});
    let bad = other.connect(EntityAddr { sock: Some(proxy.addr()), ..addr }, Policy::lossy_client());
    bad.send(small(1)).expect("queued");
    other.peer.until_count(1).await;
    // What is damaged may be an acknowledgement, which has no checksum in version 1: until a message is.
    let is_reset = |side: &Side| side.peer.events().iter().any(|event| event == "reset");
    let mut tids = 2..LAST;
    while !is_reset(&other) {
        proxy.damage_next();
        let tid = tids.next().expect("a message is damaged before so many are sent");
        // It fails where the connection was reset a moment ago.
        let _ = bad.send(large(tid, 5000));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    server.peer.until_event("reset").await;
    assert_eq!(server.peer.errors().len(), 1, "{:?}", server.peer.errors());
    good.send(small(LAST)).expect("queued");
    client.peer.until_count(1).await;
    assert_eq!(server.peer.tids().last(), Some(&LAST));
}

both_versions!(attempts_go_on_until_the_connection_is_marked_down);
async fn attempts_go_on_until_the_connection_is_marked_down() {
    let client = Side::client(|_| {});
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let addr = entity(listener.local_addr().expect("an address"));
    drop(listener);
    let conn = client.connect(addr, Policy::lossy_client());
    conn.send(small(1)).expect("queued");
    client.peer.until("three refusals", |peer| peer.events().len() >= 3).await;
    assert_eq!(conn.state(), State::Connecting);
    conn.mark_down();
    client.peer.until("the end", |_| client.msgr.connections().is_empty()).await;
    assert!(!client.peer.events().iter().any(|e| e == "reset"));
}

both_versions!(silent_peers_are_given_up);
async fn silent_peers_are_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let addr = entity(listener.local_addr().expect("an address"));
    let quick = |config: &mut Config| config.limits.handshake_timeout = Duration::from_millis(50);
    let client = Side::client(quick);
    client.connect(addr, Policy::lossy_client());
    client.peer.until_event("refused: no handshake within 50 ms").await;

    let (server, addr) = Side::server(Peer::default(), Policy::stateless_server(), quick).await;
    let mut silent = TcpStream::connect(addr.sock.expect("an address")).await.expect("it listens");
    let mut rest = Vec::new();
    tokio::time::timeout(LONG, silent.read_to_end(&mut rest)).await.expect("it hangs up").expect("cleanly");
    assert!(server.msgr.connections().is_empty());
}

both_versions!(answered_keepalives_keep_a_connection_and_unanswered_ones_end_it);
async fn answered_keepalives_keep_a_connection_and_unanswered_ones_end_it() {
    let (_server, addr) = Side::server(Peer::default(), Policy::stateless_server(), |_| {}).await;
    let proxy = FaultProxy::start(addr.sock.expect("an address"), 1, u64::MAX, 0).expect("a proxy");
    // The test calls `check_alive` itself, with times of its own.
    let client = Side::client(|config| config.limits.keepalive_interval = Duration::ZERO);
    let limits = Limits::default();
    let conn = client.connect(EntityAddr { sock: Some(proxy.addr()), ..addr }, Policy::lossy_client());
    client.peer.until_event("connected").await;
    let began = Instant::now();
    let after = |seconds| began + Duration::from_secs(seconds);
    for round in 1..=3 {
        let reads = conn.reads();
        conn.check_alive(after(20 * round), &limits);
        while conn.reads() == reads {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    conn.check_alive(after(90), &limits);
    assert_eq!(conn.state(), State::Open, "the peer has answered");
    proxy.stall();
    // One answer may still have been in flight.
    for seconds in [100, 140, 180] {
        conn.check_alive(after(seconds), &limits);
    }
    client.peer.until_event("reset").await;
}

both_versions!(required_features_are_required_on_both_sides);
async fn required_features_are_required_on_both_sides() {
    let bit = 1 << 2;
    let needy = |policy| Policy { features_required: bit, ..policy };
    let lacking = |config: &mut Config| config.features &= !bit;
    let (_server, addr) = Side::server(Peer::default(), needy(Policy::stateless_server()), |_| {}).await;
    let client = Side::client(lacking);
    client.connect(addr, Policy::lossy_client());
    client.peer.until_event("refused: required features are missing: SERVER_NAUTILUS (bit 2)").await;

    let (_server, addr) = Side::server(Peer::default(), Policy::stateless_server(), lacking).await;
    let client = Side::client(|_| {});
    client.connect(addr, needy(Policy::lossy_client()));
    client.peer.until("a refusal", |peer| peer.events().iter().any(|e| e.starts_with("refused: "))).await;
}

both_versions!(another_life_of_the_peer_is_not_the_peer);
async fn another_life_of_the_peer_is_not_the_peer() {
    let (_server, addr) = Side::server(Peer::default(), Policy::stateless_server(), |_| {}).await;
    let client = Side::client(|_| {});
    client.connect(addr.with_nonce(addr.nonce ^ 1), Policy::lossy_client());
    client.peer.until("a refusal", |peer| peer.events().iter().any(|e| e.starts_with("refused: "))).await;
    assert!(!client.peer.events().iter().any(|e| e == "connected"));
}
