//! A session gives each request one reply, in the order of the requests, however requests park and
//! replies wait: for gates of several logs, for tickets, for parts, up to their deadlines. What
//! never comes ends in an error, and nothing waits for ever.

mod support;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use session::{
    Answer, Bounds, Cause, Conn, Flow, LogId, Mark, Outcome, Passed, Reply, Ticket, WAIT_NS_MAX,
    Waited,
};

use support::answers::{Answers, KEYS, key, value};
use support::fake::{Delays, Fake, Items, overdue_line, withhold};
use support::random::Random;
use support::rig::Rig;

/// Rounds after which a loop of these tests has gone wrong.
const TRIES_MAX: usize = 200_000;

/// Logs that the requests of a test wait for.
const LOGS: usize = 3;

/// Waits as a seed chooses them.
struct Waits {
    random: Random,
    /// The latest position of each log, and how far it has passed.
    seqs: [u64; LOGS],
    marks: [u64; LOGS],
    /// Replies, or parts of them, that come by tickets.
    pending: VecDeque<(Ticket, Vec<u8>)>,
    silent: BTreeSet<(u32, u32)>,
    /// The next requests park.
    park: bool,
}

impl Waits {
    fn new(seed: u64) -> Self {
        Self {
            random: Random(seed),
            seqs: [0; LOGS],
            marks: [0; LOGS],
            pending: VecDeque::new(),
            silent: BTreeSet::new(),
            park: false,
        }
    }

    /// The next position of a log: mostly of one, so that gates are adjacent.
    fn next_gate(&mut self) -> (LogId, u64) {
        let log = self.random.below(5).saturating_sub(2).min(LOGS - 1);
        self.seqs[log] += 1;
        (LogId(log as u32), self.seqs[log])
    }
}

impl Delays for Waits {
    fn declines(&mut self) -> bool {
        self.park || self.random.below(3) == 0
    }

    fn confirms(&self) -> bool {
        self.seqs == self.marks
    }

    fn gate_now(&mut self) -> Answer {
        if self.random.below(3) == 0 {
            return Answer::Done;
        }
        let (log, seq) = self.next_gate();
        Answer::Gate { log, seq }
    }

    fn parks(&mut self, _conn: &Conn, _key: &[u8]) -> bool {
        self.park && self.random.below(4) > 0
    }

    fn outcome(&mut self, _key: &[u8], ticket: Ticket, reply: &mut Reply, mark: Mark) -> Outcome {
        match self.random.below(8) {
            0..4 => {
                let (log, seq) = self.next_gate();
                Outcome::Gate { log, seq }
            }
            4 => {
                let bytes = withhold(reply, mark);
                if bytes.is_empty() {
                    self.silent.insert((ticket.conn.generation, ticket.request));
                }
                self.pending.push_back((ticket, bytes));
                if self.random.below(3) == 0 { Outcome::PendingAlone } else { Outcome::Pending }
            }
            _ => Outcome::Done,
        }
    }

    fn gate(&self, log: LogId, seq: u64) -> Passed {
        if seq <= self.marks[log.0 as usize] { Passed::Yes } else { Passed::No }
    }

    fn is_silent(&self, ticket: Ticket) -> bool {
        self.silent.contains(&(ticket.conn.generation, ticket.request))
    }
}

fn items() -> Items {
    let all = (0..KEYS).map(|at| (key(at).into_bytes(), value(at).into()));
    Items::new(all.collect::<BTreeMap<_, _>>().into())
}

/// A session and a client that checks what it receives.
struct Client {
    rig: Rig<Waits>,
    answers: Answers,
    random: Random,
}

impl Client {
    fn new(seed: u64, bounds: Bounds) -> Self {
        let mut handler = Fake::new(Waits::new(seed), items(), 200_000, 4 << 10);
        handler.keys_per_call = 3;
        let answers = Answers::default();
        Self { rig: Rig::new(handler, bounds, 1 << 30), answers, random: Random(seed ^ 77) }
    }

    fn waits(&mut self) -> &mut Waits {
        &mut self.rig.context.handler.delays
    }

    fn send(&mut self) {
        self.rig.send();
        self.answers.take(&std::mem::take(&mut self.rig.sent));
    }

    /// Delivers a ticket's reply, or a part of it.
    fn complete_one(&mut self) {
        let count = self.waits().pending.len();
        if count == 0 {
            return;
        }
        let at = self.random.below(count);
        let parts = self.random.below(2) == 0;
        let waits = &mut self.rig.context.handler.delays;
        let (ticket, bytes) = waits.pending.remove(at).expect("below their number");
        if parts && bytes.len() > 1 {
            let (now, later) = bytes.split_at(self.random.below(bytes.len()));
            self.rig.session.complete(ticket, (now, false), &mut self.rig.context);
            self.waits().pending.push_back((ticket, later.to_vec()));
        } else {
            self.rig.session.complete(ticket, (&bytes, true), &mut self.rig.context);
        }
    }

    /// Takes one step that `random` chooses; `rest` is what the client has not sent.
    fn step<'i>(&mut self, rest: &'i [u8]) -> &'i [u8] {
        match self.random.below(8) {
            0 | 1 if self.rig.session.flow() == Flow::Idle => {
                let longest = [30, 3000, 66_000][self.random.below(3)];
                let (piece, left) = rest.split_at(self.random.below(longest).min(rest.len()));
                if let Some(buffer) = self.rig.session.value_buffer(&self.rig.context.resources) {
                    // As a driver does that receives into the buffer of a value.
                    let room = (buffer.capacity() - buffer.len()).min(rest.len());
                    buffer.extend_from_slice(&rest[..room]);
                    self.rig.receive(&[]);
                    return &rest[room..];
                }
                self.rig.receive(piece);
                return left;
            }
            2 => {
                self.complete_one();
                self.rig.release();
            }
            3 => {
                let log = self.random.below(LOGS);
                let waits = &mut self.rig.context.handler.delays;
                let ahead = (waits.seqs[log] - waits.marks[log]) as usize;
                waits.marks[log] += self.random.below(ahead + 1) as u64;
                self.rig.release();
            }
            4 if self.rig.session.flow() == Flow::Parked => {
                self.rig.resume();
            }
            5 => {
                self.send();
                self.rig.resume();
            }
            6 => {
                let park = self.random.below(3) == 0;
                self.waits().park = park;
                self.rig.context.handler.prompt = self.random.below(2) == 0;
            }
            7 => {
                let step_ns = WAIT_NS_MAX / [1, 20, 500][self.random.below(3)];
                self.rig.context.now.mono_ns += self.random.below(step_ns as usize) as u64;
                self.rig.release();
            }
            _ => {}
        }
        rest
    }

    /// Lets time pass and nothing else, until nothing waits any more.
    fn time_out(&mut self) {
        for _ in 0..TRIES_MAX {
            match self.rig.session.flow() {
                Flow::Idle if !self.rig.session.is_pending() => return,
                Flow::Close | Flow::Drop => return,
                _ => {}
            }
            self.rig.context.now.mono_ns += WAIT_NS_MAX / 2;
            self.rig.release();
            self.send();
            self.rig.resume();
        }
        panic!(
            "{:?} waits for ever for {:?}",
            self.rig.session.flow(),
            self.rig.session.waits_for()
        );
    }

    /// Everything is answered, or the connection has ended.
    fn check(&mut self, seed: u64) {
        match self.rig.session.flow() {
            Flow::Drop => panic!("seed {seed}: nothing was in doubt"),
            Flow::Close => self.send(),
            _ => {
                self.send();
                assert!(self.answers.is_complete(), "seed {seed}: a reply is missing");
                assert!(self.rig.session.is_at_rest(), "seed {seed}");
                assert_eq!(self.rig.session.heap_bytes(), 0, "seed {seed}");
            }
        }
    }
}

fn bounds(random: &mut Random) -> Bounds {
    Bounds {
        output_bytes_max: 1 + random.below(100_000),
        requests_per_turn: 1 + random.below(20) as u32,
        pending_max: 1 + random.below(20),
        pending_bytes_max: 1 + random.below(100_000),
    }
}

#[test]
fn each_request_has_one_reply_in_its_place() {
    let (mut errors, mut closed) = (0, 0);
    for seed in 0..600 {
        let mut random = Random(seed);
        let mut client = Client::new(seed, bounds(&mut random));
        let requests = 1 + random.below(60);
        let script = client.answers.ask(&mut random, requests);
        let mut rest = &script[..];
        for step in 0.. {
            if rest.is_empty() {
                // What is held in the output waits as well.
                client.rig.end_batch();
            }
            if rest.is_empty()
                && !client.rig.session.is_pending()
                && client.rig.session.flow() == Flow::Idle
            {
                break;
            }
            if matches!(client.rig.session.flow(), Flow::Close | Flow::Drop) {
                break;
            }
            rest = client.step(rest);
            assert!(step < TRIES_MAX, "seed {seed} does not come to an end");
        }
        client.check(seed);
        errors += client.answers.errors;
        closed += usize::from(client.rig.session.flow() == Flow::Close);
    }
    assert!(errors > 100 && closed > 0, "{errors} errors, {closed} closed: deadlines were tested");
}

#[test]
fn nothing_waits_for_ever_when_nothing_comes() {
    for seed in 0..300 {
        let mut random = Random(seed);
        let mut client = Client::new(seed, bounds(&mut random));
        client.waits().park = random.below(2) == 0;
        let script = client.answers.ask(&mut random, 40);
        let mut rest = &script[..];
        while !rest.is_empty() {
            let (piece, left) = rest.split_at(random.below(5000).min(rest.len()));
            client.rig.receive(piece);
            rest = left;
            client.time_out();
            if client.rig.session.flow() == Flow::Close {
                break;
            }
        }
        client.check(seed);
    }
}

/// What a script makes of a request, or of a key of it.
#[derive(Clone, Copy)]
enum Step {
    /// It is executed.
    Run,
    Park,
    /// Its reply, which follows, waits.
    Gate(u32, u64),
    Ticket,
    /// The same, and nothing is executed before its reply is complete.
    TicketAlone,
}

/// Waits in the order of a script; after it, every request is answered at once.
#[derive(Default)]
struct Scripted {
    script: VecDeque<Step>,
    mark: u64,
    tickets: Vec<Ticket>,
    /// Those of which it was said that what has come is sent.
    sent: Vec<Ticket>,
}

impl Delays for Scripted {
    fn declines(&mut self) -> bool {
        self.script.front().is_some_and(|step| matches!(step, Step::Park))
    }

    fn parks(&mut self, _conn: &Conn, _key: &[u8]) -> bool {
        let step = self.script.pop_front_if(|step| matches!(step, Step::Run | Step::Park));
        matches!(step, Some(Step::Park))
    }

    fn outcome(&mut self, _key: &[u8], ticket: Ticket, _reply: &mut Reply, _: Mark) -> Outcome {
        match self.script.pop_front_if(|step| !matches!(step, Step::Run | Step::Park)) {
            Some(Step::Gate(log, seq)) => Outcome::Gate { log: LogId(log), seq },
            Some(Step::Ticket) => {
                self.tickets.push(ticket);
                Outcome::Pending
            }
            Some(Step::TicketAlone) => {
                self.tickets.push(ticket);
                Outcome::PendingAlone
            }
            _ => Outcome::Done,
        }
    }

    fn parts_sent(&mut self, ticket: Ticket) {
        self.sent.push(ticket);
    }

    fn gate(&self, _log: LogId, seq: u64) -> Passed {
        if seq <= self.mark { Passed::Yes } else { Passed::No }
    }
}

/// A session whose waits are scripted.
fn stage(script: &[Step], budget_bytes: u64) -> Rig<Scripted> {
    let delays = Scripted { script: script.iter().copied().collect(), ..Scripted::default() };
    let handler = Fake::new(delays, Items::default(), 200_000, 4 << 10);
    Rig::new(handler, Bounds::default(), budget_bytes)
}

fn pass_ns(rig: &mut Rig<Scripted>, ns: u64) {
    rig.context.now.mono_ns += ns;
}

use Step::{Gate, Park, Run};

#[test]
fn a_parked_request_continues_where_it_was() {
    let mut stage = stage(&[Run, Run, Run, Park, Run, Run, Park, Park], 1 << 20);
    stage.receive(b"set a 0 0 1\r\nx\r\nset b 0 0 1\r\ny\r\n");
    assert_eq!(stage.taken(), "STORED\r\n".repeat(2));
    assert_eq!(stage.receive(b"get a b a\r\nversion\r\nget a"), Flow::Parked);
    assert_eq!(stage.taken(), "VALUE a 0 1\r\nx\r\n", "what it has written leaves");
    assert!(!stage.session.is_at_rest() && !stage.session.is_pending());
    assert_eq!(stage.resume(), Flow::Parked);
    assert_eq!(stage.taken(), "VALUE b 0 1\r\ny\r\n");
    assert_eq!(stage.receive(b"\r\n"), Flow::Parked, "what comes meanwhile is kept");
    assert_eq!(stage.resume(), Flow::Parked);
    assert_eq!(stage.resume(), Flow::Idle);
    let rest = "VALUE a 0 1\r\nx\r\nEND\r\nVERSION 1\r\nVALUE a 0 1\r\nx\r\nEND\r\n";
    assert_eq!(stage.taken(), rest);
    assert!(stage.session.is_at_rest());
}

#[test]
fn earlier_replies_leave_while_a_request_is_parked() {
    let mut stage = stage(&[Run, Gate(0, 1), Park, Park, Run, Gate(0, 2)], 1 << 20);
    assert_eq!(stage.receive(b"version\r\nversion\r\nget a\r\n"), Flow::Parked);
    assert_eq!(stage.release(), Flow::Parked);
    assert_eq!((stage.taken().as_str(), stage.session.is_pending()), ("", true));
    stage.context.handler.delays.mark = 1;
    assert_eq!(stage.release(), Flow::Parked);
    assert_eq!((stage.taken().as_str(), stage.session.is_pending()), ("VERSION 1\r\n", false));
    assert_eq!(stage.resume(), Flow::Parked);
    assert_eq!(stage.resume(), Flow::Idle);
    let gate = Waited::Gate { log: LogId(0), seq: 2 };
    assert_eq!(stage.session.waits_for(), Some(gate));
    stage.context.handler.delays.mark = 2;
    stage.release();
    assert_eq!(stage.taken(), "VERSION 1\r\nEND\r\n");
}

#[test]
fn a_request_that_is_parked_for_too_long_is_answered_and_not_run() {
    for stubborn in [false, true] {
        let mut stage = stage(&[Park; 5], 1 << 20);
        stage.context.handler.stubborn = stubborn;
        let set = b"set a 0 0 1\r\nx\r\nget a\r\n";
        assert_eq!(stage.receive(set), Flow::Parked);
        for ns in [0, WAIT_NS_MAX / 2, WAIT_NS_MAX / 2 - 1] {
            pass_ns(&mut stage, ns);
            assert_eq!(stage.resume(), Flow::Parked);
        }
        pass_ns(&mut stage, 1);
        if stubborn {
            assert_eq!(stage.resume(), Flow::Drop, "a contract is broken");
        } else {
            assert_eq!(stage.resume(), Flow::Idle);
            assert_eq!(stage.taken(), "SERVER_ERROR parked for too long\r\nEND\r\n");
        }
    }
}

#[test]
fn each_parked_request_has_a_deadline_of_its_own() {
    let mut stage = stage(&[Park], 1 << 20);
    stage.context.handler.prompt = true;
    let set = b"set a 0 0 1\r\nx\r\n";
    assert_eq!(stage.receive(set), Flow::Parked);
    assert_eq!(stage.resume(), Flow::Idle);
    pass_ns(&mut stage, WAIT_NS_MAX);
    stage.context.handler.delays.script.push_back(Park);
    assert_eq!(stage.receive(set), Flow::Parked, "it has not waited yet");
    assert_eq!(stage.resume(), Flow::Idle);
    assert_eq!(stage.taken(), "STORED\r\n".repeat(2));
}

#[test]
fn a_parked_value_lies_where_it_was_received() {
    let request = [&b"set big 0 0 150000\r\n"[..], &[b'v'; 150_000], b"\r\n"].concat();
    let mut stage = stage(&[Park, Park], request.len() as u64);
    stage.receive(&request[..1000]);
    let mut at = 1000;
    while at < request.len() {
        let Some(buffer) = stage.session.value_buffer(&stage.context.resources) else {
            stage.receive(&request[at..]);
            break;
        };
        let room = (buffer.capacity() - buffer.len()).min(request.len() - at);
        buffer.extend_from_slice(&request[at..at + room]);
        at += room;
        stage.receive(&[]);
    }
    assert_eq!(stage.session.flow(), Flow::Parked);
    let held = stage.context.resources.budget.used_total();
    assert_eq!((held, stage.session.heap_bytes()), (request.len() as u64, request.len()));
    assert_eq!(stage.resume(), Flow::Parked);
    assert_eq!(stage.resume(), Flow::Idle);
    assert_eq!(stage.taken(), "STORED\r\n");
    assert_eq!(stage.context.resources.budget.used_total(), 0);
}

#[test]
fn without_memory_to_keep_it_a_parked_value_is_refused() {
    let set = [&b"set a 0 0 3000\r\n"[..], &[b'v'; 3000], b"\r\n"].concat();
    let refused = "SERVER_ERROR out of memory storing object\r\n";
    // Many, so that refusing them one after the other must not take a frame for each.
    for count in [1, 20_000] {
        let mut stage = stage(&vec![Park; count], 0);
        let input = [set.repeat(count), b"version\r\nget a".to_vec()].concat();
        assert_eq!(stage.receive(&input), Flow::Idle);
        assert_eq!(stage.taken(), format!("{}VERSION 1\r\n", refused.repeat(count)));
        assert_eq!(stage.context.handler.causes, vec![Cause::NoMemory; count]);
        assert_eq!(stage.receive(b"\r\n"), Flow::Idle);
        assert_eq!(stage.taken(), "END\r\n");
    }
    let mut stage = stage(&[Park], 0);
    let key = "k".repeat(200);
    let keys = format!("get{}\r\n", format!(" {key}").repeat(20));
    assert_eq!(stage.receive(keys.as_bytes()), Flow::Close, "what is no value ends the connection");
}

#[test]
fn sixteen_gates_of_one_receive_are_one_wait() {
    let script: Vec<_> = (1..=16).flat_map(|seq| [Run, Gate(3, seq)]).collect();
    let mut stage = stage(&script, 1 << 20);
    stage.receive(&b"set a 0 0 1\r\nx\r\n".repeat(16));
    let gate = Waited::Gate { log: LogId(3), seq: 16 };
    assert_eq!(stage.session.waits_for(), Some(gate));
    assert_eq!(stage.session.due_ns(), Some(1 + WAIT_NS_MAX));
    stage.context.handler.delays.mark = 15;
    stage.release();
    assert_eq!(stage.taken(), "");
    pass_ns(&mut stage, WAIT_NS_MAX);
    stage.release();
    assert_eq!(stage.taken(), overdue_line(&gate).repeat(16));
    assert!(stage.session.is_at_rest());
}

#[test]
fn late_completions_are_dropped_and_the_rest_of_a_reply_ends_its_connection() {
    let mut stage = stage(&[Run, Step::Ticket, Run, Step::Ticket], 1 << 20);
    stage.receive(b"get a\r\n");
    let first = stage.context.handler.delays.tickets[0];
    assert!(stage.session.has_ticket());
    pass_ns(&mut stage, WAIT_NS_MAX);
    stage.release();
    assert_eq!(stage.taken(), overdue_line(&Waited::Ticket(first)));
    assert!(!stage.session.complete(first, (b"late", true), &mut stage.context));
    stage.receive(b"get a\r\nversion\r\n");
    let second = stage.context.handler.delays.tickets[1];
    assert!(stage.session.complete(second, (b"VALUE", false), &mut stage.context));
    stage.release();
    assert_eq!(stage.taken(), "END\r\nVALUE");
    pass_ns(&mut stage, WAIT_NS_MAX);
    assert_eq!(stage.release(), Flow::Close);
    assert_eq!(stage.taken(), "");
}

#[test]
fn parts_that_must_be_kept_stop_the_reading() {
    let mut stage = stage(&[Run, Step::Ticket, Run, Step::Ticket], 1 << 20);
    stage.receive(b"get a\r\nget b\r\n");
    let tickets = stage.context.handler.delays.tickets.clone();
    stage.session.complete(tickets[1], (&vec![b'x'; 300 << 10], false), &mut stage.context);
    assert_eq!(stage.release(), Flow::Waiting);
    stage.session.complete(tickets[0], (b"", true), &mut stage.context);
    assert_eq!(stage.release(), Flow::Waiting, "one long reply at a time");
    stage.session.complete(tickets[1], (b"", true), &mut stage.context);
    assert_eq!(stage.release(), Flow::Again);
    assert_eq!(stage.resume(), Flow::Idle);
    assert_eq!(stage.taken().len(), 2 * "END\r\n".len() + (300 << 10));
}

#[test]
fn the_rest_of_a_reply_is_asked_for_when_its_first_parts_are_sent() {
    let mut stage = stage(&[Run, Gate(0, 1), Run, Step::TicketAlone], 1 << 20);
    assert_eq!(stage.receive(b"get a\r\nget b\r\nversion\r\n"), Flow::Waiting);
    let ticket = stage.context.handler.delays.tickets[0];
    assert_eq!(stage.taken(), "", "the first reply waits for its gate");
    // A part comes before its turn: nothing has left.
    assert!(stage.session.complete(ticket, (b"one ", false), &mut stage.context));
    assert_eq!((stage.release(), stage.resume()), (Flow::Waiting, Flow::Waiting));
    assert_eq!(stage.context.handler.delays.sent, []);
    stage.context.handler.delays.mark = 1;
    assert_eq!(stage.release(), Flow::Full);
    assert_eq!(stage.context.handler.delays.sent, [], "it is not sent yet");
    // The client takes it late: that is no fault of the cell.
    pass_ns(&mut stage, WAIT_NS_MAX - 1);
    assert_eq!(stage.release(), Flow::Full);
    pass_ns(&mut stage, WAIT_NS_MAX - 1);
    assert_eq!(stage.release(), Flow::Full);
    assert_eq!(stage.taken(), "END\r\nEND\r\none ");
    assert_eq!(stage.resume(), Flow::Waiting);
    assert_eq!(stage.context.handler.delays.sent, [ticket]);
    assert_eq!(stage.resume(), Flow::Waiting);
    assert_eq!(stage.context.handler.delays.sent, [ticket], "once");
    // All the rest comes while parts are being sent.
    assert!(stage.session.complete(ticket, (b"two ", false), &mut stage.context));
    assert_eq!(stage.release(), Flow::Full);
    assert!(stage.session.complete(ticket, (b"end\r\n", true), &mut stage.context));
    assert_eq!(stage.release(), Flow::Full);
    assert_eq!(stage.taken(), "two end\r\n");
    assert_eq!(stage.resume(), Flow::Idle);
    assert_eq!(stage.context.handler.delays.sent, [ticket], "there is no rest");
    assert_eq!(stage.taken(), "VERSION 1\r\n");
    assert!(stage.session.is_at_rest());
}

#[test]
fn the_rest_of_a_reply_that_does_not_come_ends_its_connection() {
    let mut stage = stage(&[Run, Step::TicketAlone], 1 << 20);
    stage.receive(b"get a\r\n");
    let ticket = stage.context.handler.delays.tickets[0];
    stage.session.complete(ticket, (b"one", false), &mut stage.context);
    assert_eq!(stage.release(), Flow::Full);
    // What has passed until the client took the first part does not count.
    pass_ns(&mut stage, WAIT_NS_MAX - 1);
    assert_eq!((stage.taken(), stage.resume()), ("END\r\none".to_owned(), Flow::Waiting));
    pass_ns(&mut stage, WAIT_NS_MAX - 1);
    assert_eq!(stage.release(), Flow::Waiting);
    pass_ns(&mut stage, 1);
    assert_eq!(stage.release(), Flow::Close);
}
