//! A relay on loopback that counts what connections to OSDs carry.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use loligo_wire::EntityType;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

#[derive(Default)]
pub(crate) struct Relay {
    carried: AtomicU64,
}

impl Relay {
    pub(crate) fn start() -> Arc<Self> {
        Arc::default()
    }

    /// Where to connect to reach an OSD at `to` through the relay; others are reached directly.
    pub(crate) fn route(self: &Arc<Self>, kind: EntityType, to: SocketAddr) -> SocketAddr {
        if kind != EntityType::OSD {
            return to;
        }
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let addr = listener.local_addr().expect("it is bound");
        listener.set_nonblocking(true).expect("a listener of tokio's");
        let listener = TcpListener::from_std(listener).expect("within a runtime");
        let relay = Arc::clone(self);
        tokio::spawn(async move {
            let (near, _) = listener.accept().await.expect("the client connects");
            let far = TcpStream::connect(to).await.expect("the OSD listens");
            let ((near_in, near_out), (far_in, far_out)) = (near.into_split(), far.into_split());
            tokio::join!(relay.pass(near_in, far_out), relay.pass(far_in, near_out));
        });
        addr
    }

    /// Bytes so far, both ways.
    pub(crate) fn carried(&self) -> u64 {
        self.carried.load(Ordering::Relaxed)
    }

    async fn pass(&self, mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin) {
        let mut buf = vec![0; 64 << 10];
        while let Ok(len @ 1..) = from.read(&mut buf).await {
            self.carried.fetch_add(len as u64, Ordering::Relaxed);
            if to.write_all(&buf[..len]).await.is_err() {
                return;
            }
        }
    }
}
