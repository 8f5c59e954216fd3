//! Answers that a store gives one after the other in one thread, so that what they cause can be done
//! together.

use std::cell::RefCell;

use smallvec::SmallVec;

/// What is to be called, in order.
type Calls = SmallVec<[fn(); 2]>;

thread_local! {
    /// What is to be done behind the answers that this thread is giving; nothing if it gives none.
    static BEHIND: RefCell<Option<Calls>> = const { RefCell::new(None) };
}

/// In a thread of a store that is giving answers ([`Later`](crate::Later),
/// [`CommitListener`](crate::CommitListener)): has `then` called behind the last of them, which is a matter
/// of microseconds. False, and `then` is not called, if this thread is not.
#[must_use]
pub fn behind_answers(then: fn()) -> bool {
    BEHIND.with_borrow_mut(|behind| match behind {
        Some(behind) => {
            behind.push(then);
            true
        }
        None => false,
    })
}

/// Whether this thread is one of a store's that is giving answers, so that [`behind_answers`] takes
/// something.
#[must_use]
pub fn gives_answers() -> bool {
    BEHIND.with_borrow(Option::is_some)
}

/// Gives answers, and does what is to be done behind them.
pub fn together<R>(give: impl FnOnce() -> R) -> R {
    BEHIND.set(Some(SmallVec::new()));
    let given = give();
    // What comes of it is of no batch any more.
    BEHIND.take().into_iter().flatten().for_each(|then| then());
    given
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    thread_local! {
        static CALLS: Cell<u32> = const { Cell::new(0) };
    }

    fn call() {
        assert!(!behind_answers(call), "the batch is over");
        CALLS.set(CALLS.get() + 1);
    }

    #[test]
    fn what_is_left_is_done_behind_the_answers_and_once() {
        assert!(!behind_answers(call));
        let given = together(|| {
            assert!(behind_answers(call) && behind_answers(call));
            CALLS.get()
        });
        assert_eq!((given, CALLS.get()), (0, 2));
        together(|| ());
        assert_eq!(CALLS.get(), 2);
    }
}
