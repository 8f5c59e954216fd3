//! Realms against a model that has every snapshot's place; cap snaps by hand and at random.

use std::cell::Cell;
use std::collections::{BTreeSet, VecDeque};

use loligo_types::{Caps, Ino, SnapContext, SnapId, Tid};
use proptest::prelude::*;

use super::*;

fn info(ino: u64, parent: u64, since: u64, seq: u64, snaps: &[u64], prior: &[u64]) -> RealmInfo {
    let ids = |ids: &[u64]| ids.iter().copied().map(SnapId).collect();
    RealmInfo {
        ino: Ino(ino),
        created: SnapId(since),
        parent: Ino(parent),
        parent_since: SnapId(since),
        seq: SnapId(seq),
        snaps: ids(snaps),
        prior: ids(prior),
    }
}

fn context(seq: u64, snaps: &[u64]) -> SnapContext {
    SnapContext { seq: SnapId(seq), snaps: snaps.iter().copied().map(SnapId).collect() }
}

#[test]
fn a_context_has_the_snapshots_above_since_the_realm_is_there() {
    let mut realms = Realms::new();
    let trace = vec![info(10, 1, 4, 6, &[6], &[3]), info(1, 0, 0, 7, &[7, 5, 2], &[])];
    assert_eq!(realms.update(trace), [], "new realms have no inodes with changes");
    assert_eq!(realms.context(Ino(10)), context(7, &[7, 6, 5, 3]));
    assert_eq!(realms.context(Ino(1)), context(7, &[7, 5, 2]));
    assert_eq!(realms.context(Ino(99)), SnapContext::default());
    let changed = realms.update(vec![info(1, 0, 0, 8, &[8, 7, 5, 2], &[])]);
    assert_eq!(changed.iter().map(|changed| changed.realm).collect::<Vec<_>>(), [Ino(1), Ino(10)]);
    assert_eq!(changed[1].old, context(7, &[7, 6, 5, 3]));
    assert_eq!(changed[1].new, context(8, &[8, 7, 6, 5, 3]));
    assert_eq!(realms.update(vec![info(1, 0, 0, 7, &[7], &[])]), [], "older news are ignored");
}

#[test]
fn a_split_moves_realms_and_old_inodes() {
    let mut realms = Realms::new();
    realms.update(vec![info(20, 1, 1, 3, &[3], &[]), info(1, 0, 0, 3, &[2], &[])]);
    realms.update(vec![info(10, 1, 4, 5, &[5], &[]), info(1, 0, 0, 5, &[2], &[])]);
    let changed = realms.split(Ino(10), &[Ino(20), Ino(10), Ino(77)]);
    assert_eq!(changed.len(), 1);
    assert_eq!(changed[0].new, context(5, &[5, 3]), "2 is older than the realm between");
    assert!(realms.takes(Ino(1), Ino(10)));
    assert!(!realms.takes(Ino(10), Ino(20)), "an older message");
    assert!(!realms.takes(Ino(1), Ino(99)));
    realms.retain(&BTreeSet::from([Ino(10)]));
    assert_eq!(realms.len(), 2);
}

#[test]
fn a_circle_of_realms_ends() {
    let mut realms = Realms::new();
    realms.update(vec![info(10, 20, 0, 5, &[5], &[]), info(20, 10, 0, 4, &[4], &[])]);
    assert_eq!(realms.context(Ino(10)), context(5, &[5, 4]));
    realms.update(vec![info(30, 30, 0, 9, &[9], &[])]);
    assert_eq!(realms.context(Ino(30)), context(9, &[9]));
    realms.retain(&BTreeSet::from([Ino(20)]));
    assert_eq!(realms.len(), 2);
}

#[test]
fn writes_wait_for_those_before_the_snapshot_and_for_their_data() {
    let last = Cell::new(0);
    let tid = || {
        last.set(last.get() + 1);
        Tid(last.get())
    };
    let mut snaps = CapSnaps::new();
    let old = context(3, &[3]);
    snaps.snapshot(&old, Before::default(), &tid);
    assert!(snaps.is_empty() && snaps.may_write(), "nothing was changed");
    let issued = Caps::FILE_WR | Caps::FILE_BUFFER;
    snaps.snapshot(&old, Before { issued, is_writing: true, ..Before::default() }, &tid);
    assert_eq!(snaps.take_effects(), []);
    assert!(!snaps.may_write() && snaps.is_pending());
    snaps.snapshot(&context(4, &[4, 3]), Before { issued, is_writing: true, ..Before::default() }, &tid);
    snaps.writes_ended(Caps::FILE_WR, true, &tid);
    assert_eq!(snaps.take_effects(), [Effect::KeepAttrs(SnapId(3)), Effect::FlushData(old)]);
    assert!(!snaps.may_write());
    snaps.data_flushed(&tid);
    let flush = FlushSnap { tid: Tid(1), follows: SnapId(3), dirty: Caps::FILE_WR, issued };
    assert_eq!(snaps.take_effects(), [Effect::Send(flush), Effect::Wake]);
    assert!(snaps.may_write() && !snaps.is_pending());
    snaps.send_again();
    assert_eq!(snaps.take_effects(), [Effect::Send(flush)]);
    snaps.ack(Tid(9), &tid);
    assert_eq!(snaps.take_effects(), []);
    snaps.ack(Tid(1), &tid);
    assert_eq!(snaps.take_effects(), [Effect::Forget(SnapId(3)), Effect::Wake]);
    assert!(snaps.is_empty());
}

/// A server acknowledges a flush of a snapshot only if it changes something: attributes that were flushed
/// before the data that belongs to them leave nothing to change.
#[test]
fn no_acknowledgement_is_awaited_of_a_flush_without_changes() {
    let last = Cell::new(0);
    let tid = || {
        last.set(last.get() + 1);
        Tid(last.get())
    };
    let mut snaps = CapSnaps::new();
    let issued = Caps::FILE_WR | Caps::FILE_BUFFER;
    let before =
        |seq, dirty| (context(seq, &[seq]), Before { dirty, issued, has_data: true, is_writing: false });
    for (old, before) in [before(3, Caps::NONE), before(4, Caps::FILE_WR), before(5, Caps::NONE)] {
        snaps.snapshot(&old, before, &tid);
    }
    // One at a time: the data of each is written with its own context.
    while !snaps.may_write() {
        snaps.data_flushed(&tid);
    }
    let effects = snaps.take_effects();
    let sent: Vec<_> = effects.iter().filter(|effect| matches!(effect, Effect::Send(_))).collect();
    let flush = |tid, follows, dirty| {
        Effect::Send(FlushSnap { tid: Tid(tid), follows: SnapId(follows), dirty, issued })
    };
    assert_eq!(sent, [&flush(1, 3, Caps::NONE), &flush(2, 4, Caps::FILE_WR), &flush(3, 5, Caps::NONE)]);
    assert!(effects.contains(&Effect::Forget(SnapId(3))) && effects.contains(&Effect::Forget(SnapId(5))));
    snaps.send_again();
    assert_eq!(snaps.take_effects(), [flush(2, 4, Caps::FILE_WR)]);
    snaps.ack(Tid(2), &tid);
    assert!(snaps.is_empty());
}

proptest! {
    /// Whatever happens, flushes leave in the order of snapshots, each once; and nothing is forgotten
    /// that was not acknowledged, unless the server acknowledges nothing of it.
    #[test]
    fn flushes_are_sent_in_order(steps in proptest::collection::vec(0..6_u8, 0..80)) {
        let last = Cell::new(0);
        let tid = || {
            last.set(last.get() + 1);
            Tid(last.get())
        };
        let mut snaps = CapSnaps::new();
        let (mut seq, mut sent, mut acked, mut forgotten) = (1, Vec::new(), 0, 0);
        let (mut unacknowledged, mut without_changes) = (VecDeque::new(), 0);
        let end = [3, 2, 4, 2, 4, 2, 4].repeat(60);
        for step in steps.into_iter().chain(end) {
            match step {
                0 | 1 => {
                    let is_writing = step == 0 && snaps.may_write();
                    let dirty = if seq % 3 == 0 { Caps::NONE } else { Caps::FILE_WR };
                    let before = Before { dirty, is_writing, has_data: step == 1, ..Before::default() };
                    snaps.snapshot(&context(seq, &[seq]), before, &tid);
                    seq += 1;
                }
                2 => snaps.data_flushed(&tid),
                3 => snaps.writes_ended(Caps::FILE_WR, seq % 2 == 0, &tid),
                4 => {
                    if let Some(tid_of_one) = unacknowledged.pop_front() {
                        acked += 1;
                        snaps.ack(tid_of_one, &tid);
                    }
                }
                _ => {}
            }
            for effect in snaps.take_effects() {
                match effect {
                    Effect::Send(flush) => {
                        sent.push(flush.follows);
                        match flush.dirty.is_empty() {
                            true => without_changes += 1,
                            false => unacknowledged.push_back(flush.tid),
                        }
                    }
                    Effect::Forget(_) => forgotten += 1,
                    Effect::KeepAttrs(_) | Effect::FlushData(_) | Effect::Wake => {}
                }
            }
            prop_assert!(sent.is_sorted_by(|a, b| a < b));
            prop_assert_eq!(forgotten, acked + without_changes);
        }
        prop_assert!(snaps.is_empty());
    }
}
