//! Every flag of memcached 1.6.45, in the order of its own help.
//!
//! A row: the letter and the long name, what follows the flag, what it is for, what it does here.
//! Letters and names are unique, and a row may only name settings that exist: tests check both.
//! What a reason says of the program must be true of this build, because users read it in the log.

use super::row::{Action, Argument, Flag, Special, Stat};

/// The release of memcached that flags, replies and error strings follow.
pub const COMPATIBLE_VERSION: &str = "1.6.45";

use Action::{Note, Pass, Refuse, Run, RunPart, Set};
use Argument::{Decimal, Nothing, Number, Text, Word};

const NO_CLASSES: &str = "memory is cut into segments; each one holds items of all sizes";

macro_rules! flags {
    ($($short:literal $name:literal $argument:expr => $about:literal, $action:expr;)*) => {
        &[$(Flag {
            short: Some($short), name: $name, argument: $argument, about: $about, action: $action,
        }),*]
    };
}

/// Every flag.
pub static FLAGS: &[Flag] = flags! {
    'p' "port" Number(-1, 65535) =>
        "TCP port to listen on (default 11211); 0 turns TCP off, -1 lets the system choose",
        Run(Special::Port);
    'U' "udp-port" Number(-1, 65535) =>
        "UDP port (default 0, off); without -p it names the TCP port too",
        RunPart(Special::UdpPort, "UDP is not spoken; clients must use TCP");
    's' "unix-socket" Text("file") => "Unix socket to listen on; turns TCP off",
        Run(Special::UnixSocket);
    'a' "unix-mask" Text("mask") => "permission bits of the Unix socket, octal (default 700)",
        Pass("server.unix_mode");
    'A' "enable-shutdown" Nothing => "serve the shutdown command",
        Set("protocol.allow_shutdown", "true");
    'l' "listen" Text("addr") =>
        "addresses to listen on (default: every interface), separated by commas, each host, \
         host:port or [v6]:port, after an optional proto[ascii]: and tag[name]:",
        Run(Special::Listen);
    'd' "daemon" Nothing => "run in the background; the command returns once the server listens",
        Set("process.daemon", "true");
    'r' "enable-coredumps" Nothing => "raise the limit on core files",
        Set("process.core_dumps", "true");
    'u' "user" Text("user") => "user to become when started as root", Pass("process.user");
    'm' "memory-limit" Text("num") =>
        "memory in MiB (default 64): the whole budget, index and buffers included",
        Pass("memory.limit");
    'M' "disable-evictions" Nothing => "answer with an error when memory is full",
        Set("memory.evict", "false");
    'c' "conn-limit" Text("num") => "client connections served at once (default 1024)",
        Pass("server.connections_max");
    'k' "lock-memory" Nothing => "lock all memory against swapping", Set("memory.lock", "true");
    'v' "verbose" Nothing => "log what happens at start and stop",
        RunPart(Special::Verbose, "-vv and -vvv log no more than -v; no get or set is logged");
    'h' "help" Nothing => "print this help and exit", Action::Help;
    'i' "license" Nothing => "print the licence and exit", Action::License;
    'V' "version" Nothing => "print the version and exit", Action::Version;
    'P' "pidfile" Text("file") => "file to save the process id in", Pass("process.pid_file");
    'f' "slab-growth-factor" Decimal(1.0, 1e6) => "growth of slab classes",
        Note(NO_CLASSES, Stat::AsWritten("growth_factor"));
    'n' "slab-min-size" Number(1, 1 << 30) => "bytes of the smallest slab class",
        Note(NO_CLASSES, Stat::Given("chunk_size", 1));
    'L' "enable-largepages" Nothing =>
        "use huge pages, and touch three quarters of the memory at start",
        Run(Special::LargePages);
    'D' "" Text("char") => "character that ends a key's prefix; turns stats detail on",
        Note("nothing is counted by key prefix", Stat::AsWritten("stat_key_prefix"));
    't' "threads" Number(1, 1024) => "worker threads (default 4)", Pass("server.workers");
    'R' "max-reqs-per-event" Text("num") =>
        "requests served for one connection before the next (default 1024; 20 in memcached)",
        Pass("server.requests_per_turn");
    'C' "disable-cas" Nothing => "keep no CAS tokens",
        Note("every item has a version, which is its CAS token",
            Stat::Fixed(&[("cas_enabled", "no")]));
    'b' "listen-backlog" Text("num") =>
        "connections the kernel holds until they are accepted (default 1024)",
        Pass("server.backlog");
    'B' "protocol" Word(&["auto", "ascii", "binary"]) =>
        "protocol: ascii, auto or binary; ascii is served in every case",
        RunPart(Special::Protocol,
            "the binary protocol is not spoken; clients must use text or meta commands");
    'I' "max-item-size" Text("num") =>
        "largest item in bytes, or with k or m (default 1m, from 1k to 1024m, at most half of -m)",
        Pass("memory.item_bytes_max");
    'S' "enable-sasl" Nothing => "SASL authentication",
        Refuse("SASL belongs to the binary protocol; use -Y with a file of user:password lines");
    'F' "disable-flush-all" Nothing => "refuse flush_all", Set("protocol.allow_flush_all", "false");
    'X' "disable-dumping" Nothing => "refuse stats cachedump, lru_crawler metadump and mgdump",
        Set("protocol.allow_dump", "false");
    'W' "disable-watch" Nothing => "refuse watch",
        Note("watch is always refused: there is no stream of log lines", Stat::None);
    'Y' "auth-file" Text("file") =>
        "clients must authenticate; the file holds user:password lines, at most 8",
        Run(Special::AuthFile);
    'e' "memory-file" Text("file") => "keep items in a mapped file over a restart",
        Refuse("volvox serve --tier-dir keeps items over a restart, in another form; leave -e out");
    'Z' "enable-ssl" Nothing => "TLS",
        Refuse("TLS is not built in; put a TLS proxy before the server, or leave -Z out");
    'o' "extended" Text("list") => "further options, separated by commas", Run(Special::Extended);
    'N' "napi_ids" Number(1, 1024) => "spread connections over threads by NAPI id",
        Note("each connection goes to the worker with the fewest connections",
            Stat::Given("num_napi_ids", 1));
};

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::config::key_index;
    use crate::memcached::SUBOPTIONS;

    #[test]
    fn rows_are_distinct_and_name_real_settings() {
        let shorts: HashSet<_> = FLAGS.iter().map(|flag| flag.short).collect();
        let longs: HashSet<_> = FLAGS.iter().map(|flag| flag.name).collect();
        let names: HashSet<_> = SUBOPTIONS.iter().map(|row| row.name).collect();
        assert_eq!((shorts.len(), longs.len()), (FLAGS.len(), FLAGS.len()));
        assert_eq!(names.len(), SUBOPTIONS.len());
        for flag in FLAGS.iter().chain(SUBOPTIONS) {
            if let Set(path, _) | Pass(path) = flag.action {
                assert!(key_index(path).is_some(), "{path}");
            }
        }
    }

    #[test]
    fn every_flag_of_memcached_has_a_row() {
        for short in "aAZpsUmMchiVkrvdluPftnDLRCbBISFXWYeoN".chars() {
            assert!(FLAGS.iter().any(|flag| flag.short == Some(short)), "-{short}");
        }
    }
}
