//! A handler may take a long value in pieces. The replies are the same as for values that arrive as
//! a whole, however the input is cut and whenever the handler must wait; and little is kept.

mod support;

use std::collections::BTreeMap;

use base::{MemoryBudget, Now};
use memcache::{Limits, Refusal, Request};
use session::{
    BatchEnd, Bounds, Cause, Conn, ConnId, Context, Flow, Handler, LogId, Outcome, Passed, Reply,
    Resources, Session, Taken, Ticket, ValueStart, WAIT_NS_MAX, Waited,
};
use support::random::Random;
use support::rig::ID;

/// Requests that are longer have their value taken in pieces.
const WHOLE_BYTES_MAX: usize = 100;
/// Longer values are refused.
const VALUE_BYTES_MAX: u64 = 5000;
/// What one receive brings at most.
const RECEIVED_BYTES_MAX: usize = 4000;

/// Stores values, in pieces if they are long.
struct Store {
    limits: Limits,
    in_pieces: bool,
    /// When it must wait; never if there is none.
    random: Option<Random>,
    /// It waits for ever.
    is_full: bool,
    /// It refuses the pieces of a value after this number of bytes.
    refuses_after: usize,
    items: BTreeMap<Vec<u8>, Vec<u8>>,
    arriving: Option<Vec<u8>>,
    dropped: usize,
    causes: Vec<Cause>,
}

impl Store {
    fn new(in_pieces: bool, seed: Option<u64>) -> Self {
        Self {
            limits: Limits { value_bytes_max: VALUE_BYTES_MAX, ..Limits::default() },
            in_pieces,
            random: seed.map(Random),
            is_full: false,
            refuses_after: usize::MAX,
            items: BTreeMap::new(),
            arriving: None,
            dropped: 0,
            causes: Vec::new(),
        }
    }

    fn waits(&mut self) -> bool {
        self.is_full || self.random.as_mut().is_some_and(|random| random.below(3) == 0)
    }

    fn store(&mut self, request: &Request<'_>, value: &[u8], reply: &mut Reply) {
        let Request::Store(store) = request else { return };
        self.items.insert(store.key.as_bytes().to_vec(), value.to_vec());
        if !store.noreply {
            reply.bytes_mut().extend(b"STORED\r\n");
        }
    }
}

impl Handler for Store {
    type Mail = std::convert::Infallible;

    fn limits(&self, _: &Conn) -> &Limits {
        &self.limits
    }

    fn call(
        &mut self,
        _: Now,
        _: &mut Conn,
        request: &Request<'_>,
        _: Ticket,
        reply: &mut Reply,
    ) -> Outcome {
        match request {
            Request::Store(store) => self.store(request, store.value, reply),
            _ => reply.bytes_mut().extend(b"VERSION 1\r\n"),
        }
        Outcome::Done
    }

    fn whole_bytes_max(&self) -> usize {
        if self.in_pieces { WHOLE_BYTES_MAX } else { usize::MAX }
    }

    fn begin_value(&mut self, _: Now, _: &mut Conn, request: &Request<'_>, _: u64) -> ValueStart {
        let Request::Store(store) = request else { return ValueStart::Whole };
        if store.key.as_bytes().starts_with(b"whole") {
            return ValueStart::Whole;
        }
        if self.waits() {
            return ValueStart::Later;
        }
        assert!(self.arriving.replace(Vec::new()).is_none(), "one at a time");
        ValueStart::Pieces
    }

    fn take_piece(&mut self, _: Now, _: &mut Conn, piece: &[u8]) -> Taken {
        let waits = self.waits();
        let arriving = self.arriving.as_mut().expect("it was begun");
        if arriving.len() + piece.len() > self.refuses_after {
            return Taken::Refused;
        }
        let taken = match &mut self.random {
            Some(random) if waits => random.below(piece.len()),
            None if waits => 0,
            _ => piece.len(),
        };
        arriving.extend(&piece[..taken]);
        if taken < piece.len() { Taken::Later(taken) } else { Taken::All }
    }

    fn finish_value(
        &mut self,
        _: Now,
        _: &mut Conn,
        request: &Request<'_>,
        _: Ticket,
        reply: &mut Reply,
    ) -> Outcome {
        if self.waits() {
            return Outcome::Park;
        }
        let value = self.arriving.take().expect("it was begun");
        self.store(request, &value, reply);
        Outcome::Done
    }

    fn drop_value(&mut self, _: ConnId) {
        assert!(self.arriving.take().is_some(), "it was begun");
        self.dropped += 1;
    }

    fn refused(
        &mut self,
        _: Now,
        _: &mut Conn,
        refusal: Option<&Refusal<'_>>,
        cause: Cause,
        reply: &mut Reply,
    ) {
        self.causes.push(cause);
        reply.bytes_mut().extend(match (cause, refusal) {
            (Cause::Malformed, Some(refusal)) => refusal.line(),
            _ => b"SERVER_ERROR out of memory storing object\r\n",
        });
    }

    fn overdue(&mut self, _: Now, _: &Waited, _: &mut Reply) {}

    fn gate(&self, _: LogId, _: u64) -> Passed {
        Passed::Yes
    }

    fn deliver(&mut self, _: Now, mail: Self::Mail) {
        match mail {}
    }

    fn closed(&mut self, _: ConnId) {}

    fn end_batch(&mut self, _: Now, _: impl Fn() -> Now) -> BatchEnd {
        BatchEnd::Send
    }
}

/// A session and its handler.
struct Rig {
    session: Session,
    context: Context<Store>,
}

impl Rig {
    fn new(store: Store, budget_bytes: u64) -> Self {
        let bounds = Bounds::default();
        let resources = Resources { bounds, budget: MemoryBudget::new(budget_bytes) };
        let now = Now { mono_ns: 1, expiry_s: 1 };
        Self { session: Session::new(ID), context: Context::new(store, now, resources) }
    }

    fn receive(&mut self, input: &[u8]) {
        self.session.receive(input, &mut self.context);
    }

    /// Goes on until there is need of input.
    fn settle(&mut self) {
        while !matches!(self.session.flow(), Flow::Idle | Flow::Close) {
            self.session.resume(&mut self.context);
        }
    }

    fn taken(&mut self) -> String {
        let out = &mut self.context.out;
        let text = out.plain(out.whole()).map(<[u8]>::to_vec).expect("nothing is lent");
        out.clear(0);
        String::from_utf8(text).expect("the tests write text")
    }
}

fn value(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| b'a' + (at % 26) as u8).collect()
}

/// A storage command whose value ends with `end`.
fn request(line: &str, bytes: usize, end: &str) -> Vec<u8> {
    let (command, rest) = line.split_once('#').expect("the place of the length");
    [format!("{command}{bytes}{rest}\r\n").as_bytes(), &value(bytes), end.as_bytes()].concat()
}

fn script() -> Vec<u8> {
    [
        request("set a 0 0 #", 120, "\r\n"),
        request("set b 0 0 #", 3, "\r\n"),
        request("set c 0 0 # noreply", 1500, "\r\n"),
        b"version\r\n".to_vec(),
        request("add whole 0 0 #", 300, "\r\n"),
        request("set d 0 0 #", 400, "xx"),
        request("set e 0 0 # noreply", 500, "\nx"),
        request("cas f 0 0 # 17", 2500, "\r\n"),
        request("set g 0 0 #", 5001, "\r\n"),
        request("replace h 0 0 #", 5000, "\r\n"),
        request("set i 0 0 #", 101, "\r\n"),
        b"version\r\n".to_vec(),
    ]
    .concat()
}

const REPLIES: &str = "STORED\r\nSTORED\r\nVERSION 1\r\nSTORED\r\n\
                       CLIENT_ERROR bad data chunk\r\nSTORED\r\n\
                       SERVER_ERROR object too large for cache\r\nSTORED\r\nSTORED\r\n\
                       VERSION 1\r\n";

#[test]
fn the_replies_are_the_same_however_the_input_is_cut() {
    let script = script();
    let mut whole = Rig::new(Store::new(false, None), 1 << 20);
    whole.receive(&script);
    assert_eq!(whole.taken(), REPLIES);
    for piece in (1..200).chain([999, 1024, script.len() - 1, script.len()]) {
        for seed in [None, Some(piece as u64)] {
            let mut rig = Rig::new(Store::new(true, seed), 1 << 20);
            for input in script.chunks(piece) {
                rig.receive(input);
                if rig.session.flow() == Flow::Parked && piece % 2 == 0 {
                    // A driver that completes may bring more.
                    continue;
                }
                rig.settle();
            }
            rig.settle();
            assert_eq!(rig.taken(), REPLIES, "in pieces of {piece}, seed {seed:?}");
            assert!(rig.context.handler.items == whole.context.handler.items, "of {piece}");
            assert!(rig.session.is_at_rest() && rig.context.handler.arriving.is_none());
            assert_eq!(rig.session.heap_bytes(), 0, "an idle connection owns nothing");
            assert_eq!(rig.context.resources.budget.used_total(), 0);
        }
    }
}

#[test]
fn random_cuts_and_waits_change_nothing() {
    let script = script();
    for seed in 0..500 {
        let mut random = Random(seed);
        let mut rig = Rig::new(Store::new(true, Some(seed)), 1 << 20);
        let mut at = 0;
        while at < script.len() {
            let end = script.len().min(at + 1 + random.below(RECEIVED_BYTES_MAX));
            rig.receive(&script[at..end]);
            rig.settle();
            at = end;
        }
        assert_eq!(rig.taken(), REPLIES, "seed {seed}");
    }
}

#[test]
fn only_the_line_is_kept_of_a_value_that_arrives() {
    let request = request("set a 0 0 #", 5000, "\r\n");
    // No memory at all: a line needs none.
    let mut rig = Rig::new(Store::new(true, None), 0);
    for input in request.chunks(700) {
        assert!(rig.session.value_buffer(&rig.context.resources.clone()).is_none());
        rig.receive(input);
        assert!(rig.session.heap_bytes() < 100 && rig.session.flow() == Flow::Idle);
    }
    assert_eq!(rig.taken(), "STORED\r\n");
    assert!(rig.session.is_at_rest());
}

/// While the rest of a long request is awaited, it takes memory of all. The context tells a driver
/// that this has begun, also where a bound or a wait came between.
#[test]
fn the_rest_of_a_long_request_is_awaited_until_it_has_come() {
    let long = request("set a 0 0 #", 5000, "\r\n");
    let whole = request("set whole 0 0 #", 5000, "\r\n");
    let short = request("set whole 0 0 #", 1000, "\r\n");
    let behind = [&b"version\r\n"[..], &long].concat();
    let line = [&b"get"[..], &b" k".repeat(3000), b"\r\n"].concat();
    let cases = [
        (&long, 20, true),
        (&long, 4000, true),
        (&long, 5, false),
        (&whole, 20, true),
        (&whole, 4000, true),
        (&short, 900, false),
        (&behind, 9, false),
        (&behind, 900, true),
        (&line, 1000, false),
        (&line, 5000, true),
    ];
    for (request, part, awaited) in cases {
        let what = String::from_utf8_lossy(&request[..20]);
        for bound in [1, u32::MAX] {
            let mut rig = Rig::new(Store::new(true, None), 1 << 20);
            rig.context.resources.bounds.requests_per_turn = bound;
            rig.receive(&request[..part]);
            rig.settle();
            assert_eq!(rig.session.awaits_rest(), awaited, "{part} of {what}");
            assert!(rig.context.take_kept() || !awaited, "{part} of {what}");
            rig.receive(&request[part..]);
            rig.settle();
            assert!(!rig.session.awaits_rest() && rig.session.is_at_rest(), "{what}");
        }
    }
    let mut rig = Rig::new(Store::new(true, None), 1 << 20);
    rig.context.handler.is_full = true;
    rig.receive(&long[..20]);
    assert_eq!(rig.session.flow(), Flow::Parked);
    assert!(!rig.session.awaits_rest(), "it is the handler that waits");
    rig.context.take_kept();
    rig.context.handler.is_full = false;
    rig.settle();
    assert!(rig.session.awaits_rest() && rig.context.take_kept());
}

/// What was received of a value whose handler waits is kept; where there is no memory for that, the
/// value is refused, and the connection goes on.
#[test]
fn a_value_that_waits_without_memory_is_refused() {
    let first = request("set a 0 0 #", 5000, "\r\n");
    let mut rig = Rig::new(Store::new(true, None), 2000);
    rig.receive(&first[..700]);
    rig.context.handler.is_full = true;
    rig.receive(&first[700..4000]);
    assert_eq!(rig.session.flow(), Flow::Idle);
    assert_eq!(rig.context.handler.dropped, 1);
    rig.receive(&[&first[4000..], b"version\r\n"].concat());
    assert_eq!(rig.taken(), "SERVER_ERROR out of memory storing object\r\nVERSION 1\r\n");
    assert!(rig.session.is_at_rest());
}

/// Before the value begins, at a piece of it, and at its end.
#[test]
fn a_wait_that_is_too_long_is_refused_and_the_value_discarded() {
    for noreply in [false, true] {
        let line = if noreply { "set a 0 0 # noreply" } else { "set a 0 0 #" };
        let first = request(line, 3000, "\r\n");
        let line = first.iter().position(|byte| *byte == b'\n').expect("it has a line") + 1;
        for full_at in [0, line + 1, line + 500, 2000] {
            let mut rig = Rig::new(Store::new(true, None), 1 << 20);
            if full_at > 0 {
                rig.receive(&first[..full_at]);
            }
            rig.context.handler.is_full = true;
            rig.receive(&first[full_at..2500]);
            assert_eq!(rig.session.flow(), Flow::Parked, "full at {full_at}");
            rig.context.now.mono_ns += WAIT_NS_MAX - 1;
            rig.session.resume(&mut rig.context);
            assert_eq!(rig.session.flow(), Flow::Parked, "not for too long");
            rig.context.now.mono_ns += 1;
            rig.session.resume(&mut rig.context);
            assert_eq!(rig.session.flow(), Flow::Idle, "full at {full_at}");
            assert_eq!(rig.context.handler.dropped, usize::from(full_at > 0));
            rig.receive(&[&first[2500..], b"version\r\n"].concat());
            let line = "SERVER_ERROR out of memory storing object\r\n";
            let refused = if noreply { "" } else { line };
            assert_eq!(rig.taken(), format!("{refused}VERSION 1\r\n"), "full at {full_at}");
            assert_eq!(rig.context.handler.causes, [Cause::NoMemory]);
            assert!(rig.session.is_at_rest());
        }
    }
}

#[test]
fn a_handler_may_refuse_half_way() {
    let input = [request("set a 0 0 #", 3000, "\r\n"), b"version\r\n".to_vec()].concat();
    for piece in [1, 10, 700, 2000, 3000] {
        let mut rig = Rig::new(Store::new(true, None), 1 << 20);
        rig.context.handler.refuses_after = 1500;
        for input in input.chunks(piece) {
            rig.receive(input);
        }
        let replies = "SERVER_ERROR out of memory storing object\r\nVERSION 1\r\n";
        assert_eq!(rig.taken(), replies, "in pieces of {piece}");
        assert_eq!(rig.context.handler.dropped, 1);
        assert!(rig.session.is_at_rest());
    }
}
