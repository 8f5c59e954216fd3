//! The results as a table and as a JSON file.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::stock::Store;

use super::disk::{MIXED, Mixed, OwnLarge, Written};
use super::figures::{Figures, figure_rows, figures_json};
use super::files::{self, Idle, Measured};
use super::images::{self, ImageLoad, Together};
use super::libraries::{self, Ran};
use super::memory::Startup;
use super::nbd::Nbd;
use super::outqueue::OutQueue;
use super::sides::{LARGE_WRITE_SECONDS_MAX, Workload};
use super::transfers::{self, Rate, Transfer};

pub(super) struct Report {
    heading: String,
    /// What the clients of CephFS are measured on, and how often.
    about_cephfs: String,
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
    files: Vec<Measured>,
    idle_mounts: Option<Idle>,
    out_queue: Option<OutQueue>,
    /// Programs on stock's libraries and on Loligo's, in this order.
    libraries: Vec<(&'static str, [Ran; 2])>,
}

impl Report {
    pub(super) fn new(release: &str, store: Store, msgr2: bool, seconds: u32, rounds: usize) -> Self {
        let ours = if store == Store::Memstore { "memory" } else { "disk" };
        let by = if msgr2 { "" } else { "; by version 1 of the messenger" };
        let heading = format!(
            "stock = {release}, {}, one OSD, stock defaults; loligo = {ours} store{by}; {rounds} rounds of {seconds} s (writes of 4 MiB at most {LARGE_WRITE_SECONDS_MAX} s), medians",
            store.name()
        );
        let about_cephfs = format!(
            "Stock is {release} with its defaults, {}, one OSD and one metadata server; medians of {rounds} rounds of {seconds} s{by}",
            store.name()
        );
        Self {
            heading,
            about_cephfs,
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
            files: Vec::new(),
            idle_mounts: None,
            out_queue: None,
            libraries: Vec::new(),
        }
    }

    /// What the rows say, to be printed before them.
    pub(super) fn heading(&self) -> &str {
        &self.heading
    }

    /// How many there are so far.
    pub(super) fn rows(&self) -> usize {
        let singles = [
            self.mixed.is_some(),
            self.startup.is_some(),
            self.nbd.is_some(),
            self.together.is_some(),
            self.out_queue.is_some(),
            self.own_write_us.is_some(),
            self.idle_mounts.is_some(),
        ];
        let singles = singles.into_iter().filter(|is_there| *is_there).count();
        let lists = [self.workloads.len(), self.programs.len(), self.transfers.len(), self.images.len()];
        singles
            + lists.into_iter().sum::<usize>()
            + self.files.len()
            + self.own_large.len()
            + self.libraries.len()
            + self.written.len()
    }

    pub(super) fn workload(&mut self, workload: Workload, pairs: [Figures; 4]) {
        print!("{}", workload_rows(&workload, &pairs));
        self.workloads.push((workload, pairs));
    }

    pub(super) fn program(&mut self, name: &'static str, servers: [Figures; 2]) {
        print!("{}", program_rows(name, &servers));
        self.programs.push((name, servers));
    }

    pub(super) fn transfer(&mut self, transfer: Transfer, sides: [Rate; 6]) {
        print!("{}", transfers::table(transfer, &sides));
        self.transfers.push((transfer, sides));
    }

    /// What a write of 4 KiB costs on the disk itself, µs.
    pub(super) fn own_write(&mut self, own_us: f64) {
        println!("the disk's own write of 4 KiB, O_DIRECT and O_DSYNC: {own_us:.0} µs");
        self.own_write_us = Some(own_us);
    }

    /// Records the throughput of the disk itself in large pieces.
    pub(super) fn own_large(&mut self, own: OwnLarge) {
        println!("the disk's own {}, O_DIRECT: {:.0}/s", own.name, own.per_s);
        self.own_large.push(own);
    }

    pub(super) fn written(&mut self, what: Written, servers: [f64; 2]) {
        let [stock, ours] = servers;
        println!("{}: stock {stock:.3}, loligo {ours:.3}", what.name());
        self.written.push((what, servers));
    }

    pub(super) fn mixed(&mut self, servers: [Mixed; 2]) {
        for (server, m) in ["stock", "loligo"].iter().zip(&servers) {
            println!(
                "{MIXED}, fio on {server}: {:.0} writes/s, p50 {:.0} µs, p99.9 {:.0} µs ({:.1} times the median)",
                m.writes_per_s,
                m.p50_us,
                m.p999_us,
                m.p999_us / m.p50_us
            );
        }
        self.mixed = Some(servers);
    }

    pub(super) fn serve(&mut self, s: Startup) {
        println!(
            "serve: ready after {:.1} ms (by its own clock {:.1} ms), {:.1} MiB resident when idle",
            s.ready_ms, s.said_ms, s.idle_mib
        );
        self.startup = Some(s);
    }

    pub(super) fn nbd(&mut self, figures: Nbd) {
        print!("{}", figures.table());
        self.nbd = Some(figures);
    }

    pub(super) fn image(&mut self, load: ImageLoad, sides: [Figures; images::SIDES_COUNT]) {
        print!("{}", images::table(load, &sides));
        self.images.push((load, sides));
    }

    pub(super) fn together(&mut self, figures: Together) {
        print!("{}", figures.table());
        self.together = Some(figures);
    }

    pub(super) fn files(&mut self, measured: Measured) {
        print!("{}", measured.table());
        self.files.push(measured);
    }

    pub(super) fn idle_mounts(&mut self, idle: Idle) {
        print!("{}", idle.table());
        self.idle_mounts = Some(idle);
    }

    /// The clients of CephFS as a page of the documentation.
    pub(super) fn cephfs_page(&self) -> String {
        files::page(&self.about_cephfs, &self.files, self.idle_mounts.as_ref())
    }

    pub(super) fn out_queue(&mut self, figures: OutQueue) {
        print!("{}", figures.table());
        self.out_queue = Some(figures);
    }

    pub(super) fn libraries(&mut self, name: &'static str, both: [Ran; 2]) {
        println!("{}", libraries::table(name, &both));
        self.libraries.push((name, both));
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
            "files": self.files.iter().map(Measured::json).collect::<Vec<_>>(),
            "idle_mounts": self.idle_mounts.as_ref().map(Idle::json),
            "images_together": self.together.as_ref().map(Together::json),
            "out_queue": out_queue,
            "libraries": self.libraries.iter().map(|(name, both)| libraries::json(name, both)).collect::<Vec<_>>(),
        });
        format!("{all:#}\n")
    }
}

/// The rows of a load by either client on either server.
fn workload_rows(workload: &Workload, pairs: &[Figures; 4]) -> String {
    let [stock, ours, stock_on_ours, ours_on_stock] = pairs;
    let mut t = String::new();
    figure_rows(
        &mut t,
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
    t
}

/// The rows of what a stock program does with either server.
fn program_rows(name: &str, servers: &[Figures; 2]) -> String {
    let [stock, ours] = servers;
    let mut t = String::new();
    figure_rows(&mut t, name, &[("on stock", stock), ("on loligo", ours)]);
    let _ = writeln!(
        t,
        "  server CPU per op: 1/{:.1} of stock\n",
        stock.server_cpu_us_per_op / ours.server_cpu_us_per_op
    );
    t
}
