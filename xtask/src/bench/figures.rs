//! What a run of a load measured, as rows and as JSON.

use std::fmt::Write;

use serde_json::{Value, json};

use super::measure::{median, median_known};

/// What one run of one workload measured.
#[derive(Clone, Copy)]
pub(super) struct Figures {
    pub(super) ops_per_s: f64,
    pub(super) latency_mean_us: f64,
    pub(super) latency_p50_us: Option<f64>,
    pub(super) latency_p99_us: Option<f64>,
    pub(super) client_cpu_us_per_op: f64,
    pub(super) server_cpu_us_per_op: f64,
}

/// The median of whole figures, field by field.
impl Figures {
    pub(super) fn median(rounds: &[Figures]) -> Self {
        let of = |field: fn(&Figures) -> f64| median(rounds.iter().map(field));
        let of_some = |field: fn(&Figures) -> Option<f64>| median_known(rounds.iter().map(field));
        Self {
            ops_per_s: of(|f| f.ops_per_s),
            latency_mean_us: of(|f| f.latency_mean_us),
            latency_p50_us: of_some(|f| f.latency_p50_us),
            latency_p99_us: of_some(|f| f.latency_p99_us),
            client_cpu_us_per_op: of(|f| f.client_cpu_us_per_op),
            server_cpu_us_per_op: of(|f| f.server_cpu_us_per_op),
        }
    }
}

/// A heading and a row for each; ratios are to the first.
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
        let ops =
            if f.ops_per_s < 100.0 { format!("{:.1}", f.ops_per_s) } else { format!("{:.0}", f.ops_per_s) };
        let _ = writeln!(
            t,
            "  {name:<24} {ops:>10} {:>6.2}x {:>9.0} {p50:>9} {p99:>9} {:>11.2} {:>11.2}",
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
