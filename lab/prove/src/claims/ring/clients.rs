//! Unmodified clients against one cell of a ring, which sends two of three requests on.

use anyhow::Result;

use crate::claim::{Claim, Measured};
use crate::claims::clients;
use crate::instruments::{ROOMY_MIB, Ring};
use crate::lab::Lab;
use measure::process::accepts;

/// The claims of this theme.
pub const CLAIMS: &[Claim] =
    &[Claim::new("clients", "the field's clients, byte for byte, through one cell of three")
        .bar("all pass")
        .by(measured)];

fn measured(lab: &Lab) -> Result<Measured> {
    lab.quiet();
    let ring = Ring::start(lab, ROOMY_MIB, None, accepts)?;
    let well = clients::pass(lab, ring.cells()[1].address)?;
    ring.stop()?;
    Ok(Measured::yes(well, "all pass", "not all pass"))
}
