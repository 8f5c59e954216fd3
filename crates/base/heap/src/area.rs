//! The reserved range of addresses, and the calls by which mimalloc asks for its memory.

use std::ffi::c_void;
use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

// Links the library whose functions are declared below.
use libmimalloc_sys as _;

use crate::block::{BLOCK, Blocks};
use crate::wake;

/// The bytes of addresses that are reserved. Beyond them mimalloc reserves memory of its own.
const AREA: usize = 16 << 30;
/// The part that every program uses. The bookkeeping of the rest, 6 MiB, is made by [`grow`].
const FIRST: usize = 1 << 30;
/// Bytes in use from which on a program counts as one that fills its memory, unless it rests before: then
/// it does with so many more than it had at that time. What is in use is counted in whole blocks, and each
/// thread begins some: a program that has only started must not count.
const FILLING_FROM: usize = 64 << 20;
const FILLING_AFTER_REST: usize = 16 << 20;
/// Milliseconds for which a serving program keeps memory that it has freed.
pub(crate) const KEPT_MS: i64 = 30_000;

/// The address of the area; 0 if there is none.
static BASE: AtomicUsize = AtomicUsize::new(0);
static BLOCKS: Blocks<{ AREA / BLOCK }> = Blocks::new();
/// Bytes in use from which on the program counts as one that fills its memory. Relaxed, as what it is
/// compared with.
static FILLING: AtomicUsize = AtomicUsize::new(FILLING_FROM);

/// mimalloc's numbers of options (`mi_option_t`), which a test compares with their defaults.
const PURGE_DELAY: i32 = 15;
const MINIMAL_PURGE_KIB: i32 = 44;

type CommitFn = unsafe extern "C" fn(bool, *mut c_void, usize, *mut bool, *mut c_void) -> bool;

// mimalloc's functions for memory of the program's own, which libmimalloc-sys does not declare for its
// version 3.
unsafe extern "C" {
    fn mi_process_init();
    fn mi_manage_memory(
        start: *mut c_void,
        size: usize,
        is_committed: bool,
        is_pinned: bool,
        is_zero: bool,
        numa_node: i32,
        exclusive: bool,
        commit: CommitFn,
        arg: *mut c_void,
        arena: *mut *mut c_void,
    ) -> bool;
    fn mi_option_set(option: i32, value: libc::c_long);
}

/// Reserves the area and gives its first part to mimalloc. Must not allocate: it runs within the first
/// allocation.
pub(crate) fn begin() {
    let (access, kind) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE);
    // SAFETY: a new mapping at an address that the kernel chooses concerns no other memory.
    let start = unsafe { libc::mmap(ptr::null_mut(), AREA + BLOCK, access, kind, -1, 0) };
    if start == libc::MAP_FAILED {
        return;
    }
    // Pointers into the area are made from its address later.
    let base = start.expose_provenance().next_multiple_of(BLOCK);
    BASE.store(base, Ordering::Relaxed);
    take_small_pages(0..FILLING_FROM);
    // SAFETY: may be called at any time, and again.
    unsafe { mi_process_init() };
    manage(0..FIRST);
}

/// Returns `true` if the area could be reserved.
pub(crate) fn is_there() -> bool {
    BASE.load(Ordering::Relaxed) != 0
}

/// Gives the rest of the area to mimalloc, and has it keep what is freed.
pub(crate) fn grow() {
    manage(FIRST..AREA);
    // SAFETY: options may be set at any time.
    unsafe {
        mi_option_set(PURGE_DELAY, KEPT_MS);
        // Fewer and longer calls of the kernel.
        mi_option_set(MINIMAL_PURGE_KIB, (BLOCK >> 10) as libc::c_long);
    }
}

/// If it fails, mimalloc reserves memory of its own instead.
fn manage(part: Range<usize>) {
    let start = address(part.start);
    // SAFETY: this part of the area is mapped, readable and writable, zero, and used by nothing else; it
    // stays so until the process ends. `commit` keeps the contract of such functions. The arena's number is
    // not wanted.
    unsafe {
        mi_manage_memory(
            start,
            part.len(),
            false,
            false,
            true,
            -1,
            false,
            commit,
            ptr::null_mut(),
            ptr::null_mut(),
        )
    };
}

fn address(offset: usize) -> *mut c_void {
    ptr::with_exposed_provenance_mut(BASE.load(Ordering::Relaxed) + offset)
}

/// mimalloc begins to use a range of the area (`begins`), or has freed it some time ago. Returns whether that
/// worked: the range is usable, or given back to the kernel. Runs within an allocation: must not allocate.
///
/// # Safety
/// The range is a part of the area, and if `begins` is not set, nothing uses it.
unsafe extern "C" fn commit(
    begins: bool,
    start: *mut c_void,
    len: usize,
    is_zero: *mut bool,
    _: *mut c_void,
) -> bool {
    let offset = start.addr() - BASE.load(Ordering::Relaxed);
    if begins {
        if !is_zero.is_null() {
            // SAFETY: the caller passes null or a place for the answer. Part of the range may be in use
            // already, so that it is not said to be zero.
            unsafe { *is_zero = false };
        }
        if BLOCKS.take(offset..offset + len) {
            wake::wake();
        }
        return true;
    }
    // SAFETY: nothing uses the range, which is mapped.
    let is_given = unsafe { libc::madvise(start, len, libc::MADV_DONTNEED) } == 0;
    if is_given {
        BLOCKS.give_back(offset..offset + len);
    }
    is_given
}

/// Has the kernel give a part of the area small pages: if the first page of each thread were a large one, a
/// program that does little would have many megabytes. A kernel without large ones refuses: then there are
/// none. What lies behind the part is as the system has it.
fn take_small_pages(part: Range<usize>) {
    // SAFETY: the part is mapped, and advice on the size of pages changes no byte.
    unsafe { libc::madvise(address(part.start), part.len(), libc::MADV_NOHUGEPAGE) };
}

/// Returns `true` if so much is in use that more will be.
pub(crate) fn is_filling() -> bool {
    BLOCKS.used() * BLOCK >= FILLING.load(Ordering::Relaxed)
}

/// The program has started: what it uses from now on is data.
pub(crate) fn rests() {
    if !is_filling() {
        FILLING.store(BLOCKS.used() * BLOCK + FILLING_AFTER_REST, Ordering::Relaxed);
    }
}

/// Makes the pages of wanted blocks present. Returns `false` if the kernel cannot.
pub(crate) fn prepare() -> bool {
    BLOCKS.prepare(|number| {
        // SAFETY: the block is a mapped part of the area, and making pages present changes no byte.
        unsafe { libc::madvise(address(number * BLOCK), BLOCK, libc::MADV_POPULATE_WRITE) == 0 }
    })
}
