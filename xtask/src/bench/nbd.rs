//! Compares NBD servers with data in memory: nbdkit's memory plugin, qemu-nbd on a file in memory, and
//! Loligo's; and measures the cost of idle devices.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::Result;
use crate::process::installed;

use super::figures::{Figures, figure_rows, figures_json};
use super::measure::{median, process_cpu_us, resident_mib, run_counting_cpu};
use super::programs::FioRun;

/// The name of the row.
pub(super) const NAME: &str = "nbd memory 4 KiB random write, 64 in flight";

/// The number of idle devices.
const IDLE_DEVICES: usize = 500;

/// The seconds for which a server is written to before the measurement: all of it, several times.
const WARM_UP_S: u32 = 2;

/// The time that a server may take until it listens.
const PATIENCE: Duration = Duration::from_secs(10);

const SERVERS: [&str; 3] = ["nbdkit memory", "qemu-nbd", "loligo nbd"];

/// The measurements.
pub(super) struct Nbd {
    servers: [Figures; 3],
    /// Resident memory and threads of a gateway with one idle device, and with many.
    idle: [(f64, f64); 2],
}

pub(super) fn compare(loligo: &Path, dir: &Path, rounds: usize, seconds: u32) -> Result<Nbd> {
    if !["nbdkit", "qemu-nbd", "fio"].into_iter().all(installed) {
        return Err("nbdkit, qemu-utils and fio must be installed for this row".into());
    }
    let mut figures = [(); 3].map(|()| Vec::new());
    for round in 0..rounds {
        for (server, of_one) in SERVERS.iter().zip(&mut figures) {
            eprintln!("{NAME} round {}: {server}", round + 1);
            of_one.push(run(server, loligo, dir, seconds)?);
        }
    }
    let mut idle = [1, IDLE_DEVICES].map(|devices| idle(loligo, dir, devices)).into_iter();
    let idle = [idle.next().ok_or("none")??, idle.next().ok_or("none")??];
    Ok(Nbd { servers: figures.map(|of_one| Figures::median(&of_one)), idle })
}

impl Nbd {
    pub(super) fn table(&self) -> String {
        let mut t = String::new();
        let rows: Vec<(&str, &Figures)> = SERVERS.into_iter().zip(&self.servers).collect();
        figure_rows(&mut t, NAME, &rows);
        let [one, many] = self.idle;
        let _ = writeln!(
            t,
            "  one idle device: {:.1} MiB, {} threads; {IDLE_DEVICES}: {:.1} MiB, {} threads\n",
            one.0, one.1, many.0, many.1
        );
        t
    }

    pub(super) fn json(&self) -> Value {
        let [nbdkit, qemu, ours] = &self.servers;
        let idle = |(mib, threads): (f64, f64)| json!({ "mib": mib, "threads": threads });
        json!({
            "nbdkit": figures_json(nbdkit),
            "qemu_nbd": figures_json(qemu),
            "loligo": figures_json(ours),
            "one_idle_device": idle(self.idle[0]),
            "many_idle_devices": idle(self.idle[1]),
        })
    }
}

/// An NBD server, killed when dropped.
pub(super) struct Gateway(Child);

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Gateway {
    /// Starts a server, and waits until it listens.
    pub(super) fn start(command: &mut Command, socket: &Path) -> Result<Self> {
        let _ = fs::remove_file(socket);
        let server = Self(command.stdout(Stdio::null()).spawn()?);
        let began = Instant::now();
        while UnixStream::connect(socket).is_err() {
            if began.elapsed() > PATIENCE {
                return Err(format!("{command:?} does not listen").into());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(server)
    }

    pub(super) fn pid(&self) -> u32 {
        self.0.id()
    }
}

fn run(server: &str, loligo: &Path, dir: &Path, seconds: u32) -> Result<Figures> {
    let socket = dir.join("nbd.sock");
    let file = Path::new("/dev/shm").join(format!("loligo-bench.{}", std::process::id()));
    let mut command = match server {
        "nbdkit memory" => {
            let mut c = Command::new("nbdkit");
            c.arg("-f").arg("-U").arg(&socket).args(["memory", "256M"]);
            c
        }
        "qemu-nbd" => {
            fs::File::create(&file)?.set_len(256 << 20)?;
            let mut c = Command::new("qemu-nbd");
            c.args(["-f", "raw", "-t", "-e", "8", "-k"]).arg(&socket).arg(&file);
            c
        }
        _ => {
            let mut c = Command::new(loligo);
            c.args(["nbd", "serve", "--export", "=memory:256M", "--unix"]).arg(&socket);
            c
        }
    };
    let served = Gateway::start(&mut command, &socket)?;
    let pid = served.pid();
    // Excludes the cost of the first writes, for which the kernel clears memory.
    run_counting_cpu(&mut fio(&socket, WARM_UP_S))?;
    let before_us = process_cpu_us(pid)?;
    let (output, client_cpu_us) = run_counting_cpu(&mut fio(&socket, seconds))?;
    let server_cpu_us = process_cpu_us(pid)? - before_us;
    drop(served);
    // The file exists only for one of the servers.
    let _ = fs::remove_file(&file);
    let of = FioRun::parse(&String::from_utf8_lossy(&output.stdout), "write")?;
    Ok(Figures {
        ops_per_s: of.ops_per_s,
        latency_mean_us: of.mean_us,
        latency_p50_us: Some(of.p50_us),
        latency_p99_us: Some(of.p99_us),
        client_cpu_us_per_op: client_cpu_us / of.ops,
        server_cpu_us_per_op: server_cpu_us / of.ops,
    })
}

fn fio(socket: &Path, seconds: u32) -> Command {
    let mut c = Command::new("fio");
    c.args(["--name=bench", "--ioengine=nbd", "--rw=randwrite", "--bs=4k", "--iodepth=64", "--size=256M"]);
    c.arg(format!("--uri=nbd+unix:///?socket={}", socket.display()));
    c.args(["--time_based", "--output-format=json"]).arg(format!("--runtime={seconds}"));
    c
}

/// Returns the resident memory in MiB, and the threads, of a gateway with this number of devices, after
/// a second.
fn idle(loligo: &Path, dir: &Path, devices: usize) -> Result<(f64, f64)> {
    let (socket, config) = (dir.join("nbd.sock"), dir.join("nbd.toml"));
    let exports = (0..devices).map(|n| format!("[[export]]\nname = '{n}'\nspec = 'memory:1G'\n"));
    fs::write(&config, exports.collect::<String>())?;
    let mut samples = Vec::new();
    for _ in 0..3 {
        let mut command = Command::new(loligo);
        command.args(["nbd", "serve", "--config"]).arg(&config).arg("--unix").arg(&socket);
        let served = Gateway::start(&mut command, &socket)?;
        std::thread::sleep(Duration::from_secs(1));
        let threads = fs::read_dir(format!("/proc/{}/task", served.pid()))?.count();
        samples.push((resident_mib(served.pid())?, threads as f64));
    }
    Ok((median(samples.iter().map(|s| s.0)), median(samples.iter().map(|s| s.1))))
}
