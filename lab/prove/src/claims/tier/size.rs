//! How much a tier writes for what it stores, and takes of memory.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};

use super::tiered;
use crate::claim::{Claim, Measured};
use crate::instruments::{Client, Contestant, GET, Limit, Load};
use crate::lab::Lab;
use measure::exec::Exec;
use measure::process::Server;

/// The claims of this theme.
pub const CLAIMS: &[Claim] = &[Claim::new(
    "size.pages",
    "in pages of a bucket, 10,000 SETs a second of 1M keys: keys written back per object written",
)
.bar(">= 100, maps included")
.by(pages)];

/// Memory for the index of what is dirty: an eighth of it.
const MEMORY_MIB: u64 = 512;
/// Longest that all may take to be written back.
const DRAIN_MAX: Duration = Duration::from_secs(300);
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
    drain(lab, &server)?;
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

fn drain(lab: &Lab, server: &Server) -> Result<()> {
    let address = server.address().to_string();
    let seconds = DRAIN_MAX.as_secs().to_string();
    let words = ["ctl", "--server", &address, "tier", "drain", "--wait", &seconds];
    Exec::new(lab.volvox()?).args(words).capture(DRAIN_MAX).map(drop)
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
        let stats: BTreeMap<_, _> =
            Client::connect(server.address())?.stats_of("stats tier")?.into_iter().collect();
        let number = |name: &str| -> Result<u64> {
            let text = stats.get(name).with_context(|| format!("`stats tier` has no {name}"))?;
            Ok(text.parse()?)
        };
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
}
