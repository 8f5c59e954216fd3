//! The table and the JSON file.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::stock::Store;

use super::memory::Startup;
use super::outqueue::OutQueue;
use super::sides::{LARGE_WRITE_SECONDS_MAX, Workload};

/// What one run of one workload measured.
#[derive(Clone, Copy)]
pub(super) struct Figures {
    pub(super) ops_per_s: f64,
    pub(super) latency_mean_us: f64,
    pub(super) latency_p99_us: Option<f64>,
    pub(super) client_cpu_us_per_op: f64,
    pub(super) server_cpu_us_per_op: f64,
}

pub(super) struct Report {
    heading: String,
    workloads: Vec<(Workload, [Figures; 4])>,
    startup: Option<Startup>,
    out_queue: Option<OutQueue>,
}

impl Report {
    pub(super) fn new(release: &str, store: Store, seconds: u32, rounds: usize) -> Self {
        let ours = if store == Store::Memstore { "memory" } else { "disk" };
        let heading = format!(
            "stock = {release}, {}, one OSD, stock defaults; loligo = {ours} store; {rounds} rounds of {seconds} s (writes of 4 MiB at most {LARGE_WRITE_SECONDS_MAX} s), medians",
            store.name()
        );
        Self { heading, workloads: Vec::new(), startup: None, out_queue: None }
    }

    pub(super) fn workload(&mut self, workload: Workload, pairs: [Figures; 4]) {
        self.workloads.push((workload, pairs));
    }

    pub(super) fn serve(&mut self, startup: Startup) {
        self.startup = Some(startup);
    }

    pub(super) fn out_queue(&mut self, figures: OutQueue) {
        self.out_queue = Some(figures);
    }

    pub(super) fn table(&self) -> String {
        let mut t = format!("{}\n\n", self.heading);
        for (workload, pairs) in &self.workloads {
            self.workload_rows(&mut t, workload, pairs);
        }
        if let Some(s) = &self.startup {
            let _ = writeln!(
                t,
                "serve: ready after {:.1} ms (by its own clock {:.1} ms), {:.1} MiB resident when idle",
                s.ready_ms, s.said_ms, s.idle_mib
            );
        }
        if let Some(q) = &self.out_queue {
            t.push_str(&q.table());
        }
        t
    }

    fn workload_rows(&self, t: &mut String, workload: &Workload, pairs: &[Figures; 4]) {
        let [stock, ours, stock_on_ours, ours_on_stock] = pairs;
        let rows = [
            ("stock on stock", stock),
            ("loligo on loligo", ours),
            ("stock on loligo", stock_on_ours),
            ("loligo on stock", ours_on_stock),
        ];
        let _ = writeln!(
            t,
            "{:<26} {:>10} {:>7} {:>9} {:>9} {:>11} {:>11}",
            workload.name(),
            "ops/s",
            "ratio",
            "mean µs",
            "p99 µs",
            "client µs",
            "server µs"
        );
        for (name, f) in rows {
            let p99 = f.latency_p99_us.map_or_else(|| "-".to_owned(), |v| format!("{v:.0}"));
            let _ = writeln!(
                t,
                "  {name:<24} {:>10.0} {:>6.2}x {:>9.0} {p99:>9} {:>11.2} {:>11.2}",
                f.ops_per_s,
                f.ops_per_s / stock.ops_per_s,
                f.latency_mean_us,
                f.client_cpu_us_per_op,
                f.server_cpu_us_per_op
            );
        }
        let _ = writeln!(
            t,
            "  server CPU per op, stock client: 1/{:.1} of stock; client CPU per op, stock server: 1/{:.1} of stock\n",
            stock.server_cpu_us_per_op / stock_on_ours.server_cpu_us_per_op,
            stock.client_cpu_us_per_op / ours_on_stock.client_cpu_us_per_op
        );
    }

    pub(super) fn json(&self) -> String {
        let workloads: Vec<Value> = self
            .workloads
            .iter()
            .map(|(w, [stock, ours, stock_on_ours, ours_on_stock])| {
                json!({
                    "workload": w.name(),
                    "stock_on_stock": figures_json(stock),
                    "loligo_on_loligo": figures_json(ours),
                    "stock_on_loligo": figures_json(stock_on_ours),
                    "loligo_on_stock": figures_json(ours_on_stock),
                })
            })
            .collect();
        let startup = self
            .startup
            .as_ref()
            .map(|s| json!({"ready_ms": s.ready_ms, "startup_ms": s.said_ms, "idle_mib": s.idle_mib}));
        let out_queue = self.out_queue.as_ref().map(OutQueue::json);
        let all =
            json!({"about": self.heading, "workloads": workloads, "serve": startup, "out_queue": out_queue});
        format!("{all:#}\n")
    }
}

fn figures_json(f: &Figures) -> Value {
    json!({
        "ops_per_s": f.ops_per_s,
        "latency_mean_us": f.latency_mean_us,
        "latency_p99_us": f.latency_p99_us,
        "client_cpu_us_per_op": f.client_cpu_us_per_op,
        "server_cpu_us_per_op": f.server_cpu_us_per_op,
    })
}
