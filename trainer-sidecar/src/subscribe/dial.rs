//! Connections to gateways, for our own client.

use std::future::Future;
use std::io;
use std::path::Path;

use penstock_daemon::tls;
use penstock_proto::{Code, Error};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

use super::{Address, Link};
use crate::wire::Socket;

impl Link {
    /// Whether an address can be of use here: a socket of another machine has a path that means nothing,
    /// and TLS needs somebody to trust.
    pub(super) fn can_reach(&self, address: &Address) -> bool {
        match address {
            Address::Lent(path) | Address::Unix(path) => path.exists(),
            Address::Tls(_) => self.trust.check().is_ok(),
            Address::Tcp(_) => true,
        }
    }

    /// Whether an address may be dialled at all.
    ///
    /// # Errors
    /// It is one of TLS and nobody is trusted: trying again would not help.
    pub(super) fn check(&self, address: &Address) -> Result<(), Error> {
        if matches!(address, Address::Tls(_)) { self.trust.check() } else { Ok(()) }
    }

    /// Connects.
    ///
    /// # Errors
    /// Nobody listens, nobody answers in time, or who answers is not to be trusted.
    pub(super) async fn dial(&self, address: &Address) -> Result<Socket, Error> {
        let connect = async {
            match address {
                Address::Lent(path) | Address::Unix(path) => {
                    UnixStream::connect(path).await.and_then(Socket::unix)
                }
                Address::Tcp(host_and_port) => tcp(host_and_port).await.and_then(Socket::tcp),
                Address::Tls(host_and_port) => {
                    let connector = self.trust.connector().map_err(io::Error::other)?;
                    tls::dial(connector, host_and_port).await.map(|stream| Socket::Tls(Box::new(stream)))
                }
            }
        };
        self.connected(connect).await
    }

    /// Connects to a gateway that lends memory.
    ///
    /// # Errors
    /// Nobody listens, or nobody answers in time.
    pub(super) async fn dial_here(&self, path: &Path) -> Result<UnixStream, Error> {
        self.connected(UnixStream::connect(path)).await
    }

    async fn connected<T>(&self, connect: impl Future<Output = io::Result<T>>) -> Result<T, Error> {
        let connected = timeout(self.deadlines.connect, connect).await;
        let connected = connected.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        connected.map_err(|error| Error::chain(Code::Unreachable, &error))
    }
}

async fn tcp(host_and_port: &str) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(host_and_port).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}
