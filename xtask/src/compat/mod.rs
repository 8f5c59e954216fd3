//! What of Ceph's commands and functions is here, release by release: tables of `docs/compatibility.md`.
//!
//! `facts/` has the names that stock programs of each release have, `ours.rs` reads from the sources which of
//! them are here. So the page changes with the code, and a test fails until it is written again.

mod facts;
mod ours;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use self::facts::{Names, RELEASES};
use self::ours::Functions;
use crate::Result;

/// The sections, to be put into the page.
pub(crate) fn sections() -> Result<String> {
    let mut page = String::new();
    let ours = ours::read()?;
    words(&mut page, "rados", &Names::of(facts::RADOS), &ours.commands, |name| name.to_owned())?;
    words(&mut page, "rbd", &Names::of(facts::RBD), &ours.commands, |name| format!("rbd {name}"))?;
    monitor(&mut page, &Names::of(facts::MON), &ours)?;
    classes(&mut page, &Names::of(facts::CLASSES), &ours.methods)?;
    functions(&mut page, "librados", &Names::of(facts::LIBRADOS), &ours.functions)?;
    functions(&mut page, "librbd", &Names::of(facts::LIBRBD), &ours.functions)?;
    Ok(page)
}

/// The columns of a row that tell the releases.
fn marks(releases: &BTreeSet<u32>) -> String {
    let mark = |release: &u32| if releases.contains(release) { " x |" } else { " |" };
    RELEASES.iter().map(mark).collect()
}

fn heads() -> String {
    let of: String = RELEASES.iter().map(|release| format!(" {release} |")).collect();
    format!("{of} here |\n|---|{}---|", "---|".repeat(RELEASES.len()))
}

/// Commands of a program: those that are not here are no commands of ours.
fn words(
    page: &mut String,
    program: &str,
    stock: &Names,
    commands: &BTreeSet<String>,
    as_ours: impl Fn(&str) -> String,
) -> Result<()> {
    let here = |name: &str| commands.contains(&as_ours(name));
    let (count, all) = (stock.iter().filter(|(name, _)| here(name)).count(), stock.iter().count());
    writeln!(page, "\n## Commands of `{program}`\n")?;
    writeln!(
        page,
        "{count} of {all} are here; the others are refused as wrong command lines (status 1).\n\n| `{program}` … |{}",
        heads()
    )?;
    for (name, releases) in stock.iter() {
        writeln!(page, "| {name} |{} {} |", marks(releases), if here(name) { "done" } else { "refused" })?;
    }
    Ok(())
}

fn monitor(page: &mut String, stock: &Names, ours: &ours::Ours) -> Result<()> {
    let state = |name: &str| match ours.monitor.get(name) {
        Some(ours::Answer::Done) => "done",
        Some(ours::Answer::AsIfNone) => "as a cluster that has none",
        Some(ours::Answer::NoModule) => "EOPNOTSUPP",
        None => "EINVAL",
    };
    let done = stock.iter().filter(|(name, _)| state(name) == "done").count();
    writeln!(page, "\n## Commands of monitors and managers (`ceph`)\n")?;
    writeln!(
        page,
        "{done} of {} are done by the server; what is not known is refused with EINVAL. Not in the table are the \
         commands of `ceph tell` and of admin sockets. Answers that are given for show are listed in [emulated \
         answers](emulated.md).\n\n| `ceph` … |{}",
        stock.iter().count(),
        heads()
    )?;
    for (name, releases) in stock.iter() {
        writeln!(page, "| {name} |{} {} |", marks(releases), state(name))?;
    }
    let modules = ours.monitor.iter().filter(|(_, answer)| **answer == ours::Answer::NoModule);
    let modules: Vec<String> = modules.map(|(name, _)| format!("`{name}`")).collect();
    writeln!(
        page,
        "\nOf modules of a manager none is here. These {} commands of 16.2 are refused with EOPNOTSUPP, as by a manager \
         without the module: {}.",
        modules.len(),
        modules.join(", ")
    )?;
    Ok(())
}

fn classes(page: &mut String, stock: &Names, methods: &BTreeMap<String, Vec<String>>) -> Result<()> {
    writeln!(page, "\n## Object classes\n")?;
    writeln!(
        page,
        "Methods that an OSD of ours runs. A class or method that is not there is refused with EOPNOTSUPP.\n\n| class |{}",
        heads()
    )?;
    for (class, releases) in stock.iter() {
        let here =
            methods.get(class).map(|methods| format!("{} methods: {}", methods.len(), methods.join(", ")));
        writeln!(page, "| `{class}` |{} {} |", marks(releases), here.as_deref().unwrap_or("refused"))?;
    }
    Ok(())
}

/// Functions of a C library. There are too many for a row each: those are named that do not do what stock's
/// do.
fn functions(page: &mut String, library: &str, stock: &Names, ours: &Functions) -> Result<()> {
    let among = |wanted: &dyn Fn(&str) -> bool| -> Vec<String> {
        stock.iter().filter(|(name, _)| wanted(name)).map(|(name, _)| format!("`{name}`")).collect()
    };
    let missing = among(&|name| !ours.exported.contains(name));
    let absent = among(&|name| ours.absent.contains(name));
    let all = stock.iter().count();
    writeln!(page, "\n## C functions of {library}\n")?;
    writeln!(
        page,
        "{} of the {all} functions of releases {} are in Loligo's {library} ([Programs that exist](book/programs.md)).",
        all - missing.len(),
        RELEASES.map(|release| release.to_string()).join(", "),
    )?;
    if !missing.is_empty() {
        writeln!(page, "\nNot there: {}", missing.join(" "))?;
    }
    if !absent.is_empty() {
        writeln!(
            page,
            "\n{} of them fail with EOPNOTSUPP, whatever they are given, because Loligo does not have their feature:\n{}",
            absent.len(),
            absent.join(" ")
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_here_is_found_in_the_sources() {
        let ours = ours::read().expect("the sources are read");
        for command in [
            "put",
            "lock list",
            "cppool",
            "rbd pool init",
            "rbd snap ls",
            "rbd snap list",
            "rbd group snap create",
            "rbd config image get",
        ] {
            assert!(ours.commands.contains(command), "{command}");
        }
        for command in ["rbd", "lock", "rbd journal info", "config", "cache-flush"] {
            assert!(!ours.commands.contains(command), "{command} is no whole command, or not here");
        }
        assert_eq!(ours.monitor.get("osd pool create"), Some(&ours::Answer::Done));
        assert_eq!(ours.monitor.get("fs ls"), Some(&ours::Answer::AsIfNone));
        assert_eq!(ours.monitor.get("balancer status"), Some(&ours::Answer::NoModule));
        assert_eq!(ours.monitor.get("osd tier add"), None);
        assert_eq!(ours.methods["version"], ["set", "inc", "inc_conds", "read", "check_conds"]);
        assert!(ours.methods["rbd"].len() > 50 && !ours.methods.contains_key("rgw"));
        let ours::Functions { exported, absent } = ours.functions;
        assert!(exported.is_superset(&absent) && exported.contains("rados_read"));
        assert!(absent.contains("rbd_mirror_peer_add") && !absent.contains("rbd_open"));
    }

    #[test]
    fn rows_tell_releases_and_what_is_here() {
        let mut page = String::new();
        let stock = Names::of("# x\nput\t16 18\ncache-flush\t20\n");
        words(&mut page, "rados", &stock, &BTreeSet::from(["put".to_owned()]), |name| name.to_owned())
            .expect("text is written");
        assert!(page.contains("1 of 2 are here"), "{page}");
        assert!(
            page.contains("| put | x | x | | done |\n") && page.contains("| cache-flush | | | x | refused |"),
            "{page}"
        );
    }
}
