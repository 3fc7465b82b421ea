//! The ranks' shares, joined, are the global batches that a world of one would see.

use std::collections::BTreeMap;

use penstock_proto::Shuffle;
use proptest::prelude::*;

use super::*;
use crate::plan::tests::{Case, EpochIds, cases, order};
use crate::plan::{BlockShape, Order};

fn partitions(plan: &Plan, world: u32) -> Vec<Partition> {
    let world = WorldSize::new(world).unwrap();
    world.ranks().map(|rank| Partition::new(plan, world, rank).unwrap()).collect()
}

/// Every global batch of an epoch from a step on, its ranks' shares joined in rank order.
fn batches(case: &Case, ids: &EpochIds, world: u32, from: u64) -> Vec<Vec<(u64, bool)>> {
    let plan = case.plan();
    let partitions = partitions(&plan, world);
    (from..plan.steps())
        .map(|step| {
            partitions.iter().flat_map(|partition| ids.share(&partition.step(step).unwrap())).collect()
        })
        .collect()
}

proptest! {
    #[test]
    fn every_row_is_fed_once_and_what_is_dropped_is_counted(case in cases(), epoch in 0u64..4) {
        let ids = case.epoch(epoch);
        let mut times = BTreeMap::new();
        for (id, valid) in batches(&case, &ids, 1, 0).into_iter().flatten() {
            *times.entry(id).or_insert(0) += u64::from(valid);
        }
        prop_assert!(times.values().all(|&times| times == 1));
        prop_assert_eq!(times.len() as u64 + case.plan().dropped(), case.rows());
    }

    #[test]
    fn every_world_sees_the_same_batches(case in cases(), epoch in 0u64..4) {
        let ids = case.epoch(epoch);
        let alone = batches(&case, &ids, 1, 0);
        for world in [2u32, 3, 5, 8, 64] {
            if u64::from(world) <= case.order.batch_size {
                prop_assert_eq!(&batches(&case, &ids, world, 0), &alone);
            }
        }
    }

    #[test]
    fn resuming_gives_the_rest(case in cases(), from in any::<prop::sample::Index>(), world in 1u32..9) {
        prop_assume!(u64::from(world) <= case.order.batch_size);
        let from = from.index(case.plan().steps() as usize + 1) as u64;
        let all = batches(&case, &case.epoch(3), world, 0);
        prop_assert_eq!(&batches(&case, &case.epoch(3), world, from)[..], &all[from as usize..]);
    }

    #[test]
    fn ranks_have_equal_steps_and_nearly_equal_rows(case in cases(), world in 1u32..70) {
        prop_assume!(u64::from(world) <= case.order.batch_size);
        let plan = case.plan();
        for partition in partitions(&plan, world) {
            prop_assert_eq!(partition.steps(), plan.steps());
            prop_assert!(partition.step(plan.steps()).is_none());
            let even = case.order.batch_size / u64::from(world);
            prop_assert!((even..=even + 1).contains(&partition.rows_per_step()));
            let mut left = partition.rows_from(0);
            for step in 0..plan.steps() {
                prop_assert_eq!(partition.rows_from(step), left);
                let rows = partition.step(step).unwrap().rows();
                if step < plan.rows() / plan.batch_size() || case.order.remainder == Remainder::Pad {
                    prop_assert_eq!(rows, partition.rows_per_step());
                }
                left -= rows;
            }
            prop_assert_eq!(left, 0);
        }
    }

    /// A lane is read forwards: where a step ends in it, or beyond, the next begins.
    #[test]
    fn positions_of_a_lane_rise(case in cases(), world in 1u32..9) {
        prop_assume!(u64::from(world) <= case.order.batch_size);
        for partition in partitions(&case.plan(), world) {
            let mut read = BTreeMap::new();
            for step in 0..partition.steps() {
                let Some(StepShare::Lanes(pieces)) = partition.step(step) else { continue };
                prop_assert!(pieces.iter().map(|piece| piece.lane).eq(partition.lanes()));
                for Piece { lane, positions } in pieces {
                    prop_assert!(positions.start >= *read.get(&lane).unwrap_or(&0));
                    prop_assert!(!positions.is_empty());
                    read.insert(lane, positions.end);
                }
            }
        }
    }

    #[test]
    fn few_lanes_are_shared(batch in 1u64..2000, lanes in 1u32..65, world in 1u32..65) {
        prop_assume!(u64::from(lanes) <= batch && u64::from(world) <= batch);
        let order = Order { lanes: Some(lanes), ..order(batch, Shuffle::Blocks) };
        let plan = Case::new(&[1], order).plan();
        let mut readers = BTreeMap::new();
        for partition in partitions(&plan, world) {
            for lane in partition.lanes() {
                *readers.entry(lane).or_insert(0u32) += 1;
            }
        }
        prop_assert_eq!(readers.len() as u32, lanes, "every lane has a reader");
        let shared = readers.values().filter(|&&readers| readers > 1).count() as u32;
        prop_assert!(shared < world);
        if lanes.is_multiple_of(world) {
            prop_assert_eq!(shared, 0);
        }
    }
}

/// Every rank's share of the last step of a dataset of one block.
fn last_step(remainder: Remainder, rows: u64, batch: u64, world: u32) -> Vec<Vec<(u64, bool)>> {
    let case = Case::new(&[rows], Order { remainder, ..order(batch, Shuffle::None) });
    let ids = case.epoch(0);
    let last = case.plan().steps() - 1;
    partitions(&case.plan(), world).iter().map(|p| ids.share(&p.step(last).unwrap())).collect()
}

#[test]
fn pad_repeats_the_remainder_and_says_so() {
    let (t, f) = (true, false);
    let shares = last_step(Remainder::Pad, 8 + 3, 8, 3);
    assert_eq!(shares, [vec![(8, t), (9, t)], vec![(10, t), (8, f), (9, f)], vec![(10, f), (8, f), (9, f)]]);
    // A batch larger than the dataset is one padded step.
    let shares = last_step(Remainder::Pad, 1, 5, 2);
    assert_eq!(shares, [vec![(0, t), (0, f)], vec![(0, f); 3]]);
}

#[test]
fn keep_ends_with_a_short_batch() {
    let shares = last_step(Remainder::Keep, 8 + 3, 8, 3);
    assert_eq!(shares, [vec![(8, true), (9, true)], vec![(10, true)], vec![]]);
}

#[test]
fn drop_ends_with_the_last_whole_batch() {
    let plan = Case::new(&[8 + 3], order(8, Shuffle::None)).plan();
    assert_eq!((plan.steps(), plan.dropped()), (1, 3));
    let plan = Case::new(&[3], order(8, Shuffle::None)).plan();
    assert_eq!((plan.steps(), plan.dropped()), (0, 3));
}

#[test]
fn a_remainder_is_read_no_further_than_needed() {
    let case = Case::new(&[7], Order { remainder: Remainder::Pad, ..order(20, Shuffle::None) });
    let sources: Vec<_> = partitions(&case.plan(), 5)
        .iter()
        .map(|partition| match partition.step(0) {
            Some(StepShare::Remainder(share)) => share.source(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(sources, [0..4, 0..7, 1..5, 0..7, 2..6]);
}

/// Nothing is walked to get to a step: it is arithmetic on the step's number.
#[test]
fn the_thousand_millionth_step_is_a_few_positions() {
    let blocks = vec![BlockShape { rows: 1 << 30, bytes: 1 << 33 }; 4096];
    let order = Order { lanes: Some(64), shuffle_bytes: 1 << 20, ..order(1024, Shuffle::Rows) };
    let plan = Plan::new(&blocks, order).unwrap();
    assert!(plan.steps() > 1_000_000_000);
    let epoch = plan.epoch(0);
    let world = WorldSize::new(48).unwrap();
    for rank in world.ranks() {
        let partition = Partition::new(&plan, world, rank).unwrap();
        let Some(StepShare::Lanes(pieces)) = partition.step(1_000_000_000) else {
            panic!("a whole step");
        };
        assert!(pieces.len() <= 3, "21 or 22 rows of runs of 16 rows");
        for Piece { lane, positions } in pieces {
            let window = epoch.window(lane, epoch.window_at(positions.start));
            assert!(window.positions.contains(&positions.start));
            assert_eq!(window.permutation.unwrap().len() as u64, plan.window_rows().unwrap());
            let located: Vec<_> = epoch.locate(lane, window.positions).collect();
            assert!(located.len() <= 2, "a window is far smaller than a block");
        }
    }
}

#[test]
fn who_is_not_in_the_world_gets_nothing() {
    let plan = Case::new(&[100], order(4, Shuffle::None)).plan();
    let world = |size| WorldSize::new(size).unwrap();
    let five = Partition::new(&plan, world(5), Rank::ZERO).unwrap_err();
    assert!(five.to_string().contains("raise batch_size to at least 5"), "{five}");
    let rank = world(4).rank(3).unwrap();
    let outside = Partition::new(&plan, world(3), rank).unwrap_err();
    assert_eq!(outside, PartitionError::RankOutsideWorld { rank, world_size: world(3) });
}
