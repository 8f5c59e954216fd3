//! Clients that are killed during writes.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::{env, fs};

use bytes::Bytes;
use futures_util::future::join_all;
use loligo_rados::IoCtx;
use loligo_server::Server;

use crate::common::{PYTHON_HEAD, Running, Scratch, connect, loligo, soon};

/// The number of objects that a victim overwrites repeatedly, all at once.
const OBJECTS: usize = 8;
/// The length of each write: many socket buffers, so that a kill interrupts writes that are half sent.
const LEN: usize = 700_000;
/// The number of rounds acknowledged before the kill.
const ROUNDS_MIN: u8 = 6;
/// The variable that names the server's configuration to the victim process.
const VICTIM: &str = "LOLIGO_TEST_VICTIM_CONF";

/// The name of the test that is also the victim's program.
const OURS: &str = "kills::what_a_killed_client_was_told_is_there_and_nothing_is_torn";

#[tokio::test(flavor = "multi_thread")]
async fn what_a_killed_client_was_told_is_there_and_nothing_is_torn() {
    if let Some(conf) = env::var_os(VICTIM) {
        return overwrite(Path::new(&conf)).await;
    }
    let server = Server::memory().pool("data").start().expect("the server starts");
    let program = env::current_exe().expect("the test's own program");
    let mut command = Command::new(program);
    command.args(["--exact", OURS, "--nocapture"]).env(VICTIM, server.conf());
    command.stdout(std::process::Stdio::piped());
    let victim = Running(command.spawn().expect("it starts"));
    kill_and_check(server.conf(), victim).await;
}

/// The victim's program: fills each object with the number of the round, and prints each acknowledged
/// write. Each object has a client of its own, so that the connections break at different points.
async fn overwrite(conf: &Path) {
    let fill = async |i| {
        let (_rados, pool) = connect(conf).await;
        for round in 1..=u8::MAX {
            write(&pool, i, round).await;
        }
    };
    join_all((0..OBJECTS).map(fill)).await;
}

async fn write(pool: &IoCtx, i: usize, round: u8) {
    pool.write_full(format!("o{i}"), Bytes::from(vec![round; LEN])).await.expect("written");
    println!("ack {i} {round}");
    let _ = std::io::stdout().flush();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn what_a_killed_stock_client_was_told_is_there_and_nothing_is_torn() {
    let server = Server::memory().pool("data").start().expect("the server starts");
    let script = format!(
        "{PYTHON_HEAD}\
         import threading\n\
         def run(i):\n\
         \x20   for r in range(1, 256):\n\
         \x20       io.write_full('o%d' % i, bytes([r]) * {LEN})\n\
         \x20       sys.stdout.write('ack %d %d\\n' % (i, r)); sys.stdout.flush()\n\
         for i in range({OBJECTS}): threading.Thread(target=run, args=(i,)).start()\n"
    );
    let conf = server.conf().to_str().expect("a path in UTF-8");
    let victim = Running::start("/usr/bin/python3", &["-c", &script, conf], server.conf());
    kill_and_check(server.conf(), victim).await;
}

/// Kills the victim after some rounds, and checks the objects. Another client works meanwhile.
async fn kill_and_check(conf: &Path, mut victim: Running) {
    let (_rados, pool) = connect(conf).await;
    let other = Bystander::start(pool.clone());
    let lines = victim.lines();
    let acked = tokio::task::spawn_blocking(move || {
        let (mut acked, mut alive) = (BTreeMap::new(), true);
        for line in lines {
            if let Some((i, round)) = ack(&line) {
                acked.insert(i, round);
            }
            if alive && acked.len() == OBJECTS && acked.values().all(|round| *round >= ROUNDS_MIN) {
                // Its last output is still in the pipe.
                victim.kill();
                alive = false;
            }
        }
        assert!(!alive, "the victim ended by itself: {acked:?}");
        acked
    });
    let acked = soon("the victim's writes", acked).await.expect("no panic");
    assert_eq!(acked.len(), OBJECTS, "{acked:?}");
    for (i, round) in acked {
        let got = soon("a read", pool.read(format!("o{i}"), 0, 0)).await.expect("read");
        assert_eq!(got.len(), LEN, "o{i}");
        assert!(got[0] >= round, "o{i} is of round {}, {round} was acknowledged", got[0]);
        assert!(got.iter().all(|byte| *byte == got[0]), "o{i} is torn");
    }
    other.stop().await;
}

fn ack(line: &str) -> Option<(usize, u8)> {
    // The test harness may have printed to the same line.
    let (i, round) = line.split_once("ack ")?.1.split_once(' ')?;
    Some((i.parse().ok()?, round.parse().ok()?))
}

/// A client that must not be affected: appends, and reads what it has appended.
pub(crate) struct Bystander {
    stop: tokio::sync::watch::Sender<bool>,
    task: tokio::task::JoinHandle<u32>,
}

impl Bystander {
    pub(crate) fn start(pool: IoCtx) -> Self {
        let (stop, stopped) = tokio::sync::watch::channel(false);
        let task = tokio::spawn(async move {
            let mut count = 0_u32;
            while !*stopped.borrow() {
                soon(
                    "another's append",
                    pool.append("bystander", Bytes::copy_from_slice(&count.to_le_bytes())),
                )
                .await
                .expect("appended");
                let at = u64::from(count) * 4;
                let got = soon("another's read", pool.read("bystander", at, 0)).await.expect("read");
                assert_eq!(got, count.to_le_bytes().as_slice(), "append {count}");
                count += 1;
            }
            count
        });
        Self { stop, task }
    }

    pub(crate) async fn stop(self) {
        self.stop.send_replace(true);
        assert!(soon("another client", self.task).await.expect("no panic") > 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn killed_programs_leave_whole_writes_and_the_server_well() {
    let (server, scratch) =
        (Server::memory().pool("data").start().expect("the server starts"), Scratch::new("kills"));
    let (_rados, pool) = connect(server.conf()).await;
    let other = Bystander::start(pool.clone());
    let file = scratch.file("big");
    fs::write(&file, vec![7; 400 << 20]).expect("the input is written");
    let conf = server.conf().to_str().expect("a path in UTF-8");
    let loligo = loligo();
    let programs: [(&str, Vec<&str>); 2] = [
        (loligo.to_str().expect("a path in UTF-8"), vec!["-c", conf, "-p", "data", "put", "ours", &file]),
        ("rados", vec!["-p", "data", "put", "stock", &file]),
    ];
    for (name, (program, args)) in ["ours", "stock"].into_iter().zip(programs) {
        let mut victim = Running::start(program, &args, server.conf());
        let begun = async {
            while pool.stat(name).await.map_or(0, |stat| stat.size) < 8 << 20 {
                tokio::task::yield_now().await;
            }
        };
        soon("the first writes", begun).await;
        assert!(
            victim.0.try_wait().expect("it can be asked").is_none(),
            "{program} has ended before it was killed"
        );
        victim.kill();
        let size = pool.stat(name).await.expect("it exists").size;
        assert_eq!(size % (4 << 20), 0, "{program} writes 4 MiB at a time");
        let got = soon("a read", pool.read(name, 0, 64 << 20)).await.expect("read");
        assert!(got.iter().all(|byte| *byte == 7), "{program}: holes");
    }
    other.stop().await;
}
