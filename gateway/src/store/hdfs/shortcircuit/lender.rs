//! Asking a DataNode for the files of a replica.
//!
//! In: the socket that it lends at, and a block. Out: the block's file and that of its checksums, open. The promise:
//! whoever answers anything else is an error. It waits as long as it is let.

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use tokio::io::Interest;
use tokio::net::UnixStream;

use super::super::blocks::Block;
use super::super::connection::{Connection, TransferError};
use super::super::wire;
use super::replica::Replica;

/// `REQUEST_SHORT_CIRCUIT_FDS`
const REQUEST_FILES: u8 = 87;
/// The one layout of the two files that there is.
const LAYOUT: u32 = 1;

pub(super) async fn borrow(
    socket: &Path,
    block: &Block,
    silence: Duration,
) -> Result<Replica, TransferError> {
    let stream = UnixStream::connect(socket).await.map_err(TransferError::Unreachable)?;
    // The files go along with the byte behind the answer.
    let mut connection = Connection::exactly(stream, silence);
    let question = wire::RequestFiles { header: wire::BaseHeader::of(block), newest_layout: LAYOUT };
    let answer = connection.tell(REQUEST_FILES, &question).await?;
    if let Some(layout) = answer.layout
        && layout != LAYOUT
    {
        return Err(TransferError::Refused { message: format!("its files have the layout {layout}") });
    }
    let files = descriptors(&connection.into_stream()).await.map_err(TransferError::Broken)?;
    let [data, sums] = files.map(File::from);
    tokio::task::spawn_blocking(move || Replica::new(data, sums))
        .await
        .expect("reading a file does not panic")
}

/// The two files that one byte carries.
async fn descriptors(stream: &UnixStream) -> io::Result<[OwnedFd; 2]> {
    let receive = || {
        let mut byte = [0];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut into = [IoSliceMut::new(&mut byte)];
        recvmsg(stream, &mut into, &mut control, RecvFlags::CMSG_CLOEXEC)?;
        let rights = control.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
            _ => None,
        });
        Ok(rights.flatten().collect::<Vec<OwnedFd>>())
    };
    let received = stream.async_io(Interest::READABLE, receive).await?;
    received.try_into().map_err(|_| io::Error::other("no files came with its answer"))
}
