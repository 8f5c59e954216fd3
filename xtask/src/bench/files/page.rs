//! The figures as a page of the documentation.

use std::fmt::Write as _;
use std::fs;

use super::{Idle, Measured, What};

/// Returns the page. `about` tells what was measured and how.
pub(in super::super) fn page(about: &str, measured: &[Measured], idle: Option<&Idle>) -> String {
    let mut out = format!(
        "# Clients of CephFS\n\nWritten by `cargo xtask bench --only cephfs --page FILE`, on {}. The clients of a row \
         take turns. Rows about names have threads, or tasks, that each make one call after the other; so have reads \
         and writes. CPU is that of the client's processes, and of the OSD and the metadata server, in µs per \
         operation, while the row was measured.\n\n{about}.\n\n",
        machine()
    );
    if !measured.is_empty() {
        out.push_str("| | client | operations/s | | mean µs | p50 | p99 | client's CPU | servers' CPU |\n");
        out.push_str("|---|---|---|---|---|---|---|---|---|\n");
    }
    for row in measured {
        let first = row.sides.first().map_or(f64::NAN, |(_, of, _)| of.ops_per_s);
        for (number, (side, of, waits)) in row.sides.iter().enumerate() {
            let name = if number == 0 { row.row.name.trim_start_matches("cephfs ") } else { "" };
            let known = |us: Option<f64>| us.map_or_else(String::new, figure);
            let waits =
                waits.map_or_else(String::new, |us| format!(" (waits for locks: {us:.0} µs a second)"));
            let _ = writeln!(
                out,
                "| {name} | {}{waits} | {} | × {:.2} | {} | {} | {} | {} | {} |",
                side.name(),
                figure(of.ops_per_s),
                of.ops_per_s / first,
                figure(of.latency_mean_us),
                known(of.latency_p50_us),
                known(of.latency_p99_us),
                figure(of.client_cpu_us_per_op),
                figure(of.server_cpu_us_per_op),
            );
        }
    }
    if measured.iter().any(|row| row.row.what == What::Taken) {
        out.push_str(
            "\nIn the rows \"opened while another writes\" an operation is one opening of the file and the first byte, \
             by libcephfs, while the client of the row writes it.\n",
        );
    }
    if let Some(idle) = idle {
        out.push_str("\n| a mount that nobody uses | MiB resident | threads |\n|---|---|---|\n");
        for (side, mib, threads) in &idle.sides {
            let _ = writeln!(out, "| {} | {mib:.1} | {threads:.0} |", side.name());
        }
    }
    out
}

/// Formats a figure with three digits at least.
fn figure(value: f64) -> String {
    match value {
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

fn machine() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or("processor of an unknown model", |(_, name)| name.trim());
    format!("{} cores of {model}", std::thread::available_parallelism().map_or(1, usize::from))
}

#[cfg(test)]
mod tests {
    use super::super::super::figures::Figures;
    use super::super::{Row, Side};
    use super::*;

    #[test]
    fn a_row_names_each_client_and_its_ratio_to_the_first() {
        let of = |ops_per_s| Figures {
            ops_per_s,
            latency_mean_us: 1234.5,
            latency_p50_us: Some(12.34),
            latency_p99_us: None,
            client_cpu_us_per_op: 1.0,
            server_cpu_us_per_op: 0.5,
        };
        let sides = vec![(Side::CephFuse, of(200.0), None), (Side::Native, of(500.0), Some(7.0))];
        let page = page("Medians", &[Measured { row: Row::ALL[0], sides }], None);
        assert!(page.contains(
            "| direct write, 1 MiB calls | ceph-fuse | 200 | × 1.00 | 1234 | 12.3 |  | 1.00 | 0.50 |\n"
        ));
        assert!(page.contains("|  | loligo fs (waits for locks: 7 µs a second) | 500 | × 2.50 |"), "{page}");
        assert!(page.contains("\n\nMedians.\n\n") && !page.contains("nobody uses"));
    }
}
