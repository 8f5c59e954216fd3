//! What tests of this crate and of those above need: authentication that lets everybody in, a proxy that breaks connections,
//! and a network in simulated time.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use loligo_cephx::handshake::{
    AuthError, AuthKeys, AuthMethod, AuthRequest, ClientAuth, ConMode, Identity, ServerAuth, ServerStep,
};
use loligo_wire::{EntityName, EntityType, GlobalId};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

pub use crate::socket::simulated::{SimulatedNetwork, Weather};
use crate::{AcceptAuth, ConnectAuth};

/// Lets everybody in, as the name they say they have, in crc mode. For both sides.
#[derive(Clone, Debug)]
pub struct OpenDoor {
    /// On the connecting side: who we say we are.
    pub name: EntityName,
}

impl OpenDoor {
    /// As `client.NAME`.
    pub fn client(name: &str) -> Arc<Self> {
        Arc::new(Self { name: EntityName::client(name) })
    }
}

impl ConnectAuth for OpenDoor {
    fn connector(&self, _peer: EntityType) -> Box<dyn ClientAuth> {
        Box::new(self.clone())
    }
}

impl AcceptAuth for OpenDoor {
    fn acceptor(&self, _from: SocketAddr) -> Box<dyn ServerAuth> {
        Box::new(self.clone())
    }
}

impl ClientAuth for OpenDoor {
    fn request(&mut self) -> Result<AuthRequest, AuthError> {
        let payload = Bytes::from(self.name.id.clone());
        Ok(AuthRequest { method: AuthMethod::NONE, modes: vec![ConMode::Crc], payload })
    }

    fn bad_method(
        &mut self,
        _: AuthMethod,
        errno: i32,
        m: &[u32],
        _: &[u32],
    ) -> Result<AuthRequest, AuthError> {
        Err(AuthError::Refused { errno, methods: m.to_vec() })
    }

    fn more(&mut self, _payload: &[u8]) -> Result<Bytes, AuthError> {
        Err(AuthError::PeerUnproven("asks for more"))
    }

    fn done(&mut self, _: GlobalId, _: ConMode, _: &[u8]) -> Result<AuthKeys, AuthError> {
        Ok(AuthKeys::default())
    }
}

impl ServerAuth for OpenDoor {
    fn request(&mut self, peer: EntityType, _: AuthMethod, _: &[u32], payload: &[u8]) -> ServerStep {
        let id = String::from_utf8_lossy(payload).into_owned();
        ServerStep::Done {
            identity: Identity {
                name: EntityName { kind: peer, id },
                global_id: GlobalId(1),
                caps: "allow *".to_owned(),
                challenge: 0,
            },
            mode: ConMode::Crc,
            payload: Bytes::new(),
            keys: AuthKeys::default(),
        }
    }

    fn more(&mut self, _payload: &[u8]) -> ServerStep {
        ServerStep::Bad { errno: 22, methods: vec![AuthMethod::NONE.0], modes: vec![ConMode::Crc.code()] }
    }
}

/// A proxy on loopback that forwards bytes and resets each connection after a random number of them, of both directions
/// together, wherever in a frame that is; or does harm when it is told to.
#[derive(Debug)]
pub struct FaultProxy {
    addr: SocketAddr,
    harm: Arc<Harm>,
    task: JoinHandle<()>,
}

/// What the proxy's connections share.
#[derive(Debug, Default)]
struct Harm {
    /// Connections that were forwarded.
    connections: AtomicU64,
    /// Connections that were reset.
    faults: AtomicU64,
    reset: Notify,
    stalled: AtomicBool,
    damage: AtomicBool,
}

impl FaultProxy {
    /// Forwards to `target`. Each connection lives for 1 to `bytes_max` bytes; after `faults_max` resets, new connections
    /// live for ever. `seed` decides; print it when a test fails.
    pub async fn start(target: SocketAddr, seed: u64, bytes_max: u64, faults_max: u64) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let addr = listener.local_addr()?;
        let harm = Arc::new(Harm::default());
        let shared = Arc::clone(&harm);
        let task = tokio::spawn(async move {
            let mut random = Random(seed);
            while let Ok((near, _)) = listener.accept().await {
                shared.connections.fetch_add(1, Ordering::Relaxed);
                let is_mortal = shared.faults.load(Ordering::Relaxed) < faults_max;
                let life = if is_mortal { 1 + random.next() % bytes_max } else { u64::MAX };
                tokio::spawn(forward(near, target, life, Arc::clone(&shared)));
            }
        });
        Ok(Self { addr, harm, task })
    }

    /// Where to connect.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Connections that were forwarded.
    pub fn connections(&self) -> u64 {
        self.harm.connections.load(Ordering::Relaxed)
    }

    /// Connections that were reset.
    pub fn faults(&self) -> u64 {
        self.harm.faults.load(Ordering::Relaxed)
    }

    /// Resets all connections there are.
    pub fn reset_all(&self) {
        self.harm.reset.notify_waiters();
    }

    /// Inverts a bit in the middle of the bytes that are forwarded next.
    pub fn damage_next(&self) {
        self.harm.damage.store(true, Ordering::Relaxed);
    }

    /// Forwards nothing any more, but keeps connections open.
    pub fn stall(&self) {
        self.harm.stalled.store(true, Ordering::Relaxed);
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn forward(mut near: TcpStream, target: SocketAddr, life: u64, harm: Arc<Harm>) {
    let Ok(mut far) = TcpStream::connect(target).await else { return };
    let mut left = life;
    let mut from_near = vec![0; 16 << 10];
    let mut from_far = vec![0; 16 << 10];
    while left > 0 {
        let limit = usize::try_from(left).unwrap_or(usize::MAX).min(from_near.len());
        let copied = tokio::select! {
            () = harm.reset.notified() => break,
            n = near.read(&mut from_near[..limit]) => pass_on(n, &mut from_near, &mut far, &harm).await,
            n = far.read(&mut from_far[..limit]) => pass_on(n, &mut from_far, &mut near, &harm).await,
        };
        match copied {
            Ok(n) if n > 0 => left -= n as u64,
            _ => return,
        }
    }
    harm.faults.fetch_add(1, Ordering::Relaxed);
    // Closing without lingering sends a reset and throws away what is under way.
    for stream in [near, far] {
        let _ = socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO));
    }
}

async fn pass_on(
    read: io::Result<usize>,
    bytes: &mut [u8],
    to: &mut TcpStream,
    harm: &Harm,
) -> io::Result<usize> {
    let n = read?;
    if harm.stalled.load(Ordering::Relaxed) {
        std::future::pending::<()>().await;
    }
    if n > 0 && harm.damage.swap(false, Ordering::Relaxed) {
        bytes[n / 2] ^= 1;
    }
    to.write_all(&bytes[..n]).await?;
    Ok(n)
}

/// A small generator of numbers that look random (xorshift64*).
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    /// The next number.
    #[expect(clippy::should_implement_trait, reason = "it never ends")]
    pub fn next(&mut self) -> u64 {
        // Zero is the one state that the shifts never leave.
        self.0 = self.0.max(1);
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}
