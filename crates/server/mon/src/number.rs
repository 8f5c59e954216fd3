//! Conversion of numbers to integers.

/// The integer part. Negative numbers and NaN give 0; numbers that are too large give the maximum.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast of a float stops at the bounds; of what is no number it makes 0"
)]
pub(crate) fn whole(number: f64) -> u64 {
    number as u64
}

/// The nearest power of two; the larger one if two are equally near; at most 2^63. Returns 0 for 0.
pub(crate) fn nearest_power_of_two(n: u64) -> u64 {
    let above = n.max(1).checked_next_power_of_two().unwrap_or(1 << 63);
    let below = above / 2;
    if above > n && above - n > n - below { below } else { above }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_a_user_types_is_a_number() {
        for (typed, is) in [(1.9, 1), (-3.0, 0), (f64::NAN, 0), (f64::INFINITY, u64::MAX), (1e300, u64::MAX)]
        {
            assert_eq!(whole(typed), is, "{typed}");
        }
        for (n, near) in [(0, 0), (3, 4), (5, 4), (6, 8), (u64::MAX, 1 << 63), ((1 << 63) + 1, 1 << 63)] {
            assert_eq!(nearest_power_of_two(n), near, "{n}");
        }
    }
}
