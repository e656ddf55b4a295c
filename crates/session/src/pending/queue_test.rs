//! The queue of replies: their order, what joins, what is counted, and how waits end.

use base::MemoryBudget;
use memcache::{Limits, Refusal, Request};

use super::*;
use crate::bounds::{Bounds, WAIT_NS_MAX};
use crate::handler::{BatchEnd, Cause, LogId, Outcome};
use crate::ids::{Conn, Ticket, WorkerId};

const CONN: ConnId = ConnId { worker: WorkerId(1), index: 2, generation: 3 };

/// A handler whose logs have passed all positions up to one.
struct Marks {
    passed: u64,
    in_doubt: bool,
    limits: Limits,
}

impl Handler for Marks {
    type Mail = std::convert::Infallible;

    fn deliver(&mut self, _: Now, _: Self::Mail) {}

    fn limits(&self, _: &Conn) -> &Limits {
        &self.limits
    }

    fn call(&mut self, _: Now, _: &mut Conn, _: &Request<'_>, _: Ticket, _: &mut Reply) -> Outcome {
        Outcome::Done
    }

    fn refused(&mut self, _: Now, _: &mut Conn, _: Option<&Refusal<'_>>, _: Cause, _: &mut Reply) {}

    fn overdue(&mut self, _: Now, waited: &Waited, reply: &mut Reply) {
        let line = match waited {
            Waited::Gate { log, seq } => format!("<late {} {seq}>", log.0),
            Waited::Ticket(ticket) => format!("<late ticket {}>", ticket.request),
        };
        reply.bytes_mut().extend(line.bytes());
    }

    fn gate(&self, _: LogId, seq: u64) -> Passed {
        match (seq <= self.passed, self.in_doubt) {
            (true, _) => Passed::Yes,
            (false, false) => Passed::No,
            (false, true) => Passed::InDoubt,
        }
    }

    fn closed(&mut self, _: ConnId) {}

    fn end_batch(&mut self, _: Now, _: impl Fn() -> Now) -> BatchEnd {
        BatchEnd::Send
    }
}

/// A queue with its handler, its clock and its output.
struct Rig {
    pending: Pending,
    handler: Marks,
    now: Now,
    out: Reply,
    request: u32,
    resources: Resources,
}

fn resources(budget_bytes: u64) -> Resources {
    Resources { bounds: Bounds::default(), budget: MemoryBudget::new(budget_bytes) }
}

impl Rig {
    fn new(first: u32) -> Self {
        let handler = Marks { passed: 0, in_doubt: false, limits: Limits::default() };
        let request = first.wrapping_sub(1);
        Self {
            pending: Pending::default(),
            handler,
            now: Now::default(),
            out: Reply::new(),
            request,
            resources: resources(1 << 20),
        }
    }

    /// Adds a reply; returns the number of its request.
    fn push(&mut self, wait: Wait, text: &str, begun: bool) -> u32 {
        self.request = self.request.wrapping_add(1);
        let mark = self.out.mark();
        self.out.bytes_mut().extend(text.bytes());
        let due_ns = self.now.mono_ns + WAIT_NS_MAX;
        let executed = Executed { request: self.request, request_bytes: 1, wait, due_ns, begun };
        self.pending.push(executed, &mut self.out, mark);
        self.request
    }

    fn gate(&mut self, log: u32, seq: u64, text: &str) -> u32 {
        self.push(Wait::Gate { log: LogId(log), seq }, text, false)
    }

    fn complete(&mut self, request: u32, bytes: &[u8], last: bool) -> bool {
        let due_ns = self.now.mono_ns + WAIT_NS_MAX;
        self.pending.complete(request, (bytes, last), due_ns, &self.resources)
    }

    fn release(&mut self) -> Result<(), Ended> {
        self.pending.release(CONN, &mut self.handler, self.now, &mut self.out)
    }

    /// What has left since the last call.
    fn taken(&mut self) -> String {
        self.release().expect("the connection lives");
        let bytes = self.out.plain(self.out.whole()).expect("nothing was lent").to_vec();
        self.out.clear(0);
        String::from_utf8(bytes).expect("the tests write text")
    }
}

#[test]
fn replies_leave_in_the_order_of_requests() {
    // Numbers wrap in the middle of the queue.
    let mut rig = Rig::new(u32::MAX - 1);
    let a = rig.push(Wait::Ticket, "a", false);
    let b = rig.push(Wait::Nothing, "b", false);
    rig.push(Wait::Nothing, "c", false);
    rig.gate(7, 5, "d");
    let e = rig.push(Wait::Ticket, "", false);
    assert!(rig.complete(e, b"e", true));
    assert!(!rig.complete(e, b"again", true), "completed once only");
    assert!(!rig.complete(b, b"x", true), "does not wait");
    assert!(!rig.complete(e.wrapping_add(9), b"x", true), "no such request");
    assert_eq!(rig.taken(), "");
    assert!(rig.complete(a, b"A", true));
    assert_eq!(rig.taken(), "aAbc");
    rig.handler.passed = 5;
    assert_eq!(rig.taken(), "de");
    assert!(rig.pending.is_empty());
    assert_eq!((rig.pending.bytes, rig.pending.requests), (0, 0));
}

#[test]
fn adjacent_gates_of_one_log_and_run_are_one_entry() {
    let mut rig = Rig::new(1);
    rig.gate(1, 5, "a");
    rig.gate(1, 9, "b");
    rig.gate(1, 7, "");
    rig.gate(1, 8, "c");
    assert_eq!((rig.pending.entries.len(), rig.pending.requests), (1, 4));
    let front = rig.pending.front(CONN).expect("it waits").0;
    assert_eq!(front, Waited::Gate { log: LogId(1), seq: 9 }, "the highest position");
    rig.gate(2, 3, "d");
    rig.gate(1, 10, "e");
    rig.pending.begin_run();
    rig.gate(1, 11, "f");
    assert_eq!(rig.pending.entries.len(), 4, "another log, and another run");
    for (passed, left) in [(8, ""), (9, "abcd"), (10, "e"), (11, "f")] {
        rig.handler.passed = passed;
        assert_eq!(rig.taken(), left, "up to {passed}");
    }
}

#[test]
fn a_queue_that_waits_again_allocates_nothing() {
    let mut rig = Rig::new(1);
    let mut capacities = Vec::new();
    for round in 1..10 {
        for _ in 0..16 {
            rig.gate(1, round, "STORED\r\n");
        }
        let entry = rig.pending.entries.back().expect("just added");
        capacities.push((rig.pending.entries.capacity(), entry.reply.heap_bytes()));
        rig.handler.passed = round;
        assert_eq!(rig.taken(), "STORED\r\n".repeat(16));
        rig.pending.reset();
    }
    // The first round grows the buffers; the output takes one of them.
    assert!(capacities[2..].iter().all(|it| *it == capacities[2]), "{capacities:?}");
}

#[test]
fn what_waits_for_too_long_ends_in_errors() {
    let mut rig = Rig::new(1);
    rig.gate(4, 5, "a");
    rig.gate(4, 6, "b");
    rig.gate(4, 6, "");
    rig.push(Wait::Nothing, "ready", false);
    rig.now.mono_ns = 1000;
    let ticket = rig.push(Wait::Ticket, "part", false);
    rig.gate(4, 7, "c");
    rig.now.mono_ns = WAIT_NS_MAX - 1;
    assert_eq!(rig.taken(), "");
    rig.now.mono_ns = WAIT_NS_MAX;
    assert_eq!(rig.pending.front(CONN).map(|(_, due_ns)| due_ns), Some(WAIT_NS_MAX));
    assert_eq!(rig.taken(), "<late 4 6><late 4 6>ready", "one for each reply that had bytes");
    rig.now.mono_ns = WAIT_NS_MAX + 1000;
    assert_eq!(rig.taken(), format!("<late ticket {ticket}><late 4 7>"));
    assert!(!rig.complete(ticket, b"x", true), "it has ended");
    assert_eq!((rig.pending.bytes, rig.pending.requests), (0, 0));
}

#[test]
fn a_reply_that_has_begun_ends_with_its_connection() {
    let by_parts = |rig: &mut Rig| {
        let ticket = rig.push(Wait::Ticket, "head ", false);
        assert_eq!(rig.taken(), "", "the head waits for the first part");
        assert!(rig.complete(ticket, b"one ", false));
        assert_eq!(rig.taken(), "head one ");
    };
    let by_earlier_call = |rig: &mut Rig| {
        rig.push(Wait::Gate { log: LogId(1), seq: 1 }, "end", true);
    };
    for begin in [by_parts as fn(&mut Rig), by_earlier_call] {
        let mut rig = Rig::new(1);
        begin(&mut rig);
        rig.now.mono_ns = WAIT_NS_MAX;
        assert_eq!(rig.release(), Err(Ended::Close));
    }
}

#[test]
fn parts_leave_at_the_front_and_are_kept_elsewhere() {
    let mut rig = Rig::new(1);
    let first = rig.push(Wait::Ticket, "", false);
    let second = rig.push(Wait::Ticket, "", false);
    assert!(rig.complete(second, b"2a", false));
    assert_eq!((rig.taken().as_str(), rig.pending.bytes), ("", 4));
    assert!(rig.complete(first, b"1a", false));
    assert_eq!((rig.taken().as_str(), rig.pending.bytes), ("1a", 4));
    assert!(rig.complete(first, b"1b", true));
    assert!(!rig.complete(first, b"1c", true));
    assert_eq!((rig.taken().as_str(), rig.pending.bytes), ("1b2a", 1));
    assert!(rig.complete(second, b"", true));
    assert_eq!((rig.taken().as_str(), rig.pending.bytes), ("", 0));
    assert!(rig.pending.is_empty());
}

#[test]
fn doubt_ends_it() {
    let mut rig = Rig::new(1);
    rig.gate(1, 1, "a");
    rig.handler.in_doubt = true;
    assert_eq!(rig.release(), Err(Ended::Drop));
    assert!(rig.out.is_empty());
}

#[test]
fn fullness_by_count_by_bytes_and_by_budget() {
    struct Case {
        total: u64,
        requests: u32,
        bytes_each: usize,
        full: bool,
    }
    let cases = [
        Case { total: 1 << 20, requests: 3, bytes_each: 1, full: false },
        Case { total: 1 << 20, requests: 4, bytes_each: 1, full: true },
        Case { total: 1 << 20, requests: 1, bytes_each: 60_000, full: false },
        Case { total: 1 << 20, requests: 1, bytes_each: 65_536, full: true },
        Case { total: 0, requests: 1, bytes_each: TAIL_FREE_BYTES - 1, full: false },
        Case { total: 0, requests: 1, bytes_each: TAIL_FREE_BYTES + 1, full: true },
    ];
    for Case { total, requests, bytes_each, full } in cases {
        for wait in [Wait::Ticket, Wait::Gate { log: LogId(1), seq: 1 }] {
            let budget = MemoryBudget::new(total);
            let bounds = Bounds { pending_max: 4, pending_bytes_max: 1 << 16, ..Bounds::default() };
            let resources = Resources { bounds, budget: budget.clone() };
            let mut rig = Rig::new(1);
            for _ in 0..requests {
                rig.push(wait, &"x".repeat(bytes_each - 1), false);
            }
            let found = rig.pending.is_full(&resources);
            assert_eq!(found, full, "{requests} of {bytes_each} in {total}, {wait:?}");
            drop(rig);
            assert_eq!(budget.used_total(), 0);
        }
    }
}

#[test]
fn what_the_replies_of_late_had_is_expected_of_the_next() {
    let cases = [(0, TICKETS_FIRST), (300, (256 << 10) / 300), (100 << 10, 2), (1 << 20, 1)];
    for (longest, wanted) in cases {
        let mut rig = Rig::new(1);
        rig.pending.expect(longest);
        let all = std::iter::from_fn(|| {
            let may = !rig.pending.is_full(&rig.resources);
            may.then(|| rig.push(Wait::Ticket, "", false))
        });
        assert_eq!(all.count(), wanted, "{longest}");
    }
}

#[test]
fn long_replies_are_asked_for_a_few_at_a_time() {
    let mut rig = Rig::new(1);
    let mut tickets = Vec::new();
    while !rig.pending.is_full(&rig.resources) {
        tickets.push(rig.push(Wait::Ticket, "", false));
    }
    assert_eq!(tickets.len(), TICKETS_FIRST);
    assert!(rig.complete(tickets[0], &[b'v'; 300], true));
    rig.taken();
    let more = std::iter::from_fn(|| {
        let may = !rig.pending.is_full(&rig.resources);
        may.then(|| rig.push(Wait::Ticket, "", false))
    });
    assert_eq!(more.count() + TICKETS_FIRST - 1, (256 << 10) / 300);

    let mut rig = Rig::new(1);
    let first = rig.push(Wait::Ticket, "", false);
    let second = rig.push(Wait::Ticket, "", false);
    assert!(rig.complete(first, &vec![b'v'; 300 << 10], true));
    rig.taken();
    assert!(rig.pending.is_full(&rig.resources), "one may wait at a time");
    assert!(rig.complete(second, b"short", true));
}

#[test]
fn a_value_before_its_turn_needs_memory_and_is_an_error_without() {
    let mut rig = Rig::new(1);
    rig.resources = resources(1 << 20);
    let tickets: Vec<_> = (0..5).map(|_| rig.push(Wait::Ticket, "", false)).collect();
    let value = "v".repeat(400 << 10);
    for at in [4, 3, 2, 1, 0] {
        assert!(rig.complete(tickets[at], value.as_bytes(), true));
        assert!(rig.resources.budget.used(Owner::Connections) <= 1 << 20);
    }
    let error = String::from_utf8_lossy(NO_MEMORY);
    let (two, none) = (format!("{value}{value}"), format!("{error}{error}"));
    assert_eq!(rig.taken(), format!("{value}{none}{two}"), "the first takes no place in memory");
    assert_eq!((rig.pending.bytes, rig.pending.tickets), (0, 0));
    assert_eq!(rig.resources.budget.used(Owner::Connections), 0);
    let _ahead = [rig.push(Wait::Ticket, "", false), rig.push(Wait::Ticket, "", false)];
    let full = rig.resources.budget.take(Owner::Connections, 1 << 20);
    assert!(full.is_some() && rig.complete(_ahead[1], b"STORED\r\n", true));
    assert!(rig.complete(_ahead[0], b"", true));
    assert_eq!(rig.taken(), "STORED\r\n", "what was changed is said");
}

#[test]
fn nothing_follows_a_request_that_is_alone() {
    let mut rig = Rig::new(1);
    let ticket = rig.push(Wait::Ticket, "", false);
    assert!(!rig.pending.is_full(&rig.resources));
    rig.pending.is_alone();
    assert!(rig.pending.is_full(&rig.resources));
    assert!(rig.complete(ticket, b"part", false) && rig.pending.is_full(&rig.resources));
    assert!(rig.complete(ticket, b"rest", true) && !rig.pending.is_full(&rig.resources));
    let ticket = rig.push(Wait::Ticket, "", false);
    rig.pending.is_alone();
    rig.now.mono_ns += WAIT_NS_MAX;
    assert_eq!(rig.taken(), format!("partrest<late ticket {ticket}>"));
    assert!(!rig.pending.is_full(&rig.resources));
}
