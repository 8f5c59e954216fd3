//! A session whose frames the attacker builds itself.

use std::io;

use bytes::Bytes;
use loligo_cephx::handshake::ClientAuth;
use loligo_msgr_proto::{
    ClientIdent, Established, Event, FLAG_LOSSY, Frame, Handshake, Limits, Local, OutBuf,
};
use loligo_server::Compression;
use loligo_wire::message::osd::{MOSDOp, MOSDOpReply, ObjectLocator, OsdFlags, OsdOp};
use loligo_wire::message::{Message as _, Msg};
use loligo_wire::{EntityAddr, EntityType, Epoch, PoolId, Tid};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

pub(crate) struct Wire {
    pub(crate) stream: TcpStream,
    end: Established,
}

impl Wire {
    /// Authenticates at a daemon.
    ///
    /// # Errors
    /// If the daemon closes the connection.
    pub(crate) async fn open(
        addr: EntityAddr,
        auth: Box<dyn ClientAuth>,
        wanted: Compression,
    ) -> io::Result<Self> {
        let sock = addr.sock.ok_or(io::ErrorKind::AddrNotAvailable)?;
        let mut stream = TcpStream::connect(sock).await?;
        let local = Local { kind: EntityType::CLIENT, peer_addr: addr, limits: Limits::default() };
        let mut handshake = Handshake::client(local, auth).compressing(wanted);
        loop {
            while let Some(out) = handshake.poll_transmit() {
                stream.write_all(&out).await?;
            }
            match handshake.poll_event() {
                Some(Event::Authenticated { .. }) => {
                    handshake.identify(ident(addr)).expect("it is time");
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
        Ok(Self { stream, end })
    }

    /// Encodes a request as a frame.
    pub(crate) fn sealed(&mut self, op: &MOSDOp, tid: u64) -> Bytes {
        let mut out = OutBuf::new();
        self.end.sealer.message(&Msg::new(op).with_tid(Tid(tid)), &mut out).expect("it can be sealed");
        out.take()
    }

    /// Waits for the reply to the request with this number.
    ///
    /// # Errors
    /// If the daemon closes the connection.
    pub(crate) async fn answer(&mut self, tid: u64) -> io::Result<i32> {
        loop {
            while let Some(frame) = self.end.opener.next().expect("it speaks the protocol") {
                match frame {
                    Frame::Message(msg)
                        if msg.header.kind == MOSDOpReply::KIND && msg.header.tid == Tid(tid) =>
                    {
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

/// A request to the object `o`.
pub(crate) fn request(pool: PoolId, epoch: Epoch, op: OsdOp, flags: OsdFlags) -> MOSDOp {
    let mut op = MOSDOp::new(ObjectLocator::in_pool(pool), b"o".to_vec(), [op].into_iter().collect(), flags);
    op.map_epoch = epoch;
    op.hash = loligo_maps::ObjectHash::RJENKINS.of(b"", b"o");
    op
}
