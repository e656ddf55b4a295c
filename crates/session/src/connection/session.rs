//! The session itself: input is parsed where it lies, or kept in a tail until it can be.
//!
//! A value without memory is discarded and answered like one that is too large, also where it is
//! complete and parked. Other input without memory ends the connection, unless only the bound of
//! requests had stopped its parsing: then it is parsed without that bound.
//!
//! A long value may be handed over in pieces: see `pieces.rs`. The tail holds the line of its
//! request then, and what the handler could not take yet: nothing while [`Flow::Idle`].
//!
//! Invariants: while [`Flow::Idle`], a tail that is not empty begins with an incomplete request, of
//! which more than its present length is needed. In any other state nothing is parsed except by
//! `resume`. A connection that is over has an empty tail.

use super::flow::Flow;
use super::pieces;
use super::requests::Requests;
use super::tail::Tail;
use super::turn;
use crate::bounds::{Resources, TAIL_FREE_BYTES};
use crate::context::Context;
use crate::handler::{Handler, Waited};
use crate::ids::{ConnId, Copies, Ticket};
use crate::reply::Span;

/// One connection without a socket.
///
/// A driver owns one per client. It calls [`Session::receive`] with what it received and sends what
/// appears in [`Context::out`]:
///
/// ```
/// use base::{MemoryBudget, Now};
/// use memcache::{Limits, Refusal, Request};
/// use session::{
///     BatchEnd, Bounds, Cause, Conn, ConnId, Context, Flow, Handler, LogId, Outcome, Passed,
///     Reply, Resources, Session, Ticket, Waited, WorkerId,
/// };
///
/// /// Answers `version` and nothing else.
/// struct Version(Limits);
///
/// impl Handler for Version {
///     type Mail = std::convert::Infallible;
///
///     fn limits(&self, _: &Conn) -> &Limits {
///         &self.0
///     }
///     fn call(
///         &mut self,
///         _: Now,
///         _: &mut Conn,
///         request: &Request<'_>,
///         _: Ticket,
///         reply: &mut Reply,
///     ) -> Outcome {
///         let line: &[u8] = match request {
///             Request::Version => b"VERSION 1\r\n",
///             _ => b"ERROR\r\n",
///         };
///         reply.bytes_mut().extend(line);
///         Outcome::Done
///     }
///     fn refused(
///         &mut self,
///         _: Now,
///         _: &mut Conn,
///         _: Option<&Refusal<'_>>,
///         _: Cause,
///         reply: &mut Reply,
///     ) {
///         reply.bytes_mut().extend(b"ERROR\r\n");
///     }
///     fn gate(&self, _: LogId, _: u64) -> Passed {
///         Passed::Yes
///     }
///     fn overdue(&mut self, _: Now, _: &Waited, reply: &mut Reply) {
///         reply.bytes_mut().extend(b"SERVER_ERROR it took too long\r\n");
///     }
///     fn deliver(&mut self, _: Now, _: Self::Mail) {}
///     fn closed(&mut self, _: ConnId) {}
///     fn end_batch(&mut self, _: Now, _: impl Fn() -> Now) -> BatchEnd {
///         BatchEnd::Send
///     }
/// }
///
/// let resources = Resources { bounds: Bounds::default(), budget: MemoryBudget::new(1 << 20) };
/// let mut context = Context::new(Version(Limits::default()), Now::default(), resources);
/// let mut session = Session::new(ConnId { worker: WorkerId(0), index: 0, generation: 0 });
///
/// // Two requests arrive, the second one in two pieces.
/// assert_eq!(session.receive(b"version\r\nver", &mut context), Flow::Idle);
/// session.receive(b"sion\r\n", &mut context);
/// let sent = context.out.plain(context.out.whole());
/// assert_eq!(sent, Some(&b"VERSION 1\r\nVERSION 1\r\n"[..]));
/// ```
pub struct Session {
    requests: Requests,
    tail: Tail,
}

const _: () = assert!(size_of::<Session>() < 200, "an idle connection is small");

impl Session {
    /// A connection that has received nothing.
    #[must_use]
    pub fn new(id: ConnId) -> Self {
        Self { requests: Requests::new(id), tail: Tail::default() }
    }

    /// The same connection, whose reads copies may answer as `copies` says.
    #[must_use]
    pub fn with_copies(mut self, copies: Copies) -> Self {
        self.requests.conn.copies = copies;
        self
    }

    /// Its id.
    #[inline]
    #[must_use]
    pub fn id(&self) -> ConnId {
        self.requests.conn.id()
    }

    /// What it needs next.
    #[inline]
    #[must_use]
    pub fn flow(&self) -> Flow {
        self.requests.flow
    }

    /// Whether a reply waits for a completion or a log.
    #[inline]
    #[must_use]
    pub fn is_pending(&self) -> bool {
        self.requests.pending.is_some()
    }

    /// What the next reply waits for; `None` when no reply waits.
    #[must_use]
    pub fn waits_for(&self) -> Option<Waited> {
        self.requests.front().map(|(waited, _)| waited)
    }

    /// When the next reply ends in an error if it still waits, by [`Session::release`]. In
    /// nanoseconds of the monotonic clock; `None` when no reply waits.
    #[must_use]
    pub fn due_ns(&self) -> Option<u64> {
        self.requests.front().map(|(_, due_ns)| due_ns)
    }

    /// Whether a reply waits for the completion of its ticket.
    #[must_use]
    pub fn has_ticket(&self) -> bool {
        self.requests.pending.as_ref().is_some_and(|pending| pending.has_ticket())
    }

    /// Whether it is between two requests: no input is kept and no reply waits.
    #[must_use]
    pub fn is_at_rest(&self) -> bool {
        self.requests.is_at_rest() && self.tail.is_empty()
    }

    /// Whether its client has begun a request of more than 2 KiB, or a value that the handler takes
    /// in pieces, and the rest is awaited: such a request takes memory of all until it is complete.
    /// Where this is so, [`Context::has_kept`] was.
    #[must_use]
    pub fn awaits_rest(&self) -> bool {
        let bytes = self.requests.needed().max(self.tail.heap_bytes());
        let is_long = self.requests.value_line_bytes().is_some() || bytes > TAIL_FREE_BYTES;
        self.flow() == Flow::Idle && !self.tail.is_empty() && is_long
    }

    /// Memory that it owns beyond its own size, replies that wait excluded.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        self.tail.heap_bytes()
    }

    /// Whether input can be parsed where it was received: nothing is kept, no bound has stopped it.
    #[inline(always)]
    #[must_use]
    pub fn can_parse_in_place(&self) -> bool {
        self.flow() == Flow::Idle && self.tail.is_empty()
    }

    /// Parses and executes what `input` completes, in the caller's buffer where possible. All of
    /// `input` is consumed or kept.
    pub fn receive<H: Handler>(&mut self, input: &[u8], context: &mut Context<H>) -> Flow {
        if self.can_parse_in_place() {
            self.receive_in_place(input, context);
        } else {
            self.receive_after_tail(input, context);
        }
        self.flow()
    }

    /// [`Session::receive`] of a session that [can parse in place](Session::can_parse_in_place).
    #[inline(always)]
    pub fn receive_in_place<H: Handler>(&mut self, input: &[u8], context: &mut Context<H>) {
        debug_assert!(self.can_parse_in_place());
        let requests_max = context.resources.bounds.requests_per_turn;
        let left = turn::run(&mut self.requests, input, context, requests_max);
        if left > 0 {
            self.keep(&input[input.len() - left..], context);
        }
    }

    /// Continues with input that was kept when a bound stopped it, or with the request that was
    /// parked.
    pub fn resume<H: Handler>(&mut self, context: &mut Context<H>) -> Flow {
        let is_over = !self.requests.asks_for_rest(context) && self.requests.resume();
        if is_over && !self.tail.is_empty() {
            self.run_tail(context);
        }
        self.flow()
    }

    /// A buffer to receive into directly, when much of a value is missing. [`Session::receive`]
    /// with empty input follows.
    #[inline]
    pub fn value_buffer(&mut self, resources: &Resources) -> Option<&mut Vec<u8>> {
        if self.flow() != Flow::Idle || self.tail.is_empty() {
            return None;
        }
        self.tail.value_buffer(self.requests.needed(), resources)
    }

    /// Takes in a `part` of a reply, and whether it is the last one. `false` when its request does
    /// not wait for it any more. [`Session::release`] follows. A value that comes before its turn
    /// is replaced by an error where the budget has no memory for it.
    pub fn complete<H: Handler>(
        &mut self,
        ticket: Ticket,
        part: (&[u8], bool),
        context: &mut Context<H>,
    ) -> bool {
        self.requests.complete(ticket, part, context)
    }

    /// Moves what may not leave of `span` to the replies that wait: `span` is what this connection
    /// has in the output of a batch that has ended. Returns what may leave. If the connection has
    /// several spans, it is called for each, in their order.
    pub fn withhold<H: Handler>(&mut self, span: Span, context: &mut Context<H>) -> Span {
        self.requests.withhold(span, context)
    }

    /// Lets replies leave that waited for a completion or for a log, and ends those that have
    /// waited for too long.
    pub fn release<H: Handler>(&mut self, context: &mut Context<H>) -> Flow {
        self.requests.release(context);
        if self.requests.is_over() {
            self.tail.clear();
        }
        self.flow()
    }

    /// Keeps `rest`, which could not be parsed now.
    #[cold]
    fn keep<H: Handler>(&mut self, mut rest: &[u8], context: &mut Context<H>) {
        // Each round uses up a request at least.
        while !rest.is_empty() && !self.requests.is_over() {
            if self.requests.value_line_bytes().is_some() && self.tail.is_empty() {
                rest = self.keep_line(rest, context);
                if rest.is_empty() {
                    return;
                }
                if self.flow() == Flow::Idle {
                    let left = self.run_kept(rest, context, u32::MAX);
                    rest = &rest[rest.len() - left..];
                    continue;
                }
            }
            let needed = self.requests.needed();
            if self.append(rest, needed, context) {
                return;
            }
            let used = match self.flow() {
                Flow::Idle | Flow::Parked if self.tail.is_empty() => {
                    self.requests.resume();
                    self.requests.refuse_value(rest, context)
                }
                Flow::Parked if self.requests.value_line_bytes().is_some() => {
                    match self.fail_kept_value(rest, context) {
                        Some(used) => used,
                        None => return,
                    }
                }
                // Fairness matters less than the memory that it would take.
                Flow::Again if self.tail.is_empty() => {
                    self.requests.resume();
                    0
                }
                _ => {
                    self.requests.refuse_input(context);
                    self.tail.clear();
                    return;
                }
            };
            rest = &rest[used..];
            if self.flow() == Flow::Idle && !rest.is_empty() {
                let left = self.run_kept(rest, context, u32::MAX);
                rest = &rest[rest.len() - left..];
            }
        }
    }

    /// Keeps the line of a request whose value arrives in pieces, and hands over what `input` has
    /// of the value. Returns what follows.
    fn keep_line<'i, H: Handler>(&mut self, input: &'i [u8], context: &mut Context<H>) -> &'i [u8] {
        let line_bytes = self.requests.value_line_bytes().unwrap_or_default();
        let (line, rest) = input.split_at(line_bytes);
        let used = match self.append(line, line_bytes, context) {
            true => self.take_value(rest, context),
            false => pieces::fail(&mut self.requests, line, rest, context),
        };
        &rest[used..]
    }

    /// There is no memory for more of a value that waits for space: it fails, and what `input` has
    /// of it is discarded. Returns how much that is; `None` if the connection ends.
    #[cold]
    fn fail_kept_value<H: Handler>(
        &mut self,
        input: &[u8],
        context: &mut Context<H>,
    ) -> Option<usize> {
        self.requests.resume();
        let line_bytes = self.requests.value_line_bytes()?;
        let bytes = self.tail.take();
        self.tail.clear();
        let (line, kept) = bytes.split_at(line_bytes);
        if pieces::fail(&mut self.requests, line, kept, context) < kept.len() {
            // Requests after the value were kept too.
            self.requests.refuse_input(context);
            return None;
        }
        Some(self.requests.skip(input))
    }

    /// Hands over what `input` has of the value that arrives in pieces. Returns how much of it is
    /// used.
    fn take_value<H: Handler>(&mut self, input: &[u8], context: &mut Context<H>) -> usize {
        let line = self.tail.take();
        let used = pieces::take(&mut self.requests, &line, input, context);
        match self.requests.value_line_bytes() {
            Some(_) => self.tail.put_back_without(line, 0, 0),
            None => self.tail.clear(),
        }
        used
    }

    /// Hands over what the tail has of that value after the line of its request.
    fn take_kept_value<H: Handler>(&mut self, line_bytes: usize, context: &mut Context<H>) {
        let bytes = self.tail.take();
        let (line, rest) = bytes.split_at(line_bytes);
        let end = line_bytes + pieces::take(&mut self.requests, line, rest, context);
        match self.requests.value_line_bytes() {
            _ if self.requests.is_over() => self.tail.clear(),
            Some(_) => self.tail.put_back_without(bytes, line_bytes, end),
            None => {
                let left = bytes.len() - end;
                self.tail.put_back(bytes, left);
            }
        }
    }

    /// Appends to the tail; `false` when there is no memory, even after the handler has made room.
    fn append<H: Handler>(
        &mut self,
        input: &[u8],
        needed: usize,
        context: &mut Context<H>,
    ) -> bool {
        context.kept = true;
        context.with_room(|resources| self.tail.append(input, needed, resources)).is_ok()
    }

    /// Receives while earlier input is kept.
    #[cold]
    fn receive_after_tail<H: Handler>(&mut self, mut input: &[u8], context: &mut Context<H>) {
        while self.flow() == Flow::Idle {
            if self.tail.is_empty() {
                let requests_max = context.resources.bounds.requests_per_turn;
                let left = self.run_kept(input, context, requests_max);
                input = &input[input.len() - left..];
                break;
            }
            if self.requests.value_line_bytes().is_some() {
                input = &input[self.take_value(input, context)..];
                if input.is_empty() {
                    return;
                }
                continue;
            }
            let needed = self.requests.needed();
            let (lacking, rest) = input.split_at(self.tail.lacks(input, needed));
            if !self.append(lacking, needed, context) {
                let bytes = self.tail.take();
                self.tail.clear();
                let used = self.requests.refuse_value(&bytes, context);
                debug_assert_eq!(used, bytes.len(), "an unfinished value ends its input");
                continue;
            }
            input = rest;
            if self.tail.len() >= needed {
                self.run_tail(context);
            }
            if input.is_empty() {
                return;
            }
        }
        if !input.is_empty() {
            self.keep(input, context);
        }
    }

    /// The loop over requests in a frame of its own, away from the path where nothing was kept.
    #[inline(never)]
    fn run_kept<H: Handler>(
        &mut self,
        input: &[u8],
        context: &mut Context<H>,
        requests_max: u32,
    ) -> usize {
        turn::run(&mut self.requests, input, context, requests_max)
    }

    fn run_tail<H: Handler>(&mut self, context: &mut Context<H>) {
        context.kept = true;
        // Each round but the first begins or ends a value that arrives in pieces.
        loop {
            if let Some(line_bytes) = self.requests.value_line_bytes() {
                self.take_kept_value(line_bytes, context);
                let goes_on = self.requests.value_line_bytes().is_some();
                if goes_on || self.tail.is_empty() || self.flow() != Flow::Idle {
                    return;
                }
            }
            let bytes = self.tail.take();
            let left = self.run_kept(&bytes, context, context.resources.bounds.requests_per_turn);
            if self.requests.is_over() {
                return self.tail.clear();
            }
            self.tail.put_back(bytes, left);
            if self.requests.value_line_bytes().is_none() {
                return;
            }
        }
    }
}
