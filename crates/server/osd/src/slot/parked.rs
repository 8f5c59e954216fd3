//! Requests of connections that must take answers before they get more (`unread`): they are kept here, in
//! order, and each later request of their connection behind them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::turn::Turn;
use super::{Item, Request, Slot};

/// Requests with fewer bytes of data are not counted against what may be read from clients while they are
/// parked.
const SMALL: usize = 64 << 10;

impl Slot {
    /// Told that connections may have room for answers again.
    pub(crate) fn eased(self: &Arc<Self>) {
        self.push(Item::Eased);
    }

    /// Numbers a request as it leaves the lane.
    pub(super) fn arrives(&self, request: &mut Request) {
        // Relaxed: only whoever runs the lane counts.
        let arrival = self.arrived.load(Ordering::Relaxed);
        self.arrived.store(arrival + 1, Ordering::Relaxed);
        request.arrival = arrival;
    }

    /// The request, if it may be executed; it is parked if its connection must take answers first, or has
    /// requests parked.
    #[inline]
    pub(super) fn room_for(self: &Arc<Self>, request: Box<Request>) -> Option<Box<Request>> {
        if !self.helpers.unread.may_be_crowded() && self.parked.load(Ordering::Relaxed) == 0 {
            return Some(request);
        }
        self.park(request)
    }

    #[cold]
    fn park(self: &Arc<Self>, mut request: Box<Request>) -> Option<Box<Request>> {
        let Some(account) = request.asker.account() else { return Some(request) };
        let conn = request.asker.id();
        let mut state = self.state.lock();
        if !state.parked.contains_key(&conn) && !self.helpers.unread.is_over(&account) {
            return Some(request);
        }
        // No more is read from its connection. What others may send must not depend on when that one goes on,
        // and it takes little.
        let is_small = request.context.data_len < SMALL;
        let hold = is_small.then(|| std::mem::take(&mut request.hold.hold));
        state.parked.entry(conn).or_default().push_back(request);
        drop(state);
        drop(hold);
        self.parked.fetch_add(1, Ordering::Relaxed);
        if self.helpers.unread.park(&account, self) {
            // Room was made before anybody knew that it is wanted here.
            let slot = Arc::clone(self);
            self.helpers.hands.give(move || slot.eased());
        }
        None
    }

    /// Executes what is parked, as far as there is room.
    pub(super) fn unpark(self: &Arc<Self>, turn: &mut Turn) {
        let conns: Vec<u64> = self.state.lock().parked.keys().copied().collect();
        for conn in conns {
            while !turn.is_over()
                && let Some(request) = self.next_parked(conn)
            {
                if let Some(request) = self.behind_others(request) {
                    self.execute(request, None, turn);
                }
            }
        }
        if turn.is_over() && self.parked.load(Ordering::Relaxed) > 0 {
            // There is somebody who runs the lane: us.
            let _ = self.lane.requeue(VecDeque::from([Item::Eased]));
        }
    }

    /// The next request of a connection that is parked, if there is room for its answer.
    fn next_parked(self: &Arc<Self>, conn: u64) -> Option<Box<Request>> {
        let unread = &self.helpers.unread;
        loop {
            let mut state = self.state.lock();
            let queue = state.parked.get_mut(&conn)?;
            let account = queue.front().and_then(|request| request.asker.account());
            match account.filter(|account| unread.is_over(account)) {
                Some(account) => {
                    drop(state);
                    // Looked at again if room was made meanwhile.
                    if !unread.park(&account, self) {
                        return None;
                    }
                }
                None => {
                    let request = queue.pop_front();
                    let empty = if queue.is_empty() { state.parked.remove(&conn) } else { None };
                    drop(state);
                    drop(empty);
                    self.parked.fetch_sub(usize::from(request.is_some()), Ordering::Relaxed);
                    return request;
                }
            }
        }
    }
}
