//! Measures striped files: a local file of 1 GiB is put into a cluster and read back, by
//! `rados --striper` and by `loligo file`, on either server. For comparison, objects of the size of the
//! file's objects show the throughput of a server.

use std::fmt::{self, Write as _};
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use serde_json::{Value, json};

use crate::Result;
use crate::process::output_of;
use crate::stock::Cluster;

use super::measure::{median, process_cpu_us, run_counting_cpu};
use super::sides::{Client, Our, POOL, Server};

/// The folder of the local files: in memory, so that no disk is measured.
const SHM: &str = "/dev/shm";
const FILE_BYTES: u64 = 1 << 30;
const OBJECT_BYTES: u64 = 4 << 20;
/// Seconds for objects: they take about a gigabyte, too.
const BENCH_SECONDS: &str = "1";
const NAME: &str = "transfer";

/// A row of the table.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Transfer {
    Put,
    Get,
    /// A get that discards the bytes, as for objects: it excludes the cost of the local file.
    GetToNowhere,
}

/// The carriers and servers. The last two are objects, with 16 in flight.
pub(super) const SIDES: [(Carrier, Server); 6] = [
    (Carrier::File(Client::Stock), Server::Stock),
    (Carrier::File(Client::Loligo), Server::Stock),
    (Carrier::File(Client::Stock), Server::Loligo),
    (Carrier::File(Client::Loligo), Server::Loligo),
    (Carrier::Objects, Server::Stock),
    (Carrier::Objects, Server::Loligo),
];

#[derive(Clone, Copy)]
pub(super) enum Carrier {
    /// `rados --striper put | get` and `loligo file put | get`.
    File(Client),
    /// `loligo bench`: objects of 4 MiB for a second, without a local file.
    Objects,
}

impl fmt::Display for Carrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(client) => write!(f, "file by {client}"),
            Self::Objects => f.write_str("objects by loligo"),
        }
    }
}

/// The measurements of one run.
#[derive(Clone, Copy)]
pub(super) struct Rate {
    mib_per_s: f64,
    client_cpu_us_per_mib: f64,
    server_cpu_us_per_mib: f64,
}

impl Transfer {
    pub(super) const ALL: [Self; 3] = [Self::Put, Self::Get, Self::GetToNowhere];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Put => "striped file put, 1 GiB",
            Self::Get => "striped file get, 1 GiB",
            Self::GetToNowhere => "striped file get to /dev/null, 1 GiB",
        }
    }

    pub(super) fn run(
        self,
        (carrier, server): (Carrier, Server),
        stock: &Cluster,
        our: &Our<'_>,
        dir: &Path,
    ) -> Result<Rate> {
        let local = Local::new()?;
        let serve = our.serve(server, dir)?;
        let (conf, pid) = match &serve {
            None => (stock.conf(), stock.pid("osd.0")?),
            Some(serve) => (serve.conf.clone(), serve.child.id()),
        };
        let run = Run { carrier, conf, pid, loligo: our.program, source: &local.source };
        let rate = match self {
            Self::Put => run.carry("put", &local.source)?,
            Self::Get => run.put_and_get(&local.target)?,
            Self::GetToNowhere => run.put_and_get(Path::new("/dev/null"))?,
        };
        run.remove()?;
        Ok(rate)
    }
}

struct Run<'a> {
    carrier: Carrier,
    conf: PathBuf,
    pid: u32,
    loligo: &'a Path,
    source: &'a Path,
}

impl Run<'_> {
    fn put_and_get(&self, target: &Path) -> Result<Rate> {
        self.carry("put", self.source)?;
        self.carry("get", target)
    }

    fn carry(&self, word: &str, file: &Path) -> Result<Rate> {
        let mut command = self.command(word, file);
        let (server_before, began) = (process_cpu_us(self.pid)?, Instant::now());
        let (output, client_cpu_us) = run_counting_cpu(&mut command)?;
        let (mib, seconds) = match self.carrier {
            Carrier::File(_) => ((FILE_BYTES >> 20) as f64, began.elapsed().as_secs_f64()),
            // The benchmark starts counting with its first request.
            Carrier::Objects => benched(&String::from_utf8_lossy(&output.stdout))?,
        };
        let server_cpu_us = process_cpu_us(self.pid)? - server_before;
        Ok(Rate {
            mib_per_s: mib / seconds,
            client_cpu_us_per_mib: client_cpu_us / mib,
            server_cpu_us_per_mib: server_cpu_us / mib,
        })
    }

    fn command(&self, word: &str, file: &Path) -> Command {
        let ours = !matches!(self.carrier, Carrier::File(Client::Stock));
        let mut c = Command::new(if ours { self.loligo } else { Path::new("rados") });
        c.arg("-c").arg(&self.conf).args(["-p", POOL]);
        match self.carrier {
            Carrier::File(Client::Stock) => c.args(["--striper", word, NAME]).arg(file),
            Carrier::File(Client::Loligo) => c.args(["file", word, NAME]).arg(file),
            Carrier::Objects => {
                c.args(["--format", "json", "bench", BENCH_SECONDS]);
                c.arg(if word == "put" { "write" } else { "seq" });
                c.args(["-t", "16", "--run-name", NAME]);
                if word == "put" {
                    c.args(["-b", &OBJECT_BYTES.to_string(), "--no-cleanup"]);
                }
                &mut c
            }
        };
        c
    }

    /// Removes the data, since a stock server is used again.
    fn remove(&self) -> Result<()> {
        let mut c = Command::new(self.loligo);
        c.arg("-c").arg(&self.conf).args(["-p", POOL]);
        match self.carrier {
            Carrier::File(_) => c.args(["file", "rm", NAME]),
            Carrier::Objects => c.args(["cleanup", "--run-name", NAME]),
        };
        output_of(&mut c).map(drop)
    }
}

/// Returns the MiB that `loligo bench` transferred, and the seconds it took.
fn benched(text: &str) -> Result<(f64, f64)> {
    let json: Value = serde_json::from_str(text.trim())?;
    let of = |name: &str| json[name].as_f64().ok_or_else(|| format!("loligo bench printed {json}"));
    let ops = of("ops")?;
    Ok((ops * (OBJECT_BYTES >> 20) as f64, ops / of("iops")?))
}

/// The local files, removed when dropped.
struct Local {
    source: PathBuf,
    target: PathBuf,
}

impl Local {
    fn new() -> Result<Self> {
        let path = |name: &str| Path::new(SHM).join(format!("loligo-bench-{name}.{}", std::process::id()));
        let local = Self { source: path("source"), target: path("target") };
        let mut source = fs::File::create(&local.source)?;
        // Each MiB has different pseudo-random bytes, so that no program can save work on zeros or
        // repetition.
        let mut piece = vec![0_u8; 1 << 20];
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        for _ in 0..FILE_BYTES >> 20 {
            for word in piece.chunks_exact_mut(8) {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                word.copy_from_slice(&state.to_le_bytes());
            }
            source.write_all(&piece)?;
        }
        Ok(local)
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        // The measurement is finished; a file that was never written does not exist.
        let _ = fs::remove_file(&self.source);
        let _ = fs::remove_file(&self.target);
    }
}

impl Rate {
    pub(super) fn median(rounds: &[Self]) -> Self {
        let of = |field: fn(&Self) -> f64| median(rounds.iter().map(field));
        Self {
            mib_per_s: of(|r| r.mib_per_s),
            client_cpu_us_per_mib: of(|r| r.client_cpu_us_per_mib),
            server_cpu_us_per_mib: of(|r| r.server_cpu_us_per_mib),
        }
    }

    fn json(&self) -> Value {
        json!({
            "mib_per_s": self.mib_per_s,
            "client_cpu_us_per_mib": self.client_cpu_us_per_mib,
            "server_cpu_us_per_mib": self.server_cpu_us_per_mib,
        })
    }
}

fn side_name((carrier, server): (Carrier, Server)) -> String {
    match carrier {
        Carrier::File(Client::Stock) => format!("rados --striper on {server}"),
        Carrier::File(Client::Loligo) => format!("loligo file on {server}"),
        Carrier::Objects => format!("loligo bench on {server}"),
    }
}

/// Formats the sides of a row. Ratios are to the stock program on the same server; for objects, to the
/// striped file.
pub(super) fn table(transfer: Transfer, rates: &[Rate; 6]) -> String {
    let mut t =
        format!("{:<28} {:>8} {:>12} {:>12}\n", transfer.name(), "MiB/s", "client µs/MiB", "server µs/MiB");
    for (side, rate) in SIDES.into_iter().zip(rates) {
        let _ = writeln!(
            t,
            "  {:<26} {:>8.0} {:>13.0} {:>13.0}",
            side_name(side),
            rate.mib_per_s,
            rate.client_cpu_us_per_mib,
            rate.server_cpu_us_per_mib
        );
    }
    let [stock_stock, ours_stock, stock_ours, ours_ours, objects_stock, objects_ours] =
        rates.map(|r| r.mib_per_s);
    let _ = writeln!(
        t,
        "  loligo file against rados --striper: {:.2}x on stock, {:.2}x on loligo, {:.2}x for all of loligo against all of stock; \
         against objects: {:.2} and {:.2}\n",
        ours_stock / stock_stock,
        ours_ours / stock_ours,
        ours_ours / stock_stock,
        ours_stock / objects_stock,
        ours_ours / objects_ours
    );
    t
}

pub(super) fn json(transfer: Transfer, rates: &[Rate; 6]) -> Value {
    let sides: serde_json::Map<String, Value> =
        SIDES.into_iter().zip(rates).map(|(side, rate)| (side_name(side), rate.json())).collect();
    json!({ "transfer": transfer.name(), "sides": sides })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bench_took_as_long_as_its_operations() {
        assert_eq!(benched(r#"{"ops": 256, "iops": 128.0}"#).unwrap(), (1024.0, 2.0));
        assert!(benched(r#"{"ops": 256}"#).is_err());
    }

    #[test]
    fn each_side_is_compared_with_what_it_must_be() {
        let rate = |mib_per_s| Rate { mib_per_s, client_cpu_us_per_mib: 1.0, server_cpu_us_per_mib: 2.0 };
        let rates = [100.0, 200.0, 300.0, 900.0, 250.0, 1000.0].map(rate);
        let shown = table(Transfer::Put, &rates);
        assert!(shown.contains("2.00x on stock, 3.00x on loligo, 9.00x for all"), "{shown}");
        assert!(shown.contains("against objects: 0.80 and 0.90"), "{shown}");
        assert_eq!(json(Transfer::Put, &rates)["sides"]["loligo file on stock"]["mib_per_s"], 200.0);
    }
}
