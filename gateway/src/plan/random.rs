//! Permutations and numbers that are a promise: the same key gives the same in every release.
//!
//! A key is the SHA-256 of a domain and little-endian integers. It seeds `ChaCha8`; a bounded draw is
//! Lemire's multiply-and-reject ("Fast Random Integer Generation in an Interval", 2019) on 32 bits, and
//! the shuffle is Durstenfeld's form of Fisher–Yates from the last place down. All four are ours or
//! frozen, so that no library's change of taste changes an epoch. A single number is drawn likewise, on 64 bits.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use sha2::{Digest, Sha256};

/// What is drawn; equal numbers in another domain give something unrelated.
#[derive(Debug, Clone, Copy)]
pub(super) enum Domain {
    /// Keyed by seed and epoch.
    Blocks,
    /// Keyed by seed, epoch, lane and window.
    Window,
    /// Keyed by seed and epoch.
    Remainder,
}

impl Domain {
    fn name(self) -> &'static [u8] {
        match self {
            Self::Blocks => b"penstock order 1: blocks",
            Self::Window => b"penstock order 1: window",
            Self::Remainder => b"penstock order 2: remainder",
        }
    }
}

/// A permutation of 0..`len`: element i of the result is what comes at place i.
pub(super) fn permutation(domain: Domain, key: &[u64], len: u32) -> Vec<u32> {
    let mut places: Vec<u32> = (0..len).collect();
    let mut rng = generator(domain, key);
    for last in (1..places.len()).rev() {
        let bound = u32::try_from(last + 1).expect("a place is below a 32-bit length");
        places.swap(last, below(&mut rng, bound) as usize);
    }
    places
}

/// A uniform draw from 0..`bound`, which is above 0.
pub(super) fn draw(domain: Domain, key: &[u64], bound: u64) -> u64 {
    let mut rng = generator(domain, key);
    // As in `below`: draws whose low half is below 2^64 mod bound would favour some results.
    let uneven = bound.wrapping_neg() % bound;
    loop {
        let product = u128::from(rng.next_u64()) * u128::from(bound);
        if product as u64 >= uneven {
            return (product >> 64) as u64;
        }
    }
}

fn generator(domain: Domain, key: &[u64]) -> ChaCha8Rng {
    let mut hash = Sha256::new_with_prefix(domain.name());
    for number in key {
        hash.update(number.to_le_bytes());
    }
    ChaCha8Rng::from_seed(hash.finalize().into())
}

/// The seed of a dataset in a mixture: two of one size are not permuted alike, and what else is mixed in moves
/// none of its rows.
pub(crate) fn component_seed(seed: u64, dataset: &str) -> u64 {
    let hash = Sha256::new_with_prefix(b"penstock order 1: component");
    let hash = hash.chain_update(seed.to_le_bytes()).chain_update(dataset).finalize();
    u64::from_le_bytes(std::array::from_fn(|byte| hash[byte]))
}

/// A uniform draw from 0..`bound`.
fn below(rng: &mut impl RngCore, bound: u32) -> u32 {
    let mut product = u64::from(rng.next_u32()) * u64::from(bound);
    if (product as u32) < bound {
        // 2^32 mod bound: draws whose low half is below it would favour some results.
        let uneven = bound.wrapping_neg() % bound;
        while (product as u32) < uneven {
            product = u64::from(rng.next_u32()) * u64::from(bound);
        }
    }
    (product >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permutation_holds_every_place_once() {
        for len in [0, 1, 2, 3, 1000] {
            let mut places = permutation(Domain::Blocks, &[7, 0], len);
            places.sort_unstable();
            assert!(places.into_iter().eq(0..len));
        }
    }

    #[test]
    fn every_part_of_the_key_matters() {
        let order = |domain, key: &[u64]| permutation(domain, key, 100);
        let base = order(Domain::Window, &[1, 2, 3, 4]);
        assert_eq!(base, order(Domain::Window, &[1, 2, 3, 4]));
        for other in [[0, 2, 3, 4], [1, 0, 3, 4], [1, 2, 0, 4], [1, 2, 3, 0]] {
            assert_ne!(base, order(Domain::Window, &other));
        }
        assert_ne!(base, order(Domain::Blocks, &[1, 2, 3, 4]));
        assert_ne!(draw(Domain::Remainder, &[1, 2], u64::MAX), draw(Domain::Remainder, &[2, 1], u64::MAX));
    }

    #[test]
    fn a_draw_is_below_its_bound_and_favours_none() {
        assert_eq!(draw(Domain::Remainder, &[7, 0], 1), 0);
        assert!(draw(Domain::Remainder, &[7, 0], u64::MAX) < u64::MAX);
        let mut counts = [0u32; 7];
        (0..7_000).for_each(|epoch| counts[draw(Domain::Remainder, &[7, epoch], 7) as usize] += 1);
        // A standard deviation is 29.
        assert!(counts.iter().all(|count| (850..1150).contains(count)), "{counts:?}");
    }

    #[test]
    fn a_component_has_a_seed_of_its_own_that_stays() {
        assert_eq!(component_seed(7, "web"), 9_227_566_122_226_460_204);
        assert_ne!(component_seed(7, "web"), component_seed(7, "books"));
        assert_ne!(component_seed(7, "web"), component_seed(8, "web"));
    }

    /// Every order of four places is as likely as any other: over 24,000 keys each of the 24 comes about
    /// 1,000 times (standard deviation 31).
    #[test]
    fn no_order_is_favoured() {
        let mut counts = std::collections::HashMap::new();
        for seed in 0..24_000 {
            *counts.entry(permutation(Domain::Blocks, &[seed, 0], 4)).or_insert(0u32) += 1;
        }
        assert_eq!(counts.len(), 24);
        assert!(counts.values().all(|count| (850..1150).contains(count)), "{counts:?}");
    }
}
