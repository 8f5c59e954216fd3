//! Statistics of the images of a pool, `rbd_pool_stats_t`.

use std::ffi::{c_int, c_void};

use loligo_rbd::pools;
use loligo_wire::Errno;

use crate::border::{Fail, Lent, calls, plain};
use crate::memory::put;
use crate::rados::Pool;
use crate::runtime::wait;

/// The numbers that the program wants, and where.
#[derive(Default)]
struct Wanted(Vec<(c_int, Lent<u64>)>);

/// The last of `rbd_pool_stat_option_t`.
const LAST: c_int = 7;

calls! {
    /// Adds a number.
    fn rbd_pool_stats_option_add_uint64(stats: *mut c_void, option: c_int, to: *mut u64) -> c_int {
        let wanted = stats.cast::<Wanted>().as_mut().ok_or(Errno::EINVAL)?;
        if !(0..=LAST).contains(&option) {
            return Err(Errno::ENOENT.into());
        }
        if wanted.0.iter().any(|(known, _)| *known == option) {
            return Err(Errno::EEXIST.into());
        }
        wanted.0.push((option, Lent(to)));
        Ok(0)
    }

    /// Stores the numbers. Of each image, the largest of its own and its snapshots' sizes stands for both.
    fn rbd_pool_stats_get(ioctx: *mut c_void, stats: *mut c_void) -> c_int {
        let wanted = stats.cast::<Wanted>().as_ref().ok_or(Errno::EINVAL)?;
        let (images, trash) = wait(pools::sums(&Pool::of(ioctx)?.owned_io()))?;
        for (option, place) in &wanted.0 {
            let sum = if *option < 4 { &images } else { &trash };
            put(place.0, match option % 4 {
                0 => sum.images,
                1 | 2 => sum.provisioned,
                _ => sum.snapshots,
            });
        }
        Ok::<c_int, Fail>(0)
    }
}

plain! {
    /// Creates an empty list of wanted numbers.
    fn rbd_pool_stats_create(to: *mut *mut c_void) -> () {
        put(to, Box::into_raw(Box::<Wanted>::default()).cast());
    }

    /// Frees the list.
    fn rbd_pool_stats_destroy(stats: *mut c_void) -> () {
        if !stats.is_null() {
            drop(Box::from_raw(stats.cast::<Wanted>()));
        }
    }
}
