//! A directory with all that is below it, as a client shows it.

use std::collections::BTreeMap;

use crate::Client;
use crate::call::{Call, Text};

/// Snapshots that are looked into: those of the scripts.
const SNAPSHOTS: [&str; 4] = ["s0", "s1", "s2", "s9"];

/// Describes the tree, a line each. Inodes are named by the first path that leads to them.
pub(crate) fn of(client: &mut dyn Client) -> Vec<String> {
    let mut found = Found { lines: Vec::new(), inodes: BTreeMap::new() };
    found.dir(client, &[], true);
    found.lines
}

/// Panics at the first line that differs.
pub(crate) fn compare(seed: u64, what: &str, one: &[String], other: &[String]) {
    let differ = one.iter().zip(other).find(|(one, other)| one != other);
    if let Some((one, other)) = differ {
        panic!("seed {seed}: {what}:\n  {one}\n  {other}");
    }
    assert_eq!(one.len(), other.len(), "seed {seed}: {what}: {:?}", [one.last(), other.last()]);
}

struct Found {
    lines: Vec<String>,
    inodes: BTreeMap<String, Text>,
}

/// A name in a directory and its type.
fn entries(client: &mut dyn Client, dir: &[u8]) -> Vec<(Vec<u8>, String)> {
    let answer = client.call(&Call::ReadDir { path: Text(dir.to_vec()) });
    let names = answer.strip_prefix("ok").unwrap_or_else(|| {
        let path = Text(dir.to_vec());
        let found = client.call(&Call::StatLink { path: path.clone() });
        panic!("{path} is not listed: {answer}; its attributes: {found}")
    });
    let entry = |word: &str| {
        let (name, kind) = word.split_once(':').unwrap_or_else(|| panic!("{word:?} is no entry"));
        (Text::read(name).0, kind.to_owned())
    };
    names.split_whitespace().map(entry).collect()
}

fn joined(dir: &[u8], name: &[u8]) -> Vec<u8> {
    if dir.is_empty() { name.to_vec() } else { [dir, b"/", name].concat() }
}

impl Found {
    /// `is_head`: not in a snapshot.
    fn dir(&mut self, client: &mut dyn Client, dir: &[u8], is_head: bool) {
        for (name, kind) in entries(client, dir) {
            let path = joined(dir, &name);
            self.one(client, &path, &kind, is_head);
            if kind == "4" {
                self.dir(client, &path, is_head);
                if is_head {
                    self.snapshots(client, &path);
                }
            }
        }
    }

    fn snapshots(&mut self, client: &mut dyn Client, dir: &[u8]) {
        let snaps = joined(dir, b".snap");
        for (name, _) in entries(client, &snaps) {
            // Those of a directory above are listed, too, under names with the directory's number.
            if SNAPSHOTS.iter().any(|known| known.as_bytes() == name) {
                let path = joined(&snaps, &name);
                self.lines.push(format!("{} is a snapshot", Text(path.clone())));
                self.dir(client, &path, false);
            }
        }
    }

    fn one(&mut self, client: &mut dyn Client, path: &[u8], kind: &str, is_head: bool) {
        let path = Text(path.to_vec());
        let mut line = format!("{path} {kind} {}", client.call(&Call::StatLink { path: path.clone() }));
        let content = match kind {
            "8" => client.call(&Call::Content { path: path.clone() }),
            "10" => client.call(&Call::ReadLink { path: path.clone() }),
            _ => String::new(),
        };
        line = format!("{line} {content}");
        if is_head {
            let ino = client.call(&Call::Ino { path: path.clone() });
            let first = self.inodes.entry(ino).or_insert_with(|| path.clone());
            line = format!("{line} = {first}");
        }
        // A link's own attributes are not asked for: these calls follow it.
        if kind != "10" {
            let listed = client.call(&Call::ListXattrs { path: path.clone() });
            let Some(names) = listed.strip_prefix("ok") else {
                line = format!("{line} {listed}");
                self.lines.push(line);
                return;
            };
            for name in names.split_whitespace().map(Text::read) {
                let value = client.call(&Call::GetXattr { path: path.clone(), name: name.clone() });
                line = format!("{line} {name}: {value}");
            }
        }
        self.lines.push(line);
    }
}

/// Removes all that is in the tree.
pub(crate) fn clear(client: &mut dyn Client) {
    clear_dir(client, &[]);
    assert_eq!(entries(client, &[]), []);
}

fn clear_dir(client: &mut dyn Client, dir: &[u8]) {
    let snaps = joined(dir, b".snap");
    for (name, _) in entries(client, &snaps) {
        if SNAPSHOTS.iter().any(|known| known.as_bytes() == name) {
            done(client, &Call::RemoveDir { path: Text(joined(&snaps, &name)) });
        }
    }
    for (name, kind) in entries(client, dir) {
        let path = joined(dir, &name);
        if kind == "4" {
            clear_dir(client, &path);
            done(client, &Call::RemoveDir { path: Text(path) });
        } else {
            done(client, &Call::Unlink { path: Text(path) });
        }
    }
}

fn done(client: &mut dyn Client, call: &Call) {
    let answer = client.call(call);
    assert_eq!(answer, "ok", "{call}");
}
