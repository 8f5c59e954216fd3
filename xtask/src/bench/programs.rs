//! Measures stock programs on both servers: fio's engine for objects, and `rbd bench`.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::Result;
use crate::process::output_of;
use crate::stock::Cluster;

use super::figures::Figures;
use super::measure::{process_cpu_us, run_counting_cpu};
use super::sides::{Our, POOL, Server};

/// A row of the table: a stock program, run on stock's server and on Loligo's.
#[derive(Clone, Copy)]
pub(super) struct Program {
    name: &'static str,
    kind: Kind,
}

#[derive(Clone, Copy)]
enum Kind {
    /// fio's `rados` engine: random blocks in objects of 4 MiB; `rw` as in fio's options.
    Fio { rw: &'static str },
    /// `rbd bench`, on an image of 1 GiB, with librbd's default cache.
    Rbd { io_type: &'static str },
}

impl Program {
    pub(super) const ALL: [Self; 3] = [
        Self { name: "fio rados 4 KiB random write, 64 in flight", kind: Kind::Fio { rw: "randwrite" } },
        Self { name: "rbd bench 4 KiB random write, 64 threads", kind: Kind::Rbd { io_type: "write" } },
        Self { name: "rbd bench 4 KiB random read, 64 threads", kind: Kind::Rbd { io_type: "read" } },
    ];

    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    /// Runs the program once, for `seconds` (fio) or for as many bytes as take about as long
    /// (`rbd bench`).
    pub(super) fn run(
        &self,
        server: Server,
        seconds: u32,
        stock: &Cluster,
        our: &Our<'_>,
        dir: &Path,
    ) -> Result<Figures> {
        match our.serve(server, dir)? {
            None => self.run_on(&stock.conf(), stock.pid("osd.0")?, seconds),
            Some(serve) => self.run_on(&serve.conf, serve.child.id(), seconds),
        }
    }

    fn run_on(&self, conf: &Path, server_pid: u32, seconds: u32) -> Result<Figures> {
        let mut command = match self.kind {
            Kind::Fio { rw } => fio(conf, rw, seconds),
            Kind::Rbd { io_type } => {
                prepare_image(conf, io_type)?;
                rbd_bench(conf, io_type, u64::from(seconds) * RBD_BYTES_A_SECOND)
            }
        };
        let before_us = process_cpu_us(server_pid)?;
        let (output, client_cpu_us) = run_counting_cpu(&mut command)?;
        let server_cpu_us = process_cpu_us(server_pid)? - before_us;
        let text = String::from_utf8_lossy(&output.stdout);
        let (ops, ops_per_s, latency_mean_us, percentiles) = match self.kind {
            Kind::Fio { .. } => {
                let of = FioRun::parse(&text, "write")?;
                (of.ops, of.ops_per_s, of.mean_us, Some((of.p50_us, of.p99_us)))
            }
            Kind::Rbd { .. } => {
                let (ops, ops_per_s) = parse_rbd(&text)?;
                (ops, ops_per_s, f64::from(RBD_THREADS) * 1e6 / ops_per_s, None)
            }
        };
        Ok(Figures {
            ops_per_s,
            latency_mean_us,
            latency_p50_us: percentiles.map(|(p50, _)| p50),
            latency_p99_us: percentiles.map(|(_, p99)| p99),
            client_cpu_us_per_op: client_cpu_us / ops,
            server_cpu_us_per_op: server_cpu_us / ops,
        })
    }
}

/// The bytes that `rbd bench` writes per second of a run: 10,000 operations of 4 KiB.
pub(super) const RBD_BYTES_A_SECOND: u64 = 10_000 * 4096;

pub(super) const RBD_THREADS: u32 = 64;

/// The image for the benchmark.
pub(super) const IMAGE: &str = "bench";

/// Returns a command for fio on objects of 4 MiB, 256 MiB in total.
pub(super) fn fio(conf: &Path, rw: &str, seconds: u32) -> Command {
    let mut c = Command::new("fio");
    c.args(["--name=bench", "--ioengine=rados", "--clientname=admin", "--bs=4k", "--iodepth=64", "--thread"]);
    // This engine ignores the environment, and its options are known only after its name.
    c.arg(format!("--conf={}", conf.display())).arg(format!("--pool={POOL}")).arg(format!("--rw={rw}"));
    c.args(["--nrfiles=64", "--filesize=4M", "--size=256M", "--time_based", "--output-format=json"]);
    c.arg(format!("--runtime={seconds}"));
    c
}

/// fio's results for the writes or the reads of a run.
pub(super) struct FioRun {
    pub(super) ops: f64,
    pub(super) ops_per_s: f64,
    pub(super) mean_us: f64,
    pub(super) p50_us: f64,
    pub(super) p99_us: f64,
    pub(super) p999_us: f64,
}

impl FioRun {
    /// Parses fio's JSON. `io_type`: `write` or `read`.
    pub(super) fn parse(text: &str, io_type: &str) -> Result<Self> {
        // Warnings may precede the JSON.
        let json: Value = serde_json::from_str(text.get(text.find('{').unwrap_or(0)..).unwrap_or_default())?;
        let told = &json["jobs"][0][io_type];
        let field = |v: &Value| v.as_f64().ok_or_else(|| format!("fio printed {told}"));
        let percentile = |name: &str| field(&told["clat_ns"]["percentile"][name]);
        Ok(Self {
            ops: field(&told["total_ios"])?,
            ops_per_s: field(&told["iops"])?,
            mean_us: field(&told["lat_ns"]["mean"])? / 1e3,
            p50_us: percentile("50.000000")? / 1e3,
            p99_us: percentile("99.000000")? / 1e3,
            p999_us: percentile("99.900000")? / 1e3,
        })
    }
}

/// Creates the image again; an image for reading is fully written first.
pub(super) fn prepare_image(conf: &Path, io_type: &str) -> Result<()> {
    let rbd = |args: &[&str]| output_of(Command::new("rbd").arg("-c").arg(conf).args(args)).map(drop);
    let image = format!("{POOL}/{IMAGE}");
    if rbd(&["info", &image]).is_ok() {
        rbd(&["rm", "--no-progress", &image])?;
    }
    rbd(&["create", &image, "--size", "1G"])?;
    if io_type == "read" {
        rbd(&[
            "bench",
            "--io-type",
            "write",
            "--io-size",
            "4M",
            "--io-threads",
            "4",
            "--io-total",
            "1G",
            &image,
        ])?;
    }
    Ok(())
}

fn rbd_bench(conf: &Path, io_type: &str, bytes: u64) -> Command {
    let mut c = Command::new("rbd");
    c.arg("-c").arg(conf);
    add_rbd_bench(&mut c, io_type, bytes);
    c
}

/// Adds the arguments of `rbd bench`, which `loligo rbd bench` accepts too.
pub(super) fn add_rbd_bench(c: &mut Command, io_type: &str, bytes: u64) {
    c.args(["bench", "--io-type", io_type, "--io-pattern", "rand", "--io-size", "4096"]);
    c.args(["--io-threads", &RBD_THREADS.to_string(), "--io-total", &bytes.to_string()]);
    c.arg(format!("{POOL}/{IMAGE}"));
}

/// Returns the operations, and the operations per second, from a line such as
/// `elapsed: 3   ops: 51200   ops/sec: 16310.3   bytes/sec: 64 MiB/s`.
pub(super) fn parse_rbd(text: &str) -> Result<(f64, f64)> {
    let field = |name: &str| -> Option<f64> {
        let line = text.lines().rfind(|line| line.starts_with("elapsed:"))?;
        let mut words = line.split_whitespace();
        words.by_ref().find(|word| *word == name)?;
        words.next()?.parse().ok()
    };
    field("ops:").zip(field("ops/sec:")).ok_or_else(|| format!("rbd bench printed no result:\n{text}").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_rbd_bench_are_found() {
        let text = "  SEC       OPS   OPS/SEC   BYTES/SEC\n    1     10416   10468.2    41 MiB/s\n\
                    elapsed: 2   ops: 25600   ops/sec: 10311.9   bytes/sec: 40 MiB/s\n";
        assert_eq!(parse_rbd(text).unwrap(), (25600.0, 10311.9));
        assert!(parse_rbd("elapsed: 2").is_err());
    }

    #[test]
    fn results_of_fio_are_found() {
        let text = r#"a warning
{"jobs": [{"write": {"total_ios": 10, "iops": 5.5, "lat_ns": {"mean": 2000.0}, "clat_ns": {"percentile":
{"50.000000": 1000, "99.000000": 3000, "99.900000": 4000}}}}]}"#;
        let of = FioRun::parse(text, "write").unwrap();
        assert_eq!((of.ops, of.ops_per_s, of.mean_us), (10.0, 5.5, 2.0));
        assert_eq!((of.p50_us, of.p99_us, of.p999_us), (1.0, 3.0, 4.0));
        assert!(FioRun::parse("{}", "read").is_err());
    }
}
