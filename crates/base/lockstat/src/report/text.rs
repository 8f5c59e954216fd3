//! The layout of `/proc/lock_stat` (Linux, Documentation/locking/lockstat.rst).

use std::fmt::Write;

use super::{ClassReport, Kind, Mode, Report, Site, Times};

const NAME_WIDTH: usize = 40;
const COLUMN_WIDTH: usize = 14;
/// The kernel's columns, then those of this crate.
const COLUMNS: [&str; 16] = [
    "con-bounces",
    "contentions",
    "waittime-min",
    "waittime-max",
    "waittime-total",
    "waittime-avg",
    "acq-bounces",
    "acquisitions",
    "holdtime-min",
    "holdtime-max",
    "holdtime-total",
    "holdtime-avg",
    "waittime-p50",
    "waittime-p99",
    "holdtime-p50",
    "holdtime-p99",
];
/// Call sites shown per list.
const SITES_SHOWN: usize = 8;

pub(super) fn render(report: &Report) -> String {
    let rule = "-".repeat(NAME_WIDTH + COLUMNS.len() * (COLUMN_WIDTH + 1));
    let mut out = format!("lock_stat version 0.4\n{rule}\n{:>NAME_WIDTH$}", "class name");
    for column in COLUMNS {
        push(&mut out, column);
    }
    out += &format!("\n{rule}\n");
    for class in &report.classes {
        render_class(&mut out, class);
    }
    out += &format!("\nmode {}; times in microseconds", report.mode.name());
    if report.mode == Mode::Full {
        out += "; times held from one acquisition in eight (mode exact: from each)";
    }
    if !report.quiet.is_empty() {
        out += &format!("; nothing to tell of {}", report.quiet.join(", "));
    }
    out.push('\n');
    out
}

fn render_class(out: &mut String, class: &ClassReport) {
    let name = match class.kind {
        Kind::Exclusive => format!("{}:", class.name),
        Kind::Write => format!("{}-W:", class.name),
        Kind::Read => format!("{}-R:", class.name),
    };
    let _ = write!(out, "\n{name:>NAME_WIDTH$}");
    push(out, &class.con_bounces.to_string());
    push(out, &class.contentions.to_string());
    push_times(out, &class.wait);
    push(out, &class.acq_bounces.to_string());
    push(out, &class.acquisitions.to_string());
    push_times(out, &class.hold);
    for ns in [class.wait.p50_ns, class.wait.p99_ns, class.hold.p50_ns, class.hold.p99_ns] {
        push(out, &microseconds(ns));
    }
    out.push('\n');
    render_sites(out, class.name, &class.waiters);
    render_sites(out, class.name, &class.holders);
}

/// `name   count   [total µs] file:line`; the total replaces the address that the kernel shows.
fn render_sites(out: &mut String, name: &str, sites: &[Site]) {
    if sites.is_empty() {
        return;
    }
    let _ = writeln!(out, "{:>NAME_WIDTH$}", "-".repeat(name.len()));
    for site in sites.iter().take(SITES_SHOWN) {
        let Site { file, line, count, total_ns, .. } = site;
        let _ = writeln!(
            out,
            "{name:>NAME_WIDTH$} {count:>14} {:>16} {file}:{line}",
            format!("[{}]", microseconds(*total_ns))
        );
    }
}

fn push_times(out: &mut String, times: &Times) {
    for ns in [times.min_ns, times.max_ns, times.total_ns, times.avg_ns()] {
        push(out, &microseconds(ns));
    }
}

fn push(out: &mut String, cell: &str) {
    let _ = write!(out, " {cell:>COLUMN_WIDTH$}");
}

fn microseconds(ns: u64) -> String {
    format!("{}.{:02}", ns / 1000, ns % 1000 / 10)
}
