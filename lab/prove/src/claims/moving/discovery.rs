//! Whether clients that find their servers by `config get cluster` follow a ring that changes.

use std::time::Duration;

use anyhow::Result;

use crate::claim::{Claim, Measured};
use crate::lab::Lab;
use measure::process::exec::Exec;
use measure::process::launch::free_ports;
use measure::process::tools;

/// The program that runs three clients on a ring of its own.
const DISCOVERY: &str = "tests/clients/discovery/run.sh";
/// Longest that may take, the installation of the clients included.
const DISCOVERY_MAX: Duration = Duration::from_secs(900);
/// Cells of that ring beside the first.
const MORE_CELLS: u16 = 3;

/// The claims of this theme.
pub const CLAIMS: &[Claim] =
    &[Claim::new("discovery", "three clients with auto discovery follow a division and a kill")
        .bar("each uses the cells that lead something, and no key fails")
        .by(discovery)];

fn discovery(lab: &Lab) -> Result<Measured> {
    Ok(Measured::yes(follows(lab)?, "all follow", "not all follow"))
}

/// Runs the clients on a ring; true when all follow it.
pub fn follows(lab: &Lab) -> Result<bool> {
    tools::NPM.need()?;
    let script = Exec::new(lab.repo().path(DISCOVERY)).arg(lab.volvox()?);
    let script = script.arg(free_ports(MORE_CELLS)?.to_string());
    script.cwd(lab.repo().root()).status(DISCOVERY_MAX)
}
