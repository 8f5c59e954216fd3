//! Two messengers over a simulated network. Goal: lossless sessions lose nothing, repeat nothing and
//! keep the order, however their sockets end. Method: many seeds, in simulated time; equal seeds make
//! equal runs. `LOLIGO_SESSION_SEEDS` is the number of seeds of each version of the messenger (60),
//! `LOLIGO_SESSION_SEED` the first one (0); `cargo xtask torture` runs many.

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

/// Returns a client, and a server that answers, with its address. Between equals the client listens too.
async fn sides(network: &SimulatedNetwork, accepting: Policy) -> (Side, Side, EntityAddr) {
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
    let client = make(EntityType::CLIENT, Peer::default(), Policy::lossless_peer(), CLIENT);
    if !accepting_is_server {
        // Either side may have something to send while the other one rests.
        bind(&client.msgr, SocketAddr::new(CLIENT, 0)).await;
    }
    (client, server, addr)
}

/// Performs one run; returns its fingerprint and its duration in simulated time.
async fn exchange(seed: u64, policy: Policy, accepting: Policy) -> (u64, Duration) {
    let speaks = SPEAKS.get();
    let began = tokio::time::Instant::now();
    let network = SimulatedNetwork::new(seed, storm());
    let (client, server, addr) = sides(&network, accepting).await;
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
        assert!(!is_late, "{speaks:?}, seed {seed}: stuck at {so_far} answers, {waiting:?}");
    }
    let took = began.elapsed();
    let expected: Vec<u64> = (1..=MESSAGES).collect();
    assert_eq!(server.peer.tids(), expected, "{speaks:?}, seed {seed}: requests");
    assert_eq!(client.peer.tids(), expected, "{speaks:?}, seed {seed}: answers");
    network.set_weather(Weather::calm());
    client.msgr.shutdown().await;
    server.msgr.shutdown().await;
    assert_eq!(network.connections(), 0, "{speaks:?}, seed {seed}: sockets that nobody closed");
    (network.fingerprint(), took)
}

/// Runs all seeds, with clients of a server and between equals.
fn survive_every_kind_of_end(speaks: AddrKind) {
    let setting = |name: &str, default: u64| {
        std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
    };
    let (first, seeds) = (setting("LOLIGO_SESSION_SEED", 0), setting("LOLIGO_SESSION_SEEDS", 60));
    SPEAKS.set(speaks);
    for seed in first..first + seeds {
        simulate(exchange(seed, Policy::lossless_client(), Policy::stateful_server()));
        simulate(exchange(seed, Policy::lossless_peer(), Policy::lossless_peer()));
    }
    println!("{speaks:?}: {seeds} seeds from {first} on, each as a client and between equals");
}

#[test]
fn lossless_sessions_of_msgr2_survive_every_kind_of_end() {
    survive_every_kind_of_end(AddrKind::Msgr2);
}

#[test]
fn lossless_sessions_of_version_1_survive_every_kind_of_end() {
    survive_every_kind_of_end(AddrKind::Legacy);
}

/// The end that opened the socket may rest when it finds the other one silent, if it has nothing to send.
/// What the other one has sent may be lost then, so it must notice the silence too.
async fn notices_silence() {
    let network = SimulatedNetwork::new(1, Weather::calm());
    let (client, server, addr) = sides(&network, Policy::lossless_peer()).await;
    client.connect(addr, Policy::lossless_peer()).send(large(1, 10)).expect("room");
    let both = || {
        [&client, &server].map(|side| side.msgr.connections().iter().map(|c| c.state()).collect::<Vec<_>>())
    };
    let states = |state| [vec![state], vec![state]];
    while client.peer.tids().is_empty() {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    // An answered keepalive keeps the session open.
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(both(), states(State::Open));
    network.cut_off(CLIENT);
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(both(), states(State::Standby));
}

#[test]
fn between_equals_each_end_notices_that_the_other_is_silent() {
    for speaks in [AddrKind::Msgr2, AddrKind::Legacy] {
        SPEAKS.set(speaks);
        simulate(notices_silence());
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
