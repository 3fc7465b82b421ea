//! The socket under a connection, whatever it is made of.

use std::io::{self, IoSliceMut, Read, Write};
use std::net;
use std::os::fd::AsRawFd;
use std::os::unix;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::client::TlsStream;

/// An open connection.
pub(crate) enum Socket {
    Tcp(AsyncFd<net::TcpStream>),
    Unix(AsyncFd<unix::net::UnixStream>),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Socket {
    pub(crate) fn tcp(stream: TcpStream) -> io::Result<Self> {
        register(stream.into_std()?).map(Self::Tcp)
    }

    pub(crate) fn unix(stream: UnixStream) -> io::Result<Self> {
        register(stream.into_std()?).map(Self::Unix)
    }

    /// Reads into `first`, and what does not fit there into `second`. No bytes are the end.
    pub(super) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        first: &mut [u8],
        second: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        match self {
            Self::Tcp(stream) => poll_read(stream, cx, first, second),
            Self::Unix(stream) => poll_read(stream, cx, first, second),
            Self::Tls(stream) => {
                // What is decrypted is copied in any case, to one place at a time.
                let mut into = ReadBuf::new(if first.is_empty() { second } else { first });
                Pin::new(stream).poll_read(cx, &mut into).map_ok(|()| into.filled().len())
            }
        }
    }

    pub(super) fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self {
            Self::Tcp(stream) => poll_write(stream, cx, bytes),
            Self::Unix(stream) => poll_write(stream, cx, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    /// Passes on what was written, where that is not done at once.
    pub(super) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(_) | Self::Unix(_) => Poll::Ready(Ok(())),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }
}

#[expect(
    deprecated,
    reason = "its successor is unsafe for types that may swap their descriptor; a stream does not"
)]
fn register<S: AsRawFd>(stream: S) -> io::Result<AsyncFd<S>> {
    AsyncFd::new(stream)
}

/// A read that brings less than there was room for has emptied the socket; asking again to hear so would
/// cost as much as a small read.
fn poll_read<S: AsRawFd>(
    stream: &AsyncFd<S>,
    cx: &mut Context<'_>,
    first: &mut [u8],
    second: &mut [u8],
) -> Poll<io::Result<usize>>
where
    for<'a> &'a S: Read,
{
    let room = first.len() + second.len();
    let mut slices = [IoSliceMut::new(first), IoSliceMut::new(second)];
    let slices = if slices[0].is_empty() { &mut slices[1..] } else { &mut slices[..] };
    loop {
        let mut ready = ready!(stream.poll_read_ready(cx))?;
        match stream.get_ref().read_vectored(slices) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => ready.clear_ready(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => {
                if read.as_ref().is_ok_and(|&bytes| 0 < bytes && bytes < room) {
                    ready.clear_ready();
                }
                return Poll::Ready(read);
            }
        }
    }
}

fn poll_write<S: AsRawFd>(stream: &AsyncFd<S>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>>
where
    for<'a> &'a S: Write,
{
    loop {
        let mut ready = ready!(stream.poll_write_ready(cx))?;
        match stream.get_ref().write(bytes) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => ready.clear_ready(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            written => return Poll::Ready(written),
        }
    }
}
