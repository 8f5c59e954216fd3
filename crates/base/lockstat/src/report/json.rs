//! JSON without a library: the values are numbers, names and file paths, not worth a dependency for this
//! crate.

use std::fmt::Write;

use super::{ClassReport, Report, Site, Times};

pub(super) fn render(report: &Report) -> String {
    let mut out = String::from("{\"mode\":");
    string(&mut out, report.mode.name());
    out.push_str(",\"classes\":");
    list(&mut out, &report.classes, class);
    out.push_str(",\"quiet\":");
    list(&mut out, &report.quiet, |out, name| string(out, name));
    out.push('}');
    out
}

fn class(out: &mut String, class: &ClassReport) {
    out.push_str("{\"name\":");
    string(out, class.name);
    out.push_str(",\"kind\":");
    string(out, class.kind.name());
    number(out, "contentions", class.contentions);
    number(out, "con_bounces", class.con_bounces);
    number(out, "acquisitions", class.acquisitions);
    number(out, "acq_bounces", class.acq_bounces);
    times(out, "wait", &class.wait);
    times(out, "hold", &class.hold);
    out.push_str(",\"waiters\":");
    list(out, &class.waiters, site);
    out.push_str(",\"holders\":");
    list(out, &class.holders, site);
    out.push('}');
}

fn times(out: &mut String, key: &str, times: &Times) {
    let _ = write!(out, ",\"{key}\":{{\"count\":{}", times.count);
    number(out, "min_ns", times.min_ns);
    number(out, "max_ns", times.max_ns);
    number(out, "total_ns", times.total_ns);
    number(out, "avg_ns", times.avg_ns());
    number(out, "p50_ns", times.p50_ns);
    number(out, "p99_ns", times.p99_ns);
    out.push('}');
}

fn site(out: &mut String, site: &Site) {
    out.push_str("{\"file\":");
    string(out, site.file);
    number(out, "line", site.line.into());
    number(out, "count", site.count);
    number(out, "total_ns", site.total_ns);
    times(out, "times", &site.times);
    out.push('}');
}

fn number(out: &mut String, key: &str, value: u64) {
    let _ = write!(out, ",\"{key}\":{value}");
}

fn list<T>(out: &mut String, items: &[T], mut item: impl FnMut(&mut String, &T)) {
    out.push('[');
    for (index, value) in items.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        item(out, value);
    }
    out.push(']');
}

fn string(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if (c as u32) < 0x20 => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
}
