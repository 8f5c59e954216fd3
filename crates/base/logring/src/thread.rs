//! The caller's side: a thread's ring, and how an entry is written to it.

use std::cell::{Cell, RefCell};
use std::fmt::{self, Write as _};
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU64, AtomicUsize};

use rtrb::{Consumer, Producer, RingBuffer};

use crate::arrivals::Arrivals;
use crate::asks::{nudge, this_thread};
use crate::entry::{self, ENTRY_WORDS_MAX, HEADER_WORDS, Header, MetaOf, Place, Site};
use crate::raw::{Raw, Text, Wire};
use crate::{Subsys, clock};

/// The size of a thread's ring: some 3,000 entries. This is a millisecond of a thread that logs one
/// entry every 300 ns, and the time in which the log thread wakes up on a busy machine.
pub const RING_BYTES: usize = 128 << 10;
/// The size of all rings together. Beyond half of it a new thread gets a ring of 16 KiB, beyond all of
/// it none.
pub const RINGS_BYTES_MAX: usize = 64 << 20;
const RING_BYTES_SMALL: usize = 16 << 10;

const _: () = assert!(ENTRY_WORDS_MAX * 8 <= RING_BYTES_SMALL, "every entry fits every ring");

/// New rings.
pub(crate) static ARRIVALS: Arrivals<Source> = Arrivals::new();
/// The size of all existing rings.
static RINGS_BYTES: AtomicUsize = AtomicUsize::new(0);
/// The entries dropped by threads without a ring.
pub(crate) static DROPPED_WITHOUT_RING: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// This thread's ring, or null. It has no destructor, so that reading it is one load.
    static RING: Cell<*mut Local> = const { Cell::new(ptr::null_mut()) };
    /// Frees the ring when the thread ends.
    static OWNER: RefCell<Option<Owner>> = const { RefCell::new(None) };
}

struct Local {
    producer: Producer<u64>,
    about: Arc<About>,
    /// If fewer words than this are free, as far as this thread knows, `nudge` is called.
    nudge_below: usize,
    /// Half of the ring's words: if fewer are free, the log thread is woken.
    half: usize,
}

/// The properties of a thread that logs.
pub(crate) struct About {
    /// The identifier as in Ceph: `pthread_self`.
    pub(crate) thread: u64,
    /// The name set by the program.
    pub(crate) name: String,
    /// The number of entries that found no room. Written only by the thread itself.
    pub(crate) dropped: AtomicU64,
    ring_bytes: usize,
}

impl Drop for About {
    fn drop(&mut self) {
        RINGS_BYTES.fetch_sub(self.ring_bytes, Relaxed);
    }
}

/// The log thread's end of a ring.
pub(crate) struct Source {
    pub(crate) consumer: Consumer<u64>,
    pub(crate) about: Arc<About>,
}

/// Records a call of `log!` whose level is recorded.
#[inline(always)]
pub fn record<S, A, F>(args: &A, format: F)
where
    S: Site,
    A: Raw,
    F: Fn(&mut dyn fmt::Write, A::View<'_>) -> fmt::Result + Copy,
{
    let () = MetaOf::<S, A, F>::CAPTURES_NOTHING;
    let _ = format;
    let ticks = clock::ticks();
    let Place { subsys, level, .. } = S::PLACE;
    // User code (`Raw::raw`) runs here and not below, where the ring is borrowed: it might log, too.
    let args = args.raw();
    let words = HEADER_WORDS + A::Wire::words(&args);
    let header = Header { ticks, meta: MetaOf::<S, A, F>::META, words, subsys, level };
    write::<A::Wire>(header, args);
    if level < 0 {
        nudge();
    }
}

/// Records a text whose subsystem and level are known only at run time, if the level is recorded. The
/// caller formats the text.
pub fn line(subsys: Subsys, level: i8, text: fmt::Arguments<'_>) {
    if !subsys.records(level) {
        return;
    }
    let ticks = clock::ticks();
    let mut formatted = Text::empty();
    // An error means that the text was cut.
    let _ = formatted.write_fmt(text);
    let text = formatted.as_str();
    let words = HEADER_WORDS + str::words(&text);
    write::<str>(Header { ticks, meta: line_meta(), words, subsys, level }, text);
    if level < 0 {
        nudge();
    }
}

fn line_meta() -> &'static entry::Meta {
    struct Here;
    impl Site for Here {
        const PLACE: Place = Place { subsys: Subsys::NONE, level: 0, file: file!(), line: line!() };
    }
    fn of<A: Raw, F>(_: F) -> &'static entry::Meta
    where
        F: Fn(&mut dyn fmt::Write, A::View<'_>) -> fmt::Result + Copy,
    {
        MetaOf::<Here, A, F>::META
    }
    of::<str_ref, _>(|out, text| write!(out, "{text}"))
}

#[allow(non_camel_case_types)]
type str_ref = &'static str;

#[inline(always)]
fn write<W: Wire + ?Sized>(header: Header, args: W::Of<'_>) {
    let local = RING.get();
    if !local.is_null() {
        // SAFETY: the ring belongs to this thread, which is here and not in `Owner::drop`. Nothing below
        // runs user code or calls this function again, so this is the only reference.
        let local = unsafe { &mut *local };
        if let Ok(mut chunk) = local.producer.write_chunk_uninit(header.words) {
            let (first, second) = chunk.as_mut_slices();
            if second.is_empty() {
                prefetch(first.as_ptr().wrapping_add(PREFETCH_WORDS));
                entry::put::<W>(header, args, first);
                // SAFETY: `put` has written every word.
                unsafe { chunk.commit_all() };
                if local.producer.cached_slots() < local.nudge_below {
                    local.nudge();
                }
                return;
            }
        }
    }
    write_slowly(header.words, &|out| entry::put::<W>(header, args, out));
}

/// The prefetch distance from the entry. The log thread's processor has read this memory last, and
/// fetching it from there takes as long as several calls.
const PREFETCH_WORDS: usize = 64;

/// Prefetches a cache line for writing. Any address is allowed.
#[inline(always)]
fn prefetch(at: *const MaybeUninit<u64>) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch accesses nothing, and cannot fault.
    unsafe {
        core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_ET0 }>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// Writes an entry if there is no ring yet, if it wraps around the ring's end, or if there is no room.
#[cold]
#[inline(never)]
fn write_slowly(words: usize, put: &dyn Fn(&mut [MaybeUninit<u64>])) {
    let mut buffer = [MaybeUninit::<u64>::uninit(); ENTRY_WORDS_MAX];
    let buffer = &mut buffer[..words];
    put(buffer);
    // SAFETY: `put` has written every word.
    let entry = unsafe { &*(ptr::from_ref(buffer) as *const [u64]) };
    if RING.get().is_null() {
        match OWNER.try_with(|owner| *owner.borrow_mut() = Owner::new()) {
            Ok(()) => {}
            Err(_) => return write_last(entry),
        }
    }
    let local = RING.get();
    if local.is_null() {
        DROPPED_WITHOUT_RING.fetch_add(1, Relaxed);
        return nudge();
    }
    // SAFETY: as in `write`.
    let local = unsafe { &mut *local };
    if local.producer.push_entire_slice(entry).is_ok() {
        // `push_entire_slice` has read the other side's index, at least at the ring's end.
        local.nudge_below = local.half;
    } else {
        let dropped = &local.about.dropped;
        dropped.store(dropped.load(Relaxed) + 1, Relaxed);
        nudge();
    }
}

/// Writes an entry while the thread ends and its ring is gone: creates a ring for this entry alone.
fn write_last(entry: &[u64]) {
    let pushed = new_ring(entry.len() * 8).map(|mut local| local.producer.push_entire_slice(entry));
    if !matches!(pushed, Some(Ok(()))) {
        DROPPED_WITHOUT_RING.fetch_add(1, Relaxed);
    }
}

impl Local {
    #[cold]
    #[inline(never)]
    fn nudge(&mut self) {
        // Reads the log thread's index, to see how much it has taken meanwhile.
        let free = self.producer.slots();
        let half = self.half;
        if free >= half {
            self.nudge_below = half;
            return;
        }
        nudge();
        // Reading the other side's index takes as long as some calls: not again before half of the rest
        // is used.
        self.nudge_below = free / 2;
    }
}

struct Owner(*mut Local);

impl Owner {
    fn new() -> Option<Self> {
        let taken = RINGS_BYTES.load(Relaxed);
        let bytes = if taken < RINGS_BYTES_MAX / 2 { RING_BYTES } else { RING_BYTES_SMALL };
        let local = new_ring(bytes)?;
        let local = Box::into_raw(Box::new(local));
        RING.set(local);
        Some(Self(local))
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        RING.set(ptr::null_mut());
        // SAFETY: made by `Box::into_raw` in `new`, and no longer reachable through `RING`. Dropping the
        // producer tells the log thread that no more entries will come; it still takes those in the
        // ring.
        drop(unsafe { Box::from_raw(self.0) });
    }
}

/// Creates a ring and passes its other end to the log thread. None if the bound of all rings is reached.
fn new_ring(bytes: usize) -> Option<Local> {
    let reserve = |taken: usize| (taken + bytes <= RINGS_BYTES_MAX).then_some(taken + bytes);
    RINGS_BYTES.fetch_update(Relaxed, Relaxed, reserve).ok()?;
    let (mut producer, mut consumer) = RingBuffer::new(bytes / 8);
    // Touches the memory now; otherwise there would be a page fault every 100 entries.
    if let Ok(chunk) = producer.write_chunk_uninit(bytes / 8) {
        chunk.fill_from_iter(std::iter::repeat(0));
    }
    if let Ok(chunk) = consumer.read_chunk(bytes / 8) {
        chunk.commit_all();
    }
    let about = Arc::new(About {
        thread: this_thread(),
        name: std::thread::current().name().unwrap_or_default().to_owned(),
        dropped: AtomicU64::new(0),
        ring_bytes: bytes,
    });
    ARRIVALS.add(Source { consumer, about: Arc::clone(&about) });
    let half = bytes / 8 / 2;
    Some(Local { producer, about, nudge_below: half, half })
}
