//! What the library exports.
//!
//! Goal: the library has each function of librados, librbd and libradosstriper, in the versions that
//! programs were linked with, and nothing else that could take the place of a program's own function.
//! Method: the output of `nm` for the library is compared with the lists in `symbols`.

use std::collections::BTreeSet;
use std::env;
use std::path::Path;
use std::process::Command;

/// The functions that exist in two versions.
const TWICE: [&str; 4] = ["rados_ioctx_pool_stat", "rados_tmap_get", "rados_tmap_put", "rados_tmap_update"];

#[test]
fn the_library_exports_what_the_lists_say() {
    let Some(symbols) = said("nm", &["-D", "--defined-only", "--with-symbol-versions"]) else { return };
    let names = symbols.lines().filter_map(|line| line.split_whitespace().last());
    let found: BTreeSet<&str> = names.filter(|name| !name.starts_with("LIBRADOS_")).collect();
    let listed = listed();
    let wanted: BTreeSet<&str> = listed.iter().map(String::as_str).collect();
    let lacking: Vec<_> = wanted.difference(&found).collect();
    let strays: Vec<_> = found.difference(&wanted).collect();
    assert!(lacking.is_empty() && strays.is_empty(), "not exported: {lacking:?}; not listed: {strays:?}");
}

#[test]
fn the_library_has_the_versions_and_the_name_that_programs_ask_for() {
    let Some(text) = said("readelf", &["-W", "-V", "-d"]) else { return };
    for wanted in ["Name: LIBRADOS_14.2.0", "Name: LIBRADOS_PRIVATE", "[librados.so.2]", "NODELETE"] {
        assert!(text.contains(wanted), "readelf shows no '{wanted}'");
    }
}

/// What a program says of the library; `None` without the program.
fn said(program: &str, options: &[&str]) -> Option<String> {
    let test = env::current_exe().expect("this test's file");
    let library = test.parent().expect("its folder").join("libloligo_capi.so");
    let Ok(output) = Command::new(program).args(options).arg(library).output() else {
        eprintln!("skipped: no program {program}");
        return None;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).expect("text"))
}

/// The names, with versions, that the library has to export.
fn listed() -> BTreeSet<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("symbols");
    let mut names: BTreeSet<String> = ["librados.txt", "librbd.txt", "libradosstriper.txt"]
        .iter()
        .flat_map(|list| {
            let text = std::fs::read_to_string(folder.join(list)).expect("the list is there");
            text.lines().map(str::to_owned).collect::<Vec<_>>()
        })
        .collect();
    names.extend(TWICE.iter().map(|name| format!("{name}@@LIBRADOS_14.2.0")));
    names
}
