//! Recording the moments of a traced operation.

use std::sync::Arc;

use loligo_msgr::Watcher;
use loligo_wire::message::osd::OsdReply;

use super::op::Op;
use crate::Error;
use crate::trace::{Ended, Sender};

/// An attempt in a connection's queue.
struct Leaving {
    op: Arc<Op>,
    attempt: usize,
}

/// Returns a watcher for the last packed attempt, if the operation is traced.
pub(super) fn watcher(op: &Arc<Op>) -> Option<Arc<dyn Watcher>> {
    let attempt = op.marks.as_ref()?.last()?;
    Some(Arc::new(Leaving { op: Arc::clone(op), attempt }))
}

impl Watcher for Leaving {
    fn left(&self) {
        if let Some(marks) = &self.op.marks {
            marks.left(self.attempt);
        }
    }

    fn sent(&self) {
        if let Some(marks) = &self.op.marks {
            marks.sent(self.attempt);
        }
    }
}

/// A traced operation whose caller waits.
pub(super) struct Following<'a> {
    sender: &'a Sender,
    op: Arc<Op>,
    ended: Ended,
    received: u64,
}

impl<'a> Following<'a> {
    /// Records the operation's end when it is dropped.
    pub(super) fn new(sender: &'a Sender, op: &Arc<Op>) -> Self {
        Self { sender, op: Arc::clone(op), ended: Ended::Dropped, received: 0 }
    }

    /// Sets the outcome that the caller received.
    pub(super) fn end(mut self, outcome: &Result<OsdReply, Error>) {
        self.ended = match outcome {
            Ok(reply) => {
                self.received = reply.outs.iter().map(|out| out.data.len() as u64).sum();
                Ended::Answered(reply.result)
            }
            Err(e) => Ended::Failed(e.to_string()),
        };
    }
}

impl Drop for Following<'_> {
    fn drop(&mut self) {
        let Some(marks) = &self.op.marks else { return };
        let ended = std::mem::replace(&mut self.ended, Ended::Dropped);
        self.sender.ended(self.op.tid, &self.op.request, marks, ended, self.received);
    }
}
