//! What io_uring costs beside epoll, and whether `auto` picks accordingly.
//!
//! Which of the two is cheaper depends on the machine and on how many requests a wait returns,
//! and that depends on the generator. So both generators judge: `auto` is wrong to pick a driver
//! that is more expensive under both, and wrong not to pick one that is clearly cheaper under both.
//! At equal cost it prefers epoll, which needs less memory and is allowed in more containers.

use anyhow::{Context, Result};

use crate::claim::{Claim, Measured};
use crate::instruments::{
    Asking, Client, Contestant, GET, GETS, alternated, details, pinned, rounds, times, within,
};
use crate::lab::Lab;
use measure::{
    process::Server,
    stats::{Estimate, Series, median},
};

/// How much cheaper the other driver is before `auto` must pick it.
const CLEARLY: f64 = 0.05;
/// The widest the interval may be, to each side: a wider one distinguishes nothing.
const HALF_WIDTH_MAX: f64 = 0.15;
/// Gets of a run of memtier, of values as large as those of our generator.
const BY_MEMTIER: Asking = Asking { requests: 60_000, prefix: "m-300-", ..GETS };
/// The generators, in the order of a turn.
const GENERATORS: [&str; 2] = ["volvox load", "memtier"];

/// The claims of this theme.
pub const CLAIMS: &[Claim] = &[Claim::new(
    "uring.depth1",
    "server CPU per request at depth 1: uring beside epoll, and what auto makes of it",
)
.bar("more expensive by both generators: auto is not uring; more than 5 % cheaper by both: it is")
.by(uring)];

/// Processor time of a request in microseconds, and requests for each wait of the worker.
type Cost = [f64; 2];

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
    lab.memtier()?;
    let turns = alternated(
        lab,
        &[with("epoll")?, with("uring")?],
        rounds(lab),
        |_, server| {
            GET.populate(lab, server)?;
            BY_MEMTIER.fill(lab, server)
        },
        |_, server| turn(lab, server),
    )?;
    let (mut factors, mut lines) = (Vec::new(), Vec::new());
    for (which, generator) in GENERATORS.into_iter().enumerate() {
        let of = |driver: usize, part: usize| -> Series {
            turns[driver].iter().map(|costs| costs[which][part]).collect()
        };
        let names = ["epoll", "uring"].map(|driver| format!("{driver} under {generator}"));
        lines.extend(details(&names.each_ref().map(String::as_str), &[of(0, 0), of(1, 0)]));
        let [epoll, uring] = [0, 1].map(|driver| median(&of(driver, 1)).unwrap_or(0.0));
        lines.push(format!("requests for each wait under {generator}: {epoll:.1}, {uring:.1}"));
        factors.push(times(&of(1, 0), &of(0, 0))?);
    }
    Ok(judge(&factors, &auto).with_details(lines))
}

/// One run of each generator.
fn turn(lab: &Lab, server: &Server) -> Result<[Cost; 2]> {
    let own = || GET.drive(lab, server)?.number("/server/cpu_us_per_request");
    Ok([cost(server, own)?, cost(server, || BY_MEMTIER.server_us(lab, server))?])
}

/// What a run costs that returns its processor time of a request.
fn cost(server: &Server, run: impl FnOnce() -> Result<f64>) -> Result<Cost> {
    let mut client = Client::connect(server.address())?;
    let mut counts = || -> Result<[f64; 2]> {
        let waits = client.stats_of("stats volvox")?;
        let waits = waits.get("wait_calls").context("`stats volvox` has no wait_calls")?;
        Ok([client.stat("cmd_get")? as f64, waits.parse()?])
    };
    let before = counts()?;
    let cpu_us = run()?;
    let after = counts()?;
    Ok([cpu_us, (after[0] - before[0]) / (after[1] - before[1]).max(1.0)])
}

/// Which driver serves, as the server reports it.
fn driver_of(lab: &Lab, contestant: &Contestant) -> Result<String> {
    let server = contestant.start(lab)?;
    let driver = Client::connect(server.address())?.driver()?;
    server.stop()?;
    Ok(driver)
}

fn judge(factors: &[Estimate], auto: &str) -> Measured {
    let texts: Vec<String> = factors.iter().map(|factor| within(*factor)).collect();
    let text = texts.join(" and ");
    let all = |is: fn(&Estimate) -> bool| factors.iter().all(is);
    let (found, picked_well) = if all(|factor| factor.low > 1.0) {
        ("more expensive", auto != "uring")
    } else if all(|factor| factor.high < 1.0 - CLEARLY) {
        ("clearly cheaper", auto == "uring")
    } else if factors.iter().any(|factor| factor.half_width() > HALF_WIDTH_MAX) {
        return Measured::not(format!("{text} is too wide to tell"));
    } else {
        ("alike, or as the generator has it", true)
    };
    let picked = if picked_well { "accordingly" } else { "against it" };
    Measured::new(
        format!("{text}, {found}; auto is {auto}, {picked}"),
        factors[0].value,
        picked_well,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::Verdict;

    #[test]
    fn auto_is_held_against_what_both_generators_measured() {
        let verdict = |factors: [[f64; 2]; 2], auto: &str| {
            let estimate =
                |[low, high]: [f64; 2]| Estimate { value: (low + high) / 2.0, low, high };
            judge(&factors.map(estimate), auto).verdict
        };
        let (higher, cheaper, alike) = ([1.02, 1.10], [0.80, 0.90], [0.95, 1.05]);
        assert_eq!(verdict([higher, higher], "epoll"), Verdict::Pass);
        assert_eq!(verdict([higher, higher], "uring"), Verdict::Fail);
        assert_eq!(verdict([cheaper, cheaper], "uring"), Verdict::Pass);
        assert_eq!(verdict([cheaper, cheaper], "epoll"), Verdict::Fail);
        assert_eq!(verdict([cheaper, alike], "epoll"), Verdict::Pass);
        assert_eq!(verdict([alike, higher], "uring"), Verdict::Pass);
        assert!(matches!(verdict([[0.6, 1.4], cheaper], "epoll"), Verdict::NotMeasured(_)));
    }
}
