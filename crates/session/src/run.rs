//! The loop over requests: each is taken off the input, executed, and its outcome seen to.
//!
//! ```text
//! run -> run_get                    get of one key: inlined down to the handler
//!     -> run_other                  plain set and add: one call away
//!            -> run_any             everything else: one more
//! ```
//!
//! The first step costs every request, so it keeps what it needs in registers; the others have
//! frames of their own, so that what they need does not displace it.

use memcache::{Key, Parsed, Refusal};

use crate::order::Wait;
use crate::{Cause, Flow, Handler, Mark, Outcome, Passed, Session, Ticket, Turn};

impl Session {
    /// Parses `input` from its beginning until it is used up or a bound stops it; returns how much
    /// was used and leaves the reason in `flow`.
    #[inline(never)]
    pub(crate) fn run<H: Handler>(
        &mut self,
        input: &[u8],
        turn: &mut Turn<'_, H>,
        requests_max: u32,
    ) -> usize {
        let full_at = turn.out.len().saturating_add(turn.ground.bounds.output_bytes_max);
        let mut requests_left = requests_max;
        let mut at = self.skip(input);
        while at < input.len() {
            if requests_left == 0 {
                self.flow = Flow::Again;
                break;
            }
            requests_left -= 1;
            let rest = &input[at..];
            let used = match memcache::plain_get(rest) {
                Some((key, consumed)) => self.run_get(key, consumed, turn),
                None => match self.run_other(rest, turn) {
                    Some(used) => used,
                    None => break,
                },
            };
            at += used;
            if at == input.len() || self.flow != Flow::Idle {
                break;
            }
            if turn.out.len() >= full_at {
                self.flow = Flow::Full;
                break;
            }
        }
        at
    }

    /// Executes `get` of one key. It is inlined down to the handler, so that the request stays in
    /// registers.
    #[inline(always)]
    fn run_get<H: Handler>(
        &mut self,
        key: Key<'_>,
        consumed: usize,
        turn: &mut Turn<'_, H>,
    ) -> usize {
        let mark = turn.out.mark();
        let (ticket, conn) = (self.next_ticket(), &mut self.conn);
        let outcome = turn.handler.call_get(turn.now, conn, key, ticket, turn.out);
        self.file(outcome, consumed, mark, turn)
    }

    /// Deals with anything that `input` begins with but the simplest `get`; returns how much of it
    /// is used, or nothing when it is only the beginning of a request.
    #[inline(never)]
    fn run_other<H: Handler>(&mut self, input: &[u8], turn: &mut Turn<'_, H>) -> Option<usize> {
        let limits = || turn.handler.limits(&self.conn);
        let Some((store, consumed)) = memcache::plain_store(input, limits) else {
            return self.run_any(input, turn);
        };
        let mark = turn.out.mark();
        let (ticket, conn) = (self.next_ticket(), &mut self.conn);
        let outcome = turn.handler.call_store(turn.now, conn, &store, ticket, turn.out);
        Some(self.file(outcome, consumed, mark, turn))
    }

    #[inline(never)]
    fn run_any<H: Handler>(&mut self, input: &[u8], turn: &mut Turn<'_, H>) -> Option<usize> {
        match memcache::parse(input, turn.handler.limits(&self.conn)) {
            Parsed::Request { request, consumed } => {
                let mark = turn.out.mark();
                let (ticket, conn) = (self.next_ticket(), &mut self.conn);
                let outcome = turn.handler.call(turn.now, conn, &request, ticket, turn.out);
                Some(self.file(outcome, consumed, mark, turn))
            }
            Parsed::Incomplete { needed } => {
                self.needed = needed;
                None
            }
            Parsed::Refused { refusal, consumed, swallow, close, quiet } => {
                let outcome = if close { Outcome::Close } else { Outcome::Done };
                self.refuse(Some(&refusal), Cause::Malformed, quiet, outcome, consumed, turn);
                self.swallow = swallow;
                Some(consumed + self.skip(&input[consumed..]))
            }
        }
    }

    #[inline(always)]
    fn next_ticket(&mut self) -> Ticket {
        self.requests = self.requests.wrapping_add(1);
        Ticket { conn: self.conn.id(), request: self.requests }
    }

    /// Throws away what `input` holds of a refused value; returns how much that is.
    #[inline]
    pub(crate) fn skip(&mut self, input: &[u8]) -> usize {
        if self.swallow == 0 {
            return 0;
        }
        let skipped = self.swallow.min(input.len() as u64);
        self.swallow -= skipped;
        skipped as usize
    }

    /// Sees to the outcome of a request; returns how much of the input it has used.
    #[inline(always)]
    fn file<H: Handler>(
        &mut self,
        outcome: Outcome,
        consumed: usize,
        mark: Mark,
        turn: &mut Turn<'_, H>,
    ) -> usize {
        if outcome != Outcome::Done || self.order.is_some() {
            return self.file_apart(outcome, consumed, mark, turn);
        }
        self.conn.progress = 0;
        consumed
    }

    /// Deals with every outcome but the plain one: replies that wait, that come in parts, that end
    /// the connection.
    #[cold]
    fn file_apart<H: Handler>(
        &mut self,
        outcome: Outcome,
        consumed: usize,
        mark: Mark,
        turn: &mut Turn<'_, H>,
    ) -> usize {
        let used = if outcome == Outcome::More { 0 } else { consumed };
        let wait = match outcome {
            Outcome::Pending => Wait::Ticket,
            Outcome::Gate { log, seq } => match turn.handler.gate(log, seq) {
                Passed::Yes => Wait::Nothing,
                Passed::No => Wait::Gate { log, seq },
                Passed::InDoubt => {
                    self.flow = Flow::Drop;
                    return used;
                }
            },
            Outcome::Done | Outcome::More | Outcome::Close => Wait::Nothing,
        };
        if outcome != Outcome::More {
            self.conn.progress = 0;
        }
        if self.order.is_some() || wait != Wait::Nothing {
            let reply = turn.out.split_off(mark);
            let order = self.order.get_or_insert_default();
            order.push(self.requests, wait, reply, used);
            if order.is_full(turn.ground) || outcome == Outcome::More {
                self.flow = Flow::Waiting;
            }
        } else if outcome == Outcome::More {
            self.flow = Flow::Full;
        }
        if outcome == Outcome::Close {
            self.closing = true;
            self.close();
        }
        used
    }

    /// Ends the connection as soon as nothing waits.
    pub(crate) fn close(&mut self) {
        self.tail.clear();
        self.flow = if self.order.is_some() { Flow::Waiting } else { Flow::Close };
    }

    /// Has the handler answer a request that is not executed, in its place among the others. A
    /// client that wants no reply gets none, but the handler is told all the same.
    #[cold]
    pub(crate) fn refuse<H: Handler>(
        &mut self,
        refusal: Option<&Refusal<'_>>,
        cause: Cause,
        quiet: bool,
        outcome: Outcome,
        consumed: usize,
        turn: &mut Turn<'_, H>,
    ) {
        let mark = turn.out.mark();
        turn.handler.refused(turn.now, &mut self.conn, refusal, cause, turn.out);
        if quiet {
            turn.out.rewind(mark);
        }
        self.requests = self.requests.wrapping_add(1);
        self.file_apart(outcome, consumed, mark, turn);
    }
}
