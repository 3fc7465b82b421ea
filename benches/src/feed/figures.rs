//! The figures of one set as a table, and what penstock's are held to.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};

use super::feeder::Fed;
use super::{Fair, OURS, PARQUET};
use crate::report::Line;

/// All tools at one set.
pub(super) fn table(fair: &Fair) -> String {
    let mut table = format!(
        "{:<18} {:<10} {:>10} {:>9} {:>9} {:>9} {:>9} {:>8} | {:>10} {:>9}\n",
        fair.set,
        "reads",
        "rows/s",
        "cpu s/GB",
        "trainer",
        "batch 1 s",
        "epoch 1 s",
        "peak MB",
        "as numpy",
        "cpu s/GB"
    );
    for fed in &fair.fed {
        let versions: Vec<_> =
            fed.versions.iter().map(|(name, version)| format!("{name} {version}")).collect();
        let as_numpy = fed.as_numpy.map_or_else(
            || format!("{:>10} {:>9}", "-", "-"),
            |alone| format!("{:>10.0} {:>9.2}", alone.rows_a_second, alone.cpu_s_a_gb),
        );
        let first_epoch = fed.first_epoch_s.map_or_else(|| "-".to_owned(), |seconds| format!("{seconds:.2}"));
        table += &format!(
            "{:<18} {:<10} {:>10.0} {:>9.2} {:>9.3} {:>9.2} {first_epoch:>9} {:>8.0} | {as_numpy}  {}\n",
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
    for (what, why) in &fair.absent {
        table += &format!("{what:<18} {why}\n");
    }
    for (parquet, what) in [(true, "on Parquet"), (false, "on a format of its own")] {
        if let Some(peer) = fastest(fair, parquet) {
            table += &format!("best peer {what}: {}, {:.0} rows/s\n", peer.tool, peer.rows_a_second);
        }
    }
    table
}

/// What penstock must reach at one set, beside the best of the others.
pub(super) fn lines(fair: &Fair, transport: f64) -> Result<Vec<Line>> {
    let set = &fair.set;
    let ours = fair.fed.iter().find(|fed| fed.tool == OURS);
    let why = || fair.absent.get(OURS).cloned().unwrap_or_default();
    let ours = ours.with_context(|| format!("penstock does not feed {set}: {}", why()))?;
    let others = || fair.fed.iter().filter(|fed| fed.tool != OURS);
    let cheapest = |cost: fn(&Fed) -> f64| others().min_by(|one, other| cost(one).total_cmp(&cost(other)));

    let mut rates = BTreeMap::from([("decoding alone".to_owned(), fair.decoded.rows_a_second)]);
    let mut required = 0.0f64;
    for (parquet, times) in [(true, 3.0), (false, 1.5)] {
        if let Some(peer) = fastest(fair, parquet) {
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

/// The fastest peer on Parquet, or on formats that peers have of their own.
fn fastest(fair: &Fair, parquet: bool) -> Option<&Fed> {
    let others = fair.fed.iter().filter(|fed| fed.tool != OURS);
    others
        .filter(|fed| (fed.format == PARQUET) == parquet)
        .max_by(|one, other| one.rows_a_second.total_cmp(&other.rows_a_second))
}
