//! One range of one file, whatever the connection does.
//!
//! In: a file's version and a range. Out: its bytes. The promise: they are of that version and none is missing;
//! a body that breaks off or falls silent is gone on with where it ended, a range that is late is asked for a
//! second time beside the first, and all of it ends. Refusals were tried again below, in the connection.

use std::ops::Range;
use std::pin::pin;

use bytes::Bytes;
use futures::TryStreamExt as _;
use futures::future::{Either, select};
use object_store::path::Path;
use object_store::{GetOptions, ObjectMeta, ObjectStore as _};
use tokio::time::{Instant, sleep, timeout};

use super::fault::{Fault, How};
use super::patience::Trying;
use super::version::Demand;
use super::{Bucket, CloudError};

/// A connection that gives this much before it breaks is one to go on with.
const PROGRESS_BYTES: u64 = 1 << 20;

/// Bytes of a range, as they came.
pub(super) struct Part {
    pub(super) chunks: Vec<Bytes>,
    /// What the store says of the whole file.
    pub(super) meta: ObjectMeta,
}

/// A range did not come whole.
struct Broken {
    /// What came of it.
    chunks: Vec<Bytes>,
    why: Why,
}

enum Why {
    /// It may come if it is asked for again.
    Fault(Fault),
    Final(CloudError),
}

impl Bucket {
    /// Reads a range; it is shorter where the file ends within it.
    pub(super) async fn part(
        &self,
        location: &Path,
        demand: &Demand,
        range: Range<u64>,
    ) -> Result<Part, CloudError> {
        let longest = self.0.patience.longest_of(range.end - range.start);
        match timeout(longest, self.persist(location, demand, range)).await {
            Ok(ended) => ended,
            Err(_) => Err(CloudError::Slow { place: self.asked(location).place(), after: longest }),
        }
    }

    /// Asks until all of it has come.
    async fn persist(&self, location: &Path, demand: &Demand, range: Range<u64>) -> Result<Part, CloudError> {
        let mut trying = Trying::new(self.0.patience);
        let mut came = Vec::new();
        let mut at = range.start;
        loop {
            match self.overtaken(location, demand, at..range.end).await {
                Ok(mut part) => {
                    came.append(&mut part.chunks);
                    return Ok(Part { chunks: came, meta: part.meta });
                }
                Err(Broken { why: Why::Final(error), .. }) => return Err(error),
                Err(Broken { mut chunks, why: Why::Fault(fault) }) => {
                    let bytes = length(&chunks);
                    at += bytes;
                    came.append(&mut chunks);
                    if bytes >= PROGRESS_BYTES {
                        trying.progressed();
                    }
                    let Some(pause) = trying.after(&fault) else {
                        let fault = trying.given_up(fault);
                        return Err(CloudError::of_fault(&fault, &self.asked(location)));
                    };
                    self.0.metrics.retries.increment(1);
                    sleep(pause).await;
                }
            }
        }
    }

    /// One attempt, and a second beside it if it is late and the store has room.
    async fn overtaken(&self, location: &Path, demand: &Demand, range: Range<u64>) -> Result<Part, Broken> {
        let bytes = range.end - range.start;
        let mut first = pin!(self.attempt(location, demand, range.clone()));
        loop {
            let late = pin!(sleep(self.0.lateness.late(bytes)));
            match select(first.as_mut(), late).await {
                Either::Left((done, _)) => return done,
                Either::Right(_) if self.0.pace.has_room() && self.0.lateness.pay() => break,
                Either::Right(_) => {}
            }
        }
        self.0.metrics.hedged.increment(1);
        let second = pin!(self.attempt(location, demand, range));
        match select(first, second).await {
            Either::Left((Err(_), other)) => other.await,
            Either::Right((Err(_), other)) => other.await,
            Either::Left((done, _)) | Either::Right((done, _)) => done,
        }
    }

    async fn attempt(&self, location: &Path, demand: &Demand, range: Range<u64>) -> Result<Part, Broken> {
        let began = Instant::now();
        let nothing = |error| Broken { chunks: Vec::new(), why: self.why(location, &error) };
        let options = GetOptions {
            range: Some(range.clone().into()),
            if_match: demand.to_send(),
            version: demand.version.clone(),
            ..GetOptions::default()
        };
        let answer = self.0.client.get_opts(location, options).await.map_err(nothing)?;
        if !demand.is_met_by(&answer.meta) {
            let place = self.asked(location).place();
            return Err(Broken { chunks: Vec::new(), why: Why::Final(CloudError::Changed { place }) });
        }
        let (meta, wanted) = (answer.meta.clone(), answer.range.end - answer.range.start);
        let mut chunks = Vec::new();
        let mut body = answer.into_stream();
        loop {
            match body.try_next().await {
                Ok(Some(chunk)) => chunks.push(chunk),
                Ok(None) | Err(_) if length(&chunks) == wanted => break,
                Ok(None) => {
                    let reason = format!("{} of {wanted} bytes came", length(&chunks));
                    if length(&chunks) > wanted {
                        chunks.clear();
                    }
                    return Err(Broken {
                        chunks,
                        why: Why::Fault(Fault::Unreached { how: How::Cut, reason }),
                    });
                }
                Err(error) => return Err(Broken { chunks, why: self.why(location, &error) }),
            }
        }
        self.0.lateness.record(wanted, began.elapsed());
        Ok(Part { chunks, meta })
    }

    fn why(&self, location: &Path, error: &object_store::Error) -> Why {
        match CloudError::new(error, &self.asked(location)) {
            // A server that tells nonsense may do so once.
            CloudError::Nonsense { reason, .. } => Why::Fault(Fault::Unreached { how: How::Cut, reason }),
            error_in_words => match Fault::of(error) {
                // Refusals were tried again below.
                Some(fault @ Fault::Unreached { how: How::Cut | How::Silent, .. }) => Why::Fault(fault),
                _ => Why::Final(error_in_words),
            },
        }
    }
}

fn length(chunks: &[Bytes]) -> u64 {
    chunks.iter().map(|chunk| chunk.len() as u64).sum()
}
