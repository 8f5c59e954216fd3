//! The monitor on the network: a task that drives a [`Monitor`].
//!
//! Connections queue their messages to the task. It handles a batch of them, saves once, and then
//! replies. The connections' [`Throttle`] bounds the queue.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use loligo_cephx::handshake::ServerAuth;
use loligo_cephx::keyring::{Entry, Keyring};
use loligo_cephx::server::{AuthConfig, AuthServer, KeyDatabase, Rotation, ServiceKeys};
use loligo_logring::{log, text};
use loligo_msgr::{
    AcceptAuth, Connection, Dispatcher, Error, Hold, Policies, Policy, SendError, Throttle, is_shortage,
};
use loligo_wire::message::Msg;
use loligo_wire::{EntityName, UTime};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{oneshot, watch};
use tokio::time::MissedTickBehavior;
use zeroize::Zeroizing;

use crate::file::StateFile;
use crate::monitor::{Effects, Malformed, Monitor, Save, SessionId};
use crate::session::{Door, Peer};
use crate::state::{NewOsdMap, State};
use crate::usage::UsageSource;

/// Maximum number of messages that may wait for the monitor, of all clients together, and their bytes
/// (`mon_client_bytes`).
const WAITING_MAX: (usize, u64) = (10_000, 100 << 20);
/// Maximum number of events handled between two saves.
const BATCH_MAX: usize = 256;
/// The interval of the monitor's periodic work (`mon_tick_interval`).
const TICK: Duration = Duration::from_secs(5);

/// Receives new osdmaps; see [`MonConfig::on_osdmap`].
pub type OnOsdMap = Box<dyn Fn(NewOsdMap) -> io::Result<()> + Send + Sync>;

/// The configuration of a [`MonService`].
pub struct MonConfig {
    /// The cluster's state. It must have been started.
    pub state: State,
    /// The configuration of client authentication.
    pub auth: AuthConfig,
    /// The source of space and pool statistics.
    pub usage: Arc<dyn UsageSource>,
    /// The files that keep the state; with `None` the state is not saved.
    pub file: Option<StateFile>,
    /// Called with every new osdmap before any client receives it. Must not block. An error ends the
    /// monitor.
    pub on_osdmap: OnOsdMap,
}

/// A running monitor. Implements [`Dispatcher`] and [`AcceptAuth`] for its messenger.
pub struct MonService {
    events: UnboundedSender<Event>,
    auth: Arc<AuthServer>,
    throttle: Arc<Throttle>,
    ended: watch::Receiver<Option<Arc<io::Error>>>,
}

type Job = Box<dyn FnOnce(&mut State, UTime) + Send>;
type Look = Box<dyn FnOnce(&Monitor) + Send>;

enum Event {
    Open(Arc<Connection>, Door),
    Messages(SessionId, Vec<(Msg, Hold)>),
    Close(SessionId),
    /// A job, and the channel to notify once its result is saved.
    Call(Job, oneshot::Sender<()>),
    /// A read-only query.
    Look(Look),
    /// Closes all sessions, and notifies when that is done.
    Disconnect(oneshot::Sender<()>),
    Stop,
}

/// The keys that connections are authenticated against.
#[derive(Default)]
struct Keys(ArcSwap<Keyring>);

impl KeyDatabase for Keys {
    fn entity(&self, name: &EntityName) -> Option<Entry> {
        self.0.load().entry(name).cloned()
    }
}

impl MonService {
    /// Starts the task on the current runtime. When this returns, the state is saved and its osdmap has
    /// been passed to `on_osdmap`.
    ///
    /// # Errors
    /// The state could not be saved, or its secrets cannot be read.
    ///
    /// # Panics
    /// If called outside a tokio runtime.
    pub async fn start(config: MonConfig) -> io::Result<Arc<Self>> {
        let MonConfig { mut state, auth, usage, file, on_osdmap } = config;
        let keys = Arc::new(Keys(ArcSwap::from_pointee(state.keys().clone())));
        let service_keys = service_keys(&mut state, &auth)?;
        let first_global_id = state.reserve_global_ids();
        let database: Arc<dyn KeyDatabase> = Arc::clone(&keys) as _;
        let auth = AuthServer::new(auth, database, service_keys, first_global_id);
        let (events, waiting) = unbounded_channel();
        let (end, ended) = watch::channel(None);
        on_osdmap(NewOsdMap::of(&state))?;
        let mut monitor = Monitor::new(state, Arc::clone(&auth), usage);
        monitor.change(|_| ());
        let mut driver = Driver {
            monitor,
            keys,
            auth: Arc::clone(&auth),
            file,
            on_osdmap,
            connections: HashMap::new(),
            callers: Vec::new(),
        };
        driver.carry_out().await?;
        tokio::spawn(async move {
            if let Err(e) = driver.run(waiting).await {
                driver.connections.values().for_each(|conn| conn.mark_down());
                let _ = end.send(Some(Arc::new(e)));
            }
        });
        let throttle = Throttle::new(WAITING_MAX.0, WAITING_MAX.1);
        Ok(Arc::new(Self { events, auth, throttle, ended }))
    }

    /// The authentication server. Services that accept the monitor's tickets use it as well.
    pub fn auth(&self) -> &Arc<AuthServer> {
        &self.auth
    }

    /// The messenger's policies for accepted connections.
    pub fn policies(&self) -> Policies {
        Policies::new(Policy::anonymous_server().with_throttle(Arc::clone(&self.throttle)))
    }

    /// Reads or changes the monitor's state. Changes are saved when this returns.
    ///
    /// # Errors
    /// The monitor has stopped.
    pub async fn call<R: Send + 'static>(
        &self,
        call: impl FnOnce(&mut State, UTime) -> R + Send + 'static,
    ) -> Result<R, Stopped> {
        let (answer, answered) = oneshot::channel();
        let (saved, is_saved) = oneshot::channel();
        let call = move |state: &mut State, now| {
            let _ = answer.send(call(state, now));
        };
        self.post(Event::Call(Box::new(call), saved))?;
        is_saved.await.map_err(|_| Stopped)?;
        answered.await.map_err(|_| Stopped)
    }

    /// Reads the monitor without changing it.
    ///
    /// # Errors
    /// The monitor has stopped.
    pub async fn look<R: Send + 'static>(
        &self,
        look: impl FnOnce(&Monitor) -> R + Send + 'static,
    ) -> Result<R, Stopped> {
        let (answer, answered) = oneshot::channel();
        let look = move |monitor: &Monitor| {
            let _ = answer.send(look(monitor));
        };
        self.post(Event::Look(Box::new(look)))?;
        answered.await.map_err(|_| Stopped)
    }

    /// Closes the connections of all clients of the monitor and of the manager. They connect again, and send
    /// again what was not answered.
    ///
    /// # Errors
    /// The monitor has stopped.
    pub async fn disconnect_all(&self) -> Result<(), Stopped> {
        let (done, is_done) = oneshot::channel();
        self.post(Event::Disconnect(done))?;
        is_done.await.map_err(|_| Stopped)
    }

    /// Ends the task. The messenger should be shut down first.
    pub async fn stop(&self) {
        let _ = self.events.send(Event::Stop);
        self.events.closed().await;
    }

    /// Waits until the task has ended. Returns the error that ended it, if any.
    pub async fn ended(&self) -> Option<Arc<io::Error>> {
        let mut ended = self.ended.clone();
        let _ = ended.wait_for(Option::is_some).await;
        ended.borrow().clone()
    }

    /// Opens the session of a client that has connected to the manager. Its messages go to
    /// [`dispatch`](Dispatcher::dispatch), like those of the monitor's clients.
    pub fn accepted_at_manager(&self, conn: &Arc<Connection>) {
        self.open(conn, Door::Manager);
    }

    fn open(&self, conn: &Arc<Connection>, door: Door) {
        if self.post(Event::Open(Arc::clone(conn), door)).is_err() {
            conn.mark_down();
        }
    }

    fn post(&self, event: Event) -> Result<(), Stopped> {
        self.events.send(event).map_err(|_| Stopped)
    }
}

/// The monitor has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the monitor has stopped")]
pub struct Stopped;

/// The secrets that seal tickets. Secrets that an earlier run of the process has saved are reused, so
/// that clients' tickets stay valid.
fn service_keys(state: &mut State, auth: &AuthConfig) -> io::Result<Arc<ServiceKeys>> {
    let (mon_ttl, service_ttl, now) = (auth.mon_ticket_ttl, auth.service_ticket_ttl, (auth.clock)());
    let rotation = Rotation { mon_ttl, service_ttl, cipher: state.auth_cipher() };
    let keys = match state.service_keys() {
        bytes if bytes.is_empty() => ServiceKeys::new(rotation, now),
        bytes => ServiceKeys::restore(rotation, bytes, now).map_err(io::Error::other)?,
    };
    keys.rotate(now);
    state.set_service_keys(keys.to_bytes());
    Ok(Arc::new(keys))
}

impl Dispatcher for MonService {
    fn accepted(&self, conn: &Arc<Connection>) {
        self.open(conn, Door::Monitor);
    }

    fn dispatch(&self, conn: &Arc<Connection>, msgs: &mut Vec<Msg>) {
        let msgs = msgs.drain(..).map(|msg| {
            let hold = conn.hold(msg.len());
            (msg, hold)
        });
        if self.post(Event::Messages(conn.id(), msgs.collect())).is_err() {
            conn.mark_down();
        }
    }

    fn reset(&self, conn: &Arc<Connection>, _: &Error) {
        let _ = self.post(Event::Close(conn.id()));
    }
}

impl AcceptAuth for MonService {
    fn acceptor(&self, _: SocketAddr) -> Box<dyn ServerAuth> {
        self.auth.mon_acceptor()
    }
}

/// The delay before a save that failed for lack of descriptors or memory is retried.
const SHORTAGE_PAUSE: Duration = Duration::from_millis(200);

/// Saves the whole state. Retries while the system is short of descriptors or memory, which delays the
/// replies; other errors are final.
async fn save_when_possible(file: StateFile, content: Zeroizing<Vec<u8>>) -> io::Result<()> {
    let content = Arc::new(content);
    loop {
        let (to, what) = (file.clone(), Arc::clone(&content));
        let saved = tokio::task::spawn_blocking(move || to.save(&what)).await.map_err(io::Error::other)?;
        match saved {
            Err(e) if is_shortage(&e) => {
                log!(MON, 0, "{}: cannot be saved now: {}", text(&file.path().display()), text(&e));
                tokio::time::sleep(SHORTAGE_PAUSE).await;
            }
            saved => return saved,
        }
    }
}

/// Appends a change to the files. Returns `false` if the whole state must be saved instead: the log is
/// full, or the system is short of a resource.
async fn append_if_possible(file: StateFile, change: Zeroizing<Vec<u8>>) -> io::Result<bool> {
    if !file.has_room(&change) {
        return Ok(false);
    }
    let appended =
        tokio::task::spawn_blocking(move || file.append(&change)).await.map_err(io::Error::other)?;
    match appended {
        Err(e) if is_shortage(&e) => Ok(false),
        appended => appended.map(|()| true),
    }
}

/// The state of the task.
struct Driver {
    monitor: Monitor,
    keys: Arc<Keys>,
    auth: Arc<AuthServer>,
    file: Option<StateFile>,
    on_osdmap: OnOsdMap,
    connections: HashMap<SessionId, Arc<Connection>>,
    /// The callers that wait for the next save.
    callers: Vec<oneshot::Sender<()>>,
}

impl Driver {
    async fn run(&mut self, mut waiting: UnboundedReceiver<Event>) -> io::Result<()> {
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                event = waiting.recv() => match event {
                    None | Some(Event::Stop) => return Ok(()),
                    Some(event) => self.apply(event),
                },
                _ = ticks.tick() => self.monitor.tick(UTime::now()),
            }
            let mut stop = false;
            for _ in 1..BATCH_MAX {
                match waiting.try_recv() {
                    Ok(Event::Stop) => stop = true,
                    Ok(event) => self.apply(event),
                    Err(_) => break,
                }
            }
            self.carry_out().await?;
            if stop {
                return Ok(());
            }
        }
    }

    fn apply(&mut self, event: Event) {
        match event {
            Event::Open(conn, door) => self.open(conn, door),
            Event::Messages(id, msgs) => {
                for (msg, hold) in msgs {
                    if let Err(Malformed(source)) = self.monitor.handle(id, &msg, UTime::now()) {
                        if let Some(conn) = self.connections.get(&id) {
                            conn.refuse(msg.header.kind, source);
                        }
                        self.drop_connection(id);
                    }
                    drop(hold);
                }
            }
            Event::Close(id) => {
                self.connections.remove(&id);
                self.monitor.close(id);
            }
            Event::Call(call, saved) => {
                self.monitor.change(|state| call(state, UTime::now()));
                self.callers.push(saved);
            }
            Event::Look(look) => look(&self.monitor),
            Event::Disconnect(done) => {
                let all: Vec<SessionId> = self.connections.keys().copied().collect();
                all.into_iter().for_each(|id| self.drop_connection(id));
                let _ = done.send(()); // the caller may have stopped waiting
            }
            Event::Stop => {}
        }
    }

    fn open(&mut self, conn: Arc<Connection>, door: Door) {
        let Some(identity) = conn.identity().cloned() else { return conn.mark_down() };
        let peer = conn.peer();
        let from = peer.from.map(|from| from.ip());
        let peer = Peer { kind: peer.kind, features: peer.features, addr: peer.addr, from, identity };
        match door {
            Door::Monitor => self.monitor.open(conn.id(), peer),
            Door::Manager => self.monitor.open_at_manager(conn.id(), peer),
        }
        self.connections.insert(conn.id(), conn);
    }

    /// Carries out the effects of the messages so far. Their order guarantees that only saved changes
    /// become visible.
    async fn carry_out(&mut self) -> io::Result<()> {
        let Effects { save, global_id_end, osdmap, keys, out } = self.monitor.take_effects();
        if let (Some(save), Some(file)) = (save, self.file.clone()) {
            let appended = match save {
                Save::Change(change) => append_if_possible(file.clone(), change).await?,
                Save::All => false,
            };
            if !appended {
                save_when_possible(file, self.monitor.state().to_json()).await?;
            }
        }
        if let Some(end) = global_id_end {
            self.auth.limit_global_ids(end);
        }
        if let Some(osdmap) = osdmap {
            (self.on_osdmap)(osdmap)?;
        }
        if let Some(keys) = keys {
            self.keys.0.store(Arc::new(keys));
        }
        for caller in self.callers.drain(..) {
            let _ = caller.send(()); // the caller may have stopped waiting
        }
        for (id, msg) in out {
            let full =
                self.connections.get(&id).is_some_and(|c| matches!(c.send(msg), Err(SendError::Full(_))));
            if full {
                self.drop_connection(id);
            }
        }
        Ok(())
    }

    /// Closes the connection of a client that was refused, or that does not read its messages.
    fn drop_connection(&mut self, id: SessionId) {
        if let Some(conn) = self.connections.remove(&id) {
            conn.mark_down();
        }
        self.monitor.close(id);
    }
}
