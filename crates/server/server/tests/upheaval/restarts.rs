//! The server is restarted while clients run. A memory store is empty after a restart. The guarantees
//! are that operations are answered again, that data written after the restart exists, and that the
//! cluster is the same.

use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::join_all;
use loligo_mon::StateFile;
use loligo_rados::{Errno, Error, IoCtx, LockMode, LockOptions};
use loligo_server::{Handle, Server};

use crate::common::{PYTHON_HEAD, Running, Scratch, builder, connect, loligo, soon};

const WRITERS: usize = 8;

fn start(dir: &Path) -> Handle {
    Server::memory().data_dir(dir).pool("data").start().expect("the server starts")
}

/// Writers that run until they are told to stop, each on an object of its own.
struct Writers {
    stop: Arc<AtomicBool>,
    /// The number of writes that each writer has completed.
    done: Arc<[AtomicU64]>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl Writers {
    fn start(pool: &IoCtx) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let done: Arc<[AtomicU64]> = (0..WRITERS).map(|_| AtomicU64::new(0)).collect();
        let write = |i: usize| {
            let (pool, stop, done) = (pool.clone(), Arc::clone(&stop), Arc::clone(&done));
            tokio::spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    let round = done[i].load(Ordering::Relaxed) + 1;
                    let content = Bytes::copy_from_slice(&round.to_le_bytes());
                    soon("a write", pool.write_full(format!("o{i}"), content)).await.expect("written");
                    done[i].store(round, Ordering::Relaxed);
                }
            })
        };
        let tasks = (0..WRITERS).map(write).collect();
        Self { stop, done, tasks }
    }

    /// Waits until each writer has completed some more writes.
    async fn progress(&self, when: &str) {
        let goal: Vec<u64> = self.done.iter().map(|done| done.load(Ordering::Relaxed) + 20).collect();
        let reached = async {
            while self.done.iter().zip(&goal).any(|(done, goal)| done.load(Ordering::Relaxed) < *goal) {
                tokio::task::yield_now().await;
            }
        };
        soon(when, reached).await;
    }

    /// Stops the writers. Returns the last write of each.
    async fn stop(self) -> Vec<u64> {
        self.stop.store(true, Ordering::Relaxed);
        join_all(self.tasks).await.into_iter().for_each(|ended| ended.expect("no panic"));
        self.done.iter().map(|done| done.load(Ordering::Relaxed)).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_client_resumes_after_restarts() {
    let scratch = Scratch::new("resumes");
    let mut server = start(&scratch.0);
    let (rados, pool) = connect(server.conf()).await;
    let (fsid, mon, osd) = (server.fsid(), server.mon_addr(), server.osd_addr());
    let writers = Writers::start(&pool);
    writers.progress("from the start").await;
    for restart in 1..=3 {
        let epoch = rados.map_epoch();
        server.shutdown().await;
        server = start(&scratch.0);
        assert_eq!(
            (server.fsid(), server.mon_addr(), server.osd_addr()),
            (fsid, mon, osd),
            "the same cluster"
        );
        writers.progress("after a restart").await;
        soon("the map", rados.wait_for_latest_osdmap()).await.expect("the map");
        // Down, and up again with another nonce: older maps do not lead to this run of the OSD.
        assert_eq!(rados.map_epoch().0, epoch.0 + 2, "restart {restart}");
    }
    for (i, round) in writers.stop().await.into_iter().enumerate() {
        let got = soon("a read", pool.read(format!("o{i}"), 0, 0)).await.expect("read");
        assert_eq!(got, round.to_le_bytes().as_slice(), "o{i}");
    }
    server.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn monitors_say_how_long_operations_wait() {
    let scratch = Scratch::new("told");
    let server = start(&scratch.0);
    let conf = server.conf().to_owned();
    let (rados, _) = connect(&conf).await;
    for option in ["rados_osd_op_timeout", "rados_mon_op_timeout"] {
        let set = format!(r#"{{"prefix":"config set","who":"client","name":"{option}","value":"1"}}"#);
        rados.mon_command(&set, Bytes::new()).await.expect("set");
    }
    let told = builder(&conf).connect().await.expect("connects");
    let pool = told.ioctx("data").await.expect("the pool");
    // The program's own setting takes precedence.
    let own = builder(&conf).set("rados_osd_op_timeout", "0.2").connect().await.expect("connects");
    let own_pool = own.ioctx("data").await.expect("the pool");
    server.shutdown().await;
    for (pool, limit) in [(pool, Duration::from_secs(1)), (own_pool, Duration::from_millis(200))] {
        let error = soon("an operation", pool.write_full("o", "x".into())).await.expect_err("no server");
        assert!(matches!(error, Error::Timeout(after) if after == limit), "{error:?}");
    }
    let error = soon("a command", told.mon_command("{}", Bytes::new())).await.expect_err("no server");
    assert!(matches!(error, Error::Timeout(after) if after == Duration::from_secs(1)), "{error:?}");
}

/// A monitor that has lost its secrets accepts its clients again under a new identity. An OSD that has
/// executed their requests would not recognize them if they were sent again.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_sent_is_not_sent_again_under_another_identity() {
    let scratch = Scratch::new("identity");
    let mute = Server::memory().data_dir(&scratch.0).pool("data").commit_delay(Duration::from_secs(3600));
    let server = mute.start().expect("the server starts");
    let (rados, pool) = connect(server.conf()).await;
    let before = rados.instance_id();
    // Now a connection to the OSD exists.
    assert_eq!(pool.read("o", 0, 1).await.expect_err("nothing there").errno(), Errno::ENOENT);
    let append = tokio::spawn({
        let pool = pool.clone();
        async move { pool.append("o", "x".into()).await }
    });
    let sent = async {
        while rados.in_flight().0 == 0 {
            tokio::task::yield_now().await;
        }
    };
    soon("the append is sent, and never acknowledged", sent).await;
    drop(server);
    forget_secrets(&scratch.0);
    let server = start(&scratch.0);
    let error = soon("the append", append).await.expect("no panic").expect_err("it is not repeated");
    assert!(matches!(error, Error::NewIdentity), "{error:?}");
    assert_eq!(error.errno(), Errno::ETIMEDOUT);
    assert_ne!(rados.instance_id(), before);
    // The client continues under its new identity.
    soon("an append", pool.append("o", "y".into())).await.expect("appended");
    assert_eq!(soon("a read", pool.read("o", 0, 0)).await.expect("read"), b"y"[..]);
    assert_eq!(rados.in_flight(), (0, 0));
    server.shutdown().await;
}

/// Removes the service keys, with which tickets are sealed, from a monitor's state.
fn forget_secrets(dir: &Path) {
    let file = StateFile::new(dir.join("mon.json"));
    let mut state = file.load().expect("a state that can be read").expect("there is one");
    assert!(!state.service_keys().is_empty());
    state.set_service_keys(Bytes::new());
    file.save(&state.to_json()).expect("saved");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_server_operations_wait_or_end_with_a_clear_error() {
    let scratch = Scratch::new("absent");
    let server = start(&scratch.0);
    let conf = server.conf().to_owned();
    let impatient = builder(&conf).set("rados_osd_op_timeout", "0.3").set("rados_mon_op_timeout", "0.3");
    let impatient = impatient.connect().await.expect("connects");
    let impatient_pool = impatient.ioctx("data").await.expect("the pool");
    let (_patient, pool) = connect(&conf).await;
    pool.write_full("before", "x".into()).await.expect("written");
    server.shutdown().await;

    let error =
        soon("an operation", impatient_pool.write_full("o", "x".into())).await.expect_err("no server");
    assert_eq!((error.errno(), error.to_string().as_str()), (Errno::ETIMEDOUT, TIMED_OUT), "{error:?}");
    let error = soon("a command", impatient.mon_command("{}", Bytes::new())).await.expect_err("no server");
    assert!(matches!(error, Error::Timeout(_)), "{error:?}");
    let waits = tokio::spawn({
        let pool = pool.clone();
        async move { pool.write_full("waits", "x".into()).await }
    });
    let _server = start(&scratch.0);
    soon("an operation", waits).await.expect("no panic").expect("written");
    // A client that reconnects pauses between two attempts, which may use up its timeout.
    let again = async {
        while let Err(e) = impatient_pool.write_full("o", "x".into()).await {
            assert_eq!(e.errno(), Errno::ETIMEDOUT, "{e:?}");
        }
    };
    soon("an operation", again).await;
    let lost = soon("a read", pool.read("before", 0, 0)).await.expect_err("a memory store comes back empty");
    assert_eq!(lost.errno(), Errno::ENOENT);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_whose_renewal_was_not_answered_in_time_is_still_held() {
    let scratch = Scratch::new("renewal");
    let start = || Server::disk(&scratch.0).pool("data").start().expect("the server starts");
    let server = start();
    let impatient = builder(server.conf()).set("rados_osd_op_timeout", "0.3");
    let impatient = impatient.connect().await.expect("connects");
    let pool = impatient.ioctx("data").await.expect("the pool");
    // The lock is renewed for the first time after three seconds.
    let held_for = Duration::from_secs(9);
    let options = LockOptions { cookie: "c".into(), ..LockOptions::default() };
    let began = Instant::now();
    let hold = pool.hold_lock("o", "l", LockMode::Exclusive, held_for, &options);
    let guard = soon("a lock", hold).await.expect("free");
    server.shutdown().await;
    tokio::time::sleep(held_for / 3 + Duration::from_secs(1)).await;
    assert!(guard.is_held(), "lost after {:?}", began.elapsed());
    let server = start();
    tokio::time::sleep_until((began + held_for + Duration::from_secs(1)).into()).await;
    assert!(guard.is_held(), "not renewed");
    soon("the lock's end", guard.release()).await.expect("it was held");
    server.shutdown().await;
}

/// The error text for the user.
const TIMED_OUT: &str = "no answer within 0.3 s";

#[tokio::test(flavor = "multi_thread")]
async fn ports_that_others_have_taken_are_given_up() {
    let scratch = Scratch::new("ports");
    let server = start(&scratch.0);
    let (mon, osd) = (server.mon_addr(), server.osd_addr());
    server.shutdown().await;
    let _others = [mon, osd].map(|addr| TcpListener::bind(addr).expect("the port is free now"));
    let server = start(&scratch.0);
    assert!(server.mon_addr() != mon && server.osd_addr() != osd);
    let (_rados, pool) = connect(server.conf()).await;
    soon("a write", pool.write_full("o", "x".into())).await.expect("written");
}

/// Starts `loligo serve` with the same arguments each time. Returns when it is ready.
pub(crate) fn serve(dir: &Path) -> Running {
    let dir_arg = dir.to_str().expect("a path in UTF-8");
    let args = ["serve", "--data", dir_arg, "--mon-addr", "127.0.0.1:0", "-p", "data"];
    let mut server = Running::start(loligo(), &args, &dir.join("ceph.conf"));
    let ready = server.lines().next().expect("a line");
    assert!(ready.starts_with("ready conf="), "{ready}");
    server
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn stock_clients_run_on_when_the_server_is_killed_and_started_again() {
    let scratch = Scratch::new("killed-server");
    let mut server = serve(&scratch.0);
    let conf = scratch.0.join("ceph.conf");
    let script = format!(
        "{PYTHON_HEAD}\
         for line in map(str, range(10**9)):\n\
         \x20   done = [io.aio_write_full('o%d' % i, line.encode()) for i in range(64)]\n\
         \x20   for d in done: d.wait_for_complete()\n\
         \x20   assert all(d.get_return_value() == 0 for d in done)\n\
         \x20   for i in range(64):\n\
         \x20       try: assert io.read('o%d' % i) == line.encode(), i\n\
         \x20       except rados.ObjectNotFound: pass\n\
         \x20   print('wrote', line, c.get_fsid(), flush=True)\n"
    );
    let conf_arg = conf.to_str().expect("a path in UTF-8");
    let bench =
        Running::start("rados", &["-p", "data", "bench", "4", "write", "-b", "4096", "--no-cleanup"], &conf);
    let mut python = Running::start("/usr/bin/python3", &["-c", &script, conf_arg], &conf);
    let mut lines = python.lines();
    let first = lines.next().expect("it has begun");
    let fsid = first.rsplit(' ').next().expect("the fsid").to_owned();
    for restart in 1..=3 {
        server.kill();
        server = serve(&scratch.0);
        let mut resumed = tokio::task::spawn_blocking(move || {
            let seen: Vec<_> = lines.by_ref().take(20).collect();
            (seen, lines)
        });
        let (seen, rest) = soon("python after a restart", &mut resumed).await.expect("no panic");
        assert_eq!(seen.len(), 20, "restart {restart}: python has ended");
        assert!(seen.iter().all(|line| line.ends_with(&fsid)), "restart {restart}: {seen:?}");
        lines = rest;
    }
    let bench = tokio::task::spawn_blocking(move || bench.succeed("rados bench"));
    soon("rados bench", bench).await.expect("no panic");
}
