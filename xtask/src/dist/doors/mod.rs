//! `cargo xtask dist DIR --doors`: the ways by which a stranger gets the program, from a machine without it
//! to an object that a stock client has put.
//!
//! The commands are those of the book (`docs/book/installing.md`). Each door's run in a clean Debian root
//! that has the files of DIR and nothing else, and must print what the page shows. `target/doors` keeps what
//! they print. Each Debian package is also installed and removed, and must leave nothing. A machine that
//! cannot have a clean root leaves the doors out, by name.

mod image;
mod page;
mod root;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use crate::Result;
use crate::process::{succeed, workspace};

use super::sums;
use page::Step;
use root::CleanRoot;

const PAGE: &str = "docs/book/installing.md";

/// How long all commands of a door may take: they install packages from a mirror.
const SECONDS_MAX: &str = "900";

/// The folder of a root with what its commands print.
const RECORDS: &str = "/var/log/door";

pub(super) fn try_all(dir: &Path) -> Result<()> {
    let client = match CleanRoot::new("binary") {
        Ok(root) => root,
        Err(why) => {
            println!("left out: doors (no clean Debian root: {why})");
            return Ok(());
        }
    };
    try_door("binary", dir, &client)?;
    println!("== door image");
    let said = image::try_it(&dir.join("loligo-image.tar"), &client)?;
    keep("image", &said)?;
    try_door("deb", dir, &CleanRoot::new("deb")?)?;
    leaves_nothing(dir, "loligo_", "usr/bin/loligo")?;
    if package(dir, "loligo-libs_").is_err() {
        println!("left out: door libs (made with --libs)");
        return Ok(());
    }
    try_door("libs", dir, &CleanRoot::new("libs")?)?;
    leaves_nothing(dir, "loligo-libs_", "usr/lib/loligo/librados.so.2")
}

/// Runs the commands of a door in a root.
fn try_door(door: &str, dir: &Path, root: &CleanRoot) -> Result<()> {
    println!("== door {door}");
    let steps = page::steps(&fs::read_to_string(workspace().join(PAGE))?, door)?;
    let records = root.path().join(&RECORDS[1..]);
    fs::create_dir_all(&records)?;
    for name in sums::files(dir)?.iter().map(String::as_str).chain(["SHA256SUMS"]) {
        let copy = root.path().join("root").join(name);
        fs::create_dir_all(copy.parent().ok_or("a file lies in a folder")?)?;
        fs::copy(dir.join(name), copy)?;
    }
    // The mirror has newer packages than the root knows of.
    succeed(&mut root.command(&["apt-get", "update", "-qq"]))?;
    fs::write(records.join("script"), format!("cd /root\n{}", page::script(&steps, RECORDS)?))?;
    let script = format!("{RECORDS}/script");
    let ended = succeed(&mut root.command(&["timeout", "--foreground", SECONDS_MAX, "bash", &script]));
    let (said, wrong) = compare(&steps, &records)?;
    let kept = keep(door, &said)?;
    if wrong.is_empty() {
        return ended;
    }
    Err(format!("door {door} ({PAGE}; {}):\n{wrong}", kept.display()).into())
}

/// Returns what the commands have printed, and what is not as the page shows it.
fn compare(steps: &[Step], records: &Path) -> Result<(String, String)> {
    let (mut said, mut wrong) = (String::new(), String::new());
    for (i, step) in steps.iter().enumerate() {
        let read = |what: &str| fs::read(records.join(format!("{what}.{i}"))).unwrap_or_default();
        let output = String::from_utf8_lossy(&read("out")).into_owned();
        let status = String::from_utf8_lossy(&read("status")).trim().to_owned();
        writeln!(said, "{} {}\n{}", step.prompt, step.command, output.trim_end())?;
        // What runs in the background has no status.
        let is_well = status == "0" || (status.is_empty() && step.command.ends_with('&'));
        if !is_well || !page::matches(&step.shown, &output) {
            let (command, shown) = (&step.command, &step.shown);
            writeln!(wrong, "$ {command}\nstatus {status:?}; shown:\n{shown}printed:\n{output}")?;
        }
    }
    Ok((said, wrong))
}

/// Keeps what a door has printed.
fn keep(door: &str, said: &str) -> Result<PathBuf> {
    let folder = workspace().join("target/doors");
    fs::create_dir_all(&folder)?;
    let file = folder.join(format!("{door}.txt"));
    fs::write(&file, said)?;
    Ok(file)
}

/// The Debian package in a folder whose name begins so.
fn package(dir: &Path, begin: &str) -> Result<String> {
    let is_it =
        |name: &String| name.starts_with(begin) && Path::new(name).extension().is_some_and(|e| e == "deb");
    let found: Vec<_> = sums::files(dir)?.into_iter().filter(is_it).collect();
    match &found[..] {
        [one] => Ok(one.clone()),
        _ => Err(format!("{}: {} packages {begin}*.deb instead of one", dir.display(), found.len()).into()),
    }
}

/// Installs a package in a clean root and removes it: what was there before is there again, and no more.
fn leaves_nothing(dir: &Path, begin: &str, file: &str) -> Result<()> {
    let name = package(dir, begin)?;
    println!("== {name} leaves nothing");
    let root = CleanRoot::new("removed")?;
    fs::copy(dir.join(&name), root.path().join("root").join(&name))?;
    let before = root.listing()?;
    succeed(&mut root.command(&["dpkg", "--install", &format!("/root/{name}")]))?;
    if !root.path().join(file).exists() {
        return Err(format!("{name} installs no /{file}").into());
    }
    let product = begin.trim_end_matches('_');
    succeed(&mut root.command(&["dpkg", "--purge", product]))?;
    let after = root.listing()?;
    let is_same = |path: &&PathBuf| before.get(*path) == after.get(*path);
    let differ: Vec<_> = before.keys().chain(after.keys()).filter(|path| !is_same(path)).collect();
    if differ.is_empty() { Ok(()) } else { Err(format!("{name} leaves or changes {differ:?}").into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_is_compared_with_the_page() {
        let records = std::env::temp_dir().join(format!("loligo-records-{}", std::process::id()));
        fs::create_dir_all(&records).expect("a folder");
        for (name, text) in
            [("out.0", "ready x\n"), ("out.1", "a\n"), ("status.1", "0\n"), ("status.2", "1\n")]
        {
            fs::write(records.join(name), text).expect("written");
        }
        let step = |command: &str, shown: &str| Step {
            prompt: '$',
            command: command.to_owned(),
            shown: shown.to_owned(),
        };
        let steps = [step("serve &", "ready …\n"), step("ls", "a\n"), step("rm", "")];
        let (said, wrong) = compare(&steps, &records).expect("compared");
        assert!(said.starts_with("$ serve &\nready x\n$ ls\na\n$ rm\n"), "{said}");
        assert!(wrong.starts_with("$ rm\nstatus \"1\""), "{wrong}");
        let (_, wrong) = compare(&[step("ls &", "")], &records).expect("compared");
        assert!(wrong.contains("printed:\nready x\n"), "{wrong}");
        fs::remove_dir_all(&records).expect("removed");
    }

    #[test]
    fn the_page_has_each_door() {
        let page = fs::read_to_string(workspace().join(PAGE)).expect("the page");
        for door in ["binary", "deb", "libs"] {
            assert!(page::steps(&page, door).expect("a block").len() > 2, "{door}");
        }
    }
}
