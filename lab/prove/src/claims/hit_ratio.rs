//! Hit ratio, cache-aside, over the committed streams, against the newest memcached and against
//! item-level S3-FIFO.
//!
//! Every stream is replayed to a fresh server. Where ours takes more resident memory than the
//! original at equal `-m`, it is replayed again with `-m` lowered by the difference. Where it takes
//! no more, equal memory could only raise our ratio, and what was measured stands.

use std::path::{Path, PathBuf};
use std::{fs, net::SocketAddr, time::Duration};

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::claim::{Claim, Measured};
use crate::instruments::Contestant;
use crate::lab::Lab;
use measure::{exec::Exec, stats::geometric_mean, tools};

/// Longest one replay may take.
const REPLAY_MAX: Duration = Duration::from_secs(600);
/// Longest installing the reference may take.
const INSTALL_MAX: Duration = Duration::from_secs(600);
/// How far below a peer a stream may be, as a share: one point.
const BELOW_MAX: f64 = 0.01;
/// The reference and what it needs.
const REFERENCE: &str = "tests/hit_ratio/reference.py";
const REQUIREMENTS: &str = "tests/hit_ratio/requirements.txt";

/// The claims of this theme.
pub const CLAIMS: &[Claim] = &[
    Claim::new("hit.memcached", "hit ratio over the committed streams, at equal -m and equal RSS")
        .bar("geometric mean above memcached's, none more than 1 point below")
        .beside_memcached()
        .promised("a better hit ratio than memcached in as much memory, over the committed streams")
        .by(memcached),
    Claim::new("hit.s3fifo", "hit ratio against item-level S3-FIFO at equal bytes")
        .bar("none more than 1 point below")
        .promised("a hit ratio like that of S3-FIFO in as many bytes of items")
        .by(s3fifo),
];

/// One committed stream.
#[derive(Debug, PartialEq, Eq)]
pub struct Stream {
    /// Its name.
    pub name: String,
    /// The memory it is replayed in.
    pub memory_mib: u64,
}

/// What the generator reports of a replay, as far as it is used here.
#[derive(Debug, Deserialize)]
pub struct Replay {
    /// Hits by gets.
    pub hit_ratio: f64,
    held_bytes: u64,
    rss_bytes_max: u64,
}

/// The streams of the list that this form replays: name, extent and MiB a line.
fn parse(listing: &str, long: bool) -> Result<Vec<Stream>> {
    let mut streams = Vec::new();
    for line in listing.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [name, extent, memory] = words[..] else {
            anyhow::bail!("the list of streams has a line {line:?}");
        };
        if long || extent == "quick" {
            let memory_mib = memory.parse().with_context(|| format!("the MiB of {line:?}"))?;
            streams.push(Stream { name: name.to_owned(), memory_mib });
        }
    }
    Ok(streams)
}

/// The streams of this form.
pub fn streams(lab: &Lab) -> Result<Vec<Stream>> {
    let listing = Exec::new(lab.volvox()?).args(["load", "hit-ratio"]).capture(REPLAY_MAX)?;
    parse(&listing, lab.is_long())
}

fn replay(lab: &Lab, contestant: Contestant, stream: &Stream, memory_mib: u64) -> Result<Replay> {
    let name = contestant.program().name();
    lab.detail(&format!("{}, {name} of {memory_mib} MiB", stream.name));
    let server = contestant.memory_mib(memory_mib).start(lab)?;
    let replay = replay_to(lab, stream, server.address(), Some(server.pid()))?;
    server.stop()?;
    Ok(replay)
}

/// Replays a stream to an empty server.
pub fn replay_to(
    lab: &Lab,
    stream: &Stream,
    address: SocketAddr,
    pid: Option<u32>,
) -> Result<Replay> {
    let words = ["load", "hit-ratio", "--json", "--stream", stream.name.as_str(), "--target"];
    let exec = Exec::new(lab.volvox()?).args(words).arg(address.to_string());
    let pid = pid.map(|pid| ["--server-pid".to_owned(), pid.to_string()]);
    exec.args(pid.into_iter().flatten()).json(REPLAY_MAX)
}

/// Writes a stream to a file that the reference reads.
pub fn dump(lab: &Lab, stream: &Stream, file: &Path) -> Result<()> {
    let words = ["load", "hit-ratio", "--stream", stream.name.as_str(), "--dump"];
    Exec::new(lab.volvox()?).args(words).arg(file).capture(REPLAY_MAX).map(drop)
}

/// The hit ratio of a stream by the reference's policy of that name, in `bytes` of items.
pub fn reference(root: &Path, python: &Path, file: &Path, bytes: u64, policy: &str) -> Result<f64> {
    let script = Exec::new(python).arg(root.join(REFERENCE)).arg(file);
    let said = script.arg(bytes.to_string()).arg(policy).capture(REPLAY_MAX)?;
    said.split_whitespace()
        .last()
        .and_then(|word| word.parse().ok())
        .with_context(|| format!("the reference printed {said:?}"))
}

fn memcached(lab: &Lab) -> Result<Measured> {
    compare(lab, true, |stream| {
        let theirs = replay(lab, Contestant::memcached(lab)?, stream, stream.memory_mib)?;
        let mut ours = replay(lab, Contestant::volvox(lab)?, stream, stream.memory_mib)?;
        let beyond_mib = ours.rss_bytes_max.saturating_sub(theirs.rss_bytes_max).div_ceil(1 << 20);
        if beyond_mib == 0 {
            return Ok((ours.hit_ratio, theirs.hit_ratio, "no more RSS"));
        }
        let memory_mib = stream.memory_mib.saturating_sub(beyond_mib).max(1);
        let at_equal_rss = replay(lab, Contestant::volvox(lab)?, stream, memory_mib)?;
        ours.hit_ratio = ours.hit_ratio.min(at_equal_rss.hit_ratio);
        Ok((ours.hit_ratio, theirs.hit_ratio, "the lower of equal -m and equal RSS"))
    })
}

fn s3fifo(lab: &Lab) -> Result<Measured> {
    let python = environment(lab)?;
    let file = lab.folder().join("stream.csv");
    let measured = compare(lab, false, |stream| {
        let ours = replay(lab, Contestant::volvox(lab)?, stream, stream.memory_mib)?;
        lab.detail(&format!("{}, the reference", stream.name));
        dump(lab, stream, &file)?;
        let theirs = reference(lab.repo().root(), &python, &file, ours.held_bytes, "S3FIFO")?;
        Ok((ours.hit_ratio, theirs, "by items, equal bytes of items"))
    })?;
    fs::remove_file(&file).with_context(|| format!("remove {}", file.display()))?;
    Ok(measured)
}

/// Our hit ratio and a peer's over every stream; `above` where the mean must lie above the peer's.
fn compare(
    lab: &Lab,
    above: bool,
    by_stream: impl Fn(&Stream) -> Result<(f64, f64, &'static str)>,
) -> Result<Measured> {
    let (mut ours_all, mut theirs_all, mut details) = (Vec::new(), Vec::new(), Vec::new());
    for stream in streams(lab)? {
        let (ours, theirs, how) = by_stream(&stream)?;
        details.push(format!("{} ({how})", beside(&stream.name, ours, theirs)));
        ours_all.push(ours);
        theirs_all.push(theirs);
    }
    Ok(judged(&ours_all, &theirs_all, above, details))
}

/// A Python with the reference's package, made once.
pub fn environment(lab: &Lab) -> Result<PathBuf> {
    let folder = lab.folder().join("python");
    let python = folder.join("bin/python3");
    if !python.is_file() {
        lab.detail("installing the reference");
        Exec::new(tools::PYTHON.need()?).args(["-m", "venv"]).arg(&folder).capture(INSTALL_MAX)?;
    }
    let install = Exec::new(&python).args(["-m", "pip", "install", "--quiet", "--requirement"]);
    install.arg(lab.repo().path(REQUIREMENTS)).capture(INSTALL_MAX)?;
    Ok(python)
}

/// Two hit ratios, in words.
pub fn beside(what: &str, ours: f64, theirs: f64) -> String {
    let [ours, theirs, apart] = [ours, theirs, ours - theirs].map(|ratio| ratio * 100.0);
    format!("{what}: {ours:.2} % against {theirs:.2} %, {apart:+.2} points")
}

/// Holds the ratios of all streams against the peer's; with `above` the mean must lie above it.
fn judged(ours: &[f64], theirs: &[f64], above: bool, details: Vec<String>) -> Measured {
    let factor = geometric_mean(ours) / geometric_mean(theirs);
    let points = ours.iter().zip(theirs).map(|(ours, theirs)| ours - theirs);
    let worst = points.fold(f64::MAX, f64::min);
    let text = format!("mean {factor:.3}x, worst {:+.2} points", worst * 100.0);
    let holds = worst >= -BELOW_MAX && (factor > 1.0 || !above);
    Measured::new(text, factor, holds).with_details(details)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::Verdict;

    #[test]
    fn the_quick_form_replays_the_quick_streams() {
        let listing = "a quick 64\nb full 16\n";
        let a = Stream { name: "a".to_owned(), memory_mib: 64 };
        assert_eq!(parse(listing, false).unwrap(), [a]);
        assert_eq!(parse(listing, true).unwrap().len(), 2);
        assert!(parse("a quick\n", true).is_err());
    }

    #[test]
    fn one_stream_far_below_fails_whatever_the_mean() {
        let cases = [
            (&[0.80, 0.50][..], &[0.70, 0.505][..], true, Verdict::Pass),
            (&[0.80, 0.50], &[0.70, 0.52], true, Verdict::Fail),
            (&[0.70, 0.50], &[0.705, 0.50], true, Verdict::Fail),
            (&[0.70, 0.50], &[0.705, 0.50], false, Verdict::Pass),
        ];
        for (ours, theirs, above, expected) in cases {
            let measured = judged(ours, theirs, above, Vec::new());
            assert_eq!(measured.verdict, expected, "{ours:?} {theirs:?}");
        }
    }
}
