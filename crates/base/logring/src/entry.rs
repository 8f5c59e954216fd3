//! An entry in a ring, and the place in the source it comes from.
//!
//! | word | what |
//! |---|---|
//! | 0 | time, in ticks of `clock.rs` |
//! | 1 | address of the [`Meta`] of the call |
//! | 2 | bits 0–15: words of the entry in all; 16–23: subsystem; 24–31: level |
//! | 3… | the arguments, as their types write them (`raw.rs`) |

use std::fmt;
use std::mem::MaybeUninit;

use crate::Subsys;
use crate::raw::{ARGS_MAX, Out, Raw, TEXT_BYTES_MAX, Taken, Wire, Words};

pub(crate) const HEADER_WORDS: usize = 3;
/// The longest entry: every argument a text of the greatest length.
pub(crate) const ENTRY_WORDS_MAX: usize = HEADER_WORDS + ARGS_MAX * (1 + TEXT_BYTES_MAX / 8);

const _: () = assert!(ENTRY_WORDS_MAX <= u16::MAX as usize, "the header's bits");

/// Where a call of `log!` stands, and what it says of itself.
#[derive(Debug)]
pub struct Place {
    /// The subsystem.
    pub subsys: Subsys,
    /// The level, −1 to 20.
    pub level: i8,
    /// The source file.
    pub file: &'static str,
    /// The line in it.
    pub line: u32,
}

/// A call of `log!`, as a type.
pub trait Site {
    /// Its place.
    const PLACE: Place;
}

/// What the log thread must know to format an entry.
pub(crate) struct Meta {
    place: Place,
    format: fn(&[u64], &mut dyn fmt::Write) -> fmt::Result,
}

/// Makes the `Meta` of a call: of its site, its arguments' types and its closure that formats them.
pub(crate) struct MetaOf<S, A, F>(std::marker::PhantomData<(S, A, F)>);

impl<S, A, F> MetaOf<S, A, F>
where
    S: Site,
    A: Raw,
    F: Fn(&mut dyn fmt::Write, A::View<'_>) -> fmt::Result + Copy,
{
    pub(crate) const META: &'static Meta = &Meta { place: S::PLACE, format: format::<A, F> };
    /// A closure that captures something (`{name}` in a format string) would have a size.
    pub(crate) const CAPTURES_NOTHING: () =
        assert!(size_of::<F>() == 0, "name arguments after the format string, not within it");
}

fn format<A, F>(args: &[u64], out: &mut dyn fmt::Write) -> fmt::Result
where
    A: Raw,
    F: Fn(&mut dyn fmt::Write, A::View<'_>) -> fmt::Result + Copy,
{
    const { assert!(size_of::<F>() == 0) };
    // SAFETY: F has no size, so there is nothing to read; it is `Copy`, so it can be had again; and a value
    // of it was there, or this entry would not have been made.
    let format: F = unsafe { std::ptr::NonNull::<F>::dangling().read() };
    format(out, A::view(Taken::new(A::Wire::take(&mut Words(args)))))
}

/// A header's words.
#[derive(Clone, Copy)]
pub(crate) struct Header {
    pub(crate) ticks: u64,
    pub(crate) meta: &'static Meta,
    pub(crate) words: usize,
    pub(crate) subsys: Subsys,
    pub(crate) level: i8,
}

impl Header {
    #[inline(always)]
    pub(crate) fn put(self, out: &mut Out<'_>) {
        out.word(self.ticks);
        out.word((self.meta as *const Meta).expose_provenance() as u64);
        let kind = u64::from(self.subsys.index()) << 16 | u64::from(self.level as u8) << 24;
        out.word(kind | self.words as u64);
    }

    /// # Safety
    /// The words are what [`put`](Self::put) wrote.
    pub(crate) unsafe fn take(words: [u64; HEADER_WORDS]) -> Self {
        let [ticks, meta, kind] = words;
        // SAFETY: by the caller's promise the address is that of a static.
        let meta = unsafe { &*std::ptr::with_exposed_provenance::<Meta>(meta as usize) };
        Self {
            ticks,
            meta,
            words: (kind & 0xffff) as usize,
            subsys: Subsys::from_index((kind >> 16) as u8),
            level: (kind >> 24) as i8,
        }
    }
}

/// Writes a whole entry to a place of its size.
///
/// Every word is written: `out` is empty afterwards, which is checked, since the ring relies on it.
#[inline(always)]
pub(crate) fn put<W: Wire + ?Sized>(header: Header, args: W::Of<'_>, out: &mut [MaybeUninit<u64>]) {
    let mut out = Out(out);
    header.put(&mut out);
    W::put(args, &mut out);
    assert!(out.0.is_empty(), "an argument wrote fewer words than it said");
}

/// An entry that was taken from a ring, or kept.
pub(crate) struct Entry<'a> {
    pub(crate) header: Header,
    /// The thread, as Ceph names it: `pthread_self`.
    pub(crate) thread: u64,
    words: &'a [u64],
}

impl<'a> Entry<'a> {
    /// # Safety
    /// The words are a whole entry that [`put`] wrote.
    pub(crate) unsafe fn new(thread: u64, words: &'a [u64]) -> Self {
        // SAFETY: the caller's promise.
        let header = unsafe { Header::take([words[0], words[1], words[2]]) };
        Self { header, thread, words }
    }

    pub(crate) fn words(&self) -> &'a [u64] {
        self.words
    }

    /// The text. A value whose formatting panics spoils its own line only.
    pub(crate) fn format(&self, out: &mut dyn fmt::Write) {
        let args = &self.words[HEADER_WORDS..];
        let format = self.header.meta.format;
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| format(args, out)));
        if !matches!(caught, Ok(Ok(()))) {
            let Place { file, line, .. } = self.header.meta.place;
            let _ = write!(out, " (an argument of {file}:{line} cannot be shown)");
        }
    }
}
