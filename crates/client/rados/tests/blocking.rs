//! The blocking API is complete.
//!
//! Goal: every asynchronous method has a blocking twin. Method: the test reads the crate's sources; each
//! `pub async fn` of a type must have a method of its name in the type of the same name under `blocking`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Types whose blocking form is a standard iterator.
const ITERATORS: [&str; 1] = ["ObjectList"];

/// Twins with another name.
const TWINS: [(&str, &str); 1] = [("Builder::connect", "Rados::connect")];

/// Method names by type.
type Methods = BTreeMap<String, BTreeSet<String>>;

/// Returns the type of an `impl` line: `impl<'a> Watch<'a> {` gives `Watch`.
fn implemented(line: &str) -> Option<String> {
    let rest = line.strip_prefix("impl")?;
    let rest = match rest.strip_prefix('<') {
        Some(generics) => generics.split_once("> ")?.1,
        None => rest.strip_prefix(' ')?,
    };
    let is_inherent = !rest.contains(" for ");
    let name: String = rest.chars().take_while(|c| c.is_alphanumeric()).collect();
    is_inherent.then_some(name)
}

fn gather(source: &str, introduced_by: &str, methods: &mut Methods) {
    let mut of = None;
    for line in source.lines() {
        if line.starts_with("impl") {
            of = implemented(line);
        }
        if line.starts_with('}') {
            of = None;
        }
        if let (Some(of), Some(rest)) = (&of, line.trim_start().strip_prefix(introduced_by)) {
            let name = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            methods.entry(of.clone()).or_default().insert(name);
        }
    }
}

fn gather_all(folder: &Path, introduced_by: &str, except: Option<&str>, methods: &mut Methods) {
    for entry in fs::read_dir(folder).expect("the crate's sources") {
        let path = entry.expect("an entry").path();
        if except.is_some_and(|except| path.ends_with(except)) {
            continue;
        }
        if path.is_dir() {
            gather_all(&path, introduced_by, except, methods);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            gather(&fs::read_to_string(path).expect("a source"), introduced_by, methods);
        }
    }
}

/// Returns the methods without a twin, as `Type::method`.
fn without_twin(asynchronous: &Methods, blocking: &Methods) -> Vec<String> {
    let mut missing = Vec::new();
    for (of, names) in asynchronous.iter().filter(|(of, _)| !ITERATORS.contains(&of.as_str())) {
        for name in names.iter().map(|name| format!("{of}::{name}")) {
            let twin = TWINS.iter().find(|(ours, _)| *ours == name).map_or(name.as_str(), |(_, twin)| *twin);
            let (of, method) = twin.split_once("::").expect("a type and a method");
            if !blocking.get(of).is_some_and(|twins| twins.contains(method)) {
                missing.push(name);
            }
        }
    }
    missing
}

#[test]
fn each_asynchronous_method_has_a_blocking_twin() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let (mut asynchronous, mut blocking) = (Methods::new(), Methods::new());
    gather_all(&sources, "pub async fn ", Some("blocking"), &mut asynchronous);
    gather_all(&sources.join("blocking"), "pub fn ", None, &mut blocking);
    assert!(asynchronous["IoCtx"].len() > 40, "{asynchronous:?}");
    let missing = without_twin(&asynchronous, &blocking);
    assert!(missing.is_empty(), "without a blocking twin: {}", missing.join(", "));
}

#[test]
fn what_has_no_twin_is_found() {
    let (mut asynchronous, mut blocking) = (Methods::new(), Methods::new());
    let source = "impl fmt::Debug for Rados {\n    pub async fn no(&self) {}\n}\n\
                  impl<'a> Watch<'a> {\n    pub async fn next(&self) {}\n    pub async fn end(&self) {}\n}\n";
    gather(source, "pub async fn ", &mut asynchronous);
    gather("impl Watch {\n    pub fn next(&self) {}\n}\n", "pub fn ", &mut blocking);
    assert_eq!(without_twin(&asynchronous, &blocking), ["Watch::end"]);
}
