//! Messages, throttles, bounds and revocation without faults.

use super::*;
use crate::Throttle;

both_versions!(requests_arrive_in_order_and_are_answered);
async fn requests_arrive_in_order_and_are_answered() {
    let (server, addr) = Side::server(Peer::echo(), Policy::stateless_server(), |_| {}).await;
    let client = Side::client(|_| {});
    let conn = client.connect(addr, Policy::lossy_client());
    for tid in 1..=1000 {
        conn.send(large(tid, (tid as usize * 37) % 9000)).expect("queued");
    }
    client.peer.until_count(1000).await;
    assert!(server.peer.tids().iter().copied().eq(1..=1000));
    assert!(client.peer.tids().iter().copied().eq(1..=1000));
    assert_eq!(client.peer.events(), ["connected"]);
    let accepted = server.peer.conn();
    assert_eq!(accepted.identity().expect("authenticated").name.id, "test");
    assert_eq!((accepted.peer().kind, conn.peer().kind), (EntityType::CLIENT, EntityType::OSD));
    assert!(server.peer.batches.load(Ordering::Relaxed) < 1000, "several frames arrive in one read");
}

both_versions!(messages_of_several_megabytes_pass_both_ways);
async fn messages_of_several_megabytes_pass_both_ways() {
    let (server, addr) = Side::server(Peer::default(), Policy::stateless_server(), |_| {}).await;
    let client = Side::client(|_| {});
    let conn = client.connect(addr, Policy::lossy_client());
    for tid in 1..=8 {
        conn.send(large(tid, 4 << 20)).expect("queued");
    }
    server.peer.until_count(8).await;
    for tid in 1..=8 {
        server.peer.conn().send(large(tid, 4 << 20)).expect("queued");
    }
    client.peer.until_count(8).await;
    assert!(client.peer.tids().into_iter().eq(1..=8));
}

both_versions!(a_thousand_threads_send_on_one_connection);
async fn a_thousand_threads_send_on_one_connection() {
    const EACH: u64 = 20;
    let (server, addr) = Side::server(Peer::default(), Policy::stateless_server(), |_| {}).await;
    let client = Side::client(|_| {});
    let conn = client.connect(addr, Policy::lossy_client());
    let threads: Vec<_> = (0..1000)
        .map(|thread| {
            let conn = Arc::clone(&conn);
            std::thread::Builder::new()
                .stack_size(64 << 10)
                .spawn(move || {
                    (0..EACH).for_each(|i| conn.send(large(thread * EACH + i, 512)).expect("queued"))
                })
                .expect("a thread")
        })
        .collect();
    tokio::task::spawn_blocking(|| threads.into_iter().for_each(|t| t.join().expect("the thread ends")))
        .await
        .expect("joined");
    server.peer.until_count(1000 * EACH as usize).await;
    let mut next = vec![0; 1000];
    for tid in server.peer.tids() {
        let (thread, i) = ((tid / EACH) as usize, tid % EACH);
        assert_eq!(next[thread], i, "thread {thread}'s messages are in order");
        next[thread] += 1;
    }
}

/// Records the notifications of the message with this tid.
struct Notes(u64, Arc<Mutex<Vec<(u64, &'static str)>>>);

impl Watcher for Notes {
    fn left(&self) {
        self.1.lock().expect("not poisoned").push((self.0, "left"));
    }

    fn sent(&self) {
        self.1.lock().expect("not poisoned").push((self.0, "sent"));
    }
}

both_versions!(who_watches_messages_hears_when_each_leaves);
/// Some messages are larger than the sockets' buffers, so that they are written in many pieces while
/// others wait.
async fn who_watches_messages_hears_when_each_leaves() {
    let (server, addr) = Side::server(Peer::default(), Policy::stateless_server(), |_| {}).await;
    let client = Side::client(|_| {});
    let conn = client.connect(addr, Policy::lossy_client());
    let heard = Arc::new(Mutex::new(Vec::new()));
    for tid in 1..=12 {
        let msg = large(tid, if tid % 4 == 0 { 8 << 20 } else { 300 });
        conn.send_watched(msg, Arc::new(Notes(tid, Arc::clone(&heard)))).expect("queued");
        conn.send(large(tid + 100, 5000)).expect("queued");
    }
    server.peer.until_count(24).await;
    // The runner notifies the watcher after the write.
    server.peer.until("all is told", |_| heard.lock().expect("not poisoned").len() == 24).await;
    let heard = heard.lock().expect("not poisoned").clone();
    let of = |what| heard.iter().filter(|(_, event)| *event == what).map(|(tid, _)| *tid).collect::<Vec<_>>();
    assert!(of("left").into_iter().eq(1..=12) && of("sent").into_iter().eq(1..=12), "{heard:?}");
    let position = |wanted| heard.iter().position(|event| *event == wanted).expect("it was heard");
    assert!((1..=12).all(|tid| position((tid, "left")) < position((tid, "sent"))), "{heard:?}");
}

both_versions!(a_message_can_be_taken_back_while_it_waits);
async fn a_message_can_be_taken_back_while_it_waits() {
    let nobody = entity(([127, 0, 0, 1], 1).into());
    let client = Side::client(|_| {});
    let conn = client.connect(nobody, Policy::lossy_client());
    let ticket = conn.send_revocable(small(1)).expect("queued");
    assert!(conn.revoke(ticket));
    conn.mark_down();

    let (server, addr) = Side::server(Peer::default(), Policy::stateless_server(), |_| {}).await;
    let conn = client.connect(addr, Policy::lossy_client());
    let ticket = conn.send_revocable(small(2)).expect("queued");
    server.peer.until_count(1).await;
    assert!(!conn.revoke(ticket), "it has left");
    assert_eq!(server.peer.tids(), [2]);
}

both_versions!(a_full_throttle_stops_the_sender_until_messages_are_worked_off);
async fn a_full_throttle_stops_the_sender_until_messages_are_worked_off() {
    let throttle = Throttle::new(4, u64::MAX);
    let policy = Policy::stateless_server().with_throttle(Arc::clone(&throttle));
    let peer = Peer { keep: true, ..Peer::default() };
    let (server, addr) = Side::server(peer, policy, |_| {}).await;
    let client = Side::client(|config| config.limits.queue_messages_max = 8);
    let conn = client.connect(addr, Policy::lossy_client());
    let total = 200;
    let sender = tokio::spawn({
        let conn = Arc::clone(&conn);
        async move {
            let mut fulls = 0;
            for tid in 1..=total {
                let mut msg = large(tid, 256 << 10);
                while let Err(SendError::Full(back)) = conn.send(msg) {
                    fulls += 1;
                    msg = *back;
                    conn.ready().await.expect("not closed");
                }
            }
            fulls
        }
    });
    while server.peer.tids().len() < total as usize {
        server
            .peer
            .until("a full throttle, or the end", |peer| {
                throttle.is_full() || peer.tids().len() == total as usize
            })
            .await;
        let holds = std::mem::take(&mut *server.peer.holds.lock().expect("not poisoned"));
        assert!(holds.len() < 64, "reading has stopped in time");
        drop(holds);
    }
    assert!(sender.await.expect("the sender ends") > 0, "the sender was told that the queue is full");
    assert!(server.peer.tids().into_iter().eq(1..=total));
}

both_versions!(a_cork_lets_messages_leave_together);
async fn a_cork_lets_messages_leave_together() {
    let (server, addr) = Side::server(Peer::default(), Policy::stateless_server(), |_| {}).await;
    let client = Side::client(|_| {});
    let conn = client.connect(addr, Policy::lossy_client());
    client.peer.until_event("connected").await;
    {
        let _cork = conn.cork();
        for tid in 1..=20 {
            conn.send(small(tid)).expect("queued");
        }
        assert_eq!(server.peer.tids(), []);
    }
    server.peer.until_count(20).await;
    assert!(server.peer.batches.load(Ordering::Relaxed) <= 1);
}

both_versions!(shutdown_ends_all_tasks_and_frees_all_connections);
async fn shutdown_ends_all_tasks_and_frees_all_connections() {
    let (server, addr) = Side::server(Peer::echo(), Policy::stateless_server(), |_| {}).await;
    let client = Side::client(|_| {});
    let conn = client.connect(addr, Policy::lossy_client());
    let nowhere = client.connect(entity(([127, 0, 0, 1], 1).into()), Policy::lossy_client());
    conn.send(small(1)).expect("queued");
    client.peer.until_count(1).await;
    client.msgr.shutdown().await;
    server.peer.until_event("reset").await;
    server.msgr.shutdown().await;
    assert_eq!((conn.state(), nowhere.state()), (State::Closed, State::Closed));
    assert!(matches!(conn.send(small(2)), Err(SendError::Closed)));
    assert!(matches!(conn.ready().await, Err(SendError::Closed)));
    assert!(client.msgr.connections().is_empty() && server.msgr.connections().is_empty());
    assert_eq!((Arc::strong_count(&conn), Arc::strong_count(&nowhere)), (1, 1));
    assert!(!client.peer.events().iter().any(|e| e == "reset"), "what we close ourselves is no news");
    let late = client.connect(addr, Policy::lossy_client());
    assert_eq!(late.state(), State::Closed);
}
