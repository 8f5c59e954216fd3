//! The text exposition format of Prometheus, version 0.0.4
//! (<https://prometheus.io/docs/instrumenting/exposition_formats/>).

use std::fmt::Write;

use super::{ClassReport, Report, Times};

type Figure = fn(&ClassReport) -> u64;

const COUNTERS: [(&str, &str, Figure); 4] = [
    ("contentions", "Acquisitions that had to wait.", |class| class.contentions),
    ("contention_bounces", "Waits for a lock last taken on another processor.", |class| class.con_bounces),
    ("acquisitions", "Acquisitions, counted in the modes full and exact.", |class| class.acquisitions),
    ("acquisition_bounces", "Acquisitions of a lock last taken on another processor.", |class| {
        class.acq_bounces
    }),
];

type Summary = fn(&ClassReport) -> &Times;

const SUMMARIES: [(&str, &str, Summary); 2] = [
    ("wait", "Times waited for a lock.", |class| &class.wait),
    ("hold", "Times a lock was held, measured in the modes full and exact.", |class| &class.hold),
];

pub(super) fn render(report: &Report) -> String {
    let mut out = String::new();
    for (name, help, figure) in COUNTERS {
        let name = format!("loligo_lock_{name}_total");
        head(&mut out, &name, help, "counter");
        for class in &report.classes {
            let _ = writeln!(out, "{name}{{{}}} {}", labels(class), figure(class));
        }
    }
    for (name, help, times) in SUMMARIES {
        let name = format!("loligo_lock_{name}_seconds");
        head(&mut out, &name, help, "summary");
        for class in &report.classes {
            summary(&mut out, &name, &labels(class), times(class));
        }
        for (extreme, what) in [("min", "shortest"), ("max", "longest")] {
            let name = format!("{name}_{extreme}");
            head(&mut out, &name, &format!("The {what} of these times."), "gauge");
            for class in &report.classes {
                let ns = if extreme == "min" { times(class).min_ns } else { times(class).max_ns };
                let _ = writeln!(out, "{name}{{{}}} {}", labels(class), seconds(ns));
            }
        }
    }
    out
}

fn head(out: &mut String, name: &str, help: &str, kind: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn summary(out: &mut String, name: &str, labels: &str, times: &Times) {
    for (quantile, ns) in [("0.5", times.p50_ns), ("0.99", times.p99_ns)] {
        let _ = writeln!(out, "{name}{{{labels},quantile=\"{quantile}\"}} {}", seconds(ns));
    }
    let _ = writeln!(out, "{name}_sum{{{labels}}} {}", seconds(times.total_ns));
    let _ = writeln!(out, "{name}_count{{{labels}}} {}", times.count);
}

fn labels(class: &ClassReport) -> String {
    let name = class.name.replace('\\', r"\\").replace('"', r#"\""#).replace('\n', r"\n");
    format!("class=\"{name}\",kind=\"{}\"", class.kind.name())
}

/// Formats exactly, with nine decimals.
fn seconds(ns: u64) -> String {
    format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000)
}
