//! What a mount takes that nobody uses: memory and threads.

use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::{MountedDir, Side};
use crate::Result;
use crate::stock::Cluster;

use super::super::measure::{median, resident_mib};

/// The row's name.
pub(in super::super) const NAME: &str = "cephfs idle mount";

/// The time after which a mount is looked at.
const SETTLED: Duration = Duration::from_secs(2);

/// The medians of several mounts: MiB of memory, and threads.
pub(in super::super) struct Idle {
    pub(super) sides: [(Side, f64, f64); 2],
}

impl Idle {
    pub(super) fn measure(stock: &Cluster, loligo: &Path, rounds: usize) -> Result<Self> {
        let mut sides = [(Side::CephFuse, Vec::new()), (Side::Mounted, Vec::new())];
        for _ in 0..rounds {
            for (side, seen) in &mut sides {
                let mounted = MountedDir::of(*side, stock, loligo)?;
                // Used once.
                let _ = fs::read_dir(&mounted.dir)?.count();
                std::thread::sleep(SETTLED);
                let pid = mounted.child.id();
                seen.push((resident_mib(pid)?, fs::read_dir(format!("/proc/{pid}/task"))?.count()));
            }
        }
        let sides = sides.map(|(side, seen)| {
            let mib = median(seen.iter().map(|(mib, _)| *mib));
            (side, mib, median(seen.iter().map(|(_, threads)| *threads as f64)))
        });
        Ok(Self { sides })
    }

    pub(in super::super) fn table(&self) -> String {
        let line = |(side, mib, threads): &(Side, f64, f64)| {
            format!("  {:<24} {mib:>8.1} MiB resident, {threads:.0} threads\n", side.name())
        };
        let lines: String = self.sides.iter().map(line).collect();
        format!("{NAME}\n{lines}\n")
    }

    pub(in super::super) fn json(&self) -> Value {
        let sides = self.sides.iter().map(|(side, mib, threads)| {
            (side.name().to_owned(), json!({"resident_mib": mib, "threads": threads}))
        });
        json!({ "row": NAME, "sides": sides.collect::<serde_json::Map<_, _>>() })
    }
}
