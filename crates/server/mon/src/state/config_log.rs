//! The history of the configuration database, and reverts (`config log`, `config reset`).

use std::collections::{BTreeMap, VecDeque};

use loligo_wire::UTime;

use super::config::{ConfigDb, Section};

/// Maximum number of changes kept; a stock monitor keeps all.
const KEPT_MAX: usize = 1_000;

/// A setting before and after a change; `None` if it was not set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// The value before.
    pub old: Option<String>,
    /// The value after.
    pub new: Option<String>,
}

/// The changes of one command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangeSet {
    /// The database's version after the command.
    pub version: u64,
    /// The time of the change.
    pub stamp: UTime,
    /// The name that the command gives it.
    pub name: String,
    /// The changes, by section and option.
    pub changes: BTreeMap<(Section, String), Change>,
}

/// The history of the configuration database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigLog {
    sets: VecDeque<ChangeSet>,
}

impl Default for ConfigLog {
    /// As in Ceph, version 1 is the empty database.
    fn default() -> Self {
        Self { sets: VecDeque::from([ChangeSet { version: 1, ..ChangeSet::default() }]) }
    }
}

impl ConfigLog {
    /// Restores saved versions, oldest first. Returns `None` if they are not numbered consecutively.
    pub fn from_sets(sets: Vec<ChangeSet>) -> Option<Self> {
        let numbered = sets.windows(2).all(|pair| pair[0].version.checked_add(1) == Some(pair[1].version));
        (numbered && !sets.is_empty()).then(|| Self { sets: sets.into() })
    }

    /// All versions kept, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &ChangeSet> {
        self.sets.iter()
    }

    /// The newest version.
    pub fn version(&self) -> u64 {
        self.sets.back().map_or(1, |set| set.version)
    }

    /// Whether the database can be reset to that version.
    pub fn reaches(&self, version: u64) -> bool {
        let oldest = self.sets.front().map_or(1, |set| set.version);
        version <= self.version() && version + 1 >= oldest
    }

    /// Adds a version. Changes without effect are left out. If none remains, adds no version and returns
    /// `false`.
    pub fn push(
        &mut self,
        stamp: UTime,
        name: String,
        mut changes: BTreeMap<(Section, String), Change>,
    ) -> bool {
        changes.retain(|_, change| change.old != change.new);
        if changes.is_empty() {
            return false;
        }
        self.sets.push_back(ChangeSet { version: self.version() + 1, stamp, name, changes });
        while self.sets.len() > KEPT_MAX {
            self.sets.pop_front();
        }
        true
    }

    /// The changes that reset the database to a version.
    pub fn way_back(&self, db: &ConfigDb, version: u64) -> BTreeMap<(Section, String), Change> {
        let mut wanted: BTreeMap<&(Section, String), &Option<String>> = BTreeMap::new();
        for set in self.sets.iter().rev().take_while(|set| set.version > version) {
            wanted.extend(set.changes.iter().map(|(key, change)| (key, &change.old)));
        }
        let change = |(key, new): (&(Section, String), &Option<String>)| {
            let old = db.stored(&key.0, &key.1).map(str::to_owned);
            (key.clone(), Change { old, new: new.clone() })
        };
        wanted.into_iter().map(change).collect()
    }
}
