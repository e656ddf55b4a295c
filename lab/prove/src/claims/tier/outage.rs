//! A cell whose bucket is slower than its writers, and then is gone for a time.
//!
//! ```text
//! measured: R     writers at 3 R            the bucket is gone         it is back
//! |-------------|------------[ judged ]--|-------------------------|--10 s--[ judged ]--| drained
//!               |  hits are read, and some keys are changed and known, all the time     | read
//! ```
//!
//! The bucket is an emulator of GCS behind a proxy that lets a number of bytes pass a second. Each
//! value is an object of its own, so that R, the keys a second that it takes, is nearly one number.
//! Beside it stands a cell without a tier, with the same writers and readers.
//!
//! The second claim has the journal on a disk that is full before the journal is.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use doubles::proxy::{Fault, Proxy};
use measure::clock::mono_ns;
use measure::exec::Running;
use measure::process::emulators::{BUCKET, Emulator};
use measure::process::{Launch, Server, accepts};

use super::kill::known::Verdict;
use super::kill::writer::{Tally, Writer};
use super::number;
use crate::claim::{Claim, Measured};
use crate::instruments::{Client, GET, Limit, Load, Outcome};
use crate::lab::Lab;

/// The claims of this theme.
pub const CLAIMS: &[Claim] = &[
    Claim::new(
        "pressure.outage",
        "writers at three times what a slow bucket takes (R); the bucket is gone for a time",
    )
    .bar(BAR)
    .by(|lab| outage(lab, None)),
    Claim::new("pressure.full", "the same where the journal's disk is full before the journal is")
        .bar(BAR)
        .by(|lab| outage(lab, Some(DISK_MIB))),
];

const BAR: &str = ">= R/2 each second of the last half, and from 10 s after; 0 lost, 0 wrong; \
                   hits' p99 <= 2x; drained";
/// What the proxy lets pass a second: less than the emulator could take.
const BUCKET_BYTES_PER_S: u64 = 4 << 20;
/// Memory and journal of the cell, and the disk of the second claim.
const FLAGS: &str = "serve --workers 1 --memory-limit 128MiB --item-bytes-max 128KiB";
const TIER: &str = "--tier-journal 24MiB --tier-age-s 1 --tier-apart-from 4KiB \
                    --tier-bucket-timeout-s 5 --tier-dir";
const DISK_MIB: u64 = 20;
/// Seconds in which R is measured, once the journal is full.
const MEASURED_S: u64 = 10;
/// After the bucket is back, seconds that are not judged.
const GRACE_S: usize = 10;
/// Seconds under pressure, without the bucket, and after it.
const PHASES_S: [[u64; 3]; 2] = [[30, 20, 25], [60, 60, 60]];
/// The same together, and a little more, as the generator takes it.
const WHOLE: [&str; 2] = ["77s", "182s"];
/// The rest of what a run takes.
const REST: Duration = Duration::from_secs(60);
/// Longest that all may take to be written back.
const DRAIN_MAX: Duration = Duration::from_secs(240);
/// Keys that are changed and known, and how long their writer rests after up to 16 requests.
const KNOWN_KEYS: usize = 400;
const KNOWN_PACE: Duration = Duration::from_millis(100);

/// Values of 60 KB. Of more keys the bucket would have more objects: the more it has, the fewer a
/// second the emulator takes.
const WRITERS: Load = Load {
    ratio: "0:1",
    connections: 4,
    depth: 8,
    warm_up: "0s",
    keys: 1_000,
    value_bytes: 60_000,
    prefix: "w:",
    ..GET
};
/// Gets of what is in memory.
const READERS: Load = Load { connections: 4, rate: Some(500), keys: 500, prefix: "hit:", ..GET };

/// A cell and what it stands above.
struct Above {
    cell: Server,
    proxy: Proxy,
    emulator: Server,
}

fn outage(lab: &Lab, disk_mib: Option<u64>) -> Result<Measured> {
    let alone = Launch::new().cores(lab.cores().server());
    let above = above(lab, alone.clone(), disk_mib)?;
    let mut writer = Writer::new(0, "known:", KNOWN_KEYS, mono_ns()).paced(KNOWN_PACE);
    writer.fill(above.cell.address())?;
    READERS.populate(lab, &above.cell)?;
    lab.detail("what the bucket takes");
    let taken_per_s = taken(lab, &above.cell)?;
    let rate = 3 * taken_per_s as u64;
    if rate == 0 {
        let stats = Client::connect(above.cell.address())?.stats_of("stats tier")?;
        let state = stats.get("state").map_or("unknown", String::as_str);
        bail!("the bucket takes nothing once the journal is full; state: {state}");
    }
    lab.detail("the same without a tier");
    let plain = alone.start("plain", &lab.folder(), |port| words(lab, port, None), accepts)?;
    READERS.populate(lab, &plain)?;
    let beside = Load { rate: Some(rate), limit: Limit::Duration("15s"), ..WRITERS };
    let beside = start(lab, &plain, beside)?;
    let hits = start(lab, &plain, Load { limit: Limit::Duration("15s"), ..READERS })?;
    let (plain_hits, _): (Outcome, Outcome) = (hits.json()?, beside.json()?);
    plain.stop()?;
    let mut client = Client::connect(above.cell.address())?;
    let before = number(&mut client, "loads_below")?;
    let mut run = pressed(lab, &above, rate, &mut writer)?;
    run.read_below = number(&mut client, "loads_below")? - before;
    (run.taken_per_s, run.p99_us[1]) = (taken_per_s, plain_hits.number("/get_latency/p99_us")?);
    lab.detail("it is drained");
    run.is_drained = drain(lab, &above.cell)?;
    lab.detail("what is known is read");
    writer.check_all(above.cell.address())?;
    run.known = writer.tally;
    above.cell.stop()?;
    drop(above.proxy);
    above.emulator.stop()?;
    Ok(judge(&run))
}

fn above(lab: &Lab, launch: Launch, disk_mib: Option<u64>) -> Result<Above> {
    let (emulator, folder) = (Emulator::Gcs, lab.folder().join("tier-outage"));
    if folder.exists() {
        fs::remove_dir_all(&folder).context("empty the directory of the tier")?;
    }
    fs::create_dir_all(&folder).context("make the directory of the tier")?;
    let service = emulator.start_beside(&lab.folder().join("emulators"))?;
    let proxy = Proxy::start(service.address())?;
    proxy.throttle(Some(BUCKET_BYTES_PER_S));
    let variables = emulator.environment(proxy.address());
    let launch = variables.iter().fold(launch, |launch, (name, value)| launch.env(name, value));
    let tier = Some((&folder, disk_mib));
    let cell = launch.start("cell", &lab.folder(), |port| words(lab, port, tier), accepts)?;
    Ok(Above { cell, proxy, emulator: service })
}

/// How a cell is started: with a tier in a directory, which may be a small disk of its own.
fn words(lab: &Lab, port: u16, tier: Option<(&PathBuf, Option<u64>)>) -> Vec<String> {
    let program = lab.volvox().map(|path| path.display().to_string()).unwrap_or_default();
    let listen = format!("127.0.0.1:{port}");
    let mut words = vec![program];
    words.extend(FLAGS.split(' ').chain(["--listen", &listen]).map(str::to_owned));
    let Some((folder, disk_mib)) = tier else { return words };
    let folder = folder.display().to_string();
    words.extend(TIER.split(' ').chain([&*folder, "--tier-database"]).map(str::to_owned));
    words.push(format!("gs://{BUCKET}/outage"));
    let Some(mib) = disk_mib else { return words };
    // A mount that only the cell sees; it ends with it.
    let mount = format!("mount -t tmpfs -o size={mib}m tmpfs {folder} && exec \"$@\"");
    let before = ["unshare", "--mount", "--map-root-user", "sh", "-c", &mount, "sh"];
    before.map(str::to_owned).into_iter().chain(words).collect()
}

/// Starts a load on the generator's core.
fn start(lab: &Lab, server: &Server, load: Load) -> Result<Running> {
    let exec = lab.generator()?.args(load.words(server));
    exec.args(["--by-time", "--verify", "--patience", "5s"]).start(run_max(lab))
}

fn run_max(lab: &Lab) -> Duration {
    Duration::from_secs(lab.form(PHASES_S).iter().sum()) + REST
}

/// Keys that the bucket takes a second, once the journal is full.
fn taken(lab: &Lab, cell: &Server) -> Result<f64> {
    let limit = Limit::Duration(lab.form(["25s", "40s"]));
    let running = start(lab, cell, Load { limit, prefix: "first:", ..WRITERS })?;
    let mut client = Client::connect(cell.address())?;
    // The journal fills meanwhile.
    let filling_s = lab.form([15, 30]) - 1;
    thread::sleep(Duration::from_secs(filling_s));
    let before = number(&mut client, "flushed_keys")?;
    thread::sleep(Duration::from_secs(MEASURED_S));
    let after = number(&mut client, "flushed_keys")?;
    drop(running);
    Ok((after - before) as f64 / MEASURED_S as f64)
}

/// What was stored in a second.
#[derive(Clone, Copy, Default)]
struct Second {
    /// Of the load that is to be three times what the bucket takes.
    load: u64,
    /// Changes of the keys that are known.
    known: u64,
}

impl Second {
    fn all(&self) -> u64 {
        self.load + self.known
    }
}

/// What was measured.
#[derive(Default)]
struct Run {
    taken_per_s: f64,
    /// What was stored in each second under pressure, without the bucket, and after it.
    stored: [Vec<Second>; 3],
    /// Of hits, above the tier and without one.
    p99_us: [f64; 2],
    /// What went wrong with hits.
    hits_wrong: Vec<String>,
    /// What was read from the bucket meanwhile, hits included that were evicted.
    read_below: u64,
    known: Tally,
    is_drained: bool,
}

/// The writers, the readers, and what happens to the bucket meanwhile.
fn pressed(lab: &Lab, above: &Above, rate: u64, writer: &mut Writer) -> Result<Run> {
    let (cell, limit) = (&above.cell, Limit::Duration(lab.form(WHOLE)));
    let (is_over, address) = (AtomicBool::new(false), cell.address());
    thread::scope(|scope| {
        let known = scope.spawn(|| {
            writer.load(address, &is_over, true);
            &writer.tally
        });
        let run = || -> Result<_> {
            let writers = start(lab, cell, Load { rate: Some(rate), limit, ..WRITERS })?;
            let readers = start(lab, cell, Load { limit, ..READERS })?;
            let [pressed_s, gone_s, _] = lab.form(PHASES_S);
            lab.detail(&format!("{rate} are stored a second"));
            thread::sleep(Duration::from_secs(pressed_s));
            lab.detail("the bucket is gone");
            let gone_ns = mono_ns();
            above.proxy.set(Fault::Gone);
            thread::sleep(Duration::from_secs(gone_s));
            lab.detail("the bucket is back");
            let back_ns = mono_ns();
            above.proxy.set(Fault::None);
            let (stored, hits): (Outcome, Outcome) = (writers.json()?, readers.json()?);
            Ok((stored, hits, [gone_ns, back_ns]))
        };
        let run = run();
        is_over.store(true, Ordering::SeqCst);
        let known = known.join().map_err(|_| anyhow!("the writer of known keys has panicked"))?;
        let (stored, hits, moments) = run?;
        let stored = by_phase(&stored, known, moments)?;
        let p99_us = [hits.number("/get_latency/p99_us")?, 0.0];
        Ok(Run { stored, p99_us, hits_wrong: hits.wrong()?, ..Run::default() })
    })
}

/// What was stored in each second, before, between and after two moments; without the seconds in
/// which these are, and without the last one, which is not whole.
fn by_phase(
    outcome: &Outcome,
    known: &Tally,
    [gone_ns, back_ns]: [u64; 2],
) -> Result<[Vec<Second>; 3]> {
    let by_time = outcome.by_time()?;
    let mut phases = [const { Vec::new() }; 3];
    for (nth, second) in by_time.seconds.iter().enumerate().rev().skip(1).rev() {
        let from_ns = by_time.began_mono_ns + nth as u64 * 1_000_000_000;
        let till_ns = from_ns + 1_000_000_000;
        let is_cut = |at_ns: u64| (from_ns..till_ns).contains(&at_ns);
        if !is_cut(gone_ns) && !is_cut(back_ns) {
            let phase = usize::from(from_ns > gone_ns) + usize::from(from_ns > back_ns);
            let known = known.between(from_ns, till_ns);
            phases[phase].push(Second { load: second.count, known });
        }
    }
    Ok(phases)
}

/// Whether all was written back.
fn drain(lab: &Lab, cell: &Server) -> Result<bool> {
    let (address, seconds) = (cell.address().to_string(), DRAIN_MAX.as_secs().to_string());
    let words = ["ctl", "--server", &address, "tier", "drain", "--wait", &seconds];
    let exec = measure::exec::Exec::new(lab.volvox()?).args(words);
    Ok(exec.said(DRAIN_MAX + REST)?.status.success())
}

fn judge(run: &Run) -> Measured {
    let [pressed, _, back] = &run.stored;
    let judged = [&pressed[pressed.len() / 2..], back.get(GRACE_S..).unwrap_or_default()];
    let least = judged.map(|seconds| seconds.iter().map(Second::all).min().unwrap_or(0));
    let half = run.taken_per_s / 2.0;
    let [lost, older, wrong] =
        [Verdict::Lost, Verdict::Older, Verdict::Wrong].map(|it| run.known.read(it));
    let bad = lost + older + wrong + run.known.false_answers + run.known.unread;
    let times = run.p99_us[0] / run.p99_us[1].max(1.0);
    let drained = if run.is_drained { "drained" } else { "NOT DRAINED" };
    let text = format!(
        "R {:.0}/s; at least {} and, after, {} stored a second; {lost} lost, {} wrong; hits' p99 \
         {times:.2}x; {drained}",
        run.taken_per_s,
        least[0],
        least[1],
        older + wrong + run.known.false_answers,
    );
    let holds = run.taken_per_s > 0.0
        && least.iter().all(|stored| *stored as f64 >= half)
        && bad == 0
        && run.known.changes > 0
        && run.hits_wrong.is_empty()
        && times <= 2.0
        && run.is_drained;
    let all = |seconds: &[Second]| seconds.iter().map(Second::all).collect::<Vec<_>>();
    let known = |seconds: &[Second]| seconds.iter().map(|it| it.known).collect::<Vec<_>>();
    let [pressed, gone, back] = run.stored.each_ref().map(|it| all(it));
    let of_known = run.stored.each_ref().map(|it| known(it));
    let mut details = vec![
        format!("stored in each second: {pressed:?}, without the bucket {gone:?}, after {back:?}"),
        format!("of that, changes of known keys: {of_known:?}"),
        format!(
            "p99 of hits: {:.0} us, without a tier {:.0} us; {} values were read below meanwhile",
            run.p99_us[0], run.p99_us[1], run.read_below,
        ),
        format!("what is known: {}", run.known.line()),
    ];
    details.extend(run.hits_wrong.iter().map(|what| format!("hits: {what}")));
    details.extend(run.known.complaints.iter().cloned());
    Measured::new(text, least[1] as f64 / run.taken_per_s.max(1.0), holds).with_details(details)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::Verdict as Ends;

    fn good() -> Run {
        let mut known = Tally { changes: 9, ..Tally::default() };
        known.reads.insert(Verdict::Well, 9);
        let back = [vec![0; GRACE_S], vec![50; 5]].concat();
        let stored = [vec![9, 9, 50, 60], vec![0; 4], back];
        let stored =
            stored.map(|it| it.into_iter().map(|load| Second { load, known: 0 }).collect());
        let p99_us = [20.0, 10.0];
        let taken_per_s = 100.0;
        Run { taken_per_s, stored, p99_us, known, is_drained: true, ..Run::default() }
    }

    #[test]
    fn each_part_of_the_bar_can_be_missed() {
        assert_eq!(judge(&good()).verdict, Ends::Pass);
        type Spoil = fn(&mut Run);
        let spoils: [Spoil; 10] = [
            |run| run.stored[0][3].load = 49,
            |run| run.stored[2][GRACE_S + 2].load = 49,
            |run| run.stored[2].truncate(GRACE_S),
            |run| run.stored[0].clear(),
            |run| run.p99_us[0] = 21.0,
            |run| run.is_drained = false,
            |run| run.hits_wrong = vec!["1 misses".to_owned()],
            |run| _ = run.known.reads.insert(Verdict::Lost, 1),
            |run| _ = run.known.reads.insert(Verdict::Older, 1),
            |run| run.known.changes = 0,
        ];
        for (nth, spoil) in spoils.into_iter().enumerate() {
            let mut run = good();
            spoil(&mut run);
            assert_eq!(judge(&run).verdict, Ends::Fail, "{nth}");
        }
    }

    #[test]
    fn each_second_belongs_to_what_happened_in_it() {
        let second = |count: u64| {
            let latencies = r#""p50_us": 1.0, "p99_us": 1.0, "p999_us": 1.0, "max_us": 1.0"#;
            format!(r#"{{"count": {count}, {latencies}}}"#)
        };
        let seconds: Vec<_> = (0..8).map(second).collect();
        let text = format!(
            r#"{{"by_time": {{"began_mono_ns": 1000000000, "seconds": [{}], "slot_ms": 2.0,
                "worst_us": [], "own_delay_us": []}}}}"#,
            seconds.join(",")
        );
        let outcome: Outcome = serde_json::from_str(&text).unwrap();
        // Tenths 70 to 79 are those of second 6.
        let by_tenth = [(69, 20), (70, 100), (79, 100), (80, 1000)].into();
        let known = Tally { by_tenth, ..Tally::default() };
        let phases = by_phase(&outcome, &known, [3_500_000_000, 5_100_000_000]).unwrap();
        let all = phases.map(|it| it.iter().map(Second::all).collect::<Vec<_>>());
        assert_eq!(all, [vec![0, 1], vec![3], vec![25, 206]]);
    }
}
