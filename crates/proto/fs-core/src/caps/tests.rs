//! One inode's capabilities: by hand, and under random events.

use std::cell::Cell;
use std::time::Duration;

use loligo_types::{CapId, Caps, Ino, Rank, Tid, UTime};
use proptest::prelude::*;

use super::*;
use crate::Moment;
use crate::word::{CapWord, Class};

const READ: OpenMode = OpenMode { reads: true, writes: false, is_lazy: false };
const WRITE: OpenMode = OpenMode { reads: false, writes: true, is_lazy: false };

/// An inode with sessions to two ranks, whose effects are collected.
struct Bench {
    caps: InodeCaps,
    now: Moment,
    sessions: [Validity; 2],
    tid: Cell<u64>,
}

impl Bench {
    fn new() -> Self {
        let session = Validity { generation: 1, until: at(60) };
        Self { caps: InodeCaps::new(Ino(0x1000)), now: at(0), sessions: [session; 2], tid: Cell::new(0) }
    }

    /// Rank 0 has issued these bits with authority.
    fn with(text: &str) -> Self {
        let mut bench = Self::new();
        bench.event(|caps, view| caps.reply_cap(Rank(0), &reply(1, text, 1), view));
        bench
    }

    fn with_view<T>(&mut self, run: impl FnOnce(&mut InodeCaps, &View<'_>) -> T) -> T {
        let Self { caps, now, sessions, tid } = self;
        let validity = |rank: Rank| usize::try_from(rank.0).ok().and_then(|rank| sessions.get(rank).copied());
        let flush_tid = || {
            tid.set(tid.get() + 1);
            Tid(tid.get())
        };
        run(caps, &View { now: *now, validity: &validity, flush_tid: &flush_tid })
    }

    /// Runs an event and returns its effects, without those that only wake.
    fn event(&mut self, run: impl FnOnce(&mut InodeCaps, &View<'_>)) -> Vec<Effect> {
        self.with_view(run);
        self.caps.take_effects().into_iter().filter(|effect| *effect != Effect::Wake).collect()
    }

    fn acquire(&mut self, access: Access) -> Option<Hold> {
        match self.with_view(|caps, view| caps.acquire(access, view)) {
            Acquired::Now(hold) => Some(hold),
            Acquired::Wait => None,
        }
    }

    /// Lets the state look at the time.
    fn tick(&mut self) -> Vec<Effect> {
        self.event(|caps, view| {
            caps.tick(view);
        })
    }

    /// A request gives parts back.
    fn give(&mut self, parts: &str, unless: &str) -> Returned {
        let [parts, unless] = [parts, unless].map(caps);
        let returned = self.with_view(|inode, view| inode.give_with_request(Rank(0), parts, unless, view));
        returned.expect("a capability")
    }

    fn grant(&mut self, text: &str, seq: u32) -> Vec<Effect> {
        self.event(|caps, view| caps.grant(Rank(0), &grant(text, seq), view))
    }
}

fn at(s: u64) -> Moment {
    Moment(Duration::from_secs(s))
}

fn caps(text: &str) -> Caps {
    text.parse().expect("capabilities")
}

fn reply(id: u64, text: &str, seq: u32) -> ReplyCap {
    let wanted = Caps::NONE;
    ReplyCap { cap_id: CapId(id), caps: caps(text), wanted, seq, mseq: 0, is_auth: true }
}

fn grant(text: &str, seq: u32) -> Grant {
    let wanted = READ.wanted() | WRITE.wanted();
    Grant { cap_id: CapId(1), caps: caps(text), wanted, seq, mseq: 0, is_revoke: false }
}

/// The updates among effects.
fn updates(effects: &[Effect]) -> Vec<Update> {
    let updates = effects.iter().filter_map(|effect| match effect {
        Effect::SendUpdate(update) => Some(*update),
        _ => None,
    });
    updates.collect()
}

#[test]
fn a_revoke_is_answered_when_operations_cache_and_buffer_are_done() {
    let mut bench = Bench::with("pAsxLsXsxFsxcrwb");
    let read = bench.acquire(Access::Read).expect("a read");
    let write = bench.acquire(Access::Write).expect("a write");
    assert!(read.is_local() && write.is_local());
    bench.caps.buffered();
    assert_eq!(updates(&bench.grant("pAsLsXsFr", 2)), [], "everything is in use");
    assert_eq!(bench.acquire(Access::Read), None, "Fc is being revoked");
    assert_eq!(bench.acquire(Access::Write), None);
    assert_eq!(bench.event(|caps, view| caps.put(&read, view)), [Effect::DropCache]);
    assert_eq!(bench.event(|caps, view| caps.put(&write, view)), [Effect::FlushData]);
    assert_eq!(bench.event(|caps, view| caps.cache_dropped(view)), []);
    let answer = updates(&bench.event(|caps, view| caps.data_flushed(view)));
    assert_eq!(answer.len(), 1);
    assert_eq!((answer[0].caps, answer[0].seq, answer[0].dirty), (caps("pAsLsXsFr"), 2, Caps::NONE));
    assert!(bench.caps.revoking().is_empty());
    assert!(bench.acquire(Access::Read).is_some_and(|read| !read.is_local()));
}

/// Goal: a server that has asked for what was on its way back need not wait for ever. Stock servers wait for
/// the answer to that message.
#[test]
fn a_revoke_of_what_was_returned_already_is_answered() {
    let mut bench = Bench::with("pAsLsXsFs");
    let given = bench.give("As", "-");
    assert_eq!((given.given, given.caps, given.seq), (caps("As"), caps("pLsXsFs"), 1));
    let revoke = Grant { is_revoke: true, ..grant("pLsXsFs", 2) };
    let answer = updates(&bench.event(|caps, view| caps.grant(Rank(0), &revoke, view)));
    assert_eq!(answer.iter().map(|update| (update.seq, update.caps)).collect::<Vec<_>>(), [(2, given.caps)]);
    assert_eq!(updates(&bench.event(|caps, view| caps.check(view))), [], "once is enough");
}

/// Goal: a request that changes an inode takes with it what its server would ask for, but nothing in use.
#[test]
fn a_request_gives_back_what_it_spoils() {
    let mut bench = Bench::with("pAsLsxXsFscr");
    let read = bench.acquire(Access::Read).expect("a read");
    let given = bench.give("LsxFscr", "-");
    assert_eq!((given.given, given.caps), (caps("LsxFs"), caps("pAsXsFcr")));
    assert_eq!(bench.event(|caps, view| caps.put(&read, view)), []);
    assert_eq!(bench.give("Ls", "-").given, Caps::NONE, "it is gone");
    let mut bench = Bench::with("pAsLsXsFsx");
    bench.event(|caps, _| caps.named());
    assert_eq!(bench.give("Fs", "Fx").given, Caps::NONE, "the server lets a client with Fx change names");
    bench.grant("pAsLsXsFs", 2);
    let returned = bench.give("Fs", "Fx");
    assert_eq!((returned.given, returned.seq), (caps("Fs"), 2));
    assert_eq!(bench.caps.issued(), caps("pAsLsXs"));
    assert!(bench.event(|_, _| ()).contains(&Effect::ForgetNames), "nothing vouches for names");
    assert_eq!(
        bench.with_view(|inode, view| inode.give_with_request(Rank(1), caps("Fs"), Caps::NONE, view)),
        None
    );
}

/// Goal: what is changed and not acknowledged is not given away with a request.
#[test]
fn unsaved_changes_keep_their_capability() {
    let mut bench = Bench::with("pAsxLsXsFs");
    assert!(bench.with_view(|inode, view| inode.changed(Caps::AUTH_EXCL, view)));
    assert_eq!(bench.give("Asx", "-").given, caps("As"));
}

/// Goal: a client that waits for returned capabilities does not wait for the server's next look at its log.
#[test]
fn the_return_of_what_lets_a_client_write_is_urgent() {
    let mut bench = Bench::with("pAsxLsXsxFsxcrwb");
    bench.event(|caps, view| caps.opened(READ, view));
    let answer = updates(&bench.grant("pAsLsXsxFsxcrwb", 2));
    assert_eq!(answer.iter().map(|update| update.is_urgent).collect::<Vec<_>>(), [false]);
    let answer = updates(&bench.grant("pAsLsXsFscr", 3));
    assert_eq!(answer.iter().map(|update| update.is_urgent).collect::<Vec<_>>(), [true]);
}

/// Goal: a server that asks for one part of what nobody needs here need not ask for the others.
#[test]
fn what_nobody_needs_goes_back_with_what_is_revoked() {
    for is_opened in [false, true] {
        let mut bench = Bench::with("pAsxLsXsxFsxcrwb");
        if is_opened {
            bench.event(|caps, view| caps.opened(READ, view));
        }
        let answer = updates(&bench.grant("pAsLsXsxFsxcrwb", 2));
        let left = if is_opened { "pAsLsXsxFsxcrwb" } else { "pAsLsXsFscr" };
        let answer: Vec<_> = answer.iter().map(|update| (update.caps, update.is_urgent)).collect();
        assert_eq!(answer, [(caps(left), !is_opened)]);
    }
}

/// Goal: what a server issues with a new file and nothing uses goes back by itself; what is used by then
/// stays.
#[test]
fn what_a_server_issues_unasked_goes_back_after_the_delay() {
    for is_opened in [false, true] {
        let mut bench = Bench::with("pAsxLsXsxFsxcrwb");
        if is_opened {
            bench.event(|caps, view| caps.opened(WRITE, view));
        }
        bench.now = at(4);
        let early = bench.tick();
        bench.now = at(5);
        let returned = updates(&bench.tick());
        let returned: Vec<Caps> = returned.iter().map(|update| update.caps).collect();
        let left = if is_opened { vec![] } else { vec![caps("pAsLsXsFs")] };
        assert_eq!((updates(&early), returned), (Vec::new(), left), "opened: {is_opened}");
    }
    let mut cached = Bench::with("pAsxLsXsxFsxcrwb");
    let read = cached.acquire(Access::Read).expect("a read");
    cached.event(|caps, view| caps.put(&read, view));
    cached.now = at(5);
    let returned: Vec<Caps> = updates(&cached.tick()).iter().map(|update| update.caps).collect();
    assert_eq!(returned, [caps("pAsLsXsFscr")], "what is cached stays");
    let mut reader = Bench::with("pAsLsXsFscr");
    reader.now = at(5);
    assert_eq!(reader.tick(), [], "it keeps nobody from anything");
}

#[test]
fn a_revoke_is_answered_while_the_session_s_time_is_over() {
    let mut bench = Bench::with("pFscr");
    bench.now = at(61);
    assert_eq!(bench.acquire(Access::Read), None, "nothing is trusted now");
    let answer = updates(&bench.grant("pFs", 2));
    assert_eq!(answer.iter().map(|update| update.caps).collect::<Vec<_>>(), [caps("pFs")]);
}

#[test]
fn data_cached_before_a_session_was_stale_is_dropped_even_if_fc_comes_back_at_once() {
    let mut bench = Bench::with("pFscr");
    let read = bench.acquire(Access::Read).expect("a read");
    bench.event(|caps, view| caps.put(&read, view));
    bench.sessions[0].generation = 2;
    assert_eq!(bench.acquire(Access::Read), None);
    assert!(bench.grant("pFscr", 2).contains(&Effect::DropCache));
    assert!(bench.acquire(Access::Read).is_some_and(|read| !read.is_local()), "the cache is not empty yet");
    bench.event(|caps, view| caps.cache_dropped(view));
    assert!(bench.acquire(Access::Read).is_some_and(|read| read.is_local()));
}

#[test]
fn a_revoke_that_is_not_answered_when_the_session_is_stale_is_answered_then() {
    let mut bench = Bench::with("pFscr");
    let read = bench.acquire(Access::Read).expect("a read");
    bench.event(|caps, view| caps.put(&read, view));
    assert_eq!(bench.grant("pFsr", 2), [Effect::DropCache]);
    bench.sessions[0].generation = 2;
    let answer = updates(&bench.event(|caps, view| caps.cache_dropped(view)));
    assert_eq!(answer.iter().map(|update| (update.caps, update.seq)).collect::<Vec<_>>(), [(Caps::PIN, 2)]);
}

#[test]
fn buffered_data_of_a_stale_session_is_flushed_and_keeps_its_capability() {
    let mut bench = Bench::with("pFscrwb");
    let write = bench.acquire(Access::Write).expect("a write");
    bench.caps.buffered();
    bench.event(|caps, view| caps.put(&write, view));
    bench.sessions[0].generation = 2;
    assert!(bench.grant("pFs", 2).contains(&Effect::FlushData));
    assert!(bench.caps.implemented().contains(Caps::FILE_BUFFER));
    let answer = updates(&bench.event(|caps, view| caps.data_flushed(view)));
    assert_eq!(answer.iter().map(|update| update.caps).collect::<Vec<_>>(), [caps("pFs")]);
}

#[test]
fn changed_attributes_keep_their_capability_until_they_are_durable() {
    let mut bench = Bench::with("pAsxFsxcrwb");
    assert!(bench.with_view(|caps, view| caps.changed(Caps::AUTH_EXCL, view)));
    assert!(!bench.with_view(|caps, view| caps.changed(Caps::XATTR_EXCL, view)), "Xx is not held");
    bench.caps.take_effects();
    let flush = updates(&bench.grant("pAsFscr", 2));
    assert_eq!(flush.len(), 1);
    assert_eq!((flush[0].dirty, flush[0].flush_tid), (Caps::AUTH_EXCL, Some(Tid(1))));
    assert!(flush[0].caps.contains(Caps::AUTH_EXCL) && flush[0].is_urgent);
    assert_eq!(bench.event(|caps, view| caps.flush_ack(Rank(0), Tid(7), view)), []);
    let answer = updates(&bench.event(|caps, view| caps.flush_ack(Rank(0), Tid(1), view)));
    assert_eq!(answer.iter().map(|update| update.caps).collect::<Vec<_>>(), [caps("pAsFscr")]);
    assert!(bench.caps.is_clean());
}

#[test]
fn what_another_rank_has_issued_too_does_not_keep_a_revoke_from_being_answered() {
    let mut bench = Bench::with("pFscr");
    let replica = ReplyCap { is_auth: false, ..reply(2, "pFsr", 1) };
    bench.event(|caps, view| caps.reply_cap(Rank(1), &replica, view));
    let read = bench.acquire(Access::Read).expect("a read");
    bench.event(|caps, view| caps.put(&read, view));
    bench.event(|caps, view| caps.cache_dropped(view));
    let read = bench.acquire(Access::Read).expect("a read");
    bench.grant("pFs", 2);
    assert_eq!(bench.acquire(Access::Read), None, "rank 0 waits for the read before");
    bench.event(|caps, view| caps.put(&read, view));
    bench.event(|caps, view| caps.cache_dropped(view));
    assert!(bench.caps.revoking().is_empty());
    assert!(bench.acquire(Access::Read).is_some_and(|read| !read.is_local()), "rank 1 has issued it");
}

#[test]
fn a_void_capability_is_asked_for_again() {
    let mut bench = Bench::with("pFscr");
    bench.sessions[0].generation = 2;
    let asked = updates(&bench.event(|caps, view| caps.wait(Access::Read, true, view)));
    assert_eq!(asked.iter().map(|update| update.wanted).collect::<Vec<_>>(), [READ.wanted()]);
}

#[test]
fn an_operation_that_goes_to_the_store_waits_for_what_this_client_has_buffered() {
    let mut bench = Bench::with("pFscrwb");
    let write = bench.acquire(Access::Write).expect("a write");
    bench.caps.buffered();
    bench.event(|caps, view| caps.put(&write, view));
    bench.grant("pFrw", 2);
    bench.caps.take_effects();
    assert_eq!(bench.acquire(Access::Read), None);
    bench.event(|caps, view| caps.data_flushed(view));
    assert!(bench.acquire(Access::Read).is_some_and(|read| !read.is_local()));
}

#[test]
fn a_write_to_the_store_does_not_leave_an_old_cache() {
    let mut bench = Bench::with("pFscrw");
    let read = bench.acquire(Access::Read).expect("a read");
    bench.event(|caps, view| caps.put(&read, view));
    assert_eq!(bench.acquire(Access::Write), None);
    assert_eq!(bench.caps.take_effects(), [Effect::Wake, Effect::DropCache].as_slice()[1..]);
    bench.event(|caps, view| caps.cache_dropped(view));
    let write = bench.acquire(Access::Write).expect("a write");
    assert!(bench.acquire(Access::Read).is_some_and(|read| !read.is_local()), "it would be cached");
    bench.event(|caps, view| caps.put(&write, view));
}

#[test]
fn unused_capabilities_go_back_after_a_delay() {
    let mut bench = Bench::with("pAsxLsXsxFsxcrwb");
    assert_eq!(bench.event(|caps, view| caps.opened(WRITE, view)), [], "all of it is issued");
    assert_eq!(bench.event(|caps, view| caps.closed(WRITE, view)), []);
    bench.now = at(4);
    assert_eq!(bench.with_view(|caps, view| caps.tick(view)), Some(at(5)));
    assert_eq!(bench.caps.take_effects(), []);
    bench.now = at(5);
    assert_eq!(bench.with_view(|caps, view| caps.tick(view)), None);
    let back = updates(&bench.caps.take_effects());
    assert_eq!(back.len(), 1);
    assert_eq!((back[0].caps, back[0].wanted), (caps("pAsLsXsFs"), Caps::NONE));
    assert_eq!(bench.caps.issued(), caps("pAsLsXsFs"));
}

#[test]
fn an_idle_inode_is_released_after_its_cache() {
    let mut bench = Bench::with("pAsFscr");
    let read = bench.acquire(Access::Read).expect("a read");
    assert!(!bench.caps.release());
    bench.event(|caps, view| caps.put(&read, view));
    assert!(!bench.caps.release());
    assert_eq!(bench.caps.take_effects(), [Effect::DropCache]);
    bench.event(|caps, view| caps.cache_dropped(view));
    assert!(bench.caps.release());
    let release = Release { rank: Rank(0), cap_id: CapId(1), mseq: 0, issue_seq: 1 };
    assert_eq!(bench.caps.take_effects(), [Effect::SendRelease(release)]);
    assert_eq!(bench.grant("pFs", 2).len(), 1, "a grant that crossed is answered by a release");
}

#[test]
fn a_migration_may_show_either_end_first() {
    let export = |peer_seq| Export {
        cap_id: CapId(1),
        mseq: 0,
        peer: Some(Peer { rank: Rank(1), cap_id: CapId(9), seq: peer_seq, mseq: 1 }),
    };
    let import = Import {
        cap: ReplyCap { mseq: 1, ..reply(9, "pAsFscr", 5) },
        peer: Some(Peer { rank: Rank(0), cap_id: CapId(1), seq: 1, mseq: 0 }),
    };
    for export_first in [true, false] {
        let mut bench = Bench::with("pAsxFscr");
        assert!(bench.with_view(|caps, view| caps.changed(Caps::AUTH_EXCL, view)));
        bench.event(|caps, view| caps.flush(view));
        let mut effects = Vec::new();
        if export_first {
            bench.event(|caps, view| caps.export(Rank(0), &export(5), view));
            effects.extend(bench.event(|caps, view| caps.import(Rank(1), &import, view)));
        } else {
            effects.extend(bench.event(|caps, view| caps.import(Rank(1), &import, view)));
            bench.event(|caps, view| caps.export(Rank(0), &export(5), view));
        }
        assert_eq!(bench.caps.ranks().collect::<Vec<_>>(), [Rank(1)]);
        assert_eq!(bench.caps.auth(), Some(Rank(1)));
        assert!(bench.caps.issued().contains(caps("pAsFscr")));
        let again = updates(&effects);
        assert!(again.iter().any(|update| update.rank == Rank(1) && update.flush_tid == Some(Tid(1))));
        bench.event(|caps, view| caps.flush_ack(Rank(1), Tid(1), view));
        assert!(bench.caps.is_clean());
    }
}

#[test]
fn after_a_restart_what_was_being_revoked_is_claimed_and_flushes_are_sent_again() {
    let mut bench = Bench::with("pAsxFscrwb");
    let write = bench.acquire(Access::Write).expect("a write");
    bench.caps.buffered();
    assert!(bench.with_view(|caps, view| caps.changed(Caps::AUTH_EXCL, view)));
    bench.grant("pFs", 2);
    bench.sessions[0].generation = 2;
    let claim = bench.with_view(|caps, view| caps.reconnect(Rank(0), 1, view)).expect("a claim");
    assert!(claim.issued.contains(caps("pAxFwb")), "{:?}", claim.issued);
    bench.caps.take_effects();
    let sent = updates(&bench.event(|caps, view| caps.reconnected(Rank(0), view)));
    assert_eq!((sent[0].flush_tid, sent[0].seq), (Some(Tid(1)), 0));
    assert!(bench.caps.revoking().is_empty(), "the server that revoked is gone");
    bench.event(|caps, view| caps.put(&write, view));
}

#[test]
fn of_a_void_capability_only_what_changes_is_claimed() {
    let mut bench = Bench::with("pAsFscrwb");
    let read = bench.acquire(Access::Read).expect("a read");
    let write = bench.acquire(Access::Write).expect("a write");
    bench.sessions[0].generation = 3;
    let claim = bench.with_view(|caps, view| caps.reconnect(Rank(0), 2, view)).expect("a claim");
    assert_eq!(claim.issued, caps("pFwb"));
    bench.event(|caps, view| caps.put(&read, view));
    bench.event(|caps, view| caps.put(&write, view));
}

#[test]
fn a_lost_session_says_what_is_lost() {
    let mut bench = Bench::with("pAsxFscrwb");
    let write = bench.acquire(Access::Write).expect("a write");
    bench.caps.buffered();
    bench.event(|caps, view| caps.put(&write, view));
    assert!(bench.with_view(|caps, view| caps.changed(Caps::AUTH_EXCL, view)));
    let lost = Effect::Lost(Lost { dirty: Caps::AUTH_EXCL, has_data: true });
    assert!(bench.event(|caps, view| caps.lost(Rank(0), view)).contains(&lost));
    assert!(bench.caps.is_clean() && bench.caps.issued().is_empty());
}

#[test]
fn a_directory_is_complete_while_fs_is_held() {
    let mut bench = Bench::with("pFs");
    assert!(bench.with_view(|caps, view| caps.completed(view)));
    assert!(bench.with_view(|caps, view| caps.is_complete(view)));
    assert!(bench.grant("pAs", 2).contains(&Effect::ForgetNames));
    bench.grant("pAsFs", 3);
    assert!(!bench.with_view(|caps, view| caps.is_complete(view)));
}

#[test]
fn names_are_forgotten_whenever_fs_was_away() {
    let complete = || {
        let mut bench = Bench::with("pFs");
        assert!(bench.with_view(|caps, view| caps.completed(view)));
        bench
    };
    let forgets = |effects: &[Effect]| effects.contains(&Effect::ForgetNames);
    let mut bench = complete();
    bench.sessions[0].generation = 2;
    assert!(forgets(&bench.grant("pFs", 2)), "it was stale, and Fs is back at once");
    let mut bench = complete();
    bench.caps.incomplete();
    assert!(!bench.with_view(|caps, view| caps.is_complete(view)));
    assert!(forgets(&bench.grant("p", 2)), "some names are remembered still");
    assert!(!forgets(&bench.grant("pFs", 3)) && !forgets(&bench.grant("p", 4)), "no name is remembered");
    let mut bench = complete();
    let another = reply(7, "pFs", 1);
    assert!(forgets(&bench.event(|caps, view| caps.reply_cap(Rank(0), &another, view))));
    let mut bench = complete();
    assert!(bench.caps.release() && forgets(&bench.caps.take_effects()));
    let mut bench = complete();
    bench.sessions[0].generation = 2;
    bench.with_view(|caps, view| caps.reconnect(Rank(0), 1, view)).expect("a claim");
    assert!(forgets(&bench.caps.take_effects()), "the server that vouched for them is gone");
}

#[test]
fn who_changes_a_directory_that_it_knows_wants_it_for_itself() {
    let mut bench = Bench::with("pFs");
    assert_eq!(bench.event(|caps, view| caps.change_names(view)), [], "it does not know all names");
    let asked = updates(&bench.event(|caps, view| {
        assert!(caps.completed(view));
    }));
    let wanted = Caps::FILE_SHARED | Caps::FILE_EXCL;
    assert_eq!(asked.iter().map(|update| update.wanted).collect::<Vec<_>>(), [wanted]);
    let mut reader = Bench::with("pFs");
    assert_eq!(
        reader.event(|caps, view| {
            assert!(caps.completed(view));
        }),
        []
    );
}

#[test]
fn a_larger_size_is_asked_for_once() {
    let mut bench = Bench::with("pFsxcrwb");
    let asked = updates(&bench.event(|caps, view| caps.want_max_size(1 << 20, view)));
    assert_eq!(asked.iter().map(|update| update.max_size).collect::<Vec<_>>(), [1 << 20]);
    assert_eq!(updates(&bench.event(|caps, view| caps.want_max_size(4096, view))), []);
    bench.caps.max_size_granted(1 << 22);
    assert_eq!(updates(&bench.event(|caps, view| caps.check(view))), []);
}

/// An event as the owner of a word runs it.
fn with_word(
    bench: &mut Bench,
    word: &CapWord,
    takes: Caps,
    run: impl FnOnce(&mut InodeCaps, &View<'_>),
) -> Vec<Effect> {
    let _drained = word.revoke(takes);
    let effects = bench.event(|caps, view| {
        caps.outside(word.busy());
        run(caps, view);
    });
    let held = bench.with_view(|caps, view| caps.publishable(view));
    word.publish(held, bench.sessions[0].generation);
    effects
}

#[test]
fn a_revoke_is_answered_after_the_operations_of_the_word() {
    let (mut bench, word) = (Bench::new(), CapWord::new());
    let all = reply(1, "pFscrwb", 1);
    with_word(&mut bench, &word, Caps::NONE, |caps, view| caps.reply_cap(Rank(0), &all, view));
    assert_eq!(word.usable(), caps("Fcrwb"));
    assert_eq!(word.try_ref(Class::CachedRead, 1), Ok(()));
    assert_eq!(word.try_ref(Class::BufferedWrite, 1), Ok(()));
    bench.caps.buffered();
    let revoke = grant("pFr", 2);
    let takes = caps("Fcwb");
    let effects = with_word(&mut bench, &word, takes, |caps, view| caps.grant(Rank(0), &revoke, view));
    assert_eq!(effects, [], "both operations use what is revoked");
    assert_eq!(word.usable(), Caps::NONE, "Fr would read from the store what is buffered here");
    for (class, drained, effect) in [
        (Class::CachedRead, caps("Fcr"), Effect::DropCache),
        (Class::BufferedWrite, caps("Fwb"), Effect::FlushData),
    ] {
        assert_eq!(word.put(class), drained);
        let effects = with_word(&mut bench, &word, Caps::NONE, |caps, view| caps.check(view));
        assert_eq!(effects, [effect]);
    }
    with_word(&mut bench, &word, Caps::NONE, |caps, view| caps.cache_dropped(view));
    let answer = with_word(&mut bench, &word, Caps::NONE, |caps, view| caps.data_flushed(view));
    assert_eq!(updates(&answer).iter().map(|update| update.caps).collect::<Vec<_>>(), [caps("pFr")]);
    assert_eq!(word.usable(), caps("Fr"));
}

#[test]
fn the_word_never_writes_to_the_store_beside_a_cache() {
    let (mut bench, word) = (Bench::new(), CapWord::new());
    let cap = reply(1, "pFscrw", 1);
    with_word(&mut bench, &word, Caps::NONE, |caps, view| caps.reply_cap(Rank(0), &cap, view));
    assert_eq!(word.usable(), caps("Frw"));
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Grant(u32),
    Reply(u32),
    Acquire(bool),
    Put(usize),
    Dropped,
    Flushed,
    Changed(u32),
    Flush,
    Ack,
    Stale,
    Pass(u64),
    Tick,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => any::<u32>().prop_map(Step::Grant),
        1 => any::<u32>().prop_map(Step::Reply),
        4 => any::<bool>().prop_map(Step::Acquire),
        3 => (0..6_usize).prop_map(Step::Put),
        2 => Just(Step::Dropped),
        2 => Just(Step::Flushed),
        1 => any::<u32>().prop_map(Step::Changed),
        1 => Just(Step::Flush),
        2 => Just(Step::Ack),
        1 => Just(Step::Stale),
        1 => (0..20_u64).prop_map(Step::Pass),
        1 => Just(Step::Tick),
    ];
    proptest::collection::vec(step, 0..150)
}

/// A run with random events, and what the owner of the state knows.
struct Run {
    bench: Bench,
    holds: Vec<Hold>,
    seq: u32,
    drops: u32,
    flushes: u32,
    tids: Vec<Tid>,
}

impl Run {
    fn step(&mut self, step: Step) {
        let bench = &mut self.bench;
        match step {
            Step::Grant(bits) => {
                self.seq += 1;
                let caps = Caps(bits) & Caps::ALL | Caps::PIN;
                let grant = Grant { caps, ..grant("p", self.seq) };
                bench.with_view(|inode, view| inode.grant(Rank(0), &grant, view));
            }
            Step::Reply(bits) => {
                self.seq += 1;
                let caps = Caps(bits) & Caps::ALL | Caps::PIN;
                let reply = ReplyCap { caps, ..reply(1, "p", self.seq) };
                bench.with_view(|inode, view| inode.reply_cap(Rank(0), &reply, view));
            }
            Step::Acquire(writes) => {
                let access = if writes { Access::Write } else { Access::Read };
                let trusted = bench.with_view(|inode, view| inode.trusted(view));
                let revoking = bench.caps.revoking();
                if let Some(hold) = bench.acquire(access) {
                    let uses = if hold.is_local() { access.need() | access.want() } else { access.need() };
                    assert!(trusted.contains(uses) && !revoking.intersects(uses));
                    if hold.is_local() && writes {
                        bench.caps.buffered();
                    }
                    self.holds.push(hold);
                }
            }
            Step::Put(which) if which < self.holds.len() => {
                let hold = self.holds.swap_remove(which);
                bench.with_view(|inode, view| inode.put(&hold, view));
            }
            Step::Dropped if self.drops > 0 => {
                self.drops -= 1;
                bench.with_view(|inode, view| inode.cache_dropped(view));
            }
            Step::Flushed if self.flushes > 0 => {
                self.flushes -= 1;
                bench.with_view(|inode, view| inode.data_flushed(view));
            }
            Step::Changed(bits) => {
                bench.with_view(|inode, view| inode.changed(Caps(bits) & Caps::ANY_WR, view));
            }
            Step::Flush => bench.with_view(|inode, view| inode.flush(view)),
            Step::Ack => {
                if let Some(tid) = self.tids.pop() {
                    bench.with_view(|inode, view| inode.flush_ack(Rank(0), tid, view));
                }
            }
            Step::Stale => bench.sessions[0].generation += 1,
            Step::Pass(s) => {
                bench.now = bench.now + Duration::from_secs(s);
                bench.sessions[0].until = bench.now + Duration::from_secs(s % 3);
            }
            Step::Tick => {
                bench.with_view(|inode, view| inode.tick(view));
            }
            Step::Put(_) | Step::Dropped | Step::Flushed => {}
        }
        self.look();
    }

    /// Takes the effects, and checks what must hold after each event.
    fn look(&mut self) {
        let inode = &mut self.bench.caps;
        let in_use = inode.used() | inode.unacknowledged();
        for effect in inode.take_effects() {
            match effect {
                Effect::SendUpdate(update) => {
                    assert!(update.caps.contains(in_use & inode.implemented()), "nothing in use is returned");
                    assert!(update.flush_tid.is_some() || update.dirty.is_empty());
                    self.tids.extend(update.flush_tid);
                }
                Effect::DropCache => {
                    assert!(!self.holds.iter().any(|hold| hold.access() == Access::Read && hold.is_local()));
                    self.drops += 1;
                }
                Effect::FlushData => {
                    assert!(!self.holds.iter().any(|hold| hold.access() == Access::Write && hold.is_local()));
                    self.flushes += 1;
                }
                Effect::Lost(_) => panic!("no session was lost"),
                Effect::SendRelease(_) | Effect::ForgetNames | Effect::Wake => {}
            }
        }
        assert!(self.drops <= 1 && self.flushes <= 1, "one at a time");
        assert!(inode.implemented().contains(inode.issued()));
        let trusted = self.bench.with_view(|inode, view| inode.trusted(view));
        assert!(self.bench.caps.issued().contains(trusted));
    }
}

proptest! {
    #[test]
    fn what_is_in_use_is_never_returned_and_every_revoke_is_answered(steps in steps()) {
        let mut run =
            Run { bench: Bench::with("p"), holds: Vec::new(), seq: 1, drops: 0, flushes: 0, tids: Vec::new() };
        for step in steps {
            run.step(step);
        }
        // The server takes everything, and the client's work ends.
        run.step(Step::Grant(0));
        while !run.holds.is_empty() {
            run.step(Step::Put(0));
        }
        for _ in 0..4 {
            for step in [Step::Dropped, Step::Flushed, Step::Ack, Step::Ack, Step::Ack, Step::Ack] {
                run.step(step);
            }
            while !run.tids.is_empty() {
                run.step(Step::Ack);
            }
        }
        prop_assert!(run.bench.caps.revoking().is_empty(), "{:?}", run.bench.caps);
        prop_assert!(run.bench.caps.used().is_empty());
        prop_assert!(run.bench.caps.is_clean());
    }
}

fn time(sec: u32) -> UTime {
    UTime { sec, nsec: 0 }
}

fn news(caps: &str, attrs: InodeAttrs<u8>) -> InodeNews<u8> {
    InodeNews { caps: self::caps(caps), is_auth: true, attrs, has_xattrs: false }
}

#[test]
fn an_unknown_inode_takes_everything() {
    let theirs = InodeAttrs {
        version: 4,
        mode: 0o100_644,
        nlink: 2,
        size: 9,
        truncate_seq: 1,
        modified: time(7),
        layout: 3,
        ..Default::default()
    };
    let mut attrs = InodeAttrs::default();
    attrs.merge(&news("pAsLsXsFs", theirs.clone()), Caps::NONE);
    assert_eq!(attrs, theirs);
}

#[test]
fn what_the_client_may_change_itself_is_not_overwritten() {
    let ours = InodeAttrs { version: 4, mode: 1, nlink: 1, xattr_version: 2, ..Default::default() };
    let theirs = InodeAttrs { version: 9, mode: 2, nlink: 2, xattr_version: 3, ..Default::default() };
    let mut with_all = ours.clone();
    let told = InodeNews { has_xattrs: true, ..news("pAsLsXs", theirs.clone()) };
    with_all.merge(&told, caps("pAsxLsxXsx"));
    assert_eq!((with_all.mode, with_all.nlink, with_all.xattr_version), (1, 1, 2));
    let mut with_none = ours.clone();
    with_none.merge(&told, Caps::NONE);
    assert_eq!((with_none.mode, with_none.nlink, with_none.xattr_version), (2, 2, 3));
    let mut older = ours.clone();
    older.merge(&news("p", InodeAttrs { version: 3, ..theirs }), caps("pAsLs"));
    assert_eq!(older.mode, 1, "an older version without new bits tells nothing");
}

#[test]
fn a_size_only_grows_unless_the_file_was_truncated() {
    let mut attrs = InodeAttrs { size: 100, truncate_seq: 2, ..InodeAttrs::<u8>::default() };
    assert_eq!(attrs.merge_size(50, 2, 0), None);
    assert_eq!(attrs.size, 100);
    assert_eq!(attrs.merge_size(300, 2, 0), None);
    assert_eq!(attrs.size, 300);
    assert_eq!(attrs.merge_size(80, 3, 40), Some(40), "cut to 40, and grown since");
    assert_eq!((attrs.size, attrs.truncate_size), (80, 40));
    assert_eq!(attrs.merge_size(500, 1, 7), None);
    assert_eq!((attrs.size, attrs.truncate_size), (80, 40));
}

#[test]
fn times_of_a_writer_only_move_forward_unless_they_were_set() {
    let ours = InodeAttrs { version: 2, modified: time(10), changed: time(10), ..Default::default() };
    let theirs = |modified, warp| InodeAttrs::<u8> {
        version: 3,
        modified: time(modified),
        changed: time(modified),
        time_warp_seq: warp,
        ..Default::default()
    };
    let merged = |theirs, issued: &str| {
        let mut attrs = ours.clone();
        attrs.merge(&news("pFs", theirs), caps(issued));
        (attrs.modified, attrs.changed)
    };
    assert_eq!(merged(theirs(5, 0), "pFsxw"), (time(10), time(10)));
    assert_eq!(merged(theirs(15, 0), "pFsxw"), (time(15), time(15)));
    assert_eq!(merged(theirs(5, 1), "pFsxw"), (time(5), time(10)), "somebody has set them");
    assert_eq!(merged(theirs(5, 0), "pFs"), (time(5), time(5)));
}
