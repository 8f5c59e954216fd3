//! What only version 1 of the messenger allows an attacker to try: its handshake authenticates with
//! authorizers that pass in the clear, its sessions are protected by signatures alone, and a monitor accepts
//! connections before it knows the client.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use loligo_msgr::ConnectAuth as _;
use loligo_msgr_proto::{Established, Event, Frame, Limits, Local, OutBuf, v1};
use loligo_rados::Rados;
use loligo_server::{Handle, Level};
use loligo_wire::message::mon::{MAuth, MMonCommand, PaxosHeader};
use loligo_wire::message::osd::{MOSDOp, MOSDOpReply, OsdFlags, OsdOp};
use loligo_wire::message::{Message as _, Msg};
use loligo_wire::{AddrKind, EntityAddr, EntityType, PoolId, Tid, features};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::attacker::{Attacker, Credentials, builder, osd_addr, soon, user};
use crate::versions::server_of;
use crate::wire::request;

/// More than a peer may say before it is authenticated, and than sockets hold.
const FLOOD_BYTES: usize = 32 << 20;

/// Bytes of a banner with one address, and with two.
const INTRODUCTION: usize = 9 + EntityAddr::LEGACY_LEN;
const SERVER_INTRODUCTION: usize = 9 + 2 * EntityAddr::LEGACY_LEN;

/// A server of version 1, its log, and a user whose tickets are there.
struct Stage {
    server: Handle,
    admin: Rados,
    pool: PoolId,
    auth: Arc<Credentials>,
    osd: EntityAddr,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Stage {
    async fn new() -> Self {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&lines);
        let server = server_of(AddrKind::Legacy).pool("p").pg_num(1).log(Arc::new(move |level, line| {
            if level == Level::Error {
                log.lock().expect("not poisoned").push(line.to_string());
            }
        }));
        let server = server.start().expect("the server starts");
        let admin = builder(&server).connect().await.expect("connects");
        let pool = admin.pool_id("p").await.expect("the pool");
        let auth = user(&server, &admin, "a", "allow rw pool=p").await;
        let addr = ("127.0.0.1:0".parse().expect("an address"), 3);
        // Fetches the tickets.
        assert_eq!(Attacker::connect(&server, &admin, &auth, addr, None).await.write(pool).await, 0);
        admin.ioctx("p").await.expect("the pool").remove("o").await.expect("removed");
        let osd = osd_addr(&admin, &server).await;
        Self { server, admin, pool, auth, osd, lines }
    }

    /// A session at the OSD.
    async fn session(&self) -> Session {
        Session::open(self.osd, &self.auth).await.expect("a session")
    }

    /// A request that creates the object `o`.
    fn write(&self) -> MOSDOp {
        let write = OsdOp::write_full(Bytes::from_static(b"content"));
        request(self.pool, self.admin.map_epoch(), write, OsdFlags::WRITE)
    }

    async fn has_object(&self) -> bool {
        let io = self.admin.ioctx("p").await.expect("the pool");
        soon("a read", io.stat("o")).await.is_ok()
    }

    /// Waits for this many errors that contain `text`.
    async fn logged(&self, text: &str, count: usize) {
        let found = || self.lines.lock().expect("not poisoned").iter().filter(|l| l.contains(text)).count();
        soon(text, async {
            while found() < count {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }
}

/// A session whose bytes the attacker sends itself.
struct Session {
    stream: TcpStream,
    end: Established,
    /// All that was sent to open it.
    said: Vec<u8>,
}

impl Session {
    async fn open(addr: EntityAddr, auth: &Arc<Credentials>) -> io::Result<Self> {
        let mut stream = TcpStream::connect(addr.sock.expect("an address")).await?;
        let local = Local { kind: EntityType::CLIENT, peer_addr: addr, limits: Limits::default() };
        let mut handshake =
            v1::Handshake::client(local, EntityType::OSD, Arc::clone(auth).connector(EntityType::OSD));
        let mut said = Vec::new();
        loop {
            while let Some(out) = handshake.poll_transmit() {
                said.extend_from_slice(&out);
                stream.write_all(&out).await?;
            }
            match handshake.poll_event() {
                Some(Event::Introduced { .. }) => {
                    let connect = v1::Connect {
                        addr: EntityAddr::legacy(([127, 0, 0, 1], 0).into()).with_nonce(4711),
                        features: features::SUPPORTED,
                        global_seq: 1,
                        lossy: true,
                        ..v1::Connect::default()
                    };
                    handshake.connect(connect).expect("it is time");
                }
                Some(Event::Established) => break,
                Some(_) => {}
                None => {
                    if stream.read_buf(handshake.spare()).await? == 0 {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                    handshake.receive().map_err(io::Error::other)?;
                }
            }
        }
        let Ok(end) = handshake.into_established() else { panic!("it is not established") };
        Ok(Self { stream, end, said })
    }

    /// Encodes the session's first message.
    fn sealed(&mut self, op: &MOSDOp) -> Vec<u8> {
        let mut msg = Msg::new(op).with_tid(Tid(1));
        msg.header.seq = 1;
        let mut out = OutBuf::new();
        self.end.sealer.message(&msg, &mut out).expect("it can be sealed");
        out.take().to_vec()
    }

    /// Sends bytes and waits for the reply to the request.
    async fn answer_to(mut self, bytes: &[u8]) -> io::Result<i32> {
        self.stream.write_all(bytes).await?;
        loop {
            while let Some(frame) = self.end.opener.next().map_err(io::Error::other)? {
                match frame {
                    Frame::Message(msg) if msg.header.kind == MOSDOpReply::KIND => {
                        return Ok(msg.open::<MOSDOpReply>().expect("a reply").result);
                    }
                    _ => {}
                }
            }
            if self.stream.read_buf(self.end.opener.spare()).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

/// Sends bytes, then the end, and returns what the server has answered until it hangs up.
async fn offer(to: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(to).await.expect("it listens");
    let (mut from, mut to) = stream.split();
    let mut answer = Vec::new();
    let say = async {
        // The server may close the connection before all bytes are sent.
        let _ = to.write_all(bytes).await;
        let _ = to.shutdown().await;
    };
    let _ = soon("the end", async { tokio::join!(say, from.read_to_end(&mut answer)) }).await;
    answer
}

/// The tags of connect replies (`src/include/msgr.h`).
const READY: u8 = 1;
const BAD_AUTHORIZER: u8 = 11;
const SEQ: u8 = 13;
const CHALLENGE: u8 = 16;

/// The tags of the replies in what a server has answered.
fn replies(answer: &[u8]) -> Vec<u8> {
    let mut rest = answer.get(SERVER_INTRODUCTION..).unwrap_or_default();
    let mut tags = Vec::new();
    while let Some(reply) = rest.get(..26) {
        tags.push(reply[0]);
        let len = u32::from_le_bytes(reply[21..25].try_into().expect("four bytes")) as usize;
        rest = rest.get(26 + len..).unwrap_or_default();
    }
    tags
}

/// A connect request.
fn connect_bytes(kind: EntityType, protocol: u32, method: u32, authorizer: &[u8]) -> Vec<u8> {
    let mut bytes = features::SUPPORTED.to_le_bytes().to_vec();
    for field in [kind.0, 1, 0, protocol, method, u32::try_from(authorizer.len()).expect("short")] {
        bytes.extend_from_slice(&field.to_le_bytes());
    }
    bytes.push(1);
    bytes.extend_from_slice(authorizer);
    bytes
}

fn introduction() -> Vec<u8> {
    let mut bytes = b"ceph v027".to_vec();
    bytes.resize(INTRODUCTION, 0);
    bytes
}

/// All that a client sends to a monitor before it authenticates.
pub(crate) fn opening() -> Vec<u8> {
    [introduction(), connect_bytes(EntityType::CLIENT, 15, 0, &[]), vec![0; 8]].concat()
}

#[tokio::test(flavor = "multi_thread")]
async fn recorded_authorizers_open_no_session() {
    let stage = Stage::new().await;
    let mut good = stage.session().await;
    let write = good.sealed(&stage.write());
    let said = good.said.clone();
    let first_len =
        33 + u32::from_le_bytes(said[INTRODUCTION + 28..][..4].try_into().expect("four")) as usize;
    let (first, second) = said[INTRODUCTION..].split_at(first_len);
    let sock = stage.osd.sock.expect("an address");
    let tags = replies(&offer(sock, &[&said[..], &write].concat()).await);
    assert_eq!(tags[..2], [CHALLENGE, BAD_AUTHORIZER], "the answer is to another challenge");
    for parts in [[second, &write[..]], [second, second], [first, first]] {
        let tags = replies(&offer(sock, &[&introduction()[..], parts[0], parts[1]].concat()).await);
        assert!(tags.contains(&CHALLENGE) && !tags.contains(&READY) && !tags.contains(&SEQ), "{tags:?}");
    }
    assert!(!stage.has_object().await, "a recorded session was executed");
    assert_eq!(good.answer_to(&write).await.expect("an answer"), 0, "the message itself is good");
    assert!(stage.has_object().await);
}

/// The last bytes of a message: the signature, and flags with the bit that says that there is one.
const SIGNATURE_AND_FLAGS: usize = 9;
const SIGNED: u8 = 4;

#[tokio::test(flavor = "multi_thread")]
async fn a_signature_that_is_wrong_by_a_bit_ends_the_connection() {
    let stage = Stage::new().await;
    for bit in 0..64 {
        let mut session = stage.session().await;
        let mut bytes = session.sealed(&stage.write());
        let at = bytes.len() - SIGNATURE_AND_FLAGS + bit / 8;
        bytes[at] ^= 1 << (bit % 8);
        soon("the end", session.answer_to(&bytes)).await.expect_err("it is answered");
    }
    let mut session = stage.session().await;
    let mut bytes = session.sealed(&stage.write());
    *bytes.last_mut().expect("flags") &= !SIGNED;
    soon("the end", session.answer_to(&bytes)).await.expect_err("it is not signed, and is answered");
    stage.logged("the signature of message 1 is wrong", 10).await;
    assert!(!stage.has_object().await);
    let mut session = stage.session().await;
    let bytes = session.sealed(&stage.write());
    assert_eq!(soon("an answer", session.answer_to(&bytes)).await.expect("an answer"), 0);
}

/// A message with the longer footer, without a signature.
fn unsigned(msg: &Msg) -> Vec<u8> {
    use loligo_wire::crc::crc32c;
    let mut bytes = vec![1, 0, 0, 0, 0, 0, 0, 0];
    bytes.extend_from_slice(&msg.header.tid.0.to_le_bytes());
    for field in [msg.header.kind, msg.header.priority, msg.header.version] {
        bytes.extend_from_slice(&field.to_le_bytes());
    }
    bytes.extend_from_slice(&u32::try_from(msg.front.len()).expect("short").to_le_bytes());
    bytes.extend_from_slice(&[0; 8 + 2 + 9]);
    bytes.extend_from_slice(&msg.header.compat_version.to_le_bytes());
    bytes.extend_from_slice(&[0; 2]);
    let crc = crc32c(0, &bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
    bytes.extend_from_slice(&msg.front);
    bytes.extend_from_slice(&crc32c(0, &msg.front).to_le_bytes());
    bytes.extend_from_slice(&[0; 16]);
    bytes.push(1);
    [&[7], &bytes[..]].concat()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_that_is_not_authenticated_says_little_and_is_not_served() {
    let stage = Stage::new().await;
    let command = r#"{"prefix": "osd pool create", "pool": "stolen"}"#;
    let command = MMonCommand {
        paxos: PaxosHeader::default(),
        fsid: stage.admin.fsid(),
        cmd: vec![command.into()],
        input: Bytes::new(),
    };
    let wrong = MAuth { protocol: 2, payload: Bytes::from_static(&[7; 40]), ..MAuth::default() };
    let to_mon = opening();
    let (mon, osd) = (stage.server.mon_addr(), stage.server.osd_addr());
    let floods: [(SocketAddr, Vec<u8>, Vec<u8>); 7] = [
        (mon, to_mon.clone(), vec![9]),
        (mon, to_mon.clone(), [14, 0, 0, 0, 0, 0, 0, 0, 0].to_vec()),
        (mon, to_mon.clone(), [8, 0, 0, 0, 0, 0, 0, 0, 0].to_vec()),
        (mon, to_mon.clone(), unsigned(&Msg::new(&command))),
        (mon, to_mon, unsigned(&Msg::new(&wrong))),
        (osd, introduction(), connect_bytes(EntityType::CLIENT, 24, 2, &[7; 1000])),
        // A wrong version of the protocol is told, again and again.
        (osd, introduction(), connect_bytes(EntityType::CLIENT, 23, 0, &[])),
    ];
    for (i, (to, beginning, flood)) in floods.into_iter().enumerate() {
        let mut stream = TcpStream::connect(to).await.expect("it listens");
        stream.write_all(&beginning).await.expect("taken");
        let piece = flood.repeat((64 << 10) / flood.len());
        let mut sent = 0;
        // What is answered is read, so that the server is never kept from reading on.
        let (mut from, mut to) = stream.split();
        let mut answer = Vec::new();
        let say = async {
            while sent < FLOOD_BYTES && to.write_all(&piece).await.is_ok() {
                sent += piece.len();
            }
        };
        let _ = soon("the end", async { tokio::join!(say, from.read_to_end(&mut answer)) }).await;
        assert!(sent < FLOOD_BYTES, "flood {i}: all of it is read");
        stage.logged("the authentication takes more than", i + 1).await;
    }
    stage.admin.pool_id("stolen").await.expect_err("the command was executed");
    assert!(stage.admin.ioctx("p").await.expect("the pool").write_full("o", "x".into()).await.is_ok());
}

/// Monitors connect to each other with authorizers; there is no second one here, and none that anybody may
/// claim to be.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_a_monitor_by_saying_so() {
    let stage = Stage::new().await;
    for (kind, protocol) in [(EntityType::MON, 13), (EntityType::OSD, 15), (EntityType::MDS, 15)] {
        let hello = [introduction(), connect_bytes(kind, protocol, 2, &[1; 36])].concat();
        let answer = offer(stage.server.mon_addr(), &hello).await;
        let tags = replies(&answer);
        let is_open = tags.contains(&READY) || tags.contains(&SEQ);
        assert_eq!(is_open, kind != EntityType::MON, "{kind}: {tags:?}");
    }
}
