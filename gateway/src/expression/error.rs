//! What can be wrong with an expression, told to the person who wrote it.

use std::fmt;

use arrow::error::ArrowError;
use penstock_proto::sql_name;

/// Of a value that is told.
const MOST_LETTERS: usize = 60;

/// A place in a text, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct At {
    pub line: u64,
    pub letter: u64,
}

/// Why a text is no expression over a dataset.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExpressionError {
    #[error("{reason}; a column named like a word of SQL is written in double quotes")]
    Unreadable { reason: String },
    #[error(
        "it goes on at {at} with {found} where it should end: write one expression, its conditions joined by AND or OR"
    )]
    GoesOn { at: At, found: String },
    #[error(
        "it has {found} {what}, more than the {most} that are read: write a long list of values as x IN (…)"
    )]
    TooLong { what: &'static str, found: usize, most: usize },
    #[error("at {at} it nests deeper than {most} levels: compute in fewer steps")]
    TooDeep { at: At, most: usize },
    #[error("at {at}: the dataset has no column {column:?}, {hint}")]
    UnknownColumn { at: At, column: String, hint: String },
    #[error("at {at}: {of} has no member {member:?}, {hint}")]
    UnknownMember { at: At, of: String, member: String, hint: String },
    #[error(
        "at {at}: {written} is no member of a column: the dataset has a column of that name, which is written {}",
        sql_name(written)
    )]
    DottedColumn { at: At, written: String },
    #[error(
        "at {at}: {written} is a member of a column and a column of its own: write {member} for the member, {} for the column",
        sql_name(written)
    )]
    Ambiguous { at: At, written: String, member: String },
    #[error("at {at}: {what} is not read here, {choices}")]
    Unsupported { at: At, what: String, choices: String },
    #[error("at {at}: there is no function {name:?}, {hint}")]
    UnknownFunction { at: At, name: String, hint: String },
    #[error("at {at}: {name} takes {wanted}, not {found}")]
    Arguments { at: At, name: String, wanted: String, found: String },
    #[error("at {at}: {what} takes no {left} and {right}: convert one by CAST(… AS …)")]
    Mismatch { at: At, what: String, left: String, right: String },
    #[error("at {at}: {text:?} is no {kind}: write it like {example}")]
    Literal { at: At, text: String, kind: String, example: &'static str },
    #[error("at {at}: {uncast}")]
    Uncast { at: At, uncast: Uncast },
    #[error("it gives {kind}, not a condition: compare it with something, as in x > 3")]
    NoCondition { kind: String },
    #[error("{text:?} has no name: write {text} AS NAME")]
    Unnamed { text: String },
    #[error("it gives {kind}, which no column can hold: say its type by CAST(… AS …)")]
    NoType { kind: String },
}

/// A value that a CAST cannot make another type's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("CAST({written}) is not possible for {value:?}: TRY_CAST({written}) gives NULL there")]
pub struct Uncast {
    /// `x AS TYPE`.
    written: String,
    /// Its first letters.
    value: String,
}

impl Uncast {
    pub(super) fn new(written: &str, value: &str) -> Self {
        let mut shown: String = value.chars().take(MOST_LETTERS).collect();
        if shown.len() < value.len() {
            shown.push('…');
        }
        Self { written: written.to_owned(), value: shown }
    }

    /// What is behind an error of Arrow's, if it is that.
    pub(crate) fn of(error: &ArrowError) -> Option<&Self> {
        match error {
            ArrowError::ExternalError(inner) => inner.downcast_ref(),
            _ => None,
        }
    }
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 | 1 => write!(f, "letter {}", self.letter.max(1)),
            line => write!(f, "line {line}, letter {}", self.letter),
        }
    }
}
