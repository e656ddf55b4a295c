//! A ring of real processes, as `volvox up` starts it, with real sockets.

mod above_a_bucket;
mod cells;
mod commands;
mod copies;
mod drivers;
mod full;
mod joining;
mod kills;
mod levels;
mod long_replies;
mod moves;
mod one_bucket;
mod questions;
mod recovery;
mod removing;
mod slow_disk;
mod support;
mod time;
mod witness;
