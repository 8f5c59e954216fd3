//! The I/Os of a stream in flight, in order.

use std::collections::VecDeque;
use std::panic;

use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;

use super::window::{Ticket, Window};

/// Starts I/Os as long as the window has room, and returns their results in the order in which the I/Os
/// were started.
///
/// Each I/O is a task of its own, so it makes progress while the caller is busy. Dropping this abandons
/// all of them.
///
/// Results that were not taken yet count as well, otherwise memory would grow while the first I/O is
/// slow. I/Os in flight and such results together are limited to twice the window.
#[derive(Debug)]
pub(super) struct InFlight<T> {
    window: Window,
    begun: Instant,
    tasks: JoinSet<Ended<T>>,
    slots: VecDeque<Slot<T>>,
    /// The number of the first slot.
    first: u64,
    /// The bytes of all slots.
    held: u64,
}

#[derive(Debug)]
struct Slot<T> {
    bytes: u64,
    ticket: Ticket,
    output: Option<T>,
}

#[derive(Debug)]
struct Ended<T> {
    number: u64,
    at: Instant,
    output: T,
}

impl<T: Send + 'static> InFlight<T> {
    pub(super) fn new(window: Window) -> Self {
        Self {
            window,
            begun: Instant::now(),
            tasks: JoinSet::new(),
            slots: VecDeque::new(),
            first: 0,
            held: 0,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Whether an I/O of `bytes` bytes may be started.
    pub(super) fn has_room(&mut self, bytes: u64) -> bool {
        while let Some(ended) = self.tasks.try_join_next() {
            self.file(ended);
        }
        self.slots.is_empty()
            || (self.window.has_room(bytes) && self.held + bytes <= self.window.size().saturating_mul(2))
    }

    pub(super) fn start(&mut self, bytes: u64, io: impl Future<Output = T> + Send + 'static) {
        let number = self.first + self.slots.len() as u64;
        let ticket = self.window.sent(self.begun.elapsed(), bytes);
        self.held += bytes;
        self.slots.push_back(Slot { bytes, ticket, output: None });
        self.tasks.spawn(async move {
            let output = io.await;
            Ended { number, at: Instant::now(), output }
        });
    }

    /// Waits until one I/O has ended; returns at once if none is in flight. Cancel-safe.
    pub(super) async fn one_ends(&mut self) {
        if let Some(ended) = self.tasks.join_next().await {
            self.file(ended);
        }
    }

    /// The result of the first I/O, if it has ended.
    pub(super) fn take_first(&mut self) -> Option<T> {
        self.slots.front().filter(|slot| slot.output.is_some())?;
        let slot = self.slots.pop_front()?;
        self.first += 1;
        self.held -= slot.bytes;
        slot.output
    }

    /// Abandons all I/Os in flight, and waits until they have stopped.
    pub(super) async fn give_up(&mut self) {
        self.tasks.shutdown().await;
        self.slots.clear();
        self.held = 0;
    }

    pub(super) fn window(&self) -> &Window {
        &self.window
    }

    fn file(&mut self, ended: Result<Ended<T>, JoinError>) {
        let Ended { number, at, output } = ended.unwrap_or_else(|e| match e.try_into_panic() {
            Ok(reason) => panic::resume_unwind(reason),
            Err(e) => panic!("the runtime ended under an I/O: {e}"),
        });
        let slot = usize::try_from(number - self.first).ok().and_then(|index| self.slots.get_mut(index));
        let slot = slot.expect("a slot stays until what it waits for has ended");
        slot.output = Some(output);
        self.window.answered(at.duration_since(self.begun), slot.ticket);
    }
}
