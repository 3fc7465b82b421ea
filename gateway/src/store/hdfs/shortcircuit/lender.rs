//! Asking a DataNode for the files of a replica.
//!
//! In: the socket that it lends at, and a block. Out: the block's file and that of its checksums, open. The promise:
//! whoever answers anything else is an error. It waits as long as it is let.

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, Interest};
use tokio::net::UnixStream;

use super::super::blocks::Block;
use super::super::connection::{MAX_ANSWER_BYTES, TransferError, accepted, operation};
use super::super::wire;
use super::replica::Replica;

/// `REQUEST_SHORT_CIRCUIT_FDS`
const REQUEST_FILES: u8 = 87;
/// The one layout of the two files that there is.
const LAYOUT: u32 = 1;

pub(super) async fn borrow(socket: &Path, block: &Block) -> Result<Replica, TransferError> {
    let mut stream = UnixStream::connect(socket).await.map_err(TransferError::Unreachable)?;
    let question = wire::RequestFiles { header: wire::BaseHeader::of(block), newest_layout: LAYOUT };
    let said = operation(REQUEST_FILES, &question);
    stream.write_all(&said).await.map_err(TransferError::Broken)?;

    let answer = accepted(&answer(&mut stream).await?)?;
    if let Some(layout) = answer.layout
        && layout != LAYOUT
    {
        return Err(TransferError::Refused { message: format!("its files have the layout {layout}") });
    }
    let files = descriptors(&mut stream).await.map_err(TransferError::Broken)?;
    let [data, sums] = files.map(File::from);
    tokio::task::spawn_blocking(move || Replica::new(data, sums))
        .await
        .expect("reading a file does not panic")
}

/// The answer, and no byte behind it: files go along with the next.
async fn answer(stream: &mut UnixStream) -> Result<Vec<u8>, TransferError> {
    let mut bytes = 0;
    for shift in [0, 7, 14] {
        let byte = stream.read_u8().await.map_err(TransferError::Broken)?;
        bytes |= usize::from(byte & 0x7f) << shift;
        if byte < 0x80 && bytes <= MAX_ANSWER_BYTES {
            let mut answer = vec![0; bytes];
            stream.read_exact(&mut answer).await.map_err(TransferError::Broken)?;
            return Ok(answer);
        }
    }
    Err(TransferError::LongAnswer { bytes })
}

/// The two files that one byte carries.
async fn descriptors(stream: &mut UnixStream) -> io::Result<[OwnedFd; 2]> {
    let receive = || {
        let mut byte = [0];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut into = [IoSliceMut::new(&mut byte)];
        recvmsg(&*stream, &mut into, &mut control, RecvFlags::CMSG_CLOEXEC)?;
        let rights = control.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
            _ => None,
        });
        Ok(rights.flatten().collect::<Vec<OwnedFd>>())
    };
    let received = stream.async_io(Interest::READABLE, receive).await?;
    received.try_into().map_err(|_| io::Error::other("no files came with its answer"))
}
