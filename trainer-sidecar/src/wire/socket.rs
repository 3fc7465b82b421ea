//! The socket under a connection, whatever it is made of.

use std::io::{self, IoSliceMut};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::client::TlsStream;

/// An open connection.
#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Socket {
    /// Reads into `first`, and what does not fit there into `second`. No bytes are the end.
    pub(super) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        first: &mut [u8],
        second: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        match self {
            Self::Tcp(stream) => vectored(
                first,
                second,
                || stream.poll_read_ready(cx),
                |slices| stream.try_read_vectored(slices),
            ),
            Self::Unix(stream) => vectored(
                first,
                second,
                || stream.poll_read_ready(cx),
                |slices| stream.try_read_vectored(slices),
            ),
            Self::Tls(stream) => {
                // What is decrypted is copied in any case, to one place at a time.
                let mut into = ReadBuf::new(if first.is_empty() { second } else { first });
                Pin::new(stream).poll_read(cx, &mut into).map_ok(|()| into.filled().len())
            }
        }
    }

    pub(super) fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self {
            Self::Tcp(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Unix(stream) => Pin::new(stream).poll_write(cx, bytes),
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

/// Reads into both when there is something to read.
fn vectored(
    first: &mut [u8],
    second: &mut [u8],
    mut is_ready: impl FnMut() -> Poll<io::Result<()>>,
    read: impl Fn(&mut [IoSliceMut<'_>]) -> io::Result<usize>,
) -> Poll<io::Result<usize>> {
    let mut slices = [IoSliceMut::new(first), IoSliceMut::new(second)];
    let slices = if slices[0].is_empty() { &mut slices[1..] } else { &mut slices[..] };
    loop {
        ready!(is_ready())?;
        match read(slices) {
            // It was not: the next look will register that this waits.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            read => return Poll::Ready(read),
        }
    }
}
