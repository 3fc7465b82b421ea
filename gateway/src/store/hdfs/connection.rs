//! A connection to a DataNode that bytes of blocks are read over, one after the other.
//!
//! In: a block and which of its bytes. Out: those bytes, straight in their place. The promise: what was put there
//! has matched its checksums; a DataNode that is silent, ends, or says anything but what was asked for is an
//! error, and costs no more memory than a packet's checksums and one chunk. It knows no other replica.

use std::io;
use std::ops::Range;
use std::time::Duration;

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use prost::Message as _;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::blocks::Block;
use super::packet::{CHECKSUM_BYTES, Checksums, PRELUDE_BYTES, Packet, PacketError, Prelude};
use super::wire;

const TRANSFER_VERSION: u16 = 28;
const READ_BLOCK: u8 = 81;
/// What DataNodes write into their logs.
const CLIENT: &str = "penstock";
const CHECKSUM_OK: i32 = 6;
const SUCCESS: i32 = 0;
/// The answer to an operation has some dozen bytes, and a message when it is a refusal.
const MAX_ANSWER_BYTES: usize = 64 << 10;
/// Read in one go with what comes before data: a header and the checksums of a packet, and little of its data,
/// for those are copied once more.
const READ_AHEAD: usize = 2 << 10;

#[derive(Debug, thiserror::Error)]
pub(super) enum TransferError {
    #[error("it cannot be reached ({0})")]
    Unreachable(io::Error),
    #[error("it was silent for {:.1} s", .0.as_secs_f64())]
    Silent(Duration),
    #[error("it closed the connection")]
    Closed,
    #[error("the connection broke ({0})")]
    Broken(io::Error),
    #[error("it does not give the block ({message})")]
    Refused { message: String },
    #[error("it answers in {bytes} bytes, which HDFS never does")]
    LongAnswer { bytes: usize },
    #[error("its answer is not one")]
    Answer(#[source] prost::DecodeError),
    #[error(transparent)]
    Packet(#[from] PacketError),
}

pub(super) struct Connection<S = TcpStream> {
    stream: S,
    /// Bytes that came and have no place yet.
    ahead: BytesMut,
    /// Bytes that may be read beyond those that are asked for.
    read_ahead: usize,
    /// How long any step may take.
    silence: Duration,
}

impl Connection {
    pub(super) async fn open(address: &str, silence: Duration) -> Result<Self, TransferError> {
        let connecting = timeout(silence, TcpStream::connect(address));
        let stream = connecting.await.map_err(|_| TransferError::Silent(silence))?;
        let stream = stream.map_err(TransferError::Unreachable)?;
        stream.set_nodelay(true).map_err(TransferError::Broken)?;
        Ok(Self::over(stream, silence))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    fn over(stream: S, silence: Duration) -> Self {
        Self { stream, ahead: BytesMut::new(), read_ahead: READ_AHEAD, silence }
    }

    /// One of which nothing is read before it is asked for: what goes along with a byte goes with whoever reads it.
    pub(super) fn exactly(stream: S, silence: Duration) -> Self {
        Self { read_ahead: 0, ..Self::over(stream, silence) }
    }

    /// The stream, where nothing was read ahead.
    pub(super) fn into_stream(self) -> S {
        self.stream
    }

    /// Asks for bytes of a block; what follows is told by [`receive`](Self::receive).
    pub(super) async fn ask(
        &mut self,
        block: &Block,
        range: &Range<u64>,
    ) -> Result<Checksums, TransferError> {
        let question = wire::ReadBlock {
            header: wire::OperationHeader { base: wire::BaseHeader::of(block), client: CLIENT.to_owned() },
            offset: range.start,
            length: range.end - range.start,
        };
        let answer = self.tell(READ_BLOCK, &question).await?;
        Ok(Checksums::of(answer.checksums)?)
    }

    /// Tells what to do, and hears the answer to it unless that is a refusal.
    pub(super) async fn tell(
        &mut self,
        code: u8,
        question: &impl prost::Message,
    ) -> Result<wire::OperationAnswer, TransferError> {
        let mut said = BytesMut::with_capacity(256);
        said.put_u16(TRANSFER_VERSION);
        said.put_u8(code);
        said.put_slice(&question.encode_length_delimited_to_vec());
        self.send(&said).await?;

        let answer = self.message().await?;
        let answer = wire::OperationAnswer::decode(answer).map_err(TransferError::Answer)?;
        if answer.status != SUCCESS {
            let message = answer.message.filter(|message| !message.is_empty());
            let message = message.unwrap_or_else(|| format!("status {}", answer.status));
            return Err(TransferError::Refused { message });
        }
        Ok(answer)
    }

    /// Appends the bytes that were asked for to `into`, whose capacity they fit in. After an error `into` has
    /// those that came and matched.
    pub(super) async fn receive(
        &mut self,
        sums: Checksums,
        range: Range<u64>,
        into: &mut BytesMut,
    ) -> Result<(), TransferError> {
        let mut at = range.start;
        while at < range.end {
            let packet = self.header(sums, at..range.end).await?;
            self.ahead(packet.checksums).await?;
            let checksums = self.ahead.split_to(packet.checksums).freeze();
            at = self.data(sums, &packet, &checksums, at..range.end, into).await?;
        }
        self.header(sums, at..at).await?;
        let status = wire::ReadStatus { status: CHECKSUM_OK };
        self.send(&status.encode_length_delimited_to_vec()).await
    }

    async fn header(&mut self, sums: Checksums, wanted: Range<u64>) -> Result<Packet, TransferError> {
        self.ahead(PRELUDE_BYTES).await?;
        let mut prelude = [0; PRELUDE_BYTES];
        self.ahead.copy_to_slice(&mut prelude);
        let prelude = Prelude::parse(prelude)?;
        self.ahead(prelude.header).await?;
        let header = self.ahead.split_to(prelude.header);
        Ok(Packet::parse(prelude, &header, sums, wanted)?)
    }

    /// Takes a packet's data, and says up to where of the block there are bytes now.
    async fn data(
        &mut self,
        sums: Checksums,
        packet: &Packet,
        mut checksums: &[u8],
        wanted: Range<u64>,
        into: &mut BytesMut,
    ) -> Result<u64, TransferError> {
        let Range { mut start, end } = packet.data;
        // What is wanted may begin and end within a chunk, which is proved as a whole.
        if start < wanted.start {
            start = self.part(sums, start..end, &mut checksums, &wanted, into).await?;
        }
        let inside = end.min(wanted.end).saturating_sub(start);
        let odd = if end > wanted.end { inside % sums.chunk_bytes as u64 } else { 0 };
        let (before, whole) = (into.len(), (inside - odd) as usize);
        self.fill(into, whole).await?;
        if let Err(good) = sums.verify(&into[before..], checksums) {
            into.truncate(before + good);
            let start = start + good as u64;
            let end = end.min(start + sums.chunk_bytes as u64);
            return Err(PacketError::Corrupt { start, end }.into());
        }
        let chunks = whole.div_ceil(sums.chunk_bytes);
        checksums = checksums.get(chunks * CHECKSUM_BYTES..).unwrap_or_default();
        start += whole as u64;
        if start < end {
            self.part(sums, start..end, &mut checksums, &wanted, into).await?;
        }
        Ok(end.min(wanted.end))
    }

    /// Takes the chunk that `rest` begins with, and of that what is wanted; says where it ends.
    async fn part(
        &mut self,
        sums: Checksums,
        rest: Range<u64>,
        checksums: &mut &[u8],
        wanted: &Range<u64>,
        into: &mut BytesMut,
    ) -> Result<u64, TransferError> {
        let chunk = rest.start..rest.end.min(rest.start + sums.chunk_bytes as u64);
        self.ahead((chunk.end - chunk.start) as usize).await?;
        let data = self.ahead.split_to((chunk.end - chunk.start) as usize);
        if sums.verify(&data, checksums).is_err() {
            return Err(PacketError::Corrupt { start: chunk.start, end: chunk.end }.into());
        }
        *checksums = checksums.get(CHECKSUM_BYTES..).unwrap_or_default();
        let within = |at: u64| (at.clamp(chunk.start, chunk.end) - chunk.start) as usize;
        into.extend_from_slice(&data[within(wanted.start)..within(wanted.end)]);
        Ok(chunk.end)
    }

    /// A message that says its own length first.
    async fn message(&mut self) -> Result<Bytes, TransferError> {
        let mut bytes = 0;
        for shift in [0, 7, 14] {
            self.ahead(1).await?;
            let byte = self.ahead.get_u8();
            bytes |= usize::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                if bytes > MAX_ANSWER_BYTES {
                    break;
                }
                self.ahead(bytes).await?;
                return Ok(self.ahead.split_to(bytes).freeze());
            }
        }
        Err(TransferError::LongAnswer { bytes })
    }

    /// Waits until at least some bytes have come.
    async fn ahead(&mut self, bytes: usize) -> Result<(), TransferError> {
        while self.ahead.len() < bytes {
            let missing = bytes - self.ahead.len();
            let room = missing.max(self.read_ahead);
            self.ahead.reserve(room);
            let mut room = (&mut self.ahead).limit(room);
            read(&mut self.stream, self.silence, &mut room).await?;
        }
        Ok(())
    }

    /// Appends the next bytes, those that are ahead first.
    async fn fill(&mut self, into: &mut BytesMut, bytes: usize) -> Result<(), TransferError> {
        let ahead = bytes.min(self.ahead.len());
        into.extend_from_slice(&self.ahead[..ahead]);
        self.ahead.advance(ahead);
        let mut room = into.limit(bytes - ahead);
        while room.has_remaining_mut() {
            read(&mut self.stream, self.silence, &mut room).await?;
        }
        Ok(())
    }

    async fn send(&mut self, bytes: &[u8]) -> Result<(), TransferError> {
        let sending = timeout(self.silence, self.stream.write_all(bytes));
        sending.await.map_err(|_| TransferError::Silent(self.silence))?.map_err(TransferError::Broken)
    }
}

async fn read(
    stream: &mut (impl AsyncRead + Unpin),
    silence: Duration,
    room: &mut impl bytes::BufMut,
) -> Result<(), TransferError> {
    match timeout(silence, stream.read_buf(room)).await {
        Ok(Ok(0)) => Err(TransferError::Closed),
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(TransferError::Broken(error)),
        Err(_) => Err(TransferError::Silent(silence)),
    }
}

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod tests;
