//! The blocking API is complete.
//!
//! Goal: every asynchronous method of a mount and of a file has a blocking twin. Method: the test reads the
//! crate's sources; each `pub async fn` must be a method in `blocking.rs`. Listings are iterators there.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Methods of listings, whose blocking form is a standard iterator.
const OF_ITERATORS: [&str; 2] = ["next", "all"];

/// Returns the names that follow `introduced_by`.
fn names(source: &str, introduced_by: &str) -> BTreeSet<String> {
    let name = |line: &str| {
        let rest = line.trim_start().strip_prefix(introduced_by)?;
        let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        let is_method = rest[name.len()..].starts_with('(');
        (is_method && !name.is_empty()).then_some(name)
    };
    source.lines().filter_map(name).collect()
}

#[test]
fn each_asynchronous_method_has_a_blocking_twin() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut asynchronous = BTreeSet::new();
    let mut folders = vec![sources.clone()];
    let mut paths = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("the crate's sources") {
            let path = entry.expect("an entry").path();
            if path.is_dir() { folders.push(path) } else { paths.push(path) }
        }
    }
    for path in paths {
        if path.extension().is_some_and(|extension| extension == "rs") {
            let source = fs::read_to_string(&path).expect("a source");
            asynchronous.extend(names(&source, "pub async fn "));
        }
    }
    assert!(asynchronous.len() > 25, "{asynchronous:?}");
    let blocking = fs::read_to_string(sources.join("blocking.rs")).expect("a source");
    // Most are listed in a macro, without `pub fn`.
    let twins: BTreeSet<_> = names(&blocking, "pub fn ").into_iter().chain(names(&blocking, "")).collect();
    let missing: Vec<_> =
        asynchronous.difference(&twins).filter(|name| !OF_ITERATORS.contains(&name.as_str())).collect();
    assert!(missing.is_empty(), "without a blocking twin: {missing:?}");
}
