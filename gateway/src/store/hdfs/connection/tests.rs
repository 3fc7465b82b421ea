use std::net::SocketAddr;

use tokio::net::TcpListener;

use super::*;
use crate::store::hdfs::blocks::Blocks;

const CHUNK: usize = 512;
const SILENCE: Duration = Duration::from_secs(30);

pub(super) fn block(length: u64) -> Blocks {
    let id = wire::BlockId { block: 7, length: Some(length), ..wire::BlockId::default() };
    let located = wire::LocatedBlock { id, ..wire::LocatedBlock::default() };
    let located = wire::LocatedBlocks { file_length: length, blocks: vec![located], ..Default::default() };
    Blocks::of(located, false).unwrap()
}

/// What a block holds.
pub(super) fn content(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at % 251) as u8).collect()
}

fn answer(checksums: (i32, u32)) -> Vec<u8> {
    let checksum = wire::Checksum { kind: checksums.0, chunk_bytes: checksums.1 };
    let checksums = Some(wire::ChecksumInfo { checksum });
    wire::OperationAnswer { checksums, ..Default::default() }.encode_length_delimited_to_vec()
}

/// A packet of a block's bytes, with CRC32C sums of them.
fn packet(range: Range<usize>, data: &[u8]) -> Vec<u8> {
    let header = wire::PacketHeader {
        offset: range.start as i64,
        number: 0,
        is_last: range.is_empty(),
        data_bytes: range.len() as i32,
    };
    let sums = data[range.clone()].chunks(CHUNK).flat_map(|chunk| {
        (crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, chunk) as u32).to_be_bytes()
    });
    framed(&header.encode_to_vec(), &sums.collect::<Vec<_>>(), &data[range])
}

fn framed(header: &[u8], sums: &[u8], data: &[u8]) -> Vec<u8> {
    let mut framed = ((4 + sums.len() + data.len()) as u32).to_be_bytes().to_vec();
    framed.extend((header.len() as u16).to_be_bytes());
    [&framed, header, sums, data].concat()
}

/// Everything that an honest DataNode says to a request, in packets of two chunks.
pub(super) fn honest(range: &Range<u64>, data: &[u8]) -> Vec<u8> {
    let start = range.start as usize / CHUNK * CHUNK;
    let end = (range.end as usize).next_multiple_of(CHUNK).min(data.len());
    let mut said = answer((2, CHUNK as u32));
    for at in (start..end).step_by(2 * CHUNK) {
        said.extend(packet(at..end.min(at + 2 * CHUNK), data));
    }
    said.extend(packet(end..end, data));
    said
}

/// A DataNode that takes one request, says what it says in pieces, and closes.
async fn datanode(said: Vec<u8>, piece: usize) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = [0; 4];
        stream.read_exact(&mut request).await.unwrap();
        for piece in said.chunks(piece) {
            // Who has heard enough hangs up.
            if stream.write_all(piece).await.is_err() {
                break;
            }
            tokio::task::yield_now().await;
        }
        let _ = stream.shutdown().await;
        while matches!(stream.read_buf(&mut BytesMut::new()).await, Ok(1..)) {}
    });
    address
}

/// Reads a range of a block of some length from a DataNode that says this.
async fn hear(
    said: Vec<u8>,
    piece: usize,
    length: usize,
    range: Range<u64>,
) -> (BytesMut, Result<(), TransferError>) {
    let address = datanode(said, piece).await;
    let blocks = block(length as u64);
    let (block, range) = blocks.pieces(range).next().unwrap();
    let mut connection = Connection::open(&address.to_string(), SILENCE).await.unwrap();
    let mut into = BytesMut::with_capacity((range.end - range.start) as usize);
    let result = match connection.ask(block, &range).await {
        Ok(sums) => connection.receive(sums, range, &mut into).await,
        Err(error) => Err(error),
    };
    (into, result)
}

#[tokio::test]
async fn any_range_of_a_block_comes_whole() {
    let data = content(5000);
    for range in [0..5000, 0..1, 511..513, 512..1024, 700..900, 1000..4096, 4999..5000, 4500..5000, 100..4700]
    {
        for piece in [1, 7, 600, 100_000] {
            let (bytes, result) = hear(honest(&range, &data), piece, data.len(), range.clone()).await;
            result.unwrap();
            assert!(
                bytes[..] == data[range.start as usize..range.end as usize],
                "{range:?} in pieces of {piece}"
            );
        }
    }
}

#[tokio::test]
async fn what_came_before_a_rotten_chunk_is_kept() {
    let data = content(5000);
    let mut rotten = data.clone();
    rotten[1600] ^= 1;
    // The packet of the third and fourth chunk carries other bytes than its checksums are of.
    let mut said = answer((2, CHUNK as u32));
    said.extend(packet(0..1024, &data));
    let mut bad = packet(1024..2048, &data);
    let at = bad.len() - 1024;
    bad[at..].copy_from_slice(&rotten[1024..2048]);
    said.extend(bad);
    let (bytes, result) = hear(said, 100_000, data.len(), 0..5000).await;
    let error = result.unwrap_err();
    assert!(
        matches!(error, TransferError::Packet(PacketError::Corrupt { start: 1536, end: 2048 })),
        "{error}"
    );
    assert!(bytes[..] == data[..1536]);
}

#[tokio::test]
async fn a_datanode_that_says_anything_else_is_an_error() {
    let data = content(5000);
    let honest = honest(&(0..5000), &data);
    // It ends early, wherever that is.
    for end in [0, 1, 5, 12, 20, 60, 700, 3000, honest.len() - 1] {
        let (bytes, result) = hear(honest[..end].to_vec(), 100_000, data.len(), 0..5000).await;
        assert!(matches!(result, Err(TransferError::Closed)), "after {end} bytes: {result:?}");
        assert!(data.starts_with(&bytes));
    }
    let heard = async |said: Vec<u8>| hear(said, 100_000, data.len(), 0..5000).await.1.unwrap_err();
    let open = || answer((2, CHUNK as u32));
    // An answer of unbounded length, or one that is none.
    assert!(matches!(heard(vec![0xff; 64]).await, TransferError::LongAnswer { .. }));
    assert!(matches!(heard(vec![0xff, 0xff, 0x7f]).await, TransferError::LongAnswer { .. }));
    assert!(matches!(heard(vec![3, 0xff, 0xff, 0xff]).await, TransferError::Answer(_)));
    assert!(matches!(heard(answer((9, 512))).await, TransferError::Packet(PacketError::Kind { .. })));
    // A refusal in words.
    let refusal =
        wire::OperationAnswer { status: 5, message: Some("token expired".to_owned()), ..Default::default() };
    let error = heard(refusal.encode_length_delimited_to_vec()).await;
    assert!(error.to_string().contains("token expired"), "{error}");
    // Huge lengths, bytes of another place, an end before the end.
    let huge = [open(), vec![0xff; 64]].concat();
    assert!(matches!(heard(huge).await, TransferError::Packet(PacketError::Lengths { .. })));
    let elsewhere = [open(), packet(1024..2048, &data)].concat();
    assert!(matches!(heard(elsewhere).await, TransferError::Packet(PacketError::Place { .. })));
    let early = [open(), packet(0..1024, &data), packet(1024..1024, &data)].concat();
    assert!(matches!(heard(early).await, TransferError::Packet(PacketError::Early { missing: 3976 })));
}

#[tokio::test]
async fn silence_is_an_error_at_every_step() {
    let data = content(5000);
    let honest = honest(&(0..5000), &data);
    for end in [0, 3, 40, 1000] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let blocks = block(5000);
        let (block, range) = blocks.pieces(0..5000).next().unwrap();
        let mut connection = Connection::open(&address, SILENCE).await.unwrap();
        connection.silence = Duration::from_millis(20);
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(&honest[..end]).await.unwrap();
        let mut into = BytesMut::with_capacity(5000);
        let result = match connection.ask(block, &range).await {
            Ok(sums) => connection.receive(sums, range, &mut into).await,
            Err(error) => Err(error),
        };
        assert!(matches!(result, Err(TransferError::Silent(_))), "after {end} bytes: {result:?}");
    }
}
