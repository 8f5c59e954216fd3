//! The names of a directory that this client knows, in the order of listings.
//!
//! A name is believed by its lease, or because the directory's Fs is held. Of a *complete* directory all
//! names are known: one that is not does not exist, and a listing needs no server. A listing from the first
//! name to the last makes a directory complete, if Fs was held all the time and no name left this memory
//! meanwhile; and so does a server's word that the directory is empty. Names that come and go by requests of
//! this client are taken over in the order of the server's replies.

use std::borrow::Borrow;
use std::cmp;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use loligo_fs_core::dir::Completeness;
use loligo_maps::ObjectHash;
use loligo_wire::message::mds::Frag;

use super::hot::{Cool, Tenure, Vouch};
use super::id::InodeId;
use super::lease::Lease;
use super::trust::Trust;

/// A name in a directory, as a server told it.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) id: InodeId,
    /// The server's promise to tell of a change; none if the directory's Fs is one.
    pub(crate) lease: Option<Lease>,
}

/// Where a name is in a listing: by its hash, then by itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    hash: u32,
    name: Box<[u8]>,
}

/// A key, or what finds one without a copy of the name.
trait Place {
    fn place(&self) -> (u32, &[u8]);
}

impl Place for Key {
    fn place(&self) -> (u32, &[u8]) {
        (self.hash, &self.name)
    }
}

impl Place for (u32, &[u8]) {
    fn place(&self) -> (u32, &[u8]) {
        *self
    }
}

impl<'a> Borrow<dyn Place + 'a> for Key {
    fn borrow(&self) -> &(dyn Place + 'a) {
        self
    }
}

impl PartialEq for dyn Place + '_ {
    fn eq(&self, other: &Self) -> bool {
        self.place() == other.place()
    }
}

impl Eq for dyn Place + '_ {}

impl PartialOrd for dyn Place + '_ {
    fn partial_cmp(&self, other: &Self) -> Option<cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for dyn Place + '_ {
    fn cmp(&self, other: &Self) -> cmp::Ordering {
        self.place().cmp(&other.place())
    }
}

/// A known name with its hash, and what it means.
pub(crate) type Named = (u32, Vec<u8>, InodeId);

/// Names that follow one another in a listing.
#[derive(Debug)]
pub(crate) struct NamePage {
    pub(crate) names: Vec<Named>,
    /// The directory ends with them.
    pub(crate) is_last: bool,
}

/// The names of one directory. See the [module](self).
pub(crate) struct Names {
    all: BTreeMap<Key, Entry>,
    pub(super) hash: ObjectHash,
    pub(super) completeness: Completeness,
    /// Those that were looked up, once one was, and the tenure of Fs that vouches for some of them.
    hot: Option<Arc<dyn Cool>>,
    tenure: Option<Arc<Tenure>>,
    /// Counts the names of all directories.
    count: Arc<AtomicUsize>,
}

impl Names {
    /// Creates the memory of a directory without names, which counts them with those of others.
    pub(crate) fn new(count: Arc<AtomicUsize>) -> Self {
        let completeness = Completeness::default();
        Self { all: BTreeMap::new(), hash: ObjectHash::LINUX, completeness, hot: None, tenure: None, count }
    }

    /// Returns the hash function of the names.
    pub(crate) fn hash(&self) -> ObjectHash {
        self.hash
    }

    /// Returns a name's hash: servers order and divide a directory by the hashes of its names.
    pub(crate) fn hash_of(&self, name: &[u8]) -> u32 {
        self.hash.of(b"", name) & Frag::HASH_MASK
    }

    /// Returns `true` if no name is known.
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Returns what a name means, as far as is known; it need not be true any more.
    pub(crate) fn get(&self, name: &[u8]) -> Option<&Entry> {
        let key = (self.hash_of(name), name);
        self.all.get(&key as &dyn Place)
    }

    /// Returns names that follow a place in the order of listings, with what they mean: those of the place's
    /// hash that come after its name, if it has one.
    pub(crate) fn after(
        &self,
        (hash, name): (u32, Option<&[u8]>),
    ) -> impl Iterator<Item = (u32, &[u8], &Entry)> {
        let key = (hash, name.unwrap_or_default());
        let place = &key as &dyn Place;
        // No name is empty.
        let from = if name.is_some() { Bound::Excluded(place) } else { Bound::Included(place) };
        let rest = self.all.range::<dyn Place + '_, _>((from, Bound::Unbounded));
        rest.map(|(key, entry)| (key.hash, &*key.name, entry))
    }

    pub(super) fn insert(&mut self, name: &[u8], entry: Entry) {
        let key = (self.hash_of(name), name);
        if let Some(known) = self.all.get_mut(&key as &dyn Place) {
            *known = entry;
            self.cool(name);
            return;
        }
        self.all.insert(Key { hash: key.0, name: name.into() }, entry);
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn remove(&mut self, name: &[u8]) -> bool {
        let key = (self.hash_of(name), name);
        let is_removed = self.all.remove(&key as &dyn Place).is_some();
        self.count.fetch_sub(usize::from(is_removed), Ordering::Relaxed);
        if is_removed {
            self.cool(name);
        }
        is_removed
    }

    /// Has the next lookup of a name ask under the lock.
    fn cool(&self, name: &[u8]) {
        if let Some(hot) = &self.hot {
            hot.forget(name);
        }
    }

    /// Has names leave this, too, when they mean something else.
    pub(super) fn cools(&mut self, hot: &Arc<impl Cool + 'static>) {
        self.hot.get_or_insert_with(|| Arc::clone(hot) as Arc<dyn Cool>);
    }

    /// Returns what vouches for a name if it means an inode: its lease, or Fs in these sessions.
    pub(super) fn vouch(&mut self, name: &[u8], id: InodeId, trusts: Vec<Arc<Trust>>) -> Option<Vouch> {
        let entry = self.get(name).filter(|entry| entry.id == id)?;
        Some(match entry.lease.clone() {
            Some(lease) => Vouch::Lease(lease),
            None => Vouch::Tenure(self.tenure_of(trusts)),
        })
    }

    /// Returns the tenure of Fs in these sessions: a new one, if that before was of other generations.
    fn tenure_of(&mut self, trusts: Vec<Arc<Trust>>) -> Arc<Tenure> {
        if self.tenure.as_ref().is_some_and(|tenure| !tenure.is_of(&trusts)) {
            self.end_tenure();
        }
        Arc::clone(self.tenure.get_or_insert_with(|| Tenure::new(trusts)))
    }

    /// The tenure of Fs that lookups rely on.
    pub(super) fn tenure(&self) -> Option<&Arc<Tenure>> {
        self.tenure.as_ref()
    }

    /// Ends the tenure of Fs, if there is one.
    pub(super) fn end_tenure(&mut self) {
        if let Some(tenure) = self.tenure.take() {
            tenure.end();
        }
    }

    pub(super) fn retain(&mut self, keeps: impl Fn(&Entry) -> bool) {
        let before = self.all.len();
        self.all.retain(|_, entry| keeps(entry));
        self.count.fetch_sub(before - self.all.len(), Ordering::Relaxed);
        self.end_tenure();
        if let Some(hot) = &self.hot {
            hot.clear();
        }
    }
}

impl Drop for Names {
    fn drop(&mut self) {
        self.count.fetch_sub(self.all.len(), Ordering::Relaxed);
    }
}
