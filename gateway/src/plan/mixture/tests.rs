//! Rows are counted, placed and walked to, for all kinds of weights.

use std::collections::BTreeMap;

use penstock_proto::{Rank, Shuffle, WorldSize};
use proptest::prelude::*;

use super::*;
use crate::partition::{Partition, share_of};
use crate::plan::Order;
use crate::plan::tests::{Case, order};

fn quotas(weights: &[f64], batch_size: u64) -> Quotas {
    Quotas::new(weights, batch_size).unwrap()
}

/// One letter a position.
fn pattern(weights: &[f64], batch_size: u64) -> String {
    quotas(weights, batch_size).turns(0..batch_size).map(|k| (b'a' + k as u8) as char).collect()
}

/// Positive weights of very different sizes, and a batch that has room for them.
fn mixtures() -> impl Strategy<Value = Quotas> {
    let weight = prop_oneof![3 => 1u32..10, 1 => 1u32..1000].prop_map(|weight| f64::from(weight) / 10.0);
    (prop::collection::vec(weight, 1..6), 1u64..500)
        .prop_filter_map("every component has a row", |(w, b)| Quotas::new(&w, b).ok())
}

#[test]
fn a_batch_is_divided_by_weights_of_any_scale() {
    assert_eq!(quotas(&[0.7, 0.3], 10).get(), [7, 3]);
    assert_eq!(quotas(&[7e300, 3e300], 1024), quotas(&[0.7, 0.3], 1024));
    assert_eq!(quotas(&[0.7, 0.2, 0.1], 1024).get(), [717, 205, 102]);
    assert_eq!(quotas(&[1.0, 1.0, 1.0], 8).get(), [3, 3, 2], "the earlier of equals first");
    assert_eq!(quotas(&[5.0], 8).get(), [8]);
    assert_eq!(quotas(&[3.0, 1.0], u64::MAX).get().iter().sum::<u64>(), u64::MAX);
}

#[test]
fn a_batch_without_a_row_for_one_says_what_would_do() {
    let refused = Quotas::new(&[0.98, 0.02], 16).unwrap_err();
    assert_eq!(refused, BatchTooSmall { component: 1, enough: Some(50) });
    assert_eq!(quotas(&[0.98, 0.02], 50).get(), [49, 1]);
    assert_eq!(
        Quotas::new(&[1.0, 1.0, 1.0], 2).unwrap_err(),
        BatchTooSmall { component: 2, enough: Some(3) }
    );
    assert_eq!(Quotas::new(&[1e-300, 1e300], 1 << 20).unwrap_err().enough, None);
}

/// A promise: another pattern would be another order of every mixture.
#[test]
fn patterns_stay_what_they_are() {
    assert_eq!(pattern(&[0.7, 0.3], 10), "abaaabaaba");
    assert_eq!(pattern(&[0.5, 0.3, 0.2], 10), "abcaabacba");
    assert_eq!(pattern(&[1.0, 1.0], 6), "ababab");
    assert_eq!(pattern(&[1.0, 9.0], 10), "bbbbabbbbb");
}

proptest! {
    #[test]
    fn quotas_are_the_batch_and_within_a_row_of_the_weights(
        weights in prop::collection::vec(1u32..1000, 1..9), batch_size in 1u64..100_000,
    ) {
        let floats: Vec<f64> = weights.iter().map(|&weight| f64::from(weight)).collect();
        let all: u32 = weights.iter().sum();
        match Quotas::new(&floats, batch_size) {
            Ok(quotas) => {
                prop_assert_eq!(quotas.get().iter().sum::<u64>(), batch_size);
                for (&quota, &weight) in quotas.get().iter().zip(&weights) {
                    let exact = batch_size as f64 * f64::from(weight) / f64::from(all);
                    prop_assert!((quota as f64 - exact).abs() < 1.0 + 1e-6);
                }
            }
            Err(refused) => prop_assert!(Quotas::new(&floats, refused.enough.unwrap()).is_ok()),
        }
    }

    #[test]
    fn every_stretch_of_a_batch_holds_all_by_their_weights(quotas in mixtures(), at in any::<prop::sample::Index>()) {
        let batch_size: u64 = quotas.get().iter().sum();
        let owners: Vec<usize> = quotas.turns(0..batch_size).collect();
        prop_assert_eq!(owners.len() as u64, batch_size);
        for position in 0..=batch_size {
            let before = quotas.before(position);
            for (component, &rows) in before.iter().enumerate() {
                let counted = owners[..position as usize].iter().filter(|&&owner| owner == component).count();
                prop_assert_eq!(rows, counted as u64);
                let even = position as f64 * quotas.get()[component] as f64 / batch_size as f64;
                prop_assert!((rows as f64 - even).abs() <= (1 + before.len()) as f64 / 2.0);
            }
        }
        let at = at.index(batch_size as usize + 1);
        prop_assert!(quotas.turns(at as u64..batch_size).eq(owners[at..].iter().copied()));
    }

    /// Whatever ends the mixture's epochs, and wherever a reader begins, a component's steps follow one another.
    #[test]
    fn a_component_is_walked_without_a_gap(
        steps in prop::collection::vec(1u64..30, 1..5), all in any::<bool>(), epochs in 1u64..8,
    ) {
        let exhausted = if all { Exhausted::All } else { Exhausted::First };
        let plan = MixturePlan::new(quotas(&vec![1.0; steps.len()], 64), steps.clone(), exhausted);
        let ends = if all { steps.iter().max() } else { steps.iter().min() };
        prop_assert_eq!(plan.steps(), *ends.unwrap());
        for (component, &own) in steps.iter().enumerate() {
            let mut next = (0, 0);
            for epoch in 0..epochs {
                for step in 0..plan.steps() {
                    prop_assert_eq!(plan.locate(component, epoch, step), next);
                    next = if next.1 + 1 == own { (next.0 + 1, 0) } else { (next.0, next.1 + 1) };
                }
            }
        }
    }

    /// What ranks of any world read of their components, put together by the pattern, are the global batches of a
    /// world of one; and over a component's epoch each of its rows comes once.
    #[test]
    fn every_world_sees_the_same_batches_and_every_row_once(
        rows in prop::collection::vec(40u64..200, 1..4), weights in prop::collection::vec(1u32..9, 3), seed in any::<u64>(),
    ) {
        let weights: Vec<f64> = weights[..rows.len()].iter().map(|&weight| f64::from(weight)).collect();
        let quotas = quotas(&weights, 30);
        let cases: Vec<Case> = rows.iter().zip(quotas.get())
            .map(|(&rows, &quota)| Case::new(&[rows / 2, rows - rows / 2], Order { seed, ..order(quota, Shuffle::Rows) }))
            .collect();
        let steps = cases.iter().map(|case| case.plan().steps()).collect();
        let plan = MixturePlan::new(quotas, steps, Exhausted::All);
        let alone = batches(&cases, &plan, 1);
        for world in [2, 3, 5] {
            prop_assert_eq!(&batches(&cases, &plan, world), &alone);
        }
        for (component, case) in cases.iter().enumerate() {
            let mut times = BTreeMap::new();
            for &(_, id) in alone.iter().take(case.plan().steps() as usize).flatten().filter(|(k, _)| *k == component) {
                *times.entry(id).or_insert(0) += 1;
            }
            prop_assert!(times.values().all(|&times| times == 1));
            prop_assert_eq!(times.len() as u64 + case.plan().dropped(), case.rows());
        }
    }
}

/// Every global batch of epoch 0: the component and the id of each row, the ranks' shares joined.
fn batches(cases: &[Case], plan: &MixturePlan, world: u32) -> Vec<Vec<(usize, u64)>> {
    let world = WorldSize::new(world).unwrap();
    let batch_size = plan.quotas().get().iter().sum();
    let rank = |step: u64, rank: Rank| {
        let share = share_of(batch_size, world, rank);
        let (first, behind) = (plan.quotas().before(share.start), plan.quotas().before(share.end));
        let mut ids: Vec<_> = cases
            .iter()
            .enumerate()
            .map(|(component, case)| {
                let own = first[component]..behind[component];
                if own.is_empty() {
                    return Vec::new().into_iter();
                }
                let (epoch, step) = plan.locate(component, 0, step);
                let share = Partition::of_share(&case.plan(), own).step(step).unwrap();
                let ids: Vec<u64> = case.epoch(epoch).share(&share).into_iter().map(|(id, _)| id).collect();
                ids.into_iter()
            })
            .collect();
        let turns = plan.quotas().turns(share).map(|k| (k, ids[k].next().unwrap())).collect::<Vec<_>>();
        assert!(ids.iter().all(|ids| ids.len() == 0), "no row is left over");
        turns
    };
    (0..plan.steps()).map(|step| world.ranks().flat_map(|r| rank(step, r)).collect()).collect()
}
