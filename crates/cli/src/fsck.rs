//! `loligo fsck`: looks for damage in a directory that no server uses.

use std::io::IsTerminal as _;
use std::path::Path;

use indicatif::{ProgressBar, ProgressStyle};
use loligo_store::disk::{Finding, check};
use serde_json::{Value, json};

use crate::args::FormatName;
use crate::failure::{Context, Failure};

pub(crate) fn run(dir: &Path, format: FormatName) -> Result<(), Failure> {
    let what = || format!("fsck {}", dir.display());
    let inner = dir.join("store");
    let store = if inner.is_dir() { &inner } else { dir };
    let bar = progress_bar();
    let mut findings = Vec::new();
    let mut tell = |finding: &Finding| match format {
        FormatName::Json => findings.push(as_json(finding)),
        _ => bar.suspend(|| println!("{}", as_text(finding))),
    };
    let mut progress = |done, total| {
        bar.set_length(total);
        bar.set_position(done);
    };
    let checked = check(store, &mut tell, &mut progress).context(what)?;
    bar.finish_and_clear();
    let bytes = checked.blocks * checked.block_bytes;
    match format {
        FormatName::Json => println!(
            "{}",
            json!({"objects": checked.objects, "bytes": bytes, "records": checked.records,
                   "errors": findings})
        ),
        _ => println!(
            "{} objects, {bytes} bytes of data, {} records in the journal: {} errors",
            checked.objects, checked.records, checked.errors
        ),
    }
    match checked.errors {
        0 => Ok(()),
        n => Err(Failure::new(what(), format!("{n} errors"))),
    }
}

fn progress_bar() -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:40} {percent}% {eta}");
    ProgressBar::new(0).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

fn as_text(finding: &Finding) -> String {
    let mut text = String::new();
    if let Some((pg, name)) = &finding.object {
        let name = name.as_ref();
        text = format!("pg {pg} object '{}'", name.name.escape_ascii());
        if !name.nspace.is_empty() {
            text += &format!(" namespace '{}'", name.nspace.escape_ascii());
        }
        if let Some(offset) = finding.offset {
            text += &format!(" offset {offset}");
        }
        text += ": ";
    }
    text + &finding.what
}

fn as_json(finding: &Finding) -> Value {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut value = json!({"what": finding.what});
    if let Some((pg, name)) = &finding.object {
        let name = name.as_ref();
        value["pool"] = pg.pool.0.into();
        value["pg"] = pg.to_string().into();
        value["namespace"] = text(name.nspace).into();
        value["name"] = text(name.name).into();
        value["offset"] = finding.offset.into();
    }
    value
}
