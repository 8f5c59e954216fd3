//! Goal: a server that has no file descriptor left refuses new connections, delays changes, and
//! continues when descriptors are free again. Method: the limit of a running server's open files is
//! lowered to the number that it has open.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use loligo_rados::Builder;
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};

/// Time limit of all waits; exceeded only by an event that never comes.
const LONG: Duration = Duration::from_secs(60);

struct Server {
    child: Child,
    dir: PathBuf,
    conf: String,
    mon: String,
}

impl Server {
    fn start() -> Self {
        let dir = std::env::temp_dir().join(format!("loligo-descriptors.{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("room");
        let mut child = Command::new(env!("CARGO_BIN_EXE_loligo"))
            .args(["--no-config-file", "-p", "p", "serve", "--store", "memory", "--mon-addr", "127.0.0.1:0"])
            .args(["--auth", "none", "--data"])
            .arg(dir.join("data"))
            .env_remove("CEPH_CONF")
            .env_remove("CEPH_ARGS")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        let mut ready = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut ready).expect("a line");
        let word = |prefix: &str| {
            let found = ready.split_whitespace().find_map(|word| word.strip_prefix(prefix));
            found.unwrap_or_else(|| panic!("no {prefix} in {ready:?}")).to_owned()
        };
        Self { conf: word("conf="), mon: word("mon="), child, dir }
    }

    /// Limits the server's open files to this number; files already open stay open.
    fn limit_files(&self, files: u64) {
        // The hard limit is that of this process.
        let limit = Rlimit { current: Some(files), ..getrlimit(Resource::Nofile) };
        prlimit(Some(Pid::from_child(&self.child)), Resource::Nofile, limit).expect("it is our child");
    }

    /// Returns the descriptors of its open files.
    fn files(&self) -> Vec<u64> {
        let listed = std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).expect("Linux");
        let names = listed.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        let mut numbers: Vec<u64> = names.collect();
        numbers.sort_unstable();
        numbers
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_descriptors_goes_on_when_there_are_some_again() {
    let mut server = Server::start();
    let client = Builder::new().conf_file(&server.conf).connect().await.expect("connects");
    let pool = client.ioctx("p").await.expect("the pool");
    pool.write_full("o", "before".into()).await.expect("written");

    // While silent peers hold the last descriptors, a new connection is greeted or closed; it does not
    // wait forever.
    server.limit_files(server.files().last().expect("some are open") + 1);
    let crowd: Vec<_> =
        (0..64).map(|_| TcpStream::connect(&server.mon).expect("the kernel accepts")).collect();
    let mut newcomer = TcpStream::connect(&server.mon).expect("the kernel accepts");
    newcomer.set_read_timeout(Some(LONG)).expect("a time");
    if let Err(e) = newcomer.read(&mut [0; 64]) {
        assert_eq!(e.kind(), std::io::ErrorKind::ConnectionReset);
    }
    drop((crowd, newcomer));

    // Without any free descriptor, a change that must be saved waits; objects are written and read as
    // before.
    server.limit_files(3);
    let change = client.mon_command(
        r#"{"prefix": "osd blocklist", "blocklistop": "add", "addr": "192.0.2.1:0/1"}"#,
        Default::default(),
    );
    let mut change = std::pin::pin!(change);
    let early = tokio::time::timeout(Duration::from_secs(1), &mut change).await;
    assert!(early.is_err(), "it cannot be saved: {early:?}");
    pool.write_full("o", "meanwhile".into()).await.expect("written");
    assert_eq!(server.child.try_wait().expect("it is our child"), None, "it goes on");

    server.limit_files(1024);
    tokio::time::timeout(LONG, change).await.expect("it is saved").expect("it is allowed");
    let other = tokio::time::timeout(LONG, Builder::new().conf_file(&server.conf).connect()).await;
    let other = other.expect("it is let in").expect("connects").ioctx("p").await.expect("the pool");
    assert_eq!(other.read("o", 0, 0).await.expect("read"), "meanwhile");
}
