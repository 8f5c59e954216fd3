//! Goal: watches end when they should, and a notifier gets the result of every watcher once. Method: the
//! table alone, with connections that record their messages and a clock passed as an argument.

use loligo_lockstat::{Class, Mutex};
use loligo_msgr::Cork;
use loligo_wire::message::Msg;
use loligo_wire::message::osd::{MWatchNotify, WatchEvent};
use loligo_wire::{Reader, SnapId};

use super::*;

static INBOX: Class = Class::new("test.inbox");

struct Conn {
    id: u64,
    inbox: Mutex<Vec<MWatchNotify>>,
}

impl Conn {
    fn new(id: u64) -> Arc<Self> {
        Arc::new(Self { id, inbox: Mutex::new(&INBOX, Vec::new()) })
    }

    fn asker(self: &Arc<Self>) -> Arc<dyn Asker> {
        Arc::clone(self) as _
    }

    fn take(&self) -> Vec<MWatchNotify> {
        std::mem::take(&mut *self.inbox.lock())
    }
}

impl Asker for Conn {
    fn answer(&self, msg: Msg) {
        self.inbox.lock().push(msg.open().expect("what we wrote opens"));
    }

    fn cork(&self) -> Option<Cork<'_>> {
        None
    }

    fn id(&self) -> u64 {
        self.id
    }
}

fn oid() -> ObjectRef<'static> {
    ObjectRef { snap: SnapId::HEAD, ..ObjectRef::head(7, b"o") }
}

fn effects() -> Effects {
    Effects::on(ObjectName::new(oid()).expect("short"))
}

fn watch(key: WatchKey, timeout_s: u32) -> Effects {
    let connected = vec![Connected { key, timeout_s, addr: EntityAddr::default(), pings: true }];
    Effects { connected, ..effects() }
}

fn notify(id: u64) -> Effects {
    let payload = Bytes::from_static(b"news");
    let notified = vec![Notified { id, cookie: 5, client: 9, timeout_s: 10, payload, version: 3 }];
    Effects { notified, ..effects() }
}

fn answer(id: u64, (cookie, client): WatchKey, reply: &'static [u8]) -> Effects {
    let answered = vec![Answered { id, client, cookie: Some(cookie), reply: Bytes::from_static(reply) }];
    Effects { answered, ..effects() }
}

fn send(out: Outbox) {
    out.into_iter().for_each(|(conn, out)| conn.answer(out.pack()));
}

/// The answers, and the watchers that did not answer: global ids and cookies.
type Completion = (Vec<((u64, u64), Bytes)>, Vec<(u64, u64)>);

fn completion(msg: &MWatchNotify) -> Completion {
    let mut r = Reader::new(&msg.answers);
    (r.get().expect("answers"), r.get().expect("who is missing"))
}

#[test]
fn a_notifier_hears_what_all_watchers_answer() {
    let (mut watches, now) = (Watches::default(), Instant::now());
    let (one, two, notifier) = (Conn::new(1), Conn::new(2), Conn::new(3));
    send(watches.apply(watch((11, 100), 30), &one.asker(), now));
    send(watches.apply(watch((12, 200), 30), &two.asker(), now));
    send(watches.apply(notify(77), &notifier.asker(), now));
    let heard = one.take();
    assert_eq!((heard.len(), heard[0].cookie, &heard[0].payload[..]), (1, 11, &b"news"[..]));
    assert_eq!((heard[0].notify_id, heard[0].notifier_gid, heard[0].version), (77, 9, 3));
    send(watches.apply(answer(77, (11, 100), b"yes"), &one.asker(), now));
    send(watches.apply(answer(77, (11, 100), b"again"), &one.asker(), now));
    assert!(notifier.take().is_empty(), "one has not answered");
    send(watches.apply(answer(77, (12, 200), b""), &two.asker(), now));
    let told = notifier.take();
    assert_eq!(
        (told.len(), told[0].event, told[0].return_code, told[0].cookie),
        (1, WatchEvent::NotifyComplete, 0, 5)
    );
    let (answers, missing) = completion(&told[0]);
    assert_eq!(answers, [((100, 11), Bytes::from_static(b"yes")), ((200, 12), Bytes::new())]);
    assert!(missing.is_empty());
}

#[test]
fn who_is_silent_is_missing_and_who_leaves_is_not() {
    let (mut watches, now) = (Watches::default(), Instant::now());
    let (one, notifier) = (Conn::new(1), Conn::new(3));
    send(watches.apply(notify(1), &notifier.asker(), now));
    assert_eq!(notifier.take().len(), 1, "nobody watches");
    send(watches.apply(watch((11, 100), 30), &one.asker(), now));
    send(watches.apply(watch((12, 100), 30), &one.asker(), now));
    send(watches.apply(notify(2), &notifier.asker(), now));
    send(watches.apply(Effects { ended: vec![((12, 100), false)], ..effects() }, &one.asker(), now));
    assert!(notifier.take().is_empty());
    assert_eq!(watches.due(), Some(now + Duration::from_secs(10)));
    let (expired, out) = watches.expire(now + Duration::from_secs(10));
    send(out);
    assert!(expired.is_empty());
    let told = notifier.take();
    assert_eq!((told.len(), told[0].return_code), (1, -110));
    assert_eq!(completion(&told[0]), (vec![], vec![(100, 11)]));
    send(watches.apply(answer(2, (11, 100), b"late"), &one.asker(), now));
    assert!(notifier.take().is_empty());
}

#[test]
fn a_watcher_that_comes_back_hears_what_it_missed() {
    let (mut watches, now) = (Watches::default(), Instant::now());
    let (old, new, notifier) = (Conn::new(1), Conn::new(2), Conn::new(3));
    send(watches.apply(watch((11, 100), 30), &old.asker(), now));
    watches.lost(1, now);
    assert!(!watches.of(oid()).expect("kept")[&(11, 100)].is_connected());
    send(watches.apply(notify(4), &notifier.asker(), now));
    assert!(old.take().is_empty() && new.take().is_empty());
    send(watches.apply(watch((11, 100), 30), &new.asker(), now));
    assert_eq!(new.take().len(), 1);
    watches.lost(1, now);
    assert!(watches.of(oid()).expect("kept")[&(11, 100)].is_connected(), "the old connection means nothing");
}

#[test]
fn silence_ends_a_watch_and_pings_keep_it() {
    let (mut watches, now) = (Watches::default(), Instant::now());
    let conn = Conn::new(1);
    let at = |s| now + Duration::from_secs(s);
    send(watches.apply(watch((11, 100), 5), &conn.asker(), now));
    send(watches.apply(Effects { pinged: vec![(11, 100)], ..effects() }, &conn.asker(), at(3)));
    assert!(watches.expire(at(7)).0.is_empty());
    assert_eq!(watches.due(), Some(at(8)));
    let expired = watches.expire(at(8)).0;
    assert_eq!(expired.iter().map(|(_, key)| *key).collect::<Vec<_>>(), [(11, 100)]);
    send(watches.apply(Effects { ended: vec![((11, 100), true)], ..effects() }, &conn.asker(), at(8)));
    let told = conn.take();
    assert_eq!((told.len(), told[0].event, told[0].cookie), (1, WatchEvent::Disconnect, 11));
    assert!(watches.of(oid()).is_none() && watches.expire(at(60)).0.is_empty() && watches.due().is_none());
    let old = Connected { key: (1, 1), timeout_s: 5, addr: EntityAddr::default(), pings: false };
    send(watches.apply(Effects { connected: vec![old], ..effects() }, &conn.asker(), now));
    assert!(watches.expire(at(1000)).0.is_empty(), "an old client says nothing while it is connected");
    watches.lost(1, at(1000));
    assert_eq!(watches.expire(at(1005)).0.len(), 1);
}

#[test]
fn what_is_counted_is_given_back() {
    let load = Arc::new(Load::default());
    let (mut watches, now) = (Watches::new(Arc::clone(&load)), Instant::now());
    let (conn, notifier) = (Conn::new(1), Conn::new(3));
    let nothing = load.counted();
    for cookie in [11, 12] {
        send(watches.apply(watch((cookie, 100), 30), &conn.asker(), now));
        // Registering again does not add a watch.
        send(watches.apply(watch((cookie, 100), 30), &conn.asker(), now));
    }
    let two = load.counted();
    assert_eq!(two.0, 2);
    for id in [1, 2] {
        send(watches.apply(notify(id), &notifier.asker(), now));
    }
    send(watches.apply(answer(1, (11, 100), b"yes"), &conn.asker(), now));
    assert!(load.counted().1 > two.1);
    send(watches.apply(answer(1, (12, 100), b"yes"), &conn.asker(), now));
    let (expired, out) = watches.expire(now + Duration::from_secs(10));
    send(out);
    assert!(expired.is_empty());
    assert_eq!(load.counted(), two, "one was answered, one is over");
    send(watches.apply(Effects { ended: vec![((12, 100), false)], ..effects() }, &conn.asker(), now));
    send(watches.apply(notify(3), &notifier.asker(), now));
    assert_eq!(load.counted().0, 1);
    drop(watches);
    assert_eq!(load.counted(), nothing, "the placement group is gone");
}
