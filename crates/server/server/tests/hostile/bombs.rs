//! Compressed messages that become very much longer than what travelled.

use std::sync::Arc;

use bytes::Bytes;
use loligo_cephx::handshake::ClientAuth;
use loligo_msgr::ConnectAuth as _;
use loligo_msgr_proto::{
    ClientIdent, Established, Event, FLAG_LOSSY, Frame, Handshake, Limits, Local, OutBuf,
};
use loligo_server::{Compression, Method, Server};
use loligo_wire::message::osd::{MOSDOp, MOSDOpReply, ObjectLocator, OsdFlags, OsdOp};
use loligo_wire::message::{Message as _, Msg};
use loligo_wire::{EntityAddr, EntityType, Epoch, PoolId, Tid};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::attacker::{Attacker, builder, osd_addr, soon, user};
use crate::counting::Peak;

/// What each becomes, and how many come with one write of the socket.
const LEN: usize = 64 << 20;
const COUNT: usize = 40;
/// The server may have one of them on its way for each connection, its decoder's copy, and what waits for its
/// turn.
const MEMORY_MAX: usize = 1 << 30;

/// A session of which the attacker has the wire in its hands.
struct Wire {
    stream: TcpStream,
    end: Established,
}

impl Wire {
    async fn open(addr: EntityAddr, auth: Box<dyn ClientAuth>, method: Method) -> Self {
        let sock = addr.sock.expect("an address");
        let mut stream = TcpStream::connect(sock).await.expect("it accepts");
        let local = Local { kind: EntityType::CLIENT, peer_addr: addr, limits: Limits::default() };
        let wanted = Compression { methods: vec![method], frame_len_min: 1, secure: false };
        let mut handshake = Handshake::client(local, auth).compressing(wanted);
        loop {
            while let Some(out) = handshake.poll_transmit() {
                stream.write_all(&out).await.expect("it listens");
            }
            match handshake.poll_event() {
                Some(Event::Authenticated { .. }) => {
                    handshake.identify(ident(addr)).expect("it is time");
                }
                Some(Event::Established) => break,
                Some(_) => {}
                None => {
                    assert_ne!(stream.read_buf(handshake.spare()).await.expect("it answers"), 0);
                    handshake.receive().expect("it speaks the protocol");
                }
            }
        }
        let Ok(end) = handshake.into_established() else { panic!("it is not established") };
        Self { stream, end }
    }

    fn sealed(&mut self, op: &MOSDOp, tid: u64) -> Bytes {
        let mut out = OutBuf::new();
        self.end.sealer.message(&Msg::new(op).with_tid(Tid(tid)), &mut out).expect("it can be sealed");
        out.take()
    }

    /// Waits for the answer to the request of that number.
    async fn answer(&mut self, tid: u64) -> i32 {
        loop {
            while let Some(frame) = self.end.opener.next().expect("it speaks the protocol") {
                match frame {
                    Frame::Message(msg)
                        if msg.header.kind == MOSDOpReply::KIND && msg.header.tid == Tid(tid) =>
                    {
                        return msg.open::<MOSDOpReply>().expect("a reply").result;
                    }
                    _ => {}
                }
            }
            assert_ne!(self.stream.read_buf(self.end.opener.spare()).await.expect("it answers"), 0);
        }
    }
}

fn ident(target_addr: EntityAddr) -> ClientIdent {
    ClientIdent {
        addrs: EntityAddr::msgr2(([127, 0, 0, 1], 0).into()).with_nonce(4711).into(),
        target_addr,
        global_seq: 1,
        supported_features: loligo_wire::features::SUPPORTED,
        flags: FLAG_LOSSY,
        ..ClientIdent::default()
    }
}

fn request(pool: PoolId, epoch: Epoch, op: OsdOp, flags: OsdFlags) -> MOSDOp {
    let mut op = MOSDOp::new(ObjectLocator::in_pool(pool), b"o".to_vec(), [op].into_iter().collect(), flags);
    op.map_epoch = epoch;
    op.hash = loligo_maps::ObjectHash::RJENKINS.of(b"", b"o");
    op
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_compressed_takes_no_memory_that_is_not_charged() {
    let methods = Method::ALL.to_vec();
    let server = Server::memory()
        .pool("p")
        .pg_num(1)
        .compression(Compression { methods, frame_len_min: 1, secure: false })
        .start()
        .expect("the server starts");
    let admin = builder(&server).connect().await.expect("connects");
    let pool = admin.pool_id("p").await.expect("the pool");
    let auth = user(&server, &admin, "bomber", "allow rw pool=p").await;
    let addr = ("127.0.0.1:0".parse().expect("an address"), 3);
    // Fetches the tickets.
    let mut first = Attacker::connect(&server, &admin, &auth, addr, None).await;
    assert_eq!(first.write(pool).await, 0);
    let osd = osd_addr(&admin, &server).await;
    let zeros = Bytes::from(vec![0; LEN]);
    let honest = admin.ioctx("p").await.expect("the pool");
    // Snappy and LZ4 shorten less: what they become has come as 3 MiB and 256 KiB.
    for method in [Method::Zstd, Method::Zlib, Method::Lz4] {
        let mut wire = Wire::open(osd, Arc::clone(&auth).connector(EntityType::OSD), method).await;
        // Beyond what an object may be: it is refused when it has come.
        let write = OsdOp::write(u64::MAX / 2, zeros.clone());
        let bomb = wire.sealed(&request(pool, admin.map_epoch(), write, OsdFlags::WRITE), 1);
        assert!(bomb.len() < LEN / 200, "{method:?}: {} bytes", bomb.len());
        let mut all = bomb.repeat(COUNT);
        let probe = request(pool, admin.map_epoch(), OsdOp::read(0, 1), OsdFlags::READ);
        all.extend_from_slice(&wire.sealed(&probe, 2));
        let peak = Peak::from_now();
        soon("the attack", wire.stream.write_all(&all)).await.expect("it takes it");
        soon("a write", honest.write_full("honest", "x".into())).await.expect("written");
        assert_eq!(soon("the last answer", wire.answer(2)).await, 0);
        let bytes = peak.bytes();
        assert!(bytes < MEMORY_MAX, "{method:?}: {COUNT} messages took {} MiB", bytes >> 20);
        println!("{method:?}: {} bytes that become {} took {bytes}", all.len(), COUNT * LEN);
    }
    assert_eq!(honest.read("honest", 0, 0).await.expect("read"), "x");
}
