//! The few types that expressions compute with, and what columns of any type are taken for.

use std::fmt;

use arrow::datatypes::{DataType, TimeUnit};

/// What a value is. Every kind but the last two has one Arrow type that it is computed in; a timestamp keeps
/// the unit of its column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    Bool,
    /// Signed and up to 64 bits.
    Int,
    /// What may be beyond the signed.
    Unsigned,
    Double,
    Text,
    Date,
    Timestamp,
    /// Nothing but NULL.
    Null,
    /// A type that is passed on and never looked into.
    Other(DataType),
}

impl Kind {
    /// What a column of a type is taken for.
    pub(super) fn of(data_type: &DataType) -> Self {
        match data_type {
            DataType::Boolean => Self::Bool,
            DataType::Int8
            | DataType::Int16
            | DataType::Int32
            | DataType::Int64
            | DataType::UInt8
            | DataType::UInt16
            | DataType::UInt32 => Self::Int,
            DataType::UInt64 => Self::Unsigned,
            DataType::Float16 | DataType::Float32 | DataType::Float64 => Self::Double,
            DataType::Decimal32(..)
            | DataType::Decimal64(..)
            | DataType::Decimal128(..)
            | DataType::Decimal256(..) => Self::Double,
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Self::Text,
            DataType::Date32 | DataType::Date64 => Self::Date,
            DataType::Timestamp(..) => Self::Timestamp,
            DataType::Null => Self::Null,
            DataType::Dictionary(_, values) => Self::of(values),
            other => Self::Other(other.clone()),
        }
    }

    /// The type of a computed column of this kind.
    pub(super) fn data_type(&self) -> Option<DataType> {
        Some(match self {
            Self::Bool => DataType::Boolean,
            Self::Int => DataType::Int64,
            Self::Unsigned => DataType::UInt64,
            Self::Double => DataType::Float64,
            Self::Text => DataType::Utf8,
            Self::Date => DataType::Date32,
            Self::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, None),
            Self::Null | Self::Other(_) => return None,
        })
    }

    pub(super) fn is_number(&self) -> bool {
        matches!(self, Self::Int | Self::Unsigned | Self::Double)
    }

    pub(super) fn is_moment(&self) -> bool {
        matches!(self, Self::Date | Self::Timestamp)
    }

    /// The kind that values of both can be converted to, where there is one.
    pub(super) fn common(&self, other: &Self) -> Option<Self> {
        Some(match (self, other) {
            (a, b) if a == b => a.clone(),
            (Self::Null, kind) | (kind, Self::Null) => kind.clone(),
            (Self::Double, b) if b.is_number() => Self::Double,
            (a, Self::Double) if a.is_number() => Self::Double,
            (a, b) if a.is_number() && b.is_number() => Self::Int,
            (a, b) if a.is_moment() && b.is_moment() => Self::Timestamp,
            _ => return None,
        })
    }

    /// Whether two values can be told equal or ordered.
    pub(super) fn is_comparable(&self, other: &Self) -> bool {
        !matches!(self, Self::Other(_)) && self.common(other).is_some()
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bool => "BOOLEAN",
            Self::Int => "BIGINT",
            Self::Unsigned => "UBIGINT",
            Self::Double => "DOUBLE",
            Self::Text => "TEXT",
            Self::Date => "DATE",
            Self::Timestamp => "TIMESTAMP",
            Self::Null => "NULL",
            Self::Other(data_type) => return write!(f, "{data_type}"),
        })
    }
}
