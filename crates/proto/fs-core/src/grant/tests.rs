//! The policy by hand, and against clients whose messages cross with the server's.

use std::collections::VecDeque;

use loligo_types::{CapId, Caps, GlobalId};
use proptest::prelude::*;

use super::*;

const A: Client = GlobalId(1);
const B: Client = GlobalId(2);
const C: Client = GlobalId(3);

fn caps(text: &str) -> Caps {
    text.parse().expect("capabilities")
}

fn read() -> Caps {
    caps("pFscr")
}

fn write() -> Caps {
    caps("pAsxXsxFxwb")
}

/// The capability of each client has its number.
fn reply(grants: &mut InodeGrants, client: Client, wanted: Caps) -> Told {
    grants.reply(client, wanted, || CapId(client.0))
}

fn confirm(grants: &mut InodeGrants, client: Client, seq: u32, issue_seq: u32, caps: Caps, wanted: Caps) {
    grants.confirm(client, &Said { cap_id: CapId(client.0), seq, issue_seq, caps, wanted });
}

/// Answers a revoke as an obedient client does.
fn answer(grants: &mut InodeGrants, effect: &Effect) {
    if let Effect::Send(client, Kind::Revoke, told) = effect {
        confirm(grants, *client, told.seq, told.seq, told.caps, told.wanted);
    }
}

#[test]
fn readers_share_and_a_sole_writer_has_everything() {
    let mut grants = InodeGrants::new();
    assert_eq!(reply(&mut grants, A, read()).caps, caps("pAsLsXsFscrl"));
    assert_eq!(reply(&mut grants, B, read()).caps, caps("pAsLsXsFscrl"));
    assert_eq!(grants.take_effects(), []);
    grants.remove(B);
    assert_eq!(reply(&mut grants, A, write()).caps, caps("pAsxLsxXsxFsxcrwbl"));
}

#[test]
fn a_second_user_waits_until_the_buffer_is_back() {
    let mut grants = InodeGrants::new();
    reply(&mut grants, A, write());
    let told = reply(&mut grants, B, read());
    assert_eq!(told.caps, Caps::PIN, "nothing while A may have data that nobody else sees");
    let effects = grants.take_effects();
    let [Effect::Send(A, Kind::Revoke, revoke)] = effects[..] else { panic!("{effects:?}") };
    assert_eq!(revoke.caps, caps("pAsLsXsFrwl"));
    // A message of A that crossed with the revoke answers nothing.
    confirm(&mut grants, A, revoke.seq - 1, 1, caps("pAsxLsxXsxFsxcrwbl"), write());
    assert_eq!(grants.take_effects(), []);
    // It has processed the revoke, and still flushes: only the other parts are free.
    confirm(&mut grants, A, revoke.seq, 1, caps("pAsLsXsFrwbl"), write());
    let effects = grants.take_effects();
    let [Effect::Send(B, Kind::Grant, grant)] = effects[..] else { panic!("{effects:?}") };
    assert_eq!(grant.caps, caps("pAsLsXs"));
    confirm(&mut grants, A, revoke.seq, 1, revoke.caps, write());
    let effects = grants.take_effects();
    let [Effect::Send(B, Kind::Grant, grant)] = effects[..] else { panic!("{effects:?}") };
    assert_eq!(grant.caps, caps("pAsLsXsFrwl"));
}

#[test]
fn readers_lose_their_caches_before_somebody_writes() {
    let mut grants = InodeGrants::new();
    reply(&mut grants, A, read());
    reply(&mut grants, B, read());
    assert!(!reply(&mut grants, C, write()).caps.intersects(Caps::FILE_WR));
    let effects = grants.take_effects();
    assert_eq!(effects.len(), 2, "{effects:?}");
    answer(&mut grants, &effects[0]);
    assert!(!grants.issued(C).intersects(Caps::FILE_WR), "B may still cache");
    answer(&mut grants, &effects[1]);
    assert_eq!(grants.issued(C), caps("pAsLsXsFrwl"));
}

#[test]
fn an_idle_client_does_not_keep_a_writer_from_being_alone() {
    let mut grants = InodeGrants::new();
    reply(&mut grants, A, Caps::NONE);
    reply(&mut grants, B, write());
    let effects = grants.take_effects();
    effects.iter().for_each(|effect| answer(&mut grants, effect));
    assert_eq!(grants.issued(A), Caps::PIN);
    assert_eq!(grants.issued(B), caps("pAsxLsxXsxFsxcrwbl"));
}

#[test]
fn the_server_s_own_changes_wait_for_all() {
    let mut grants = InodeGrants::new();
    reply(&mut grants, A, write());
    grants.hold(HoldId(1), Use::Read, Caps::FILE_SHARED);
    let effects = grants.take_effects();
    let [Effect::Send(A, Kind::Revoke, revoke)] = effects[..] else { panic!("{effects:?}") };
    assert_eq!(revoke.caps, caps("pAsxLsxXsxFscrl"));
    answer(&mut grants, &effects[0]);
    assert_eq!(grants.take_effects(), [Effect::Ready(HoldId(1))]);
    grants.unhold(HoldId(1));
    assert_eq!(grants.issued(A), caps("pAsxLsxXsxFsxcrwbl"));
    grants.take_effects();
    grants.hold(HoldId(2), Use::Change, Caps::AUTH_SHARED);
    let effects = grants.take_effects();
    answer(&mut grants, &effects[0]);
    assert!(!grants.issued(A).intersects(Caps::ANY_AUTH));
    assert_eq!(grants.take_effects(), [Effect::Ready(HoldId(2))]);
}

#[test]
fn a_stale_reader_is_void_and_a_stale_writer_is_evicted_when_others_wait() {
    let mut grants = InodeGrants::new();
    reply(&mut grants, A, read());
    grants.stale(A);
    assert_eq!((grants.issued(A), grants.take_effects()), (Caps::PIN, Vec::new()));
    grants.resume(A);
    let again = grants.take_effects();
    let [Effect::Send(A, Kind::Grant, told)] = again[..] else { panic!("{again:?}") };
    assert_eq!(told.caps, caps("pAsLsXsFscrl"));
    grants.remove(A);

    reply(&mut grants, A, write());
    grants.stale(A);
    assert_eq!(grants.take_effects(), []);
    reply(&mut grants, B, read());
    assert_eq!(grants.take_effects(), [Effect::Evict(A)]);
    assert_eq!(grants.issued(B), Caps::PIN);
    grants.remove(A);
    assert_eq!(grants.issued(B), caps("pAsLsXsFscrl"));
}

#[test]
fn after_a_restart_nobody_gets_anything_before_all_have_claimed() {
    let mut grants = InodeGrants::restarted();
    grants.claim(A, CapId(1), read(), read());
    confirm(&mut grants, A, 0, 0, read(), read() | write());
    assert_eq!(reply(&mut grants, C, read()).caps, Caps::PIN);
    grants.claim(B, CapId(2), read(), read());
    assert_eq!(grants.take_effects(), []);
    grants.claims_ended();
    let effects = grants.take_effects();
    assert!(matches!(effects[..2], [Effect::Send(A, Kind::Revoke, _), Effect::Send(B, Kind::Revoke, _)]));
    effects.iter().for_each(|effect| answer(&mut grants, effect));
    assert!(grants.issued(A).intersects(Caps::FILE_WR));
}

#[test]
fn a_client_that_has_not_seen_the_last_issue_cannot_want_less() {
    let mut grants = InodeGrants::new();
    let first = reply(&mut grants, A, read());
    let second = reply(&mut grants, A, write());
    confirm(&mut grants, A, first.seq, first.seq, first.caps, Caps::NONE);
    assert_eq!(grants.wanted(A), read() | write());
    grants.release(A, CapId(1), first.seq);
    assert!(!grants.is_empty(), "the release crossed with the issue");
    confirm(&mut grants, A, second.seq, second.seq, second.caps, Caps::NONE);
    assert_eq!(grants.wanted(A), Caps::NONE);
    grants.release(A, CapId(9), second.seq);
    assert!(!grants.is_empty(), "an earlier capability");
    grants.release(A, CapId(1), second.seq);
    assert!(grants.is_empty());
}

#[test]
fn the_permitted_size_grows_with_the_file() {
    assert_eq!(max_size(0, 4 << 20), 4 << 20);
    assert_eq!(max_size(4 << 20, 4 << 20), 12 << 20);
    assert_eq!(max_size(1 << 50, 4 << 20), (1 << 50) + (4 << 30));
    assert_eq!(max_size(u64::MAX - 1, 4 << 20), u64::MAX);
    assert_eq!(max_size(5, 0), 12);
}

/// A client as the server's messages reach it: late, and in order.
#[derive(Default)]
struct Peer {
    inbox: VecDeque<Told>,
    outbox: VecDeque<(u32, Caps, Caps)>,
    issued: Caps,
    implemented: Caps,
    wanted: Caps,
    seq: u32,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Want(usize, u32),
    Hear(usize),
    Say(usize),
    Answer(usize),
    GiveBack(usize, u32),
    Hold(u32, bool),
    Unhold,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        2 => (0..3_usize, any::<u32>()).prop_map(|(who, bits)| Step::Want(who, bits)),
        4 => (0..3_usize).prop_map(Step::Hear),
        4 => (0..3_usize).prop_map(Step::Say),
        3 => (0..3_usize).prop_map(Step::Answer),
        1 => (0..3_usize, any::<u32>()).prop_map(|(who, bits)| Step::GiveBack(who, bits)),
        1 => (any::<u32>(), any::<bool>()).prop_map(|(bits, reads)| Step::Hold(bits, reads)),
        1 => Just(Step::Unhold),
    ];
    proptest::collection::vec(step, 0..200)
}

struct World {
    grants: InodeGrants,
    peers: [Peer; 3],
    held: Option<(u64, bool)>,
    holds: u64,
}

impl World {
    fn step(&mut self, step: Step) {
        let id = |who: usize| GlobalId(who as u64);
        match step {
            Step::Want(who, bits) => {
                self.peers[who].wanted = Caps(bits) & Caps::ALL;
                let told = reply(&mut self.grants, id(who), self.peers[who].wanted);
                self.peers[who].inbox.push_back(told);
            }
            Step::Hear(who) => {
                let peer = &mut self.peers[who];
                if let Some(told) = peer.inbox.pop_front() {
                    (peer.issued, peer.seq) = (told.caps, told.seq);
                    peer.implemented |= told.caps;
                }
            }
            Step::Answer(who) => {
                let peer = &mut self.peers[who];
                peer.implemented = peer.issued;
                peer.outbox.push_back((peer.seq, peer.implemented, peer.wanted));
            }
            Step::GiveBack(who, bits) => {
                let peer = &mut self.peers[who];
                peer.issued = peer.issued & Caps(bits) | Caps::PIN & peer.issued;
                peer.implemented = peer.issued;
                peer.outbox.push_back((peer.seq, peer.implemented, peer.wanted));
            }
            Step::Say(who) => {
                if let Some((seq, caps, wanted)) = self.peers[who].outbox.pop_front() {
                    confirm(&mut self.grants, id(who), seq, seq, caps, wanted);
                }
            }
            Step::Hold(bits, reads) if self.held.is_none() => {
                self.holds += 1;
                self.held = Some((self.holds, false));
                let how = if reads { Use::Read } else { Use::Change };
                self.grants.hold(HoldId(self.holds), how, Caps(bits) & Caps::ANY_SHARED);
            }
            Step::Unhold => {
                if let Some((id, _)) = self.held.take() {
                    self.grants.unhold(HoldId(id));
                }
            }
            Step::Hold(..) => {}
        }
        self.look();
    }

    fn look(&mut self) {
        for effect in self.grants.take_effects() {
            match effect {
                Effect::Send(client, _, told) => self.peers[client.0 as usize].inbox.push_back(told),
                Effect::Ready(id) => assert_eq!(self.held.replace((id.0, true)), Some((id.0, false))),
                Effect::Evict(_) => panic!("no session is stale"),
            }
        }
        for (who, peer) in self.peers.iter().enumerate() {
            let issued = self.grants.issued(GlobalId(who as u64));
            assert!(issued.contains(peer.implemented), "{who}: {:?} beyond {issued:?}", peer.implemented);
            for (other, rival) in self.peers.iter().enumerate().filter(|(other, _)| *other != who) {
                let clash = conflicts(peer.implemented) & rival.implemented;
                assert!(clash.is_empty(), "{who} and {other}: {clash:?}");
            }
        }
    }
}

proptest! {
    #[test]
    fn clients_never_have_more_than_the_server_knows_and_never_what_conflicts(steps in steps()) {
        let peers = [Peer::default(), Peer::default(), Peer::default()];
        let mut world = World { grants: InodeGrants::new(), peers, held: None, holds: 0 };
        for step in steps {
            world.step(step);
        }
        // All messages arrive, all revokes are answered: the server's own hold is ready, and every
        // client that wants to read or write may.
        if world.held.is_none() {
            world.step(Step::Hold(0, true));
        }
        for _ in 0..60 {
            for who in 0..3 {
                for step in [Step::Hear(who), Step::Answer(who), Step::Say(who), Step::Say(who)] {
                    world.step(step);
                }
            }
        }
        prop_assert!(world.held.is_some_and(|(_, ready)| ready));
        world.step(Step::Unhold);
        for _ in 0..60 {
            for who in 0..3 {
                for step in [Step::Hear(who), Step::Answer(who), Step::Say(who), Step::Say(who)] {
                    world.step(step);
                }
            }
        }
        for peer in &world.peers {
            let need = Caps::FILE_RD | Caps::FILE_WR;
            prop_assert!(peer.issued.contains(peer.wanted & need), "{:?} of {:?}", peer.issued, peer.wanted);
        }
    }
}
