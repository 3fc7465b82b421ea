//! Rows carry ids, their places in file order, so that an order is a list and exactly-once an equality.

use std::collections::BTreeSet;
use std::thread;

use proptest::prelude::*;

use super::*;
use crate::partition::StepShare;

/// A plan over blocks, with an id for every row.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) blocks: Vec<BlockShape>,
    pub(crate) order: Order,
}

impl Case {
    pub(crate) fn new(rows: &[u64], order: Order) -> Self {
        Self { blocks: rows.iter().map(|&rows| BlockShape { rows, bytes: rows * 10 }).collect(), order }
    }

    pub(crate) fn plan(&self) -> Plan {
        Plan::new(&self.blocks, self.order).unwrap()
    }

    pub(crate) fn rows(&self) -> u64 {
        self.blocks.iter().map(|block| block.rows).sum()
    }

    pub(crate) fn epoch(&self, epoch: u64) -> EpochIds {
        let plan = self.plan();
        let epoch = plan.epoch(epoch);
        let lanes = (0..plan.lanes()).map(|lane| self.lane(&epoch, lane)).collect();
        let remainder = self.ids(epoch.locate_remainder(0..self.rows() % self.order.batch_size));
        EpochIds { lanes, remainder }
    }

    /// Reads a lane as a reader would: window by window, each located and then permuted.
    fn lane(&self, epoch: &EpochPlan, lane: u32) -> Vec<u64> {
        let mut order = Vec::new();
        for index in 0.. {
            let window = epoch.window(lane, index);
            if window.positions.is_empty() {
                break;
            }
            assert_eq!(window.positions.start, order.len() as u64, "windows follow one another");
            assert_eq!(epoch.window_at(window.positions.start), index);
            assert_eq!(epoch.window_at(window.positions.end - 1), index);
            let rows = self.ids(epoch.locate(lane, window.positions));
            match window.permutation {
                Some(permutation) => order.extend(permutation.iter().map(|&i| rows[i as usize])),
                None => order.extend(rows),
            }
        }
        assert_eq!(order.len() as u64, epoch.lane_rows(lane));
        order
    }

    fn ids(&self, ranges: impl Iterator<Item = BlockRange>) -> Vec<u64> {
        ranges
            .flat_map(|BlockRange { block, rows }| {
                let block = block as usize;
                assert!(rows.end <= self.blocks[block].rows);
                let first: u64 = self.blocks[..block].iter().map(|block| block.rows).sum();
                first + rows.start..first + rows.end
            })
            .collect()
    }
}

/// The ids of an epoch, as a reader of every lane would see them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EpochIds {
    pub(crate) lanes: Vec<Vec<u64>>,
    pub(crate) remainder: Vec<u64>,
}

impl EpochIds {
    /// The rows of a share, and whether each counts.
    pub(crate) fn share(&self, share: &StepShare) -> Vec<(u64, bool)> {
        let rows: Vec<u64> = match share {
            StepShare::Lanes(pieces) => pieces
                .iter()
                .flat_map(|piece| {
                    let positions = piece.positions.start as usize..piece.positions.end as usize;
                    &self.lanes[piece.lane as usize][positions]
                })
                .copied()
                .collect(),
            StepShare::Remainder(share) => {
                let source = share.source();
                let source = &self.remainder[source.start as usize..source.end as usize];
                share.picks().map(|pick| source[pick as usize]).collect()
            }
        };
        assert_eq!(rows.len() as u64, share.rows());
        rows.into_iter().zip(0..).map(|(id, i)| (id, i < share.valid_rows())).collect()
    }
}

pub(crate) fn order(batch_size: u64, shuffle: Shuffle) -> Order {
    Order { batch_size, lanes: None, shuffle, shuffle_bytes: 1000, seed: 7, remainder: Remainder::Drop }
}

/// Blocks of no row, of one, of some and of many; all orders.
pub(crate) fn cases() -> impl Strategy<Value = Case> {
    let rows = prop_oneof![1 => Just(0u64), 1 => Just(1), 4 => 2u64..40, 1 => 200u64..500];
    let block = (rows, 0u64..200).prop_map(|(rows, width)| BlockShape { rows, bytes: rows * width });
    let shuffles = prop_oneof![Just(Shuffle::None), Just(Shuffle::Blocks), Just(Shuffle::Rows)];
    let remainders = prop_oneof![Just(Remainder::Drop), Just(Remainder::Pad), Just(Remainder::Keep)];
    let batch = prop_oneof![1 => Just(1u64), 6 => 2u64..100, 1 => 500u64..3000];
    let order = (batch, proptest::option::of(any::<u32>()), shuffles, 0u64..50_000, any::<u64>(), remainders)
        .prop_map(|(batch_size, lanes, shuffle, shuffle_bytes, seed, remainder)| {
            let lanes = lanes
                .filter(|_| shuffle != Shuffle::None)
                .map(|lanes| 1 + (u64::from(lanes) % batch_size) as u32);
            Order { batch_size, lanes, shuffle, shuffle_bytes, seed, remainder }
        });
    (prop::collection::vec(block, 0..20), order).prop_map(|(blocks, order)| Case { blocks, order })
}

proptest! {
    #[test]
    fn every_row_lies_in_one_lane_or_in_the_remainder(case in cases(), epoch in any::<u64>()) {
        let EpochIds { lanes, remainder } = case.epoch(epoch);
        let ids: Vec<u64> = lanes.into_iter().flatten().chain(remainder).collect();
        prop_assert_eq!(ids.len() as u64, case.rows());
        prop_assert_eq!(ids.into_iter().collect::<BTreeSet<_>>(), (0..case.rows()).collect());
    }

    /// Windows only move rows inside themselves: with and without, the same rows fill them.
    #[test]
    fn a_window_keeps_its_rows(case in cases(), epoch in 0u64..3) {
        let rows = Case { order: Order { shuffle: Shuffle::Rows, ..case.order }, ..case.clone() };
        let lanes = Some(rows.plan().lanes());
        let blocks = Case { order: Order { shuffle: Shuffle::Blocks, lanes, ..case.order }, ..case };
        let window = rows.plan().window_rows().unwrap() as usize;
        let (rows, blocks) = (rows.epoch(epoch), blocks.epoch(epoch));
        prop_assert_eq!(&rows.remainder, &blocks.remainder);
        for (rows, blocks) in rows.lanes.iter().zip(&blocks.lanes) {
            for (rows, blocks) in rows.chunks(window).zip(blocks.chunks(window)) {
                let (rows, blocks): (BTreeSet<_>, BTreeSet<_>) = (rows.iter().collect(), blocks.iter().collect());
                prop_assert_eq!(rows, blocks);
            }
        }
    }

    #[test]
    fn a_lane_is_located_from_any_position(case in cases(), from in any::<prop::sample::Index>()) {
        let plan = case.plan();
        let epoch = plan.epoch(1);
        for lane in (0..plan.lanes()).filter(|&lane| epoch.lane_rows(lane) > 0) {
            let rows = epoch.lane_rows(lane);
            let from = from.index(rows as usize);
            let all = case.ids(epoch.locate(lane, 0..rows));
            let rest = case.ids(epoch.locate(lane, from as u64..rows));
            prop_assert_eq!(&all[from..], &rest[..]);
        }
    }
}

proptest! {
    /// What is dropped of a shuffled feed are neighbours of its sequence as a ring; nothing else changes its place.
    #[test]
    fn a_drop_takes_neighbours_of_the_ring(case in cases(), epoch in 0u64..50) {
        prop_assume!(case.order.shuffle == Shuffle::Blocks);
        let of = |remainder| {
            let order = Order { lanes: Some(1), remainder, ..case.order };
            let EpochIds { lanes, remainder } = Case { order, ..case.clone() }.epoch(epoch);
            (lanes.concat(), remainder)
        };
        let (mut ring, last) = of(Remainder::Keep);
        ring.extend(last);
        let (kept, dropped) = of(Remainder::Drop);
        let start = dropped.first().map_or(0, |first| ring.iter().position(|id| id == first).unwrap());
        let neighbours: Vec<u64> = ring.iter().cycle().skip(start).take(dropped.len()).copied().collect();
        prop_assert_eq!(&neighbours, &dropped);
        ring.retain(|id| !dropped.contains(id));
        prop_assert_eq!(ring, kept);
    }

    /// In file order, and where the remainder is fed, it is the last rows of every epoch, as ever.
    #[test]
    fn what_drops_nothing_of_a_shuffle_ends_with_the_sequence(case in cases(), epoch in any::<u64>()) {
        let left = case.rows() % case.order.batch_size;
        let Order { shuffle, remainder, .. } = case.order;
        let is_first = shuffle == Shuffle::None || remainder != Remainder::Drop || left == 0;
        prop_assert_eq!(case.plan().rules(), if is_first { OrderRules::FIRST } else { OrderRules::DROP_BY_EPOCH });
        let keep = Case { order: Order { remainder: Remainder::Keep, ..case.order }, ..case.clone() };
        if is_first {
            prop_assert_eq!(case.epoch(epoch), keep.epoch(epoch));
        }
        if shuffle == Shuffle::None {
            prop_assert_eq!(case.epoch(epoch).remainder, (case.rows() - left..case.rows()).collect::<Vec<_>>());
        }
    }
}

/// Of one block, of two, and of fewer rows than a batch but one: over the epochs no row is favoured.
#[test]
fn every_row_is_dropped_as_often_as_any_other() {
    for (blocks, batch, lanes) in [(&[20][..], 8, None), (&[13, 7], 8, Some(2)), (&[15], 8, Some(1))] {
        for shuffle in [Shuffle::Blocks, Shuffle::Rows] {
            let case = Case::new(blocks, Order { lanes, ..order(batch, shuffle) });
            let (rows, left) = (case.rows(), case.plan().dropped());
            let epochs = 1_000 * rows / left;
            let mut dropped = vec![0u32; rows as usize];
            for epoch in 0..epochs {
                case.epoch(epoch).remainder.iter().for_each(|&id| dropped[id as usize] += 1);
            }
            // About 1,000 times each: a standard deviation is 32 at most.
            assert!(dropped.iter().all(|times| (850..1150).contains(times)), "{blocks:?} {dropped:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// The order is a function of its inputs: threads, and how often it was planned, are not among them.
    #[test]
    fn planning_again_elsewhere_gives_the_same(case in cases(), epoch in 0u64..3) {
        let here = (case.plan(), case.epoch(epoch));
        for threads in [1, 4] {
            let there: Vec<_> = thread::scope(|scope| {
                let all: Vec<_> = (0..threads).map(|_| scope.spawn(|| (case.plan(), case.epoch(epoch)))).collect();
                all.into_iter().map(|one| one.join().unwrap()).collect()
            });
            prop_assert!(there.iter().all(|there| *there == here));
        }
    }
}

#[test]
fn without_shuffle_the_order_is_the_files() {
    let epoch = Case::new(&[3, 0, 4, 1, 5], order(4, Shuffle::None)).epoch(9);
    assert_eq!(epoch.lanes, [(0..12).collect::<Vec<_>>()]);
    assert_eq!(epoch.remainder, [12]);
}

#[test]
fn blocks_keep_the_order_of_their_rows() {
    let case = Case::new(&[10; 40], Order { lanes: Some(1), ..order(8, Shuffle::Blocks) });
    let lane = case.epoch(0).lanes.remove(0);
    assert!(lane.chunks(10).all(|block| block.is_sorted() && block[9] - block[0] == 9));
    assert!(!lane.is_sorted());
}

#[test]
fn epochs_and_seeds_differ() {
    for shuffle in [Shuffle::Blocks, Shuffle::Rows] {
        let case = Case::new(&[9; 50], order(10, shuffle));
        let other = Case { order: Order { seed: 8, ..case.order }, ..case.clone() };
        let orders = [case.epoch(0), case.epoch(1), case.epoch(u64::MAX), other.epoch(0)];
        for (i, one) in orders.iter().enumerate() {
            assert!(orders[..i].iter().all(|before| before != one));
        }
    }
}

#[test]
fn lanes_follow_the_batch_the_blocks_and_the_bytes() {
    let lanes = |batch, blocks: &[BlockShape], shuffle_bytes| {
        let order = Order { shuffle_bytes, ..order(batch, Shuffle::Blocks) };
        Plan::new(blocks, order).unwrap().lanes()
    };
    let blocks = |count: usize, bytes| vec![BlockShape { rows: 100, bytes }; count];
    assert_eq!(lanes(1024, &blocks(1000, 10), 1 << 20), 64);
    assert_eq!(lanes(5, &blocks(1000, 10), 1 << 20), 5);
    assert_eq!(lanes(1024, &blocks(7, 10), 1 << 20), 7);
    assert_eq!(lanes(1024, &blocks(1000, 300), 1000), 3);
    assert_eq!(lanes(1024, &blocks(1000, 2000), 1000), 1);
    assert_eq!(lanes(1024, &blocks(1000, 0), 0), 64);
    assert_eq!(lanes(1024, &[], 1000), 1);
    // Blocks without rows count for nothing, and of two middle blocks the smaller is the median.
    let mut mixed = blocks(2, 100);
    mixed.push(BlockShape { rows: 0, bytes: 0 });
    mixed.extend(blocks(2, 1000));
    assert_eq!(lanes(1024, &mixed, 350), 3);
}

#[test]
fn windows_share_the_bytes_of_the_feed() {
    let window = |blocks: &[BlockShape], lanes, shuffle_bytes| {
        let order = Order { lanes: Some(lanes), shuffle_bytes, ..order(64, Shuffle::Rows) };
        Plan::new(blocks, order).unwrap().window_rows()
    };
    // A row of 96 bytes and its place of 4.
    let blocks = [BlockShape { rows: 1000, bytes: 96_000 }];
    assert_eq!(window(&blocks, 1, 10_000), Some(100));
    assert_eq!(window(&blocks, 4, 10_000), Some(25));
    assert_eq!(window(&blocks, 4, 399), Some(1));
    assert_eq!(window(&blocks, 4, 0), Some(1));
    assert_eq!(window(&[], 4, 1000), Some(1));
    assert_eq!(window(&[BlockShape { rows: 1, bytes: 0 }], 1, u64::MAX), Some(u64::from(u32::MAX)));
}

#[test]
fn what_makes_no_plan_is_refused() {
    let refused = |order| Plan::new(&[BlockShape { rows: 5, bytes: 5 }], order).unwrap_err();
    assert_eq!(refused(order(0, Shuffle::None)), PlanError::EmptyBatch);
    let lanes = |lanes, shuffle| refused(Order { lanes: Some(lanes), ..order(4, shuffle) });
    assert_eq!(lanes(0, Shuffle::Rows), PlanError::Lanes { lanes: 0, batch_size: 4 });
    assert_eq!(lanes(5, Shuffle::Rows), PlanError::Lanes { lanes: 5, batch_size: 4 });
    assert_eq!(lanes(2, Shuffle::None), PlanError::LanesInFileOrder { lanes: 2 });
    let huge = [BlockShape { rows: u64::MAX, bytes: 0 }; 2];
    assert_eq!(Plan::new(&huge, order(1, Shuffle::None)), Err(PlanError::TooLarge));
}

/// The largest numbers there are overflow nothing.
#[test]
fn the_largest_plan_is_exact() {
    let blocks = [BlockShape { rows: u64::MAX, bytes: u64::MAX }];
    for batch_size in [1, 2, u64::MAX - 1, u64::MAX] {
        let lanes = Some(batch_size.min(4096) as u32);
        let order = Order { lanes, shuffle_bytes: u64::MAX, ..order(batch_size, Shuffle::Rows) };
        for remainder in [Remainder::Drop, Remainder::Keep] {
            let plan = Plan::new(&blocks, Order { remainder, ..order }).unwrap();
            let left = u64::MAX % batch_size;
            let epoch = plan.epoch(u64::MAX);
            let in_lanes: u64 = (0..plan.lanes()).map(|lane| epoch.lane_rows(lane)).sum();
            assert_eq!(in_lanes + left, u64::MAX);
            let last = plan.lanes() - 1;
            let end = epoch.lane_rows(last);
            let located: Vec<_> = epoch.locate(last, end - 1..end).collect();
            let dropped: Vec<_> = epoch.locate_remainder(0..left).map(|range| range.rows).collect();
            let first = dropped.first().map_or(u64::MAX, |rows| rows.start);
            let behind = dropped.last().map_or(0, |rows| rows.end);
            // The last row of all that are not left out.
            let row = if behind == u64::MAX || dropped.len() > 1 { first - 1 } else { u64::MAX - 1 };
            assert_eq!(located, [BlockRange { block: 0, rows: row..row + 1 }]);
        }
    }
}

/// The order is a promise across releases: if this changes, checkpoints of users resume at other rows.
#[test]
fn the_order_is_pinned() {
    insta::assert_snapshot!(pinned(Remainder::Keep, 0..2), @r"
    [[2, 1, 0, 3, 5, 7, 4, 6, 9, 8], [11, 13, 10, 14, 17, 18, 15, 16, 23, 12], [27, 25, 24, 26, 31, 28, 30, 29, 19, 20]] [21, 22]
    [[15, 16, 14, 13, 23, 17, 24, 18, 26, 25], [28, 30, 27, 29, 5, 6, 31, 12, 7, 8], [9, 11, 0, 10, 2, 1, 4, 3, 20, 19]] [21, 22]
    ");
    insta::assert_snapshot!(pinned(Remainder::Drop, 0..3), @r"
    [[2, 1, 0, 3, 5, 9, 4, 8, 11, 10], [14, 15, 13, 16, 12, 23, 17, 18, 25, 24], [29, 27, 26, 28, 20, 30, 19, 31, 21, 22]] [6, 7]
    [[15, 16, 14, 13, 23, 17, 24, 18, 26, 25], [28, 30, 27, 29, 5, 8, 31, 12, 9, 10], [11, 1, 2, 0, 4, 3, 20, 19, 22, 21]] [6, 7]
    [[20, 12, 19, 21, 2, 0, 22, 1, 4, 3], [8, 7, 5, 6, 11, 9, 10, 13, 15, 14], [25, 24, 23, 18, 29, 27, 28, 26, 31, 30]] [16, 17]
    ");
}

fn pinned(remainder: Remainder, epochs: std::ops::Range<u64>) -> String {
    let order = Order { lanes: Some(3), shuffle_bytes: 168, remainder, ..order(6, Shuffle::Rows) };
    let case = Case::new(&[5, 0, 7, 1, 6, 4, 9], order);
    let told = epochs.map(|epoch| {
        let EpochIds { lanes, remainder } = case.epoch(epoch);
        format!("{lanes:?} {remainder:?}\n")
    });
    told.collect()
}
