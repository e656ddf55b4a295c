//! `sim SEED` replays one run; `sim --seeds A..B` runs many, and reports those that fail.
//! `sim SEED --cells N` simulates a ring of N cells without faults.
#![forbid(unsafe_code)]

use clap::Parser;
use sim::{BELOW, Divided, Divisions, Interrupted, KINDS, Kind, Many, STEPS, Steady};
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Instant;

/// Simulates rings of cells with faults, each from its seed.
#[derive(Parser)]
#[command(name = "sim", version)]
struct Cli {
    /// The seed of one run.
    seed: Option<u64>,
    /// Print the steps of the run.
    #[arg(long)]
    trace: bool,
    /// The seeds of many runs: from A on, before B.
    #[arg(long, value_name = "A..B", value_parser = range)]
    seeds: Option<(u64, u64)>,
    /// Stop after this many runs that fail.
    #[arg(long, default_value_t = u64::MAX)]
    fails: u64,
    /// Let faults come for this number of minutes of simulated time, and not for some seconds.
    #[arg(long)]
    minutes: Option<u64>,
    /// Each cell is above a tier, with a journal on a disk of its own, and all share a bucket.
    #[arg(long)]
    tier: bool,
    /// A ring of this number of cells without faults: print what they send each other in a second
    /// while nothing goes on. What divisions take is printed where some are wanted.
    #[arg(long, conflicts_with_all = ["seeds", "minutes", "tier", "trace"])]
    cells: Option<usize>,
    /// Of these cells, how many lead nothing in the beginning.
    #[arg(long, default_value_t = 0, requires = "cells")]
    spares: usize,
    /// Divide this number of ranges, each for a spare.
    #[arg(long, requires = "cells")]
    divide: Option<usize>,
    /// Divide each range once the ring is healthy with those before; without it all at once.
    #[arg(long, requires = "divide")]
    in_sequence: bool,
    /// How long the agreement decides one command then, in microseconds.
    #[arg(long, default_value_t = 0, requires = "divide")]
    decides_us: u64,
}

impl Cli {
    fn wanted(&self) -> sim::Wanted {
        sim::Wanted { prints: self.trace, minutes: self.minutes, tier: self.tier }
    }
}

fn range(text: &str) -> Result<(u64, u64), String> {
    let parts = text.split_once("..").ok_or("write it as A..B")?;
    let number = |text: &str| text.parse().map_err(|error| format!("{text}: {error}"));
    Ok((number(parts.0)?, number(parts.1)?))
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    if let Some(cells) = cli.cells {
        return many(&cli, Many { cells, spares: cli.spares.min(cells) });
    }
    let (from, until) = match (cli.seeds, cli.seed) {
        (Some(seeds), _) => seeds,
        (None, Some(seed)) => return one(seed, cli.wanted()),
        (None, None) => (0, 100),
    };
    let (start, mut failed) = (Instant::now(), 0);
    let mut interrupted = Interrupted::default();
    let (mut faults, mut sums, mut least) = (BTreeMap::new(), [0; 14], [u64::MAX; 2]);
    let mut copy_reads = [0; 2];
    for seed in from..until {
        let report = sim::run(seed, cli.wanted());
        if let Some(fault) = &report.fault {
            failed += 1;
            println!("seed {seed}: {fault}");
        }
        for (kind, count) in report.faults {
            *faults.entry(kind).or_insert(0) += count;
        }
        interrupted.add_all(&report.interrupted);
        copy_reads.iter_mut().zip(report.copy_reads).for_each(|(sum, count)| *sum += count);
        let [left, stayed] = report.left;
        let counts = [1, report.requests, report.answered, report.promotions, left, stayed];
        let [moves, learned, divided, replaced, united] = report.moves;
        let rest = [report.losses, report.forgiven, report.drops];
        let rest = rest.into_iter().chain([moves, learned, divided, replaced, united]);
        sums.iter_mut().zip(counts.into_iter().chain(rest)).for_each(|(sum, count)| *sum += count);
        least = [least[0].min(report.simulated_ns / 1_000_000_000), least[1].min(report.requests)];
        if failed >= cli.fails {
            break;
        }
    }
    let [runs, requests, answered, promotions, left, stayed, rest @ ..] = sums;
    let [losses, forgiven, drops, moves, learned, divided, replaced, united] = rest;
    println!(
        "{runs} runs in {:.1} s, {failed} failed; {requests} requests, {answered} answered; \
         {promotions} promotions, {moves} of them handed over ({learned} to who learned for that), \
         {divided} ranges divided, {united} made of two, {replaced} copies replaced, \
         {stayed} of {left} other copies stayed in sync, {losses} ranges lost, {forgiven} \
         forgiven, {drops} batches dropped",
        start.elapsed().as_secs_f64()
    );
    let [least_s, least_requests] = least;
    println!("each run has {least_s} s of simulated time and {least_requests} requests at least");
    let [by_copies, refused] = copy_reads;
    println!("copies have answered {by_copies} reads, and refused {refused}");
    println!("faults: {faults:?}");
    for step in STEPS {
        let below = BELOW.iter().filter(|_| cli.tier);
        let kinds = KINDS.iter().chain(below).filter(|kind| **kind != Kind::Jump || !cli.tier);
        let count = |kind: &Kind| format!("{kind:?} {}", interrupted.count(step, *kind));
        println!("during {step:?}: {}", kinds.map(count).collect::<Vec<_>>().join(", "));
    }
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// A ring of many cells. Prints one line of JSON.
fn many(cli: &Cli, many: Many) -> ExitCode {
    let seed = cli.seed.unwrap_or(0);
    let said = match cli.divide {
        Some(count) => {
            let (in_sequence, decides_ns) = (cli.in_sequence, cli.decides_us * 1000);
            let said = sim::divisions(seed, many, Divisions { count, in_sequence, decides_ns });
            said.map(|Divided { took_ns, commands, keys }| {
                format!(r#"{{"took_ns": {took_ns}, "commands": {commands}, "keys": {keys}}}"#)
            })
        }
        None => sim::steady(seed, many).map(|Steady { heartbeats, on_links, maps }| {
            format!(
                r#"{{"heartbeats": {heartbeats:?}, "on_links": {on_links:?}, "maps": {maps:?}}}"#
            )
        }),
    };
    match said {
        Ok(said) => {
            println!("{said}");
            ExitCode::SUCCESS
        }
        Err(fault) => {
            eprintln!("seed {seed}: {fault}");
            ExitCode::FAILURE
        }
    }
}

fn one(seed: u64, wanted: sim::Wanted) -> ExitCode {
    let report = sim::run(seed, wanted);
    print!("{}", report.trace);
    println!(
        "seed {seed}: {} steps in {} ms of simulated time, {} requests, {} answered, \
         {} promotions, {} handed over, {} ranges lost, {} forgiven, {} batches dropped, hash \
         {:016x}",
        report.steps,
        report.simulated_ns / 1_000_000,
        report.requests,
        report.answered,
        report.promotions,
        report.moves[0],
        report.losses,
        report.forgiven,
        report.drops,
        report.hash
    );
    match report.fault {
        None => ExitCode::SUCCESS,
        Some(fault) => {
            println!("seed {seed}: {fault}");
            ExitCode::FAILURE
        }
    }
}
