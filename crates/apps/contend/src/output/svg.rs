//! The charts: SVG in the page, coloured by the page's style sheet.

use std::fmt::Write;

use super::chart::escaped;
use super::format::{Verdict, figure, number, ratio, reference, row_ratio, time, verdict};
use crate::{Form, Outcome, Row, SettingOutcome, Spread};

/// Width of all charts in SVG units; the page scales them.
const WIDTH: f64 = 900.0;
const FORMS: [&str; 2] = ["before", "after"];

/// The ratio of the first metric of each setting on a logarithmic axis, with the published ratio as a
/// mark.
pub(super) fn overview(outcomes: &[Outcome]) -> String {
    const ROW: f64 = 46.0;
    const LEFT: f64 = 390.0;
    const RIGHT: f64 = 790.0;
    let rows: Vec<(&str, &SettingOutcome, &Row)> = outcomes
        .iter()
        .flat_map(|o| o.settings.iter().filter_map(move |s| Some((o.case, s, s.rows.first()?))))
        .collect();
    let most = |row: &Row| row.ratio.unwrap_or(1.0).max(row.metric.reference_ratio.unwrap_or(1.0));
    let decades = rows.iter().map(|(_, _, row)| most(row)).fold(10.0, f64::max).log10().ceil();
    let x = |ratio: f64| LEFT + (ratio.log10() / decades).clamp(-0.03, 1.0) * (RIGHT - LEFT);
    let height = ROW * rows.len() as f64 + 34.0;
    let mut out = open(height, "How many times better the after is in each setting");
    for decade in 0..=decades as i32 {
        let at = x(10f64.powi(decade));
        let label =
            if decade == 0 { "the same".to_owned() } else { format!("{} ×", number(10f64.powi(decade))) };
        let _ = write!(out, r#"<line class="grid" x1="{at:.1}" y1="20" x2="{at:.1}" y2="{height:.0}"/>"#);
        let _ = write!(out, r#"<text class="small mid" x="{at:.1}" y="12">{label}</text>"#);
    }
    for (index, (case, setting, row)) in rows.iter().enumerate() {
        let y = 26.0 + ROW * index as f64;
        let (name, what) = (escaped(&setting.name), escaped(row.metric.name));
        let _ = write!(out, r#"<text x="0" y="{:.1}">{} · {name}</text>"#, y + 16.0, escaped(case));
        let _ = write!(out, r#"<text class="small" x="0" y="{:.1}">{what}</text>"#, y + 32.0);
        // Without a ratio because the "after" is zero: a bar as long as the chart.
        let value = row.ratio.unwrap_or(if row.before > row.after { 10f64.powf(decades) } else { 1.0 });
        let (from, to) = (x(1.0).min(x(value)), x(1.0).max(x(value)));
        let fill = if verdict(row) == Verdict::Worse { "worse" } else { "after" };
        let _ = write!(
            out,
            r#"<rect class="fill-{fill}" x="{from:.1}" y="{:.1}" width="{:.1}" height="18" rx="3"/>"#,
            y + 9.0,
            (to - from).max(2.0)
        );
        if let Some(published) = row.metric.reference_ratio {
            let at = x(published);
            let (top, bottom) = (y + 3.0, y + 33.0);
            let _ = write!(
                out,
                r#"<line class="mark" x1="{at:.1}" y1="{top:.1}" x2="{at:.1}" y2="{bottom:.1}"><title>published: {}</title></line>"#,
                ratio(&row.metric, published)
            );
        }
        let _ = write!(
            out,
            r#"<text class="ratio end" x="{WIDTH}" y="{:.1}">{}</text>"#,
            y + 24.0,
            row_ratio(row)
        );
    }
    out + "</svg>"
}

/// Two bars for each metric; a thin line shows the range of the rounds.
pub(super) fn bars(setting: &SettingOutcome) -> String {
    const ROW: f64 = 50.0;
    const LEFT: f64 = 320.0;
    const LENGTH_MAX: f64 = 260.0;
    let height = 24.0 + ROW * setting.rows.len() as f64;
    let mut out = open(height, &format!("Before and after, {}", setting.name));
    for (at, text) in [(775.0, "ratio"), (WIDTH, "published")] {
        let _ = write!(out, r#"<text class="small end" x="{at}" y="12">{text}</text>"#);
    }
    for (index, row) in setting.rows.iter().enumerate() {
        let y = 24.0 + ROW * index as f64;
        let longest = row.rounds.iter().flatten().copied().fold(row.before.max(row.after), f64::max);
        let length = |value: f64| if longest > 0.0 { value / longest * LENGTH_MAX } else { 0.0 };
        let _ = write!(out, r#"<text x="0" y="{:.1}">{}</text>"#, y + 23.0, escaped(row.metric.name));
        for form in Form::BOTH {
            let (value, name) = ([row.before, row.after][form as usize], FORMS[form as usize]);
            let top = y + 3.0 + 17.0 * f64::from(form as u8);
            let of_rounds = row.rounds.iter().map(|round| round[form as usize]);
            let (least, most) = of_rounds.fold((value, value), |(l, m), v| (l.min(v), m.max(v)));
            let width = if value > 0.0 { length(value).max(1.5) } else { 0.0 };
            let _ = write!(
                out,
                r#"<rect class="fill-{name}" x="{LEFT}" y="{top:.1}" width="{width:.1}" height="14" rx="2"/>"#
            );
            let (from, to, middle) = (LEFT + length(least), LEFT + length(most), top + 7.0);
            if to - from > 1.0 {
                let _ = write!(
                    out,
                    r#"<line class="whisker" x1="{from:.1}" y1="{middle:.1}" x2="{to:.1}" y2="{middle:.1}"/>"#
                );
            }
            let _ = write!(
                out,
                r#"<text class="value" x="{:.1}" y="{:.1}">{}</text>"#,
                (LEFT + width).max(to) + 7.0,
                top + 11.5,
                figure(value, row.metric.unit)
            );
        }
        let fill = match verdict(row) {
            Verdict::Better => " fill-after",
            Verdict::Same => "",
            Verdict::Worse => " fill-worse",
        };
        let baseline = y + 24.0;
        let _ = write!(
            out,
            r#"<text class="ratio end{fill}" x="775" y="{baseline:.1}">{}</text>"#,
            row_ratio(row)
        );
        let published = reference(&row.metric);
        let _ = write!(out, r#"<text class="small end" x="{WIDTH}" y="{baseline:.1}">{published}</text>"#);
    }
    out + "</svg>"
}

/// The ticks of the axis of quantiles: −log10 of the part above the quantile, so that 1 is the 90 %
/// quantile.
const NINES_SHOWN: [(f64, &str); 7] = [
    (0.0, "fastest"),
    (std::f64::consts::LOG10_2, "50 %"),
    (1.0, "90 %"),
    (2.0, "99 %"),
    (3.0, "99.9 %"),
    (4.0, "99.99 %"),
    (5.0, "99.999 %"),
];

/// The quantiles against time, both axes logarithmic: how long the slowest tenth, hundredth, thousandth
/// took.
pub(super) fn distribution(setting: &SettingOutcome) -> String {
    const HEIGHT: f64 = 330.0;
    const LEFT: f64 = 64.0;
    const RIGHT: f64 = 730.0;
    const TOP: f64 = 10.0;
    const BOTTOM: f64 = 290.0;
    let most = setting.spreads.iter().map(Spread::count).max().unwrap_or(0).max(10);
    let nines = (most as f64).log10().min(5.0);
    let curves = setting.spreads.each_ref().map(|spread| curve(spread, nines));
    let points = || curves.iter().flatten().map(|&(_, ns)| ns);
    let low = points().fold(f64::MAX, f64::min).log10().floor();
    let high = points().fold(0.0, f64::max).log10().ceil().max(low + 1.0);
    let x = |nine: f64| LEFT + nine / nines * (RIGHT - LEFT);
    let y = |ns: f64| BOTTOM - (ns.log10() - low) / (high - low) * (BOTTOM - TOP);

    let mut out = open(HEIGHT, &format!("Percentiles of {}, {}", setting.spread_of, setting.name));
    for decade in low as i32..=high as i32 {
        let (at, label) = (y(10f64.powi(decade)), time(10f64.powi(decade)));
        let _ = write!(out, r#"<line class="grid" x1="{LEFT}" y1="{at:.1}" x2="{RIGHT}" y2="{at:.1}"/>"#);
        let label = label.replace(".00", "").replace(".0", "");
        let _ = write!(
            out,
            r#"<text class="small end" x="{:.1}" y="{:.1}">{label}</text>"#,
            LEFT - 8.0,
            at + 4.0
        );
    }
    for (nine, label) in NINES_SHOWN.into_iter().filter(|(nine, _)| *nine <= nines + 0.01) {
        let at = x(nine);
        let _ = write!(out, r#"<line class="grid" x1="{at:.1}" y1="{TOP}" x2="{at:.1}" y2="{BOTTOM}"/>"#);
        let _ = write!(out, r#"<text class="small mid" x="{at:.1}" y="{:.1}">{label}</text>"#, BOTTOM + 18.0);
    }
    let _ = write!(
        out,
        r#"<text class="small mid" x="{:.1}" y="{:.1}">that part of all took no longer than</text>"#,
        f64::midpoint(LEFT, RIGHT),
        BOTTOM + 38.0
    );
    let path = |curve: &[(f64, f64)]| {
        curve.iter().map(|&(nine, ns)| format!("{:.1},{:.1} ", x(nine), y(ns))).collect::<String>()
    };
    let [before, after] = &curves;
    let back: Vec<(f64, f64)> = after.iter().rev().copied().collect();
    let _ = write!(out, r#"<polygon class="fill-gain" points="{}{}"/>"#, path(before), path(&back));
    for (curve, name) in curves.iter().zip(FORMS) {
        let _ = write!(out, r#"<polyline class="line stroke-{name}" points="{}"/>"#, path(curve));
    }
    let ends =
        curves.each_ref().map(|curve| curve.last().map_or((RIGHT, BOTTOM), |&(nine, ns)| (x(nine), y(ns))));
    for (at, form) in label_heights(ends.map(|(_, y)| y)).into_iter().zip(Form::BOTH) {
        let (name, max) = (FORMS[form as usize], setting.spreads[form as usize].max_ns());
        let left = ends[form as usize].0 + 8.0;
        let _ = write!(
            out,
            r#"<text class="fill-{name}" x="{left:.1}" y="{:.1}">{name}, at most {}</text>"#,
            at + 4.0,
            time(max as f64)
        );
    }
    out + "</svg>"
}

/// Points of (−log10 of the part above the quantile, nanoseconds), as far as the number of times allows.
fn curve(spread: &Spread, nines: f64) -> Vec<(f64, f64)> {
    const STEPS: u32 = 160;
    let told = (spread.count().max(2) as f64).log10().min(nines);
    (0..=STEPS)
        .map(|step| {
            let nine = told * f64::from(step) / f64::from(STEPS);
            (nine, spread.quantile_ns(1.0 - 10f64.powf(-nine)).max(1) as f64)
        })
        .collect()
}

/// Shifts the labels at the ends of the curves so that they do not overlap.
fn label_heights([before, after]: [f64; 2]) -> [f64; 2] {
    const APART: f64 = 18.0;
    let gap = after - before;
    if gap.abs() >= APART {
        return [before, after];
    }
    let shift = (APART - gap.abs()) / 2.0;
    if gap >= 0.0 { [before - shift, after + shift] } else { [before + shift, after - shift] }
}

fn open(height: f64, label: &str) -> String {
    let label = escaped(label);
    format!(r#"<svg viewBox="0 0 {WIDTH} {height:.0}" role="img" aria-label="{label}">"#)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_do_not_cover_each_other() {
        for (ends, expected) in
            [([10.0, 90.0], [10.0, 90.0]), ([50.0, 50.0], [41.0, 59.0]), ([52.0, 50.0], [60.0, 42.0])]
        {
            assert_eq!(label_heights(ends), expected);
        }
    }

    #[test]
    fn a_curve_never_falls() {
        let mut spread = Spread::new();
        (1..=1000).for_each(|us| spread.add(std::time::Duration::from_micros(us)));
        let curve = curve(&spread, 5.0);
        assert!(curve.windows(2).all(|w| w[0].1 <= w[1].1 && w[0].0 < w[1].0));
        let (nines, ns) = curve[curve.len() - 1];
        assert_eq!(nines, 3.0, "a thousand times tell up to the slowest thousandth");
        assert!((980_000.0..1_020_000.0).contains(&ns), "{ns}");
    }
}
