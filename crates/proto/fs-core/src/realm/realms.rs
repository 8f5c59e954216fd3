//! The tree of realms.

use std::collections::{BTreeMap, BTreeSet};

use loligo_types::{Ino, SnapContext, SnapId};

/// What a message tells of a realm.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RealmInfo {
    /// The directory.
    pub ino: Ino,
    /// The snapshot number at which the realm was created.
    pub created: SnapId,
    /// The realm above.
    pub parent: Ino,
    /// The snapshot number at which `parent` became the realm above.
    pub parent_since: SnapId,
    /// The newest snapshot number of which the realm has heard.
    pub seq: SnapId,
    /// The realm's own snapshots.
    pub snaps: Vec<SnapId>,
    /// The snapshots of realms that were above before.
    pub prior: Vec<SnapId>,
}

/// A realm whose context has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    /// The realm.
    pub realm: Ino,
    /// The context before.
    pub old: SnapContext,
    /// The context from now on.
    pub new: SnapContext,
}

/// The realms that a client knows.
#[derive(Clone, Debug, Default)]
pub struct Realms {
    realms: BTreeMap<Ino, RealmInfo>,
}

impl Realms {
    /// No realms.
    pub fn new() -> Self {
        Self::default()
    }

    /// The number of realms.
    pub fn len(&self) -> usize {
        self.realms.len()
    }

    /// Whether there is no realm.
    pub fn is_empty(&self) -> bool {
        self.realms.is_empty()
    }

    /// Takes the realms of a message, and returns those whose context has changed: the named ones and all
    /// below them. What is older than what is known is ignored.
    pub fn update(&mut self, trace: Vec<RealmInfo>) -> Vec<Changed> {
        // Most messages repeat what is known.
        if trace.iter().all(|info| self.realms.get(&info.ino) == Some(info)) {
            return Vec::new();
        }
        // New realms change nothing for those that are known, unless one of them was below before.
        let is_new = |info: &RealmInfo| !self.realms.contains_key(&info.ino);
        if trace.iter().all(|info| is_new(info) || self.realms.get(&info.ino) == Some(info)) {
            let news: BTreeSet<Ino> = trace.iter().map(|info| info.ino).collect();
            let was_awaited = self
                .realms
                .values()
                .any(|known| news.contains(&known.parent) && !self.realms.contains_key(&known.parent));
            if !was_awaited {
                self.realms.extend(trace.into_iter().map(|info| (info.ino, info)));
                return Vec::new();
            }
        }
        self.change(|realms| {
            for info in trace {
                let is_old = realms.get(&info.ino).is_some_and(|known| known.seq > info.seq);
                if !is_old {
                    realms.insert(info.ino, info);
                }
            }
        })
    }

    /// A directory has become a realm (`CEPH_SNAP_OP_SPLIT`): the named realms are below it now. The trace
    /// of the same message must have been applied. The owner moves inodes by [`Realms::takes`].
    pub fn split(&mut self, realm: Ino, below: &[Ino]) -> Vec<Changed> {
        self.change(|realms| {
            for ino in below.iter().filter(|ino| **ino != realm) {
                if let Some(moved) = realms.get_mut(ino) {
                    moved.parent = realm;
                }
            }
        })
    }

    /// Whether a split moves an inode from realm `from` to realm `to`. It does not if `from` is newer: then
    /// the message is older than what is known.
    pub fn takes(&self, from: Ino, to: Ino) -> bool {
        match (self.realms.get(&from), self.realms.get(&to)) {
            (Some(from), Some(to)) => from.created <= to.created,
            (None, Some(_)) => true,
            (_, None) => false,
        }
    }

    /// A realm, and those above it.
    pub fn with_parents(&self, realm: Ino) -> Vec<Ino> {
        let (mut all, mut seen) = (Vec::new(), BTreeSet::new());
        let mut next = Some(realm);
        // A circle of realms ends at the first one that was seen already.
        while let Some(ino) = next.filter(|ino| seen.insert(*ino)) {
            all.push(ino);
            next = self.realms.get(&ino).map(|info| info.parent).filter(|parent| parent.0 != 0);
        }
        all
    }

    /// The snapshot context of writes in a realm; an empty one if the realm is not known.
    pub fn context(&self, realm: Ino) -> SnapContext {
        let mut context = SnapContext::default();
        let mut snaps = BTreeSet::new();
        let mut seen = BTreeSet::new();
        // Snapshots older than this belong to other places: the way up was another one then.
        let mut since = SnapId(0);
        let mut next = Some(realm);
        // A circle of realms ends at the first one that was seen already.
        while let Some(info) = next.filter(|ino| seen.insert(*ino)).and_then(|ino| self.realms.get(&ino)) {
            snaps.extend(info.snaps.iter().chain(&info.prior).filter(|snap| **snap >= since));
            context.seq = context.seq.max(info.seq);
            since = since.max(info.parent_since);
            next = (info.parent.0 != 0).then_some(info.parent);
        }
        context.snaps = snaps.into_iter().rev().collect();
        context.seq = context.seq.max(context.newest());
        context
    }

    /// Forgets realms that are neither used nor above a used one.
    pub fn retain(&mut self, used: &BTreeSet<Ino>) {
        let mut kept = BTreeSet::new();
        for realm in used {
            let mut next = Some(*realm);
            while let Some(ino) = next.filter(|ino| kept.insert(*ino)) {
                next = self.realms.get(&ino).map(|info| info.parent);
            }
        }
        self.realms.retain(|ino, _| kept.contains(ino));
    }

    /// Applies a change, and compares all contexts. Realms are few, and change when people take snapshots.
    fn change(&mut self, change: impl FnOnce(&mut BTreeMap<Ino, RealmInfo>)) -> Vec<Changed> {
        let before: BTreeMap<Ino, SnapContext> =
            self.realms.keys().map(|realm| (*realm, self.context(*realm))).collect();
        change(&mut self.realms);
        let compared =
            before.into_iter().map(|(realm, old)| Changed { realm, old, new: self.context(realm) });
        compared.filter(|changed| changed.old != changed.new).collect()
    }
}
