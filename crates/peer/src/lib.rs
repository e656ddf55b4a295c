//! What cells send each other: the handshake of a connection, and the frames after it.
//!
//! ```text
//! connector                          acceptor
//!     | -- Hello (nonce) -------------> |
//!     | <------ Welcome (nonce, proof)- |   proof: the acceptor knows the secret
//!     | -- Proof ---------------------> |   proof: the connector knows the secret
//!     | <------------------- Ready ---- |
//!     | <========= frames ============> |
//! ```
//!
//! A [`Connector`] and an [`Acceptor`] are the two sides of the handshake. A [`Frame`] is one
//! message after it. Nothing here does I/O, reads a clock or draws a random number: bytes come in,
//! bytes go out, and the caller gives the nonce. A frame borrows from the received bytes.
//!
//! The handshake proves that both sides know the secret of the ring; which cell it is, each only
//! says. It does not protect what is sent later: frames are neither encrypted nor authenticated, so
//! a network that can change packets must be closed to strangers.
//!
//! Numbers are little-endian. Every message begins with its length, which counts the bytes after
//! the length itself. The numbers of kinds are in one series, so a message of the handshake is
//! never taken for a frame.
//!
//! | room | may use | what it is |
//! |---|---|---|
//! | `wire` | nothing | fields as bytes |
//! | `identity` | nothing | who speaks, for what purpose, and in which versions |
//! | `secret` | nothing | the secret of the cluster, and what proves that a cell knows it |
//! | `handshake` | `identity`, `secret`, `wire` | both sides of the handshake |
//! | `frames` | `wire` | the frames |
//!
//! ```
//! use peer::{Acceptor, Connector, Decoder, Frame, Identity, Local, Purpose, Secret, Step, Target};
//!
//! let secret = Secret::new(b"sixteen bytes or more").expect("long enough");
//! let cell = |cell| Local::new(Identity { ring: 7, cell, incarnation: 1 });
//! let (mut to_acceptor, mut to_connector) = (Vec::new(), Vec::new());
//!
//! let target = Target { cell: 2, purpose: Purpose::Requests };
//! let mut connector = Connector::new(&secret, cell(1), target, [1; 32], &mut to_acceptor);
//! let mut acceptor = Acceptor::new(&secret, cell(2), [2; 32]);
//! let step = acceptor.receive(&to_acceptor, &mut to_connector).expect("a Hello");
//! to_acceptor.drain(..step.consumed());
//! let step = connector.receive(&to_connector, &mut to_acceptor).expect("a Welcome");
//! to_connector.drain(..step.consumed());
//! let step = acceptor.receive(&to_acceptor, &mut to_connector).expect("a Proof");
//! let Step::Done { session, .. } = step else { panic!("the acceptor has all it needs") };
//! assert_eq!((session.peer.cell, session.purpose), (1, Purpose::Requests));
//! let step = connector.receive(&to_connector, &mut to_acceptor).expect("Ready");
//! assert!(matches!(step, Step::Done { session, .. } if session.peer.cell == 2));
//!
//! let mut bytes = Vec::new();
//! Frame::Memory { free: 1 << 20 }.encode(&mut bytes);
//! let decoded = Decoder::new(64 << 10).decode(&bytes).expect("no error").expect("a whole frame");
//! assert_eq!(decoded, (Frame::Memory { free: 1 << 20 }, bytes.len()));
//! ```
#![forbid(unsafe_code)]

mod frames;
mod handshake;
mod identity;
mod secret;
mod wire;

pub use frames::{
    Decoder, FRAME_BYTES_MAX, Frame, FrameError, FrameKind, LANES_MAX, Verdict, end_frame,
    set_reply_version,
};
pub use handshake::{
    Acceptor, Connector, HANDSHAKE_BYTES_MAX, HandshakeError, Refusal, Session, Step,
    TEXT_BYTES_MAX,
};
pub use identity::{
    COPIES_READ, Identity, KEEPS_ORDER, Local, NONCE_BYTES, Nonce, Purpose, SAYS_MEMORY,
    SAYS_SERVES, SAYS_SHOWN, Target, Versions,
};
pub use secret::{SECRET_BYTES_MIN, Secret};
