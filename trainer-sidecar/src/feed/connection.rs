//! The ring's socket on the async threads.

use std::io;
use std::os::fd::BorrowedFd;

use penstock_ring::{Listener, Message, Socket, ToSidecar};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// A trainer's connection.
pub(super) struct Connection(AsyncFd<Socket>);

impl Connection {
    #[expect(
        deprecated,
        reason = "its successor is unsafe for types that may swap their descriptor; a Socket does not"
    )]
    pub(super) fn new(socket: Socket) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        AsyncFd::new(socket).map(Self)
    }

    /// The next message; `None` when the trainer is gone. Cancel-safe: a message is taken whole or not
    /// at all.
    pub(super) async fn receive(&self) -> io::Result<Option<ToSidecar>> {
        let received = self.0.async_io(Interest::READABLE, Socket::recv::<ToSidecar>).await?;
        Ok(received.map(|(message, _)| message))
    }

    /// Waits until the trainer is gone and takes no notice of what it says.
    pub(super) async fn closed(&self) -> io::Result<()> {
        while self.receive().await?.is_some() {}
        Ok(())
    }

    /// Sends a message; `memory` rides along.
    pub(super) async fn send<M: Message>(
        &self,
        message: &M,
        memory: Option<BorrowedFd<'_>>,
    ) -> io::Result<()> {
        self.0.async_io(Interest::WRITABLE, |socket| socket.send(message, memory)).await
    }
}

#[expect(
    deprecated,
    reason = "its successor is unsafe for types that may swap their descriptor; a Listener does not"
)]
pub(crate) fn register(listener: Listener) -> io::Result<AsyncFd<Listener>> {
    listener.set_nonblocking(true)?;
    AsyncFd::new(listener)
}

pub(super) async fn accept(listener: &AsyncFd<Listener>) -> io::Result<Socket> {
    listener.async_io(Interest::READABLE, Listener::accept).await
}
