//! Damaged messages from an authenticated client.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use loligo_cephx::client::AuthClient;
use loligo_cephx::handshake::ClientAuth;
use loligo_msgr::testing::Random;
use loligo_msgr::{Config, ConnectAuth, Connection, Dispatcher, Error, Messenger, Policy};
use loligo_rados::Rados;
use loligo_server::Auth;
use loligo_wire::message::Msg;
use loligo_wire::message::mon::{
    MAuth, MGetPoolStats, MLog, MMonCommand, MMonGetVersion, MMonSubscribe, MPoolOp, MStatfs, PaxosHeader,
    PoolOpCode, Subscription,
};
use loligo_wire::message::osd::{MOSDMap, MOSDOp, ObjectLocator, OpCode, Ops, OsdFlags, OsdOp};
use loligo_wire::{AddrKind, EntityAddr, EntityName, EntityType, Epoch, PoolId, SnapId, Tid, Uuid};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::addresses::{entity, osd_addr};
use crate::versions::both_versions;
use crate::victim::{Victim, resident_bytes, soon};

/// A client that may read everything, but write to the pool `junk` only.
const NAME: &str = "vandal";
/// Valid requests are numbered from here: damage to other requests does not produce such numbers.
const PROBES: u64 = 1 << 40;

/// Events at the client.
enum Heard {
    Answer(Tid),
    /// The connection of this number was closed.
    Closed(u64),
}

struct Ears(UnboundedSender<Heard>);

impl Dispatcher for Ears {
    fn dispatch(&self, _: &Arc<Connection>, msgs: &mut Vec<Msg>) {
        for msg in msgs.drain(..) {
            let _ = self.0.send(Heard::Answer(msg.header.tid));
        }
    }

    fn reset(&self, conn: &Arc<Connection>, _: &Error) {
        let _ = self.0.send(Heard::Closed(conn.id()));
    }
}

struct Credentials(Arc<AuthClient>);

impl ConnectAuth for Credentials {
    fn connector(&self, peer: EntityType) -> Box<dyn ClientAuth> {
        match peer {
            EntityType::MON => self.0.mon_auth(),
            service => self.0.service_auth(service, self.0.global_id()),
        }
    }
}

struct Vandal {
    messenger: Arc<Messenger>,
    auth: Arc<Credentials>,
    heard: UnboundedReceiver<Heard>,
    kind: EntityType,
    addr: EntityAddr,
    conn: Arc<Connection>,
    /// A valid request, which is always answered.
    probe: Msg,
    probes: u64,
    /// How often the server has closed the connection.
    closed: u64,
}

impl Vandal {
    async fn connect(auth: &Arc<Credentials>, kind: EntityType, addr: EntityAddr, probe: Msg) -> Self {
        let (ears, heard) = unbounded_channel();
        let mut config = Config::new(EntityType::CLIENT);
        config.log = Arc::new(|_, _| {});
        let messenger = Messenger::new(config, Arc::new(Ears(ears)));
        let conn = messenger.connect(kind, addr, Policy::lossy_client(), auth.clone());
        let auth = Arc::clone(auth);
        Self { messenger, auth, heard, kind, addr, conn, probe, probes: PROBES, closed: 0 }
    }

    /// Sends a message and a valid one. Returns when the valid one is answered, or the server has closed
    /// the connection.
    async fn tell(&mut self, msg: Msg) {
        self.probes += 1;
        let (probe, id) = (Tid(self.probes), self.conn.id());
        let _ = self.conn.send(msg);
        let _ = self.conn.send(self.probe.clone().with_tid(probe));
        loop {
            match soon("an answer or an end", self.heard.recv()).await.expect("the messenger lives") {
                Heard::Answer(tid) if tid == probe => return,
                Heard::Closed(closed) if closed == id => break,
                _ => {}
            }
        }
        self.closed += 1;
        self.conn = self.messenger.connect(self.kind, self.addr, Policy::lossy_client(), self.auth.clone());
    }

    /// Sends messages, each damaged in many ways.
    async fn vandalise(&mut self, good: &[Msg], seed: u64) {
        let mut random = Random(seed);
        for msg in good {
            for bad in damaged(msg, &mut random) {
                self.tell(bad).await;
            }
        }
    }
}

/// The variants of a message that are damaged, but leave its frame valid.
fn damaged(good: &Msg, random: &mut Random) -> Vec<Msg> {
    let mut below = |n: usize| random.next() as usize % n.max(1);
    let front = &good.front;
    let with_front = |front: Bytes| Msg { front, ..good.clone() };
    let mut all = Vec::new();
    for _ in 0..12 {
        all.push(with_front(front.slice(..below(front.len()))));
        let mut flipped = BytesMut::from(&front[..]);
        if !flipped.is_empty() {
            flipped[below(front.len())] ^= 1 << below(8);
        }
        all.push(with_front(flipped.freeze()));
    }
    // If these bytes are a length or a count, it becomes very large.
    for at in 0..front.len().saturating_sub(3) {
        let mut claims = BytesMut::from(&front[..]);
        claims[at..at + 4].fill(if at % 3 == 0 { 0x7f } else { 0xff });
        all.push(with_front(claims.freeze()));
    }
    all.push(with_front([&front[..], &front[..]].concat().into()));
    all.push(with_front((0..below(400)).map(|i| i as u8).collect()));
    all.push(Msg { middle: front.clone(), ..good.clone() });
    all.push(Msg { data: Default::default(), data_crc: None, ..good.clone() });
    all.push(Msg {
        data: [Bytes::from(vec![0xff; 70_000])].into_iter().collect(),
        data_crc: None,
        ..good.clone()
    });
    for (version, compat_version) in [(0, 0), (1, 1), (u16::MAX, 1), (u16::MAX, u16::MAX)] {
        let mut msg = good.clone();
        (msg.header.version, msg.header.compat_version) = (version, compat_version);
        all.push(msg);
    }
    for _ in 0..8 {
        let mut msg = good.clone();
        msg.header.kind = below(200) as u16;
        all.push(msg);
    }
    all
}

fn for_the_monitor(fsid: Uuid, junk: PoolId) -> Vec<Msg> {
    let paxos = PaxosHeader::default();
    let osdmap = ("osdmap".to_owned(), Subscription { start: 1, onetime: false });
    let command = r#"{"prefix": "osd pool stats", "pool_name": "junk", "format": "json"}"#;
    let pool = u32::try_from(junk.0).expect("small");
    vec![
        Msg::new(&MMonSubscribe { what: BTreeMap::from([osdmap]), hostname: "host".to_owned() }),
        Msg::new(&MMonCommand { paxos, fsid, cmd: vec![command.to_owned().into()], input: "input".into() }),
        Msg::new(&MMonGetVersion { handle: 1, what: "osdmap".to_owned() }),
        Msg::new(&MStatfs { paxos, fsid, data_pool: Some(junk) }),
        Msg::new(&MGetPoolStats { paxos, fsid, pools: vec!["junk".into()] }),
        Msg::new(&MPoolOp {
            paxos,
            fsid,
            pool,
            op: PoolOpCode::Create,
            snapid: SnapId(0),
            name: "new".into(),
            crush_rule: -1,
        }),
        Msg::new(&MLog { paxos, fsid, entries: Vec::new() }),
        Msg::new(&MAuth { paxos, protocol: 2, payload: Bytes::from_static(&[0; 60]), monmap_epoch: 0 }),
        Msg::new(&MOSDMap { fsid, ..MOSDMap::default() }),
    ]
}

fn request(pool: PoolId, epoch: Epoch, ops: impl IntoIterator<Item = OsdOp>, flags: OsdFlags) -> Msg {
    let ops: Ops = ops.into_iter().collect();
    let mut op = MOSDOp::new(ObjectLocator::in_pool(pool), b"o".to_vec(), ops, flags | OsdFlags::ONDISK);
    op.map_epoch = epoch;
    Msg::new(&op)
}

fn for_the_osd(junk: PoolId, epoch: Epoch) -> Vec<Msg> {
    let all = [
        OsdOp::create(false),
        OsdOp::write(100, Bytes::from_static(b"some data")),
        OsdOp::xattr(OpCode::SETXATTR, b"name", b"value", 0, 0),
        OsdOp::truncate(50),
        OsdOp::zero(10, 10),
    ];
    let reads = [OsdOp::read(0, 0), OsdOp::new(OpCode::STAT), OsdOp::new(OpCode::GETXATTRS)];
    vec![
        request(junk, epoch, all, OsdFlags::WRITE),
        request(junk, epoch, [OsdOp::write_full(Bytes::from(vec![1; 3000]))], OsdFlags::WRITE),
        request(junk, epoch, [OsdOp::call("lock", "get_info", b"input")], OsdFlags::READ),
        request(junk, epoch, reads, OsdFlags::READ),
    ]
}

/// Creates the client's user with few capabilities, and fetches its key.
async fn credentials(victim: &Victim, admin: &Rados) -> Arc<Credentials> {
    let command = format!(
        r#"{{"prefix": "auth get-or-create", "entity": "client.{NAME}",
            "caps": ["mon", "allow r", "osd", "allow rwx pool=junk"]}}"#
    );
    let (keyring, _) = admin.mon_command(&command, Bytes::new()).await.expect("made");
    let path = victim.server.conf().with_file_name("vandal.keyring");
    std::fs::write(&path, keyring).expect("the keyring is written");
    let builder = victim.builder().name(EntityName::client(NAME));
    let conf =
        builder.set("keyring", path.to_str().expect("a path in UTF-8")).load().expect("a configuration");
    Arc::new(Credentials(AuthClient::new(conf.client_config().expect("a key"))))
}

both_versions!(damaged_messages_after_a_good_handshake_end_their_connection_only);
async fn damaged_messages_after_a_good_handshake_end_their_connection_only(speaks: AddrKind) {
    let victim = Victim::start(speaks, Auth::Cephx).await;
    let admin = victim.builder().connect().await.expect("connects");
    let (junk, epoch) = (admin.pool_id("junk").await.expect("the pool"), admin.map_epoch());
    let auth = credentials(&victim, &admin).await;
    let mon_addr = entity(speaks, victim.server.mon_addr());
    let probe = Msg::new(&MStatfs { paxos: PaxosHeader::default(), fsid: admin.fsid(), data_pool: None });
    let mut at_mon = Vandal::connect(&auth, EntityType::MON, mon_addr, probe).await;
    at_mon.tell(Msg::new(&MMonGetVersion { handle: 1, what: "osdmap".to_owned() })).await;
    assert_eq!(at_mon.closed, 0, "what is good is answered");
    let probe = request(junk, epoch, [OsdOp::new(OpCode::STAT)], OsdFlags::READ);
    let osd_addr = osd_addr(&admin, speaks, victim.server.osd_addr()).await;
    let mut at_osd = Vandal::connect(&auth, EntityType::OSD, osd_addr, probe).await;
    at_osd.tell(request(junk, epoch, [OsdOp::create(false)], OsdFlags::WRITE)).await;
    assert_eq!(at_osd.closed, 0, "what is good is answered");

    for (vandal, good) in
        [(&mut at_mon, &for_the_monitor(admin.fsid(), junk)[0]), (&mut at_osd, &for_the_osd(junk, epoch)[0])]
    {
        vandal.tell(Msg { front: good.front.slice(..good.front.len() - 1), ..good.clone() }).await;
        assert_eq!(vandal.closed, 1, "what is cut is refused");
        let kind = format!("misbehaving peer: a message of kind {}: ", good.header.kind);
        let nonce = vandal.messenger.config().nonce;
        let version = if speaks == AddrKind::Legacy { "v1" } else { "v2" };
        victim.logged(&["to client.", &format!(" at {version}:127.0.0.1:0/{nonce} "), &kind]).await;
    }

    let mut resident = 0;
    for seed in [41, 42] {
        resident = resident_bytes();
        at_mon.vandalise(&for_the_monitor(admin.fsid(), junk), seed).await;
        at_osd.vandalise(&for_the_osd(junk, epoch), seed).await;
    }
    let grown = resident_bytes().saturating_sub(resident);
    assert!(grown < 64 << 20, "{grown} bytes more in use");
    assert!(at_mon.closed > 50 && at_osd.closed > 50, "{} and {}", at_mon.closed, at_osd.closed);
    victim.ends_well().await;
}
