//! What leaves an encoder: notes, sizes, and whose memory it is.

mod memory;

use std::sync::Arc;

use arrow::array::{ArrayRef, BinaryArray, Int64Array, ListBuilder, StringViewArray, StringViewBuilder};

use super::*;

const LIMIT: u64 = 10_000;

fn encode(column: ArrayRef, more: u64) -> Vec<(Message, Note)> {
    let batch = RecordBatch::try_from_iter_with_nullable([("x", column, true)]).unwrap();
    let mut encoder = Encoder::new(batch.schema(), 3, LIMIT, None).unwrap();
    let messages = encoder.rows(vec![batch], 7, more, Effort::default()).unwrap();
    messages
        .into_iter()
        .map(|message| {
            let note = Note::from_json(&message.note).unwrap();
            (message, note)
        })
        .collect()
}

#[test]
fn parts_count_up_to_the_last() {
    let notes: Vec<Note> =
        encode(Arc::new(Int64Array::from_iter_values(0..3_000)), 0).into_iter().map(|(_, n)| n).collect();
    let expected: Vec<Note> = (0..3).map(|part| Note::Part { epoch: 3, step: 7, part, parts: 3 }).collect();
    assert_eq!(notes, expected);
    let (_, note) = encode(Arc::new(Int64Array::from_iter_values(0..3)), 2).remove(0);
    assert_eq!(note, Note::Part { epoch: 3, step: 7, part: 0, parts: 3 });
}

#[test]
fn no_message_is_larger_than_its_limit_unless_one_row_is() {
    // Rows of very different sizes: a cut by the mean alone would overshoot.
    let rows: Vec<Vec<u8>> = (0..200).map(|i| vec![0; if i > 180 { 3_000 } else { 10 }]).collect();
    let messages = encode(Arc::new(BinaryArray::from_iter_values(&rows)), 0);
    assert!(messages.len() > 6);
    assert!(messages.iter().all(|(message, _)| message.body_bytes() <= LIMIT));
    let huge = encode(Arc::new(BinaryArray::from_iter_values([vec![0; 50_000]])), 0);
    assert_eq!(huge.len(), 1);
}

#[test]
fn slices_of_views_carry_only_their_own_bytes() {
    let text = "a text that is too long to lie in a view itself";
    let views = StringViewArray::from_iter_values((0..1_000).map(|i| format!("{text} {i}")));
    let total: u64 = encode(Arc::new(views), 0).iter().map(|(message, _)| message.body_bytes()).sum();
    assert!(total < 2 * 1_000 * (16 + 64), "{total}");

    let mut lists = ListBuilder::new(StringViewBuilder::new());
    for i in 0..500 {
        lists.append_value([Some(format!("{text} {i}")), None]);
    }
    let total: u64 =
        encode(Arc::new(lists.finish()), 0).iter().map(|(message, _)| message.body_bytes()).sum();
    assert!(total < 2 * 500 * (4 + 2 * 16 + 64), "{total}");
}
