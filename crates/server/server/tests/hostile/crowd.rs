//! Idle sockets.

use std::sync::{Arc, Mutex};

use loligo_msgr::AdmissionLimits;
use loligo_msgr::testing::FaultProxy;
use loligo_server::{Auth, Level, Server};
use loligo_wire::EntityType;
use tokio::net::TcpStream;

use crate::attacker::{builder, soon};

/// The number of idle sockets, if the process may have that many: it also holds the other ends of some.
const IDLE: usize = 10_000;

#[tokio::test(flavor = "multi_thread")]
async fn idle_sockets_keep_nobody_out() {
    let server = Server::memory().pool("p").pg_num(1).start().expect("the server starts");
    let can_open = loligo_msgr::raise_limit();
    let limits = AdmissionLimits::for_descriptors(can_open);
    let idle = IDLE.min(can_open.saturating_sub(limits.handshakes_max + 256));
    let mut crowd = Vec::new();
    for port in [server.mon_addr(), server.osd_addr()].into_iter().cycle().take(idle) {
        crowd.push(TcpStream::connect(port).await.expect("it accepts"));
    }
    let proxy = |addr| FaultProxy::start(addr, 1, u64::MAX, 0).expect("a proxy");
    let (mon, osd) = (proxy(server.mon_addr()), proxy(server.osd_addr()));
    let (to_mon, to_osd) = (mon.addr(), osd.addr());
    let reroute = move |kind, _| if kind == EntityType::MON { to_mon } else { to_osd };
    let honest = soon("a client", builder(&server).reroute(reroute).connect()).await.expect("connects");
    let pool = honest.ioctx("p").await.expect("the pool");
    soon("a write", pool.write_full("o", "x".into())).await.expect("written");
    assert_eq!((mon.connections(), osd.connections()), (1, 1), "it was served at once");
    // Only as many of the idle sockets are left as the table has room for.
    let is_open = |socket: &&TcpStream| {
        let read = socket.try_read(&mut [0; 64]);
        // The server's banner may be there; the next read shows whether the server has closed the
        // connection.
        let read = if matches!(read, Ok(1..)) { socket.try_read(&mut [0; 64]) } else { read };
        matches!(read, Err(e) if e.kind() == std::io::ErrorKind::WouldBlock)
    };
    let left = || crowd.iter().filter(is_open).count();
    soon("the end of most", async {
        while left() > limits.handshakes_max {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_of_one_user_do_not_take_those_of_others() {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&lines);
    let server = Server::memory()
        .pool("p")
        .pg_num(1)
        .auth(Auth::Cephx)
        .admission(AdmissionLimits {
            sessions_max: 24,
            sessions_per_user_max: 12,
            ..AdmissionLimits::for_descriptors(1024)
        })
        .log(Arc::new(move |level, line| {
            if level == Level::Error {
                log.lock().expect("not poisoned").push(line.to_string());
            }
        }))
        .start()
        .expect("the server starts");
    let admin = builder(&server).connect().await.expect("connects");
    let greedy = crate::attacker::user(&server, &admin, "greedy", "allow rw pool=p").await;
    let addr = |nonce| ("127.0.0.1:0".parse().expect("an address"), nonce);
    // Each client has a session at the monitor and one at the OSD.
    let mut clients = Vec::new();
    for nonce in 1..=6 {
        clients.push(crate::attacker::Attacker::connect(&server, &admin, &greedy, addr(nonce), None).await);
    }
    let pool = admin.pool_id("p").await.expect("the pool");
    for client in &mut clients {
        assert_eq!(client.write(pool).await, 0);
    }
    let more = crate::attacker::Attacker::connect(&server, &admin, &greedy, addr(7), None);
    let refused = async {
        let says = |line: &String| line.contains("too many sessions: client.greedy has 12");
        while !lines.lock().expect("not poisoned").iter().any(says) {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        _ = more => panic!("the thirteenth session is there"),
        () = soon("a refusal", refused) => {}
    }
    let other = soon("another user", builder(&server).connect()).await.expect("connects");
    let pool = other.ioctx("p").await.expect("the pool");
    soon("a write", pool.write_full("o", "x".into())).await.expect("written");
}
