//! How well an order shuffles, told from the order alone.
//!
//! In: the plan of a feed and an epoch. Out: how far rows move, how many blocks meet in a batch, and how
//! much a row tells of its successor, each beside what a perfect shuffle would give. A sample of the
//! epoch's steps is looked at; the same one for the same plan. It reads no row: the column that it speaks
//! of is the row's place in the files, the worst there is, for it is sorted through and through.

use super::{EpochPlan, Plan};

/// Steps looked at, unless their windows are so large that fewer must do.
const STEPS: u64 = 64;
/// Rows of windows to be permuted for the sample, at most.
const SAMPLE_ROWS: u64 = 1 << 25;
/// Uniform numbers in [0, 1): their mean distance, their mean and their variance.
pub const RANDOM_DISTANCE: f64 = 1.0 / 3.0;
const MEAN: f64 = 0.5;
const VARIANCE: f64 = 1.0 / 12.0;

/// How an epoch mixes its rows. Of no shuffle, `moved` is 0 and `autocorrelation` 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quality {
    /// Mean distance between a row's place in the files and in the epoch, as a part of all rows;
    /// [`RANDOM_DISTANCE`] if every order were as likely.
    pub moved: f64,
    /// Blocks that a global batch has rows of, on average.
    pub blocks_per_batch: f64,
    /// The same if every order were as likely.
    pub random_blocks_per_batch: f64,
    /// Correlation of the place in the files of a row with that of the row fed after it; 0 if every order
    /// were as likely.
    pub autocorrelation: f64,
}

impl Plan {
    /// Measures one epoch; `None` where no step is whole. Costs O(blocks) and the windows of the sample.
    pub fn quality(&self, epoch: u64) -> Option<Quality> {
        let steps = self.cut.whole_steps();
        if steps == 0 {
            return None;
        }
        let order = self.epoch(epoch);
        let starts = self.starts();
        let sampled = self.sampled(steps);
        let rows = self.rows() as f64;
        let (mut moved, mut blocks, mut products) = (0.0, 0, 0.0);
        for i in 0..sampled {
            // The middle of each of as many equal parts of the epoch.
            let step = (u128::from(2 * i + 1) * u128::from(steps) / u128::from(2 * sampled)) as u64;
            let batch = self.batch(&order, step);
            let first = step as f64 * self.batch_size() as f64;
            let places: Vec<f64> =
                batch.iter().map(|&(block, row)| (starts[block as usize] + row) as f64 / rows).collect();
            let fed = |index: usize| (first + index as f64) / rows;
            let distance = places.iter().enumerate().map(|(index, place)| (place - fed(index)).abs());
            moved += distance.sum::<f64>() / places.len() as f64;
            let pairs = places.windows(2).map(|pair| (pair[0] - MEAN) * (pair[1] - MEAN));
            products += pairs.sum::<f64>() / (places.len() - 1).max(1) as f64;
            let mut met: Vec<u32> = batch.iter().map(|&(block, _)| block).collect();
            met.sort_unstable();
            met.dedup();
            blocks += met.len();
        }
        let sampled = sampled as f64;
        Some(Quality {
            moved: moved / sampled,
            blocks_per_batch: blocks as f64 / sampled,
            random_blocks_per_batch: self.random_blocks(),
            autocorrelation: products / sampled / VARIANCE,
        })
    }

    fn sampled(&self, steps: u64) -> u64 {
        let permuted = self.window_rows().unwrap_or(1).saturating_mul(u64::from(self.lanes()));
        let per_step = permuted.min(self.rows()).max(self.batch_size());
        STEPS.min(SAMPLE_ROWS / per_step).clamp(1, steps)
    }

    /// Where each block begins in the files, counted in rows.
    fn starts(&self) -> Vec<u64> {
        let mut starts = Vec::with_capacity(self.blocks.len());
        let mut at = 0;
        for &(block, rows) in &self.blocks {
            // Blocks without rows are not in the plan; nothing lies in them.
            starts.resize(block as usize, at);
            starts.push(at);
            at += rows;
        }
        starts
    }

    /// Block and row of every row of a whole step, in order.
    fn batch(&self, order: &EpochPlan, step: u64) -> Vec<(u32, u64)> {
        let mut batch = Vec::new();
        for lane in 0..self.lanes() {
            let run = order.run(lane, step);
            let mut at = run.start;
            while at < run.end {
                let window = order.window(lane, order.window_at(at));
                let until = run.end.min(window.positions.end);
                match &window.permutation {
                    None => batch.extend(rows_of(order, lane, at..until)),
                    Some(permutation) => {
                        let start = window.positions.start;
                        let sources: Vec<_> = rows_of(order, lane, window.positions.clone()).collect();
                        let taken = &permutation[(at - start) as usize..(until - start) as usize];
                        batch.extend(taken.iter().map(|&source| sources[source as usize]));
                    }
                }
                at = until;
            }
        }
        batch
    }

    /// Expected blocks among as many rows as a batch has, drawn one by one.
    fn random_blocks(&self) -> f64 {
        let (all, batch) = (self.rows() as f64, self.batch_size() as f64);
        self.blocks.iter().map(|&(_, rows)| 1.0 - (1.0 - rows as f64 / all).powf(batch)).sum()
    }
}

fn rows_of(
    order: &EpochPlan,
    lane: u32,
    positions: std::ops::Range<u64>,
) -> impl Iterator<Item = (u32, u64)> + '_ {
    order.locate(lane, positions).flat_map(|found| found.rows.map(move |row| (found.block, row)))
}

#[cfg(test)]
mod tests {
    use penstock_proto::{Remainder, Shuffle};

    use super::*;
    use crate::plan::{BlockShape, Order};

    fn quality(shuffle: Shuffle, shuffle_bytes: u64, lanes: Option<u32>) -> Quality {
        let blocks = vec![BlockShape { rows: 1_000, bytes: 4_000 }; 200];
        let order =
            Order { batch_size: 512, lanes, shuffle, shuffle_bytes, seed: 7, remainder: Remainder::Drop };
        Plan::new(&blocks, order).unwrap().quality(0).unwrap()
    }

    #[test]
    fn file_order_moves_nothing() {
        let quality = quality(Shuffle::None, 1 << 20, None);
        assert!(quality.moved < 1e-9, "{quality:?}");
        assert!(quality.autocorrelation > 0.99, "{quality:?}");
        assert!(quality.blocks_per_batch <= 2.0, "{quality:?}");
    }

    #[test]
    fn windows_of_all_rows_are_as_good_as_chance() {
        let quality = quality(Shuffle::Rows, u64::MAX, Some(1));
        assert!((quality.moved - RANDOM_DISTANCE).abs() < 0.03, "{quality:?}");
        assert!(quality.autocorrelation.abs() < 0.1, "{quality:?}");
        let part = quality.blocks_per_batch / quality.random_blocks_per_batch;
        assert!((0.9..1.1).contains(&part), "{quality:?}");
    }

    #[test]
    fn lanes_mix_all_their_blocks_and_neighbours_in_a_lane_are_kin() {
        let quality = quality(Shuffle::Rows, 1 << 18, None);
        assert!(quality.blocks_per_batch > 64.0, "{quality:?}");
        assert!((0.1..0.95).contains(&quality.autocorrelation), "{quality:?}");
    }

    #[test]
    fn blocks_alone_move_rows_far_and_mix_few_blocks() {
        let quality = quality(Shuffle::Blocks, 1 << 20, None);
        assert!(quality.moved > 0.25, "{quality:?}");
        assert!(quality.autocorrelation > 0.5, "{quality:?}");
        assert!(quality.blocks_per_batch < quality.random_blocks_per_batch / 2.0, "{quality:?}");
    }
}
