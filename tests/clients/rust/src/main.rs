//! The `memcache` crate (classic text protocol) against HOST:PORT, value by value and byte for
//! byte. It stops at the first difference; if there is none, its last line is `N checks passed`.
//! It empties the server.
//!
//! Left out: `stats`, whose reader in this version stops after the first line and leaves the rest
//! on the connection; noreply and get-and-touch, which the crate does not offer.

#![forbid(unsafe_code)]

mod suite;

use memcache::Client;
use std::process::ExitCode;
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(10);

fn main() -> ExitCode {
    match run() {
        Ok(checks) => {
            println!("{checks} checks passed");
            ExitCode::SUCCESS
        }
        Err(difference) => {
            eprintln!("{difference}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<u64, String> {
    let mut args = std::env::args().skip(1);
    let (Some(address), None) = (args.next(), args.next()) else {
        return Err("usage: clients HOST:PORT".to_string());
    };
    suite::run(&connect(&address)?, &connect(&address)?)
}

fn connect(address: &str) -> Result<Client, String> {
    Client::builder()
        .with_connection_timeout(TIMEOUT)
        .with_read_timeout(TIMEOUT)
        .with_write_timeout(TIMEOUT)
        .add_server(format!("memcache://{address}?protocol=ascii"))
        .and_then(memcache::ClientBuilder::build)
        .map_err(|e| format!("{address}: {e}"))
}
