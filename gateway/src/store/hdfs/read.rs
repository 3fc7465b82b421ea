//! One range of one file, read from whichever DataNodes give it.
//!
//! In: a file and a range. Out: its bytes. The promise: a read that fails is tried again at the places the
//! NameNode then names, one that is slow is tried beside itself, and all of it ends within a deadline. Where
//! replicas lie and in which order they are asked is the crate's.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use super::error::in_words;
use super::files::{File, Opened};
use super::{Hdfs, HdfsError};

/// A range that has not come after this will not come.
const STALL: Duration = Duration::from_secs(60);
/// The pause before the first reread, doubled each time: a DataNode that restarts is worth waiting for.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// Attempts that run at once, the first included.
const SIDE_BY_SIDE: usize = 3;

/// Which reader an attempt uses.
enum Reader {
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
    /// Reads a range that is within the file.
    pub(super) async fn range(&self, file: Arc<File>, range: Range<u64>) -> Result<Bytes, HdfsError> {
        if range.is_empty() {
            return Ok(Bytes::new());
        }
        let _turn = self.0.ranges.acquire().await.expect("the semaphore is never closed");
        let mut reading = Reading {
            hdfs: self,
            file,
            range,
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
    began: Instant,
    attempts: JoinSet<Result<Bytes, Failure>>,
    next_hedge: Instant,
    failures: u32,
    /// Why the last attempt failed.
    reason: String,
}

impl Reading<'_> {
    async fn run(&mut self) -> Result<Bytes, HdfsError> {
        let patience = &self.hdfs.0.patience;
        self.attempt(Reader::Current, Duration::ZERO);
        loop {
            tokio::select! {
                Some(ended) = self.attempts.join_next() => {
                    let failure = match ended {
                        Ok(Ok(bytes)) => return Ok(bytes),
                        Ok(Err(failure)) => failure,
                        Err(_) => Failure::NotOpened(self.gave_up("the client failed unexpectedly")),
                    };
                    let reader = match failure {
                        Failure::Final(error) => return Err(error),
                        Failure::Beside if !self.attempts.is_empty() => continue,
                        Failure::Beside => Reader::Current,
                        Failure::NotOpened(error) if self.failures >= patience.rereads => return Err(error),
                        Failure::NotOpened(_) => Reader::Current,
                        Failure::NotRead(opened, reason) => {
                            self.reason = reason;
                            Reader::InsteadOf(opened)
                        }
                    };
                    self.failures += 1;
                    metrics::counter!("penstock_gateway_hdfs_failed_reads_total").increment(1);
                    if self.failures > patience.rereads {
                        return Err(self.gave_up(&self.reason));
                    }
                    self.attempt(reader, FIRST_PAUSE * 2u32.saturating_pow(self.failures - 1));
                }
                () = sleep_until(self.next_hedge), if self.attempts.len() < SIDE_BY_SIDE => {
                    if let Ok(permit) = Arc::clone(&self.hdfs.0.hedges).try_acquire_owned() {
                        metrics::counter!("penstock_gateway_hdfs_hedged_reads_total").increment(1);
                        self.attempt(Reader::Beside { _permit: permit }, Duration::ZERO);
                    } else {
                        self.next_hedge = Instant::now() + patience.hedge.unwrap_or(STALL);
                    }
                }
                () = sleep_until(self.began + STALL) => return Err(self.gave_up(&self.reason)),
            }
        }
    }

    /// Starts an attempt, a task of its own so that a fault of the crate stays there.
    fn attempt(&mut self, reader: Reader, pause: Duration) {
        self.next_hedge = Instant::now() + pause + self.hdfs.0.patience.hedge.unwrap_or(STALL);
        let (hdfs, file, range) = (self.hdfs.clone(), Arc::clone(&self.file), self.range.clone());
        self.attempts.spawn(async move {
            sleep(pause).await;
            attempt(&hdfs, &file, range, reader).await
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

async fn attempt(hdfs: &Hdfs, file: &File, range: Range<u64>, reader: Reader) -> Result<Bytes, Failure> {
    let opened = match &reader {
        Reader::Current => file.opened(hdfs).await,
        Reader::InsteadOf(worn) => file.reopened(hdfs, worn).await,
        Reader::Beside { .. } => file.opened_beside(hdfs).await,
    };
    let is_beside = matches!(reader, Reader::Beside { .. });
    let opened = opened.map_err(|error| match error {
        HdfsError::NoNameNode { .. } if is_beside => Failure::Beside,
        HdfsError::NoNameNode { .. } => Failure::NotOpened(error),
        error => Failure::Final(error),
    })?;
    let length = range.end - range.start;
    match opened.reader.read_range(range.start as usize, length as usize).await {
        Ok(bytes) if bytes.len() as u64 == length => {
            if is_beside {
                // Who was quicker goes on.
                file.prefer(opened).await;
            }
            Ok(bytes)
        }
        _ if is_beside => Err(Failure::Beside),
        Ok(bytes) => Err(Failure::NotRead(opened, format!("only {} bytes came", bytes.len()))),
        Err(error) => Err(Failure::NotRead(opened, in_words(&error))),
    }
}
