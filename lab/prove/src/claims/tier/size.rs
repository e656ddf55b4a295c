//! How much a tier writes for what it stores, and takes of memory.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::{directory, drained, emptied, tiered};
use crate::claim::{Claim, Measured};
use crate::instruments::{Client, Contestant, GET, Limit, Load};
use crate::lab::Lab;
use measure::account::{rss_peak_bytes, written_bytes};
use measure::process::Server;

/// The claims of this theme.
pub const CLAIMS: &[Claim] = &[
    Claim::new(
        "size.pages",
        "in pages of a bucket, 10,000 SETs a second of 1M keys: keys written back per object \
         written",
    )
    .bar(">= 100, maps included")
    .by(pages),
    Claim::new("size.journal.120", "journal written for each byte of key and value, 120 bytes")
        .bar("<= 1.35x")
        .by(|lab| journal(lab, 120, 1.35)),
    Claim::new("size.journal.1k", "the same, 1 KB")
        .bar("<= 1.1x")
        .by(|lab| journal(lab, 1024, 1.1)),
    Claim::new("size.index", "memory of the index of what is not written back, under load")
        .bar("<= 56 bytes for each key")
        .by(index),
    Claim::new("size.rss", "RSS while five times the memory is stored and read, in turns")
        .bar("<= -m + 24 MiB")
        .by(|lab| rss(lab, false)),
    Claim::new("size.outage", "the same above a bucket that cannot be reached, and is again")
        .bar("<= -m + 24 MiB")
        .by(|lab| rss(lab, true)),
];

/// Memory for the index of what is dirty: an eighth of it.
const MEMORY_MIB: u64 = 512;
/// What a user stores: all keys at first, and then some of them again.
const STORES: Load = Load {
    ratio: "0:1",
    depth: 16,
    keys: 1_000_000,
    value_bytes: 300,
    limit: Limit::Requests(10_000),
    ..GET
};
const RATE: u64 = 10_000;
/// Bytes of a key and its value.
const STORED_BYTES: u64 = 20 + STORES.value_bytes as u64;

/// Keys that are stored once, and memory whose index has room for them.
const FRESH_KEYS: u64 = 300_000;
const FRESH_MIB: u64 = 512;
/// Bytes of a key.
const KEY_BYTES: u64 = 20;
/// Memory of a cell that is stored to without an end, and its journal: full within seconds.
const CHURN_MIB: u64 = 128;
const CHURN_JOURNAL: &str = "256M";
/// What may be resident beyond the memory.
const BEYOND_BYTES: u64 = 24 << 20;
/// As many stores as reads, of five times the memory.
const CHURN: Load =
    Load { ratio: "1:1", depth: 16, keys: 2_000_000, value_bytes: 300, warm_up: "0s", ..GET };

/// A cell that writes nothing back before all keys are stored, and the load that stores them.
fn fresh(lab: &Lab, bytes: u64) -> Result<(Server, Load)> {
    let cell = Contestant::volvox(lab)?.memory_mib(FRESH_MIB);
    let server = emptied(lab, cell, "os")?.env("VOLVOX_TIER_AGE_S", "86400").start(lab)?;
    let value_bytes = usize::try_from(bytes - KEY_BYTES)?;
    Ok((server, Load { keys: FRESH_KEYS, value_bytes, ..STORES }))
}

fn journal(lab: &Lab, bytes: u64, times_max: f64) -> Result<Measured> {
    let (server, load) = fresh(lab, bytes)?;
    let written = || -> Result<u64> {
        // A file is filled with zeroes when it is made, and then used again and again.
        Ok(written_bytes(server.pid())?.saturating_sub(segment_bytes(&directory(lab, "os"))?))
    };
    let before = written()?;
    load.populate(lab, &server)?;
    let written = written()? - before;
    let stats = tier_stats(&server)?;
    let [dirty, in_use] = ["dirty_keys", "journal_bytes"].map(|name| number(&stats, name));
    let (dirty, in_use) = (dirty?, in_use?);
    server.stop()?;
    let factor = written as f64 / (FRESH_KEYS * bytes) as f64;
    let text = format!("{factor:.3}x: {written} bytes for {FRESH_KEYS} of {bytes}");
    let details = vec![format!("{dirty} keys not written back, segments of {in_use} bytes")];
    if dirty != FRESH_KEYS {
        return Ok(Measured::not("some was written back meanwhile").with_details(details));
    }
    Ok(Measured::new(text, factor, factor <= times_max).with_details(details))
}

fn index(lab: &Lab) -> Result<Measured> {
    let (server, load) = fresh(lab, 120)?;
    // It grows by parts: the most is shown of several sizes.
    let (mut most, mut details) = (0.0_f64, Vec::new());
    for part in [3, 2, 1] {
        Load { keys: load.keys / part, ..load }.populate(lab, &server)?;
        let stats = tier_stats(&server)?;
        let [keys, bytes] = ["dirty_keys", "index_bytes"].map(|name| number(&stats, name));
        let (keys, bytes) = (keys?, bytes?);
        let each = bytes as f64 / keys.max(1) as f64;
        most = most.max(each);
        details.push(format!("{keys} keys: {bytes} bytes, {each:.1} each"));
    }
    server.stop()?;
    let text = format!("{most:.1} bytes");
    Ok(Measured::new(text, most, most <= 56.0).with_details(details))
}

fn rss(lab: &Lab, has_outage: bool) -> Result<Measured> {
    let bucket = lab.folder().join("bucket");
    let away = lab.folder().join("bucket-away");
    for path in [&bucket, &away] {
        if path.is_dir() {
            fs::remove_dir_all(path).with_context(|| format!("empty {}", path.display()))?;
        }
    }
    let cell = Contestant::volvox(lab)?.memory_mib(CHURN_MIB);
    let cell = emptied(lab, cell, "os")?.env("VOLVOX_TIER_JOURNAL", CHURN_JOURNAL);
    let database = format!("file:{}", bucket.display());
    let cell = if has_outage { cell.env("VOLVOX_TIER_DATABASE", &database) } else { cell };
    let server = cell.start(lab)?;
    let load = Load { limit: Limit::Duration(lab.form(["15s", "60s"])), ..CHURN };
    let mut details = Vec::new();
    let mut turn = |what: &str| -> Result<()> {
        lab.detail(what);
        let stored = load.try_drive(lab, &server)?;
        let [rate, errors] = ["/rate/achieved_per_s", "/requests/errors"]
            .map(|path| stored.number(path).unwrap_or_default());
        let peak_mib = rss_peak_bytes(server.pid())? >> 20;
        let stats = tier_stats(&server)?;
        let dirty = number(&stats, "dirty_keys")?;
        details.push(format!(
            "{what}: {rate:.0} requests a second, {errors} refused, {dirty} keys not written \
             back; peak {peak_mib} MiB"
        ));
        Ok(())
    };
    turn("churn")?;
    if has_outage {
        // A file in its place: each request fails.
        fs::rename(&bucket, &away).context("move the bucket")?;
        fs::write(&bucket, "").context("put a file in the place of the bucket")?;
        turn("outage")?;
        fs::remove_file(&bucket).context("remove the file")?;
        fs::rename(&away, &bucket).context("move the bucket back")?;
        turn("after it")?;
    }
    let peak_bytes = rss_peak_bytes(server.pid())?;
    server.stop()?;
    if has_outage {
        fs::remove_dir_all(bucket).context("remove the bucket")?;
    }
    let beyond_mib = (peak_bytes as f64 - (CHURN_MIB << 20) as f64) / f64::from(1 << 20);
    let text = format!("-m {CHURN_MIB}: peak {beyond_mib:+.1} MiB from it");
    let holds = peak_bytes <= (CHURN_MIB << 20) + BEYOND_BYTES;
    Ok(Measured::new(text, beyond_mib, holds).with_details(details))
}

/// Bytes of the files of a journal.
fn segment_bytes(directory: &Path) -> Result<u64> {
    let mut bytes = 0;
    for file in fs::read_dir(directory).context("list the files of the tier")? {
        let file = file.context("list the files of the tier")?;
        if file.file_name().to_string_lossy().starts_with("segment-") {
            bytes += file.metadata().context("look at a segment")?.len();
        }
    }
    Ok(bytes)
}

/// What `stats tier` says.
fn tier_stats(server: &Server) -> Result<BTreeMap<String, String>> {
    Client::connect(server.address())?.stats_of("stats tier")
}

fn number(stats: &BTreeMap<String, String>, name: &str) -> Result<u64> {
    let text = stats.get(name).with_context(|| format!("`stats tier` has no {name}"))?;
    text.parse().with_context(|| format!("`stats tier` says {name} is {text}"))
}

fn pages(lab: &Lab) -> Result<Measured> {
    let [bucket, tier] = ["bucket", "tier-os"].map(|it| lab.folder().join(it));
    for path in [&bucket, &tier] {
        if path.exists() {
            fs::remove_dir_all(path).with_context(|| format!("empty {}", path.display()))?;
        }
    }
    let cell = Contestant::volvox(lab)?.memory_mib(MEMORY_MIB);
    let cell = tiered(lab, cell, "os")
        .env("VOLVOX_TIER_DATABASE", &format!("file:{}", bucket.display()))
        .env("VOLVOX_TIER_JOURNAL", "2G");
    let server = cell.start(lab)?;
    lab.detail("1,000,000 keys are stored");
    STORES.populate(lab, &server)?;
    drained(lab, &server)?;
    let before = Counts::of(&server)?;
    lab.detail("10,000 are stored a second");
    let limit = Limit::Duration(lab.form(["75s", "240s"]));
    let load = Load { rate: Some(RATE), depth: 1, limit, ..STORES };
    let stored = load.drive(lab, &server)?.number("/rate/achieved_per_s")?;
    // What is young is not written back at once: it would be written in smaller parts.
    let counts = Counts::of(&server)?.since(&before);
    server.stop()?;
    fs::remove_dir_all(bucket).context("remove the bucket")?;
    judge(&counts, stored)
}

/// What a cell has counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Counts {
    keys: u64,
    objects: u64,
    bytes: u64,
    lists: u64,
}

impl Counts {
    fn of(server: &Server) -> Result<Self> {
        let stats = tier_stats(server)?;
        let number = |name| number(&stats, name);
        Ok(Self {
            keys: number("flushed_keys")?,
            objects: number("bucket_writes")?,
            bytes: number("bucket_written_bytes")?,
            lists: number("bucket_lists")?,
        })
    }

    fn since(&self, before: &Self) -> Self {
        Self {
            keys: self.keys - before.keys,
            objects: self.objects - before.objects,
            bytes: self.bytes - before.bytes,
            lists: self.lists - before.lists,
        }
    }
}

fn judge(counts: &Counts, stored_per_s: f64) -> Result<Measured> {
    let Counts { keys, objects, bytes, lists } = *counts;
    let part = keys as f64 / objects.max(1) as f64;
    let amplified = bytes as f64 / (keys * STORED_BYTES).max(1) as f64;
    let details = vec![
        format!("{stored_per_s:.0} SETs a second; {keys} keys written back, {objects} objects"),
        format!(
            "{bytes} bytes written, {amplified:.1} for each byte of key and value; {lists} lists"
        ),
    ];
    let text = format!("{part:.0} keys an object");
    let holds = keys > 0 && part >= 100.0 && stored_per_s >= 0.95 * RATE as f64;
    Ok(Measured::new(text, part, holds).with_details(details))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::Verdict;

    #[test]
    fn few_keys_an_object_or_a_slow_load_fail() {
        let counts = |keys, objects| Counts { keys, objects, bytes: 1, lists: 1 };
        let verdict = |keys, objects, rate| judge(&counts(keys, objects), rate).unwrap().verdict;
        assert!(matches!(verdict(1_000, 10, 10_000.0), Verdict::Pass));
        assert!(matches!(verdict(999, 10, 10_000.0), Verdict::Fail));
        assert!(matches!(verdict(1_000, 10, 9_000.0), Verdict::Fail));
        assert!(matches!(verdict(0, 0, 10_000.0), Verdict::Fail));
    }

    #[test]
    fn the_files_of_a_journal_are_its_segments_alone() {
        let folder = std::env::temp_dir().join(format!("segments-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        for (name, bytes) in [("segment-00000", 5), ("segment-00007", 3), ("keys.redb", 99)] {
            fs::write(folder.join(name), vec![0; bytes]).unwrap();
        }
        assert_eq!(segment_bytes(&folder).unwrap(), 8);
        fs::remove_dir_all(folder).unwrap();
    }
}
