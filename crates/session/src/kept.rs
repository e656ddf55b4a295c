//! Input that cannot be parsed where it was received: the unfinished end of a request, what a
//! bound left unread, and what to do when there is no memory for either.
//!
//! A value without memory is thrown away and answered like one that is too large. Other input
//! without memory ends the connection, unless only fairness had stopped its parsing.

use memcache::{Limits, Parsed};

use crate::bounds::ROOM_ATTEMPTS_MAX;
use crate::tail::NoRoom;
use crate::{Cause, Context, Flow, Handler, Outcome, Session};

impl Session {
    /// Keeps `rest`, which could not be parsed now.
    #[cold]
    pub(crate) fn keep<H: Handler>(&mut self, rest: &[u8], context: &mut Context<H>) {
        if self.is_over() || self.append(rest, self.needed_now(), context).is_ok() {
            return;
        }
        match self.flow {
            Flow::Idle if self.tail.is_empty() => self.refuse_value(rest, context),
            // Fairness is worth less than the memory it would take.
            Flow::Again if self.tail.is_empty() => {
                self.flow = Flow::Idle;
                let left = self.run_kept(rest, context, u32::MAX);
                if left > 0 {
                    self.keep(&rest[rest.len() - left..], context);
                }
            }
            _ => self.refuse_input(context),
        }
    }

    /// Appends to the tail; where the budget refuses, the handler may make room first.
    fn append<H: Handler>(
        &mut self,
        input: &[u8],
        needed: usize,
        context: &mut Context<H>,
    ) -> Result<(), NoRoom> {
        for _ in 0..ROOM_ATTEMPTS_MAX {
            match self.tail.append(input, needed, &context.resources) {
                Ok(()) => return Ok(()),
                Err(NoRoom { bytes }) if context.handler.make_room(context.now, bytes) => {}
                Err(refused) => return Err(refused),
            }
        }
        self.tail.append(input, needed, &context.resources)
    }

    /// Whether no further input will be looked at.
    pub(crate) fn is_over(&self) -> bool {
        self.closing || matches!(self.flow, Flow::Close | Flow::Drop)
    }

    /// What the tail must have room for: a known request, or no more than there is.
    fn needed_now(&self) -> usize {
        if self.flow == Flow::Idle { self.needed } else { 0 }
    }

    /// Receives while earlier input is kept.
    #[cold]
    pub(crate) fn receive_after_tail<H: Handler>(
        &mut self,
        mut input: &[u8],
        context: &mut Context<H>,
    ) {
        while self.flow == Flow::Idle {
            if self.tail.is_empty() {
                let left =
                    self.run_kept(input, context, context.resources.bounds.requests_per_turn);
                input = &input[input.len() - left..];
                break;
            }
            let (lacking, rest) = input.split_at(self.tail.lacks(input, self.needed));
            if self.append(lacking, self.needed, context).is_err() {
                let bytes = self.tail.take();
                self.tail.clear();
                self.refuse_value(&bytes, context);
                continue;
            }
            input = rest;
            if self.tail.len() >= self.needed {
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

    /// [`Session::run`], apart from the path where nothing was kept.
    #[inline(never)]
    fn run_kept<H: Handler>(
        &mut self,
        input: &[u8],
        context: &mut Context<H>,
        requests_max: u32,
    ) -> usize {
        self.run(input, context, requests_max)
    }

    pub(crate) fn run_tail<H: Handler>(&mut self, context: &mut Context<H>) {
        let bytes = self.tail.take();
        let left = self.run_kept(&bytes, context, context.resources.bounds.requests_per_turn);
        if self.is_over() {
            self.tail.clear();
        } else {
            self.tail.put_back(bytes, left);
        }
    }

    /// There is no memory for the request that `input` begins with. A value is thrown away and
    /// answered like one that is too large; anything else ends the connection.
    #[cold]
    fn refuse_value<H: Handler>(&mut self, input: &[u8], context: &mut Context<H>) {
        let limits = Limits { value_bytes_max: 0, ..*context.handler.limits(&self.conn) };
        let Parsed::Refused { refusal, consumed, swallow, close: false, quiet } =
            memcache::parse(input, &limits)
        else {
            return self.refuse_input(context);
        };
        self.refuse(Some(&refusal), Cause::NoMemory, quiet, Outcome::Done, consumed, context);
        self.swallow = swallow;
        let skipped = self.skip(&input[consumed..]);
        debug_assert_eq!(consumed + skipped, input.len(), "an unfinished value ends its input");
    }

    #[cold]
    fn refuse_input<H: Handler>(&mut self, context: &mut Context<H>) {
        self.refuse(None, Cause::NoMemoryForInput, false, Outcome::Close, 0, context);
    }
}
