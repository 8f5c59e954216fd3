//! Two messengers over a simulated network. Goal: lossless sessions lose nothing, repeat nothing and
//! keep the order, however their sockets end. Method: many seeds, in simulated time; equal seeds make
//! equal runs.

use std::net::{IpAddr, Ipv4Addr};

use super::*;
use crate::testing::{SimulatedNetwork, Weather};

const MESSAGES: u64 = 200;
const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));

/// Sockets live for some kilobytes; some resets are not reported to either end.
fn storm() -> Weather {
    Weather {
        latency_ms: 1..=30,
        piece_bytes_max: 2000,
        window_bytes: 500..=20_000,
        mortal_percent: 90,
        life_bytes_max: 12_000,
        silent_percent: 10,
        refused_percent: 10,
    }
}

/// Runs a future in simulated time.
fn simulate<T>(run: impl Future<Output = T>) -> T {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_time().start_paused(true).build().expect("a runtime").block_on(run)
}

/// Performs one run; returns its fingerprint and its duration in simulated time.
async fn exchange(seed: u64, policy: Policy, accepting: Policy) -> (u64, Duration) {
    let began = tokio::time::Instant::now();
    let network = SimulatedNetwork::new(seed, storm());
    let make = |kind, peer, policies, ip| {
        Side::new(kind, peer, |config| {
            config.policies = Policies::new(policies);
            config.network = network.host(ip);
            config.nonce = config.network.random_u32();
            config.connect_back = Some(OpenDoor::client("peer"));
        })
    };
    let accepting_is_server = accepting.server;
    let server = make(EntityType::OSD, Peer::echo(), accepting, SERVER);
    let addr = bind(&server.msgr, SocketAddr::new(SERVER, 0)).await;
    let client = make(EntityType::CLIENT, Peer::default(), policy.clone(), CLIENT);
    if !accepting_is_server {
        // Either side may have something to send while the other one rests.
        bind(&client.msgr, SocketAddr::new(CLIENT, 0)).await;
    }
    let conn = client.connect(addr, policy);
    for tid in 1..=MESSAGES {
        conn.send(large(tid, (tid * 37 % 900) as usize)).expect("room");
        tokio::time::sleep(Duration::from_millis(tid % 7)).await;
    }
    while client.peer.tids().len() < MESSAGES as usize {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let so_far = client.peer.tids().len();
        let waiting = [&client, &server].map(|side| side.msgr.connections());
        // Each silent reset costs half a minute.
        let is_late = began.elapsed() >= Duration::from_secs(3600);
        assert!(!is_late, "seed {seed}: stuck at {so_far} answers, {waiting:?}");
    }
    let took = began.elapsed();
    let expected: Vec<u64> = (1..=MESSAGES).collect();
    assert_eq!(server.peer.tids(), expected, "seed {seed}: requests");
    assert_eq!(client.peer.tids(), expected, "seed {seed}: answers");
    network.set_weather(Weather::calm());
    client.msgr.shutdown().await;
    server.msgr.shutdown().await;
    assert_eq!(network.connections(), 0, "seed {seed}: sockets that nobody closed");
    (network.fingerprint(), took)
}

#[test]
fn lossless_sessions_survive_every_kind_of_end() {
    for speaks in [AddrKind::Msgr2, AddrKind::Legacy] {
        SPEAKS.set(speaks);
        for seed in 0..60 {
            simulate(exchange(seed, Policy::lossless_client(), Policy::stateful_server()));
            simulate(exchange(seed, Policy::lossless_peer(), Policy::lossless_peer()));
        }
    }
}

#[test]
fn equal_seeds_make_equal_runs() {
    let run = |seed| simulate(exchange(seed, Policy::lossless_peer(), Policy::lossless_peer()));
    for speaks in [AddrKind::Msgr2, AddrKind::Legacy] {
        SPEAKS.set(speaks);
        for seed in 0..10 {
            assert_eq!(run(seed), run(seed), "seed {seed}");
        }
        assert_ne!(run(1).0, run(2).0);
    }
}
