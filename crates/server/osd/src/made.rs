//! Bytes that requests make the server create: repeated patterns, copied objects, omaps cloned for a
//! snapshot.
//!
//! A request of a hundred bytes can create a hundred megabytes, which stay in memory until the store has
//! committed them. The bounds on bytes read from clients do not limit them. So they are counted before
//! they are created, and a request that finds no room waits.
//!
//! The holder of a permit never waits for a larger one, so requests with permits always finish.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use loligo_lockstat::{Class, Mutex};
use loligo_store::{Completer, Fetch, Later};
use loligo_wire::Errno;
use rustc_hash::FxHashMap;

use crate::fetches::Fetches;
use crate::hands::Hands;

/// Held to count one request, or to give back its count.
static MADE: Class = Class::new("osd.made");

/// Requests that create less are not counted.
pub(crate) const COUNTED_FROM: u64 = 64 << 10;
/// Bytes that the requests of one client may have created at a time; a single request may exceed it
/// while it is the client's only one.
const CLIENT_MAX: u64 = 128 << 20;
/// Bytes that all clients' requests may have created at a time; a single request may exceed it while it
/// is the only one.
const ALL_MAX: u64 = 256 << 20;

/// The bytes that requests have created and the store has not committed.
pub(crate) struct Made {
    counts: Mutex<Counts>,
    hands: Arc<Hands>,
}

#[derive(Default)]
struct Counts {
    by_client: FxHashMap<u64, u64>,
    all: u64,
    /// The requests that found no room, in order.
    waiting: VecDeque<Waiting>,
}

struct Waiting {
    client: u64,
    bytes: u64,
    completer: Completer<Arc<Permit>>,
}

/// The bytes one request may create. They are given back when the last reference is dropped, after the
/// reply.
pub(crate) struct Permit {
    made: Arc<Made>,
    client: u64,
    bytes: AtomicU64,
}

impl Made {
    /// Requests that waited continue on the threads of `hands`.
    pub(crate) fn new(hands: Arc<Hands>) -> Arc<Self> {
        Arc::new(Self { counts: Mutex::new(&MADE, Counts::default()), hands })
    }

    /// Permits a request to create this many bytes: now, or when other requests have finished.
    pub(crate) fn permit(self: &Arc<Self>, client: u64, bytes: u64) -> Fetch<Arc<Permit>> {
        let mut counts = self.counts.lock();
        let goes_first = !counts.waiting.iter().any(|other| other.client == client);
        if goes_first && counts.has_room(client, bytes) {
            counts.add(client, bytes);
            drop(counts);
            return Fetch::Now(self.permitted(client, bytes));
        }
        let (later, completer) = Later::new();
        counts.waiting.push_back(Waiting { client, bytes, completer });
        Fetch::Later(later)
    }

    /// Creates the permit for bytes that are already counted.
    fn permitted(self: &Arc<Self>, client: u64, bytes: u64) -> Arc<Permit> {
        Arc::new(Permit { made: Arc::clone(self), client, bytes: AtomicU64::new(bytes) })
    }

    /// The bytes counted now, and the number of waiting requests.
    #[cfg(test)]
    pub(crate) fn counted(&self) -> (u64, usize) {
        let counts = self.counts.lock();
        (counts.all, counts.waiting.len())
    }
}

/// The bytes one request creates.
#[derive(Default)]
pub(crate) struct Making {
    bytes: Cell<u64>,
    permit: RefCell<Option<Arc<Permit>>>,
}

impl Making {
    /// Resets the count; called before each execution.
    pub(crate) fn start(&self) {
        self.bytes.set(0);
        self.permit.take();
    }

    /// Counts bytes that are about to be created. An error means that the request waits for room, or
    /// that the store has stopped.
    pub(crate) fn add(
        &self,
        fetches: &Fetches,
        made: &Arc<Made>,
        client: u64,
        bytes: u64,
    ) -> Result<(), Errno> {
        let all = self.bytes.get() + bytes;
        self.bytes.set(all);
        if all < COUNTED_FROM {
            return Ok(());
        }
        let mut permit = self.permit.borrow_mut();
        match &*permit {
            Some(permit) => permit.grow_to(all),
            // Remembered, so that the permit lasts while the request waits for something else.
            None => *permit = Some(fetches.once(|| made.permit(client, all))?),
        }
        Ok(())
    }

    /// Takes the permit, to be kept until the request is answered.
    pub(crate) fn take(&self) -> Option<Arc<Permit>> {
        self.permit.take()
    }
}

impl Counts {
    fn has_room(&self, client: u64, bytes: u64) -> bool {
        let own = self.by_client.get(&client).copied().unwrap_or(0);
        (own == 0 || own + bytes <= CLIENT_MAX) && (self.all == 0 || self.all + bytes <= ALL_MAX)
    }

    fn add(&mut self, client: u64, bytes: u64) {
        self.all += bytes;
        *self.by_client.entry(client).or_default() += bytes;
    }

    fn give_back(&mut self, client: u64, bytes: u64) {
        self.all -= bytes;
        if let Some(own) = self.by_client.get_mut(&client) {
            *own -= bytes;
            if *own == 0 {
                self.by_client.remove(&client);
            }
        }
    }

    /// Removes the first waiting request that finds room. Requests of a client that is at its own bound
    /// are passed over. A request that waits for the bound of all clients is not passed over: otherwise
    /// many small requests would keep a large one waiting forever.
    fn next(&mut self) -> Option<Waiting> {
        let own_fits = |one: &Waiting| {
            let own = self.by_client.get(&one.client).copied().unwrap_or(0);
            own == 0 || own + one.bytes <= CLIENT_MAX
        };
        let at = self.waiting.iter().position(own_fits)?;
        let one = &self.waiting[at];
        if !self.has_room(one.client, one.bytes) {
            return None;
        }
        let one = self.waiting.remove(at)?;
        self.add(one.client, one.bytes);
        Some(one)
    }
}

impl Permit {
    /// Raises the count to `bytes` in all, if that is more than before.
    pub(crate) fn grow_to(&self, bytes: u64) {
        let before = self.bytes.fetch_max(bytes, Ordering::Relaxed);
        if let Some(more) = bytes.checked_sub(before).filter(|more| *more > 0) {
            self.made.counts.lock().add(self.client, more);
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut admitted = Vec::new();
        let mut counts = self.made.counts.lock();
        counts.give_back(self.client, *self.bytes.get_mut());
        while let Some(one) = counts.next() {
            admitted.push(one);
        }
        drop(counts);
        for Waiting { client, bytes, completer } in admitted {
            let permit = self.made.permitted(client, bytes);
            self.made.hands.give(move || completer.complete(Ok(permit)));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, channel};

    use super::*;

    const HALF: u64 = CLIENT_MAX / 2;

    fn now(fetch: Fetch<Arc<Permit>>) -> Arc<Permit> {
        fetch.now().expect("there is room")
    }

    fn later(fetch: Fetch<Arc<Permit>>) -> Receiver<Arc<Permit>> {
        let Fetch::Later(later) = fetch else { panic!("there is no room") };
        let (tell, told) = channel();
        later.then(move |permit| tell.send(permit.expect("it comes")).expect("the test waits"));
        told
    }

    #[test]
    fn a_client_waits_for_itself_and_all_for_all() {
        let made = Made::new(Arc::default());
        let (one, two) = (now(made.permit(1, HALF)), now(made.permit(1, HALF)));
        let third = later(made.permit(1, 1));
        let fourth = later(made.permit(1, HALF));
        let others = [now(made.permit(2, CLIENT_MAX))];
        let fifth = later(made.permit(3, 1));
        assert_eq!(made.counted(), (ALL_MAX, 3));
        drop(one);
        let third = third.recv().expect("in order");
        fifth.recv().expect("there is room for it, too");
        assert!(fourth.try_recv().is_err(), "there is room for one of them");
        drop(third);
        let fourth = fourth.recv().expect("now it fits");
        drop((two, fourth, others));
        assert_eq!(made.counted(), (0, 0));
        assert!(made.counts.lock().by_client.is_empty());
    }

    #[test]
    fn what_is_too_large_goes_alone_and_grows_without_waiting() {
        let made = Made::new(Arc::default());
        let small = now(made.permit(1, 1));
        let large = later(made.permit(1, ALL_MAX + 1));
        drop(small);
        let large = large.recv().expect("alone");
        large.grow_to(ALL_MAX + 5);
        large.grow_to(3);
        assert_eq!(made.counted(), (ALL_MAX + 5, 0));
        let next = later(made.permit(2, 1));
        drop(large);
        assert_eq!(made.counted(), (1, 0));
        drop(next);
    }
}
