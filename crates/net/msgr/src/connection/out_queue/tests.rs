//! Goal: no message is lost, duplicated, reordered or written by two threads at once, whatever senders,
//! runners, socket losses and revocations do. Method: single steps by hand, random steps against a model
//! of the peer, and threads.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use bytes::Bytes;
use loligo_wire::Tid;
use loligo_wire::message::Header;
use proptest::prelude::*;

use super::*;

type Queue = OutQueue<()>;

fn msg(tid: u64) -> Msg {
    let header = Header { tid: Tid(tid), ..Header::default() };
    Msg { header, front: Bytes::from(vec![0; 10]), ..Msg::default() }
}

fn plain(tid: u64) -> Item {
    Item::Plain(msg(tid))
}

fn open_queue(lossless: bool) -> Queue {
    let queue = Queue::new(lossless, 100, 10_000);
    let baton = queue.open((), None).expect("not closed");
    assert!(next(&queue, baton).is_none(), "nothing waits");
    queue
}

/// Writes the batch; returns its tids and sequence numbers.
fn write(baton: &mut Baton<()>) -> Vec<(u64, u64)> {
    baton.control = Control::default();
    baton.batch.drain(..).filter_map(Item::into_msg).map(|m| (m.header.tid.0, m.header.seq)).collect()
}

fn next(queue: &Queue, baton: Box<Baton<()>>) -> Option<Box<Baton<()>>> {
    loaded(queue.next(baton))
}

fn loaded(action: Action<()>) -> Option<Box<Baton<()>>> {
    match action {
        Action::Submit(baton) => Some(baton),
        Action::Nothing => None,
        Action::WakeWriter | Action::WakeDriver => panic!("the caller should run"),
    }
}

fn cork(queue: &Queue, received: usize, control: Control) {
    assert!(matches!(queue.cork(received, control), Some(Action::Nothing)));
}

fn submitted(pushed: Result<Action<()>, Box<(Refusal, Item)>>) -> Box<Baton<()>> {
    match pushed {
        Ok(Action::Submit(baton)) => baton,
        _ => panic!("the sender should run"),
    }
}

#[test]
fn who_finds_the_baton_runs_and_takes_the_others_along() {
    let queue = open_queue(false);
    let mut baton = submitted(queue.push(plain(1)));
    assert!(matches!(queue.push(plain(2)), Ok(Action::Nothing)));
    assert!(matches!(queue.push(plain(3)), Ok(Action::Nothing)));
    assert_eq!(write(&mut baton), [(1, 0)]);
    let mut baton = next(&queue, baton).expect("more");
    assert_eq!(write(&mut baton), [(2, 0), (3, 0)]);
    assert!(next(&queue, baton).is_none());
    // Three messages are unanswered, so the next one is left to the writer task.
    assert!(matches!(queue.push(plain(4)), Ok(Action::WakeWriter)));
    let baton = queue.take_handed().expect("it was left to the writer task");
    assert!(!baton.is_loaded());
    let mut baton = next(&queue, baton).expect("more");
    assert_eq!(write(&mut baton), [(4, 0)]);
    assert!(queue.take_handed().is_none());
}

#[test]
fn a_cork_gathers() {
    let queue = open_queue(false);
    cork(&queue, 2, Control::default());
    cork(&queue, 0, Control::default());
    assert!(matches!(queue.push(plain(1)), Ok(Action::Nothing)));
    assert!(loaded(queue.uncork()).is_none(), "the other cork is still in");
    assert!(matches!(queue.push(plain(2)), Ok(Action::Nothing)));
    let mut baton = loaded(queue.uncork()).expect("two messages");
    assert_eq!(write(&mut baton).len(), 2);
}

#[test]
fn a_cork_holds_back_no_more_than_is_worth_a_write() {
    let queue = open_queue(false);
    cork(&queue, 0, Control::default());
    for tid in 1..CORKED_MESSAGES_MAX as u64 {
        assert!(matches!(queue.push(plain(tid)), Ok(Action::Nothing)));
    }
    let mut baton = submitted(queue.push(plain(99)));
    assert!(matches!(queue.push(plain(100)), Ok(Action::Nothing)));
    assert_eq!(write(&mut baton).len(), CORKED_MESSAGES_MAX);
    assert!(next(&queue, baton).is_none(), "one more waits for the cork");
    let mut baton = loaded(queue.uncork()).expect("one message");
    assert_eq!(write(&mut baton), [(100, 0)]);
}

#[test]
fn messages_that_nobody_asked_for_do_not_spoil_the_guess() {
    let request_and_reply = |queue: &Queue| {
        let pushed = queue.push(plain(1));
        let mut inline = true;
        let mut baton = match pushed {
            Ok(Action::Submit(baton)) => baton,
            _ => {
                inline = false;
                next(queue, queue.take_handed().expect("handed over")).expect("a message")
            }
        };
        write(&mut baton);
        assert!(next(queue, baton).is_none());
        cork(queue, 1, Control::default());
        assert!(loaded(queue.uncork()).is_none());
        inline
    };
    let queue = open_queue(false);
    assert!(request_and_reply(&queue));
    // Five maps arrive.
    cork(&queue, 5, Control::default());
    assert!(loaded(queue.uncork()).is_none());
    assert!(!request_and_reply(&queue));
    queue.settle();
    let _ = request_and_reply(&queue);
    queue.settle();
    assert!(request_and_reply(&queue));
}

#[test]
fn controls_are_merged() {
    let queue = open_queue(true);
    cork(&queue, 1, Control { ack: true, ..Control::default() });
    let _ = queue.request(Control { keepalive: true, ..Control::default() });
    let baton = loaded(queue.uncork()).expect("something to write");
    assert_eq!(baton.control, Control { ack: true, keepalive: true, keepalive_ack: None });
    assert!(baton.batch.is_empty());
}

#[test]
fn a_revoked_message_is_not_written() {
    let queue = open_queue(true);
    cork(&queue, 0, Control::default());
    let slots: Vec<_> = (1..=3).map(|tid| Slot::new(msg(tid))).collect();
    for slot in &slots {
        assert!(queue.push(Item::Revocable(Arc::clone(slot))).is_ok());
    }
    assert!(slots[1].take().is_some());
    let mut baton = loaded(queue.uncork()).expect("two messages");
    assert_eq!(write(&mut baton), [(1, 1), (3, 2)], "the revoked one gets no number");
    assert!(slots[0].take().is_none(), "it has left");
    queue.acked(2);
    let inner = queue.inner.lock();
    assert_eq!((inner.waiting_bytes, inner.unacked_bytes), (0, 0));
}

#[test]
fn the_bound_refuses_and_tells_when_there_is_place() {
    let queue = Queue::new(false, 2, 10_000);
    assert!(queue.push(plain(1)).is_ok());
    assert!(queue.push(plain(2)).is_ok());
    let Err(refused) = queue.push(plain(3)) else { panic!("it is full") };
    assert_eq!(refused.0, Refusal::Full);
    assert_eq!(refused.1.into_msg().expect("it comes back").header.tid.0, 3);
    assert_eq!(queue.check_place(), Ok(false));
    let baton = queue.open((), None).expect("not closed");
    let baton = next(&queue, baton).expect("two messages");
    assert_eq!(queue.check_place(), Ok(true));
    drop(baton);

    let queue = Queue::new(false, 100, 15);
    assert!(queue.push(plain(1)).is_ok(), "one message may exceed the bound");
    assert!(queue.push(plain(2)).is_ok());
    assert!(queue.push(plain(3)).is_err());
}

#[test]
fn a_large_backlog_is_taken_in_parts() {
    let queue = Queue::new(false, 10_000, 1 << 30);
    for tid in 1..=2_000 {
        assert!(queue.push(plain(tid)).is_ok());
    }
    let baton = queue.open((), None).expect("not closed");
    let mut baton = next(&queue, baton).expect("more");
    assert_eq!(write(&mut baton).len(), RUN_MESSAGES_MAX);
    let mut baton = next(&queue, baton).expect("more");
    assert_eq!(write(&mut baton).len(), 2_000 - RUN_MESSAGES_MAX);
    let inner = queue.inner.lock();
    assert_eq!((inner.waiting_bytes, inner.unacked_bytes), (0, 0));
}

#[test]
fn what_is_not_acknowledged_is_repeated_under_its_number() {
    let queue = open_queue(true);
    let mut baton = submitted(queue.push(plain(1)));
    assert_eq!(write(&mut baton), [(1, 1)]);
    for tid in 2..=4 {
        assert!(queue.push(plain(tid)).is_ok());
    }
    let mut baton = next(&queue, baton).expect("more");
    assert_eq!(write(&mut baton), [(2, 2), (3, 3), (4, 4)]);
    queue.acked(1);
    assert!(queue.push(plain(5)).is_ok());
    let (state, _) = queue.detach(State::Standby, State::Connecting);
    assert_eq!(state, State::Connecting);
    // The runner returns after the socket was lost.
    assert!(next(&queue, baton).is_none());
    // The peer has received message 2, but its acknowledgement was lost.
    let baton = queue.open((), Some(2)).expect("not closed");
    let mut baton = next(&queue, baton).expect("more");
    assert_eq!(write(&mut baton), [(3, 3), (4, 4), (5, 5)]);
    queue.acked(5);
    assert!(next(&queue, baton).is_none());
    assert_eq!(queue.detach(State::Standby, State::Connecting).0, State::Standby);
    assert!(matches!(queue.push(plain(6)), Ok(Action::WakeDriver)));
}

#[test]
fn a_runner_of_an_old_socket_does_not_run_the_new_one() {
    let queue = open_queue(true);
    let old = submitted(queue.push(plain(1)));
    let _ = queue.detach(State::Standby, State::Connecting);
    let new = queue.open((), Some(0)).expect("not closed");
    assert!(matches!(queue.hand_over(old), Action::Nothing));
    assert!(queue.take_handed().is_none());
    let mut new = next(&queue, new).expect("1 again");
    assert_eq!(write(&mut new), [(1, 1)]);
}

#[test]
fn a_closed_queue_refuses_and_has_freed_everything() {
    let queue = open_queue(true);
    let baton = submitted(queue.push(plain(1)));
    let freed = Arc::new(AtomicBool::new(false));
    struct Flag(Arc<AtomicBool>);
    impl AsRef<[u8]> for Flag {
        fn as_ref(&self) -> &[u8] {
            &[1]
        }
    }
    impl Drop for Flag {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let front = Bytes::from_owner(Flag(Arc::clone(&freed)));
    assert!(queue.push(Item::Plain(Msg { front, ..Msg::default() })).is_ok());
    assert!(queue.close().is_some());
    assert!(freed.load(Ordering::Relaxed));
    assert!(queue.close().is_none(), "once");
    assert!(next(&queue, baton).is_none());
    let Err(refused) = queue.push(plain(2)) else { panic!("it is closed") };
    assert_eq!(refused.0, Refusal::Closed);
    assert!(queue.open((), None).is_none());
    assert_eq!(queue.check_place(), Err(Refusal::Closed));
}

/// A step of the random test. The number of `Revoke` selects a ticket, modulo their count.
#[derive(Clone, Debug)]
enum Step {
    Push,
    PushRevocable,
    /// Pushes that many messages while another thread holds the lock.
    PushAside(usize),
    Revoke(usize),
    /// The runner writes; that many of the messages in flight arrive before the next step.
    Run(usize),
    /// The peer acknowledges what it has received.
    Ack,
    /// The socket is lost with the messages in flight, and another one is opened.
    Lose,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => Just(Step::Push),
        2 => Just(Step::PushRevocable),
        2 => (1_usize..4).prop_map(Step::PushAside),
        1 => any::<usize>().prop_map(Step::Revoke),
        4 => (0_usize..8).prop_map(Step::Run),
        2 => Just(Step::Ack),
        1 => Just(Step::Lose),
    ]
}

/// The peer, and the messages in flight to it.
#[derive(Default)]
struct Model {
    on_the_way: VecDeque<(u64, u64)>,
    in_seq: u64,
    received: Vec<u64>,
}

impl Model {
    fn arrive(&mut self, count: usize) {
        for _ in 0..count {
            let Some((tid, seq)) = self.on_the_way.pop_front() else { return };
            assert_eq!(seq, self.in_seq + 1, "no gap, nothing twice on one socket");
            self.in_seq = seq;
            self.received.push(tid);
        }
    }
}

proptest! {
    #[test]
    fn a_lossless_session_delivers_each_message_once_and_in_order(steps in prop::collection::vec(step(), 1..200)) {
        let queue = Queue::new(true, 10_000, 1 << 30);
        let mut model = Model::default();
        let mut runner = Some(queue.open((), None).expect("not closed"));
        let mut expected = BTreeSet::new();
        let mut tickets: Vec<(u64, Arc<Slot>)> = Vec::new();
        let mut tid = 0;
        let push = |item, runner: &mut Option<Box<Baton<()>>>| match queue.push(item) {
            Ok(Action::Submit(baton)) => *runner = Some(baton),
            Ok(Action::WakeWriter) => *runner = queue.take_handed(),
            Ok(Action::Nothing | Action::WakeDriver) => {}
            Err(_) => panic!("neither full nor closed"),
        };
        for step in steps.into_iter().chain([Step::Lose, Step::Run(usize::MAX)]) {
            match step {
                Step::Push => {
                    tid += 1;
                    expected.insert(tid);
                    push(plain(tid), &mut runner);
                }
                Step::PushRevocable => {
                    tid += 1;
                    expected.insert(tid);
                    let slot = Slot::new(msg(tid));
                    tickets.push((tid, Arc::clone(&slot)));
                    push(Item::Revocable(slot), &mut runner);
                }
                Step::PushAside(count) => {
                    let held = queue.inner.lock();
                    for _ in 0..count {
                        tid += 1;
                        expected.insert(tid);
                        let slot = Slot::new(msg(tid));
                        tickets.push((tid, Arc::clone(&slot)));
                        prop_assert!(matches!(queue.push(Item::Revocable(slot)), Ok(Action::Nothing)));
                    }
                    queue.unlock_and_go(held);
                    runner = runner.or_else(|| queue.take_handed());
                }
                Step::Revoke(which) if !tickets.is_empty() => {
                    let (tid, slot) = tickets.swap_remove(which % tickets.len());
                    if slot.take().is_some() {
                        expected.remove(&tid);
                    }
                }
                Step::Revoke(_) => {}
                Step::Run(arrive) => {
                    while let Some(mut baton) = runner.take() {
                        model.on_the_way.extend(write(&mut baton));
                        runner = match queue.next(baton) {
                            Action::Submit(baton) => Some(baton),
                            _ => queue.take_handed(),
                        };
                        if runner.as_ref().is_none_or(|baton| !baton.is_loaded()) { break }
                    }
                    model.arrive(arrive);
                }
                Step::Ack => queue.acked(model.in_seq),
                Step::Lose => {
                    let _ = queue.detach(State::Connecting, State::Connecting);
                    model.on_the_way.clear();
                    runner = Some(queue.open((), Some(model.in_seq)).expect("not closed"));
                }
            }
        }
        prop_assert_eq!(model.received, expected.into_iter().collect::<Vec<_>>());
    }
}

/// Acts as the connection's threads: writes each batch that it is given and records it.
struct Mock {
    queue: Queue,
    running: AtomicUsize,
    written: std::sync::Mutex<Vec<u64>>,
    /// All senders have finished.
    ended: AtomicBool,
}

impl Mock {
    fn perform(&self, mut action: Action<()>) {
        while let Action::Submit(mut baton) = action {
            assert_eq!(self.running.fetch_add(1, Ordering::SeqCst), 0, "one runner");
            self.written.lock().expect("not poisoned").extend(write(&mut baton).iter().map(|(tid, _)| tid));
            self.running.fetch_sub(1, Ordering::SeqCst);
            action = self.queue.next(baton);
        }
        if matches!(action, Action::WakeWriter) {
            self.queue.writer_wake.notify_one();
        }
    }

    /// The writer task.
    async fn write_loop(&self) {
        loop {
            if let Some(baton) = self.queue.take_handed() {
                self.perform(Action::Submit(baton));
            } else if self.ended.load(Ordering::SeqCst) {
                return;
            } else {
                self.queue.writer_wake.notified().await;
            }
        }
    }
}

#[test]
fn threads_lose_nothing_and_never_run_twice_at_a_time() {
    const THREADS: u64 = 8;
    const EACH: u64 = 5_000;
    let mock = Mock {
        queue: Queue::new(false, 1 << 20, 1 << 30),
        running: AtomicUsize::new(0),
        written: std::sync::Mutex::default(),
        ended: AtomicBool::new(false),
    };
    let mock = &mock;
    let baton = mock.queue.open((), None).expect("not closed");
    assert!(next(&mock.queue, baton).is_none());
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    std::thread::scope(|scope| {
        scope.spawn(move || runtime.block_on(mock.write_loop()));
        let reader = scope.spawn(|| {
            for _ in 0..EACH {
                mock.perform(mock.queue.cork(1, Control::default()).expect("not closed"));
                let _ = (mock.queue.is_about_to_fill(), mock.queue.len());
                mock.perform(mock.queue.uncork());
            }
        });
        let send = |thread| {
            for i in 0..EACH {
                let Ok(action) = mock.queue.push(plain(thread * EACH + i)) else { panic!("there is place") };
                mock.perform(action);
            }
        };
        let senders: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || send(thread))).collect();
        for thread in senders.into_iter().chain([reader]) {
            thread.join().expect("no panic");
        }
        mock.ended.store(true, Ordering::SeqCst);
        mock.queue.writer_wake.notify_one();
    });
    let written = mock.written.lock().expect("not poisoned");
    assert_eq!(written.len() as u64, THREADS * EACH);
    for thread in 0..THREADS {
        let own = written.iter().copied().filter(|tid| tid / EACH == thread);
        assert!(own.eq(thread * EACH..(thread + 1) * EACH), "each sender's messages are in order");
    }
}

#[test]
fn nobody_waits_for_the_lock() {
    let queue = open_queue(false);
    let held = queue.inner.lock();
    assert!(matches!(queue.push(plain(1)), Ok(Action::Nothing)));
    cork(&queue, 0, Control::default());
    assert!(matches!(queue.push(plain(2)), Ok(Action::Nothing)));
    assert!(loaded(queue.uncork()).is_none());
    assert!(queue.take_handed().is_none());
    assert!(!queue.is_about_to_fill());
    queue.settle();
    assert_eq!(queue.state(), State::Open);
    // The lock's owner performs all operations and learns what it must do: two messages wait, and more
    // may come.
    assert!(matches!(queue.unlock(held, Action::Nothing), Action::WakeWriter));
    let baton = queue.take_handed().expect("it was left to the writer task");
    let mut baton = next(&queue, baton).expect("two messages");
    assert_eq!(write(&mut baton), [(1, 0), (2, 0)]);

    let held = queue.inner.lock();
    assert!(next(&queue, baton).is_none());
    let action = queue.unlock(held, Action::Nothing);
    assert!(matches!(action, Action::Nothing), "the baton is at home, and nothing waits");
    assert!(queue.take_handed().is_none());
    assert!(matches!(queue.push(plain(3)), Ok(Action::WakeWriter)));

    let baton = queue.take_handed().expect("it was left to the writer task");
    let held = queue.inner.lock();
    assert!(matches!(queue.hand_over(baton), Action::Nothing));
    assert!(matches!(queue.unlock(held, Action::Nothing), Action::WakeWriter));
    assert!(queue.take_handed().is_some());
}

#[test]
fn what_was_left_survives_the_socket() {
    let queue = open_queue(true);
    let old = submitted(queue.push(plain(1)));
    let held = queue.inner.lock();
    let slot = Slot::new(msg(2));
    assert!(matches!(queue.push(Item::Revocable(Arc::clone(&slot))), Ok(Action::Nothing)));
    assert!(matches!(queue.push(plain(3)), Ok(Action::Nothing)));
    // The lock is released without looking for left operations.
    drop(held);
    assert!(slot.take().is_some(), "it can be taken back where it is");
    assert_eq!(queue.detach(State::Standby, State::Connecting).0, State::Connecting);
    assert!(!queue.inner.lock().is_open(), "now everybody waits for the lock");
    assert!(next(&queue, old).is_none());
    let baton = queue.open((), Some(0)).expect("not closed");
    let mut baton = next(&queue, baton).expect("two messages");
    assert_eq!(write(&mut baton), [(1, 1), (3, 2)]);

    let held = queue.inner.lock();
    assert!(matches!(queue.push(plain(4)), Ok(Action::Nothing)));
    drop(held);
    assert!(queue.close().is_some());
    assert_eq!(queue.len(), 0);
    assert!(next(&queue, baton).is_none());
}

#[test]
fn who_is_refused_sees_to_what_others_left() {
    let queue = open_queue(false);
    // Makes the queue allocate memory for messages.
    for tid in 1..=2 {
        cork(&queue, 0, Control::default());
        assert!(queue.push(plain(tid)).is_ok());
        let mut baton = loaded(queue.uncork()).expect("a message");
        write(&mut baton);
        assert!(next(&queue, baton).is_none());
    }
    let held = queue.inner.lock();
    let large = Msg { front: Bytes::from(vec![0; 20_000]), ..Msg::default() };
    assert!(matches!(queue.push(Item::Plain(large)), Ok(Action::Nothing)));
    drop(held);
    let Err(refused) = queue.push(plain(3)) else { panic!("it is full") };
    assert_eq!(refused.0, Refusal::Full);
    let baton = queue.take_handed().expect("the large one is to be written");
    assert_eq!(write(&mut next(&queue, baton).expect("loaded")).len(), 1);
}

#[test]
fn no_more_is_left_than_finds_place() {
    let queue = Queue::new(false, 100, 10_000);
    let baton = queue.open((), None).expect("not closed");
    for tid in 0..49 {
        assert!(queue.inner.lock().is_open());
        assert!(matches!(queue.push(plain(tid)), Ok(Action::Nothing)));
        if tid % 2 == 0 {
            let held = queue.inner.lock();
            assert!(queue.push(plain(tid)).is_ok());
            queue.unlock_and_go(held);
        }
        if queue.len() >= 50 {
            break;
        }
    }
    // Half of the room is taken; a quarter may be left, and once more a quarter while that is performed.
    assert!(matches!(queue.push(plain(50)), Ok(Action::Nothing)));
    assert!(!queue.inner.lock().is_open());
    let mut baton = next(&queue, baton).expect("messages");
    assert!(queue.inner.lock().is_open(), "there is place again");
    assert!(write(&mut baton).len() > 50);
    let held = queue.inner.lock();
    for tid in 0..25 {
        assert!(queue.push(plain(tid)).is_ok());
    }
    assert!(queue.inner.leave(Left::Push(plain(25))).is_err(), "the twenty-sixth would wait for the lock");
    drop(held);
    assert!(matches!(queue.push(plain(26)), Ok(Action::Nothing)));
    assert_eq!(queue.len(), 26);
}
