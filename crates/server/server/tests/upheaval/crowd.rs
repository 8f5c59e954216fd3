//! Many stock clients on the disk store. Some are killed and started again all the time, as is the
//! server.
//!
//! Each client appends numbers to a log and notes them in its omap, with one operation, and overwrites
//! another object. It reports acknowledged writes to this process, which outlives all clients.
//! `LOLIGO_CROWD_SECONDS` (12) sets the duration and `LOLIGO_CROWD_CLIENTS` (16) the number of clients;
//! `cargo xtask torture` runs the test for long.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::ChildStdout;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use fastrand::Rng;
use loligo_rados::IoCtx;

use crate::common::{LONG, Running, Scratch, connect, soon};
use crate::restarts::serve;

/// The number of clients in one process; each has its own sessions.
const PER_PROCESS: usize = 8;

/// The program of a process with some clients. Its arguments are the configuration, the first client's
/// number, and the rounds acknowledged before.
const CLIENTS: &str = r"
import os, rados, struct, sys, threading
def pattern(i, r): return struct.pack('<QQ', r, i) * (1 + r * 7919 % 4096)
def one(i, acked):
    c = rados.Rados(conffile=sys.argv[1]); c.connect(); io = c.open_ioctx('data')
    log, data = 'log.%d' % i, 'data.%d' % i
    r = 0
    try:
        size = io.stat(log)[0]
        found = io.read(log, size)
        r = size // 8
        assert found == b''.join(struct.pack('<Q', k + 1) for k in range(r)), 'log %d' % i
        with rados.ReadOpCtx() as op:
            pairs, _ = io.get_omap_vals_by_keys(op, ('r',))
            io.operate_read_op(op, log)
            assert dict(pairs) == {'r': struct.pack('<Q', r)}, 'omap %d' % i
        found = io.read(data, 1 << 20)
        of = struct.unpack('<Q', found[:8])[0]
        assert of in (r - 1, r) and found == pattern(i, of), 'data %d: %d of %d' % (i, of, r)
    except rados.ObjectNotFound:
        assert acked == 0 and r <= 1, 'client %d lost something: %d' % (i, acked)
    assert r in (acked, acked + 1), 'client %d has %d, and %d were acknowledged' % (i, r, acked)
    if r > acked:
        # Brought to its end: whoever comes next shall find no more than one round that was not.
        io.write_full(data, pattern(i, r))
        os.write(1, b'%d %d\n' % (i, r))
    while True:
        r += 1
        with rados.WriteOpCtx() as op:
            op.append(struct.pack('<Q', r))
            io.set_omap(op, ('r',), (struct.pack('<Q', r),))
            io.operate_write_op(op, log)
        io.write_full(data, pattern(i, r))
        os.write(1, b'%d %d\n' % (i, r))
        assert io.read(data, 1 << 20) == pattern(i, r), 'data %d' % i
def run(*args):
    try: one(*args)
    except BaseException as e:
        os.write(2, b'%r\n' % e); os._exit(1)
for k, acked in enumerate(sys.argv[3:]):
    threading.Thread(target=run, args=(int(sys.argv[2]) + k, int(acked))).start()
";

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn a_crowd_of_stock_clients_loses_nothing_and_memory_stays_flat() {
    let lasting = Duration::from_secs(setting("LOLIGO_CROWD_SECONDS", 12));
    let clients = setting("LOLIGO_CROWD_CLIENTS", 16) as usize;
    let scratch = Scratch::new("crowd");
    let dir = scratch.0.clone();
    let crowd = tokio::task::spawn_blocking(move || upheave(&dir, clients, lasting));
    let (server, crowd) = crowd.await.expect("no panic");
    let (_rados, pool) = connect(&scratch.0.join("ceph.conf")).await;
    let mut total = 0;
    for (i, acked) in crowd.acked.iter().enumerate() {
        let acked = acked.load(Ordering::Relaxed);
        soon("a log", check(&pool, i, acked)).await;
        total += acked;
    }
    println!(
        "{clients} clients, {} s: {total} rounds, {} kills of eight clients, {} of the server; memory {} -> {} KiB",
        lasting.as_secs(),
        crowd.kills,
        crowd.server_kills,
        crowd.memory_kib.0,
        crowd.memory_kib.1
    );
    drop(server);
}

fn setting(name: &str, default: u64) -> u64 {
    env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

/// Checks that the log has all acknowledged writes, once and in order, and perhaps those in flight.
async fn check(pool: &IoCtx, i: usize, acked: u64) {
    let log = pool.read(format!("log.{i}"), 0, 0).await.expect("each has begun");
    let entries = log.chunks(8).map(|entry| u64::from_le_bytes(entry.try_into().expect("whole entries")));
    assert!(entries.eq(1..=(log.len() as u64 / 8)), "log {i}");
    let count = log.len() as u64 / 8;
    assert!(count == acked || count == acked + 1, "log {i} has {count}, and {acked} were acknowledged");
}

/// The state of a run.
struct Crowd {
    /// The last acknowledged round of each client.
    acked: Arc<[AtomicU64]>,
    kills: u32,
    server_kills: u32,
    /// The server's resident memory after its last kill, and at the end.
    memory_kib: (u64, u64),
}

/// Kills clients from beginning to end, and the server in the first half.
fn upheave(dir: &Path, clients: usize, lasting: Duration) -> (Running, Crowd) {
    let mut rng = Rng::with_seed(setting("LOLIGO_CROWD_SEED", 1));
    let acked: Arc<[AtomicU64]> = (0..clients).map(|_| AtomicU64::new(0)).collect();
    let mut crowd = Crowd { acked, kills: 0, server_kills: 0, memory_kib: (0, 0) };
    let mut server = serve(dir);
    let conf = dir.join("ceph.conf");
    let mut processes: Vec<Process> =
        (0..clients).step_by(PER_PROCESS).map(|first| Process::start(&conf, first, &crowd.acked)).collect();
    let began = Instant::now();
    crowd.progress(&mut processes);
    while began.elapsed() < lasting {
        thread::sleep(Duration::from_millis(rng.u64(300..1500)));
        let second_half = began.elapsed() > lasting / 2;
        if second_half && crowd.memory_kib.0 == 0 {
            crowd.progress(&mut processes);
            crowd.memory_kib.0 = resident_kib(&server);
        }
        if !second_half && rng.u32(..4) == 0 {
            server.kill();
            server = serve(dir);
            crowd.server_kills += 1;
            crowd.progress(&mut processes);
        } else {
            let victim = rng.usize(..processes.len());
            let first = processes[victim].first;
            processes.swap_remove(victim).end();
            processes.push(Process::start(&conf, first, &crowd.acked));
            crowd.kills += 1;
        }
    }
    crowd.progress(&mut processes);
    crowd.memory_kib.1 = resident_kib(&server);
    processes.into_iter().for_each(Process::end);
    assert!(crowd.server_kills > 0 && crowd.kills > 0, "there was an upheaval");
    // Caches fill at the beginning: the constant allows for that in short runs; in long runs it is a
    // small part of the data written.
    let (from, to) = crowd.memory_kib;
    assert!(to < from + from / 2 + (64 << 10), "memory has grown from {from} to {to} KiB");
    (server, crowd)
}

impl Crowd {
    /// Waits until every client has had another write acknowledged.
    fn progress(&self, processes: &mut [Process]) {
        let goal: Vec<u64> = self.acked.iter().map(|acked| acked.load(Ordering::Relaxed)).collect();
        let until = Instant::now() + LONG;
        while self.acked.iter().zip(&goal).any(|(acked, goal)| acked.load(Ordering::Relaxed) == *goal) {
            let waiting =
                || self.acked.iter().zip(&goal).filter(|(a, goal)| a.load(Ordering::Relaxed) == **goal);
            assert!(Instant::now() < until, "{} clients got no answer for {LONG:?}", waiting().count());
            for process in &mut *processes {
                let ended = process.running.0.try_wait().expect("it can be asked");
                assert!(ended.is_none(), "clients {}.. ended: {ended:?}", process.first);
            }
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// The resident memory of the server, in KiB.
fn resident_kib(server: &Running) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", server.0.id())).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("Linux says so");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// A process with some clients.
struct Process {
    first: usize,
    running: Running,
    /// Reads the clients' reports until the pipe is closed.
    reader: thread::JoinHandle<()>,
}

impl Process {
    fn start(conf: &Path, first: usize, acked: &Arc<[AtomicU64]>) -> Self {
        let count = PER_PROCESS.min(acked.len() - first);
        let before =
            acked[first..first + count].iter().map(|acked| acked.load(Ordering::Relaxed).to_string());
        let mut args = vec!["-c".to_owned(), CLIENTS.to_owned(), conf.to_str().expect("UTF-8").to_owned()];
        args.push(first.to_string());
        args.extend(before);
        let mut running = Running::start("/usr/bin/python3", &args, conf);
        let stdout = running.0.stdout.take().expect("piped");
        let acked = Arc::clone(acked);
        Self { first, running, reader: thread::spawn(move || note(stdout, &acked)) }
    }

    /// Kills the process, and reads its remaining reports. After that the acknowledged writes are known,
    /// except for one round of each client.
    fn end(mut self) {
        self.running.kill();
        self.reader.join().expect("no panic");
    }
}

fn note(stdout: ChildStdout, acked: &[AtomicU64]) {
    for line in BufReader::new(stdout).lines().map_while(Result::ok) {
        let (i, round) = line.split_once(' ').expect("client and round");
        let (i, round): (usize, u64) = (i.parse().expect("a number"), round.parse().expect("a number"));
        acked[i].store(round, Ordering::Relaxed);
    }
}
