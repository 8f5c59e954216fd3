//! How many requests of an I/O that goes to many objects are under way.
//!
//! A discard of 1 GiB may be one of 262,144 objects. It has [`PARTS_MAX`] requests under way at most, and all
//! such I/Os of an image have [`IMAGE_PARTS_MAX`] together, beside one of each that it may have in any case.
//! So an image leaves room in the client's throttle, which all images share, and no I/O waits for a place of
//! another one: an I/O that is begun and that nobody goes on with, such as a read in a stream that is not
//! polled, makes others slower, and stops none.
//!
//! An I/O of one object takes no place. How many of these there are is up to the callers.

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tokio::sync::Semaphore;

use crate::Error;

/// Objects of one I/O that are read or changed at the same time.
pub(crate) const PARTS_MAX: usize = 64;

/// Objects of all I/Os of an image, without the one that each may have in any case.
const IMAGE_PARTS_MAX: usize = 128;

/// The places of an image.
pub(crate) struct Room(Semaphore);

impl Default for Room {
    fn default() -> Self {
        Self(Semaphore::new(IMAGE_PARTS_MAX))
    }
}

impl Room {
    /// Does `part` for each of `items`, which are asked for when there is a place, in their order; `done`
    /// gets the results in any order. After a failure nothing is begun any more, and what is under way comes
    /// to its end.
    ///
    /// # Errors
    /// The first in the order of the items.
    pub(crate) async fn each<T, R, F: Future<Output = Result<R, Error>>>(
        &self,
        items: impl Iterator<Item = T>,
        part: impl Fn(T) -> F,
        mut done: impl FnMut(R),
    ) -> Result<(), Error> {
        let (mut items, mut under_way) = (items.enumerate(), FuturesUnordered::new());
        let (mut all_begun, mut failed) = (false, None::<(usize, Error)>);
        loop {
            while !all_begun && failed.is_none() && under_way.len() < PARTS_MAX {
                let place = self.0.try_acquire().ok();
                if place.is_none() && !under_way.is_empty() {
                    break;
                }
                let Some((number, item)) = items.next() else {
                    all_begun = true;
                    break;
                };
                let part = part(item);
                under_way.push(async move {
                    let result = part.await;
                    drop(place);
                    (number, result)
                });
            }
            match under_way.next().await {
                None => return failed.map_or(Ok(()), |(_, e)| Err(e)),
                Some((_, Ok(result))) => done(result),
                Some((number, Err(e))) => {
                    if failed.as_ref().is_none_or(|(first, _)| number < *first) {
                        failed = Some((number, e));
                    }
                }
            }
            // Parts that wait for nothing, such as objects that are known to be missing, do not keep a thread
            // for long.
            tokio::task::consume_budget().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::pin::pin;

    use futures_util::poll;
    use loligo_rados::Errno;

    use super::*;

    /// Counts what is under way.
    #[derive(Default)]
    struct Count {
        now: Cell<usize>,
        most: Cell<usize>,
        begun: RefCell<Vec<usize>>,
    }

    impl Count {
        /// A part that ends at its third step.
        async fn part(&self, number: usize) -> Result<usize, Error> {
            self.begun.borrow_mut().push(number);
            self.now.set(self.now.get() + 1);
            self.most.set(self.most.get().max(self.now.get()));
            tokio::task::yield_now().await;
            tokio::task::yield_now().await;
            self.now.set(self.now.get() - 1);
            Ok(number)
        }
    }

    #[tokio::test]
    async fn one_has_so_many_under_way() {
        let (room, count, mut all) = (Room::default(), Count::default(), Vec::new());
        room.each(0..1000, |n| count.part(n), |n| all.push(n)).await.expect("done");
        assert_eq!(count.most.get(), PARTS_MAX);
        assert_eq!(*count.begun.borrow(), (0..1000).collect::<Vec<_>>());
        all.sort_unstable();
        assert_eq!(all, (0..1000).collect::<Vec<_>>());
        assert_eq!(room.0.available_permits(), IMAGE_PARTS_MAX);
    }

    #[tokio::test]
    async fn many_share_the_places() {
        let (room, count) = (Room::default(), Count::default());
        let each = (0..10).map(|_| room.each(0..500, |n| count.part(n), drop));
        for done in futures_util::future::join_all(each).await {
            done.expect("done");
        }
        assert_eq!(count.begun.borrow().len(), 5000);
        assert!((IMAGE_PARTS_MAX..=IMAGE_PARTS_MAX + 10).contains(&count.most.get()), "{}", count.most.get());
    }

    #[tokio::test]
    async fn what_nobody_goes_on_with_stops_no_other() {
        let (room, stuck, count) = (Room::default(), Count::default(), Count::default());
        let mut left =
            (0..4).map(|_| Box::pin(room.each(0..500, |n| stuck.part(n), drop))).collect::<Vec<_>>();
        for one in &mut left {
            assert!(poll!(one.as_mut()).is_pending());
        }
        assert_eq!(room.0.available_permits(), 0);
        room.each(0..500, |n| count.part(n), drop).await.expect("done");
        assert_eq!(count.most.get(), 1);
        drop(left);
        assert_eq!(room.0.available_permits(), IMAGE_PARTS_MAX);
    }

    #[tokio::test]
    async fn the_first_failure_is_told() {
        let (room, count) = (Room::default(), Count::default());
        let fails = |n: usize| {
            let count = &count;
            async move {
                let part = count.part(n).await;
                // The later one is known earlier.
                if n == 100 {
                    tokio::task::yield_now().await;
                }
                if [100, 101].contains(&n) { Err(Errno(n as i32).into()) } else { part }
            }
        };
        let mut each = pin!(room.each(0..100_000, fails, drop));
        assert_eq!(each.as_mut().await.expect_err("two fail").errno(), Errno(100));
        assert!(count.begun.borrow().len() < 101 + 2 * PARTS_MAX, "nothing is begun behind a failure");
        assert_eq!(count.now.get(), 0, "and all that was begun has ended");
    }
}
