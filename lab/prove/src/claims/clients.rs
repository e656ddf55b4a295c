//! Unmodified clients in use, against our server, on every driver.
//!
//! The clients verify every value themselves. Where another driver serves in place of the one that
//! was requested, as epoll does where io_uring is forbidden, nothing is proved of the requested
//! one.

use std::{fs, net::SocketAddr, time::Duration};

use anyhow::{Context, Result, bail};

use crate::claim::{Claim, Measured};
use crate::instruments::{Client, Contestant, ROOMY_MIB};
use crate::lab::Lab;
use measure::exec::Exec;

/// The program that runs every client against an address.
const CLIENTS: &str = "tests/clients/run.sh";
/// Longest the clients may take, installation included.
const CLIENTS_MAX: Duration = Duration::from_secs(1200);

/// The claims of this theme.
pub const CLAIMS: &[Claim] = &[
    claim("clients.epoll", "the field's clients, byte for byte, driver epoll", |lab| {
        measured(lab, "epoll")
    }),
    claim("clients.signal", "the field's clients, byte for byte, driver signal", |lab| {
        measured(lab, "signal")
    }),
    claim("clients.uring", "the field's clients, byte for byte, driver uring", |lab| {
        measured(lab, "uring")
    }),
    claim("clients.threads", "the field's clients, byte for byte, driver threads", |lab| {
        measured(lab, "threads")
    }),
];

const fn claim(
    id: &'static str,
    claim: &'static str,
    measure: fn(&Lab) -> Result<Measured>,
) -> Claim {
    Claim::new(id, claim)
        .bar("all pass")
        .promised(
            "a drop-in: eight clients in use, unmodified, every value verified, on each driver",
        )
        .by(measure)
}

fn measured(lab: &Lab, driver: &str) -> Result<Measured> {
    lab.quiet();
    Ok(Measured::yes(run(lab, driver)?, "all pass", "not all pass"))
}

fn serves(driver: &str, serving: &str) -> Result<()> {
    if serving != driver {
        bail!("the driver {driver} is not allowed here: {serving} serves in its place");
    }
    Ok(())
}

/// Runs every client against our server with the given driver; true when all pass.
pub fn run(lab: &Lab, driver: &str) -> Result<bool> {
    let server = Contestant::volvox(lab)?.memory_mib(ROOMY_MIB).driver(driver).start(lab)?;
    serves(driver, &Client::connect(server.address())?.driver()?)?;
    let well = pass(lab, server.address())?;
    server.stop()?;
    Ok(well)
}

/// Runs every client against a server that runs; true when all pass.
pub fn pass(lab: &Lab, address: SocketAddr) -> Result<bool> {
    let script = lab.repo().path(CLIENTS);
    fs::metadata(&script).with_context(|| format!("{CLIENTS} is missing"))?;
    let exec = Exec::new(script).arg(address.to_string()).cwd(lab.repo().root());
    exec.status(CLIENTS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_is_not_proved_by_the_one_in_its_place() {
        assert!(serves("uring", "uring").is_ok());
        let error = serves("uring", "epoll").unwrap_err().to_string();
        assert!(error.contains("uring is not allowed here: epoll serves"), "{error}");
    }
}
