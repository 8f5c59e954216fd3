//! Times by logarithmic bucket: four buckets to the octave, so a percentile is right to within a quarter.

use std::sync::atomic::{AtomicU32, Ordering};

/// Four buckets for each power of two up to 2^40 ns (18 minutes); what is longer goes to the last.
pub(crate) const BUCKETS: usize = 160;

/// A histogram with one writer; others may read it at any time.
pub(crate) struct Histogram([AtomicU32; BUCKETS]);

/// What a [`Histogram`] held when it was read, or a sum of several.
#[derive(Clone, Debug)]
pub(crate) struct Counts([u64; BUCKETS]);

impl Histogram {
    pub(crate) fn new() -> Self {
        Self([const { AtomicU32::new(0) }; BUCKETS])
    }

    /// Counts one time. Only the owning thread calls this.
    pub(crate) fn add(&self, ns: u64) {
        let bucket = &self.0[bucket_of(ns)];
        // A plain load and store: there is one writer. The count stops at its maximum instead of wrapping.
        bucket.store(bucket.load(Ordering::Relaxed).saturating_add(1), Ordering::Relaxed);
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

impl Counts {
    pub(crate) fn merge(&mut self, other: &Counts) {
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            *mine += theirs;
        }
    }

    /// How many times were counted.
    pub(crate) fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// The upper end of the bucket in which the given part (0 to 1) of all times is reached; 0 if there are none.
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

fn bucket_of(ns: u64) -> usize {
    if ns < 4 {
        return ns as usize;
    }
    let exponent = ns.ilog2() as usize;
    let quarter = (ns >> (exponent - 2)) as usize & 3;
    ((exponent - 1) * 4 + quarter).min(BUCKETS - 1)
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
        fn a_time_lies_within_its_bucket(ns in 0u64..1 << 40) {
            let bucket = bucket_of(ns);
            prop_assert!(ns <= upper_end(bucket));
            prop_assert!(bucket == 0 || ns > upper_end(bucket - 1));
        }

        #[test]
        fn a_quantile_is_right_to_within_a_quarter(mut times in prop::collection::vec(0u64..1 << 30, 1..200), part in 0.01f64..1.0) {
            let histogram = Histogram::new();
            times.iter().for_each(|&t| histogram.add(t));
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
