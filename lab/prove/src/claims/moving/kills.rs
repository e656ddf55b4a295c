//! A cell is killed at each step of each operation, while clients go on.
//!
//! ```text
//! order --> map + 1 --> map + 2 --> ... --> over       a step is a new version of the map
//!              ^ the primary is killed; next time the copy, the taker, the leader of agreement
//!                          ^ and so on
//! ```
//!
//! `volvox up` starts what was killed again. Before the next kill the ring is whole again, nothing
//! is under way, and all keys are read.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::Signal;
use serde_json::Value;

use crate::claim::{Claim, Measured};
use crate::instruments::{Answered, Client, Ended, Given, LoadClient, Ring, RingMap, until};
use crate::lab::Lab;
use measure::process::accepts;
use measure::process::exec::{Exec, Said};

/// The claims of this theme.
pub const CLAIMS: &[Claim] = &[Claim::new(
    "kills",
    "a cell is killed at each step of a move, a division, an absorption and a drain",
)
.bar("nothing acknowledged is lost, nothing is wrong; every range has one primary; nothing is left")
.by(kills)];

/// Cells that lead ranges, and one that comes and goes.
const CELLS: usize = 3;
const SPARES: usize = 1;
/// The number of that one.
const EXTRA: u16 = (CELLS + SPARES) as u16;
/// Rings side by side, in the quick and the full form.
const RINGS: [usize; 2] = [1, 6];
/// How often each step of each operation is interrupted in each of them.
const ROUNDS: [usize; 2] = [1, 5];
/// More steps than any operation has.
const STEPS_MAX: u64 = 40;
/// Clients, of which each sends up to 500 requests a second.
const CLIENTS: u64 = 4;
const MEMORY_MIB: u64 = 64;
/// How long one order may take, a kill and the healing included.
const ORDER_MAX: Duration = Duration::from_secs(60);
/// How often it is looked for a step.
const LOOK: Duration = Duration::from_micros(300);
/// How long a cell lives before it is killed again, at least: `up` lets one that ends sooner rest.
const LIFE: Duration = Duration::from_secs(6);
/// How often it is shown how many kills there were.
const SHOW: Duration = Duration::from_millis(500);
/// How long nothing changes in a ring at rest.
const REST: Duration = Duration::from_millis(300);
/// Copies of each range, its primary included.
const COPIES: u64 = 2;

/// What is interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Operation {
    Move,
    Divide,
    Absorb,
    Drain,
}

/// In the order in which they leave the ring as the next one needs it.
const OPERATIONS: [Operation; 4] =
    [Operation::Move, Operation::Divide, Operation::Absorb, Operation::Drain];

/// Who is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    /// The primary of the range, or the cell that leaves.
    Primary,
    /// The first copy of it.
    Copy,
    /// The cell that takes it, or some of it.
    Taker,
    /// The leader of the agreement.
    Leader,
}

const VICTIMS: [Victim; 4] = [Victim::Primary, Victim::Copy, Victim::Taker, Victim::Leader];

/// One operation, in the words of `volvox ctl`, and the cells that take part in it.
struct Order {
    words: Vec<String>,
    primary: u16,
    copy: u16,
    taker: u16,
}

/// What was seen.
#[derive(Default)]
struct Run {
    /// Kills, by operation.
    kills: BTreeMap<Operation, usize>,
    requests: usize,
    /// Requests that show what was promised otherwise, also of the reads of all keys.
    wrong: Vec<String>,
    losses: u64,
    /// The longest from a kill until the ring was at rest.
    longest_s: f64,
    /// Copies of items that no range accounts for, at the end.
    left_over: Option<i64>,
}

fn kills(lab: &Lab) -> Result<Measured> {
    let (volvox, rounds, count) = (lab.volvox()?, lab.form(ROUNDS), AtomicUsize::new(0));
    let start = |nth: usize| -> Result<Scene<'_>> {
        let flags = "--allow-shutdown".to_owned();
        let given = Given { flags, spares: SPARES as u16, nth, ..Given::default() };
        Ok(Scene {
            volvox: &volvox,
            nth,
            count: &count,
            ring: Ring::start_with(lab, MEMORY_MIB, None, &given, accepts)?,
            clients: (0..CLIENTS).map(LoadClient::new).collect(),
            started: vec![Instant::now(); CELLS + SPARES],
            run: Run::default(),
        })
    };
    let scenes = (0..lab.form(RINGS)).map(start).collect::<Result<Vec<_>>>()?;
    let runs = thread::scope(|scope| {
        let rings = scenes.into_iter().map(|scene| scope.spawn(move || scene.run(rounds)));
        let rings: Vec<_> = rings.collect();
        while !rings.iter().all(thread::ScopedJoinHandle::is_finished) {
            lab.detail(&format!("{} kills", count.load(Ordering::Relaxed)));
            thread::sleep(SHOW);
        }
        let ended = |ring: thread::ScopedJoinHandle<'_, Result<Run>>| match ring.join() {
            Ok(run) => run,
            Err(_) => bail!("a ring has panicked"),
        };
        rings.into_iter().map(ended).collect::<Result<Vec<_>>>()
    })?;
    Ok(judge(&runs.into_iter().fold(Run::default(), Run::and)))
}

impl Run {
    /// Both together.
    fn and(mut self, other: Self) -> Self {
        for (operation, kills) in other.kills {
            *self.kills.entry(operation).or_default() += kills;
        }
        self.requests += other.requests;
        self.wrong.extend(other.wrong);
        self.losses += other.losses;
        self.longest_s = self.longest_s.max(other.longest_s);
        // More in one ring is not made up for by less in another.
        let left_over = self.left_over.into_iter().chain(other.left_over);
        self.left_over = left_over.map(i64::abs).reduce(|sum, more| sum + more);
        self
    }
}

/// The ring and its clients.
struct Scene<'a> {
    volvox: &'a Path,
    /// Which of the rings it is.
    nth: usize,
    /// Kills in all rings.
    count: &'a AtomicUsize,
    ring: Ring,
    clients: Vec<LoadClient>,
    /// When each cell was started, at the latest.
    started: Vec<Instant>,
    run: Run,
}

impl Scene<'_> {
    /// Interrupts each step of each operation this often.
    fn run(mut self, rounds: usize) -> Result<Run> {
        for round in 0..rounds {
            for step in 1..STEPS_MAX {
                let before: usize = self.run.kills.values().sum();
                for victim in VICTIMS {
                    for operation in OPERATIONS {
                        self.interrupt(operation, victim, step).with_context(|| {
                            let at = format!("ring {}, round {round}, step {step}", self.nth);
                            format!("{operation:?}, {victim:?}, {at}")
                        })?;
                    }
                }
                if self.run.kills.values().sum::<usize>() == before {
                    break;
                }
            }
        }
        self.run.left_over = Some(self.left_over()?);
        self.run.losses = self.ring.whole()?[0].losses;
        self.ring.stop()?;
        Ok(self.run)
    }

    /// Kills a cell at a step of an operation, if it has as many; has the ring heal, and ends the
    /// operation as if nothing had happened.
    fn interrupt(&mut self, operation: Operation, victim: Victim, step: u64) -> Result<()> {
        let map = self.prepare(operation)?;
        let order = self.order(operation, &map)?;
        let number = match victim {
            Victim::Primary => order.primary,
            Victim::Copy => order.copy,
            Victim::Taker => order.taker,
            Victim::Leader => map.leader.context("no cell leads the agreement")?,
        };
        let cell = self.place_of(number)?;
        thread::sleep((self.started[cell] + LIFE).saturating_duration_since(Instant::now()));
        let stops = AtomicBool::new(false);
        let (ring, clients) = (&self.ring, &mut self.clients);
        let (killed, seen) = thread::scope(|scope| {
            let loads = clients.iter_mut().enumerate().map(|(nth, client)| {
                let (target, stops) = (ring.cells()[nth % CELLS].address, &stops);
                scope.spawn(move || client.run(target, stops))
            });
            let loads: Vec<_> = loads.collect();
            let killed = kill_at(self.volvox, ring, &order.words, (cell, map.version + step));
            stops.store(true, Ordering::Relaxed);
            let seen = loads.into_iter().flat_map(|load| load.join().unwrap_or_default());
            (killed, seen.collect::<Vec<Answered>>())
        });
        self.run.requests += seen.len();
        let what = format!("{operation:?}, {victim:?}, step {step}");
        let is_false = seen.iter().filter(|one| one.ended.is_false());
        self.run.wrong.extend(is_false.map(|one| format!("{what}: {:?}", one.ended)));
        if let Some(at) = killed? {
            *self.run.kills.entry(operation).or_default() += 1;
            self.count.fetch_add(1, Ordering::Relaxed);
            self.ring.restarted(cell)?;
            self.started[cell] = Instant::now();
            match operation {
                Operation::Drain => self.rests_drained()?,
                _ => self.rests()?,
            };
            self.run.longest_s = self.run.longest_s.max(at.elapsed().as_secs_f64());
        }
        self.check(&what)?;
        if operation == Operation::Drain {
            // One that was killed while it left has its place again.
            self.ctl(&["drain", &order.primary.to_string(), "--undo"])?;
        }
        Ok(())
    }

    /// The next order of an operation.
    fn order(&self, operation: Operation, map: &RingMap) -> Result<Order> {
        let largest = map.ranges.iter().max_by_key(|range| range.slices.clone().count());
        let range = match operation {
            Operation::Absorb => map.ranges.iter().find(|it| it.primary == Some(EXTRA)),
            _ => largest,
        };
        let range = range.context("there is no such range")?;
        let primary = range.primary.context("a range has no primary")?;
        let copy = *range.copies.first().context("a range has no copy")?;
        let other = (1..=CELLS as u16).find(|cell| !range.has(*cell));
        let other = other.context("there is no other cell")?;
        let (words, taker) = match operation {
            Operation::Move => {
                let id = self.id_of(*range.slices.start())?;
                (vec!["move".to_owned(), id, other.to_string()], other)
            }
            Operation::Divide => {
                let words = ["divide", &primary.to_string(), "--to", &EXTRA.to_string()];
                (words.map(str::to_owned).to_vec(), EXTRA)
            }
            Operation::Absorb => (vec!["absorb".into(), primary.to_string()], other),
            Operation::Drain => (vec!["drain".into(), primary.to_string()], other),
        };
        Ok(Order { words, primary, copy, taker })
    }

    /// Has the ring as an operation needs it; its map. What was interrupted may have left it
    /// otherwise.
    fn prepare(&self, operation: Operation) -> Result<RingMap> {
        let map = self.rests()?;
        let leads = |map: &RingMap| map.ranges.iter().any(|range| range.primary == Some(EXTRA));
        if operation != Operation::Absorb {
            return self.with_spare();
        }
        if !leads(&map) {
            let Order { words, .. } = self.order(Operation::Divide, &self.with_spare()?)?;
            self.succeeds(&words.iter().map(String::as_str).collect::<Vec<_>>())?;
        }
        self.rests()
    }

    /// Has the cell that comes and goes have nothing; the map.
    fn with_spare(&self) -> Result<RingMap> {
        let (map, extra) = (self.rests()?, EXTRA.to_string());
        if map.ranges.len() > CELLS || map.ranges.iter().any(|range| range.has(EXTRA)) {
            self.succeeds(&["absorb", &extra])?;
            self.rests()?;
        }
        self.ctl(&["absorb", &extra, "--undo"])?;
        self.rests()
    }

    /// Has an order carried out that nothing interrupts.
    fn succeeds(&self, words: &[&str]) -> Result<()> {
        let said = self.ctl(words)?;
        match said.status.success() {
            true => Ok(()),
            false => bail!("volvox ctl {}: {}", words.join(" "), said.complaints),
        }
    }

    /// Waits until the ring is whole and nothing is under way; its map.
    fn rests(&self) -> Result<RingMap> {
        self.rests_but(|_| false)
    }

    /// The same where a cell is drained: what goes back to it once it has started again waits.
    fn rests_drained(&self) -> Result<RingMap> {
        self.rests_but(|operation| operation["kind"] == "return")
    }

    /// The same, but for operations that `may_wait`.
    fn rests_but(&self, may_wait: impl Fn(&Value) -> bool) -> Result<RingMap> {
        let mut since: Option<(u64, Instant)> = None;
        let rests = until("the ring does not come to rest", || {
            let map = self.ring.whole()?.swap_remove(0);
            let is_over = self.operations()?.iter().all(&may_wait);
            let learns = map.ranges.iter().any(|range| range.learner.is_some());
            let (version, at) = *since.get_or_insert((map.version, Instant::now()));
            if !is_over || learns || version != map.version {
                since = None;
                return Ok(None);
            }
            Ok((at.elapsed() > REST).then_some(map))
        });
        rests.with_context(|| {
            let (operations, map) = (self.operations(), self.ring.map(0));
            format!("under way: {operations:?}; the map: {map:?}")
        })
    }

    /// What `ctl ops` shows.
    fn operations(&self) -> Result<Vec<Value>> {
        let said = self.ctl(&["ops"])?;
        let shown: Value = serde_json::from_str(&said.output)
            .with_context(|| format!("`ctl ops`: {} {}", said.output, said.complaints))?;
        Ok(shown["operations"].as_array().cloned().unwrap_or_default())
    }

    /// Reads all keys.
    fn check(&mut self, what: &str) -> Result<()> {
        for (nth, client) in self.clients.iter().enumerate() {
            let found = client.check(self.ring.cells()[(nth + 1) % CELLS].address)?;
            let others = found.into_iter().filter(|ended| *ended != Ended::Well);
            self.run.wrong.extend(others.map(|ended| format!("{what}, all keys: {ended:?}")));
        }
        Ok(())
    }

    /// Items in the memory of all cells, without those that ranges and their copies account for.
    fn left_over(&self) -> Result<i64> {
        let keys = self.ctl(&["keys", "--limit", "0"])?;
        // One object in each line.
        let count = keys.output.lines().count() as u64;
        let mut items = 0;
        for cell in self.ring.cells() {
            let stats = Client::connect(cell.address)?.stats_of("stats")?;
            let of_cell = stats.get("curr_items").and_then(|text| text.parse::<u64>().ok());
            items += of_cell.context("`stats` has no curr_items")?;
        }
        Ok(items as i64 - (COPIES * count) as i64)
    }

    fn ctl(&self, words: &[&str]) -> Result<Said> {
        ctl(self.volvox, &self.ring, words).said(ORDER_MAX)
    }

    /// The place of a cell.
    fn place_of(&self, number: u16) -> Result<usize> {
        for place in 0..CELLS + SPARES {
            if self.ring.map(place)?.cell == number {
                return Ok(place);
            }
        }
        bail!("there is no cell {number}")
    }

    /// The number of the range that begins at a slice.
    fn id_of(&self, first: usize) -> Result<String> {
        let stats = Client::connect(self.ring.cells()[0].address)?.stats_of("stats ring")?;
        let begins = |slices: &str| slices.split('-').next() == Some(&first.to_string());
        let id = stats.iter().find_map(|(name, slices)| {
            let id = name.strip_prefix("range:")?.strip_suffix(":slices")?;
            begins(slices).then(|| id.to_owned())
        });
        id.context("no range begins there")
    }
}

/// Has an order carried out, and kills a cell once the map has a version. Returns when that was;
/// `None` where the operation was over before.
fn kill_at(
    volvox: &Path,
    ring: &Ring,
    words: &[String],
    (cell, version): (usize, u64),
) -> Result<Option<Instant>> {
    let observer = (0..CELLS).find(|other| *other != cell).context("there is no other cell")?;
    let mut client = Client::connect(ring.cells()[observer].address)?;
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let order = ctl(volvox, ring, &words);
    thread::scope(|scope| {
        let order = scope.spawn(move || order.said(ORDER_MAX));
        let killed = loop {
            let is_over = order.is_finished();
            if RingMap::read(&client.stats_of("stats ring")?)?.version >= version {
                ring.signal(cell, Signal::KILL)?;
                break Some(Instant::now());
            }
            if is_over {
                break None;
            }
            thread::sleep(LOOK);
        };
        // It may say that the operation has ended otherwise, or that it waits no longer.
        let _ = order.join().map_err(|_| anyhow::anyhow!("the order has panicked"))??;
        Ok(killed)
    })
}

/// `volvox ctl`, which asks all cells.
fn ctl(volvox: &Path, ring: &Ring, words: &[&str]) -> Exec {
    let servers: Vec<_> = ring.cells().iter().map(|it| it.address.to_string()).collect();
    let servers = servers.join(",");
    let all = ["ctl", "--json", "--server", &servers].into_iter().chain(words.iter().copied());
    Exec::new(volvox).args(all)
}

fn judge(run: &Run) -> Measured {
    let all: usize = run.kills.values().sum();
    let of = |operation: &Operation| {
        let count = run.kills.get(operation).copied().unwrap_or_default();
        format!("{count} in a {operation:?}").to_lowercase()
    };
    let of_each: Vec<String> = OPERATIONS.iter().map(of).collect();
    let left_over = match run.left_over {
        Some(items) => format!("{items} items left over"),
        None => "what is left over was not counted".to_owned(),
    };
    let text = format!(
        "{all} kills ({}); {} of {} requests show something false; {} ranges lost; {left_over}; at \
         rest again after {:.1} s at most",
        of_each.join(", "),
        run.wrong.len(),
        run.requests,
        run.losses,
        run.longest_s,
    );
    let has_all = OPERATIONS.iter().all(|operation| run.kills.contains_key(operation));
    let is_right = run.wrong.is_empty() && run.losses == 0 && run.left_over == Some(0);
    let details = run.wrong.iter().take(20).cloned().collect();
    Measured::new(text, all as f64, has_all && is_right && run.requests > 0).with_details(details)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::Verdict;

    #[test]
    fn a_loss_a_leftover_and_a_step_that_was_not_killed_fail() {
        let kills: BTreeMap<_, _> = OPERATIONS.iter().map(|operation| (*operation, 1)).collect();
        let run =
            || Run { kills: kills.clone(), requests: 9, left_over: Some(0), ..Run::default() };
        assert_eq!(judge(&run()).verdict, Verdict::Pass);
        assert_eq!(judge(&Run { wrong: vec!["lost".into()], ..run() }).verdict, Verdict::Fail);
        assert_eq!(judge(&Run { losses: 1, ..run() }).verdict, Verdict::Fail);
        assert_eq!(judge(&Run { left_over: Some(1), ..run() }).verdict, Verdict::Fail);
        assert_eq!(judge(&Run { left_over: None, ..run() }).verdict, Verdict::Fail);
        let fewer = kills.clone().into_iter().skip(1).collect();
        assert_eq!(judge(&Run { kills: fewer, ..run() }).verdict, Verdict::Fail);
        // Of two rings one has too many, and one too few.
        let both = [1, -1].map(|items| Run { left_over: Some(items), ..run() });
        let both = both.into_iter().fold(Run::default(), Run::and);
        assert_eq!((both.left_over, both.kills[&Operation::Move]), (Some(2), 2));
    }
}
