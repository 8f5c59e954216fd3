//! A client's connection: the handshake, TLS if it is asked for, then requests and replies.

mod outbox;
mod transmission;

use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf as _, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::timeout;

use crate::device::{Attached, Registry};
use crate::proto::{Asked, Chosen, Handshake};
use crate::tls::Acceptor;

pub(crate) use transmission::Ended;
use transmission::Transmission;

/// How long a client may take to choose a device.
const CHOOSING_MAX: Duration = Duration::from_secs(60);
/// How long a device may take to look how long it is before its client is told what was known.
const REFRESH_MAX: Duration = Duration::from_secs(5);
/// How long the end of a connection may take.
const CLOSING_MAX: Duration = Duration::from_secs(1);
/// What is read at once of a handshake.
const HANDSHAKE_READ: usize = 4096;

/// Serves one client until it goes.
pub(crate) async fn serve<S: AsyncRead + AsyncWrite + Unpin + Send>(
    stream: S,
    registry: &Registry,
    tls: Option<Arc<Acceptor>>,
) -> Result<(), Ended> {
    let mut handshake = Handshake::new(tls.is_some());
    let mut first = Negotiation::new(stream);
    handshake.greet(&mut first.out);
    match timeout(CHOOSING_MAX, first.run(&mut handshake, registry)).await.map_err(|_| Ended::Late)?? {
        Next::End => Ok(()),
        Next::Transmit(device, chosen) => transmit(first, device, chosen).await,
        Next::Tls => {
            let acceptor = tls.expect("it is asked for only where there is some");
            let secured = timeout(CHOOSING_MAX, acceptor.accept(first.stream)).await;
            let stream = secured.map_err(|_| Ended::Late)?.map_err(Ended::Tls)?;
            handshake.secured();
            let mut second = Negotiation::new(stream);
            match timeout(CHOOSING_MAX, second.run(&mut handshake, registry))
                .await
                .map_err(|_| Ended::Late)??
            {
                Next::Transmit(device, chosen) => transmit(second, device, chosen).await,
                Next::End | Next::Tls => Ok(()),
            }
        }
    }
}

async fn transmit<S: AsyncRead + AsyncWrite + Unpin>(
    negotiated: Negotiation<S>,
    device: Attached,
    chosen: Chosen,
) -> Result<(), Ended> {
    let Negotiation { stream, inbound, .. } = negotiated;
    let mut stream = Transmission::new(stream, device, chosen, inbound).run().await?;
    // A client that has gone already hears nothing of it.
    let _ = timeout(CLOSING_MAX, stream.shutdown()).await;
    Ok(())
}

/// What comes behind a handshake.
enum Next {
    End,
    Tls,
    Transmit(Attached, Chosen),
}

/// A handshake over a stream.
struct Negotiation<S> {
    stream: S,
    inbound: BytesMut,
    out: BytesMut,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Negotiation<S> {
    fn new(stream: S) -> Self {
        Self { stream, inbound: BytesMut::new(), out: BytesMut::new() }
    }

    async fn run(&mut self, handshake: &mut Handshake, registry: &Registry) -> Result<Next, Ended> {
        loop {
            let asked = handshake.next(&mut self.inbound, &mut self.out)?;
            let next = match asked {
                None => {
                    self.send().await?;
                    self.inbound.reserve(HANDSHAKE_READ);
                    if self.stream.read_buf(&mut self.inbound).await? == 0 {
                        return Ok(Next::End);
                    }
                    None
                }
                Some(Asked::End) => Some(Next::End),
                Some(Asked::Tls) => Some(Next::Tls),
                Some(Asked::List) => {
                    let exports = registry.exports();
                    let exports = exports.iter().map(|(name, description)| (&**name, &**description));
                    handshake.list(exports, &mut self.out);
                    None
                }
                Some(Asked::Exists { name }) => {
                    let exists = registry.attach(&name).await.map(drop);
                    handshake.contexts(exists, &mut self.out);
                    None
                }
                Some(Asked::Export { name, .. }) => self.export(&name, handshake, registry).await?,
            };
            // Each answer is sent before the next question is looked at: who asks without listening waits.
            self.send().await?;
            if let Some(next) = next {
                return Ok(next);
            }
        }
    }

    async fn export(
        &mut self,
        name: &str,
        handshake: &mut Handshake,
        registry: &Registry,
    ) -> Result<Option<Next>, Ended> {
        let device = match registry.attach(name).await {
            Ok(device) => device,
            Err(refused) => {
                handshake.export(Err(refused), &mut self.out)?;
                return Ok(None);
            }
        };
        // A failure is one of I/O, which the client sees when it does some.
        let _ = timeout(REFRESH_MAX, device.backend().refresh()).await;
        // The name that the client knows it by, which may be the empty one.
        let export = device.export_as(name);
        let chosen = handshake.export(Ok(&export), &mut self.out)?;
        Ok(chosen.map(|chosen| Next::Transmit(device, chosen)))
    }

    async fn send(&mut self) -> Result<(), Ended> {
        if !self.out.has_remaining() {
            return Ok(());
        }
        self.stream.write_all_buf(&mut self.out).await?;
        self.stream.flush().await?;
        self.out.clear();
        Ok(())
    }
}
