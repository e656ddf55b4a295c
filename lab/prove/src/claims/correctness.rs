//! What must hold for every input: malformed requests and abandoned connections.
//!
//! The bad requests are drawn from a seed and sent on connections that are dropped, answered or
//! not. Memory and descriptors are read when the server has noticed that the connections are gone,
//! before and after: what the first requests allocate once is no leak. The parsers are fuzzed too.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::claim::{Claim, Measured};
use crate::instruments::{Client, Contestant};
use crate::lab::Lab;
use measure::account::{descriptors, rss_bytes};
use measure::{exec::Exec, process::Server, rng::Rng};

/// Malformed or abandoned requests that are sent.
const REQUESTS: usize = 100_000;
/// Requests sent first, so that what is allocated once is allocated.
const WARM_UP: usize = 5_000;
/// Requests of one connection before it is abandoned.
const PER_CONNECTION: usize = 10;
/// Resident memory that may come and go without being a leak.
const RSS_NOISE_BYTES: u64 = 1 << 20;
/// Longest the server may take to notice that the connections are gone.
const SETTLE_MAX: Duration = Duration::from_secs(20);
/// Longest all targets may take, building included.
const FUZZ_MAX: Duration = Duration::from_secs(7200);
/// How long each target is fuzzed, in seconds, and in the full form.
const FUZZ_S: [u64; 2] = [60, 600];

/// The claims of this theme.
pub const CLAIMS: &[Claim] = &[
    Claim::new("bad.leak", "memory and descriptors after 100,000 bad requests")
        .bar("what they were")
        .promised("100,000 bad requests: memory and descriptors afterwards")
        .by(leak),
    Claim::new("bad.fuzz", "fuzz targets of every parser").bar("no crash").by(fuzzing),
];

fn fuzzing(lab: &Lab) -> Result<Measured> {
    lab.quiet();
    let seconds = lab.form(FUZZ_S);
    let words = ["xtask", "fuzz", "--seconds", &seconds.to_string()];
    let well = Exec::new("cargo").args(words).cwd(lab.repo().root()).status(FUZZ_MAX)?;
    Ok(Measured::yes(well, format!("none in {seconds} s each"), "a crash"))
}

fn leak(lab: &Lab) -> Result<Measured> {
    let server = Contestant::volvox(lab)?.start(lab)?;
    let mut random = Rng::new(3, 0);
    abuse(&server, WARM_UP, &mut random)?;
    let before = settled(&server)?;
    for done in (0..REQUESTS).step_by(WARM_UP) {
        lab.detail(&format!("{done} of {REQUESTS}"));
        abuse(&server, WARM_UP, &mut random)?;
    }
    let after = settled(&server)?;
    server.stop()?;
    let grown_kib = (after.rss_bytes as f64 - before.rss_bytes as f64) / 1024.0;
    let text = format!(
        "{grown_kib:+.0} KiB, {} descriptors then {}",
        before.descriptors, after.descriptors
    );
    let holds = after.rss_bytes <= before.rss_bytes + RSS_NOISE_BYTES
        && after.descriptors == before.descriptors;
    Ok(Measured::new(text, grown_kib, holds))
}

/// What a server holds when only we are connected.
struct Holdings {
    rss_bytes: u64,
    descriptors: usize,
}

/// Waits until the abandoned connections are gone, then reads what the server holds.
fn settled(server: &Server) -> Result<Holdings> {
    let until = Instant::now() + SETTLE_MAX;
    let mut client = Client::connect(server.address())?;
    let idle = client.stat("curr_connections")?;
    let mut fewest = idle;
    // Every `stats` is a turn of the server's loop in which it can notice closed peers.
    while Instant::now() < until && fewest > 2 {
        fewest = fewest.min(client.stat("curr_connections")?);
    }
    if fewest > 2 {
        bail!("{fewest} connections are left after {} s", SETTLE_MAX.as_secs());
    }
    let pid = server.pid();
    Ok(Holdings { rss_bytes: rss_bytes(pid)?, descriptors: descriptors(pid)? })
}

/// Sends malformed requests on connections that are then dropped, answered or not.
fn abuse(server: &Server, requests: usize, random: &mut Rng) -> Result<()> {
    for _ in 0..requests / PER_CONNECTION {
        let mut client = Client::connect(server.address()).context("it takes connections")?;
        for _ in 0..PER_CONNECTION {
            // The server may have closed the connection after the last request: that is an answer.
            if client.send(&malformed(random)).is_err() {
                break;
            }
        }
    }
    Ok(())
}

fn malformed(random: &mut Rng) -> Vec<u8> {
    let long = |count: usize| vec![b'x'; count];
    match random.below(12) {
        0 => b"set k 0 0 -1\r\n".to_vec(),
        1 => b"set k 0 0 10\r\nhalf".to_vec(),
        2 => b"set k 0 0 3\r\ntoo long for three\r\n".to_vec(),
        3 => [b"get ".to_vec(), long(251), b"\r\n".to_vec()].concat(),
        4 => long(3000),
        5 => (0..64).map(|_| random.next_u64() as u8).collect(),
        6 => b"\x80\x00\x00\x03\x08\x00\x00\x00".to_vec(),
        7 => b"mg\r\nms k\r\nms k S\r\nmd\r\nma k Nx\r\n".to_vec(),
        8 => b"incr k x\r\ntouch k\r\ncas k 0 0 1\r\ngat\r\n".to_vec(),
        9 => b"set k 99999999999 0 1\r\n".to_vec(),
        10 => b"\r\n\n \r\n".to_vec(),
        _ => b"set k 0 0 99999999999999999999\r\n".to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_requests_are_the_same_for_the_same_seed() {
        let drawn = |seed| {
            let mut random = Rng::new(seed, 0);
            (0..50).map(|_| malformed(&mut random)).collect::<Vec<_>>()
        };
        assert_eq!(drawn(1), drawn(1));
        assert_ne!(drawn(1), drawn(2));
    }
}
