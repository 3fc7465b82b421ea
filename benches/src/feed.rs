//! Batches of Parquet to a training loop: penstock beside the tools that people have, at the same sets, in one run.
//!
//! Every tool runs in a process of its own and feeds one epoch, for a few seconds at most, to a loop that touches a byte a
//! batch; ids, shapes, types and values are checked. A tool that is not to be had, fails or feeds something else is said so.

mod decode;
mod feeder;
mod tree;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use serde::{Deserialize, Serialize};

use self::decode::Decoded;
use self::feeder::{Fed, Tool};
use crate::client;
use crate::report::{Line, Report};

/// What a tool may use of each set.
const SECONDS: u64 = 10;
/// Feedings a figure is the median of, of tools that are done with an epoch in less than half of their time.
const RUNS: usize = 3;
const OURS: &str = "penstock";
const PARQUET: &str = "Parquet";

/// Tools by name and module; whose module has an environment of its own, by its name.
const TOOLS: &[(&str, &str, Option<&str>)] = &[
    (OURS, "penstock_tf", None),
    ("pyarrow iter", "pyarrow_iter", None),
    ("pyarrow scanner", "pyarrow_scanner", None),
    ("pyarrow Flight", "pyarrow_flight", None),
    ("TFRecord", "tfrecord", None),
    ("tf.data service", "tfdata_service", None),
    ("Hugging Face", "huggingface", Some("huggingface")),
    ("MosaicML", "mosaicml", Some("mosaicml")),
    ("LitData", "litdata_stream", Some("litdata")),
    ("Petastorm", "petastorm_reader", Some("petastorm")),
    ("Ray Data", "ray_data", Some("ray")),
    ("grain", "grain_loader", Some("grain")),
    ("torch DataLoader", "torch_loader", Some("torch")),
];

/// One set, as the scripts describe it.
#[derive(Debug, Deserialize)]
struct Set {
    name: String,
    rows: u64,
    row_bytes: u64,
    lists: bool,
}

/// What came of one set; also what the plot is made of.
#[derive(Debug, Serialize)]
struct Fair {
    set: String,
    decoded: Decoded,
    fed: Vec<Fed>,
    absent: BTreeMap<&'static str, String>,
}

pub(crate) fn run() -> Result<Report> {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target");
    let data = target.join("bench/feed-data");
    let sets: Vec<Set> = serde_json::from_slice(&python("feed/make_data.py", &data)?)?;
    let tools = tools(&target.join("bench-peers"))?;
    let mut fairs = Vec::new();
    for set in &sets {
        let fair = fair(set, &tools, &data)?;
        println!("{}", table(&fair));
        fairs.push(fair);
    }
    draw(&fairs, &target)?;
    let transport = decode::transport()?;
    let mut lines = Vec::new();
    for fair in &fairs {
        lines.extend(self::lines(fair, transport)?);
    }
    Ok(Report {
        title: format!(
            "feed: one epoch, {SECONDS} s from the first batch at most, to a loop that touches a byte a batch; penstock shuffles rows, its peers read \
             in file order; medians of {RUNS} runs where these are short"
        ),
        lines,
    })
}

/// Runs a script that makes something in a directory; what it printed.
fn python(script: &str, directory: &Path) -> Result<Vec<u8>> {
    let output = Command::new(client::python())
        .arg(client::script(script))
        .arg(directory)
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot run {script}"))?;
    ensure!(output.status.success(), "{script} ended with {}", output.status);
    Ok(output.stdout)
}

/// All tools, those without an environment with the reason.
fn tools(directory: &Path) -> Result<Vec<Tool>> {
    #[derive(Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Found {
        Python(String),
        Missing(String),
    }
    let mut found: BTreeMap<String, Found> =
        serde_json::from_slice(&python("feed/environments.py", directory)?)?;
    let mut interpreter = |environment: Option<&str>| match environment.map(|name| found.remove(name)) {
        None => Ok(client::python().display().to_string()),
        Some(Some(Found::Python(python))) => Ok(python),
        Some(Some(Found::Missing(why))) => Err(why),
        Some(None) => Err("it has no environment".to_owned()),
    };
    Ok(TOOLS
        .iter()
        .map(|&(name, module, environment)| Tool { name, module, python: interpreter(environment) })
        .collect())
}

/// Feeds one set by every tool, in rounds.
fn fair(set: &Set, tools: &[Tool], data: &Path) -> Result<Fair> {
    let files = files(&data.join(&set.name))?;
    let decoded = decode::alone(&files, set.lists, set.rows, set.row_bytes)?;
    let mut runs: Vec<Vec<Fed>> = vec![Vec::new(); tools.len()];
    let mut absent = BTreeMap::new();
    for _ in 0..RUNS {
        for (tool, runs) in tools.iter().zip(&mut runs) {
            let long = runs.first().is_some_and(|run| run.seconds > SECONDS as f64 / 2.0);
            if long || absent.contains_key(tool.name) {
                continue;
            }
            match tool.feed(&set.name, set.row_bytes, data, SECONDS) {
                Ok(run) => runs.push(run),
                Err(error) => {
                    absent.insert(tool.name, format!("{error:#}"));
                    runs.clear();
                }
            }
        }
    }
    let mut fed: Vec<Fed> = runs.iter().filter_map(|runs| feeder::median_of(runs)).collect();
    fed.sort_by(|one, other| other.rows_a_second.total_cmp(&one.rows_a_second));
    Ok(Fair { set: set.name.clone(), decoded, fed, absent })
}

fn files(directory: &Path) -> Result<Vec<PathBuf>> {
    let entries =
        std::fs::read_dir(directory).with_context(|| format!("cannot list {}", directory.display()))?;
    entries.map(|entry| Ok(entry?.path())).collect()
}

/// All tools at one set.
fn table(fair: &Fair) -> String {
    let mut table = format!(
        "{:<18} {:<10} {:>10} {:>9} {:>9} {:>9} {:>8}\n",
        fair.set, "reads", "rows/s", "cpu s/GB", "trainer", "first s", "peak MB"
    );
    for fed in &fair.fed {
        let versions: Vec<_> =
            fed.versions.iter().map(|(name, version)| format!("{name} {version}")).collect();
        table += &format!(
            "{:<18} {:<10} {:>10.0} {:>9.2} {:>9.3} {:>9.2} {:>8.0}  {}\n",
            fed.tool,
            fed.format,
            fed.rows_a_second,
            fed.cpu_s_a_gb,
            fed.trainer_cpu_s_a_gb,
            fed.first_batch_s,
            fed.peak_mb,
            versions.join(", ")
        );
    }
    table += &format!(
        "{:<18} {:<10} {:>10.0} {:>9.2}\n",
        "decoding alone", PARQUET, fair.decoded.rows_a_second, fair.decoded.cpu_s_a_gb
    );
    for (tool, why) in &fair.absent {
        table += &format!("{tool:<18} {why}\n");
    }
    table
}

/// Draws `benches/feed.png`, where matplotlib is to be had.
fn draw(fairs: &[Fair], target: &Path) -> Result<()> {
    let (figures, picture) = (target.join("bench/feed-tools.json"), client::script("feed.png"));
    std::fs::write(&figures, serde_json::to_vec_pretty(fairs)?)?;
    let drawn = Command::new(target.join("bench-peers/plot/bin/python"))
        .arg(client::script("feed/plot.py"))
        .args([&figures, &picture])
        .status();
    match drawn {
        Ok(status) if status.success() => println!("{}", picture.display()),
        other => println!("no plot was drawn: {other:?}"),
    }
    Ok(())
}

/// What penstock must reach at one set, beside the best of the others.
fn lines(fair: &Fair, transport: f64) -> Result<Vec<Line>> {
    let set = &fair.set;
    let ours = fair.fed.iter().find(|fed| fed.tool == OURS);
    let why = || fair.absent.get(OURS).cloned().unwrap_or_default();
    let ours = ours.with_context(|| format!("penstock does not feed {set}: {}", why()))?;
    let others = || fair.fed.iter().filter(|fed| fed.tool != OURS);
    let fastest = |parquet: bool| {
        let of_kind = others().filter(|fed| (fed.format == PARQUET) == parquet);
        of_kind.max_by(|one, other| one.rows_a_second.total_cmp(&other.rows_a_second))
    };
    let cheapest = |cost: fn(&Fed) -> f64| others().min_by(|one, other| cost(one).total_cmp(&cost(other)));

    let mut rates = BTreeMap::from([("decoding alone".to_owned(), fair.decoded.rows_a_second)]);
    let mut required = 0.0f64;
    for (parquet, times) in [(true, 3.0), (false, 1.5)] {
        if let Some(peer) = fastest(parquet) {
            rates.insert(peer.tool.to_owned(), peer.rows_a_second);
            required = required.max(times * peer.rows_a_second);
        }
    }
    let required = required.min(fair.decoded.rows_a_second / 2.0);
    let of_all = cheapest(|fed| fed.cpu_s_a_gb);
    let floor = fair.decoded.cpu_s_a_gb + 1.5 * transport;
    let allowed = of_all.map_or(floor, |peer| floor.max(peer.cpu_s_a_gb / 2.0));
    let of_trainer = cheapest(|fed| fed.trainer_cpu_s_a_gb);
    let named = |peer: Option<&Fed>, cost: fn(&Fed) -> f64| {
        peer.map(|peer| (peer.tool.to_owned(), cost(peer))).into_iter().collect::<BTreeMap<_, _>>()
    };
    let rate = Line::rate(format!("{set}: rows"), "rows/s", ours.rows_a_second, ours.cpu_s_a_gb, rates);
    let best = rate.peers.values().copied().fold(0.0, f64::max);
    let all = named(of_all, |fed| fed.cpu_s_a_gb);
    let trainer = named(of_trainer, |fed| fed.trainer_cpu_s_a_gb);
    Ok(vec![
        rate.must_reach(required / best),
        Line::cost(format!("{set}: CPU of all"), "s/GB", ours.cpu_s_a_gb, ours.cpu_s_a_gb, all)
            .at_most(allowed),
        Line::cost(
            format!("{set}: CPU in the trainer"),
            "s/GB",
            ours.trainer_cpu_s_a_gb,
            ours.trainer_cpu_s_a_gb,
            trainer,
        )
        .must_stay_within(0.1),
    ])
}
