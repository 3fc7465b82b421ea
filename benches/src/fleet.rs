//! Who decodes what in a very large fleet: a simulation of plans, without a byte read.

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::{Result, ensure};
use penstock_gateway::fleet::owners::Owners;
use penstock_gateway::partition::{Partition, StepShare};
use penstock_gateway::plan::{BlockShape, Order, Plan};
use penstock_proto::{Remainder, Shuffle, WorldSize};

use crate::median::median;
use crate::report::{Line, Report};

const FILES: u64 = 1_000_000;
const GATEWAYS: usize = 100;
const RANKS: u32 = 4096;
const LANES: u32 = 4096;
/// Feeds that are simulated; a figure is the mean of theirs.
const FEEDS: u64 = 5;

/// The loads of one feed, and what moves.
struct Simulated {
    /// Rows of the gateway that decodes most over the mean.
    rows: f64,
    /// The same of files that are opened.
    files: f64,
    /// The share of rows whose gateway is another when one has left, mean over all that may leave.
    moved: f64,
    /// Seconds that finding all owners took.
    seconds: f64,
}

pub(crate) fn run() -> Result<Report> {
    let feeds = (0..FEEDS).map(simulate).collect::<Result<Vec<_>>>()?;
    let mean = |figure: fn(&Simulated) -> f64| feeds.iter().map(figure).sum::<f64>() / FEEDS as f64;
    let seconds = median(feeds.iter().map(|feed| feed.seconds));
    let line = |what: &str, unit, figure| Line::cost(what, unit, figure, 0.0, BTreeMap::new());
    Ok(Report {
        title: format!(
            "fleet: {FILES} files, {GATEWAYS} gateways, {RANKS} ranks, {LANES} lanes, simulated; means of {FEEDS} feeds, time: median"
        ),
        lines: vec![
            line("rows decoded, most over mean", "x", mean(|feed| feed.rows)).at_most(1.25),
            line("files opened, most over mean", "x", mean(|feed| feed.files)).at_most(1.25),
            line("rows that move when one leaves, mean", "%", mean(|feed| feed.moved)).at_most(1.2),
            Line::cost("finding every lane's owner", "ms", 1e3 * seconds, seconds, BTreeMap::new()),
        ],
    })
}

fn simulate(seed: u64) -> Result<Simulated> {
    // Files of many sizes, as they come from jobs that partition by key.
    let blocks: Vec<BlockShape> = (0..FILES)
        .map(|file| {
            let rows = 500 + (file ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) % 1_000;
            BlockShape { rows, bytes: rows * 1024 }
        })
        .collect();
    let order = Order {
        batch_size: u64::from(LANES) * 8,
        lanes: Some(LANES),
        shuffle: Shuffle::Blocks,
        shuffle_bytes: 256 << 20,
        seed,
        remainder: Remainder::Drop,
    };
    let plan = Plan::new(&blocks, order)?;
    let work = lane_work(&plan)?;

    let names: Vec<String> = (0..GATEWAYS).map(|gateway| format!("grpc://gateway-{gateway}:8815")).collect();
    let key = seed.to_le_bytes();
    let began = Instant::now();
    let owners = Owners::new(&key, LANES, &names);
    let seconds = began.elapsed().as_secs_f64();
    let mut loads = vec![(0u64, 0u64); GATEWAYS];
    for (lane, (rows, files)) in (0..).zip(&work) {
        let load = &mut loads[owners.of(lane)];
        *load = (load.0 + rows, load.1 + files);
    }

    let mut moved = 0;
    for leaver in 0..GATEWAYS {
        let left: Vec<&String> = names.iter().filter(|name| **name != names[leaver]).collect();
        let after = Owners::new(&key, LANES, &left);
        let stays = |lane: u32| *left[after.of(lane)] == names[owners.of(lane)];
        moved += (0..).zip(&work).filter(|(lane, _)| !stays(*lane)).map(|(_, (rows, _))| rows).sum::<u64>();
    }
    let rows: u64 = work.iter().map(|(rows, _)| rows).sum();
    Ok(Simulated {
        rows: most_over_mean(loads.iter().map(|load| load.0)),
        files: most_over_mean(loads.iter().map(|load| load.1)),
        moved: 100.0 * moved as f64 / rows as f64 / GATEWAYS as f64,
        seconds,
    })
}

/// Of every lane the rows that ranks read of it, and the files that they lie in.
fn lane_work(plan: &Plan) -> Result<Vec<(u64, u64)>> {
    let epoch = plan.epoch(0);
    let world = WorldSize::new(RANKS).expect("a world has ranks");
    let mut work = vec![(0, 0); LANES as usize];
    for rank in world.ranks() {
        let partition = Partition::new(plan, world, rank)?;
        let Some(StepShare::Lanes(pieces)) = partition.step(0) else { continue };
        for piece in pieces {
            let all = 0..epoch.lane_rows(piece.lane);
            let of_lane = &mut work[piece.lane as usize];
            of_lane.0 += (piece.positions.end - piece.positions.start) * plan.steps();
            of_lane.1 += epoch.locate(piece.lane, all).count() as u64;
        }
    }
    let rows: u64 = work.iter().map(|(rows, _)| rows).sum();
    ensure!(rows + plan.dropped() == plan.rows(), "ranks read {rows} of {} rows", plan.rows());
    Ok(work)
}

fn most_over_mean(loads: impl ExactSizeIterator<Item = u64> + Clone) -> f64 {
    let mean = loads.clone().sum::<u64>() as f64 / loads.len() as f64;
    loads.max().unwrap_or(0) as f64 / mean
}
