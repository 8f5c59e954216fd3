//! Snapshot realms: which snapshots a file is in, and so what a write must preserve.

use std::collections::BTreeSet;

use loligo_fs_core::realm::{Changed, RealmInfo};
use loligo_lockstat::{Class, RwLock};
use loligo_wire::message::mds::SnapRealmInfo;
use loligo_wire::{Ino, SnapContext};

/// Held to take a realm over from a message, and to compute a context.
static REALMS: Class = Class::new("fs.realms");

/// Realms that are kept without looking whether they are used.
const KEPT: usize = 4096;

/// All realms that the servers told of.
pub(crate) struct Realms(RwLock<State>);

struct State {
    realms: loligo_fs_core::realm::Realms,
    /// Those that messages have named since the last sweep: an inode may be about to learn of them.
    named: BTreeSet<Ino>,
}

impl Realms {
    pub(crate) fn new() -> Self {
        let realms = loligo_fs_core::realm::Realms::new();
        Self(RwLock::new(&REALMS, State { realms, named: BTreeSet::new() }))
    }

    /// Takes realms over: those of one message. Returns the realms whose context has changed.
    pub(crate) fn take(&self, infos: &[SnapRealmInfo]) -> Vec<Changed> {
        if infos.is_empty() {
            return Vec::new();
        }
        let trace = infos.iter().map(info_of).collect();
        let mut state = self.0.write();
        state.named.extend(infos.iter().map(|info| info.ino));
        state.realms.update(trace)
    }

    /// A directory has become a realm: the named realms are below it now.
    pub(crate) fn split(&self, realm: Ino, below: &[Ino]) -> Vec<Changed> {
        self.0.write().realms.split(realm, below)
    }

    /// Returns `true` if a split moves an inode from one realm to the other.
    pub(crate) fn takes(&self, from: Ino, to: Ino) -> bool {
        self.0.read().realms.takes(from, to)
    }

    /// Returns a realm, and those above it.
    pub(crate) fn with_parents(&self, ino: Ino) -> Vec<Ino> {
        self.0.read().realms.with_parents(ino)
    }

    /// Returns the context of writes to files of a realm.
    pub(crate) fn context(&self, realm: Ino) -> SnapContext {
        self.0.read().realms.context(realm)
    }

    /// Forgets realms that no inode is in, if there are many. `used` names those that inodes are in, and is
    /// called without a lock.
    pub(crate) fn sweep(&self, used: impl FnOnce() -> BTreeSet<Ino>) {
        let is_crowded = {
            let mut state = self.0.write();
            let is_crowded = state.realms.len() > KEPT;
            if !is_crowded {
                state.named.clear();
            }
            is_crowded
        };
        if is_crowded {
            let mut kept = used();
            let mut state = self.0.write();
            kept.append(&mut state.named);
            state.realms.retain(&kept);
        }
    }
}

fn info_of(info: &SnapRealmInfo) -> RealmInfo {
    RealmInfo {
        ino: info.ino,
        created: info.created,
        parent: info.parent,
        parent_since: info.parent_since,
        seq: info.seq,
        snaps: info.snaps.clone(),
        prior: info.prior_parent_snaps.clone(),
    }
}

#[cfg(test)]
mod tests {
    use loligo_wire::SnapId;

    use super::*;

    #[test]
    fn many_realms_that_nothing_is_in_are_forgotten() {
        let realms = Realms::new();
        let info = |ino: u64| SnapRealmInfo {
            ino: Ino(ino),
            parent: Ino(u64::from(ino != 1)),
            seq: SnapId(ino),
            snaps: vec![SnapId(ino)],
            ..SnapRealmInfo::default()
        };
        realms.take(&(1..10_000).map(info).collect::<Vec<_>>());
        // What was named lately stays: an inode may be about to learn of it.
        realms.sweep(BTreeSet::new);
        assert_eq!(realms.context(Ino(9_000)).newest(), SnapId(9_000));
        realms.sweep(|| [Ino(5_000)].into());
        assert_eq!(realms.context(Ino(5_000)).snaps, [SnapId(5_000), SnapId(1)], "with the one above");
        assert_eq!(realms.context(Ino(9_000)).snaps, []);
    }

    #[test]
    fn a_message_tells_of_realms_and_their_snapshots() {
        let realms = Realms::new();
        let info = |ino: u64, parent: u64, since: u64, seq: u64, snaps: &[u64]| SnapRealmInfo {
            ino: Ino(ino),
            parent: Ino(parent),
            parent_since: SnapId(since),
            seq: SnapId(seq),
            snaps: snaps.iter().map(|snap| SnapId(*snap)).collect(),
            prior_parent_snaps: vec![SnapId(2)],
            ..SnapRealmInfo::default()
        };
        realms.take(&[info(16, 1, 3, 7, &[7, 4]), info(1, 0, 0, 6, &[6, 5])]);
        let SnapContext { seq, snaps } = realms.context(Ino(16));
        assert_eq!((seq, snaps), (SnapId(7), [7, 6, 5, 4, 2].map(SnapId).to_vec()));
        let changed = realms.take(&[info(1, 0, 0, 9, &[9])]);
        assert_eq!(changed.iter().map(|realm| realm.realm).collect::<Vec<_>>(), [Ino(1), Ino(16)]);
        assert_eq!(realms.context(Ino(16)).newest(), SnapId(9));
    }
}
