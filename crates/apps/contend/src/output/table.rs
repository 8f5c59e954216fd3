//! Results as a text table.

use std::fmt::Write;

use super::format::{Verdict, figure, reference, row_ratio, verdict};
use crate::{Machine, Outcome, Plan, Row};

/// Line width of sentences and of the table.
const WIDTH: usize = 100;
const NAME_WIDTH: usize = 48;
const CELL_WIDTH: usize = 12;

/// Returns a table for a terminal, with colours if `colours` is set.
pub fn to_table(outcomes: &[Outcome], machine: &Machine, plan: &Plan, colours: bool) -> String {
    let paint = Paint(colours);
    let mut out = String::new();
    let _ = writeln!(out, "{machine}");
    let rounds =
        if plan.rounds == 1 { "1 round".to_owned() } else { format!("medians of {} rounds", plan.rounds) };
    let _ = writeln!(out, "{rounds} of {:?} for each form, alternating", plan.time);
    for outcome in outcomes {
        case(&mut out, outcome, paint);
    }
    out
}

fn case(out: &mut String, outcome: &Outcome, paint: Paint) {
    let about = &outcome.about;
    let _ = writeln!(out, "\n{}  {}", paint.bold(outcome.case), about.title);
    sentence(out, "before", about.before, paint);
    sentence(out, "after", about.after, paint);
    sentence(out, "note", about.note, paint);
    let source = &about.source;
    sentence(out, "source", &format!("{}, {}, {}", source.author, source.title, source.date), paint);
    sentence(out, "", source.url, paint);
    for setting in &outcome.settings {
        let name = format!("{:<NAME_WIDTH$}", setting.name);
        let _ = write!(out, "\n  {}", paint.bold(&name));
        for title in ["before", "after", "ratio", "published"] {
            let _ = write!(out, "{}", paint.faint(&format!("{title:>CELL_WIDTH$}")));
        }
        out.push('\n');
        setting.rows.iter().for_each(|row| write_row(out, row, paint));
    }
}

fn write_row(out: &mut String, row: &Row, paint: Paint) {
    let unit = row.metric.unit;
    let ratio = format!("{:>CELL_WIDTH$}", row_ratio(row));
    let _ = writeln!(
        out,
        "    {:<width$}{:>CELL_WIDTH$}{:>CELL_WIDTH$}{}{}",
        row.metric.name,
        figure(row.before, unit),
        figure(row.after, unit),
        paint.verdict(&ratio, verdict(row)),
        paint.faint(&format!("{:>CELL_WIDTH$}", reference(&row.metric))),
        width = NAME_WIDTH - 2,
    );
}

/// Writes a label and a text, wrapped at spaces.
fn sentence(out: &mut String, label: &str, text: &str, paint: Paint) {
    const INDENT: usize = 10;
    let mut line = String::new();
    let mut label = label;
    let mut flush = |line: &mut String| {
        let _ = writeln!(out, "  {}{line}", paint.faint(&format!("{label:<width$}", width = INDENT - 2)));
        label = "";
        line.clear();
    };
    for word in text.split_whitespace() {
        if !line.is_empty() && INDENT + line.chars().count() + 1 + word.chars().count() > WIDTH {
            flush(&mut line);
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    if !line.is_empty() {
        flush(&mut line);
    }
}

/// Adds colour escape sequences, if enabled.
#[derive(Clone, Copy)]
struct Paint(bool);

impl Paint {
    fn bold(self, text: &str) -> String {
        self.with("1", text)
    }

    fn faint(self, text: &str) -> String {
        self.with("2", text)
    }

    fn verdict(self, text: &str, verdict: Verdict) -> String {
        match verdict {
            Verdict::Better => self.with("32", text),
            Verdict::Same => text.to_owned(),
            Verdict::Worse => self.with("31", text),
        }
    }

    fn with(self, code: &str, text: &str) -> String {
        if self.0 { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::run;
    use crate::testing::Counting;

    fn table(colours: bool) -> String {
        let plan = Plan { rounds: 1, time: Duration::from_secs(1) };
        let outcome = run(&Counting::default(), &plan, &mut |_| ()).unwrap();
        let machine = Machine {
            cores: 2,
            cpu: "Test CPU".to_owned(),
            kernel: "6.1".to_owned(),
            version: "1.2.3",
            is_debug: false,
        };
        to_table(&[outcome], &machine, &plan, colours)
    }

    #[test]
    fn a_row_shows_both_figures_and_both_ratios() {
        let table = table(false);
        assert!(table.starts_with("2 cores, Test CPU, Linux 6.1, loligo 1.2.3\n1 round of 1s"), "{table}");
        let row = table.lines().find(|line| line.trim_start().starts_with("wait ")).unwrap();
        let words: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(words, ["wait", "10.0", "µs", "1.00", "µs", "÷", "10.0", "÷", "35.0"]);
        assert!(table.contains("none left"), "{table}");
    }

    #[test]
    fn lines_fit_a_terminal_and_colours_are_for_terminals() {
        let plain = table(false);
        assert!(plain.lines().all(|line| line.chars().count() <= WIDTH), "{plain}");
        assert!(!plain.contains('\x1b'));
        assert!(table(true).contains("\x1b[32m"), "what is better is green");
    }
}
