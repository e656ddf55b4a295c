//! One connection: its input, the requests in it, and the order of its replies.
//!
//! ```text
//! session.rs    bytes in: parses in place, keeps what is incomplete in a tail
//! requests.rs   each request is executed, and its outcome is applied
//! turn.rs       the loop over requests
//! pieces.rs     a long value, which is handed over in pieces;  value.rs  what is known of it
//! tail.rs       input that is kept;  flow.rs  what the driver does next
//! ```

mod flow;
mod pieces;
mod requests;
mod session;
mod tail;
mod turn;
mod value;

pub use flow::Flow;
pub use session::Session;
