//! A network in memory and simulated time. All randomness comes from a seed.
//!
//! Bytes written to one end arrive at the other in pieces, each after a latency, in order; at most a
//! window of bytes is in flight. A mortal connection is reset after a number of bytes, at any position
//! in a frame: bytes in flight are lost, and both ends are notified, or neither is. Traffic from and to
//! a host that is cut off waits until the cut ends. For use on a single-threaded runtime whose clock is
//! paused (`tokio::time::pause`).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use az::SaturatingAs as _;
use bytes::{BufMut as _, Bytes, BytesMut};
use tokio::sync::{Notify, mpsc};
use tokio::time::{Duration, Instant, sleep_until};

use super::Network;
use crate::testing::Random;

/// Parameters of a network. Shares are percentages.
#[derive(Clone, Debug)]
pub struct Weather {
    /// How long a piece is in flight, in milliseconds.
    pub latency_ms: RangeInclusive<u64>,
    /// The size of the longest piece.
    pub piece_bytes_max: u64,
    /// Bytes that may be in flight in one direction.
    pub window_bytes: RangeInclusive<u64>,
    /// The share of connections that will be reset.
    pub mortal_percent: u64,
    /// The most bytes, in both directions together, after which a mortal connection is reset.
    pub life_bytes_max: u64,
    /// The share of resets that neither end is notified of.
    pub silent_percent: u64,
    /// The share of connection attempts that are refused although there is a listener.
    pub refused_percent: u64,
}

impl Weather {
    /// Nothing is lost, and latencies are short.
    pub fn calm() -> Self {
        Self {
            latency_ms: 1..=2,
            piece_bytes_max: 64 << 10,
            window_bytes: 64 << 10..=64 << 10,
            mortal_percent: 0,
            life_bytes_max: 1,
            silent_percent: 0,
            refused_percent: 0,
        }
    }
}

/// A network for tests, in memory and simulated time.
#[derive(Clone)]
pub struct SimulatedNetwork(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    /// Notified when a host is not cut off any more.
    healed: Notify,
}

struct State {
    random: Random,
    weather: Weather,
    listeners: BTreeMap<SocketAddr, mpsc::UnboundedSender<(End, SocketAddr)>>,
    cut_off: BTreeSet<IpAddr>,
    wires: Vec<Weak<Wire>>,
    next_port: u16,
    /// A hash of everything that has happened.
    fingerprint: u64,
    began: Instant,
}

impl SimulatedNetwork {
    /// Creates a network without hosts.
    ///
    /// # Panics
    /// Outside of a runtime whose clock is paused.
    pub fn new(seed: u64, weather: Weather) -> Self {
        let state = State {
            // Similar seeds must not begin alike.
            random: Random(seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15)),
            weather,
            listeners: BTreeMap::new(),
            cut_off: BTreeSet::new(),
            wires: Vec::new(),
            next_port: 1024,
            fingerprint: 0xcbf2_9ce4_8422_2325,
            began: Instant::now(),
        };
        Self(Arc::new(Shared { state: Mutex::new(state), healed: Notify::new() }))
    }

    /// The network as messengers on a host see it.
    pub fn host(&self, ip: IpAddr) -> Network {
        Network { simulated: Some(Host { network: self.clone(), ip }) }
    }

    /// Changes the parameters for new connections and new pieces.
    pub fn set_weather(&self, weather: Weather) {
        self.state().weather = weather;
    }

    /// Resets the current connections of a host.
    pub fn reset(&self, ip: IpAddr) {
        for wire in self.wires() {
            if wire.has(ip) {
                wire.lock().reset(Instant::now(), Instant::now());
                wire.tell_all();
            }
        }
    }

    /// Cuts a host off from all traffic, until it is [joined](Self::join) again.
    pub fn cut_off(&self, ip: IpAddr) {
        self.state().cut_off.insert(ip);
    }

    /// Ends a cut: waiting traffic is sent on.
    pub fn join(&self, ip: IpAddr) {
        let latency = {
            let mut state = self.state();
            state.cut_off.remove(&ip);
            state.latency()
        };
        self.0.healed.notify_waiters();
        for wire in self.wires() {
            if wire.has(ip) && !self.is_cut(&wire.hosts) {
                wire.lock().resume(Instant::now() + latency);
                wire.tell_all();
            }
        }
    }

    /// A hash of everything that has happened so far: equal after equal runs.
    pub fn fingerprint(&self) -> u64 {
        self.state().fingerprint
    }

    /// Adds a number to the fingerprint.
    pub fn note(&self, what: u64) {
        self.state().note(what);
    }

    /// Connections that are not closed on both sides.
    pub fn connections(&self) -> usize {
        self.wires().iter().filter(|wire| !wire.lock().sides.iter().all(|side| side.closed)).count()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_cut(&self, hosts: &[IpAddr; 2]) -> bool {
        let state = self.state();
        hosts.iter().any(|ip| state.cut_off.contains(ip))
    }

    fn wires(&self) -> Vec<Arc<Wire>> {
        let mut state = self.state();
        state.wires.retain(|wire| wire.strong_count() > 0);
        state.wires.iter().filter_map(Weak::upgrade).collect()
    }
}

impl fmt::Debug for SimulatedNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimulatedNetwork").finish_non_exhaustive()
    }
}

impl State {
    fn chance(&mut self, percent: u64) -> bool {
        self.random.next() % 100 < percent
    }

    fn within(&mut self, range: RangeInclusive<u64>) -> u64 {
        let (low, high) = range.into_inner();
        low + self.random.next() % (high - low + 1)
    }

    fn latency(&mut self) -> Duration {
        let range = self.weather.latency_ms.clone();
        Duration::from_millis(self.within(range))
    }

    fn note(&mut self, what: u64) {
        let at = self.began.elapsed().as_millis().saturating_as::<u64>();
        for number in [what, at] {
            self.fingerprint = (self.fingerprint ^ number).wrapping_mul(0x0100_0000_01b3);
            self.fingerprint ^= self.fingerprint >> 29;
        }
    }
}

/// A host of a network.
#[derive(Clone)]
pub(crate) struct Host {
    network: SimulatedNetwork,
    ip: IpAddr,
}

impl Host {
    pub(super) fn random(&self) -> u64 {
        self.network.state().random.next()
    }

    pub(super) fn bind(&self, addr: SocketAddr) -> io::Result<Listener> {
        let mut state = self.network.state();
        let port = if addr.port() == 0 { state.port() } else { addr.port() };
        let addr = SocketAddr::new(self.ip, port);
        if state.listeners.contains_key(&addr) {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        let (sender, arrivals) = mpsc::unbounded_channel();
        state.listeners.insert(addr, sender);
        drop(state);
        Ok(Listener { network: self.network.clone(), addr, arrivals: tokio::sync::Mutex::new(arrivals) })
    }

    pub(super) async fn connect(&self, to: SocketAddr) -> io::Result<End> {
        let hosts = [self.ip, to.ip()];
        let latency = self.network.state().latency();
        tokio::time::sleep(latency).await;
        loop {
            let healed = self.network.0.healed.notified();
            tokio::pin!(healed);
            healed.as_mut().enable();
            if !self.network.is_cut(&hosts) {
                break;
            }
            healed.await;
        }
        let mut state = self.network.state();
        let refused = state.weather.refused_percent;
        let listener = state.listeners.get(&to).cloned();
        let Some(listener) = listener.filter(|_| !state.chance(refused)) else {
            state.note(1);
            return Err(io::ErrorKind::ConnectionRefused.into());
        };
        state.note(2);
        let from = SocketAddr::new(self.ip, state.port());
        let wire = Arc::new(Wire::new(hosts, &mut state));
        state.wires.push(Arc::downgrade(&wire));
        drop(state);
        let end = |side| End { network: self.network.clone(), wire: Arc::clone(&wire), side };
        let near = end(0);
        // If the listener is gone, the connection is refused.
        listener.send((end(1), from)).map_err(|_| io::Error::from(io::ErrorKind::ConnectionRefused))?;
        Ok(near)
    }
}

impl State {
    fn port(&mut self) -> u16 {
        // Ports are not reused within 64,512 connections.
        self.next_port = self.next_port.checked_add(1).unwrap_or(1024);
        self.next_port
    }
}

/// A listening socket of a simulated network.
pub(crate) struct Listener {
    network: SimulatedNetwork,
    addr: SocketAddr,
    arrivals: tokio::sync::Mutex<mpsc::UnboundedReceiver<(End, SocketAddr)>>,
}

impl Listener {
    pub(super) fn addr(&self) -> SocketAddr {
        self.addr
    }

    pub(super) async fn accept(&self) -> io::Result<(End, SocketAddr)> {
        self.arrivals.lock().await.recv().await.ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.network.state().listeners.remove(&self.addr);
    }
}

/// Two ends and the traffic between them.
struct Wire {
    hosts: [IpAddr; 2],
    sides: Mutex<Sides>,
    /// One per side.
    readable: [Notify; 2],
    writable: [Notify; 2],
}

struct Sides {
    sides: [Side; 2],
    /// Bytes in both directions until the connection is reset.
    life: u64,
    is_silent: bool,
    /// Nothing passes any more, and neither end is notified.
    dead: bool,
}

/// One end, and the traffic in flight to it.
#[derive(Default)]
struct Side {
    /// The pieces with their arrival times. `None`: waits for a cut to end, and so does everything
    /// behind it.
    pieces: VecDeque<(Option<Instant>, Bytes)>,
    /// Bytes in `pieces`.
    bytes: u64,
    window: u64,
    /// The arrival time of the end of the stream, after all pieces: the peer has closed. `None` inside:
    /// when a cut ends.
    fin: Option<Option<Instant>>,
    /// When a reset arrives. Pieces that arrive later are lost.
    reset: Option<Instant>,
    /// This end has been shut down.
    closed: bool,
}

impl Wire {
    fn new(hosts: [IpAddr; 2], state: &mut State) -> Self {
        let weather = state.weather.clone();
        let mortal = state.chance(weather.mortal_percent);
        let life = if mortal { state.within(1..=weather.life_bytes_max) } else { u64::MAX };
        let mut side = || Side { window: state.within(weather.window_bytes.clone()), ..Side::default() };
        let sides = [side(), side()];
        let is_silent = state.chance(weather.silent_percent);
        Self {
            hosts,
            sides: Mutex::new(Sides { sides, life, is_silent, dead: false }),
            readable: Default::default(),
            writable: Default::default(),
        }
    }

    fn has(&self, ip: IpAddr) -> bool {
        self.hosts.contains(&ip)
    }

    fn lock(&self) -> MutexGuard<'_, Sides> {
        self.sides.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell_all(&self) {
        self.readable.iter().chain(&self.writable).for_each(Notify::notify_one);
    }
}

impl Sides {
    fn reset(&mut self, near: Instant, far: Instant) {
        for (side, at) in self.sides.iter_mut().zip([near, far]) {
            side.reset = Some(side.reset.map_or(at, |before| before.min(at)));
        }
    }

    /// Lets the traffic that waited for the end of a cut arrive at `at`.
    fn resume(&mut self, at: Instant) {
        for side in &mut self.sides {
            for (arrival, _) in &mut side.pieces {
                arrival.get_or_insert(at);
            }
            if let Some(arrival) = &mut side.fin {
                arrival.get_or_insert(at);
            }
        }
    }
}

impl Side {
    /// When something can be read next: a piece, the end of the stream, or an error.
    fn next(&self) -> Option<Instant> {
        let arrival = match (self.pieces.front(), self.fin) {
            (Some((arrival, _)), _) => *arrival,
            (None, fin) => fin.flatten(),
        };
        match (arrival, self.reset) {
            (Some(arrival), Some(reset)) => Some(arrival.min(reset)),
            (arrival, reset) => arrival.or(reset),
        }
    }

    /// When the last piece in flight arrives; `None` if that is not known.
    fn last(&self, now: Instant) -> Option<Instant> {
        self.pieces.back().map_or(Some(now), |(arrival, _)| *arrival)
    }

    fn is_reset(&self, now: Instant) -> bool {
        self.reset.is_some_and(|reset| reset <= now)
    }
}

/// One end of a connection.
pub(crate) struct End {
    network: SimulatedNetwork,
    wire: Arc<Wire>,
    side: usize,
}

impl End {
    pub(super) fn try_read(&self, buf: &mut BytesMut) -> io::Result<usize> {
        let now = Instant::now();
        let mut state = self.network.state();
        let mut sides = self.wire.lock();
        let side = &mut sides.sides[self.side];
        if side.closed {
            return Ok(0);
        }
        let room = buf.capacity() - buf.len();
        let mut read = 0;
        while read < room
            && let Some((Some(arrival), bytes)) = side.pieces.front_mut()
            && *arrival <= now
            && side.reset.is_none_or(|reset| *arrival <= reset)
        {
            let taken = bytes.split_to(bytes.len().min(room - read));
            if bytes.is_empty() {
                side.pieces.pop_front();
            }
            read += taken.len();
            buf.put_slice(&taken);
        }
        side.bytes -= read as u64;
        if read == 0 {
            let ended = side.pieces.is_empty() && side.fin.flatten().is_some_and(|fin| fin <= now);
            return match (side.is_reset(now), ended) {
                (true, _) => Err(io::ErrorKind::ConnectionReset.into()),
                (false, true) => Ok(0),
                (false, false) => Err(io::ErrorKind::WouldBlock.into()),
            };
        }
        state.note(3 + ((self.side as u64) << 8) + ((read as u64) << 16));
        drop((sides, state));
        self.wire.writable[1 - self.side].notify_one();
        Ok(read)
    }

    pub(super) async fn readable(&self) -> io::Result<()> {
        loop {
            let next = {
                let sides = self.wire.lock();
                if sides.sides[self.side].closed {
                    return Ok(());
                }
                sides.sides[self.side].next()
            };
            let told = self.wire.readable[self.side].notified();
            match next {
                Some(next) if next <= Instant::now() => return Ok(()),
                Some(next) => tokio::select! {
                    biased;
                    () = sleep_until(next) => {}
                    () = told => {}
                },
                None => told.await,
            }
        }
    }

    pub(super) fn try_write_vectored(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let now = Instant::now();
        let is_cut = self.network.is_cut(&self.wire.hosts);
        let mut state = self.network.state();
        let mut sides = self.wire.lock();
        let Sides { sides: [near, far], life, is_silent, dead } = &mut *sides;
        let (near, far) = if self.side == 0 { (near, far) } else { (far, near) };
        if near.closed {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        if near.is_reset(now) {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        let len: u64 = slices.iter().map(|slice| slice.len() as u64).sum();
        let room = far.window.saturating_sub(far.bytes).min(len);
        if room == 0 && len > 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        // The network also decides how many bytes one write accepts.
        let written = if state.chance(20) { state.within(1..=room.max(1)).min(room) } else { room };
        state.note(4 + ((self.side as u64) << 8) + (written << 16));
        let mut left = gather(slices, written.saturating_as::<usize>());
        if far.closed {
            // The peer answers with a reset.
            near.reset = Some(near.reset.unwrap_or(now + state.latency()));
        } else if !*dead {
            let passes = written.min(*life);
            *life -= passes;
            left.truncate(passes.saturating_as::<usize>());
            while !left.is_empty() {
                let max = state.weather.piece_bytes_max.min(left.len() as u64);
                let piece = if state.chance(30) { state.within(1..=max) } else { max };
                let arrival =
                    if is_cut { None } else { far.last(now).map(|last| last.max(now + state.latency())) };
                far.bytes += piece;
                far.pieces.push_back((arrival, left.split_to(piece.saturating_as::<usize>())));
            }
            if *life == 0 {
                *dead = true;
                if !*is_silent {
                    let told = now + state.latency();
                    let (at_near, at_far) = (told, far.last(now).unwrap_or(told).max(told));
                    near.reset = Some(near.reset.unwrap_or(at_near));
                    far.reset = Some(far.reset.unwrap_or(at_far));
                }
                state.note(5);
            }
        }
        drop((sides, state));
        self.wire.tell_all();
        Ok(written.saturating_as::<usize>())
    }

    pub(super) async fn writable(&self) -> io::Result<()> {
        loop {
            let told = self.wire.writable[self.side].notified();
            let reset = {
                let sides = self.wire.lock();
                let (near, far) = (&sides.sides[self.side], &sides.sides[1 - self.side]);
                if near.closed || near.is_reset(Instant::now()) || far.bytes < far.window {
                    return Ok(());
                }
                near.reset
            };
            match reset {
                Some(reset) => tokio::select! {
                    biased;
                    () = sleep_until(reset) => {}
                    () = told => {}
                },
                None => told.await,
            }
        }
    }

    pub(super) fn shut_down(&self) {
        let is_cut = self.network.is_cut(&self.wire.hosts);
        let now = Instant::now();
        let mut state = self.network.state();
        let mut sides = self.wire.lock();
        let dead = sides.dead;
        let near = &mut sides.sides[self.side];
        if std::mem::replace(&mut near.closed, true) {
            return;
        }
        near.pieces.clear();
        near.bytes = 0;
        state.note(6 + ((self.side as u64) << 8));
        let far = &mut sides.sides[1 - self.side];
        if !dead && far.fin.is_none() {
            let latency = state.latency();
            far.fin = Some(if is_cut { None } else { far.last(now).map(|last| last.max(now + latency)) });
        }
        drop((sides, state));
        self.wire.tell_all();
    }
}

impl Drop for End {
    fn drop(&mut self) {
        self.shut_down();
    }
}

/// Joins the first `len` bytes.
fn gather(slices: &[IoSlice<'_>], len: usize) -> Bytes {
    let mut all = BytesMut::with_capacity(len);
    for slice in slices {
        let take = slice.len().min(len - all.len());
        all.put_slice(&slice[..take]);
    }
    all.freeze()
}
