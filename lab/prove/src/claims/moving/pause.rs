//! How long clients wait while a range is handed over to another cell.
//!
//! ```text
//! requests: ----| sent ------ waits for the new primary ------ answered |----
//! range:      ordered ......... sealed ......... agreed ......... served
//! ```
//!
//! Three cells, and a verified load of some thousand requests a second. The ranges are handed over
//! one after the other, again and again. The pause of a hand-over is the longest that any request
//! took which was under way between its order and its end, whatever key it was about.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::claim::{Claim, Measured};
use crate::claims::ring::counting::times;
use crate::claims::ring::faults::fsyncs_ms;
use crate::instruments::{Answered, Client, Ended, LoadClient, Ring, until};
use crate::lab::Lab;
use measure::clock::mono_ns;
use measure::process::accepts;
use measure::stats::{median, quantile};

/// The claims of this theme.
pub const CLAIMS: &[Claim] =
    &[Claim::new("pause", "a range is handed over under load: the longest that a request waits")
        .bar("p99 <= 20 ms (quick: p95), two fsyncs more if one takes > 2 ms; no error, no miss")
        .by(pause)];

/// Hand-overs, in the quick and the full form, and the part of them that keeps to the bar.
const MOVES: [usize; 2] = [200, 2000];
const PART: [f64; 2] = [0.95, 0.99];
const PAUSE_MS_MAX: f64 = 20.0;
/// An fsync that takes longer than this is added to the bar, twice.
const FSYNC_MS: f64 = 2.0;
/// Clients, of which each sends up to 500 requests a second.
const CLIENTS: u64 = 8;
const MEMORY_MIB: u64 = 64;
/// How long the load runs alone between two hand-overs, and before the first.
const BETWEEN: Duration = Duration::from_millis(20);
const WARM_UP: Duration = Duration::from_millis(500);
/// How often it is looked whether one has ended.
const LOOK: Duration = Duration::from_millis(2);

/// What was measured.
#[derive(Default)]
struct Run {
    /// Of each hand-over, the longest that a request took.
    pauses_ms: Vec<f64>,
    /// From its order to its end.
    moves_ms: Vec<f64>,
    fsync_ms: Vec<f64>,
    requests: usize,
    /// Requests that were not answered as they should be, also of the reads of all keys at the end.
    wrong: Vec<Ended>,
    losses: u64,
}

fn pause(lab: &Lab) -> Result<Measured> {
    Ok(judge(&carry_out(lab, lab.form(MOVES))?, lab.form(PART)))
}

fn carry_out(lab: &Lab, count: usize) -> Result<Run> {
    let ring = Ring::start(lab, MEMORY_MIB, None, accepts)?;
    let mut run = Run { fsync_ms: fsyncs_ms(ring.directory())?, ..Run::default() };
    let mut clients: Vec<LoadClient> = (0..CLIENTS).map(LoadClient::new).collect();
    let stops = AtomicBool::new(false);
    let (moves, seen) = thread::scope(|scope| {
        let (stops, cells) = (&stops, ring.cells());
        let loads = clients.iter_mut().enumerate().map(|(nth, client)| {
            let target = cells[nth % cells.len()].address;
            scope.spawn(move || client.run(target, stops))
        });
        let loads: Vec<_> = loads.collect();
        thread::sleep(WARM_UP);
        let moves = (0..count).map(|nth| {
            lab.detail(&format!("hand-over {}", nth + 1));
            thread::sleep(BETWEEN);
            hand_over(&ring, nth).with_context(|| format!("hand-over {}", nth + 1))
        });
        let moves = moves.collect::<Result<Vec<_>>>();
        thread::sleep(BETWEEN);
        stops.store(true, Ordering::Relaxed);
        let seen = loads.into_iter().flat_map(|load| load.join().unwrap_or_default());
        (moves, seen.collect::<Vec<Answered>>())
    });
    let moves = moves?;
    run.pauses_ms = moves.iter().map(|times| longest_ms(&seen, *times)).collect();
    run.moves_ms = moves.iter().map(|[from, till]| (till - from) as f64 / 1e6).collect();
    run.requests = seen.len();
    let answers = seen.iter().map(|one| one.ended);
    run.wrong = answers.filter(|ended| *ended != Ended::Well).collect();
    for (nth, client) in clients.iter().enumerate() {
        let found = client.check(ring.cells()[(nth + 1) % ring.cells().len()].address)?;
        run.wrong.extend(found.into_iter().filter(|ended| *ended != Ended::Well));
    }
    run.losses = ring.whole()?[0].losses;
    ring.stop()?;
    Ok(run)
}

/// Has the next range handed over to its copy. Returns when that was ordered, and when it had
/// ended.
fn hand_over(ring: &Ring, nth: usize) -> Result<[u64; 2]> {
    let map = ring.map(nth % ring.cells().len())?;
    let range = nth % map.ranges.len();
    let to = *map.ranges[range].copies.first().context("a range has no copy")?;
    let cells = ring.cells();
    let maps = (0..cells.len()).map(|cell| ring.map(cell)).collect::<Result<Vec<_>>>()?;
    let place = maps.iter().position(|map| map.cell == to).context("no such cell")?;
    let (id, mut client) = (range + 1, Client::connect(cells[place].address)?);
    let stats = client.stats_of("stats ring")?;
    let of = |what: &str| {
        let name = format!("range:{id}:{what}");
        stats.get(&name).cloned().with_context(|| format!("`stats ring` has no {name}"))
    };
    let order = format!("stats ring move {id} {} {} {to}", of("epoch")?, of("config")?);
    let from_ns = mono_ns();
    client.command(&order)?;
    until("the range is not handed over", || {
        let stats = client.stats_of("stats ring")?;
        let is = |what: &str, value: &str| {
            stats.get(&format!("range:{id}:{what}")).is_some_and(|it| it == value)
        };
        let has_ended = is("primary", &to.to_string()) && is("serves", "yes");
        if !has_ended {
            thread::sleep(LOOK);
        }
        Ok(has_ended.then_some(()))
    })?;
    Ok([from_ns, mono_ns()])
}

/// The longest that a request took which was under way between two moments.
fn longest_ms(seen: &[Answered], [from_ns, till_ns]: [u64; 2]) -> f64 {
    let under_way = seen.iter().filter(|one| one.sent_ns <= till_ns && one.done_ns >= from_ns);
    under_way.map(|one| (one.done_ns - one.sent_ns) as f64 / 1e6).fold(0.0, f64::max)
}

fn judge(run: &Run, part: f64) -> Measured {
    let (Some(held), Some(fsync_ms)) = (quantile(&run.pauses_ms, part), median(&run.fsync_ms))
    else {
        return Measured::not("nothing was handed over");
    };
    let more_ms = if fsync_ms > FSYNC_MS { 2.0 * fsync_ms } else { 0.0 };
    let holds = held <= PAUSE_MS_MAX + more_ms && run.wrong.is_empty() && run.losses == 0;
    let text = format!(
        "{}; {} of {} requests not answered as they should be",
        times(&run.pauses_ms),
        run.wrong.len(),
        run.requests,
    );
    let mut details = vec![
        format!("from the order to its end: {}", times(&run.moves_ms)),
        format!("fsync in the ring's directory: {}", times(&run.fsync_ms)),
    ];
    details.extend((!run.wrong.is_empty()).then(|| format!("{:?}", run.wrong)));
    Measured::new(text, held, holds).with_details(details)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::Verdict;

    fn run() -> Run {
        let pauses_ms = (0..100).map(f64::from).map(|nth| nth / 5.0).collect();
        Run { pauses_ms, fsync_ms: vec![1.0], requests: 9, ..Run::default() }
    }

    #[test]
    fn a_long_pause_an_error_and_a_loss_fail() {
        let verdict = |run: &Run| judge(run, 0.99).verdict;
        assert_eq!(verdict(&run()), Verdict::Pass);
        let slow = Run { pauses_ms: vec![25.0], ..run() };
        assert_eq!(verdict(&slow), Verdict::Fail);
        assert_eq!(verdict(&Run { fsync_ms: vec![3.0], ..slow }), Verdict::Pass);
        assert_eq!(verdict(&Run { wrong: vec![Ended::Refused], ..run() }), Verdict::Fail);
        assert_eq!(verdict(&Run { losses: 1, ..run() }), Verdict::Fail);
        assert!(matches!(verdict(&Run::default()), Verdict::NotMeasured(_)));
    }

    #[test]
    fn the_pause_is_that_of_the_requests_under_way() {
        let seen = |sent_ms: u64, done_ms: u64| {
            let [sent_ns, done_ns] = [sent_ms, done_ms].map(|ms| ms * 1_000_000);
            Answered { sent_ns, done_ns, ended: Ended::Well }
        };
        let all = [seen(0, 90), seen(95, 101), seen(100, 103), seen(111, 199)];
        assert_eq!(longest_ms(&all, [100_000_000, 110_000_000]), 6.0);
    }
}
