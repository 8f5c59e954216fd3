//! A client that can claim any identity and send any message.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use loligo_cephx::client::AuthClient;
use loligo_cephx::handshake::ClientAuth;
use loligo_msgr::{Config, ConnectAuth, Connection, Dispatcher, Messenger, Policy};
use loligo_rados::{Builder, Rados};
use loligo_server::Handle;
use loligo_wire::message::mon::{
    MMonCommand, MMonCommandAck, MMonGetVersion, MMonGetVersionReply, PaxosHeader,
};
use loligo_wire::message::osd::{MOSDOp, MOSDOpReply, MWatchNotify, ObjectLocator, OsdFlags, OsdOp};
use loligo_wire::message::{Message as _, Msg};
use loligo_wire::{AddrKind, EntityAddr, EntityName, EntityType, Epoch, PoolId, Tid, Uuid};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::addresses::{self, entity};

/// The timeout of all waits.
const LONG: Duration = Duration::from_secs(60);

/// Waits for `work`, with a timeout.
pub(crate) async fn soon<T>(what: &str, work: impl Future<Output = T>) -> T {
    tokio::time::timeout(LONG, work).await.unwrap_or_else(|_| panic!("{what}: nothing after {LONG:?}"))
}

/// Access to a server's addresses and files.
pub(crate) trait Doors {
    fn conf(&self) -> &Path;
    fn mon_addr(&self) -> SocketAddr;
    fn osd_addr(&self) -> SocketAddr;

    /// The version of the messenger that is spoken at these addresses.
    fn speaks(&self) -> AddrKind {
        AddrKind::Msgr2
    }
}

impl Doors for Handle {
    fn conf(&self) -> &Path {
        self.conf()
    }

    fn mon_addr(&self) -> SocketAddr {
        self.mon_addr()
    }

    fn osd_addr(&self) -> SocketAddr {
        self.osd_addr()
    }

    fn speaks(&self) -> AddrKind {
        self.daemons()[0].addrs.0[0].kind
    }
}

/// An honest client of a server.
pub(crate) fn builder(server: &impl Doors) -> Builder {
    Builder::new().conf_file(server.conf().to_str().expect("a path in UTF-8"))
}

/// Runs a command, and returns its output.
pub(crate) async fn command(admin: &Rados, command: serde_json::Value) -> Bytes {
    soon("a command", admin.mon_command(&command.to_string(), Bytes::new())).await.expect("it is allowed").0
}

/// Creates a user with these capabilities, and returns its credentials.
pub(crate) async fn user(server: &impl Doors, admin: &Rados, name: &str, osd_caps: &str) -> Arc<Credentials> {
    user_with(server, admin, name, &["mon", "allow r", "osd", osd_caps]).await
}

/// Like `user`, with any capabilities.
pub(crate) async fn user_with(
    server: &impl Doors,
    admin: &Rados,
    name: &str,
    caps: &[&str],
) -> Arc<Credentials> {
    let entity = format!("client.{name}");
    let made = serde_json::json!({"prefix": "auth get-or-create", "entity": entity, "caps": caps});
    let path = server.conf().with_file_name(format!("{name}.keyring"));
    std::fs::write(&path, command(admin, made).await).expect("the keyring is written");
    let builder = builder(server).name(EntityName::client(name));
    let conf = builder.set("keyring", path.to_str().expect("a path in UTF-8")).load();
    let config = conf.expect("a configuration").client_config().expect("a key");
    Arc::new(Credentials(AuthClient::new(config)))
}

pub(crate) struct Credentials(Arc<AuthClient>);

impl ConnectAuth for Credentials {
    fn connector(&self, peer: EntityType) -> Box<dyn ClientAuth> {
        match peer {
            EntityType::MON => self.0.mon_auth(),
            service => self.0.service_auth(service, self.0.global_id()),
        }
    }
}

struct Ears(UnboundedSender<Msg>);

impl Dispatcher for Ears {
    fn dispatch(&self, _: &Arc<Connection>, msgs: &mut Vec<Msg>) {
        for msg in msgs.drain(..) {
            let _ = self.0.send(msg);
        }
    }
}

/// A client with a session at the monitor only.
pub(crate) struct Caller {
    _messenger: Arc<Messenger>,
    mon: Arc<Connection>,
    heard: UnboundedReceiver<Msg>,
    fsid: Uuid,
}

impl Caller {
    pub(crate) fn connect(server: &impl Doors, admin: &Rados, auth: &Arc<Credentials>) -> Self {
        let (messenger, heard) = messenger();
        let mon_addr = entity(server.speaks(), server.mon_addr());
        let mon = messenger.connect(EntityType::MON, mon_addr, Policy::lossy_client(), auth.clone());
        Self { _messenger: messenger, mon, heard, fsid: admin.fsid() }
    }

    /// Runs a command, and returns its result.
    pub(crate) async fn command(&mut self, command: &serde_json::Value) -> i32 {
        let cmd = vec![Bytes::from(command.to_string())];
        let command =
            MMonCommand { paxos: PaxosHeader::default(), fsid: self.fsid, cmd, input: Bytes::new() };
        self.mon.send(Msg::new(&command)).expect("queued");
        loop {
            let msg = soon("the monitor", self.heard.recv()).await.expect("the messenger lives");
            if msg.header.kind == MMonCommandAck::KIND {
                return msg.open::<MMonCommandAck>().expect("an answer").result;
            }
        }
    }
}

fn messenger() -> (Arc<Messenger>, UnboundedReceiver<Msg>) {
    let (ears, heard) = unbounded_channel();
    let mut config = Config::new(EntityType::CLIENT);
    config.log = Arc::new(|_, _| {});
    (Messenger::new(config, Arc::new(Ears(ears))), heard)
}

/// A client with a session at the OSD.
pub(crate) struct Attacker {
    _messenger: Arc<Messenger>,
    osd: Arc<Connection>,
    heard: UnboundedReceiver<Msg>,
    epoch: Epoch,
    tid: u64,
    /// The number of messages about watches and notifications received so far.
    pub(crate) told: usize,
}

impl Attacker {
    /// Connects, and claims the address and, if given, the global id.
    pub(crate) async fn connect(
        server: &impl Doors,
        admin: &Rados,
        auth: &Arc<Credentials>,
        addr: (SocketAddr, u32),
        global_id: Option<u64>,
    ) -> Self {
        Self::connect_by(server, admin, auth, addr, global_id, Policy::lossy_client()).await
    }

    /// Like `connect`, with a given policy towards the OSD.
    pub(crate) async fn connect_by(
        server: &impl Doors,
        admin: &Rados,
        auth: &Arc<Credentials>,
        addr: (SocketAddr, u32),
        global_id: Option<u64>,
        policy: Policy,
    ) -> Self {
        let (messenger, mut heard) = messenger();
        messenger.set_addrs(entity(server.speaks(), addr.0).with_nonce(addr.1).into());
        messenger.set_num(global_id.map_or(-1, u64::cast_signed));
        let mon_addr = entity(server.speaks(), server.mon_addr());
        let mon = messenger.connect(EntityType::MON, mon_addr, Policy::lossy_client(), auth.clone());
        // When the monitor replies, the tickets are available.
        mon.send(Msg::new(&MMonGetVersion { handle: 1, what: "osdmap".to_owned() })).expect("queued");
        let answer = soon("the monitor", heard.recv()).await.expect("the messenger lives");
        assert_eq!(answer.header.kind, MMonGetVersionReply::KIND);
        let osd_addr = osd_addr(admin, server).await;
        let osd = messenger.connect(EntityType::OSD, osd_addr, policy, auth.clone());
        Self { _messenger: messenger, osd, heard, epoch: admin.map_epoch(), tid: 0, told: 0 }
    }

    /// Runs operations on an object. Returns the result.
    pub(crate) async fn run<const N: usize>(
        &mut self,
        pool: PoolId,
        object: &str,
        ops: [OsdOp; N],
        flags: OsdFlags,
    ) -> i32 {
        self.send(pool, object, ops, flags);
        loop {
            let (tid, result) = self.answer().await;
            if tid == Tid(self.tid) {
                return result;
            }
        }
    }

    /// Sends operations on an object, and does not wait.
    pub(crate) fn send<const N: usize>(
        &mut self,
        pool: PoolId,
        object: &str,
        ops: [OsdOp; N],
        flags: OsdFlags,
    ) {
        self.tid += 1;
        let ops = ops.into_iter().collect();
        let flags = flags | OsdFlags::ONDISK;
        let mut op = MOSDOp::new(ObjectLocator::in_pool(pool), object.as_bytes().to_vec(), ops, flags);
        op.map_epoch = self.epoch;
        op.hash = loligo_maps::ObjectHash::RJENKINS.of(b"", object.as_bytes());
        self.osd.send(Msg::new(&op).with_tid(Tid(self.tid))).expect("queued");
    }

    /// Waits for the next reply. Returns the request's number and result.
    pub(crate) async fn answer(&mut self) -> (Tid, i32) {
        loop {
            let msg = self.next().await;
            if msg.header.kind == MOSDOpReply::KIND {
                return (msg.header.tid, msg.open::<MOSDOpReply>().expect("a reply").result);
            }
        }
    }

    /// Waits until this many messages about watches and notifications have been received in all.
    pub(crate) async fn until_told(&mut self, messages: usize) {
        while self.told < messages {
            self.next().await;
        }
    }

    async fn next(&mut self) -> Msg {
        let msg = soon("a message", self.heard.recv()).await.expect("the messenger lives");
        self.told += usize::from(msg.header.kind == MWatchNotify::KIND);
        msg
    }

    pub(crate) async fn write(&mut self, pool: PoolId) -> i32 {
        self.run(pool, "o", [OsdOp::write_full(Bytes::from_static(b"x"))], OsdFlags::WRITE).await
    }
}

/// The address of the OSD in the osdmap.
pub(crate) async fn osd_addr(admin: &Rados, server: &impl Doors) -> EntityAddr {
    soon("a dump", addresses::osd_addr(admin, server.speaks(), server.osd_addr())).await
}
