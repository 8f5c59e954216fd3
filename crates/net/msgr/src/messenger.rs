//! The messenger: listens, connects, and owns the connections' tasks.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use loligo_wire::{AddrKind, EntityAddr, EntityAddrVec, EntityType};
use tokio::time::Instant;

use crate::accept::listen;
use crate::context::Context;
use crate::driver::Driver;
use crate::{AcceptAuth, Config, ConnectAuth, Connection, Dispatcher, PeerInfo, Policy};

/// Listens and connects, and owns the tasks of its connections.
///
/// Dropping the last handle closes everything at once; [`Messenger::shutdown`] also waits until it is
/// done. A dispatcher that keeps a strong handle keeps the messenger alive: keep a `Weak` one, or call
/// `shutdown`.
pub struct Messenger {
    ctx: Arc<Context>,
}

impl Messenger {
    /// Creates a messenger without listeners and connections.
    ///
    /// # Panics
    /// Outside of a tokio runtime: the messenger's tasks run on the runtime it is created on.
    pub fn new(config: Config, dispatcher: Arc<dyn Dispatcher>) -> Arc<Self> {
        let ctx = Context::new(config, dispatcher);
        ctx.spawn(watch(Arc::clone(&ctx)));
        Arc::new(Self { ctx })
    }

    /// Listens at an address (port 0: any free one) and adds it to this messenger's addresses. Returns
    /// the bound address. May be called several times.
    pub async fn bind(&self, addr: SocketAddr, auth: Arc<dyn AcceptAuth>) -> io::Result<SocketAddr> {
        self.bind_for(AddrKind::Msgr2, addr, auth).await
    }

    /// Like [`bind`](Self::bind), for peers that speak version 1 of the messenger's protocol.
    pub async fn bind_v1(&self, addr: SocketAddr, auth: Arc<dyn AcceptAuth>) -> io::Result<SocketAddr> {
        self.bind_for(AddrKind::Legacy, addr, auth).await
    }

    async fn bind_for(
        &self,
        speaks: AddrKind,
        addr: SocketAddr,
        auth: Arc<dyn AcceptAuth>,
    ) -> io::Result<SocketAddr> {
        let listener = self.ctx.config.network.bind(addr).await?;
        let bound = listener.local_addr()?;
        let entity = EntityAddr { kind: speaks, nonce: self.ctx.config.nonce, sock: Some(bound) };
        self.ctx.addrs.write().0.push(entity);
        self.ctx.spawn(listen(Arc::clone(&self.ctx), listener, speaks, auth));
        Ok(bound)
    }

    /// Opens a connection, by the version of the protocol that the kind of the address names (msgr2 unless
    /// it is [`AddrKind::Legacy`]), and returns at once; may be called from any thread. Messages sent
    /// before the connection is open wait in the out-queue.
    ///
    /// With a lossless policy, an existing connection to this address is returned instead. After
    /// [`shutdown`](Messenger::shutdown) the returned connection is closed.
    pub fn connect(
        &self,
        kind: EntityType,
        addr: EntityAddr,
        policy: Policy,
        auth: Arc<dyn ConnectAuth>,
    ) -> Arc<Connection> {
        self.connect_with(kind, addr, policy, auth, |_| {})
    }

    /// Like [`connect`](Self::connect), but passes a new connection to `ready` before any event on it is
    /// reported. `ready` stores the state that the dispatcher looks up when it is called for the
    /// connection, even if the connection is lost at once.
    pub fn connect_with(
        &self,
        kind: EntityType,
        addr: EntityAddr,
        policy: Policy,
        auth: Arc<dyn ConnectAuth>,
        ready: impl FnOnce(&Arc<Connection>),
    ) -> Arc<Connection> {
        let ctx = &self.ctx;
        let make = || {
            let peer = PeerInfo { kind, num: -1, addr, from: None, features: 0 };
            Connection::new(peer, policy.clone(), &ctx.config.limits)
        };
        let (conn, is_new) = if policy.lossy {
            (make(), true)
        } else {
            ctx.at_addr(addr, |known| match known {
                Some(known) if !known.is_closed() => (None, (Arc::clone(known), false)),
                _ => {
                    let new = make();
                    (Some(Arc::clone(&new)), (new, true))
                }
            })
        };
        if is_new {
            ready(&conn);
        }
        if is_new && ctx.add(&conn) {
            ctx.spawn(Driver::new(Arc::clone(ctx), Arc::clone(&conn), Some(auth)).run(None));
        } else if is_new {
            conn.close();
        }
        conn
    }

    /// Closes all listeners and connections, without calling [`Dispatcher::reset`], and waits until
    /// every task has ended.
    pub async fn shutdown(&self) {
        self.ctx.stop();
        self.ctx.stopped().await;
    }

    /// The addresses that are announced to peers.
    pub fn addrs(&self) -> EntityAddrVec {
        self.ctx.addrs.read().clone()
    }

    /// Replaces the addresses that are announced to peers: for a server that listens at all of a host's
    /// addresses or is behind network address translation.
    pub fn set_addrs(&self, addrs: EntityAddrVec) {
        *self.ctx.addrs.write() = addrs;
    }

    /// Sets this entity's number (a client's global id), which connections opened from now on announce.
    pub fn set_num(&self, num: i64) {
        self.ctx.num.store(num, Ordering::Relaxed);
    }

    /// All connections that are not closed.
    pub fn connections(&self) -> Vec<Arc<Connection>> {
        self.ctx.connections()
    }

    /// The configuration that the messenger was created with.
    pub fn config(&self) -> &Config {
        &self.ctx.config
    }
}

impl Drop for Messenger {
    fn drop(&mut self) {
        self.ctx.stop();
    }
}

impl fmt::Debug for Messenger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "messenger of {}.{}", self.ctx.config.kind, self.ctx.num.load(Ordering::Relaxed))
    }
}

/// Periodically sends keepalives, closes sockets whose peers are silent, and corrects the out-queues'
/// balances, until the messenger stops.
async fn watch(ctx: Arc<Context>) {
    loop {
        tokio::select! {
            biased;
            () = ctx.stopping() => return,
            () = tokio::time::sleep(ctx.tick()) => {}
        }
        let now = Instant::now();
        for conn in ctx.connections() {
            conn.check_alive(now, &ctx.config.limits);
            conn.settle();
        }
    }
}
