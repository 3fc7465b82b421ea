//! The notes that ride on a stream of record batches, as each batch's `app_metadata` in JSON.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What a batch on a stream is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Note {
    /// Part `part` of `parts` of a rank's share of a step. Parts count from 0.
    Part { epoch: u64, step: u64, part: u32, parts: u32 },
    /// The stream is complete: the epoch has `steps` steps and all of this rank's were sent. A stream
    /// that stops without it has failed.
    End { steps: u64 },
    /// The gateway is leaving: go on at `step` with another.
    Moved { step: u64 },
}

/// What bringing a part's rows cost a gateway, as far as the stream waited for it: nothing, where they were there
/// in time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Effort {
    /// Waiting for bytes of files.
    pub store: Duration,
    /// Decoding, shuffling and putting together.
    pub decode: Duration,
}

/// The three shapes under one roof; which it is follows from the members that are there.
#[derive(Serialize, Deserialize, Default)]
#[serde(default)]
struct Raw {
    #[serde(skip_serializing_if = "is_false")]
    end: bool,
    #[serde(skip_serializing_if = "is_false")]
    moved: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    epoch: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    step: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    steps: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    part: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parts: Option<u32>,
    #[serde(skip_serializing_if = "is_zero")]
    store_us: u64,
    #[serde(skip_serializing_if = "is_zero")]
    decode_us: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

fn is_false(flag: &bool) -> bool {
    !flag
}

/// The metadata of a batch is none of the notes that this release knows.
#[derive(Debug, thiserror::Error)]
pub enum NoteError {
    #[error("the batch's metadata is not JSON")]
    Json(#[source] serde_json::Error),
    #[error("the batch's metadata lacks members")]
    Incomplete,
}

impl Effort {
    pub fn total(self) -> Duration {
        self.store.saturating_add(self.decode)
    }

    pub fn plus(self, other: Self) -> Self {
        Self {
            store: self.store.saturating_add(other.store),
            decode: self.decode.saturating_add(other.decode),
        }
    }

    /// So much time, in the proportion of this effort; where there was none, all of it is decoding.
    pub fn scaled_to(self, time: Duration) -> Self {
        let total = self.total();
        if total.is_zero() {
            return Self { store: Duration::ZERO, decode: time };
        }
        // At most the whole, and the rest is the other's.
        let store = time.mul_f64(self.store.as_secs_f64() / total.as_secs_f64()).min(time);
        Self { store, decode: time - store }
    }
}

impl Note {
    pub fn to_json(self) -> Vec<u8> {
        self.to_json_with(Effort::default())
    }

    /// The same, and what the part cost, in whole microseconds.
    pub fn to_json_with(self, effort: Effort) -> Vec<u8> {
        let raw = match self {
            Self::Part { epoch, step, part, parts } => Raw {
                epoch: Some(epoch),
                step: Some(step),
                part: Some(part),
                parts: Some(parts),
                ..Raw::default()
            },
            Self::End { steps } => Raw { end: true, steps: Some(steps), ..Raw::default() },
            Self::Moved { step } => Raw { moved: true, step: Some(step), ..Raw::default() },
        };
        let whole = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let raw = Raw { store_us: whole(effort.store), decode_us: whole(effort.decode), ..raw };
        serde_json::to_vec(&raw).expect("numbers and flags are always JSON")
    }

    pub fn from_json(json: &[u8]) -> Result<Self, NoteError> {
        Self::from_json_with_effort(json).map(|(note, _)| note)
    }

    /// The note, and what the part cost, as far as the gateway says so.
    pub fn from_json_with_effort(json: &[u8]) -> Result<(Self, Effort), NoteError> {
        let raw: Raw = serde_json::from_slice(json).map_err(NoteError::Json)?;
        let effort = Effort {
            store: Duration::from_micros(raw.store_us),
            decode: Duration::from_micros(raw.decode_us),
        };
        Self::of(&raw).map(|note| (note, effort))
    }

    fn of(raw: &Raw) -> Result<Self, NoteError> {
        match *raw {
            Raw { end: true, steps: Some(steps), .. } => Ok(Self::End { steps }),
            Raw { moved: true, step: Some(step), .. } => Ok(Self::Moved { step }),
            Raw {
                end: false,
                moved: false,
                epoch: Some(epoch),
                step: Some(step),
                part: Some(part),
                parts: Some(parts),
                ..
            } => Ok(Self::Part { epoch, step, part, parts }),
            _ => Err(NoteError::Incomplete),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_read_as_the_design_writes_them() {
        for (note, json) in [
            (
                Note::Part { epoch: 1, step: 2, part: 0, parts: 3 },
                r#"{"epoch":1,"step":2,"part":0,"parts":3}"#,
            ),
            (Note::End { steps: 9 }, r#"{"end":true,"steps":9}"#),
            (Note::Moved { step: 4 }, r#"{"moved":true,"step":4}"#),
        ] {
            assert_eq!(String::from_utf8(note.to_json()).unwrap(), json);
            assert_eq!(Note::from_json(json.as_bytes()).unwrap(), note);
        }
    }

    #[test]
    fn what_a_part_cost_rides_along_and_may_be_left_out() {
        let note = Note::Part { epoch: 1, step: 2, part: 0, parts: 3 };
        let (store, decode) = (Duration::from_micros(40), Duration::from_micros(7));
        let json = note.to_json_with(Effort { store, decode });
        let written = r#"{"epoch":1,"step":2,"part":0,"parts":3,"store_us":40,"decode_us":7}"#;
        assert_eq!(String::from_utf8(json.clone()).unwrap(), written);
        assert_eq!(Note::from_json_with_effort(&json).unwrap(), (note, Effort { store, decode }));
        assert_eq!(Note::from_json_with_effort(&note.to_json()).unwrap(), (note, Effort::default()));
    }

    #[test]
    fn time_is_divided_as_the_effort_was() {
        let seconds = Duration::from_secs;
        let effort = Effort { store: seconds(3), decode: seconds(1) };
        assert_eq!(effort.scaled_to(seconds(8)), Effort { store: seconds(6), decode: seconds(2) });
        let none = Effort::default().scaled_to(seconds(8));
        assert_eq!(none, Effort { store: Duration::ZERO, decode: seconds(8) });
    }

    #[test]
    fn a_note_may_grow_but_not_shrink() {
        assert!(Note::from_json(br#"{"end":true,"steps":9,"more":1}"#).is_ok());
        assert!(Note::from_json(br#"{"epoch":1,"step":2}"#).is_err());
        assert!(Note::from_json(b"{}").is_err());
    }
}
