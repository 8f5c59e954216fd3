//! Conversion of arguments to words in a ring, and back to values in the log thread.

use std::fmt::{self, Write as _};
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::time::Duration;

use loligo_types::{Epoch, Eversion, GlobalId, Incarnation, OsdId, PgId, PoolId, SnapId, Tid};

/// The length in bytes at which a text argument is cut, at the end of a character. A cut text ends with
/// `…`.
pub const TEXT_BYTES_MAX: usize = 1024;

const ELLIPSIS: &str = "…";

/// A type that can be an argument of [`log!`](crate::log).
///
/// The type converts its values to numbers or a text, and back in the log thread. Types that hold
/// secrets do not implement it. A value with `Display` but without `Raw` is passed as
/// [`text`]`(&value)`.
///
/// ```
/// use loligo_logring::{Raw, Taken};
///
/// #[derive(Debug)]
/// struct Lba(u64);
///
/// impl Raw for Lba {
///     type Wire = u64;
///     type View<'a> = Lba;
///     fn raw(&self) -> u64 {
///         self.0
///     }
///     fn view(words: Taken<'_, Self>) -> Lba {
///         Lba(words.value())
///     }
/// }
/// ```
pub trait Raw {
    /// The type of the words: an integer, a `bool`, a `str`, an array of `u64`, a pair.
    type Wire: Wire + ?Sized;
    /// The type of the value that is formatted.
    type View<'a>;

    /// Converts the value to words. Called before the thread's ring is accessed.
    fn raw(&self) -> Of<'_, Self>;
    /// Converts the words back to a value. Called in the log thread.
    fn view(words: Taken<'_, Self>) -> Self::View<'_>;
}

/// A value's words, taken from a ring.
pub struct Taken<'a, T: Raw + ?Sized> {
    value: Of<'a, T>,
    // Mentions the lifetime outside of a projection, so that implementations need not.
    words: PhantomData<&'a ()>,
}

impl<'a, T: Raw + ?Sized> Taken<'a, T> {
    pub(crate) fn new(value: Of<'a, T>) -> Self {
        Self { value, words: PhantomData }
    }

    /// The words in their own types.
    pub fn value(self) -> Of<'a, T> {
        self.value
    }
}

/// The words of a [`Raw`] type, in their own types.
pub type Of<'a, T> = <<T as Raw>::Wire as Wire>::Of<'a>;

/// A type that can be written into a ring. The set is closed: its methods run no user code.
pub trait Wire: private::Sealed {
    /// The value itself, or a reference to it.
    type Of<'a>: Copy;

    /// The number of words of the value.
    #[doc(hidden)]
    fn words(of: &Self::Of<'_>) -> usize;
    /// Writes exactly this number of words.
    #[doc(hidden)]
    fn put(of: Self::Of<'_>, out: &mut Out<'_>);
    /// Reads the words back.
    #[doc(hidden)]
    fn take<'a>(from: &mut Words<'a>) -> Self::Of<'a>;
}

mod private {
    pub trait Sealed {}
}

/// The destination of words: a slice of exactly the right size.
#[doc(hidden)]
pub struct Out<'a>(pub(crate) &'a mut [MaybeUninit<u64>]);

impl Out<'_> {
    #[inline(always)]
    pub(crate) fn word(&mut self, word: u64) {
        let (first, rest) = std::mem::take(&mut self.0).split_first_mut().expect("room for every word");
        first.write(word);
        self.0 = rest;
    }

    /// Writes the bytes, and zeros up to the end of the last word.
    #[inline(always)]
    fn bytes(&mut self, bytes: &[u8]) {
        let (words, rest) = std::mem::take(&mut self.0).split_at_mut(bytes.len().div_ceil(8));
        if let Some(last) = words.last_mut() {
            last.write(0);
        }
        // SAFETY: the words have room for the bytes and are borrowed exclusively, and every bit pattern
        // is a valid word. All words are written: the last one above, all others completely here.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), words.as_mut_ptr().cast(), bytes.len()) };
        self.0 = rest;
    }
}

/// The source of words. Missing words read as zero, so reading is safe whatever was written.
#[doc(hidden)]
pub struct Words<'a>(pub(crate) &'a [u64]);

impl<'a> Words<'a> {
    fn word(&mut self) -> u64 {
        match self.0.split_first() {
            Some((word, rest)) => {
                self.0 = rest;
                *word
            }
            None => 0,
        }
    }

    fn bytes(&mut self, len: usize) -> &'a [u8] {
        let (words, rest) = self.0.split_at(len.div_ceil(8).min(self.0.len()));
        self.0 = rest;
        let len = len.min(words.len() * 8);
        // SAFETY: the words are initialised, and bytes have no alignment and no invalid values.
        unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), len) }
    }
}

macro_rules! numbers {
    ($($type:ty, |$value:ident| $to:expr, |$word:ident| $from:expr;)*) => {$(
        impl private::Sealed for $type {}
        impl Wire for $type {
            type Of<'a> = $type;
            #[inline(always)]
            fn words(_: &$type) -> usize { 1 }
            #[inline(always)]
            fn put($value: $type, out: &mut Out<'_>) { out.word($to) }
            fn take(from: &mut Words<'_>) -> $type { let $word = from.word(); $from }
        }
        itself!($type);
    )*};
}

macro_rules! itself {
    ($($type:ty)*) => {$(
        impl Raw for $type {
            type Wire = $type;
            type View<'a> = $type;
            #[inline(always)]
            fn raw(&self) -> $type { *self }
            fn view(words: Taken<'_, Self>) -> $type { words.value() }
        }
    )*};
}

numbers! {
    u8, |n| n.into(), |w| w as u8;
    u16, |n| n.into(), |w| w as u16;
    u32, |n| n.into(), |w| w as u32;
    u64, |n| n, |w| w;
    usize, |n| n as u64, |w| w as usize;
    i8, |n| n as u64, |w| w as i8;
    i16, |n| n as u64, |w| w as i16;
    i32, |n| n as u64, |w| w as i32;
    i64, |n| n as u64, |w| w as i64;
    isize, |n| n as u64, |w| w as isize;
    f32, |x| x.to_bits().into(), |w| f32::from_bits(w as u32);
    f64, |x| x.to_bits(), |w| f64::from_bits(w);
    bool, |b| b.into(), |w| w != 0;
    char, |c| u32::from(c).into(), |w| char::from_u32(w as u32).unwrap_or(char::REPLACEMENT_CHARACTER);
}

impl<const N: usize> private::Sealed for [u64; N] {}
impl<const N: usize> Wire for [u64; N] {
    type Of<'a> = [u64; N];
    #[inline(always)]
    fn words(_: &[u64; N]) -> usize {
        N
    }
    #[inline(always)]
    fn put(of: [u64; N], out: &mut Out<'_>) {
        of.into_iter().for_each(|word| out.word(word));
    }
    fn take(from: &mut Words<'_>) -> [u64; N] {
        std::array::from_fn(|_| from.word())
    }
}

impl private::Sealed for str {}
/// Written as the length in bytes, then the bytes.
impl Wire for str {
    type Of<'a> = &'a str;
    #[inline(always)]
    fn words(of: &&str) -> usize {
        1 + cut(of, TEXT_BYTES_MAX).len().div_ceil(8)
    }
    #[inline(always)]
    fn put(of: &str, out: &mut Out<'_>) {
        let kept = cut(of, TEXT_BYTES_MAX);
        out.word(kept.len() as u64);
        out.bytes(kept.as_bytes());
    }
    fn take<'a>(from: &mut Words<'a>) -> &'a str {
        let len = from.word() as usize;
        std::str::from_utf8(from.bytes(len)).unwrap_or("(not UTF-8)")
    }
}

/// Returns the longest prefix of `text` of at most `max` bytes that ends at the end of a character.
#[inline(always)]
fn cut(text: &str, max: usize) -> &str {
    if text.len() <= max { text } else { cut_slowly(text, max) }
}

#[cold]
fn cut_slowly(text: &str, max: usize) -> &str {
    let end = (0..=max).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

impl Raw for str {
    type Wire = str;
    type View<'a> = Cut<'a>;
    #[inline(always)]
    fn raw(&self) -> &str {
        self
    }
    fn view(words: Taken<'_, Self>) -> Cut<'_> {
        Cut(words.value())
    }
}

impl Raw for String {
    type Wire = str;
    type View<'a> = Cut<'a>;
    #[inline(always)]
    fn raw(&self) -> &str {
        self
    }
    fn view(words: Taken<'_, Self>) -> Cut<'_> {
        Cut(words.value())
    }
}

/// A text from the ring. It counts as cut if no further character of four bytes would fit.
#[derive(Clone, Copy, PartialEq, Eq)]
#[doc(hidden)]
pub struct Cut<'a>(&'a str);

impl Cut<'_> {
    fn was_cut(&self) -> bool {
        self.0.len() > TEXT_BYTES_MAX - 4
    }
}

impl fmt::Display for Cut<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.0)?;
        if self.was_cut() { f.write_str(ELLIPSIS) } else { Ok(()) }
    }
}

impl fmt::Debug for Cut<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)?;
        if self.was_cut() { f.write_str(ELLIPSIS) } else { Ok(()) }
    }
}

impl<T: Raw + ?Sized> Raw for &T {
    type Wire = T::Wire;
    type View<'a> = T::View<'a>;
    #[inline(always)]
    fn raw(&self) -> Of<'_, T> {
        T::raw(self)
    }
    fn view(words: Taken<'_, Self>) -> T::View<'_> {
        T::view(Taken::new(words.value()))
    }
}

/// Formats a value with `Display` in the caller. For code that is not performance-critical.
pub fn text(value: &(impl fmt::Display + ?Sized)) -> Text {
    let mut text = Text { bytes: [0; TEXT_BYTES_MAX], len: 0 };
    // An error comes from the value or means that the text is full; the text written so far is kept.
    let _ = write!(text, "{value}");
    text
}

/// The result of [`text`].
pub struct Text {
    bytes: [u8; TEXT_BYTES_MAX],
    len: usize,
}

impl Text {
    pub(crate) fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.len]).unwrap_or_default()
    }

    pub(crate) const fn empty() -> Self {
        Self { bytes: [0; TEXT_BYTES_MAX], len: 0 }
    }
}

impl fmt::Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let kept = cut(text, TEXT_BYTES_MAX - self.len);
        self.bytes[self.len..self.len + kept.len()].copy_from_slice(kept.as_bytes());
        self.len += kept.len();
        if kept.len() == text.len() { Ok(()) } else { Err(fmt::Error) }
    }
}

impl Raw for Text {
    type Wire = str;
    type View<'a> = Cut<'a>;
    fn raw(&self) -> &str {
        self.as_str()
    }
    fn view(words: Taken<'_, Self>) -> Cut<'_> {
        Cut(words.value())
    }
}

macro_rules! by {
    ($($type:ty, $wire:ty, |$value:ident| $to:expr, |$word:pat_param| $from:expr;)*) => {$(
        impl Raw for $type {
            type Wire = $wire;
            type View<'a> = $type;
            #[inline(always)]
            fn raw(&self) -> $wire { let $value = self; $to }
            fn view(words: Taken<'_, Self>) -> $type { let $word = words.value(); $from }
        }
    )*};
}

by! {
    u128, [u64; 2], |n| [(*n >> 64) as u64, *n as u64], |[high, low]| u128::from(high) << 64 | u128::from(low);
    Duration, [u64; 2], |d| [d.as_secs(), d.subsec_nanos().into()], |[s, ns]| Duration::new(s, ns as u32);
    IpAddr, [u64; 3], |ip| ip_words(*ip), |words| ip_of(words);
    SocketAddr, [u64; 4], |addr| addr_words(addr), |words| addr_of(words);
    Epoch, u32, |id| id.0, |n| Epoch(n);
    OsdId, i32, |id| id.0, |n| OsdId(n);
    PoolId, i64, |id| id.0, |n| PoolId(n);
    Tid, u64, |id| id.0, |n| Tid(n);
    SnapId, u64, |id| id.0, |n| SnapId(n);
    GlobalId, u64, |id| id.0, |n| GlobalId(n);
    Incarnation, i32, |id| id.0, |n| Incarnation(n);
    PgId, [u64; 2], |pg| [pg.pool.0 as u64, pg.seed.into()],
        |[pool, seed]| PgId { pool: PoolId(pool as i64), seed: seed as u32 };
    Eversion, [u64; 2], |v| [v.epoch.0.into(), v.version],
        |[epoch, version]| Eversion { epoch: Epoch(epoch as u32), version };
}

#[inline(always)]
fn ip_words(ip: IpAddr) -> [u64; 3] {
    match ip {
        IpAddr::V4(ip) => [4, u32::from(ip).into(), 0],
        IpAddr::V6(ip) => [6, (u128::from(ip) >> 64) as u64, u128::from(ip) as u64],
    }
}

fn ip_of([kind, high, low]: [u64; 3]) -> IpAddr {
    match kind {
        6 => Ipv6Addr::from(u128::from(high) << 64 | u128::from(low)).into(),
        _ => Ipv4Addr::from(high as u32).into(),
    }
}

/// Writes the address, and one word with the port (low 16 bits), the flow (20 bits) and the low 28 bits
/// of the scope, which is a small number.
#[inline(always)]
fn addr_words(addr: &SocketAddr) -> [u64; 4] {
    let [kind, high, low] = ip_words(addr.ip());
    let rest = match addr {
        SocketAddr::V4(_) => 0,
        SocketAddr::V6(v6) => u64::from(v6.scope_id()) << 36 | u64::from(v6.flowinfo() & 0xf_ffff) << 16,
    };
    [kind, high, low, rest | u64::from(addr.port())]
}

fn addr_of([kind, high, low, rest]: [u64; 4]) -> SocketAddr {
    let (port, flow, scope) = (rest as u16, (rest >> 16) as u32 & 0xf_ffff, (rest >> 36) as u32);
    match ip_of([kind, high, low]) {
        IpAddr::V4(ip) => SocketAddrV4::new(ip, port).into(),
        IpAddr::V6(ip) => SocketAddrV6::new(ip, port, flow, scope).into(),
    }
}

macro_rules! tuples {
    ($(($($name:ident $value:ident)*))*) => {$(
        impl<$($name: Wire + ?Sized),*> private::Sealed for Many<($(Box<$name>,)*)> {}
        #[allow(unused_variables, clippy::unused_unit)]
        impl<$($name: Wire + ?Sized),*> Wire for Many<($(Box<$name>,)*)> {
            type Of<'a> = ($($name::Of<'a>,)*);
            #[inline(always)]
            fn words(($($value,)*): &Self::Of<'_>) -> usize { 0 $(+ $name::words($value))* }
            #[inline(always)]
            fn put(($($value,)*): Self::Of<'_>, out: &mut Out<'_>) { $($name::put($value, out);)* }
            // The elements of a tuple expression are evaluated in order.
            fn take<'a>(from: &mut Words<'a>) -> Self::Of<'a> { ($($name::take(from),)*) }
        }
        #[allow(clippy::unused_unit)]
        impl<$($name: Raw),*> Raw for ($($name,)*) {
            type Wire = Many<($(Box<$name::Wire>,)*)>;
            type View<'a> = ($($name::View<'a>,)*);
            #[inline(always)]
            fn raw(&self) -> Of<'_, Self> { let ($($value,)*) = self; ($($value.raw(),)*) }
            fn view(words: Taken<'_, Self>) -> Self::View<'_> {
                let ($($value,)*) = words.value();
                ($($name::view(Taken::new($value)),)*)
            }
        }
    )*};
}

/// Several values, one after the other. `Box` is used only because types such as `str` have no size; no
/// box is ever created.
#[doc(hidden)]
pub struct Many<T>(PhantomData<T>);

/// The maximum number of arguments of one entry.
pub(crate) const ARGS_MAX: usize = 8;

tuples! {
    () (A a) (A a B b) (A a B b C c) (A a B b C c D d) (A a B b C c D d E e) (A a B b C c D d E e F f)
    (A a B b C c D d E e F f G g) (A a B b C c D d E e F f G g H h)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn words_of<T: Raw>(value: &T) -> Vec<u64> {
        let of = value.raw();
        let mut words = vec![MaybeUninit::new(0); T::Wire::words(&of)];
        let mut out = Out(&mut words);
        T::Wire::put(of, &mut out);
        assert!(out.0.is_empty(), "as many words as said");
        // SAFETY: all words were initialised by `vec!` and written by `put`.
        words.into_iter().map(|word| unsafe { word.assume_init() }).collect()
    }

    fn shown<T: Raw>(value: T) -> String
    where
        for<'a> T::View<'a>: fmt::Debug,
    {
        let words = words_of(&value);
        let mut from = Words(&words);
        let view = format!("{:?}", T::view(Taken::new(T::Wire::take(&mut from))));
        assert!(from.0.is_empty(), "all words were read");
        view
    }

    proptest! {
        #[test]
        fn arguments_come_back(
            ints in any::<(u8, i16, u32, i64, usize, i8, isize, u128)>(),
            (x, y, flag, letter) in any::<(f32, f64, bool, char)>(),
            text in ".{0,80}",
            ip in any::<(IpAddr, u16)>(),
        ) {
            prop_assert_eq!(shown(ints), format!("{ints:?}"));
            prop_assert_eq!(shown((x, y, flag, letter)), format!("{:?}", (x, y, flag, letter)));
            let addr = SocketAddr::from(ip);
            let ids = (Epoch(ints.2), Tid(ints.4 as u64), PoolId(ints.3), addr, ip.0);
            prop_assert_eq!(shown((text.as_str(), ids.0, ids.1, ids.2, ids.3, ids.4)),
                format!("{:?}", (&text, ids.0, ids.1, ids.2, ids.3, ids.4)));
        }

        #[test]
        fn random_words_are_read_without_harm(words in proptest::collection::vec(any::<u64>(), 0..20)) {
            type All = (String, u8, char, SocketAddr, [u64; 0]);
            let mut from = Words(&words);
            let text = <str as Wire>::take(&mut from);
            prop_assert!(text.len() <= 8 * words.len().max(2));
            let _ = <char as Wire>::take(&mut from);
            let _ = addr_of(<[u64; 4] as Wire>::take(&mut from));
            let _: Option<All> = None;
        }

        #[test]
        fn long_texts_are_cut_at_a_character(text in "[aäш𝄞]{900,1100}") {
            let words = words_of(&text);
            prop_assert!(words.len() <= 1 + TEXT_BYTES_MAX / 8);
            let shown = String::view(Taken::new(<str as Wire>::take(&mut Words(&words)))).to_string();
            match text.len() > TEXT_BYTES_MAX {
                true => prop_assert!(text.starts_with(shown.strip_suffix(ELLIPSIS).unwrap())),
                false => prop_assert!(shown == text || text.len() > TEXT_BYTES_MAX - 4),
            }
        }
    }

    #[test]
    fn what_is_displayed_is_bounded() {
        assert_eq!(text(&format_args!("{}-{}", 1, 2)).as_str(), "1-2");
        assert_eq!(text(&"x".repeat(5000)).as_str().len(), TEXT_BYTES_MAX);
    }

    #[test]
    fn scopes_come_back() {
        let addr = SocketAddr::from(SocketAddrV6::new(Ipv6Addr::LOCALHOST, 6789, 7, 2));
        assert_eq!(addr_of(addr_words(&addr)), addr);
    }
}
