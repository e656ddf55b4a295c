//! A session answers a stream of requests with the same bytes, in the order of the requests,
//! whatever pieces the input comes in, whatever its bounds are, and whatever replies wait.

mod support;

use std::collections::VecDeque;

use base::MemoryBudget;
use session::{Bounds, Cause, ConnId, Flow, LogId, Mark, Outcome, Passed, Reply, Ticket};

use support::fake::{Delays, Fake, Items, withhold};
use support::random::Random;
use support::rig::ID;

/// Values of at least this size are lent.
const LEND_BYTES_MIN: usize = 4 << 10;

/// Gates and tickets, as a seed chooses them.
struct Seeded {
    /// `None`: every reply is complete at once.
    random: Option<Random>,
    pending: VecDeque<(Ticket, Vec<u8>)>,
    mark: u64,
    seq: u64,
    in_doubt: bool,
}

impl Delays for Seeded {
    fn outcome(&mut self, _key: &[u8], ticket: Ticket, reply: &mut Reply, mark: Mark) -> Outcome {
        let Some(random) = &mut self.random else { return Outcome::Done };
        match random.below(4) {
            0 => {
                self.seq += 1;
                Outcome::Gate { log: LogId(1), seq: self.seq }
            }
            1 => {
                self.pending.push_back((ticket, withhold(reply, mark)));
                Outcome::Pending
            }
            _ => Outcome::Done,
        }
    }

    fn declines(&mut self) -> bool {
        self.random.as_mut().is_some_and(|random| random.below(3) == 0)
    }

    fn sends_on(&mut self) -> bool {
        self.random.as_mut().is_some_and(|random| random.below(4) == 0)
    }

    fn sent_on(&mut self, ticket: Ticket, bytes: Vec<u8>) {
        self.pending.push_back((ticket, bytes));
    }

    fn gate(&self, _log: LogId, seq: u64) -> Passed {
        match (seq <= self.mark, self.in_doubt) {
            (true, _) => Passed::Yes,
            (false, false) => Passed::No,
            (false, true) => Passed::InDoubt,
        }
    }
}

/// A handler whose replies a seed delays, or none.
fn handler(seed: Option<u64>) -> Fake<Seeded> {
    let random = seed.map(Random);
    let delays = Seeded { random, pending: VecDeque::new(), mark: 0, seq: 0, in_doubt: false };
    let fake = Fake::new(delays, Items::default(), 200_000, LEND_BYTES_MIN);
    Fake { keys_per_call: 3, ..fake }
}

type Rig = support::rig::Rig<Seeded>;

impl Rig {
    fn plain() -> Self {
        Self::new(handler(None), Bounds::default(), 1 << 20)
    }
}

fn set(key: &str, len: usize) -> Vec<u8> {
    let mut request = format!("set {key} 0 0 {len}\r\n").into_bytes();
    request.extend((0..len).map(|at| b'a' + (at % 26) as u8));
    request.extend(b"\r\n");
    request
}

#[test]
fn a_script_answers_the_same_however_it_is_cut() {
    let script = b"set a 0 0 3\r\nabc\r\nget a\r\nset b 0 0 1 noreply\r\nx\r\nget a b c\r\n\
                   what\r\nversion\r\n";
    let replies = "STORED\r\nVALUE a 0 3\r\nabc\r\nEND\r\n\
                   VALUE a 0 3\r\nabc\r\nVALUE b 0 1\r\nx\r\nEND\r\nERROR\r\nVERSION 1\r\n";
    let pieces = (1..=script.len()).flat_map(|piece| [(piece, false), (piece, true)]);
    for (piece, prompt) in pieces {
        let mut rig = Rig::plain();
        rig.context.handler.prompt = prompt;
        for input in script.chunks(piece) {
            rig.receive(input);
            while rig.session.flow() != Flow::Idle {
                rig.send();
                rig.resume();
            }
        }
        assert_eq!(rig.taken(), replies, "in pieces of {piece}");
        assert!(rig.session.is_at_rest());
        assert_eq!(rig.session.heap_bytes(), 0, "an idle connection owns nothing");
    }
}

#[test]
fn a_large_value_is_received_into_its_own_buffer_and_freed() {
    let request = set("big", 150_000);
    let budget = MemoryBudget::new(1 << 20);
    let mut rig = Rig::plain();
    rig.context.resources.budget = budget.clone();
    let (mut at, mut landings) = (1000, 0);
    rig.receive(&request[..at]);
    while at < request.len() {
        let Some(buffer) = rig.session.value_buffer(&rig.context.resources) else {
            let end = (at + 5000).min(request.len());
            rig.receive(&request[at..end]);
            at = end;
            continue;
        };
        let room = (buffer.capacity() - buffer.len()).min(request.len() - at);
        assert!(buffer.capacity() <= request.len());
        buffer.extend_from_slice(&request[at..at + room]);
        at += room;
        landings += 1;
        assert!(budget.used_total() <= request.len() as u64);
        rig.receive(&[]);
    }
    assert_eq!(rig.taken(), "STORED\r\n");
    assert!((2..6).contains(&landings), "{landings} receives into the buffer");
    assert_eq!((rig.session.heap_bytes(), budget.used_total()), (0, 0));
}

#[test]
fn memory_for_the_request_is_enough_however_it_arrives() {
    let request = set("big", 150_000);
    for piece in [999, 5_000, 70_000, 149_000] {
        let mut rig = Rig::new(handler(None), Bounds::default(), request.len() as u64);
        for input in request.chunks(piece) {
            rig.receive(input);
        }
        assert_eq!(rig.taken(), "STORED\r\n", "in pieces of {piece}");
    }
}

#[test]
fn without_memory_a_value_is_thrown_away_and_the_rest_served() {
    let mut script = set("big", 150_000);
    script.extend(b"version\r\n");
    for first in [10, 30, 3000, 70_000] {
        for budget_bytes in [0, 70_000] {
            let mut rig = Rig::new(handler(None), Bounds::default(), budget_bytes);
            rig.receive(&script[..first]);
            for input in script[first..].chunks(10_000) {
                rig.receive(input);
            }
            let replies = "SERVER_ERROR out of memory storing object\r\nVERSION 1\r\n";
            assert_eq!(rig.taken(), replies, "first {first}, budget {budget_bytes}");
            assert_eq!(rig.context.handler.causes, [Cause::NoMemory]);
            assert!(rig.session.is_at_rest());
        }
    }
}

#[test]
fn without_memory_a_long_line_ends_the_connection() {
    let mut rig = Rig::new(handler(None), Bounds::default(), 0);
    rig.receive(b"get ");
    for _ in 0..TRIES_MAX {
        if rig.receive(&b"key ".repeat(100)) == Flow::Close {
            assert_eq!(rig.taken(), "SERVER_ERROR out of memory reading request\r\n");
            return;
        }
    }
    panic!("a line of {} bytes was kept without memory", TRIES_MAX * 400);
}

/// Rounds after which a loop of these tests has gone wrong.
const TRIES_MAX: usize = 10_000;

#[test]
fn a_refused_value_is_swallowed_across_receives() {
    let mut script = set("huge", 300_000);
    script.extend(b"version\r\n");
    let mut rig = Rig::plain();
    for input in script.chunks(4096) {
        rig.receive(input);
        assert_eq!(rig.session.heap_bytes(), 0);
    }
    let replies = "SERVER_ERROR object too large for cache\r\nVERSION 1\r\n";
    assert_eq!(rig.taken(), replies);
}

#[test]
fn a_client_that_wants_no_reply_gets_no_error() {
    let mut rig = Rig::new(handler(None), Bounds::default(), 0);
    rig.receive(b"set big 0 0 300000 noreply\r\nand so on");
    assert_eq!((rig.taken().as_str(), rig.context.handler.causes.len()), ("", 1));
}

#[test]
fn the_bound_of_requests_gives_others_their_turn() {
    for request in ["version\r\n", "get v\r\n", "set v 0 0 1\r\nx\r\n"] {
        let bounds = Bounds { requests_per_turn: 10, ..Bounds::default() };
        let mut rig = Rig::new(handler(None), bounds, 1 << 20);
        rig.context.handler.prompt = true;
        assert_eq!(rig.receive(request.repeat(25).as_bytes()), Flow::Again);
        assert_eq!((rig.context.handler.calls, rig.session.flow()), (10, Flow::Again));
        assert_eq!(rig.resume(), Flow::Again);
        assert_eq!(rig.resume(), Flow::Idle);
        assert_eq!((rig.context.handler.calls, rig.session.heap_bytes()), (25, 0));
    }
}

#[test]
fn fairness_yields_to_want_of_memory() {
    let bounds = Bounds { requests_per_turn: 10, ..Bounds::default() };
    let mut rig = Rig::new(handler(None), bounds, 0);
    assert_eq!(rig.receive(&b"version\r\n".repeat(1000)), Flow::Idle);
    assert_eq!(rig.context.handler.calls, 1000);
}

#[test]
fn the_bound_of_output_waits_for_the_reader() {
    for prompt in [false, true] {
        let bounds = Bounds { output_bytes_max: 50_000, ..Bounds::default() };
        let mut rig = Rig::new(handler(None), bounds, 1 << 20);
        rig.context.handler.prompt = prompt;
        rig.receive(&set("v", 20_000));
        rig.taken();
        assert_eq!(rig.receive(&b"get v\r\n".repeat(7)), Flow::Full);
        assert_eq!(rig.context.handler.calls, 4);
        let mut turns = 1;
        while rig.session.flow() == Flow::Full {
            assert!(rig.context.out.len() < 50_000 + 21_000);
            rig.send();
            rig.resume();
            turns += 1;
        }
        assert_eq!((turns, rig.context.handler.calls), (3, 8));
        assert_eq!(rig.taken().matches("END").count(), 7);
    }
}

#[test]
fn quitting_discards_what_follows_but_not_what_precedes() {
    let mut rig = Rig::plain();
    assert_eq!(rig.receive(b"version\r\nquit\r\nversion\r\n"), Flow::Close);
    assert_eq!(rig.taken(), "VERSION 1\r\n");
    assert_eq!(rig.session.heap_bytes(), 0);
}

#[test]
fn too_much_pending_stops_the_reading() {
    let bounds = Bounds { pending_max: 5, ..Bounds::default() };
    let mut rig = Rig::new(handler(Some(1)), bounds, 1 << 20);
    let flow = rig.receive(&b"version\r\n".repeat(100));
    assert_eq!(flow, Flow::Waiting);
    assert!(rig.context.handler.calls < 100);
    let mut rounds = 0;
    while !rig.session.is_at_rest() {
        rig.context.handler.delays.mark = rig.context.handler.delays.seq;
        while let Some((ticket, bytes)) = rig.context.handler.delays.pending.pop_front() {
            assert!(rig.session.complete(ticket, (&bytes, true), &mut rig.context));
        }
        rig.release();
        rig.resume();
        rounds += 1;
        assert!(rounds < TRIES_MAX);
    }
    assert_eq!(rig.taken(), "VERSION 1\r\n".repeat(100));
    assert!(rounds > 10, "{rounds} rounds of at most 5 waiting");
}

#[test]
fn completions_for_others_are_dropped() {
    let mut rig = Rig::new(handler(Some(0)), Bounds::default(), 1 << 20);
    let mut tries = 0;
    while rig.context.handler.delays.pending.is_empty() {
        rig.receive(b"version\r\n");
        tries += 1;
        assert!(tries < TRIES_MAX);
    }
    let (ticket, bytes) = rig.context.handler.delays.pending.pop_front().expect("just seen");
    let older = ConnId { generation: ID.generation - 1, ..ID };
    assert!(!rig.session.complete(
        Ticket { conn: older, ..ticket },
        (&bytes, true),
        &mut rig.context
    ));
    assert!(!rig.session.complete(
        Ticket { request: ticket.request + 1, ..ticket },
        (&bytes, true),
        &mut rig.context
    ));
    assert!(rig.session.complete(ticket, (&bytes, true), &mut rig.context));
    assert!(
        !rig.session.complete(ticket, (&bytes, true), &mut rig.context),
        "a reply is completed once"
    );
}

#[test]
fn doubt_drops_the_connection() {
    let mut rig = Rig::new(handler(Some(2)), Bounds::default(), 1 << 20);
    let mut tries = 0;
    while rig.context.handler.delays.seq == 0 {
        rig.receive(b"version\r\n");
        tries += 1;
        assert!(tries < TRIES_MAX);
    }
    while let Some((ticket, bytes)) = rig.context.handler.delays.pending.pop_front() {
        rig.session.complete(ticket, (&bytes, true), &mut rig.context);
    }
    rig.context.handler.delays.in_doubt = true;
    assert_eq!(rig.release(), Flow::Drop);
}

/// A pipeline of requests that a seed chooses, without a `quit`.
fn pipeline(random: &mut Random) -> Vec<u8> {
    let mut script = Vec::new();
    for _ in 0..random.below(60) {
        let key = format!("k{}", random.below(8));
        match random.below(8) {
            0 => script.extend(set(&key, random.below(40))),
            1 => script.extend(set(&key, LEND_BYTES_MIN + random.below(60_000))),
            2 => script.extend(set(&key, 200_000 + random.below(10))),
            3 => script.extend(b"nonsense\r\n"),
            4 => script.extend(b"get k0 k1 k2 k3 k4 k5 k6 k7\r\n"),
            5 => script.extend(b"version\r\n"),
            _ => script.extend(format!("get {key}\r\n").bytes()),
        }
    }
    script
}

/// The replies of a handler that never waits to input in one piece, with wide bounds.
fn immediate(script: &[u8]) -> Vec<u8> {
    let mut rig = Rig::plain();
    rig.context.resources.budget = MemoryBudget::new(1 << 30);
    rig.receive(script);
    while matches!(rig.session.flow(), Flow::Again | Flow::Full) {
        rig.send();
        rig.resume();
    }
    rig.send();
    rig.sent
}

/// The replies of a handler that gates, delays or answers at once, as it happens, to input cut at
/// random, under tight bounds, completed and released at random moments.
fn delayed(script: &[u8], seed: u64, random: &mut Random) -> Vec<u8> {
    let bounds = Bounds {
        output_bytes_max: 1 + random.below(100_000),
        requests_per_turn: 1 + random.below(20) as u32,
        pending_max: 1 + random.below(20),
        pending_bytes_max: 1 + random.below(100_000),
    };
    let mut rig = Rig::new(handler(Some(seed)), bounds, 1 << 30);
    let mut rest = script;
    let mut steps = 0;
    while !rest.is_empty() || !rig.session.is_at_rest() {
        rig.context.handler.prompt = random.below(2) == 0;
        match random.below(5) {
            0 | 1 if rig.session.flow() == Flow::Idle => {
                let longest = [30, 3000, 66_000][random.below(3)];
                let (piece, left) = rest.split_at(random.below(longest).min(rest.len()));
                rest = left;
                rig.receive(piece);
            }
            2 => {
                for _ in 0..random.below(4).min(rig.context.handler.delays.pending.len()) {
                    let at = random.below(rig.context.handler.delays.pending.len());
                    let (ticket, bytes) =
                        rig.context.handler.delays.pending.remove(at).expect("below its length");
                    assert!(rig.session.complete(ticket, (&bytes, true), &mut rig.context));
                }
                rig.release();
            }
            3 => {
                let waiting =
                    (rig.context.handler.delays.seq - rig.context.handler.delays.mark) as usize;
                rig.context.handler.delays.mark += random.below(waiting + 1) as u64;
                rig.release();
            }
            4 => {
                rig.send();
                rig.resume();
            }
            _ => {}
        }
        steps += 1;
        assert!(steps < 1_000_000, "seed {seed} does not come to an end");
    }
    rig.send();
    rig.sent
}

#[test]
fn delays_and_gates_never_change_the_stream() {
    for seed in 0..400 {
        let mut random = Random(seed);
        let script = pipeline(&mut random);
        let expected = immediate(&script);
        let actual = delayed(&script, seed, &mut random);
        assert!(expected == actual, "seed {seed}: {} bytes, not {}", actual.len(), expected.len());
    }
}

/// Words that look like requests, with few sensible orders.
const WORDS: [&str; 20] = [
    "get",
    "set",
    "ms",
    "mg",
    "delete",
    "incr",
    "k",
    "key2",
    "0",
    "1",
    "3",
    "-1",
    "99999999999",
    "abc",
    "noreply",
    "\r\n",
    "\n",
    "\r\n",
    " ",
    "\0",
];

#[test]
fn garbage_is_answered_the_same_however_it_is_cut() {
    for seed in 0..2000 {
        let mut random = Random(seed);
        let mut script = Vec::new();
        for _ in 0..random.below(200) {
            script.extend(WORDS[random.below(WORDS.len())].bytes());
            if random.below(3) > 0 {
                script.push(b' ');
            }
        }
        if random.below(20) == 0 {
            script.extend(vec![b'x'; random.below(5000)]);
        }
        let expected = immediate(&script);
        let mut rig = Rig::plain();
        rig.context.handler.prompt = true;
        let mut rest = &script[..];
        while !rest.is_empty() && rig.session.flow() == Flow::Idle {
            let (piece, left) = rest.split_at((1 + random.below(50)).min(rest.len()));
            rest = left;
            rig.receive(piece);
            while matches!(rig.session.flow(), Flow::Again | Flow::Full) {
                rig.send();
                rig.resume();
            }
        }
        rig.send();
        let shown = String::from_utf8_lossy(&script);
        assert!(rig.sent == expected, "seed {seed}: {shown:?}");
    }
}
