//! Two messengers over loopback.
//!
//! Goal: the guarantees given to senders and dispatchers hold on real sockets, also when those are reset
//! at any byte. Method: each side collects what is dispatched to it; in test builds `loligo-lockstat`
//! panics if a lock is held at a socket call or a dispatch, or taken in a wrong order. Tests of what does not
//! depend on the version of the protocol run with both.

mod admission;
mod faults;
mod flow;
mod refusals;
mod simulated;
mod unread;

use std::cell::Cell;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use loligo_wire::message::{Header, Msg};
use loligo_wire::{AddrKind, EntityAddr, EntityType, Tid};
use tokio::sync::Notify;

use crate::testing::OpenDoor;
use crate::{
    Config, Connection, Dispatcher, Dropped, Error, Hold, Level, Limits, Messenger, Policies, Policy,
    SendError, State, Unpacked, Watcher,
};

/// Time limit of waits; what a test waits for comes within milliseconds or not at all.
const LONG: Duration = Duration::from_secs(60);

/// A dispatcher that collects events and messages.
#[derive(Default)]
struct Peer {
    tids: Mutex<Vec<u64>>,
    events: Mutex<Vec<String>>,
    log: Mutex<Vec<(Level, String)>>,
    conns: Mutex<Vec<Arc<Connection>>>,
    holds: Mutex<Vec<Hold>>,
    /// Answer each message with one that has the same tid.
    echo: bool,
    /// Bytes of data in each answer.
    echo_bytes: usize,
    /// Count messages against the throttle until the test releases them.
    keep: bool,
    batches: AtomicUsize,
    changed: Notify,
}

impl Peer {
    fn echo() -> Self {
        Self { echo: true, ..Self::default() }
    }

    fn tids(&self) -> Vec<u64> {
        self.tids.lock().expect("not poisoned").clone()
    }

    fn events(&self) -> Vec<String> {
        self.events.lock().expect("not poisoned").clone()
    }

    fn errors(&self) -> Vec<String> {
        let log = self.log.lock().expect("not poisoned");
        log.iter().filter(|(level, _)| *level == Level::Error).map(|(_, line)| line.clone()).collect()
    }

    fn conn(&self) -> Arc<Connection> {
        Arc::clone(self.conns.lock().expect("not poisoned").last().expect("somebody has connected"))
    }

    fn event(&self, text: String) {
        self.events.lock().expect("not poisoned").push(text);
        self.changed.notify_waiters();
    }

    async fn until(&self, what: &str, mut done: impl FnMut(&Self) -> bool) {
        let wait = async {
            loop {
                let changed = self.changed.notified();
                tokio::pin!(changed);
                changed.as_mut().enable();
                if done(self) {
                    return;
                }
                // Not every condition that a test waits for sends a notification.
                let _ = tokio::time::timeout(Duration::from_millis(5), changed).await;
            }
        };
        if tokio::time::timeout(LONG, wait).await.is_err() {
            panic!("{what} did not happen; events {:?}, {} messages", self.events(), self.tids().len());
        }
    }

    async fn until_count(&self, count: usize) {
        self.until(&format!("the {count}th message"), |peer| peer.tids().len() >= count).await;
    }

    async fn until_event(&self, event: &str) {
        self.until(event, |peer| peer.events().iter().any(|e| e == event)).await;
    }
}

impl Dispatcher for Peer {
    fn dispatch(&self, conn: &Arc<Connection>, msgs: &mut Vec<Msg>) {
        self.batches.fetch_add(1, Ordering::Relaxed);
        for msg in msgs.drain(..) {
            let tid = msg.header.tid.0;
            if self.keep {
                self.holds.lock().expect("not poisoned").push(conn.hold(msg.len()));
            }
            self.tids.lock().expect("not poisoned").push(tid);
            if self.echo {
                let answer = if self.echo_bytes > 0 { large(tid, self.echo_bytes) } else { small(tid) };
                let _ = conn.send(answer);
            }
        }
        self.changed.notify_waiters();
    }

    fn connected(&self, _conn: &Arc<Connection>) {
        self.event("connected".into());
    }

    fn accepted(&self, conn: &Arc<Connection>) {
        self.conns.lock().expect("not poisoned").push(Arc::clone(conn));
        self.event("accepted".into());
    }

    fn reset(&self, _conn: &Arc<Connection>, _why: &Error) {
        self.event("reset".into());
    }

    fn remote_reset(&self, _conn: &Arc<Connection>) {
        self.event("remote reset".into());
    }

    fn refused(&self, _conn: &Arc<Connection>, why: &Error) {
        self.event(format!("refused: {why}"));
    }
}

/// One side: a messenger and its collecting dispatcher.
struct Side {
    msgr: Arc<Messenger>,
    peer: Arc<Peer>,
}

impl Side {
    fn new(kind: EntityType, peer: Peer, change: impl FnOnce(&mut Config)) -> Self {
        let peer = Arc::new(peer);
        let mut config = Config::new(kind);
        config.limits.backoff_min = Duration::from_millis(1);
        config.limits.backoff_max = Duration::from_millis(20);
        let logger = Arc::clone(&peer);
        config.log = Arc::new(move |level, line| {
            logger.log.lock().expect("not poisoned").push((level, line.to_string()));
            logger.changed.notify_waiters();
        });
        change(&mut config);
        Self { msgr: Messenger::new(config, peer.clone()), peer }
    }

    fn client(change: impl FnOnce(&mut Config)) -> Self {
        Self::new(EntityType::CLIENT, Peer::default(), change)
    }

    /// Creates a listening side; returns it and its address.
    async fn server(peer: Peer, policy: Policy, change: impl FnOnce(&mut Config)) -> (Self, EntityAddr) {
        let side = Self::new(EntityType::OSD, peer, |config| {
            config.policies = Policies::new(policy);
            change(config);
        });
        let addr = side.bind().await;
        (side, addr)
    }

    async fn bind(&self) -> EntityAddr {
        bind(&self.msgr, ([127, 0, 0, 1], 0).into()).await
    }

    fn connect(&self, addr: EntityAddr, policy: Policy) -> Arc<Connection> {
        self.msgr.connect(EntityType::OSD, addr, policy, OpenDoor::client("test"))
    }
}

thread_local! {
    // The version that the test on this thread listens with.
    static SPEAKS: Cell<AddrKind> = const { Cell::new(AddrKind::Msgr2) };
}

/// Runs a test with both versions of the protocol.
macro_rules! both_versions {
    ($test:ident) => {
        mod $test {
            use loligo_wire::AddrKind::{self, Legacy, Msgr2};

            fn run(speaks: AddrKind) {
                super::SPEAKS.set(speaks);
                let mut builder = tokio::runtime::Builder::new_multi_thread();
                let runtime = builder.worker_threads(2).enable_all().build().expect("a runtime");
                runtime.block_on(super::$test());
            }

            #[test]
            fn v2() {
                run(Msgr2);
            }

            #[test]
            fn v1() {
                run(Legacy);
            }
        }
    };
}
use both_versions;

/// An address of the tested version.
fn entity(sock: SocketAddr) -> EntityAddr {
    EntityAddr { kind: SPEAKS.get(), nonce: 0, sock: Some(sock) }
}

/// Listens with the tested version.
async fn bind(msgr: &Messenger, addr: SocketAddr) -> EntityAddr {
    let door = OpenDoor::client("server");
    let bound = match SPEAKS.get() {
        AddrKind::Legacy => msgr.bind_v1(addr, door).await,
        _ => msgr.bind(addr, door).await,
    };
    entity(bound.expect("a free port")).with_nonce(msgr.config().nonce)
}

fn small(tid: u64) -> Msg {
    let header = Header { tid: Tid(tid), kind: 1, ..Header::default() };
    Msg { header, front: Bytes::from_static(b"front"), ..Msg::default() }
}

fn large(tid: u64, len: usize) -> Msg {
    Msg { data: [Bytes::from(vec![tid as u8; len])].into_iter().collect(), ..small(tid) }
}
