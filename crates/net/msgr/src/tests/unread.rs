//! Goal: a peer that reads late gets every answer; a peer that does not read at all neither grows a
//! queue beyond its bound nor misses single answers on a connection that continues. Method: clients
//! whose throttle keeps them from reading.

use super::*;
use crate::Throttle;

const ANSWER: usize = 64 << 10;

fn echo_of_much() -> Peer {
    Peer { echo: true, echo_bytes: ANSWER, ..Peer::default() }
}

/// A client that reads nothing while the test holds the throttle.
fn deaf() -> (Side, Policy, Hold) {
    let throttle = Throttle::new(1, u64::MAX);
    let hold = throttle.hold(1);
    (Side::client(|_| {}), Policy::lossy_client().with_throttle(throttle), hold)
}

/// Sends requests with large answers, until the last one or until the connection is lost.
fn ask(conn: &Arc<Connection>, requests: u64) -> tokio::task::JoinHandle<()> {
    let conn = Arc::clone(conn);
    tokio::spawn(async move {
        for tid in 1..=requests {
            let mut msg = small(tid);
            while let Err(SendError::Full(back)) = conn.send(msg) {
                msg = *back;
                if conn.ready().await.is_err() {
                    return;
                }
            }
        }
    })
}

both_versions!(who_reads_late_gets_all_answers);
async fn who_reads_late_gets_all_answers() {
    const REQUESTS: u64 = 20_000;
    let limits = |config: &mut Config| {
        config.limits.queue_bytes_max = 512 << 20;
        config.limits.unread_timeout = LONG;
    };
    let (server, addr) = Side::server(echo_of_much(), Policy::stateless_server(), limits).await;
    let (client, policy, hold) = deaf();
    let conn = client.connect(addr, policy);
    let sender = ask(&conn, REQUESTS);
    // The answers to the requests read so far fill its queue and the sockets' buffers.
    let is_held = |peer: &Peer| peer.conns.lock().expect("not poisoned").last().is_some_and(|c| c.is_long());
    server.peer.until("a long queue", is_held).await;
    drop(hold);
    client.peer.until_count(REQUESTS as usize).await;
    assert!(client.peer.tids().into_iter().eq(1..=REQUESTS));
    assert!(server.peer.tids().into_iter().eq(1..=REQUESTS));
    assert_eq!(client.peer.events(), ["connected"]);
    sender.await.expect("it ends");
}

both_versions!(who_does_not_read_loses_the_connection_and_is_not_answered_in_part);
async fn who_does_not_read_loses_the_connection_and_is_not_answered_in_part() {
    let limits = |config: &mut Config| {
        config.limits.queue_bytes_max = 64 << 20;
        config.limits.unread_timeout = Duration::from_millis(50);
    };
    let (server, addr) = Side::server(echo_of_much(), Policy::stateless_server(), limits).await;
    let (client, policy, hold) = deaf();
    let conn = client.connect(addr, policy);
    let sender = ask(&conn, 20_000);
    server.peer.until_event("reset").await;
    let says = |(_, line): &(Level, String)| line.contains("does not read its answers");
    server.peer.until("a line", |peer| peer.log.lock().expect("not poisoned").iter().any(says)).await;
    assert_eq!(server.peer.conn().state(), State::Closed);
    drop(hold);
    client.peer.until_event("reset").await;
    let got = client.peer.tids();
    assert!(got.iter().copied().eq(1..=got.len() as u64), "no answer is left out before the end");
    sender.await.expect("it ends");
}

both_versions!(a_full_queue_ends_the_connection);
async fn a_full_queue_ends_the_connection() {
    let limits = |config: &mut Config| config.limits.queue_messages_max = 100;
    let (server, addr) = Side::server(Peer::default(), Policy::stateless_server(), limits).await;
    let (client, policy, hold) = deaf();
    let conn = client.connect(addr, policy);
    conn.send(small(1)).expect("queued");
    server.peer.until_count(1).await;
    // Unsolicited messages, such as notifications to watchers.
    let accepted = server.peer.conn();
    let mut sent = 0;
    while accepted.send(large(sent + 1, 1 << 20)).is_ok() {
        sent += 1;
        assert!(sent < 1000, "nothing is refused");
    }
    assert!(sent >= 100);
    server.peer.until_event("reset").await;
    drop(hold);
    client.peer.until_event("reset").await;
    let got = client.peer.tids();
    assert!(got.iter().copied().eq(1..=got.len() as u64), "no message is left out before the end");
}
