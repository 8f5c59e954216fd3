//! An entry in a ring, and the call site it comes from.
//!
//! | word | content |
//! |---|---|
//! | 0 | time, in ticks of `clock.rs` |
//! | 1 | address of the [`Meta`] of the call |
//! | 2 | bits 0–15: total words of the entry; 16–23: subsystem; 24–31: level |
//! | 3… | the arguments, as written by their types (`raw.rs`) |

use std::fmt;
use std::mem::MaybeUninit;

use crate::Subsys;
use crate::raw::{ARGS_MAX, Out, Raw, TEXT_BYTES_MAX, Taken, Wire, Words};

pub(crate) const HEADER_WORDS: usize = 3;
/// The longest entry: every argument is a text of the greatest length.
pub(crate) const ENTRY_WORDS_MAX: usize = HEADER_WORDS + ARGS_MAX * (1 + TEXT_BYTES_MAX / 8);

const _: () = assert!(ENTRY_WORDS_MAX <= u16::MAX as usize, "the header's bits");

/// The call site of a `log!`, with its subsystem and level.
#[derive(Debug)]
pub struct Place {
    /// The subsystem.
    pub subsys: Subsys,
    /// The level, −1 to 20.
    pub level: i8,
    /// The source file.
    pub file: &'static str,
    /// The line in the source file.
    pub line: u32,
}

/// A call of `log!` as a type.
pub trait Site {
    /// The place of the call.
    const PLACE: Place;
}

/// The data that the log thread needs to format an entry.
pub(crate) struct Meta {
    place: Place,
    format: fn(&[u64], &mut dyn fmt::Write) -> fmt::Result,
}

/// Makes the `Meta` of a call from its site, its arguments' types and its formatting closure.
pub(crate) struct MetaOf<S, A, F>(std::marker::PhantomData<(S, A, F)>);

impl<S, A, F> MetaOf<S, A, F>
where
    S: Site,
    A: Raw,
    F: Fn(&mut dyn fmt::Write, A::View<'_>) -> fmt::Result + Copy,
{
    pub(crate) const META: &'static Meta = &Meta { place: S::PLACE, format: format::<A, F> };
    /// A closure that captures a variable (`{name}` in a format string) would have a size.
    pub(crate) const CAPTURES_NOTHING: () =
        assert!(size_of::<F>() == 0, "name arguments after the format string, not within it");
}

fn format<A, F>(args: &[u64], out: &mut dyn fmt::Write) -> fmt::Result
where
    A: Raw,
    F: Fn(&mut dyn fmt::Write, A::View<'_>) -> fmt::Result + Copy,
{
    const { assert!(size_of::<F>() == 0) };
    // SAFETY: F has no size, so nothing is read. It is `Copy`, so it can be duplicated, and a value of
    // it existed, otherwise this entry would not have been made.
    let format: F = unsafe { std::ptr::NonNull::<F>::dangling().read() };
    format(out, A::view(Taken::new(A::Wire::take(&mut Words(args)))))
}

/// The header of an entry.
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
    /// The words were written by [`put`](Self::put).
    pub(crate) unsafe fn take(words: [u64; HEADER_WORDS]) -> Self {
        let [ticks, meta, kind] = words;
        // SAFETY: the caller guarantees that this is the address of a static.
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

/// Writes a whole entry into a slice of its size.
///
/// Every word is written: `out` is empty afterwards. This is checked, since the ring relies on it.
#[inline(always)]
pub(crate) fn put<W: Wire + ?Sized>(header: Header, args: W::Of<'_>, out: &mut [MaybeUninit<u64>]) {
    let mut out = Out(out);
    header.put(&mut out);
    W::put(args, &mut out);
    assert!(out.0.is_empty(), "an argument wrote fewer words than it said");
}

/// An entry taken from a ring, or a kept one.
pub(crate) struct Entry<'a> {
    pub(crate) header: Header,
    /// The thread's identifier as in Ceph: `pthread_self`.
    pub(crate) thread: u64,
    words: &'a [u64],
}

impl<'a> Entry<'a> {
    /// # Safety
    /// The words are a whole entry, written by [`put`].
    pub(crate) unsafe fn new(thread: u64, words: &'a [u64]) -> Self {
        // SAFETY: guaranteed by the caller.
        let header = unsafe { Header::take([words[0], words[1], words[2]]) };
        Self { header, thread, words }
    }

    pub(crate) fn words(&self) -> &'a [u64] {
        self.words
    }

    /// Formats the text. A panic while formatting a value affects only this line.
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
