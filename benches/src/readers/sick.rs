//! Readers that are a burden: one stops reading, one reads a few bytes at a time, one leaves and comes back.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use arrow_flight::flight_service_client::FlightServiceClient;
use arrow_flight::{FlightData, Ticket};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tonic::Streaming;
use tonic::transport::Channel;

use crate::receive;

/// All of the dataset in steps of 1 MiB.
const COMMAND: &str = r#"{"dataset":"bench","batch_size":1024}"#;
/// How much trickles, and how often.
const DROP_BYTES: usize = 1 << 10;
const DROP_EVERY: Duration = Duration::from_millis(20);
const LEAVES_EVERY: Duration = Duration::from_secs(1);

/// Sick readers at work.
pub(super) struct Sick {
    stalled: Streaming<FlightData>,
    trickling: JoinHandle<Result<()>>,
    leaving: JoinHandle<Result<()>>,
    left: Arc<AtomicU64>,
}

impl Sick {
    /// Lets them begin; one has stalled already.
    pub(super) fn start(address: &str, runtime: &Handle) -> Result<Self> {
        let ticket = runtime.block_on(receive::tickets(address, COMMAND.to_owned()))?.swap_remove(0);
        let stalled = runtime.block_on(open(address, &ticket))?;
        let left = Arc::new(AtomicU64::new(0));
        let trickle = trickle(address)?;
        let trickling = runtime.spawn({
            let ticket = ticket.clone();
            async move {
                let mut stream = open(&trickle, &ticket).await?;
                while stream.message().await?.is_some() {}
                bail!("a trickle brought all of it")
            }
        });
        let leaving = runtime.spawn({
            let (address, left) = (address.to_owned(), Arc::clone(&left));
            async move {
                loop {
                    drop(open(&address, &ticket).await?);
                    left.fetch_add(1, Ordering::Relaxed);
                    tokio::time::sleep(LEAVES_EVERY).await;
                }
            }
        });
        Ok(Self { stalled, trickling, leaving, left })
    }

    /// Ends them; how often one left.
    pub(super) fn end(self) -> Result<u64> {
        ensure!(!self.trickling.is_finished() && !self.leaving.is_finished(), "a sick reader gave up");
        self.trickling.abort();
        self.leaving.abort();
        drop(self.stalled);
        Ok(self.left.load(Ordering::Relaxed))
    }
}

/// A stream of which the first message was read, on a connection of its own.
async fn open(address: &str, ticket: &[u8]) -> Result<Streaming<FlightData>> {
    let channel = Channel::from_shared(address.replacen("grpc://", "http://", 1))?.connect().await?;
    let mut client = FlightServiceClient::new(channel);
    let mut stream = client.do_get(Ticket::new(ticket.to_vec())).await?.into_inner();
    stream.message().await?.context("a stream without a message")?;
    Ok(stream)
}

/// Another address of a gateway, for one connection: what comes from there comes in drops.
fn trickle(address: &str) -> Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0").context("cannot listen")?;
    let own = format!("grpc://{}", listener.local_addr()?);
    let gateway = address.trim_start_matches("grpc://").to_owned();
    thread::spawn(move || forward(&listener, &gateway));
    Ok(own)
}

/// Ends with the client's or the gateway's end of the connection.
fn forward(listener: &TcpListener, gateway: &str) -> io::Result<()> {
    let (mut client, _) = listener.accept()?;
    let mut gateway = TcpStream::connect(gateway)?;
    let (mut from_client, mut to_gateway) = (client.try_clone()?, gateway.try_clone()?);
    thread::spawn(move || {
        let copied = io::copy(&mut from_client, &mut to_gateway);
        to_gateway.shutdown(Shutdown::Both)?;
        copied
    });
    let mut drop = [0; DROP_BYTES];
    loop {
        let bytes = gateway.read(&mut drop)?;
        if bytes == 0 {
            return Ok(());
        }
        client.write_all(&drop[..bytes])?;
        thread::sleep(DROP_EVERY);
    }
}
