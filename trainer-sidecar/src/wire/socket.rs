//! The socket under a connection, whatever it is made of.

use std::io::{self, IoSliceMut};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::AsyncWrite as _;
use tokio::net::{TcpStream, UnixStream};

/// An open connection.
#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Socket {
    /// Reads into `first`, and what does not fit there into `second`. No bytes are the end.
    pub(super) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        first: &mut [u8],
        second: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let mut slices = [IoSliceMut::new(first), IoSliceMut::new(second)];
        let slices = if slices[0].is_empty() { &mut slices[1..] } else { &mut slices[..] };
        loop {
            let read = match self {
                Self::Tcp(stream) => {
                    ready!(stream.poll_read_ready(cx))?;
                    stream.try_read_vectored(slices)
                }
                Self::Unix(stream) => {
                    ready!(stream.poll_read_ready(cx))?;
                    stream.try_read_vectored(slices)
                }
            };
            match read {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return Poll::Ready(read),
            }
        }
    }

    pub(super) fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self {
            Self::Tcp(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Unix(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }
}
