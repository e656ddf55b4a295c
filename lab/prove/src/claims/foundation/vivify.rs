//! Keys that reads create: `mg KEY N30` on a key that is not there stores an empty item.
//!
//! Two fresh servers get the same million keys, one by such reads and one by sets without a value;
//! then each gets a read of every key. The processor time of the server is compared, round by
//! round. An index that did not grow would show in the second part, by longer chains.

use anyhow::{Context, Result};

use crate::claim::{Claim, Measured};
use crate::instruments::{Client, Contestant, ROOMY_MIB, key, times, within};
use crate::lab::Lab;
use measure::account::Account;
use measure::process::Server;
use measure::stats::{Series, alternate, median};

const KEYS: u64 = 1_000_000;
/// Requests that go out together.
const BATCH: u64 = 500;
/// Rounds of the quick and of the full form, each with a server of both kinds.
const ROUNDS: [usize; 2] = [5, 11];
/// How many times what it costs after sets.
const TIMES_MAX: f64 = 1.2;

/// The claims of this theme.
pub const CLAIMS: &[Claim] =
    &[Claim::new("vivify.cost", "a million keys created by reads: CPU per request, beside sets")
        .bar("creating <= 1.2x, reading them <= 1.2x")
        .by(cost)];

/// What one server found: microseconds of a request that creates and of one that reads, and the
/// bytes of the index after that.
struct Cost {
    create_us: f64,
    read_us: f64,
    index_bytes: u64,
}

/// Sends one request for every key; the server's processor time of one.
fn each_us(server: &Server, client: &mut Client, request: fn(&str) -> String) -> Result<f64> {
    let before = Account::of(server.pid())?;
    for first in (0..KEYS).step_by(BATCH as usize) {
        let requests: String = (first..first + BATCH).map(|index| request(&key(index))).collect();
        client.send(requests.as_bytes())?;
        client.lines(BATCH as usize)?;
    }
    Ok((Account::of(server.pid())? - before).cpu_ns as f64 / 1e3 / KEYS as f64)
}

fn one(lab: &Lab, create: fn(&str) -> String) -> Result<Cost> {
    let server = Contestant::volvox(lab)?.memory_mib(ROOMY_MIB).pinned(lab).start(lab)?;
    let measured = || -> Result<Cost> {
        let mut client = Client::connect(server.address())?;
        let create_us = each_us(&server, &mut client, create)?;
        let items = client.stat("curr_items")?;
        anyhow::ensure!(items == KEYS, "{items} items are there, not {KEYS}");
        let read_us = each_us(&server, &mut client, |key| format!("mg {key}\r\n"))?;
        Ok(Cost { create_us, read_us, index_bytes: client.stat("hash_bytes")? })
    };
    let cost = lab.cores().generator().run(measured).context("move to the generator's core")??;
    server.stop()?;
    Ok(cost)
}

fn cost(lab: &Lab) -> Result<Measured> {
    let creates: [fn(&str) -> String; 2] =
        [|key| format!("ms {key} 0 T600\r\n\r\n"), |key| format!("mg {key} N600\r\n")];
    let costs = alternate(2, lab.form(ROUNDS), |which, round| {
        lab.detail(&format!("round {} by {}", round + 1, ["sets", "reads"][which]));
        one(lab, creates[which])
    })?;
    let (mut texts, mut details, mut holds, mut most) = (Vec::new(), Vec::new(), true, 0.0_f64);
    let mut compare = |name: &str, us: fn(&Cost) -> f64| -> Result<()> {
        let [sets, reads] =
            [0, 1].map(|which: usize| costs[which].iter().map(us).collect::<Series>());
        let factor = times(&reads, &sets)?;
        holds &= factor.value <= TIMES_MAX;
        most = most.max(factor.value);
        texts.push(format!("{name} {}", within(factor)));
        let [sets, reads] = [sets, reads].map(|series| median(&series).unwrap_or(0.0));
        details
            .push(format!("{name}: {reads:.3} us by reads, {sets:.3} us by sets, in the middle"));
        Ok(())
    };
    compare("creating", |cost| cost.create_us)?;
    compare("reading", |cost| cost.read_us)?;
    let [sets, reads] = [0, 1].map(|which| costs[which].last().map_or(0, |cost| cost.index_bytes));
    details.push(format!("the index has {reads} bytes after reads, {sets} after sets"));
    Ok(Measured::new(texts.join(", "), most, holds).with_details(details))
}
