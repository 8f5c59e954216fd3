//! Idle sockets.

use std::sync::{Arc, Mutex};

use loligo_msgr::AdmissionLimits;
use loligo_msgr::testing::FaultProxy;
use loligo_server::{Auth, Level};
use loligo_wire::{AddrKind, EntityType};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::attacker::{builder, soon};
use crate::versions::{both_versions, server_of};

/// The number of idle sockets, if the process may have that many: it also holds the other ends of some, and
/// the test of the other version runs at the same time.
const IDLE_MAX: usize = 10_000;

/// The greatest part of the process's descriptors that one version's idle sockets take.
const PART: usize = 4;

/// What a client of version 1 sends to a monitor to open a session, in which it authenticates next; a
/// client of msgr2 has no session before.
fn half_open(speaks: AddrKind) -> Vec<u8> {
    match speaks {
        AddrKind::Legacy => crate::v1::opening(),
        _ => Vec::new(),
    }
}

both_versions!(idle_sockets_keep_nobody_out);
async fn idle_sockets_keep_nobody_out(speaks: AddrKind) {
    // The server takes in less than there are idle sockets, however few files the process may open.
    let can_open = loligo_msgr::raise_limit();
    let idle = IDLE_MAX.min(can_open / PART);
    let limits = AdmissionLimits::for_descriptors(can_open / PART / 4);
    assert!(idle > 2 * limits.handshakes_max, "{can_open} files are too few for this test");
    let server = server_of(speaks).pool("p").pg_num(1).admission(limits);
    let server = server.start().expect("the server starts");
    let mut crowd = Vec::new();
    for i in 0..idle {
        let (port, beginning) = match i % 2 {
            0 => (server.mon_addr(), half_open(speaks)),
            _ => (server.osd_addr(), Vec::new()),
        };
        let mut stream = TcpStream::connect(port).await.expect("it accepts");
        // The server may have hung up already, to have room for others.
        let _ = stream.write_all(&beginning).await;
        crowd.push(stream);
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
        let read = socket.try_read(&mut [0; 1024]);
        // The server's banner may be there; the next read shows whether the server has closed the
        // connection.
        let read = if matches!(read, Ok(1..)) { socket.try_read(&mut [0; 1024]) } else { read };
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

both_versions!(sessions_of_one_user_do_not_take_those_of_others);
async fn sessions_of_one_user_do_not_take_those_of_others(speaks: AddrKind) {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&lines);
    let server = server_of(speaks)
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
