//! Numbers that come with a unit, in the one that the feed declares.
//!
//! In: decimals, dates, times, timestamps and durations, and what the request says a column becomes. Out:
//! int64 in that unit, or for decimals the nearest float64. The promise: a whole number is exact, or its
//! step is refused. It knows nothing of steps and slots.

use std::collections::BTreeMap;

use arrow::array::{Array as _, ArrayRef, make_array};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Schema, TimeUnit, i256};
use arrow::util::display::array_value_to_string;
use penstock_ring::DType;

use super::PackError;
use super::leaf::Leaf;
use super::nulls::{EVERY, check_names};

/// The word that asks for floating point.
const FLOAT: &str = "float64";
/// Units of time, and each in seconds.
const TIMES: [(&str, Ratio); 5] = [
    ("day", Ratio { times: DAY, per: i256::ONE }),
    ("s", second(i256::ONE)),
    ("ms", second(MILLI)),
    ("us", second(MICRO)),
    ("ns", second(NANO)),
];
const DAY: i256 = i256::from_i128(86_400);
const MILLI: i256 = i256::from_i128(1_000);
const MICRO: i256 = i256::from_i128(1_000_000);
const NANO: i256 = i256::from_i128(1_000_000_000);
const TEN: i256 = i256::from_i128(10);
/// Bytes of what comes out.
pub(super) const WIDTH: usize = 8;

const fn second(per: i256) -> Ratio {
    Ratio { times: i256::ONE, per }
}

/// Units by column name, as the trainer wrote them.
#[derive(Debug, Clone, Default, PartialEq, serde::Deserialize)]
#[serde(transparent)]
pub(crate) struct UnitRules(BTreeMap<String, String>);

impl UnitRules {
    /// Refuses names that no column has.
    pub(super) fn check_names(&self, schema: &Schema) -> Result<(), PackError> {
        check_names("units", self.0.keys(), schema)
    }

    /// What a column whose values are of this type becomes; `None` if nothing is declared. "*" reaches the
    /// columns that its unit fits and that are not named themselves.
    pub(super) fn of(&self, column: &str, values: &DataType) -> Result<Option<Conversion>, PackError> {
        if let Some(unit) = self.0.get(column) {
            let conversion = Conversion::new(values, unit).ok_or_else(|| PackError::Unit {
                column: column.to_owned(),
                data_type: values.to_string(),
                unit: unit.clone(),
                advice: choices(values),
            })?;
            return Ok(Some(conversion));
        }
        Ok(self.0.get(EVERY).and_then(|unit| Conversion::new(values, unit)))
    }

    /// What was declared of a column, for messages.
    pub(super) fn said_of(&self, column: &str) -> &str {
        self.0.get(column).or_else(|| self.0.get(EVERY)).map_or("", String::as_str)
    }
}

/// What can be declared of values of a type.
fn choices(values: &DataType) -> String {
    if let Some(scale) = decimal_scale(values) {
        return format!(
            "declare what one is of the int64 that you want, as in \"{}\", or \"{FLOAT}\"",
            step_of(scale)
        );
    }
    match time_of(values) {
        Some(_) => "declare \"day\", \"s\", \"ms\", \"us\" or \"ns\"".to_owned(),
        None => {
            "units are of decimals, dates, times, timestamps and durations, others are converted with select=[…]"
                .to_owned()
        }
    }
}

/// What to do about decimals of which nothing is declared.
pub(super) fn advice(scale: i8) -> String {
    let step = step_of(scale);
    format!("declare with units={{…}} what it becomes, \"{step}\" for int64 in that unit or \"{FLOAT}\"")
}

/// The smallest number above 0 of a decimal type.
fn step_of(scale: i8) -> String {
    let digits = usize::from(scale.unsigned_abs());
    match scale {
        0 => "1".to_owned(),
        1.. => format!("0.{:0>digits$}", 1),
        _ => format!("1{}", "0".repeat(digits)),
    }
}

/// How a stored number becomes the one that is fed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Conversion {
    Whole(Ratio),
    /// Of a decimal of that scale.
    Float {
        scale: i8,
    },
}

/// What a number is multiplied by and then divided by, in lowest terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ratio {
    times: i256,
    per: i256,
}

impl Conversion {
    /// `None` where values of this type cannot be had in this unit.
    fn new(values: &DataType, unit: &str) -> Option<Self> {
        if let Some(scale) = decimal_scale(values) {
            if unit == FLOAT {
                return Some(Self::Float { scale });
            }
            return Ratio::of_decimal(scale, unit).map(Self::Whole);
        }
        let (_, unit) = TIMES.into_iter().find(|(name, _)| *name == unit)?;
        let Ratio { times, per } = time_of(values)?;
        Some(Self::Whole(Ratio::reduced(times * unit.per, per * unit.times)))
    }

    pub(super) fn dtype(self) -> DType {
        match self {
            Self::Whole(_) => DType::Int64,
            Self::Float { .. } => DType::Float64,
        }
    }

    /// The first value that is no whole number of the unit, or none that int64 holds, as people write it.
    pub(super) fn misfit(self, leaf: &Leaf) -> Option<String> {
        let Self::Whole(ratio) = self else { return None };
        let nulls = leaf.nulls.as_ref();
        let found = match width_of(leaf) {
            4 => misfit::<i32>(leaf, nulls, ratio),
            8 => misfit::<i64>(leaf, nulls, ratio),
            16 => misfit::<i128>(leaf, nulls, ratio),
            _ => misfit::<i256>(leaf, nulls, ratio),
        };
        found.map(|at| shown(&leaf.array, at))
    }

    /// Writes the values of an array without a [`misfit`](Self::misfit), `fill` in the place of nulls.
    pub(super) fn write(self, leaf: &Leaf, place: &mut [u8], fill: &[u8]) {
        match width_of(leaf) {
            4 => self.write_all::<i32>(leaf, place, fill),
            8 => self.write_all::<i64>(leaf, place, fill),
            16 => self.write_all::<i128>(leaf, place, fill),
            _ => self.write_all::<i256>(leaf, place, fill),
        }
    }

    fn write_all<T: Stored>(self, leaf: &Leaf, place: &mut [u8], fill: &[u8]) {
        let data = leaf.array.to_data();
        let values = stored::<T>(&data.buffers()[0], data.offset(), leaf.len());
        for (at, (place, value)) in place.chunks_exact_mut(WIDTH).zip(values).enumerate() {
            let is_valid = leaf.nulls.as_ref().is_none_or(|nulls| nulls.is_valid(at));
            match self {
                _ if !is_valid => place.copy_from_slice(fill),
                Self::Whole(ratio) => {
                    let whole = ratio.whole(value).expect("a step with a misfit is refused");
                    place.copy_from_slice(&whole.to_le_bytes());
                }
                Self::Float { scale } => place.copy_from_slice(&float(value, scale).to_le_bytes()),
            }
        }
    }
}

impl Ratio {
    /// From a decimal's digits to whole numbers of a unit like "0.01".
    fn of_decimal(scale: i8, unit: &str) -> Option<Self> {
        let (whole, fraction) = unit.split_once('.').unwrap_or((unit, ""));
        let digits = format!("{whole}{fraction}");
        if whole.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let digits = i256::from_i128(digits.parse().ok()?);
        let places = i32::try_from(fraction.len()).ok()? - i32::from(scale);
        let power = TEN.checked_pow(places.unsigned_abs())?;
        let (times, per) =
            if places >= 0 { (power, digits) } else { (i256::ONE, power.checked_mul(digits)?) };
        (digits != i256::ZERO).then(|| Self::reduced(times, per))
    }

    fn reduced(times: i256, per: i256) -> Self {
        let (mut divisor, mut rest) = (times, per);
        while rest != i256::ZERO {
            (divisor, rest) = (rest, divisor % rest);
        }
        Self { times: times / divisor, per: per / divisor }
    }

    /// A number in the unit, if it is one that int64 holds.
    fn whole<T: Stored>(self, value: T) -> Option<i64> {
        let narrow = || Some((value.narrow()?, self.times.to_i128()?, self.per.to_i128()?));
        if let Some((value, times, per)) = narrow()
            && let Some(scaled) = value.checked_mul(times)
        {
            // Most units are the column's own, and a division of 128 bits takes its time.
            return match per {
                1 => i64::try_from(scaled).ok(),
                _ if scaled % per == 0 => i64::try_from(scaled / per).ok(),
                _ => None,
            };
        }
        let scaled = value.wide().checked_mul(self.times)?;
        let whole = (scaled % self.per == i256::ZERO).then(|| scaled / self.per)?;
        whole.to_i128().and_then(|whole| i64::try_from(whole).ok())
    }
}

/// The float64 that is nearest to a decimal.
fn float<T: Stored>(value: T, scale: i8) -> f64 {
    /// Powers of ten that float64 holds exactly, as it does whole numbers of 53 bits: their quotient is rounded once.
    const EXACT_POWERS: std::ops::RangeInclusive<i8> = 0..=22;
    const EXACT: std::ops::RangeInclusive<i128> = -(1 << 53)..=1 << 53;
    match value.narrow() {
        Some(value) if EXACT_POWERS.contains(&scale) && EXACT.contains(&value) => {
            value as f64 / 10_f64.powi(i32::from(scale))
        }
        _ => {
            let text = format!("{}e{}", value.wide(), -i32::from(scale));
            text.parse().expect("digits and an exponent are a number")
        }
    }
}

/// A number as Arrow stores it.
trait Stored: Copy {
    const WIDTH: usize;
    fn read(bytes: &[u8]) -> Self;
    fn narrow(self) -> Option<i128>;
    fn wide(self) -> i256;
}

macro_rules! stored {
    ($type:ty, $narrow:expr, $wide:expr) => {
        impl Stored for $type {
            const WIDTH: usize = size_of::<$type>();

            fn read(bytes: &[u8]) -> Self {
                Self::from_le_bytes(bytes.try_into().expect("a chunk is as wide as the number"))
            }

            fn narrow(self) -> Option<i128> {
                $narrow(self)
            }

            fn wide(self) -> i256 {
                $wide(self)
            }
        }
    };
}

stored!(i32, |x| Some(i128::from(x)), |x| i256::from_i128(i128::from(x)));
stored!(i64, |x| Some(i128::from(x)), |x| i256::from_i128(i128::from(x)));
stored!(i128, Some, i256::from_i128);
stored!(i256, i256::to_i128, |x| x);

fn misfit<T: Stored>(leaf: &Leaf, nulls: Option<&NullBuffer>, ratio: Ratio) -> Option<usize> {
    let data = leaf.array.to_data();
    let values = stored::<T>(&data.buffers()[0], data.offset(), leaf.len());
    let mut known = values.enumerate().filter(|&(at, _)| nulls.is_none_or(|nulls| nulls.is_valid(at)));
    known.find(|&(_, value)| ratio.whole(value).is_none()).map(|(at, _)| at)
}

/// Read byte by byte: what comes from a network need not lie where such a number would.
fn stored<T: Stored>(bytes: &[u8], offset: usize, len: usize) -> impl Iterator<Item = T> {
    bytes[offset * T::WIDTH..][..len * T::WIDTH].chunks_exact(T::WIDTH).map(T::read)
}

/// A number as people write it; of a moment in UTC, wherever it was.
fn shown(array: &ArrayRef, at: usize) -> String {
    let one = array.slice(at, 1);
    let one = match one.data_type() {
        DataType::Timestamp(unit, Some(_)) => {
            let data = one.to_data().into_builder().data_type(DataType::Timestamp(*unit, None));
            make_array(data.build().expect("a zone changes no number"))
        }
        _ => one,
    };
    array_value_to_string(&one, 0).expect("numbers of every type are shown")
}

fn width_of(leaf: &Leaf) -> usize {
    leaf.array.data_type().primitive_width().expect("only numbers are converted")
}

pub(super) fn decimal_scale(data_type: &DataType) -> Option<i8> {
    match data_type {
        DataType::Decimal32(_, scale)
        | DataType::Decimal64(_, scale)
        | DataType::Decimal128(_, scale)
        | DataType::Decimal256(_, scale) => Some(*scale),
        _ => None,
    }
}

/// The unit in which numbers of a type of time are fed where none is declared, the type's own, for people.
pub(super) fn own(data_type: &DataType) -> Option<&'static str> {
    let ratio = time_of(data_type)?;
    let (name, _) = TIMES.into_iter().find(|(_, of)| *of == ratio)?;
    Some(if name == "day" { "days" } else { name })
}

/// What one is of a type's numbers, in seconds.
fn time_of(data_type: &DataType) -> Option<Ratio> {
    Some(match data_type {
        DataType::Date32 => Ratio { times: DAY, per: i256::ONE },
        DataType::Date64 => second(MILLI),
        DataType::Time32(unit)
        | DataType::Time64(unit)
        | DataType::Timestamp(unit, _)
        | DataType::Duration(unit) => second(match unit {
            TimeUnit::Second => i256::ONE,
            TimeUnit::Millisecond => MILLI,
            TimeUnit::Microsecond => MICRO,
            TimeUnit::Nanosecond => NANO,
        }),
        _ => return None,
    })
}
