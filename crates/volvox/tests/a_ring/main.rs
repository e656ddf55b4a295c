//! A ring of real processes, as `volvox up` starts it, with real sockets.

mod commands;
mod full;
mod kills;
mod levels;
mod questions;
mod support;
mod time;
