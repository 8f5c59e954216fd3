//! The table under random events: every caller hears once, and replays keep their order.

use std::collections::BTreeMap;

use loligo_types::{Ino, Rank, Tid};
use proptest::prelude::*;

use super::*;

const CHANGE: Kind = Kind { changes: true, is_lock: false };
const READ: Kind = Kind { changes: false, is_lock: false };
const LOCK: Kind = Kind { changes: true, is_lock: true };

fn sends(requests: &mut Requests) -> Vec<Send> {
    let sends = requests.take_effects().into_iter().filter_map(|effect| match effect {
        Effect::Send(send) => Some(send),
        _ => None,
    });
    sends.collect()
}

#[test]
fn a_request_waits_for_its_session_which_is_opened_once() {
    let mut requests = Requests::new();
    let (a, b) = (requests.submit(READ), requests.submit(CHANGE));
    assert_eq!(requests.take_effects(), [Effect::Choose(a), Effect::Choose(b)]);
    requests.route(a, Some(Rank(0)));
    requests.route(b, Some(Rank(0)));
    assert_eq!(requests.take_effects(), [Effect::OpenSession(Rank(0))]);
    requests.session_opened(Rank(0));
    let sent = sends(&mut requests);
    assert_eq!(sent.iter().map(|send| send.tid).collect::<Vec<_>>(), [a, b]);
    assert!(sent.iter().all(|send| send.oldest == a && send.retries == 0 && !send.is_replay));
    requests.reply(Rank(0), a, false, None);
    assert_eq!(requests.take_effects(), [Effect::Deliver(a), Effect::Safe(a)], "reads are answered once");
    requests.reply(Rank(0), b, false, Some(Ino(0x1000)));
    assert_eq!(requests.take_effects(), [Effect::Deliver(b)]);
    assert_eq!(requests.unsafe_changes().collect::<Vec<_>>(), [b]);
    requests.reply(Rank(0), b, true, None);
    assert_eq!(requests.take_effects(), [Effect::Safe(b)]);
    assert!(requests.is_empty());
}

#[test]
fn after_a_restart_unsafe_changes_come_first_with_their_inode() {
    let mut requests = Requests::new();
    requests.session_opened(Rank(0));
    let (a, b, c) = (requests.submit(READ), requests.submit(CHANGE), requests.submit(CHANGE));
    for tid in [a, b, c] {
        requests.route(tid, Some(Rank(0)));
    }
    requests.reply(Rank(0), c, false, Some(Ino(0x1001)));
    let _before = requests.take_effects();
    requests.replay(Rank(0));
    let replays = sends(&mut requests);
    assert_eq!(replays.len(), 1);
    assert_eq!((replays[0].tid, replays[0].created, replays[0].is_replay), (c, Some(Ino(0x1001)), true));
    let late = requests.submit(READ);
    requests.route(late, Some(Rank(0)));
    assert_eq!(sends(&mut requests), [], "nothing else before the capabilities are claimed");
    requests.reconnected(Rank(0));
    let again = sends(&mut requests);
    assert_eq!(again.iter().map(|send| send.tid).collect::<Vec<_>>(), [a, b, late]);
    assert_eq!(again.iter().map(|send| send.retries).collect::<Vec<_>>(), [1, 1, 0]);
}

#[test]
fn a_forward_is_followed_while_its_number_grows() {
    let mut requests = Requests::new();
    requests.session_opened(Rank(0));
    requests.session_opened(Rank(1));
    let tid = requests.submit(CHANGE);
    requests.route(tid, Some(Rank(0)));
    requests.forward(Rank(0), tid, Rank(1), 1);
    let sent = sends(&mut requests);
    assert_eq!((sent[1].rank, sent[1].forwards, sent[1].retries), (Rank(1), 1, 1));
    requests.reply(Rank(0), tid, true, None);
    assert_eq!(requests.take_effects(), [], "a rank that is no longer asked");
    requests.forward(Rank(1), tid, Rank(0), 1);
    assert_eq!(requests.take_effects(), [Effect::Fail(tid, Failure::Circle(1)), Effect::Safe(tid)]);
}

#[test]
fn a_lost_session_loses_what_was_unsafe_and_sends_the_rest_again() {
    let mut requests = Requests::new();
    requests.session_opened(Rank(0));
    let (a, b) = (requests.submit(CHANGE), requests.submit(CHANGE));
    requests.route(a, Some(Rank(0)));
    requests.route(b, Some(Rank(0)));
    requests.reply(Rank(0), a, false, None);
    let _before = requests.take_effects();
    requests.session_lost(Rank(0));
    assert_eq!(requests.take_effects(), [Effect::Lost(a), Effect::Choose(b)]);
}

#[test]
fn a_waiting_lock_does_not_keep_results_at_the_server() {
    let mut requests = Requests::new();
    let lock = requests.submit(LOCK);
    assert_eq!(requests.oldest(), Tid(lock.0 + 1));
    let read = requests.submit(READ);
    assert_eq!(requests.oldest(), read);
}

#[test]
fn old_servers_are_not_asked_more_often_than_they_can_count() {
    let mut requests = Requests::new();
    requests.session_opened(Rank(0));
    let tid = requests.submit(READ);
    requests.route(tid, Some(Rank(0)));
    for _ in 0..255 {
        assert!(!requests.check_old_counts(tid));
        requests.reconnected(Rank(0));
    }
    let _sent = requests.take_effects();
    assert!(requests.check_old_counts(tid));
    assert_eq!(requests.take_effects()[0], Effect::Fail(tid, Failure::TooOften(256)));
}

#[test]
fn the_rank_is_that_of_the_name_then_of_the_capability() {
    let state = |rank: Rank| match rank.0 {
        0 | 1 => RankState::Serves,
        2 => RankState::Waits,
        _ => RankState::Gone,
    };
    let active = [Rank(0), Rank(1)];
    let pick = |route: &Route<'_>| choose(route, &state, &active, 1);
    let known = Route { fragment_auth: Some(Rank(0)), auth_cap: Some(Rank(1)), ..Route::default() };
    assert_eq!(pick(&known), Some(Rank(0)));
    assert_eq!(pick(&Route { forwarded_to: Some(Rank(1)), ..known }), Some(Rank(1)));
    assert_eq!(pick(&Route { fragment_auth: Some(Rank(2)), ..known }), None, "it will serve");
    assert_eq!(pick(&Route { fragment_auth: Some(Rank(5)), ..known }), Some(Rank(1)), "it is gone");
    let replicas = [Rank(2), Rank(1)];
    assert_eq!(pick(&Route { replicas: &replicas, ..known }), Some(Rank(1)));
    assert_eq!(pick(&Route { replicas: &replicas, changes: true, ..known }), Some(Rank(0)));
    assert_eq!(pick(&Route::default()), Some(Rank(1)), "any");
    assert_eq!(choose(&Route::default(), &state, &[], 1), None);
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Submit(bool),
    Reply(usize, bool),
    Forward(usize, u32),
    Open(i32),
    Lose(i32),
    Restart(i32),
    Abandon(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => any::<bool>().prop_map(Step::Submit),
        4 => (0..8_usize, any::<bool>()).prop_map(|(which, safe)| Step::Reply(which, safe)),
        1 => (0..8_usize, 0..4_u32).prop_map(|(which, number)| Step::Forward(which, number)),
        2 => (0..2_i32).prop_map(Step::Open),
        1 => (0..2_i32).prop_map(Step::Lose),
        1 => (0..2_i32).prop_map(Step::Restart),
        1 => (0..8_usize).prop_map(Step::Abandon),
    ];
    proptest::collection::vec(step, 0..120)
}

/// What has been heard of a request.
#[derive(Default)]
struct Heard {
    answers: u32,
    ends: u32,
    rank: Option<Rank>,
    abandoned: bool,
}

/// Follows effects as an owner does.
fn follow(requests: &mut Requests, heard: &mut BTreeMap<Tid, Heard>) {
    loop {
        let effects = requests.take_effects();
        if effects.is_empty() {
            return;
        }
        for effect in effects {
            match effect {
                Effect::Choose(tid) => requests.route(tid, Some(Rank((tid.0 % 2) as i32))),
                Effect::OpenSession(_) => {}
                Effect::Send(send) => {
                    let heard = heard.get_mut(&send.tid).expect("submitted");
                    assert_eq!(heard.ends, 0, "an ended request is not sent");
                    heard.rank = Some(send.rank);
                }
                Effect::Deliver(tid) | Effect::Fail(tid, _) => {
                    heard.get_mut(&tid).expect("submitted").answers += 1;
                }
                Effect::Safe(tid) | Effect::Lost(tid) => heard.get_mut(&tid).expect("submitted").ends += 1,
            }
        }
    }
}

proptest! {
    #[test]
    fn every_request_is_answered_once_and_ends_once(steps in steps()) {
        let mut requests = Requests::new();
        let mut heard: BTreeMap<Tid, Heard> = BTreeMap::new();
        let nth = |heard: &BTreeMap<Tid, Heard>, which: usize| {
            heard.iter().rev().nth(which).and_then(|(tid, heard)| Some((*tid, heard.rank?)))
        };
        for step in steps {
            match step {
                Step::Submit(changes) => {
                    heard.insert(requests.submit(Kind { changes, is_lock: false }), Heard::default());
                }
                Step::Reply(which, safe) => {
                    if let Some((tid, rank)) = nth(&heard, which) {
                        requests.reply(rank, tid, safe, None);
                    }
                }
                Step::Forward(which, number) => {
                    if let Some((tid, rank)) = nth(&heard, which) {
                        requests.forward(rank, tid, Rank(1 - rank.0), number);
                    }
                }
                Step::Open(rank) => requests.session_opened(Rank(rank)),
                Step::Lose(rank) => requests.session_lost(Rank(rank)),
                Step::Restart(rank) => {
                    requests.replay(Rank(rank));
                    requests.reconnected(Rank(rank));
                }
                Step::Abandon(which) => {
                    if let Some((tid, heard)) = heard.iter_mut().rev().nth(which) {
                        heard.abandoned |= heard.answers == 0;
                        requests.abandon(*tid);
                    }
                }
            }
            follow(&mut requests, &mut heard);
        }
        for rank in [Rank(0), Rank(1)] {
            requests.session_opened(rank);
        }
        follow(&mut requests, &mut heard);
        let ranks: Vec<(Tid, Option<Rank>)> = heard.iter().map(|(tid, heard)| (*tid, heard.rank)).collect();
        for (tid, rank) in ranks {
            requests.reply(rank.unwrap_or(Rank::NONE), tid, true, None);
        }
        follow(&mut requests, &mut heard);
        prop_assert!(requests.is_empty());
        for heard in heard.values() {
            prop_assert_eq!(heard.ends, 1);
            prop_assert_eq!(heard.answers, u32::from(!heard.abandoned));
        }
    }
}
