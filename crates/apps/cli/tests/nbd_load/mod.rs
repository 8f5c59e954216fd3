//! Writers over NBD that record their writes, and check the device's content after kills.

#[allow(dead_code, reason = "no test uses all of it")]
#[path = "../../../nbd/tests/client/mod.rs"]
mod client;

use std::collections::HashMap;
use std::io::{self, BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::time::{Instant, sleep, timeout};

use client::{Client, WRITE};

/// The unit that is written and compared as a whole; no object boundary lies within it.
const BLOCK: usize = 4096;
/// Maximum number of blocks of one write.
const WRITE_BLOCKS_MAX: usize = 16;
/// Number of blocks of one writer.
const BLOCKS: usize = 1024;
/// Number of writes that one writer has in flight.
const DEPTH: usize = 16;
/// Number of writers; each has its own part of the device.
pub(crate) const WRITERS: usize = 4;
/// Bytes of the device.
pub(crate) const SIZE: usize = WRITERS * BLOCKS * BLOCK;
/// Timeout of a reply. It is longer than a cluster takes to detect a dead OSD and get it back, and
/// longer than the lock of a dead client lasts.
const PATIENCE: Duration = Duration::from_secs(120);

/// `loligo nbd serve` with one image, on a free port.
pub(crate) struct Gateway {
    child: Child,
    pub(crate) addr: SocketAddr,
}

impl Gateway {
    pub(crate) fn start(conf: &str, pool: &str, image: &str) -> Self {
        let export = format!("{image}=rbd:{pool}/{image}");
        let mut command = Command::new(env!("CARGO_BIN_EXE_loligo"));
        command.env_remove("CEPH_ARGS").args(["-c", conf, "nbd", "serve", "--listen", "127.0.0.1:0"]);
        let mut child =
            command.args(["--export", &export]).stdout(Stdio::piped()).spawn().expect("it can be run");
        let mut ready = String::new();
        let stdout = child.stdout.take().expect("it is piped");
        BufReader::new(stdout).read_line(&mut ready).expect("text");
        let addr = ready.split_whitespace().find_map(|word| word.strip_prefix("listen="));
        let addr = addr.unwrap_or_else(|| panic!("it is not ready: {ready}"));
        Self { addr: addr.parse().expect("an address"), child }
    }

    /// Kills the gateway without warning, as a machine failure does.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Running writers.
pub(crate) struct Load {
    writers: Vec<tokio::task::JoinHandle<Writer>>,
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
}

/// The record of one writer. Each of its writes has a number, which its blocks contain.
pub(crate) struct Writer {
    first: usize,
    blocks: Vec<Block>,
    rng: fastrand::Rng,
    writes: u64,
    /// Set if its connection ended before it was stopped.
    pub(crate) is_cut_off: bool,
}

/// The numbers of the writes whose bytes a block may have: the last acknowledged one, or a later one
/// that was sent and never acknowledged.
#[derive(Clone, Copy, Default)]
struct Block {
    answered: u64,
    sent: u64,
}

impl Load {
    pub(crate) async fn start(addr: SocketAddr, image: &str, writers: Vec<Writer>) -> Self {
        let (stop, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let mut tasks = Vec::new();
        for writer in writers {
            let client = Client::connect(addr, image).await.expect("it is served");
            tasks.push(tokio::spawn(writer.work(client, Arc::clone(&stop), Arc::clone(&answered))));
        }
        Self { writers: tasks, stop, answered }
    }

    /// Waits until this many more writes have been acknowledged.
    pub(crate) async fn progress(&self, writes: u64) {
        let (until, deadline) = (self.answered.load(Ordering::Relaxed) + writes, Instant::now() + PATIENCE);
        while self.answered.load(Ordering::Relaxed) < until {
            assert!(Instant::now() < deadline, "writes are answered in the end");
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// Begins no more writes, and waits for those in flight.
    pub(crate) async fn finish(self) -> Vec<Writer> {
        self.stop.store(true, Ordering::Relaxed);
        let mut writers = Vec::new();
        for writer in self.writers {
            writers.push(writer.await.expect("it ends"));
        }
        writers
    }
}

impl Writer {
    /// Creates the writers of a device of zeros.
    pub(crate) fn all() -> Vec<Self> {
        let writer = |n: usize| Self {
            first: n * BLOCKS,
            blocks: vec![Block::default(); BLOCKS],
            rng: fastrand::Rng::with_seed(n as u64),
            writes: 0,
            is_cut_off: false,
        };
        (0..WRITERS).map(writer).collect()
    }

    async fn work(mut self, mut client: Client, stop: Arc<AtomicBool>, answered: Arc<AtomicU64>) -> Self {
        let mut under_way: HashMap<u64, (usize, usize)> = HashMap::new();
        self.is_cut_off = false;
        loop {
            while under_way.len() < DEPTH && !stop.load(Ordering::Relaxed) {
                if self.write(&mut client, &mut under_way).await.is_err() {
                    self.is_cut_off = true;
                    break;
                }
            }
            if under_way.is_empty() {
                return self;
            }
            let Ok((error, cookie)) = timeout(PATIENCE, client.reply()).await.expect("an answer in the end")
            else {
                self.is_cut_off = true;
                return self;
            };
            assert_eq!(error, 0, "nothing goes wrong for good");
            let (at, count) = under_way.remove(&cookie).expect("it was asked for, once");
            for block in &mut self.blocks[at..at + count] {
                block.answered = cookie;
            }
            answered.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Sends a write of blocks that no other write in flight covers.
    async fn write(
        &mut self,
        client: &mut Client,
        under_way: &mut HashMap<u64, (usize, usize)>,
    ) -> io::Result<()> {
        let (at, count) = loop {
            let count = self.rng.usize(1..=WRITE_BLOCKS_MAX);
            let at = self.rng.usize(0..=BLOCKS - count);
            if under_way.values().all(|(other, len)| at + count <= *other || other + len <= at) {
                break (at, count);
            }
        };
        self.writes += 1;
        let mut data = Vec::with_capacity(count * BLOCK);
        for (n, block) in self.blocks[at..at + count].iter_mut().enumerate() {
            block.sent = self.writes;
            data.extend(content(self.first + at + n, self.writes));
        }
        under_way.insert(self.writes, (at, count));
        let offset = ((self.first + at) * BLOCK) as u64;
        client.stream.write_all(&Client::request(WRITE, self.writes, offset, data.len() as u32, &data)).await
    }

    /// Checks that the content is one that the record allows, and records it. Returns the number of
    /// blocks whose write was not acknowledged.
    pub(crate) fn compare(&mut self, device: &[u8]) -> usize {
        let mut unanswered = 0;
        for (n, block) in self.blocks.iter_mut().enumerate() {
            let index = self.first + n;
            let bytes = &device[index * BLOCK..][..BLOCK];
            let of = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"));
            assert!(
                of == block.answered || of == block.sent,
                "block {index}: {of}, not {} or {}",
                block.answered,
                block.sent
            );
            assert!(bytes == content(index, of), "block {index} is whole");
            unanswered += usize::from(of != block.answered);
            *block = Block { answered: of, sent: of };
        }
        unanswered
    }
}

/// Returns the content of a block: the write's number, then bytes that depend on it and on the block's
/// index. Without a write the block is zeros.
fn content(index: usize, write: u64) -> Vec<u8> {
    let mut bytes = vec![0; BLOCK];
    if write > 0 {
        fastrand::Rng::with_seed(write << 32 | index as u64).fill(&mut bytes);
        bytes[..8].copy_from_slice(&write.to_le_bytes());
    }
    bytes
}

/// Reads all of a device.
pub(crate) async fn read(addr: SocketAddr, image: &str) -> Vec<u8> {
    const STEP: usize = 1 << 20;
    let mut client = Client::connect(addr, image).await.expect("it is served");
    assert_eq!(client.size, SIZE as u64);
    let mut all = Vec::with_capacity(SIZE);
    while all.len() < SIZE {
        let read = timeout(PATIENCE, client.read(all.len() as u64, STEP as u32)).await;
        all.extend(read.expect("an answer in the end").expect("it can be read"));
    }
    all
}
