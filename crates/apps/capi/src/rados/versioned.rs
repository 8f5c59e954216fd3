//! The four functions that exist twice: an older form without a version, and one with `LIBRADOS_14.2.0`.
//!
//! Rust has no words for symbol versions. Lines of assembly define a symbol for each form, which jumps to
//! the Rust function, and give it its name and version.

use std::ffi::{c_char, c_int, c_void};

use loligo_rados::{OsdOp, PoolStat};
use loligo_wire::Errno;

use super::Pool;
use super::io::{data_of, give_output, read, write};
use super::pool::name_of;
use crate::border::{Fail, guard_result};
use crate::memory::{bytes, put};
use crate::runtime::wait;

/// The older `struct rados_pool_stat_t`; the newer one goes on behind it.
#[repr(C)]
#[derive(Default)]
struct OldPoolStat {
    num_bytes: u64,
    num_kb: u64,
    num_objects: u64,
    num_object_clones: u64,
    num_object_copies: u64,
    num_objects_missing_on_primary: u64,
    num_objects_unfound: u64,
    num_objects_degraded: u64,
    num_rd: u64,
    num_rd_kb: u64,
    num_wr: u64,
    num_wr_kb: u64,
}

#[repr(C)]
struct NewPoolStat {
    old: OldPoolStat,
    num_user_bytes: u64,
    compressed_bytes_orig: u64,
    compressed_bytes: u64,
    compressed_bytes_alloc: u64,
}

/// A count that cannot be negative.
fn count(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

fn old_form(stat: &PoolStat) -> OldPoolStat {
    let sum = &stat.sum;
    // What the stores of all copies use, if they tell it.
    let used =
        if stat.num_store_stats > 0 { count(stat.store_stats.allocated) } else { count(sum.num_bytes) };
    OldPoolStat {
        num_bytes: used,
        num_kb: used.div_ceil(1024),
        num_objects: count(sum.num_objects),
        num_object_clones: count(sum.num_object_clones),
        num_object_copies: count(sum.num_object_copies),
        num_objects_missing_on_primary: count(sum.num_objects_missing_on_primary),
        num_objects_unfound: count(sum.num_objects_unfound),
        num_objects_degraded: count(sum.num_objects_degraded),
        num_rd: count(sum.num_rd),
        num_rd_kb: count(sum.num_rd_kb),
        num_wr: count(sum.num_wr),
        num_wr_kb: count(sum.num_wr_kb),
    }
}

fn new_form(stat: &PoolStat) -> NewPoolStat {
    NewPoolStat {
        old: old_form(stat),
        num_user_bytes: count(stat.sum.num_bytes),
        compressed_bytes_orig: count(stat.store_stats.data_compressed_original),
        compressed_bytes: count(stat.store_stats.data_compressed),
        compressed_bytes_alloc: count(stat.store_stats.data_compressed_allocated),
    }
}

/// Reads a pool's statistics and stores them in the form that the caller knows.
///
/// # Safety
/// `ioctx` is a handle, and `to` can be written or is NULL.
unsafe fn pool_stat<T>(
    ioctx: *mut c_void,
    to: *mut c_void,
    form: impl FnOnce(&PoolStat) -> T,
) -> Result<c_int, Fail> {
    // SAFETY: by this function's contract.
    let io = unsafe { Pool::of(ioctx) }?.owned_io();
    let name = name_of(io.rados(), io.pool()).ok_or(Errno::ENOENT)?;
    let stats = wait(io.rados().pool_stats(&[&name]))?;
    let (_, stat) = stats.first().ok_or(Errno::ENOENT)?;
    // SAFETY: by this function's contract.
    unsafe { put(to.cast::<T>(), form(stat)) };
    Ok(0)
}

// SAFETY, for this and the other functions: they are called through the symbols below by C programs that
// keep the contract of the C interface.
unsafe extern "C" fn pool_stat_old(ioctx: *mut c_void, to: *mut c_void) -> c_int {
    // SAFETY: see above.
    guard_result("rados_ioctx_pool_stat", || unsafe { pool_stat(ioctx, to, old_form) })
}

unsafe extern "C" fn pool_stat_new(ioctx: *mut c_void, to: *mut c_void) -> c_int {
    // SAFETY: see above.
    guard_result("rados_ioctx_pool_stat", || unsafe { pool_stat(ioctx, to, new_form) })
}

unsafe extern "C" fn tmap_get(ioctx: *mut c_void, oid: *const c_char, to: *mut c_char, room: usize) -> c_int {
    // SAFETY: see above.
    guard_result("rados_tmap_get", || unsafe {
        let answer = read(Pool::of(ioctx)?, bytes(oid)?, OsdOp::read(0, 0))?;
        give_output(to, room, &answer.data)
    })
}

unsafe extern "C" fn tmap_put(
    ioctx: *mut c_void,
    oid: *const c_char,
    data: *const c_char,
    len: usize,
) -> c_int {
    // SAFETY: see above.
    guard_result("rados_tmap_put", || unsafe {
        write(Pool::of(ioctx)?, bytes(oid)?, OsdOp::write_full(data_of(data, len)?))
    })
}

extern "C" fn tmap_none() -> c_int {
    Errno::EOPNOTSUPP.to_result()
}

/// Defines the symbol `$label`, which jumps to `$function` and is exported as `$name`.
macro_rules! symbol {
    ($label:literal, $name:literal, $function:path) => {
        std::arch::global_asm!(
            concat!(".globl ", $label),
            concat!(".type ", $label, ", @function"),
            concat!($label, ":"),
            #[cfg(target_arch = "x86_64")]
            "jmp {function}",
            #[cfg(target_arch = "aarch64")]
            "b {function}",
            concat!(".size ", $label, ", . - ", $label),
            concat!(".symver ", $label, ", ", $name),
            function = sym $function,
        );
    };
}

// `dlsym` finds the form that comes first, here as in stock librados.
symbol!("loligo_pool_stat_new", "rados_ioctx_pool_stat@@LIBRADOS_14.2.0", pool_stat_new);
symbol!("loligo_pool_stat_old", "rados_ioctx_pool_stat@", pool_stat_old);
symbol!("loligo_tmap_get_old", "rados_tmap_get@", tmap_get);
symbol!("loligo_tmap_get_new", "rados_tmap_get@@LIBRADOS_14.2.0", tmap_none);
symbol!("loligo_tmap_put_old", "rados_tmap_put@", tmap_put);
symbol!("loligo_tmap_put_new", "rados_tmap_put@@LIBRADOS_14.2.0", tmap_none);
symbol!("loligo_tmap_update_old", "rados_tmap_update@", tmap_none);
symbol!("loligo_tmap_update_new", "rados_tmap_update@@LIBRADOS_14.2.0", tmap_none);
