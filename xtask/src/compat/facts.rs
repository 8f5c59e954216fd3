//! Names that stock Ceph has, by release: taken from the help, the symbols and the answers of 16.2.15, 18.2.7
//! and 20.2.4 as Debian packages them.

use std::collections::{BTreeMap, BTreeSet};

pub(super) const RELEASES: [u32; 3] = [16, 18, 20];

pub(super) const RADOS: &str = include_str!("facts/rados.tsv");
pub(super) const RBD: &str = include_str!("facts/rbd.tsv");
pub(super) const MON: &str = include_str!("facts/mon.tsv");
pub(super) const CLASSES: &str = include_str!("facts/classes.tsv");
pub(super) const LIBRADOS: &str = include_str!("facts/librados.tsv");
pub(super) const LIBRBD: &str = include_str!("facts/librbd.tsv");

/// Names, and the releases that have them.
pub(super) struct Names(BTreeMap<String, BTreeSet<u32>>);

impl Names {
    /// Of lines with a name, a tab, and releases separated by spaces.
    pub(super) fn of(text: &str) -> Self {
        let rows =
            text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once('\t'));
        let releases = |words: &str| words.split(' ').filter_map(|word| word.parse().ok()).collect();
        Self(rows.map(|(name, words)| (name.to_owned(), releases(words))).collect())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &BTreeSet<u32>)> {
        self.0.iter().map(|(name, releases)| (name.as_str(), releases))
    }
}
