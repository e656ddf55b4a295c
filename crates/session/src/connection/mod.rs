//! One connection: its input, the requests in it, and the order of its replies.
//!
//! ```text
//! session.rs    bytes in: parses in place, keeps what is incomplete in a tail
//! requests.rs   each request is executed, and its outcome is applied
//! turn.rs       the loop over requests
//! tail.rs       input that is kept;  flow.rs  what the driver does next
//! ```

mod flow;
mod requests;
mod session;
mod tail;
mod turn;

pub use flow::Flow;
pub use session::Session;
