//! Reading: reads what the socket has, opens the frames and delivers the messages.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use loligo_lockstat::blocking_point;
use loligo_logring::log;
use loligo_msgr_proto::{Frame, Opener};
use loligo_wire::AddrKind;
use loligo_wire::message::Msg;

use super::Connection;
use super::out_queue::{Action, Control};
use crate::admission::Grant;
use crate::context::Context;
use crate::socket::Socket;
use crate::{Error, Level};

/// Batches that a reader writes after a dispatch before it reads again.
const WRITE_BUDGET: u32 = 4;

/// Bytes of an incomplete frame that a connection may hold without charging the budget.
const FREE_BYTES: usize = 256 << 10;

fn interruption() -> Error {
    io::Error::from(io::ErrorKind::ConnectionAborted).into()
}

/// The result of one read.
#[derive(Default)]
struct Arrivals {
    msgs: Vec<Msg>,
    /// The newest acknowledgement, or 0.
    acked: u64,
    /// Whether messages are acknowledged: in lossless sessions, and always in version 1, in which peers may
    /// keep what they have sent until then.
    acks: bool,
    control: Control,
}

impl Connection {
    /// Reads and dispatches until the socket is lost; returns the reason.
    pub(crate) async fn read_loop(
        self: &Arc<Self>,
        ctx: &Context,
        socket: &Socket,
        mut opener: Opener,
    ) -> Error {
        let is_v1 = self.peer().addr.kind == AddrKind::Legacy;
        let mut arrivals = Arrivals { acks: self.is_lossless() || is_v1, ..Arrivals::default() };
        opener.allow(FREE_BYTES);
        let mut grant = ctx.config.admission.begun.grant();
        loop {
            let opened = self.open_frames(ctx, &mut opener, &mut arrivals);
            if !arrivals.msgs.is_empty() {
                // The incomplete message has been completed.
                grant.release();
            }
            self.deliver(ctx, &mut arrivals).await;
            if let Err(e) = opened {
                return e;
            }
            if let Err(e) = self.until_taken(ctx).await {
                return e;
            }
            let next = match opener.packed_len() {
                Some(needs) => self.unpack(&mut opener, &mut grant, needs).await,
                None => self.fill(socket, &mut opener, &mut grant).await,
            };
            if let Err(e) = next {
                return e;
            }
        }
    }

    /// Opens all complete frames; compressed ones only as far as there is memory for their decompressed
    /// form.
    fn open_frames(&self, ctx: &Context, opener: &mut Opener, arrivals: &mut Arrivals) -> Result<(), Error> {
        while let Some(frame) = opener.next()? {
            match frame {
                Frame::Message(msg) => {
                    arrivals.acked = arrivals.acked.max(msg.header.ack_seq);
                    if self.is_lossless() && !self.is_new(ctx, &msg) {
                        continue;
                    }
                    if arrivals.acks {
                        self.in_seq.store(msg.header.seq, Ordering::Relaxed);
                    }
                    arrivals.msgs.push(msg);
                }
                Frame::Ack { seq } => arrivals.acked = arrivals.acked.max(seq),
                Frame::Keepalive2(theirs) => arrivals.control.keepalive_ack = Some(theirs),
                Frame::Keepalive2Ack(_) => {}
                Frame::Close => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
            }
        }
        Ok(())
    }

    /// Whether a message of a lossless session is new, and not a repetition of one received on an
    /// earlier socket.
    fn is_new(&self, ctx: &Context, msg: &Msg) -> bool {
        let newest = self.in_seq.load(Ordering::Relaxed);
        let seq = msg.header.seq;
        if seq <= newest {
            return false;
        }
        if seq != newest + 1 {
            ctx.log(Level::Error, format_args!("{self:?}: message {seq} follows message {newest}"));
        }
        true
    }

    /// Delivers what has arrived. The queue is corked during the dispatch, so that replies leave together.
    async fn deliver(self: &Arc<Self>, ctx: &Context, arrivals: &mut Arrivals) {
        self.reads.fetch_add(1, Ordering::Relaxed);
        if self.is_lossless() && arrivals.acked > 0 {
            self.queue.acked(arrivals.acked);
        }
        arrivals.control.ack = arrivals.acks && !arrivals.msgs.is_empty();
        let control = std::mem::take(&mut arrivals.control);
        if arrivals.msgs.is_empty() {
            if control != Control::default() {
                self.act(self.queue.request(control));
            }
            return;
        }
        let Some(action) = self.queue.cork(arrivals.msgs.len(), control) else {
            return arrivals.msgs.clear();
        };
        self.act(action);
        log!(MSGR, 10, "connection {} brings {} messages", self.id, arrivals.msgs.len());
        blocking_point("dispatch");
        ctx.dispatcher.dispatch(self, &mut arrivals.msgs);
        arrivals.msgs.clear();
        if self.queue.is_about_to_fill() {
            // The dispatch has made senders runnable: they queue their messages first.
            tokio::task::yield_now().await;
        }
        match self.queue.uncork() {
            Action::Submit(baton) => self.run(baton, WRITE_BUDGET),
            action => self.act(action),
        }
    }

    /// Waits until the peer has read enough of its replies that it may send more requests.
    async fn until_taken(self: &Arc<Self>, ctx: &Context) -> Result<(), Error> {
        if !self.serves_lossy_peer() {
            return Ok(());
        }
        if let Some(room) = ctx.dispatcher.room(self) {
            tokio::select! {
                biased;
                () = room => {}
                () = self.socket_ended() => return Err(interruption()),
            }
        }
        let mut written = self.written();
        while self.queue.is_long() {
            tokio::select! {
                biased;
                () = self.queue.shorter.notified() => {}
                () = self.socket_ended() => return Err(interruption()),
                () = tokio::time::sleep(ctx.config.limits.unread_timeout) => {
                    let now = self.written();
                    if now == written {
                        return Err(Error::Unread);
                    }
                    written = now;
                }
            }
        }
        Ok(())
    }

    /// Waits while the throttle is full, and lets other tasks run.
    async fn throttled(&self) -> Result<(), Error> {
        if let Some(throttle) = &self.policy.throttle
            && throttle.is_full()
        {
            tokio::select! {
                biased;
                () = throttle.wait() => {}
                () = self.socket_ended() => return Err(interruption()),
            }
        }
        // A peer that sends continuously must not keep other tasks from this thread.
        tokio::task::coop::consume_budget().await;
        Ok(())
    }

    /// Charges the next step of decompressing a completely received message before the step is done. A
    /// step of at most `FREE_BYTES` is free; a larger one is charged to the budget. The messages opened
    /// before it have been delivered and count against the throttle instead.
    async fn unpack(
        &self,
        opener: &mut Opener,
        grant: &mut Grant,
        (next, whole): (usize, usize),
    ) -> Result<(), Error> {
        self.throttled().await?;
        if next <= FREE_BYTES {
            grant.release();
            opener.allow(FREE_BYTES);
            return Ok(());
        }
        while !grant.grow(next, whole) {
            // The peer has sent the whole message: it is not to blame that others wait.
            grant.has_more();
            tokio::select! {
                biased;
                () = self.socket_ended() => return Err(interruption()),
                () = grant.evicted() => return Err(Error::Unfinished),
                () = grant.wait() => {}
            }
        }
        opener.allow(next);
        // A step takes about a millisecond.
        tokio::task::yield_now().await;
        Ok(())
    }

    /// Reads the socket once, when it is readable and the throttle allows it.
    async fn fill(&self, socket: &Socket, opener: &mut Opener, grant: &mut Grant) -> Result<(), Error> {
        self.throttled().await?;
        opener.allow(FREE_BYTES);
        let Some((begun, whole)) = opener.begun_len().filter(|(begun, _)| *begun > FREE_BYTES) else {
            grant.release();
            return match socket.read_buf(opener.spare()).await? {
                0 => Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                _ => Ok(()),
            };
        };
        let mut has_more = false;
        while !grant.grow(begun, whole) {
            tokio::select! {
                biased;
                () = self.socket_ended() => return Err(interruption()),
                () = grant.evicted() => return Err(Error::Unfinished),
                readable = socket.readable(), if !has_more => {
                    readable?;
                    has_more = true;
                    grant.has_more();
                }
                () = grant.wait() => {}
            }
        }
        tokio::select! {
            biased;
            read = socket.read_buf(opener.spare()) => match read? {
                0 => Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                _ => {
                    grant.heard();
                    Ok(())
                }
            },
            () = grant.evicted() => Err(Error::Unfinished),
        }
    }
}
