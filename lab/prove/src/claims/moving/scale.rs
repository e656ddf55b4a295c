//! What a ring of many cells takes: divisions that come together, what cells send each other while
//! nothing goes on, and the map.
//!
//! Cells are simulated (`sim --cells`), and so is time: no processor and no network is too slow
//! there. A command of the map is decided once who leads the agreement has synced it, one after the
//! other. The messages of the agreement itself are those of a real group in simulated time
//! (`crates/quorum/tests/group/steady.rs`). The map is that of the bench `map` of `service`.

use std::time::Duration;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::claim::{Claim, Measured};
use crate::claims::engine::{BENCH_MAX, bench_of};
use crate::claims::engine_tests::test;
use crate::claims::ring::simulator::built;
use crate::lab::Lab;
use measure::exec::Exec;
use measure::stats::{median, range};

/// The claims of this theme.
pub const CLAIMS: &[Claim] = &[
    Claim::new(
        "scale",
        "100 simulated cells, 30 divisions at once, each for a spare; commands take 1 ms each: \
         3 seeds (20)",
    )
    .bar("all are done within the simulated time of three in sequence")
    .by(divisions),
    Claim::new("scale.messages", "messages of a cell in a second, nothing going on")
        .bar(
            "the same of 10, 30 and 100 cells, within 10 %: of the leader of the agreement, of a \
             voter, and of any other cell, each time of the one that sends most",
        )
        .by(messages),
    Claim::new("scale.map", "the map of 1,000 cells, each leading a range with one copy")
        .bar("<= 300,000 bytes; who leads a slice is found in <= 10 ns")
        .by(map),
];

/// Cells of the ring that is divided, and those of them that lead nothing before.
const CELLS: u64 = 100;
const SPARES: u64 = 30;
/// Divisions at once, and in sequence.
const AT_ONCE: u64 = 30;
const IN_SEQUENCE: u64 = 3;
/// Seeds, in the quick and the full form.
const SEEDS: [u64; 2] = [3, 20];
/// How long a command is decided: a disk syncs the log. And other times, which are reported.
const DECIDES_US: u64 = 1000;
const DECIDES_TOO_US: [u64; 3] = [0, 500, 2000];
/// Cells of the rings in which messages are counted.
const SIZES: [u64; 3] = [10, 30, 100];
/// By which factor messages of rings may differ that are the same.
const SAME_MAX: f64 = 1.1;
/// Cells of the map, its bytes, and how long a lookup may take.
const MAP_CELLS: &str = "1000";
const BYTES_MAX: u64 = 300_000;
const LOOKUP_NS_MAX: f64 = 10.0;
/// Longest one simulated ring may take, and the agreement with its build.
const RING_MAX: Duration = Duration::from_secs(600);
const AGREEMENT_MAX: Duration = Duration::from_secs(900);

/// What the simulator says of one ring of many cells.
fn ring<T: DeserializeOwned>(sim: &Exec, words: &[(&str, u64)], last: &[&str]) -> Result<T> {
    let numbers = words.iter().map(|(name, number)| [format!("--{name}"), number.to_string()]);
    let given: Vec<String> = numbers.flatten().collect();
    sim.clone().args(given).args(last).json(RING_MAX)
}

/// What divisions have taken.
#[derive(Deserialize)]
struct Divided {
    took_ns: u64,
    commands: u64,
    keys: u64,
}

/// Divisions at once and in sequence, in rings of one seed.
struct Pair {
    seed: u64,
    decides_us: u64,
    at_once: Divided,
    in_sequence: Divided,
}

impl Pair {
    fn of(sim: &Exec, seed: u64, decides_us: u64) -> Result<Self> {
        let seed_word = seed.to_string();
        let divide = |count: u64, in_sequence: bool| {
            let ring_of = [("cells", CELLS), ("spares", SPARES)];
            let wanted = [("divide", count), ("decides-us", decides_us)];
            let how = if in_sequence { "--in-sequence" } else { "" };
            let last: Vec<&str> =
                [how, &seed_word].into_iter().filter(|it| !it.is_empty()).collect();
            ring(sim, &[ring_of, wanted].concat(), &last)
        };
        let (at_once, in_sequence) = (divide(AT_ONCE, false)?, divide(IN_SEQUENCE, true)?);
        Ok(Self { seed, decides_us, at_once, in_sequence })
    }

    fn part(&self) -> f64 {
        self.at_once.took_ns as f64 / self.in_sequence.took_ns as f64
    }

    /// How long it took at once, and in sequence.
    fn ms(&self) -> [f64; 2] {
        [&self.at_once, &self.in_sequence].map(|divided| divided.took_ns as f64 / 1e6)
    }

    fn line(&self) -> String {
        let Self { seed, decides_us, at_once, in_sequence } = self;
        let ([at_once_ms, in_sequence_ms], keys) = (self.ms(), at_once.keys);
        let (commands, in_sequence) = (at_once.commands, in_sequence.commands);
        format!(
            "seed {seed}, a command in {decides_us} us: {AT_ONCE} at once {at_once_ms:.0} ms, \
             {commands} commands; {IN_SEQUENCE} in sequence {in_sequence_ms:.0} ms, {in_sequence} \
             commands; all {keys} keys are read"
        )
    }
}

fn divisions(lab: &Lab) -> Result<Measured> {
    let sim = built(lab)?;
    let pair = |(seed, decides_us): (u64, u64)| {
        lab.detail(&format!("seed {seed}, {decides_us} us"));
        Pair::of(&sim, seed, decides_us)
    };
    let pairs = (0..lab.form(SEEDS)).map(|seed| pair((seed, DECIDES_US)));
    let pairs = pairs.collect::<Result<Vec<_>>>()?;
    let others = DECIDES_TOO_US.into_iter().map(|decides_us| pair((0, decides_us)));
    Ok(judge_divisions(&pairs, &others.collect::<Result<Vec<_>>>()?))
}

fn judge_divisions(pairs: &[Pair], others: &[Pair]) -> Measured {
    let Some(worst) = pairs.iter().max_by(|a, b| a.part().total_cmp(&b.part())) else {
        return Measured::not("nothing was divided");
    };
    let [at_once, in_sequence] = worst.ms();
    let others_too = others.iter().map(|pair| {
        let ([at_once, in_sequence], decides_ms) = (pair.ms(), pair.decides_us as f64 / 1e3);
        format!("{at_once:.0} and {in_sequence:.0} ms where a command takes {decides_ms} ms")
    });
    let text = format!(
        "{AT_ONCE} at once {at_once:.0} ms, {IN_SEQUENCE} in sequence {in_sequence:.0} ms, in the \
         worst of {} rings; {}",
        pairs.len(),
        others_too.collect::<Vec<_>>().join(", ")
    );
    let details = pairs.iter().chain(others).map(Pair::line).collect();
    Measured::new(text, worst.part(), worst.part() <= 1.0).with_details(details)
}

/// Messages of a cell in a second by kind: in the mean, and of the cell that sends most.
#[derive(Clone, Copy, Deserialize)]
struct Steady {
    heartbeats: [f64; 2],
    on_links: [f64; 2],
    maps: [f64; 2],
}

/// What a cell is in the agreement: a cell of each kind sends something else.
const PARTS: [&str; 3] = ["leader", "voter", "other"];

/// All messages of a ring of this number of cells.
struct Sent {
    cells: u64,
    steady: Steady,
    /// Of the agreement, by [`PARTS`], the most of one cell.
    agreement: [f64; 3],
}

impl Sent {
    /// By [`PARTS`], as if the cell that sends most of the one sends most of the other.
    fn most(&self) -> [f64; 3] {
        let Steady { heartbeats, on_links, maps } = self.steady;
        self.agreement.map(|agreement| agreement + heartbeats[1] + on_links[1] + maps[1])
    }

    fn line(&self) -> String {
        let Steady { heartbeats, on_links, maps } = self.steady;
        let [leader, voter, other] = self.agreement;
        format!(
            "{} cells, mean (most): heartbeats {:.1} ({:.1}), links {:.1} ({:.1}), maps {:.1} \
             ({:.1}); agreement {leader:.1} of its leader, {voter:.1} of a voter, {other:.1} of \
             another",
            self.cells, heartbeats[0], heartbeats[1], on_links[0], on_links[1], maps[0], maps[1],
        )
    }
}

fn messages(lab: &Lab) -> Result<Measured> {
    let sim = built(lab)?;
    let sent = |cells: u64| -> Result<Sent> {
        lab.detail(&format!("{cells} cells"));
        let steady = ring(&sim, &[("cells", cells)], &[])?;
        let group = test("quorum", &["group"]).args(["steady", "--", "--nocapture"]);
        let group = group.env("QUORUM_CELLS", cells.to_string()).cwd(lab.repo().root());
        let output = group.capture(AGREEMENT_MAX)?;
        let agreement = agreement(&output).with_context(|| format!("the group says {output:?}"))?;
        Ok(Sent { cells, steady, agreement })
    };
    Ok(judge_messages(&SIZES.into_iter().map(sent).collect::<Result<Vec<_>>>()?))
}

/// The numbers of `agreement of N cells: leader LEADER, voter VOTER, other OTHER`.
fn agreement(output: &str) -> Option<[f64; 3]> {
    let (_, numbers) = output.lines().find_map(|line| line.split_once("agreement of "))?;
    let (_, numbers) = numbers.split_once(" cells: ")?;
    let parsed = numbers.trim().split(", ").zip(PARTS).map(|(number, part)| {
        number.strip_prefix(part).and_then(|number| number.trim().parse().ok())
    });
    parsed.collect::<Option<Vec<f64>>>()?.try_into().ok()
}

fn judge_messages(sent: &[Sent]) -> Measured {
    let sizes: Vec<_> = sent.iter().map(|it| it.cells.to_string()).collect();
    let mut texts = Vec::new();
    let mut worst = 0.0_f64;
    for (part, name) in PARTS.into_iter().enumerate() {
        let all: Vec<_> = sent.iter().map(|it| it.most()[part]).collect();
        let Some((low, high)) = range(&all) else {
            return Measured::not("nothing was counted");
        };
        worst = worst.max(high / low);
        let all: Vec<_> = all.iter().map(|most| format!("{most:.0}")).collect();
        texts.push(format!("{name} {}", all.join(", ")));
    }
    let text = format!("{}, of {} cells", texts.join("; "), sizes.join(", "));
    Measured::new(text, worst, worst <= SAME_MAX)
        .with_details(sent.iter().map(Sent::line).collect())
}

/// What the bench `map` prints.
#[derive(Deserialize)]
struct Mapped {
    bytes: u64,
    /// Nanoseconds of a lookup, by run.
    apart_ns: Vec<f64>,
    /// The same where each lookup waits for the one before.
    chained_ns: Vec<f64>,
}

fn map(lab: &Lab) -> Result<Measured> {
    Ok(judge_map(&bench_of(lab, ("service", "map"), &[MAP_CELLS], BENCH_MAX)?))
}

fn judge_map(mapped: &Mapped) -> Measured {
    let Mapped { bytes, apart_ns, chained_ns } = mapped;
    let (Some(apart), Some(chained)) = (median(apart_ns), median(chained_ns)) else {
        return Measured::not("no lookup was timed");
    };
    let text = format!(
        "{bytes} bytes; a lookup {apart:.1} ns, {chained:.1} ns where each waits for the one before"
    );
    let line = |name: &str, all: &[f64]| {
        let all = all.iter().map(|ns| format!("{ns:.1}")).collect::<Vec<_>>();
        format!("{name}: {} ns", all.join(", "))
    };
    let holds = *bytes <= BYTES_MAX && apart <= LOOKUP_NS_MAX;
    Measured::new(text, apart, holds)
        .with_details(vec![line("lookups", apart_ns), line("one after the other", chained_ns)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::Verdict;

    #[test]
    fn the_worst_ring_counts() {
        let pair = |at_once_ms: u64, in_sequence_ms: u64| {
            let divided = |ms: u64| Divided { took_ns: ms * 1_000_000, commands: 24, keys: 350 };
            let (at_once, in_sequence) = (divided(at_once_ms), divided(in_sequence_ms));
            Pair { seed: 0, decides_us: 1000, at_once, in_sequence }
        };
        let verdict = |pairs: &[Pair]| judge_divisions(pairs, &[pair(9, 1)]).verdict;
        assert_eq!(verdict(&[pair(200, 300), pair(300, 300)]), Verdict::Pass);
        assert_eq!(verdict(&[pair(200, 300), pair(301, 300)]), Verdict::Fail);
        assert!(matches!(verdict(&[]), Verdict::NotMeasured(_)));
    }

    #[test]
    fn messages_that_grow_with_the_cells_fail_of_each_part() {
        let sent = |cells, beats, agreement| {
            let (heartbeats, nothing) = ([beats; 2], [0.0; 2]);
            let steady = Steady { heartbeats, on_links: nothing, maps: nothing };
            Sent { cells, steady, agreement }
        };
        let verdict = |sent: &[Sent]| judge_messages(sent).verdict;
        let ten = || sent(10, 80.0, [90.0, 13.0, 6.0]);
        assert_eq!(verdict(&[ten(), sent(100, 86.0, [92.0, 13.0, 0.0])]), Verdict::Pass);
        assert_eq!(verdict(&[ten(), sent(100, 80.0, [108.0, 13.0, 0.0])]), Verdict::Fail);
        assert_eq!(verdict(&[ten(), sent(100, 80.0, [90.0, 23.0, 0.0])]), Verdict::Fail);
        assert_eq!(verdict(&[ten(), sent(100, 80.0, [90.0, 13.0, 15.0])]), Verdict::Fail);
        assert_eq!(verdict(&[ten(), sent(100, 91.0, [90.0, 13.0, 6.0])]), Verdict::Fail);
        assert!(matches!(verdict(&[]), Verdict::NotMeasured(_)));
    }

    #[test]
    fn the_line_of_the_agreement_is_read_among_others() {
        let line = "agreement of 10 cells: leader 90.0, voter 13.4, other 6.6";
        let output = format!("running 1 test\n{line}\n.\n");
        assert_eq!(agreement(&output), Some([90.0, 13.4, 6.6]));
        assert_eq!(agreement("agreement of 10 cells: none\n"), None);
        assert_eq!(agreement("agreement of 10 cells: leader 90.0, voter 13.4\n"), None);
    }

    #[test]
    fn a_long_map_and_a_slow_lookup_fail() {
        let verdict = |bytes, ns| {
            judge_map(&Mapped { bytes, apart_ns: vec![ns], chained_ns: vec![30.0] }).verdict
        };
        assert_eq!(verdict(300_000, 10.0), Verdict::Pass);
        assert_eq!(verdict(300_001, 10.0), Verdict::Fail);
        assert_eq!(verdict(300_000, 10.1), Verdict::Fail);
    }
}
