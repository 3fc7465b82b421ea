//! Which rows of a row group are wanted, walked through batch by batch.

use std::collections::VecDeque;

use parquet::arrow::arrow_reader::{RowSelection, RowSelector};

/// The rows that are still to be read.
pub(super) struct Steps {
    /// Rows of the row group that lie behind, read or not.
    passed: usize,
    ahead: VecDeque<RowSelector>,
}

impl Steps {
    /// Of a row group with as many rows; without a selection all are wanted.
    pub(super) fn new(rows: usize, selection: Option<&RowSelection>) -> Self {
        let ahead = match selection {
            None => [RowSelector::select(rows)].into(),
            Some(selection) => selection.iter().copied().filter(|step| step.row_count > 0).collect(),
        };
        Self { passed: 0, ahead }
    }

    /// The way to the end of the next `rows` wanted rows, or of as many as there are.
    pub(super) fn peek(&self, mut rows: usize) -> Vec<RowSelector> {
        let mut steps = Vec::new();
        for &step in &self.ahead {
            if rows == 0 {
                break;
            }
            let row_count = if step.skip { step.row_count } else { step.row_count.min(rows) };
            rows -= if step.skip { 0 } else { row_count };
            steps.push(RowSelector { row_count, ..step });
        }
        // Nobody needs to go where nothing is wanted.
        while steps.pop_if(|step| step.skip).is_some() {}
        steps
    }

    /// Leaves behind what was peeked at.
    pub(super) fn pass(&mut self, steps: &[RowSelector]) {
        for step in steps {
            self.passed += step.row_count;
            let first = self.ahead.front_mut().expect("only what lies ahead is passed");
            first.row_count -= step.row_count;
            if first.row_count == 0 {
                self.ahead.pop_front();
            }
        }
    }

    /// What is still wanted, counted from the row group's first row.
    pub(super) fn rest(&self) -> RowSelection {
        let passed = RowSelector::skip(self.passed);
        std::iter::once(passed).chain(self.ahead.iter().copied()).collect::<Vec<_>>().into()
    }
}

/// How many rows the steps select.
pub(super) fn selected(steps: &[RowSelector]) -> usize {
    steps.iter().filter(|step| !step.skip).map(|step| step.row_count).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_and_their_rest_are_all_that_was_wanted() {
        let (skip, select) = (RowSelector::skip, RowSelector::select);
        let wanted = RowSelection::from(vec![skip(3), select(5), skip(2), select(1), skip(9)]);
        let mut steps = Steps::new(20, Some(&wanted));
        assert_eq!(steps.peek(4), [skip(3), select(4)]);
        steps.pass(&steps.peek(4));
        assert_eq!(steps.rest(), RowSelection::from(vec![skip(7), select(1), skip(2), select(1), skip(9)]));
        assert_eq!(steps.peek(4), [select(1), skip(2), select(1)]);
        steps.pass(&steps.peek(4));
        assert_eq!(steps.peek(4), []);
        assert_eq!(Steps::new(20, None).peek(64), [select(20)]);
    }
}
