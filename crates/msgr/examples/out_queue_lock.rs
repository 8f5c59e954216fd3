//! 1,000 threads send on one connection: how long do they wait for its lock?
//!
//! ```text
//! cargo run --release -p loligo-msgr --features testing --example out_queue_lock [-- THREADS [OPS_PER_THREAD]]
//! ```
//!
//! Each thread sends a request of 4 KiB, sleeps until its reply of 150 bytes is there, and sends the next, as processes do
//! that use a storage cluster. The server is the same for both forms:
//!
//! - **one mutex**: the form that the case describes. One mutex per connection guards its queue and its socket. A worker
//!   takes it when the socket is readable or something is queued, and holds it while it reads, dispatches replies, seals and
//!   writes; a sender takes it to append its message.
//! - **out-queue**: this crate.
//!
//! Both use the same sealing, the same runtime and the same kind of mutex.

use std::io::{self, IoSlice};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use bytes::Bytes;
use loligo_lockstat::{Class, Mutex};
use loligo_msgr::testing::OpenDoor;
use loligo_msgr::{Config, ConnectAuth, Connection, Dispatcher, Messenger, Policy};
use loligo_msgr_proto::{
    ClientIdent, Established, Event, FLAG_LOSSY, Frame, Handshake, Limits, Local, OutBuf, Sealer,
};
use loligo_wire::message::{Header, Msg};
use loligo_wire::{EntityAddr, EntityType, Tid, features};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;

/// Answers each message with 150 bytes.
struct Echo {
    reply: Bytes,
}

impl Dispatcher for Echo {
    fn dispatch(&self, conn: &Arc<Connection>, msgs: &mut Vec<Msg>) {
        for msg in msgs.drain(..) {
            let header = Header { kind: 43, tid: msg.header.tid, ..Header::default() };
            let _ = conn.send(Msg { header, front: self.reply.clone(), ..Msg::default() });
        }
    }
}

/// Where a sending thread sleeps.
#[derive(Default)]
struct Bed {
    replied: AtomicBool,
    thread: OnceLock<Thread>,
}

/// The sending threads, by the number of their requests.
struct Beds(Vec<Bed>);

impl Beds {
    fn wake(&self, msgs: &mut Vec<Msg>) {
        for msg in msgs.drain(..) {
            let bed = &self.0[msg.header.tid.0 as usize];
            bed.replied.store(true, Ordering::Release);
            if let Some(thread) = bed.thread.get() {
                thread.unpark();
            }
        }
    }
}

impl Dispatcher for Beds {
    fn dispatch(&self, _conn: &Arc<Connection>, msgs: &mut Vec<Msg>) {
        self.wake(msgs);
    }
}

/// The form with one mutex.
mod one_mutex {
    use super::*;

    static CONNECTION: Class = Class::new("one_mutex.connection");
    pub(super) const CLASS: &str = "one_mutex.connection";

    pub(super) struct OneMutex {
        inner: Mutex<Inner>,
        pending: Notify,
        beds: Arc<Beds>,
    }

    struct Inner {
        queue: Vec<Msg>,
        socket: Arc<TcpStream>,
        sealer: Sealer,
        out: OutBuf,
        out_seq: u64,
        opener: loligo_msgr_proto::Opener,
        arrived: Vec<Msg>,
    }

    impl OneMutex {
        pub(super) async fn connect(
            addr: EntityAddr,
            beds: Arc<Beds>,
        ) -> (Arc<Self>, impl Future<Output = ()>) {
            let (stream, established) = handshake(addr).await;
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
            let conn = Arc::new(Self { inner: Mutex::new(&CONNECTION, inner), pending: Notify::new(), beds });
            (Arc::clone(&conn), conn.work(socket))
        }

        pub(super) fn send(&self, msg: Msg) {
            self.inner.lock().queue.push(msg);
            self.pending.notify_one();
        }

        async fn work(self: Arc<Self>, socket: Arc<TcpStream>) {
            loop {
                tokio::select! {
                    ready = socket.readable() => ready.expect("the socket works"),
                    () = self.pending.notified() => {}
                }
                loop {
                    let written = {
                        let mut inner = self.inner.lock();
                        if inner.read(&self.beds).is_err() {
                            return;
                        }
                        inner.write()
                    };
                    match written {
                        Ok(()) => break,
                        Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                            socket.writable().await.expect("the socket works");
                        }
                        Err(_) => return,
                    }
                }
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
                let Msg { header, front, middle, data } = msg;
                self.sealer
                    .message(&header, &front, &middle, &data, &mut self.out)
                    .map_err(io::Error::other)?;
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

    async fn handshake(addr: EntityAddr) -> (TcpStream, Established) {
        let mut stream = TcpStream::connect(addr.sock.expect("an address")).await.expect("it listens");
        stream.set_nodelay(true).expect("a TCP socket");
        let local = Local { kind: EntityType::CLIENT, peer_addr: addr, limits: Limits::default() };
        let mut handshake = Handshake::client(local, OpenDoor::client("bench").connector(EntityType::OSD));
        loop {
            while let Some(bytes) = handshake.poll_transmit() {
                stream.write_all(&bytes).await.expect("it listens");
            }
            match handshake.poll_event() {
                Some(Event::Authenticated { .. }) => handshake
                    .identify(ClientIdent {
                        addrs: addr.with_nonce(1).into(),
                        target_addr: addr,
                        global_seq: 1,
                        supported_features: features::SUPPORTED,
                        flags: FLAG_LOSSY,
                        ..ClientIdent::default()
                    })
                    .expect("in order"),
                Some(Event::Established) => break,
                Some(_) => {}
                None => {
                    stream.read_buf(handshake.spare()).await.expect("it answers");
                    handshake.receive().expect("it speaks msgr2");
                }
            }
        }
        (stream, handshake.into_established().expect("established"))
    }
}

/// Lets the threads send; returns how long it took.
fn storm(beds: &Arc<Beds>, each: usize, send: impl Fn(Msg) + Send + Sync + 'static) -> Duration {
    let send = Arc::new(send);
    let (data, front) = (Bytes::from(vec![1; 4096]), Bytes::from(vec![2; 200]));
    let began = Instant::now();
    let threads: Vec<_> = (0..beds.0.len())
        .map(|i| {
            let (beds, send, data, front) =
                (Arc::clone(beds), Arc::clone(&send), data.clone(), front.clone());
            let body = move || {
                let bed = &beds.0[i];
                bed.thread.get_or_init(thread::current);
                for _ in 0..each {
                    let header = Header { kind: 42, tid: Tid(i as u64), ..Header::default() };
                    let data = [data.clone()].into_iter().collect();
                    send(Msg { header, front: front.clone(), middle: Bytes::new(), data });
                    while !bed.replied.swap(false, Ordering::Acquire) {
                        thread::park();
                    }
                }
            };
            thread::Builder::new().stack_size(64 << 10).spawn(body).expect("a thread")
        })
        .collect();
    threads.into_iter().for_each(|t| t.join().expect("the thread ends"));
    began.elapsed()
}

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime")
}

fn beds(count: usize) -> Arc<Beds> {
    Arc::new(Beds((0..count).map(|_| Bed::default()).collect()))
}

/// One row; returns the total waiting time in nanoseconds.
fn row(form: &str, class: &str, ops: usize, took: Duration) -> u64 {
    let report = loligo_lockstat::report();
    let (contentions, wait) = report.class(class).map_or((0, None), |c| (c.contentions, Some(&c.wait)));
    let us = |ns: u64| ns as f64 / 1000.0;
    let (avg, max, total) = wait.map_or((0, 0, 0), |w| (w.avg_ns(), w.max_ns, w.total_ns));
    println!(
        "{form:10} {ops:9} {:9.0} {contentions:11} {:11.1} {:12.1} {:13.1}",
        ops as f64 / took.as_secs_f64(),
        us(avg),
        us(max),
        us(total) / 1000.0
    );
    loligo_lockstat::reset();
    total
}

fn main() {
    let mut args = std::env::args().skip(1).filter_map(|arg| arg.parse().ok());
    let (threads, each) = (args.next().unwrap_or(1000), args.next().unwrap_or(200));
    let (server_rt, client_rt) = (runtime(), runtime());
    let (server, addr) = server_rt.block_on(async {
        let server =
            Messenger::new(Config::new(EntityType::OSD), Arc::new(Echo { reply: Bytes::from(vec![7; 150]) }));
        let sock = server.bind(([127, 0, 0, 1], 0).into(), OpenDoor::client("server")).await.expect("a port");
        let addr = EntityAddr::msgr2(sock).with_nonce(server.config().nonce);
        (server, addr)
    });
    println!("{threads} threads, {each} requests each\n");
    println!("form         requests    per s contentions  wait avg us  wait max us total wait ms");

    let sleepers = beds(threads);
    let (conn, work) = client_rt.block_on(one_mutex::OneMutex::connect(addr, Arc::clone(&sleepers)));
    let worker = client_rt.spawn(work);
    loligo_lockstat::reset();
    let took = storm(&sleepers, each, move |msg| conn.send(msg));
    worker.abort();
    let before = row("one mutex", one_mutex::CLASS, threads * each, took);

    let sleepers = beds(threads);
    let dispatcher = Arc::clone(&sleepers);
    let client = client_rt.block_on(async { Messenger::new(Config::new(EntityType::CLIENT), dispatcher) });
    let conn = client.connect(EntityType::OSD, addr, Policy::lossy_client(), OpenDoor::client("bench"));
    loligo_lockstat::reset();
    let took = storm(&sleepers, each, move |msg| conn.send(msg).expect("the queue has place"));
    let after = row("out-queue", "msgr.out_queue", threads * each, took);
    println!("\ntotal wait: {:.0} times less", before as f64 / after.max(1) as f64);
    client_rt.block_on(client.shutdown());
    server_rt.block_on(server.shutdown());
}
