//! `loligo contend`: measures the published contention cases, before and after, on this machine.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::builder::PossibleValuesParser;
use indicatif::{ProgressBar, ProgressStyle};
use loligo_contend::{Case, Machine, Outcome, Plan, Step, to_html, to_json, to_table};
use loligo_rados::Trace;

use crate::failure::{Context, Failure};
use crate::format::FormatName;
use crate::timeline;

/// The cases to measure, and how.
#[derive(clap::Args)]
pub(crate) struct Contend {
    /// Which ones (default: all).
    #[arg(value_name = "CASE", value_parser = PossibleValuesParser::new(case_names()))]
    pub(crate) cases: Vec<String>,
    /// Rounds; a figure is their median.
    #[arg(long, default_value_t = 3)]
    pub(crate) rounds: usize,
    /// How long each run of either form takes.
    #[arg(long, default_value_t = 1.0)]
    pub(crate) seconds: f64,
    /// Measure direct-write on CephFS, too: the ceph.conf of a cluster with a metadata server. A file in its
    /// root is written, and removed.
    #[arg(long, value_name = "CONF")]
    pub(crate) cephfs: Option<PathBuf>,
    /// Only draw, into this file as SVG, one direct write of 64 MiB on that CephFS before and after: the
    /// operations on its objects.
    #[arg(long, value_name = "OUT", requires = "cephfs")]
    pub(crate) picture: Option<PathBuf>,
    /// Write to a file instead of standard output.
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

fn case_names() -> Vec<&'static str> {
    loligo_contend::cases().iter().map(|case| case.name()).collect()
}

pub(crate) fn run(options: &Contend, format: FormatName) -> Result<(), Failure> {
    if let (Some(conf), Some(picture)) = (&options.cephfs, &options.picture) {
        return draw(conf, picture);
    }
    let time = Duration::try_from_secs_f64(options.seconds).context(|| "contend --seconds".to_owned())?;
    if time.is_zero() || options.rounds == 0 {
        return Err(Failure::new("contend", "seconds must be more than 0 and rounds at least 1"));
    }
    let is_for_eyes = options.output.is_none() && io::stdout().is_terminal();
    let colours = is_for_eyes && std::env::var_os("NO_COLOR").is_none();
    let render: &dyn Fn(&[Outcome], &Machine, &Plan) -> String = match format {
        FormatName::Plain => &|outcomes, machine, plan| to_table(outcomes, machine, plan, colours),
        FormatName::Json => &|outcomes, _, _| to_json(outcomes),
        FormatName::Html => &to_html,
        _ => return Err(Failure::new("--format prometheus", "is for lockstat only")),
    };
    // Opened before measuring, so that a wrong path does not cost the figures.
    let mut output: Box<dyn Write> = match &options.output {
        Some(file) => Box::new(File::create(file).context(|| format!("contend: write {}", file.display()))?),
        None => Box::new(crate::say::Stdout),
    };
    let plan = Plan { rounds: options.rounds, time };
    let outcomes = measure(&chosen(&options.cases, options.cephfs.as_deref())?, &plan)?;
    let text = render(&outcomes, &Machine::this(), &plan);
    output.write_all(text.as_bytes()).context(|| "contend: write".to_owned())
}

/// Draws a direct write on CephFS in both forms, from the timelines of its operations.
fn draw(conf: &Path, picture: &Path) -> Result<(), Failure> {
    let what = || format!("contend: write {}", picture.display());
    // Opened before measuring, so that a wrong path is told at once.
    let mut output = File::create(picture).context(what)?;
    let traced = picture.with_extension("trace");
    let trace = Trace::start(File::create(&traced).context(what)?).context(what)?;
    let written = loligo_contend::trace_direct_writes(conf, &trace).context(|| "contend".to_owned());
    let traced_all = trace.finish().context(what);
    let drawn = written.and(traced_all).and_then(|_| timeline::draw_writes(&traced));
    std::fs::remove_file(&traced).context(what)?;
    output.write_all(drawn?.as_bytes()).context(what)
}

/// Returns the cases with these names, each once; all cases if there are no names.
fn chosen(names: &[String], cephfs: Option<&Path>) -> Result<Vec<Box<dyn Case>>, Failure> {
    if names.is_empty() {
        return Ok(loligo_contend::cases_with(cephfs));
    }
    let first = |(index, name): &(usize, &String)| !names[..*index].contains(name);
    let named = names.iter().enumerate().filter(first).map(|(_, name)| loligo_contend::by_name(name, cephfs));
    named.collect::<Result<_, _>>().context(|| "contend".to_owned())
}

fn measure(cases: &[Box<dyn Case>], plan: &Plan) -> Result<Vec<Outcome>, Failure> {
    // The bar is drawn on standard error, and only if that is a terminal.
    let bar = ProgressBar::new(plan.steps(cases) as u64);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg}") {
        bar.set_style(style);
    }
    let mut begun = 0;
    let mut tell = |step: Step<'_>| {
        bar.set_position(begun);
        begun += 1;
        let Step { case, setting, round, form } = step;
        bar.set_message(format!("{case}, {setting}, round {}, {}", round + 1, form.name()));
        bar.tick();
    };
    let outcomes = cases
        .iter()
        .map(|case| {
            loligo_contend::run(&**case, plan, &mut tell).context(|| format!("contend {}", case.name()))
        })
        .collect();
    bar.finish_and_clear();
    outcomes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_chosen_by_name_and_once() {
        let names = |chosen: &[&str]| {
            let words: Vec<String> = chosen.iter().map(|&name| name.to_owned()).collect();
            chosen_names(&words)
        };
        assert_eq!(names(&["pg-slot", "out-queue", "pg-slot"]).unwrap(), ["pg-slot", "out-queue"]);
        assert_eq!(names(&[]).unwrap().len(), loligo_contend::cases().len());
        let failure = names(&["no-such"]).unwrap_err();
        assert!(failure.to_string().contains("no-such"), "{failure}");
    }

    fn chosen_names(words: &[String]) -> Result<Vec<&'static str>, Failure> {
        Ok(chosen(words, None)?.iter().map(|case| case.name()).collect())
    }
}
