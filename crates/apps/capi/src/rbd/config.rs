//! The options of images, as a pool or an image has them.

use std::collections::BTreeMap;
use std::ffi::{c_char, c_int, c_void};

use bytes::Bytes;
use loligo_conf::table;
use loligo_rbd::settings::{METADATA_PREFIX, images_override, pools_override};
use loligo_rbd::{Name, pools};
use loligo_wire::Errno;

use super::image::ImageHandle;
use super::list::free_text;
use crate::border::{Fail, calls, plain};
use crate::memory::allocated_text;
use crate::rados::{Client, Pool, option_of};
use crate::runtime::wait;

/// `rbd_config_source_t`.
const OF_CONFIG: c_int = 0;
const OF_POOL: c_int = 1;
const OF_IMAGE: c_int = 2;

/// `rbd_config_option_t`.
#[repr(C)]
pub(super) struct ConfigOption {
    name: *mut c_char,
    value: *mut c_char,
    source: c_int,
}

/// Settings among the metadata of a pool or an image, and what they are of.
struct Level {
    metadata: BTreeMap<Name, Bytes>,
    source: c_int,
}

impl Level {
    fn value_of(&self, option: &str) -> Option<Vec<u8>> {
        self.metadata.get(format!("{METADATA_PREFIX}{option}").as_bytes()).map(|value| value.to_vec())
    }
}

/// Stores the options in the caller's array; the last level that has a setting wins.
///
/// # Errors
/// ERANGE, with the number that is needed, if there is no room.
///
/// # Safety
/// `count` can be read and written, and `to` has as many elements as it says.
unsafe fn give(
    client: &Client,
    is_chosen: fn(&str) -> bool,
    levels: &[Level],
    to: *mut ConfigOption,
    count: *mut c_int,
) -> Result<c_int, Fail> {
    let mut options: Vec<_> =
        table::all().map(|option| option.name).filter(|option| is_chosen(option)).collect();
    options.sort_unstable();
    let needed = c_int::try_from(options.len()).map_err(|_| Errno::ERANGE)?;
    // SAFETY: by this function's contract.
    unsafe {
        let room = count.read();
        count.write(needed);
        if room < needed {
            return Err(Errno::ERANGE.into());
        }
        for (at, option) in options.into_iter().enumerate() {
            let set = levels.iter().rev().find_map(|level| Some((level.value_of(option)?, level.source)));
            let (value, source) = match set {
                Some(set) => set,
                None => (option_of(client, option)?.into_bytes(), OF_CONFIG),
            };
            to.add(at).write(ConfigOption {
                name: allocated_text(option.as_bytes()),
                value: allocated_text(&value),
                source,
            });
        }
    }
    Ok(0)
}

calls! {
    /// Lists the options that a pool may override, with their values in the pool.
    fn rbd_config_pool_list(ioctx: *mut c_void, to: *mut ConfigOption, count: *mut c_int) -> c_int {
        let pool = Pool::of(ioctx)?;
        let metadata = wait(pools::metadata(&pool.owned_io()))?;
        give(&pool.client, pools_override, &[Level { metadata, source: OF_POOL }], to, count)
    }

    /// Lists the options that an image may override, with their values for the image.
    fn rbd_config_image_list(image: *mut c_void, to: *mut ConfigOption, count: *mut c_int) -> c_int {
        let handle = ImageHandle::of(image)?;
        let of_pool = Level { metadata: wait(pools::metadata(&handle.io))?, source: OF_POOL };
        let metadata = ImageHandle::run(handle.head().metadata())?;
        let levels = [of_pool, Level { metadata, source: OF_IMAGE }];
        give(&handle.client, images_override, &levels, to, count)
    }
}

/// Frees the texts of a list; the array is the program's.
///
/// # Safety
/// The array has as many elements as is said, of this library.
unsafe fn clean_up(list: *mut ConfigOption, count: c_int) {
    for at in 0..usize::try_from(count).unwrap_or(0) {
        // SAFETY: by this function's contract.
        unsafe {
            let option = &mut *list.add(at);
            free_text(&mut option.name);
            free_text(&mut option.value);
        }
    }
}

plain! {
    /// Frees the texts of a list of a pool.
    fn rbd_config_pool_list_cleanup(list: *mut ConfigOption, count: c_int) -> () {
        clean_up(list, count);
    }

    /// Frees the texts of a list of an image.
    fn rbd_config_image_list_cleanup(list: *mut ConfigOption, count: c_int) -> () {
        clean_up(list, count);
    }
}
