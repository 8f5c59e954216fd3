//! Lost sockets: lossy connections end, lossless sessions continue.

use super::*;
use crate::testing::FaultProxy;

/// The peer's entity address with the proxy's socket address.
fn through(proxy: &FaultProxy, peer: EntityAddr) -> EntityAddr {
    EntityAddr { sock: Some(proxy.addr()), ..peer }
}

both_versions!(a_lossless_session_survives_resets_at_random_bytes);
async fn a_lossless_session_survives_resets_at_random_bytes() {
    for seed in 1..=6 {
        let (server, addr) = Side::server(Peer::echo(), Policy::stateful_server(), |_| {}).await;
        let sock = addr.sock.expect("an address");
        let proxy = FaultProxy::start(sock, seed, 40_000, 60).expect("a proxy");
        let client = Side::client(|_| {});
        let conn = client.connect(through(&proxy, addr), Policy::lossless_client());
        let total = 2_000;
        for tid in 1..=total {
            conn.send(large(tid, (tid as usize * 31) % 1500)).expect("queued");
            if tid % 50 == 0 {
                tokio::task::yield_now().await;
            }
        }
        client.peer.until_count(total as usize).await;
        let faults = proxy.faults();
        assert!(faults > 5, "seed {seed}: only {faults} faults");
        assert!(server.peer.tids().into_iter().eq(1..=total), "seed {seed}: once and in order");
        assert!(client.peer.tids().into_iter().eq(1..=total), "seed {seed}: once and in order");
        let news = |side: &Side| side.peer.events().iter().any(|e| e == "reset" || e == "remote reset");
        assert!(!news(&client) && !news(&server), "seed {seed}: the session was never lost");
        assert_eq!((client.peer.errors(), server.peer.errors()), (vec![], vec![]));
    }
}

both_versions!(peers_that_connect_to_each_other_agree_on_one_session);
async fn peers_that_connect_to_each_other_agree_on_one_session() {
    for round in 0..10 {
        let side = || {
            Side::new(EntityType::OSD, Peer::default(), |config| {
                config.policies = Policies::new(Policy::lossless_peer());
                config.connect_back = Some(OpenDoor::client("peer"));
            })
        };
        let (a, b) = (side(), side());
        let (addr_a, addr_b) = (a.bind().await, b.bind().await);
        let (to_b, to_a) =
            (a.connect(addr_b, Policy::lossless_peer()), b.connect(addr_a, Policy::lossless_peer()));
        for tid in 1..=200 {
            to_b.send(small(tid)).expect("queued");
            to_a.send(small(1000 + tid)).expect("queued");
            if tid % 20 == 0 {
                tokio::task::yield_now().await;
            }
        }
        a.peer.until_count(200).await;
        b.peer.until_count(200).await;
        assert!(b.peer.tids().into_iter().eq(1..=200), "round {round}");
        assert!(a.peer.tids().into_iter().eq(1001..=1200), "round {round}");
        assert_eq!((a.msgr.connections().len(), b.msgr.connections().len()), (1, 1), "round {round}");
        a.msgr.shutdown().await;
        b.msgr.shutdown().await;
    }
}

both_versions!(a_send_wakes_a_connection_in_standby);
async fn a_send_wakes_a_connection_in_standby() {
    let (server, addr) = Side::server(Peer::default(), Policy::lossless_peer(), |_| {}).await;
    let proxy = FaultProxy::start(addr.sock.expect("an address"), 1, u64::MAX, 0).expect("a proxy");
    let client = Side::client(|_| {});
    let conn = client.connect(through(&proxy, addr), Policy::lossless_peer());
    conn.send(small(1)).expect("queued");
    client.peer.until("the acknowledgement", |_| conn.backlog() == 0).await;
    proxy.reset_all();
    client.peer.until("standby", |_| conn.state() == State::Standby).await;
    assert_eq!(client.peer.events(), ["connected"]);
    conn.send(small(2)).expect("queued");
    server.peer.until_count(2).await;
    assert_eq!(server.peer.tids(), [1, 2]);
    assert_eq!(client.peer.events(), ["connected", "connected"]);
}

both_versions!(a_lossy_connection_says_once_that_it_is_dead);
async fn a_lossy_connection_says_once_that_it_is_dead() {
    let (server, addr) = Side::server(Peer::default(), Policy::stateless_server(), |_| {}).await;
    let proxy = FaultProxy::start(addr.sock.expect("an address"), 1, u64::MAX, 0).expect("a proxy");
    let client = Side::client(|_| {});
    let conn = client.connect(through(&proxy, addr), Policy::lossy_client());
    conn.send(small(1)).expect("queued");
    server.peer.until_count(1).await;
    proxy.reset_all();
    client.peer.until_event("reset").await;
    server.peer.until_event("reset").await;
    assert_eq!(conn.state(), State::Closed);
    assert!(matches!(conn.send(small(2)), Err(SendError::Closed)));
    // Another connection of the same client is a new session.
    let again = client.connect(through(&proxy, addr), Policy::lossy_client());
    again.send(small(3)).expect("queued");
    server.peer.until_count(2).await;
    assert_eq!(client.peer.events(), ["connected", "reset", "connected"]);
    assert_eq!(server.peer.events(), ["accepted", "reset", "accepted"]);
}

both_versions!(nothing_happens_on_a_connection_before_it_is_ready);
/// Otherwise the dispatcher could not tell which connection was lost.
async fn nothing_happens_on_a_connection_before_it_is_ready() {
    let (_server, addr) = Side::server(Peer::default(), Policy::stateless_server(), |_| {}).await;
    let client = Side::client(|_| {});
    let (policy, auth) = (Policy::lossy_client(), OpenDoor::client("test"));
    client.msgr.connect_with(EntityType::OSD, addr, policy, auth, |_| {
        // Longer than a handshake takes.
        std::thread::sleep(std::time::Duration::from_millis(50));
        client.peer.event("ready".into());
    });
    client.peer.until_event("connected").await;
    assert_eq!(client.peer.events(), ["ready", "connected"]);
}

both_versions!(what_is_left_arrives_in_order_with_what_is_sent);
/// Messages left to the writer task are packed when their turn comes, and keep their order among
/// messages that are sent.
async fn what_is_left_arrives_in_order_with_what_is_sent() {
    struct Late(std::ops::Range<u64>);
    impl Unpacked for Late {
        fn count(&self) -> usize {
            self.0.clone().count()
        }
        fn bytes(&self) -> usize {
            100 * self.count()
        }
        fn pack(self: Box<Self>, each: &mut dyn FnMut(Msg, Option<Arc<dyn Watcher>>)) {
            self.0.map(small).for_each(|msg| each(msg, None));
        }
    }
    let (server, addr) = Side::server(Peer::default(), Policy::stateless_server(), |_| {}).await;
    let client = Side::client(|_| {});
    for policy in [Policy::lossy_client(), Policy::lossless_peer()] {
        let conn = client.connect(addr, policy);
        server.peer.tids.lock().expect("not poisoned").clear();
        for tid in (0..1000).step_by(100) {
            conn.send(small(tid)).expect("queued");
            conn.leave(Box::new(Late(tid + 1..tid + 100))).expect("queued");
        }
        server.peer.until_count(1000).await;
        assert_eq!(server.peer.tids(), (0..1000).collect::<Vec<_>>());
        conn.mark_down();
        assert_eq!(conn.leave(Box::new(Late(0..1))), Err(Dropped));
    }
}

both_versions!(a_newer_lossy_connection_replaces_the_older_one);
async fn a_newer_lossy_connection_replaces_the_older_one() {
    let (server, addr) = Side::server(Peer::default(), Policy::stateless_server(), |_| {}).await;
    let client = Side::client(|_| {});
    let first = client.connect(addr, Policy::lossy_client());
    first.send(small(1)).expect("queued");
    server.peer.until_count(1).await;
    let second = client.connect(addr, Policy::lossy_client());
    second.send(small(2)).expect("queued");
    server.peer.until_count(2).await;
    client.peer.until_event("reset").await;
    assert_eq!((first.state(), second.state()), (State::Closed, State::Open));
    server.peer.until("one is left", |_| server.msgr.connections().len() == 1).await;
}

// Stock clients do this to query a named monitor: they open a second connection and keep the first.
both_versions!(a_peer_of_an_anonymous_server_keeps_both_connections);
async fn a_peer_of_an_anonymous_server_keeps_both_connections() {
    let (server, addr) = Side::server(Peer::echo(), Policy::anonymous_server(), |_| {}).await;
    let client = Side::client(|_| {});
    let first = client.connect(addr, Policy::lossy_client());
    first.send(small(1)).expect("queued");
    client.peer.until_count(1).await;
    let second = client.connect(addr, Policy::lossy_client());
    second.send(small(2)).expect("queued");
    client.peer.until_count(2).await;
    first.send(small(3)).expect("queued");
    client.peer.until_count(3).await;
    assert_eq!((first.state(), second.state()), (State::Open, State::Open));
    second.mark_down();
    server.peer.until("one is left", |_| server.msgr.connections().len() == 1).await;
    first.send(small(4)).expect("queued");
    client.peer.until_count(4).await;
}

both_versions!(a_peer_that_has_forgotten_the_session_gets_a_new_one);
async fn a_peer_that_has_forgotten_the_session_gets_a_new_one() {
    let (server, addr) = Side::server(Peer::default(), Policy::stateful_server(), |_| {}).await;
    let client = Side::client(|_| {});
    let conn = client.connect(addr, Policy::lossless_client());
    conn.send(small(1)).expect("queued");
    server.peer.until_count(1).await;
    // The server restarts at the same address and has no state.
    server.msgr.shutdown().await;
    let restarted = Side::new(EntityType::OSD, Peer::echo(), |config| {
        config.nonce = addr.nonce;
        config.policies = Policies::new(Policy::stateful_server());
    });
    let sock = addr.sock.expect("an address");
    bind(&restarted.msgr, sock).await;
    client.peer.until_event("remote reset").await;
    client.peer.until("open", |_| conn.state() == State::Open).await;
    conn.send(small(2)).expect("queued");
    client.peer.until_count(1).await;
    assert_eq!(client.peer.tids(), [2]);
    assert_eq!(restarted.peer.tids(), [2], "what had not been acknowledged is gone with the session");
}

both_versions!(a_client_that_has_forgotten_the_session_gets_a_new_one);
async fn a_client_that_has_forgotten_the_session_gets_a_new_one() {
    let (server, addr) = Side::server(Peer::echo(), Policy::stateful_server(), |_| {}).await;
    let client = |nonce| Side::client(|config| config.nonce = nonce);
    let first = client(77);
    first.connect(addr, Policy::lossless_client()).send(small(1)).expect("queued");
    first.peer.until_count(1).await;
    first.msgr.shutdown().await;
    let second = client(77);
    second.connect(addr, Policy::lossless_client()).send(small(2)).expect("queued");
    second.peer.until_count(1).await;
    server.peer.until_event("remote reset").await;
    assert_eq!(server.peer.tids(), [1, 2]);
    assert_eq!(second.peer.tids(), [2]);
}

/// Blocks the dispatch of message 1 until message 3 has been dispatched, which must not happen, or a
/// time limit has passed.
#[derive(Default)]
struct Slow {
    order: Mutex<Vec<u64>>,
    changed: Notify,
    begun: Notify,
    overtaken: (Mutex<bool>, std::sync::Condvar),
}

impl Dispatcher for Slow {
    fn dispatch(&self, _: &Arc<Connection>, msgs: &mut Vec<Msg>) {
        for msg in msgs.drain(..) {
            let tid = msg.header.tid.0;
            if tid == 1 {
                self.begun.notify_one();
                let overtaken = self.overtaken.0.lock().expect("not poisoned");
                let limit = Duration::from_millis(300);
                drop(self.overtaken.1.wait_timeout_while(overtaken, limit, |overtaken| !*overtaken));
            }
            self.order.lock().expect("not poisoned").push(tid);
            if tid == 3 {
                *self.overtaken.0.lock().expect("not poisoned") = true;
                self.overtaken.1.notify_all();
            }
        }
        self.changed.notify_waiters();
    }
}

both_versions!(what_comes_on_a_new_connection_does_not_overtake_what_came_on_the_one_before);
async fn what_comes_on_a_new_connection_does_not_overtake_what_came_on_the_one_before() {
    let slow = Arc::new(Slow::default());
    let mut config = Config::new(EntityType::OSD);
    config.log = Arc::new(|_, _| {});
    let server = Messenger::new(config, slow.clone());
    let addr = bind(&server, ([127, 0, 0, 1], 0).into()).await;
    let client = Side::client(|_| {});
    let first = client.connect(addr, Policy::lossy_client());
    first.send(small(1)).expect("queued");
    slow.begun.notified().await;
    first.send(small(2)).expect("queued");
    let second = client.connect(addr, Policy::lossy_client());
    second.send(small(3)).expect("queued");
    let done = async {
        loop {
            let changed = slow.changed.notified();
            if slow.order.lock().expect("not poisoned").contains(&3) {
                return;
            }
            changed.await;
        }
    };
    tokio::time::timeout(LONG, done).await.expect("the second connection is served");
    let order = slow.order.lock().expect("not poisoned").clone();
    assert!(order == [1, 3] || order == [1, 2, 3], "{order:?}");
}
