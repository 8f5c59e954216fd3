//! Limits the requests in flight of I/Os over many objects.
//!
//! A discard of 1 GiB may cover 262,144 objects. One I/O has at most [`PARTS_MAX`] requests in flight.
//! All such I/Os of an image have at most [`IMAGE_PARTS_MAX`] together, plus one request that each I/O
//! may always have. An image therefore leaves capacity in the client's throttle, which all images share,
//! and no I/O waits for a permit of another one: an I/O that is no longer polled, such as a read in a
//! stream, slows others down but does not stop them.
//!
//! An I/O of one object takes no permit; their number is up to the callers.

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tokio::sync::Semaphore;

use crate::Error;

/// The objects of one I/O that are read or changed in parallel.
pub(crate) const PARTS_MAX: usize = 64;

/// The objects of all I/Os of an image, without the one that each I/O may always have.
const IMAGE_PARTS_MAX: usize = 128;

/// The permits of an image.
pub(crate) struct Room(Semaphore);

impl Default for Room {
    fn default() -> Self {
        Self(Semaphore::new(IMAGE_PARTS_MAX))
    }
}

impl Room {
    /// Runs `part` for each of `items`. Items are taken in order, when there is a permit; `done` gets
    /// the results in any order. After a failure no more parts are started, and those in flight are
    /// completed.
    ///
    /// # Errors
    /// The first error in the order of the items.
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
            // Yields regularly: parts that never wait, such as those of objects known to be missing,
            // would occupy the thread.
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

    /// Counts parts in flight.
    #[derive(Default)]
    struct Count {
        now: Cell<usize>,
        most: Cell<usize>,
        begun: RefCell<Vec<usize>>,
    }

    impl Count {
        /// A part that completes at its third poll.
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
                // The later item fails first.
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
