//! The measurements: servers and the generator as processes and threads of this machine.
//!
//! Only this room runs something. Servers listen on free ports of the loopback and are ended by
//! their process id; none outlives the lab.

mod disturbed;
mod lab;
mod pace;
mod probe;
mod programs;
mod runner;

pub(crate) use lab::measure_all;
pub(crate) use programs::Programs;
pub(crate) use runner::Runner;
