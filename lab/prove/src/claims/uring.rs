//! What io_uring costs beside epoll, and whether `auto` picks accordingly.
//!
//! `auto` weighs more than processor time: io_uring needs more memory for each worker and is
//! forbidden in many containers. So equal cost is no reason to pick it. Two things are wrong
//! whatever else is weighed: to pick the more expensive one, and not to pick one that is clearly
//! cheaper.

use anyhow::Result;

use crate::claim::{Claim, Measured};
use crate::instruments::{Client, Contestant, GET, costs, details, pinned, rounds, times, within};
use crate::lab::Lab;
use measure::stats::Estimate;

/// How much cheaper the other driver is before `auto` must pick it.
const CLEARLY: f64 = 0.05;
/// The widest the interval may be, to each side: a wider one distinguishes nothing.
const HALF_WIDTH_MAX: f64 = 0.15;

/// The claims of this theme.
pub const CLAIMS: &[Claim] = &[Claim::new(
    "uring.depth1",
    "server CPU per request at depth 1: uring beside epoll, and what auto makes of it",
)
.bar("more expensive: auto is not uring; more than 5 % cheaper: auto is uring")
.by(uring)];

fn uring(lab: &Lab) -> Result<Measured> {
    let with = |driver: &str| -> Result<Contestant> {
        Ok(pinned(lab, Contestant::volvox(lab)?.driver(driver)))
    };
    for driver in ["uring", "epoll"] {
        let serving = driver_of(lab, &with(driver)?)?;
        if serving != driver {
            return Ok(Measured::not(format!("{driver} is not allowed here, {serving} serves")));
        }
    }
    let auto = driver_of(lab, &with("auto")?)?;
    let series = costs(lab, &[with("epoll")?, with("uring")?], GET, rounds(lab))?;
    let factor = times(&series[1], &series[0])?;
    Ok(judge(factor, &auto).with_details(details(&["epoll", "uring"], &series)))
}

/// Which driver serves, as the server reports it.
fn driver_of(lab: &Lab, contestant: &Contestant) -> Result<String> {
    let server = contestant.start(lab)?;
    let driver = Client::connect(server.address())?.driver()?;
    server.stop()?;
    Ok(driver)
}

fn judge(factor: Estimate, auto: &str) -> Measured {
    let (found, picked_well) = if factor.low > 1.0 {
        ("more expensive", auto != "uring")
    } else if factor.high < 1.0 - CLEARLY {
        ("clearly cheaper", auto == "uring")
    } else if factor.half_width() > HALF_WIDTH_MAX {
        return Measured::not(format!("{} is too wide to tell", within(factor)));
    } else {
        ("alike", true)
    };
    let picked = if picked_well { "accordingly" } else { "against it" };
    let text = format!("{}, {found}; auto is {auto}, {picked}", within(factor));
    Measured::new(text, factor.value, picked_well)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::Verdict;

    #[test]
    fn auto_is_held_against_what_was_measured() {
        let verdict = |low: f64, high: f64, auto: &str| {
            judge(Estimate { value: (low + high) / 2.0, low, high }, auto).verdict
        };
        assert_eq!(verdict(1.02, 1.10, "epoll"), Verdict::Pass);
        assert_eq!(verdict(1.02, 1.10, "uring"), Verdict::Fail);
        assert_eq!(verdict(0.80, 0.90, "uring"), Verdict::Pass);
        assert_eq!(verdict(0.80, 0.90, "epoll"), Verdict::Fail);
        assert_eq!(verdict(0.90, 0.98, "epoll"), Verdict::Pass);
        assert_eq!(verdict(0.95, 1.10, "uring"), Verdict::Pass);
        assert!(matches!(verdict(0.6, 1.4, "epoll"), Verdict::NotMeasured(_)));
    }
}
