//! Foreign bytes for header blocks.

use penstock_fuzz::fuzz;

use super::*;

#[test]
fn fuzz_header_blocks() {
    let mut plain = Vec::new();
    for (name, value) in [("grpc-status", "0"), ("grpc-message", "a%20line"), ("penstock-code", "BadFile")] {
        encode(&mut plain, name, value);
    }
    // Every way to write a field: by its index, to be remembered, not this time, never; compressed text.
    let ways = [
        &[0x20, 0x88, 0x5f, 3, b'a', b'/', b'b', 0x0f, 0x10, 1, b'c', 0x10, 1, b'k', 1, b'v'][..],
        &[0x40, 0x85, 0x25, 0xa8, 0x49, 0xe9, 0x5b, 0x87, 0x25, 0xa8, 0x49, 0xe9, 0x5b, 0xb8, 0xe8],
    ];
    // A field of each kind of length.
    let mut long = Vec::new();
    encode(&mut long, "x", &"y".repeat(500));
    let seeds = [plain, ways[0].to_vec(), ways[1].to_vec(), long];
    fuzz("header blocks", &seeds, |bytes| match decode(bytes) {
        Ok(fields) => {
            let bytes: usize = fields.map.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
            assert!(bytes <= MOST_BYTES);
            format!("{} {}", fields.status.is_some(), "field ".repeat(fields.map.len().min(8)))
        }
        Err(fault) => fault.to_string(),
    });
}
