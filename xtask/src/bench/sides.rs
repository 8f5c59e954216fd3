//! One run of one workload, with either client against either server.

use std::fmt;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::Result;
use crate::process::output_of;
use crate::stock::Cluster;

use super::figures::Figures;
use super::measure::{process_cpu_us, run_counting_cpu};

/// The client: stock Ceph's or Loligo's.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Client {
    Stock,
    Loligo,
}

/// The server: stock Ceph's or Loligo's.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Server {
    Stock,
    Loligo,
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Self::Stock { "stock" } else { "loligo" })
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Self::Stock { "stock" } else { "loligo" })
    }
}

/// A row of the table: the operation, its size, and the number in flight.
#[derive(Clone, Copy)]
pub(super) struct Workload {
    name: &'static str,
    mode: &'static str,
    bytes: u32,
    depth: u32,
    prepared: Option<Prepared>,
    /// Whether a server in memory has stored and removed as much before: it then has memory to use again. A
    /// cold one takes each page from the kernel.
    warm: bool,
}

/// The preparation of a server on disk for reads.
#[derive(Clone, Copy)]
struct Prepared {
    /// This number of objects is written by the stock client; then the server is restarted and the page
    /// cache dropped.
    objects: u32,
    /// Then each object is read once.
    warm: bool,
}

impl Workload {
    pub(super) const ALL: [Self; 6] = [
        Self::new("4 KiB write, 64 in flight", "write", 4096, 64).warm(),
        Self::new("4 KiB read, 64 in flight", "rand", 4096, 64),
        Self::new("4 KiB write, 1 in flight", "write", 4096, 1).warm(),
        Self::new("4 KiB read, 1 in flight", "rand", 4096, 1),
        Self::new("4 MiB write, 16 in flight", "write", 4 << 20, 16).warm(),
        Self::new("4 MiB read, 16 in flight", "rand", 4 << 20, 16),
    ];

    /// The workload that fills a disk.
    pub(super) const LARGE_WRITES: Self = Self::ALL[4];
    pub(super) const LARGE_READS: Self = Self::ALL[5];

    /// The first writes of servers in memory.
    pub(super) const COLD: [Self; 2] = [
        Self::new("4 KiB write cold, 64 in flight", "write", 4096, 64),
        Self::new("4 MiB write cold, 16 in flight", "write", 4 << 20, 16),
    ];

    /// Workloads for stores on disk: each object read once with empty caches, or repeatedly from the
    /// server's own cache.
    pub(super) const ON_DISK: [Self; 2] = [
        Self {
            prepared: Some(Prepared { objects: 50_000, warm: false }),
            ..Self::new("4 KiB read cold, 64 in flight", "seq", 4096, 64)
        },
        Self {
            prepared: Some(Prepared { objects: 10_000, warm: true }),
            ..Self::new("4 KiB read cached, 64 in flight", "rand", 4096, 64)
        },
    ];

    const fn new(name: &'static str, mode: &'static str, bytes: u32, depth: u32) -> Self {
        Self { name, mode, bytes, depth, prepared: None, warm: false }
    }

    const fn warm(self) -> Self {
        Self { warm: true, ..self }
    }

    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    fn reads(&self) -> bool {
        self.mode != "write"
    }

    /// Returns the seconds of a run: large writes stop before they fill the machine's memory.
    fn seconds(&self, wanted: u32) -> u32 {
        if !self.reads() && self.bytes > 65536 { wanted.min(LARGE_WRITE_SECONDS_MAX) } else { wanted }
    }
}

/// At 4 GB/s this is 8 GB of objects.
pub(super) const LARGE_WRITE_SECONDS_MAX: u32 = 2;

/// The capacity of a temporary server.
const CAPACITY: &str = "12G";

/// The pool for benchmarks.
pub(super) const POOL: &str = "p";

/// Loligo's program.
pub(super) struct Our<'a> {
    pub(super) program: &'a Path,
    /// Whether its server stores objects on disk.
    pub(super) on_disk: bool,
    /// Whether its server speaks msgr2; otherwise it speaks version 1 alone.
    pub(super) msgr2: bool,
}

impl Our<'_> {
    /// The name in `loligo serve --store`.
    pub(super) fn store(&self) -> &'static str {
        if self.on_disk { "disk" } else { "memory" }
    }

    /// Starts Loligo's server.
    fn start(&self, dir: &Path) -> Result<Serve> {
        Serve::start(self.program, dir, self.store(), self.msgr2)
    }

    /// Starts Loligo's server if `server` is that one.
    pub(super) fn serve(&self, server: Server, dir: &Path) -> Result<Option<Serve>> {
        match server {
            Server::Stock => Ok(None),
            Server::Loligo => self.start(&dir.join("serve")).map(Some),
        }
    }
}

/// Runs one workload once.
pub(super) fn run(
    (client, server): (Client, Server),
    workload: Workload,
    seconds: u32,
    stock: &Cluster,
    our: &Our<'_>,
    dir: &Path,
) -> Result<Figures> {
    let seconds = workload.seconds(seconds);
    let workload = Workload { warm: workload.warm && !our.on_disk, ..workload };
    let loligo = our.program;
    match server {
        Server::Stock => {
            let mut run =
                Run { client, workload, conf: stock.conf(), server_pid: stock.pid("osd.0")?, loligo };
            if let Some(prepared) = workload.prepared {
                run.write_objects(prepared.objects)?;
                stock.restart_osd(0)?;
                run.server_pid = stock.pid("osd.0")?;
                run.empty_caches(prepared)?;
            }
            run.bench(seconds)
        }
        Server::Loligo => {
            let mut serve = our.start(&dir.join("serve"))?;
            let mut run =
                Run { client, workload, conf: serve.conf.clone(), server_pid: serve.child.id(), loligo };
            if let Some(prepared) = workload.prepared {
                run.write_objects(prepared.objects)?;
                serve.restart(our)?;
                (run.conf, run.server_pid) = (serve.conf.clone(), serve.child.id());
                run.empty_caches(prepared)?;
            }
            run.bench(seconds)
        }
    }
}

/// A client's run against a running server.
pub(super) struct Run<'a> {
    pub(super) client: Client,
    pub(super) workload: Workload,
    pub(super) conf: PathBuf,
    pub(super) server_pid: u32,
    pub(super) loligo: &'a Path,
}

impl Run<'_> {
    /// Writes this number of objects with the stock client, whichever client reads them.
    fn write_objects(&self, objects: u32) -> Result<()> {
        let mut c = Command::new("rados");
        c.arg("-c").arg(&self.conf).args(["-p", POOL, "bench", "600", "write", "--no-cleanup"]);
        c.args(["-b", &self.workload.bytes.to_string(), "-t", "64", "--run-name", &run_name()]);
        c.args(["--max-objects", &objects.to_string()]);
        output_of(&mut c).map(drop)
    }

    /// Drops the page cache after a restart of the server, then reads each object once if `warm` is set.
    fn empty_caches(&self, prepared: Prepared) -> Result<()> {
        output_of(&mut Command::new("sync"))?;
        std::fs::write("/proc/sys/vm/drop_caches", "3")?;
        if prepared.warm {
            let once = Workload { mode: "seq", ..self.workload };
            self.command(once, 600, true).output()?;
        }
        Ok(())
    }

    fn bench(&self, seconds: u32) -> Result<Figures> {
        let workload = self.workload;
        if workload.reads() && workload.prepared.is_none() {
            // The objects to read must have been written; the reader starts again when it reaches the
            // end.
            let fill_seconds = if workload.bytes > 65536 { 1 } else { 2 };
            self.command(Workload { mode: "write", ..workload }, fill_seconds, true).output()?;
        }
        if workload.warm {
            output_of(&mut self.command(workload, seconds, false))?;
        }
        let server_before = process_cpu_us(self.server_pid)?;
        let (result, client_cpu_us) = self.bench_once(seconds)?;
        let server_cpu_us = process_cpu_us(self.server_pid)? - server_before;
        Ok(Figures {
            ops_per_s: result.ops_per_s,
            latency_mean_us: result.latency_mean_us,
            latency_p50_us: result.latency_p50_us,
            latency_p99_us: result.latency_p99_us,
            client_cpu_us_per_op: client_cpu_us / result.ops,
            server_cpu_us_per_op: server_cpu_us / result.ops,
        })
    }

    /// Runs the workload; returns its own report, and the client's CPU time in µs.
    fn bench_once(&self, seconds: u32) -> Result<(Reported, f64)> {
        let (output, client_cpu_us) = run_counting_cpu(&mut self.command(self.workload, seconds, true))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let result = match self.client {
            Client::Stock => parse_stock(&text)?,
            Client::Loligo => parse_loligo(&text)?,
        };
        Ok((result, client_cpu_us))
    }

    /// Returns the number of operations of one run.
    pub(super) fn ops(&self, seconds: u32) -> Result<f64> {
        Ok(self.bench_once(self.workload.seconds(seconds))?.0.ops)
    }

    /// `keeps`: leaves the written objects.
    fn command(&self, workload: Workload, seconds: u32, keeps: bool) -> Command {
        let ours = self.client == Client::Loligo;
        let mut c = Command::new(if ours { self.loligo } else { Path::new("rados") });
        c.arg("-c").arg(&self.conf).args(["-p", POOL, "bench", &seconds.to_string(), workload.mode]);
        c.args(["-t", &workload.depth.to_string(), "--run-name", &run_name()]);
        if !workload.reads() {
            c.args(["-b", &workload.bytes.to_string()]).args(keeps.then_some("--no-cleanup"));
        }
        if ours {
            c.args(["--format", "json"]);
        }
        c
    }
}

/// The name of this process's runs.
fn run_name() -> String {
    format!("bench-{}", std::process::id())
}

/// The report that a benchmark prints.
struct Reported {
    ops: f64,
    ops_per_s: f64,
    latency_mean_us: f64,
    latency_p50_us: Option<f64>,
    latency_p99_us: Option<f64>,
}

/// Parses the plain text of `rados bench`, which has no percentiles.
fn parse_stock(text: &str) -> Result<Reported> {
    let field = |names: &[&str]| -> Result<f64> {
        text.lines()
            .find_map(|line| {
                let (name, value) = line.split_once(':')?;
                names.contains(&name.trim()).then(|| value.trim().parse().ok())?
            })
            .ok_or_else(|| format!("rados bench printed no {names:?}:\n{text}").into())
    };
    let ops = field(&["Total writes made", "Total reads made"])?;
    let seconds = field(&["Total time run"])?;
    Ok(Reported {
        ops,
        ops_per_s: ops / seconds,
        latency_mean_us: field(&["Average Latency(s)"])? * 1e6,
        latency_p50_us: None,
        latency_p99_us: None,
    })
}

fn parse_loligo(text: &str) -> Result<Reported> {
    let json: Value = serde_json::from_str(text.trim())?;
    let field = |v: &Value| v.as_f64().ok_or_else(|| format!("loligo bench printed {json}"));
    Ok(Reported {
        ops: field(&json["ops"])?,
        ops_per_s: field(&json["iops"])?,
        latency_mean_us: field(&json["lat_us"]["mean"])?,
        latency_p50_us: Some(field(&json["lat_us"]["p50"])?),
        latency_p99_us: Some(field(&json["lat_us"]["p99"])?),
    })
}

/// A running `loligo serve`, killed when dropped.
pub(super) struct Serve {
    pub(super) child: Child,
    pub(super) conf: PathBuf,
    pub(super) startup_ms: f64,
    dir: PathBuf,
}

impl Serve {
    pub(super) fn start(loligo: &Path, dir: &Path, store: &str, msgr2: bool) -> Result<Self> {
        let mut child = Command::new(loligo)
            .args([
                "serve",
                "--store",
                store,
                "--mon-addr",
                "127.0.0.1:0",
                "--pool",
                POOL,
                "--capacity",
                CAPACITY,
                "--data",
            ])
            .arg(dir)
            // Only where it is needed: `bench --program` may name an older program.
            .args((!msgr2).then_some("--ms-bind-msgr2=false"))
            .stdout(Stdio::piped())
            .spawn()?;
        let stdout = child.stdout.take().ok_or("no pipe to loligo serve")?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        let word = |key: &str| {
            line.split_whitespace()
                .find_map(|w| w.strip_prefix(key))
                .ok_or_else(|| format!("loligo serve printed {line:?}, no {key}"))
        };
        let conf = PathBuf::from(word("conf=")?);
        let startup_ms = word("startup_ms=")?.parse()?;
        Ok(Self { child, conf, startup_ms, dir: dir.to_owned() })
    }

    /// Ends the server in an orderly way, so that it writes everything, and starts it again.
    fn restart(&mut self, our: &Our<'_>) -> Result<()> {
        self.stop()?;
        let mut again = our.start(&self.dir)?;
        // This value remains responsible for the directory. The other one drops the old child, which has
        // ended, and must remove nothing.
        std::mem::swap(&mut self.child, &mut again.child);
        std::mem::swap(&mut self.conf, &mut again.conf);
        again.dir = PathBuf::new();
        Ok(())
    }

    /// Ends the server in an orderly way, so that it writes everything.
    pub(super) fn stop(&mut self) -> Result<()> {
        // SAFETY: kill takes two numbers and accesses no memory of this process.
        unsafe { libc::kill(self.child.id().cast_signed(), libc::SIGTERM) };
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Serve {
    fn drop(&mut self) {
        // The measurement is finished: nothing of the server is needed, and a failure to end it is not a
        // result.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}
