use std::fs::File;
use std::io::{self, IoSlice, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use prost::Message as _;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, Interest};
use tokio::net::{UnixListener, UnixStream};

use super::super::blocks::Blocks;
use super::super::wire;
use super::*;

const CHUNK: usize = 512;
const LENGTH: usize = 300_001;
const LONG: Duration = Duration::from_secs(60);

/// What a mock DataNode does to whoever asks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Manner {
    Lends,
    Refuses,
    /// It says yes, and no files come with that.
    Forgets,
    IsSilent,
}

struct Bed {
    directory: TempDir,
    short_circuit: ShortCircuit,
    asked: Arc<AtomicUsize>,
}

impl Bed {
    /// A mock DataNode at port 7 of this machine, and whoever reads what it lends.
    fn new(manner: Manner, patience: Duration) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        std::fs::write(at("data"), content()).unwrap();
        std::fs::write(at("sums"), sums()).unwrap();
        let listener = UnixListener::bind(at("node.7")).unwrap();
        let asked = Arc::new(AtomicUsize::new(0));
        tokio::spawn(lend(listener, directory.path().to_owned(), manner, Arc::clone(&asked)));
        let sockets = at("node._PORT").display().to_string();
        Self { directory, short_circuit: ShortCircuit::new(sockets, patience), asked }
    }

    async fn read(&self, range: Range<u64>) -> (Result<bool, TransferError>, Vec<u8>) {
        self.read_from("127.0.0.1:7", range).await
    }

    async fn read_from(&self, address: &str, range: Range<u64>) -> (Result<bool, TransferError>, Vec<u8>) {
        let mut into = BytesMut::from(&b"before"[..]);
        let blocks = block();
        let (block, _) = blocks.pieces(0..1).next().unwrap();
        let read = self.short_circuit.read(&Address::from(address), block, range, &mut into).await;
        assert_eq!(into.split_to(6), "before");
        (read, into.to_vec())
    }

    fn edit(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let path = self.directory.path().join(name);
        let mut bytes = std::fs::read(&path).unwrap();
        change(&mut bytes);
        // In place, for the file is open.
        let mut file = File::options().write(true).open(&path).unwrap();
        file.write_all(&bytes).unwrap();
        file.set_len(bytes.len() as u64).unwrap();
    }
}

fn content() -> Vec<u8> {
    (0..LENGTH).map(|at| (at % 251) as u8).collect()
}

/// The file of the checksums, CRC32C.
fn sums() -> Vec<u8> {
    let mut sums = vec![0, 1, 2];
    sums.extend((CHUNK as u32).to_be_bytes());
    for chunk in content().chunks(CHUNK) {
        sums.extend((crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, chunk) as u32).to_be_bytes());
    }
    sums
}

fn block() -> Blocks {
    let id = wire::BlockId { block: 1, length: Some(LENGTH as u64), ..wire::BlockId::default() };
    let located = wire::LocatedBlock { id, ..wire::LocatedBlock::default() };
    let file_length = LENGTH as u64;
    let located = wire::LocatedBlocks { file_length, blocks: vec![located], ..Default::default() };
    Blocks::of(located, false).unwrap()
}

async fn lend(listener: UnixListener, directory: PathBuf, manner: Manner, asked: Arc<AtomicUsize>) {
    let mut silent = Vec::new();
    while let Ok((mut stream, _)) = listener.accept().await {
        asked.fetch_add(1, Ordering::Relaxed);
        let mut question = [0; 3];
        stream.read_exact(&mut question).await.unwrap();
        assert_eq!(question, [0, 28, 87]);
        let status = i32::from(manner == Manner::Refuses);
        let answer = wire::OperationAnswer { status, layout: Some(1), ..Default::default() };
        match manner {
            Manner::IsSilent => silent.push(stream),
            _ => {
                stream.write_all(&answer.encode_length_delimited_to_vec()).await.unwrap();
                if manner != Manner::Refuses {
                    give(&stream, &directory, manner == Manner::Lends).await.unwrap();
                }
            }
        }
    }
}

async fn give(stream: &UnixStream, directory: &Path, with_files: bool) -> io::Result<usize> {
    let files = ["data", "sums"].map(|name| File::open(directory.join(name)).unwrap());
    let descriptors = files.each_ref().map(File::as_fd);
    let send = || {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if with_files {
            assert!(control.push(SendAncillaryMessage::ScmRights(&descriptors)));
        }
        Ok(sendmsg(stream, &[IoSlice::new(&[0])], &mut control, SendFlags::NOSIGNAL)?)
    };
    stream.async_io(Interest::WRITABLE, send).await
}

#[tokio::test]
async fn any_range_is_read_from_files_that_are_lent_once() {
    let bed = Bed::new(Manner::Lends, LONG);
    let length = LENGTH as u64;
    for range in [0..length, 0..1, 511..513, 1000..140_000, 131_072..262_144, length - 1..length] {
        let (read, bytes) = bed.read(range.clone()).await;
        assert!(read.unwrap());
        assert_eq!(bytes, content()[range.start as usize..range.end as usize], "{range:?}");
    }
    assert_eq!(bed.asked.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn what_is_on_another_machine_is_not_asked_for() {
    let bed = Bed::new(Manner::Lends, LONG);
    // An address that is nobody's.
    let (read, bytes) = bed.read_from("192.0.2.1:7", 0..10).await;
    assert!(!read.unwrap() && bytes.is_empty());
    assert_eq!(bed.asked.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn who_does_not_lend_is_left_alone() {
    let soon = Duration::from_millis(50);
    for (manner, patience) in [(Manner::Refuses, LONG), (Manner::Forgets, LONG), (Manner::IsSilent, soon)] {
        let bed = Bed::new(manner, patience);
        for _ in 0..3 {
            let (read, bytes) = bed.read(0..10).await;
            assert!(!read.unwrap() && bytes.is_empty());
        }
        assert_eq!(bed.asked.load(Ordering::Relaxed), 1);
    }
    // Nobody listens there.
    let bed = Bed::new(Manner::Lends, LONG);
    assert!(!bed.read_from("127.0.0.1:8", 0..10).await.0.unwrap());
}

#[tokio::test]
async fn a_replica_that_rots_is_an_error_behind_what_is_good() {
    let bed = Bed::new(Manner::Lends, LONG);
    bed.edit("data", |bytes| bytes[200_000] ^= 1);
    let start = 200_000 / CHUNK * CHUNK;
    let (read, bytes) = bed.read(1000..LENGTH as u64).await;
    match read {
        Err(TransferError::Packet(error)) => assert!(error.to_string().contains(&start.to_string())),
        other => panic!("{other:?}"),
    }
    assert_eq!(bytes, content()[1000..start]);
    // What is next to it is as good as ever.
    assert!(bed.read(0..1000).await.0.unwrap());
}

#[tokio::test]
async fn what_a_file_lacks_comes_over_the_network() {
    for (name, keep) in [("data", 200_000 / CHUNK * CHUNK), ("sums", 7 + 4 * (200_000 / CHUNK))] {
        let bed = Bed::new(Manner::Lends, LONG);
        bed.edit(name, |bytes| bytes.truncate(keep));
        let (read, bytes) = bed.read(0..LENGTH as u64).await;
        assert!(!read.unwrap(), "{name}");
        assert_eq!(bytes, content()[..bytes.len()], "what came was proved");
    }
    let bed = Bed::new(Manner::Lends, LONG);
    bed.edit("sums", |bytes| bytes[1] = 9);
    assert!(!bed.read(0..10).await.0.unwrap(), "another version of the checksums");
}
