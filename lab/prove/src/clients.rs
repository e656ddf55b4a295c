//! Unmodified clients of the field, against our server, on every driver.

use std::{fs, time::Duration};

use anyhow::{Context, Result, bail};

use crate::{
    bench::{self, Lab},
    claim::{Claim, Measured, Peer},
    server::{Launch, Program},
    wire::Client,
};
use measure::{exec::Exec, repo::Repo};

/// The program that runs every client against an address.
const CLIENTS: &str = "tests/clients/run.sh";
/// Longest the clients may take, installation included.
const CLIENTS_MAX: Duration = Duration::from_secs(1200);
/// The budget they run in: several of the largest values, with room.
const MEMORY_MIB: u64 = 256;

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
    Claim { id, claim, bar: "all pass", peer: Peer::Nobody, measure }
}

fn measured(lab: &Lab, driver: &str) -> Result<Measured> {
    lab.quiet();
    let well = run(&lab.repo, driver)?;
    let text = if well { "all pass" } else { "not all pass" };
    Ok(Measured::new(text, f64::from(u8::from(well)), well))
}

/// Fails where another driver stands in for the one that was asked for, as epoll does where
/// io_uring is forbidden: what the clients say then is said of the other one.
fn serves(driver: &str, serving: &str) -> Result<()> {
    if serving != driver {
        bail!("the driver {driver} is not allowed here: {serving} serves in its place");
    }
    Ok(())
}

/// Runs every client against our server with the given driver; true when all pass.
pub fn run(repo: &Repo, driver: &str) -> Result<bool> {
    let script = repo.path(CLIENTS);
    fs::metadata(&script).with_context(|| format!("{CLIENTS} is missing"))?;
    let volvox = repo.volvox();
    if !volvox.is_file() {
        bail!("{} is missing: cargo build --release -p volvox", volvox.display());
    }
    let mut launch = Launch::new(Program::Volvox(volvox)).memory_mib(MEMORY_MIB);
    launch.env.push(("VOLVOX_SERVER_DRIVER", driver.to_owned()));
    let server = launch.start(&repo.path(bench::FOLDER))?;
    serves(driver, &Client::connect(server.address())?.driver()?)?;
    let exec = Exec::new(script).arg(server.address().to_string()).cwd(repo.root());
    let well = exec.status(CLIENTS_MAX)?;
    server.stop()?;
    Ok(well)
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
