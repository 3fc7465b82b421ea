//! Messages over a `SOCK_SEQPACKET` Unix socket, each whole or not at all.
//!
//! *In:* messages and at most one file descriptor with each. *Out:* the same at the other end.
//! *Promise:* the end of the connection is seen by the other side, whatever ended it; nothing is
//! inherited by child processes. *Knows nothing* of what messages mean.
//!
//! Errors are `io::Error` so that an event loop sees `WouldBlock`; bytes that are no message come as
//! `InvalidData` with the [`crate::MessageError`] inside.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, Shutdown, SocketAddrUnix, SocketFlags, SocketType,
};

use crate::message::{HEADER, MAX_PAYLOAD, Message};

/// One connection. Blocking unless [`Socket::set_nonblocking`] says otherwise.
pub struct Socket {
    fd: OwnedFd,
}

/// A bound address; removed on drop.
pub struct Listener {
    fd: OwnedFd,
    path: PathBuf,
}

impl Socket {
    /// Connects to the sidecar that listens at `path`.
    ///
    /// # Errors
    /// The path is too long for a socket address (107 bytes), is absent, or nobody listens there.
    pub fn connect(path: &Path) -> io::Result<Socket> {
        let fd = open()?;
        rustix::io::retry_on_intr(|| rustix::net::connect(&fd, &address(path)?))?;
        Ok(Socket { fd })
    }

    /// Two connected ends.
    ///
    /// # Errors
    /// No file descriptors left.
    pub fn pair() -> io::Result<(Socket, Socket)> {
        let (a, b) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        Ok((Socket { fd: a }, Socket { fd: b }))
    }

    /// Whether `send` and `recv` return `WouldBlock` instead of waiting.
    ///
    /// # Errors
    /// None in practice.
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        Ok(rustix::io::ioctl_fionbio(&self.fd, nonblocking)?)
    }

    /// Sends one message; `memory` rides along. The kernel may queue as few as 10 messages, so whoever
    /// waits to send goes on receiving meanwhile: two sides that both only send would wait for ever.
    ///
    /// # Errors
    /// `BrokenPipe` when the other side is gone, `WouldBlock` when its buffer is full (non-blocking
    /// only), `InvalidData` when the message is too large.
    pub fn send<M: Message>(&self, message: &M, memory: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let bytes = message.encode().map_err(invalid)?;
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if let Some(fd) = &memory {
            let fits = control.push(SendAncillaryMessage::ScmRights(std::slice::from_ref(fd)));
            assert!(fits, "the space was made for one descriptor");
        }
        let sent = rustix::io::retry_on_intr(|| {
            rustix::net::sendmsg(&self.fd, &[IoSlice::new(&bytes)], &mut control, SendFlags::NOSIGNAL)
        });
        match sent {
            Ok(_) => Ok(()),
            // How a peer that closed with unread messages of ours is reported, once.
            Err(rustix::io::Errno::CONNRESET) => Err(rustix::io::Errno::PIPE.into()),
            Err(error) => Err(error.into()),
        }
    }

    /// Receives one message and what rode along; `None` when the other side is gone.
    ///
    /// # Errors
    /// `WouldBlock` (non-blocking only), or `InvalidData`.
    pub fn recv<M: Message>(&self) -> io::Result<Option<(M, Option<OwnedFd>)>> {
        self.receive(RecvFlags::empty())
    }

    /// As [`Socket::recv`], but never waits, whatever the mode.
    pub(crate) fn try_recv<M: Message>(&self) -> io::Result<Option<(M, Option<OwnedFd>)>> {
        self.receive(RecvFlags::DONTWAIT)
    }

    fn receive<M: Message>(&self, flags: RecvFlags) -> io::Result<Option<(M, Option<OwnedFd>)>> {
        let Some(length) = self.next_length(flags)? else {
            return Ok(None);
        };
        let mut bytes = vec![0; length.min(HEADER + MAX_PAYLOAD + 1)];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut receive = || {
            rustix::io::retry_on_intr(|| {
                rustix::net::recvmsg(
                    &self.fd,
                    &mut [IoSliceMut::new(&mut bytes)],
                    &mut control,
                    flags | RecvFlags::CMSG_CLOEXEC,
                )
            })
        };
        let received = past_reset(&mut receive)?;
        let memory = control.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
            _ => None,
        });
        if received.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
            return Err(invalid(crate::MessageError::TooLarge { bytes: length }));
        }
        bytes.truncate(received.bytes);
        Ok(Some((M::decode(&bytes).map_err(invalid)?, memory)))
    }

    /// Bytes of the next message, so that the usual one of 36 bytes does not cost a buffer of 128 KiB.
    fn next_length(&self, flags: RecvFlags) -> io::Result<Option<usize>> {
        let mut peek = || {
            rustix::io::retry_on_intr(|| {
                rustix::net::recv(&self.fd, &mut [0; 1], flags | RecvFlags::PEEK | RecvFlags::TRUNC)
            })
        };
        match past_reset(&mut peek) {
            Ok((_, 0)) | Err(rustix::io::Errno::CONNRESET) => Ok(None),
            Ok((_, length)) => Ok(Some(length)),
            Err(error) => Err(error.into()),
        }
    }

    /// Ends the connection for both sides, also for threads that wait on it.
    pub fn shutdown(&self) {
        // The other side may be gone already; then there is nothing to end.
        let _ = rustix::net::shutdown(&self.fd, Shutdown::Both);
    }
}

/// A peer that closed with unread messages of ours is reported once, before what it had sent.
fn past_reset<T>(receive: &mut impl FnMut() -> rustix::io::Result<T>) -> rustix::io::Result<T> {
    match receive() {
        Err(rustix::io::Errno::CONNRESET) => receive(),
        other => other,
    }
}

impl Listener {
    /// Binds `path`. A socket left behind by a process that is gone is replaced.
    ///
    /// # Errors
    /// `AddrInUse` when someone answers there, or when a file is there that is no socket; a path
    /// longer than 107 bytes; no such directory.
    pub fn bind(path: &Path) -> io::Result<Listener> {
        let fd = open()?;
        let address = address(path)?;
        if let Err(error) = rustix::net::bind(&fd, &address) {
            if error != rustix::io::Errno::ADDRINUSE || !stale(path) {
                return Err(error.into());
            }
            std::fs::remove_file(path)?;
            rustix::net::bind(&fd, &address)?;
        }
        rustix::net::listen(&fd, 128)?;
        Ok(Listener { fd, path: path.to_owned() })
    }

    /// Waits for a trainer (or returns `WouldBlock`).
    ///
    /// # Errors
    /// No file descriptors left.
    pub fn accept(&self) -> io::Result<Socket> {
        let fd = rustix::io::retry_on_intr(|| rustix::net::accept_with(&self.fd, SocketFlags::CLOEXEC))?;
        Ok(Socket { fd })
    }

    /// As [`Socket::set_nonblocking`], for `accept`.
    ///
    /// # Errors
    /// None in practice.
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        Ok(rustix::io::ioctl_fionbio(&self.fd, nonblocking)?)
    }

    /// Where it listens.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // Somebody may have removed it already.
        let _ = std::fs::remove_file(&self.path);
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsRawFd for Socket {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsRawFd for Listener {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

fn open() -> io::Result<OwnedFd> {
    Ok(rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

fn address(path: &Path) -> rustix::io::Result<SocketAddrUnix> {
    SocketAddrUnix::new(path)
}

/// A socket that refuses connections was left by a process that is gone.
fn stale(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|meta| meta.file_type().is_socket());
    is_socket && Socket::connect(path).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

fn invalid(error: crate::MessageError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

#[cfg(test)]
#[cfg(not(miri))]
mod tests;
