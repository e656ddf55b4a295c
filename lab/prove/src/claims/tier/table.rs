//! The original's table of latencies, L5, with a database below: four drivers, sizes, mixes, rates.
//!
//! `volvox lab --tier redb`: the quick form, or with `--long` the full one, which continues after
//! an interruption on the same commit. Memory holds the keys that are requested most.

use std::rc::Rc;

use anyhow::Result;
use serde_json::Value;

use crate::claim::{Claim, Measured};
use crate::claims::table::{judge_filled, table};
use crate::lab::Lab;

/// The claims of this theme.
pub const CLAIMS: &[Claim] = &[Claim::new(
    "table.tiered",
    "GET and PUT above redb, p50 and p95 at each rate, all four drivers",
)
.bar("every cell, none empty, no error, no wrong value")
.by(filled)];

fn filled(lab: &Lab) -> Result<Measured> {
    let report: Rc<Value> =
        lab.shared("tier-table", || table(lab, "lab-tier", &["--tier", "redb"]))?;
    let measured = judge_filled(&report);
    let is_tiered = report["database"] == "redb";
    Ok(if is_tiered { measured } else { Measured::not("the report is of another database") })
}
