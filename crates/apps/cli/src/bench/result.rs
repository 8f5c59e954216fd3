//! The figures of a run, as text and as JSON.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde_json::{Value, json};

/// The measurements of a bench.
pub(crate) struct Measured {
    pub(crate) elapsed: Duration,
    pub(crate) latency_ns: Histogram<u64>,
    /// Number of operations that ended in each whole second.
    pub(crate) ops_per_s: Vec<u64>,
    pub(crate) bytes_per_op: u64,
    pub(crate) object_bytes: u64,
    pub(crate) is_write: bool,
    /// CPU time of this process.
    pub(crate) cpu_us: f64,
    /// CPU time of other processes that the user named, if any.
    pub(crate) server_cpu_us: Option<f64>,
    /// Time that all threads of this process waited for its locks, in total.
    pub(crate) lock_wait: Duration,
}

impl Measured {
    fn ops(&self) -> u64 {
        self.latency_ns.len()
    }

    /// Operations a second.
    pub(crate) fn ops_per_s(&self) -> f64 {
        self.ops() as f64 / self.elapsed.as_secs_f64()
    }

    /// Bytes a second.
    pub(crate) fn bytes_per_s(&self) -> f64 {
        self.ops_per_s() * self.bytes_per_op as f64
    }

    /// Returns a quantile of the latency in microseconds.
    pub(crate) fn latency_us(&self, quantile: f64) -> f64 {
        self.latency_ns.value_at_quantile(quantile) as f64 / 1e3
    }

    /// CPU time of this process per operation, in microseconds.
    pub(crate) fn cpu_us_per_op(&self) -> f64 {
        self.cpu_us / self.ops().max(1) as f64
    }

    /// The same of the processes that the user named.
    pub(crate) fn server_cpu_us_per_op(&self) -> Option<f64> {
        self.server_cpu_us.map(|us| us / self.ops().max(1) as f64)
    }

    /// Returns the wait of all threads for locks, per second of the bench.
    pub(crate) fn lock_wait_us_per_s(&self) -> f64 {
        self.lock_wait.as_secs_f64() * 1e6 / self.elapsed.as_secs_f64()
    }

    /// Formats the figures for people and for programs that parse `rados bench`: its lines come first,
    /// in its order.
    pub(super) fn to_text(&self) -> String {
        let (done, op) = match self.is_write {
            true => ("Total writes made:", "Write size:"),
            false => ("Total reads made:", "Read size:"),
        };
        let s = |ns: f64| ns / 1e9;
        let (iops, latency) = (Spread::of(self), &self.latency_ns);
        let mb = |ops: f64| ops * self.bytes_per_op as f64 / f64::from(1 << 20);
        let mut lines = vec![
            ("Total time run:", format!("{:.6}", self.elapsed.as_secs_f64())),
            (done, self.ops().to_string()),
            (op, self.bytes_per_op.to_string()),
            ("Object size:", self.object_bytes.to_string()),
            ("Bandwidth (MB/sec):", format!("{:.6}", mb(self.ops_per_s()))),
            ("Stddev Bandwidth:", format!("{:.6}", mb(iops.stddev))),
            ("Max bandwidth (MB/sec):", format!("{:.6}", mb(iops.max))),
            ("Min bandwidth (MB/sec):", format!("{:.6}", mb(iops.min))),
            ("Average IOPS:", format!("{:.0}", self.ops_per_s())),
            ("Stddev IOPS:", format!("{:.6}", iops.stddev)),
            ("Max IOPS:", format!("{:.0}", iops.max)),
            ("Min IOPS:", format!("{:.0}", iops.min)),
            ("Average Latency(s):", format!("{:.9}", s(latency.mean()))),
            ("Stddev Latency(s):", format!("{:.9}", s(latency.stdev()))),
            ("Max latency(s):", format!("{:.9}", s(latency.max() as f64))),
            ("Min latency(s):", format!("{:.9}", s(latency.min() as f64))),
            ("Latency (us):", self.quantiles()),
            ("Client CPU (us/op):", format!("{:.2}", self.cpu_us_per_op())),
            ("Lock waits (us/s):", format!("{:.0}", self.lock_wait_us_per_s())),
        ];
        if !self.is_write {
            // `rados bench seq` prints only the mean of the bandwidth, and no deviation of the latency.
            lines.retain(|(name, _)| !name.to_lowercase().contains("dwidth") || name.starts_with('B'));
            lines.retain(|(name, _)| !name.starts_with("Stddev Latency"));
        }
        lines.iter().map(|(name, value)| format!("{name:<24}{value}\n")).collect()
    }

    /// The latency in microseconds, in words.
    pub(crate) fn quantiles(&self) -> String {
        format!(
            "mean {:.0}, p50 {:.0}, p99 {:.0}, p99.9 {:.0}, max {:.0}",
            self.latency_ns.mean() / 1e3,
            self.latency_us(0.5),
            self.latency_us(0.99),
            self.latency_us(0.999),
            self.latency_ns.max() as f64 / 1e3,
        )
    }

    /// Formats the figures for programs: these names do not change.
    pub(crate) fn to_json(&self) -> Value {
        let mut told = json!({
            "ops": self.ops(),
            "iops": self.ops_per_s(),
            "bytes_per_s": self.bytes_per_s(),
            "lat_us": {
                "mean": self.latency_ns.mean() / 1e3,
                "p50": self.latency_us(0.5),
                "p99": self.latency_us(0.99),
                "p999": self.latency_us(0.999),
                "max": self.latency_ns.max() as f64 / 1e3,
            },
            "cpu_us_per_op": self.cpu_us_per_op(),
            "lock_wait_us_per_s": self.lock_wait_us_per_s(),
        });
        if let Some(us) = self.server_cpu_us_per_op() {
            told["server_cpu_us_per_op"] = us.into();
        }
        told
    }
}

/// Number of operations that ended in each second of a bench.
#[derive(Default)]
pub(super) struct PerSecond(Vec<u64>);

impl PerSecond {
    /// Counts an operation that ended at this time after the start.
    pub(super) fn count(&mut self, since: Duration) {
        let second = usize::try_from(since.as_secs()).unwrap_or(usize::MAX - 1);
        if self.0.len() <= second {
            self.0.resize(second + 1, 0);
        }
        self.0[second] += 1;
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.0.resize(self.0.len().max(other.0.len()), 0);
        self.0.iter_mut().zip(&other.0).for_each(|(sum, more)| *sum += more);
    }

    /// Returns the counts of the seconds that had passed when the bench ended.
    pub(super) fn whole(mut self, elapsed: Duration) -> Vec<u64> {
        self.0.resize(usize::try_from(elapsed.as_secs()).unwrap_or(self.0.len()), 0);
        self.0
    }
}

/// The spread of the operations per second.
struct Spread {
    stddev: f64,
    max: f64,
    min: f64,
}

impl Spread {
    /// A bench of less than a second has only the mean.
    fn of(measured: &Measured) -> Self {
        let mean_of_all = [measured.ops_per_s()];
        let of_seconds: Vec<f64> = measured.ops_per_s.iter().map(|ops| *ops as f64).collect();
        let samples = if of_seconds.is_empty() { &mean_of_all[..] } else { &of_seconds };
        let mean = samples.iter().sum::<f64>() / samples.len() as f64;
        let squares: f64 = samples.iter().map(|sample| (sample - mean).powi(2)).sum();
        Self {
            stddev: (squares / (samples.len() - 1).max(1) as f64).sqrt(),
            max: samples.iter().copied().fold(0.0, f64::max),
            min: samples.iter().copied().fold(f64::INFINITY, f64::min),
        }
    }
}

/// Returns the CPU time of this process.
pub(crate) fn process_cpu_us() -> f64 {
    cpu_us_of("self").unwrap_or_default()
}

/// Returns the CPU time of a process (`/proc/PID/stat`, fields 14 and 15, in hundredths of a second); `None`
/// if there is none of this number.
pub(crate) fn cpu_us_of(process: &str) -> Option<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let fields = stat.rsplit_once(')')?.1.split_whitespace();
    Some(fields.skip(11).take(2).filter_map(|f| f.parse::<f64>().ok()).sum::<f64>() * 10_000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(ops_per_s: &[u64], is_write: bool) -> Measured {
        let mut latency_ns = Histogram::new(3).expect("three digits are valid");
        let ops: u64 = ops_per_s.iter().sum();
        latency_ns.record_n(2_000_000, ops).expect("it grows");
        Measured {
            elapsed: Duration::from_secs(ops_per_s.len() as u64),
            latency_ns,
            ops_per_s: ops_per_s.to_vec(),
            bytes_per_op: 1 << 20,
            object_bytes: 4 << 20,
            is_write,
            cpu_us: 1.0,
            server_cpu_us: None,
            lock_wait: Duration::ZERO,
        }
    }

    #[test]
    fn lines_are_those_that_parsers_look_for() {
        let names = |text: &str| {
            let names = text.lines().map(|line| line.split(':').next().unwrap_or_default().to_owned());
            names.collect::<Vec<_>>().join("|")
        };
        // Names and order of 16.2.15; its lines end with the latencies in seconds.
        let written = measured(&[10, 20], true).to_text();
        assert!(names(&written).starts_with(
            "Total time run|Total writes made|Write size|Object size|Bandwidth (MB/sec)|Stddev Bandwidth|\
             Max bandwidth (MB/sec)|Min bandwidth (MB/sec)|Average IOPS|Stddev IOPS|Max IOPS|Min IOPS|\
             Average Latency(s)|Stddev Latency(s)|Max latency(s)|Min latency(s)|"
        ));
        assert!(names(&measured(&[10, 20], false).to_text()).starts_with(
            "Total time run|Total reads made|Read size|Object size|Bandwidth (MB/sec)|Average IOPS|\
             Stddev IOPS|Max IOPS|Min IOPS|Average Latency(s)|Max latency(s)|Min latency(s)|"
        ));
        let value = |name: &str| {
            let line = written.lines().find(|line| line.starts_with(name)).expect("the line is there");
            line.rsplit(' ').next().and_then(|value| value.parse::<f64>().ok())
        };
        assert_eq!(value("Total writes made:"), Some(30.0));
        assert_eq!(value("Bandwidth (MB/sec):"), Some(15.0));
        assert_eq!((value("Max IOPS:"), value("Min IOPS:")), (Some(20.0), Some(10.0)));
        assert_eq!(value("Stddev IOPS:"), Some(7.071068));
    }

    #[test]
    fn processor_time_of_others_is_told_if_it_was_asked_for() {
        let mut of = measured(&[10, 10], true);
        assert!(of.to_json().get("server_cpu_us_per_op").is_none());
        of.server_cpu_us = Some(60.0);
        assert_eq!(of.to_json()["server_cpu_us_per_op"], 3.0);
        assert!(cpu_us_of(&std::process::id().to_string()).is_some());
        assert!(cpu_us_of("0").is_none());
    }

    #[test]
    fn operations_are_counted_by_the_second() {
        let (mut one, mut other) = (PerSecond::default(), PerSecond::default());
        [0, 999, 2500].into_iter().for_each(|ms| one.count(Duration::from_millis(ms)));
        [100, 1100, 3001].into_iter().for_each(|ms| other.count(Duration::from_millis(ms)));
        one.add(&other);
        assert_eq!(one.whole(Duration::from_millis(3100)), [3, 1, 1]);
    }
}
