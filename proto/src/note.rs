//! The notes that ride on a stream of record batches, as each batch's `app_metadata` in JSON.

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

impl Note {
    pub fn to_json(self) -> Vec<u8> {
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
        serde_json::to_vec(&raw).expect("numbers and flags are always JSON")
    }

    pub fn from_json(json: &[u8]) -> Result<Self, NoteError> {
        let raw: Raw = serde_json::from_slice(json).map_err(NoteError::Json)?;
        match raw {
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
    fn a_note_may_grow_but_not_shrink() {
        assert!(Note::from_json(br#"{"end":true,"steps":9,"more":1}"#).is_ok());
        assert!(Note::from_json(br#"{"epoch":1,"step":2}"#).is_err());
        assert!(Note::from_json(b"{}").is_err());
    }
}
