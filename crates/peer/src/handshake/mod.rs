//! The handshake: both sides prove that they know the secret of the cluster, each by a challenge
//! of the other that was never used before.
//!
//! `message` holds the messages as bytes, `connector` and `acceptor` the two sides, `refusal` what
//! ends a handshake, `step` what its calls return.
//!
//! ```text
//! connector: Hello sent --Welcome--> Proof sent --Ready--> done
//! acceptor:  silent     --Hello----> Welcome sent --Proof--> done, Ready sent
//! ```
//!
//! Why it holds:
//!
//! - a proof covers every message before it, byte for byte, and both nonces are among them. So a
//!   proof of another handshake is wrong here, and nothing that was agreed can be changed;
//! - each side proves under a label of its own, and refuses a partner that is the same cell. So a
//!   cell cannot be made to talk to itself;
//! - a side sends nothing but its part of the handshake before the other has proven itself.
//!
//! Nothing proves where a refusal comes from: it ends one connection and has no other effect.

mod acceptor;
mod connector;
mod limits;
mod message;
mod refusal;
mod step;

pub use acceptor::Acceptor;
pub use connector::Connector;
pub use limits::{HANDSHAKE_BYTES_MAX, TEXT_BYTES_MAX};
pub use refusal::{HandshakeError, Refusal};
pub use step::{Session, Step};
