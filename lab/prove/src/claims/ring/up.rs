//! How long `volvox up` takes until a key is stored.

use std::io::{BufRead, BufReader, Error, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::claim::{Claim, Measured};
use crate::instruments::Ring;
use crate::lab::Lab;
use measure::stats::{median, range};

/// Rings that are started, in the quick and the full form.
const RUNS: [usize; 2] = [5, 20];
/// The bar.
const SECONDS_MAX: f64 = 3.0;
/// Longest an answer may take before it is tried again: a ring that forms lets requests wait.
const ANSWER_MAX: Duration = Duration::from_secs(3);
/// Memory of a cell.
const MEMORY_MIB: u64 = 64;

/// The claims of this theme.
pub const CLAIMS: &[Claim] =
    &[Claim::new("up", "volvox up, three cells: from its start to the first stored key")
        .bar("<= 3 s")
        .by(up)];

fn up(lab: &Lab) -> Result<Measured> {
    let mut seconds = Vec::new();
    for run in 0..lab.form(RUNS) {
        lab.detail(&format!("ring {}", run + 1));
        let (began, mut first) = (Instant::now(), None);
        let ring = Ring::start(lab, MEMORY_MIB, None, |address| {
            stores(address)?;
            first.get_or_insert(began.elapsed());
            Ok(())
        })?;
        ring.stop()?;
        seconds.extend(first.map(|first| first.as_secs_f64()));
    }
    let (_, longest) = range(&seconds).unwrap_or_default();
    let middle = median(&seconds).unwrap_or_default();
    let text =
        format!("{longest:.2} s at most, {middle:.2} s in the middle, {} runs", seconds.len());
    Ok(Measured::new(text, longest, longest <= SECONDS_MAX && !seconds.is_empty()))
}

/// Stores a key.
fn stores(address: SocketAddr) -> std::io::Result<()> {
    let mut stream = TcpStream::connect_timeout(&address, ANSWER_MAX)?;
    stream.set_read_timeout(Some(ANSWER_MAX))?;
    stream.write_all(b"set first 0 0 1\r\nx\r\n")?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    if line == "STORED\r\n" { Ok(()) } else { Err(Error::other(line)) }
}
