//! Turns: how long one thread executes a placement group's requests, and which thread does.
//!
//! A turn ends by the work done, not only by the number of requests, since the cost of requests differs
//! by a factor of a thousand and more. A request that turns out to be heavy (`exec/limits.rs`) is
//! stopped early and executed from the start by a thread of [`Hands`](crate::hands::Hands), so that
//! threads that read sockets serve other placement groups meanwhile.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use tokio::runtime::Handle;

use loligo_lane::RunEnd;

use super::{Item, Request, Slot};
use crate::exec::{self, Executed};
use crate::history::Track;
use crate::replies::Reply;

/// Requests that one thread executes before it hands over a busy slot: about a millisecond of small
/// operations, so that a connection's reader does not serve others' requests for long.
const REQUESTS_MAX: usize = 512;
/// The same bound as bytes of copying.
const WORK_MAX: u64 = 4 << 20;

/// The requests one thread has executed for a placement group without a pause.
#[derive(Default)]
pub(super) struct Turn {
    /// When the previous request was finished, which is when the next one started.
    pub(super) before: Option<Instant>,
    requests: usize,
    work: u64,
}

impl Turn {
    /// Counts an executed request and its work.
    pub(super) fn did(&mut self, work: u64) {
        self.requests += 1;
        self.work += work;
    }

    pub(super) fn is_over(&self) -> bool {
        self.requests >= REQUESTS_MAX || self.work >= WORK_MAX
    }
}

/// How a turn ended.
enum End {
    /// The queue is empty.
    Idle,
    /// More items are queued.
    Again,
    /// The next item must be executed by a thread of `hands`.
    Heavy,
}

impl Item {
    fn is_heavy(&self) -> bool {
        matches!(self, Self::Again(request, ..) if request.context.budget.is_heavy())
    }

    /// Whether this is a heavy request that can be executed beside the lane.
    fn stands_alone(&self) -> bool {
        let alone = |request: &Request| exec::stands_alone(&request.context, &request.op);
        matches!(self, Self::Again(request, ..) if request.context.budget.is_heavy() && alone(request))
    }
}

impl Slot {
    /// Executes the queued items unless another thread does so already.
    pub(super) fn run(self: &Arc<Self>) {
        self.take_turns(false);
    }

    fn take_turns(self: &Arc<Self>, by_hand: bool) {
        loop {
            let mut turn = Turn::default();
            let end = self.take_turn(by_hand, &mut turn);
            #[cfg(test)]
            self.turns.lock().expect("not poisoned").push((by_hand, turn.work));
            let slot = Arc::clone(self);
            match end {
                End::Idle => return,
                End::Heavy => {
                    Handle::try_current().iter().for_each(|runtime| self.helpers.hands.learn(runtime));
                    self.helpers.hands.give(move || slot.take_turns(true));
                    return;
                }
                End::Again => {
                    let runtime =
                        if by_hand { self.helpers.hands.runtime() } else { Handle::try_current().ok() };
                    if let Some(runtime) = runtime {
                        self.helpers.hands.learn(&runtime);
                        runtime.spawn(async move { slot.run() });
                        return;
                    }
                    // A thread of the store has no runtime; it continues here.
                }
            }
        }
    }

    /// Executes a heavy request concurrently with the other requests of its placement group. Its reply
    /// is sent through the lane, like theirs.
    fn execute_alone(self: &Arc<Self>, item: Item) {
        let Item::Again(mut request, waited, _) = item else { return };
        let mut state = self.state.lock();
        let told = state.waits.end(waited);
        let newest = (state.pg.version, state.pg.user_version);
        drop(state);
        drop(told);
        let Request { context, op, .. } = &mut *request;
        let executed = exec::execute_alone(context, op, &*self.collection, newest, &self.counters);
        let (received, client) = (request.received, request.context.client);
        let track = Track { received, reached: received, executed: None, client };
        let share = request.hold.share.take();
        match (executed, request.place) {
            (Executed::Answer(msg, tells_of, _), Some(place)) => {
                let Request { asker, mut hold, .. } = *request;
                hold.share = self.helpers.unread.count(&asker, share, msg.data_len() as u64, true);
                let reply = Reply { asker, msg, hold, track: Some(track), place };
                self.push(Item::Done(Box::new(reply), tells_of));
            }
            (Executed::Waits, _) => {
                let spent = request.context.budget.spent();
                request.hold.share = self.helpers.unread.count(&request.asker, share, spent, true);
                self.wait(request, track, None);
            }
            _ => {}
        }
    }

    fn take_turn(self: &Arc<Self>, by_hand: bool, turn: &mut Turn) -> End {
        let Some(mut run) = self.lane.begin() else { return End::Idle };
        while let Some(item) = run.pop() {
            if item.stands_alone() {
                let slot = Arc::clone(self);
                self.helpers.hands.give(move || slot.execute_alone(item));
                continue;
            }
            if !by_hand && item.is_heavy() {
                return match run.hand_over(VecDeque::from([item])) {
                    RunEnd::Again => End::Heavy,
                    RunEnd::Idle => End::Idle,
                };
            }
            self.process(item, turn);
            if turn.is_over() {
                return match run.end() {
                    RunEnd::Again => End::Again,
                    RunEnd::Idle => End::Idle,
                };
            }
        }
        End::Idle
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_ends_by_number_or_by_work() {
        let mut turn = Turn::default();
        (1..REQUESTS_MAX).for_each(|_| turn.did(1));
        assert!(!turn.is_over());
        turn.did(1);
        assert!(turn.is_over());
        let mut turn = Turn::default();
        turn.did(WORK_MAX);
        assert!(turn.is_over());
    }
}
