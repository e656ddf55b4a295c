//! `kill -9` under load, again and again on one directory.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

use super::load::{Tally, Writers};
use super::system::{System, kill};
use crate::lab::Lab;
use measure::clock::mono_ns;
use measure::rng::Rng;

/// When a kill comes after the beginning of the load, in milliseconds.
const LOAD_MS: [u64; 2] = [50, 600];

/// Kills a system as often; what was lost.
pub fn kills(lab: &Lab, system: System, kills: usize) -> Result<Tally> {
    let folder = lab.folder().join("tier-loss");
    let directory = folder.join("data");
    if folder.exists() {
        fs::remove_dir_all(&folder).context("empty the directory of the system")?;
    }
    system.prepare(&directory)?;
    let seed = mono_ns();
    let (mut writers, mut rng) = (Writers::new(system, seed), Rng::new(seed, u64::MAX));
    let mut server = system.start(lab, &directory, &folder)?;
    writers.fill(server.address())?;
    let mut tally = Tally::default();
    for number in 0..kills {
        lab.detail(&format!("{}, kill {}", system.name(), number + 1));
        let (address, is_over, began_ns) = (server.address(), AtomicBool::new(false), mono_ns());
        let after = Duration::from_millis(LOAD_MS[0] + rng.below(LOAD_MS[1] - LOAD_MS[0]));
        writers.load(address, &is_over, || {
            // The moment of the kill is drawn: nothing is waited for.
            thread::sleep(after);
            is_over.store(true, Ordering::SeqCst);
            kill(server)
        })?;
        let killed_ns = mono_ns();
        server = system.start(lab, &directory, &folder).context("start after a kill")?;
        let found = writers.read(server.address())?;
        tally.add(&writers.judge(&found, began_ns, killed_ns));
        writers.begin_from(&found);
    }
    kill(server)?;
    fs::remove_dir_all(&folder).context("remove the directory of the system")?;
    Ok(tally)
}
