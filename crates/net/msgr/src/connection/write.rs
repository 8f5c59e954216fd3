//! Writing: the work of the out-queue's runner.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use loligo_lockstat::blocking_point;
use loligo_msgr_proto::{OutBuf, ProtoError, Sealer};
use loligo_wire::UTime;

use super::Connection;
use super::out_queue::{Action, Baton, KEPT_MESSAGES, Watcher};
use crate::Error;
use crate::socket::Socket;

/// Slices of one vectored write. Linux accepts 1,024; a batch of 64 messages with 4 KiB of data each
/// needs 129.
const IO_SLICES_MAX: usize = 256;

/// The writing half of one of the connection's sockets.
pub(crate) struct Writer {
    pub(crate) socket: Arc<Socket>,
    pub(crate) sealer: Sealer,
    /// Sealed bytes that are not yet written.
    pub(crate) out: OutBuf,
    /// The newest sequence number assigned on this socket, if lossy.
    pub(crate) out_seq: u64,
    /// The watchers of messages in `out`.
    pub(crate) watched: Watched,
}

/// The watchers of messages that are being written, with their positions in the stream.
#[derive(Default)]
pub(crate) struct Watched {
    /// Bytes that the kernel has accepted.
    written: u64,
    /// In order; each with the value of `written` at which its message has been written completely.
    watchers: VecDeque<(u64, Arc<dyn Watcher>)>,
}

impl Watched {
    /// Registers a sealed message's watcher; the message is out once `unwritten` more bytes are written.
    fn sealed(&mut self, unwritten: usize, watcher: Arc<dyn Watcher>) {
        watcher.left();
        self.watchers.push_back((self.written + unwritten as u64, watcher));
    }

    fn wrote(&mut self, bytes: usize) {
        self.written += bytes as u64;
        while self.watchers.front().is_some_and(|(end, _)| *end <= self.written) {
            if let Some((_, watcher)) = self.watchers.pop_front() {
                watcher.sent();
            }
        }
    }
}

/// The result of a flush.
enum Flush {
    Done,
    /// The socket accepts no more for now.
    Blocked,
    Failed(io::Error),
}

impl Writer {
    /// Writes the sealed bytes, without blocking.
    fn flush(&mut self) -> Flush {
        while !self.out.is_empty() {
            let mut slices = [IoSlice::new(&[]); IO_SLICES_MAX];
            let count = self.out.io_slices(&mut slices);
            blocking_point("socket write");
            match self.socket.try_write_vectored(&slices[..count]) {
                Ok(written) => {
                    self.out.advance(written);
                    self.watched.wrote(written);
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Flush::Blocked,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Flush::Failed(e),
            }
        }
        Flush::Done
    }
}

impl Connection {
    /// Does what the out-queue asks of the caller.
    pub(crate) fn act(&self, action: Action<Writer>) {
        match action {
            Action::Nothing => {}
            Action::Submit(baton) => self.run(baton, 1),
            Action::WakeWriter => self.queue.writer_wake.notify_one(),
            Action::WakeDriver => self.driver_wake.notify_one(),
        }
    }

    /// Like [`Connection::run`], for a baton without a batch.
    pub(crate) fn resume(&self, baton: Box<Baton<Writer>>, budget: u32) {
        match self.queue.next(baton) {
            Action::Submit(baton) => self.run(baton, budget),
            action => self.act(action),
        }
    }

    /// Runs the out-queue, beginning with the batch that the baton carries: writes at most `budget` batches
    /// and leaves the rest to the writer task.
    pub(crate) fn run(&self, mut baton: Box<Baton<Writer>>, mut budget: u32) {
        loop {
            if let Err(e) = self.seal(&mut baton) {
                return self.shut_down_socket(&baton.writer.socket, e.into());
            }
            let flushed = baton.writer.flush();
            self.note_written(&baton.writer);
            match flushed {
                Flush::Done => {}
                Flush::Blocked => return self.hand_over(baton),
                Flush::Failed(e) => return self.shut_down_socket(&baton.writer.socket, e.into()),
            }
            baton = match self.queue.next(baton) {
                Action::Submit(more) => more,
                action => return self.act(action),
            };
            budget -= 1;
            if budget == 0 {
                return self.hand_over(baton);
            }
        }
    }

    fn note_written(&self, writer: &Writer) {
        // Relaxed: the reader of this value compares it seconds apart.
        self.written.store(writer.watched.written, Ordering::Relaxed);
    }

    fn hand_over(&self, baton: Box<Baton<Writer>>) {
        self.act(self.queue.hand_over(baton));
    }

    /// Encodes the baton's batch.
    fn seal(&self, baton: &mut Baton<Writer>) -> Result<(), ProtoError> {
        let Baton { batch, control, writer, .. } = baton;
        let Writer { sealer, out, out_seq, watched, .. } = writer;
        let ack_seq = self.in_seq.load(Ordering::Relaxed);
        let control = std::mem::take(control);
        if control.keepalive {
            sealer.keepalive2(UTime::now(), out)?;
        }
        if let Some(theirs) = control.keepalive_ack {
            sealer.keepalive2_ack(theirs, out)?;
        }
        // In msgr2 a message's header also acknowledges. In version 1 the acknowledgement comes last, as that
        // of stock peers: who has it and loses the socket may rest, although answers in front of it were
        // lost.
        let acks_apart = control.ack && (batch.is_empty() || sealer.acks_apart());
        for item in batch.drain(..) {
            item.unpack(|mut msg, watcher| {
                if !self.is_lossless() {
                    *out_seq += 1;
                    msg.header.seq = *out_seq;
                }
                msg.header.ack_seq = ack_seq;
                let sealed = sealer.message(&msg, out);
                if let Some(watcher) = watcher.filter(|_| sealed.is_ok()) {
                    watched.sealed(out.len(), watcher);
                }
                sealed
            })?;
        }
        if acks_apart {
            sealer.ack(ack_seq, out)?;
        }
        // Releases memory that only a rare backlog needs.
        batch.shrink_to(KEPT_MESSAGES);
        Ok(())
    }

    /// The writer task: writes what senders and readers hand to it. Ends when the connection is closed.
    pub(crate) async fn write_loop(self: Arc<Self>) {
        /// Batches written before other tasks of the thread get their turn.
        const BUDGET: u32 = 4;
        while !self.is_closed() {
            let Some(mut baton) = self.queue.take_handed() else {
                self.queue.writer_wake.notified().await;
                continue;
            };
            if baton.writer.out.is_empty() {
                // Other senders that are about to send run first, so that their messages go along.
                tokio::task::yield_now().await;
            } else if let Err(e) = baton.writer.socket.writable().await {
                self.shut_down_socket(&baton.writer.socket, e.into());
                continue;
            }
            let flushed = baton.writer.flush();
            self.note_written(&baton.writer);
            match flushed {
                Flush::Done if baton.is_loaded() => self.run(baton, BUDGET),
                Flush::Done => self.resume(baton, BUDGET),
                Flush::Blocked => self.hand_over(baton),
                Flush::Failed(e) => self.shut_down_socket(&baton.writer.socket, Error::Io(e)),
            }
        }
    }
}
