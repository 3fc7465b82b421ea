//! Foreign bytes for what this crate reads.

use penstock_fuzz::fuzz;

use crate::message::Message;
use crate::{BatchHeader, ColumnSpec, DType, SlotId, SlotLayout, ToSidecar, ToTrainer, slot};

/// What a message is made into, which is what it was.
fn check<M: Message + std::fmt::Debug>(bytes: &[u8]) -> String {
    match M::decode(bytes) {
        Ok(message) => {
            let again = message.encode().unwrap();
            // A failure's text is cut where it is sent.
            assert!(again == bytes || again.len() < bytes.len(), "{message:?}");
            format!("{:?}", std::mem::discriminant(&message))
        }
        Err(error) => error.to_string(),
    }
}

#[test]
fn fuzz_messages() {
    let request = r#"{"version":1,"feed":{"dataset":"d"}}"#.to_owned();
    let of_trainers = [
        ToSidecar::Open { request: request.clone() },
        ToSidecar::Describe { request },
        ToSidecar::Release { slot: SlotId(3) },
        ToSidecar::Acknowledge { epoch: 1, step: 17 },
        ToSidecar::Waiting { received: 18 },
    ];
    let of_sidecars = [
        ToTrainer::Opened { slots: 4, slot_bytes: 4096 },
        ToTrainer::Described { bytes: 77 },
        ToTrainer::Batch { slot: SlotId(3), epoch: 1, step: 17 },
        ToTrainer::End,
        ToTrainer::Failed { code: "BadFile".to_owned(), message: "a page is damaged".to_owned() },
    ];
    let of_trainers = of_trainers.iter().map(|message| message.encode().unwrap());
    let of_sidecars = of_sidecars.iter().map(|message| message.encode().unwrap());
    let seeds: Vec<_> = of_trainers.chain(of_sidecars).collect();
    fuzz("messages", &seeds, |bytes| check::<ToSidecar>(bytes) + &check::<ToTrainer>(bytes));
}

#[test]
fn fuzz_slots() {
    let columns = [
        ColumnSpec::fixed(DType::Float32, vec![4, 3]),
        ColumnSpec::text(DType::String, vec![4], 20),
        ColumnSpec::fixed(DType::Bool, vec![4]),
    ];
    let layout = SlotLayout::plan(&columns).unwrap();
    let mut memory = vec![0; layout.bytes() as usize];
    slot::write(&mut memory, BatchHeader { epoch: 1, step: 2, rows: 4 }, &columns, &layout);
    fuzz("slots", &[memory], |bytes| match slot::read(bytes) {
        Ok((header, columns)) => {
            for column in &columns {
                let places = [Some(column.data.clone()), column.offsets.clone()];
                assert!(places.into_iter().flatten().all(|place| bytes.get(place).is_some()), "{column:?}");
            }
            format!("{} {}", header.rows, columns.len())
        }
        Err(error) => error.to_string(),
    });
}
