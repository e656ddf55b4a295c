//! The measurements: servers and the generator as processes and threads of this machine.
//!
//! Only this room runs something. Servers listen on free ports of the loopback and are ended by
//! their process id; none outlives the lab.

mod count;
mod failure;
mod lab;
mod pin;
mod probe;
mod progress;
mod runner;
mod server;

pub(crate) use count::find;
pub(crate) use lab::{measure_all, version_of};
pub(crate) use pin::Cores;
pub(crate) use runner::Runner;
pub(crate) use server::Programs;
