//! The history of requests: the slowest recent ones, and those that wait (`dump_historic_ops`,
//! `dump_ops_in_flight`).
//!
//! Most requests are of no interest, and recording each would cost more than many of them take. A
//! request therefore carries only a few timestamps ([`Track`]). When its reply leaves, its duration is
//! compared with the fastest of the kept requests: two loads and two comparisons. The description of a
//! kept request is read from its reply, which has the object's name and the operations. A slow request
//! is pushed to a lane, so that no request waits for another placement group's. Requests that wait for
//! the disk are recorded unformatted in their placement group's own state ([`Waits`]).

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use loligo_lane::{Action, Lane, RunEnd};
use loligo_lockstat::{Class, Mutex};
use loligo_wire::message::Msg;
use loligo_wire::message::osd::{MOSDOp, MOSDOpReply, OpCode, OsdFlags};
use loligo_wire::{EntityAddr, Epoch, PgId, Tid, UTime};
use smallvec::SmallVec;

use crate::asker::Asker;

/// Number of slowest requests kept (`osd_op_history_size`).
pub const KEPT_MAX: usize = 20;
/// How long they are kept, in seconds (`osd_op_history_duration`).
pub const KEPT_S: u64 = 600;
/// Number of very slow requests kept, the newest ones (`osd_op_history_slow_op_size`).
pub const SLOW_MAX: usize = 20;
/// The minimum duration of a very slow request, in seconds (`osd_op_history_slow_op_threshold`).
pub const SLOW_S: u64 = 10;
/// A request that waits for longer counts as blocked, in seconds (`osd_op_complaint_time`).
pub const BLOCKED_S: u64 = 30;
/// Maximum number of operations named in a request's description.
const DESCRIBED_MAX: usize = 16;
/// Waiting requests of one placement group that one report shows.
pub(crate) const SHOWN_MAX: usize = 256;

/// Held by the thread that runs the lane of slow requests, for one of them, and to copy the kept
/// requests.
static HISTORY: Class = Class::new("osd.history");

/// The queue of slow requests on their way to the kept ones: held to take them out; pushing one takes no
/// lock.
static NOTED: Class = Class::new("osd.history_noted");

/// Maximum number of queued slow requests; further ones are dropped.
const NOTED_MAX: usize = 4096;

/// The timestamps of a request.
#[derive(Clone, Copy)]
pub(crate) struct Track {
    /// When its connection's reader received it.
    pub(crate) received: Instant,
    /// When its placement group began to process it.
    pub(crate) reached: Instant,
    /// When it was executed, if its reply had to wait.
    pub(crate) executed: Option<Instant>,
    /// The client's global id.
    pub(crate) client: u64,
}

/// The report of one request.
#[derive(Clone, Debug)]
pub struct TrackedOp {
    /// The client, the operations and the object.
    pub description: String,
    /// When it arrived.
    pub initiated_at: UTime,
    /// The time since it arrived.
    pub age: Duration,
    /// How long it took, or has taken so far.
    pub duration: Duration,
    /// The point it has reached, as Ceph names it.
    pub flag_point: &'static str,
    /// The client's global id.
    pub client: u64,
    /// The client's address.
    pub client_addr: EntityAddr,
    /// The client's number for the request.
    pub tid: Tid,
    /// The request's events, each with the time since its arrival.
    pub events: Vec<(&'static str, Duration)>,
}

/// The slow requests of an OSD.
pub(crate) struct History {
    /// The origin of `floor_until_ns`.
    began: Instant,
    /// Requests that took less, in nanoseconds, are not kept …
    floor_ns: AtomicU64,
    /// … until this many nanoseconds after `began`, when the oldest of the kept requests expires.
    floor_until_ns: AtomicU64,
    /// Slow requests from all placement groups, to be sorted in.
    noted: Lane<Past>,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    slowest: Vec<Past>,
    slow: VecDeque<Past>,
}

/// The requests of one placement group that wait for a disk read. Descriptions are made only for a
/// report.
#[derive(Default)]
pub(crate) struct Waits {
    ops: BTreeMap<u64, Waiting>,
    next: u64,
}

/// The data recorded about a waiting request.
#[derive(Clone)]
pub(crate) struct Waiting {
    track: Track,
    asker: Arc<dyn Asker>,
    tid: Tid,
    pg: PgId,
    oid: Vec<u8>,
    codes: SmallVec<[OpCode; 4]>,
    flags: OsdFlags,
    epoch: Epoch,
}

/// The parts of a report that are read from a reply.
#[derive(Clone)]
struct Said {
    description: String,
    client_addr: EntityAddr,
    tid: Tid,
}

/// A request that was answered.
#[derive(Clone)]
struct Past {
    track: Track,
    done: Instant,
    said: Said,
}

impl Default for History {
    fn default() -> Self {
        Self {
            began: Instant::now(),
            floor_ns: AtomicU64::new(0),
            floor_until_ns: AtomicU64::new(0),
            noted: Lane::new(&NOTED, NOTED_MAX),
            kept: Mutex::new(&HISTORY, Kept::default()),
        }
    }
}

impl History {
    /// Called just before a reply leaves; keeps the request if it was slow.
    pub(crate) fn done(&self, now: Instant, track: Option<&Track>, asker: &Arc<dyn Asker>, msg: &Msg) {
        let Some(track) = track else { return };
        let took_ns = ns(now.saturating_duration_since(track.received));
        // Relaxed: a stale value keeps one request too many or one too few.
        if took_ns < self.floor_ns.load(Ordering::Relaxed)
            && ns(now.saturating_duration_since(self.began)) < self.floor_until_ns.load(Ordering::Relaxed)
        {
            return;
        }
        self.keep(now, *track, asker, msg);
    }

    #[cold]
    fn keep(&self, done: Instant, track: Track, asker: &Arc<dyn Asker>, msg: &Msg) {
        let Some(said) = said_of_answer(&track, asker, msg) else { return };
        // If another thread runs the lane, it sorts this request in too.
        if let Ok(Action::Submit) = self.noted.push(Past { track, done, said }) {
            while self.noted.run(NOTED_MAX, |past| self.sort_in(past)) == RunEnd::Again {}
        }
    }

    fn sort_in(&self, past: Past) {
        let done = past.done;
        let mut kept = self.kept.lock();
        if past.took() >= Duration::from_secs(SLOW_S) {
            kept.slow.push_back(past.clone());
            if kept.slow.len() > SLOW_MAX {
                kept.slow.pop_front();
            }
        }
        kept.forget_old(done);
        kept.slowest.push(past);
        if kept.slowest.len() > KEPT_MAX {
            let fastest = (0..kept.slowest.len()).min_by_key(|at| kept.slowest[*at].took());
            fastest.map(|at| kept.slowest.swap_remove(at));
        }
        let full = kept.slowest.len() == KEPT_MAX;
        let floor = kept.slowest.iter().map(Past::took).min().filter(|_| full).unwrap_or_default();
        let oldest = kept.slowest.iter().map(|past| past.track.received).min().unwrap_or(done);
        let until = oldest.saturating_duration_since(self.began) + Duration::from_secs(KEPT_S);
        self.floor_ns.store(ns(floor), Ordering::Relaxed);
        self.floor_until_ns.store(ns(until), Ordering::Relaxed);
    }

    /// The slowest requests of the last [`KEPT_S`] seconds, in order of arrival.
    pub(crate) fn slowest(&self) -> Vec<TrackedOp> {
        let now = Instant::now();
        let mut kept = self.kept.lock();
        kept.forget_old(now);
        let mut past = kept.slowest.clone();
        drop(kept);
        past.sort_by_key(|past| past.track.received);
        past.iter().map(|past| past.tell(now)).collect()
    }

    /// The newest requests that took [`SLOW_S`] seconds or more.
    pub(crate) fn slow(&self) -> Vec<TrackedOp> {
        let past = self.kept.lock().slow.clone();
        past.iter().map(|past| past.tell(Instant::now())).collect()
    }
}

impl Waits {
    /// Records a waiting request. Returns a number for [`Waits::end`].
    pub(crate) fn begin(&mut self, track: Track, asker: &Arc<dyn Asker>, op: &MOSDOp, tid: Tid) -> u64 {
        let waiting = Waiting {
            track,
            asker: Arc::clone(asker),
            tid,
            pg: op.spgid.pgid,
            oid: op.oid.clone(),
            codes: op.ops.iter().map(|op| op.code).take(DESCRIBED_MAX).collect(),
            flags: op.flags,
            epoch: op.map_epoch,
        };
        self.next += 1;
        self.ops.insert(self.next, waiting);
        self.next
    }

    /// Removes a request that no longer waits. The caller drops the returned record after releasing its
    /// locks.
    #[must_use]
    pub(crate) fn end(&mut self, number: u64) -> Option<Waiting> {
        self.ops.remove(&number)
    }

    /// The oldest waiting requests, up to the number one report shows.
    pub(crate) fn oldest(&self) -> Vec<Waiting> {
        self.ops.values().take(SHOWN_MAX).cloned().collect()
    }
}

impl Waiting {
    /// Formats the report of a waiting request.
    pub(crate) fn tell(self) -> TrackedOp {
        let Self { track, asker, tid, pg, oid, codes, flags, epoch } = self;
        let description = describe(track.client, tid, pg, &oid, codes.into_iter(), flags, epoch);
        let said = Said { description, client_addr: asker.addr(), tid };
        let now = Instant::now();
        let events = vec![("queued_for_pg", track.received), ("reached_pg", track.reached)];
        tell(&track, &said, now, now, events, "started")
    }
}

/// Formats the report of a reply that waits for the store.
pub(crate) fn waiting_answer(track: &Track, asker: &Arc<dyn Asker>, msg: &Msg) -> Option<TrackedOp> {
    let said = said_of_answer(track, asker, msg)?;
    let now = Instant::now();
    Some(tell(track, &said, now, now, events_of(track), "op_commit"))
}

impl Kept {
    fn forget_old(&mut self, now: Instant) {
        let most = Duration::from_secs(KEPT_S);
        self.slowest.retain(|past| now.saturating_duration_since(past.track.received) < most);
    }
}

impl Past {
    fn took(&self) -> Duration {
        self.done.saturating_duration_since(self.track.received)
    }

    fn tell(&self, now: Instant) -> TrackedOp {
        let mut events = events_of(&self.track);
        let flag_point = if self.track.executed.is_some() {
            events.push(("commit_sent", self.done));
            "commit sent; apply or cleanup"
        } else {
            "started"
        };
        events.push(("done", self.done));
        tell(&self.track, &self.said, now, self.done, events, flag_point)
    }
}

/// The events of every request, by Ceph's names.
fn events_of(track: &Track) -> Vec<(&'static str, Instant)> {
    let mut events = vec![("queued_for_pg", track.received), ("reached_pg", track.reached)];
    events.push(("started", track.reached));
    events.extend(track.executed.map(|executed| ("waiting for commit", executed)));
    events
}

fn tell(
    track: &Track,
    said: &Said,
    now: Instant,
    until: Instant,
    events: Vec<(&'static str, Instant)>,
    flag_point: &'static str,
) -> TrackedOp {
    let since = |moment: Instant| moment.saturating_duration_since(track.received);
    let age = since(now);
    let initiated = UTime::now().to_system().checked_sub(age).map(UTime::from_system);
    let first = [("initiated", Duration::ZERO)];
    TrackedOp {
        description: said.description.clone(),
        initiated_at: initiated.unwrap_or_default(),
        age,
        duration: since(until),
        flag_point,
        client: track.client,
        client_addr: said.client_addr,
        tid: said.tid,
        events: first.into_iter().chain(events.into_iter().map(|(name, at)| (name, since(at)))).collect(),
    }
}

fn said_of_answer(track: &Track, asker: &Arc<dyn Asker>, msg: &Msg) -> Option<Said> {
    let MOSDOpReply { oid, pgid, ops, flags, map_epoch, .. } = msg.open().ok()?;
    let codes = ops.iter().map(|op| op.op.code);
    let description = describe(track.client, msg.header.tid, pgid, &oid, codes, flags, map_epoch);
    Some(Said { description, client_addr: asker.addr(), tid: msg.header.tid })
}

/// Formats as a stock OSD does, except for the parts a reply lacks: the object's hash, namespace and
/// key.
fn describe(
    client: u64,
    tid: Tid,
    pg: PgId,
    oid: &[u8],
    codes: impl Iterator<Item = OpCode>,
    flags: OsdFlags,
    epoch: Epoch,
) -> String {
    let mut text = format!("osd_op(client.{client}.0:{} {pg} {} [", tid.0, oid.escape_ascii());
    for (at, code) in codes.take(DESCRIBED_MAX).enumerate() {
        let _ = write!(text, "{}{code}", if at == 0 { "" } else { "," }); // into a string
    }
    let kind = if flags.contains(OsdFlags::WRITE) { "write" } else { "read" };
    let _ = write!(text, "] ondisk+{kind} e{epoch})");
    text
}

fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use loligo_msgr::Cork;
    use loligo_wire::PoolId;
    use loligo_wire::message::osd::{ObjectLocator, OsdOp};
    use smallvec::smallvec;

    struct Somebody;

    impl Asker for Somebody {
        fn answer(&self, _: Msg) {}

        fn cork(&self) -> Option<Cork<'_>> {
            None
        }
    }

    fn asker() -> Arc<dyn Asker> {
        Arc::new(Somebody)
    }

    fn request(name: &str) -> MOSDOp {
        let op = smallvec![OsdOp::read(0, 0), OsdOp::read(5, 1)];
        MOSDOp::new(ObjectLocator::in_pool(PoolId(1)), name.into(), op, OsdFlags::READ)
    }

    fn answered(history: &History, name: &str, received: Instant, took: Duration) {
        let reply = MOSDOpReply::answer(request(name), 0, Epoch(7));
        let track = Track { received, reached: received, executed: None, client: 5 };
        history.done(received + took, Some(&track), &asker(), &Msg::new(&reply).with_tid(Tid(3)));
    }

    #[test]
    fn the_slowest_are_kept() {
        let (history, start) = (History::default(), Instant::now());
        for n in 0..100u64 {
            answered(
                &history,
                &format!("o{n}"),
                start + Duration::from_micros(n),
                Duration::from_millis(n * 37 % 100),
            );
        }
        let kept = history.slowest();
        assert_eq!(kept.len(), KEPT_MAX);
        assert!(kept.iter().all(|op| op.duration >= Duration::from_millis(80)), "{kept:?}");
        assert!(kept.is_sorted_by_key(|op| std::cmp::Reverse(op.age)));
        assert!(history.slow().is_empty());
        answered(&history, "slow", start, Duration::from_secs(SLOW_S));
        let slow = history.slow();
        assert_eq!(slow[0].description, "osd_op(client.5.0:3 1.0 slow [read,read] ondisk+read e7)");
        let events: Vec<_> = slow[0].events.iter().map(|(name, _)| *name).collect();
        assert_eq!(events, ["initiated", "queued_for_pg", "reached_pg", "started", "done"]);
    }

    #[test]
    fn what_is_old_makes_room_for_what_is_fast() {
        let (history, start) = (History::default(), Instant::now());
        (0..KEPT_MAX).for_each(|_| answered(&history, "slow", start, Duration::from_secs(1)));
        answered(&history, "fast", start, Duration::from_millis(1));
        assert!(history.slowest().iter().all(|op| op.description.contains("slow")));
        answered(&history, "fast", start + Duration::from_secs(KEPT_S), Duration::from_millis(1));
        let kept = history.kept.lock().slowest.clone();
        assert_eq!(kept.len(), 1);
        assert!(kept[0].said.description.contains("fast"));
    }

    #[test]
    fn who_waits_for_the_disk_is_in_flight() {
        let (mut waits, now) = (Waits::default(), Instant::now());
        let track = Track { received: now, reached: now, executed: None, client: 5 };
        let number = waits.begin(track, &asker(), &request("cold"), Tid(9));
        let told: Vec<_> = waits.oldest().into_iter().map(Waiting::tell).collect();
        assert_eq!((told.len(), told[0].tid, told[0].client), (1, Tid(9), 5));
        assert_eq!(told[0].description, "osd_op(client.5.0:9 1.0 cold [read,read] ondisk+read e0)");
        assert!(waits.end(number).is_some());
        assert!(waits.oldest().is_empty() && waits.end(number).is_none());
    }

    #[test]
    fn none_is_lost_that_many_threads_note_at_once() {
        let (history, start) = (History::default(), Instant::now());
        std::thread::scope(|scope| {
            for n in 0..4 {
                let history = &history;
                scope.spawn(move || {
                    let took = |of: u64| Duration::from_secs(if of == 50 { SLOW_S } else { of / 10 });
                    (0..100).for_each(|of| answered(history, &format!("o{n}"), start, took(of)));
                });
            }
        });
        let mut slow: Vec<_> = history.slow().into_iter().map(|op| op.description).collect();
        slow.sort();
        assert_eq!(slow.len(), 4, "{slow:?}");
        assert!(slow.iter().enumerate().all(|(n, said)| said.contains(&format!(" o{n} "))), "{slow:?}");
    }
}
