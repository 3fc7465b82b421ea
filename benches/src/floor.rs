//! What no feeder can go below: decoding alone on all cores, and bytes sent and received once.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::thread;
use std::time::Instant;

use anyhow::{Context as _, Result, anyhow};
use bytes::Bytes;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde::Serialize;

use crate::client::cpu_seconds;
use crate::median::median;

const RUNS: usize = 5;
const BATCH_ROWS: usize = 1024;
/// As in the bench `receive`, whose bare sockets send a batch at a time.
const MESSAGE: usize = 1 << 20;
const MESSAGES: usize = 2048;

/// Decoding a set alone.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Decoded {
    pub(crate) rows_a_second: f64,
    pub(crate) cpu_s_a_gb: f64,
}

/// Decodes files in memory, one a core at a time: lists with our own decoder, all else with parquet's.
pub(crate) fn decode(files: &[PathBuf], lists: bool, rows: u64, row_bytes: u64) -> Result<Decoded> {
    let files: Vec<Bytes> = files
        .iter()
        .map(|file| {
            Ok(std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?.into())
        })
        .collect::<Result<_>>()?;
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let share = files.len().div_ceil(cores);
    let (mut wall, mut cpu) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        let (before, began) = (cpu_seconds(std::process::id())?, Instant::now());
        thread::scope(|scope| {
            let decoding: Vec<_> = files
                .chunks(share)
                .map(|files| scope.spawn(move || files.iter().try_for_each(|file| decode_file(file, lists))))
                .collect();
            decoding
                .into_iter()
                .try_for_each(|thread| thread.join().map_err(|_| anyhow!("a decoder fell over"))?)
        })?;
        wall.push(began.elapsed().as_secs_f64());
        cpu.push(cpu_seconds(std::process::id())? - before);
    }
    let gigabytes = (rows * row_bytes) as f64 / 1e9;
    Ok(Decoded { rows_a_second: rows as f64 / median(wall), cpu_s_a_gb: median(cpu) / gigabytes })
}

fn decode_file(file: &Bytes, lists: bool) -> Result<()> {
    if lists {
        return Ok(penstock_gateway::decode_file(file, BATCH_ROWS, drop)?);
    }
    let reader =
        ParquetRecordBatchReaderBuilder::try_new(file.clone())?.with_batch_size(BATCH_ROWS).build()?;
    for batch in reader {
        drop(batch?);
    }
    Ok(())
}

/// CPU seconds a GB of sending and receiving, over a Unix socket.
pub(crate) fn unix_socket() -> Result<f64> {
    transport(|| UnixStream::pair().context("cannot make a pair of sockets"))
}

/// The same over TCP, on this machine.
pub(crate) fn tcp() -> Result<f64> {
    transport(|| {
        let listener = TcpListener::bind("127.0.0.1:0").context("cannot listen")?;
        let sender = TcpStream::connect(listener.local_addr()?).context("cannot connect")?;
        Ok((sender, listener.accept()?.0))
    })
}

fn transport<S: Read + Write + Send + 'static>(pair: impl Fn() -> Result<(S, S)>) -> Result<f64> {
    let mut runs = Vec::new();
    for _ in 0..RUNS {
        let (mut sender, mut receiver) = pair()?;
        let before = cpu_seconds(std::process::id())?;
        let sending = thread::spawn(move || {
            let message = vec![7; MESSAGE];
            (0..MESSAGES).try_for_each(|_| sender.write_all(&message))
        });
        let mut memory = vec![0; MESSAGE];
        for _ in 0..MESSAGES {
            receiver.read_exact(&mut memory)?;
        }
        sending.join().map_err(|_| anyhow!("the sender fell over"))??;
        runs.push((cpu_seconds(std::process::id())? - before) / (MESSAGE * MESSAGES) as f64 * 1e9);
    }
    Ok(median(runs))
}
