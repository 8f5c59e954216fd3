//! The picture: rows of bars of operations that do not overlap, and below them the number in flight.

use std::fmt::Write as _;

use loligo_contend::chart::{STYLE, escaped, number, time};

use super::headline;
use super::overlap::{Overlap, rows};
use super::read::{LockWait, Phase, Timelines, TracedOp};

/// Maximum number of operations drawn, the first ones: a viewer can still scroll through these.
const DRAWN_MAX: usize = 20_000;
/// Maximum number of rows drawn; operations in further rows are left out.
const ROWS_MAX: usize = 1024;
/// Maximum number of points of the line; of more points, neighbours are merged to their maximum.
const POINTS_MAX: usize = 4000;

const WIDTH: f64 = 1000.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 980.0;
const TOP: f64 = 84.0;
/// Height of the strip of lock waits between the rows and the line, if there are any.
const LOCKS: f64 = 30.0;
/// Height of the line chart.
const LINE: f64 = 110.0;
/// Gap between the rows and the line.
const GAP: f64 = 56.0;

/// Each phase's class in the style sheet, and the meaning of its colour.
const KEYS: [(Phase, &str, &str); 6] = [
    (Phase::Throttle, "fill-before", "waits for a place"),
    (Phase::Submit, "fill-worse", "is submitted"),
    (Phase::Lane, "fill-lane", "in the connection's lane"),
    (Phase::Write, "fill-write", "is written"),
    (Phase::Flight, "fill-after", "sent, until acked"),
    (Phase::Wake, "fill-quiet", "acked, its caller not yet on"),
];

/// Colours of the phases that the charts' style sheet lacks: between those of waiting and of being sent.
const MORE_STYLE: &str = "svg .fill-lane { fill: #a06be0; } svg .fill-write { fill: #46b3a5; }";

/// Draws a self-contained picture, which follows the viewer's light or dark theme. The captions stand above
/// the bars, each at its time.
pub(super) fn draw(timelines: &Timelines, overlap: &Overlap, captions: &[(f64, String)]) -> String {
    let drawn = &timelines.ops[..timelines.ops.len().min(DRAWN_MAX)];
    let (places, count) = rows(drawn);
    let count = count.min(ROWS_MAX);
    let axis = Axis::of(&timelines.ops);
    let row = (420.0 / count.max(1) as f64).clamp(2.0, 18.0);
    let rows_end = TOP + row * count as f64;
    let bottom = rows_end + if timelines.lock_waits.is_empty() { 0.0 } else { LOCKS };
    let height = bottom + GAP + LINE + 44.0;
    let mut out = format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0}" role="img" aria-label="Operations over time">"#
    );
    let _ = write!(
        out,
        "<style>{STYLE} {MORE_STYLE} svg {{ background: var(--ground); font-family: sans-serif; }}</style>"
    );
    let _ =
        write!(out, r#"<rect x="0" y="0" width="{WIDTH}" height="{height:.0}" style="fill:var(--ground)"/>"#);
    head(&mut out, timelines, overlap, drawn, &places);
    axis.draw(&mut out, TOP - 4.0, bottom + GAP + LINE);
    for (at, caption) in captions {
        write_caption(&mut out, axis.x(*at), caption);
    }
    for (op, place) in drawn.iter().zip(&places).filter(|(_, place)| **place < ROWS_MAX) {
        bars(&mut out, &axis, op, TOP + row * *place as f64, (row - 1.0).max(1.5));
    }
    locks(&mut out, &axis, &timelines.lock_waits, rows_end);
    line(&mut out, &axis, overlap, bottom + GAP);
    out + "</svg>\n"
}

fn head(out: &mut String, timelines: &Timelines, overlap: &Overlap, drawn: &[TracedOp], places: &[usize]) {
    let _ = write!(out, r#"<text class="ratio" x="20" y="28">{}</text>"#, headline(timelines, overlap));
    let shown = places.iter().filter(|place| **place < ROWS_MAX).count();
    if shown < timelines.ops.len() {
        let total = timelines.ops.len();
        let _ = write!(out, r#"<text class="small end" x="{RIGHT}" y="28">{shown} of {total} drawn</text>"#);
    }
    let mut x = 20.0;
    for (phase, class, meaning) in KEYS {
        if !drawn.iter().flat_map(|op| &op.spans).any(|span| span.phase == phase) {
            continue;
        }
        let _ = write!(out, r#"<rect class="{class}" x="{x}" y="42" width="12" height="12" rx="2"/>"#);
        let _ = write!(out, r#"<text class="small" x="{}" y="52">{meaning}</text>"#, x + 18.0);
        x += 42.0 + 6.2 * meaning.len() as f64;
    }
}

/// Writes a caption that begins at `x`, or ends there if it would leave the picture.
fn write_caption(out: &mut String, x: f64, caption: &str) {
    let class = if x > f64::midpoint(LEFT, RIGHT) { "small end" } else { "small" };
    let x = if class == "small" { x } else { RIGHT };
    let _ =
        write!(out, r#"<text class="{class}" x="{x:.1}" y="{:.1}">{}</text>"#, TOP - 10.0, escaped(caption));
}

/// The time axis, from left to right.
struct Axis {
    from: f64,
    /// In microseconds; greater than 0.
    length: f64,
}

impl Axis {
    fn of(ops: &[TracedOp]) -> Self {
        let from = ops.iter().map(|op| op.from).fold(f64::INFINITY, f64::min);
        let until = ops.iter().map(|op| op.until).fold(0.0, f64::max);
        let from = if from.is_finite() { from } else { 0.0 };
        Self { from, length: (until - from).max(1.0) }
    }

    fn x(&self, at: f64) -> f64 {
        LEFT + (at - self.from) / self.length * (RIGHT - LEFT)
    }

    fn draw(&self, out: &mut String, top: f64, bottom: f64) {
        let step = round_step(self.length / 8.0);
        let mut offset = 0.0;
        while offset <= self.length {
            let at = self.x(self.from + offset);
            let _ = write!(
                out,
                r#"<line class="grid" x1="{at:.1}" y1="{top:.1}" x2="{at:.1}" y2="{bottom:.1}"/>"#
            );
            let label = time(offset * 1e3);
            let _ =
                write!(out, r#"<text class="small mid" x="{at:.1}" y="{:.1}">{label}</text>"#, bottom + 18.0);
            offset += step;
        }
        let middle = f64::midpoint(LEFT, RIGHT);
        let _ = write!(
            out,
            r#"<text class="small mid" x="{middle:.1}" y="{:.1}">time since the first operation was new</text>"#,
            bottom + 36.0
        );
    }
}

/// Returns 1, 2 or 5 times a power of ten, not below `least`.
fn round_step(least: f64) -> f64 {
    let power = 10f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|n| n * power).find(|step| *step >= least * 0.999).unwrap_or(least)
}

fn bars(out: &mut String, axis: &Axis, op: &TracedOp, y: f64, height: f64) {
    let took = time((op.until - op.from) * 1e3);
    let _ = write!(out, "<g><title>{}: {took}", escaped(&op.name));
    for span in &op.spans {
        let _ = write!(out, ", {} {}", span.phase.name(), time((span.until - span.from) * 1e3));
    }
    out.push_str("</title>");
    for span in &op.spans {
        let Some((_, class, _)) = KEYS.iter().find(|(phase, ..)| *phase == span.phase) else { continue };
        let (from, until) = (axis.x(span.from), axis.x(span.until));
        let width = until - from;
        // A phase of no duration is not drawn, except the flight.
        if width < 0.2 && span.phase != Phase::Flight {
            continue;
        }
        let _ = write!(
            out,
            r#"<rect class="{class}" x="{from:.2}" y="{y:.1}" width="{:.2}" height="{height:.1}"/>"#,
            width.max(0.5)
        );
    }
    out.push_str("</g>");
}

/// Draws one strip for all threads: the lock waits, their classes and times.
fn locks(out: &mut String, axis: &Axis, waits: &[LockWait], top: f64) {
    let Some(drawn) = waits.get(..waits.len().min(DRAWN_MAX)).filter(|drawn| !drawn.is_empty()) else {
        return;
    };
    let y = top + 12.0;
    let _ = write!(out, r#"<text class="small end" x="{:.1}" y="{:.1}">locks</text>"#, LEFT - 6.0, y + 9.0);
    for wait in drawn {
        let (from, width) = (axis.x(wait.from), axis.x(wait.until) - axis.x(wait.from));
        let (class, took) = (escaped(&wait.class), time((wait.until - wait.from) * 1e3));
        let _ = write!(
            out,
            r#"<rect class="fill-worse lock" x="{from:.2}" y="{y:.1}" width="{:.2}" height="10"><title>waited {took} for {class}</title></rect>"#,
            width.max(0.5)
        );
    }
}

fn line(out: &mut String, axis: &Axis, overlap: &Overlap, top: f64) {
    let scale = overlap.most.max(1) as f64;
    let y = |count: f64| top + LINE - count / scale * LINE;
    let _ =
        write!(out, r#"<text class="small" x="{LEFT}" y="{:.1}">operations in flight</text>"#, top - 12.0);
    for (count, name) in [(overlap.most as f64, "max"), (overlap.mean, "mean")] {
        let at = y(count);
        let _ = write!(
            out,
            r#"<line class="axis" stroke-dasharray="4 3" x1="{LEFT}" y1="{at:.1}" x2="{RIGHT}" y2="{at:.1}"/>"#
        );
        // The mean is labelled at the right end of its line, the maximum at the left: their values may
        // be equal.
        let (class, x, at) =
            if name == "max" { ("small end", LEFT - 6.0, at + 4.0) } else { ("small end", RIGHT, at - 5.0) };
        let _ = write!(out, r#"<text class="{class}" x="{x}" y="{at:.1}">{name} {}</text>"#, number(count));
    }
    let mut points = String::new();
    let mut before = 0;
    for steps in overlap.steps.chunks(overlap.steps.len().div_ceil(POINTS_MAX).max(1)) {
        let x = axis.x(steps[0].0);
        let highest = steps.iter().map(|(_, count)| *count).max().unwrap_or_default();
        let _ = write!(points, "{x:.2},{:.1} {x:.2},{:.1} ", y(before as f64), y(highest as f64));
        before = highest;
    }
    let _ = write!(out, r#"<polyline class="line stroke-after" points="{points}"/>"#);
}

#[cfg(test)]
mod tests {
    use super::super::read::Span;
    use super::*;

    fn timelines(count: usize) -> Timelines {
        let op = |index: usize| {
            let from = index as f64 * 10.0;
            let span = |phase, a, b| Span { phase, from: from + a, until: from + b };
            let spans = vec![span(Phase::Throttle, 0.0, 5.0), span(Phase::Flight, 5.0, 30.0)];
            TracedOp { name: "write <&\">".to_owned(), from, until: from + 30.0, spans }
        };
        Timelines { ops: (0..count).map(op).collect(), ..Timelines::default() }
    }

    fn picture(timelines: &Timelines) -> String {
        draw(timelines, &Overlap::of(&timelines.ops), &[])
    }

    #[test]
    fn captions_stand_at_their_times() {
        let timelines = timelines(50);
        let captions = [(0.0, "before <1>".to_owned()), (500.0, "after".to_owned())];
        let picture = draw(&timelines, &Overlap::of(&timelines.ops), &captions);
        assert!(
            picture.contains(r#"<text class="small" x="60.0" y="74.0">before &lt;1&gt;</text>"#),
            "{picture}"
        );
        assert!(picture.contains(r#"<text class="small end" x="980.0" y="74.0">after</text>"#), "{picture}");
    }

    #[test]
    fn each_operation_has_its_bars() {
        let picture = picture(&timelines(50));
        assert_eq!(picture.matches("<g>").count(), 50);
        assert!(picture.contains("50 operations, at most 3 in flight at once"));
        assert!(picture.contains("write &lt;&amp;&quot;&gt;: 30.0 µs, throttle 5.00 µs, flight 25.0 µs"));
        assert!(!picture.contains("NaN") && !picture.contains("inf\""), "every coordinate is a number");
    }

    #[test]
    fn waits_for_locks_have_a_strip() {
        let mut timelines = timelines(3);
        assert!(!picture(&timelines).contains(">locks<"));
        timelines.lock_waits.push(LockWait { class: "a.<lock>".to_owned(), from: 3.0, until: 5.0 });
        let picture = picture(&timelines);
        assert!(
            picture.contains(">locks<") && picture.contains("waited 2.00 µs for a.&lt;lock&gt;"),
            "{picture}"
        );
        assert_eq!(picture.matches("<g>").count(), 3);
    }

    #[test]
    fn nothing_is_a_picture_too() {
        let picture = picture(&timelines(0));
        assert!(picture.contains("0 operations") && !picture.contains("NaN"));
    }

    #[test]
    fn what_is_not_drawn_is_told() {
        assert!(picture(&timelines(DRAWN_MAX + 1)).contains("20000 of 20001 drawn"));
    }

    #[test]
    fn steps_are_round() {
        for (least, step) in [(0.9, 1.0), (1.2, 2.0), (30.0, 50.0), (600.0, 1000.0)] {
            assert_eq!(round_step(least), step);
        }
    }
}
