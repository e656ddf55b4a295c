//! Cells of a ring above one bucket are killed while they are written to, again and again.
//!
//! ```text
//! writers send        SIGKILL: one cell | one after the other | all at once
//! ----------------------->|              all copies again     what may have changed is read
//!                         |<--------------------------------->|<------------------------->|
//! ```
//!
//! The bucket is an emulator of S3, and all cells share it. `volvox up` starts each cell again that
//! has ended. Writers are those of one cell (`kill`): each knows what its keys must hold, with
//! tokens and times to live, and has one request of a key under way at most, since a ring keeps no
//! order of more where the primary of a range changes. A third of the kills is for one cell, which
//! no writer is connected to; a third is for each cell in turn, without waiting for what the last
//! kill has taken away; and a third for all at once, as a power cut is. Half of them come at level
//! `os`, and half at `disk`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use measure::clock::mono_ns;
use measure::process::emulators::{BUCKET, Emulator};
use measure::process::{Server, accepts};
use measure::rng::Rng;
use measure::stats::{median, range};
use rustix::process::Signal;

use super::kill::writer::{Tally, Writer};
use super::kill::{each, judged};
use crate::claim::Claim;
use crate::instruments::{Given, Ring};
use crate::lab::Lab;

/// The claims of this theme.
pub const CLAIMS: &[Claim] = &[Claim::new(
    "ring.values",
    "cells of a ring above one bucket of S3 killed, one by one and all: acknowledged changes lost",
)
.bar("none, none undone, no wrong bytes, >= 20 kills (300)")
.by(|lab| {
    let seen = carry_out(lab, lab.form(KILLS))?;
    Ok(judged(&seen.tally, (seen.kills, lab.form(KILLS)), seen.ended.is_some(), seen.details()))
})];

/// Kills, of one cell or more, in the quick and the full form.
const KILLS: [usize; 2] = [20, 300];
/// The longest that all may take at one level.
const TIME_MAX: [Duration; 2] = [Duration::from_secs(240), Duration::from_secs(2 * 3600)];
/// The levels that lose nothing where processes end.
const LEVELS: [&str; 2] = ["os", "disk"];
/// Writers, and the keys of each: 36 MB in all.
const WRITERS: usize = 6;
const KEYS: usize = 2_000;
/// What every key of theirs begins with.
const PREFIX: &str = "r:";
/// How long a writer rests after up to 16 requests: cells and emulator share the cores.
const PACE: Duration = Duration::from_millis(5);
/// Memory of each cell, in MiB: a third of what is stored.
const MEMORY_MIB: u64 = 24;
const FLAGS: &str = "--tier-ring-preview --tier-age-s 1 --tier-journal 128MiB \
                     --tier-page-bytes 64KiB --item-bytes-max 64KiB";
/// Keys of each writer that are read though they were not changed.
const OTHERS: usize = 100;
/// When kills come after the beginning of the load, and after one another.
const LOAD_MS: [u64; 2] = [50, 800];
const NEXT_MS: u64 = 400;

/// Which cells a kill is for.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    One,
    InTurn,
    All,
}

const KINDS: [Kind; 3] = [Kind::One, Kind::All, Kind::InTurn];

/// What kills have done.
#[derive(Default)]
struct Seen {
    seed: u64,
    kills: usize,
    /// Those of each kind.
    kinds: [usize; KINDS.len()],
    tally: Tally,
    /// How long it took until everything had its copies again, in seconds.
    whole_s: Vec<f64>,
    /// Why it ended before its time.
    ended: Option<String>,
}

fn carry_out(lab: &Lab, kills: usize) -> Result<Seen> {
    let mut seen = Seen { seed: mono_ns(), ..Seen::default() };
    for level in LEVELS {
        let wanted = seen.kills + kills / LEVELS.len();
        let mut writers: Vec<Writer> = (0..WRITERS)
            .map(|id| Writer::new(id, PREFIX, KEYS, seen.seed ^ wanted as u64))
            .map(|writer| writer.paced(PACE).one_each())
            .collect();
        let (service, ring) = start(lab, level).with_context(|| format!("start at {level}"))?;
        let ended = at_level(lab, ring, (level, wanted), &mut writers, &mut seen);
        service.stop()?;
        writers.iter().for_each(|writer| seen.tally.add(&writer.tally));
        if let Err(error) = ended {
            seen.ended = Some(format!("at {level}: {error:#}"));
            break;
        }
    }
    Ok(seen)
}

/// A bucket, and a ring above it.
fn start(lab: &Lab, level: &str) -> Result<(Server, Ring)> {
    let service = Emulator::S3.start_beside(&lab.folder().join("emulators"))?;
    let given = Given {
        flags: format!("--tier-database s3://{BUCKET}/ring --tier-ack {level} {FLAGS}"),
        environment: Emulator::S3.environment(service.address()),
        ..Given::default()
    };
    let ring = Ring::start_with(lab, MEMORY_MIB, None, &given, accepts)?;
    Ok((service, ring))
}

/// Kills until there were `wanted` in all, and reads everything through each cell.
fn at_level(
    lab: &Lab,
    mut ring: Ring,
    (level, wanted): (&str, usize),
    writers: &mut [Writer],
    seen: &mut Seen,
) -> Result<()> {
    lab.detail("the keys are stored");
    let at = ring.cells()[0].address;
    each(writers, |writer| writer.fill(at))?;
    let (began, mut rng) = (Instant::now(), Rng::new(seen.seed, wanted as u64));
    while seen.kills < wanted && began.elapsed() < lab.form(TIME_MAX) {
        let nth = seen.kills + 1;
        lab.detail(&format!("kill {nth}, at {level}"));
        let kind = seen.kills % KINDS.len();
        let victim = rng.below(ring.cells().len() as u64) as usize;
        let again = killed(&mut ring, writers, (KINDS[kind], victim), &mut rng);
        let again = again.with_context(|| format!("kill {nth}"))?;
        (seen.kills, seen.kinds[kind]) = (nth, seen.kinds[kind] + 1);
        seen.whole_s.push(again.as_secs_f64());
        let through = ring.cells()[nth % ring.cells().len()].address;
        let read = each(writers, |writer| writer.check(through, OTHERS));
        read.with_context(|| format!("read after kill {nth}"))?;
    }
    lab.detail("all keys are read");
    for cell in ring.cells() {
        each(writers, |writer| writer.check_all(cell.address))?;
    }
    ring.stop()
}

/// Kills under load, and waits until everything has its copies again; how long that took.
fn killed(
    ring: &mut Ring,
    writers: &mut [Writer],
    (kind, victim): (Kind, usize),
    rng: &mut Rng,
) -> Result<Duration> {
    let (version, cells) = (ring.whole()?[0].version, ring.cells().len());
    // From the victim on, so that each is the first of them at times.
    let victims = (0..cells).map(|more| (victim + more) % cells);
    let victims: Vec<usize> = match kind {
        Kind::One => vec![victim],
        Kind::InTurn | Kind::All => victims.collect(),
    };
    let others = (0..cells).filter(|cell| kind != Kind::One || *cell != victim);
    let others: Vec<_> = others.map(|cell| ring.cells()[cell].address).collect();
    let (is_over, stops) = (AtomicBool::new(false), kind == Kind::One);
    let ends = || is_over.store(true, Ordering::SeqCst);
    let began = thread::scope(|scope| {
        for (writer, at) in writers.iter_mut().zip(others.iter().cycle()) {
            let is_over = &is_over;
            scope.spawn(move || writer.load(*at, is_over, stops));
        }
        // The moments are drawn: nothing is waited for.
        thread::sleep(drawn(rng, LOAD_MS));
        // A connection to a cell that is not killed must last.
        if !stops {
            ends();
        }
        let began = Instant::now();
        // Each is killed, or a writer goes on for ever.
        let killed = victims.iter().enumerate().map(|(nth, cell)| {
            if kind == Kind::InTurn && nth > 0 {
                thread::sleep(drawn(rng, [0, NEXT_MS]));
            }
            ring.signal(*cell, Signal::KILL)
        });
        let killed: Vec<Result<()>> = killed.collect();
        if stops {
            thread::sleep(drawn(rng, LOAD_MS));
            ends();
        }
        killed.into_iter().collect::<Result<()>>().map(|()| began)
    })?;
    victims.iter().try_for_each(|cell| ring.restarted(*cell))?;
    ring.whole_after(version)?;
    Ok(began.elapsed())
}

fn drawn(rng: &mut Rng, [least, most]: [u64; 2]) -> Duration {
    Duration::from_millis(least + rng.below(most - least))
}

impl Seen {
    fn details(&self) -> Vec<String> {
        let [one, all, in_turn] = self.kinds;
        let (middle, longest) = (median(&self.whole_s), range(&self.whole_s).map(|it| it.1));
        let [middle, longest] = [middle, longest].map(|it| it.unwrap_or(0.0));
        let mut lines = vec![
            format!(
                "seed {}; {one} kills of one cell, {in_turn} of all in turn, {all} of all at once",
                self.seed
            ),
            format!(
                "everything had its copies again after {middle:.1} s in the middle, {longest:.1} s \
                 at most"
            ),
            self.tally.line(),
        ];
        lines.extend(self.ended.iter().map(|why| format!("it ended before its time: {why}")));
        lines.extend(self.tally.complaints.clone());
        lines
    }
}
