//! A connection to another cell, without its socket.
//!
//! ```text
//! Connecting --handshake--> Asking          requests go out, replies come in
//!                       +-> StreamOut       entries go out, acknowledgements come in
//! Accepting  --handshake--> Answering       requests come in, replies go out
//!                       +-> StreamIn        entries come in, acknowledgements go out
//! ```
//!
//! What comes in is taken at once, and never waits for what goes out; but requests of another cell
//! are taken no faster than it takes the replies. It always does, so two cells never wait for each
//! other. What is wrong ends the link.

use super::refusals::Refusals;
use super::stream_in::StreamIn;
use super::waiting::{Waiting, WaitingReplies};
use crate::ring::cell::AHEAD;
use base::{Now, SliceId};
use peer::{Acceptor, Connector, Decoder, Frame, KEEPS_ORDER, Purpose, Session as Agreed};
use ring::CellId;
use session::{
    ConnId, Connection, Context, Flow, Handler, Passed, Reply, Resources, Span, Ticket, Waited,
};
use std::fmt::Display;

/// What a handler does for its links.
pub(crate) trait LinkHandler: Handler {
    /// The handshake of `link` is over. False if it is not wanted.
    fn opened(&mut self, link: &Link, now: Now, out: &mut Vec<u8>) -> bool;

    /// Appends what is to be sent on `link`. False if the link is of no use any more.
    fn sends(&mut self, link: &mut Link, now: Now, out: &mut Vec<u8>) -> bool;

    /// Takes a frame from `link`. False if it is to be given again later.
    fn take_frame(&mut self, link: &mut Link, frame: &Frame<'_>, now: Now, out: &mut Reply)
    -> bool;

    /// Lets the processor fetch what `frames` are about.
    fn look_ahead<'a>(&self, frames: impl Iterator<Item = Frame<'a>>);

    /// Appends the reply to request `id` of another cell, which was sent so often before: it is in
    /// doubt.
    fn reply_in_doubt(&self, id: (u64, u16), out: &mut Vec<u8>);

    /// Has `frame`, a reply that may leave now, name the map of now.
    fn stamp(&self, frame: &mut [u8]);

    /// Something is wrong with the link to `cell`.
    fn notes(&self, cell: CellId, what: &dyn Display);
}

/// Bytes of replies, in one turn or waiting for logs, after which no more requests are taken: more
/// than those to short requests that arrive at once.
const REPLIES_BYTES_MAX: usize = 512 << 10;

/// Bytes of memory that are kept for the beginning of a frame.
const INPUT_KEEP_BYTES: usize = 4 << 10;

/// What a link is for.
pub(crate) enum Kind {
    Connecting(Box<Connector>, Purpose),
    Accepting(Box<Acceptor>),
    Asking,
    Answering,
    StreamOut,
    /// `None` before it is opened.
    StreamIn(Option<StreamIn>),
    Over,
}

/// A connection to another cell.
pub struct Link {
    id: ConnId,
    pub(crate) kind: Kind,
    /// The other cell, once it has proven who it is; before that, the one that was called.
    pub(crate) cell: CellId,
    /// Which life of it.
    pub(crate) incarnation: u64,
    /// The features of both cells, as [`peer::Session::features`].
    pub(crate) features: u64,
    /// For a stream to a copy: the lane.
    pub(crate) lane: u8,
    decoder: Decoder,
    /// The beginning of a frame.
    input: Vec<u8>,
    /// What is to be sent first.
    first: Vec<u8>,
    waiting: WaitingReplies,
    /// What was refused of what the other cell has asked.
    pub(crate) refusals: Refusals,
    /// Why no request is taken: [`Flow::Full`] or [`Flow::Waiting`]; [`Flow::Again`] when that is
    /// over, [`Flow::Idle`] if there is no reason.
    stopped: Flow,
}

impl Link {
    pub(crate) fn accepting(id: ConnId, acceptor: Acceptor, decoder: Decoder) -> Self {
        Self::new(id, Kind::Accepting(Box::new(acceptor)), (CellId(0), 0), decoder, Vec::new())
    }

    /// A link that begins with `hello`.
    pub(crate) fn connecting(
        id: ConnId,
        (connector, purpose): (Connector, Purpose),
        to: (CellId, u8),
        decoder: Decoder,
        hello: Vec<u8>,
    ) -> Self {
        Self::new(id, Kind::Connecting(Box::new(connector), purpose), to, decoder, hello)
    }

    fn new(
        id: ConnId,
        kind: Kind,
        (cell, lane): (CellId, u8),
        decoder: Decoder,
        first: Vec<u8>,
    ) -> Self {
        let (input, waiting, stopped) = (Vec::new(), WaitingReplies::default(), Flow::Idle);
        let (incarnation, features) = (0, 0);
        Self {
            id,
            kind,
            cell,
            incarnation,
            features,
            lane,
            decoder,
            input,
            first,
            waiting,
            refusals: Refusals::default(),
            stopped,
        }
    }

    pub(crate) fn id(&self) -> ConnId {
        self.id
    }

    /// What it needs next.
    pub(crate) fn flow(&self) -> Flow {
        if matches!(self.kind, Kind::Over) { Flow::Close } else { self.stopped }
    }

    /// Whether input can be taken where it was received.
    pub(crate) fn can_parse_in_place(&self) -> bool {
        self.input.is_empty() && self.flow() == Flow::Idle
    }

    /// Ends it.
    pub(crate) fn end(&mut self) {
        self.kind = Kind::Over;
        self.waiting.clear();
    }

    /// One of its requests is refused, and is to be asked again: also what follows about its
    /// `slice`, if there is one, where the other cell takes that back.
    pub(crate) fn refuses(&mut self, slice: Option<SliceId>) {
        match slice.filter(|_| self.features & KEEPS_ORDER != 0) {
            Some(slice) => self.refusals.add_about(slice),
            None => self.refusals.add(),
        }
    }

    /// Keeps the reply `frame` until its log has passed.
    pub(crate) fn wait(&mut self, waiting: Waiting, frame: &[u8]) {
        self.waiting.push(waiting, frame);
    }

    /// Whether replies wait for several logs. Its driver looks at one of them.
    pub(crate) fn waits_in_several(&self) -> bool {
        self.waiting.is_in_several()
    }

    /// Takes `input`, which follows what is kept of earlier input.
    fn take<H: LinkHandler>(&mut self, mut input: &[u8], context: &mut Context<H>) {
        while !self.input.is_empty() && !input.is_empty() && self.stopped == Flow::Idle {
            // A frame that has begun is completed, so that the others are taken where they are.
            let (front, rest) = input.split_at(self.lacks().min(input.len()));
            self.input.extend_from_slice(front);
            input = rest;
            let mut kept = std::mem::take(&mut self.input);
            let used = self.take_frames(&kept, context);
            kept.drain(..used);
            self.input = kept;
            if used == 0 && front.is_empty() {
                break;
            }
        }
        if self.input.is_empty() && self.stopped == Flow::Idle {
            input = &input[self.take_frames(input, context)..];
        }
        self.input.extend_from_slice(input);
        if self.input.is_empty() && self.input.capacity() > INPUT_KEEP_BYTES {
            self.input = Vec::new();
        }
    }

    /// How many bytes the frame lacks that the kept input begins with; all, in a handshake.
    fn lacks(&self) -> usize {
        if matches!(self.kind, Kind::Connecting(..) | Kind::Accepting(_)) {
            return usize::MAX;
        }
        self.decoder.missing_bytes(&self.input)
    }

    /// Takes whole frames off the front of `input`. Returns how many bytes were used.
    fn take_frames<H: LinkHandler>(&mut self, input: &[u8], context: &mut Context<H>) -> usize {
        let (mut used, mut looked) = (0, 0);
        let before = context.out.len();
        while used < input.len() {
            if self.is_stopped(context.out.len() - before) {
                break;
            }
            if used >= looked && matches!(self.kind, Kind::Answering) {
                looked = used + self.look_ahead(&input[used..], &context.handler);
            }
            match &mut self.kind {
                Kind::Connecting(..) | Kind::Accepting(_) => {
                    match self.shake(&input[used..], context) {
                        0 => break,
                        step => used += step,
                    }
                }
                Kind::Over => return input.len(),
                _ => match self.decoder.decode(&input[used..]) {
                    Ok(Some((frame, bytes))) => {
                        if !self.take_frame(&frame, context) {
                            break;
                        }
                        used += bytes;
                    }
                    Ok(None) => break,
                    Err(error) => {
                        context.handler.notes(self.cell, &error);
                        self.end();
                    }
                },
            }
        }
        used
    }

    /// Whether no more requests are taken. `composed`: bytes of replies in this turn.
    fn is_stopped(&mut self, composed: usize) -> bool {
        if matches!(self.kind, Kind::Answering) {
            self.stopped = match () {
                () if composed >= REPLIES_BYTES_MAX => Flow::Full,
                () if self.waiting.bytes() >= REPLIES_BYTES_MAX => Flow::Waiting,
                () => Flow::Idle,
            };
        }
        self.stopped != Flow::Idle
    }

    /// Looks at the first frames of `input`. Returns how many bytes they have.
    fn look_ahead<H: LinkHandler>(&self, input: &[u8], handler: &H) -> usize {
        let mut looked = 0;
        let frames = (0..AHEAD).map_while(|_| {
            let (frame, bytes) = self.decoder.decode(&input[looked..]).ok().flatten()?;
            looked += bytes;
            Some(frame)
        });
        handler.look_ahead(frames);
        looked
    }

    /// Continues with the handshake. Returns how many bytes were used.
    fn shake<H: LinkHandler>(&mut self, input: &[u8], context: &mut Context<H>) -> usize {
        let out = context.out.bytes_mut();
        let (step, purpose) = match &mut self.kind {
            Kind::Connecting(connector, purpose) => (connector.receive(input, out), Some(*purpose)),
            Kind::Accepting(acceptor) => (acceptor.receive(input, out), None),
            _ => return 0,
        };
        match step {
            Err(error) => {
                context.handler.notes(self.cell, &error);
                self.end();
                input.len()
            }
            Ok(peer::Step::NeedMore { consumed }) => consumed,
            Ok(peer::Step::Done { consumed, session }) => {
                self.agreed(&session, purpose.is_some(), context);
                consumed
            }
        }
    }

    fn agreed<H: LinkHandler>(
        &mut self,
        agreed: &Agreed,
        has_called: bool,
        context: &mut Context<H>,
    ) {
        (self.cell, self.incarnation) = (CellId(agreed.peer.cell), agreed.peer.incarnation);
        self.features = agreed.features;
        self.kind = match (agreed.purpose, has_called) {
            (Purpose::Requests, true) => Kind::Asking,
            (Purpose::Requests, false) => Kind::Answering,
            (Purpose::Stream, true) => Kind::StreamOut,
            (Purpose::Stream, false) => Kind::StreamIn(None),
            (Purpose::Control, _) => Kind::Over,
        };
        let Context { handler, out, now, .. } = context;
        if !handler.opened(self, *now, out.bytes_mut()) {
            self.end();
        }
    }

    /// Takes a frame. False if it is to be given again later.
    fn take_frame<H: LinkHandler>(&mut self, frame: &Frame<'_>, context: &mut Context<H>) -> bool {
        let Context { handler, out, now, .. } = context;
        handler.take_frame(self, frame, *now, out)
    }

    /// Appends the replies whose logs have passed, and those that have waited for too long.
    fn release_replies<H: LinkHandler>(&mut self, handler: &H, now_ns: u64, out: &mut Reply) {
        let ends = |waiting: &Waiting| match handler.gate(waiting.log, waiting.seq) {
            Passed::No if waiting.due_ns > now_ns => None,
            passed => Some(passed == Passed::Yes),
        };
        let out = out.bytes_mut();
        self.waiting.release(ends, |id, frame| match frame {
            Some(frame) => {
                let start = out.len();
                out.extend_from_slice(frame);
                handler.stamp(&mut out[start..]);
            }
            None => handler.reply_in_doubt(id, out),
        });
        if self.stopped == Flow::Waiting && self.waiting.bytes() < REPLIES_BYTES_MAX {
            self.stopped = Flow::Again;
        }
    }
}

impl<H: LinkHandler> Connection<H> for Link {
    fn id(&self) -> ConnId {
        self.id
    }

    fn is_client(&self) -> bool {
        false
    }

    fn flow(&self) -> Flow {
        self.flow()
    }

    fn is_pending(&self) -> bool {
        !self.waiting.is_empty()
    }

    fn waits_for(&self) -> Option<Waited> {
        let front = self.waiting.front()?;
        Some(Waited::Gate { log: front.log, seq: front.seq })
    }

    fn due_ns(&self) -> Option<u64> {
        self.waiting.front().map(|front| front.due_ns)
    }

    fn has_ticket(&self) -> bool {
        false
    }

    fn awaits_rest(&self) -> bool {
        false
    }

    fn is_at_rest(&self) -> bool {
        true
    }

    fn can_parse_in_place(&self) -> bool {
        self.can_parse_in_place()
    }

    fn receive_in_place(&mut self, input: &[u8], context: &mut Context<H>) {
        self.take(input, context);
    }

    fn receive(&mut self, input: &[u8], context: &mut Context<H>) -> Flow {
        self.take(input, context);
        self.flow()
    }

    fn resume(&mut self, context: &mut Context<H>) -> Flow {
        context.out.bytes_mut().append(&mut self.first);
        self.stopped = Flow::Idle;
        let mut kept = std::mem::take(&mut self.input);
        let used = self.take_frames(&kept, context);
        kept.drain(..used);
        self.input = kept;
        if !matches!(self.kind, Kind::Over) {
            let Context { handler, out, now, .. } = context;
            self.release_replies(handler, now.mono_ns, out);
            if !handler.sends(self, *now, out.bytes_mut()) {
                self.end();
            }
        }
        self.flow()
    }

    fn value_buffer(&mut self, _resources: &Resources) -> Option<&mut Vec<u8>> {
        None
    }

    fn complete(
        &mut self,
        _ticket: Ticket,
        _part: (&[u8], bool),
        _context: &mut Context<H>,
    ) -> bool {
        false
    }

    fn withhold(&mut self, span: Span, _context: &mut Context<H>) -> Span {
        span
    }

    fn release(&mut self, context: &mut Context<H>) -> Flow {
        let Context { handler, out, now, .. } = context;
        self.release_replies(handler, now.mono_ns, out);
        self.flow()
    }
}

#[cfg(test)]
#[path = "link_test.rs"]
mod tests;
