//! `loligo trace FILE`: shows the timelines in a file as text, as JSON, or as a picture of the overlap
//! of operations.

mod overlap;
mod read;
mod svg;

use std::fs::{self, File};
use std::io::{BufReader, Write};
use std::path::{Path, PathBuf};

use crate::failure::{Context, Failure};
use crate::format::FormatName;

use overlap::Overlap;
use read::{Phase, Timelines, TracedOp};

/// The trace to show, and the form.
#[derive(clap::Args)]
pub(crate) struct TraceOptions {
    /// The file that `--trace` wrote; it may be incomplete.
    file: PathBuf,
    /// Draw how the operations overlap, into this file; - or none is standard output.
    #[arg(long, value_name = "OUT", num_args = 0..=1, default_missing_value = "-")]
    svg: Option<PathBuf>,
}

pub(crate) fn run(options: &TraceOptions, format: FormatName) -> Result<(), Failure> {
    let TraceOptions { file, svg } = options;
    let names = || format!("trace {}", file.display());
    let opened = File::open(file).context(names)?;
    let timelines = read::read(BufReader::new(opened)).context(names)?;
    let overlap = Overlap::of(&timelines.ops);
    match (svg, format) {
        (Some(out), FormatName::Plain) => put(out, &svg::draw(&timelines, &overlap, &[])),
        (None, FormatName::Plain) => put(Path::new("-"), &words(&timelines, &overlap)),
        (None, FormatName::Json) => put(Path::new("-"), &json(&timelines, &overlap)),
        _ => Err(Failure::new("--format", "plain or JSON, without --svg")),
    }
}

/// Draws the trace of a file's write in two forms: as many operations before as after.
pub(crate) fn draw_writes(file: &Path) -> Result<String, Failure> {
    let names = || format!("trace {}", file.display());
    let mut timelines = read::read(BufReader::new(File::open(file).context(names)?)).context(names)?;
    timelines.ops.retain(|op| op.name.starts_with("write "));
    let (before, after) = timelines.ops.split_at(timelines.ops.len() / 2);
    let caption = |name: &str, ops: &[TracedOp]| {
        let from = ops.iter().map(|op| op.from).fold(f64::INFINITY, f64::min);
        let until = ops.iter().map(|op| op.until).fold(0.0, f64::max);
        let took = loligo_contend::chart::time((until - from).max(0.0) * 1e3);
        (from, format!("{name}: {took}"))
    };
    let captions = [caption("one object after the other", before), caption("all at once", after)];
    Ok(svg::draw(&timelines, &Overlap::of(&timelines.ops), &captions))
}

fn put(out: &Path, text: &str) -> Result<(), Failure> {
    let names = || format!("write {}", out.display());
    if out == Path::new("-") {
        return crate::say::Stdout.write_all(text.as_bytes()).context(names);
    }
    fs::write(out, text).context(names)
}

/// Returns the first line of a trace's summary.
fn headline(timelines: &Timelines, overlap: &Overlap) -> String {
    let count = timelines.ops.len();
    let mut out = format!(
        "{count} {}, at most {} in flight at once, {:.1} on average",
        if count == 1 { "operation" } else { "operations" },
        overlap.most,
        overlap.mean
    );
    if timelines.dropped > 0 {
        out += &format!("; {} dropped when it was written", timelines.dropped);
    }
    if timelines.unread > 0 {
        out += &format!("; {} more not read", timelines.unread);
    }
    if timelines.is_cut {
        out += "; the file is cut short";
    }
    out
}

fn words(timelines: &Timelines, overlap: &Overlap) -> String {
    let mut out = headline(timelines, overlap) + "\n";
    out += &format!("{:<10}{:>12}{:>12}{:>12}{:>12}\n", "phase", "total", "p50", "p99", "longest");
    for phase in Phase::ALL {
        out += &format!("{:<10}{}\n", phase.name(), cells(&timelines.times_us(phase)));
    }
    let locks = timelines.lock_times_us();
    let width = locks.keys().map(|class| class.len()).max().unwrap_or_default().max(28);
    if !locks.is_empty() {
        out += &format!(
            "\n{:<width$}{:>8}{:>12}{:>12}{:>12}{:>12}\n",
            "lock waited for", "times", "total", "p50", "p99", "longest"
        );
    }
    for (class, times) in locks {
        out += &format!("{class:<width$}{:>8}{}\n", times.len(), cells(&times));
    }
    out
}

/// Formats the sum, the median, the 99th percentile and the maximum of sorted times.
fn cells(times_us: &[f64]) -> String {
    summary(times_us).map(|us| format!("{:>12}", loligo_contend::chart::time(us * 1e3))).concat()
}

fn summary(times_us: &[f64]) -> [f64; 4] {
    [times_us.iter().sum(), quantile(times_us, 0.5), quantile(times_us, 0.99), quantile(times_us, 1.0)]
}

fn json(timelines: &Timelines, overlap: &Overlap) -> String {
    let told_of = |times: &[f64]| {
        let [total, p50, p99, max] = summary(times);
        serde_json::json!({
            "count": times.len(), "total_us": total, "p50_us": p50, "p99_us": p99, "max_us": max
        })
    };
    let phases =
        Phase::ALL.into_iter().map(|phase| (phase.name().to_owned(), told_of(&timelines.times_us(phase))));
    let phases: serde_json::Map<_, _> = phases.collect();
    let locks = timelines.lock_times_us();
    let locks: serde_json::Map<_, _> =
        locks.into_iter().map(|(class, times)| (class.to_owned(), told_of(&times))).collect();
    let told = serde_json::json!({
        "ops": timelines.ops.len(),
        "dropped": timelines.dropped,
        "unread": timelines.unread,
        "cut_short": timelines.is_cut,
        "overlap_max": overlap.most,
        "overlap_mean": overlap.mean,
        "phases": phases,
        "lock_waits": locks,
    });
    format!("{told}\n")
}

/// Returns a quantile of sorted times; 0 if there are none.
fn quantile(times: &[f64], part: f64) -> f64 {
    let at = (part * times.len() as f64).ceil() as usize;
    times.get(at.saturating_sub(1)).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_one_of_the_times() {
        let times = [1.0, 2.0, 3.0, 4.0];
        assert_eq!([0.5, 0.99, 1.0].map(|part| quantile(&times, part)), [2.0, 4.0, 4.0]);
        assert_eq!(quantile(&[], 0.5), 0.0);
    }
}
