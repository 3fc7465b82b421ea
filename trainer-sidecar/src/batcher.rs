//! Parts of a stream into steps, and steps into a queue that is bounded in bytes.
//!
//! In: parts, in order. Out: whole steps, each with the record batches that make it up, side by side;
//! nothing is concatenated, for packing copies them into one place anyway. The promise: a step has
//! exactly the rows that its rank is owed. It knows no gateway and no slot.

mod meter;

use arrow::array::RecordBatch;
use penstock_proto::{Code, Effort, Error};

pub(crate) use self::meter::{Held, Meter};

use crate::stream::Part;

/// One rank's share of a global batch. Its bytes are given back to the meter when it is dropped.
pub(crate) struct Step {
    pub(crate) epoch: u64,
    pub(crate) step: u64,
    pub(crate) rows: u64,
    pub(crate) parts: Vec<RecordBatch>,
    /// What its parts cost the gateway.
    pub(crate) effort: Effort,
    _held: Vec<Held>,
}

/// How many rows steps must have.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rows {
    /// Of a whole step.
    pub(crate) per_step: u64,
    /// The only step that may have less, if any.
    pub(crate) short: Option<u64>,
}

/// Collects the parts of a step.
pub(crate) struct Joiner {
    epoch: u64,
    rows: Rows,
    parts: Vec<RecordBatch>,
    effort: Effort,
    held: Vec<Held>,
}

impl Joiner {
    pub(crate) fn new(epoch: u64, rows: Rows) -> Self {
        Self { epoch, rows, parts: Vec::new(), effort: Effort::default(), held: Vec::new() }
    }

    /// Bytes of the step that is not complete.
    pub(crate) fn bytes(&self) -> u64 {
        self.held.iter().map(Held::bytes).sum()
    }

    /// Takes a part in, and gives the step if it is complete. Part 0 starts the step anew.
    ///
    /// # Errors
    /// A step whose rows are not those that the rank is owed.
    pub(crate) fn add(&mut self, part: Part, held: Held) -> Result<Option<Step>, Error> {
        if part.part == 0 {
            self.parts.clear();
            self.held.clear();
            self.effort = Effort::default();
        }
        self.effort = self.effort.plus(part.effort);
        self.parts.push(part.batch);
        self.held.push(held);
        if !part.last {
            return Ok(None);
        }
        let parts = std::mem::take(&mut self.parts);
        let rows = parts.iter().map(RecordBatch::num_rows).sum::<usize>() as u64;
        let Rows { per_step, short } = self.rows;
        if rows > per_step || (rows < per_step && short != Some(part.step)) {
            return Err(Error::new(
                Code::Internal,
                format!(
                    "the gateway brought {rows} rows of epoch {}, step {}, where {per_step} are due: use one release of penstock everywhere",
                    self.epoch, part.step
                ),
            ));
        }
        let held = std::mem::take(&mut self.held);
        Ok(Some(Step { epoch: self.epoch, step: part.step, rows, parts, effort: self.effort, _held: held }))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::Int32Array;

    use super::*;

    fn part(step: u64, part: u32, last: bool, values: &[i32]) -> Part {
        let array = Arc::new(Int32Array::from(values.to_vec())) as _;
        Part {
            step,
            part,
            last,
            batch: RecordBatch::try_from_iter([("x", array)]).unwrap(),
            effort: Effort::default(),
            bytes: 1,
        }
    }

    fn joiner() -> (Joiner, Meter) {
        (Joiner::new(0, Rows { per_step: 3, short: Some(9) }), Meter::new(100))
    }

    #[test]
    fn a_step_that_starts_anew_forgets_what_it_had() {
        let (mut joiner, meter) = joiner();
        assert!(joiner.add(part(4, 0, false, &[1]), meter.hold(10)).unwrap().is_none());
        assert!(joiner.add(part(4, 0, false, &[1, 2]), meter.hold(20)).unwrap().is_none());
        let step = joiner.add(part(4, 1, true, &[3]), meter.hold(30)).unwrap().unwrap();
        assert_eq!((step.step, step.rows, step.parts.len()), (4, 3, 2));
        assert_eq!((joiner.bytes(), meter.held()), (0, 50));
        drop(step);
        assert_eq!(meter.held(), 0);
    }

    #[test]
    fn rows_are_those_that_are_owed() {
        let check = |step, values: &[i32]| {
            let (mut joiner, meter) = joiner();
            joiner.add(part(step, 0, true, values), meter.hold(1)).is_ok()
        };
        assert!(check(4, &[1, 2, 3]));
        assert!(!check(4, &[1, 2]));
        assert!(!check(4, &[1, 2, 3, 4]));
        assert!(check(9, &[]), "a rank may get no row of a short last batch");
        assert!(!check(9, &[1, 2, 3, 4]));
    }
}
