//! Bare bytes over a socket: as fast as messages of a size can be.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::thread;

use anyhow::{Context as _, Result};

/// Sends a message so many times to whoever connects.
#[derive(Debug, Clone, Copy)]
pub(super) struct Server {
    pub(super) bytes: usize,
    pub(super) times: usize,
}

impl Server {
    /// Serves over TCP for as long as the process lives; returns the address.
    pub(super) fn tcp(self) -> Result<String> {
        let listener = TcpListener::bind("127.0.0.1:0").context("cannot listen")?;
        let address = format!("tcp:{}", listener.local_addr()?);
        thread::spawn(move || listener.incoming().try_for_each(|stream| self.send(stream)));
        Ok(address)
    }

    /// The same at a path.
    pub(super) fn unix(self, path: &Path) -> Result<String> {
        let listener = UnixListener::bind(path).context("cannot listen")?;
        thread::spawn(move || listener.incoming().try_for_each(|stream| self.send(stream)));
        Ok(format!("unix:{}", path.display()))
    }

    fn send(self, stream: io::Result<impl Write>) -> io::Result<()> {
        let mut stream = stream?;
        let message = vec![7; self.bytes];
        (0..self.times).try_for_each(|_| stream.write_all(&message))
    }
}

/// Receives messages of a size, each to the same memory; gives the bytes.
pub(super) fn receive(address: &str, message: usize) -> Result<u64> {
    let stream: Box<dyn Read> = match address.split_once(':') {
        Some(("unix", path)) => Box::new(UnixStream::connect(path)?),
        Some(("tcp", address)) => Box::new(TcpStream::connect(address)?),
        _ => anyhow::bail!("{address} is no address"),
    };
    let mut stream = stream;
    let mut memory = vec![0; message];
    let mut bytes = 0;
    loop {
        let mut filled = 0;
        while filled < message {
            match stream.read(&mut memory[filled..])? {
                0 => return Ok(bytes + filled as u64),
                count => filled += count,
            }
        }
        bytes += message as u64;
    }
}
