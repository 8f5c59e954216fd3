//! Lingers: receivers of unsolicited OSD messages. A linger is a watch, or a notification that waits for
//! its replies.
//!
//! An OSD keeps a watch only while the placement group's interval and the connection last. Each
//! [`Linger`] therefore records where it was last registered. The steward marks it stale when that place
//! is gone, and its owner registers it again.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use loligo_lockstat::{Class, Mutex};
use loligo_wire::message::osd::{MWatchNotify, ObjectLocator, OsdFlags, OsdReply, WatchEvent};
use loligo_wire::{EntityAddr, Epoch, OsdId, PgId};
use rustc_hash::FxHashMap;
use tokio::sync::Notify;

use super::op::Op;
use super::target::MapView;
use super::{Objecter, OpError};
use crate::Error;

static TABLE: Class = Class::new("rados.lingers");
static LINGER: Class = Class::new("rados.linger");

/// Limits on the queued messages of one linger, in number and bytes. Messages beyond them are dropped,
/// and `Heard::Missed` is queued.
const HEARD_MAX: usize = 1024;
const HEARD_BYTES_MAX: usize = 64 << 20;

/// All lingers of a client, by cookie.
pub(crate) struct Lingers {
    by_cookie: Mutex<FxHashMap<u64, Arc<Linger>>>,
    next_cookie: AtomicU64,
}

/// One watch or notification.
pub(crate) struct Linger {
    pub(crate) cookie: u64,
    state: Mutex<State>,
    /// Wakes the reader: a message or event was queued.
    pub(crate) news: Notify,
    /// Wakes the owner: the linger is stale or disconnected.
    pub(crate) trouble: Notify,
}

#[derive(Default)]
struct State {
    /// Where it was last registered, or is about to be.
    pg: Option<PgId>,
    osd: Option<(OsdId, EntityAddr)>,
    /// The epoch in which its placement group's interval ended.
    moved_in: Option<Epoch>,
    /// The id of the lost connection.
    lost: Option<u64>,
    disconnected: bool,
    heard: VecDeque<Heard>,
    heard_bytes: usize,
}

/// An event of a linger, in order.
#[derive(Debug)]
pub(crate) enum Heard {
    /// A message from an OSD.
    Message(MWatchNotify),
    /// Notifications may have been missed.
    Missed,
    /// The linger has ended.
    Ended(Error),
}

/// Why a linger has to be registered again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// The place where it was registered is gone. The object keeps the watch for a while.
    Stale,
    /// The OSD has dropped it.
    Disconnected,
}

impl Lingers {
    pub(super) fn new() -> Self {
        Self { by_cookie: Mutex::new(&TABLE, FxHashMap::default()), next_cookie: AtomicU64::new(1) }
    }

    /// Adds a linger, which receives messages until it is [removed](Self::remove).
    pub(crate) fn add(&self) -> Arc<Linger> {
        // Relaxed: only the uniqueness of the number matters.
        let cookie = self.next_cookie.fetch_add(1, Ordering::Relaxed);
        let linger = Arc::new(Linger {
            cookie,
            state: Mutex::new(&LINGER, State::default()),
            news: Notify::new(),
            trouble: Notify::new(),
        });
        self.by_cookie.lock().insert(cookie, Arc::clone(&linger));
        linger
    }

    pub(crate) fn remove(&self, cookie: u64) {
        let removed = self.by_cookie.lock().remove(&cookie);
        drop(removed);
    }

    /// Delivers a message to its linger.
    pub(super) fn hear(&self, msg: MWatchNotify) {
        let linger = self.by_cookie.lock().get(&msg.cookie).cloned();
        let Some(linger) = linger else { return };
        match msg.event {
            WatchEvent::Disconnect => linger.mark(|state| state.disconnected = true),
            WatchEvent::Notify | WatchEvent::NotifyComplete => linger.tell(Heard::Message(msg)),
        }
    }

    /// Marks the lingers whose placement group's interval has ended.
    pub(super) fn moved(&self, old: &MapView, new: &MapView) {
        let skipped = new.epoch().0 > old.epoch().0 + 1;
        let mut unchanged: FxHashMap<PgId, bool> = FxHashMap::default();
        for linger in self.all() {
            let (pg, osd) = linger.place();
            let goes_on = |pg| !skipped && *unchanged.entry(pg).or_insert_with(|| new.continues(old, pg));
            let is_served = osd.is_some_and(|(osd, addr)| new.serves(osd, addr));
            if !pg.is_some_and(goes_on) || !is_served {
                linger.mark(|state| state.moved_in = Some(new.epoch()));
            }
        }
    }

    /// Marks the lingers of an OSD whose connection was lost.
    pub(super) fn lost(&self, osd: OsdId, conn_id: u64) {
        for linger in self.all() {
            if linger.place().1.is_some_and(|(there, _)| there == osd) {
                linger.mark(|state| state.lost = Some(conn_id));
            }
        }
    }

    /// Ends all lingers at the client's shutdown.
    pub(super) fn close(&self) {
        for linger in self.all() {
            linger.tell(Heard::Ended(OpError::Shutdown.into()));
        }
    }

    fn all(&self) -> Vec<Arc<Linger>> {
        self.by_cookie.lock().values().cloned().collect()
    }
}

impl fmt::Debug for Linger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Linger").field("cookie", &self.cookie).finish_non_exhaustive()
    }
}

impl Linger {
    /// Returns the next event, if there is one.
    pub(crate) fn next(&self) -> Option<Heard> {
        let mut state = self.state.lock();
        let heard = state.heard.pop_front();
        if let Some(Heard::Message(msg)) = &heard {
            state.heard_bytes = state.heard_bytes.saturating_sub(size(msg));
        }
        heard
    }

    /// Waits for the next event.
    pub(crate) async fn heard(&self) -> Heard {
        wait_for(&self.news, || self.next()).await
    }

    /// Waits until the linger has to be registered again.
    pub(crate) async fn troubled(&self) -> Trouble {
        wait_for(&self.trouble, || self.trouble()).await
    }

    fn trouble(&self) -> Option<Trouble> {
        let state = self.state.lock();
        match (state.disconnected, state.moved_in.is_some() || state.lost.is_some()) {
            (true, _) => Some(Trouble::Disconnected),
            (false, true) => Some(Trouble::Stale),
            (false, false) => None,
        }
    }

    pub(crate) fn tell(&self, heard: Heard) {
        let mut state = self.state.lock();
        let (len, bytes) = (state.heard.len(), state.heard_bytes);
        match heard {
            Heard::Message(msg) if len < HEARD_MAX && bytes + size(&msg) <= HEARD_BYTES_MAX => {
                state.heard_bytes += size(&msg);
                state.heard.push_back(Heard::Message(msg));
            }
            Heard::Message(_) | Heard::Missed if matches!(state.heard.back(), Some(Heard::Missed)) => {}
            Heard::Message(_) | Heard::Missed => state.heard.push_back(Heard::Missed),
            Heard::Ended(why) => state.heard.push_back(Heard::Ended(why)),
        }
        drop(state);
        self.news.notify_waiters();
    }

    fn mark(&self, how: impl FnOnce(&mut State)) {
        how(&mut self.state.lock());
        self.trouble.notify_waiters();
    }

    /// Records that an OSD with the map of `epoch` has started a notification and has replied on this
    /// connection. Marks that concern earlier attempts are cleared.
    fn begun(&self, epoch: Epoch, conn_id: u64) {
        let mut state = self.state.lock();
        state.moved_in = state.moved_in.filter(|moved_in| *moved_in > epoch);
        state.lost = state.lost.filter(|lost| *lost == conn_id);
    }

    fn place(&self) -> (Option<PgId>, Option<(OsdId, EntityAddr)>) {
        let state = self.state.lock();
        (state.pg, state.osd)
    }
}

/// Waits until `look` returns a value. Calls it first and after each wake-up.
async fn wait_for<T>(told: &Notify, look: impl Fn() -> Option<T>) -> T {
    loop {
        let next = told.notified();
        tokio::pin!(next);
        // Enabled before the check, so that no wake-up in between is missed.
        next.as_mut().enable();
        if let Some(found) = look() {
            return found;
        }
        next.await;
    }
}

/// Returns the size in bytes of a queued message.
fn size(msg: &MWatchNotify) -> usize {
    msg.payload.len() + msg.answers.len()
}

impl Objecter {
    /// Returns the client's watches and notifications.
    pub(crate) fn lingers(&self) -> &Lingers {
        &self.lingers
    }

    /// Performs the operation that starts a notification.
    pub(crate) async fn perform_lingering(&self, op: Arc<Op>, linger: &Linger) -> Result<OsdReply, Error> {
        let reply = self.perform(Arc::clone(&op)).await?;
        linger.begun(reply.map_epoch, op.answered_on());
        Ok(reply)
    }

    /// Records where a linger is about to be registered. Changes of that place from now on mark it.
    pub(crate) fn aim(&self, linger: &Linger, locator: &ObjectLocator, oid: &[u8]) {
        loop {
            let view = self.view();
            let place = view.place(locator, oid, OsdFlags::WRITE).ok();
            {
                let mut state = linger.state.lock();
                (state.moved_in, state.lost, state.disconnected) = (None, None, false);
                state.pg = place.as_ref().map(|place| place.spgid.pgid);
                state.osd = place.and_then(|place| place.osd).and_then(|osd| Some((osd, view.addr_of(osd)?)));
            }
            // The steward marks lingers after it has published a map. The recorded place must therefore
            // not be from a map older than the published one.
            if self.view().epoch() == view.epoch() {
                return;
            }
        }
    }
}
