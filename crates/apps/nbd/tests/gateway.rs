//! Goal: faults of clients and back ends do not affect other clients. Method: a gateway over real
//! sockets, clients that send arbitrary bytes, back ends that hang.

mod client;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::BytesMut;
use client::{BLOCK_STATUS, CACHE, Client, DISC, FLUSH, READ, SHUTDOWN, TRIM, WRITE, WRITE_ZEROES};
use loligo_nbd::proto::{Can, Io};
use loligo_nbd::{Backend, Definition, DeviceError, Memory, Opener, Registry, Server, Spec, Started, Work};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

const PATIENCE: Duration = Duration::from_secs(30);

/// Memory whose I/Os wait while it is stuck.
struct Stuck {
    memory: Memory,
    stuck: watch::Receiver<bool>,
    seen: Arc<Seen>,
}

/// Observations about a stuck back end.
#[derive(Default)]
struct Seen {
    under_way: AtomicUsize,
    /// I/Os in flight when it was closed.
    at_close: OnceLock<usize>,
}

/// An I/O in flight, whose drop takes a while.
struct UnderWay(Arc<Seen>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        std::thread::sleep(Duration::from_millis(20));
        self.0.under_way.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Backend for Stuck {
    fn kind(&self) -> &'static str {
        "stuck"
    }

    fn size(&self) -> u64 {
        self.memory.size()
    }

    fn can(&self) -> Can {
        self.memory.can()
    }

    fn start(&self, io: Io) -> Started {
        let (mut stuck, io) = (self.stuck.clone(), self.memory.start(io));
        self.seen.under_way.fetch_add(1, Ordering::SeqCst);
        let under_way = UnderWay(Arc::clone(&self.seen));
        Started::Later(Box::pin(async move {
            let _under_way = under_way;
            let _ = stuck.wait_for(|stuck| !stuck).await;
            match io {
                Started::Now(done) => done,
                Started::Later(io) => io.await,
            }
        }))
    }

    fn resize(&self, size: u64) -> Work {
        self.memory.resize(size)
    }

    fn close(&self) -> Work {
        let _ = self.seen.at_close.set(self.seen.under_way.load(Ordering::SeqCst));
        self.memory.close()
    }
}

/// Memory that others extend; its size changes only on refresh.
struct Shared {
    memory: Memory,
    longer: Arc<AtomicU64>,
    known: Arc<AtomicU64>,
}

impl Backend for Shared {
    fn kind(&self) -> &'static str {
        "shared"
    }

    fn size(&self) -> u64 {
        self.known.load(Ordering::SeqCst)
    }

    fn refresh(&self) -> Work {
        let (longer, known) = (Arc::clone(&self.longer), Arc::clone(&self.known));
        Box::pin(async move {
            sleep(Duration::from_millis(2)).await;
            known.store(longer.load(Ordering::SeqCst), Ordering::SeqCst);
            Ok(())
        })
    }

    fn can(&self) -> Can {
        self.memory.can()
    }

    fn start(&self, io: Io) -> Started {
        self.memory.start(io)
    }

    fn resize(&self, size: u64) -> Work {
        self.memory.resize(size)
    }

    fn close(&self) -> Work {
        self.memory.close()
    }
}

struct Gateway {
    registry: Arc<Registry>,
    server: Server,
    addr: SocketAddr,
    stuck: watch::Sender<bool>,
    seen: Arc<Seen>,
}

impl Gateway {
    /// Starts a gateway with a device `free` of 1 MiB, a `large` one, and one `stuck`.
    async fn start() -> Self {
        let registry = Registry::new(Opener::local(), Handle::current());
        let stuck = watch::channel(true).0;
        let seen = Arc::new(Seen::default());
        let backend =
            Stuck { memory: Memory::new(1 << 20, false), stuck: stuck.subscribe(), seen: Arc::clone(&seen) };
        registry.add_open("stuck", Box::new(backend)).expect("the name is free");
        registry.add(definition("free", "memory:1M")).await.expect("memory");
        registry.add(definition("large", "memory:1G")).await.expect("memory");
        let mut server = Server::new(Arc::clone(&registry), None);
        let addr = server.listen("127.0.0.1:0".parse().expect("an address")).await.expect("a free port");
        Self { registry, server, addr, stuck, seen }
    }

    async fn client(&self, name: &str) -> Client {
        Client::connect(self.addr, name).await.expect("it listens")
    }

    async fn clients_of(&self, name: &str) -> u64 {
        self.registry.list().iter().find(|info| info.name == name).expect("it is there").clients
    }

    async fn until_nobody_uses(&self, name: &str) {
        let gone = async {
            while self.clients_of(name).await > 0 {
                sleep(Duration::from_millis(2)).await;
            }
        };
        timeout(PATIENCE, gone).await.expect("who has gone is let go");
    }
}

fn definition(name: &str, spec: &str) -> Definition {
    let spec = Spec::parse(spec).expect("it is one");
    Definition { name: name.to_owned(), description: String::new(), spec, allow: Default::default() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_written_is_read_over_another_connection() {
    let gateway = Gateway::start().await;
    let (mut writer, mut reader) = (gateway.client("free").await, gateway.client("free").await);
    assert_eq!(writer.size, 1 << 20);
    let data: Vec<u8> = (0..100_000u32).map(|n| n as u8).collect();
    assert_eq!(writer.write(777, &data).await, 0);
    writer.send(FLUSH, 3, 0, 0, b"").await;
    assert_eq!(writer.reply().await.expect("an answer"), (0, 3));
    assert_eq!(reader.read(777, 100_000).await, Ok(data));
    assert_eq!(reader.read((1 << 20) - 1, 2).await, Err(22));
    assert_eq!(writer.write((1 << 20) - 1, b"ab").await, 28);
    writer.send(DISC, 4, 0, 0, b"").await;
    assert!(writer.is_over().await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_is_told_the_size_that_others_have_made_of_it() {
    let gateway = Gateway::start().await;
    let longer = Arc::new(AtomicU64::new(4096));
    let memory = Memory::new(8192, false);
    let backend = Shared { memory, longer: Arc::clone(&longer), known: Arc::new(AtomicU64::new(0)) };
    gateway.registry.add_open("shared", Box::new(backend)).expect("the name is free");
    let mut before = gateway.client("shared").await;
    assert_eq!(before.size, 4096);
    assert_eq!(before.read(4096, 1).await, Err(22));
    longer.store(8192, Ordering::SeqCst);
    assert_eq!(gateway.client("shared").await.size, 8192);
    // The refreshed size holds for all clients of the device.
    assert_eq!(before.read(4096, 1).await, Ok(vec![0]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_back_end_that_is_stuck_delays_its_own_requests_alone() {
    let gateway = Gateway::start().await;
    let mut waiting = gateway.client("stuck").await;
    for cookie in 0..100 {
        waiting.send(WRITE, cookie, 4096 * cookie, 4, b"data").await;
    }
    let mut free = gateway.client("free").await;
    for n in 0..100 {
        assert_eq!(free.write(n, b"x").await, 0);
    }
    // The stuck device does not delay clients that connect, disconnect or list exports, nor changes of
    // other devices.
    let registry = &gateway.registry;
    registry.add(definition("new", "memory:4K")).await.expect("memory");
    registry.resize("new", 8192).await.expect("nothing is under way");
    assert_eq!(gateway.client("new").await.size, 8192);
    gateway.until_nobody_uses("new").await;
    registry.remove("new", false).await.expect("nobody uses it");
    assert_eq!(gateway.client("stuck").await.size, 1 << 20, "the device itself may be chosen");
    let mut names: Vec<String> = registry.list().into_iter().map(|info| info.name).collect();
    names.sort();
    assert_eq!(names, ["free", "large", "stuck"]);
    // A refusal needs no back end: it is the first reply, since nothing is answered that is not done.
    waiting.send(READ, 1000, 1 << 30, 1, b"").await;
    let (error, cookie) = timeout(PATIENCE, waiting.reply()).await.expect("in time").expect("an answer");
    assert!(error != 0 && cookie == 1000, "error {error} of request {cookie}");
    gateway.stuck.send_replace(false);
    let mut cookies: Vec<u64> = Vec::new();
    for _ in 0..100 {
        let (error, cookie) = timeout(PATIENCE, waiting.reply()).await.expect("in time").expect("an answer");
        assert_eq!(error, 0);
        cookies.push(cookie);
    }
    cookies.sort_unstable();
    assert_eq!(cookies, (0..100).collect::<Vec<u64>>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_device_in_use_is_removed_only_by_force_and_its_clients_are_told() {
    let gateway = Gateway::start().await;
    let mut waiting = gateway.client("stuck").await;
    waiting.send(READ, 9, 0, 4096, b"").await;
    // Requests are in flight once the server has read them.
    sleep(Duration::from_millis(20)).await;
    let refused = gateway.registry.remove("stuck", false).await;
    assert_eq!(refused, Err(DeviceError::InUse { name: "stuck".to_owned(), clients: 1 }));
    let removed = tokio::spawn({
        let registry = Arc::clone(&gateway.registry);
        async move { registry.remove("stuck", true).await }
    });
    assert_eq!(timeout(PATIENCE, waiting.reply()).await.expect("told").expect("an answer"), (SHUTDOWN, 9));
    // A further request is answered the same way, and the client can disconnect.
    waiting.send(READ, 10, 0, 1, b"").await;
    assert_eq!(waiting.reply().await.expect("an answer"), (SHUTDOWN, 10));
    waiting.send(DISC, 11, 0, 0, b"").await;
    assert!(waiting.is_over().await);
    removed.await.expect("it ends").expect("it is removed");
    assert!(Client::connect(gateway.addr, "stuck").await.is_err(), "there is none any more");
    // A client that does not disconnect is dropped.
    let mut stubborn = gateway.client("free").await;
    gateway.registry.remove("free", true).await.expect("it is removed");
    assert!(timeout(PATIENCE, stubborn.is_over()).await.expect("in time"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_back_end_is_closed_when_nothing_is_under_way() {
    let gateway = Gateway::start().await;
    let mut waiting = gateway.client("stuck").await;
    for cookie in 0..5 {
        waiting.send(READ, cookie, 0, 4096, b"").await;
    }
    let begun = async {
        while gateway.seen.under_way.load(Ordering::SeqCst) < 5 {
            sleep(Duration::from_millis(2)).await;
        }
    };
    timeout(PATIENCE, begun).await.expect("requests are begun as they come");
    // The client disconnects, and the device is removed as soon as it is unused.
    drop(waiting);
    let removed = async {
        while gateway.registry.remove("stuck", false).await.is_err() {
            sleep(Duration::from_micros(100)).await;
        }
    };
    timeout(PATIENCE, removed).await.expect("in time");
    assert_eq!(gateway.seen.at_close.get(), Some(&0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_goes_in_the_middle_leaves_nothing_behind() {
    let gateway = Gateway::start().await;
    let mut client = gateway.client("free").await;
    assert_eq!(client.write(0, b"before").await, 0);
    let whole = Client::request(WRITE, 1, 0, 6, b"after!");
    for cut in [1, 27, 28, 31, 33] {
        let mut client = gateway.client("free").await;
        client.stream.write_all(&whole[..cut]).await.expect("it listens");
        drop(client);
    }
    // A disconnected client is cleaned up even if its requests hang.
    let mut hangs = gateway.client("stuck").await;
    hangs.send(WRITE, 1, 0, 4, b"data").await;
    sleep(Duration::from_millis(20)).await;
    drop(hangs);
    gateway.until_nobody_uses("stuck").await;
    assert_eq!(client.read(0, 6).await, Ok(b"before".to_vec()));
    drop(client);
    gateway.until_nobody_uses("free").await;
    gateway.registry.remove("free", false).await.expect("nobody uses it");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_to_a_suspended_device_wait() {
    let gateway = Gateway::start().await;
    let mut client = gateway.client("free").await;
    gateway.registry.suspend("free").await.expect("nothing is under way");
    client.send(WRITE, 5, 0, 4, b"data").await;
    client.send(READ, 6, 1 << 19, 4096, b"").await;
    // A refusal does not wait: it is the first reply.
    client.send(READ, 7, 1 << 30, 1, b"").await;
    let (error, cookie) = timeout(PATIENCE, client.reply()).await.expect("in time").expect("an answer");
    assert!(error != 0 && cookie == 7, "error {error} of request {cookie}");
    // While requests wait, the device becomes smaller than the range of one of them.
    gateway.registry.resize("free", 4096).await.expect("memory");
    gateway.registry.resume("free").await.expect("it is suspended");
    let mut answers = Vec::new();
    for _ in 0..2 {
        answers.push(timeout(PATIENCE, client.reply()).await.expect("in time").expect("an answer"));
    }
    answers.sort_unstable_by_key(|(_, cookie)| *cookie);
    assert_eq!(answers, [(0, 5), (28, 6)]);
    assert_eq!(client.read(0, 4).await, Ok(b"data".to_vec()));
}

/// A client sends many long requests at once and reads nothing for a while: the server accepts no more
/// than its bounds allow, and loses nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_does_not_read_is_not_read_from() {
    const READS: u64 = 400;
    const LEN: u32 = 1 << 20;
    let gateway = Gateway::start().await;
    let mut client = gateway.client("free").await;
    assert_eq!(client.write(0, &vec![7; LEN as usize]).await, 0);
    let requests: Vec<u8> = (0..READS).flat_map(|n| Client::request(READ, n, 0, LEN, b"")).collect();
    client.stream.write_all(&requests).await.expect("room for some kilobytes");
    sleep(Duration::from_millis(50)).await;
    let mut data = vec![0; LEN as usize];
    for n in 0..READS {
        let reply = timeout(PATIENCE, client.reply()).await.expect("in time").expect("an answer");
        assert_eq!(reply, (0, n), "what needs no waiting is answered in order");
        client.stream.read_exact(&mut data).await.expect("the data");
        assert!(data.iter().all(|byte| *byte == 7));
    }
}

/// Each invalid request gets the protocol's error, and the connection stays usable.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_make_no_sense_are_answered_and_change_nothing() {
    const SIZE: u64 = 1 << 20;
    let gateway = Gateway::start().await;
    let mut client = gateway.client("free").await;
    assert_eq!(client.write(SIZE - 8, b"the last").await, 0);
    let invalid = 22;
    let no_space = 28;
    let too_large = 75;
    for (command, offset, len, error) in [
        (TRIM, SIZE, 1, invalid),
        (TRIM, u64::MAX, 1, invalid),
        (CACHE, SIZE - 1, 2, invalid),
        (WRITE_ZEROES, SIZE - 1, 2, no_space),
        (WRITE_ZEROES, u64::MAX - 1, u32::MAX, no_space),
        (READ, SIZE, 1, invalid),
        (READ, u64::MAX, u32::MAX, invalid),
        (FLUSH, 1, 0, invalid),
        (FLUSH, 0, 1, invalid),
        // The client has selected no context and no structured replies.
        (BLOCK_STATUS, 0, 4096, invalid),
        (8, 0, 0, invalid),
        (0xffff, 0, 0, invalid),
    ] {
        client.send(command, 77, offset, len, b"").await;
        let reply = timeout(PATIENCE, client.reply()).await.expect("in time").expect("an answer");
        assert_eq!(reply, (error, 77), "command {command} at {offset} for {len}");
    }
    assert_eq!(client.write(SIZE - 4, b"too long").await, no_space);
    assert_eq!(client.write(u64::MAX, b"x").await, no_space);
    // Flags that a command does not have: FUA is allowed everywhere, each other flag with some command.
    for (command, flags) in
        [(READ, 1 << 2), (READ, 1 << 5), (WRITE_ZEROES, 1 << 3), (FLUSH, 1 << 1), (TRIM, 1 << 15)]
    {
        let mut request = Client::request(command, 78, 0, if command == FLUSH { 0 } else { 8 }, b"");
        request[4..6].copy_from_slice(&u16::to_be_bytes(flags));
        client.stream.write_all(&request).await.expect("it listens");
        let reply = timeout(PATIENCE, client.reply()).await.expect("in time").expect("an answer");
        assert_eq!(reply, (invalid, 78), "command {command} with flags {flags:#x}");
    }
    let mut other = gateway.client("large").await;
    other.send(READ, 79, 0, (32 << 20) + 1, b"").await;
    assert_eq!(other.reply().await.expect("an answer"), (too_large, 79));
    assert_eq!(client.read(SIZE - 8, 8).await, Ok(b"the last".to_vec()));
    // All kinds of requests at once are answered, each once.
    let all: Vec<u8> = (0..64).flat_map(|n| Client::request(9 + n as u16, n, n, 1, b"")).collect();
    client.stream.write_all(&all).await.expect("it listens");
    for n in 0..64 {
        let reply = timeout(PATIENCE, client.reply()).await.expect("in time").expect("an answer");
        assert_eq!(reply, (invalid, n));
    }
}

/// After a wrong magic the next request's start is unknown.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_cannot_be_told_apart_end_their_connection() {
    let gateway = Gateway::start().await;
    let other = Client::request(READ, 1, 0, 1, b"");
    let reply = [&[0x67, 0x44, 0x66, 0x98][..], &[0; 12]].concat();
    let extended = [&[0x21, 0xe4, 0x1c, 0x71][..], &[0; 28]].concat();
    let too_long = Client::request(WRITE, 1, 0, (32 << 20) + 1, b"some");
    let huge = Client::request(WRITE, 1, 0, u32::MAX, b"some");
    for bytes in
        [&reply[..], &extended, &too_long, &huge, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", &other[1..]]
    {
        let mut client = gateway.client("free").await;
        assert_eq!(client.write(0, b"x").await, 0);
        // The valid requests before it are answered.
        client
            .stream
            .write_all(&[&Client::request(FLUSH, 5, 0, 0, b"")[..], bytes, &other].concat())
            .await
            .expect("it listens");
        assert!(matches!(timeout(PATIENCE, client.reply()).await.expect("in time"), Ok((0, 5)) | Err(_)));
        assert!(timeout(PATIENCE, client.is_over()).await.expect("it ends"), "{bytes:?}");
    }
    gateway.until_nobody_uses("free").await;
}

/// Invalid options get an error, and a valid one behind them works; bytes that cannot be parsed end the
/// connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn options_that_make_no_sense_are_answered_or_end_the_connection() {
    let gateway = Gateway::start().await;
    let option = |number: u32, data: &[u8]| {
        [b"IHAVEOPT", &number.to_be_bytes()[..], &(data.len() as u32).to_be_bytes(), data].concat()
    };
    let (unsupported, invalid, unknown, too_big) = (0x8000_0001, 0x8000_0003, 0x8000_0006, 0x8000_0009_u32);
    let mut stream = greeted(gateway.addr, &[0, 0, 0, 3]).await;
    for (number, data, kind) in [
        (99, &b"anything"[..], unsupported),
        (4, b"", unsupported),
        (5, b"", unsupported),
        (3, b"x", invalid),
        (5, b"x", invalid),
        (8, b"x", invalid),
        (6, b"", invalid),
        (6, b"\xff\xff\xff\xff", invalid),
        (7, b"\0\0\0\x04free\0\x02\0\x01", invalid),
        (7, b"\0\0\0\x02\xc3\x28\0\0", invalid),
        (7, b"\0\0\0\x04none\0\0", unknown),
        // A context without structured replies.
        (10, b"\0\0\0\x04free\0\0\0\0", invalid),
        (6, &[0; 65 << 10], too_big),
    ] {
        stream.write_all(&option(number, data)).await.expect("it listens");
        let (to, answer) = timeout(PATIENCE, option_answer(&mut stream)).await.expect("in time");
        assert_eq!((to, answer), (number, kind), "{number} with {} bytes", data.len());
    }
    stream.write_all(&option(1, b"free")).await.expect("it listens");
    let mut export = [0; 10];
    stream.read_exact(&mut export).await.expect("it goes on");
    assert_eq!(export[..8], (1u64 << 20).to_be_bytes());

    let long_name = option(1, &[b'x'; 4097]);
    let mut endless = option(6, b"");
    endless[12..16].copy_from_slice(&u32::MAX.to_be_bytes());
    for (flags, bytes) in [
        ([0, 0, 0, 4], &option(3, b"")[..]),
        ([0x80, 0, 0, 3], b""),
        ([0, 0, 0, 3], b"IHAVEOPS\0\0\0\x03\0\0\0\0"),
        ([0, 0, 0, 3], &option(1, b"none")),
        ([0, 0, 0, 3], &option(1, b"\xff")),
        ([0, 0, 0, 3], &long_name),
        ([0, 0, 0, 3], &endless),
    ] {
        let mut stream = greeted(gateway.addr, &flags).await;
        let _ = stream.write_all(bytes).await;
        let mut said = Vec::new();
        let _ = timeout(PATIENCE, stream.read_to_end(&mut said)).await.expect("it ends");
        assert!(said.is_empty(), "{flags:?} {said:?}");
    }
}

/// A connection that has been greeted and has sent its flags.
async fn greeted(addr: SocketAddr, flags: &[u8; 4]) -> TcpStream {
    let mut stream = TcpStream::connect(addr).await.expect("it listens");
    stream.read_exact(&mut [0; 18]).await.expect("the greeting");
    stream.write_all(flags).await.expect("it listens");
    stream
}

/// The option that is answered, and the kind of answer; skips the text.
async fn option_answer(stream: &mut TcpStream) -> (u32, u32) {
    let mut head = [0; 20];
    stream.read_exact(&mut head).await.expect("an answer");
    let number = |at: usize| u32::from_be_bytes(head[at..at + 4].try_into().expect("four bytes"));
    let mut text = vec![0; number(16) as usize];
    stream.read_exact(&mut text).await.expect("its text");
    (number(8), number(12))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_bytes_end_their_own_connection_at_most() {
    let gateway = Gateway::start().await;
    let mut rng = fastrand::Rng::with_seed(11);
    let mut others = gateway.client("free").await;
    for round in 0..200 {
        let mut junk: Vec<u8> = (0..rng.usize(1..400)).map(|_| rng.u8(..)).collect();
        if round % 2 == 0 {
            // A handshake and requests, in which one byte has been damaged.
            let mut good = [&[0, 0, 0, 3][..], b"IHAVEOPT", &[0, 0, 0, 1, 0, 0, 0, 4], b"free"].concat();
            (0..8).for_each(|n| good.extend(Client::request(rng.u16(..9), n, rng.u64(..1 << 19), 8, b"")));
            let at = rng.usize(4..good.len());
            good[at] = rng.u8(..);
            junk.splice(..0, good);
        }
        let mut stream = TcpStream::connect(gateway.addr).await.expect("it listens");
        let _ = stream.write_all(&junk).await;
        let _ = stream.shutdown().await;
        let mut answers = Vec::new();
        let _ = timeout(PATIENCE, stream.read_to_end(&mut answers)).await.expect("it ends");
        assert_eq!(others.write(1 << 19, b"unharmed").await, 0);
    }
    gateway.until_nobody_uses("stuck").await;
    drop(others);
    gateway.until_nobody_uses("free").await;
    timeout(PATIENCE, gateway.server.close()).await.expect("it ends");
    assert!(gateway.registry.list().is_empty());
}

#[tokio::test]
async fn exports_that_are_only_read_refuse_to_be_written() {
    let gateway = Gateway::start().await;
    let path = std::env::temp_dir().join(format!("loligo-nbd-ro.{}", std::process::id()));
    std::fs::write(&path, b"the file's bytes").expect("room");
    let spec = format!("file:{},ro", path.display());
    gateway.registry.add(definition("ro", &spec)).await.expect("it is there");
    let mut client = gateway.client("ro").await;
    assert_eq!(client.size, 16);
    assert_eq!(client.write(0, b"x").await, 1);
    assert_eq!(client.read(4, 4).await, Ok(b"file".to_vec()));
    let mut into = BytesMut::new();
    let attached = gateway.registry.attach("ro").await.expect("it is ready");
    assert!(
        !attached.read_now(0, 1 << 30, &mut into) && into.is_empty(),
        "what is long is never read at once"
    );
    std::fs::remove_file(&path).expect("it was there");
}
