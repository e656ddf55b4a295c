//! Reads of what is not in memory, beside memcached with extstore; and what is left after a kill.
//!
//! Four times as much as fits in memory, in values of 4 KB, requested by Zipf's law. Both keep the
//! rest in files of one file system, which has them in its own memory, and take turns.

use std::fs;

use anyhow::{Context, Result};

use super::loss::killed;
use super::{drained, emptied};
use crate::claim::{Claim, Measured};
use crate::instruments::{Client, Contestant, GET, Limit, Load, Outcome, pinned, times, within};
use crate::lab::Lab;
use measure::process::Server;
use measure::stats::{Series, alternate};

/// The claims of this theme.
pub const CLAIMS: &[Claim] = &[
    Claim::new("reads.rate", "4 KB, a set of 4x the memory, Zipf 0.99: gets a second, extstore")
        .bar(">= 0.8x")
        .beside_memcached()
        .by(|lab| compare(lab, "/rate/achieved_per_s", |factor| factor >= 0.8)),
    Claim::new("reads.p99", "the same: the longest of 99 in 100 gets")
        .bar("<= 1.5x")
        .beside_memcached()
        .by(|lab| compare(lab, "/get_latency/p99_us", |factor| factor <= 1.5)),
    Claim::new("reads.kept", "the same after kill -9: values that are there, and extstore's")
        .bar("all, and none")
        .beside_memcached()
        .by(kept),
];

/// Memory of each, in the quick and the full form.
const MEMORY_MIB: [u64; 2] = [128, 768];
/// Bytes of a value, and how many there are for each MiB of memory: four times as much.
const VALUE_BYTES: usize = 4096;
const KEYS_PER_MIB: u64 = 4 * (1 << 20) / VALUE_BYTES as u64;
/// Turns of each, and how long one is.
const TURNS: [usize; 2] = [4, 10];
const TURN: [&str; 2] = ["3s", "10s"];
/// Keys that are stored a second: what extstore has not written when it needs the memory is gone.
const FILL_PER_S: u64 = 10_000;
/// What extstore keeps at most.
const EXTSTORE: &str = "4G";

fn load(lab: &Lab) -> Load {
    let keys = lab.form(MEMORY_MIB) * KEYS_PER_MIB;
    let limit = Limit::Duration(lab.form(TURN));
    Load { keys, value_bytes: VALUE_BYTES, popularity: "zipf:0.99", limit, ..GET }
}

/// Our cell and memcached, both filled.
struct Two {
    own: (Contestant, Server),
    other: (Contestant, Server),
}

impl Two {
    fn filled(lab: &Lab) -> Result<Self> {
        let memory_mib = lab.form(MEMORY_MIB);
        let own = emptied(lab, pinned(lab, Contestant::volvox(lab)?).memory_mib(memory_mib), "os")?;
        let file = lab.folder().join("extstore");
        let words = ["-o".to_owned(), format!("ext_path={}:{EXTSTORE}", file.display())];
        let other = pinned(lab, Contestant::memcached(lab)?).memory_mib(memory_mib).more(&words);
        let filled = |contestant: Contestant| -> Result<(Contestant, Server)> {
            lab.detail(&format!("{} is filled", contestant.program().name()));
            let server = contestant.start(lab)?;
            fill(lab, &server)?;
            Ok((contestant, server))
        };
        let two = Self { own: filled(own)?, other: filled(other)? };
        drained(lab, &two.own.1)?;
        Ok(two)
    }

    fn end(lab: &Lab) -> Result<()> {
        fs::remove_file(lab.folder().join("extstore")).context("remove the file of extstore")?;
        fs::remove_dir_all(super::directory(lab, "os")).context("remove the directory of the tier")
    }
}

/// Stores all keys, one after the other, and no faster than both can write them.
fn fill(lab: &Lab, server: &Server) -> Result<()> {
    let keys = load(lab).keys;
    let (rate, limit) = (Some(FILL_PER_S), Limit::Requests(keys));
    let popularity = "sequential";
    let stores = Load { ratio: "0:1", popularity, rate, limit, warm_up: "0s", ..load(lab) };
    stores.drive(lab, server).map(drop)
}

fn compare(lab: &Lab, path: &str, holds: impl Fn(f64) -> bool) -> Result<Measured> {
    let two = Two::filled(lab)?;
    let mut missed = 0.0;
    let series: Vec<Series> = alternate(2, lab.form(TURNS), |which, round| {
        lab.detail(&format!("turn {}", round + 1));
        if which == 0 {
            return load(lab).drive(lab, &two.own.1)?.number(path);
        }
        // It may have dropped some of what it could not write in time.
        let outcome = load(lab).try_drive(lab, &two.other.1)?;
        missed += outcome.number("/misses")?;
        outcome.number(path)
    })?;
    let read_below = Client::connect(two.own.1.address())?.stats_of("stats tier")?;
    let below = read_below.get("loads_below").cloned().unwrap_or_default();
    let fetched = Client::connect(two.other.1.address())?.stat("get_extstore")?;
    [two.own.1, two.other.1].into_iter().try_for_each(Server::stop)?;
    Two::end(lab)?;
    let factor = times(&series[0], &series[1])?;
    let shown = |one: &Series| {
        one.iter().map(|number| format!("{number:.0}")).collect::<Vec<_>>().join(", ")
    };
    let details = vec![
        format!("ours: {}; read from the database: {below}", shown(&series[0])),
        format!("extstore: {}; read from its file: {fetched}, missed {missed}", shown(&series[1])),
    ];
    Ok(Measured::new(within(factor), factor.value, holds(factor.value)).with_details(details))
}

fn kept(lab: &Lab) -> Result<Measured> {
    let Two { own, other } = Two::filled(lab)?;
    let after = |(contestant, server): (Contestant, Server)| -> Result<[f64; 2]> {
        lab.detail(&format!("{} is killed", contestant.program().name()));
        killed(server)?;
        let server = contestant.start(lab)?;
        let keys = load(lab).keys;
        let all = Load {
            popularity: "sequential",
            limit: Limit::Requests(keys),
            warm_up: "0s",
            ..load(lab)
        };
        let outcome = all.try_drive(lab, &server)?;
        server.stop()?;
        let missed = outcome.number("/misses")?;
        Ok([keys as f64 - missed, unread(&outcome)?])
    };
    let ([own, wrong], [other, _]) = (after(own)?, after(other)?);
    Two::end(lab)?;
    Ok(judge_kept(load(lab).keys as f64, [own, wrong, other]))
}

/// Judges what was found of `keys`: by us, wrong or refused, and by extstore.
fn judge_kept(keys: f64, [own, wrong, other]: [f64; 3]) -> Measured {
    let text = format!("{own} of {keys} values, {wrong} wrong or refused; extstore {other}");
    Measured::new(text, own, own == keys && wrong == 0.0 && other == 0.0)
}

/// Gets that were answered otherwise than by the value or a miss.
fn unread(outcome: &Outcome) -> Result<f64> {
    let counts = ["/wrong_values", "/requests/errors", "/requests/lost", "/requests/unanswered"];
    counts.into_iter().try_fold(0.0, |sum, path| Ok(sum + outcome.number(path)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::Verdict;

    #[test]
    fn a_value_that_is_gone_or_wrong_fails() {
        let verdict = |found| judge_kept(10.0, found).verdict;
        assert_eq!(verdict([10.0, 0.0, 0.0]), Verdict::Pass);
        for found in [[9.0, 0.0, 0.0], [10.0, 1.0, 0.0], [10.0, 0.0, 1.0]] {
            assert_eq!(verdict(found), Verdict::Fail, "{found:?}");
        }
    }
}
