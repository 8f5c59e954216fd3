//! A connection whose client has chosen its device: requests in, replies out.
//!
//! One task does all of it and waits for four events at once: requests, completions of started requests,
//! room in the socket, and the device's removal. The task starts all requests that a read has brought,
//! then sends all available replies in one write. Replies are sent in the order of completion.
//!
//! Bounds: while [`REQUESTS_MAX`] requests or [`BYTES_MAX`] bytes of them are in flight, or
//! [`UNSENT_MAX`] bytes of replies are unsent, the task reads nothing, so a client that does not read
//! its replies waits.

use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::BytesMut;
use futures_util::Stream as _;
use futures_util::stream::FuturesUnordered;
use loligo_msgr::Grant;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite};
use tokio::time::{Sleep, sleep};

use super::outbox::Outbox;
use crate::backend::{Done, Later, Started};
use crate::device::{Attached, Inside};
use crate::pace;
use crate::proto::{Broken, Chosen, Decoder, Encoder, Fault, Io, Order, Request, Sink as _, Style, To};

/// Maximum number of requests of one connection in flight. The kernel's client has 128 by default,
/// qemu's 16, libnbd's as many as its program wants.
const REQUESTS_MAX: usize = 256;
/// Maximum bytes of data of requests in flight; a single request is always admitted.
const BYTES_MAX: usize = 64 << 20;
/// Maximum bytes of replies that wait for the socket before the next request is started.
const UNSENT_MAX: usize = 1 << 20;
/// Bytes per read: doubled while reads are full, so that idle connections use little memory.
const READ_MIN: usize = 16 << 10;
const READ_MAX: usize = 256 << 10;
/// Time that a client is given to disconnect after it was told that its device is being removed.
const GRACE: Duration = Duration::from_secs(1);

/// Why a connection has ended early.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Ended {
    /// The socket failed.
    #[error(transparent)]
    Socket(#[from] io::Error),
    /// The client broke the protocol.
    #[error(transparent)]
    Broken(#[from] Broken),
    /// The client's seat was given to another client, or none was free; or its write made no progress
    /// while other clients waited for memory.
    #[error("there are too many clients")]
    Crowded,
    /// The client took too long to choose a device.
    #[error("nothing was chosen in time")]
    Late,
    /// The TLS handshake failed.
    #[error("TLS: {0}")]
    Tls(io::Error),
}

/// See the module's documentation.
pub(super) struct Transmission<S> {
    stream: S,
    style: Style,
    status: bool,
    decoder: Decoder,
    encoder: Encoder,
    inbound: BytesMut,
    /// Bytes that the next read asks for.
    read_len: usize,
    outbox: Outbox,
    /// Memory charged for the request that has begun to arrive.
    begun: Grant,
    /// Resolves when memory for it may be available again.
    room: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    /// Resolves when other clients have waited for the memory for too long.
    evicted: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    /// Data was written that a TLS session may still hold.
    unflushed: bool,
    pending: FuturesUnordered<Pending>,
    /// Bytes of the requests in `pending`.
    pending_bytes: usize,
    phase: Phase,
    /// The last field, so that it is dropped last: the device's removal closes the back end as soon as
    /// the device is released, and no I/O may be in flight then.
    device: Attached,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Open,
    /// The client has asked to disconnect: requests in flight are still answered.
    Leaving,
    /// The device is being removed, and the client has been told.
    Told,
}

/// An I/O in flight.
struct Pending {
    to: To,
    whole: bool,
    bytes: usize,
    io: Later,
    /// `None` if `io` passes the gate itself.
    _inside: Option<Inside>,
}

impl Future for Pending {
    type Output = (To, bool, usize, Result<Done, Fault>);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let done = ready!(self.io.as_mut().poll(cx));
        Poll::Ready((self.to, self.whole, self.bytes, done))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Transmission<S> {
    /// `inbound` holds the bytes that have already arrived.
    pub(super) fn new(stream: S, device: Attached, chosen: Chosen, inbound: BytesMut, begun: Grant) -> Self {
        Self {
            stream,
            style: chosen.style,
            status: chosen.status,
            decoder: Decoder::new(chosen.style),
            encoder: Encoder::new(chosen.style),
            inbound,
            read_len: READ_MIN,
            begun,
            room: None,
            evicted: None,
            outbox: Outbox::default(),
            unflushed: false,
            pending: FuturesUnordered::new(),
            pending_bytes: 0,
            phase: Phase::Open,
            device,
        }
    }

    /// Runs until the client disconnects or is told to. Returns the stream, to be closed by the caller.
    pub(super) async fn run(mut self) -> Result<S, Ended> {
        let mut going = self.device.going();
        let mut removed = pin!(async move {
            let _ = going.wait_for(|going| *going).await;
        });
        let mut grace: Pin<Box<Option<Sleep>>> = Box::pin(None);
        std::future::poll_fn(|cx| {
            if grace.is_none() && removed.as_mut().poll(cx).is_ready() {
                self.tell();
                grace.set(Some(sleep(GRACE)));
            }
            if let Some(grace) = grace.as_mut().as_pin_mut()
                && grace.poll(cx).is_ready()
            {
                return Poll::Ready(Ok(()));
            }
            self.poll(cx)
        })
        .await?;
        Ok(self.stream)
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Ended>> {
        loop {
            let mut moved = self.take_done(cx);
            moved |= self.take_requests()?;
            moved |= self.write(cx)?;
            if self.phase == Phase::Leaving
                && self.pending.is_empty()
                && self.outbox.is_empty()
                && !self.unflushed
            {
                return Poll::Ready(Ok(()));
            }
            match self.read(cx) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Ok(())),
                Poll::Ready(Ok(_)) => moved = true,
                Poll::Ready(Err(e)) => return Poll::Ready(Err(e)),
                Poll::Pending => {}
            }
            if !moved {
                return Poll::Pending;
            }
        }
    }

    /// Replies to completed requests.
    fn take_done(&mut self, cx: &mut Context<'_>) -> bool {
        let mut moved = false;
        while let Poll::Ready(Some((to, whole, bytes, done))) = Pin::new(&mut self.pending).poll_next(cx) {
            self.pending_bytes -= bytes;
            self.reply(to, whole, done);
            moved = true;
        }
        moved
    }

    /// Starts the requests that have arrived, as far as the bounds allow.
    fn take_requests(&mut self) -> Result<bool, Broken> {
        let mut taken = 0;
        while self.has_room()
            && let Some(request) = self.decoder.next(&mut self.inbound)?
        {
            self.begin(request);
            taken += 1;
        }
        pace::taken(taken);
        Ok(taken > 0)
    }

    fn has_room(&self) -> bool {
        let is_idle = self.pending.is_empty() && self.outbox.is_empty();
        let is_below = self.pending.len() < REQUESTS_MAX
            && self.pending_bytes < BYTES_MAX
            && self.outbox.len() < UNSENT_MAX;
        self.phase != Phase::Leaving && (is_idle || is_below)
    }

    fn begin(&mut self, request: Request) {
        let to = To { cookie: request.cookie, offset: request.offset };
        if self.phase == Phase::Told && !request.is_disconnect() {
            return self.encoder.fault(to, Fault::Shutdown, &mut self.outbox);
        }
        let backend = self.device.backend();
        match request.check(backend.size(), backend.can(), self.style, self.status) {
            Err(fault) => self.encoder.fault(to, fault, &mut self.outbox),
            Ok(Order::Disconnect) => self.phase = Phase::Leaving,
            Ok(Order::Io(io)) => self.start(to, io),
        }
    }

    fn start(&mut self, to: To, io: Io) {
        let gate = &self.device.device().gate;
        if !gate.enter() {
            return self.start_later(to, io);
        }
        if let Io::Read { offset, len, .. } = io {
            let mark = self.outbox.tail().len();
            self.encoder.data_head(to, len, &mut self.outbox);
            if self.device.backend().read_now(offset, len, self.outbox.tail()) {
                return gate.leave();
            }
            self.outbox.tail().truncate(mark);
        }
        let (whole, bytes) = (is_whole(&io), weight(&io));
        match self.device.backend().start(io) {
            Started::Now(done) => {
                gate.leave();
                self.reply(to, whole, done);
            }
            Started::Later(io) => {
                let inside = Some(self.device.device().inside());
                self.keep(Pending { to, whole, bytes, io, _inside: inside });
            }
        }
    }

    /// Starts a request that arrived while the device was suspended or being resized, once the gate is
    /// open again.
    fn start_later(&mut self, to: To, io: Io) {
        let (whole, bytes) = (is_whole(&io), weight(&io));
        let device = std::sync::Arc::clone(self.device.device());
        let later = Box::pin(async move {
            device.gate.wait().await;
            let _inside = device.inside();
            match device.start_again(io) {
                Started::Now(done) => done,
                Started::Later(io) => io.await,
            }
        });
        self.keep(Pending { to, whole, bytes, io: later, _inside: None });
    }

    fn keep(&mut self, pending: Pending) {
        self.pending_bytes += pending.bytes;
        self.pending.push(pending);
    }

    fn reply(&mut self, to: To, whole: bool, done: Result<Done, Fault>) {
        let out = &mut self.outbox;
        match done {
            Ok(Done::Nothing) => self.encoder.done(to, out),
            Ok(Done::Data(pieces)) => self.encoder.data(to, pieces, whole, out),
            Ok(Done::Extents(extents)) if !extents.is_empty() => self.encoder.extents(to, &extents, out),
            Ok(Done::Extents(_)) => self.encoder.fault(to, Fault::Io, out),
            Err(fault) => self.encoder.fault(to, fault, out),
        }
    }

    /// Writes or flushes once; returns `true` if that made progress.
    fn write(&mut self, cx: &mut Context<'_>) -> io::Result<bool> {
        if !self.outbox.is_empty() {
            let Poll::Ready(written) = self.outbox.poll_write(cx, &mut self.stream) else { return Ok(false) };
            self.unflushed = true;
            return written.map(|()| true);
        }
        if self.unflushed
            && let Poll::Ready(flushed) = Pin::new(&mut self.stream).poll_flush(cx)
        {
            self.unflushed = false;
            return flushed.map(|()| true);
        }
        Ok(false)
    }

    /// Reads once. Memory for an announced payload is reserved as the payload arrives, not in advance.
    fn read(&mut self, cx: &mut Context<'_>) -> Poll<Result<usize, Ended>> {
        if !self.has_room() {
            return Poll::Pending;
        }
        let lacks = self.decoder.lacks(&self.inbound);
        let announced = lacks.min(self.inbound.len());
        let wanted = self.read_len.max(announced);
        ready!(self.charge(cx, wanted, lacks))?;
        if self.inbound.is_empty() && self.inbound.capacity() > 2 * READ_MAX {
            // Frees the memory of a long request; memory for the longest read is kept.
            self.inbound = BytesMut::new();
        }
        self.inbound.reserve(wanted);
        let read = ready!(pin!(self.stream.read_buf(&mut self.inbound)).poll(cx));
        if let Ok(n) = read {
            self.read_len = if n >= self.read_len { (2 * n).min(READ_MAX) } else { self.read_len };
            self.begun.heard();
        }
        Poll::Ready(read.map_err(Ended::from))
    }

    /// Charges the bytes that the next read adds to a long request. Pending until the memory is granted.
    fn charge(&mut self, cx: &mut Context<'_>, wanted: usize, lacks: usize) -> Poll<Result<(), Ended>> {
        let bytes = self.inbound.len() + wanted;
        if bytes <= 2 * READ_MAX {
            self.begun.release();
            (self.room, self.evicted) = (None, None);
            return Poll::Ready(Ok(()));
        }
        let mut has_room = self.begun.grow(bytes, self.inbound.len() + lacks);
        while !has_room {
            let begun = &mut self.begun;
            let room = self.room.get_or_insert_with(|| {
                begun.has_more();
                Box::pin(begun.wait())
            });
            if room.as_mut().poll(cx).is_pending() {
                break;
            }
            self.room = None;
            has_room = self.begun.grow(bytes, self.inbound.len() + lacks);
        }
        let evicted = self.evicted.get_or_insert_with(|| Box::pin(self.begun.evicted()));
        if evicted.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Err(Ended::Crowded));
        }
        if has_room { Poll::Ready(Ok(())) } else { Poll::Pending }
    }

    /// Tells the client that the device is being removed: each request in flight is answered with that
    /// error and dropped.
    fn tell(&mut self) {
        for pending in std::mem::take(&mut self.pending) {
            self.encoder.fault(pending.to, Fault::Shutdown, &mut self.outbox);
        }
        self.pending_bytes = 0;
        if self.phase == Phase::Open {
            self.phase = Phase::Told;
        }
    }
}

/// Bytes that a request occupies until it is answered.
fn weight(io: &Io) -> usize {
    match io {
        Io::Read { len, .. } => *len as usize,
        Io::Write { data, .. } => data.len(),
        _ => 0,
    }
}

fn is_whole(io: &Io) -> bool {
    matches!(io, Io::Read { whole: true, .. })
}
