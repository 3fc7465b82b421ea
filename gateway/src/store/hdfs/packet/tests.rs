use proptest::prelude::*;
use prost::Message as _;

use super::*;

const CHUNK: u32 = 512;

fn sums(kind: i32, chunk_bytes: u32) -> Result<Checksums, PacketError> {
    Checksums::of(Some(wire::ChecksumInfo { checksum: wire::Checksum { kind, chunk_bytes } }))
}

fn prelude(packet: u32, header: u16) -> Result<Prelude, PacketError> {
    let mut bytes = [0; PRELUDE_BYTES];
    bytes[..4].copy_from_slice(&packet.to_be_bytes());
    bytes[4..].copy_from_slice(&header.to_be_bytes());
    Prelude::parse(bytes)
}

/// A packet of so many bytes at an offset, as a DataNode would send it for what is wanted.
fn parse(offset: i64, data_bytes: i32, checksums: i64, wanted: Range<u64>) -> Result<Packet, PacketError> {
    let header = wire::PacketHeader { offset, number: 0, is_last: data_bytes == 0, data_bytes };
    let packet = u32::try_from(4 + checksums + i64::from(data_bytes)).unwrap_or(4);
    let header = header.encode_to_vec();
    Packet::parse(prelude(packet, header.len() as u16)?, &header, sums(2, CHUNK)?, wanted)
}

#[test]
fn a_packet_is_what_was_asked_for() {
    let whole = parse(0, 1024, 8, 0..5000).unwrap();
    assert_eq!((whole.data, whole.checksums), (0..1024, 8));
    // Within its first chunk, to within its last, which may be short.
    assert_eq!(parse(512, 1000, 8, 600..1400).unwrap().data, 512..1512);
    assert_eq!(parse(1024, 0, 0, 1024..1024).unwrap().data, 1024..1024);
}

#[test]
fn any_other_packet_is_refused() {
    let place = |result: Result<Packet, PacketError>| {
        assert!(matches!(result, Err(PacketError::Place { .. })), "{result:?}");
    };
    // Another place, before the chunk, not at a chunk, beyond what was asked for, nothing was asked for.
    place(parse(4096, 512, 4, 0..512));
    place(parse(0, 512, 4, 512..1024));
    place(parse(100, 512, 4, 100..612));
    place(parse(0, 1024, 8, 0..512));
    place(parse(512, 512, 4, 512..512));
    place(parse(-512, 512, 4, 0..512));
    place(parse(i64::MAX - 511, 512, 4, 0..512));
    let sizes = |result: Result<Packet, PacketError>| {
        assert!(matches!(result, Err(PacketError::Sizes { .. })), "{result:?}");
    };
    sizes(parse(0, 512, 8, 0..512));
    sizes(parse(0, 513, 4, 0..513));
    sizes(parse(0, -1, 5, 0..512));
    sizes(parse(0, 600, -100, 0..600));
    sizes(parse(0, 0, 4, 0..0));
    assert_eq!(parse(512, 0, 0, 512..1024), Err(PacketError::Early { missing: 512 }));
}

#[test]
fn lengths_that_no_datanode_sends_are_refused() {
    for (packet, header) in [(3, 25), (u32::MAX, 25), ((16 << 20) + 1, 25), (600, 0), (600, u16::MAX)] {
        assert!(matches!(prelude(packet, header), Err(PacketError::Lengths { .. })), "{packet} {header}");
    }
    let garbage = Packet::parse(prelude(600, 3).unwrap(), &[0xff; 3], sums(2, CHUNK).unwrap(), 0..512);
    assert!(matches!(garbage, Err(PacketError::Header(_))));
    for (kind, chunk_bytes) in [(3, 512), (-1, 512), (1, 0), (2, u32::MAX)] {
        assert!(matches!(sums(kind, chunk_bytes), Err(PacketError::Kind { .. })), "{kind} {chunk_bytes}");
    }
}

#[test]
fn checksums_tell_which_chunk_is_rotten() {
    // The check values of both polynomials.
    for (kind, sum) in [(1, 0xcbf4_3926_u32), (2, 0xe306_9283)] {
        let sums = sums(kind, 9).unwrap();
        let told = [sum.to_be_bytes(), sum.to_be_bytes()].concat();
        assert_eq!(sums.verify(b"123456789123456789", &told), Ok(()));
        assert_eq!(sums.verify(b"123456789123456780", &told), Err(9));
        assert_eq!(sums.verify(b"023456789123456789", &told), Err(0));
    }
    // Who writes without checksums gets none.
    assert_eq!(sums(0, 0).unwrap().verify(b"123456789", &[]), Ok(()));
}

proptest! {
    #[test]
    fn whatever_comes_is_judged(
        lengths: [u8; PRELUDE_BYTES],
        header in prop::collection::vec(any::<u8>(), 0..64),
        kind in 0..3,
        chunk in 0..5000u32,
        start in 0..10_000u64,
        length in 0..10_000u64,
    ) {
        let wanted = start..start + length;
        let Ok(sums) = sums(kind, chunk) else { return Ok(()) };
        if let Ok(prelude) = Prelude::parse(lengths)
            && let Ok(packet) = Packet::parse(prelude, &header, sums, wanted.clone())
        {
            prop_assert!(packet.data.start <= wanted.start && packet.data.end < wanted.end + u64::from(chunk.max(1)));
        }
    }
}
