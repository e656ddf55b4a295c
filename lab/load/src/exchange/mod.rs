//! One connection without its socket: requests composed, replies checked against them.

mod conversation;
mod outstanding;
mod rules;

pub(crate) use conversation::{Breach, Exchange, Step};
pub(crate) use rules::Rules;
