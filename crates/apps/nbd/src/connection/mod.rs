//! A client's connection: the handshake, TLS if the client asks for it, then requests and replies.
// Numbers from peers must not be truncated or change sign silently. Intended conversions are written
// explicitly (crate `az`).
#![cfg_attr(
    not(test),
    warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss)
)]

mod outbox;
mod transmission;

use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf as _, BytesMut};
use loligo_msgr::{Budget, Seat};
use s2n_tls_tokio::TlsStream;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::access::Identity;
use crate::device::{Attached, Registry};
use crate::proto::{Asked, Chosen, Handshake};
use crate::tls::Acceptor;

pub(crate) use transmission::Ended;
use transmission::Transmission;

/// Time limit for a client to choose a device, including TLS.
const CHOOSING_MAX: Duration = Duration::from_secs(60);
/// Time limit for a device to query its size; after it the client is told the last known size.
const REFRESH_MAX: Duration = Duration::from_secs(5);
/// Time limit for closing a connection.
const CLOSING_MAX: Duration = Duration::from_secs(1);
/// Bytes per read during the handshake.
const HANDSHAKE_READ: usize = 4096;

/// State shared by all connections.
pub(crate) struct House {
    pub(crate) registry: Arc<Registry>,
    pub(crate) tls: Option<Arc<Acceptor>>,
    /// One permit per client that has chosen a device.
    pub(crate) places: Arc<Semaphore>,
    /// Memory for writes that have begun to arrive.
    pub(crate) begun: Arc<Budget>,
}

/// Serves one client until it disconnects. Until the client has chosen a device, its seat may be given
/// to another client.
pub(crate) async fn serve<S: AsyncRead + AsyncWrite + Unpin + Send>(
    stream: S,
    house: &House,
    seat: Seat,
) -> Result<(), Ended> {
    let choosing = timeout(CHOOSING_MAX, choose(stream, house));
    let chosen = tokio::select! {
        biased;
        chosen = choosing => chosen.map_err(|_| Ended::Late)??,
        () = seat.evicted() => return Err(Ended::Crowded),
    };
    let Some(chosen) = chosen else { return Ok(()) };
    let _place = house.places.try_acquire().map_err(|_| Ended::Crowded)?;
    drop(seat);
    match chosen {
        Channel::Plain(first, device, chosen) => transmit(first, device, chosen, house).await,
        Channel::Tls(second, device, chosen) => transmit(*second, device, chosen, house).await,
    }
}

/// A client that has chosen a device, and its stream.
enum Channel<S: AsyncRead + AsyncWrite + Unpin> {
    Plain(Negotiation<S>, Attached, Chosen),
    Tls(Box<Negotiation<TlsStream<S>>>, Attached, Chosen),
}

async fn choose<S: AsyncRead + AsyncWrite + Unpin + Send>(
    stream: S,
    house: &House,
) -> Result<Option<Channel<S>>, Ended> {
    let mut handshake = Handshake::new(house.tls.is_some());
    let mut first = Negotiation::new(stream, None);
    handshake.greet(&mut first.out);
    match first.run(&mut handshake, &house.registry).await? {
        Next::End => Ok(None),
        Next::Transmit(device, chosen) => Ok(Some(Channel::Plain(first, device, chosen))),
        Next::Tls => {
            let acceptor = house.tls.as_ref().expect("it is asked for only where there is some");
            let (stream, client) = acceptor.accept(first.stream).await.map_err(Ended::Tls)?;
            handshake.secured();
            let mut second = Box::new(Negotiation::new(stream, client));
            match second.run(&mut handshake, &house.registry).await? {
                Next::Transmit(device, chosen) => Ok(Some(Channel::Tls(second, device, chosen))),
                Next::End | Next::Tls => Ok(None),
            }
        }
    }
}

async fn transmit<S: AsyncRead + AsyncWrite + Unpin>(
    negotiated: Negotiation<S>,
    device: Attached,
    chosen: Chosen,
    house: &House,
) -> Result<(), Ended> {
    let Negotiation { stream, inbound, .. } = negotiated;
    let begun = house.begun.grant();
    let mut stream = Transmission::new(stream, device, chosen, inbound, begun).run().await?;
    // The client may already have disconnected.
    let _ = timeout(CLOSING_MAX, stream.shutdown()).await;
    Ok(())
}

/// The step after a handshake.
enum Next {
    End,
    Tls,
    Transmit(Attached, Chosen),
}

/// A handshake over a stream.
struct Negotiation<S> {
    stream: S,
    /// The client's identity as proved by TLS.
    client: Option<Identity>,
    inbound: BytesMut,
    out: BytesMut,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Negotiation<S> {
    fn new(stream: S, client: Option<Identity>) -> Self {
        Self { stream, client, inbound: BytesMut::new(), out: BytesMut::new() }
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
                    let exports = registry.exports(self.client.as_ref());
                    let exports = exports.iter().map(|(name, description)| (&**name, &**description));
                    handshake.list(exports, &mut self.out);
                    None
                }
                Some(Asked::Exists { name }) => {
                    let exists = registry.attach_as(self.client.as_ref(), &name).await.map(drop);
                    handshake.contexts(exists, &mut self.out);
                    None
                }
                Some(Asked::Export { name, .. }) => self.export(&name, handshake, registry).await?,
            };
            // Each answer is sent before the next option is read, so that a client that does not read
            // its answers is not served further.
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
        let device = match registry.attach_as(self.client.as_ref(), name).await {
            Ok(device) => device,
            Err(refused) => {
                handshake.export(Err(refused), &mut self.out)?;
                return Ok(None);
            }
        };
        // A failure is an I/O error, which the client sees when it does I/O.
        let _ = timeout(REFRESH_MAX, device.backend().refresh()).await;
        // The name that the client asked for, which may be the empty one.
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
