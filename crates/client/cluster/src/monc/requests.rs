//! Pending requests to the monitors.

use std::time::Duration;

use loligo_wire::message::mon::MMonGetVersionReply;
use loligo_wire::message::{Message as _, Msg};
use rustc_hash::FxHashMap;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// The pending requests, by number. Every new session with a monitor resends them.
#[derive(Default)]
pub(super) struct Requests {
    newest: u64,
    waiting: FxHashMap<u64, Waiting>,
}

struct Waiting {
    since: Instant,
    question: Msg,
    answer: oneshot::Sender<Msg>,
}

impl Requests {
    /// Assigns a new number and records the message that `ask` builds from it.
    pub(super) fn ask(&mut self, ask: impl FnOnce(u64) -> Msg) -> (u64, Msg, oneshot::Receiver<Msg>) {
        self.newest += 1;
        let number = self.newest;
        let question = ask(number);
        let (answer, answered) = oneshot::channel();
        self.waiting.insert(number, Waiting { since: Instant::now(), question: question.clone(), answer });
        (number, question, answered)
    }

    /// Removes the request that this message replies to, and returns its reply channel.
    pub(super) fn take(&mut self, answer: &Msg) -> Option<oneshot::Sender<Msg>> {
        self.waiting.remove(&number_of(answer)?).map(|waiting| waiting.answer)
    }

    /// Removes a request whose caller stopped waiting.
    pub(super) fn forget(&mut self, number: u64) {
        self.waiting.remove(&number);
    }

    /// Drops all requests, which fails them.
    pub(super) fn clear(&mut self) {
        self.waiting.clear();
    }

    /// Returns the age of each pending request.
    pub(super) fn ages(&self) -> impl Iterator<Item = Duration> {
        self.waiting.values().map(|waiting| waiting.since.elapsed())
    }

    /// Returns all requests in the order of submission.
    pub(super) fn all(&self) -> Vec<Msg> {
        let mut all: Vec<_> = self.waiting.iter().collect();
        all.sort_unstable_by_key(|(number, _)| **number);
        all.into_iter().map(|(_, waiting)| waiting.question.clone()).collect()
    }
}

/// Returns the number of the request that `answer` replies to. It is in the header, except for
/// `MMonGetVersionReply`, which has it in the body.
fn number_of(answer: &Msg) -> Option<u64> {
    if answer.header.kind == MMonGetVersionReply::KIND {
        return answer.open::<MMonGetVersionReply>().ok().map(|reply| reply.handle);
    }
    Some(answer.header.tid.0)
}
