//! The frames after the handshake: `frame` holds what each of them says, and its bytes; `decoder`
//! takes them off received bytes.

mod decoder;
mod error;
mod frame;
mod kind;
mod limits;

pub use decoder::Decoder;
pub use error::FrameError;
pub use frame::{Frame, end_frame, set_reply_version};
pub use kind::{FrameKind, Verdict};
pub use limits::{FRAME_BYTES_MAX, LANES_MAX};
