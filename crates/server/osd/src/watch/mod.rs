//! Watches on objects, and the notifications in progress.
//!
//! A watch is stored in an attribute of its object, so that it survives a restart of the OSD.
//! Connections of watchers and notifications in progress are kept only here. An operation collects its
//! effects on watches ([`Effects`]). The slot applies them under its lock once the request has
//! succeeded, and sends the resulting messages after that.
//!
//! The watch of a client that is silent for longer than its timeout is removed: the OSD's
//! [`Clock`](crate::clock::Clock) wakes the slot, and the slot submits a request of its own for each
//! removal.

mod load;
mod notify;
pub(crate) mod record;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use az::SaturatingAs as _;
use bytes::Bytes;
use loligo_store::{ObjectName, ObjectRef};
use loligo_wire::EntityAddr;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::asker::Asker;
pub(crate) use load::{Load, Pending, notify_bytes};
use notify::Notify;
pub(crate) use notify::Outgoing;
pub use record::is_watch;

/// A watch's identity: the client's cookie for the watch, and its global id. Ordered as Ceph lists them.
pub(crate) type WatchKey = (u64, u64);

/// The watchers of one object.
pub(crate) type Watchers = BTreeMap<WatchKey, Watch>;

/// One watch.
pub(crate) struct Watch {
    /// Seconds of silence after which the watch ends.
    pub(crate) timeout_s: u32,
    /// The client's address when it registered.
    pub(crate) addr: EntityAddr,
    /// Its connection, if it has one.
    conn: Option<Arc<dyn Asker>>,
    /// Whether the client has promised to send pings.
    pings: bool,
    /// When the watch ends unless the client is heard; `None` if it is connected and sends no pings.
    deadline: Option<Instant>,
    /// Notifications it has not answered.
    unanswered: BTreeSet<u64>,
}

/// Facts about a watch, for reports.
#[derive(Clone, Debug)]
pub struct WatchFacts {
    /// The object.
    pub object: ObjectName,
    /// The client's global id.
    pub client: u64,
    /// The client's cookie for the watch.
    pub cookie: u64,
    /// Seconds the client may be silent.
    pub timeout_s: u32,
    /// The client's address when it registered.
    pub addr: EntityAddr,
}

/// The effects of a request on watches if it succeeds.
pub(crate) struct Effects {
    pub(crate) object: ObjectName,
    /// Watches that end, and whether their clients are notified.
    pub(crate) ended: Vec<(WatchKey, bool)>,
    pub(crate) connected: Vec<Connected>,
    pub(crate) pinged: Vec<WatchKey>,
    pub(crate) notified: Vec<Notified>,
    pub(crate) answered: Vec<Answered>,
    /// The load that `notified` and `answered` will add.
    pub(crate) pending: Pending,
    /// All watches that existed before the request are in `ended`.
    pub(crate) all_end: bool,
}

impl Effects {
    pub(crate) fn on(object: ObjectName) -> Self {
        let (ended, connected, pinged) = (Vec::new(), Vec::new(), Vec::new());
        let (notified, answered, pending) = (Vec::new(), Vec::new(), Pending::default());
        Self { object, ended, connected, pinged, notified, answered, pending, all_end: false }
    }
}

/// A watch that the request's sender has registered or registered again.
pub(crate) struct Connected {
    pub(crate) key: WatchKey,
    pub(crate) timeout_s: u32,
    pub(crate) addr: EntityAddr,
    pub(crate) pings: bool,
}

/// A notification to all watchers.
pub(crate) struct Notified {
    pub(crate) id: u64,
    pub(crate) cookie: u64,
    pub(crate) client: u64,
    pub(crate) timeout_s: u32,
    pub(crate) payload: Bytes,
    /// The object's version.
    pub(crate) version: u64,
}

/// A watcher's reply to a notification.
pub(crate) struct Answered {
    pub(crate) id: u64,
    pub(crate) client: u64,
    /// `None` from old clients, which do not say which of their watches replies.
    pub(crate) cookie: Option<u64>,
    pub(crate) reply: Bytes,
}

/// Messages to be packed and sent after the lock is released.
pub(crate) type Outbox = Vec<(Arc<dyn Asker>, Outgoing)>;

/// A watch that must be removed.
pub(crate) type Expired = (ObjectName, WatchKey);

/// The watches and notifications of a placement group.
#[derive(Default)]
pub(crate) struct Watches {
    objects: FxHashMap<Box<[u8]>, Watched>,
    notifies: BTreeMap<u64, Notify>,
    /// The watches of each connection, by the connection's number.
    by_conn: FxHashMap<u64, FxHashSet<Place>>,
    /// Nothing is due before this time.
    due: Option<Instant>,
    /// Counts the watches and notifications.
    load: Arc<Load>,
}

impl Drop for Watches {
    fn drop(&mut self) {
        for (object, watched) in &self.objects {
            watched.watchers.keys().for_each(|(_, client)| self.load.unwatch(*client, object.len()));
        }
        self.notifies.values().for_each(|notify| self.load.done(notify.bytes));
    }
}

/// An object, as a table key, and one of its watches.
type Place = (Box<[u8]>, WatchKey);

struct Watched {
    name: ObjectName,
    watchers: Watchers,
}

impl Watches {
    /// Creates an empty table that counts in `load`.
    pub(crate) fn new(load: Arc<Load>) -> Self {
        let mut watches = Self::default();
        watches.load = load;
        watches
    }

    /// The load of all placement groups.
    pub(crate) fn load(&self) -> &Arc<Load> {
        &self.load
    }

    /// All watches, in arbitrary order.
    pub(crate) fn all(&self) -> Vec<WatchFacts> {
        let of = |watched: &Watched| {
            let watch = |((cookie, client), watcher): (&WatchKey, &Watch)| WatchFacts {
                object: watched.name.clone(),
                client: *client,
                cookie: *cookie,
                timeout_s: watcher.timeout_s,
                addr: watcher.addr,
            };
            watched.watchers.iter().map(watch).collect::<Vec<_>>()
        };
        self.objects.values().flat_map(of).collect()
    }

    /// The loaded watchers of an object, if there are any.
    pub(crate) fn of(&self, oid: ObjectRef<'_>) -> Option<&Watchers> {
        if self.objects.is_empty() {
            return None;
        }
        self.objects.get(&*key_of(oid)).map(|watched| &watched.watchers)
    }

    /// Inserts watches that the store has kept from before a restart. Their clients have the whole
    /// timeout to reconnect.
    pub(crate) fn insert(
        &mut self,
        oid: ObjectRef<'_>,
        found: Vec<(WatchKey, u32, EntityAddr)>,
        now: Instant,
    ) {
        let Ok(name) = ObjectName::new(oid) else { return };
        found.iter().for_each(|(_, timeout_s, _)| self.note(now + seconds(*timeout_s)));
        let object = key_of(oid);
        found.iter().for_each(|((_, client), _, _)| self.load.watch(*client, object.len()));
        let watchers = found.into_iter().map(|(key, timeout_s, addr)| {
            let deadline = Some(now + seconds(timeout_s));
            (key, Watch { timeout_s, addr, conn: None, pings: true, deadline, unanswered: BTreeSet::new() })
        });
        self.objects.insert(object, Watched { name, watchers: watchers.collect() });
    }

    /// Applies the effects of a request received on `conn`.
    pub(crate) fn apply(&mut self, effects: Effects, conn: &Arc<dyn Asker>, now: Instant) -> Outbox {
        let mut out = Outbox::new();
        let oid = effects.object.as_ref();
        for (key, tell) in effects.ended {
            self.end(oid, key, tell, &mut out);
        }
        for connected in effects.connected {
            self.connect(oid, connected, conn, now, &mut out);
        }
        for key in effects.pinged {
            if let Some(watch) = self.watch(oid, key) {
                watch.deadline = Some(now + seconds(watch.timeout_s));
            }
        }
        for notified in effects.notified {
            self.notify(oid, notified, conn, now, &mut out);
        }
        for answered in effects.answered {
            self.answer(oid, &answered, &mut out);
        }
        out
    }

    fn watch(&mut self, oid: ObjectRef<'_>, key: WatchKey) -> Option<&mut Watch> {
        self.objects.get_mut(&*key_of(oid))?.watchers.get_mut(&key)
    }

    fn end(&mut self, oid: ObjectRef<'_>, key: WatchKey, tell: bool, out: &mut Outbox) {
        let object = key_of(oid);
        let Some(watched) = self.objects.get_mut(&object) else { return };
        let Some(watch) = watched.watchers.remove(&key) else { return };
        self.load.unwatch(key.1, object.len());
        if watched.watchers.is_empty() {
            self.objects.remove(&object);
        }
        if let Some(conn) = watch.conn {
            self.forget_at(conn.id(), &object, key);
            if tell {
                out.push((conn, Outgoing::Disconnect { cookie: key.0 }));
            }
        }
        for id in watch.unanswered {
            self.settle(id, key, None, out);
        }
    }

    fn connect(
        &mut self,
        oid: ObjectRef<'_>,
        new: Connected,
        conn: &Arc<dyn Asker>,
        now: Instant,
        out: &mut Outbox,
    ) {
        let object = key_of(oid);
        let Ok(name) = ObjectName::new(oid) else { return };
        let watched = self.objects.entry(object.clone());
        let watched = watched.or_insert_with(|| Watched { name, watchers: Watchers::new() });
        let watch = watched.watchers.entry(new.key).or_insert_with(|| {
            self.load.watch(new.key.1, object.len());
            Watch {
                timeout_s: new.timeout_s,
                addr: new.addr,
                conn: None,
                pings: new.pings,
                deadline: None,
                unanswered: BTreeSet::new(),
            }
        });
        if watch.conn.as_ref().is_some_and(|old| old.id() == conn.id()) {
            return;
        }
        watch.pings = new.pings;
        watch.deadline = new.pings.then(|| now + seconds(watch.timeout_s));
        let deadline = watch.deadline;
        for id in &watch.unanswered {
            if let Some(notify) = self.notifies.get(id) {
                out.push((Arc::clone(conn), notify.told(new.key.0)));
            }
        }
        let old = watch.conn.replace(Arc::clone(conn));
        if let Some(old) = old {
            self.forget_at(old.id(), &object, new.key);
        }
        deadline.into_iter().for_each(|deadline| self.note(deadline));
        self.by_conn.entry(conn.id()).or_default().insert((object, new.key));
    }

    /// Handles the loss of a connection: its watches wait for their clients to reconnect.
    pub(crate) fn lost(&mut self, conn: u64, now: Instant) {
        let mut soonest = None;
        for (object, key) in self.by_conn.remove(&conn).unwrap_or_default() {
            let watch = self.objects.get_mut(&object).and_then(|watched| watched.watchers.get_mut(&key));
            let Some(watch) = watch.filter(|w| w.conn.as_ref().is_some_and(|c| c.id() == conn)) else {
                continue;
            };
            watch.conn = None;
            if watch.deadline.is_none() {
                watch.deadline = Some(now + seconds(watch.timeout_s));
                soonest = [soonest, watch.deadline].into_iter().flatten().min();
            }
        }
        soonest.into_iter().for_each(|deadline| self.note(deadline));
    }

    fn forget_at(&mut self, conn: u64, object: &[u8], key: WatchKey) {
        if let Some(watches) = self.by_conn.get_mut(&conn) {
            watches.remove(&(Box::from(object), key));
            if watches.is_empty() {
                self.by_conn.remove(&conn);
            }
        }
    }

    /// Returns the watches whose deadline has passed, and the completions of timed-out notifications.
    /// The deadline of a returned watch is put off by one second.
    pub(crate) fn expire(&mut self, now: Instant) -> (Vec<Expired>, Outbox) {
        let mut out = Outbox::new();
        let late: Vec<u64> =
            self.notifies.iter().filter(|(_, n)| n.deadline <= now).map(|(id, _)| *id).collect();
        late.into_iter().for_each(|id| self.time_out(id, &mut out));
        let mut expired = Vec::new();
        for watched in self.objects.values_mut() {
            for (key, watch) in &mut watched.watchers {
                if watch.deadline.is_some_and(|deadline| deadline <= now) {
                    // If its removal fails, it is tried again.
                    watch.deadline = Some(now + Duration::from_secs(1));
                    expired.push((watched.name.clone(), *key));
                }
            }
        }
        let watches = self.objects.values().flat_map(|watched| watched.watchers.values());
        let deadlines = watches.filter_map(|watch| watch.deadline);
        self.due = deadlines.chain(self.notifies.values().map(|notify| notify.deadline)).min();
        (expired, out)
    }

    /// The watches whose client's address satisfies `is_blocked`.
    pub(crate) fn blocked(&self, is_blocked: impl Fn(EntityAddr) -> bool) -> Vec<Expired> {
        let of = |watched: &Watched| {
            let blocked = watched.watchers.iter().filter(|(_, watch)| is_blocked(watch.addr));
            blocked.map(|(key, _)| (watched.name.clone(), *key)).collect::<Vec<_>>()
        };
        self.objects.values().flat_map(of).collect()
    }

    /// A time before which nothing is due; `None` if nothing ever is.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.due
    }

    fn note(&mut self, deadline: Instant) {
        self.due = Some(self.due.map_or(deadline, |due| due.min(deadline)));
    }
}

impl Watch {
    pub(crate) fn is_connected(&self) -> bool {
        self.conn.is_some()
    }
}

fn seconds(n: u32) -> Duration {
    Duration::from_secs(n.into())
}

/// The table key of an object: the lengths of its namespace and locator key, then its parts.
fn key_of(oid: ObjectRef<'_>) -> Box<[u8]> {
    let lens = [oid.nspace.len().saturating_as::<u32>(), oid.key.len().saturating_as::<u32>()]
        .map(u32::to_le_bytes)
        .concat();
    [&lens, oid.nspace, oid.key, oid.name].concat().into_boxed_slice()
}

#[cfg(test)]
mod tests;
