//! One run of one workload, with either client against either server.

use std::fmt;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::Result;
use crate::stock::Cluster;

use super::measure::{process_cpu_us, run_counting_cpu};
use super::report::Figures;

/// Whose client.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Client {
    Stock,
    Loligo,
}

/// Whose server.
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

/// A row of the table: what is done, in which size, how many at once.
#[derive(Clone, Copy)]
pub(super) struct Workload {
    name: &'static str,
    mode: &'static str,
    bytes: u32,
    depth: u32,
}

impl Workload {
    pub(super) const ALL: [Self; 6] = [
        Self { name: "4 KiB write, 64 in flight", mode: "write", bytes: 4096, depth: 64 },
        Self { name: "4 KiB read, 64 in flight", mode: "rand", bytes: 4096, depth: 64 },
        Self { name: "4 KiB write, 1 in flight", mode: "write", bytes: 4096, depth: 1 },
        Self { name: "4 KiB read, 1 in flight", mode: "rand", bytes: 4096, depth: 1 },
        Self { name: "4 MiB write, 16 in flight", mode: "write", bytes: 4 << 20, depth: 16 },
        Self { name: "4 MiB read, 16 in flight", mode: "rand", bytes: 4 << 20, depth: 16 },
    ];

    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    fn reads(&self) -> bool {
        self.mode != "write"
    }

    /// Seconds that a run takes: large writes stop before they have filled the machine's memory.
    fn seconds(&self, wanted: u32) -> u32 {
        if !self.reads() && self.bytes > 65536 { wanted.min(LARGE_WRITE_SECONDS_MAX) } else { wanted }
    }
}

/// At 4 GB/s this is 8 GB of objects.
pub(super) const LARGE_WRITE_SECONDS_MAX: u32 = 2;

/// What a throw-away server may hold.
const CAPACITY: &str = "12G";

/// The pool that benches write to.
const POOL: &str = "p";

/// Our program.
pub(super) struct Our<'a> {
    pub(super) program: &'a Path,
    /// Whether its server keeps objects on disk.
    pub(super) on_disk: bool,
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
    let loligo = our.program;
    match server {
        Server::Stock => bench(client, workload, seconds, &stock.conf(), stock.pid("osd.0")?, loligo),
        Server::Loligo => {
            let serve =
                Serve::start(loligo, &dir.join("serve"), if our.on_disk { "disk" } else { "memory" })?;
            bench(client, workload, seconds, &serve.conf, serve.child.id(), loligo)
        }
    }
}

fn bench(
    client: Client,
    workload: Workload,
    seconds: u32,
    conf: &Path,
    server_pid: u32,
    loligo: &Path,
) -> Result<Figures> {
    let run_name = run_name();
    if workload.reads() {
        // What is read must have been written; the reader reads over it again when it comes to the end.
        let fill_seconds = if workload.bytes > 65536 { 1 } else { 2 };
        let fill = Workload { mode: "write", ..workload };
        command(client, loligo, conf, fill, fill_seconds, &run_name).output()?;
    }
    let server_before = process_cpu_us(server_pid)?;
    let mut timed = command(client, loligo, conf, workload, seconds, &run_name);
    let (output, client_cpu_us) = run_counting_cpu(&mut timed)?;
    let server_cpu_us = process_cpu_us(server_pid)? - server_before;
    let text = String::from_utf8_lossy(&output.stdout);
    let result = match client {
        Client::Stock => parse_stock(&text)?,
        Client::Loligo => parse_loligo(&text)?,
    };
    Ok(Figures {
        ops_per_s: result.ops_per_s,
        latency_mean_us: result.latency_mean_us,
        latency_p99_us: result.latency_p99_us,
        client_cpu_us_per_op: client_cpu_us / result.ops,
        server_cpu_us_per_op: server_cpu_us / result.ops,
    })
}

/// Names the runs of this process.
fn run_name() -> String {
    format!("bench-{}", std::process::id())
}

fn command(
    client: Client,
    loligo: &Path,
    conf: &Path,
    workload: Workload,
    seconds: u32,
    run_name: &str,
) -> Command {
    let mut c = Command::new(if client == Client::Stock { Path::new("rados") } else { loligo });
    c.arg("-c").arg(conf).args(["-p", POOL, "bench", &seconds.to_string(), workload.mode]);
    c.args(["-t", &workload.depth.to_string(), "--run-name", run_name]);
    if !workload.reads() {
        c.args(["-b", &workload.bytes.to_string(), "--no-cleanup"]);
    }
    if client == Client::Loligo {
        c.args(["--format", "json"]);
    }
    c
}

/// What a bench program reports of itself.
struct Reported {
    ops: f64,
    ops_per_s: f64,
    latency_mean_us: f64,
    latency_p99_us: Option<f64>,
}

/// `rados bench` in plain text; it knows no percentiles.
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
    pub(super) fn start(loligo: &Path, dir: &Path, store: &str) -> Result<Self> {
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
}

impl Drop for Serve {
    fn drop(&mut self) {
        // A server of a finished measurement: nothing in it is wanted, and a failure to end it is not a result.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}
