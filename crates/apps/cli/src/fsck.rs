//! `loligo fsck`: looks for damage in a directory that no server uses, and repairs some of it.

use std::cell::RefCell;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

use indicatif::{ProgressBar, ProgressStyle};
use loligo_server::check_dir;
use loligo_store_disk::{Checked, Finding, RepairListener, check, repair};
use serde_json::{Value, json};

use crate::failure::{Context, Failure};
use crate::format::FormatName;

/// The directory to check.
#[derive(clap::Args)]
pub(crate) struct Fsck {
    /// The directory given to `serve --data`.
    pub(crate) dir: PathBuf,
    /// Mend what can be mended without inventing data, and take out what nobody can read, into
    /// DIR/lost+found.
    #[arg(long)]
    pub(crate) repair: bool,
}

/// Returns the store's directory within a server's directory.
pub(crate) fn store_of(dir: &Path) -> PathBuf {
    let inner = dir.join("store");
    if inner.is_dir() { inner } else { dir.to_owned() }
}

pub(crate) fn run(options: &Fsck, format: FormatName) -> Result<(), Failure> {
    let (dir, mends) = (&options.dir, options.repair);
    let what = || format!("fsck {}", dir.display());
    let store = store_of(dir);
    let bar = progress_bar();
    let [findings, left, done] = [(); 3].map(|()| RefCell::<Vec<Value>>::default());
    let tell = |finding: &Finding, list: &RefCell<Vec<Value>>, prefix: &str| match format {
        FormatName::Json => list.borrow_mut().push(as_json(finding)),
        _ => bar.suspend(|| sayln!("{prefix}{}", as_text(finding))),
    };
    let mut found = |finding: &Finding| tell(finding, &findings, "");
    let mut progress = |done, total| {
        bar.set_length(total);
        bar.set_position(done);
    };
    let of_dir = check_dir(dir, mends.then(|| dir.join("lost+found")).as_deref()).context(what)?;
    for what in &of_dir.wrong {
        tell(&Finding { object: None, offset: None, what: what.clone() }, &findings, "");
    }
    for what in &of_dir.done {
        match format {
            FormatName::Json => done.borrow_mut().push(Value::from(what.as_str())),
            _ => bar.suspend(|| sayln!("repair: {what}")),
        }
    }
    let (mut before, mut after) = if mends {
        let listener = RepairListener {
            found: &mut found,
            done: &mut |what| match format {
                FormatName::Json => done.borrow_mut().push(Value::from(what)),
                _ => bar.suspend(|| sayln!("repair: {what}")),
            },
            left: &mut |finding| tell(finding, &left, "left: "),
            progress: &mut progress,
        };
        let repaired = repair(&store, &dir.join("lost+found"), listener).context(what)?;
        (repaired.before, repaired.after)
    } else {
        let checked = check(&store, &mut found, &mut progress).context(what)?;
        (checked, checked)
    };
    bar.finish_and_clear();
    before.errors += of_dir.wrong.len() as u64;
    after.errors += (of_dir.wrong.len() - of_dir.done.len()) as u64;
    let bytes = before.blocks * before.block_bytes;
    let Checked { objects, records, errors, .. } = before;
    match format {
        FormatName::Json => {
            let mut report =
                json!({"objects": objects, "bytes": bytes, "records": records, "errors": findings.take()});
            if mends {
                report["repairs"] = done.take().into();
                report["left"] = left.take().into();
                report["errors_left"] = after.errors.into();
            }
            sayln!("{report}");
        }
        _ => sayln!(
            "{objects} objects, {bytes} bytes of data, {records} records in the journal: {errors} errors"
        ),
    }
    match after.errors {
        0 => Ok(()),
        n if mends => Err(Failure::new(what(), format!("{n} errors are left"))),
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
