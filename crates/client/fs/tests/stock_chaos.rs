//! A client of a file system whose servers keep failing.
//!
//! Goal: whatever happens to the metadata servers and the OSDs, each call has one effect, and what was
//! synced is there in the end. Method: on two ranks, workers append to logs, move a file to and fro, make
//! and remove second names, and make and remove files; each of these would
//! notice an effect that is missing or that happened twice. Meanwhile directories are pinned to the other
//! rank, ranks are failed, killed, taken away and given back, an OSD is killed, and another client, which
//! recovers, is evicted.
//!
//! LOLIGO_STOCK_DIR names the directory of a cluster with three metadata servers, two ranks and three OSDs
//! that keep acknowledged data. Its daemons are killed. The test goes on for LOLIGO_CHAOS_SECONDS (default:
//! 30). LOLIGO_CHAOS_SEED chooses what happens first.

#[path = "../../rados/tests/daemons/mod.rs"]
mod daemons;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use loligo_fs::{Errno, Error, FileSystem, MountOptions, OpenOptions, XattrMode};
use loligo_rados::{Builder, Rados};

use daemons::Daemons;

/// How long a worker may take for two steps, whatever has just happened.
const PATIENCE: Duration = Duration::from_secs(180);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs stock Ceph; run by cargo xtask test"]
async fn nothing_acknowledged_is_lost_in_chaos() {
    let number = |name: &str| std::env::var(name).ok().map(|n| n.parse().expect("a number"));
    let end = Instant::now() + Duration::from_secs(number("LOLIGO_CHAOS_SECONDS").unwrap_or(30));
    let seed = number("LOLIGO_CHAOS_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    println!("LOLIGO_CHAOS_SEED={seed}");
    let daemons = Daemons::of("LOLIGO_STOCK_DIR");
    let chaos = Chaos::new(&daemons, seed).await;
    // Two steps in any case. Those that follow another are the more interesting ones.
    for at in seed.. {
        chaos.step(at).await;
        if at > seed && Instant::now() >= end {
            break;
        }
    }
    chaos.finish().await;
}

/// A worker and what it has done.
struct Worker {
    name: &'static str,
    done: Arc<AtomicU64>,
    task: tokio::task::JoinHandle<()>,
}

struct Chaos<'d> {
    daemons: &'d Daemons,
    fs: FileSystem,
    /// A client that is evicted, and comes back.
    victim: FileSystem,
    dirs: [String; 2],
    workers: Vec<Worker>,
    stop: Arc<AtomicBool>,
}

/// What a worker works with.
#[derive(Clone)]
struct Work {
    fs: FileSystem,
    dirs: [String; 2],
    stop: Arc<AtomicBool>,
    done: Arc<AtomicU64>,
}

async fn client(daemons: &Daemons) -> Rados {
    Builder::new().conf_file(&daemons.conf()).connect().await.expect("the cluster is there")
}

impl<'d> Chaos<'d> {
    async fn new(daemons: &'d Daemons, seed: u64) -> Self {
        let fs = FileSystem::mount(&client(daemons).await, MountOptions::new()).await.expect("mounted");
        let options = MountOptions::new().recovers(true);
        let victim = FileSystem::mount(&client(daemons).await, options).await.expect("mounted");
        let base = format!("chaos-{seed}-{}", std::process::id());
        fs.create_dir(&base, 0o777).await.expect("made");
        let dirs = [format!("{base}/zero"), format!("{base}/one")];
        for dir in &dirs {
            fs.create_dir(dir, 0o777).await.expect("made");
        }
        let stop = Arc::new(AtomicBool::new(false));
        let mut chaos = Self { daemons, fs, victim, dirs, workers: Vec::new(), stop };
        chaos.pin(0).await;
        let work = |fs: &FileSystem| chaos.work(fs);
        let works = [work(&chaos.fs), work(&chaos.fs), work(&chaos.fs), work(&chaos.fs), work(&chaos.fs)];
        let of_victim = work(&chaos.victim);
        let [log, direct, mover, linker, maker] = works;
        chaos.start("log", &log.clone(), append(log, "log", false));
        chaos.start("direct", &direct.clone(), append(direct, "direct", true));
        chaos.start("mover", &mover.clone(), move_to_and_fro(mover));
        chaos.start("linker", &linker.clone(), link(linker));
        chaos.start("maker", &maker.clone(), make_and_remove(maker));
        chaos.start("victim", &of_victim.clone(), survive(of_victim));
        chaos.progress("from the start").await;
        chaos
    }

    fn work(&self, fs: &FileSystem) -> Work {
        Work { fs: fs.clone(), dirs: self.dirs.clone(), stop: Arc::clone(&self.stop), done: Arc::default() }
    }

    fn start(&mut self, name: &'static str, work: &Work, run: impl Future<Output = ()> + Send + 'static) {
        self.workers.push(Worker { name, done: Arc::clone(&work.done), task: tokio::spawn(run) });
    }

    fn ceph(&self, words: &str) -> String {
        self.daemons.run(&format!("ceph {words}"))
    }

    /// Pins the two directories to two ranks.
    async fn pin(&self, first: usize) {
        for (at, dir) in self.dirs.iter().enumerate() {
            let rank = ((at + first) % 2).to_string();
            self.fs.set_xattr(dir, "ceph.dir.pin", rank, XattrMode::Any).await.expect("pinned");
        }
    }

    async fn step(&self, at: u64) {
        match at % 7 {
            0 => {
                self.pin(at as usize / 7 + 1).await;
                self.progress("after the directories changed places").await;
            }
            1 => {
                self.ceph(&format!("mds fail fs:{}", at / 7 % 2));
                self.progress("after a rank was failed").await;
            }
            2 => {
                let id = self.victim.rados().instance_id().0;
                self.ceph(&format!("tell mds.0 client evict id={id}"));
                self.progress("after a client was evicted").await;
            }
            3 => {
                let daemon = self.daemon_of(at / 7 % 2);
                self.daemons.kill(&daemon).await;
                self.progress(&format!("without {daemon}")).await;
                self.daemons.start(&daemon);
            }
            4 => {
                self.ceph("fs set fs max_mds 1");
                self.progress("on one rank").await;
            }
            5 => {
                self.ceph("fs set fs max_mds 2");
                self.progress("on two ranks again").await;
            }
            _ => {
                self.daemons.kill("osd.1").await;
                self.ceph("osd down osd.1");
                tokio::time::sleep(Duration::from_secs(2)).await;
                self.daemons.start("osd.1");
                self.progress("after an OSD was killed").await;
            }
        }
        self.until_whole().await;
    }

    /// Returns the name of the server that has a rank; of the first one, if this one has none.
    fn daemon_of(&self, rank: u64) -> String {
        let stat = self.ceph("mds stat");
        let of = |rank: u64| {
            let (_, rest) = stat.split_once(&format!("{rank}="))?;
            rest.split_once('=').map(|(name, _)| format!("mds.{name}"))
        };
        of(rank).or_else(|| of(0)).expect("a rank has a server")
    }

    /// Waits until each rank that there should be is served, and a server stands by: the next failure would
    /// be one too many.
    async fn until_whole(&self) {
        let began = Instant::now();
        loop {
            let stat = self.ceph("mds stat");
            let ranks = if self.ceph("fs get fs").contains("max_mds\t1") { 1 } else { 2 };
            if stat.matches("=up:active").count() == ranks && stat.contains("up:standby") {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "not whole: {stat}");
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }

    /// Waits until each worker has done something more.
    async fn progress(&self, when: &str) {
        let began = Instant::now();
        let goals: Vec<u64> = self.workers.iter().map(|w| w.done.load(Ordering::Relaxed) + 2).collect();
        loop {
            let behind: Vec<&str> = self
                .workers
                .iter()
                .zip(&goals)
                .filter(|(worker, goal)| worker.done.load(Ordering::Relaxed) < **goal)
                .map(|(worker, _)| worker.name)
                .collect();
            let dead: Vec<&str> =
                self.workers.iter().filter(|worker| worker.task.is_finished()).map(|w| w.name).collect();
            assert!(dead.is_empty(), "{dead:?} failed {when}");
            if behind.is_empty() {
                break;
            }
            let waits = self.fs.rados().cluster().waits().all(Duration::from_secs(2));
            assert!(began.elapsed() < PATIENCE, "{behind:?} are stuck {when}: {waits:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        println!("  {when}: got on after {} s", began.elapsed().as_secs());
    }

    async fn finish(self) {
        self.stop.store(true, Ordering::Relaxed);
        for worker in self.workers {
            worker.task.await.unwrap_or_else(|_| panic!("{} lost something", worker.name));
        }
        self.daemons.run("ceph fs set fs max_mds 2");
        assert_eq!(self.fs.in_flight(), 0, "something is not durable");
        self.fs.unmount().await.expect("unmounted");
        // What the victim lost was reported to its worker.
        let _ = self.victim.unmount().await;
    }
}

impl Work {
    fn goes_on(&self) -> bool {
        self.done.fetch_add(1, Ordering::Relaxed);
        !self.stop.load(Ordering::Relaxed)
    }
}

/// Appends lines to a log in either directory, and syncs; reads all in the end.
async fn append(work: Work, name: &str, is_synced_each: bool) {
    let mut logs = Vec::new();
    for dir in &work.dirs {
        let options = OpenOptions::new().read().write().create_new();
        logs.push((work.fs.open(format!("{dir}/{name}"), options).await.expect("made"), String::new()));
    }
    let mut at = 0;
    while work.goes_on() {
        let (file, text) = &mut logs[at % 2];
        let line = format!("{name} {at}\n");
        file.append(line.clone()).await.expect("appended");
        text.push_str(&line);
        if is_synced_each || at % 20 < 2 {
            file.sync().await.expect("durable");
        }
        at += 1;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    for (dir, (file, text)) in work.dirs.iter().zip(logs) {
        file.close().await.expect("closed");
        let file = work.fs.open(format!("{dir}/{name}"), OpenOptions::new().read()).await.expect("there");
        let data = file.read_at(0, text.len() as u64 + 1000).await.expect("read");
        assert!(data == text.as_bytes(), "{dir}/{name}: {} bytes instead of {}", data.len(), text.len());
    }
}

/// Moves a file between two names: it always has exactly one. The names are those of one directory, since a
/// stock server that fails while something moves between ranks may not start again (16.2.15: an assertion
/// when it takes the move back).
async fn move_to_and_fro(work: Work) {
    let path = |at: usize| format!("{}/moved{}", work.dirs[0], at % 2);
    work.fs.make_node(path(0), 0o644, 0).await.expect("made");
    let mut at = 0;
    while work.goes_on() {
        work.fs.rename(path(at), path(at + 1)).await.unwrap_or_else(|e| panic!("moved once: {e}"));
        at += 1;
        assert!(work.fs.stat(path(at)).await.expect("there").is_file());
        let gone = work.fs.stat(path(at + 1)).await.expect_err("moved away");
        assert_eq!(gone.errno(), Errno::ENOENT);
    }
}

/// Makes and removes second names: the count of names is right.
async fn link(work: Work) {
    let [zero, one] = &work.dirs;
    let (first, second) = (format!("{zero}/first"), format!("{one}/second"));
    work.fs.make_node(&first, 0o644, 0).await.expect("made");
    while work.goes_on() {
        work.fs.link(&first, &second).await.unwrap_or_else(|e| panic!("linked once: {e}"));
        assert_eq!(work.fs.stat(&second).await.expect("there").nlink, 2);
        work.fs.remove_file(&second).await.unwrap_or_else(|e| panic!("removed once: {e}"));
        assert_eq!(work.fs.stat(&first).await.expect("there").nlink, 1);
    }
}

/// Makes files and directories, and removes half of them; the rest is there in the end.
async fn make_and_remove(work: Work) {
    let mut kept = 0;
    let mut at = 0;
    while work.goes_on() {
        let dir = &work.dirs[at % 2];
        work.fs.create_dir(format!("{dir}/d{at}"), 0o755).await.unwrap_or_else(|e| panic!("made once: {e}"));
        let file = format!("{dir}/d{at}/f");
        work.fs.make_node(&file, 0o644, 0).await.unwrap_or_else(|e| panic!("made once: {e}"));
        if at % 4 < 2 {
            work.fs.remove_file(&file).await.unwrap_or_else(|e| panic!("removed once: {e}"));
            let gone = work.fs.remove_dir(format!("{dir}/d{at}")).await;
            gone.unwrap_or_else(|e| panic!("removed once: {e}"));
        } else {
            kept += 1;
        }
        at += 1;
    }
    let mut found = 0;
    for dir in &work.dirs {
        let all = work.fs.read_dir(dir).await.expect("a directory").all().await.expect("listed");
        for entry in all.iter().filter(|entry| entry.name.starts_with(b"d") && entry.metadata.is_dir()) {
            let path = [dir.as_bytes(), b"/", &entry.name[..], b"/f"].concat();
            assert!(work.fs.stat(path).await.expect("there").is_file());
            found += 1;
        }
    }
    assert_eq!(found, kept);
}

/// Writes files and syncs each; what a sync confirmed is there, whatever fails in between.
async fn survive(work: Work) {
    let mut durable = Vec::new();
    let mut at = 0;
    while work.goes_on() {
        let path = format!("{}/v{at}", work.dirs[at % 2]);
        if put(&work.fs, &path).await.is_ok() {
            durable.push(path);
        }
        at += 1;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(durable.len() > 2, "nothing of {at} was confirmed");
    for path in durable {
        let file = work.fs.open(&path, OpenOptions::new().read()).await;
        let file = file.unwrap_or_else(|e| panic!("{path} was confirmed: {e}"));
        assert_eq!(file.read_at(0, 1000).await.expect("read"), path, "it was confirmed");
    }
}

async fn put(fs: &FileSystem, path: &str) -> Result<(), Error> {
    let file = fs.open(path, OpenOptions::new().write().create()).await?;
    file.write_at(0, path.to_owned()).await?;
    file.sync().await?;
    file.close().await
}
