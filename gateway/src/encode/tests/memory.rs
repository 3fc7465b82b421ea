//! Whose memory a message is made of, and that every kind of column survives it.

use std::ops::Range;

use arrow::array::{
    Array, ArrayData, BooleanArray, Decimal128Array, FixedSizeBinaryArray, FixedSizeListArray, Float32Array,
    Int32Array, LargeStringArray, ListArray, MapBuilder, NullArray, RecordBatchOptions, StringArray,
    StringBuilder, StructArray, TimestampMicrosecondArray, make_array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, Field, Schema};
use arrow_flight::utils::flight_data_to_arrow_batch;

use super::*;

const ROWS: usize = 3_000;
/// Enough for anything here, so that nothing is cut.
const AMPLE: u64 = 1 << 30;

/// Every third is null.
fn nulls(rows: usize) -> NullBuffer {
    (0..rows).map(|row| row % 3 != 1).collect()
}

fn item(data_type: DataType) -> Arc<Field> {
    Arc::new(Field::new("item", data_type, true))
}

fn numbers(rows: usize) -> Int32Array {
    Int32Array::new((0..rows as i32).collect::<Vec<_>>().into(), Some(nulls(rows)))
}

fn texts(rows: usize) -> impl Iterator<Item = Option<String>> {
    (0..rows).map(|row| (row % 5 != 2).then(|| format!("the text of row {row}{}", "!".repeat(row % 7))))
}

/// Lists of 0, 1, 2 or 3.
fn ragged(values: ArrayRef) -> ListArray {
    let lengths = (0..).scan(0, |sum, row: usize| {
        *sum += row % 4;
        (*sum <= values.len()).then_some(row % 4)
    });
    let offsets = OffsetBuffer::from_lengths(lengths);
    let rows = offsets.len() - 1;
    ListArray::new(item(values.data_type().clone()), offsets, values, Some(nulls(rows)))
}

/// Columns of every kind, each of its own length.
fn columns() -> Vec<ArrayRef> {
    let mut map = MapBuilder::new(None, StringBuilder::new(), StringBuilder::new());
    for row in 0..ROWS {
        for entry in 0..row % 3 {
            map.keys().append_value(format!("key {entry}"));
            map.values().append_value(format!("value {row}"));
        }
        map.append(row % 4 != 0).unwrap();
    }
    let fields = [
        (Arc::new(Field::new("a", DataType::Int32, true)), Arc::new(numbers(ROWS)) as ArrayRef),
        (Arc::new(Field::new("b", DataType::Utf8, true)), Arc::new(StringArray::from_iter(texts(ROWS)))),
    ];
    let (fields, inner): (Vec<_>, Vec<_>) = fields.into_iter().unzip();
    let pairs = FixedSizeListArray::new(
        item(DataType::Float32),
        4,
        Arc::new(Float32Array::from_iter_values((0..4 * ROWS).map(|i| i as f32))),
        Some(nulls(ROWS)),
    );
    let bytes = FixedSizeBinaryArray::try_from_iter((0..ROWS).map(|row| [row as u8; 5])).unwrap();
    vec![
        Arc::new(numbers(ROWS)),
        Arc::new(Float32Array::from_iter_values((0..ROWS).map(|row| row as f32))),
        Arc::new((0..ROWS).map(|row| (row % 7 != 3).then_some(row % 2 == 0)).collect::<BooleanArray>()),
        Arc::new(Decimal128Array::from_iter((0..ROWS).map(|row| (row % 2 == 0).then_some(row as i128 * 7)))),
        Arc::new(TimestampMicrosecondArray::from_iter_values(0..ROWS as i64).with_timezone("UTC")),
        Arc::new(StringArray::from_iter(texts(ROWS))),
        Arc::new(LargeStringArray::from_iter(texts(ROWS))),
        Arc::new(StringViewArray::from_iter(texts(ROWS))),
        Arc::new(bytes),
        Arc::new(NullArray::new(ROWS)),
        Arc::new(pairs),
        Arc::new(StructArray::new(fields.into(), inner, Some(nulls(ROWS)))),
        Arc::new(ragged(Arc::new(numbers(2 * ROWS)))),
        Arc::new(ragged(Arc::new(ragged(Arc::new(StringArray::from_iter(texts(8 * ROWS))))))),
        Arc::new(ragged(Arc::new(BooleanArray::from_iter((0..2 * ROWS).map(|row| Some(row % 3 == 0)))))),
        Arc::new(map.finish()),
    ]
}

fn batch(column: ArrayRef) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable([("x", column, true)]).unwrap()
}

/// The one message of a batch.
fn message(batch: &RecordBatch) -> Message {
    compressed(batch, None)
}

fn compressed(batch: &RecordBatch, compression: Option<Compression>) -> Message {
    let mut encoder = Encoder::new(batch.schema(), 0, AMPLE, compression).unwrap();
    let [message] =
        encoder.rows(vec![batch.clone()], 0, 0, Effort::default()).unwrap().try_into().ok().unwrap();
    message
}

fn read(message: &Message, schema: SchemaRef) -> RecordBatch {
    let data = FlightData::new()
        .with_data_header(message.header.clone())
        .with_data_body(message.body.iter().flat_map(|piece| piece.to_vec()).collect::<Vec<_>>());
    flight_data_to_arrow_batch(&data, schema, &Default::default()).unwrap()
}

/// Where the bytes of an array and of all inside it lie.
fn places(data: &ArrayData) -> Vec<Range<usize>> {
    let own = data.buffers().iter().map(|buffer| {
        let start = buffer.as_ptr() as usize;
        start..start + buffer.len()
    });
    own.chain(data.child_data().iter().flat_map(places)).collect()
}

#[test]
fn every_kind_of_column_is_read_as_it_was_whole_and_in_slices() {
    for column in columns() {
        let rows = column.len();
        for (offset, length) in [(0, rows), (0, 0), (7, 0), (1, 1), (5, rows - 5), (8, 640), (rows - 3, 3)] {
            let slice = batch(column.slice(offset, length));
            for compression in [None, Some(Compression::Lz4), Some(Compression::Zstd)] {
                let read = read(&compressed(&slice, compression), slice.schema());
                assert_eq!(read, slice, "{} {offset} {length} {compression:?}", column.data_type());
            }
        }
    }
}

#[test]
fn what_repeats_itself_becomes_small_and_what_does_not_hardly_grows() {
    let alike =
        batch(Arc::new(StringArray::from_iter_values((0..ROWS).map(|row| format!("text {}", row % 3)))));
    let sizes = [None, Some(Compression::Lz4), Some(Compression::Zstd)]
        .map(|compression| compressed(&alike, compression).body_bytes());
    assert!(sizes[1] < sizes[0] / 2 && sizes[2] < sizes[1], "{sizes:?}");

    let mut state = 1_u64;
    let noise = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 32) as u8
    });
    let noise =
        FixedSizeBinaryArray::try_from_iter([noise.take(100_000).collect::<Vec<_>>()].iter()).unwrap();
    let noise = batch(Arc::new(noise));
    let plain = message(&noise).body_bytes();
    for compression in [Compression::Lz4, Compression::Zstd] {
        assert!(compressed(&noise, Some(compression)).body_bytes() <= plain + 64, "{compression}");
    }
}

#[test]
fn no_buffer_of_a_column_is_copied() {
    for column in columns() {
        let (rows, data_type) = (column.len(), column.data_type().clone());
        for slice in [Arc::clone(&column), column.slice(0, rows - 1), column.slice(96, rows - 100)] {
            let sliced = batch(slice);
            let message = message(&sliced);
            // Views are compacted first, bits may have to be moved, offsets that begin elsewhere are rebased.
            let places = places(&sliced.column(0).to_data());
            let lies = |piece: &arrow::buffer::Buffer| {
                let start = piece.as_ptr() as usize;
                places.iter().any(|place| place.start <= start && start + piece.len() <= place.end)
            };
            let copied: usize = message.body.iter().filter(|p| !lies(p)).map(|p| p.len()).sum();
            let (all, bits) = (message.body_bytes() as usize, rows / 8 + 64);
            match &data_type {
                DataType::Utf8View | DataType::Null => continue,
                DataType::List(item) if *item.data_type() == DataType::Boolean => continue,
                DataType::Boolean => assert!(copied <= 2 * bits, "{copied}"),
                // Offsets of lists, of lists inside them and of texts inside those.
                DataType::List(_) | DataType::Map(..) | DataType::Struct(_) => {
                    assert!(copied <= all / 2, "{data_type}: {copied} of {all}");
                }
                DataType::Utf8 => assert!(copied <= bits + 4 * rows + 256, "{copied} of {all}"),
                DataType::LargeUtf8 => assert!(copied <= bits + 8 * rows + 256, "{copied} of {all}"),
                other => assert!(copied <= bits + 256, "{other}: {copied} of {all}"),
            }
        }
    }
}

#[test]
fn a_column_from_its_beginning_is_sent_from_where_it_lies() {
    let long = Int64Array::from_iter_values(0..ROWS as i64);
    let text = StringArray::from_iter_values((0..ROWS).map(|row| row.to_string()));
    let list = ragged(Arc::new(Float32Array::from_iter_values((0..2 * ROWS).map(|i| i as f32))));
    let rows = list.len().min(ROWS);
    let all: Vec<(&str, ArrayRef)> = vec![
        ("long", Arc::new(long.slice(0, rows))),
        ("text", Arc::new(text.slice(0, rows))),
        ("list", Arc::new(list.slice(0, rows))),
    ];
    let sent = message(&RecordBatch::try_from_iter(all).unwrap());
    let expected = [
        long.values().inner().as_ptr(),
        text.offsets().inner().inner().as_ptr(),
        text.value_data().as_ptr(),
        list.offsets().inner().inner().as_ptr(),
        list.values().as_any().downcast_ref::<Float32Array>().unwrap().values().inner().as_ptr(),
    ];
    let large: Vec<_> = sent.body.iter().filter(|piece| piece.len() > 2_000).map(|p| p.as_ptr()).collect();
    assert_eq!(large, expected);
}

#[test]
fn rows_without_columns_keep_their_number() {
    let options = RecordBatchOptions::new().with_row_count(Some(7));
    let bare = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &options).unwrap();
    let message = message(&bare);
    assert_eq!((message.body.len(), read(&message, bare.schema()).num_rows()), (0, 7));
}

#[test]
fn validity_is_sent_in_bits_wherever_it_begins() {
    let values = ScalarBuffer::from_iter(0..ROWS as i32);
    let column = make_array(Int32Array::new(values, Some(nulls(ROWS))).into_data());
    for offset in 0..9 {
        let slice = batch(column.slice(offset, 100));
        assert_eq!(read(&message(&slice), slice.schema()), slice);
    }
}
