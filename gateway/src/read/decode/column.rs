//! One column of lists, read as rows are wanted.
//!
//! In: a footer, a top-level column, later its bytes. Out: arrays of as many lists as are asked for. The
//! promise: the same array as parquet's own reader makes, or [`Odd`]; one page and one batch are held
//! beside the chunk's bytes. It knows no other column.

use std::sync::Arc;

use arrow::array::{ArrayRef, FixedSizeListArray, LargeListArray, ListArray, PrimitiveArray};
use arrow::buffer::{OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, FieldRef};
use arrow::error::ArrowError;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, RowSelection, RowSelector};
use parquet::basic::{Repetition, Type as Stored};
use parquet::schema::types::Type;

use super::Odd;
use super::element::Element;
use super::levels::{Before, Levels, Shape};
use super::pages::{Chunk, Held, Pages, Parts};
use super::steps::selected;
use super::values::{Dictionary, Values};

/// What a footer says of a batch's size is believed up to so many bytes; beyond, memory follows the pages.
const BELIEVED_BYTES: usize = 32 << 20;

/// A top-level column that holds lists of numbers and nothing else.
pub(super) struct ListColumn {
    chunk: Chunk,
    field: FieldRef,
    shape: Shape,
    /// Values of a list, about, as the footer says.
    mean: usize,
    open: Open,
}

type Open = fn(Pages, FieldRef, Shape, usize) -> Box<dyn Lists>;

/// A column being read, whatever its values.
pub(super) trait Lists: Send {
    /// The rows that `steps` select; the next steps go on behind them.
    fn read(&mut self, steps: &[RowSelector]) -> Result<ArrayRef, Odd>;
}

impl ListColumn {
    /// The column at `root`, whose only leaf is `leaf`, if it is of those that are decoded here.
    pub(super) fn new(
        footer: &ArrowReaderMetadata,
        row_group: usize,
        (root, leaf): (usize, usize),
        rows: Option<&RowSelection>,
    ) -> Option<Self> {
        let field = Arc::clone(footer.schema().fields().get(root)?);
        let (DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, 1..)) =
            field.data_type()
        else {
            return None;
        };
        let (stored, open) = way(item.data_type())?;
        let shape = shape(footer.parquet_schema().root_schema().get_fields().get(root)?)?;
        let column = footer.parquet_schema().column(leaf);
        let levels = (column.max_rep_level(), u32::try_from(column.max_def_level()).ok()?);
        if column.physical_type() != stored || levels != (1, shape.present) {
            return None;
        }
        let group = footer.metadata().row_group(row_group);
        let values = usize::try_from(group.column(leaf).num_values()).ok()?;
        let mean = values.div_ceil(usize::try_from(group.num_rows()).ok()?.max(1));
        Some(Self { chunk: Chunk::new(footer, row_group, leaf, rows)?, field, shape, mean, open })
    }

    pub(super) fn chunk(&self) -> &Chunk {
        &self.chunk
    }

    pub(super) fn field(&self) -> &FieldRef {
        &self.field
    }

    /// Begins to read: what the chunk needs is held.
    pub(super) fn open(
        self,
        footer: &ArrowReaderMetadata,
        row_group: usize,
        held: &Held,
    ) -> Result<Box<dyn Lists>, Odd> {
        let pages = self.chunk.open(footer, row_group, held)?;
        Ok((self.open)(pages, self.field, self.shape, self.mean))
    }
}

/// How values of a type are stored, and who reads them.
fn way(item: &DataType) -> Option<(Stored, Open)> {
    fn of<T: Element>() -> (Stored, Open) {
        (T::STORED, Column::<T>::boxed)
    }
    Some(match item {
        DataType::Int8 => of::<i8>(),
        DataType::UInt8 => of::<u8>(),
        DataType::Int16 => of::<i16>(),
        DataType::UInt16 => of::<u16>(),
        DataType::Int32 => of::<i32>(),
        DataType::UInt32 => of::<u32>(),
        DataType::Int64 => of::<i64>(),
        DataType::UInt64 => of::<u64>(),
        DataType::Float32 => of::<f32>(),
        DataType::Float64 => of::<f64>(),
        _ => return None,
    })
}

/// The definition levels of a column that is repeated once; `None` if it is not.
fn shape(root: &Type) -> Option<Shape> {
    let (mut level, mut repeated) = (0, None);
    let mut node = root;
    loop {
        match node.get_basic_info().repetition() {
            Repetition::REQUIRED => {}
            Repetition::OPTIONAL => level += 1,
            Repetition::REPEATED if repeated.is_some() => return None,
            Repetition::REPEATED => {
                repeated = Some(level);
                level += 1;
            }
        }
        match node.is_group().then(|| node.get_fields()) {
            None => break,
            Some([only]) => node = only,
            Some(_) => return None,
        }
    }
    // Two bits hold it.
    (level <= 3).then_some(Shape { present: level, empty: repeated? })
}

struct Column<T> {
    pages: Pages,
    field: FieldRef,
    shape: Shape,
    mean: usize,
    dictionary: Option<Dictionary<T>>,
    page: Option<(Levels, Values)>,
}

/// A batch in the making.
struct Batch<T> {
    /// Where each list begins.
    offsets: Vec<i32>,
    values: Vec<T>,
}

impl<T: Element> Lists for Column<T> {
    fn read(&mut self, steps: &[RowSelector]) -> Result<ArrayRef, Odd> {
        let rows = selected(steps);
        let believed = BELIEVED_BYTES / size_of::<T>();
        let expected = rows.saturating_mul(self.mean);
        // Where lengths differ a batch may hold a little more than the mean, and is not to be moved for it.
        let spare = match self.field.data_type() {
            DataType::FixedSizeList(..) => 0,
            _ => expected / 8,
        };
        let mut batch = Batch {
            offsets: Vec::with_capacity(rows.min(believed) + 1),
            values: Vec::with_capacity(expected.saturating_add(spare).min(believed)),
        };
        for step in steps {
            self.walk(step.row_count, (!step.skip).then_some(&mut batch))?;
        }
        batch.finish(&self.field)
    }
}

impl<T: Element> Column<T> {
    fn boxed(pages: Pages, field: FieldRef, shape: Shape, mean: usize) -> Box<dyn Lists> {
        Box::new(Self { pages, field, shape, mean, dictionary: None, page: None })
    }

    /// Passes `rows` lists, over all pages that they lie on; takes them where there is a batch to.
    fn walk(&mut self, mut rows: usize, mut batch: Option<&mut Batch<T>>) -> Result<(), Odd> {
        loop {
            if let Some((levels, values)) = &mut self.page
                && levels.left() > 0
            {
                match &mut batch {
                    Some(batch) => batch.take(levels, values, self.dictionary.as_ref(), &mut rows)?,
                    None => values.skip::<T>(levels.pass(&mut rows, |_| {})?)?,
                }
                if levels.left() > 0 {
                    return Ok(());
                }
            }
            if rows == 0 && self.pages.is_indexed() {
                return Ok(());
            }
            if batch.is_none()
                && rows > 0
                && let Some(count) = self.pages.rows_ahead()?
                && count <= rows
            {
                self.pages.skip()?;
                self.page = None;
                rows -= count;
            } else if !self.turn()? {
                return if rows == 0 { Ok(()) } else { Err(Odd::Other("rows that are not there")) };
            }
        }
    }

    /// Turns to the next page; `false` if there is none.
    fn turn(&mut self) -> Result<bool, Odd> {
        let before = self.page.as_ref().map_or(Before::Nothing, |(levels, _)| levels.before());
        // The next one may have its memory.
        self.page = None;
        match self.pages.next()? {
            None => return Ok(false),
            Some(Parts::Dictionary { values, count }) => {
                self.dictionary = Some(Dictionary::new(values, count)?);
            }
            Some(Parts::Data { repetition, definition, values, encoding, levels: count, is_new_row }) => {
                let before = if is_new_row { Before::Nothing } else { before };
                let levels = Levels::new(repetition, definition, count, self.shape, before)?;
                self.page = Some((levels, Values::new::<T>(encoding, values, count)?));
            }
        }
        Ok(true)
    }
}

impl<T: Element> Batch<T> {
    fn take(
        &mut self,
        levels: &mut Levels,
        values: &mut Values,
        dictionary: Option<&Dictionary<T>>,
        rows: &mut usize,
    ) -> Result<(), Odd> {
        let before = self.values.len();
        if i32::try_from(before + levels.left()).is_err() {
            return Err(Odd::Other("a batch of more values than offsets can count"));
        }
        let count = levels.pass(rows, |begin| self.offsets.push((before + begin) as i32))?;
        values.take(count, dictionary, &mut self.values)
    }

    fn finish(mut self, field: &FieldRef) -> Result<ArrayRef, Odd> {
        self.offsets.push(self.values.len() as i32);
        let values = PrimitiveArray::<T::Arrow>::new(ScalarBuffer::from(self.values), None);
        let offsets = self.offsets;
        let array = match field.data_type() {
            DataType::FixedSizeList(item, size) => {
                if offsets.windows(2).any(|pair| pair[1] - pair[0] != *size) {
                    return Err(Odd::Other("a list of another length"));
                }
                let lists = FixedSizeListArray::try_new(Arc::clone(item), *size, Arc::new(values), None);
                lists.map(|lists| Arc::new(lists) as ArrayRef)
            }
            DataType::LargeList(item) => {
                let offsets = OffsetBuffer::new(offsets.into_iter().map(i64::from).collect());
                let lists = LargeListArray::try_new(Arc::clone(item), offsets, Arc::new(values), None);
                lists.map(|lists| Arc::new(lists) as ArrayRef)
            }
            DataType::List(item) => {
                let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
                let lists = ListArray::try_new(Arc::clone(item), offsets, Arc::new(values), None);
                lists.map(|lists| Arc::new(lists) as ArrayRef)
            }
            other => Err(ArrowError::SchemaError(format!("{other} is no list"))),
        };
        array.map_err(|_| Odd::Other("lists that do not fit their type"))
    }
}
