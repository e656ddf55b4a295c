//! What an answer promises is chosen by the prefix of the key.

use super::support::{Cell, directory, refused, statistic};

/// Written back by age, nothing would be in the database before the test has ended.
const OLD: [&str; 2] = ["--tier-age-s", "86400"];

#[test]
fn what_is_answered_at_backend_is_in_the_database_by_every_driver() {
    for driver in ["epoll", "signal", "uring", "threads"] {
        let directory = directory(&format!("prefixes-{driver}"));
        let prefixes = "user:=backend,user:session:=memory,order:=disk";
        let flags = ["--driver", driver, "--tier-prefixes", prefixes, OLD[0], OLD[1]];
        let cell = Cell::start(&directory, &flags);
        let mut client = cell.client();
        for key in ["user:session:1", "order:1", "other"] {
            assert_eq!(client.set(key, 3, 0, "one"), "STORED");
        }
        assert_eq!(statistic(&mut client, "flushed_keys"), 0, "{driver}");
        for (request, reply, flushed) in [
            ("set user:1 5 0 3\r\none", "STORED", 1),
            ("append user:1 0 0 3\r\ntwo", "STORED", 2),
            ("touch user:1 1000", "TOUCHED", 3),
            ("add user:1 0 0 1\r\nx", "NOT_STORED", 3),
            ("set user:2 5 0 3\r\ntwo", "STORED", 4),
            ("ms user:3 3\r\nmet", "HD", 5),
            ("delete user:2", "DELETED", 6),
            ("get user:2", "END", 6),
            ("set other 3 0 3\r\ntwo", "STORED", 6),
        ] {
            assert_eq!(client.ask(request), reply, "{driver}: {request}");
            assert_eq!(statistic(&mut client, "flushed_keys"), flushed, "{driver}: {request}");
        }
        assert_eq!(statistic(&mut client, "through"), 0);
        cell.kill();
        let cell = Cell::start(&directory, &flags);
        let mut client = cell.client();
        for (key, value) in [
            ("user:1", Some("onetwo")),
            ("user:2", None),
            ("user:3", Some("met")),
            ("order:1", Some("one")),
            ("other", Some("two")),
        ] {
            assert_eq!(client.get(key).as_deref(), value, "{driver}: {key}");
        }
        client.send(b"get order:1 user:1 nowhere user:3\r\n").expect("it takes the request");
        let lines: Vec<_> = (0..7).map(|_| client.line().expect("it answers")).collect();
        assert_eq!(lines.iter().filter(|line| line.starts_with("VALUE ")).count(), 3, "{lines:?}");
        assert_eq!(lines[6], "END");
    }
}

#[test]
fn a_flush_of_all_changes_nothing_of_what_later_answers_promise() {
    let flags = ["--tier-ack", "backend", OLD[0], OLD[1]];
    let cell = Cell::start(&directory("prefixes-flush"), &flags);
    let mut client = cell.client();
    for flushed in 1..4 {
        assert_eq!(client.set("key", 0, 0, "value"), "STORED");
        assert_eq!(statistic(&mut client, "flushed_keys"), flushed);
        assert_eq!(client.ask("flush_all"), "OK");
    }
}

#[test]
fn keys_that_the_tier_does_not_keep_are_as_without_one() {
    let directory = directory("prefixes-none");
    let flags = ["--tier-prefixes", "page:=none,page:kept:=os", OLD[0], OLD[1]];
    let cell = Cell::start(&directory, &flags);
    let mut client = cell.client();
    for key in ["page:1", "page:kept:1", "other"] {
        assert_eq!(client.set(key, 0, 0, "1"), "STORED");
    }
    for (request, reply) in [
        ("incr page:1 1", "2"),
        ("add page:1 0 0 1\r\nx", "NOT_STORED"),
        ("add page:2 0 0 1\r\nx", "STORED"),
        ("delete page:2", "DELETED"),
        ("delete page:3", "NOT_FOUND"),
        ("touch page:1 0", "TOUCHED"),
    ] {
        assert_eq!(client.ask(request), reply, "{request}");
    }
    assert_eq!(statistic(&mut client, "dirty_keys"), 2);
    // What memory has no space for is gone, and no lookup finds that out.
    let value = "v".repeat(10_000);
    for key in 0..4_000 {
        assert_eq!(client.set(&format!("page:long:{key}"), 0, 0, &value), "STORED");
    }
    let there = (0..4_000).filter(|key| client.get(&format!("page:long:{key}")).is_some()).count();
    assert!((100..3_000).contains(&there), "{there} of 4000 fit into 16 MiB");
    let lookups = ["loads_journal", "loads_below", "loads_missing", "lookups"];
    assert_eq!(lookups.map(|name| statistic(&mut client, name)), [0; 4]);
    assert_eq!(statistic(&mut client, "dirty_keys"), 2);
    cell.kill();
    let cell = Cell::start(&directory, &flags);
    let mut client = cell.client();
    let left = ["page:1", "page:long:3999", "page:kept:1", "other"].map(|key| client.get(key));
    assert_eq!(left.map(|it| it.is_some()), [false, false, true, true]);
}

#[test]
fn prefixes_that_say_nothing_clear_are_refused() {
    for (prefixes, why) in [
        ("a=os,b=disk,a=memory", "prefix \"a\" is named twice"),
        ("a=fast", "memory, os, disk, backend, none"),
        ("a", "write PREFIX=LEVEL"),
        ("=os", "1 to 250"),
    ] {
        let said = refused(&directory("prefixes-refused"), &["--tier-prefixes", prefixes]);
        assert!(said.contains("tier.prefixes") && said.contains(why), "{prefixes}: {said}");
    }
}
