//! Many threads send on one connection, of either version of the protocol: waits for its lock.
//!
//! Each thread sends a request of 4 KiB, sleeps until its reply of 150 bytes arrives, and sends the next
//! one, as clients of a storage cluster do. Server, sealing, runtime and kind of mutex are the same in
//! both forms.

use std::io::{self, IoSlice};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, OnceLock};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use loligo_lockstat::{Class, Mutex};
use loligo_msgr::testing::OpenDoor;
use loligo_msgr::{Config, ConnectAuth, Connection, Dispatcher, Messenger, Policy};
use loligo_msgr_proto::{
    ClientIdent, Established, Event, FLAG_LOSSY, Frame, Handshake, Limits, Local, Opener, OutBuf, Sealer, v1,
};
use loligo_wire::message::{Header, Msg};
use loligo_wire::{AddrKind, EntityAddr, EntityType, Tid, features};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;

use crate::measure::{Waits, waited_for};
use crate::{About, Case, Error, Form, Metric, Sample, Setting, Source, Spread, Unit};

/// Bytes of a request's data and front, and of a reply.
const DATA_BYTES: usize = 4096;
const FRONT_BYTES: usize = 200;
const REPLY_BYTES: usize = 150;

/// A small stack suffices for a sending thread, so that a thousand of them fit.
const STACK_BYTES: usize = 64 << 10;

/// The lock of the "before".
static CONNECTION: Class = Class::new("before.connection");

/// The case.
pub(super) struct OutQueue {
    pub(super) settings: Vec<Storm>,
}

/// A setting: the version of the protocol, and the number of sending threads.
#[derive(Clone, Copy)]
pub(super) struct Storm {
    pub(super) speaks: AddrKind,
    pub(super) threads: usize,
}

impl Storm {
    pub(super) fn v2(threads: usize) -> Self {
        Self { speaks: AddrKind::Msgr2, threads }
    }

    pub(super) fn v1(threads: usize) -> Self {
        Self { speaks: AddrKind::Legacy, threads }
    }

    fn name(self) -> String {
        match self.speaks {
            AddrKind::Legacy => format!("{} threads, version 1", self.threads),
            _ => format!("{} threads", self.threads),
        }
    }
}

impl Default for OutQueue {
    fn default() -> Self {
        Self { settings: vec![Storm::v2(256), Storm::v2(1000), Storm::v1(1000)] }
    }
}

impl Case for OutQueue {
    fn name(&self) -> &'static str {
        "out-queue"
    }

    fn about(&self) -> About {
        About {
            title: "A sender waits for the socket",
            before: "One mutex per connection guards its queue and its socket. A worker holds it while it reads, dispatches \
                     replies, seals and writes; every sender takes it to append its message.",
            after: "loligo-msgr's out-queue: its lock is held to move messages in or out, never while anything is read, \
                    written or dispatched. A sender that finds it taken leaves its message to the holder.",
            note: "The waits of the after are those of all locks of the messenger, at both ends of the connection; a try \
                   that fails is none: what is done instead counts as time in the send call. Its \
                   senders write to the socket themselves when nobody else is writing, which counts as time in the send call.",
            source: Source {
                author: "Max Kellermann",
                title: "[PATCH] fs/ceph/messenger: add separate lock for `out_queue`",
                date: "2026-07-03",
                url: "https://lore.kernel.org/lkml/20260703193803.3689912-1-max.kellermann@ionos.com/",
            },
        }
    }

    fn settings(&self) -> Vec<Setting> {
        let setting = |storm: &Storm| Setting {
            name: storm.name(),
            metrics: vec![
                // Published: 7,853.36 ms before; after, 210.87 ms on the new lock and 13.68 ms on the
                // old one.
                Metric::lower("total wait per million requests", Unit::Ms)
                    .published(7853.36 / (210.87 + 13.68)),
                Metric::lower("average wait", Unit::Us).published(492.0 / 3.27),
                // The longest waits that remain are those for the old lock.
                Metric::lower("longest wait", Unit::Us).published(37_877.04 / 7_130.96),
                Metric::lower("waits per million requests", Unit::Count),
                Metric::lower("time in the send call, p50", Unit::Us),
                Metric::lower("time in the send call, p99", Unit::Us),
                Metric::higher("requests", Unit::PerS),
            ],
            spread_of: "time in the send call",
        };
        self.settings.iter().map(setting).collect()
    }

    fn measure(&self, setting: usize, form: Form, time: Duration) -> Result<Sample, Error> {
        let Storm { speaks, threads } = self.settings[setting];
        let beds = Beds::new(threads);
        let (server_rt, client_rt) = (runtime()?, runtime()?);
        let (server, addr) = server_rt.block_on(listen(speaks))?;
        let (storm, locks) = match form {
            Form::Before => {
                let connected = client_rt.block_on(OneMutex::connect(addr, Arc::clone(&beds)))?;
                let worker = client_rt.spawn(Arc::clone(&connected).work());
                loligo_lockstat::reset();
                let storm = storm(&beds, time, move |msg| connected.send(msg));
                let locks = waited_for();
                worker.abort();
                (storm?, locks)
            }
            Form::After => {
                let dispatcher = Arc::clone(&beds);
                let client =
                    client_rt.block_on(async { Messenger::new(Config::new(EntityType::CLIENT), dispatcher) });
                let auth = OpenDoor::client("contend");
                let conn = client.connect(EntityType::OSD, addr, Policy::lossy_client(), auth);
                loligo_lockstat::reset();
                let storm = storm(&beds, time, move |msg| conn.send(msg).is_ok());
                let locks = waited_for();
                client_rt.block_on(client.shutdown());
                (storm?, locks)
            }
        };
        server_rt.block_on(server.shutdown());
        let waits = match form {
            Form::Before => Waits::of(&locks, &[CONNECTION.name()]),
            Form::After => Waits::of(&locks, &["msgr."]),
        };
        Ok(storm.sample(waits, locks))
    }
}

/// The place where a sending thread waits for its reply.
#[derive(Default)]
struct Bed {
    replied: AtomicBool,
    thread: OnceLock<Thread>,
}

/// The sending threads, indexed by the number of their requests.
struct Beds {
    beds: Vec<Bed>,
    /// The connection is lost: no reply will wake the threads.
    lost: AtomicBool,
}

impl Beds {
    fn new(count: usize) -> Arc<Self> {
        Arc::new(Self { beds: (0..count).map(|_| Bed::default()).collect(), lost: AtomicBool::new(false) })
    }

    fn wake(&self, msgs: &mut Vec<Msg>) {
        for msg in msgs.drain(..) {
            if let Some(bed) = self.beds.get(msg.header.tid.0 as usize) {
                // Release: pairs with the thread's acquire in `sleep`, so that it sees all that happened
                // before the reply.
                bed.replied.store(true, Ordering::Release);
                bed.unpark();
            }
        }
    }

    fn lose(&self) {
        self.lost.store(true, Ordering::Release);
        self.beds.iter().for_each(Bed::unpark);
    }

    fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }

    /// Sleeps until the reply has arrived; returns `false` if none will come.
    fn sleep(&self, number: usize) -> bool {
        while !self.beds[number].replied.swap(false, Ordering::Acquire) {
            if self.is_lost() {
                return false;
            }
            thread::park();
        }
        true
    }
}

impl Bed {
    fn unpark(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }
}

impl Dispatcher for Beds {
    fn dispatch(&self, _: &Arc<Connection>, msgs: &mut Vec<Msg>) {
        self.wake(msgs);
    }

    fn reset(&self, _: &Arc<Connection>, _: &loligo_msgr::Error) {
        self.lose();
    }
}

/// The results of the sending threads.
struct Weathered {
    requests: u64,
    took: Duration,
    in_send: Spread,
}

impl Weathered {
    fn sample(self, waits: Waits, locks: Vec<loligo_lockstat::ClassReport>) -> Sample {
        let us = |part| self.in_send.quantile_ns(part) as f64 / 1e3;
        let figures = vec![
            waits.total_ms_per_million(self.requests),
            waits.avg_us(),
            waits.max_us(),
            waits.count_per_million(self.requests),
            us(0.5),
            us(0.99),
            self.requests as f64 / self.took.as_secs_f64(),
        ];
        Sample { figures, spread: self.in_send, locks }
    }
}

/// Runs the sending threads for `time`. `send` returns whether the message could be sent.
fn storm(
    beds: &Arc<Beds>,
    time: Duration,
    send: impl Fn(Msg) -> bool + Send + Sync + 'static,
) -> Result<Weathered, Error> {
    let count = beds.beds.len();
    let send = Arc::new(send);
    let gate = Arc::new(Barrier::new(count + 1));
    let over = Arc::new(AtomicBool::new(false));
    let body = |number: usize| {
        let (beds, send, gate, over) =
            (Arc::clone(beds), Arc::clone(&send), Arc::clone(&gate), Arc::clone(&over));
        move || {
            beds.beds[number].thread.get_or_init(thread::current);
            let (data, front) = (Bytes::from(vec![1; DATA_BYTES]), Bytes::from(vec![2; FRONT_BYTES]));
            let mut in_send = Spread::new();
            gate.wait();
            // Relaxed: one request more or less does not matter.
            while !over.load(Ordering::Relaxed) {
                let header = Header { kind: 42, tid: Tid(number as u64), ..Header::default() };
                let data = [data.clone()].into_iter().collect();
                let msg = Msg { header, front: front.clone(), data, ..Msg::default() };
                let began = Instant::now();
                let is_sent = send(msg);
                in_send.add(began.elapsed());
                if !is_sent || !beds.sleep(number) {
                    beds.lose();
                    break;
                }
            }
            in_send
        }
    };
    let mut threads = Vec::with_capacity(count);
    for number in 0..count {
        let spawned = thread::Builder::new().stack_size(STACK_BYTES).spawn(body(number));
        match spawned {
            Ok(thread) => threads.push(thread),
            Err(error) => {
                // The started threads wait at the gate; scoped threads stand in for the missing ones.
                over.store(true, Ordering::Relaxed);
                let gate = &gate;
                thread::scope(|s| (number..=count).for_each(|_| drop(s.spawn(|| gate.wait()))));
                threads.into_iter().for_each(|thread| drop(thread.join()));
                return Err(Error::Io { what: "start a sending thread", error });
            }
        }
    }
    gate.wait();
    let began = Instant::now();
    thread::sleep(time);
    over.store(true, Ordering::Relaxed);
    let mut in_send = Spread::new();
    for thread in threads {
        let of_thread = thread.join().map_err(|_| Error::talk("a sending thread")("it panicked"))?;
        in_send.merge(&of_thread);
    }
    let took = began.elapsed();
    if beds.is_lost() {
        return Err(Error::talk("send requests")("the connection was lost"));
    }
    Ok(Weathered { requests: in_send.count(), took, in_send })
}

fn runtime() -> Result<Runtime, Error> {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
    runtime.map_err(Error::io("start a runtime"))
}

/// Replies to each message with 150 bytes.
struct Echo {
    reply: Bytes,
}

impl Dispatcher for Echo {
    fn dispatch(&self, conn: &Arc<Connection>, msgs: &mut Vec<Msg>) {
        for msg in msgs.drain(..) {
            let header = Header { kind: 43, tid: msg.header.tid, ..Header::default() };
            // If the connection is lost, the sender is notified as well.
            let _ = conn.send(Msg { header, front: self.reply.clone(), ..Msg::default() });
        }
    }
}

async fn listen(speaks: AddrKind) -> Result<(Arc<Messenger>, EntityAddr), Error> {
    let echo = Arc::new(Echo { reply: Bytes::from(vec![7; REPLY_BYTES]) });
    let server = Messenger::new(Config::new(EntityType::OSD), echo);
    let (any, door) = (([127, 0, 0, 1], 0).into(), OpenDoor::client("server"));
    let bound = match speaks {
        AddrKind::Legacy => server.bind_v1(any, door).await,
        _ => server.bind(any, door).await,
    };
    let sock = Some(bound.map_err(Error::io("listen on 127.0.0.1"))?);
    let addr = EntityAddr { kind: speaks, nonce: server.config().nonce, sock };
    Ok((server, addr))
}

/// The "before": a connection with one mutex.
struct OneMutex {
    inner: Mutex<Inner>,
    socket: Arc<TcpStream>,
    pending: Notify,
    beds: Arc<Beds>,
}

/// The whole state of a connection, under its mutex.
struct Inner {
    queue: Vec<Msg>,
    socket: Arc<TcpStream>,
    sealer: Sealer,
    out: OutBuf,
    out_seq: u64,
    opener: Opener,
    arrived: Vec<Msg>,
}

impl OneMutex {
    async fn connect(addr: EntityAddr, beds: Arc<Beds>) -> Result<Arc<Self>, Error> {
        let (stream, established) = handshake(addr).await?;
        let Established { sealer, opener, out, .. } = established;
        let socket = Arc::new(stream);
        let inner = Inner {
            queue: Vec::new(),
            socket: Arc::clone(&socket),
            sealer,
            out,
            out_seq: 0,
            opener,
            arrived: Vec::new(),
        };
        let inner = Mutex::new(&CONNECTION, inner);
        Ok(Arc::new(Self { inner, socket, pending: Notify::new(), beds }))
    }

    fn send(&self, msg: Msg) -> bool {
        self.inner.lock().queue.push(msg);
        self.pending.notify_one();
        true
    }

    /// The worker task, woken by the socket and by senders.
    async fn work(self: Arc<Self>) {
        // An error ends the worker, and `lose` notifies the senders.
        let _ = self.serve().await;
        self.beds.lose();
    }

    async fn serve(&self) -> io::Result<()> {
        loop {
            tokio::select! {
                ready = self.socket.readable() => ready?,
                () = self.pending.notified() => {}
            }
            while !self.turn()? {
                self.socket.writable().await?;
            }
        }
    }

    /// Reads, dispatches and writes under the mutex. Returns `false` if the socket accepts no more.
    fn turn(&self) -> io::Result<bool> {
        let mut inner = self.inner.lock();
        inner.read(&self.beds)?;
        match inner.write() {
            Ok(()) => Ok(true),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(e) => Err(e),
        }
    }
}

impl Inner {
    fn read(&mut self, beds: &Beds) -> io::Result<()> {
        loop {
            match self.socket.try_read_buf(self.opener.spare()) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(e) => return Err(e),
            }
            while let Some(frame) = self.opener.next().map_err(io::Error::other)? {
                if let Frame::Message(msg) = frame {
                    self.arrived.push(msg);
                }
            }
            beds.wake(&mut self.arrived);
        }
    }

    fn write(&mut self) -> io::Result<()> {
        for mut msg in self.queue.drain(..) {
            self.out_seq += 1;
            msg.header.seq = self.out_seq;
            let sealed = self.sealer.message(&msg, &mut self.out);
            sealed.map_err(io::Error::other)?;
        }
        while !self.out.is_empty() {
            let mut slices = [IoSlice::new(&[]); 256];
            let count = self.out.io_slices(&mut slices);
            let written = self.socket.try_write_vectored(&slices[..count])?;
            self.out.advance(written);
        }
        Ok(())
    }
}

async fn handshake(addr: EntityAddr) -> Result<(TcpStream, Established), Error> {
    let sock = addr.sock.ok_or_else(|| Error::talk(CONNECT)("no address"))?;
    let mut stream = TcpStream::connect(sock).await.map_err(Error::io(CONNECT))?;
    stream.set_nodelay(true).map_err(Error::io(CONNECT))?;
    let established = match addr.kind {
        AddrKind::Legacy => handshake_v1(addr, &mut stream).await?,
        _ => handshake_v2(addr, &mut stream).await?,
    };
    let established = established.ok_or_else(|| Error::talk(CONNECT)("the handshake is not over"))?;
    Ok((stream, established))
}

/// What a handshake is for, in errors.
const CONNECT: &str = "connect to the case's own server";

fn local(addr: EntityAddr) -> Local {
    Local { kind: EntityType::CLIENT, peer_addr: addr, limits: Limits::default() }
}

async fn handshake_v2(addr: EntityAddr, stream: &mut TcpStream) -> Result<Option<Established>, Error> {
    let auth = OpenDoor::client("contend").connector(EntityType::OSD);
    let mut handshake = Handshake::client(local(addr), auth);
    loop {
        while let Some(bytes) = handshake.poll_transmit() {
            stream.write_all(&bytes).await.map_err(Error::io(CONNECT))?;
        }
        match handshake.poll_event() {
            Some(Event::Authenticated { .. }) => {
                let ident = ClientIdent {
                    addrs: addr.with_nonce(1).into(),
                    target_addr: addr,
                    global_seq: 1,
                    supported_features: features::SUPPORTED,
                    flags: FLAG_LOSSY,
                    ..ClientIdent::default()
                };
                handshake.identify(ident).map_err(Error::talk(CONNECT))?;
            }
            Some(Event::Established) => return Ok(handshake.into_established().ok()),
            Some(_) => {}
            None => {
                read_into(stream, handshake.spare()).await?;
                handshake.receive().map_err(Error::talk(CONNECT))?;
            }
        }
    }
}

async fn handshake_v1(addr: EntityAddr, stream: &mut TcpStream) -> Result<Option<Established>, Error> {
    let auth = OpenDoor::client("contend").connector(EntityType::OSD);
    let mut handshake = v1::Handshake::client(local(addr), EntityType::OSD, auth);
    loop {
        while let Some(bytes) = handshake.poll_transmit() {
            stream.write_all(&bytes).await.map_err(Error::io(CONNECT))?;
        }
        match handshake.poll_event() {
            Some(Event::Introduced { .. }) => {
                let connect = v1::Connect {
                    addr: addr.with_nonce(1),
                    features: features::SUPPORTED,
                    global_seq: 1,
                    lossy: true,
                    ..v1::Connect::default()
                };
                handshake.connect(connect).map_err(Error::talk(CONNECT))?;
            }
            Some(Event::Established) => return Ok(handshake.into_established().ok()),
            Some(_) => {}
            None => {
                read_into(stream, handshake.spare()).await?;
                handshake.receive().map_err(Error::talk(CONNECT))?;
            }
        }
    }
}

async fn read_into(stream: &mut TcpStream, buf: &mut BytesMut) -> Result<(), Error> {
    match stream.read_buf(buf).await.map_err(Error::io(CONNECT))? {
        0 => Err(Error::talk(CONNECT)("it hung up")),
        _ => Ok(()),
    }
}
