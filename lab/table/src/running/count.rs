//! Instruments as programs of this machine: where they are, and what they have written.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use measure::Error;

use crate::plan::Instrument;

/// Longest an instrument may take to write its result after the server has ended.
const WRITTEN_MAX: Duration = Duration::from_secs(30);
/// How often the result is looked for.
const POLL: Duration = Duration::from_millis(10);

/// Where an instrument's program is, if it is installed.
pub(crate) fn find(instrument: Instrument) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let files = std::env::split_paths(&path).map(|folder| folder.join(instrument.program()));
    files.into_iter().find(|file| file.is_file())
}

/// The counts in `file`, once the instrument has written all of it.
pub(crate) fn read(instrument: Instrument, file: &Path) -> Result<BTreeMap<String, u64>, Error> {
    let until = Instant::now() + WRITTEN_MAX;
    loop {
        let text = fs::read_to_string(file).unwrap_or_default();
        if let Some(counts) = instrument.parse(&text) {
            return Ok(counts);
        }
        if Instant::now() >= until {
            let program = instrument.program();
            return Err(Error::Setting(format!("{program} wrote no counts in {WRITTEN_MAX:?}")));
        }
        thread::sleep(POLL);
    }
}
