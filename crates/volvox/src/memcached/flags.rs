//! Every flag of memcached 1.6.45, in the order of its own help.

use super::draft::Draft;
use super::row::{Act, Argument, Flag, Stat};

const fn flag(
    short: char,
    long: &'static str,
    argument: Argument,
    about: &'static str,
    act: Act,
) -> Flag {
    Flag { short, long, argument, about, act }
}

use Act::{Note, Put, Refuse, Run, RunPart, Take};
use Argument::{Decimal, Nothing, Number, Text, Word};

const NO_CLASSES: &str = "memory is cut in segments that items of all sizes share";

/// Every flag.
pub static FLAGS: &[Flag] = &[
    flag(
        'p',
        "port",
        Number(-1, 65535),
        "TCP port to listen on (default 11211); 0 turns TCP off, -1 lets the system choose",
        Run(Draft::port),
    ),
    flag(
        'U',
        "udp-port",
        Number(-1, 65535),
        "UDP port (default 0, off); without -p it names the TCP port too",
        RunPart(Draft::udp_port, "UDP is not spoken; clients must use TCP"),
    ),
    flag(
        's',
        "unix-socket",
        Text("file"),
        "Unix socket to listen on; turns TCP off",
        Run(Draft::unix_socket),
    ),
    flag(
        'a',
        "unix-mask",
        Text("mask"),
        "permission bits of the Unix socket, octal (default 700)",
        Take("server.unix_mode"),
    ),
    flag(
        'A',
        "enable-shutdown",
        Nothing,
        "serve the shutdown command",
        Put("protocol.allow_shutdown", "true"),
    ),
    flag(
        'l',
        "listen",
        Text("addr"),
        "addresses to listen on (default: every interface), separated by commas, each host, \
         host:port or [v6]:port, after an optional proto[ascii]: and tag[name]:",
        Run(Draft::listen),
    ),
    flag(
        'd',
        "daemon",
        Nothing,
        "run in the background; returns once the server listens",
        Put("process.daemon", "true"),
    ),
    flag(
        'r',
        "enable-coredumps",
        Nothing,
        "raise the limit on core files",
        Put("process.core_dumps", "true"),
    ),
    flag('u', "user", Text("user"), "user to become when started as root", Take("process.user")),
    flag(
        'm',
        "memory-limit",
        Text("num"),
        "memory in MiB (default 64): the whole budget, index and buffers included",
        Take("memory.limit"),
    ),
    flag(
        'M',
        "disable-evictions",
        Nothing,
        "answer with an error when memory is full",
        Put("memory.evict", "false"),
    ),
    flag(
        'c',
        "conn-limit",
        Text("num"),
        "client connections served at once (default 1024)",
        Take("server.connections_max"),
    ),
    flag(
        'k',
        "lock-memory",
        Nothing,
        "lock all memory against swapping",
        Put("memory.lock", "true"),
    ),
    flag(
        'v',
        "verbose",
        Nothing,
        "log more: -v information, -vv connections, -vvv transitions",
        Run(Draft::verbose),
    ),
    flag('h', "help", Nothing, "print this help and exit", Act::Help),
    flag('i', "license", Nothing, "print the licence and exit", Act::License),
    flag('V', "version", Nothing, "print the version and exit", Act::Version),
    flag('P', "pidfile", Text("file"), "file to save the process id in", Take("process.pid_file")),
    flag(
        'f',
        "slab-growth-factor",
        Decimal(1.0, 1e6),
        "growth of slab classes",
        Note(NO_CLASSES, Stat::AsWritten("growth_factor")),
    ),
    flag(
        'n',
        "slab-min-size",
        Number(1, 1 << 30),
        "bytes of the smallest slab class",
        Note(NO_CLASSES, Stat::Given("chunk_size", 1)),
    ),
    flag(
        'L',
        "enable-largepages",
        Nothing,
        "use huge pages, and touch three quarters of the memory at start",
        Run(Draft::large_pages),
    ),
    flag(
        'D',
        "",
        Text("char"),
        "character that ends a key's prefix; turns stats detail on",
        Note("nothing is counted by prefix", Stat::AsWritten("stat_key_prefix")),
    ),
    flag('t', "threads", Number(1, 1024), "worker threads (default 4)", Take("server.workers")),
    flag(
        'R',
        "max-reqs-per-event",
        Text("num"),
        "requests served for one connection before the next (default 1024; 20 in memcached)",
        Take("server.requests_per_turn"),
    ),
    flag(
        'C',
        "disable-cas",
        Nothing,
        "keep no CAS tokens",
        Note(
            "every item carries its version here, at no extra cost",
            Stat::Fixed(&[("cas_enabled", "no")]),
        ),
    ),
    flag(
        'b',
        "listen-backlog",
        Text("num"),
        "connections the kernel holds until they are accepted (default 1024)",
        Take("server.backlog"),
    ),
    flag(
        'B',
        "protocol",
        Word(&["auto", "ascii", "binary"]),
        "protocol: ascii, auto or binary; only text and meta commands are spoken",
        RunPart(
            Draft::protocol,
            "the binary protocol is not spoken; clients must use text or meta commands",
        ),
    ),
    flag(
        'I',
        "max-item-size",
        Text("num"),
        "largest item in bytes, or with k or m (default 1m, from 1k, to 1024m)",
        Take("memory.item_bytes_max"),
    ),
    flag(
        'S',
        "enable-sasl",
        Nothing,
        "SASL authentication",
        Refuse("SASL belongs to the binary protocol; use -Y with a file of user:password lines"),
    ),
    flag(
        'F',
        "disable-flush-all",
        Nothing,
        "refuse flush_all",
        Put("protocol.allow_flush_all", "false"),
    ),
    flag(
        'X',
        "disable-dumping",
        Nothing,
        "refuse stats cachedump, lru_crawler metadump and mgdump",
        Put("protocol.allow_dump", "false"),
    ),
    flag(
        'W',
        "disable-watch",
        Nothing,
        "refuse watch",
        Note("there is no stream of log lines, so watch is always refused", Stat::None),
    ),
    flag(
        'Y',
        "auth-file",
        Text("file"),
        "clients must authenticate; the file holds user:password lines, at most 8",
        Run(Draft::auth_file),
    ),
    flag(
        'e',
        "memory-file",
        Text("file"),
        "keep items in a mapped file over a restart",
        Refuse("a warm restart arrives with the journal; leave -e out"),
    ),
    flag(
        'Z',
        "enable-ssl",
        Nothing,
        "TLS",
        Refuse("TLS is not built in; put a TLS proxy before the server, or leave -Z out"),
    ),
    flag(
        'o',
        "extended",
        Text("list"),
        "further options, separated by commas",
        Run(Draft::extended),
    ),
    flag(
        'N',
        "napi_ids",
        Number(1, 1024),
        "spread connections over threads by NAPI id",
        Note("connections go to the least loaded worker", Stat::Given("num_napi_ids", 1)),
    ),
];

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::config::key_index;
    use crate::memcached::SUBOPTIONS;

    #[test]
    fn rows_are_distinct_and_name_real_settings() {
        let shorts: HashSet<_> = FLAGS.iter().map(|flag| flag.short).collect();
        let longs: HashSet<_> = FLAGS.iter().map(|flag| flag.long).collect();
        let names: HashSet<_> = SUBOPTIONS.iter().map(|row| row.name).collect();
        assert_eq!((shorts.len(), longs.len()), (FLAGS.len(), FLAGS.len()));
        assert_eq!(names.len(), SUBOPTIONS.len());
        for act in FLAGS.iter().map(|f| &f.act).chain(SUBOPTIONS.iter().map(|s| &s.act)) {
            if let Put(path, _) | Take(path) = act {
                assert!(key_index(path).is_some(), "{path}");
            }
        }
    }

    #[test]
    fn every_flag_of_memcached_has_a_row() {
        for short in "aAZpsUmMchiVkrvdluPftnDLRCbBISFXWYeoN".chars() {
            assert!(FLAGS.iter().any(|flag| flag.short == short), "-{short}");
        }
    }
}
