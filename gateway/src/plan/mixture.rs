//! The order of several datasets fed as one: which row of a global batch is whose.
//!
//! In: weights, a global batch, the steps of every component's own plan. Out: the rows that every global batch
//! takes of each component, the component at every position of a batch, and the step of its own that a component
//! is at in any step of the mixture. The promise: every global batch holds the same rows of each; a component is
//! walked through its own epochs without a gap, however the mixture's fall; all of it is found in time that does
//! not grow with the step. It is integer arithmetic, and knows no dataset.
//!
//! # The order, in integers
//! B rows of a global batch, weights w(k), steps S(k) of component k in batches of q(k) rows.
//! 1. q(k) is B·w(k) / Σw rounded by the method of largest remainders (Hamilton's; Balinski and Young, "Fair
//!    Representation", 1982): all are rounded down, and what is left goes one row each to those that lost most, the
//!    earlier of equals first.
//! 2. Row j of a component's part of a batch is due at (2j + 1) / 2q(k). A batch holds the rows of all components
//!    by that, the earlier component first where two are due at once: the order in which Sainte-Laguë's (Webster's)
//!    method hands out B seats. Among the first p rows a component has p·q(k)/B of them give or take K/2, for K
//!    components, so any stretch of a batch holds all of them by their weights.
//! 3. An epoch has S steps, the least S(k) or, where all shall be used up, the largest. Step t of epoch E is step
//!    E·S + t of every component, counted through its epochs: in epoch ⌊(E·S + t) / S(k)⌋ its step
//!    (E·S + t) mod S(k).

#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::ops::Range;

use penstock_proto::Exhausted;

/// Weights are counted in parts of the largest: as many as a float tells apart.
const PARTS: f64 = (1u64 << 53) as f64;

/// A component that a global batch is too small for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchTooSmall {
    pub component: usize,
    /// A global batch that has a row of every component, if there is one.
    pub enough: Option<u64>,
}

/// The rows that every global batch takes of each component.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quotas(Vec<u64>);

/// Whose row comes at positions of a batch, one after the other.
#[derive(Debug, Clone)]
pub struct Turns<'a> {
    quotas: &'a [u64],
    /// Rows of each component that came before.
    before: Vec<u64>,
    left: u64,
}

/// The order of every epoch of a mixture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MixturePlan {
    quotas: Quotas,
    /// Of each component's own epochs; none is 0.
    component_steps: Vec<u64>,
    steps: u64,
}

impl Quotas {
    /// Divides a batch by weights, all finite and above zero.
    ///
    /// # Errors
    /// When the batch has no row for one of them.
    pub fn new(weights: &[f64], batch_size: u64) -> Result<Self, BatchTooSmall> {
        let largest = weights.iter().copied().fold(0.0, f64::max);
        let parts: Vec<u128> =
            weights.iter().map(|weight| (weight / largest * PARTS).round() as u128).collect();
        let quotas = divide(&parts, batch_size);
        let Some(component) = quotas.iter().position(|&quota| quota == 0) else { return Ok(Self(quotas)) };
        let all: u128 = parts.iter().sum();
        // A weight that is no part of the largest at all has no row of any batch.
        let least = parts.iter().copied().min().filter(|&least| least > 0);
        // Weights are a little off as parts: what they were meant to give is the nearest.
        let candidates = least.map(|least| [(all + least / 2) / least, all.div_ceil(least)]);
        let mut candidates = candidates.into_iter().flatten().filter_map(|batch| u64::try_from(batch).ok());
        let enough = candidates.find(|&batch| !divide(&parts, batch).contains(&0));
        Err(BatchTooSmall { component, enough })
    }

    /// Rows of each component; at least one.
    pub fn get(&self) -> &[u64] {
        &self.0
    }

    /// How many of the rows before a position of a batch are each component's.
    pub fn before(&self, position: u64) -> Vec<u64> {
        let rows_before = |component: usize| {
            let (mut low, mut high) = (0, self.0[component]);
            while low < high {
                let middle = low + (high - low) / 2;
                if self.place(component, middle) < position { low = middle + 1 } else { high = middle }
            }
            low
        };
        (0..self.0.len()).map(rows_before).collect()
    }

    /// Whose row comes at each of some positions of a batch: components by number.
    pub fn turns(&self, positions: Range<u64>) -> Turns<'_> {
        let left = positions.end - positions.start;
        Turns { quotas: &self.0, before: self.before(positions.start), left }
    }

    /// The position of a component's row: as many as are due before it.
    fn place(&self, component: usize, row: u64) -> u64 {
        let own = u128::from(self.0[component]);
        let due_before = |(other, &quota): (usize, &u64)| {
            // Odd numbers 2i + 1 below n/q, or up to it.
            let n = (2 * u128::from(row) + 1) * u128::from(quota);
            if other < component { (n / own).div_ceil(2) } else { n.div_ceil(own) / 2 }
        };
        self.0.iter().enumerate().map(due_before).sum::<u128>() as u64
    }
}

/// Hamilton's method.
fn divide(parts: &[u128], batch_size: u64) -> Vec<u64> {
    let (all, batch) = (parts.iter().sum::<u128>(), u128::from(batch_size));
    let mut quotas: Vec<u64> = parts.iter().map(|part| (batch * part / all) as u64).collect();
    let left = batch_size - quotas.iter().sum::<u64>();
    let mut by_loss: Vec<usize> = (0..quotas.len()).collect();
    by_loss.sort_by_key(|&component| Reverse(batch * parts[component] % all));
    by_loss.into_iter().take(left as usize).for_each(|component| quotas[component] += 1);
    quotas
}

impl Iterator for Turns<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        self.left = self.left.checked_sub(1)?;
        let due = |component: usize| 2 * u128::from(self.before[component]) + 1;
        let is_left = |&component: &usize| self.before[component] < self.quotas[component];
        let next = (0..self.quotas.len()).filter(is_left).reduce(|first, other| {
            let sooner =
                due(other) * u128::from(self.quotas[first]) < due(first) * u128::from(self.quotas[other]);
            if sooner { other } else { first }
        })?;
        self.before[next] += 1;
        Some(next)
    }
}

impl MixturePlan {
    /// # Panics
    /// When a component has no step.
    pub fn new(quotas: Quotas, component_steps: Vec<u64>, exhausted: Exhausted) -> Self {
        let steps = match exhausted {
            Exhausted::First => component_steps.iter().min(),
            Exhausted::All => component_steps.iter().max(),
        };
        let steps = *steps.expect("a mixture has a component");
        assert!(component_steps.iter().all(|&steps| steps > 0), "a component without a step");
        Self { quotas, component_steps, steps }
    }

    pub fn quotas(&self) -> &Quotas {
        &self.quotas
    }

    /// Steps of every epoch.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// The epoch of its own, and the step in it, that a component is at.
    pub fn locate(&self, component: usize, epoch: u64, step: u64) -> (u64, u64) {
        let walked = u128::from(epoch) * u128::from(self.steps) + u128::from(step);
        let own = u128::from(self.component_steps[component]);
        // Epochs are keys of an order: those beyond 2^64 may begin anew.
        ((walked / own) as u64, (walked % own) as u64)
    }
}
