//! Batches of Parquet to a training loop: penstock beside the tools that people have, at the same sets, in one run.
//!
//! Every tool runs in a process of its own and feeds for a few seconds, epoch after epoch, to the same loop over a
//! `tf.data.Dataset`, which reads the rows' ids; ids, shapes, types and values are checked. A tool that is not to be had,
//! fails or feeds something else is said so. What tools reach on their own, as numpy, stands beside it; nothing is held to that.

mod feeder;
mod figures;
mod tree;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use self::feeder::{AsNumpy, Fed, Loop, Tool};
use crate::client;
use crate::floor::{self, Decoded};
use crate::report::Report;
use crate::sets::{self, Set};

/// What a tool may use of each set, and of its arrays alone.
const SECONDS: u64 = 5;
const SECONDS_AS_NUMPY: u64 = 2;
/// Feedings a figure is the median of, of those tools that reach half of what the fastest does.
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

/// What came of one set; also what the plot is made of.
#[derive(Debug, Serialize)]
struct Fair {
    set: String,
    decoded: Decoded,
    fed: Vec<Fed>,
    /// What is not there, and why: tools, and figures of theirs.
    absent: BTreeMap<String, String>,
}

pub(crate) fn run() -> Result<Report> {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target");
    let (data, sets) = sets::make()?;
    let tools = tools(&target.join("bench-peers"))?;
    let mut fairs = Vec::new();
    for set in &sets {
        let fair = fair(set, &tools, &data)?;
        println!("{}", figures::table(&fair));
        fairs.push(fair);
    }
    draw(&fairs, &target)?;
    let transport = floor::unix_socket()?;
    let mut lines = Vec::new();
    for fair in &fairs {
        lines.extend(figures::lines(fair, transport)?);
    }
    Ok(Report {
        title: format!(
            "feed: {SECONDS} s from the first batch on, epoch after epoch, to the same loop over a tf.data.Dataset for every tool; penstock \
             shuffles rows, its peers read in file order, which is easier; medians of {RUNS} runs of those that reach half of the fastest; what \
             a first epoch takes, and what tools reach as numpy, without TensorFlow, is in the tables above, and no goal is held against it"
        ),
        lines,
    })
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
        serde_json::from_slice(&client::output("feed/environments.py", directory)?)?;
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
    let decoded = floor::decode(&set.files(data)?, set.lists, set.rows, set.row_bytes)?;
    let mut runs: Vec<Vec<Fed>> = vec![Vec::new(); tools.len()];
    let mut absent = BTreeMap::new();
    for _ in 0..RUNS {
        let fastest =
            runs.iter().filter_map(|runs| runs.first()).map(|run| run.rows_a_second).fold(0.0, f64::max);
        for (tool, runs) in tools.iter().zip(&mut runs) {
            let is_slow =
                runs.first().is_some_and(|run| run.rows_a_second < fastest / 2.0) && tool.name != OURS;
            if is_slow || absent.contains_key(tool.name) {
                continue;
            }
            match tool.feed(set, data, Loop::Tensors, SECONDS) {
                Ok(run) => runs.push(run),
                Err(error) => {
                    absent.insert(tool.name.to_owned(), format!("{error:#}"));
                    runs.clear();
                }
            }
        }
    }
    let mut fed: Vec<Fed> = runs.iter().filter_map(|runs| feeder::median_of(runs)).collect();
    for fed in fed.iter_mut().filter(|fed| fed.makes_arrays) {
        let Some(tool) = tools.iter().find(|tool| tool.name == fed.tool) else { continue };
        match tool.feed(set, data, Loop::Arrays, SECONDS_AS_NUMPY) {
            Ok(run) => {
                fed.as_numpy = Some(AsNumpy { rows_a_second: run.rows_a_second, cpu_s_a_gb: run.cpu_s_a_gb });
            }
            Err(error) => {
                absent.insert(format!("{} as numpy", fed.tool), format!("{error:#}"));
            }
        }
    }
    fed.sort_by(|one, other| other.rows_a_second.total_cmp(&one.rows_a_second));
    Ok(Fair { set: set.name.clone(), decoded, fed, absent })
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
