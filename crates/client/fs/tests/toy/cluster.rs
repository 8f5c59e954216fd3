//! A cluster for tests in this process: a monitor and metadata servers, over loopback, without OSDs. The
//! servers share one small file system in memory. A test's script may answer in a server's place, every
//! message may be changed on its way out, and anything may be said to the client.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use loligo_fs::{Error, FileSystem, MountOptions};
use loligo_maps::{Incremental, MdsInfo, MdsMap, MdsState, OsdMap, PgPool};
use loligo_msgr::testing::OpenDoor;
use loligo_msgr::{Config, Connection, Messenger, Policies, Policy};
use loligo_rados::{Builder, Conf, Environment, Rados};
use loligo_wire::message::Msg;
use loligo_wire::message::mds::{CapOp, ClientCaps, ClientRequest, ClientSession, FeatureBits, RequestOp};
use loligo_wire::{
    CapId, Caps, EntityAddr, EntityAddrVec, EntityName, EntityType, GlobalId, Ino, PoolId, Rank, UTime, Uuid,
};

use crate::monitor::Monitor;
use crate::server::Server;
use crate::tree::Tree;

pub(crate) const FSID: Uuid = Uuid([7; 16]);
/// The number of the file system, and its name.
pub(crate) const FS: (i32, &str) = (1, "toy");

/// A message that a server has received.
pub(crate) struct Heard<'m> {
    pub(crate) rank: Rank,
    pub(crate) msg: &'m Msg,
}

impl Heard<'_> {
    /// Returns the request, if it is one.
    pub(crate) fn request(&self) -> Option<ClientRequest> {
        self.msg.open().ok()
    }

    /// Returns the message about the session, if it is one.
    pub(crate) fn session(&self) -> Option<ClientSession> {
        self.msg.open().ok()
    }
}

/// What a server does with a message.
pub(crate) enum Verdict {
    /// What a good server does.
    Serve,
    /// It says nothing.
    Drop,
    /// It says this.
    Say(Vec<Msg>),
}

pub(crate) type Script = Box<dyn FnMut(&Heard<'_>) -> Verdict + Send>;
/// What becomes of a message that a server sends.
pub(crate) type Twist = Box<dyn FnMut(Msg) -> Vec<Msg> + Send>;

/// What the monitor and the servers share.
pub(crate) struct Shared {
    pub(crate) osd_map: Mutex<OsdMap>,
    pub(crate) mds_map: Mutex<MdsMap>,
    pub(crate) followers: Mutex<Vec<Arc<Connection>>>,
    pub(crate) tree: Mutex<Tree>,
    pub(crate) script: Mutex<Script>,
    pub(crate) twist: Mutex<Option<Twist>>,
    /// All messages, with the rank that has heard them.
    pub(crate) heard: Mutex<Vec<(Rank, Msg)>>,
    /// The features and the metrics that the client named when it opened a session.
    pub(crate) abilities: Mutex<(FeatureBits, FeatureBits)>,
    /// The newest connection to each rank.
    pub(crate) conns: Mutex<BTreeMap<Rank, Arc<Connection>>>,
}

/// The cluster. It ends when this is dropped.
pub(crate) struct Toy {
    shared: Arc<Shared>,
    mon_addr: SocketAddr,
    mon: Arc<Messenger>,
    servers: Mutex<BTreeMap<Rank, Arc<Messenger>>>,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn loopback() -> SocketAddr {
    ([127, 0, 0, 1], 0).into()
}

impl Toy {
    /// Starts a monitor and a file system with so many active ranks.
    pub(crate) async fn start(ranks: i32) -> Self {
        let mut map = OsdMap::build(FSID).osds(1).finish().expect("a first map");
        let mut inc = map.next_incremental(UTime::now());
        inc.create_pool(&map, "data", PgPool::replicated(1, 8));
        map = map.advance(inc).expect("a pool").map;
        let mds_map = MdsMap {
            fs_name: FS.1.into(),
            enabled: true,
            max_mds: ranks,
            data_pools: vec![PoolId(1)],
            ..MdsMap::default()
        };
        let shared = Arc::new(Shared {
            osd_map: Mutex::new(map),
            mds_map: Mutex::new(mds_map),
            followers: Mutex::default(),
            tree: Mutex::new(Tree::new()),
            script: Mutex::new(Box::new(|_| Verdict::Serve)),
            twist: Mutex::default(),
            heard: Mutex::default(),
            abilities: Mutex::default(),
            conns: Mutex::default(),
        });
        let policies = Policies::new(Policy::stateless_server());
        let config = Config { num: 0, nonce: 0, policies, ..Config::new(EntityType::MON) };
        let mon = Messenger::new(config, Arc::new(Monitor(Arc::clone(&shared))));
        let mon_addr = mon.bind(loopback(), OpenDoor::client("mon")).await.expect("a port");
        let toy = Self { shared, mon_addr, mon, servers: Mutex::default() };
        for rank in 0..ranks {
            toy.take_rank(rank, MdsState::ACTIVE).await;
        }
        toy
    }

    /// Starts a server for a rank, which another one may have had, in a state.
    pub(crate) async fn take_rank(&self, rank: i32, state: MdsState) {
        let rank = Rank(rank);
        let policies = Policies::new(Policy::stateful_server());
        let config = Config { num: 0, nonce: 0, policies, ..Config::new(EntityType::MDS) };
        let server = Server { rank, shared: Arc::clone(&self.shared) };
        let messenger = Messenger::new(config, Arc::new(server));
        let addr = messenger.bind(loopback(), OpenDoor::client("mds")).await.expect("a port");
        lock(&self.servers).insert(rank, messenger);
        self.change_map(|map| {
            // Never the same server again, also after the rank was taken away.
            let first = 100 * (rank.0 as u64 + 1) + if map.stopped.remove(&rank) { 50 } else { 0 };
            let gid = GlobalId(map.up.get(&rank).map_or(first, |gid| gid.0 + 1));
            if let Some(old) = map.up.insert(rank, gid) {
                map.mds_info.remove(&old);
            }
            map.in_ranks.insert(rank);
            let addrs = EntityAddrVec::from(EntityAddr::msgr2(addr));
            let info = MdsInfo { gid, rank, state, addrs, ..MdsInfo::default() };
            map.mds_info.insert(gid, info);
        });
    }

    /// Changes the state of a rank's server.
    pub(crate) fn set_state(&self, rank: i32, state: MdsState) {
        self.change_map(|map| {
            let gid = map.up[&Rank(rank)];
            map.mds_info.get_mut(&gid).expect("it is up").state = state;
        });
    }

    /// Takes a rank away, with its server.
    pub(crate) async fn stop_rank(&self, rank: i32) {
        let server = lock(&self.servers).remove(&Rank(rank));
        if let Some(server) = server {
            server.shutdown().await;
        }
        self.change_map(|map| {
            if let Some(gid) = map.up.remove(&Rank(rank)) {
                map.mds_info.remove(&gid);
            }
            map.in_ranks.remove(&Rank(rank));
            map.stopped.insert(Rank(rank));
        });
    }

    /// Takes the monitor away.
    pub(crate) async fn stop_monitor(&self) {
        self.mon.shutdown().await;
    }

    /// Publishes the next map of the file system.
    pub(crate) fn change_map(&self, change: impl FnOnce(&mut MdsMap)) {
        {
            let mut map = lock(&self.shared.mds_map);
            change(&mut map);
            map.epoch.0 += 1;
        }
        self.shared.tell_followers(&self.shared.mds_map_msg());
    }

    /// Publishes the next map of the OSDs.
    pub(crate) fn change_osd_map(&self, change: impl FnOnce(&OsdMap, &mut Incremental)) {
        {
            let mut map = lock(&self.shared.osd_map);
            let mut inc = map.next_incremental(UTime::now());
            change(&map, &mut inc);
            let next = map.advance(inc).expect("a change that fits");
            *map = next.map;
        }
        self.shared.tell_followers(&self.shared.osd_map_msg());
    }

    /// Returns a client builder configured for this cluster.
    pub(crate) fn builder(&self) -> Builder {
        self.builder_with("")
    }

    /// The same with further lines of ceph.conf.
    pub(crate) fn builder_with(&self, lines: &str) -> Builder {
        let mon = self.mon_addr;
        let text = format!("[global]\nmon host = v2:{mon}\nauth client required = none\n{lines}\n");
        let conf = Conf::parse(&text, EntityName::client("toy"), Environment::default()).expect("a conf");
        Builder::new().conf(conf)
    }

    /// Connects a client.
    pub(crate) async fn client(&self) -> Rados {
        self.builder().connect().await.expect("a monitor")
    }

    /// Mounts the file system, with little patience.
    pub(crate) async fn try_mount(&self, rados: &Rados) -> Result<FileSystem, Error> {
        FileSystem::mount(rados, options()).await
    }

    /// Mounts the file system.
    pub(crate) async fn mount(&self, rados: &Rados) -> FileSystem {
        self.try_mount(rados).await.expect("mounted")
    }

    /// Gives all servers a script, which sees each message first.
    pub(crate) fn script(&self, script: impl FnMut(&Heard<'_>) -> Verdict + Send + 'static) {
        *lock(&self.shared.script) = Box::new(script);
    }

    /// Changes each message that the servers send.
    pub(crate) fn twist(&self, twist: impl FnMut(Msg) -> Vec<Msg> + Send + 'static) {
        *lock(&self.shared.twist) = Some(Box::new(twist));
    }

    /// Makes all servers good again.
    pub(crate) fn be_good(&self) {
        self.script(|_| Verdict::Serve);
        *lock(&self.shared.twist) = None;
    }

    /// Says something to the client, as a server.
    pub(crate) fn say(&self, rank: i32, msg: Msg) {
        let conn = lock(&self.shared.conns).get(&Rank(rank)).cloned().expect("the client has connected");
        let _ = conn.send(msg);
    }

    /// Returns what the messages of one kind say, in the order of arrival, with the rank that heard each.
    pub(crate) fn heard<M: loligo_wire::message::Message>(&self) -> Vec<(Rank, M)> {
        let heard = lock(&self.shared.heard);
        let of_kind = heard.iter().filter(|(_, msg)| msg.header.kind == M::KIND);
        of_kind.map(|(rank, msg)| (*rank, msg.open().expect("the client's messages are right"))).collect()
    }

    /// Returns the kinds of all messages in the order of arrival.
    pub(crate) fn kinds_heard(&self) -> Vec<u16> {
        lock(&self.shared.heard).iter().map(|(_, msg)| msg.header.kind).collect()
    }

    /// Returns the numbers of the requests in the order of arrival.
    pub(crate) fn tids_heard(&self) -> Vec<u64> {
        let heard = lock(&self.shared.heard);
        heard.iter().filter(|(_, msg)| msg.header.kind == 24).map(|(_, msg)| msg.header.tid.0).collect()
    }

    /// Forgets what was heard so far.
    pub(crate) fn forget_heard(&self) {
        lock(&self.shared.heard).clear();
    }

    /// Looks at the file system, or changes it behind the client's back.
    pub(crate) fn tree<T>(&self, of: impl FnOnce(&mut Tree) -> T) -> T {
        of(&mut lock(&self.shared.tree))
    }

    /// Another client changes a directory: Fs of it is taken back before.
    pub(crate) async fn by_another<T>(&self, dir: Ino, change: impl FnOnce(&mut Tree) -> T) -> T {
        let (seq, wanted) = self.tree(|tree| tree.next_word(dir));
        let caps = Caps::PIN | (Caps::ANY_SHARED - Caps::FILE_SHARED);
        let cap_id = CapId(dir.0);
        let op = CapOp::Revoke;
        let mode = 0o040_755;
        let body = ClientCaps { op, ino: dir, cap_id, seq, caps, wanted, mode, ..ClientCaps::default() };
        self.say(0, Msg::new(&body));
        until("Fs is given back", || {
            let answers = |said: &ClientCaps| said.ino == dir && said.seq == seq;
            self.heard::<ClientCaps>().iter().any(|(_, said)| answers(said))
        })
        .await;
        self.tree(change)
    }

    /// Returns the operations that were asked for, in the order of arrival.
    pub(crate) fn asked(&self) -> Vec<RequestOp> {
        self.heard::<ClientRequest>().into_iter().map(|(_, request)| request.op).collect()
    }

    /// Returns the ranks that the client has sessions with, or had.
    pub(crate) fn ranks_connected(&self) -> BTreeSet<Rank> {
        lock(&self.shared.conns).keys().copied().collect()
    }
}

/// Waits for a condition that another task brings about.
pub(crate) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let wait = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(60), wait).await.is_ok(), "never: {what}");
}

/// The options of a mount with little patience.
pub(crate) fn options() -> MountOptions {
    MountOptions::new().patience(Duration::from_secs(3))
}

/// Waits for something that must end, whatever the servers say.
pub(crate) async fn ends<T>(what: &str, work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), work).await.unwrap_or_else(|_| panic!("no end: {what}"))
}
