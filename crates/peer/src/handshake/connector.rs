//! The side that opens the connection.

use super::message::{self, Kind, Message, Offer};
use super::refusal::HandshakeError;
use super::step::{Session, Step};
use crate::identity::{Identity, Local, Nonce, Target};
use crate::secret::{Secret, Side};
use std::mem;

/// The side that opens the connection.
///
/// Once it has failed or is done, every further call fails.
#[derive(Debug)]
pub struct Connector {
    secret: Secret,
    local: Local,
    target: Target,
    nonce: Nonce,
    /// All messages so far, of both sides.
    transcript: Vec<u8>,
    state: State,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// `Hello` was sent.
    Hello,
    /// `Proof` was sent; what was agreed.
    Proof(Session),
    /// Done, or failed.
    Ended,
}

impl Connector {
    /// Begins a handshake: appends `Hello` to `out`. The nonce must be random, and used for nothing
    /// else.
    #[must_use]
    pub fn new(
        secret: &Secret,
        local: Local,
        target: Target,
        nonce: Nonce,
        out: &mut Vec<u8>,
    ) -> Self {
        let start = out.len();
        Offer { local, nonce }.write_hello(target, out);
        let transcript = out[start..].to_vec();
        Self { secret: secret.clone(), local, target, nonce, transcript, state: State::Hello }
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
            State::Hello => match Message::take(input, Kind::Welcome)? {
                Some(welcome) => (welcome.whole.len(), self.welcomed(&welcome, out)?),
                None => {
                    self.state = State::Hello;
                    return Ok(Step::NeedMore { consumed: 0 });
                }
            },
            State::Proof(session) => (0, session),
            State::Ended => return Err(HandshakeError::Ended),
        };
        let Some(ready) = Message::take(&input[consumed..], Kind::Ready)? else {
            self.state = State::Proof(session);
            return Ok(Step::NeedMore { consumed });
        };
        ready.ready()?;
        consumed += ready.whole.len();
        Ok(Step::Done { consumed, session })
    }

    /// Checks a `Welcome` and appends the `Proof`. What the other side says of itself counts only
    /// when its proof is right.
    fn welcomed(
        &mut self,
        welcome: &Message<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Session, HandshakeError> {
        let (offer, version, proof) = welcome.welcome(self.local.versions)?;
        let peer = offer.local.identity;
        self.transcript.extend_from_slice(welcome.before_proof());
        if !self.secret.verifies(Side::Accept, &self.transcript, &proof) {
            return Err(HandshakeError::WrongSecret { peer });
        }
        if offer.nonce == self.nonce {
            return Err(HandshakeError::SameNonce);
        }
        self.check_peer(&peer)?;
        self.transcript.extend_from_slice(&proof);
        message::write_proof(&self.secret.prove(Side::Connect, &self.transcript), out);
        let features = self.local.features & offer.local.features;
        Ok(Session { peer, purpose: self.target.purpose, version, features })
    }

    fn check_peer(&self, peer: &Identity) -> Result<(), HandshakeError> {
        let own = self.local.identity;
        if own.ring != 0 && own.ring != peer.ring {
            return Err(HandshakeError::WrongRing { own: own.ring, peer: peer.ring });
        }
        if own.is_same_cell(peer) {
            return Err(HandshakeError::SameCell(own));
        }
        let wanted = self.target.cell;
        if wanted != 0 && wanted != peer.cell {
            return Err(HandshakeError::WrongCell { wanted, reached: peer.cell });
        }
        Ok(())
    }
}
