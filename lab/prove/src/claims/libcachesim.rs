//! The hit ratio of a replay is that of libcachesim, for the policies that both have.
//!
//! A stream goes over the wire to a cache whose policy is exact, and as a file to the library: the
//! same policy, the same bytes, the same charge for an item. What can differ is the generator's:
//! its order of requests, its refills, its pace, its count of hits. Our server evicts by segments,
//! not by items; it is compared with the library by `hit.s3fifo` of the path.

use std::{fs, net::SocketAddr, path::Path, thread};

use anyhow::{Context, Result};

use doubles::exact;
use doubles::policy::{Items, Policy};

use super::hit_ratio::{self, Stream};
use crate::claim::{Claim, Measured};
use crate::lab::Lab;

/// How far apart the two may be, as a share: one point.
const APART_MAX: f64 = 0.01;

/// The claims of this theme.
pub const CLAIMS: &[Claim] = &[Claim::new(
    "hit.libcachesim",
    "hit ratio of every stream replayed, beside libcachesim's: LRU, FIFO and S3-FIFO by items",
)
.bar("within 1 point, every stream and policy")
.promised("hit ratios of a replay beside libcachesim's: LRU, FIFO and S3-FIFO")
.by(agrees)];

/// One stream under one policy.
#[derive(Clone, Debug)]
struct Pair {
    what: String,
    ours: f64,
    theirs: f64,
}

fn agrees(lab: &Lab) -> Result<Measured> {
    let python = hit_ratio::environment(lab)?;
    let file = lab.folder().join("stream.csv");
    let streams = hit_ratio::streams(lab)?;
    let mut pairs = Vec::new();
    for stream in &streams {
        hit_ratio::dump(lab, stream, &file)?;
        for policy in Policy::ALL {
            lab.detail(&format!("{}, {}", stream.name, policy.name()));
            pairs.push(pair(lab, stream, policy, &python, &file)?);
        }
    }
    fs::remove_file(&file).with_context(|| format!("remove {}", file.display()))?;
    Ok(judge(&pairs, streams.len() * Policy::ALL.len()))
}

/// Replay and reference side by side: neither is timed.
fn pair(lab: &Lab, stream: &Stream, policy: Policy, python: &Path, file: &Path) -> Result<Pair> {
    let capacity_bytes = stream.memory_mib << 20;
    let root = lab.repo().root();
    let (ours, theirs) = thread::scope(|scope| {
        let reference =
            scope.spawn(|| hit_ratio::reference(root, python, file, capacity_bytes, policy.name()));
        let items = Items::new(policy, capacity_bytes);
        let replay = |address: SocketAddr| hit_ratio::replay_to(lab, stream, address, None);
        let ours = exact::serve(items, replay);
        (ours, reference.join().expect("invariant: the reference's keeper does not panic"))
    });
    let what = format!("{}, {}", stream.name, policy.name());
    Ok(Pair { what, ours: ours?.hit_ratio, theirs: theirs? })
}

/// Both signs count; a ratio of none or all would agree with anything.
fn judge(pairs: &[Pair], wanted: usize) -> Measured {
    let line = |pair: &Pair| hit_ratio::beside(&pair.what, pair.ours, pair.theirs);
    let details: Vec<String> = pairs.iter().map(line).collect();
    let says_nothing = |ratio: f64| ratio <= APART_MAX || ratio >= 1.0 - APART_MAX;
    if let Some(pair) = pairs.iter().find(|pair| says_nothing(pair.theirs)) {
        let reason = format!("{}: {:.2} % tells nothing", pair.what, pair.theirs * 100.0);
        return Measured::not(reason).with_details(details);
    }
    if pairs.len() < wanted || pairs.is_empty() {
        let reason = format!("{} of {wanted} streams and policies", pairs.len());
        return Measured::not(reason).with_details(details);
    }
    let apart = |pair: &Pair| (pair.ours - pair.theirs).abs();
    let most = pairs.iter().map(apart).fold(0.0, f64::max);
    let text = format!("{:.2} points apart at most, {} pairs", most * 100.0, pairs.len());
    Measured::new(text, most, most <= APART_MAX).with_details(details)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::Verdict;

    #[test]
    fn one_point_either_way_is_too_far() {
        let verdict = |ours: f64, theirs: f64, wanted: usize| {
            let what = "zipf, LRU".to_owned();
            let well = Pair { what: what.clone(), ours: 0.5, theirs: 0.5 };
            judge(&[well, Pair { what, ours, theirs }], wanted).verdict
        };
        assert_eq!(verdict(0.505, 0.50, 2), Verdict::Pass);
        assert_eq!(verdict(0.515, 0.50, 2), Verdict::Fail);
        assert_eq!(verdict(0.485, 0.50, 2), Verdict::Fail);
        assert!(matches!(verdict(0.5, 0.5, 3), Verdict::NotMeasured(_)), "one is absent");
        assert!(matches!(verdict(1.0, 1.0, 2), Verdict::NotMeasured(_)), "everything hits");
    }
}
