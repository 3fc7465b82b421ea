use proptest::prelude::*;

use super::*;

fn pairs(fields: &Fields) -> Vec<(&str, &str)> {
    fields.map.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect()
}

#[test]
fn what_is_encoded_decodes_to_itself() {
    let long = "x".repeat(300);
    let mut block = Vec::new();
    for (name, value) in [("grpc-status", "0"), ("a", ""), ("long", &long)] {
        encode(&mut block, name, value);
    }
    let fields = decode(&block).unwrap();
    assert_eq!(pairs(&fields), [("grpc-status", "0"), ("a", ""), ("long", &long)]);
}

#[test]
fn every_way_to_write_a_field_is_read() {
    let mut block = vec![
        0x20, // a table of no bytes
        0x88, // :status 200
        0x5f, 3, b'a', b'/', b'b', // content-type, to be remembered
        0x0f, 0x10, 1, b'c', // content-type again, not this time
        0x10, 1, b'k', 1, b'v', // never
    ];
    let fields = decode(&block).unwrap();
    assert_eq!(fields.status, Some(200));
    assert_eq!(pairs(&fields), [("content-type", "a/b"), ("content-type", "c"), ("k", "v")]);
    block.push(0xbe);
    assert!(decode(&block).is_err(), "nothing was remembered");
}

#[test]
fn what_no_response_has_is_refused() {
    for block in [
        &[0x3f, 0xe1, 0x1f][..],            // a table of 4096 bytes
        &[0x88, 0x20],                      // a change after the first field
        &[0x80],                            // index 0
        &[0x82],                            // :method
        &[0x88, 0x88],                      // two statuses
        &[0x5f, 1, b'a', 0x88],             // a status after a field
        &[0, 1, b'K', 1, b'v'],             // upper case
        &[0, 0, 1, b'v'],                   // no name
        &[0, 1, b'k', 1, b'\n'],            // a line's end
        &[0, 1, b'k', 9, b'v'],             // cut
        &[0, 0x7f, 0xff, 0xff, 0xff, 0xff], // a length beyond all measure
        &[0x08, 3, b'2', b'x', b'0'],       // no status
    ] {
        assert!(decode(block).is_err(), "{block:?}");
    }
    let mut many = Vec::new();
    (0..2000).for_each(|_| encode(&mut many, "k", "v"));
    assert!(decode(&many).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn any_bytes_are_a_block_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode(&bytes);
    }
}
