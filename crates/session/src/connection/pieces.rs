//! A long value: the handler takes it piece by piece, as it arrives.
//!
//! ```text
//! tail:  [ line of the request | what the handler could not take yet ]
//! ```
//!
//! Only the line is kept until the value is complete; the request is executed from it then. While
//! the handler has no space for the next piece, the request is parked, and nothing is received.
//!
//! Invariant: `value` is there from when the handler has begun a value until it has finished it,
//! or is asked to drop it.

use memcache::Refusal;

use super::requests::Requests;
use crate::context::Context;
use crate::handler::{Cause, Handler, Outcome, Taken};

/// Hands over what `input` has of the value, whose request has this `line`. When it is
/// complete, the request is executed. Returns how much of the input is used.
pub(super) fn take<H: Handler>(
    requests: &mut Requests,
    line: &[u8],
    input: &[u8],
    context: &mut Context<H>,
) -> usize {
    requests.note_overdue(context);
    let Some(value) = &mut requests.value else { return 0 };
    let count = value.missing.min(input.len() as u64) as usize;
    let (piece, rest) = input.split_at(count);
    if count > 0 {
        let taken = match context.handler.take_piece(context.now, &mut requests.conn, piece) {
            Taken::All => count,
            Taken::Later(taken) => taken,
            Taken::Refused => return fail(requests, line, input, context),
        };
        value.missing -= taken as u64;
        if taken > 0 {
            requests.end_park();
        }
        if taken < count {
            if taken == 0 && requests.conn.is_overdue() {
                return fail(requests, line, input, context);
            }
            requests.park(context);
            return taken;
        }
    }
    let Some(value) = &mut requests.value else { return count };
    if value.missing > 0 {
        return count;
    }
    let used = count + value.take_end(rest);
    if value.has_ended() {
        finish(requests, line, context);
    }
    used
}

/// All of the value has arrived, with its end.
fn finish<H: Handler>(requests: &mut Requests, line: &[u8], context: &mut Context<H>) {
    let Some(value) = &requests.value else { return };
    if !value.is_well_formed() {
        let quiet = value.quiet;
        requests.drop_value(context);
        let (refusal, cause) = (Some(&Refusal::BadDataChunk), Cause::Malformed);
        return requests.refuse(refusal, cause, quiet, Outcome::Done, line.len(), context);
    }
    let limits = context.handler.limits(&requests.conn);
    let Some((request, _)) = memcache::announced(line, limits) else {
        // The limits are lower now than they were.
        fail(requests, line, &[], context);
        return;
    };
    let mark = context.out.mark();
    let ticket = requests.next_ticket();
    let (now, conn) = (context.now, &mut requests.conn);
    let outcome = context.handler.finish_value(now, conn, &request, ticket, &mut context.out);
    if outcome != Outcome::Park {
        requests.value = None;
    }
    requests.record_outcome(outcome, line.len(), mark, context);
}

/// The value cannot be stored: it is answered like one that is too large, and the rest of it is
/// discarded. Returns how much of `input` that is.
#[cold]
pub(super) fn fail<H: Handler>(
    requests: &mut Requests,
    line: &[u8],
    input: &[u8],
    context: &mut Context<H>,
) -> usize {
    let Some(value) = &requests.value else { return 0 };
    let left = value.left();
    requests.drop_value(context);
    requests.refuse_value(line, context);
    requests.swallow = left;
    requests.skip(input)
}
