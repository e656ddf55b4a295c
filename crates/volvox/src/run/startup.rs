//! What a cell reports about itself when it begins to listen, line by line, and the warning if its
//! memory does not fit the machine. Pure functions of the settings: they read and write nothing.
//!
//! ```text
//! listening on 127.0.0.1:11211
//! memory       64MiB (default); evicts when full
//! driver       epoll (auto: runs on every Linux); 2 workers (one per core)
//! off          authentication, TLS, UDP, binary protocol, persistence, shutdown command
//! ```

use std::net::SocketAddr;

use super::driver::Chosen;
use crate::config::{Driver, Loaded, show_size};
use tier::{Ack, Policy, PrefixRule};

/// Features of memcached that this build does not have.
const NOT_BUILT_IN: [&str; 3] = ["TLS", "UDP", "binary protocol"];

/// The lines of a cell that listens at `addresses`, and at its Unix socket if it has one.
#[must_use]
pub fn lines(
    loaded: &Loaded,
    addresses: &[SocketAddr],
    chosen: &Chosen,
    workers: usize,
) -> Vec<String> {
    let (server, memory) = (&loaded.settings.server, &loaded.settings.memory);
    let tcp = addresses.iter().map(SocketAddr::to_string);
    let unix = server.unix_socket.iter().map(|path| path.display().to_string());
    let mut lines: Vec<_> = tcp.chain(unix).map(|at| format!("listening on {at}")).collect();
    let limit = show_size(memory.limit);
    let full = if memory.evict { "evicts" } else { "refuses to store" };
    lines.push(format!(
        "memory       {limit} ({}); {full} when full",
        loaded.origin("memory.limit")
    ));
    let threads = match (server.driver, server.workers) {
        (Driver::Fixed(drivers::Driver::Threads), _) => "a thread for each client".to_owned(),
        (_, 0) => format!("{workers} workers (one per core)"),
        _ => format!("{workers} workers ({})", loaded.origin("server.workers")),
    };
    lines.push(format!("driver       {} ({}); {threads}", chosen.name(), chosen.reason));
    if let Some(directory) = &loaded.settings.tier.directory {
        let promise = promise_of(loaded.settings.tier.ack);
        let origin = loaded.origin("tier.ack");
        let (directory, database) = (directory.display(), &loaded.settings.tier.database);
        lines.push(format!("tier         {directory}; what is answered is {promise} ({origin})"));
        if database.has_pages() {
            lines.push(format!("             written back to {database}"));
        }
        for PrefixRule { prefix, policy } in &loaded.settings.tier.prefixes {
            let around = if *policy == Policy::Around { ", and not in memory" } else { "" };
            let promise = policy.ack().map_or(UNKEPT, promise_of);
            lines.push(format!("             with the prefix \"{prefix}\": {promise}{around}"));
        }
        let tier = &loaded.settings.tier;
        let acks = tier.prefixes.iter().filter_map(|it| it.policy.ack());
        let most = acks.fold(tier.ack, Ack::max);
        if loaded.settings.ring.directory.is_some() && !tier.prefixes.is_empty() {
            let waits = "in a ring all answers wait like those that are";
            lines.push(format!("             {waits} {}", promise_of(most)));
        }
    }
    lines.push(format!("off          {}", off(loaded).join(", ")));
    lines
}

/// Where keys are that the tier does not keep.
const UNKEPT: &str = "in memory alone";

/// What an answer says of what is stored.
fn promise_of(ack: Ack) -> &'static str {
    match ack {
        Ack::Memory => "in memory, and soon in the journal",
        Ack::Os => "safe from the end of the process",
        Ack::Disk => "safe from a power cut",
        Ack::Backend => "in the database, and safe from a power cut",
    }
}

/// What users of memcached may expect and do not find here.
fn off(loaded: &Loaded) -> Vec<&'static str> {
    let (server, protocol) = (&loaded.settings.server, &loaded.settings.protocol);
    let missing = |present: bool, name| (!present).then_some(name);
    missing(!server.listen.is_empty(), "TCP")
        .into_iter()
        .chain(missing(server.auth_file.is_some(), "authentication"))
        .chain(NOT_BUILT_IN)
        .chain(missing(loaded.settings.tier.directory.is_some(), "persistence"))
        .chain(missing(protocol.allow_flush_all, "flush_all"))
        .chain(missing(protocol.allow_dump, "dumps of keys"))
        .chain(missing(protocol.allow_shutdown, "shutdown command"))
        .collect()
}

/// The warning if a machine of `machine_bytes` cannot hold the memory limit.
#[must_use]
pub fn memory_warning(loaded: &Loaded, machine_bytes: u64) -> Option<String> {
    let limit = loaded.settings.memory.limit;
    (limit > machine_bytes).then(|| {
        format!(
            "memory.limit {} ({}): this machine has {}MiB; lower it, or the system ends the cell \
             when the memory is used up",
            show_size(limit),
            loaded.origin("memory.limit"),
            machine_bytes >> 20
        )
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::{Assignment, Origin, Value, file, load};

    const LOOPBACK: SocketAddr =
        SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 11211);

    fn report(loaded: &Loaded, addresses: &[SocketAddr], workers: usize) -> String {
        let server = &loaded.settings.server;
        let chosen = Chosen::new(server.driver, loaded.origin("server.driver"));
        lines(loaded, addresses, &chosen, workers).join("\n")
    }

    #[test]
    fn defaults_are_reported_as_defaults() {
        let loaded = load(&[]).expect("defaults hold together");
        assert_eq!(
            report(&loaded, &[LOOPBACK], 2),
            "listening on 127.0.0.1:11211\n\
             memory       64MiB (default); evicts when full\n\
             driver       epoll (auto: runs on every Linux); 2 workers (one per core)\n\
             off          authentication, TLS, UDP, binary protocol, persistence, shutdown command"
        );
    }

    #[test]
    fn each_layer_is_named() {
        let text = "[server]\nunix_socket = \"a.sock\"\nworkers = 3\n[memory]\nevict = false\n\
                    [protocol]\nallow_flush_all = false\nallow_dump = false\n";
        let mut layers = file::parse(Path::new("v.toml"), text).expect("TOML");
        let mut add = |path, word: &str, origin| {
            layers.push(Assignment::of(path, Value::Word(word.to_owned()), origin));
        };
        add("memory.limit", "1g", Origin::Environment("VOLVOX_MEMORY_LIMIT".to_owned()));
        add("server.driver", "signal", Origin::Flag("--driver".to_owned()));
        add("server.listen", "", Origin::Flag("--listen".to_owned()));
        add("server.auth_file", "users", Origin::Flag("--auth-file".to_owned()));
        assert_eq!(
            report(&load(&layers).expect("in range"), &[], 3),
            "listening on a.sock\n\
             memory       1GiB (environment VOLVOX_MEMORY_LIMIT); refuses to store when full\n\
             driver       signal (flag --driver); 3 workers (v.toml:3)\n\
             off          TCP, TLS, UDP, binary protocol, persistence, flush_all, dumps of keys, \
             shutdown command"
        );
    }

    #[test]
    fn workers_of_threads_are_the_clients() {
        let driver = Value::Word("threads".to_owned());
        let flag = Origin::Flag("--driver".to_owned());
        let layers = [Assignment::of("server.driver", driver, flag)];
        let report = report(&load(&layers).expect("in range"), &[LOOPBACK], 2);
        assert!(
            report.contains("\ndriver       threads (flag --driver); a thread for each client\n")
        );
    }

    #[test]
    fn memory_beyond_the_machine_is_a_warning() {
        let loaded = load(&[]).expect("defaults hold together");
        assert_eq!(memory_warning(&loaded, 64 << 20), None);
        let warning = memory_warning(&loaded, 63 << 20).expect("a MiB too much");
        assert!(warning.starts_with("memory.limit 64MiB (default): this machine has 63MiB; lower"));
    }
}
