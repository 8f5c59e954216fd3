//! Notifications in progress.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use loligo_store::ObjectRef;
use loligo_wire::message::Msg;
use loligo_wire::message::osd::{MWatchNotify, WatchEvent};
use loligo_wire::{Errno, Writer};

use super::{Answered, Notified, Outbox, WatchKey, Watches, key_of, load, seconds};
use crate::asker::Asker;

/// A notification that some watchers have not answered.
pub(crate) struct Notify {
    conn: Arc<dyn Asker>,
    cookie: u64,
    news: Arc<News>,
    /// Watchers that have not answered yet.
    waits_for: BTreeSet<WatchKey>,
    /// Keyed by the watchers' global ids and cookies, in the order of the encoded reply.
    replies: BTreeMap<(u64, u64), Bytes>,
    pub(super) deadline: Instant,
    object: Box<[u8]>,
    /// The bytes it is counted with.
    pub(super) bytes: u64,
}

/// The content of a notification, shared by the messages to all watchers.
pub(crate) struct News {
    id: u64,
    client: u64,
    version: u64,
    payload: Bytes,
}

/// A message that is packed after the lock is released: there may be thousands, each with its own copy
/// of the payload.
pub(crate) enum Outgoing {
    /// To a watcher: a notification for the watch with this cookie.
    News { cookie: u64, news: Arc<News> },
    /// To the notifier: the watchers' answers, and the watchers that did not answer.
    Completion { notify: Box<Notify>, timed_out: bool },
    /// To a watcher: its watch with this cookie has ended.
    Disconnect { cookie: u64 },
}

impl Outgoing {
    pub(crate) fn pack(self) -> Msg {
        let nothing = MWatchNotify {
            event: WatchEvent::Disconnect,
            cookie: 0,
            version: 0,
            notify_id: 0,
            payload: Bytes::new(),
            return_code: 0,
            notifier_gid: 0,
            answers: Bytes::new(),
        };
        Msg::new(&match self {
            Self::News { cookie, news } => MWatchNotify {
                event: WatchEvent::Notify,
                cookie,
                version: news.version,
                notify_id: news.id,
                payload: news.payload.clone(),
                notifier_gid: news.client,
                ..nothing
            },
            Self::Completion { notify, timed_out } => MWatchNotify {
                event: WatchEvent::NotifyComplete,
                cookie: notify.cookie,
                version: notify.news.version,
                notify_id: notify.news.id,
                return_code: if timed_out { Errno::ETIMEDOUT.to_result() } else { 0 },
                notifier_gid: notify.news.client,
                answers: notify.answers(),
                ..nothing
            },
            Self::Disconnect { cookie } => MWatchNotify { cookie, ..nothing },
        })
    }
}

impl Notify {
    /// The message to the watcher whose cookie is `cookie`.
    pub(super) fn told(&self, cookie: u64) -> Outgoing {
        Outgoing::News { cookie, news: Arc::clone(&self.news) }
    }

    fn answers(&self) -> Bytes {
        let mut w = Writer::new();
        w.put(&self.replies);
        w.count(self.waits_for.len());
        for (cookie, client) in &self.waits_for {
            w.u64(*client);
            w.u64(*cookie);
        }
        w.into_bytes()
    }

    /// The completion message to its notifier.
    fn completed(self, timed_out: bool) -> (Arc<dyn Asker>, Outgoing) {
        (Arc::clone(&self.conn), Outgoing::Completion { notify: Box::new(self), timed_out })
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
            cookie: new.cookie,
            news: Arc::new(News {
                id: new.id,
                client: new.client,
                version: new.version,
                payload: new.payload,
            }),
            waits_for: BTreeSet::new(),
            replies: BTreeMap::new(),
            deadline: now + seconds(new.timeout_s),
            object: object.clone(),
            bytes: 0,
        };
        if let Some(watched) = self.objects.get_mut(&object) {
            for (key, watch) in &mut watched.watchers {
                watch.unanswered.insert(new.id);
                notify.waits_for.insert(*key);
                if let Some(watcher) = &watch.conn {
                    out.push((Arc::clone(watcher), notify.told(key.0)));
                }
            }
        }
        if notify.waits_for.is_empty() {
            out.push(notify.completed(false));
        } else {
            self.note(notify.deadline);
            let bytes = load::notify_bytes(notify.waits_for.len(), notify.news.payload.len());
            notify.bytes = self.load.notify(bytes);
            self.notifies.insert(new.id, notify);
        }
    }

    pub(super) fn answer(&mut self, oid: ObjectRef<'_>, answered: &Answered, out: &mut Outbox) {
        let Some(watched) = self.objects.get_mut(&*key_of(oid)) else { return };
        let mut settled = Vec::new();
        let mut take = |key: WatchKey, unanswered: &mut BTreeSet<u64>| {
            if unanswered.remove(&answered.id) {
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

    /// Records that a watcher has answered or has ended. After the last watcher the notifier is
    /// notified.
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
            out.push(notify.completed(false));
        }
    }

    pub(super) fn time_out(&mut self, id: u64, out: &mut Outbox) {
        let Some(notify) = self.notifies.remove(&id) else { return };
        self.load.done(notify.bytes);
        if let Some(watched) = self.objects.get_mut(&notify.object) {
            for key in &notify.waits_for {
                if let Some(watch) = watched.watchers.get_mut(key) {
                    watch.unanswered.remove(&id);
                }
            }
        }
        out.push(notify.completed(true));
    }
}
