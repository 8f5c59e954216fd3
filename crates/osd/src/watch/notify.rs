//! Notifications that are on their way.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use loligo_store::ObjectRef;
use loligo_wire::Writer;
use loligo_wire::message::Msg;
use loligo_wire::message::osd::{MWatchNotify, WatchEvent};

use super::{Answered, Notified, Outbox, WatchKey, Watches, key_of, seconds};
use crate::slot::Asker;

/// What the notifier is told if watchers have not answered in time.
const ETIMEDOUT: i32 = 110;

/// A notification that watchers have not all answered.
pub(super) struct Notify {
    conn: Arc<dyn Asker>,
    client: u64,
    cookie: u64,
    version: u64,
    payload: Bytes,
    /// Who has not answered yet.
    waits_for: BTreeSet<WatchKey>,
    /// By the watchers' global ids and cookies, as the answer lists them.
    replies: BTreeMap<(u64, u64), Bytes>,
    pub(super) deadline: Instant,
    object: Box<[u8]>,
    /// What it is counted with.
    pub(super) bytes: u64,
}

impl Notify {
    /// The message to the watcher that calls its watch `cookie`.
    pub(super) fn message(&self, cookie: u64, id: u64) -> Msg {
        Msg::new(&MWatchNotify {
            event: WatchEvent::Notify,
            cookie,
            version: self.version,
            notify_id: id,
            payload: self.payload.clone(),
            return_code: 0,
            notifier_gid: self.client,
            answers: Bytes::new(),
        })
    }

    /// The message to the notifier: who answered what, and who did not.
    fn completion(&self, id: u64, timed_out: bool) -> Msg {
        let mut w = Writer::new();
        w.put(&self.replies);
        w.count(self.waits_for.len());
        for (cookie, client) in &self.waits_for {
            w.u64(*client);
            w.u64(*cookie);
        }
        Msg::new(&MWatchNotify {
            event: WatchEvent::NotifyComplete,
            cookie: self.cookie,
            version: self.version,
            notify_id: id,
            payload: Bytes::new(),
            return_code: if timed_out { -ETIMEDOUT } else { 0 },
            notifier_gid: self.client,
            answers: w.into_bytes(),
        })
    }
}

impl Watches {
    pub(super) fn notify(
        &mut self,
        oid: ObjectRef<'_>,
        new: Notified,
        conn: &Arc<dyn Asker>,
        now: Instant,
        out: &mut Outbox,
    ) {
        let object = key_of(oid);
        let mut notify = Notify {
            conn: Arc::clone(conn),
            client: new.client,
            cookie: new.cookie,
            version: new.version,
            payload: new.payload,
            waits_for: BTreeSet::new(),
            replies: BTreeMap::new(),
            deadline: now + seconds(new.timeout_s),
            object: object.clone(),
            bytes: 0,
        };
        if let Some(watched) = self.objects.get_mut(&object) {
            for (key, watch) in &mut watched.watchers {
                watch.unanswered.push(new.id);
                notify.waits_for.insert(*key);
                if let Some(watcher) = &watch.conn {
                    out.push((Arc::clone(watcher), notify.message(key.0, new.id)));
                }
            }
        }
        if notify.waits_for.is_empty() {
            out.push((Arc::clone(conn), notify.completion(new.id, false)));
        } else {
            self.note(notify.deadline);
            notify.bytes = self.load.notify(notify.payload.len());
            self.notifies.insert(new.id, notify);
        }
    }

    pub(super) fn answer(&mut self, oid: ObjectRef<'_>, answered: &Answered, out: &mut Outbox) {
        let Some(watched) = self.objects.get_mut(&*key_of(oid)) else { return };
        let mut settled = Vec::new();
        let mut take = |key: WatchKey, unanswered: &mut Vec<u64>| {
            if let Some(at) = unanswered.iter().position(|id| *id == answered.id) {
                unanswered.swap_remove(at);
                settled.push(key);
            }
        };
        match answered.cookie {
            Some(cookie) => {
                let key = (cookie, answered.client);
                if let Some(watch) = watched.watchers.get_mut(&key) {
                    take(key, &mut watch.unanswered);
                }
            }
            None => {
                let own = watched.watchers.iter_mut().filter(|((_, client), _)| *client == answered.client);
                own.for_each(|(key, watch)| take(*key, &mut watch.unanswered));
            }
        }
        for key in settled {
            self.settle(answered.id, key, Some(answered.reply.clone()), out);
        }
    }

    /// A watcher has answered, or watches no more; after the last one the notifier is told.
    pub(super) fn settle(&mut self, id: u64, key: WatchKey, reply: Option<Bytes>, out: &mut Outbox) {
        let Some(notify) = self.notifies.get_mut(&id) else { return };
        if notify.waits_for.remove(&key)
            && let Some(reply) = reply
        {
            notify.bytes += self.load.answer(reply.len());
            notify.replies.insert((key.1, key.0), reply);
        }
        if notify.waits_for.is_empty()
            && let Some(notify) = self.notifies.remove(&id)
        {
            self.load.done(notify.bytes);
            out.push((Arc::clone(&notify.conn), notify.completion(id, false)));
        }
    }

    pub(super) fn time_out(&mut self, id: u64, out: &mut Outbox) {
        let Some(notify) = self.notifies.remove(&id) else { return };
        self.load.done(notify.bytes);
        out.push((Arc::clone(&notify.conn), notify.completion(id, true)));
        let Some(watched) = self.objects.get_mut(&notify.object) else { return };
        for key in &notify.waits_for {
            if let Some(watch) = watched.watchers.get_mut(key) {
                watch.unanswered.retain(|unanswered| *unanswered != id);
            }
        }
    }
}
