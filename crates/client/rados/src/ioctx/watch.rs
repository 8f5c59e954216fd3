//! Watching objects, and notifying their watchers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use loligo_wire::message::osd::{
    ListWatchersResponse, MOSDOp, MWatchNotify, OpCode, OsdFlags, OsdOp, WatchArgs, WatchEvent, WatchItem,
};
use loligo_wire::{Decode as _, GlobalId, Reader, Writer};
use smallvec::smallvec;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::{ALWAYS, IoCtx, decode};
use crate::Error;
use crate::error::Errno;
use crate::objecter::{Heard, Linger, Trouble};
use loligo_cluster::Reason;

/// Interval between a watch's pings to its OSD (Ceph: `objecter_tick_interval`).
const PING_EVERY: Duration = Duration::from_secs(5);

/// Watching and notifying.
impl IoCtx {
    /// Watches an object, which must exist. The watch receives every [notification](Self::notify) of the
    /// object from now on.
    ///
    /// `timeout` is how long the object's OSD keeps the watch without a ping, in whole seconds. Zero is
    /// the OSD's default (`osd_client_watch_timeout`, 30 s). The watch survives lost connections and OSD
    /// changes. If the OSD has dropped the watch meanwhile, the client registers it again and reports
    /// [`WatchNews::Missed`].
    ///
    /// # Errors
    /// ENOENT if the object does not exist.
    pub async fn watch(&self, oid: impl Into<Vec<u8>>, timeout: Duration) -> Result<Watch, Error> {
        let timeout_s = u32::try_from(timeout.as_secs()).map_err(|_| Errno::EINVAL)?;
        let mut beginning = Beginning(Some(Keeper::new(self, oid.into(), timeout_s)));
        beginning.register().await?;
        let keeper = beginning.0.take().expect("it is taken here alone");
        let (linger, oid) = (Arc::clone(&keeper.linger), keeper.oid.clone());
        let confirmation = keeper.confirmation.clone();
        let (stop, stopped) = oneshot::channel();
        let runtime = Handle::current();
        let task = runtime.spawn(keeper.keep(stopped));
        Ok(Watch { ioctx: self.clone(), oid, linger, confirmation, stop: Some(stop), task, runtime })
    }

    /// Notifies all watchers of an object, and waits for their replies for at most `timeout` (in whole
    /// seconds; zero is the OSD's default, `osd_default_notify_timeout`, 30 s). Watchers are not required.
    ///
    /// If the OSD that collects the replies is lost, another OSD repeats the notification: watchers may
    /// receive it twice.
    ///
    /// # Errors
    /// ENOENT if the object does not exist. Watchers that do not reply in time are not an error: see
    /// [`Notified::missing`].
    pub async fn notify(
        &self,
        oid: impl Into<Vec<u8>>,
        payload: Bytes,
        timeout: Duration,
    ) -> Result<Notified, Error> {
        let timeout_s = u32::try_from(timeout.as_secs()).map_err(|_| Errno::EINVAL)?;
        let oid = oid.into();
        let mut input = Writer::new();
        input.u32(1); // a version that no OSD uses
        input.u32(timeout_s);
        input.put(&payload);
        let input = input.into_bytes();
        let objecter = &self.rados.core().objecter;
        let enlisted = Enlisted::new(self);
        let linger = &enlisted.linger;
        loop {
            objecter.aim(linger, &self.locator, &oid);
            let op = OsdOp::notify(linger.cookie, input.clone());
            let request =
                MOSDOp::new(self.locator.clone(), oid.clone(), smallvec![op], ALWAYS | OsdFlags::READ);
            let reply = objecter.perform_lingering(objecter.prepare(request), linger).await?;
            if let Some(errno) = Errno::from_result(reply.result) {
                return Err(errno.into());
            }
            let out = reply.outs.into_iter().next().unwrap_or_default().data;
            let id = decode("the output of notify", &out, |r| r.u64())?;
            let _wait = self.rados.waits_for(Reason::Watchers { object: oid.clone() });
            tokio::select! {
                biased;
                msg = completion(linger, id) => return Notified::read(&msg?),
                // The OSD that would send the completion is gone.
                _ = linger.troubled() => {}
            }
        }
    }

    /// Returns an object's watchers.
    pub async fn watchers(&self, oid: impl Into<Vec<u8>>) -> Result<Vec<WatchItem>, Error> {
        let out = self.read_one(oid.into(), OsdOp::new(OpCode::LIST_WATCHERS)).await?;
        decode("the list of watchers", &out, |r| Ok(ListWatchersResponse::decode(r)?.entries))
    }
}

/// Waits for the completion of a notification. Completions of earlier attempts are skipped.
async fn completion(linger: &Linger, id: u64) -> Result<MWatchNotify, Error> {
    loop {
        match linger.heard().await {
            Heard::Message(msg) if msg.event == WatchEvent::NotifyComplete && msg.notify_id == id => {
                return Ok(msg);
            }
            Heard::Message(_) | Heard::Missed => {}
            Heard::Ended(why) => return Err(why),
        }
    }
}

/// The watchers' replies to a notification.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notified {
    /// The replies, by watch.
    pub answers: BTreeMap<WatcherId, Bytes>,
    /// Watches that did not reply in time.
    pub missing: Vec<WatcherId>,
}

/// A watch of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WatcherId {
    /// The client.
    pub client: GlobalId,
    /// The client's cookie for the watch.
    pub cookie: u64,
}

impl Notified {
    fn read(msg: &MWatchNotify) -> Result<Self, Error> {
        let id = |(client, cookie): (u64, u64)| WatcherId { client: GlobalId(client), cookie };
        if msg.answers.is_empty() {
            // No watchers, or an error, which a stock OSD reports without replies.
            return match Errno::from_result(msg.return_code) {
                None => Ok(Self::default()),
                Some(errno) => Err(errno.into()),
            };
        }
        decode("answers to a notification", &msg.answers, |r: &mut Reader<'_>| {
            let answers: Vec<((u64, u64), Bytes)> = r.get()?;
            let missing: Vec<(u64, u64)> = r.get()?;
            Ok(Self {
                answers: answers.into_iter().map(|(watcher, answer)| (id(watcher), answer)).collect(),
                missing: missing.into_iter().map(id).collect(),
            })
        })
    }
}

/// A watch. Dropping it unregisters it, without waiting and without reporting errors.
#[derive(Debug)]
pub struct Watch {
    ioctx: IoCtx,
    oid: Vec<u8>,
    linger: Arc<Linger>,
    confirmation: Confirmation,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<Result<(), Error>>,
    runtime: Handle,
}

/// An event of a watch.
#[derive(Debug)]
pub enum WatchNews {
    /// A notification was received.
    Notified(Notification),
    /// Notifications may have been missed: the OSD had dropped the watch and it was registered again, or
    /// more notifications arrived than were read.
    Missed,
}

impl Watch {
    /// Returns the client's cookie for the watch, which [`IoCtx::watchers`] lists.
    pub fn cookie(&self) -> u64 {
        self.linger.cookie
    }

    /// Waits for the next event. Cancel safe.
    ///
    /// # Errors
    /// The watch has ended: ENOENT if the object is gone, [`Errno::EBLOCKLISTED`] if the client is
    /// blocklisted, [`Error::Shutdown`] at the client's end.
    pub async fn next(&mut self) -> Result<WatchNews, Error> {
        loop {
            match self.linger.heard().await {
                Heard::Message(msg) if msg.event == WatchEvent::Notify => {
                    return Ok(WatchNews::Notified(Notification::new(self, msg)));
                }
                Heard::Message(_) => {}
                Heard::Missed => return Ok(WatchNews::Missed),
                Heard::Ended(why) => {
                    // The next call fails again.
                    self.linger.tell(Heard::Ended(Errno::ENOTCONN.into()));
                    return Err(why);
                }
            }
        }
    }

    /// Returns how long ago the watch was last confirmed. All notifications sent before then have been
    /// received.
    pub fn confirmed_before(&self) -> Duration {
        self.confirmation.age()
    }

    /// Returns the confirmation for use by other threads: it stays readable, and reading takes no lock.
    pub fn confirmation(&self) -> Confirmation {
        self.confirmation.clone()
    }

    /// Unregisters the watch and waits for the OSD's acknowledgement.
    pub async fn unwatch(mut self) -> Result<(), Error> {
        drop(self.stop.take());
        (&mut self.task).await.unwrap_or(Err(Error::Shutdown))
    }
}

/// The time at which a watch was last confirmed.
#[derive(Clone, Debug)]
pub struct Confirmation(Arc<Confirmed>);

#[derive(Debug)]
struct Confirmed {
    begun: Instant,
    /// Microseconds since `begun`.
    at: AtomicU64,
}

impl Confirmation {
    fn new() -> Self {
        Self(Arc::new(Confirmed { begun: Instant::now(), at: AtomicU64::new(0) }))
    }

    /// Returns how long ago the watch was confirmed: see [`Watch::confirmed_before`].
    pub fn age(&self) -> Duration {
        // Relaxed here and below: the time orders no other data.
        let at = Duration::from_micros(self.0.at.load(Ordering::Relaxed));
        self.0.begun.elapsed().saturating_sub(at)
    }

    fn confirm(&self, at: Instant) {
        let at = at.saturating_duration_since(self.0.begun).as_micros();
        self.0.at.store(u64::try_from(at).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

/// A received notification. The notifier waits for a reply; dropping this sends an empty one.
#[derive(Debug)]
#[must_use = "the notifier waits for an answer"]
pub struct Notification {
    /// The notifier's payload.
    pub payload: Bytes,
    /// The notifying client.
    pub notifier: GlobalId,
    /// The OSD's id of the notification.
    pub id: u64,
    answer: Option<Box<Answering>>,
}

#[derive(Debug)]
struct Answering {
    ioctx: IoCtx,
    oid: Vec<u8>,
    cookie: u64,
    runtime: Handle,
}

impl Notification {
    fn new(watch: &Watch, msg: MWatchNotify) -> Self {
        let (ioctx, oid, cookie) = (watch.ioctx.clone(), watch.oid.clone(), watch.linger.cookie);
        let answer = Box::new(Answering { ioctx, oid, cookie, runtime: watch.runtime.clone() });
        let (notifier, id) = (GlobalId(msg.notifier_gid), msg.notify_id);
        Self { payload: msg.payload, notifier, id, answer: Some(answer) }
    }

    /// Sends the reply. Whether it arrives in time is not reported.
    pub fn answer(mut self, answer: Bytes) {
        self.send(answer);
    }

    fn send(&mut self, answer: Bytes) {
        let Some(answering) = self.answer.take() else { return };
        let Answering { ioctx, oid, cookie, runtime } = *answering;
        let mut input = Writer::new();
        input.u64(self.id);
        input.u64(cookie);
        input.put(&answer);
        let op = OsdOp::new(OpCode::NOTIFY_ACK).with_data(input.into_bytes());
        runtime.spawn(async move {
            let _ = ioctx.request(oid, smallvec![op], OsdFlags::READ).await;
        });
    }
}

impl Drop for Notification {
    fn drop(&mut self) {
        self.send(Bytes::new());
    }
}

/// Removes its linger when it is dropped.
struct Enlisted {
    ioctx: IoCtx,
    linger: Arc<Linger>,
}

impl Enlisted {
    fn new(ioctx: &IoCtx) -> Self {
        Self { linger: ioctx.rados.core().objecter.lingers().add(), ioctx: ioctx.clone() }
    }
}

impl Drop for Enlisted {
    fn drop(&mut self) {
        self.ioctx.rados.core().objecter.lingers().remove(self.linger.cookie);
    }
}

/// A watch whose registration is in progress. If the caller gives up or times out before the OSD confirms it,
/// the watch is unregistered: otherwise notifiers would wait for a watcher that never replies.
struct Beginning(Option<Keeper>);

impl Beginning {
    async fn register(&mut self) -> Result<(), Error> {
        let keeper = self.0.as_ref().expect("it is taken when it has begun");
        let done = keeper.register(WatchArgs::WATCH, 0).await;
        if !matches!(done, Ok(()) | Err(Error::Timeout(_))) {
            self.0 = None;
        }
        done
    }
}

impl Drop for Beginning {
    fn drop(&mut self) {
        // Without a runtime the client has ended.
        if let (Some(keeper), Ok(runtime)) = (self.0.take(), Handle::try_current()) {
            // Queued behind the registration, if that is in flight.
            runtime.spawn(async move { keeper.tell_osd(WatchArgs::UNWATCH, 0).await });
        }
    }
}

/// Keeps a watch registered.
struct Keeper {
    _enlisted: Enlisted,
    ioctx: IoCtx,
    oid: Vec<u8>,
    linger: Arc<Linger>,
    timeout_s: u32,
    confirmation: Confirmation,
}

impl Keeper {
    fn new(ioctx: &IoCtx, oid: Vec<u8>, timeout_s: u32) -> Self {
        let enlisted = Enlisted::new(ioctx);
        let linger = Arc::clone(&enlisted.linger);
        let confirmation = Confirmation::new();
        Self { _enlisted: enlisted, ioctx: ioctx.clone(), oid, linger, timeout_s, confirmation }
    }

    /// Registers the watch with the OSD that serves the object now.
    async fn register(&self, op: u8, generation: u32) -> Result<(), Error> {
        self.ioctx.rados.core().objecter.aim(&self.linger, &self.ioctx.locator, &self.oid);
        self.tell_osd(op, generation).await
    }

    async fn tell_osd(&self, op: u8, generation: u32) -> Result<(), Error> {
        let args = WatchArgs { cookie: self.linger.cookie, op, generation, timeout_s: self.timeout_s };
        loop {
            let sent = Instant::now();
            let ops = smallvec![OsdOp::watch(args)];
            match self.ioctx.request(self.oid.clone(), ops, OsdFlags::WRITE).await {
                // Repeating the request is harmless: the OSD replies that it does not know the watch of
                // this global id.
                Err(Error::NewIdentity) => {}
                told => {
                    told?;
                    self.confirmation.confirm(sent);
                    return Ok(());
                }
            }
        }
    }

    /// Runs until the watch is stopped or there is nothing left to watch.
    async fn keep(self, mut stopped: oneshot::Receiver<()>) -> Result<(), Error> {
        let mut generation = 0;
        loop {
            let trouble = tokio::select! {
                biased;
                _ = &mut stopped => return self.tell_osd(WatchArgs::UNWATCH, 0).await,
                trouble = self.linger.troubled() => trouble,
                trouble = self.ping(generation) => match trouble {
                    Ok(trouble) => trouble,
                    Err(why) => return self.end(why),
                },
            };
            generation += 1;
            let registered = tokio::select! {
                biased;
                _ = &mut stopped => return self.tell_osd(WatchArgs::UNWATCH, 0).await,
                registered = self.register_again(trouble, generation) => registered,
            };
            if let Err(why) = registered {
                return self.end(why);
            }
        }
    }

    /// Pings the OSD until it replies that it does not know the watch.
    async fn ping(&self, generation: u32) -> Result<Trouble, Error> {
        loop {
            tokio::time::sleep(PING_EVERY).await;
            match self.tell_osd(WatchArgs::PING, generation).await {
                Ok(()) => {}
                Err(e) if forgotten(&e) => return Ok(Trouble::Disconnected),
                Err(e) => return Err(e),
            }
        }
    }

    /// Reconnects the watch if the object still has it, otherwise registers it again.
    async fn register_again(&self, trouble: Trouble, generation: u32) -> Result<(), Error> {
        if trouble == Trouble::Stale {
            match self.register(WatchArgs::RECONNECT, generation).await {
                Err(e) if forgotten(&e) => {}
                other => return other,
            }
        }
        self.register(WatchArgs::WATCH, generation).await?;
        self.linger.tell(Heard::Missed);
        Ok(())
    }

    fn end(&self, why: Error) -> Result<(), Error> {
        self.linger.tell(Heard::Ended(why));
        Ok(())
    }
}

/// Returns `true` if the error says that the OSD does not know the watch.
fn forgotten(e: &Error) -> bool {
    matches!(e, Error::Os(errno) if [Errno::ENOTCONN, Errno::ETIMEDOUT].contains(errno))
}
