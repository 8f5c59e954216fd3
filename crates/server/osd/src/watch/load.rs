//! The number of watches and notifications of an OSD, over all placement groups.
//!
//! Both stay in memory for as long as clients decide: a watch until its timeout, which the client
//! chooses, a notification until the last watcher has answered. So both are bounded, and requests beyond
//! a bound are refused. A request is checked before it is executed and counted after it has succeeded,
//! so concurrent requests may together exceed a bound.

use loligo_lockstat::{Class, Mutex};
use loligo_wire::Errno;
use rustc_hash::FxHashMap;

/// Watches of one client; more are refused with EMFILE. Large enough for a test that watches 10,000
/// objects at once.
pub(crate) const CLIENT_WATCHES_MAX: u32 = 32 << 10;
/// Watches of all clients; more are refused with ENFILE.
const WATCHES_MAX: u64 = 256 << 10;
/// Memory of all watches in bytes: names, and [`WATCH_BYTES`] for each.
const WATCHES_BYTES_MAX: u64 = 256 << 20;
/// Memory of a watch in bytes beside the object's name, which is stored three times: the entries of
/// three tables.
const WATCH_BYTES: u64 = 400;
/// Notifications in progress; more are refused with ENOBUFS.
const NOTIFIES_MAX: u64 = 16 << 10;
/// Memory of the notifications in progress and the answers so far, in bytes; more is refused with
/// ENOBUFS.
pub(crate) const NOTIFIES_BYTES_MAX: u64 = 128 << 20;
/// Memory of a notification in bytes beside its payload, and its memory for each watcher: the message,
/// with another copy of the payload, and the records of missing answers.
const NOTIFY_BYTES: u64 = 300;
const WATCHER_BYTES: u64 = 200;
/// Messages to watchers that one request may cause; its first notification may exceed the bound. More
/// are refused with EMSGSIZE.
const MESSAGES_MAX: usize = 65_000;

/// The memory of a notification to this many watchers, in bytes.
pub(crate) fn notify_bytes(watchers: usize, payload_len: usize) -> u64 {
    let payload = payload_len as u64;
    NOTIFY_BYTES + payload + watchers as u64 * (WATCHER_BYTES + payload)
}

/// The load a request has caused so far that is not counted yet.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pending {
    /// Notifications that will wait for watchers.
    notifies: u64,
    /// Their memory and that of watchers' answers, in bytes.
    bytes: u64,
    /// Messages to watchers.
    messages: usize,
}

impl Pending {
    /// Adds a notification to this many watchers.
    pub(crate) fn notify(&mut self, watchers: usize, bytes: u64) {
        self.notifies += 1;
        self.bytes += bytes;
        self.messages += watchers;
    }

    /// Adds an answer.
    pub(crate) fn answer(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
    }
}

/// Held to look up and change a few numbers.
static LOAD: Class = Class::new("osd.watch_load");

/// The load of all placement groups of an OSD.
pub(crate) struct Load(Mutex<Counts>);

#[derive(Default)]
struct Counts {
    by_client: FxHashMap<u64, u32>,
    watches: u64,
    watch_bytes: u64,
    notifies: u64,
    notify_bytes: u64,
}

impl Default for Load {
    fn default() -> Self {
        Self(Mutex::new(&LOAD, Counts::default()))
    }
}

impl Load {
    /// Checks whether a client may have another watch beside the `pending` ones its request has
    /// registered.
    pub(crate) fn admits_watch(&self, client: u64, pending: usize) -> Result<(), Errno> {
        let counts = self.0.lock();
        let own = counts.by_client.get(&client).copied().unwrap_or(0) as usize + pending;
        if own >= CLIENT_WATCHES_MAX as usize {
            return Err(Errno::EMFILE);
        }
        let fits = counts.watches < WATCHES_MAX && counts.watch_bytes < WATCHES_BYTES_MAX;
        if fits { Ok(()) } else { Err(Errno::ENFILE) }
    }

    /// Checks whether a request that has caused `pending` may notify this many watchers, which takes
    /// `bytes`.
    pub(crate) fn admits_notify(&self, pending: Pending, watchers: usize, bytes: u64) -> Result<(), Errno> {
        if pending.messages > 0 && pending.messages + watchers > MESSAGES_MAX {
            return Err(Errno::EMSGSIZE);
        }
        let room = self.0.lock().notifies + pending.notifies < NOTIFIES_MAX;
        if room { self.admits_bytes(pending, bytes) } else { Err(Errno::ENOBUFS) }
    }

    /// Checks whether there is room for `bytes` of a watcher's answer.
    pub(crate) fn admits_answer(&self, pending: Pending, bytes: usize) -> Result<(), Errno> {
        self.admits_bytes(pending, bytes as u64)
    }

    fn admits_bytes(&self, pending: Pending, bytes: u64) -> Result<(), Errno> {
        let after = self.0.lock().notify_bytes + pending.bytes + bytes;
        if after <= NOTIFIES_BYTES_MAX { Ok(()) } else { Err(Errno::ENOBUFS) }
    }

    /// Counts a watch of a client on an object whose name has `name_len` bytes.
    pub(super) fn watch(&self, client: u64, name_len: usize) {
        let mut counts = self.0.lock();
        *counts.by_client.entry(client).or_default() += 1;
        counts.watches += 1;
        counts.watch_bytes += watch_bytes(name_len);
    }

    /// Removes a watch from the counts.
    pub(super) fn unwatch(&self, client: u64, name_len: usize) {
        let mut counts = self.0.lock();
        counts.watches = counts.watches.saturating_sub(1);
        counts.watch_bytes = counts.watch_bytes.saturating_sub(watch_bytes(name_len));
        if let Some(own) = counts.by_client.get_mut(&client) {
            *own = own.saturating_sub(1);
            if *own == 0 {
                counts.by_client.remove(&client);
            }
        }
    }

    /// Counts a notification that begins to wait and takes `bytes` ([`notify_bytes`]).
    pub(super) fn notify(&self, bytes: u64) -> u64 {
        let mut counts = self.0.lock();
        counts.notifies += 1;
        counts.notify_bytes += bytes;
        bytes
    }

    /// Counts an answer to a notification in progress.
    pub(super) fn answer(&self, reply_len: usize) -> u64 {
        let bytes = reply_len as u64;
        self.0.lock().notify_bytes += bytes;
        bytes
    }

    /// Removes a notification from the counts; `bytes` is the total it was counted with.
    pub(super) fn done(&self, bytes: u64) {
        let mut counts = self.0.lock();
        counts.notifies = counts.notifies.saturating_sub(1);
        counts.notify_bytes = counts.notify_bytes.saturating_sub(bytes);
    }
}

#[cfg(test)]
impl Load {
    /// The number of watches, and the bytes of notifications.
    pub(super) fn counted(&self) -> (u64, u64) {
        let counts = self.0.lock();
        (counts.watches, counts.notify_bytes)
    }
}

fn watch_bytes(name_len: usize) -> u64 {
    WATCH_BYTES + 3 * name_len as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_has_so_many_watches_and_gets_back_what_it_gives_up() {
        let load = Load::default();
        (0..CLIENT_WATCHES_MAX - 1).for_each(|_| load.watch(1, 10));
        assert_eq!(load.admits_watch(1, 0), Ok(()));
        assert_eq!(load.admits_watch(1, 1), Err(Errno::EMFILE), "the request has made one already");
        load.watch(1, 10);
        assert_eq!((load.admits_watch(1, 0), load.admits_watch(2, 0)), (Err(Errno::EMFILE), Ok(())));
        load.unwatch(1, 10);
        assert_eq!(load.admits_watch(1, 0), Ok(()));
    }

    #[test]
    fn all_clients_together_have_a_bound_in_number_and_bytes() {
        let load = Load::default();
        (0..WATCHES_MAX).for_each(|client| load.watch(client, 1));
        assert_eq!(load.admits_watch(u64::MAX, 0), Err(Errno::ENFILE));
        (0..WATCHES_MAX).for_each(|client| load.unwatch(client, 1));
        assert!(load.admits_watch(0, 0).is_ok() && load.0.lock().by_client.is_empty());
        let long = 2048;
        (0..=WATCHES_BYTES_MAX / watch_bytes(long)).for_each(|client| load.watch(client, long));
        assert_eq!(load.admits_watch(u64::MAX, 0), Err(Errno::ENFILE));
    }

    #[test]
    fn notifications_are_bounded_in_number_and_bytes() {
        let (load, none) = (Load::default(), Pending::default());
        let each: Vec<u64> = (0..NOTIFIES_MAX - 1).map(|_| load.notify(1)).collect();
        assert_eq!(load.admits_notify(none, 1, 1), Ok(()));
        let mut one = none;
        one.notify(1, 1);
        assert_eq!(load.admits_notify(one, 1, 1), Err(Errno::ENOBUFS), "the request has made one already");
        each.into_iter().for_each(|bytes| load.done(bytes));
        let most = NOTIFIES_BYTES_MAX;
        assert_eq!(load.admits_notify(none, 1, most), Ok(()));
        assert_eq!(load.admits_notify(one, 1, most), Err(Errno::ENOBUFS));
        let answered = (2 << 20) as usize;
        let bytes = load.notify(1 << 20) + load.answer(most as usize - answered);
        assert_eq!(load.admits_notify(none, 1, (1 << 20) + 1), Err(Errno::ENOBUFS));
        load.done(bytes);
        assert_eq!(load.admits_notify(none, 1, most), Ok(()));
    }

    #[test]
    fn a_request_causes_so_many_messages() {
        let load = Load::default();
        let mut pending = Pending::default();
        assert_eq!(
            load.admits_notify(pending, MESSAGES_MAX + 1, 1),
            Ok(()),
            "one notification of all who watch"
        );
        pending.notify(MESSAGES_MAX - 1, 1);
        assert_eq!(load.admits_notify(pending, 1, 1), Ok(()));
        assert_eq!(load.admits_notify(pending, 2, 1), Err(Errno::EMSGSIZE));
        assert!(notify_bytes(1000, 1 << 20) > 1000 << 20, "the payload is there for each watcher");
    }
}
