//! The state that the tasks of one messenger share.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use loligo_lockstat::{Class, Mutex, RwLock};
use loligo_wire::{AddrKind, EntityAddr, EntityAddrVec};
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};

use crate::{Config, Connection, Dispatcher, Level};

static CONNECTIONS: Class = Class::new("msgr.connections");
static ADDRS: Class = Class::new("msgr.addrs");

pub(crate) struct Context {
    pub(crate) config: Config,
    pub(crate) dispatcher: Arc<dyn Dispatcher>,
    pub(crate) addrs: RwLock<EntityAddrVec>,
    /// This entity's number: a daemon's id or a client's global id.
    pub(crate) num: AtomicI64,
    /// Counts attempts to connect: of two connections from this messenger, a peer prefers the one with
    /// the higher number.
    global_seq: AtomicU64,
    table: Mutex<Table>,
    runtime: Handle,
    /// Tasks that have not ended.
    tasks: AtomicUsize,
    /// Notified when the last task ends.
    ended: Notify,
    /// Set to `true` when the messenger stops.
    stop: watch::Sender<bool>,
}

/// The connections that have not ended.
#[derive(Default)]
struct Table {
    /// In creation order.
    by_id: BTreeMap<u64, Arc<Connection>>,
    /// The connections that a connecting peer may refer to: accepted ones, and lossless ones that this
    /// side opened.
    by_addr: HashMap<EntityAddr, Arc<Connection>>,
    stopped: bool,
}

impl Context {
    /// Uses the runtime that the caller runs on.
    pub(crate) fn new(config: Config, dispatcher: Arc<dyn Dispatcher>) -> Arc<Self> {
        Arc::new(Self {
            num: AtomicI64::new(config.num),
            config,
            dispatcher,
            addrs: RwLock::new(&ADDRS, EntityAddrVec::default()),
            global_seq: AtomicU64::new(0),
            table: Mutex::new(&CONNECTIONS, Table::default()),
            runtime: Handle::current(),
            tasks: AtomicUsize::new(0),
            ended: Notify::new(),
            stop: watch::Sender::new(false),
        })
    }

    /// Returns the number for the next attempt to connect; it is higher than `above`.
    pub(crate) fn next_global_seq(&self, above: u64) -> u64 {
        self.global_seq.fetch_max(above, Ordering::Relaxed);
        self.global_seq.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// The address of this messenger at which it speaks this version.
    pub(crate) fn our_addr(&self, speaks: AddrKind) -> Option<EntityAddr> {
        self.addrs.read().0.iter().find(|addr| addr.kind == speaks).copied()
    }

    pub(crate) fn log(&self, level: Level, line: fmt::Arguments<'_>) {
        (self.config.log)(level, line);
    }

    /// Spawns a task that [`Context::stopped`] waits for.
    pub(crate) fn spawn(self: &Arc<Self>, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.fetch_add(1, Ordering::Relaxed);
        let running = Running(Arc::clone(self));
        self.runtime.spawn(async move {
            let _running = running;
            task.await;
        });
    }

    /// Adds a connection. Returns `false` if the messenger has stopped.
    pub(crate) fn add(&self, conn: &Arc<Connection>) -> bool {
        let mut table = self.table.lock();
        if !table.stopped {
            table.by_id.insert(conn.id(), Arc::clone(conn));
        }
        !table.stopped
    }

    /// Calls `choose` with the connection that is known at an address, if there is one. A connection
    /// that `choose` returns replaces it. The table stays locked meanwhile, so decisions about an
    /// address are serialized.
    pub(crate) fn at_addr<R>(
        &self,
        addr: EntityAddr,
        choose: impl FnOnce(Option<&Arc<Connection>>) -> (Option<Arc<Connection>>, R),
    ) -> R {
        let mut table = self.table.lock();
        let (new, r) = choose(table.by_addr.get(&addr));
        let Some(new) = new else { return r };
        if table.stopped {
            drop(table);
            new.close();
            return r;
        }
        // The previous connection stays in `by_id`, so that nothing is freed under the lock.
        table.by_id.insert(new.id(), Arc::clone(&new));
        table.by_addr.insert(addr, new);
        r
    }

    /// Removes a connection that has ended.
    pub(crate) fn remove(&self, conn: &Arc<Connection>) {
        let mut table = self.table.lock();
        let by_id = table.by_id.remove(&conn.id());
        let by_addr = match table.by_addr.entry(conn.peer().addr) {
            Entry::Occupied(entry) if Arc::ptr_eq(entry.get(), conn) => Some(entry.remove()),
            _ => None,
        };
        drop(table);
        drop((by_id, by_addr));
    }

    /// All connections.
    pub(crate) fn connections(&self) -> Vec<Arc<Connection>> {
        self.table.lock().by_id.values().cloned().collect()
    }

    /// Stops the messenger: refuses new connections, ends the listeners and marks all connections down.
    pub(crate) fn stop(&self) {
        self.table.lock().stopped = true;
        self.stop.send_replace(true);
        for conn in self.connections() {
            conn.mark_down();
        }
    }

    /// Waits until the messenger is told to stop.
    pub(crate) async fn stopping(&self) {
        // `wait_for` fails only if the sender is dropped; `self` owns it.
        let _ = self.stop.subscribe().wait_for(|stop| *stop).await;
    }

    /// Waits until all tasks have ended.
    pub(crate) async fn stopped(&self) {
        loop {
            let ended = self.ended.notified();
            tokio::pin!(ended);
            ended.as_mut().enable();
            if self.tasks.load(Ordering::Acquire) == 0 {
                return;
            }
            ended.await;
        }
    }

    /// The interval at which connections are checked.
    pub(crate) fn tick(&self) -> Duration {
        let limits = &self.config.limits;
        let longest = Duration::from_secs(1);
        if limits.keepalive_interval.is_zero() {
            return longest;
        }
        let shortest = limits.keepalive_interval.min(limits.keepalive_timeout);
        (shortest / 4).clamp(Duration::from_millis(5), longest)
    }
}

/// Counts a task until it ends, also by a panic.
struct Running(Arc<Context>);

impl Drop for Running {
    fn drop(&mut self) {
        if self.0.tasks.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.ended.notify_waiters();
        }
    }
}
