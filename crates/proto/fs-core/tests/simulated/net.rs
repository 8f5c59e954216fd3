//! Simulated time, and the network: late, but in order between two ends.

use std::collections::BTreeMap;

use fastrand::Rng;
use loligo_fs_core::session::{Outgoing, SessionEvent};

use crate::message::{Access, Answer, Ask, Event, File, Life, Refused};

/// One end of a link: when its last message arrives, and until when nothing arrives.
#[derive(Clone, Copy, Default)]
struct Way {
    last: u64,
    stalled_until: u64,
}

pub(crate) struct Net {
    pub(crate) now: u64,
    pub(crate) random: Rng,
    queue: BTreeMap<(u64, u64), Event>,
    count: u64,
    send_to_server: BTreeMap<usize, Way>,
    send_to_client: BTreeMap<usize, Way>,
    pub(crate) trace: Option<Vec<String>>,
}

impl Net {
    pub(crate) fn new(seed: u64, traced: bool) -> Self {
        Self {
            now: 0,
            random: Rng::with_seed(seed),
            queue: BTreeMap::new(),
            count: 0,
            send_to_server: BTreeMap::new(),
            send_to_client: BTreeMap::new(),
            trace: traced.then(Vec::new),
        }
    }

    pub(crate) fn after(&mut self, ms: u64, event: Event) {
        self.count += 1;
        self.queue.insert((self.now + ms, self.count), event);
    }

    pub(crate) fn next(&mut self) -> Option<Event> {
        let ((at, _), event) = self.queue.pop_first()?;
        self.now = at;
        let is_tick = matches!(
            event,
            Event::ClientTick(_)
                | Event::ServerTick
                | Event::Begin
                | Event::ToServer(_, _, Ask::Session(Outgoing::RequestRenew { .. }))
                | Event::ToClient(_, _, Answer::Session(SessionEvent::Renewed { .. }))
        );
        if let Some(trace) = self.trace.as_mut().filter(|_| !is_tick) {
            trace.push(format!("{at}: {event:?}"));
        }
        Some(event)
    }

    pub(crate) fn send_to_server(&mut self, life: Life, epoch: u64, ask: Ask) {
        let delay = self.random.u64(1..40);
        let way = self.send_to_server.entry(life.client).or_default();
        let at = way.arrival(self.now + delay);
        self.after(at - self.now, Event::ToServer(life, epoch, ask));
    }

    pub(crate) fn send_to_client(&mut self, life: Life, epoch: u64, answer: Answer) {
        let delay = self.random.u64(1..40);
        let way = self.send_to_client.entry(life.client).or_default();
        let at = way.arrival(self.now + delay);
        self.after(at - self.now, Event::ToClient(life, epoch, answer));
    }

    /// Requests of one client to the store overtake each other.
    pub(crate) fn send_to_store(&mut self, life: Life, file: File, access: Access) {
        let delay =
            if self.random.u8(0..20) == 0 { self.random.u64(0..100_000) } else { self.random.u64(1..30) };
        self.after(delay, Event::ToStore(life, file, access));
    }

    pub(crate) fn send_from_store(
        &mut self,
        life: Life,
        file: File,
        access: Access,
        result: Result<u64, Refused>,
    ) {
        let delay = self.random.u64(1..30);
        self.after(delay, Event::FromStore(life, file, access, result));
    }

    /// Nothing arrives for a time, in one direction.
    pub(crate) fn stall(&mut self, client: usize, ms: u64) {
        let ways = if self.random.bool() { &mut self.send_to_server } else { &mut self.send_to_client };
        ways.entry(client).or_default().stalled_until = self.now + ms;
    }

    pub(crate) fn note(&mut self, text: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace.push(text());
        }
    }
}

impl Way {
    fn arrival(&mut self, at: u64) -> u64 {
        self.last = self.last.max(at).max(self.stalled_until);
        self.last
    }
}
