//! Where a stream is, and whether what arrives is what comes next.

use penstock_proto::{Code, Error, Note};

/// The next part a stream must bring. It moves only when that part is accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Position {
    epoch: u64,
    steps: u64,
    step: u64,
    part: u32,
    /// Parts of the step at least, once its first part said so: rows that turn out too large for a message become several.
    parts: Option<u32>,
}

/// What an accepted note means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// A part of a step; the last one completes it.
    Part { step: u64, part: u32, last: bool },
    /// Every step of the epoch was received.
    End,
    /// The gateway is leaving.
    Moved,
}

impl Position {
    /// Before part 0 of `step`, in an epoch of `steps` steps.
    pub(crate) fn new(epoch: u64, step: u64, steps: u64) -> Self {
        Self { epoch, steps, step, part: 0, parts: None }
    }

    /// The step that is not complete yet.
    pub(crate) fn step(&self) -> u64 {
        self.step
    }

    /// Back to the start of the step: parts of one gateway do not continue those of another.
    pub(crate) fn rewind(&mut self) {
        self.part = 0;
        self.parts = None;
    }

    /// Accepts a note that continues exactly, and moves.
    ///
    /// # Errors
    /// Anything else; the position stays, and the data must not be used.
    pub(crate) fn accept(&mut self, note: Note) -> Result<Arrival, Error> {
        match note {
            Note::Part { epoch, step, part, parts } => {
                let continues = epoch == self.epoch
                    && step == self.step
                    && step < self.steps
                    && part == self.part
                    && part < parts
                    && self.parts.is_none_or(|known| known <= parts);
                if !continues {
                    return Err(
                        self.broken(&format!("brought epoch {epoch}, step {step}, part {part} of {parts}"))
                    );
                }
                let last = part + 1 == parts;
                if last {
                    self.step += 1;
                    self.rewind();
                } else {
                    self.part += 1;
                    self.parts = Some(parts);
                }
                Ok(Arrival::Part { step, part, last })
            }
            Note::End { steps } if steps == self.steps && self.step == steps => Ok(Arrival::End),
            Note::End { steps } => Err(self.broken(&format!("ended after {steps} steps"))),
            Note::Moved { step } if step == self.step && self.part == 0 => Ok(Arrival::Moved),
            Note::Moved { step } => Err(self.broken(&format!("moved on at step {step}"))),
        }
    }

    /// The error of a stream that did `what` instead of what must come next.
    pub(crate) fn broken(&self, what: &str) -> Error {
        let Self { epoch, step, part, steps, .. } = self;
        Error::new(
            Code::BrokenStream,
            format!("the stream {what} where epoch {epoch}, step {step} of {steps}, part {part} comes next"),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(step: u64, part: u32, parts: u32) -> Note {
        Note::Part { epoch: 2, step, part, parts }
    }

    #[test]
    fn parts_in_order_are_accepted_to_the_end() {
        let mut position = Position::new(2, 5, 7);
        for (note, arrival) in [
            (part(5, 0, 2), Arrival::Part { step: 5, part: 0, last: false }),
            (part(5, 1, 2), Arrival::Part { step: 5, part: 1, last: true }),
            (part(6, 0, 1), Arrival::Part { step: 6, part: 0, last: true }),
            (Note::End { steps: 7 }, Arrival::End),
        ] {
            assert_eq!(position.accept(note).unwrap(), arrival);
        }
    }

    #[test]
    fn a_step_may_come_in_more_parts_than_its_first_ones_said() {
        let mut position = Position::new(2, 5, 7);
        for (note, arrival) in [
            (part(5, 0, 2), Arrival::Part { step: 5, part: 0, last: false }),
            (part(5, 1, 3), Arrival::Part { step: 5, part: 1, last: false }),
            (part(5, 2, 3), Arrival::Part { step: 5, part: 2, last: true }),
            (part(6, 0, 2), Arrival::Part { step: 6, part: 0, last: false }),
            (part(6, 1, 2), Arrival::Part { step: 6, part: 1, last: true }),
            (Note::End { steps: 7 }, Arrival::End),
        ] {
            assert_eq!(position.accept(note).unwrap(), arrival);
        }
    }

    #[test]
    fn nothing_but_the_next_is_accepted() {
        let inside = {
            let mut position = Position::new(2, 5, 7);
            position.accept(part(5, 0, 3)).unwrap();
            position
        };
        let at_end = Position::new(2, 7, 7);
        for (position, note) in [
            (inside, part(5, 0, 3)),
            (inside, part(5, 2, 3)),
            (inside, part(5, 1, 2)),
            (inside, part(6, 0, 1)),
            (inside, part(4, 1, 3)),
            (inside, Note::Part { epoch: 3, step: 5, part: 1, parts: 3 }),
            (inside, Note::End { steps: 7 }),
            (inside, Note::Moved { step: 5 }),
            (at_end, part(7, 0, 1)),
            (at_end, Note::End { steps: 8 }),
            (at_end, Note::Moved { step: 6 }),
            (Position::new(2, 0, 7), part(0, 0, 0)),
            (Position::new(2, 0, 7), Note::End { steps: 7 }),
        ] {
            let mut after = position;
            assert_eq!(after.accept(note).unwrap_err().code, Code::BrokenStream, "{note:?}");
            assert_eq!(after, position);
        }
    }

    #[test]
    fn a_rewound_step_starts_anew() {
        let mut position = Position::new(2, 5, 7);
        position.accept(part(5, 0, 3)).unwrap();
        position.rewind();
        position.accept(part(5, 0, 1)).unwrap();
        assert_eq!(position.accept(Note::Moved { step: 6 }).unwrap(), Arrival::Moved);
    }
}
