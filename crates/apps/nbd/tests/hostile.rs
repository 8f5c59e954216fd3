//! Goal: hostile clients cannot keep others out, get a bounded share of memory, and cannot use others'
//! devices. Method: a gateway over real sockets; sockets and bytes are counted.

#[expect(dead_code, reason = "other tests of the gateway use the rest")]
mod client;

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::time::Duration;

use client::{Client, WRITE};
use loligo_nbd::{Definition, Opener, Registry, Server, Spec};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::runtime::Handle;

/// Longer than any step takes unless it hangs.
const LONG: Duration = Duration::from_secs(60);
const MIB: usize = 1 << 20;

async fn gateway() -> (Arc<Registry>, Server, SocketAddr) {
    let registry = Registry::new(Opener::local(), Handle::current());
    let spec = Spec::parse("memory:64M").expect("it is one");
    let disk =
        Definition { name: "disk".to_owned(), description: String::new(), spec, allow: Default::default() };
    registry.add(disk).await.expect("memory");
    let mut server = Server::new(Arc::clone(&registry), None);
    let addr = server.listen(([127, 0, 0, 1], 0).into()).await.expect("a free port");
    (registry, server, addr)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_sockets_keep_nobody_out() {
    let (_registry, server, addr) = gateway().await;
    // The gateway holds the other ends of some of the sockets.
    let idle = 10_000.min(loligo_msgr::raise_limit() / 2);
    let mut crowd = Vec::new();
    for _ in 0..idle {
        crowd.push(TcpStream::connect(addr).await.expect("it accepts"));
    }
    let honest = async {
        let mut client = Client::connect(addr, "disk").await.expect("it serves");
        assert_eq!(client.write(0, &[1; 4096]).await, 0);
        assert_eq!(client.read(0, 4096).await, Ok(vec![1; 4096]));
    };
    tokio::time::timeout(LONG, honest).await.expect("it is served");
    // A second client beside the same crowd.
    let mut client = Client::connect(addr, "disk").await.expect("it serves");
    assert_eq!(client.read(0, 1).await, Ok(vec![1]));
    server.close().await;
}

/// Resident memory of the process in bytes.
fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it is there");
    let kib: usize = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kib << 10
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_that_do_not_become_whole_have_one_budget() {
    let (_registry, server, addr) = gateway().await;
    let before = resident_bytes();
    // Each sends 31 of the 32 MiB that it announces, as far as the gateway accepts them: 1.2 GiB.
    let mut attackers = Vec::new();
    for _ in 0..40 {
        attackers.push(tokio::spawn(async move {
            let mut client = Client::connect(addr, "disk").await.expect("it serves");
            let head = Client::request(WRITE, 1, 0, 32 << 20, b"");
            client.stream.write_all(&head).await.expect("it listens");
            let part = vec![0xaa; MIB];
            for _ in 0..31 {
                if client.stream.write_all(&part).await.is_err() {
                    break;
                }
            }
            std::future::pending::<()>().await;
        }));
    }
    // Meanwhile other clients write, long data too.
    let mut honest = Client::connect(addr, "disk").await.expect("it serves");
    let data = vec![5; 16 * MIB];
    for round in 0..10_u8 {
        assert_eq!(honest.write(u64::from(round), &[round; 100_000]).await, 0);
        let written = tokio::time::timeout(LONG, honest.write(32 << 20, &data)).await;
        assert_eq!(written, Ok(0), "round {round}");
    }
    let grown = resident_bytes().saturating_sub(before);
    // The budget, the device, and the memory of sockets and of the test itself.
    assert!(grown < 600 * MIB, "{} MiB more in use", grown / MIB);
    attackers.iter().for_each(tokio::task::JoinHandle::abort);
    server.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unix_sockets_are_their_owner_s() {
    let (_registry, mut server, _addr) = gateway().await;
    let path = std::env::temp_dir().join(format!("loligo-nbd-hostile.{}.sock", std::process::id()));
    server.listen_unix(&path).expect("it listens");
    assert_eq!(std::fs::metadata(&path).expect("it is there").permissions().mode() & 0o777, 0o600);
    let (_registry, mut other, _addr) = gateway().await;
    assert!(other.listen_unix(&path).is_err(), "somebody listens there");
    server.close().await;
    assert!(!path.exists());
    std::fs::write(&path, "a file").expect("room");
    assert!(other.listen_unix(&path).is_err(), "a file is not replaced");
    std::fs::remove_file(&path).expect("it is ours");
    other.close().await;
}
