//! What a cell stores where its clients store faster than its database takes.

use std::time::Duration;

use anyhow::{Result, bail};

use super::{emptied, number};
use crate::claim::{Claim, Measured};
use crate::instruments::{Client, Contestant, GET, Limit, Load, Outcome};
use crate::lab::Lab;

/// The claims of this theme.
pub const CLAIMS: &[Claim] =
    &[Claim::new("pressure.steady", "changes come faster than the database takes them")
        .bar("each second of the last half stores half of what is written back, or more")
        .by(steady)];

/// Memory and journal of the cell: the journal is full within seconds.
const MEMORY_MIB: u64 = 64;
const JOURNAL: &str = "128M";
/// Longest the load may take, its start included.
const RUN_MAX: Duration = Duration::from_secs(180);

/// Changes of far more keys than are changed meanwhile, so that few are superseded.
const WRITERS: Load =
    Load { ratio: "0:1", connections: 4, depth: 50, warm_up: "0s", keys: 2_000_000, ..GET };

fn steady(lab: &Lab) -> Result<Measured> {
    let cell = Contestant::volvox(lab)?.memory_mib(MEMORY_MIB);
    let server = emptied(lab, cell, "os")?.env("VOLVOX_TIER_JOURNAL", JOURNAL).start(lab)?;
    let load = Load { limit: Limit::Duration(lab.form(["20s", "60s"])), ..WRITERS };
    let exec = lab.generator()?.args(load.words(&server)).arg("--by-time");
    let outcome = exec.json::<Outcome>(RUN_MAX)?.clean()?;
    let stored: Vec<u64> = outcome.by_time()?.seconds.iter().map(|second| second.count).collect();
    let mut client = Client::connect(server.address())?;
    let per_s = number(&mut client, "flushed_keys")? / stored.len().max(1) as u64;
    judge(&stored, per_s)
}

/// Judges what was stored in each second, of which `per_s` were written back.
fn judge(stored: &[u64], per_s: u64) -> Result<Measured> {
    // The last second is not whole.
    let whole = &stored[..stored.len().saturating_sub(1)];
    let half = &whole[whole.len() / 2..];
    let Some(least) = half.iter().min() else { bail!("nothing was stored") };
    let most = half.iter().max().unwrap_or(least);
    let part = *least as f64 / per_s.max(1) as f64;
    let text = format!("{least} to {most} stored a second, {per_s} written back: {part:.2}x");
    let details = vec![format!("by second: {stored:?}")];
    Ok(Measured::new(text, part, part >= 0.5).with_details(details))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::Verdict;

    #[test]
    fn a_second_that_stores_little_fails_in_the_last_half_alone() {
        let verdict = |stored: &[u64]| judge(stored, 100).map(|it| it.verdict);
        assert!(matches!(verdict(&[10, 10, 90, 50, 3]), Ok(Verdict::Pass)));
        assert!(matches!(verdict(&[90, 90, 90, 49, 3]), Ok(Verdict::Fail)));
        assert!(verdict(&[]).is_err());
    }
}
