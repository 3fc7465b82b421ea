use std::sync::Arc;

use arrow::array::{
    Array as _, ArrayRef, BinaryViewArray, BooleanArray, FixedSizeBinaryArray, FixedSizeListArray,
    Float32Array, Int64Array, LargeStringArray, ListArray, NullArray, StringArray, StringViewArray,
    StructArray,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, Field};
use arrow::ipc::CompressionType;
use arrow::ipc::writer::{DictionaryTracker, IpcDataGenerator, IpcWriteContext, IpcWriteOptions};
use arrow_flight::FlightData;
use arrow_flight::utils::batches_to_flight_data;
use proptest::prelude::*;

use super::*;

/// A batch of every layout that a feed may have, and more.
pub(super) fn batch() -> RecordBatch {
    let item = |kind| Arc::new(Field::new("item", kind, true));
    let texts = [Some("one"), None, Some("a text that is longer than a view holds"), Some("")];
    let floats: ArrayRef = Arc::new(Float32Array::from_iter_values((0..8).map(|i| i as f32)));
    let nulls = NullBuffer::from(vec![true, false, true, true]);
    let lists = ListArray::new(
        item(DataType::Float32),
        OffsetBuffer::new(vec![0, 3, 3, 7, 8].into()),
        floats.clone(),
        Some(nulls.clone()),
    );
    let fixed = FixedSizeListArray::new(item(DataType::Float32), 2, floats, Some(nulls.clone()));
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None, Some(3), Some(4)]));
    let bools: ArrayRef = Arc::new(BooleanArray::from(vec![true, false, true, true]));
    let fields = vec![Field::new("n", DataType::Int64, true), Field::new("b", DataType::Boolean, true)];
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("int", numbers.clone()),
        ("bool", bools.clone()),
        ("text", Arc::new(StringArray::from_iter(texts))),
        ("large", Arc::new(LargeStringArray::from_iter(texts))),
        ("view", Arc::new(StringViewArray::from_iter(texts))),
        ("bytes", Arc::new(BinaryViewArray::from_iter(texts))),
        ("fixed", Arc::new(FixedSizeBinaryArray::try_from_iter([[1; 3]; 4].iter()).unwrap())),
        ("list", Arc::new(lists)),
        ("tensor", Arc::new(fixed)),
        ("null", Arc::new(NullArray::new(4))),
        ("struct", Arc::new(StructArray::new(fields.into(), vec![numbers, bools], Some(nulls)))),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, column)| (name, column, true)))
        .unwrap()
}

/// The schema's message and the batch's.
pub(super) fn messages(batch: &RecordBatch) -> [FlightData; 2] {
    batches_to_flight_data(&batch.schema(), [batch]).unwrap().try_into().unwrap()
}

/// The batch's message, compressed.
pub(super) fn compressed(batch: &RecordBatch, codec: CompressionType) -> FlightData {
    let options = IpcWriteOptions::default().try_with_compression(Some(codec)).unwrap();
    let (mut tracker, mut context) = (DictionaryTracker::new(false), IpcWriteContext::default());
    let written = IpcDataGenerator::default().encode(batch, &mut tracker, &options, &mut context);
    written.unwrap().1.into()
}

/// The body where a connection would have put it.
pub(super) fn aligned(data: &FlightData) -> Buffer {
    Buffer::from_slice_ref(&data.data_body[..])
}

#[test]
fn a_batch_comes_back_and_lies_in_its_body() {
    let sent = batch();
    let [schema, data] = messages(&sent);
    assert!(decode(&sent.schema(), &schema.data_header, &Buffer::default()).unwrap().is_none());
    let body = aligned(&data);
    let read = decode(&sent.schema(), &data.data_header, &body).unwrap().unwrap();
    assert_eq!((&read.batch, read.bytes), (&sent, 0));
    let range = body.as_ptr_range();
    for column in read.batch.columns() {
        for buffer in column.to_data().buffers() {
            assert!(
                buffer.is_empty() || range.contains(&buffer.as_ptr()),
                "{} was copied",
                column.data_type()
            );
        }
    }
}

#[test]
fn a_compressed_batch_comes_back_and_says_what_it_takes() {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values((0..10_000).map(|i| i / 100)));
    let long = RecordBatch::try_from_iter_with_nullable([("n", numbers, true)]).unwrap();
    for codec in [CompressionType::LZ4_FRAME, CompressionType::ZSTD] {
        let data = compressed(&long, codec);
        assert!(data.data_body.len() < 40_000);
        let read = decode(&long.schema(), &data.data_header, &aligned(&data)).unwrap().unwrap();
        assert_eq!((&read.batch, read.bytes), (&long, 80_000));
        // Small buffers stay as they are.
        let (sent, data) = (batch(), compressed(&batch(), codec));
        assert_eq!(decode(&sent.schema(), &data.data_header, &aligned(&data)).unwrap().unwrap().batch, sent);
    }
}

#[test]
fn no_memory_is_taken_for_what_a_message_cannot_hold() {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1000));
    let sent = RecordBatch::try_from_iter_with_nullable([("n", numbers, false)]).unwrap();
    let data = compressed(&sent, CompressionType::ZSTD);
    for length in [1 << 33, i64::MAX, -2, 7999, 8001] {
        let mut body = data.data_body.to_vec();
        body[..LENGTH_BYTES].copy_from_slice(&i64::to_le_bytes(length));
        assert!(decode(&sent.schema(), &data.data_header, &Buffer::from(body)).is_err(), "{length}");
    }
}

#[test]
fn columns_are_those_that_were_announced() {
    let sent = batch();
    let [schema, _] = messages(&sent);
    let fewer = Arc::new(sent.schema().project(&[0, 1]).unwrap());
    let error = decode(&fewer, &schema.data_header, &Buffer::default()).unwrap_err();
    assert!(matches!(error, DecodeError::Columns));
}

#[test]
fn a_batch_stays_inside_its_body() {
    let sent = batch();
    let [_, data] = messages(&sent);
    let body = aligned(&data);
    for length in 0..body.len() {
        match decode(&sent.schema(), &data.data_header, &body.slice_with_length(0, length)) {
            Err(DecodeError::Batch(_)) => {}
            // Nothing but padding was cut off.
            Ok(Some(read)) => assert!(read.batch == sent && body.len() - length < 64, "{length}"),
            other => panic!("{other:?}"),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 2000, ..ProptestConfig::default() })]
    #[test]
    fn any_header_over_any_body_is_a_batch_or_refused(
        codec in 0..3,
        in_header in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 0..5),
        in_body in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 0..5),
    ) {
        let sent = batch();
        let data = match codec {
            0 => compressed(&sent, CompressionType::LZ4_FRAME),
            1 => compressed(&sent, CompressionType::ZSTD),
            _ => messages(&sent)[1].clone(),
        };
        let (mut header, mut body) = (data.data_header.to_vec(), data.data_body.to_vec());
        for (index, byte) in in_header {
            let index = index.index(header.len());
            header[index] = byte;
        }
        for (index, byte) in in_body {
            let index = index.index(body.len());
            body[index] = byte;
        }
        let _ = decode(&sent.schema(), &header, &Buffer::from(body));
    }
}
