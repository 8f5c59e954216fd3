//! The attackers: each runs until it is stopped, and begins a new round when the server has closed its
//! connection.
//!
//! They have threads of their own, with a lower priority: remote attackers would not use this machine's
//! processors.

use std::array;
use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::{BufMut as _, Bytes, BytesMut};
use fastrand::Rng;
use loligo_msgr::{Policy, Throttle};
use loligo_rados::{Rados, WriteOp};
use loligo_wire::message::osd::{
    ChecksumArgs, CopyFrom, ObjectLocator, OpCode, OpFlags, OsdFlags, OsdOp, WatchArgs,
};
use loligo_wire::{Errno, PoolId, SnapId};
use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::runtime::{self, Runtime};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::attacker::{Attacker, Caller, Credentials, user, user_with};
use crate::frames::{bombs, claims, halves};
use crate::victim::Victim;

const EPERM: i32 = Errno::EPERM.to_result();
const EACCES: i32 = Errno::EACCES.to_result();
const THREADS: usize = 2;
/// Time limit of an attacker's round; then it disconnects and begins a new one.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);
const IDLE_SOCKETS: usize = 300;
const DEAF_REQUESTS: usize = 100;
const WATCHES: u64 = 100;

/// `false`: the round has sent nothing of its attack.
type Round = Pin<Box<dyn Future<Output = bool> + Send>>;

/// The result of a round.
pub(crate) trait Tried {
    fn was_tried(self) -> bool;
}

/// Most rounds send something in any case, or panic.
impl Tried for () {
    fn was_tried(self) -> bool {
        true
    }
}

impl Tried for bool {
    fn was_tried(self) -> bool {
        self
    }
}

/// An attack, and one round of it.
struct Way {
    name: &'static str,
    round: Box<dyn Fn() -> Round + Send + Sync>,
}

/// Running attacks.
pub(crate) struct Attacks {
    runtime: Option<Runtime>,
    tasks: JoinSet<()>,
    stopping: Arc<AtomicBool>,
    rounds: Vec<(&'static str, Arc<AtomicU64>)>,
}

/// The number of completed rounds of each attack.
pub(crate) struct Report(Vec<(&'static str, u64)>);

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|(name, rounds)| writeln!(f, "{rounds:>8} × {name}"))
    }
}

impl Report {
    pub(crate) fn is_everything_tried(&self) -> bool {
        self.0.iter().all(|(_, rounds)| *rounds > 0)
    }
}

impl Attacks {
    pub(crate) async fn begin(victim: &Victim, admin: &Rados, seed: u64) -> Self {
        let runtime = runtime::Builder::new_multi_thread()
            .worker_threads(THREADS)
            .on_thread_start(step_back)
            .enable_all()
            .build()
            .expect("a runtime");
        let means = Means::new(victim, admin, seed).await;
        let stopping = Arc::new(AtomicBool::new(false));
        let (mut tasks, mut rounds) = (JoinSet::new(), Vec::new());
        for way in ways(&means) {
            let (stopping, tried) = (Arc::clone(&stopping), Arc::new(AtomicU64::new(0)));
            rounds.push((way.name, Arc::clone(&tried)));
            let go_on = async move {
                while !stopping.load(Ordering::Relaxed) {
                    // A round that gets no reply in time counts as well.
                    if timeout(PATIENCE, (way.round)()).await.unwrap_or(true) {
                        tried.fetch_add(1, Ordering::Relaxed);
                    }
                }
            };
            tasks.spawn_on(go_on, runtime.handle());
        }
        Self { runtime: Some(runtime), tasks, stopping, rounds }
    }

    /// Ends the attacks. Returns the number of rounds of each.
    pub(crate) async fn end(mut self) -> Report {
        self.stopping.store(true, Ordering::Relaxed);
        while let Some(ended) = self.tasks.join_next().await {
            ended.expect("no attack got what it must not get");
        }
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
        Report(self.rounds.iter().map(|(name, rounds)| (*name, rounds.load(Ordering::Relaxed))).collect())
    }
}

fn step_back() {
    // SAFETY: it takes numbers and changes the priority of the calling thread.
    let done = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 19) };
    assert_eq!(done, 0, "{}", io::Error::last_os_error());
}

/// The attackers' clients, keys and addresses.
#[derive(Clone)]
pub(crate) struct Means {
    pub(crate) victim: Victim,
    pub(crate) admin: Rados,
    /// The credentials of a user with full access to the pool `evil`.
    pub(crate) auth: Arc<Credentials>,
    /// The credentials of a user that may add to the blocklist, as all users of images may.
    blocker: Arc<Credentials>,
    bootstrap: Arc<Credentials>,
    pub(crate) evil: PoolId,
    honest: PoolId,
    nonce: Arc<AtomicU64>,
}

impl Means {
    async fn new(victim: &Victim, admin: &Rados, seed: u64) -> Self {
        Self {
            auth: user(victim, admin, "evil", "allow rwx pool=evil").await,
            blocker: user_with(victim, admin, "blocker", &["mon", "profile rbd"]).await,
            bootstrap: user_with(victim, admin, "bootstrap", &["mon", "profile bootstrap-rbd"]).await,
            evil: admin.pool_id("evil").await.expect("the pool"),
            honest: admin.pool_id("p").await.expect("the pool"),
            victim: victim.clone(),
            admin: admin.clone(),
            nonce: Arc::new(AtomicU64::new(seed << 16)),
        }
    }

    pub(crate) async fn attacker(&self) -> Attacker {
        self.attacker_by(Policy::lossy_client()).await
    }

    async fn attacker_by(&self, policy: Policy) -> Attacker {
        let nonce = self.nonce.fetch_add(1, Ordering::Relaxed) as u32;
        let addr = ("127.0.0.1:0".parse().expect("an address"), nonce);
        Attacker::connect_by(&self.victim, &self.admin, &self.auth, addr, None, policy).await
    }
}

fn ways(means: &Means) -> Vec<Way> {
    fn way<F: Future<Output: Tried> + Send + 'static>(
        name: &'static str,
        means: &Means,
        round: impl Fn(Means) -> F + Send + Sync + 'static,
    ) -> Way {
        let means = means.clone();
        Way {
            name,
            round: Box::new(move || {
                let round = round(means.clone());
                Box::pin(async move { round.await.was_tried() })
            }),
        }
    }
    vec![
        way("sockets that say nothing", means, idle_sockets),
        way("noise at the doors", means, noise),
        way("sessions upon sessions", means, sessions),
        way("attributes, again and again, which may fail", means, attributes),
        way("sums over long objects", means, sums),
        way("writes that make much of little", means, write_same),
        way("watches times notifications", means, notifications),
        way("answers that nobody reads", means, deaf),
        way("keys without end", means, keys),
        way("copies of what may not be read", means, copies),
        way("entries of the blocklist", means, blocklist),
        way("long commands that are denied", means, long_commands),
        way("a bootstrap key that asks for the administrator's", means, bootstrap),
        way("compressed messages that become very long", means, bombs),
        way("compressed messages that claim what is not so", means, claims),
        way("messages and greetings that begin and never end", means, halves),
    ]
}

async fn idle_sockets(means: Means) {
    use crate::attacker::Doors as _;
    let mut sockets = Vec::new();
    for n in 0..IDLE_SOCKETS {
        let door = if n % 2 == 0 { means.victim.mon_addr() } else { means.victim.osd_addr() };
        if let Ok(socket) = TcpStream::connect(door).await {
            sockets.push(socket);
        }
    }
    tokio::time::sleep(PATIENCE / 5).await;
}

async fn noise(means: Means) {
    use crate::attacker::Doors as _;
    let mut rng = Rng::new();
    for door in [means.victim.mon_addr(), means.victim.osd_addr()] {
        let mut bytes = vec![0; rng.usize(1..20_000)];
        rng.fill(&mut bytes);
        if rng.bool() {
            // The start of a valid connection, followed by an absurd length.
            bytes.splice(..0, *b"ceph v2\n\xff\xff");
        }
        if let Ok(mut socket) = TcpStream::connect(door).await {
            let _ = socket.write_all(&bytes).await;
        }
    }
}

async fn sessions(means: Means) {
    let mut sessions = Vec::new();
    for _ in 0..8 {
        let mut session = means.attacker().await;
        session.write(means.evil).await;
        sessions.push(session);
    }
}

async fn attributes(means: Means) {
    let mut attacker = means.attacker().await;
    let value = vec![b'v'; 60_000];
    let set: [OsdOp; 16] =
        array::from_fn(|n| OsdOp::xattr(OpCode::SETXATTR, format!("a{n}").as_bytes(), &value, 0, 0));
    attacker.run(means.evil, "attributes", set, OsdFlags::WRITE).await;
    loop {
        let get = || OsdOp::new(OpCode::GETXATTRS).with_flags(OpFlags::FAILOK);
        let allowed: [OsdOp; 100] = array::from_fn(|_| get());
        attacker.run(means.evil, "attributes", allowed, OsdFlags::READ).await;
        let refused: [OsdOp; 1000] = array::from_fn(|_| get());
        attacker.run(means.evil, "attributes", refused, OsdFlags::READ).await;
    }
}

async fn sums(means: Means) {
    const SIZE: u64 = 100 << 20;
    let mut attacker = means.attacker().await;
    attacker.run(means.evil, "long", [OsdOp::truncate(SIZE)], OsdFlags::WRITE).await;
    loop {
        let sum = |chunk_size| {
            let args = ChecksumArgs { kind: ChecksumArgs::CRC32C, chunk_size, offset: 0, length: SIZE };
            OsdOp::checksum(args, Bytes::from_static(&[0; 4]))
        };
        attacker.run(means.evil, "long", [sum(4 << 20), sum(0)], OsdFlags::READ).await;
        attacker.run(means.evil, "long", [sum(1)], OsdFlags::READ).await;
    }
}

async fn write_same(means: Means) {
    let mut attacker = means.attacker().await;
    for n in 0.. {
        let same = || OsdOp::write_same(0, 64 << 20, Bytes::from_static(&[7; 4096]));
        let object = format!("same {}", n % 4);
        attacker.run(means.evil, &object, [same(), same()], OsdFlags::WRITE).await;
        let removed = [OsdOp::new(OpCode::DELETE)];
        attacker.run(means.evil, &object, removed, OsdFlags::WRITE).await;
    }
}

async fn notifications(means: Means) {
    let mut attacker = means.attacker().await;
    attacker.write(means.evil).await;
    let watches: [OsdOp; WATCHES as usize] = array::from_fn(|cookie| {
        let cookie = 1 + cookie as u64;
        OsdOp::watch(WatchArgs { cookie, op: WatchArgs::WATCH, ..WatchArgs::default() })
    });
    attacker.run(means.evil, "o", watches, OsdFlags::WRITE).await;
    let mut data = BytesMut::new();
    data.put_u32_le(1);
    data.put_u32_le(30);
    data.put_u32_le(4);
    data.put_slice(b"news");
    let data = data.freeze();
    loop {
        let notify: [OsdOp; 50] = array::from_fn(|_| OsdOp::notify(1, data.clone()));
        if attacker.run(means.evil, "o", notify, OsdFlags::READ).await < 0 {
            return;
        }
    }
}

async fn deaf(means: Means) {
    let throttle = Throttle::new(1, u64::MAX);
    let mut attacker = means.attacker_by(Policy::lossy_client().with_throttle(throttle.clone())).await;
    let content = Bytes::from(vec![7; 2 << 20]);
    attacker.run(means.evil, "deaf", [OsdOp::write_full(content)], OsdFlags::WRITE).await;
    let _deaf = throttle.hold(1);
    for _ in 0..DEAF_REQUESTS {
        attacker.send(means.evil, "deaf", [OsdOp::read(0, 0)], OsdFlags::READ);
    }
    tokio::time::sleep(PATIENCE / 2).await;
}

async fn keys(means: Means) {
    let evil = means.admin.ioctx("evil").await.expect("the pool").with_namespace("keys");
    let value = Bytes::from(vec![b'v'; 64 << 10]);
    let name = format!("keys {}", fastrand::u32(..));
    let mut number = 0u64;
    // Until the quota or the time limit ends it.
    let filled = timeout(PATIENCE / 2, async {
        loop {
            let first = number;
            let pairs = (0..100).map(|n| (format!("key {}", first + n), value.clone()));
            number += 100;
            if evil.operate(name.as_str(), WriteOp::new().set_omap(pairs)).await.is_err() {
                return;
            }
        }
    });
    let _ = filled.await;
    let _ = evil.remove(name.as_str()).await;
}

async fn copies(means: Means) {
    let mut attacker = means.attacker().await;
    let locator = ObjectLocator { nspace: "probe".into(), ..ObjectLocator::in_pool(means.honest) };
    for n in 0..64 {
        let head = CopyFrom { snapid: SnapId::HEAD, ..CopyFrom::default() };
        let copy = OsdOp::copy_from(format!("small {n}").as_bytes(), &locator, head);
        let done = attacker.run(means.evil, "copy", [copy], OsdFlags::WRITE).await;
        assert_eq!(done, EPERM, "a copy of what may not be read");
    }
}

async fn blocklist(means: Means) {
    let mut blocker = Caller::connect(&means.victim, &means.admin, &means.blocker);
    for _ in 0..50 {
        let addr = format!(
            "10.{}.{}.{}:0/{}",
            fastrand::u8(..),
            fastrand::u8(..),
            fastrand::u8(..),
            fastrand::u32(..)
        );
        let add = json!({"prefix": "osd blocklist", "blocklistop": "add", "addr": addr, "expire": 3.0e9});
        blocker.command(&add).await;
    }
}

async fn long_commands(means: Means) {
    let long = json!({"prefix": "config-key set", "key": "x".repeat(1 << 20), "val": "y"});
    let mut caller = Caller::connect(&means.victim, &means.admin, &means.blocker);
    for _ in 0..10 {
        assert_eq!(caller.command(&long).await, EACCES, "a command that is not allowed");
    }
}

async fn bootstrap(means: Means) {
    let mut caller = Caller::connect(&means.victim, &means.admin, &means.bootstrap);
    for caps in [json!({"caps_mon": "profile rbd", "caps_osd": "profile rbd"}), json!({})] {
        let mut ask = json!({"prefix": "auth get-or-create", "entity": "client.admin"});
        let fields = ask.as_object_mut().expect("an object");
        fields.extend(caps.as_object().expect("an object").clone());
        assert_eq!(caller.command(&ask).await, EACCES, "a bootstrap user asks for the administrator's key");
    }
}
