use proptest::prelude::*;

use super::*;

fn to_sidecar() -> Vec<ToSidecar> {
    vec![
        ToSidecar::Open { request: r#"{"version":1}"#.into() },
        ToSidecar::Describe { request: String::new() },
        ToSidecar::Release { slot: SlotId(7) },
        ToSidecar::Acknowledge { epoch: u64::MAX, step: 3 },
        ToSidecar::Waiting { received: 1 << 40 },
    ]
}

fn to_trainer() -> Vec<ToTrainer> {
    vec![
        ToTrainer::Opened { slots: 8, slot_bytes: 1 << 40 },
        ToTrainer::Described { bytes: 99 },
        ToTrainer::Batch { slot: SlotId(3), epoch: 1, step: 1_000_000_007 },
        ToTrainer::End,
        ToTrainer::Failed { code: "bad_file".into(), message: "größer".into() },
        ToTrainer::Failed { code: String::new(), message: String::new() },
        ToTrainer::Notice { text: "grpc://h:1: größer".into() },
    ]
}

fn round_trip<M: Message + PartialEq + std::fmt::Debug>(messages: Vec<M>) {
    for message in messages {
        let bytes = message.encode().unwrap();
        assert_eq!(M::decode(&bytes).unwrap(), message);
        for shorter in 0..bytes.len() {
            assert!(M::decode(&bytes[..shorter]).is_err(), "{message:?} cut to {shorter} bytes");
        }
        let longer = [&bytes[..], &[0]].concat();
        assert!(M::decode(&longer).is_err(), "{message:?} with a byte more");
    }
}

#[test]
fn every_message_comes_back_and_none_is_read_from_a_part() {
    round_trip(to_sidecar());
    round_trip(to_trainer());
}

#[test]
fn a_message_of_the_other_direction_or_release_is_refused() {
    let release = ToSidecar::Release { slot: SlotId(0) }.encode().unwrap();
    assert_eq!(ToTrainer::decode(&release), Err(MessageError::Kind { kind: 3 }));
    let mut other = release.clone();
    other[4] = 2;
    assert_eq!(ToSidecar::decode(&other), Err(MessageError::Version { version: 2 }));
    other[0] = b'X';
    assert_eq!(ToSidecar::decode(&other), Err(MessageError::Foreign));
    let mut text = ToSidecar::Open { request: "a".into() }.encode().unwrap();
    *text.last_mut().unwrap() = 0xff;
    assert_eq!(ToSidecar::decode(&text), Err(MessageError::Text { kind: 1 }));
}

#[test]
fn a_request_too_large_is_refused_and_a_failure_too_long_is_cut() {
    let request = "x".repeat(MAX_PAYLOAD + 1);
    assert_eq!(ToSidecar::Open { request }.encode(), Err(MessageError::TooLarge { bytes: MAX_PAYLOAD + 1 }));
    let bytes = ToTrainer::Failed { code: "x".into(), message: "ü".repeat(100_000) }.encode().unwrap();
    let ToTrainer::Failed { message, .. } = ToTrainer::decode(&bytes).unwrap() else {
        panic!("not a failure")
    };
    assert!(message.ends_with("ü…") && message.len() < MAX_PAYLOAD);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(if cfg!(miri) { 32 } else { 512 }) })]
    #[test]
    fn an_edited_message_is_refused_or_another_whole_message(which in 0_usize..7, at in 0_usize..64, byte in any::<u8>()) {
        let mut bytes = to_trainer()[which].encode().unwrap();
        let at = at % bytes.len();
        bytes[at] = byte;
        if let Ok(message) = ToTrainer::decode(&bytes) {
            prop_assert_eq!(message.encode().unwrap(), bytes);
        }
    }

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let _ = ToSidecar::decode(&bytes);
        let _ = ToTrainer::decode(&bytes);
    }
}
