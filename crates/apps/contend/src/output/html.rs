//! Results as an HTML page with charts.

use std::fmt::Write;

use loligo_lockstat::{ClassReport, Kind, Site, Times};

use super::chart::{STYLE, escaped};
use super::format::{figure, time};
use super::svg;
use crate::{Form, Locks, Machine, Outcome, Plan, SettingOutcome, Unit};

/// Maximum number of places shown per lock and list.
const SITES_SHOWN: usize = 3;

/// Returns a self-contained page with charts and the lock reports. It is light or dark as the reader's
/// system is set.
pub fn to_html(outcomes: &[Outcome], machine: &Machine, plan: &Plan) -> String {
    let mut out = String::from("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>");
    out += "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>";
    out += "<title>loligo contend</title><style>";
    out += STYLE;
    out += "</style></head><body><main><h1>Who waits for whose lock, before and after</h1>";
    let class = if machine.is_debug { "warn" } else { "quiet" };
    let _ = write!(out, "<p class=\"{class}\">{}</p>", escaped(&machine.to_string()));
    let rounds =
        if plan.rounds == 1 { "One round".to_owned() } else { format!("Medians of {} rounds", plan.rounds) };
    let _ = write!(
        out,
        "<p class=\"quiet\">{rounds} of {:?} for each form; <span class=\"key before\">before</span> and \
         <span class=\"key after\">after</span> alternate on this machine. Before is the form that the published text \
         describes; after is the product's own code.</p>",
        plan.time
    );
    out += "<section><h2>At a glance</h2><p class=\"quiet\">How many times better the after is, on a logarithmic axis. A \
            black or white stroke is the ratio that was published.</p>";
    out += &svg::overview(outcomes);
    out += "</section>";
    outcomes.iter().for_each(|outcome| case(&mut out, outcome));
    out += "</main></body></html>\n";
    out
}

fn case(out: &mut String, outcome: &Outcome) {
    let about = &outcome.about;
    let _ =
        write!(out, "<section><h2>{}<code>{}</code></h2><dl>", escaped(about.title), escaped(outcome.case));
    for (class, label, text) in
        [("before", "before", about.before), ("after", "after", about.after), ("note", "note", about.note)]
    {
        if !text.is_empty() {
            let _ = write!(out, "<dt class=\"{class}\">{label}</dt><dd>{}</dd>", escaped(text));
        }
    }
    let source = &about.source;
    let _ = write!(
        out,
        "<dt class=\"note\">source</dt><dd>{}, <a href=\"{}\">{}</a>, {}</dd></dl>",
        escaped(source.author),
        escaped(source.url),
        escaped(source.title),
        escaped(source.date)
    );
    outcome.settings.iter().for_each(|each| setting(out, each));
    out.push_str("</section>");
}

fn setting(out: &mut String, setting: &SettingOutcome) {
    let _ = write!(out, "<h3>{}</h3>{}", escaped(&setting.name), svg::bars(setting));
    if setting.spreads.iter().all(|spread| !spread.is_empty()) {
        let mut title = setting.spread_of.to_owned();
        if let Some(first) = title.get_mut(..1) {
            first.make_ascii_uppercase();
        }
        let _ = write!(out, "<h4>{}</h4>{}", escaped(&title), svg::distribution(setting));
    }
    out.push_str("<details><summary>Lock report: who waited for whom</summary>");
    for (locks, form) in setting.locks.iter().zip(Form::BOTH) {
        lock_report(out, locks, form);
    }
    out.push_str("</details>");
}

fn lock_report(out: &mut String, locks: &Locks, form: Form) {
    let name = form.name();
    let _ = write!(out, "<h4><span class=\"key {name}\">{name}</span>, last round</h4>");
    if locks.is_empty() {
        out.push_str("<p class=\"quiet\">Nobody waited for any lock that measures itself.</p>");
        return;
    }
    out.push_str("<div class=\"scroll\"><table><tr><th>lock</th>");
    for title in ["waits", "total", "average", "p50", "p99", "longest"] {
        let _ = write!(out, "<th>{title}</th>");
    }
    out.push_str("</tr>");
    locks.iter().for_each(|class| lock(out, class));
    out.push_str("</table></div>");
}

fn lock(out: &mut String, class: &ClassReport) {
    let kind = match class.kind {
        Kind::Exclusive => "",
        Kind::Write => ", to write",
        Kind::Read => ", to read",
    };
    let waits = figure(class.contentions as f64, Unit::Count);
    let _ = write!(out, "<tr><td><code>{}</code>{kind}</td><td>{waits}</td>", escaped(class.name));
    times(out, &class.wait);
    out.push_str("</tr>");
    for waiter in class.waiters.iter().take(SITES_SHOWN) {
        site(out, "waited", waiter);
        times(out, &waiter.times);
        out.push_str("</tr>");
    }
    for holder in class.holders.iter().take(SITES_SHOWN) {
        site(out, "was held", holder);
        out.push_str("<td></td><td></td><td></td><td></td><td></td></tr>");
    }
}

/// The first cells of a row about a place that waited for the lock, or held it while another thread
/// waited.
fn site(out: &mut String, did: &str, site: &Site) {
    let (file, count) = (escaped(site.file), figure(site.count as f64, Unit::Count));
    let _ = write!(out, "<tr class=\"site\"><td>{did} at {file}:{}</td><td>{count}</td>", site.line);
}

fn times(out: &mut String, times: &Times) {
    for ns in [times.total_ns, times.avg_ns(), times.p50_ns, times.p99_ns, times.max_ns] {
        let _ = write!(out, "<td>{}</td>", time(ns as f64));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::run;
    use crate::testing::Counting;

    fn page() -> String {
        let plan = Plan { rounds: 3, time: Duration::from_secs(1) };
        let mut outcome = run(&Counting::default(), &plan, &mut |_| ()).unwrap();
        let times =
            Times { count: 5, min_ns: 1, max_ns: 90_000, total_ns: 123_000, p50_ns: 2, p99_ns: 90_000 };
        let place = Site { file: "a<b>.rs", line: 7, count: 5, total_ns: 123_000, times };
        outcome.settings[0].locks[0].push(ClassReport {
            name: "some.lock",
            kind: Kind::Write,
            contentions: 5,
            con_bounces: 0,
            acquisitions: 0,
            acq_bounces: 0,
            wait: times,
            hold: Times::default(),
            waiters: vec![place],
            holders: vec![place],
        });
        to_html(&[outcome], &Machine::this(), &plan)
    }

    /// Every opened tag is closed, in order; attributes are quoted; no bare `&`.
    fn check_well_formed(page: &str) {
        let page = page.strip_prefix("<!doctype html>").expect("says what it is");
        let mut open = Vec::new();
        let mut rest = page;
        while let Some(at) = rest.find('<') {
            check_text(&rest[..at]);
            let end = rest[at..].find('>').expect("a tag ends") + at;
            let tag = &rest[at + 1..end];
            assert_eq!(tag.matches('"').count() % 2, 0, "quotes in <{tag}>");
            check_text(tag);
            let name = tag.trim_start_matches('/').split([' ', '/']).next().unwrap_or_default();
            match tag.strip_prefix('/') {
                Some(closed) => assert_eq!(open.pop(), Some(closed), "</{closed}>"),
                None if tag.ends_with('/') => {}
                None => open.push(name),
            }
            rest = &rest[end + 1..];
            if name == "style" && open.last() == Some(&"style") {
                rest = &rest[rest.find("</style>").expect("the style ends")..];
            }
        }
        assert!(open.is_empty(), "left open: {open:?}");
        assert_eq!(rest.trim(), "");
    }

    fn check_text(text: &str) {
        for (at, _) in text.match_indices('&') {
            let is_entity = ["&amp;", "&lt;", "&gt;", "&quot;"].iter().any(|e| text[at..].starts_with(e));
            assert!(is_entity, "a bare & in {text}");
        }
    }

    #[test]
    fn the_page_is_well_formed() {
        check_well_formed(&page());
    }

    #[test]
    fn the_page_needs_nothing_else() {
        let page = page();
        for loads in ["<script", "src=", "<link", "@import", "url(", "<iframe"] {
            assert!(!page.contains(loads), "{loads}");
        }
    }

    #[test]
    fn the_page_tells_what_was_measured() {
        let page = page();
        for text in [
            "A &lt;title&gt; &amp; more",
            "÷ 10.0",
            "÷ 35.0",
            "none left",
            "waited at a&lt;b&gt;.rs:7",
            "123 µs",
        ] {
            assert!(page.contains(text), "{text}");
        }
        assert!(!page.contains("NaN") && !page.contains("inf"), "every coordinate is a number");
    }
}
