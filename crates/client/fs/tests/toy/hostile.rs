//! Metadata servers that break every rule.
//!
//! Goal: whatever a server says, an operation ends with an error or goes on when the server does, nothing
//! panics, and memory stays within bounds. Method: toy servers in this process, which say what the test
//! wants; in one test each message is changed at random.
//!
//! LOLIGO_FUZZ_SEEDS is the number of random sequences (default: a few), LOLIGO_FUZZ_SEED the first one.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use loligo_fs::{Changes, Errno, Error, FileSystem, OpenOptions};
use loligo_wire::message::mds::{
    CapOp, CapPeer, ClientCapRelease, ClientCaps, ClientLease, ClientQuota, ClientReply, ClientRequest,
    ClientSession, ClientSnap, DirStat, Frag, LeaseStat, ReaddirEntry, ReaddirExtra, RequestForward,
    RequestOp, SessionOp, SnapOp, SnapRealmInfo, SnapTrace, Trace,
};
use loligo_wire::message::{Message as _, Msg};
use loligo_wire::{CapId, Caps, Decode as _, Encode as _, Ino, Name, Rank, SnapId, Tid};

use crate::cluster::{Heard, Toy, Verdict, ends, until};

fn errno<T: std::fmt::Debug>(done: Result<T, Error>) -> Errno {
    done.expect_err("it fails").errno()
}

/// The most memory that this process has had so far, in bytes.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux has it");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a line");
    line.trim().trim_end_matches("kB").trim().parse::<u64>().expect("a number") << 10
}

/// Random numbers.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: usize) -> usize {
        (self.roll() >> 8) as usize % end.max(1)
    }

    /// Changes a message's body.
    fn spoil(&mut self, msg: &mut Msg) {
        let mut front = BytesMut::from(&msg.front[..]);
        for _ in 0..=self.below(3) {
            let at = self.below(front.len());
            match self.below(5) {
                0 => front.truncate(at),
                1 => front.extend_from_slice(&self.roll().to_le_bytes()),
                2 if front.len() >= 8 => {
                    let at = at.min(front.len() - 4);
                    let extreme = [0, 1, u32::MAX, u32::MAX >> 1, 1 << 24][self.below(5)];
                    front[at..at + 4].copy_from_slice(&extreme.to_le_bytes());
                }
                _ if !front.is_empty() => {
                    let at = at.min(front.len() - 1);
                    front[at] ^= 1 << self.below(8);
                }
                _ => {}
            }
        }
        msg.front = front.freeze();
    }
}

/// Panics in any thread.
static PANICS: AtomicUsize = AtomicUsize::new(0);

fn count_panics() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |what| {
            PANICS.fetch_add(1, Ordering::Relaxed);
            before(what);
        }));
    });
}

/// A little of everything.
async fn work(fs: &FileSystem) -> Result<(), Error> {
    fs.create_dir("d", 0o755).await?;
    fs.make_node("d/f", 0o644, 0).await?;
    fs.stat("d/f").await?;
    fs.symlink("f", "d/l").await?;
    fs.stat("d/l").await?;
    fs.change("d/f", Changes { permissions: Some(0o600), ..Changes::default() }).await?;
    let file = fs.open("d/new", OpenOptions::new().read().write().create()).await?;
    file.stat().await?;
    file.close().await?;
    fs.rename("d/f", "g").await?;
    fs.read_dir("/").await?.all().await?;
    fs.read_dir("d").await?.all().await?;
    fs.remove_file("g").await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_changed_at_random_break_nothing_but_their_mount() {
    count_panics();
    let number = |name: &str| std::env::var(name).ok().map(|n| n.parse::<u64>().expect("a number"));
    let first = number("LOLIGO_FUZZ_SEED").unwrap_or(1);
    let count = number("LOLIGO_FUZZ_SEEDS").unwrap_or(60);
    let (before, mut done) = (peak(), 0);
    for seed in first..first + count {
        let toy = Toy::start(1).await;
        let rados = toy.client().await;
        let fs = toy.mount(&rados).await;
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let share = 1 + dice.below(8);
        toy.twist(move |mut msg| {
            if dice.below(share) == 0 {
                dice.spoil(&mut msg);
            }
            // Once in a while twice, and once in a while not at all.
            vec![msg; [1, 1, 1, 1, 1, 1, 0, 2][dice.below(8)]]
        });
        // A message that says nothing any more leaves its operation waiting, as a server's silence does.
        done += usize::from(tokio::time::timeout(Duration::from_millis(200), work(&fs)).await.is_ok());
        toy.be_good();
        let _ = ends(&format!("unmount, seed {seed}"), fs.unmount()).await;
        ends("shutdown", rados.shutdown()).await;
        assert_eq!(PANICS.load(Ordering::Relaxed), 0, "LOLIGO_FUZZ_SEED={seed}");
    }
    assert!(done > 0, "each one waited for ever");
    let grown = peak() - before;
    assert!(grown < 256 << 20, "{} MiB were needed", grown >> 20);
}

/// Says this instead of the answer to each request of one kind.
fn instead(
    is_meant: impl Fn(&RequestOp) -> bool + Send + 'static,
    mut say: impl FnMut(&ClientRequest) -> Msg + Send + 'static,
) -> impl FnMut(&Heard<'_>) -> Verdict + Send + 'static {
    move |heard| match heard.request() {
        Some(request) if is_meant(&request.op) => {
            Verdict::Say(vec![say(&request).with_tid(heard.msg.header.tid)])
        }
        _ => Verdict::Serve,
    }
}

fn reply(request: &ClientRequest, trace: Trace, extra: Bytes) -> Msg {
    Msg::new(&ClientReply { op: request.op.code(), safe: true, trace, extra, ..ClientReply::default() })
}

fn is_listing(op: &RequestOp) -> bool {
    matches!(op, RequestOp::ReadDir(_))
}

/// Goal: a directory that a server lists for ever ends with an error, not in endless memory. Method: parts
/// that never end, that repeat names, that go backwards, that are of fragments nobody asked for, and that
/// are empty.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listing_that_gets_nowhere_ends() {
    let toy = Toy::start(1).await;
    let ino = toy.tree(|tree| tree.make(Ino::ROOT, b"f", 0o100_644));
    let rados = toy.client().await;
    let fs = toy.mount(&rados).await;
    let stat = toy.tree(|tree| tree.stat(ino, Caps::PIN));
    let entry = move |name: &[u8]| ReaddirEntry {
        name: name.to_vec(),
        lease: LeaseStat::default(),
        stat: stat.clone(),
    };
    let part = |frag: Frag, flags: u16, entries: Vec<ReaddirEntry>| {
        let dirstat = DirStat { frag, ..DirStat::default() };
        ReaddirExtra { dirstat, flags, entries }.to_bytes()
    };
    let halves = [Frag(0x0100_0000), Frag(0x0180_0000)];
    let order = ReaddirExtra::HASH_ORDER | ReaddirExtra::OFFSET_HASH;
    let parts: [(&str, Vec<Bytes>); 6] = [
        ("never at an end", vec![part(Frag::ROOT, 0, vec![entry(b"f")])]),
        ("never at an end, by hash", vec![part(Frag::ROOT, order, vec![entry(b"f")])]),
        ("two names in turn", vec![part(Frag::ROOT, 0, vec![entry(b"f"), entry(b"g")])]),
        ("always the first half", vec![part(halves[0], ReaddirExtra::END, vec![entry(b"f")])]),
        ("the halves backwards", {
            let half = |at: usize| part(halves[at], ReaddirExtra::END, vec![entry(b"f")]);
            vec![half(0), half(1), half(0)]
        }),
        ("nothing, and never at an end", vec![part(Frag::ROOT, 0, Vec::new())]),
    ];
    for (what, parts) in parts {
        let mut at = 0;
        toy.script(instead(is_listing, move |request| {
            at += 1;
            reply(request, Trace::default(), parts[at % parts.len()].clone())
        }));
        let listed = ends(what, async { fs.read_dir("/").await?.all().await }).await;
        if let Ok(listed) = listed {
            assert!(listed.len() <= 4, "{what}: {} names", listed.len());
        }
    }
    toy.be_good();
    assert_eq!(fs.read_dir("/").await.expect("there").all().await.expect("listed").len(), 1);
    ends("unmount", fs.unmount()).await.expect("unmounted");
}

/// Goal: a division of a directory that no directory can have is an error or leads to a fragment.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn absurd_divisions_of_a_directory_end() {
    let trees: [Vec<(u32, u32)>; 5] = [
        // Each fragment in two, 24 times: as deep as hashes go.
        (0..24_u32).map(|bits| (bits << 24, 1)).collect(),
        (0..20_000_u32).map(|at| (16 << 24 | (at << 8) & 0xff_ffff, 8)).collect(),
        vec![(0, 24), (0x0180_0000, 5)],
        // Too many bits, and a fragment of itself.
        vec![(0, 25)],
        vec![(24 << 24, 1), (0, u32::MAX)],
    ];
    for (at, splits) in trees.into_iter().enumerate() {
        let toy = Toy::start(1).await;
        let rados = toy.client().await;
        // An empty directory need not be listed.
        toy.tree(|tree| tree.make(Ino::ROOT, b"f", 0o100_644));
        let fs = toy.mount(&rados).await;
        let whole = toy.tree(|tree| tree.stat(Ino::ROOT, Caps::PIN));
        let (plain, bytes) = (whole.fragtree.to_bytes(), splits.to_bytes());
        toy.twist(move |mut msg| {
            // The only four zeros before the empty link's and the directory's hash are the tree's.
            if msg.header.kind == ClientReply::KIND && plain.len() == 4 {
                msg.front = with_tree(&msg, &bytes);
            }
            vec![msg]
        });
        let listed = async { fs.read_dir("/").await?.all().await };
        let _ = ends(&format!("a listing, tree {at}"), listed).await;
        let _ = ends("a name", fs.create_dir("d", 0o755)).await;
        toy.be_good();
        let _ = ends("unmount", fs.unmount()).await;
    }
    assert_eq!(PANICS.load(Ordering::Relaxed), 0);
}

/// Returns a reply's body with another division of the inodes in it.
fn with_tree(msg: &Msg, tree: &[u8]) -> Bytes {
    let Ok(mut reply) = msg.open::<ClientReply>() else { return msg.front.clone() };
    let tree = loligo_wire::message::mds::FragTree::from_bytes(tree);
    let dentry = reply.trace.dentry.as_mut().map(|dentry| &mut dentry.dir);
    for stat in dentry.into_iter().chain(reply.trace.target.as_deref_mut()) {
        match &tree {
            Ok(tree) => stat.fragtree = tree.clone(),
            // What this program cannot even build: the body ends in the middle instead.
            Err(_) => return msg.front.slice(..msg.front.len() / 2),
        }
    }
    Msg::new(&reply).front
}

/// Goal: realms that are above themselves, and very many of them, harm nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn realms_in_circles_and_without_number_are_survived() {
    let toy = Toy::start(1).await;
    let rados = toy.client().await;
    let fs = toy.mount(&rados).await;
    let realm = |ino: u64, parent: u64, seq: u64| SnapRealmInfo {
        ino: Ino(ino),
        parent: Ino(parent),
        seq: SnapId(seq),
        snaps: vec![SnapId(seq)],
        ..SnapRealmInfo::default()
    };
    let say = |op: SnapOp, realms: Vec<SnapRealmInfo>| {
        let trace = SnapTrace(realms).to_blob(false);
        toy.say(0, Msg::new(&ClientSnap { op, split: Ino(5), trace, ..ClientSnap::default() }));
    };
    let before = peak();
    say(SnapOp::Update, (0..500).map(|at| realm(100 + at, 100 + (at + 1) % 500, at)).collect());
    say(SnapOp::Split, vec![realm(1, 1, 9)]);
    say(SnapOp::Update, vec![realm(1, 2, 10), realm(2, 1, 10)]);
    // A million realms, each with a name of its own.
    for part in 0..100_u64 {
        say(SnapOp::Update, (0..10_000).map(|at| realm(1000 + part * 10_000 + at, 1, 2)).collect());
    }
    ends("a file", async {
        let file = fs.open("f", OpenOptions::new().read().write().create()).await?;
        file.stat().await?;
        file.sync().await?;
        file.close().await
    })
    .await
    .expect("what it says is harmless");
    let grown = peak() - before;
    assert!(grown < 512 << 20, "{} MiB were needed", grown >> 20);
    ends("unmount", fs.unmount()).await.expect("unmounted");
}

/// Goal: a directory that is in itself, and a reply that names one inode in all places, end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_in_itself_is_walked_and_left() {
    let toy = Toy::start(1).await;
    let rados = toy.client().await;
    let fs = toy.mount(&rados).await;
    toy.twist(|msg| {
        let Ok(mut reply) = msg.open::<ClientReply>() else { return vec![msg] };
        if let (Some(dentry), Some(target)) = (&reply.trace.dentry, &mut reply.trace.target) {
            **target = dentry.dir.clone();
        }
        vec![Msg::new(&reply).with_tid(msg.header.tid)]
    });
    ends("made", fs.create_dir("a", 0o755)).await.expect("so it is said");
    assert!(ends("a path", fs.stat("a/a/a/a")).await.expect("there").is_dir());
    let _ = ends("a list", async { fs.read_dir("a/a").await?.all().await }).await;
    let _ = ends("moved", fs.rename("a/a", "a/a/a")).await;
    let _ = ends("removed", fs.remove_dir("a/a")).await;
    toy.be_good();
    assert!(fs.stat("/").await.expect("there").is_dir());
    ends("unmount", fs.unmount()).await.expect("unmounted");
}

/// Goal: servers that pass a request around are left with EMULTIHOP.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_is_passed_around_ends() {
    let toy = Toy::start(2).await;
    let rados = toy.client().await;
    let fs = toy.mount(&rados).await;
    // On and on; in place; to a rank that does not exist.
    type Next = fn(i32, u32) -> (i32, u32);
    let ways: [Next; 4] = [
        |at, times| (1 - at, times + 1),
        |at, _| (1 - at, 1),
        |at, times| (at, times + 1),
        |_, n| (77, n + 1),
    ];
    for next in ways {
        toy.script(move |heard| match heard.request() {
            Some(request) => {
                let (dest, num_fwd) = next(heard.rank.0, request.num_fwd);
                let forward = RequestForward { dest: Rank(dest), num_fwd, ..RequestForward::default() };
                Verdict::Say(vec![Msg::new(&forward).with_tid(heard.msg.header.tid)])
            }
            None => Verdict::Serve,
        });
        assert_eq!(errno(ends("a circle", fs.create_dir("d", 0o755)).await), Errno::EMULTIHOP);
    }
    toy.be_good();
    fs.create_dir("d", 0o755).await.expect("made");
    ends("unmount", fs.unmount()).await.expect("unmounted");
}

/// Goal: what a server says of things that this client does not know, or has not asked, changes nothing,
/// and capabilities on unknown inodes go back to the server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_that_nobody_asked_for_are_ignored() {
    let toy = Toy::start(1).await;
    let rados = toy.client().await;
    let fs = toy.mount(&rados).await;
    let file = fs.open("f", OpenOptions::new().read().write().create()).await.expect("made");
    let ino = fs.stat("f").await.expect("there").ino;
    toy.forget_heard();
    let stat = toy.tree(|tree| tree.stat(Ino::ROOT, Caps::PIN));
    for tid in [0, 1, 2, 3, 99, u64::MAX] {
        let trace = Trace { dentry: None, target: Some(Box::new(stat.clone())) };
        let reply =
            ClientReply { op: 0x101, result: -5, safe: tid % 2 == 0, trace, ..ClientReply::default() };
        toy.say(0, Msg::new(&reply).with_tid(Tid(tid)));
        toy.say(0, Msg::new(&RequestForward::default()).with_tid(Tid(tid)));
    }
    for op in [CapOp::Grant, CapOp::Revoke, CapOp::Trunc, CapOp::Export, CapOp::Import, CapOp::FlushAck] {
        for (ino, cap_id) in [(Ino(0xdead), CapId(5)), (ino, CapId(5)), (ino, CapId(ino.0))] {
            for seq in [0, 7, u32::MAX] {
                let peer = CapPeer { cap_id, mds: Rank(-1), mseq: seq, ..CapPeer::default() };
                let caps = Caps::PIN | Caps::ANY_SHARED | Caps::FILE_RD | Caps::FILE_WR;
                let body =
                    ClientCaps { op, ino, cap_id, seq, mseq: seq, caps, peer, ..ClientCaps::default() };
                toy.say(0, Msg::new(&body).with_tid(Tid(u64::from(seq))));
            }
        }
    }
    toy.say(0, Msg::new(&ClientLease { ino: Ino(0xbeef), name: b"x".to_vec(), ..ClientLease::default() }));
    toy.say(0, Msg::new(&ClientLease { ino, name: Vec::new(), ..ClientLease::default() }));
    toy.say(0, Msg::new(&ClientQuota { ino: Ino(0xbeef), rbytes: i64::MIN, ..ClientQuota::default() }));
    for op in [SessionOp::RenewCaps, SessionOp::Open, SessionOp::FlushMsg, SessionOp::Other(99)] {
        toy.say(0, Msg::new(&ClientSession::new(op, u64::MAX)));
    }
    for max_caps in [u32::MAX, 0] {
        let recall = ClientSession { max_caps, ..ClientSession::new(SessionOp::RecallState, 0) };
        toy.say(0, Msg::new(&recall));
    }
    // The flush message is answered after all that came before it.
    until("it answers", || {
        toy.heard::<ClientSession>().iter().any(|(_, said)| said.op == SessionOp::FlushMsgAck)
    })
    .await;
    until("a capability on an unknown inode is given back", || {
        let released = toy.heard::<ClientCapRelease>();
        released.iter().any(|(_, said)| said.caps.iter().any(|cap| cap.ino == Ino(0xdead)))
    })
    .await;
    ends("a name", fs.create_dir("d", 0o755)).await.expect("made");
    ends("a list", async { fs.read_dir("/").await?.all().await }).await.expect("listed");
    let _ = ends("closed", file.close()).await;
    let _ = ends("unmount", fs.unmount()).await;
    assert_eq!(PANICS.load(Ordering::Relaxed), 0);
}

/// Goal: a server that never answers is named, and the mount ends in time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_server_is_named() {
    let toy = Toy::start(1).await;
    let rados = toy.client().await;
    toy.script(|_| Verdict::Drop);
    let why = ends("a mount", toy.try_mount(&rados)).await.expect_err("nobody answers");
    assert_eq!(why.errno(), Errno::EHOSTUNREACH);
    assert!(why.to_string().contains("rank 0 is active, and does not answer"), "{why}");
    toy.be_good();
    let fs = toy.mount(&rados).await;
    toy.script(|heard| if heard.request().is_some() { Verdict::Drop } else { Verdict::Serve });
    let call = tokio::spawn({
        let fs = fs.clone();
        async move { fs.create_dir("d", 0o755).await }
    });
    until("a word about it", || {
        let waits = rados.cluster().waits().all(Duration::from_secs(1));
        waits.iter().any(|wait| wait.to_string().contains("mds.0 of 'toy' has not answered"))
    })
    .await;
    assert!(!call.is_finished(), "no server answers");
    // Another server takes over, and answers.
    toy.be_good();
    toy.take_rank(0, loligo_maps::MdsState::ACTIVE).await;
    ends("the call", call).await.expect("no panic").expect("made");
    let waits = rados.cluster().waits().all(Duration::ZERO);
    assert!(waits.iter().all(|wait| !wait.to_string().contains("mds.0")), "{waits:?}");
    ends("unmount", fs.unmount()).await.expect("unmounted");
}

/// Goal: a server that refuses says why; one that opens and closes sessions in turn is not asked in a
/// tight loop.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_that_are_refused_or_closed_end() {
    let toy = Toy::start(1).await;
    let rados = toy.client().await;
    let refuse = |why: &'static str, flags: u32| {
        toy.script(move |heard| match heard.session() {
            Some(said) if said.op == SessionOp::RequestOpen => {
                let metadata = [(Name::from("error_string"), Name::from(why))].into();
                let body = ClientSession { metadata, flags, ..ClientSession::new(SessionOp::Reject, 0) };
                Verdict::Say(vec![Msg::new(&body)])
            }
            _ => Verdict::Serve,
        });
    };
    refuse("the moon is full", 0);
    let why = ends("a mount", toy.try_mount(&rados)).await.expect_err("refused");
    assert!(why.to_string().contains("mds.0 refused a session: the moon is full"), "{why}");
    refuse("session: client is blocklisted (blacklisted)", ClientSession::BLOCKLISTED);
    let why = ends("a mount", toy.try_mount(&rados)).await.expect_err("refused");
    assert_eq!(why.errno(), Errno::EBLOCKLISTED, "{why}");
    toy.forget_heard();
    toy.script(|heard| match heard.session() {
        Some(said) if said.op == SessionOp::RequestOpen => {
            Verdict::Say(vec![Msg::new(&ClientSession::new(SessionOp::Close, 0))])
        }
        _ => Verdict::Serve,
    });
    let why = ends("a mount", toy.try_mount(&rados)).await.expect_err("closed");
    assert_eq!(why.errno(), Errno::EHOSTUNREACH, "{why}");
    let opens = toy.heard::<ClientSession>().iter().filter(|(_, s)| s.op == SessionOp::RequestOpen).count();
    assert!((2..100).contains(&opens), "{opens} sessions were asked for");
    toy.be_good();
    let fs = toy.mount(&rados).await;
    // Closed in the middle: the next request opens another one. (Only a look: what a server carries out and
    // answers in a session that it has closed is carried out again.)
    toy.forget_heard();
    toy.say(0, Msg::new(&ClientSession::new(SessionOp::Close, 0)));
    let is_open =
        |toy: &Toy| toy.heard::<ClientSession>().iter().any(|(_, said)| said.op == SessionOp::RequestOpen);
    ends("another session", async {
        while !is_open(&toy) {
            fs.statistics("/").await.expect("there");
        }
    })
    .await;
    ends("a name after the close", fs.create_dir("d", 0o755)).await.expect("made");
    // Stale: renewed.
    toy.forget_heard();
    toy.say(0, Msg::new(&ClientSession::new(SessionOp::Stale, 0)));
    until("it is renewed", || {
        toy.heard::<ClientSession>().iter().any(|(_, said)| said.op == SessionOp::RequestRenewCaps)
    })
    .await;
    ends("a name after the stale", fs.create_dir("e", 0o755)).await.expect("made");
    // Read-only: a change of data is refused, names are the server's business.
    toy.say(0, Msg::new(&ClientSession::new(SessionOp::ForceReadOnly, 0)));
    ends("a look", fs.stat("e")).await.expect("there");
    ends("unmount", fs.unmount()).await.expect("unmounted");
}

/// Goal: counts in messages allocate nothing that the message does not hold.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn huge_counts_allocate_nothing() {
    let before = peak();
    let extras: [&[u8]; 3] = [&[0xff; 64], &[1, 1, 12, 0, 0, 0, 0xff, 0xff, 0xff, 0xff], &[]];
    for extra in extras {
        let toy = Toy::start(1).await;
        let rados = toy.client().await;
        // An empty directory need not be listed.
        toy.tree(|tree| tree.make(Ino::ROOT, b"f", 0o100_644));
        let fs = toy.mount(&rados).await;
        toy.script(instead(is_listing, move |request| {
            reply(request, Trace::default(), Bytes::copy_from_slice(extra))
        }));
        assert_eq!(errno(ends("a list", async { fs.read_dir("/").await?.all().await }).await), Errno::EPROTO);
        let _ = ends("unmount", fs.unmount()).await;
    }
    let grown = peak() - before;
    assert!(grown < 64 << 20, "{} MiB were needed", grown >> 20);
}
