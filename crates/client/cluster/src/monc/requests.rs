//! Questions to the monitors that wait for their answers.

use std::time::Duration;

use loligo_wire::message::mon::MMonGetVersionReply;
use loligo_wire::message::{Message as _, Msg};
use rustc_hash::FxHashMap;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// The questions, by number. They are asked again on every new session with a monitor.
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
    /// Notes the question that `ask` makes of a new number.
    pub(super) fn ask(&mut self, ask: impl FnOnce(u64) -> Msg) -> (u64, Msg, oneshot::Receiver<Msg>) {
        self.newest += 1;
        let number = self.newest;
        let question = ask(number);
        let (answer, answered) = oneshot::channel();
        self.waiting.insert(number, Waiting { since: Instant::now(), question: question.clone(), answer });
        (number, question, answered)
    }

    /// Who waits for this message.
    pub(super) fn take(&mut self, answer: &Msg) -> Option<oneshot::Sender<Msg>> {
        self.waiting.remove(&number_of(answer)?).map(|waiting| waiting.answer)
    }

    /// Nobody waits for the answer any more.
    pub(super) fn forget(&mut self, number: u64) {
        self.waiting.remove(&number);
    }

    /// Everybody's wait is in vain.
    pub(super) fn clear(&mut self) {
        self.waiting.clear();
    }

    /// How long each has waited.
    pub(super) fn ages(&self) -> impl Iterator<Item = Duration> {
        self.waiting.values().map(|waiting| waiting.since.elapsed())
    }

    /// All questions, in the order in which they were asked.
    pub(super) fn all(&self) -> Vec<Msg> {
        let mut all: Vec<_> = self.waiting.iter().collect();
        all.sort_unstable_by_key(|(number, _)| **number);
        all.into_iter().map(|(_, waiting)| waiting.question.clone()).collect()
    }
}

/// An answer bears its question's number in the header; only that to a question for a version bears it in the
/// body.
fn number_of(answer: &Msg) -> Option<u64> {
    if answer.header.kind == MMonGetVersionReply::KIND {
        return answer.open::<MMonGetVersionReply>().ok().map(|reply| reply.handle);
    }
    Some(answer.header.tid.0)
}
