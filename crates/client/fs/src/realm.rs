//! Snapshot realms: which snapshots a file is in, and so what a write must preserve.

use std::collections::{BTreeMap, BTreeSet};

use loligo_lockstat::{Class, Mutex};
use loligo_wire::message::mds::SnapRealmInfo;
use loligo_wire::{Ino, SnapId};

/// Held to take a realm over from a message, and to compute a context.
static REALMS: Class = Class::new("fs.realms");

/// Realms above one another at most: a longer chain is a circle.
const DEPTH_MAX: usize = 256;

/// A snapshot context: the newest snapshot, and all snapshots, newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Context {
    pub(crate) seq: SnapId,
    pub(crate) snaps: Vec<SnapId>,
}

/// All realms that the servers told of.
pub(crate) struct Realms(Mutex<BTreeMap<Ino, Realm>>);

#[derive(Clone, Debug)]
struct Realm {
    seq: SnapId,
    parent: Ino,
    parent_since: SnapId,
    snaps: Vec<SnapId>,
    prior: Vec<SnapId>,
}

impl Realms {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(&REALMS, BTreeMap::new()))
    }

    /// Takes realms over: those of one message, from the lowest up. Returns the realms whose snapshots
    /// have changed, with those below them.
    pub(crate) fn take(&self, infos: &[SnapRealmInfo]) -> BTreeSet<Ino> {
        let mut realms = self.0.lock();
        let mut changed = BTreeSet::new();
        for info in infos {
            let newer = realms.get(&info.ino).is_none_or(|known| info.seq > known.seq);
            let moved = realms
                .get(&info.ino)
                .is_some_and(|known| (known.parent, known.parent_since) != (info.parent, info.parent_since));
            if newer || moved {
                let realm = Realm {
                    seq: info.seq,
                    parent: info.parent,
                    parent_since: info.parent_since,
                    snaps: info.snaps.clone(),
                    prior: info.prior_parent_snaps.clone(),
                };
                if realms.insert(info.ino, realm).is_some() {
                    changed.insert(info.ino);
                }
            }
        }
        let below: Vec<Ino> = realms
            .keys()
            .copied()
            .filter(|ino| above(&realms, *ino).any(|up| changed.contains(&up)))
            .collect();
        changed.extend(below);
        changed
    }

    /// Returns the context of writes to files of a realm.
    pub(crate) fn context(&self, ino: Ino) -> Context {
        let realms = self.0.lock();
        context_of(&realms, ino, DEPTH_MAX)
    }
}

/// Returns the realms above one, and itself.
fn above(realms: &BTreeMap<Ino, Realm>, ino: Ino) -> impl Iterator<Item = Ino> {
    let up = move |at: &Ino| realms.get(at).map(|realm| realm.parent).filter(|parent| parent.0 != 0);
    std::iter::successors(Some(ino), up).take(DEPTH_MAX)
}

fn context_of(realms: &BTreeMap<Ino, Realm>, ino: Ino, depth: usize) -> Context {
    let Some(realm) = realms.get(&ino).filter(|_| depth > 0) else { return Context::default() };
    let mut snaps: BTreeSet<SnapId> = realm.snaps.iter().chain(&realm.prior).copied().collect();
    let mut seq = realm.seq;
    if realm.parent.0 != 0 {
        let parent = context_of(realms, realm.parent, depth - 1);
        snaps.extend(parent.snaps.into_iter().filter(|snap| *snap >= realm.parent_since));
        seq = seq.max(parent.seq);
    }
    // The newest snapshot is one of the context, or older than it.
    let seq = snaps.last().map_or(seq, |newest| seq.max(*newest));
    Context { seq, snaps: snaps.into_iter().rev().collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(ino: u64, parent: u64, since: u64, seq: u64, snaps: &[u64]) -> SnapRealmInfo {
        SnapRealmInfo {
            ino: Ino(ino),
            parent: Ino(parent),
            parent_since: SnapId(since),
            seq: SnapId(seq),
            snaps: snaps.iter().map(|snap| SnapId(*snap)).collect(),
            ..SnapRealmInfo::default()
        }
    }

    fn context(realms: &Realms, ino: u64) -> (u64, Vec<u64>) {
        let Context { seq, snaps } = realms.context(Ino(ino));
        (seq.0, snaps.iter().map(|snap| snap.0).collect())
    }

    #[test]
    fn a_realm_has_its_own_snapshots_and_its_parents() {
        let realms = Realms::new();
        assert!(realms.take(&[info(16, 1, 3, 7, &[7, 4]), info(1, 0, 0, 6, &[6, 5, 2])]).is_empty());
        assert_eq!(context(&realms, 16), (7, vec![7, 6, 5, 4]));
        assert_eq!(context(&realms, 1), (6, vec![6, 5, 2]));
        assert_eq!(context(&realms, 99), (0, vec![]));
    }

    #[test]
    fn a_new_snapshot_concerns_the_realms_below() {
        let realms = Realms::new();
        realms.take(&[info(16, 1, 0, 1, &[]), info(17, 0, 0, 1, &[]), info(1, 0, 0, 1, &[])]);
        let changed = realms.take(&[info(1, 0, 0, 9, &[9])]);
        assert_eq!(changed, [Ino(1), Ino(16)].into());
        assert_eq!(context(&realms, 16), (9, vec![9]));
        assert!(realms.take(&[info(1, 0, 0, 8, &[])]).is_empty(), "an older message");
    }

    #[test]
    fn a_circle_of_realms_ends() {
        let realms = Realms::new();
        realms.take(&[info(16, 17, 0, 1, &[1]), info(17, 16, 0, 2, &[2])]);
        assert_eq!(context(&realms, 16), (2, vec![2, 1]));
    }
}
