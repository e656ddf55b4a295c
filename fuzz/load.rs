//! The entry points of the fuzz targets of the load generator, which are not public otherwise: a
//! module of `load`, compiled for fuzzing and for its tests.
//!
//! The first bytes of an input choose the requests of a conversation; the rest is what the server
//! sends, in which some bytes stand for whole replies, so that a fuzzer need not guess values.
//! Whatever is sent: no panic, counts that fit the requests, and the same result however the bytes
//! are cut.

use std::sync::{Arc, LazyLock};

use crate::exchange::{Breach, Exchange, Rules};
use crate::protocol::Protocol;
pub use crate::replay::Unpack;
use crate::replay::{Checks, Outcome, Round};
use crate::tally::Tally;
use crate::workload::{Multiget, Op, Popularity, Request, Spread, Stream, Workload, WorkloadSpec};

/// The number of keys, `k0` to `k9`.
const KEYS: u64 = 10;

/// The length of every value.
const VALUE_BYTES: u32 = 12;

/// The most requests of one conversation.
const REQUESTS_MAX: u8 = 16;

/// The most bytes that are left to be presented again: the longest key of a binary reply.
const LEFT_BYTES_MAX: usize = (64 << 10) + 64;

/// The replies that bytes from 0x8a on stand for.
const WORDS: [&str; 9] = [
    "END\r\n",
    "EN\r\n",
    "MN\r\n",
    "STORED\r\n",
    "HD\r\n",
    "DELETED\r\n",
    "NOT_FOUND\r\n",
    "NOT_STORED\r\n",
    "SERVER_ERROR x\r\n",
];

static WORKLOADS: LazyLock<[Arc<Workload>; 5]> = LazyLock::new(|| {
    let ratios = ["1:0", "0:1", "0:0:1", "0:0:0:1", "2:1:1:1"];
    ratios.map(|ratio| {
        Workload::new(&WorkloadSpec {
            keys: KEYS,
            key_bytes: Spread::Fixed(2),
            key_prefix: "k".into(),
            popularity: Popularity::Sequential,
            ratio: ratio.parse().expect("invariant: a ratio"),
            value_bytes: Spread::Fixed(VALUE_BYTES),
            ttl_s: Spread::Fixed(0),
            seed: 1,
        })
        .expect("invariant: within every limit")
    })
});

/// What a server sends: bytes from 0x80 on stand for hits of a key, then for words.
fn said(script: &[u8], protocol: Protocol, workload: &Workload) -> Vec<u8> {
    let mut out = Vec::new();
    for byte in script {
        match byte.checked_sub(0x80).map(u64::from) {
            Some(key) if key < KEYS => hit(key, protocol, workload, &mut out),
            Some(word) if word < KEYS + WORDS.len() as u64 => {
                out.extend_from_slice(WORDS[(word - KEYS) as usize].as_bytes());
            }
            _ => out.push(*byte),
        }
    }
    out
}

fn hit(key: u64, protocol: Protocol, workload: &Workload, out: &mut Vec<u8>) {
    let name = format!("k{key}");
    match protocol {
        Protocol::Text => {
            out.extend_from_slice(format!("VALUE {name} 0 {VALUE_BYTES}\r\n").as_bytes())
        }
        Protocol::Meta => out.extend_from_slice(format!("VA {VALUE_BYTES} k{name}\r\n").as_bytes()),
        Protocol::Binary => {
            // A quiet get that names its key: four bytes of flags, the key, the value.
            let body = 4 + name.len() as u8 + VALUE_BYTES as u8;
            out.extend_from_slice(&[0x81, 0x0d, 0, name.len() as u8, 4, 0, 0, 0, 0, 0, 0, body]);
            out.extend_from_slice(&[0; 16]);
            out.extend_from_slice(name.as_bytes());
        }
    }
    workload.values.write(key, VALUE_BYTES, out);
    if protocol != Protocol::Binary {
        out.extend_from_slice(b"\r\n");
    }
}

/// Presents `said` in pieces of `step` bytes, each after what was not taken before; whether every
/// piece was accepted.
fn present(said: &[u8], step: usize, mut take: impl FnMut(&[u8]) -> Result<usize, Breach>) -> bool {
    let (mut from, mut to) = (0, 0);
    while to < said.len() {
        to = (to + step.max(1)).min(said.len());
        match take(&said[from..to]) {
            Ok(taken) => from += taken,
            Err(Breach(_)) => return false,
        }
        assert!(to - from <= LEFT_BYTES_MAX, "{} bytes left", to - from);
    }
    true
}

/// One connection of a run: its requests, what the server sends, and in which pieces.
pub fn exchange(input: &[u8]) {
    let Some(([kind, many, requests, step], script)) = input.split_first_chunk() else { return };
    let protocol = [Protocol::Text, Protocol::Meta, Protocol::Binary][usize::from(kind % 3)];
    let workload = &WORKLOADS[usize::from(kind / 3) % WORKLOADS.len()];
    let rules = Rules {
        refill: many & 0x80 == 0,
        multiget: Multiget { keys: Spread::Fixed(u32::from(many % 4) + 1), consecutive: false },
        multiset: if protocol == Protocol::Text { 1 } else { u32::from(many / 4 % 4) + 1 },
        ..Rules::plain(protocol, workload, kind & 0x80 == 0)
    };
    let said = said(script, protocol, workload);
    let requests = requests % (REQUESTS_MAX + 1);
    let found = |step: usize| {
        let (mut exchange, mut tally) = (Exchange::new(protocol), Tally::default());
        let (mut stream, mut out) = (Stream::new(workload, 0, 1), Vec::new());
        for _ in 0..requests {
            exchange.outstanding().ask(&rules, &mut stream, 0, &mut out);
        }
        let well = present(&said, step, |bytes| exchange.receive(&rules, 1, bytes, &mut tally));
        let done = tally.completed() + tally.requests.errors + exchange.pending() as u64;
        assert!(done <= 2 * u64::from(requests), "{done} of {requests}");
        assert!(tally.totals.hits + tally.totals.misses <= 4 * u64::from(requests));
        let mut follow_ups = 0;
        while exchange.outstanding().wants_follow_up() {
            exchange.outstanding().follow_up(&rules, 1, &mut out);
            follow_ups += 1;
        }
        assert!(follow_ups <= 4 * u32::from(requests), "{follow_ups} follow-ups");
        (well, tally.requests, tally.totals, follow_ups, out)
    };
    assert_eq!(found(said.len()), found(usize::from(*step)));
}

/// One round of a replay: which of its requests are sets, what the server sends, and in which
/// pieces.
pub fn round(input: &[u8]) {
    let Some(([sets, requests, step], script)) = input.split_first_chunk() else { return };
    let workload = &WORKLOADS[0];
    let request = |nth: u8| {
        let op = if sets >> (nth % 8) & 1 == 1 { Op::Set } else { Op::Get };
        Request { op, key: u64::from(nth) % KEYS, value_bytes: VALUE_BYTES, ttl_s: 0 }
    };
    let requests: Vec<Request> = (0..requests % (REQUESTS_MAX + 1)).map(request).collect();
    let said = said(script, Protocol::Text, workload);
    let checks = Checks { value_bytes_max: VALUE_BYTES, verify: step & 1 == 0 };
    let found = |step: usize| {
        let mut outcome = Outcome::default();
        let mut round = Round::new(workload, checks);
        round.begin(&requests, &mut Vec::new());
        let well = present(&said, step, |bytes| round.take(bytes, &mut outcome));
        assert!(round.answers().len() <= requests.len());
        let faults = outcome.failed_gets + outcome.refused + outcome.wrong_values;
        assert!(faults <= 2 * requests.len() as u64, "{faults} faults");
        assert_eq!(outcome.is_clean(), outcome.faults().is_empty());
        (well, round.answers().to_vec(), faults, outcome.other_lengths)
    };
    assert_eq!(found(said.len()), found(usize::from(*step)));
}

#[cfg(test)]
mod tests {
    use super::{exchange, round};

    #[test]
    fn the_entry_points_accept_any_bytes() {
        let mut rng = measure::rng::Rng::new(3, 1);
        for _ in 0..2_000 {
            let input: Vec<u8> = (0..rng.below(60)).map(|_| rng.next_u64() as u8).collect();
            exchange(&input);
            round(&input);
        }
    }
}
