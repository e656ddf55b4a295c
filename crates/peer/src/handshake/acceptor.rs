//! The side that was connected to.

use super::message::{self, Kind, Message, Offer};
use super::refusal::HandshakeError;
use super::step::{Session, Step};
use crate::identity::{Local, Nonce, Purpose};
use crate::secret::{Secret, Side};
use std::mem;

/// The side that was connected to.
///
/// Once it has failed or is done, every further call fails.
#[derive(Debug)]
pub struct Acceptor {
    secret: Secret,
    local: Local,
    nonce: Nonce,
    /// All messages so far, of both sides.
    transcript: Vec<u8>,
    state: State,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// Nothing was sent or received.
    Silent,
    /// `Welcome` was sent; what is agreed if the proof is right.
    Welcome(Session),
    /// Done, or failed.
    Ended,
}

impl Acceptor {
    /// Waits for a `Hello`. The nonce must be random, and used for nothing else.
    #[must_use]
    pub fn new(secret: &Secret, local: Local, nonce: Nonce) -> Self {
        let (secret, transcript) = (secret.clone(), Vec::new());
        Self { secret, local, nonce, transcript, state: State::Silent }
    }

    /// Takes received bytes, and appends what is to be sent to `out`.
    ///
    /// # Errors
    /// When the handshake has failed. What `out` holds is to be sent, then the connection closes.
    pub fn receive(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<Step, HandshakeError> {
        message::with_refusal(self.take(input, out), out)
    }

    fn take(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<Step, HandshakeError> {
        // An error leaves it ended.
        let (mut consumed, session) = match mem::replace(&mut self.state, State::Ended) {
            State::Silent => match Message::take(input, Kind::Hello)? {
                Some(hello) => (hello.whole.len(), self.greeted(&hello, out)?),
                None => {
                    self.state = State::Silent;
                    return Ok(Step::NeedMore { consumed: 0 });
                }
            },
            State::Welcome(session) => (0, session),
            State::Ended => return Err(HandshakeError::Ended),
        };
        let Some(proof) = Message::take(&input[consumed..], Kind::Proof)? else {
            self.state = State::Welcome(session);
            return Ok(Step::NeedMore { consumed });
        };
        if !self.secret.verifies(Side::Connect, &self.transcript, &proof.proof()?) {
            return Err(HandshakeError::WrongSecret { peer: session.peer });
        }
        message::write_ready(out);
        consumed += proof.whole.len();
        Ok(Step::Done { consumed, session })
    }

    /// Checks a `Hello` and appends the `Welcome`. Nothing is proven yet: all that this tells a
    /// stranger is who this cell is.
    fn greeted(
        &mut self,
        hello: &Message<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Session, HandshakeError> {
        let (offer, version, target) = hello.hello(self.local.versions)?;
        let (own, peer) = (self.local.identity, offer.local.identity);
        if offer.nonce == self.nonce {
            return Err(HandshakeError::SameNonce);
        }
        if peer.ring != 0 && peer.ring != own.ring {
            return Err(HandshakeError::WrongRing { own: own.ring, peer: peer.ring });
        }
        if peer.ring == 0 && target.purpose != Purpose::Control {
            return Err(HandshakeError::NotMember(target.purpose));
        }
        if own.is_same_cell(&peer) {
            return Err(HandshakeError::SameCell(own));
        }
        if target.cell != 0 && target.cell != own.cell {
            return Err(HandshakeError::WrongCell { wanted: target.cell, reached: own.cell });
        }
        self.transcript.extend_from_slice(hello.whole);
        let start = out.len();
        Offer { local: self.local, nonce: self.nonce }.write_welcome(version, out);
        self.transcript.extend_from_slice(&out[start..]);
        let proof = self.secret.prove(Side::Accept, &self.transcript);
        out.extend_from_slice(&proof);
        self.transcript.extend_from_slice(&proof);
        let features = self.local.features & offer.local.features;
        Ok(Session { peer, purpose: target.purpose, version, features })
    }
}
