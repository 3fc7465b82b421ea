//! Quantiles of durations, in memory that does not grow.

use std::time::Duration;

/// Four buckets an octave of microseconds, the last one about nineteen days.
const BUCKETS: usize = 160;

/// How often waits of which length came.
#[derive(Debug, Clone)]
pub(super) struct Quantiles {
    counts: [u64; BUCKETS],
    total: u64,
}

impl Default for Quantiles {
    fn default() -> Self {
        Self { counts: [0; BUCKETS], total: 0 }
    }
}

impl Quantiles {
    pub(super) fn add(&mut self, time: Duration) {
        self.counts[bucket(time)] += 1;
        self.total += 1;
    }

    /// The smallest bound below which `share` of all lie, a quarter too long at most. Nothing is zero.
    pub(super) fn at(&self, share: f64) -> Duration {
        let wanted = (self.total as f64 * share).ceil() as u64;
        let mut seen = 0;
        let found = self.counts.iter().position(|count| {
            seen += count;
            seen >= wanted.max(1)
        });
        found.map_or(Duration::ZERO, |bucket| Duration::from_micros(longest(bucket)))
    }
}

fn bucket(time: Duration) -> usize {
    let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    if micros < 4 {
        return micros as usize;
    }
    let octave = micros.ilog2();
    let quarter = (micros >> (octave - 2)) & 3;
    ((octave as usize - 1) * 4 + quarter as usize).min(BUCKETS - 1)
}

/// Microseconds of the longest wait in a bucket.
fn longest(bucket: usize) -> u64 {
    if bucket < 4 {
        return bucket as u64;
    }
    let (octave, quarter) = (bucket / 4 + 1, bucket as u64 % 4);
    ((4 + quarter + 1) << (octave - 2)) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_one_another_without_a_gap() {
        for index in 0..BUCKETS - 1 {
            let edge = longest(index);
            assert_eq!(bucket(Duration::from_micros(edge)), index);
            assert_eq!(bucket(Duration::from_micros(edge + 1)), index + 1);
        }
        assert_eq!(bucket(Duration::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_are_a_quarter_too_long_at_most() {
        let mut waits = Quantiles::default();
        assert_eq!(waits.at(0.99), Duration::ZERO);
        (1..=1000).for_each(|millis| waits.add(Duration::from_millis(millis)));
        for (share, true_millis) in [(0.5, 500), (0.99, 990), (1.0, 1000)] {
            let (found, truth) = (waits.at(share), Duration::from_millis(true_millis));
            assert!(truth <= found && found <= truth.mul_f64(1.25), "{found:?} for {truth:?}");
        }
        (0..9000).for_each(|_| waits.add(Duration::ZERO));
        assert_eq!(waits.at(0.5), Duration::ZERO, "most steps were there in time");
    }
}
