//! The whole of the memory stays within the budget, whatever clients do.
//!
//! Thousands of connections, many of them holding half a request; values of every size up to nearly
//! the largest, several budgets' worth of them. The peak of resident memory over the life of the
//! process is held against the budget.

use anyhow::{Context, Result, bail};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::memory::MEMORY_MIB;
use crate::claim::{Claim, Measured};
use crate::instruments::{Client, Contestant, key};
use crate::lab::Lab;
use measure::{account::rss_peak_bytes, rng::Rng};

/// Connections that are open at once.
const CONNECTIONS: usize = 4000;
/// Connections of those that stay in the middle of a request.
const HALF_SENT: usize = 1000;
/// Value bytes that a half-sent request has sent.
const HALF_BYTES: usize = 2000;
/// How many budgets' worth of values are stored.
const TURNOVER: u64 = 4;
/// What may be resident beyond the budget.
const BEYOND_BYTES: u64 = 16 << 20;
/// Bytes of the largest value; the most an item may have is 1 MiB with its key.
const VALUE_MAX: usize = 1_000_000;
/// Descriptors this process needs beside the connections.
const FILES_BESIDE: u64 = 200;

/// The claims of this theme.
pub const CLAIMS: &[Claim] =
    &[Claim::new("memory.bound", "RSS under churn, 4,000 connections and large values")
        .bar("<= -m + 16 MiB")
        .promised("`-m` is the whole budget: resident memory, whatever clients do")
        .by(bound)];

fn bound(lab: &Lab) -> Result<Measured> {
    let memory_mib = lab.form(MEMORY_MIB);
    allow_files(CONNECTIONS as u64 + FILES_BESIDE)?;
    let contestant = Contestant::volvox(lab)?.memory_mib(memory_mib);
    let server = contestant.connections_max(CONNECTIONS + 100).start(lab)?;
    let clients: Result<Vec<Client>> =
        (0..CONNECTIONS).map(|_| Client::connect(server.address())).collect();
    let mut clients = clients?;
    for (at, client) in clients.iter_mut().take(HALF_SENT).enumerate() {
        let head = format!("set {} 0 0 {}\r\n", key(at as u64), 2 * HALF_BYTES);
        client.send(head.as_bytes())?;
        client.send(&vec![b'h'; HALF_BYTES])?;
    }
    churn(&mut clients[HALF_SENT..], TURNOVER * (memory_mib << 20), lab)?;
    let peak_bytes = rss_peak_bytes(server.pid())?;
    drop(clients);
    server.stop()?;
    let beyond_mib = (peak_bytes as f64 - (memory_mib << 20) as f64) / f64::from(1 << 20);
    let text = format!("-m {memory_mib}: peak {beyond_mib:+.1} MiB from it");
    Ok(Measured::new(text, beyond_mib, peak_bytes <= (memory_mib << 20) + BEYOND_BYTES))
}

/// Stores values of `bytes` in all through the clients in turn, and reads some of them again.
fn churn(clients: &mut [Client], bytes: u64, lab: &Lab) -> Result<()> {
    let mut random = Rng::new(11, 0);
    let mut below = |limit: usize| random.below(limit as u64) as usize;
    let value = vec![b'v'; VALUE_MAX];
    let mut sent = 0_u64;
    let mut index = 0_u64;
    while sent < bytes {
        let client = &mut clients[below(CONNECTIONS - HALF_SENT)];
        // Small values are common, large ones carry most of the bytes.
        let ceiling = VALUE_MAX >> below(16);
        let size = 1 + below(ceiling);
        let head = format!("set {} 0 0 {size}\r\n", key(index));
        client.send(&[head.as_bytes(), &value[..size], b"\r\n"].concat())?;
        match client.line()?.as_str() {
            "STORED" => {}
            other => bail!("a set of {size} bytes was answered {other:?}"),
        }
        if index.is_multiple_of(4) {
            read_back(client, index).context("read back what was stored")?;
        }
        sent += size as u64;
        index += 1;
        if index.is_multiple_of(1000) {
            lab.detail(&format!("{} MiB of {}", sent >> 20, bytes >> 20));
        }
    }
    Ok(())
}

/// Gets a key; a miss is fine, a broken reply is not.
fn read_back(client: &mut Client, index: u64) -> Result<()> {
    client.send(format!("get {}\r\n", key(index)).as_bytes())?;
    let head = client.line()?;
    if head == "END" {
        return Ok(());
    }
    let size = head.strip_prefix("VALUE ").and_then(|rest| rest.rsplit(' ').next());
    let size: usize = size.and_then(|digits| digits.parse().ok()).context(head.clone())?;
    client.skip(size + 2)?;
    match client.line()?.as_str() {
        "END" => Ok(()),
        other => bail!("a value was followed by {other:?}"),
    }
}

/// Raises this process's own limit of descriptors where it is too low.
fn allow_files(needed: u64) -> Result<()> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    if limit.maximum.is_some_and(|maximum| maximum < needed) {
        let have = limit.maximum.unwrap_or_default();
        bail!("{needed} descriptors are needed and the limit is {have}: raise it with ulimit -n");
    }
    let raised = Rlimit { current: Some(needed), maximum: limit.maximum };
    setrlimit(Resource::Nofile, raised).context("raise the limit of descriptors")
}
