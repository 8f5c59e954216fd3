//! Who watches objects, and what is being notified.
//!
//! A watch is written down in an attribute of its object, so that it outlives the OSD; who is connected and
//! which notifications are on their way is known here only. An operation says what is to be done
//! ([`Effects`]); the slot does it once the request has gone well, under its lock, and sends the messages
//! that come of it after that.
//!
//! A client that is silent for longer than its timeout has its watch removed: the slot is told the time by
//! the OSD's [`Clock`](crate::clock::Clock) and makes a request of its own of each removal.

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

/// A watcher: the client's name for its watch, and its global id. Ordered as Ceph lists them.
pub(crate) type WatchKey = (u64, u64);

/// The watchers of one object.
pub(crate) type Watchers = BTreeMap<WatchKey, Watch>;

/// One watch.
pub(crate) struct Watch {
    /// Seconds without a sign of life until it ends.
    pub(crate) timeout_s: u32,
    /// Where the client was when it registered.
    pub(crate) addr: EntityAddr,
    /// Its connection, if it has one.
    conn: Option<Arc<dyn Asker>>,
    /// Whether it has promised to say that it lives.
    pings: bool,
    /// When it ends if nothing is heard; never, if it is connected and has promised nothing.
    deadline: Option<Instant>,
    /// Notifications that it has not answered.
    unanswered: BTreeSet<u64>,
}

/// What is known of a watch.
#[derive(Clone, Debug)]
pub struct WatchFacts {
    /// The object.
    pub object: ObjectName,
    /// The client's number.
    pub client: u64,
    /// What the client calls the watch.
    pub cookie: u64,
    /// How long the client may be silent.
    pub timeout_s: u32,
    /// Where it was when it registered.
    pub addr: EntityAddr,
}

/// What a request does to watches if it goes well.
pub(crate) struct Effects {
    pub(crate) object: ObjectName,
    /// Watches that end, and whether their clients are told.
    pub(crate) ended: Vec<(WatchKey, bool)>,
    pub(crate) connected: Vec<Connected>,
    pub(crate) pinged: Vec<WatchKey>,
    pub(crate) notified: Vec<Notified>,
    pub(crate) answered: Vec<Answered>,
    /// What the last two come to.
    pub(crate) pending: Pending,
    /// All watches that there were are among those that end.
    pub(crate) all_end: bool,
}

impl Effects {
    pub(crate) fn on(object: ObjectName) -> Self {
        let (ended, connected, pinged) = (Vec::new(), Vec::new(), Vec::new());
        let (notified, answered, pending) = (Vec::new(), Vec::new(), Pending::default());
        Self { object, ended, connected, pinged, notified, answered, pending, all_end: false }
    }
}

/// A watch that the sender of the request has registered, or registered again.
pub(crate) struct Connected {
    pub(crate) key: WatchKey,
    pub(crate) timeout_s: u32,
    pub(crate) addr: EntityAddr,
    pub(crate) pings: bool,
}

/// Something that all watchers are told.
pub(crate) struct Notified {
    pub(crate) id: u64,
    pub(crate) cookie: u64,
    pub(crate) client: u64,
    pub(crate) timeout_s: u32,
    pub(crate) payload: Bytes,
    /// The object's version.
    pub(crate) version: u64,
}

/// A watcher's answer.
pub(crate) struct Answered {
    pub(crate) id: u64,
    pub(crate) client: u64,
    /// Old clients do not say which of their watches answers.
    pub(crate) cookie: Option<u64>,
    pub(crate) reply: Bytes,
}

/// What is to be packed and sent when no lock is held.
pub(crate) type Outbox = Vec<(Arc<dyn Asker>, Outgoing)>;

/// A watch whose time is up.
pub(crate) type Expired = (ObjectName, WatchKey);

/// The watches and notifications of a placement group.
#[derive(Default)]
pub(crate) struct Watches {
    objects: FxHashMap<Box<[u8]>, Watched>,
    notifies: BTreeMap<u64, Notify>,
    /// Which watches are lost with a connection, by its number.
    by_conn: FxHashMap<u64, FxHashSet<Place>>,
    /// Nothing is due before this moment.
    due: Option<Instant>,
    /// Where all of it is counted.
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

/// An object, as a table's key, and one of its watches.
type Place = (Box<[u8]>, WatchKey);

struct Watched {
    name: ObjectName,
    watchers: Watchers,
}

impl Watches {
    /// Without watches; what comes is counted there.
    pub(crate) fn new(load: Arc<Load>) -> Self {
        let mut watches = Self::default();
        watches.load = load;
        watches
    }

    /// What all placement groups bear.
    pub(crate) fn load(&self) -> &Arc<Load> {
        &self.load
    }

    /// All watches, in no order.
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

    /// The watchers of an object, if any are known.
    pub(crate) fn of(&self, oid: ObjectRef<'_>) -> Option<&Watchers> {
        if self.objects.is_empty() {
            return None;
        }
        self.objects.get(&*key_of(oid)).map(|watched| &watched.watchers)
    }

    /// Puts in watches that the store has kept from before a restart. They have their whole timeout to come
    /// back.
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

    /// Does what a request has come to. `conn` is where it came from.
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

    /// A connection is gone: its watches wait for their clients to come back.
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

    /// The watches whose time is up, which are left alone for one more second, and the notifications, which
    /// are answered.
    pub(crate) fn expire(&mut self, now: Instant) -> (Vec<Expired>, Outbox) {
        let mut out = Outbox::new();
        let late: Vec<u64> =
            self.notifies.iter().filter(|(_, n)| n.deadline <= now).map(|(id, _)| *id).collect();
        late.into_iter().for_each(|id| self.time_out(id, &mut out));
        let mut expired = Vec::new();
        for watched in self.objects.values_mut() {
            for (key, watch) in &mut watched.watchers {
                if watch.deadline.is_some_and(|deadline| deadline <= now) {
                    // Should its removal fail, it is tried again.
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

    /// The watches of clients at addresses that `is_blocked`.
    pub(crate) fn blocked(&self, is_blocked: impl Fn(EntityAddr) -> bool) -> Vec<Expired> {
        let of = |watched: &Watched| {
            let blocked = watched.watchers.iter().filter(|(_, watch)| is_blocked(watch.addr));
            blocked.map(|(key, _)| (watched.name.clone(), *key)).collect::<Vec<_>>()
        };
        self.objects.values().flat_map(of).collect()
    }

    /// Nothing is due before this moment; `None` if nothing ever is.
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

/// An object's name as a table's key: its parts, each behind its length.
fn key_of(oid: ObjectRef<'_>) -> Box<[u8]> {
    let lens = [oid.nspace.len().saturating_as::<u32>(), oid.key.len().saturating_as::<u32>()]
        .map(u32::to_le_bytes)
        .concat();
    [&lens, oid.nspace, oid.key, oid.name].concat().into_boxed_slice()
}

#[cfg(test)]
mod tests;
