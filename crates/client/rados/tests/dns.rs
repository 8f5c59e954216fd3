//! Monitors that only DNS names.
//!
//! Goal: the client finds them in the order that the SRV records give, and missing records are a clear
//! error. Method: a small DNS server on loopback, and the fake cluster.

mod fake;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use loligo_rados::{Builder, Conf, Errno, Error};
use loligo_wire::EntityName;
use tokio::net::{TcpListener, UdpSocket};

use fake::Fake;

const A: u16 = 1;
const SRV: u16 = 33;

/// A record: owner, type, data.
type Record = (&'static str, u16, Vec<u8>);

/// Encodes a name as DNS does.
fn name(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    for label in text.split('.').filter(|label| !label.is_empty()) {
        out.push(label.len() as u8);
        out.extend_from_slice(label.as_bytes());
    }
    out.push(0);
    out
}

fn srv(owner: &'static str, priority: u16, port: u16, target: &str) -> Record {
    let numbers = [priority, 10, port].map(u16::to_be_bytes).concat();
    (owner, SRV, [numbers, name(target)].concat())
}

fn a(owner: &'static str) -> Record {
    (owner, A, vec![127, 0, 0, 1])
}

/// Builds the reply to a query: the question again, and the matching records.
fn answer(query: &[u8], records: &[Record]) -> Option<Vec<u8>> {
    let mut end = 12;
    while *query.get(end)? != 0 {
        end += 1 + usize::from(query[end]);
    }
    let question = query.get(12..end + 5)?;
    let kind = u16::from_be_bytes([question[question.len() - 4], question[question.len() - 3]]);
    let owner = question[..question.len() - 4].to_ascii_lowercase();
    let found: Vec<_> = records.iter().filter(|(of, k, _)| *k == kind && name(of) == owner).collect();
    let known = records.iter().any(|(of, ..)| name(of) == owner);
    let mut out = query[..2].to_vec();
    out.extend([0x81, if known { 0x80 } else { 0x83 }, 0, 1, 0, found.len() as u8, 0, 0, 0, 0]);
    out.extend_from_slice(question);
    for (_, _, data) in found {
        out.extend([0xc0, 12]);
        out.extend(kind.to_be_bytes());
        out.extend([0, 1, 0, 0, 0, 60]);
        out.extend((data.len() as u16).to_be_bytes());
        out.extend_from_slice(data);
    }
    Some(out)
}

/// Starts a DNS server with these records; also returns the names it was queried for.
async fn dns(records: Vec<Record>) -> (SocketAddr, Arc<Mutex<Vec<Vec<u8>>>>) {
    let socket = UdpSocket::bind("127.0.0.1:0").await.expect("a port");
    let addr = socket.local_addr().expect("it is bound");
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&asked);
    tokio::spawn(async move {
        let mut query = [0; 1500];
        while let Ok((len, from)) = socket.recv_from(&mut query).await {
            seen.lock().expect("no panic").push(query[12..len].to_vec());
            if let Some(answer) = answer(&query[..len], &records) {
                let _ = socket.send_to(&answer, from).await;
            }
        }
    });
    (addr, asked)
}

fn builder(dns: SocketAddr, more: &str) -> Builder {
    let text = format!("[global]\nauth client required = none\nmon client hunt interval = 0.2\n{more}");
    let conf = Conf::parse(&text, EntityName::client("admin"), Default::default()).expect("a conf");
    Builder::new().conf(conf).dns_server(dns)
}

#[tokio::test(flavor = "multi_thread")]
async fn monitors_are_found() {
    let fake = Fake::start(1, 1).await;
    let port = fake.mon_addr().port();
    let records = vec![srv("_ceph-mon._tcp", 10, port, "mon-a.example"), a("mon-a.example")];
    let (server, asked) = dns(records).await;
    let rados = builder(server, "").connect().await.expect("connects");
    rados.ioctx(fake::POOL).await.expect("the pool");
    assert!(
        asked.lock().expect("no panic").iter().any(|name| name.starts_with(b"\x09_ceph-mon\x04_tcp\x00"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_service_and_its_domain_are_configured() {
    let fake = Fake::start(1, 1).await;
    let port = fake.mon_addr().port();
    let records = vec![srv("_store._tcp.lab.example", 10, port, "mon-a.example"), a("mon-a.example")];
    let (server, _) = dns(records).await;
    builder(server, "mon dns srv name = store_lab.example\n").connect().await.expect("connects");
    let error = builder(server, "mon dns srv name = store\n").connect().await.expect_err("not in the root");
    assert!(matches!(&error, Error::NotInDns { service, .. } if service == "store"), "{error}");
    assert_eq!(error.errno(), Errno::ENOENT);
}

/// No monitor of the first priority replies, neither by msgr2 nor by version 1, and one of its names is
/// unknown.
#[tokio::test(flavor = "multi_thread")]
async fn the_next_priority_is_tried_when_the_first_is_dead() {
    let fake = Fake::start(1, 1).await;
    let silent = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let dead = silent.local_addr().expect("it is bound").port();
    let service = "_ceph-mon._tcp";
    let records = vec![
        srv(service, 20, fake.mon_addr().port(), "mon-b.example"),
        srv(service, 10, dead, "mon-a.example"),
        srv(service, 10, 6789, "mon-a.example"),
        srv(service, 10, 3300, "nobody.example"),
        a("mon-a.example"),
        a("mon-b.example"),
    ];
    let (server, _) = dns(records).await;
    let connecting = tokio::spawn(builder(server, "").connect());
    let tried = tokio::time::timeout(Duration::from_secs(20), silent.accept()).await;
    assert!(tried.is_ok(), "the first is tried");
    connecting.await.expect("no panic").expect("connects to the second");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_configured_needs_no_dns() {
    let fake = Fake::start(1, 1).await;
    let (server, asked) = dns(Vec::new()).await;
    let more = format!("mon host = v2:{}\n", fake.mon_addr());
    builder(server, &more).connect().await.expect("connects");
    assert!(asked.lock().expect("no panic").is_empty());
    // Nor does an address of version 1 at which nobody listens.
    let more = "mon host = v1:127.0.0.1:1\nclient mount timeout = 1\n";
    let error = builder(server, more).connect().await.expect_err("nobody there");
    assert!(matches!(error, Error::NoMonitor { .. }), "{error}");
    assert!(asked.lock().expect("no panic").is_empty());
}
