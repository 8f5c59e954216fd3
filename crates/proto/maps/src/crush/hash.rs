//! The CRUSH hash of one to five 32-bit values (`src/crush/hash.c`, "rjenkins1").

use crate::mix::mix;

const SEED: u32 = 1_315_423_911;
/// The initial values of two additional words that the mixing rounds update.
const X: u32 = 231_232;
const Y: u32 = 1_232;

/// Returns the hash of one value.
pub fn hash32_1(a: u32) -> u32 {
    let (mut b, mut x, mut y, mut a, mut h) = (a, X, Y, a, SEED ^ a);
    mix(&mut b, &mut x, &mut h);
    mix(&mut y, &mut a, &mut h);
    h
}

/// Returns the hash of two values.
#[inline]
pub fn hash32_2(mut a: u32, mut b: u32) -> u32 {
    let (mut x, mut y, mut h) = (X, Y, SEED ^ a ^ b);
    mix(&mut a, &mut b, &mut h);
    mix(&mut x, &mut a, &mut h);
    mix(&mut b, &mut y, &mut h);
    h
}

/// Returns the hash of three values.
#[inline]
pub fn hash32_3(mut a: u32, mut b: u32, mut c: u32) -> u32 {
    let (mut x, mut y, mut h) = (X, Y, SEED ^ a ^ b ^ c);
    mix(&mut a, &mut b, &mut h);
    mix(&mut c, &mut x, &mut h);
    mix(&mut y, &mut a, &mut h);
    mix(&mut b, &mut x, &mut h);
    mix(&mut y, &mut c, &mut h);
    h
}

/// Returns the hashes of `a`, each of `b`, and `c`: [`hash32_3`] on `N` values at once, which the processor
/// computes in parallel.
#[inline]
pub(super) fn hash32_3_each<const N: usize>(a: u32, b: &[u32; N], c: u32) -> [u32; N] {
    let mut h = b.map(|b| SEED ^ a ^ b ^ c);
    let (mut a, mut b, mut c, mut x, mut y) = ([a; N], *b, [c; N], [X; N], [Y; N]);
    mix_each(&mut a, &mut b, &mut h);
    mix_each(&mut c, &mut x, &mut h);
    mix_each(&mut y, &mut a, &mut h);
    mix_each(&mut b, &mut x, &mut h);
    mix_each(&mut y, &mut c, &mut h);
    h
}

#[inline(always)]
fn mix_each<const N: usize>(a: &mut [u32; N], b: &mut [u32; N], c: &mut [u32; N]) {
    for i in 0..N {
        mix(&mut a[i], &mut b[i], &mut c[i]);
    }
}

/// Returns the hash of four values.
#[inline]
pub fn hash32_4(mut a: u32, mut b: u32, mut c: u32, mut d: u32) -> u32 {
    let (mut x, mut y, mut h) = (X, Y, SEED ^ a ^ b ^ c ^ d);
    mix(&mut a, &mut b, &mut h);
    mix(&mut c, &mut d, &mut h);
    mix(&mut a, &mut x, &mut h);
    mix(&mut y, &mut b, &mut h);
    mix(&mut c, &mut x, &mut h);
    mix(&mut y, &mut d, &mut h);
    h
}

/// Returns the hash of five values.
pub fn hash32_5(mut a: u32, mut b: u32, mut c: u32, mut d: u32, mut e: u32) -> u32 {
    let (mut x, mut y, mut h) = (X, Y, SEED ^ a ^ b ^ c ^ d ^ e);
    mix(&mut a, &mut b, &mut h);
    mix(&mut c, &mut d, &mut h);
    mix(&mut e, &mut x, &mut h);
    mix(&mut y, &mut a, &mut h);
    mix(&mut b, &mut x, &mut h);
    mix(&mut y, &mut c, &mut h);
    mix(&mut d, &mut x, &mut h);
    mix(&mut y, &mut e, &mut h);
    h
}
