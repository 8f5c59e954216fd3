use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use loligo_wire::{EntityAddr, EntityAddrVec, EntityType};
use tokio::net::TcpListener;

use crate::{AcceptAuth, Config, ConnectAuth, Connection, Dispatcher, PeerInfo, Policy};

/// Numbers connections over all messengers of the process.
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// Listens and connects, and owns the tasks of its connections.
///
/// Dropping the last handle ends everything at once; [`Messenger::shutdown`] also waits for it.
pub struct Messenger {
    config: Config,
    #[expect(dead_code, reason = "the driver that calls it follows")]
    dispatcher: Arc<dyn Dispatcher>,
    num: AtomicI64,
    addrs: Mutex<EntityAddrVec>,
    listeners: Mutex<Vec<Listener>>,
    connections: Mutex<HashMap<u64, Opened>>,
}

type Opened = (Weak<Connection>, Arc<dyn ConnectAuth>);

struct Listener {
    #[expect(dead_code, reason = "kept open")]
    socket: TcpListener,
    #[expect(dead_code, reason = "kept for the accept loop")]
    auth: Arc<dyn AcceptAuth>,
}

impl Messenger {
    /// A messenger that neither listens nor is connected yet.
    ///
    /// # Panics
    /// Outside of a tokio runtime: the messenger's tasks run on the one it is made on.
    pub fn new(config: Config, dispatcher: Arc<dyn Dispatcher>) -> Arc<Self> {
        let _ = tokio::runtime::Handle::current();
        Arc::new(Self {
            num: AtomicI64::new(config.num),
            config,
            dispatcher,
            addrs: Mutex::default(),
            listeners: Mutex::default(),
            connections: Mutex::default(),
        })
    }

    /// Listens at an address (port 0: any free one) and adds it to our addresses. Returns the address it got. May be called
    /// several times.
    pub async fn bind(&self, addr: SocketAddr, auth: Arc<dyn AcceptAuth>) -> io::Result<SocketAddr> {
        let socket = TcpListener::bind(addr).await?;
        let bound = socket.local_addr()?;
        let entity = EntityAddr::msgr2(bound).with_nonce(self.config.nonce);
        self.addrs.lock().unwrap_or_else(PoisonError::into_inner).0.push(entity);
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner).push(Listener { socket, auth });
        Ok(bound)
    }

    /// Opens a connection, from any thread; returns at once. What is sent before it is up waits in the out-queue.
    ///
    /// A lossless policy that has a connection to this address already returns that one.
    pub fn connect(
        &self,
        kind: EntityType,
        addr: EntityAddr,
        policy: Policy,
        auth: Arc<dyn ConnectAuth>,
    ) -> Arc<Connection> {
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let peer = PeerInfo { kind, num: -1, addr, features: 0 };
        let conn = Connection::new(id, peer, policy, &self.config.limits);
        let entry = (Arc::downgrade(&conn), auth);
        self.connections.lock().unwrap_or_else(PoisonError::into_inner).insert(id, entry);
        conn
    }

    /// Closes all listeners and connections, without calling the dispatcher any more, and waits until every task has ended.
    pub async fn shutdown(&self) {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner).clear();
        let connections =
            std::mem::take(&mut *self.connections.lock().unwrap_or_else(PoisonError::into_inner));
        for (conn, _) in connections.into_values() {
            if let Some(conn) = conn.upgrade() {
                conn.mark_down();
            }
        }
    }

    /// The addresses that we tell peers.
    pub fn addrs(&self) -> EntityAddrVec {
        self.addrs.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Our number among our kind, as connections opened from now on will say: a client's global id, once it has one.
    pub fn set_num(&self, num: i64) {
        self.num.store(num, Ordering::Relaxed);
    }

    /// What it was made from.
    pub fn config(&self) -> &Config {
        &self.config
    }
}

impl fmt::Debug for Messenger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "messenger of {}.{}", self.config.kind, self.num.load(Ordering::Relaxed))
    }
}
