//! A cell above a tier is killed while it is written to, again and again on one directory.
//!
//! ```text
//! start   read what may have changed   writers send       SIGKILL   start   ...
//!   |<---------------->|<-------------------------------------|
//!   |  each third: no reads, killed within 0.1 s of its start |
//!   |  each sixth: no reads, killed within 0.1 s of its first answer
//! ```
//!
//! Two writers for each level send as many requests at once as chance says, so that some are under
//! way at each kill. A writer knows what each of its keys must hold: the state that was answered
//! last, or one that was under way. There is three times as much as fits in memory. Several kills
//! may come before the next reads; a key that is not known meanwhile is only stored and deleted.
//!
//! The same at level `memory`, which promises less, must lose something: it proves that losses are
//! seen.

pub(super) mod known;
mod request;
mod state;
pub(super) mod writer;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{fs, io, net::SocketAddr, thread};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};

use crate::claim::{Claim, Measured};
use crate::instruments::Client;
use crate::lab::Lab;
use known::Verdict;
use measure::clock::mono_ns;
use measure::process::{Launch, Server, accepts};
use measure::rng::Rng;
use writer::{Tally, Writer};

/// The levels that lose nothing, and what begins the keys of each.
const LEVELS: [(&str, &str); 3] = [("os", "o:"), ("disk", "d:"), ("backend", "b:")];
/// The level that loses the last of what was answered.
const MEMORY: [(&str, &str); 3] = [("memory", "o:"), ("memory", "d:"), ("memory", "b:")];
/// Writers, and the keys of each: 100 MB in all.
const WRITERS: usize = 6;
const KEYS: usize = 6_000;
/// What the cell has: memory for a third of that.
const FLAGS: &str = "--workers 2 --memory-limit 32MiB --tier-journal 256MiB --tier-age-s 1";
/// Keys of each writer that are read though they were not changed.
const OTHERS: usize = 200;
/// When kills come: after the start, and after the beginning of the load.
const EARLY_MS: u64 = 100;
const LOAD_MS: [u64; 2] = [20, 600];
/// The most of a thousand requests that may be refused.
const REFUSED_PER_MILLE: u64 = 10;

/// How often the cell is killed, above which levels.
#[derive(Clone, Copy)]
struct Plan {
    levels: [(&'static str, &'static str); 3],
    kills: usize,
    time_max: Duration,
}

/// The kills, in the quick and the full form.
const KILLS: [Plan; 2] = [
    Plan { levels: LEVELS, kills: 20, time_max: Duration::from_secs(480) },
    Plan { levels: LEVELS, kills: 1_000, time_max: Duration::from_secs(4 * 3600) },
];
/// The same where something must be lost.
const LOSSES: Plan = Plan { levels: MEMORY, kills: 6, time_max: Duration::from_secs(240) };

/// The claims of this theme.
pub const CLAIMS: &[Claim] = &[
    Claim::new("kill.values", "killed under load, at os, disk, backend: acknowledged changes lost")
        .bar("none, none undone, no wrong bytes, >= 20 kills (1000)")
        .by(|lab| carry_out(lab, lab.form(KILLS)).map(|run| values(&run, lab.form(KILLS).kills))),
    Claim::new("kill.seen", "the same at memory, which promises less: losses that are seen")
        .bar(">= 1")
        .by(|lab| carry_out(lab, LOSSES).map(|run| seen(&run))),
];

/// When a kill comes.
#[derive(Clone, Copy, PartialEq)]
enum Moment {
    /// While the cell starts, or just after.
    Start,
    /// Just after it accepts.
    Ready,
    /// Under load, after what may have changed was read.
    Load,
}

impl Moment {
    /// That of a kill, which are counted from 0: the first one comes under load.
    fn of(kill: usize) -> Self {
        match kill % 6 {
            1 | 4 => Self::Start,
            2 => Self::Ready,
            _ => Self::Load,
        }
    }
}

/// What kills have done.
#[derive(Default)]
struct Run {
    seed: u64,
    kills: usize,
    /// Those of the moments `Start` and `Ready`, and of both those before any change was answered.
    early: [usize; 2],
    unanswered: usize,
    levels: BTreeMap<&'static str, Tally>,
    /// Keys in memory at the end, of all that were read.
    in_memory: u64,
    /// Why it ended before its time.
    ended: Option<String>,
}

fn carry_out(lab: &Lab, plan: Plan) -> Result<Run> {
    let folder = lab.folder().join("tier-kill");
    if folder.exists() {
        fs::remove_dir_all(&folder).context("empty the directory of the tier")?;
    }
    let seed = mono_ns();
    let prefix = |id: usize| plan.levels[id % plan.levels.len()].1;
    let mut writers: Vec<Writer> =
        (0..WRITERS).map(|id| Writer::new(id, prefix(id), KEYS, seed)).collect();
    let mut run = Run { seed, ..Run::default() };
    let cell = Cell { program: lab.volvox()?.display().to_string(), folder, plan };
    lab.detail("the keys are stored");
    let server = cell.start(accepts)?;
    each(&mut writers, |writer| writer.fill(server.address()))?;
    let ended = kills(lab, &cell, server, &mut writers, &mut run);
    run.ended = ended.err().map(|error| format!("{error:#}"));
    for (id, writer) in writers.iter().enumerate() {
        let (level, _) = plan.levels[id % plan.levels.len()];
        run.levels.entry(level).or_default().add(&writer.tally);
    }
    if run.ended.is_none() {
        fs::remove_dir_all(&cell.folder).context("remove the directory of the tier")?;
    }
    Ok(run)
}

/// Kills the cell as often as planned, and reads everything at the end.
fn kills(
    lab: &Lab,
    cell: &Cell,
    first: Server,
    writers: &mut [Writer],
    run: &mut Run,
) -> Result<()> {
    let (began, mut rng) = (Instant::now(), Rng::new(run.seed, 0));
    let mut filled = Some(first);
    while run.kills < cell.plan.kills && began.elapsed() < cell.plan.time_max {
        lab.detail(&format!("kill {} of {}", run.kills + 1, cell.plan.kills));
        let moment = Moment::of(run.kills);
        let kill = run.kills + 1;
        let server = match filled.take() {
            Some(server) => Ok(server),
            // It is not waited for: the kill may come before it accepts.
            None if moment == Moment::Start => cell.start(|_| Ok(())),
            None => cell.start(accepts),
        };
        let server = server.with_context(|| format!("start before kill {kill}"))?;
        let after_ms = if moment == Moment::Load {
            let checked = |writer: &mut Writer| writer.check(server.address(), OTHERS);
            each(writers, checked).with_context(|| format!("read before kill {kill}"))?;
            LOAD_MS[0] + rng.below(LOAD_MS[1] - LOAD_MS[0])
        } else {
            rng.below(EARLY_MS)
        };
        let before = changes(writers);
        killed(server, writers, Duration::from_millis(after_ms))
            .with_context(|| format!("kill {kill}"))?;
        run.kills += 1;
        run.early[0] += usize::from(moment == Moment::Start);
        run.early[1] += usize::from(moment == Moment::Ready);
        run.unanswered += usize::from(before == changes(writers));
    }
    lab.detail("all keys are read");
    let server = cell.start(accepts).context("start after the last kill")?;
    each(writers, |writer| writer.check_all(server.address()))?;
    run.in_memory = Client::connect(server.address())?.stat("curr_items")?;
    server.stop()
}

/// Has all writers send until the server is killed, after this time.
fn killed(mut server: Server, writers: &mut [Writer], after: Duration) -> Result<()> {
    let (address, is_over) = (server.address(), AtomicBool::new(false));
    thread::scope(|scope| {
        for writer in writers {
            let is_over = &is_over;
            scope.spawn(move || writer.load(address, is_over, false));
        }
        // The moment of the kill is drawn: nothing is waited for.
        thread::sleep(after);
        let is_alive = server.is_alive();
        is_over.store(true, Ordering::SeqCst);
        if !is_alive {
            return Err(server.failed("ended of itself"));
        }
        // It is waited for when it is dropped.
        let pid = i32::try_from(server.pid()).ok().and_then(Pid::from_raw);
        kill_process(pid.context("no process")?, Signal::KILL).context("kill the cell")
    })
}

/// Has all writers do something at once.
pub(super) fn each(
    writers: &mut [Writer],
    work: impl Fn(&mut Writer) -> Result<()> + Copy + Send,
) -> Result<()> {
    thread::scope(|scope| {
        let threads: Vec<_> =
            writers.iter_mut().map(|writer| scope.spawn(move || work(writer))).collect();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().expect("invariant: a writer does not panic"))
    })
}

fn changes(writers: &[Writer]) -> u64 {
    writers.iter().map(|writer| writer.tally.changes).sum()
}

/// How the cell is started.
struct Cell {
    program: String,
    /// Of the tier, and of what each start logs.
    folder: PathBuf,
    plan: Plan,
}

impl Cell {
    fn start(&self, ready: impl FnMut(SocketAddr) -> io::Result<()>) -> Result<Server> {
        Launch::new().start("cell", &self.folder, |port| self.words(port), ready)
    }

    fn words(&self, port: u16) -> Vec<String> {
        let rules = self.plan.levels.map(|(level, prefix)| format!("{prefix}={level}"));
        let listen = format!("127.0.0.1:{port}");
        let fixed =
            ["serve", "--listen", &listen, "--tier-prefixes", &rules.join(","), "--tier-dir"]
                .map(str::to_owned);
        let own = [self.program.clone()].into_iter().chain(fixed);
        let own = own.chain([self.folder.join("tier").display().to_string()]);
        let ack = ["--tier-ack", self.plan.levels[0].0].map(str::to_owned);
        own.chain(ack).chain(FLAGS.split(' ').map(str::to_owned)).collect()
    }
}

fn values(run: &Run, kills_min: usize) -> Measured {
    let ended = run.ended.is_some();
    judged(&run.total(), (run.kills, kills_min), ended, run.details())
}

/// Judges what writers have seen of a number of kills, of which at least another were wanted.
pub(super) fn judged(
    all: &Tally,
    (kills, kills_min): (usize, usize),
    ended: bool,
    details: Vec<String>,
) -> Measured {
    let [lost, older, wrong] =
        [Verdict::Lost, Verdict::Older, Verdict::Wrong].map(|verdict| all.read(verdict));
    let read: u64 = all.reads.values().sum();
    let text = format!(
        "{kills} kills: {lost} lost, {older} older values, {wrong} wrong; {} changes \
         acknowledged, {read} keys read",
        all.changes
    );
    let false_sum = lost + older + wrong + all.false_answers;
    let holds = false_sum == 0 && all.unread == 0 && !ended;
    let is_refused = all.refused * 1_000 > all.changes * REFUSED_PER_MILLE;
    if holds && kills < kills_min {
        let reason = format!("{kills} kills in the time, {kills_min} are wanted");
        return Measured::not(reason).with_details(details);
    }
    if holds && (is_refused || all.changes == 0) {
        let reason = format!("{} requests were refused, {} acknowledged", all.refused, all.changes);
        return Measured::not(reason).with_details(details);
    }
    Measured::new(text, false_sum as f64, holds).with_details(details)
}

fn seen(run: &Run) -> Measured {
    let all = run.total();
    let [lost, older] = [Verdict::Lost, Verdict::Older].map(|verdict| all.read(verdict));
    let text = format!(
        "{} kills: {lost} lost, {older} older values, of {} changes acknowledged",
        run.kills, all.changes
    );
    let holds = lost + older > 0 && run.ended.is_none();
    Measured::new(text, (lost + older) as f64, holds).with_details(run.details())
}

impl Run {
    fn total(&self) -> Tally {
        self.levels.values().fold(Tally::default(), |mut all, one| {
            all.add(one);
            all
        })
    }

    fn details(&self) -> Vec<String> {
        let keys = WRITERS * KEYS;
        let mut lines = vec![
            format!(
                "seed {}; {} of the kills within {EARLY_MS} ms of a start, {} within {EARLY_MS} ms \
                 after it accepted; {} before any change was answered",
                self.seed, self.early[0], self.early[1], self.unanswered
            ),
            format!("{keys} keys, {} of them in memory when all were read", self.in_memory),
        ];
        lines.extend(self.levels.iter().map(|(level, tally)| format!("{level}: {}", tally.line())));
        lines.extend(self.ended.iter().map(|why| format!("it ended before its time: {why}")));
        lines.extend(self.levels.values().flat_map(|tally| tally.complaints.clone()));
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::Verdict as Ends;

    fn run(change: impl FnOnce(&mut Tally)) -> Run {
        let mut tally = Tally { changes: 900, ..Tally::default() };
        tally.reads.insert(Verdict::Well, 100);
        change(&mut tally);
        Run { kills: 20, levels: [("os", tally)].into(), ..Run::default() }
    }

    #[test]
    fn one_false_value_fails_and_too_few_kills_prove_nothing() {
        assert_eq!(values(&run(|_| ()), 20).verdict, Ends::Pass);
        assert!(matches!(values(&run(|_| ()), 21).verdict, Ends::NotMeasured(_)));
        for verdict in [Verdict::Lost, Verdict::Older, Verdict::Wrong] {
            let one = run(|tally| tally.reads.extend([(verdict, 1)]));
            assert_eq!(values(&one, 21).verdict, Ends::Fail, "{verdict:?}");
        }
        assert_eq!(values(&run(|tally| tally.false_answers = 1), 20).verdict, Ends::Fail);
        assert_eq!(values(&run(|tally| tally.unread = 1), 20).verdict, Ends::Fail);
        let ended = Run { ended: Some("it does not start".to_owned()), ..run(|_| ()) };
        assert_eq!(values(&ended, 21).verdict, Ends::Fail);
        let refused = values(&run(|tally| tally.refused = 10), 20).verdict;
        assert!(matches!(refused, Ends::NotMeasured(_)));
        assert_eq!(values(&run(|tally| tally.refused = 9), 20).verdict, Ends::Pass);
    }

    #[test]
    fn a_check_that_sees_no_loss_at_memory_fails() {
        assert_eq!(seen(&run(|_| ())).verdict, Ends::Fail);
        let lost = run(|tally| tally.reads.extend([(Verdict::Older, 3)]));
        assert_eq!(seen(&lost).verdict, Ends::Pass);
    }
}
