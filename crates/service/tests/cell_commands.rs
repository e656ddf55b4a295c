//! Commands about the cell: flushing, dumps, statistics, authentication, administration.

mod support;

use service::LimitChange;
use session::Flow;
use support::{HostCalls, LIMIT_BYTES, Rig, START_S};

/// The value of a statistic in a report.
#[track_caller]
fn stat<'a>(report: &'a str, name: &str) -> &'a str {
    let line = report.lines().find_map(|line| line.strip_prefix(&format!("STAT {name} ")));
    line.unwrap_or_else(|| panic!("{name} is in {report}"))
}

#[test]
fn flush_all_empties_now_or_later() {
    let mut rig = Rig::new();
    let at = START_S + 30;
    rig.converse(&[
        ("set a 0 0 1|x|flush_all|get a|", "STORED|OK|END|"),
        ("set a 0 0 1|y|get a|", "STORED|VALUE a 0 1|y|END|"),
        ("flush_all 10|get a|", "OK|VALUE a 0 1|y|END|"),
        ("set late 0 0 1|z|", "STORED|"),
    ]);
    rig.wait_s(9);
    rig.converse(&[("get a late|", "VALUE a 0 1|y|VALUE late 0 1|z|END|")]);
    rig.wait_s(1);
    rig.converse(&[
        ("get a late|", "END|"),
        ("add a 0 0 1|n|", "STORED|"),
        (&format!("flush_all {at}|"), "OK|"),
    ]);
    rig.wait_s(20);
    rig.converse(&[
        ("get a|", "END|"),
        ("flush_all x|", "CLIENT_ERROR invalid exptime argument|"),
        ("set a 0 0 1|x|flush_all 60|flush_all|get a|", "STORED|OK|OK|END|"),
        ("set a 0 0 1|x|", "STORED|"),
    ]);
    rig.wait_s(60);
    rig.converse(&[("get a|", "VALUE a 0 1|x|END|")]);
}

#[test]
fn commands_that_the_operator_forbids_are_refused() {
    let mut rig = Rig::with(|options| {
        options.allow_flush = false;
        options.allow_dump = false;
    });
    rig.converse(&[
        ("flush_all|", "CLIENT_ERROR flush_all not allowed|"),
        ("shutdown|", "SERVER_ERROR: shutdown not enabled|"),
        ("lru_crawler metadump all|", "ERROR metadump not allowed|"),
        ("lru_crawler mgdump all|", "ERROR key dump not allowed|"),
        ("stats cachedump 1 0|", "CLIENT_ERROR stats cachedump not allowed|"),
        ("watch|", "CLIENT_ERROR watch commands not allowed|"),
    ]);
    assert_eq!(rig.host_calls(), HostCalls::default());
}

#[test]
fn shutdown_and_verbosity_reach_the_process() {
    for (request, graceful) in [("shutdown\r\n", false), ("shutdown graceful\r\n", true)] {
        let mut rig = Rig::with(|options| options.allow_shutdown = true);
        rig.converse(&[
            ("verbosity 2|", "OK|"),
            ("verbosity|", "CLIENT_ERROR bad command line format|"),
        ]);
        assert_eq!(rig.send(request), "");
        assert_eq!(rig.flow, Flow::Close);
        let want = HostCalls { shutdown: Some(graceful), verbosity: Some(2), limit: None };
        assert_eq!(rig.host_calls(), want);
    }
}

#[test]
fn a_changed_limit_reaches_the_process_and_one_that_is_too_high_names_the_highest() {
    let mut rig = Rig::new();
    let refusal = "MEMLIMIT_ADJUST_FAILED cannot set maxbytes to more than 16m before a restart|";
    rig.converse(&[("cache_memlimit 17|", refusal)]);
    assert_eq!(rig.host_calls(), HostCalls::default());
    rig.converse(&[("cache_memlimit 16|", "OK|")]);
    let limit = Some(LimitChange { from: LIMIT_BYTES, to: 2 * LIMIT_BYTES });
    assert_eq!(rig.host_calls(), HostCalls { limit, ..HostCalls::default() });
}

#[test]
fn dumps_name_every_living_item_once() {
    let mut rig = Rig::new();
    rig.converse(&[
        ("set a 7 60 2|xy|", "STORED|"),
        ("set gone 0 -1 1|x|", "STORED|"),
        ("lru_crawler mgdump all|", "OK|mg a|EN|"),
        ("lru_crawler mgdump 2,1|", "OK|mg a|EN|"),
        ("lru_crawler mgdump 2|", "OK|EN|"),
        ("lru_crawler metadump bogus|", "BADCLASS invalid class id|"),
        ("lru_crawler metadump 0|", "BADCLASS invalid class id|"),
        ("lru_crawler crawl bogus|", "BADCLASS invalid class id|"),
        ("lru_crawler crawl 1|", "OK|"),
        ("stats cachedump 2 0|", "END|"),
        ("stats cachedump 1|", "CLIENT_ERROR bad command line|"),
        ("stats cachedump 1 x|", "CLIENT_ERROR bad command line format|"),
        ("stats cachedump 64 0|", "CLIENT_ERROR Illegal slab id|"),
    ]);
    let at = START_S + 60;
    let want = format!("ITEM a [2 b; {at} s]\r\nEND\r\n");
    assert_eq!(rig.send("stats cachedump 1 10\r\n"), want);
    let line = format!("key=a exp={at} la={START_S} cas=1 fetch=no cls=1 size=32 flags=7 \n");
    assert_eq!(rig.send("lru_crawler metadump hash\r\n"), format!("OK\r\n{line}END\r\n"));
    for number in 0..20_000 {
        rig.send(format!("set key-number-{number:05} 0 0 0 noreply\r\n\r\n"));
    }
    let dump = rig.send("lru_crawler mgdump all\r\n");
    let mut names: Vec<_> = dump.lines().filter_map(|line| line.strip_prefix("mg key-")).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!((names.len(), dump.lines().count()), (20_000, 20_003));
    assert_eq!(rig.send("stats cachedump 1 5\r\n").lines().count(), 6);
}

#[test]
fn clients_must_authenticate_first() {
    let mut rig = Rig::with(|options| {
        options.authenticate = Some(Box::new(|claim| claim == b"user secret"));
    });
    let unauthenticated = "CLIENT_ERROR unauthenticated|";
    rig.converse(&[
        ("get a|", unauthenticated),
        ("mg a v|", unauthenticated),
        ("stats|", unauthenticated),
        ("flush_all|", unauthenticated),
        ("set a 0 0 5|wrong|", "CLIENT_ERROR authentication failure|"),
        ("set a 0 0 11|user secret|", "STORED|"),
        ("get a|", "END|"),
        ("set a 0 0 1|x|get a|", "STORED|VALUE a 0 1|x|END|"),
    ]);
    let report = rig.send("stats\r\n");
    assert_eq!((stat(&report, "auth_cmds"), stat(&report, "auth_errors")), ("2", "1"));
    assert_eq!(stat(&report, "cmd_set"), "1", "credentials are not stored");
}

#[test]
fn without_authentication_a_client_may_send_no_long_line() {
    let long = "get ".to_owned() + &"a ".repeat(2_000);
    let mut rig = Rig::new();
    assert_eq!((rig.send(&long), rig.is_closed()), (String::new(), false), "keys to come");
    let mut rig = Rig::with(|options| options.authenticate = Some(Box::new(|_| false)));
    assert_eq!((rig.send(&long), rig.is_closed()), (String::new(), true));
}

#[test]
fn statistics_count_and_reset() {
    let mut rig = Rig::new();
    rig.converse(&[
        ("set a 0 0 1|1|incr a 1|decr a 1|incr b 1|decr b 1|", "STORED|2|1|NOT_FOUND|NOT_FOUND|"),
        ("get a b|touch a 50|touch b 0|", "VALUE a 0 1|1|END|TOUCHED|NOT_FOUND|"),
        ("cas a 0 0 1 9|x|cas b 0 0 1 9|x|gat 0 a|", "EXISTS|NOT_FOUND|VALUE a 0 1|1|END|"),
        ("set dead 0 -1 1|x|get dead|", "STORED|END|"),
        ("set cut 0 0 1|x|flush_all|get cut|", "STORED|OK|END|"),
        ("set a 0 0 1|x|delete a|delete a|mg a|", "STORED|DELETED|NOT_FOUND|EN|"),
    ]);
    rig.send(format!("set big 0 0 1001\r\n{}\r\n", "v".repeat(1001)));
    let report = rig.send("stats\r\n");
    for (name, want) in [
        ("version", "1.6.45"),
        ("rusage_user", "1.000002"),
        ("total_connections", "3"),
        ("accepting_conns", "1"),
        ("threads", "4"),
        ("limit_maxbytes", "8388608"),
        ("cmd_get", "6"),
        ("get_hits", "2"),
        ("get_misses", "4"),
        ("get_expired", "1"),
        ("get_flushed", "1"),
        ("cmd_set", "6"),
        ("cmd_meta", "1"),
        ("cmd_flush", "1"),
        ("cmd_touch", "3"),
        ("touch_hits", "2"),
        ("touch_misses", "1"),
        ("incr_hits", "1"),
        ("incr_misses", "1"),
        ("decr_hits", "1"),
        ("decr_misses", "1"),
        ("cas_badval", "1"),
        ("cas_misses", "1"),
        ("delete_hits", "1"),
        ("delete_misses", "1"),
        ("store_too_large", "1"),
    ] {
        assert_eq!(stat(&report, name), want, "{name}");
    }
    assert_eq!(report.lines().count(), 84 + 1, "memcached has as many, and END");
    rig.converse(&[("stats reset|", "RESET|")]);
    let report = rig.send("stats\r\n");
    for name in ["cmd_get", "get_misses", "cmd_set", "total_connections", "get_expired"] {
        assert_eq!(stat(&report, name), "0", "{name}");
    }
}

#[test]
fn every_report_parses() {
    let mut rig = Rig::new();
    rig.converse(&[
        ("stats items|", "END|"),
        ("set a 0 0 1|x|", "STORED|"),
        ("stats bogus|", "ERROR|"),
        ("stats sizes|", "STAT sizes_status disabled|END|"),
        ("stats settings|", "STAT maxbytes 8388608|STAT maxconns 1024|END|"),
        ("cache_memlimit 1|", "MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m|"),
        ("slabs reassign 1 1|", "SAME src and dst class are identical|"),
        ("lru_crawler enable|", "OK|"),
        ("lru mode flat|", "OK|"),
    ]);
    for (request, name, want) in [
        ("stats items", "items:1:number", "1"),
        ("stats slabs", "active_slabs", "1"),
        ("stats conns", "27:listen_addr", "tcp:127.0.0.1:11211"),
        ("stats conns", "27:secs_since_last_cmd", "5"),
        ("stats volvox", "refused", "1"),
    ] {
        let report = rig.send(format!("{request}\r\n"));
        assert_eq!(stat(&report, name), want);
        let lines = report.strip_suffix("END\r\n").expect("a report ends");
        assert!(
            lines.lines().all(|line| line.starts_with("STAT ") && line.split(' ').count() == 3)
        );
    }
}

/// An exporter may refuse a name where memcached does not send it.
#[test]
fn items_and_slabs_have_the_names_of_memcached() {
    let mut rig = Rig::new();
    rig.converse(&[("set a 0 0 1|x|", "STORED|")]);
    for (request, class, names) in [
        (
            "stats items",
            "items:1:",
            &[
                "number",
                "mem_requested",
                "evicted",
                "evicted_nonzero",
                "evicted_time",
                "outofmemory",
                "tailrepairs",
                "reclaimed",
                "expired_unfetched",
                "evicted_unfetched",
                "crawler_reclaimed",
                "crawler_items_checked",
                "lrutail_reflocked",
                "direct_reclaims",
            ][..],
        ),
        (
            "stats slabs",
            "1:",
            &[
                "chunk_size",
                "chunks_per_page",
                "total_pages",
                "total_chunks",
                "used_chunks",
                "free_chunks",
                "free_chunks_end",
                "get_hits",
                "cmd_set",
                "delete_hits",
                "incr_hits",
                "decr_hits",
                "cas_hits",
                "cas_badval",
                "touch_hits",
            ],
        ),
    ] {
        let report = rig.send(format!("{request}\r\n"));
        let prefix = format!("STAT {class}");
        let found: Vec<_> = report
            .lines()
            .filter_map(|line| line.strip_prefix(&prefix)?.split(' ').next())
            .collect();
        assert_eq!(found, names, "{request}");
    }
    for name in ["active_slabs", "total_malloced"] {
        assert_ne!(stat(&rig.send("stats slabs\r\n"), name), "0", "{name}");
    }
}

#[test]
fn requests_that_make_room_are_counted() {
    let mut rig = Rig::new();
    let value = "v".repeat(900);
    let sets: String = (0..20_000).map(|n| format!("set {n} 0 0 900\r\n{value}\r\n")).collect();
    assert!(rig.send(sets).lines().all(|line| line == "STORED"));
    let made = stat(&rig.send("stats volvox\r\n"), "rooms_made").to_owned();
    assert_ne!(made, "0", "the batch was larger than the memory");
    assert_eq!(stat(&rig.send("stats items\r\n"), "items:1:direct_reclaims"), made);
}
