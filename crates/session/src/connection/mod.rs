//! One connection: its input, the requests in it, and the order of its replies.
//!
//! ```text
//! session.rs    bytes in: parses in place, keeps what is incomplete in a tail
//! requests.rs   the loop over requests: each is executed, and its outcome is applied
//! gated.rs      replies to plain requests that wait for a gate
//! tail.rs       input that is kept;  flow.rs  what the driver does next
//! ```

mod flow;
mod gated;
mod requests;
mod session;
mod tail;

pub use flow::Flow;
pub use session::Session;
