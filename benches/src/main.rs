//! `make bench`: every bench measures us and a peer at the same work, in one run, and says what it saw.
//!
//! In: the name of one bench, or none for all. Out: a table on standard output and
//! `target/bench/NAME.json`. No bench asserts a time; whether a goal holds is data.

#![allow(clippy::print_stdout, reason = "a bench talks to a person")]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests state their expectations by unwrapping"))]

mod cache;
mod client;
mod composed;
mod decode;
mod feed;
mod fleet;
mod flight;
mod floor;
mod hdfs;
mod launch;
mod local;
mod median;
mod peer;
mod plan;
mod readers;
mod receive;
mod report;
mod sets;
mod trainer;
mod wire;

use anyhow::{Result, bail};

use crate::report::Report;

/// The one that the gateway runs under.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Bench = fn() -> Result<Report>;

/// Every bench by name.
const BENCHES: &[(&str, Bench)] = &[
    ("cache", cache::run),
    ("composed", composed::run),
    ("decode", decode::run),
    ("feed", feed::run),
    ("fleet", fleet::run),
    ("flight", flight::run),
    ("hdfs", hdfs::run),
    ("launch", launch::run),
    ("local", local::run),
    ("plan", plan::run),
    ("readers", readers::run),
    ("receive", receive::run),
    ("trainer", trainer::run),
    ("wire", wire::run),
];

fn main() -> Result<()> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    if let Some((first, rest)) = arguments.split_first()
        && first == receive::READ
    {
        return receive::read(rest);
    }
    let wanted = arguments.first().filter(|name| !name.is_empty());
    let known = || BENCHES.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    let chosen: Vec<_> =
        BENCHES.iter().filter(|(name, _)| wanted.is_none_or(|wanted| wanted == name)).collect();
    if chosen.is_empty() {
        bail!("no bench is called {}: there are {}", wanted.map_or("", String::as_str), known());
    }
    for (name, bench) in chosen {
        let report = bench()?;
        println!("{report}");
        report.write(name)?;
    }
    Ok(())
}
