//! The values of one page, as many at a time as are wanted.
//!
//! In: a page's values in their encoding, and the chunk's dictionary. Out: values, appended to a vector, or
//! passed over. The promise: what a page claims costs no memory before values are taken; an index outside
//! the dictionary or a page that ends early is odd. It knows no lists.

use bytes::Bytes;
use parquet::basic::{Encoding, Type};

use super::Odd;
use super::delta::Deltas;
use super::element::Element;
use super::runs::{Run, Runs};
use super::unpack::unpack;

/// Values looked up at once.
const BLOCK: usize = 1024;

const SHORT: Odd = Odd::Other("a page with fewer values than its levels say");

/// The values of a page that are not passed yet.
pub(super) enum Values {
    Plain(Bytes),
    /// The bytes of the values apart, and how many values are passed.
    Split {
        bytes: Bytes,
        passed: usize,
    },
    Indices(Runs),
    Deltas(Deltas),
}

/// What dictionary indices mean.
pub(super) struct Dictionary<T> {
    values: Vec<T>,
    /// The first values again, for indices of a byte.
    table: Box<[T; 256]>,
}

impl Values {
    /// At most `count` values in `bytes`.
    pub(super) fn new<T: Element>(encoding: Encoding, bytes: Bytes, count: usize) -> Result<Self, Odd> {
        Ok(match encoding {
            Encoding::PLAIN => Self::Plain(bytes),
            Encoding::PLAIN_DICTIONARY | Encoding::RLE_DICTIONARY => match bytes.first() {
                Some(&width) => Self::Indices(Runs::new(bytes.slice(1..), usize::from(width), count)?),
                None if count == 0 => Self::Plain(bytes),
                None => return Err(SHORT),
            },
            Encoding::BYTE_STREAM_SPLIT => Self::Split { bytes, passed: 0 },
            Encoding::DELTA_BINARY_PACKED if matches!(T::STORED, Type::INT32 | Type::INT64) => {
                Self::Deltas(Deltas::new(bytes)?)
            }
            _ => return Err(Odd::Other("another encoding")),
        })
    }

    /// Appends the next `count` values to `out`.
    pub(super) fn take<T: Element>(
        &mut self,
        count: usize,
        dictionary: Option<&Dictionary<T>>,
        out: &mut Vec<T>,
    ) -> Result<(), Odd> {
        match self {
            Self::Plain(bytes) => {
                T::plain(&plain::<T>(bytes, count)?, out);
                Ok(())
            }
            Self::Split { bytes, passed } => {
                let first = *passed;
                pass_split::<T>(bytes, passed, count)?;
                T::split(bytes, first, count, out);
                Ok(())
            }
            Self::Indices(_) if count == 0 => Ok(()),
            Self::Indices(runs) => {
                dictionary.ok_or(Odd::Other("indices without a dictionary"))?.take(runs, count, out)
            }
            Self::Deltas(deltas) => deltas.take(count, |number| out.push(T::of_number(number))),
        }
    }

    /// Passes the next `count` values.
    pub(super) fn skip<T: Element>(&mut self, mut count: usize) -> Result<(), Odd> {
        match self {
            Self::Plain(bytes) => plain::<T>(bytes, count).map(drop),
            Self::Split { bytes, passed } => pass_split::<T>(bytes, passed, count),
            Self::Indices(runs) => {
                while count > 0 {
                    let some = runs.current()?.left().min(count);
                    runs.pass(some);
                    count -= some;
                }
                Ok(())
            }
            Self::Deltas(deltas) => deltas.take(count, |_| {}),
        }
    }
}

/// Cuts the next `count` values off.
fn plain<T: Element>(bytes: &mut Bytes, count: usize) -> Result<Bytes, Odd> {
    let length = count.checked_mul(T::STORED_BYTES).filter(|&length| length <= bytes.len());
    Ok(bytes.split_to(length.ok_or(SHORT)?))
}

fn pass_split<T: Element>(bytes: &Bytes, passed: &mut usize, count: usize) -> Result<(), Odd> {
    *passed += count;
    if *passed <= bytes.len() / T::STORED_BYTES { Ok(()) } else { Err(SHORT) }
}

impl<T: Element> Dictionary<T> {
    /// `count` values stored in `bytes`.
    pub(super) fn new(mut bytes: Bytes, count: usize) -> Result<Self, Odd> {
        let bytes = plain::<T>(&mut bytes, count)?;
        let mut values = Vec::with_capacity(count);
        T::plain(&bytes, &mut values);
        let table = std::array::from_fn(|index| values.get(index).copied().unwrap_or_default());
        Ok(Self { values, table: Box::new(table) })
    }

    fn take(&self, runs: &mut Runs, mut count: usize, out: &mut Vec<T>) -> Result<(), Odd> {
        const BEYOND: Odd = Odd::Other("an index beyond the dictionary");
        while count > 0 {
            let run = runs.current()?;
            let some = run.left().min(count);
            match run {
                Run::Repeated { value, .. } => {
                    let value = *self.values.get(value as usize).ok_or(BEYOND)?;
                    out.resize(out.len() + some, value);
                }
                Run::Packed { start, passed, .. } if runs.width() == 8 => {
                    let indices = &runs.bytes()[start + passed..][..some];
                    if self.values.len() < 256
                        && indices.iter().fold(0, |most, &index| most.max(index)) as usize
                            >= self.values.len()
                    {
                        return Err(BEYOND);
                    }
                    T::look_up(indices, &self.table, out);
                }
                Run::Packed { .. } if runs.width() == 0 => {
                    return Err(Odd::Other("packed indices of no width"));
                }
                Run::Packed { start, passed, .. } => {
                    let packed = &runs.bytes()[start..];
                    let values = self.values.as_slice();
                    let last = values.len().checked_sub(1).ok_or(BEYOND)?;
                    let (mut block, mut most) = ([T::default(); BLOCK], 0);
                    for first in (0..some).step_by(BLOCK) {
                        let block = &mut block[..BLOCK.min(some - first)];
                        let of = |index| values[last.min(index as usize)];
                        most = most.max(unpack(packed, runs.width(), passed + first, block, of));
                        out.extend_from_slice(block);
                    }
                    if most as usize > last {
                        return Err(BEYOND);
                    }
                }
            }
            runs.pass(some);
            count -= some;
        }
        Ok(())
    }
}
