//! Ranges of one file in HDFS, several at once: through the gateway's own store, and by Hadoop's Java client.
//!
//! Both open the file once, read the same ranges in the same order and throw them away; the Java virtual machine
//! is one, and warm.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use object_store::path::Path;
use object_store::{GetOptions, ObjectStore as _, ObjectStoreExt as _};
use penstock_gateway::config::HdfsConfig;
use penstock_gateway::store::hdfs::Hdfs;
use penstock_tests::hdfs::Bed;

use crate::client::{self, Read};
use crate::median::median;
use crate::report::Line;

/// Read at once.
const AT_ONCE: usize = 8;
const RUNS: usize = 7;
/// What `Ranges.java` says of it.
const STRIDE: u64 = 7919;
const FILE: &str = "/bench/part-0.parquet";

/// What is read, in ranges of how many bytes, how many a run, and which part of the Java client's speed it must
/// reach.
const READS: &[(&str, u64, u64, f64)] =
    &[("8 MiB ranges, 8 at once", 8 << 20, 96, 1.0), ("64 KiB ranges, 8 at once", 64 << 10, 4000, 0.5)];

pub(super) fn run(bed: &Bed) -> Result<Vec<Line>> {
    let runtime = tokio::runtime::Runtime::new()?;
    let ours = runtime.block_on(Ours::open(bed))?;
    let mut java = Java::start(bed)?;
    let mut lines = Vec::new();
    for &(what, bytes, count, goal) in READS {
        let (mut mine, mut theirs) = (Vec::new(), Vec::new());
        // The first run of each warms it up.
        for run in 0..=RUNS {
            let reads = [runtime.block_on(ours.read(bytes, count))?, java.read(bytes, count)?];
            ensure!(reads.iter().all(|read| read.rows == count), "not all ranges of {what} came");
            let [read, peer] = reads;
            if run > 0 {
                mine.push(read);
                theirs.push(peer);
            }
        }
        let rate = |reads: &[Read]| median(reads.iter().map(Read::gigabytes_a_second));
        let cost = |reads: &[Read]| median(reads.iter().map(|read| read.cpu_s / read.bytes * 1e9));
        let cpu = median(mine.iter().map(|read| read.cpu_s));
        let peer = |figure| BTreeMap::from([("Java client".to_owned(), figure)]);
        lines.push(Line::rate(what, "GB/s", rate(&mine), cpu, peer(rate(&theirs))).must_reach(goal));
        lines.push(Line::cost(format!("{what}, client CPU"), "s/GB", cost(&mine), cpu, peer(cost(&theirs))));
    }
    Ok(lines)
}

/// The gateway's store.
struct Ours {
    store: Hdfs,
    path: Path,
    length: u64,
    tag: Option<String>,
}

impl Ours {
    async fn open(bed: &Bed) -> Result<Self> {
        let config = HdfsConfig { conf_dir: Some(bed.conf().to_owned()), ..HdfsConfig::default() };
        let (store, path) = (Hdfs::new("", &config)?, Path::parse(FILE)?);
        let meta = store.head(&path).await?;
        Ok(Self { store, path, length: meta.size, tag: meta.e_tag })
    }

    async fn read(&self, bytes: u64, count: u64) -> Result<Read> {
        let (cpu, began) = (client::cpu_seconds(std::process::id())?, Instant::now());
        let next = Arc::new(AtomicU64::new(0));
        let readers = (0..AT_ONCE).map(|_| {
            let (next, store, path, tag) =
                (Arc::clone(&next), self.store.clone(), self.path.clone(), self.tag.clone());
            let ranges = self.length / bytes;
            tokio::spawn(async move {
                let mut read = 0;
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        return Ok::<u64, object_store::Error>(read);
                    }
                    let start = number * STRIDE % ranges * bytes;
                    let options = GetOptions {
                        range: Some((start..start + bytes).into()),
                        if_match: tag.clone(),
                        ..GetOptions::default()
                    };
                    read +=
                        u64::from(store.get_opts(&path, options).await?.bytes().await?.len() as u64 == bytes);
                }
            })
        });
        let mut rows = 0;
        for reader in readers.collect::<Vec<_>>() {
            rows += reader.await??;
        }
        let seconds = began.elapsed().as_secs_f64();
        let cpu_s = client::cpu_seconds(std::process::id())? - cpu;
        Ok(Read { seconds, bytes: (bytes * count) as f64, rows, cpu_s })
    }
}

/// `Ranges.java`, running. Dropping it ends it.
struct Java {
    child: Child,
    commands: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Java {
    fn start(bed: &Bed) -> Result<Self> {
        let mut child = Command::new("java")
            .args(["-cp", &format!("{}:{}", bed.conf().display(), bed.class_path())])
            .arg(client::script("hdfs/Ranges.java"))
            .args([format!("{}{FILE}", bed.uri()), AT_ONCE.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot run hdfs/Ranges.java")?;
        let commands = child.stdin.take().context("the Java client has no input")?;
        let answers = BufReader::new(child.stdout.take().context("the Java client has no output")?).lines();
        Ok(Self { child, commands, answers })
    }

    fn read(&mut self, bytes: u64, count: u64) -> Result<Read> {
        writeln!(self.commands, "{bytes} {count}")?;
        let answer = self.answers.next().context("the Java client ended")??;
        serde_json::from_str(&answer).with_context(|| format!("the Java client said {answer}"))
    }
}

impl Drop for Java {
    fn drop(&mut self) {
        // It has nothing to save.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
