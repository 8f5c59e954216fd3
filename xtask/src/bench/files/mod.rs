//! Measures clients of CephFS on a stock cluster with a metadata server: ceph-fuse, libcephfs, and Loligo's
//! client with and without a mount.

mod idle;
mod load;
mod mounted;
mod page;
mod rows;
// Both sides of a measurement access the same places in the same order.
#[allow(unreachable_pub, reason = "it is public where it lies")]
#[path = "../../../../crates/apps/contend/src/scramble.rs"]
mod scramble;
mod through;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::Result;
use crate::process::{installed, output_of};
use crate::stock::{Cluster, UpOptions};

use super::figures::{Figures, figure_rows, figures_json};
use super::measure::{median, process_cpu_us};

pub(super) use idle::{Idle, NAME as IDLE};
pub(crate) use load::{Options as LoadOptions, run as run_load};
use mounted::MountedDir;
pub(super) use page::page;
pub(super) use rows::Row;
use rows::What;

/// The time that a mount and its end may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// The servers rest if they use less than a tenth of a processor for so long.
const REST: Duration = Duration::from_millis(300);
/// Stock's cache of data, `client_oc_size`.
const CACHE: &str = "200M";
/// The client whose file another one opens writes for so many seconds more at most.
const MORE_SECONDS: u32 = 60;

/// A client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Side {
    CephFuse,
    LibCephFs,
    Native,
    Mounted,
}

impl Side {
    const ALL: [Self; 4] = [Self::CephFuse, Self::LibCephFs, Self::Native, Self::Mounted];

    fn name(self) -> &'static str {
        match self {
            Self::CephFuse => "ceph-fuse",
            Self::LibCephFs => "libcephfs",
            Self::Native => "loligo fs",
            Self::Mounted => "loligo mount",
        }
    }
}

/// Whether directories can be mounted by both sides. If not, the reason is printed.
fn can_mount(loligo: &Path) -> bool {
    let why = if !Path::new("/dev/fuse").exists() {
        "there is no /dev/fuse"
    } else if !installed("ceph-fuse") {
        "ceph-fuse is not installed"
    } else if output_of(Command::new(loligo).args(["mount", "--help"])).is_err() {
        "the program has no command mount"
    } else {
        return true;
    };
    println!("left out, {why}: {} and {}", Side::CephFuse.name(), Side::Mounted.name());
    false
}

/// Measures rows on one stock cluster, with all clients in each round. `up`: the kind of the cluster.
pub(super) fn compare(
    rows: &[Row],
    loligo: &Path,
    dir: &Path,
    up: &UpOptions,
    plan: Plan<'_>,
    mut take: impl FnMut(Measured),
) -> Result<()> {
    let mounts = !rows.is_empty() && plan.mounts && can_mount(loligo);
    let sides: &[Side] = if mounts { &Side::ALL } else { &[Side::LibCephFs, Side::Native] };
    let up = UpOptions { mds: 1, ..up.clone() };
    // What is delayed is so for all: it has a cluster of its own.
    let (late, others): (Vec<Row>, Vec<Row>) = rows.iter().partition(|row| row.what == What::Delayed);
    for (rows, is_late) in [(others, false), (late, true)] {
        if rows.is_empty() {
            continue;
        }
        let stock = Cluster::up(&dir.join("files"), &up)?;
        if is_late {
            delay(&stock)?;
        }
        for row in rows {
            take(row.run(&stock, loligo, sides, plan)?);
        }
        if let Some(picture) = plan.picture.filter(|_| is_late) {
            let mut draw = Command::new(loligo);
            draw.args(["contend", "direct-write", "--cephfs"]).arg(stock.conf());
            output_of(draw.arg("--picture").arg(picture))?;
        }
        stock.down()?;
    }
    Ok(())
}

/// Measures mounts that nobody uses.
pub(super) fn idle(loligo: &Path, dir: &Path, up: &UpOptions, rounds: usize) -> Result<Option<Idle>> {
    if !can_mount(loligo) {
        return Ok(None);
    }
    let stock = Cluster::up(&dir.join("idle"), &UpOptions { mds: 1, ..up.clone() })?;
    let idle = Idle::measure(&stock, loligo, rounds)?;
    stock.down()?;
    Ok(Some(idle))
}

impl Row {
    /// Runs it with all clients in each round.
    fn run(&self, stock: &Cluster, loligo: &Path, sides: &[Side], plan: Plan<'_>) -> Result<Measured> {
        let mut all: Vec<(Side, Vec<Reported>)> = sides.iter().map(|side| (*side, Vec::new())).collect();
        for round in 0..plan.rounds {
            for (side, rounds) in &mut all {
                eprintln!("{} round {}: {}", self.name, round + 1, side.name());
                let run = Run { row: *self, side: *side, stock, loligo, plan };
                rounds.push(run.reported().map_err(|e| format!("{}, {}: {e}", self.name, side.name()))?);
            }
        }
        let sides = all.into_iter().map(|(side, rounds)| {
            let figures: Vec<Figures> = rounds.iter().map(Reported::figures).collect();
            let waits: Vec<f64> = rounds.iter().filter_map(|round| round.lock_wait_us_per_s).collect();
            let waits = (!waits.is_empty()).then(|| median(waits.into_iter()));
            (side, Figures::median(&figures), waits)
        });
        Ok(Measured { row: *self, sides: sides.collect() })
    }
}

/// How long, and how often.
#[derive(Clone, Copy)]
pub(super) struct Plan<'a> {
    pub(super) rounds: usize,
    pub(super) seconds: u32,
    /// Files of the rows about names.
    pub(super) files: u64,
    /// Also by mounts, if they are possible here.
    pub(super) mounts: bool,
    /// The file for a picture of the delayed write.
    pub(super) picture: Option<&'a Path>,
}

/// The medians of a row. Our own client also tells how many microseconds a second its threads waited for
/// locks.
pub(super) struct Measured {
    row: Row,
    sides: Vec<(Side, Figures, Option<f64>)>,
}

impl Measured {
    pub(super) fn table(&self) -> String {
        let mut t = String::new();
        let rows: Vec<(&str, &Figures)> = self.sides.iter().map(|(side, of, _)| (side.name(), of)).collect();
        figure_rows(&mut t, self.row.name, &rows);
        for (side, _, waits) in &self.sides {
            if let Some(waits) = waits {
                t.push_str(&format!("  {} waited {waits:.0} µs a second for locks\n", side.name()));
            }
        }
        if self.row.what == What::Taken {
            t.push_str("  an operation is one opening and the first byte, by libcephfs, while the client of the row writes\n");
        }
        t.push('\n');
        t
    }

    pub(super) fn json(&self) -> Value {
        let sides: serde_json::Map<String, Value> = self
            .sides
            .iter()
            .map(|(side, of, waits)| {
                let mut figures = figures_json(of);
                if let Some(waits) = waits {
                    figures["lock_wait_us_per_s"] = json!(waits);
                }
                (side.name().to_owned(), figures)
            })
            .collect();
        json!({ "row": self.row.name, "sides": sides })
    }
}

/// Delays what the OSDs receive from clients: by 20 ms on average, at most 40, each message by itself.
fn delay(stock: &Cluster) -> Result<()> {
    for (option, value) in [
        ("ms_inject_delay_type", "client"),
        ("ms_inject_delay_max", "0.04"),
        ("ms_inject_delay_probability", "1"),
    ] {
        output_of(stock.program("ceph").args(["config", "set", "osd", option, value]))?;
    }
    Ok(())
}

/// One run of a row with one client.
struct Run<'a> {
    row: Row,
    side: Side,
    stock: &'a Cluster,
    loligo: &'a Path,
    plan: Plan<'a>,
}

impl Run<'_> {
    fn reported(&self) -> Result<Reported> {
        rest(self.stock)?;
        if self.row.what == What::Taken {
            return self.taken();
        }
        let mut reported = if self.side == Side::Native {
            Reported::of(&mut self.native(self.plan.seconds)?)?
        } else {
            self.step("prepare")?;
            rest(self.stock)?;
            let mounted = self.mounted()?;
            let measured = Reported::of(&mut self.load(mounted.as_ref(), "measure", self.plan.seconds)?);
            drop(mounted);
            self.step("remove")?;
            measured?
        };
        if self.row.mode == "readdir" {
            // An operation is a listing; the row counts names.
            reported = reported.times(self.plan.files as f64);
        }
        Ok(reported)
    }

    /// Prepares or removes what the row needs. It is libcephfs that does it for all, by itself.
    fn step(&self, step: &str) -> Result<()> {
        output_of(&mut self.load(None, step, self.plan.seconds)?).map(drop)
    }

    /// The process ids of the servers, as options.
    fn server_pids(&self) -> Result<Vec<String>> {
        let pids = SERVERS.map(|daemon| self.stock.pid(daemon));
        let pids = pids.into_iter().map(|pid| Ok(format!("--server-pid={}", pid?)));
        pids.collect()
    }

    /// `loligo fs bench`, which prepares and removes by itself.
    fn native(&self, seconds: u32) -> Result<Command> {
        let Row { mode, block, jobs, file_size, is_warm, is_direct, .. } = self.row;
        let mut c = Command::new(self.loligo);
        c.arg("-c").arg(self.stock.conf()).args(["--format", "json", "fs", "bench"]);
        c.args([&seconds.to_string(), mode, "-b", &block.to_string(), "-t", &jobs.to_string()]);
        c.args(["--file-size", &file_size.to_string(), "--files", &self.plan.files.to_string()]);
        // As many as there are threads that call the other clients, up to the processors.
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(jobs as usize);
        c.args(["--threads", &threads.to_string(), "--cache", CACHE]).args(is_warm.then_some("--warm"));
        c.args(is_direct.then_some("--direct"));
        c.args(self.server_pids()?);
        Ok(c)
    }

    /// A step of the load through a mounted directory, or through libcephfs.
    fn load(&self, mounted: Option<&MountedDir>, step: &str, seconds: u32) -> Result<Command> {
        let Row { mode, block, jobs, file_size, is_warm, is_direct, .. } = self.row;
        let mut c = Command::new(std::env::current_exe()?);
        c.args(["fs-load", &seconds.to_string(), mode, "--step", step, "--block", &block.to_string()]);
        c.args(["--jobs", &jobs.to_string(), "--file-size", &file_size.to_string()]);
        c.args(["--files", &self.plan.files.to_string()]).args(self.server_pids()?);
        match mounted {
            Some(mounted) => {
                c.arg("--dir").arg(&mounted.dir).args(["--client-pid", &mounted.child.id().to_string()])
            }
            None => c.args(["--dir", ""]).arg("--conf").arg(self.stock.conf()),
        };
        c.args(is_warm.then_some("--warm")).args(is_direct.then_some("--direct"));
        Ok(c)
    }

    /// Mounts, if the side has a mount.
    fn mounted(&self) -> Result<Option<MountedDir>> {
        match self.side {
            Side::CephFuse | Side::Mounted => MountedDir::of(self.side, self.stock, self.loligo).map(Some),
            Side::LibCephFs | Side::Native => Ok(None),
        }
    }

    /// Another client opens the file that this one writes.
    fn taken(&self) -> Result<Reported> {
        let seconds = self.plan.seconds + MORE_SECONDS;
        let mounted = self.mounted()?;
        let mut writer = if self.side == Side::Native {
            self.native(seconds)?
        } else {
            self.step("prepare")?;
            let mut writer = self.load(mounted.as_ref(), "measure", seconds)?;
            writer.arg("--until-told");
            writer
        };
        let mut writer = writer.stdin(Stdio::piped()).stdout(Stdio::null()).spawn()?;
        let taken = self.take();
        // Loads end with their standard input, `loligo fs bench` when it is interrupted.
        drop(writer.stdin.take());
        if self.side == Side::Native {
            // SAFETY: kill takes two numbers and accesses no memory of this process.
            unsafe { libc::kill(writer.id().cast_signed(), libc::SIGINT) };
        }
        let written = writer.wait()?;
        drop(mounted);
        if self.side != Side::Native {
            self.step("remove")?;
        }
        let reported = taken?;
        if !written.success() {
            return Err(format!("the writer failed: {written}").into());
        }
        Ok(reported)
    }

    fn take(&self) -> Result<Reported> {
        // The writer makes its directory first.
        let path = self.wait_for_file()?;
        let mut c = Command::new(std::env::current_exe()?);
        c.args(["fs-load", &self.plan.seconds.to_string(), "take", "--step", "measure", "--dir", &path]);
        c.arg("--conf").arg(self.stock.conf());
        Reported::of(&mut c)
    }

    /// Waits until the file is being written; returns its path.
    fn wait_for_file(&self) -> Result<String> {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            let mut find = Command::new(self.loligo);
            find.arg("-c").arg(self.stock.conf()).args(["fs", "find", "/", "--name", "data", "--type", "f"]);
            if let Some(path) = output_of(&mut find)?.lines().next() {
                // Until it has been filled, and opened again.
                std::thread::sleep(Duration::from_secs(1));
                return Ok(path.to_owned());
            }
        }
        Err(format!("no file is written after {} s", PATIENCE.as_secs()).into())
    }
}

/// The daemons whose CPU time counts.
const SERVERS: [&str; 2] = ["osd.0", "mds.a"];

/// Waits until the servers rest: the data of removed files goes later.
fn rest(stock: &Cluster) -> Result<()> {
    let used = || SERVERS.iter().map(|daemon| process_cpu_us(stock.pid(daemon)?)).sum::<Result<f64>>();
    let (deadline, mut before) = (Instant::now() + PATIENCE, used()?);
    loop {
        std::thread::sleep(REST);
        let now = used()?;
        if now - before < REST.as_micros() as f64 / 10.0 || Instant::now() > deadline {
            return Ok(());
        }
        before = now;
    }
}

/// What a load prints.
struct Reported {
    ops_per_s: f64,
    mean_us: f64,
    p50_us: f64,
    p99_us: f64,
    client_cpu_us_per_op: f64,
    server_cpu_us_per_op: f64,
    lock_wait_us_per_s: Option<f64>,
}

impl Reported {
    fn of(command: &mut Command) -> Result<Self> {
        let text = output_of(command)?;
        let json: Value = serde_json::from_str(text.trim())?;
        let field = |v: &Value| v.as_f64().ok_or_else(|| format!("{command:?} printed {json}"));
        Ok(Self {
            ops_per_s: field(&json["iops"])?,
            mean_us: field(&json["lat_us"]["mean"])?,
            p50_us: field(&json["lat_us"]["p50"])?,
            p99_us: field(&json["lat_us"]["p99"])?,
            client_cpu_us_per_op: field(&json["cpu_us_per_op"])?,
            server_cpu_us_per_op: field(&json["server_cpu_us_per_op"])?,
            lock_wait_us_per_s: json["lock_wait_us_per_s"].as_f64(),
        })
    }

    /// Counts so many operations for one.
    fn times(self, n: f64) -> Self {
        Self {
            ops_per_s: self.ops_per_s * n,
            mean_us: self.mean_us / n,
            p50_us: self.p50_us / n,
            p99_us: self.p99_us / n,
            client_cpu_us_per_op: self.client_cpu_us_per_op / n,
            server_cpu_us_per_op: self.server_cpu_us_per_op / n,
            ..self
        }
    }

    fn figures(&self) -> Figures {
        Figures {
            ops_per_s: self.ops_per_s,
            latency_mean_us: self.mean_us,
            latency_p50_us: Some(self.p50_us),
            latency_p99_us: Some(self.p99_us),
            client_cpu_us_per_op: self.client_cpu_us_per_op,
            server_cpu_us_per_op: self.server_cpu_us_per_op,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_counts_its_names() {
        let json = r#"{"ops": 2, "iops": 4.0, "lat_us": {"mean": 100, "p50": 100, "p99": 200}, "cpu_us_per_op": 50,
            "server_cpu_us_per_op": 20}"#;
        let reported = Reported::of(Command::new("echo").arg(json)).expect("figures").times(10.0);
        let figures = reported.figures();
        assert_eq!((figures.ops_per_s, figures.latency_mean_us), (40.0, 10.0));
        assert_eq!((figures.client_cpu_us_per_op, figures.server_cpu_us_per_op), (5.0, 2.0));
    }

    #[test]
    fn rows_have_names_of_their_own() {
        let names: std::collections::BTreeSet<&str> = Row::ALL.iter().map(Row::name).collect();
        assert_eq!(names.len(), Row::ALL.len());
    }
}
