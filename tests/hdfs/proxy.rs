//! A server's address of its own choice: what goes through it can be stopped or cut.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::served::LONG;

/// Forwards to one server. Dropping it refuses whoever comes, and cuts who is there.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    is_frozen: watch::Sender<bool>,
    /// Counts what has arrived from clients since nothing is let through.
    waiting: watch::Sender<u32>,
    task: tokio::task::JoinHandle<()>,
}

impl Proxy {
    pub(crate) async fn to(server: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (is_frozen, frozen) = watch::channel(false);
        let waiting = watch::Sender::new(0);
        let counts = waiting.clone();
        let server = server.to_owned();
        let task = tokio::spawn(async move {
            // Dropped with this task, and their connections with them.
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                let (to_server, to_client) = (server.clone(), frozen.clone());
                connections.spawn(forward(client, to_server, to_client, counts.clone()));
            }
        });
        Self { address, is_frozen, waiting, task }
    }

    /// From now on connections are taken, and nothing is said: a process that is stopped looks like this.
    pub(crate) fn freeze(&self) {
        self.waiting.send_replace(0);
        self.is_frozen.send_replace(true);
    }

    pub(crate) fn thaw(&self) {
        self.is_frozen.send_replace(false);
    }

    /// Waits until a client has asked something since the freeze and is not answered.
    pub(crate) async fn is_waited_for(&self) {
        let mut waiting = self.waiting.subscribe();
        let asked = waiting.wait_for(|&count| count > 0);
        tokio::time::timeout(LONG, asked).await.expect("somebody asks").unwrap();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn forward(
    client: TcpStream,
    server: String,
    frozen: watch::Receiver<bool>,
    counts: watch::Sender<u32>,
) {
    let Ok(server) = TcpStream::connect(server).await else { return };
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let asked = copy(from_client, to_server, frozen.clone(), Some(counts));
    let answered = copy(from_server, to_client, frozen, None);
    tokio::join!(asked, answered);
}

async fn copy(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut frozen: watch::Receiver<bool>,
    counts: Option<watch::Sender<u32>>,
) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        if *frozen.borrow()
            && let Some(counts) = &counts
        {
            counts.send_modify(|count| *count += 1);
        }
        if frozen.wait_for(|&frozen| !frozen).await.is_err() || to.write_all(&buffer[..length]).await.is_err()
        {
            return;
        }
    }
}
