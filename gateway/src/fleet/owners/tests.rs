//! Shares and moves, on small fleets of any shape and on the large one that the goals name.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

fn names(count: usize) -> Vec<String> {
    (0..count).map(|index| format!("grpc://gateway-{index}:8815")).collect()
}

fn owners<'a>(key: &[u8], lanes: u32, gateways: &'a [String]) -> Vec<&'a str> {
    let owners = Owners::new(key, lanes, gateways);
    (0..lanes).map(|lane| gateways[owners.of(lane)].as_str()).collect()
}

fn most(owners: &[&str]) -> usize {
    let mut held: BTreeMap<&str, usize> = BTreeMap::new();
    for owner in owners {
        *held.entry(owner).or_default() += 1;
    }
    held.into_values().max().unwrap()
}

/// Lanes that change hands when a gateway leaves, and how many of them were its own.
fn moved(key: &[u8], lanes: u32, gateways: &[String], leaver: usize) -> (usize, usize) {
    let before = owners(key, lanes, gateways);
    let mut left = gateways.to_vec();
    let leaver = left.remove(leaver);
    let after = owners(key, lanes, &left);
    let changed = before.iter().zip(&after).filter(|(before, after)| before != after).count();
    (changed, before.iter().filter(|owner| **owner == leaver).count())
}

proptest! {
    #[test]
    fn nobody_owns_much_more_than_the_mean(key: u64, lanes in 1u32..1_000, count in 1usize..40) {
        let gateways = names(count);
        let most = most(&owners(&key.to_le_bytes(), lanes, &gateways));
        let bound = (5 * lanes / (4 * count as u32)).max(lanes.div_ceil(count as u32));
        prop_assert!(most <= bound as usize, "{most} of {lanes} lanes, {count} gateways");
    }

    #[test]
    fn the_order_in_which_gateways_are_known_is_of_no_matter(
        key: u64, lanes in 1u32..300, (given, shuffled) in (1usize..20).prop_map(names).prop_flat_map(|names| {
            (Just(names.clone()), Just(names).prop_shuffle())
        })
    ) {
        let key = key.to_le_bytes();
        prop_assert_eq!(owners(&key, lanes, &given), owners(&key, lanes, &shuffled));
    }

    #[test]
    fn most_lanes_stay_where_they_were(key: u64, lanes in 100u32..1_000, count in 3usize..12, leaver: prop::sample::Index) {
        let gateways = names(count);
        let (changed, its_own) = moved(&key.to_le_bytes(), lanes, &gateways, leaver.index(count));
        prop_assert!(changed >= its_own);
        // What is displaced beside them is a small part of all.
        prop_assert!(changed - its_own <= lanes as usize / 4, "{changed} of {lanes} moved, {its_own} were its own");
    }
}

/// Every tenth leaves here; the bench lets each of them.
#[test]
fn a_hundred_gateways_share_evenly_and_part_without_fuss() {
    let (gateways, lanes) = (names(100), 4096);
    assert!(most(&owners(b"one", lanes, &gateways)) as f64 <= 1.25 * f64::from(lanes) / 100.0);
    let changed: usize = (0..100).step_by(10).map(|leaver| moved(b"one", lanes, &gateways, leaver).0).sum();
    let share = changed as f64 / f64::from(lanes) / 10.0;
    assert!(share <= 1.2 / 100.0, "{share} of the lanes move when one leaves");
}

#[test]
fn owners_are_the_same_in_every_release() {
    let gateways = ["grpc://a:1", "grpc://b:1", "grpc://c:1"];
    let owners = Owners::new(b"key", 12, &gateways);
    let of: Vec<usize> = (0..12).map(|lane| owners.of(lane)).collect();
    assert_eq!(of, [2, 0, 0, 1, 0, 1, 0, 1, 2, 1, 1, 0]);
}
