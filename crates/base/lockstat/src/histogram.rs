//! Times in ticks in logarithmic buckets: four buckets per octave, so a percentile is accurate to
//! within a quarter.

use std::sync::atomic::{AtomicU32, Ordering};

/// Four buckets for each power of two up to 2^40 ticks (minutes); longer times go to the last bucket.
pub(crate) const BUCKETS: usize = 160;

/// A histogram with one writer; other threads may read it at any time.
pub(crate) struct Histogram([AtomicU32; BUCKETS]);

/// The contents of a [`Histogram`] when it was read, or a sum of several.
#[derive(Clone, Debug)]
pub(crate) struct Counts([u64; BUCKETS]);

impl Histogram {
    pub(crate) fn new() -> Self {
        Self([const { AtomicU32::new(0) }; BUCKETS])
    }

    /// Counts a time with a weight. Only the owning thread calls this.
    #[inline]
    pub(crate) fn add(&self, ticks: u64, weight: u32) {
        let bucket = &self.0[bucket_of(ticks)];
        // A plain load and store: there is one writer. The count saturates instead of wrapping.
        bucket.store(bucket.load(Ordering::Relaxed).saturating_add(weight), Ordering::Relaxed);
    }

    pub(crate) fn clear(&self) {
        for bucket in &self.0 {
            bucket.store(0, Ordering::Relaxed);
        }
    }

    pub(crate) fn counts(&self) -> Counts {
        Counts(std::array::from_fn(|i| u64::from(self.0[i].load(Ordering::Relaxed))))
    }
}

impl Default for Counts {
    fn default() -> Self {
        Self([0; BUCKETS])
    }
}

impl Counts {
    pub(crate) fn add(&mut self, other: &Counts) {
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            *mine += theirs;
        }
    }

    /// Returns the increase since an earlier reading.
    pub(crate) fn since(&self, earlier: &Counts) -> Counts {
        Counts(std::array::from_fn(|i| self.0[i].saturating_sub(earlier.0[i])))
    }

    /// The bounds of the counted times: lower end of the lowest bucket, upper end of the highest. None
    /// if empty.
    pub(crate) fn range(&self) -> Option<(u64, u64)> {
        let lowest = self.0.iter().position(|&count| count > 0)?;
        let highest = self.0.iter().rposition(|&count| count > 0)?;
        Some((lower_end(lowest), upper_end(highest)))
    }

    /// The number of counted times.
    fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// The upper end of the bucket in which the given fraction (0 to 1) of all times is reached; 0 if
    /// there are none.
    pub(crate) fn quantile(&self, part: f64) -> u64 {
        let wanted = ((self.total() as f64 * part).ceil() as u64).max(1);
        let mut seen = 0;
        for (index, count) in self.0.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return upper_end(index);
            }
        }
        0
    }
}

#[inline]
fn bucket_of(ticks: u64) -> usize {
    if ticks < 4 {
        return ticks as usize;
    }
    let exponent = ticks.ilog2() as usize;
    let quarter = (ticks >> (exponent - 2)) as usize & 3;
    ((exponent - 1) * 4 + quarter).min(BUCKETS - 1)
}

/// The smallest time that falls into a bucket.
fn lower_end(bucket: usize) -> u64 {
    bucket.checked_sub(1).map_or(0, |below| upper_end(below) + 1)
}

/// The largest time that falls into a bucket.
fn upper_end(bucket: usize) -> u64 {
    if bucket < 4 {
        return bucket as u64;
    }
    let exponent = bucket / 4 + 1;
    let quarter = (bucket % 4) as u64;
    ((4 + quarter + 1) << (exponent - 2)) - 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_time_lies_within_its_bucket(ticks in 0u64..1 << 40) {
            let bucket = bucket_of(ticks);
            prop_assert!(ticks <= upper_end(bucket));
            prop_assert!(ticks >= lower_end(bucket));
        }

        #[test]
        fn a_quantile_is_right_to_within_a_quarter(mut times in prop::collection::vec(0u64..1 << 30, 1..200), part in 0.01f64..1.0) {
            let histogram = Histogram::new();
            times.iter().for_each(|&t| histogram.add(t, 1));
            times.sort_unstable();
            let exact = times[((times.len() as f64 * part).ceil() as usize).max(1) - 1];
            let got = histogram.counts().quantile(part);
            prop_assert!(exact <= got && got <= exact + exact / 4 + 1, "exact {exact}, got {got}");
        }
    }

    #[test]
    fn the_longest_times_share_the_last_bucket() {
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
        assert_eq!(bucket_of((1 << 41) - 1), BUCKETS - 1);
    }
}
