//! What a program on either library has measured, and what it took.

use std::fmt::Write as _;
use std::fs;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::Result;
use crate::bench::measure::{children_cpu_us, median, median_known};
use crate::bench::programs::FioRun;

use super::Libraries;

/// How often the threads and the memory of a running program are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// One run of a program.
#[derive(Clone, Copy)]
pub(in crate::bench) struct Ran {
    ops_per_s: f64,
    p50_us: Option<f64>,
    p99_us: Option<f64>,
    cpu_us_per_op: f64,
    /// The most at a time.
    threads: f64,
    resident_mib: f64,
    switches_per_op: Option<f64>,
    /// The resident memory that each operation left behind.
    kib_per_op: Option<f64>,
}

/// A program that has ended.
pub(super) struct Watched {
    stdout: String,
    cpu_us: f64,
    threads: f64,
    resident_mib: f64,
}

/// Runs a program, and looks at its threads and its memory meanwhile.
pub(super) fn run_watched(command: &mut Command) -> Result<Watched> {
    let before_us = children_cpu_us();
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let child: Child = child.map_err(|why| format!("{command:?}: {why}"))?;
    let (pid, has_ended) = (child.id(), AtomicBool::new(false));
    let (output, (threads, resident_mib)) = thread::scope(|scope| {
        let looks = scope.spawn(|| {
            let mut most = (0.0_f64, 0.0_f64);
            // Relaxed: nothing is read that the other thread has written before.
            while !has_ended.load(Ordering::Relaxed) {
                let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
                most.0 = most.0.max(field(&status, "Threads:"));
                most.1 = most.1.max(field(&status, "VmRSS:") / 1024.0);
                thread::sleep(LOOK_EVERY);
            }
            most
        });
        let output = child.wait_with_output();
        has_ended.store(true, Ordering::Relaxed);
        (output, looks.join().unwrap_or_default())
    });
    let output = output?;
    let cpu_us = children_cpu_us() - before_us;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{command:?} failed: {}", stderr.trim()).into());
    }
    Ok(Watched {
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        cpu_us,
        threads,
        resident_mib,
    })
}

/// A number of `/proc/PID/status`; 0 where there is none.
fn field(status: &str, name: &str) -> f64 {
    let rest = status.lines().find_map(|line| line.strip_prefix(name));
    rest.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0.0)
}

impl Watched {
    /// The result of fio. `io_type`: `write` or `read`.
    pub(super) fn of_fio(&self, io_type: &str) -> Result<Ran> {
        let run = FioRun::parse(&self.stdout, io_type)?;
        Ok(self.ran(run.ops, run.ops_per_s, Some((run.p50_us, run.p99_us))))
    }

    /// The result of `qemu-img bench`, which says `Run completed in 1.234 seconds.`
    pub(super) fn of_qemu(&self, requests: u32) -> Result<Ran> {
        let rest = self.stdout.lines().find_map(|line| line.strip_prefix("Run completed in "));
        let seconds: Option<f64> = rest.and_then(|rest| rest.split(' ').next()?.parse().ok());
        let seconds = seconds.ok_or_else(|| format!("qemu-img bench printed no time:\n{}", self.stdout))?;
        Ok(self.ran(requests.into(), f64::from(requests) / seconds, None))
    }

    /// The result of our own programs.
    pub(super) fn of_json(&self) -> Result<Ran> {
        let said: Value = serde_json::from_str(self.stdout.trim())?;
        let need = |name: &str| said[name].as_f64().ok_or_else(|| format!("no {name} in {said}"));
        let times = (need("p50_us")?, need("p99_us")?);
        Ok(Ran {
            switches_per_op: said["switches_per_op"].as_f64(),
            kib_per_op: said["kib_per_op"].as_f64(),
            ..self.ran(need("ops")?, need("ops_per_s")?, Some(times))
        })
    }

    fn ran(&self, ops: f64, ops_per_s: f64, times: Option<(f64, f64)>) -> Ran {
        Ran {
            ops_per_s,
            p50_us: times.map(|(p50, _)| p50),
            p99_us: times.map(|(_, p99)| p99),
            cpu_us_per_op: self.cpu_us / ops,
            threads: self.threads,
            resident_mib: self.resident_mib,
            switches_per_op: None,
            kib_per_op: None,
        }
    }
}

impl Ran {
    /// The median of each figure.
    pub(in crate::bench) fn median(rounds: &[Self]) -> Self {
        let of = |field: fn(&Self) -> f64| median(rounds.iter().map(field));
        let of_some = |field: fn(&Self) -> Option<f64>| median_known(rounds.iter().map(field));
        Self {
            ops_per_s: of(|r| r.ops_per_s),
            p50_us: of_some(|r| r.p50_us),
            p99_us: of_some(|r| r.p99_us),
            cpu_us_per_op: of(|r| r.cpu_us_per_op),
            threads: of(|r| r.threads),
            resident_mib: of(|r| r.resident_mib),
            switches_per_op: of_some(|r| r.switches_per_op),
            kib_per_op: of_some(|r| r.kib_per_op),
        }
    }
}

/// A heading, and a row for either library.
pub(in crate::bench) fn table(name: &str, both: &[Ran; 2]) -> String {
    let mut t = format!(
        "{name}\n  {:<10} {:>9} {:>7} {:>9} {:>9} {:>11} {:>8} {:>9} {:>12} {:>8}\n",
        "with",
        "per s",
        "ratio",
        "p50 µs",
        "p99 µs",
        "CPU µs each",
        "threads",
        "MiB",
        "switches each",
        "KiB each"
    );
    for (libraries, ran) in Libraries::BOTH.iter().zip(both) {
        let known = |figure: Option<f64>, digits: usize| {
            figure.map_or_else(|| "-".to_owned(), |figure| format!("{figure:.digits$}"))
        };
        let _ = writeln!(
            t,
            "  {:<10} {:>9.0} {:>6.2}x {:>9} {:>9} {:>11.2} {:>8.0} {:>9.1} {:>12} {:>8}",
            libraries.to_string(),
            ran.ops_per_s,
            ran.ops_per_s / both[0].ops_per_s,
            known(ran.p50_us, 0),
            known(ran.p99_us, 0),
            ran.cpu_us_per_op,
            ran.threads,
            ran.resident_mib,
            known(ran.switches_per_op, 2),
            known(ran.kib_per_op, 1),
        );
    }
    t
}

pub(in crate::bench) fn json(name: &str, both: &[Ran; 2]) -> Value {
    let [stock, ours] = both.map(|ran| {
        json!({
            "per_s": ran.ops_per_s,
            "p50_us": ran.p50_us,
            "p99_us": ran.p99_us,
            "cpu_us_each": ran.cpu_us_per_op,
            "threads_most": ran.threads,
            "resident_mib_most": ran.resident_mib,
            "switches_each": ran.switches_per_op,
            "resident_kib_each": ran.kib_per_op,
        })
    });
    json!({"program": name, "stock": stock, "loligo": ours})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watched(stdout: &str) -> Watched {
        Watched { stdout: stdout.to_owned(), cpu_us: 100.0, threads: 3.0, resident_mib: 20.0 }
    }

    #[test]
    fn what_programs_print_is_read() {
        let ran =
            watched("Sending 50 write requests\nRun completed in 2.500 seconds.\n").of_qemu(50).unwrap();
        assert_eq!((ran.ops_per_s, ran.cpu_us_per_op, ran.p99_us), (20.0, 2.0, None));
        assert!(watched("Run completed").of_qemu(50).is_err());
        let said = r#"{"ops": 10, "ops_per_s": 5.0, "p50_us": 1, "p99_us": 2, "kib_per_op": 7.5}"#;
        let ran = watched(said).of_json().unwrap();
        assert_eq!((ran.cpu_us_per_op, ran.p99_us, ran.kib_per_op), (10.0, Some(2.0), Some(7.5)));
        assert!(watched(r#"{"ops": 10}"#).of_json().is_err());
        assert!(table("a row", &[ran, ran]).contains("1.00x"));
    }

    #[test]
    fn a_program_s_threads_and_memory_are_seen() {
        let watched = run_watched(Command::new("sh").args(["-c", "sleep 0.2; echo said"])).unwrap();
        assert_eq!((&*watched.stdout, watched.threads), ("said\n", 1.0));
        assert!(watched.resident_mib > 0.0);
        assert!(run_watched(Command::new("sh").args(["-c", "exit 3"])).is_err());
        assert_eq!((field("VmRSS:\t  12 kB\nThreads:\t4\n", "Threads:"), field("", "VmRSS:")), (4.0, 0.0));
    }
}
