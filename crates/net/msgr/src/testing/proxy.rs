//! Proxies on loopback that inject network faults.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;

use super::Random;

/// A proxy on loopback that forwards bytes and resets each connection after a random number of bytes,
/// counted over both directions, at any position in a frame; other faults are injected on request.
#[derive(Debug)]
pub struct FaultProxy {
    addr: SocketAddr,
    harm: Arc<Harm>,
    task: JoinHandle<()>,
}

/// The state that the proxy's connections share.
#[derive(Debug, Default)]
struct Harm {
    /// Forwarded connections.
    connections: AtomicU64,
    /// Reset connections.
    faults: AtomicU64,
    /// Forwarded bytes, in both directions.
    carried: AtomicU64,
    reset: Notify,
    stalled: watch::Sender<bool>,
    delay_us: AtomicU64,
    damage: AtomicBool,
    calm: AtomicBool,
}

impl FaultProxy {
    /// Forwards to `target`. Each connection is reset after 1 to `bytes_max` bytes; after `faults_max`
    /// resets, new connections are never reset. The choices follow from `seed`: print it when a test
    /// fails.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn start(target: SocketAddr, seed: u64, bytes_max: u64, faults_max: u64) -> io::Result<Self> {
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        let addr = listener.local_addr()?;
        let harm = Arc::new(Harm::default());
        let shared = Arc::clone(&harm);
        let task = tokio::spawn(async move {
            let mut random = Random(seed);
            while let Ok((near, _)) = listener.accept().await {
                shared.connections.fetch_add(1, Ordering::Relaxed);
                let calm = shared.calm.load(Ordering::Relaxed);
                let is_mortal = !calm && shared.faults.load(Ordering::Relaxed) < faults_max;
                let life = if is_mortal { 1 + random.next() % bytes_max } else { u64::MAX };
                tokio::spawn(forward(near, target, life, Arc::clone(&shared)));
            }
        });
        Ok(Self { addr, harm, task })
    }

    /// The address to connect to.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Forwarded connections.
    pub fn connections(&self) -> u64 {
        self.harm.connections.load(Ordering::Relaxed)
    }

    /// Reset connections.
    pub fn faults(&self) -> u64 {
        self.harm.faults.load(Ordering::Relaxed)
    }

    /// Forwarded bytes, in both directions.
    pub fn carried(&self) -> u64 {
        self.harm.carried.load(Ordering::Relaxed)
    }

    /// Resets all current connections.
    pub fn reset_all(&self) {
        self.harm.reset.notify_waiters();
    }

    /// Inverts a bit in the middle of the next forwarded piece.
    pub fn damage_next(&self) {
        self.harm.damage.store(true, Ordering::Relaxed);
    }

    /// Stops forwarding, but keeps connections open.
    pub fn stall(&self) {
        self.harm.stalled.send_replace(true);
    }

    /// Ends a [`stall`](Self::stall) and forwards what arrived in the meantime.
    pub fn go_on(&self) {
        self.harm.stalled.send_replace(false);
    }

    /// Never resets connections accepted from now on.
    pub fn calm_down(&self) {
        self.harm.calm.store(true, Ordering::Relaxed);
    }

    /// Delays each piece by `delay`.
    pub fn delay(&self, delay: Duration) {
        self.harm.delay_us.store(u64::try_from(delay.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A proxy for each address that a client connects to.
#[derive(Debug)]
pub struct FaultProxies {
    seed: u64,
    bytes_max: u64,
    faults_max: u64,
    by_target: Mutex<HashMap<SocketAddr, FaultProxy>>,
}

impl FaultProxies {
    /// Sets the parameters that each proxy is started with: see [`FaultProxy::start`].
    pub fn new(seed: u64, bytes_max: u64, faults_max: u64) -> Self {
        Self { seed, bytes_max, faults_max, by_target: Mutex::default() }
    }

    /// The address to connect to instead of `target`.
    ///
    /// # Panics
    /// Outside of a tokio runtime, or if no port is free.
    pub fn route(&self, target: SocketAddr) -> SocketAddr {
        let mut by_target = self.by_target.lock().unwrap_or_else(PoisonError::into_inner);
        let seed = self.seed + by_target.len() as u64;
        let start = || FaultProxy::start(target, seed, self.bytes_max, self.faults_max).expect("a free port");
        by_target.entry(target).or_insert_with(start).addr()
    }

    /// Calls `then` for each proxy.
    pub fn for_each(&self, then: impl FnMut(&FaultProxy)) {
        self.by_target.lock().unwrap_or_else(PoisonError::into_inner).values().for_each(then);
    }

    /// Returns the sum of `count` over the proxies.
    pub fn sum(&self, mut count: impl FnMut(&FaultProxy) -> u64) -> u64 {
        let mut sum = 0;
        self.for_each(|proxy| sum += count(proxy));
        sum
    }
}

async fn forward(mut near: TcpStream, target: SocketAddr, life: u64, harm: Arc<Harm>) {
    // One future for the life of the connection: a reset while a piece is passed on counts too.
    let mut reset = pin!(harm.reset.notified());
    let Ok(mut far) = TcpStream::connect(target).await else { return };
    let mut left = life;
    let mut from_near = vec![0; 16 << 10];
    let mut from_far = vec![0; 16 << 10];
    while left > 0 {
        let limit = usize::try_from(left).unwrap_or(usize::MAX).min(from_near.len());
        let copied = tokio::select! {
            () = reset.as_mut() => break,
            n = near.read(&mut from_near[..limit]) => pass_on(n, &mut from_near, &mut far, &harm).await,
            n = far.read(&mut from_far[..limit]) => pass_on(n, &mut from_far, &mut near, &harm).await,
        };
        match copied {
            Ok(n) if n > 0 => left -= n as u64,
            _ => return,
        }
    }
    harm.faults.fetch_add(1, Ordering::Relaxed);
    // Closing with a linger time of zero sends a reset and discards bytes in flight.
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
    // The channel's sender is in `harm`, which this connection shares.
    let _ = harm.stalled.subscribe().wait_for(|stalled| !stalled).await;
    let delay_us = harm.delay_us.load(Ordering::Relaxed);
    if delay_us > 0 {
        tokio::time::sleep(Duration::from_micros(delay_us)).await;
    }
    if n > 0 && harm.damage.swap(false, Ordering::Relaxed) {
        bytes[n / 2] ^= 1;
    }
    to.write_all(&bytes[..n]).await?;
    harm.carried.fetch_add(n as u64, Ordering::Relaxed);
    Ok(n)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reset comes while the proxy waits before it passes a piece on.
    #[tokio::test]
    async fn a_connection_that_passes_a_piece_on_is_reset_too() {
        let target = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let addr = target.local_addr().expect("an address");
        let proxy = FaultProxy::start(addr, 1, u64::MAX, 0).expect("a proxy");
        let mut near = TcpStream::connect(proxy.addr()).await.expect("connects");
        let (mut far, _) = target.accept().await.expect("a connection");
        proxy.stall();
        near.write_all(b"piece").await.expect("written");
        // The proxy's task runs on this thread: it reads the piece and waits.
        tokio::time::sleep(Duration::from_millis(20)).await;
        proxy.reset_all();
        proxy.go_on();
        let mut got = Vec::new();
        let end = tokio::time::timeout(Duration::from_secs(10), far.read_to_end(&mut got)).await;
        assert!(end.expect("the connection ends").is_err(), "it is reset");
        assert_eq!(proxy.faults(), 1);
    }
}
