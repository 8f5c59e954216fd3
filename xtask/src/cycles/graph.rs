//! Cycles in a graph of files.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Per pair of files: the names that the first file uses from the second.
pub(super) type Arrows = BTreeMap<(usize, usize), BTreeSet<String>>;

/// A set of files in which every file is reachable from every other.
#[derive(Debug)]
pub(super) struct Circle {
    /// Sorted.
    pub(super) files: Vec<String>,
    pub(super) arrows: Vec<Arrow>,
}

#[derive(Debug)]
pub(super) struct Arrow {
    pub(super) from: String,
    pub(super) to: String,
    pub(super) names: Vec<String>,
}

impl fmt::Display for Arrow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} -> {}: {}", self.from, self.to, self.names.join(", "))
    }
}

impl Circle {
    /// Returns the arrows from this file, then those to it.
    pub(super) fn arrows_of<'a>(&'a self, file: &'a str) -> impl Iterator<Item = &'a Arrow> {
        let from = self.arrows.iter().filter(move |arrow| arrow.from == file);
        from.chain(self.arrows.iter().filter(move |arrow| arrow.to == file))
    }
}

/// Returns the cycles of two and more files.
pub(super) fn circles(files: &[String], arrows: &Arrows) -> Vec<Circle> {
    let reached: Vec<BTreeSet<usize>> = (0..files.len()).map(|file| reached_from(file, arrows)).collect();
    let mut circles = Vec::new();
    let mut seen = BTreeSet::<usize>::new();
    for file in 0..files.len() {
        // No arrow leads from a file to itself, so a file that reaches itself is in a cycle.
        if !reached[file].contains(&file) || seen.contains(&file) {
            continue;
        }
        let members: BTreeSet<usize> =
            reached[file].iter().copied().filter(|other| reached[*other].contains(&file)).collect();
        seen.extend(&members);
        circles.push(circle(&members, files, arrows));
    }
    circles
}

fn reached_from(file: usize, arrows: &Arrows) -> BTreeSet<usize> {
    let mut reached = BTreeSet::new();
    let mut next = vec![file];
    while let Some(at) = next.pop() {
        for ((_, to), _) in arrows.range((at, 0)..=(at, usize::MAX)) {
            if reached.insert(*to) {
                next.push(*to);
            }
        }
    }
    reached
}

fn circle(members: &BTreeSet<usize>, files: &[String], arrows: &Arrows) -> Circle {
    let mut named: Vec<String> = members.iter().map(|file| files[*file].clone()).collect();
    named.sort();
    let inside = arrows.iter().filter(|((from, to), _)| members.contains(from) && members.contains(to));
    let arrows = inside.map(|((from, to), names)| Arrow {
        from: files[*from].clone(),
        to: files[*to].clone(),
        names: names.iter().cloned().collect(),
    });
    Circle { files: named, arrows: arrows.collect() }
}
