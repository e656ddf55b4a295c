//! What io_uring costs beside epoll, and whether `auto` picks accordingly.
//!
//! `auto` weighs more than processor time: io_uring needs more memory for each worker and is
//! forbidden in many containers. So alike is not enough to pick it, but two things are wrong
//! whatever else is weighed: to pick the dearer one, and to leave out one that is clearly cheaper.

use anyhow::Result;

use crate::{
    bench::Lab,
    claim::{Claim, Measured},
    compare::{Interval, statistic},
    cpu::{GET, contest, details, pinned, within},
    server::Launch,
    wire::Client,
};

/// How much cheaper the other driver is before `auto` must pick it.
const CLEARLY: f64 = 0.05;
/// The widest the interval may be, to each side: beyond it nothing is told apart.
const HALF_WIDTH_MAX: f64 = 0.15;

/// The claims of this theme.
pub const CLAIMS: &[Claim] = &[Claim::alone(
    "uring.depth1",
    "server CPU per request at depth 1: uring beside epoll, and what auto makes of it",
    "dearer: auto is not uring; more than 5 % cheaper: auto is uring",
    uring,
)];

fn uring(lab: &Lab) -> Result<Measured> {
    let with = |driver: &str| -> Result<Launch> {
        let mut launch = lab.launch_volvox()?;
        launch.env.push(("VOLVOX_SERVER_DRIVER", driver.to_owned()));
        Ok(pinned(launch))
    };
    for driver in ["uring", "epoll"] {
        let serving = driver_of(lab, &with(driver)?)?;
        if serving != driver {
            return Ok(Measured::not(format!("{driver} is not allowed here, {serving} serves")));
        }
    }
    let auto = driver_of(lab, &with("auto")?)?;
    let series = contest(lab, &[with("epoll")?, with("uring")?], GET)?;
    let (factor, interval) = statistic(&series, |medians| medians[1] / medians[0]);
    Ok(judge(factor, interval, &auto).with_details(details(&["epoll", "uring"], &series)))
}

/// Which driver serves, by the server's own word.
fn driver_of(lab: &Lab, launch: &Launch) -> Result<String> {
    let server = launch.start(&lab.folder())?;
    let driver = Client::connect(server.address())?.driver()?;
    server.stop()?;
    Ok(driver)
}

fn judge(factor: f64, interval: Interval, auto: &str) -> Measured {
    let factor_text = within(factor, interval);
    let (found, picked_well) = if interval.low > 1.0 {
        ("dearer", auto != "uring")
    } else if interval.high < 1.0 - CLEARLY {
        ("clearly cheaper", auto == "uring")
    } else if (interval.high - interval.low) / 2.0 > HALF_WIDTH_MAX {
        return Measured::not(format!("{factor_text} is too wide to tell"));
    } else {
        ("alike", true)
    };
    let picked = if picked_well { "accordingly" } else { "against it" };
    Measured::new(format!("{factor_text}, {found}; auto is {auto}, {picked}"), factor, picked_well)
}

#[cfg(test)]
mod tests {
    use super::super::claim::Verdict;
    use super::*;

    #[test]
    fn auto_is_held_against_what_was_measured() {
        let verdict = |low: f64, high: f64, auto: &str| {
            judge((low + high) / 2.0, Interval { low, high }, auto).verdict
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
