use std::time::Duration;

use hdrhistogram::Histogram;
use serde_json::{Value, json};

/// What a bench measured.
pub(crate) struct Measured {
    pub(super) elapsed: Duration,
    pub(super) latency_ns: Histogram<u64>,
    pub(super) bytes_per_op: u64,
    /// CPU time of this process.
    pub(super) cpu_us: f64,
    /// What this process' threads waited for its locks, together.
    pub(super) lock_wait: Duration,
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

    /// A quantile of the latency.
    pub(crate) fn latency_us(&self, quantile: f64) -> f64 {
        self.latency_ns.value_at_quantile(quantile) as f64 / 1e3
    }

    fn cpu_us_per_op(&self) -> f64 {
        self.cpu_us / self.ops().max(1) as f64
    }

    /// Of all threads together, per second of the bench.
    fn lock_wait_us_per_s(&self) -> f64 {
        self.lock_wait.as_secs_f64() * 1e6 / self.elapsed.as_secs_f64()
    }

    /// For people; the first lines are those that `rados bench` prints.
    pub(super) fn to_text(&self) -> String {
        format!(
            "Total time run:       {:.4}\nTotal operations:     {}\nOperation size:       {}\n\
             Bandwidth (MB/sec):   {:.1}\nAverage IOPS:         {:.0}\n\
             Latency (us):         mean {:.0}, p50 {:.0}, p99 {:.0}, p99.9 {:.0}, max {:.0}\n\
             Client CPU (us/op):   {:.2}\nLock waits (us/s):    {:.0}\n",
            self.elapsed.as_secs_f64(),
            self.ops(),
            self.bytes_per_op,
            self.bytes_per_s() / f64::from(1 << 20),
            self.ops_per_s(),
            self.latency_ns.mean() / 1e3,
            self.latency_us(0.5),
            self.latency_us(0.99),
            self.latency_us(0.999),
            self.latency_ns.max() as f64 / 1e3,
            self.cpu_us_per_op(),
            self.lock_wait_us_per_s(),
        )
    }

    /// For programs: these names do not change.
    pub(super) fn to_json(&self) -> Value {
        json!({
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
        })
    }
}

/// CPU time that this process has used (`/proc/self/stat`, fields 14 and 15, in hundredths of a second).
pub(super) fn process_cpu_us() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace();
    fields.skip(11).take(2).filter_map(|f| f.parse::<f64>().ok()).sum::<f64>() * 10_000.0
}
