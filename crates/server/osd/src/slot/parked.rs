//! Requests of connections that must read replies before they get more (`asker/unread.rs`). They are
//! parked here in order; each later request of the same connection is parked behind them.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use super::turn::Turn;
use super::{Item, Request, Slot};
use crate::group::Group;

/// Parked requests with fewer bytes of data do not count against the bound on bytes read from clients.
const SMALL: usize = 64 << 10;

impl Slot {
    fn as_group(self: &Arc<Self>) -> Weak<dyn Group> {
        let me: Weak<Self> = Arc::downgrade(self);
        me
    }

    /// Assigns the request's sequence number as it leaves the lane.
    pub(super) fn arrives(&self, request: &mut Request) {
        // Relaxed: only the thread that runs the lane counts.
        let arrival = self.arrived.load(Ordering::Relaxed);
        self.arrived.store(arrival + 1, Ordering::Relaxed);
        request.arrival = arrival;
    }

    /// Returns the request if it may be executed. Parks it if its connection must first read replies or
    /// already has parked requests.
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
        // Nothing more is read from this connection while it is over its bound. A small parked request
        // gives back its share of the read bound, so that other clients do not depend on when this
        // connection continues; the memory it keeps is small.
        let is_small = request.context.data_len < SMALL;
        let hold = is_small.then(|| std::mem::take(&mut request.hold.hold));
        state.parked.entry(conn).or_default().push_back(request);
        drop(state);
        drop(hold);
        self.parked.fetch_add(1, Ordering::Relaxed);
        if self.helpers.unread.park(&account, self.as_group()) {
            // Room was made before this group was registered as waiting for it.
            let slot = Arc::clone(self);
            self.helpers.hands.give(move || slot.eased());
        }
        None
    }

    /// Executes parked requests while there is room for their replies.
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
            // This thread runs the lane, so the returned action needs no handling.
            let _ = self.lane.requeue(VecDeque::from([Item::Eased]));
        }
    }

    /// Pops the next parked request of a connection if there is room for its reply.
    fn next_parked(self: &Arc<Self>, conn: u64) -> Option<Box<Request>> {
        let unread = &self.helpers.unread;
        loop {
            let mut state = self.state.lock();
            let queue = state.parked.get_mut(&conn)?;
            let account = queue.front().and_then(|request| request.asker.account());
            match account.filter(|account| unread.is_over(account)) {
                Some(account) => {
                    drop(state);
                    // Room was made meanwhile: check again.
                    if !unread.park(&account, self.as_group()) {
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
