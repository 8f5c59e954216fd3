//! Measures images: `rbd bench` and `loligo rbd bench`; images over NBD from a gateway of Loligo, driven
//! by fio; and many images in one gateway compared with one.

use std::fmt::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::Result;
use crate::process::{installed, output_of};
use crate::stock::Cluster;

use super::figures::{Figures, figure_rows, figures_json};
use super::measure::{process_cpu_us, run_counting_cpu};
use super::nbd::Gateway;
use super::programs::{self, FioRun, RBD_BYTES_A_SECOND, RBD_THREADS};
use super::sides::{Client, Our, POOL, Server};

/// Random I/Os of 4 KiB, 64 in flight.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ImageLoad {
    Write,
    Read,
}

/// The ways and servers. Ratios are to the first.
pub(super) const SIDES: [(Way, Server); SIDES_COUNT] = [
    (Way::Native(Client::Stock), Server::Stock),
    (Way::Native(Client::Loligo), Server::Stock),
    (Way::Native(Client::Loligo), Server::Loligo),
    (Way::Nbd, Server::Loligo),
    (Way::CachedNbd, Server::Loligo),
];

pub(super) const SIDES_COUNT: usize = 5;

/// The way to access an image.
#[derive(Clone, Copy)]
pub(super) enum Way {
    /// `rbd bench` and `loligo rbd bench`.
    Native(Client),
    /// fio over `loligo nbd serve`. The gateway's CPU time counts as the client's; fio's own does not.
    Nbd,
    /// The same, with a cache for the whole image.
    CachedNbd,
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Native(client) => write!(f, "{client} rbd"),
            Self::Nbd => f.write_str("loligo nbd"),
            Self::CachedNbd => f.write_str("loligo nbd, cache"),
        }
    }
}

impl ImageLoad {
    pub(super) const ALL: [Self; 2] = [Self::Write, Self::Read];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Write => "image 4 KiB random write, 64 in flight",
            Self::Read => "image 4 KiB random read, 64 in flight",
        }
    }

    /// An image is written as it was created, and read after it has been read before.
    fn warmth(self) -> Warmth {
        if self == Self::Write { Warmth::Cold } else { Warmth::Warm }
    }

    fn io_type(self) -> &'static str {
        if self == Self::Write { "write" } else { "read" }
    }

    pub(super) fn run(
        self,
        (way, server): (Way, Server),
        seconds: u32,
        stock: &Cluster,
        our: &Our<'_>,
        dir: &Path,
    ) -> Result<Figures> {
        let serve = our.serve(server, dir)?;
        let (conf, pid) = match &serve {
            None => (stock.conf(), stock.pid("osd.0")?),
            Some(serve) => (serve.conf.clone(), serve.child.id()),
        };
        programs::prepare_image(&conf, self.io_type())?;
        match way {
            Way::Native(client) => {
                if self.warmth() == Warmth::Warm {
                    self.native(client, our.program, &conf, pid, seconds)?;
                }
                self.native(client, our.program, &conf, pid, seconds)
            }
            Way::Nbd | Way::CachedNbd => {
                let over = OverNbd {
                    program: our.program,
                    conf: &conf,
                    server_pid: pid,
                    dir,
                    images: &[programs::IMAGE.to_owned()],
                    cache: matches!(way, Way::CachedNbd).then_some("2G"),
                };
                over.run(self, self.warmth(), seconds)
            }
        }
    }

    fn native(self, client: Client, loligo: &Path, conf: &Path, pid: u32, seconds: u32) -> Result<Figures> {
        // Loligo's program is several times as fast, and measured for about as long.
        let (times, mut command) = match client {
            Client::Stock => (1, Command::new("rbd")),
            Client::Loligo => (4, Command::new(loligo)),
        };
        command.arg("-c").arg(conf);
        if client == Client::Loligo {
            command.arg("rbd");
        }
        let bytes = u64::from(seconds) * RBD_BYTES_A_SECOND * times;
        programs::add_rbd_bench(&mut command, self.io_type(), bytes);
        let before_us = process_cpu_us(pid)?;
        let (output, client_cpu_us) = run_counting_cpu(&mut command)?;
        let server_cpu_us = process_cpu_us(pid)? - before_us;
        let (ops, ops_per_s) = programs::parse_rbd(&String::from_utf8_lossy(&output.stdout))?;
        Ok(Figures {
            ops_per_s,
            latency_mean_us: f64::from(RBD_THREADS) * 1e6 / ops_per_s,
            latency_p50_us: None,
            latency_p99_us: None,
            client_cpu_us_per_op: client_cpu_us / ops,
            server_cpu_us_per_op: server_cpu_us / ops,
        })
    }
}

/// A gateway of Loligo and its images.
struct OverNbd<'a> {
    program: &'a Path,
    conf: &'a Path,
    server_pid: u32,
    dir: &'a Path,
    images: &'a [String],
    /// The size of each image's cache.
    cache: Option<&'a str>,
}

/// The state of the image at the beginning of a run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Warmth {
    /// The image is used as it is.
    Cold,
    /// The whole image has been read, and the same load has run before.
    Warm,
}

impl OverNbd<'_> {
    /// Runs the load on all images at once, each with a job of its own with 64 I/Os in flight.
    fn run(&self, load: ImageLoad, warmth: Warmth, seconds: u32) -> Result<Figures> {
        if !installed("fio") {
            return Err("fio must be installed for this row".into());
        }
        let socket: PathBuf = self.dir.join("images.sock");
        let mut command = Command::new(self.program);
        command.arg("-c").arg(self.conf).args(["nbd", "serve", "--unix"]).arg(&socket);
        let cache = self.cache.map(|size| format!(",cache={size}")).unwrap_or_default();
        for image in self.images {
            command.arg("--export").arg(format!("{image}=rbd:{POOL}/{image}{cache}"));
        }
        let gateway = Gateway::start(&mut command, &socket)?;
        let random = |c: &mut Command| {
            c.args(["--bs=4k", "--iodepth=64", "--time_based", &format!("--runtime={seconds}")]);
            c.arg(format!("--rw=rand{}", load.io_type()));
        };
        if warmth == Warmth::Warm {
            self.fio(&socket, |c| {
                c.args(["--bs=1M", "--iodepth=4", "--rw=read"]);
            })?;
            self.fio(&socket, random)?;
        }
        let used_us = || Result::Ok([process_cpu_us(gateway.pid())?, process_cpu_us(self.server_pid)?]);
        let before_us = used_us()?;
        let output = self.fio(&socket, random)?;
        let after_us = used_us()?;
        let of = FioRun::parse(&output, load.io_type())?;
        Ok(Figures {
            ops_per_s: of.ops_per_s,
            latency_mean_us: of.mean_us,
            latency_p50_us: Some(of.p50_us),
            latency_p99_us: Some(of.p99_us),
            client_cpu_us_per_op: (after_us[0] - before_us[0]) / of.ops,
            server_cpu_us_per_op: (after_us[1] - before_us[1]) / of.ops,
        })
    }

    fn fio(&self, socket: &Path, load: impl Fn(&mut Command)) -> Result<String> {
        let mut fio = Command::new("fio");
        fio.args(["--ioengine=nbd", "--thread", "--group_reporting", "--output-format=json"]);
        load(&mut fio);
        for image in self.images {
            fio.arg(format!("--name={image}"));
            fio.arg(format!("--uri=nbd+unix:///{image}?socket={}", socket.display()));
        }
        output_of(&mut fio)
    }
}

/// Formats the sides of a row.
pub(super) fn table(load: ImageLoad, figures: &[Figures; SIDES_COUNT]) -> String {
    let mut t = String::new();
    let names = SIDES.map(|(way, server)| format!("{way} on {server}"));
    let rows: Vec<(&str, &Figures)> = names.iter().map(String::as_str).zip(figures).collect();
    figure_rows(&mut t, load.name(), &rows);
    let [stock, ours, ..] = figures.each_ref().map(|f| f.client_cpu_us_per_op);
    let _ = writeln!(t, "  client CPU per op on the stock server: {:.2} of librbd's\n", ours / stock);
    t
}

pub(super) fn json(load: ImageLoad, figures: &[Figures; SIDES_COUNT]) -> Value {
    let side = |(way, server): (Way, Server), f: &Figures| (format!("{way} on {server}"), figures_json(f));
    let sides: serde_json::Map<String, Value> =
        SIDES.into_iter().zip(figures).map(|(s, f)| side(s, f)).collect();
    json!({ "images": load.name(), "sides": sides })
}

/// The name of the row of many images.
pub(super) const TOGETHER: &str = "16 images together, 4 KiB random write";
const IMAGES: usize = 16;
/// The total MiB of the images, one or many: both cases write to the same amount of existing data.
const MIB_TOGETHER: usize = 1024;

/// Creates an image that is fully written.
fn make_full(our: &Our<'_>, conf: &Path, image: &str, mib: usize) -> Result<()> {
    let (image, size) = (format!("{POOL}/{image}"), format!("{mib}M"));
    let rbd = |args: &[&str]| {
        output_of(Command::new(our.program).arg("-c").arg(conf).arg("rbd").args(args).arg(&image)).map(drop)
    };
    rbd(&["create", "--size", &size])?;
    rbd(&[
        "bench",
        "--io-type",
        "write",
        "--io-size",
        "4M",
        "--io-threads",
        "4",
        "--io-pattern",
        "full-seq",
        "--io-total",
        &size,
    ])
}

/// The figures of one image alone, and of many images of one gateway, on Loligo's server.
pub(super) struct Together([Figures; 2]);

impl Together {
    pub(super) fn compare(our: &Our<'_>, dir: &Path, rounds: usize, seconds: u32) -> Result<Self> {
        let mut figures = [Vec::new(), Vec::new()];
        for round in 0..rounds {
            for (count, of_one) in [1, IMAGES].into_iter().zip(&mut figures) {
                eprintln!("{TOGETHER} round {}: {count}", round + 1);
                let serve = our.serve(Server::Loligo, dir)?.ok_or("no server")?;
                let images: Vec<String> = (0..count).map(|number| format!("image{number}")).collect();
                for image in &images {
                    make_full(our, &serve.conf, image, MIB_TOGETHER / count)?;
                }
                let over = OverNbd {
                    program: our.program,
                    conf: &serve.conf,
                    server_pid: serve.child.id(),
                    dir,
                    images: &images,
                    cache: None,
                };
                of_one.push(over.run(ImageLoad::Write, Warmth::Cold, seconds)?);
            }
        }
        Ok(Self(figures.map(|of_one| Figures::median(&of_one))))
    }

    pub(super) fn table(&self) -> String {
        let mut t = String::new();
        let [one, many] = &self.0;
        figure_rows(&mut t, TOGETHER, &[("one alone", one), ("all together", many)]);
        t.push('\n');
        t
    }

    pub(super) fn json(&self) -> Value {
        let [one, many] = &self.0;
        json!({ "one": figures_json(one), "many": figures_json(many) })
    }
}
