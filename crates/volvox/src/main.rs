//! The `volvox` binary: one command line in, one exit code out.
#![forbid(unsafe_code)]

use std::env;
use std::process::ExitCode;

use volvox::cli;

fn main() -> ExitCode {
    cli::run(env::args_os())
}
