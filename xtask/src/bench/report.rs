//! The results as a table and as a JSON file.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::stock::Store;

use super::disk::{MIXED, Mixed, OwnLarge, Written};
use super::images::{self, ImageLoad, Together};
use super::memory::Startup;
use super::nbd::Nbd;
use super::outqueue::OutQueue;
use super::sides::{LARGE_WRITE_SECONDS_MAX, Workload};
use super::transfers::{self, Rate, Transfer};

/// The measurements of one run of one workload.
#[derive(Clone, Copy)]
pub(super) struct Figures {
    pub(super) ops_per_s: f64,
    pub(super) latency_mean_us: f64,
    pub(super) latency_p50_us: Option<f64>,
    pub(super) latency_p99_us: Option<f64>,
    pub(super) client_cpu_us_per_op: f64,
    pub(super) server_cpu_us_per_op: f64,
}

pub(super) struct Report {
    heading: String,
    workloads: Vec<(Workload, [Figures; 4])>,
    /// The figures with stock's server and with Loligo's, in this order, as in the following fields.
    programs: Vec<(&'static str, [Figures; 2])>,
    transfers: Vec<(Transfer, [Rate; 6])>,
    own_write_us: Option<f64>,
    own_large: Vec<OwnLarge>,
    written: Vec<(Written, [f64; 2])>,
    mixed: Option<[Mixed; 2]>,
    startup: Option<Startup>,
    nbd: Option<Nbd>,
    images: Vec<(ImageLoad, [Figures; images::SIDES_COUNT])>,
    together: Option<Together>,
    out_queue: Option<OutQueue>,
}

impl Report {
    pub(super) fn new(release: &str, store: Store, seconds: u32, rounds: usize) -> Self {
        let ours = if store == Store::Memstore { "memory" } else { "disk" };
        let heading = format!(
            "stock = {release}, {}, one OSD, stock defaults; loligo = {ours} store; {rounds} rounds of {seconds} s (writes of 4 MiB at most {LARGE_WRITE_SECONDS_MAX} s), medians",
            store.name()
        );
        Self {
            heading,
            workloads: Vec::new(),
            programs: Vec::new(),
            transfers: Vec::new(),
            own_write_us: None,
            own_large: Vec::new(),
            written: Vec::new(),
            mixed: None,
            startup: None,
            nbd: None,
            images: Vec::new(),
            together: None,
            out_queue: None,
        }
    }

    pub(super) fn workload(&mut self, workload: Workload, pairs: [Figures; 4]) {
        self.workloads.push((workload, pairs));
    }

    pub(super) fn program(&mut self, name: &'static str, servers: [Figures; 2]) {
        self.programs.push((name, servers));
    }

    pub(super) fn transfer(&mut self, transfer: Transfer, sides: [Rate; 6]) {
        self.transfers.push((transfer, sides));
    }

    /// Records the time of a 4 KiB write on the disk itself, in µs.
    pub(super) fn own_write(&mut self, own_write_us: f64) {
        self.own_write_us = Some(own_write_us);
    }

    /// Records the throughput of the disk itself in large pieces.
    pub(super) fn own_large(&mut self, own: OwnLarge) {
        self.own_large.push(own);
    }

    pub(super) fn written(&mut self, what: Written, servers: [f64; 2]) {
        self.written.push((what, servers));
    }

    pub(super) fn mixed(&mut self, servers: [Mixed; 2]) {
        self.mixed = Some(servers);
    }

    pub(super) fn serve(&mut self, startup: Startup) {
        self.startup = Some(startup);
    }

    pub(super) fn nbd(&mut self, figures: Nbd) {
        self.nbd = Some(figures);
    }

    pub(super) fn image(&mut self, load: ImageLoad, sides: [Figures; images::SIDES_COUNT]) {
        self.images.push((load, sides));
    }

    pub(super) fn together(&mut self, figures: Together) {
        self.together = Some(figures);
    }

    pub(super) fn out_queue(&mut self, figures: OutQueue) {
        self.out_queue = Some(figures);
    }

    pub(super) fn table(&self) -> String {
        let mut t = format!("{}\n\n", self.heading);
        for (workload, pairs) in &self.workloads {
            self.workload_rows(&mut t, workload, pairs);
        }
        for (name, servers) in &self.programs {
            program_rows(&mut t, name, servers);
        }
        for (transfer, sides) in &self.transfers {
            t.push_str(&transfers::table(*transfer, sides));
        }
        self.disk_rows(&mut t);
        if let Some(s) = &self.startup {
            let _ = writeln!(
                t,
                "serve: ready after {:.1} ms (by its own clock {:.1} ms), {:.1} MiB resident when idle",
                s.ready_ms, s.said_ms, s.idle_mib
            );
        }
        if let Some(nbd) = &self.nbd {
            t.push_str(&nbd.table());
        }
        for (load, sides) in &self.images {
            t.push_str(&images::table(*load, sides));
        }
        if let Some(together) = &self.together {
            t.push_str(&together.table());
        }
        if let Some(q) = &self.out_queue {
            t.push_str(&q.table());
        }
        t
    }

    fn workload_rows(&self, t: &mut String, workload: &Workload, pairs: &[Figures; 4]) {
        let [stock, ours, stock_on_ours, ours_on_stock] = pairs;
        figure_rows(
            t,
            workload.name(),
            &[
                ("stock on stock", stock),
                ("loligo on loligo", ours),
                ("stock on loligo", stock_on_ours),
                ("loligo on stock", ours_on_stock),
            ],
        );
        let _ = writeln!(
            t,
            "  server CPU per op, stock client: 1/{:.1} of stock, own client: 1/{:.1}; client CPU per op, stock server: 1/{:.1} of stock\n",
            stock.server_cpu_us_per_op / stock_on_ours.server_cpu_us_per_op,
            stock.server_cpu_us_per_op / ours.server_cpu_us_per_op,
            stock.client_cpu_us_per_op / ours_on_stock.client_cpu_us_per_op
        );
    }

    fn disk_rows(&self, t: &mut String) {
        if let Some(own_us) = self.own_write_us {
            let _ = writeln!(t, "the disk's own write of 4 KiB, O_DIRECT and O_DSYNC: {own_us:.0} µs");
        }
        for own in &self.own_large {
            let _ = writeln!(t, "the disk's own {}, O_DIRECT: {:.0}/s", own.name, own.per_s);
        }
        for (what, [stock, ours]) in &self.written {
            let _ = writeln!(t, "{}: stock {stock:.3}, loligo {ours:.3}", what.name());
        }
        for (server, m) in ["stock", "loligo"].iter().zip(self.mixed.iter().flatten()) {
            let _ = writeln!(
                t,
                "{MIXED}, fio on {server}: {:.0} writes/s, p50 {:.0} µs, p99.9 {:.0} µs ({:.1} times the median)",
                m.writes_per_s,
                m.p50_us,
                m.p999_us,
                m.p999_us / m.p50_us
            );
        }
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
        let programs: Vec<Value> = self
            .programs
            .iter()
            .map(|(name, [stock, ours])| {
                json!({"program": name, "stock": figures_json(stock), "loligo": figures_json(ours)})
            })
            .collect();
        let transfers: Vec<Value> =
            self.transfers.iter().map(|(transfer, sides)| transfers::json(*transfer, sides)).collect();
        let written: Vec<Value> = self
            .written
            .iter()
            .map(|(what, [stock, ours])| json!({"what": what.name(), "stock": stock, "loligo": ours}))
            .collect();
        let mixed = self.mixed.as_ref().map(|servers| {
            let [stock, ours] = servers
                .map(|m| json!({"writes_per_s": m.writes_per_s, "p50_us": m.p50_us, "p999_us": m.p999_us}));
            json!({"stock": stock, "loligo": ours})
        });
        let own_large: Vec<Value> =
            self.own_large.iter().map(|own| json!({"what": own.name, "per_s": own.per_s})).collect();
        let all = json!({
            "about": self.heading,
            "workloads": workloads,
            "programs": programs,
            "transfers": transfers,
            "own_write_us": self.own_write_us,
            "own_large_per_s": own_large,
            "written_per_byte": written,
            "mixed": mixed,
            "serve": startup,
            "nbd": self.nbd.as_ref().map(Nbd::json),
            "images": self.images.iter().map(|(load, sides)| images::json(*load, sides)).collect::<Vec<_>>(),
            "images_together": self.together.as_ref().map(Together::json),
            "out_queue": out_queue,
        });
        format!("{all:#}\n")
    }
}

/// Formats the rows of a stock program on either server.
fn program_rows(t: &mut String, name: &str, servers: &[Figures; 2]) {
    let [stock, ours] = servers;
    figure_rows(t, name, &[("on stock", stock), ("on loligo", ours)]);
    let _ = writeln!(
        t,
        "  server CPU per op: 1/{:.1} of stock\n",
        stock.server_cpu_us_per_op / ours.server_cpu_us_per_op
    );
}

/// Formats a heading and a row for each entry; ratios are to the first.
pub(super) fn figure_rows(t: &mut String, name: &str, rows: &[(&str, &Figures)]) {
    let _ = writeln!(
        t,
        "{name:<26} {:>10} {:>7} {:>9} {:>9} {:>9} {:>11} {:>11}",
        "ops/s", "ratio", "mean µs", "p50 µs", "p99 µs", "client µs", "server µs"
    );
    let first = rows.first().map_or(f64::NAN, |(_, f)| f.ops_per_s);
    for (name, f) in rows {
        let known = |us: Option<f64>| us.map_or_else(|| "-".to_owned(), |us| format!("{us:.0}"));
        let (p50, p99) = (known(f.latency_p50_us), known(f.latency_p99_us));
        let _ = writeln!(
            t,
            "  {name:<24} {:>10.0} {:>6.2}x {:>9.0} {p50:>9} {p99:>9} {:>11.2} {:>11.2}",
            f.ops_per_s,
            f.ops_per_s / first,
            f.latency_mean_us,
            f.client_cpu_us_per_op,
            f.server_cpu_us_per_op
        );
    }
}

pub(super) fn figures_json(f: &Figures) -> Value {
    json!({
        "ops_per_s": f.ops_per_s,
        "latency_mean_us": f.latency_mean_us,
        "latency_p50_us": f.latency_p50_us,
        "latency_p99_us": f.latency_p99_us,
        "client_cpu_us_per_op": f.client_cpu_us_per_op,
        "server_cpu_us_per_op": f.server_cpu_us_per_op,
    })
}
