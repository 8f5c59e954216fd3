//! Sessions: by hand, and against a model of the server's clock.

use std::time::Duration;

use loligo_types::Rank;
use proptest::prelude::*;

use super::*;
use crate::Moment;

const TIMEOUT: Duration = Duration::from_secs(60);

fn at(s: u64) -> Moment {
    Moment(Duration::from_secs(s))
}

fn opened() -> Session {
    let mut session = Session::new(Rank(0), TIMEOUT);
    session.open(at(0));
    session.event(SessionEvent::Opened, at(1));
    let _opening = session.take_effects();
    session
}

#[test]
fn a_session_is_renewed_three_times_within_its_time() {
    let mut session = opened();
    assert_eq!(session.validity().until, at(60), "from when it was asked for");
    assert_eq!(session.tick(at(19)), Some(at(20)));
    assert_eq!(session.take_effects(), []);
    assert_eq!(session.tick(at(21)), Some(at(41)));
    assert_eq!(session.take_effects(), [Effect::Send(Outgoing::RequestRenew { seq: 1 })]);
    session.event(SessionEvent::Renewed { seq: 0 }, at(22));
    assert_eq!(session.validity().until, at(60));
    session.event(SessionEvent::Renewed { seq: 1 }, at(30));
    assert_eq!(session.validity().until, at(81));
    assert_eq!(session.take_effects(), [Effect::Renewed { was_void: false }]);
}

#[test]
fn a_late_renewal_is_reported_since_operations_wait_for_it() {
    let mut session = opened();
    session.tick(at(59));
    session.event(SessionEvent::Renewed { seq: 1 }, at(70));
    assert!(session.take_effects().contains(&Effect::Renewed { was_void: true }));
    assert_eq!(session.validity().until, at(119));
}

#[test]
fn acknowledgements_may_take_longer_than_the_time_between_renewals() {
    let mut session = opened();
    session.tick(at(20));
    session.tick(at(40));
    session.event(SessionEvent::Renewed { seq: 1 }, at(45));
    assert_eq!(session.validity().until, at(80));
    session.event(SessionEvent::Renewed { seq: 1 }, at(46));
    session.event(SessionEvent::Renewed { seq: 2 }, at(65));
    assert_eq!(session.validity().until, at(100));
}

#[test]
fn a_stale_session_voids_its_capabilities_and_renews() {
    let mut session = opened();
    session.event(SessionEvent::Stale, at(5));
    assert_eq!(session.validity().generation, 2);
    assert_eq!(session.validity().until, Moment::default());
    let renewal = Effect::Send(Outgoing::RequestRenew { seq: 1 });
    assert_eq!(session.take_effects(), [Effect::Voided, renewal]);
}

#[test]
fn a_close_that_crosses_with_a_push_is_repeated() {
    let mut session = opened();
    session.event(SessionEvent::Push, at(2));
    session.close();
    session.event(SessionEvent::Push, at(3));
    let close = |pushes| Effect::Send(Outgoing::RequestClose { pushes });
    assert_eq!(session.take_effects(), [close(1), close(2)]);
    session.event(SessionEvent::Closed, at(4));
    assert_eq!(session.take_effects(), [Effect::Closed]);
    assert_eq!(session.phase(), Phase::Closed);
}

#[test]
fn a_reset_loses_an_open_session_and_ends_a_closing_one() {
    let mut session = opened();
    session.event(SessionEvent::Reset, at(2));
    assert_eq!(session.take_effects(), [Effect::Lost]);
    let mut session = opened();
    session.close();
    session.event(SessionEvent::Reset, at(2));
    assert_eq!(session.take_effects().last(), Some(&Effect::Closed));
}

#[test]
fn after_a_restart_capabilities_count_once_the_server_has_answered() {
    let mut session = opened();
    session.event(SessionEvent::RankReconnects, at(10));
    assert_eq!(session.take_effects(), [Effect::Voided, Effect::Reconnect { previous: 1 }]);
    session.reconnect_sent(at(11));
    assert_eq!(session.validity().until, Moment::default());
    session.event(SessionEvent::Opened, at(15));
    assert_eq!(session.take_effects(), [Effect::Opened]);
    assert_eq!(session.validity(), crate::caps::Validity { generation: 2, until: at(71) });
}

#[test]
fn a_session_whose_time_was_over_before_a_restart_reconnects_with_void_capabilities() {
    let mut session = opened();
    let generation = session.validity().generation;
    session.event(SessionEvent::RankReconnects, at(60));
    let reconnect = Effect::Reconnect { previous: generation + 1 };
    assert_eq!(session.take_effects(), [Effect::Voided, reconnect]);
}

#[test]
fn a_refused_session_says_why_and_may_be_tried_again() {
    let mut session = Session::new(Rank(0), TIMEOUT);
    session.open(at(0));
    session.event(SessionEvent::Rejected { is_blocklisted: true }, at(1));
    assert_eq!(session.take_effects()[1], Effect::Rejected { is_blocklisted: true });
    session.open(at(2));
    assert_eq!(session.phase(), Phase::Opening);
    let mut session = opened();
    session.event(SessionEvent::Rejected { is_blocklisted: false }, at(1));
    assert_eq!(session.take_effects(), [Effect::Lost, Effect::Rejected { is_blocklisted: false }]);
}

#[test]
fn claims_are_divided_by_their_size() {
    let parts = split_claims(vec![3, 4, 5, 20, 1], |size| *size, 8, true);
    let claims: Vec<_> = parts.iter().map(|part| (part.claims.clone(), part.more)).collect();
    assert_eq!(claims, [(vec![3, 4], true), (vec![5], true), (vec![20], true), (vec![1], false)]);
    assert_eq!(split_claims(vec![3, 4, 5], |size| *size, 8, false).len(), 1);
    assert_eq!(split_claims(Vec::<usize>::new(), |size| *size, 8, true).len(), 1, "an empty one");
}

/// For each renewal: the time there, the time back, and the time until the client looks again.
fn delays() -> impl Strategy<Value = Vec<(u64, u64, u64)>> {
    proptest::collection::vec((0..50_u64, 0..50_u64, 1..40_u64), 1..30)
}

proptest! {
    /// The server counts a session's time from when it processed a renewal; the client must never trust
    /// its capabilities for longer, whatever is late.
    #[test]
    fn the_client_never_trusts_longer_than_the_server(delays in delays()) {
        let mut session = Session::new(Rank(0), TIMEOUT);
        session.open(at(0));
        let mut now = delays[0].0;
        let mut server = at(now);
        session.event(SessionEvent::Opened, at(now + delays[0].1));
        now += delays[0].1;
        for (there, back, idle) in delays {
            prop_assert!(session.validity().until <= server + TIMEOUT);
            now += idle;
            session.tick(at(now));
            let sent = session.take_effects().into_iter().find_map(|effect| match effect {
                Effect::Send(Outgoing::RequestRenew { seq }) => Some(seq),
                _ => None,
            });
            if let Some(seq) = sent {
                server = at(now + there);
                now += there + back;
                session.event(SessionEvent::Renewed { seq }, at(now));
                prop_assert!(session.validity().until <= server + TIMEOUT);
            }
        }
    }
}
