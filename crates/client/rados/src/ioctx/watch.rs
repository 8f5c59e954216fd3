//! Watching objects and notifying those who do.

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

/// How often a watch tells its OSD that it is alive (Ceph: `objecter_tick_interval`).
const PING_EVERY: Duration = Duration::from_secs(5);

/// Watching and notifying.
impl IoCtx {
    /// Watches an object, which must exist: what others [notify](Self::notify) on it is heard from now on.
    ///
    /// `timeout` is how long the object's OSD remembers the watch without a sign of life from us, in whole
    /// seconds; zero is the OSD's default (`osd_client_watch_timeout`, 30 s). Connections that break and OSDs
    /// that come and go are dealt with; if the OSD had to forget the watch meanwhile it is made anew, and
    /// [`WatchNews::Missed`] is told.
    ///
    /// # Errors
    /// ENOENT: there is no such object.
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

    /// Tells all who watch an object something, and waits for their answers, at most `timeout` (in whole
    /// seconds; zero is the OSD's default, `osd_default_notify_timeout`, 30 s). Nobody need watch.
    ///
    /// If the OSD that gathers the answers is lost meanwhile, another one notifies again: watchers may hear
    /// it twice.
    ///
    /// # Errors
    /// ENOENT: there is no such object. That watchers did not answer in time is no error: see
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
        input.u32(1); // a version that nobody looks at
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
                // Whoever was to tell us is gone.
                _ = linger.troubled() => {}
            }
        }
    }

    /// Who watches an object.
    pub async fn watchers(&self, oid: impl Into<Vec<u8>>) -> Result<Vec<WatchItem>, Error> {
        let out = self.read_one(oid.into(), OsdOp::new(OpCode::LIST_WATCHERS)).await?;
        decode("the list of watchers", &out, |r| Ok(ListWatchersResponse::decode(r)?.entries))
    }
}

/// The message that all have answered a notification; those about earlier attempts are passed over.
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

/// What watchers answered to a notification.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Notified {
    /// The answers, by watch.
    pub answers: BTreeMap<WatcherId, Bytes>,
    /// Watches that did not answer in time.
    pub missing: Vec<WatcherId>,
}

/// A watch of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WatcherId {
    /// The client.
    pub client: GlobalId,
    /// Its name for the watch.
    pub cookie: u64,
}

impl Notified {
    fn read(msg: &MWatchNotify) -> Result<Self, Error> {
        let id = |(client, cookie): (u64, u64)| WatcherId { client: GlobalId(client), cookie };
        if msg.answers.is_empty() {
            // Nobody watches; or an error, which a stock OSD tells without answers.
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

/// A watch. Dropped, it ends: the OSD is told, if it can be, without waiting for it.
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

/// What a watch hears.
#[derive(Debug)]
pub enum WatchNews {
    /// Somebody has notified.
    Notified(Notification),
    /// Something may have been notified that was not heard: the OSD had forgotten the watch, and it was made
    /// anew; or more came than was read.
    Missed,
}

impl Watch {
    /// The client's name for the watch, by which it appears among [`IoCtx::watchers`].
    pub fn cookie(&self) -> u64 {
        self.linger.cookie
    }

    /// Waits for what is heard next. May be dropped and called again.
    ///
    /// # Errors
    /// The watch has ended by itself: ENOENT, the object is gone; [`Errno::EBLOCKLISTED`], the client is on
    /// the blocklist; [`Error::Shutdown`].
    pub async fn next(&mut self) -> Result<WatchNews, Error> {
        loop {
            match self.linger.heard().await {
                Heard::Message(msg) if msg.event == WatchEvent::Notify => {
                    return Ok(WatchNews::Notified(Notification::new(self, msg)));
                }
                Heard::Message(_) => {}
                Heard::Missed => return Ok(WatchNews::Missed),
                Heard::Ended(why) => {
                    // Whoever asks again hears it again.
                    self.linger.tell(Heard::Ended(Errno::ENOTCONN.into()));
                    return Err(why);
                }
            }
        }
    }

    /// How long ago the watch was known to be there: what was notified until then has been heard.
    pub fn confirmed_before(&self) -> Duration {
        self.confirmation.age()
    }

    /// The same for others: tells it as long as it is asked, and takes no lock.
    pub fn confirmation(&self) -> Confirmation {
        self.confirmation.clone()
    }

    /// Ends the watch and waits until the OSD knows it.
    pub async fn unwatch(mut self) -> Result<(), Error> {
        drop(self.stop.take());
        (&mut self.task).await.unwrap_or(Err(Error::Shutdown))
    }
}

/// When a watch was last known to be there.
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

    /// How long ago that was: see [`Watch::confirmed_before`].
    pub fn age(&self) -> Duration {
        // Relaxed, here and below: nothing else belongs to the time.
        let at = Duration::from_micros(self.0.at.load(Ordering::Relaxed));
        self.0.begun.elapsed().saturating_sub(at)
    }

    fn confirm(&self, at: Instant) {
        let at = at.saturating_duration_since(self.0.begun).as_micros();
        self.0.at.store(u64::try_from(at).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

/// Something was notified. Whoever did waits for an answer, which is empty if this is dropped without one.
#[derive(Debug)]
#[must_use = "whoever has notified waits for an answer"]
pub struct Notification {
    /// What.
    pub payload: Bytes,
    /// By whom.
    pub notifier: GlobalId,
    /// The OSD's number for it.
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

    /// Answers. Nobody tells whether the answer came in time.
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
            let _ = ioctx.perform(oid, smallvec![op], OsdFlags::READ).await;
        });
    }
}

impl Drop for Notification {
    fn drop(&mut self) {
        self.send(Bytes::new());
    }
}

/// A linger that is removed with this.
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

/// A watch that is being registered. If it is not known whether it is, when whoever waits is dropped or has
/// waited too long, it is ended: an OSD that goes on with it would let those who notify wait for its answers.
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
        // Without a runtime everything has ended.
        if let (Some(keeper), Ok(runtime)) = (self.0.take(), Handle::try_current()) {
            // Behind the request that registers it, if that is on its way.
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

    /// Registers the watch where it belongs now.
    async fn register(&self, op: u8, generation: u32) -> Result<(), Error> {
        self.ioctx.rados.core().objecter.aim(&self.linger, &self.ioctx.locator, &self.oid);
        self.tell_osd(op, generation).await
    }

    async fn tell_osd(&self, op: u8, generation: u32) -> Result<(), Error> {
        let args = WatchArgs { cookie: self.linger.cookie, op, generation, timeout_s: self.timeout_s };
        loop {
            let sent = Instant::now();
            let ops = smallvec![OsdOp::watch(args)];
            match self.ioctx.perform(self.oid.clone(), ops, OsdFlags::WRITE).await {
                // It can be said twice; the OSD answers that it does not know the watch of this number.
                Err(Error::NewIdentity) => {}
                told => {
                    told?;
                    self.confirmation.confirm(sent);
                    return Ok(());
                }
            }
        }
    }

    /// Until it is to stop, or there is nothing to watch any more.
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

    /// Tells the OSD now and then that we are there, until it knows nothing of us.
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

    /// Takes the watch up again if the object remembers it, else makes it anew.
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

/// Whether an OSD says that it knows no such watch.
fn forgotten(e: &Error) -> bool {
    matches!(e, Error::Os(errno) if [Errno::ENOTCONN, Errno::ETIMEDOUT].contains(errno))
}
