//! What a SET waits for at level `disk`: beside the disk itself on one connection, and on fifty
//! beside redis, which syncs before it answers, too.
//!
//! All write to one file system, and take turns. A cell goes on after its turn and brings what was
//! stored to its database, so that is waited for. Keys are 20 bytes, redis's 16, and values 300.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::Value;

use super::{drained, emptied};
use crate::claim::{Claim, Measured};
use crate::instruments::{
    Contestant, GET, Limit, Load, Outcome, pinned, redis, rounds, times, within,
};
use crate::lab::Lab;
use measure::exec::Exec;
use measure::process::{Launch, Server, accepts};
use measure::stats::{Series, alternate, median, spread};
use measure::tools;

/// Longest that a run of fio may take.
const WAIT_MAX: Duration = Duration::from_secs(120);
/// How long one turn on one connection is.
const TURN: &str = "2s";
/// Requests of one turn on fifty.
const REQUESTS: u64 = 200_000;
/// A 4 KiB write and a sync, again and again.
const FIO: &str = "--name=sync --rw=write --bs=4k --fdatasync=1 --output-format=json --runtime=2 \
                   --time_based";
/// The same to the end of a file that grows, and into one that has its length: that of the journal.
const APPENDING: &str = "--size=1g --fallocate=none --unlink=1";
const IN_PLACE: &str = "--size=16m --overwrite=1";
/// File systems without a disk.
const OF_MEMORY: [&str; 2] = ["tmpfs", "ramfs"];

const ONE: Load = Load { ratio: "0:1", connections: 1, limit: Limit::Duration(TURN), ..GET };
const FIFTY: Load = Load { ratio: "0:1", limit: Limit::Requests(REQUESTS), ..GET };

/// The claims of this theme.
pub const CLAIMS: &[Claim] = &[
    Claim::new(
        "disk.lone",
        "SET at disk, one connection: p50 beside fio's fdatasync + SET at memory",
    )
    .bar("<= 1.3x")
    .by(lone),
    Claim::new("disk.fifty", "SETs a second at disk, 50 connections, beside redis, fsync always")
        .bar(">= 1.2x")
        .by(fifty),
];

fn lone(lab: &Lab) -> Result<Measured> {
    let Some(system) = file_system(lab)? else { return Ok(on_memory()) };
    let start = |ack| emptied(lab, pinned(lab, Contestant::volvox(lab)?), ack)?.start(lab);
    let cells = [start("memory")?, start("disk")?];
    let [appended, in_place] = ["fio-appended", "fio-in-place"].map(|it| lab.folder().join(it));
    let series = alternate(4, rounds(lab), |which, round| {
        lab.detail(&format!("round {}", round + 1));
        match which {
            0 => fio(lab, APPENDING, &appended),
            1 => fio(lab, IN_PLACE, &in_place),
            _ => turn(lab, &cells[which - 2], ONE)?.number("/set_latency/p50_us"),
        }
    })?;
    fs::remove_file(in_place).context("remove the file of fio")?;
    cells.into_iter().try_for_each(Server::stop)?;
    let names = ["fio, appending", "fio, in place", "SET at memory", "SET at disk"];
    let mut details = lines(&names, "us, p50", &series);
    details.push(format!("on {system}"));
    let sum = |fio: &Series| -> Series {
        fio.iter().zip(&series[2]).map(|(fio_us, set_us)| fio_us + set_us).collect()
    };
    let beside_in_place = times(&series[3], &sum(&series[1]))?;
    details.push(format!("beside fio in place: {}", within(beside_in_place)));
    let factor = times(&series[3], &sum(&series[0]))?;
    Ok(Measured::new(within(factor), factor.value, factor.value <= 1.3).with_details(details))
}

fn fifty(lab: &Lab) -> Result<Measured> {
    let Some(system) = file_system(lab)? else { return Ok(on_memory()) };
    let cell = emptied(lab, pinned(lab, Contestant::volvox(lab)?), "disk")?
        // Within a turn it brings what it stores to its database.
        .env("VOLVOX_TIER_AGE_S", "1")
        .start(lab)?;
    let other = start_redis(lab)?;
    let series = alternate(2, rounds(lab), |which, round| {
        lab.detail(&format!("round {}", round + 1));
        if which == 0 {
            return turn(lab, &cell, FIFTY)?.number("/rate/achieved_per_s");
        }
        let began = Instant::now();
        redis(lab, &other, "set", FIFTY.depth, REQUESTS)?;
        Ok(REQUESTS as f64 / began.elapsed().as_secs_f64())
    })?;
    [cell, other].into_iter().try_for_each(Server::stop)?;
    let mut details = lines(&["volvox at disk", "redis, fsync always"], "a second", &series);
    details.push(format!("on {system}"));
    let factor = times(&series[0], &series[1])?;
    Ok(Measured::new(within(factor), factor.value, factor.value >= 1.2).with_details(details))
}

/// A load on a cell; ends when all of it is in the database.
fn turn(lab: &Lab, cell: &Server, load: Load) -> Result<Outcome> {
    let outcome = load.drive(lab, cell)?;
    drained(lab, cell)?;
    Ok(outcome)
}

/// The median of what a sync takes, in microseconds.
fn fio(lab: &Lab, more: &str, file: &Path) -> Result<f64> {
    let exec = Exec::new(tools::FIO.need()?).cores(lab.cores().server());
    let exec = exec.args(FIO.split(' ')).args(more.split(' '));
    let report: Value = exec.arg(format!("--filename={}", file.display())).json(WAIT_MAX)?;
    let p50_ns = report.pointer("/jobs/0/sync/lat_ns/percentile/50.000000");
    Ok(p50_ns.and_then(Value::as_f64).context("fio reports no sync")? / 1e3)
}

/// Redis that answers when its file is synced.
fn start_redis(lab: &Lab) -> Result<Server> {
    let program = tools::REDIS.need()?.display().to_string();
    let folder = lab.folder().join("redis-always");
    if folder.exists() {
        fs::remove_dir_all(&folder).context("empty the folder of redis")?;
    }
    let words = |port: u16| {
        let text = format!(
            "{program} --port {port} --bind 127.0.0.1 --appendonly yes --appendfsync always --dir \
             {} --save",
            folder.display()
        );
        text.split(' ').map(str::to_owned).chain([String::new()]).collect()
    };
    Launch::new().cores(lab.cores().server()).start("redis", &folder, words, accepts)
}

/// A line for each that took turns.
fn lines(names: &[&str], unit: &str, series: &[Series]) -> Vec<String> {
    let line = |(name, one): (&&str, &Series)| {
        let (middle, spread) = (median(one).unwrap_or(0.0), spread(one).unwrap_or(0.0) * 100.0);
        format!("{name}: {middle:.0} {unit}, spread {spread:.0} %, {} rounds", one.len())
    };
    names.iter().zip(series).map(line).collect()
}

fn on_memory() -> Measured {
    Measured::not("target/prove is not on a disk")
}

/// The device and the file system that the measurements write to; none where it is memory.
fn file_system(lab: &Lab) -> Result<Option<String>> {
    fs::create_dir_all(lab.folder()).context("make the folder of the measurements")?;
    let folder = lab.folder().canonicalize().context("find the folder of the measurements")?;
    let mounts = fs::read_to_string("/proc/self/mounts").context("read what is mounted")?;
    let [device, kind] = mount_of(&mounts, &folder).context("the folder is not mounted")?;
    Ok((!OF_MEMORY.contains(&kind)).then(|| format!("{kind} of {device}")))
}

/// The device and the kind of the file system that holds `folder`.
fn mount_of<'a>(mounts: &'a str, folder: &Path) -> Option<[&'a str; 2]> {
    let rows = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ');
        let (device, at, kind) = (words.next()?, words.next()?, words.next()?);
        folder.starts_with(at).then_some((PathBuf::from(at), [device, kind]))
    });
    // Of two at one place, the later one is seen.
    rows.max_by_key(|(at, _)| at.components().count()).map(|(_, of)| of)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_system_is_that_of_the_nearest_mount() {
        let mounts = "overlay / overlay rw 0 0\n/dev/a /w ext4 rw 0 0\ntmpfs /w/tmp tmpfs rw 0 0\n\
                      /dev/b /w/tmp xfs rw 0 0\n";
        let of = |folder: &str| mount_of(mounts, Path::new(folder));
        assert_eq!(of("/w/target"), Some(["/dev/a", "ext4"]));
        assert_eq!(of("/w/tmp/x"), Some(["/dev/b", "xfs"]));
        assert_eq!(of("/words"), Some(["overlay", "overlay"]));
        assert_eq!(mount_of("", Path::new("/")), None);
    }
}
