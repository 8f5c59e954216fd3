//! The pages that the kernel has of one file's data, and when it must drop them.
//!
//! The kernel keeps what programs read through descriptors that were opened to read while the client held Fc,
//! and what they have mapped. Dropping a page waits in the kernel for the page's lock. A request may hold
//! that lock while it waits for this program: a READ that fills the page, a WRITE that empties it. Such a
//! request may wait for a metadata server, the server for this client's answer to a revoke, and the answer
//! for the page. These rules break the circle, and keep reads right:
//!
//! 1. The kernel is told of the loss of Fc at once, by a message that waits for nothing: from then on each
//!    read asks for the attributes first (`FUSE_AUTO_INVAL_DATA`), until this program lets the kernel believe
//!    them again. It does so only while Fc is held and no page is bad ([`Pages::must_go`]).
//! 2. The request for attributes is answered when the pages are dropped that were bad before it
//!    ([`Pages::settled`]). The kernel holds no page's lock for it.
//! 3. A page that is filled without Fc is bad from the beginning. It is dropped soon, and before a read may
//!    use it, by the first two rules.
//! 4. The answer to a revoke of Fc waits until the pages are dropped, so that mappings are as new as reads.
//!    But it never waits while another request about the file waits in this program ([`Pages::waits`]).
//!
//! So a read that begins after the answer finds no page from before it: by the first three rules, whether or
//! not the answer has waited. A read that began earlier is as old as its page. Where the answer has not
//! waited, a mapping shows for a moment what another client has overwritten.
//!
//! Every wait ends. A drop waits for requests. A request waits for servers, but for that of the second rule,
//! for which nothing else waits. A server waits for an answer, and an answer for a drop only as long as no
//! request about the file waits. The kernel may keep a request back for which the drop waits, while too many
//! of other files are in progress: the client bounds its wait for that.

use std::sync::Arc;

use loligo_fs::WhenDone;
use loligo_lockstat::{Class, Mutex};
use tokio::sync::Notify;

/// Held to note what begins and ends: a read that may fill pages, a write, a drop, a request that waits.
/// Never while the kernel is told or the client is asked. Each request about the file takes it a few times,
/// and calls the kernel for much longer.
static PAGES: Class = Class::new("fuse.pages");

/// What the kernel may have of a file's data.
pub(crate) struct Pages {
    work: Mutex<Work>,
    dropped: Notify,
}

#[derive(Default)]
struct Work {
    /// There may be pages.
    has: bool,
    /// There may be pages that must not be used.
    is_bad: bool,
    /// Reads that may have filled pages: how many have begun, and how many are in progress.
    begun: u64,
    filling: u64,
    /// A thread drops the pages, or is about to.
    is_running: bool,
    /// It does so once more.
    again: bool,
    /// Drops that have ended.
    ended: u64,
    /// Requests about the file that wait in this program.
    waiting: u32,
    /// Answers to servers, each with the number of the drop that it waits for.
    answers: Vec<(u64, WhenDone)>,
}

impl Work {
    /// Returns the number of the first drop that begins from now on, and whether a thread must be started.
    fn next(&mut self) -> (u64, bool) {
        let was_running = std::mem::replace(&mut self.is_running, true);
        self.again = was_running;
        (self.ended + 1 + u64::from(was_running), !was_running)
    }

    /// As [`Pages::spoil`].
    fn spoil(&mut self) -> bool {
        self.has && !std::mem::replace(&mut self.is_bad, true)
    }

    /// Whether there are pages that must not be used and that nobody has begun to drop.
    fn has_bad(&self, may_be_kept: bool) -> bool {
        self.is_bad || (self.has && !may_be_kept)
    }
}

/// A read that may fill pages, in progress.
pub(crate) struct Filling<'p>(&'p Pages);

impl Drop for Filling<'_> {
    fn drop(&mut self) {
        self.0.work.lock().filling -= 1;
    }
}

/// A request about the file that waits in this program.
pub(crate) struct Waiting(Arc<Pages>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.work.lock().waiting -= 1;
    }
}

impl Default for Pages {
    fn default() -> Self {
        Self { work: Mutex::new(&PAGES, Work::default()), dropped: Notify::new() }
    }
}

impl Pages {
    /// A read begins that may fill pages. `may_be_kept` is asked after the pages are noted. Also returns
    /// `true` if bad pages come to be where none were: the kernel must be told.
    pub(crate) fn fill(&self, may_be_kept: impl FnOnce() -> bool) -> (Filling<'_>, bool) {
        {
            let mut work = self.work.lock();
            work.filling += 1;
            work.begun += 1;
            work.has = true;
        }
        let filling = Filling(self);
        let turns_bad = !may_be_kept() && self.spoil();
        (filling, turns_bad)
    }

    /// The pages, if there are any, must not be used any more. Returns `true` if they could be until now.
    pub(crate) fn spoil(&self) -> bool {
        self.work.lock().spoil()
    }

    /// Returns `true` if there may be pages.
    pub(crate) fn are_there(&self) -> bool {
        let work = self.work.lock();
        work.has || work.is_running
    }

    /// Returns `true` if there are pages that must not be used, where `may_be_kept` says whether Fc is held.
    pub(crate) fn must_go(&self, may_be_kept: bool) -> bool {
        let work = self.work.lock();
        work.is_running || work.has_bad(may_be_kept)
    }

    /// A write begins whose data the kernel does not put into pages itself. Returns how many reads have begun
    /// until then that have ended.
    pub(crate) fn write_begins(&self) -> u64 {
        let work = self.work.lock();
        work.begun - work.filling
    }

    /// The write has ended. Returns `true` if a read in between may have filled pages with what was there
    /// before.
    pub(crate) fn write_ends(&self, begun: u64) -> bool {
        let mut work = self.work.lock();
        work.begun != begun && work.spoil()
    }

    /// Wants the pages dropped; an answer may wait for it. Returns the number of the drop, and whether the
    /// caller must start a thread that calls [`Pages::run`].
    pub(crate) fn want_drop(&self, answer: Option<WhenDone>) -> (u64, bool) {
        let mut given = None;
        let next = {
            let mut work = self.work.lock();
            let (number, starts) = work.next();
            match answer {
                Some(answer) if work.waiting == 0 => work.answers.push((number, answer)),
                answer => given = answer,
            }
            (number, starts)
        };
        drop(given);
        next
    }

    /// Drops the pages, until nobody wants more to be dropped. `tell` tells the kernel, and waits for it.
    pub(crate) fn run(&self, tell: impl Fn()) {
        loop {
            {
                // A read that has noted its pages before this has locked them: they are waited for.
                let mut work = self.work.lock();
                (work.has, work.is_bad) = (false, false);
            }
            tell();
            let (goes_on, done) = {
                let mut work = self.work.lock();
                work.ended += 1;
                work.is_running = std::mem::take(&mut work.again);
                let ended = work.ended;
                let all = std::mem::take(&mut work.answers);
                let (done, rest): (Vec<_>, Vec<_>) =
                    all.into_iter().partition(|(number, _)| *number <= ended);
                work.answers = rest;
                (work.is_running, done)
            };
            self.dropped.notify_waiters();
            // The servers are answered.
            drop(done);
            if !goes_on {
                return;
            }
        }
    }

    /// As [`Pages::want_drop`], if there are pages that must not be used, where `may_be_kept` says whether Fc
    /// is held.
    pub(crate) fn want_settled(&self, may_be_kept: bool) -> Option<(u64, bool)> {
        if self.work.lock().has_bad(may_be_kept) {
            return Some(self.want_drop(None));
        }
        self.in_progress().map(|number| (number, false))
    }

    /// Returns the number of the drop that is in progress or wanted last; `None` if there is none.
    fn in_progress(&self) -> Option<u64> {
        let work = self.work.lock();
        work.is_running.then(|| work.ended + 1 + u64::from(work.again))
    }

    /// Waits until a drop has ended.
    pub(crate) async fn settled(&self, number: u64) {
        loop {
            let dropped = self.dropped.notified();
            tokio::pin!(dropped);
            dropped.as_mut().enable();
            if self.work.lock().ended >= number {
                return;
            }
            dropped.await;
        }
    }

    /// A request about the file waits in this program. The answers to servers wait no longer, since the
    /// request may wait for them.
    pub(crate) fn waits(self: &Arc<Self>) -> Waiting {
        let answers = {
            let mut work = self.work.lock();
            work.waiting += 1;
            std::mem::take(&mut work.answers)
        };
        drop(answers);
        Waiting(Arc::clone(self))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    fn answer() -> (WhenDone, Arc<AtomicBool>) {
        let is_given = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&is_given);
        (WhenDone::new(move || flag.store(true, Ordering::SeqCst)), is_given)
    }

    fn is(flag: &AtomicBool) -> bool {
        flag.load(Ordering::SeqCst)
    }

    #[test]
    fn pages_that_were_filled_without_the_right_are_bad_once() {
        let pages = Pages::default();
        assert!(!pages.must_go(false), "there are none");
        assert!(!pages.spoil() && !pages.must_go(true));
        let (_, turns_bad) = pages.fill(|| true);
        assert!(!turns_bad && !pages.must_go(true) && pages.must_go(false));
        let (_, turns_bad) = pages.fill(|| false);
        assert!(turns_bad && pages.must_go(true));
        let (_, turns_bad) = pages.fill(|| false);
        assert!(!turns_bad, "they are bad already");
        assert_eq!(pages.want_drop(None), (1, true));
        pages.run(|| ());
        assert!(!pages.must_go(true) && !pages.are_there());
        assert_eq!(pages.want_settled(false), None);
        let _ = pages.fill(|| true);
        assert_eq!(pages.want_settled(true), None);
        assert_eq!(pages.want_settled(false), Some((2, true)));
        pages.run(|| assert_eq!(pages.want_settled(true), Some((2, false)), "what was bad is being dropped"));
    }

    #[test]
    fn an_answer_waits_for_the_drop_that_begins_after_it() {
        let pages = Arc::new(Pages::default());
        let _filled = pages.fill(|| true);
        let (first, first_given) = answer();
        assert_eq!(pages.want_drop(Some(first)), (1, true));
        let told = Cell::new(0);
        let (second, second_given) = answer();
        let second = Cell::new(Some(second));
        pages.run(|| {
            told.set(told.get() + 1);
            assert!(pages.must_go(true), "until it has ended");
            if let Some(second) = second.take() {
                assert!(!is(&first_given));
                assert_eq!(pages.want_drop(Some(second)), (2, false));
            } else {
                assert!(is(&first_given) && !is(&second_given));
            }
        });
        assert_eq!(told.get(), 2);
        assert!(is(&second_given) && pages.in_progress().is_none());
    }

    #[test]
    fn no_server_waits_while_a_request_does() {
        let pages = Arc::new(Pages::default());
        let _filled = pages.fill(|| true);
        let (early, early_given) = answer();
        assert_eq!(pages.want_drop(Some(early)), (1, true));
        let waiting = pages.waits();
        assert!(is(&early_given), "the request may wait for it");
        let (late, late_given) = answer();
        assert_eq!(pages.want_drop(Some(late)), (2, false));
        assert!(is(&late_given));
        drop(waiting);
        let (last, last_given) = answer();
        assert_eq!(pages.want_drop(Some(last)).0, 2);
        assert!(!is(&last_given));
        pages.run(|| ());
        assert!(is(&last_given));
    }

    #[test]
    fn a_read_beside_a_write_may_have_seen_what_was_before() {
        let pages = Pages::default();
        let began = pages.write_begins();
        assert!(!pages.write_ends(began));
        drop(pages.fill(|| true));
        let began = pages.write_begins();
        assert!(!pages.write_ends(began), "it ended before");
        let (filling, _) = pages.fill(|| true);
        let began = pages.write_begins();
        drop(filling);
        assert!(pages.write_ends(began), "it was in progress");
        let began = pages.write_begins();
        drop(pages.fill(|| true));
        assert!(!pages.write_ends(began), "they are bad already");
        assert!(pages.must_go(true));
    }

    #[tokio::test]
    async fn who_waits_for_a_drop_hears_of_its_end() {
        let pages = Arc::new(Pages::default());
        let (number, _) = pages.want_drop(None);
        assert_eq!(pages.in_progress(), Some(number));
        let waits = Arc::clone(&pages);
        let waiter = tokio::spawn(async move { waits.settled(number).await });
        tokio::task::yield_now().await;
        assert!(!waiter.is_finished());
        pages.run(|| ());
        waiter.await.expect("it ends");
        pages.settled(number).await;
    }
}
