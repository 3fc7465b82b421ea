//! One range of one file, read from whichever DataNodes give it.
//!
//! In: a file, a range and a place for it. Out: its bytes. The promise: a read that fails is tried again at the
//! places the NameNode then names, one that is slow is tried beside itself from another replica, and all of it
//! ends within a deadline. Which replica is asked is [`DataNodes`](super::datanodes::DataNodes)' to say, or the
//! crate's.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use futures::StreamExt as _;
use hdfs_native::file::FileReader;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use super::blocks::Blocks;
use super::datanodes::Asked;
use super::error::in_words;
use super::files::{File, Opened, Reader};
use super::{Hdfs, HdfsError};

/// A range that has not come after this will not come.
const STALL: Duration = Duration::from_secs(60);
/// The pause before the first reread, doubled each time: a DataNode that restarts is worth waiting for.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// Attempts that run at once, the first included.
const SIDE_BY_SIDE: usize = 3;

/// Which reader an attempt uses.
enum Choice {
    Current,
    /// Not this one, which failed.
    InsteadOf(Arc<Opened>),
    /// One beside the current one, whose replicas may be asked in another order.
    Beside {
        _permit: OwnedSemaphorePermit,
    },
}

/// An attempt failed.
enum Failure {
    /// Trying again is of no use.
    Final(HdfsError),
    /// One beside another failed: the other counts.
    Beside,
    NotOpened(HdfsError),
    NotRead(Arc<Opened>, String),
}

impl Hdfs {
    /// Reads a range that is within the file, and not empty. `place` is empty and has room for it; what comes
    /// back lies there unless that had to be given up.
    pub(super) async fn range(
        &self,
        file: Arc<File>,
        range: Range<u64>,
        place: BytesMut,
    ) -> Result<BytesMut, HdfsError> {
        let _turn = self.0.ranges.acquire().await.expect("the semaphore is never closed");
        let mut reading = Reading {
            hdfs: self,
            file,
            range,
            place: Some(place),
            asked: Arc::default(),
            began: Instant::now(),
            attempts: JoinSet::new(),
            next_hedge: Instant::now(),
            failures: 0,
            reason: "nothing came".to_owned(),
        };
        reading.run().await
    }
}

/// A range being read. Dropping it ends its attempts.
struct Reading<'a> {
    hdfs: &'a Hdfs,
    file: Arc<File>,
    range: Range<u64>,
    /// Where the bytes shall lie, until an attempt has it.
    place: Option<BytesMut>,
    asked: Arc<Asked>,
    began: Instant,
    attempts: JoinSet<Result<BytesMut, Failure>>,
    next_hedge: Instant,
    failures: u32,
    /// Why the last attempt failed.
    reason: String,
}

impl Reading<'_> {
    async fn run(&mut self) -> Result<BytesMut, HdfsError> {
        let patience = &self.hdfs.0.patience;
        self.attempt(Choice::Current, Duration::ZERO);
        loop {
            tokio::select! {
                Some(ended) = self.attempts.join_next() => {
                    let failure = match ended {
                        Ok(Ok(bytes)) => {
                            // Who is still at it was overtaken.
                            self.hdfs.0.datanodes.shun_slow(&self.asked);
                            return Ok(bytes);
                        }
                        Ok(Err(failure)) => failure,
                        Err(_) => Failure::NotOpened(self.gave_up("the client failed unexpectedly")),
                    };
                    let choice = match failure {
                        Failure::Final(error) => return Err(error),
                        Failure::Beside if !self.attempts.is_empty() => continue,
                        Failure::Beside => Choice::Current,
                        Failure::NotOpened(error) if self.failures >= patience.rereads => return Err(error),
                        Failure::NotOpened(_) => Choice::Current,
                        Failure::NotRead(opened, reason) => {
                            self.reason = reason;
                            Choice::InsteadOf(opened)
                        }
                    };
                    self.failures += 1;
                    metrics::counter!("penstock_gateway_hdfs_failed_reads_total").increment(1);
                    if self.failures > patience.rereads {
                        return Err(self.gave_up(&self.reason));
                    }
                    self.attempt(choice, FIRST_PAUSE * 2u32.saturating_pow(self.failures - 1));
                }
                () = sleep_until(self.next_hedge), if self.attempts.len() < SIDE_BY_SIDE => {
                    if let Ok(permit) = Arc::clone(&self.hdfs.0.hedges).try_acquire_owned() {
                        metrics::counter!("penstock_gateway_hdfs_hedged_reads_total").increment(1);
                        self.attempt(Choice::Beside { _permit: permit }, Duration::ZERO);
                    } else {
                        self.next_hedge = Instant::now() + patience.hedge.unwrap_or(STALL);
                    }
                }
                () = sleep_until(self.began + STALL) => return Err(self.gave_up(&self.reason)),
            }
        }
    }

    /// Starts an attempt, a task of its own so that a fault of the crate stays there.
    fn attempt(&mut self, choice: Choice, pause: Duration) {
        self.next_hedge = Instant::now() + pause + self.hdfs.0.patience.hedge.unwrap_or(STALL);
        let (hdfs, file, range) = (self.hdfs.clone(), Arc::clone(&self.file), self.range.clone());
        let asked = Arc::clone(&self.asked);
        let place = self.place.take();
        self.attempts.spawn(async move {
            sleep(pause).await;
            let place = place.unwrap_or_else(|| BytesMut::with_capacity((range.end - range.start) as usize));
            attempt(&hdfs, &file, range, choice, place, &asked).await
        });
    }

    fn gave_up(&self, reason: &str) -> HdfsError {
        HdfsError::NoDataNode {
            path: format!("{}{}", self.hdfs.url(), self.file.path),
            start: self.range.start,
            end: self.range.end,
            attempts: self.failures.max(1),
            after: self.began.elapsed(),
            reason: reason.to_owned(),
        }
    }
}

async fn attempt(
    hdfs: &Hdfs,
    file: &File,
    range: Range<u64>,
    choice: Choice,
    mut place: BytesMut,
    asked: &Asked,
) -> Result<BytesMut, Failure> {
    let opened = match &choice {
        Choice::Current => file.opened(hdfs).await,
        Choice::InsteadOf(worn) => file.reopened(hdfs, worn).await,
        Choice::Beside { .. } => file.opened_beside(hdfs).await,
    };
    let is_beside = matches!(choice, Choice::Beside { .. });
    let opened = opened.map_err(|error| match error {
        HdfsError::NoNameNode { .. } if is_beside => Failure::Beside,
        HdfsError::NoNameNode { .. } => Failure::NotOpened(error),
        error => Failure::Final(error),
    })?;
    let read = match &opened.reader {
        Reader::Ours(blocks) => ours(hdfs, blocks, range, asked, &mut place).await,
        Reader::Crate(reader) => theirs(reader, range, &mut place).await,
    };
    match read {
        Ok(()) => {
            if is_beside {
                // Who was quicker goes on.
                file.prefer(opened).await;
            }
            Ok(place)
        }
        Err(_) if is_beside => Err(Failure::Beside),
        Err(reason) => Err(Failure::NotRead(opened, reason)),
    }
}

async fn ours(
    hdfs: &Hdfs,
    blocks: &Blocks,
    range: Range<u64>,
    asked: &Asked,
    place: &mut BytesMut,
) -> Result<(), String> {
    for (block, piece) in blocks.pieces(range) {
        hdfs.0.datanodes.read(block, piece, asked, place).await?;
    }
    Ok(())
}

async fn theirs(reader: &FileReader, range: Range<u64>, place: &mut BytesMut) -> Result<(), String> {
    let length = (range.end - range.start) as usize;
    let mut packets = std::pin::pin!(reader.read_range_stream(range.start as usize, length));
    while let Some(packet) = packets.next().await {
        place.extend_from_slice(&packet.map_err(|error| in_words(&error))?);
    }
    if place.len() == length { Ok(()) } else { Err(format!("only {} bytes came", place.len())) }
}
