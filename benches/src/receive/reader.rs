//! Reading in a process of its own, so that its CPU can be told from the server's.

use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};
use arrow_flight::flight_service_client::FlightServiceClient;
use arrow_flight::{FlightDescriptor, FlightEndpoint};
use serde_json::json;
use tokio::runtime::Builder;
use tokio::task::JoinSet;
use tonic::transport::Channel;

use super::raw;
use crate::client::{Read, cpu_seconds};

/// The argument before what [`read`] is to read.
pub(crate) const READ: &str = "read";

/// Reads a gateway's stream with our client.
pub(super) fn stream(address: &str) -> Result<Read> {
    spawn(&["stream", address])
}

/// Reads a feed, given as JSON, of one rank with our client.
pub(crate) fn feed(address: &str, command: &str) -> Result<Read> {
    feed_by(address, address, command)
}

/// The same, by another way than it is asked for.
pub(crate) fn feed_by(address: &str, way: &str, command: &str) -> Result<Read> {
    spawn(&["feed", address, way, command])
}

/// Reads a feed, given as JSON without a rank, so many times: all its ranks at once, each on a connection of its own.
pub(crate) fn world(address: &str, command: &str, times: u64) -> Result<Read> {
    spawn(&["world", address, command, &times.to_string()])
}

/// Reads bare messages of a size.
pub(super) fn bare(address: &str, bytes: usize) -> Result<Read> {
    spawn(&["bare", address, &bytes.to_string()])
}

fn spawn(arguments: &[&str]) -> Result<Read> {
    let program = std::env::current_exe().context("this program has no path")?;
    let output = Command::new(program).arg(READ).args(arguments).stderr(Stdio::inherit()).output();
    let output = output.context("cannot start a reader")?;
    ensure!(output.status.success(), "a reader ended with {}", output.status);
    serde_json::from_slice(&output.stdout).context("a reader printed no figures")
}

/// What the child does: reads, and prints what it saw.
pub(crate) fn read(arguments: &[String]) -> Result<()> {
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let runtime = Builder::new_multi_thread().enable_all().thread_name("reader").build();
    let runtime = runtime.context("cannot start the async runtime")?;
    let own = std::process::id();
    let (cpu, start) = (cpu_seconds(own)?, Instant::now());
    let (rows, bytes) = match arguments[..] {
        ["stream", address] => {
            // As in a sidecar: on a thread that does other I/O too.
            let address = address.to_owned();
            let task = runtime.spawn(async move { penstock_sidecar::probe::receive(&address, b"all").await });
            let received = runtime.block_on(task)??;
            (received.rows, received.bytes)
        }
        ["feed", address, way, command] => {
            let (address, way, command) = (address.to_owned(), way.to_owned(), command.to_owned());
            let task = runtime.spawn(async move {
                let ticket = tickets(&address, command).await?.swap_remove(0);
                anyhow::Ok(penstock_sidecar::probe::receive(&way, &ticket).await?)
            });
            let received = runtime.block_on(task)??;
            (received.rows, received.bytes)
        }
        ["world", address, command, times] => {
            let (address, times) = (address.to_owned(), times.parse()?);
            runtime.block_on(ranks(&address, command.to_owned(), times))?
        }
        ["bare", address, bytes] => (0, raw::receive(address, bytes.parse()?)?),
        _ => bail!("a reader is started by a bench"),
    };
    let (seconds, cpu_s) = (start.elapsed().as_secs_f64(), cpu_seconds(own)? - cpu);
    println!("{}", json!({"seconds": seconds, "cpu_s": cpu_s, "rows": rows, "bytes": bytes}));
    Ok(())
}

/// Reads all ranks of a feed so many times, each rank one time after the other; rows and bytes.
async fn ranks(address: &str, command: String, times: u64) -> Result<(u64, u64)> {
    let mut ranks = JoinSet::new();
    for ticket in tickets(address, command).await? {
        let address = address.to_owned();
        ranks.spawn(async move {
            let (mut rows, mut bytes) = (0, 0);
            for _ in 0..times {
                let received = penstock_sidecar::probe::receive(&address, &ticket).await?;
                (rows, bytes) = (rows + received.rows, bytes + received.bytes);
            }
            anyhow::Ok((rows, bytes))
        });
    }
    let (mut rows, mut bytes) = (0, 0);
    while let Some(rank) = ranks.join_next().await {
        let of_rank = rank??;
        (rows, bytes) = (rows + of_rank.0, bytes + of_rank.1);
    }
    Ok((rows, bytes))
}

/// Asks for a feed; the tickets of its ranks, at least one.
pub(crate) async fn tickets(address: &str, command: String) -> Result<Vec<Vec<u8>>> {
    let channel = Channel::from_shared(address.replacen("grpc://", "http://", 1))?.connect().await?;
    let info = FlightServiceClient::new(channel)
        .get_flight_info(FlightDescriptor::new_cmd(command))
        .await?
        .into_inner();
    ensure!(!info.endpoint.is_empty(), "the feed has no rank");
    let ticket = |endpoint: FlightEndpoint| {
        Ok(endpoint.ticket.context("an endpoint without a ticket")?.ticket.to_vec())
    };
    info.endpoint.into_iter().map(ticket).collect()
}
