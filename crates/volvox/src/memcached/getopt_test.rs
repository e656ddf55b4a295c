//! Command lines of memcached and their results.

use super::{Command, Start, parse};
use crate::config::{Level, Loaded, load};
use crate::memcached::defaults;

fn words(line: &str) -> Vec<String> {
    line.split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

fn start(line: &str) -> Start {
    match parse(&words(line)) {
        Ok(Command::Start(start)) => start,
        Ok(other) => panic!("{line}: {other:?}"),
        Err(error) => panic!("{line}: {error}"),
    }
}

fn loaded(line: &str) -> Result<Loaded, String> {
    let Command::Start(start) = parse(&words(line))? else {
        return Err(format!("{line}: prints and ends"));
    };
    let mut layers = defaults();
    layers.extend(start.assignments);
    load(&layers).map_err(|errors| errors[0].to_string())
}

fn listen(line: &str) -> String {
    let listen = loaded(line).expect(line).settings.server.listen;
    listen.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

#[test]
fn no_flags_mean_memcached_defaults() {
    let settings = loaded("").expect("defaults").settings;
    assert_eq!(listen(""), "*:11211");
    assert_eq!((settings.memory.limit, settings.memory.item_bytes_max), (64 << 20, 1 << 20));
    assert_eq!((settings.server.connections_max, settings.server.workers), (1024, 4));
    assert_eq!(settings.log.level, Level::Warn);
}

#[test]
fn listeners_are_settled_from_all_flags() {
    let cases = [
        ("-p 7", "*:7"),
        ("-p -1", "*:0"),
        ("-l 127.0.0.1", "127.0.0.1:11211"),
        ("-l 127.0.0.1 -p 7", "127.0.0.1:7"),
        ("-p 7 -l 127.0.0.1:8,[::1]:9,::1", "127.0.0.1:8 [::1]:9 [::1]:7"),
        ("-l a -l b;c -l a", "a:11211 b:11211 c:11211"),
        ("-l *:5", "*:5"),
        ("-l proto[ascii]:tag[abc]:127.0.0.1:5", "127.0.0.1:5"),
        ("-l tag_b_:127.0.0.1:12052", "127.0.0.1:12052"),
        ("-U 11222", "*:11222"),
        ("-U -1", "*:0"),
        ("-U 0", "*:11211"),
        ("-p 7 -U 8", "*:7"),
        ("-s a.sock", ""),
        ("-s a.sock -p 7 -l b", ""),
        ("-p 0 -s a.sock", ""),
    ];
    for (line, shown) in cases {
        assert_eq!(listen(line), shown, "{line}");
    }
}

#[test]
fn flags_are_spelt_as_getopt_allows() {
    let cases = [
        ("-m 128", 128),
        ("-m128", 128),
        ("-vvm128", 128),
        ("-vvm 128", 128),
        ("--memory-limit=128", 128),
        ("--memory-limit 128", 128),
        ("--memory-l 128", 128),
        ("-m 1 -m 128", 128),
        ("-m 128 --", 128),
        ("-m 2g", 2048),
    ];
    for (line, mebibytes) in cases {
        assert_eq!(loaded(line).expect(line).settings.memory.limit, mebibytes << 20, "{line}");
    }
    assert_eq!(loaded("-vv").expect("two").settings.log.level, Level::Debug);
    assert_eq!(loaded("-v --verbose -v").expect("three").settings.log.level, Level::Trace);
}

#[test]
fn flags_set_what_they_name() {
    let line = "-a 770 -A -d -r -u nobody -M -c 9 -k -P pid -L -t 3 -R 5 -b 6 -I 2m -F -X \
                -Y users -o idle_timeout=3,no_maxconns_fast";
    let settings = loaded(line).expect("all served").settings;
    let server = &settings.server;
    assert_eq!((server.unix_mode, server.connections_max, server.workers), (0o770, 9, 3));
    assert_eq!((server.requests_per_turn, server.backlog, server.idle_timeout_s), (5, 6, 3));
    assert!(!server.maxconns_fast && server.auth_file.is_some());
    let memory = &settings.memory;
    assert!(!memory.evict && memory.lock && memory.huge_pages && memory.prefault);
    assert_eq!(memory.item_bytes_max, 2 << 20);
    let protocol = &settings.protocol;
    assert!(!protocol.allow_flush_all && !protocol.allow_dump && protocol.allow_shutdown);
    assert!(settings.process.daemon && settings.process.core_dumps);
    assert_eq!(settings.process.user.as_deref(), Some("nobody"));
    assert_eq!(settings.process.pid_file.as_deref(), Some("pid".as_ref()));
}

#[test]
fn flags_without_effect_are_noted_and_reported() {
    let noted = start(
        "-C -D / -W -f 1.08 -o track_sizes,slab_chunk_max=16,hashpower=20,no_modern -U 5 -B auto \
         -vvv",
    );
    let expected = [
        ("cas_enabled", "no"),
        ("stat_key_prefix", "/"),
        ("growth_factor", "1.08"),
        ("slab_chunk_max", "16384"),
        ("hashpower_init", "20"),
        ("lru_segmented", "no"),
        ("binding_protocol", "auto-negotiate"),
    ];
    for (name, value) in expected {
        assert!(noted.reported.contains(&(name, value.to_owned())), "{name}");
    }
    let notes = [
        "-C changes nothing: every item has a version",
        "-D changes nothing: nothing is counted by key prefix",
        "-W changes nothing: ",
        "-o track_sizes changes nothing: items are not counted by size",
        "-f changes nothing: ",
        "-o slab_chunk_max changes nothing: ",
        "-o hashpower changes nothing: ",
        "-o no_modern: of those defaults only no_maxconns_fast",
        "-U: UDP is not spoken",
        "-B: the binary protocol is not spoken",
        "-v: -vv and -vvv log no more than -v",
    ];
    assert_eq!(noted.notes.len(), notes.len(), "{:?}", noted.notes);
    for expected in notes {
        assert!(noted.notes.iter().any(|note| note.starts_with(expected)), "{expected}");
    }
    assert!(start("-U 0 -B ascii -p 5 -v").notes.is_empty());
}

#[test]
fn asking_comes_first() {
    assert!(matches!(parse(&words("-m 5 -h -Z")), Ok(Command::Help)));
    assert!(matches!(parse(&words("-vV")), Ok(Command::Version)));
    assert!(matches!(parse(&words("--license")), Ok(Command::License)));
}

#[test]
fn what_cannot_be_served_is_refused_with_the_reason() {
    let cases = [
        ("-S", "-S: SASL belongs to the binary protocol; use -Y"),
        ("-Z", "-Z: TLS is not built in"),
        ("-e f", "-e f: volvox serve --tier-dir keeps items"),
        ("-q", "-q: unknown flag; see -h"),
        ("--memroy-limit 5", "--memroy-limit: unknown flag; did you mean --memory-limit?"),
        ("--disable 5", "--disable: could be --disable-evictions or --disable-cas or"),
        ("-m", "-m: needs a value, <num>"),
        ("-m 64x", "flag -m: memory.limit = \"64x\": expected a size"),
        ("-m -1", "flag -m: memory.limit = \"-1\": expected a size"),
        ("five", "five: this word belongs to no flag"),
        ("-- five", "five: this word belongs to no flag"),
        ("-c 0", "flag -c: server.connections_max = \"0\": out of range; choose a value from 1"),
        ("-c -1", "flag -c: server.connections_max = \"-1\": expected a whole number"),
        ("-t 0", "-t 0: out of range; choose a number from 1 to 1024"),
        ("-R 0", "flag -R: server.requests_per_turn = \"0\": out of range"),
        ("-p 70000", "-p 70000: out of range; choose a number from -1 to 65535"),
        ("-p x", "-p x: expected a whole number"),
        ("-p 0", "server.listen = []: nothing to listen on"),
        ("-f 1", "-f 1: expected a number above 1"),
        ("-n 0", "-n 0: out of range"),
        ("-B http", "-B http: expected one of auto, ascii, binary"),
        ("-I 1000", "flag -I: memory.item_bytes_max = \"1000\": out of range; choose a value from"),
        ("-I 256m", "flag -I: memory.item_bytes_max = \"256MiB\": above 32MiB, half of"),
        ("-l notls:127.0.0.1", "-l notls:127.0.0.1: notls needs TLS"),
        ("-l proto[binary]:a", "-l proto[binary]:a: protocol binary is not spoken"),
        ("-l tag[toolongtag]:a", "tag \"toolongtag\" must have 1 to 8 characters"),
        ("-l [::1", "address \"[::1\" opens a bracket"),
        ("-Y f -B auto", "-Y authenticates by text"),
        ("-o nonsense", "-o nonsense: unknown option nonsense; did you mean"),
        ("-o idle_timout=3", "unknown option idle_timout; did you mean idle_timeout?"),
        ("-o idle_timeout", "-o idle_timeout: idle_timeout needs a value"),
        ("-o idle_timeout=x", "-o idle_timeout=x: idle_timeout=x: expected a whole number"),
        ("-o hashpower=64", "hashpower=64: out of range; choose a number from 12 to 32"),
        ("-o slab_automove=3", "slab_automove=3: out of range"),
        ("-o ext_path=f:1g", "ext_path=f:1g: extstore has no counterpart"),
        ("-o proxy_config=f", "proxy_config=f: there is no proxy mode"),
        ("-o ssl_key=f", "ssl_key=f: TLS is not built in"),
        ("-o drop_privileges", "drop_privileges: no filter of system calls is built in"),
    ];
    for (line, message) in cases {
        let error = loaded(line).expect_err(line);
        assert!(error.contains(message), "{line}: {error}");
    }
}

#[test]
fn the_command_lines_of_its_own_tests_are_served() {
    let lines = [
        "-o relaxed_privileges -s a.sock",
        "-u root -l 127.0.0.1 -p 5000 -U 5001 -o relaxed_privileges",
        "-M -m 2 -s a.sock",
        "-o idle_timeout=3 -l 127.0.0.1",
        "-I 1024 -o slab_chunk_max=1",
        "-m 256 -I 32m",
        "-Y authfile -U 0",
        "-d -P pid",
        "-o read_buf_mem_limit=1 -t 32 -R 500",
        "-o slab_reassign,slab_automove,lru_crawler,lru_maintainer,slab_chunk_max=4",
        "-m 3 -o modern,slab_automove_window=3",
        "-vv -B binary",
    ];
    for line in lines {
        loaded(line).expect(line);
    }
}
