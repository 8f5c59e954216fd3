//! A server that receives the nonsense, its log, and a client of it that must not be affected.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use loligo_msgr::testing::FaultProxy;
use loligo_rados::{Builder, IoCtx, Rados};
use loligo_server::{Auth, Handle, Level};
use loligo_wire::{AddrKind, EntityType};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::versions::server_of;

/// The server either closes the connection within milliseconds, or only at its time limit for
/// handshakes, which is longer than this.
const HANG_UP_MAX: Duration = Duration::from_secs(5);

/// The timeout of all waits.
const LONG: Duration = Duration::from_secs(40);

/// Waits for `work`, with a timeout.
pub(crate) async fn soon<T>(what: &str, work: impl Future<Output = T>) -> T {
    tokio::time::timeout(LONG, work).await.unwrap_or_else(|_| panic!("{what}: nothing after {LONG:?}"))
}

/// The lines that the server has logged.
type Lines = Arc<Mutex<Vec<(Level, String)>>>;

pub(crate) struct Victim {
    pub(crate) server: Handle,
    lines: Lines,
    bystander: Bystander,
}

impl Victim {
    /// Starts a server of a version with the pools `data`, for the client that must not be affected, and
    /// `junk`, each of one placement group.
    pub(crate) async fn start(speaks: AddrKind, auth: Auth) -> Self {
        let lines = Lines::default();
        let log = Arc::clone(&lines);
        let server = server_of(speaks)
            .pool("data")
            .pool("junk")
            .pg_num(1)
            .auth(auth)
            .log(Arc::new(move |level, line| {
                log.lock().expect("not poisoned").push((level, line.to_string()));
            }))
            .start()
            .expect("the server starts");
        let bystander = Bystander::start(&server).await;
        Self { server, lines, bystander }
    }

    /// The server's two ports.
    pub(crate) fn ports(&self) -> [SocketAddr; 2] {
        [self.server.mon_addr(), self.server.osd_addr()]
    }

    /// A builder of clients of the server.
    pub(crate) fn builder(&self) -> Builder {
        Builder::new().conf_file(self.server.conf().to_str().expect("a path in UTF-8"))
    }

    /// The errors logged so far.
    pub(crate) fn errors(&self) -> Vec<String> {
        let lines = self.lines.lock().expect("not poisoned");
        lines.iter().filter(|(level, _)| *level == Level::Error).map(|(_, line)| line.clone()).collect()
    }

    /// Waits for a log line that contains all of `parts`.
    pub(crate) async fn logged(&self, parts: &[&str]) {
        let said = |line: &String| parts.iter().all(|part| line.contains(part));
        let wait = async {
            while !self.errors().iter().any(said) {
                tokio::task::yield_now().await;
            }
        };
        if tokio::time::timeout(HANG_UP_MAX, wait).await.is_err() {
            panic!("no line with {parts:?} in {:#?}", self.errors());
        }
    }

    /// Checks that the bystander was not affected, and that the log is short.
    pub(crate) async fn ends_well(self) {
        let errors = self.errors();
        self.bystander.stop().await;
        assert!(errors.len() < 1000, "{} lines", errors.len());
        assert!(errors.iter().all(|line| !line.contains('\n') && line.len() < 500), "{errors:#?}");
    }
}

/// Reads and writes all the time.
struct Bystander {
    rados: Rados,
    proxies: [FaultProxy; 2],
    stop: watch::Sender<bool>,
    task: JoinHandle<u64>,
}

impl Bystander {
    async fn start(server: &Handle) -> Self {
        let proxy = |addr| FaultProxy::start(addr, 1, u64::MAX, 0);
        let mon = proxy(server.mon_addr()).expect("a proxy");
        let osd = proxy(server.osd_addr()).expect("a proxy");
        let (to_mon, to_osd) = (mon.addr(), osd.addr());
        let conf = server.conf().to_str().expect("a path in UTF-8");
        let rados = Builder::new()
            .conf_file(conf)
            .reroute(move |kind, _| if kind == EntityType::MON { to_mon } else { to_osd })
            .connect()
            .await
            .expect("connects");
        let pool = rados.ioctx("data").await.expect("the pool");
        let (stop, stopped) = watch::channel(false);
        let task = tokio::spawn(async move {
            let mut count = 0;
            while !*stopped.borrow() {
                write_and_read(&pool, count).await;
                count += 1;
            }
            count
        });
        Self { rados, proxies: [mon, osd], stop, task }
    }

    async fn stop(self) {
        self.stop.send_replace(true);
        assert!(soon("the other client", self.task).await.expect("no panic") > 0);
        let status = soon("a command", self.rados.mon_command(r#"{"prefix": "health"}"#, Bytes::new())).await;
        assert!(status.expect("the monitor answers").0.starts_with(b"HEALTH_OK"));
        assert_eq!(self.proxies.map(|proxy| proxy.connections()), [1, 1], "it had to connect again");
    }
}

async fn write_and_read(pool: &IoCtx, count: u64) {
    let content = Bytes::from(count.to_le_bytes().repeat(500));
    soon("a write", pool.write_full("o", content.clone())).await.expect("written");
    let got = soon("a read", pool.read("o", 0, 0)).await.expect("read");
    assert!(got == content, "write {count}");
}

/// Sends bytes to a port. With `then_end` closes the sending side after them. Returns our address and
/// the bytes received until the server closes the connection, which it must.
pub(crate) async fn offer(to: SocketAddr, bytes: &[u8], then_end: bool) -> (SocketAddr, Vec<u8>) {
    let mut stream = TcpStream::connect(to).await.expect("it listens");
    let ours = stream.local_addr().expect("an address");
    let mut answer = Vec::new();
    let talk = async {
        let (mut from, mut to) = stream.split();
        let say = async {
            // The server may close the connection before all bytes are sent.
            let _ = to.write_all(bytes).await;
            if then_end {
                let _ = to.shutdown().await;
            }
        };
        tokio::join!(say, from.read_to_end(&mut answer))
    };
    let (_, end) = match tokio::time::timeout(HANG_UP_MAX, talk).await {
        Ok(end) => end,
        Err(_) => panic!("{to} does not hang up on {} bytes", bytes.len()),
    };
    // An orderly end, or a reset because the server left bytes unread.
    drop(end);
    (ours, answer)
}

/// The resident memory of the process, in bytes.
pub(crate) fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it is there");
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kib << 10
}
