//! Reading in a process of its own, so that its CPU can be told from the server's.

use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};
use arrow_flight::FlightDescriptor;
use arrow_flight::flight_service_client::FlightServiceClient;
use serde_json::json;
use tokio::runtime::Builder;
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
    spawn(&["feed", address, command])
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
        ["feed", address, command] => {
            let (address, command) = (address.to_owned(), command.to_owned());
            let task = runtime.spawn(async move {
                let ticket = ticket(&address, command).await?;
                anyhow::Ok(penstock_sidecar::probe::receive(&address, &ticket).await?)
            });
            let received = runtime.block_on(task)??;
            (received.rows, received.bytes)
        }
        ["bare", address, bytes] => (0, raw::receive(address, bytes.parse()?)?),
        _ => bail!("a reader is started by a bench"),
    };
    let (seconds, cpu_s) = (start.elapsed().as_secs_f64(), cpu_seconds(own)? - cpu);
    println!("{}", json!({"seconds": seconds, "cpu_s": cpu_s, "rows": rows, "bytes": bytes}));
    Ok(())
}

/// Asks for a feed; the ticket of its first rank.
async fn ticket(address: &str, command: String) -> Result<Vec<u8>> {
    let channel = Channel::from_shared(address.replacen("grpc://", "http://", 1))?.connect().await?;
    let info = FlightServiceClient::new(channel)
        .get_flight_info(FlightDescriptor::new_cmd(command))
        .await?
        .into_inner();
    let endpoint = info.endpoint.into_iter().next().context("the feed has no rank")?;
    Ok(endpoint.ticket.context("an endpoint without a ticket")?.ticket.to_vec())
}
