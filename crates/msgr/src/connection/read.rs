//! Reading: takes all that the socket has, opens it, and hands it on.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::BytesMut;
use loligo_lockstat::blocking_point;
use loligo_logring::log;
use loligo_msgr_proto::{Frame, Opener};
use loligo_wire::message::Msg;
use socket2::SockRef;
use tokio::io::Interest;
use tokio::net::TcpStream;

use super::Connection;
use super::out_queue::{Action, Control};
use crate::context::Context;
use crate::{Error, Level};

/// Batches of the out-queue that a reader writes after a dispatch before it reads again.
const WRITE_BUDGET: u32 = 4;

/// What one read brought.
#[derive(Default)]
struct Arrivals {
    msgs: Vec<Msg>,
    /// The newest acknowledgement, or 0.
    acked: u64,
    control: Control,
}

impl Connection {
    /// Reads and dispatches until the socket is lost, and returns why.
    pub(crate) async fn read_loop(
        self: &Arc<Self>,
        ctx: &Context,
        socket: &TcpStream,
        mut opener: Opener,
    ) -> Error {
        let mut arrivals = Arrivals::default();
        loop {
            let opened = self.open_frames(ctx, &mut opener, &mut arrivals);
            self.deliver(ctx, &mut arrivals).await;
            if let Err(e) = opened {
                return e;
            }
            if let Err(e) = self.fill(socket, &mut opener).await {
                return e.into();
            }
        }
    }

    /// Opens all whole frames.
    fn open_frames(&self, ctx: &Context, opener: &mut Opener, arrivals: &mut Arrivals) -> Result<(), Error> {
        while let Some(frame) = opener.next()? {
            match frame {
                Frame::Message(msg) => {
                    arrivals.acked = arrivals.acked.max(msg.header.ack_seq);
                    if !self.is_lossless() || self.is_new(ctx, &msg) {
                        arrivals.msgs.push(msg);
                    }
                }
                Frame::Ack { seq } => arrivals.acked = arrivals.acked.max(seq),
                Frame::Keepalive2(theirs) => arrivals.control.keepalive_ack = Some(theirs),
                Frame::Keepalive2Ack(_) => {}
            }
        }
        Ok(())
    }

    /// Whether a message of a lossless session has not come before, on an earlier socket; it counts as received from now
    /// on.
    fn is_new(&self, ctx: &Context, msg: &Msg) -> bool {
        let newest = self.in_seq.load(Ordering::Relaxed);
        let seq = msg.header.seq;
        if seq <= newest {
            return false;
        }
        if seq != newest + 1 {
            ctx.log(Level::Error, format_args!("{self:?}: message {seq} follows message {newest}"));
        }
        self.in_seq.store(seq, Ordering::Relaxed);
        true
    }

    /// Hands on what has arrived. Nobody writes while it is dispatched, so that all replies leave together.
    async fn deliver(self: &Arc<Self>, ctx: &Context, arrivals: &mut Arrivals) {
        self.reads.fetch_add(1, Ordering::Relaxed);
        if self.is_lossless() {
            if arrivals.acked > 0 {
                self.queue.acked(arrivals.acked);
            }
            arrivals.control.ack = !arrivals.msgs.is_empty();
        }
        let control = std::mem::take(&mut arrivals.control);
        if arrivals.msgs.is_empty() {
            if control != Control::default() {
                self.perform(self.queue.request(control));
            }
            return;
        }
        let Some(action) = self.queue.cork(arrivals.msgs.len(), control) else {
            return arrivals.msgs.clear();
        };
        self.perform(action);
        log!(MSGR, 10, "connection {} brings {} messages", self.id, arrivals.msgs.len());
        blocking_point("dispatch");
        ctx.dispatcher.dispatch(self, &mut arrivals.msgs);
        arrivals.msgs.clear();
        if self.queue.is_about_to_fill() {
            // The dispatch has made senders runnable. Let them leave their messages first.
            tokio::task::yield_now().await;
        }
        match self.queue.uncork() {
            Action::Submit(baton) => self.run_loaded(baton, WRITE_BUDGET),
            action => self.perform(action),
        }
    }

    /// Reads the socket once, when there is something and the throttle allows it.
    async fn fill(&self, socket: &TcpStream, opener: &mut Opener) -> io::Result<()> {
        if let Some(throttle) = &self.policy.throttle
            && throttle.is_full()
        {
            tokio::select! {
                () = throttle.wait() => {}
                () = self.interrupted() => return Err(io::ErrorKind::ConnectionAborted.into()),
            }
        }
        // A peer that always has something to say must not keep other tasks from this thread.
        tokio::task::coop::consume_budget().await;
        loop {
            match read_some(socket, opener.spare()) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => return Ok(()),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => socket.readable().await?,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }
}

/// Reads what there is into the buffer's free room; 0 at the end.
///
/// A read that does not fill the room has emptied the socket: then the runtime is told that the socket would block, which
/// saves the read that would find it out.
fn read_some(socket: &TcpStream, buf: &mut BytesMut) -> io::Result<usize> {
    let mut received = 0;
    let result = socket.try_io(Interest::READABLE, || {
        let room = buf.spare_capacity_mut();
        let room_len = room.len();
        received = SockRef::from(socket).recv(room)?;
        // SAFETY: `recv` has initialized that many bytes of the room that follows the buffer's bytes.
        unsafe { buf.set_len(buf.len() + received) };
        if received == 0 || received == room_len { Ok(()) } else { Err(io::ErrorKind::WouldBlock.into()) }
    });
    if received > 0 { Ok(received) } else { result.map(|()| 0) }
}
