//! Where the gateway is reached: a TCP port, with or without TLS, or a Unix socket.
//!
//! In: an address or a path. Out: connections. The promise: an address that cannot be had is refused in
//! words; a socket's file that a dead gateway left is replaced, one that a living gateway answers on is
//! not, and ours is gone when we are.

use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::StreamExt as _;
use penstock_proto::loan;
use rustix::net::RecvFlags;
use tokio::io::Interest;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener, UnixStream};
use tokio_rustls::TlsAcceptor;
use tonic::transport::server::TcpIncoming;

use super::StartError;
use super::presence::{Presence, keep_alive};

/// Who has not finished a TLS handshake by then, or not begun on a Unix socket, is hung up on.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// A place where connections come in.
pub(super) enum Listener {
    Tcp {
        incoming: TcpIncoming,
        tls: Option<TlsAcceptor>,
        /// For how long a peer's machine may answer nothing.
        silence: Duration,
    },
    Unix {
        listener: UnixListener,
        _file: SocketFile,
    },
}

/// A connection of which nothing has been read.
pub(super) struct Accepted {
    io: Io,
    tls: Option<TlsAcceptor>,
    pub(super) peer: Peer,
    /// Where it can be lost without a word.
    pub(super) presence: Option<Presence>,
}

enum Io {
    Any(Socket),
    Unix(UnixStream),
}

/// A connection, by what its peer speaks.
pub(super) enum Opened {
    Http(Socket),
    /// It greets as whoever is lent memory.
    Lend(UnixStream),
}

/// What is known of who asks. Rides on every request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Peer {
    /// It runs on this machine, so a Unix socket may be within its reach.
    pub(super) is_neighbour: bool,
}

/// A connection's bytes.
pub(super) type Socket = Box<dyn ReadWrite>;

pub(super) trait ReadWrite: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> ReadWrite for T {}

/// Removes the file of a Unix socket in the end.
pub(super) struct SocketFile(PathBuf);

impl Listener {
    pub(super) async fn tcp(
        address: &str,
        tls: Option<TlsAcceptor>,
        silence: Duration,
    ) -> Result<(Self, SocketAddr), StartError> {
        let listened = async {
            let listener = TcpListener::bind(address).await?;
            let bound = listener.local_addr()?;
            Ok((listener, bound))
        };
        let (listener, bound) = listened.await.map_err(|source: io::Error| match source.kind() {
            io::ErrorKind::AddrInUse => StartError::InUse { address: address.to_owned() },
            _ => StartError::Listen { address: address.to_owned(), source },
        })?;
        let incoming = keep_alive(TcpIncoming::from(listener).with_nodelay(Some(true)), silence);
        Ok((Self::Tcp { incoming, tls, silence }, bound))
    }

    pub(super) async fn unix(path: &Path) -> Result<Self, StartError> {
        let failed = |source| StartError::Socket { path: path.to_owned(), source };
        if is_left_over(path).await {
            std::fs::remove_file(path).map_err(failed)?;
        }
        let listener = UnixListener::bind(path).map_err(|source| match source.kind() {
            io::ErrorKind::AddrInUse => StartError::SocketInUse { path: path.to_owned() },
            _ => failed(source),
        })?;
        Ok(Self::Unix { listener, _file: SocketFile(path.to_owned()) })
    }

    /// The next connection. Cancel-safe.
    pub(super) async fn accept(&mut self) -> io::Result<Accepted> {
        match self {
            Self::Tcp { incoming, tls, silence } => {
                let stream = incoming.next().await.expect("a listener never ends")?;
                let is_neighbour = stream.peer_addr()?.ip() == stream.local_addr()?.ip();
                let presence = Some(Presence::watch(&stream, *silence)?);
                Ok(Accepted { tls: tls.clone(), presence, ..Accepted::plain(stream, Peer { is_neighbour }) })
            }
            Self::Unix { listener, .. } => {
                let (stream, _) = listener.accept().await?;
                let peer = Peer { is_neighbour: true };
                Ok(Accepted { io: Io::Unix(stream), tls: None, peer, presence: None })
            }
        }
    }
}

impl Accepted {
    pub(super) fn plain(io: impl ReadWrite + 'static, peer: Peer) -> Self {
        Self { io: Io::Any(Box::new(io)), tls: None, peer, presence: None }
    }

    /// The connection, with TLS inside if that is how it is reached.
    pub(super) async fn open(self) -> io::Result<Opened> {
        let opened = async {
            Ok(match (self.io, self.tls) {
                (Io::Any(io), None) => Opened::Http(io),
                (Io::Any(io), Some(tls)) => Opened::Http(Box::new(tls.accept(io).await?)),
                (Io::Unix(stream), _) if greets(&stream).await? => Opened::Lend(stream),
                (Io::Unix(stream), _) => Opened::Http(Box::new(stream)),
            })
        };
        tokio::time::timeout(HANDSHAKE, opened).await.map_err(|_| io::ErrorKind::TimedOut)?
    }
}

/// Whether a peer begins as one that is lent memory does. Both protocols have the peer begin.
async fn greets(stream: &UnixStream) -> io::Result<bool> {
    let mut first = [0];
    let peek = || Ok(rustix::net::recv(stream, &mut first, RecvFlags::PEEK)?);
    stream.async_io(Interest::READABLE, peek).await?;
    Ok(first[0] == loan::GREETING[0])
}

/// Whether a socket's file is there that nobody listens at.
async fn is_left_over(path: &Path) -> bool {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
    let refused = |error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
    is_socket && UnixStream::connect(path).await.err().is_some_and(refused)
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Somebody who tidied up was quicker.
        let _gone = std::fs::remove_file(&self.0);
    }
}
