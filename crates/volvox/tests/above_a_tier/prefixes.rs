//! What an answer promises is chosen by the prefix of the key.

use super::support::{Cell, Client, directory, number_of, refused, statistic};

use std::time::{Duration, Instant};

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

/// Waits until memory has this number of items.
fn wait_for_items(client: &mut Client, items: u64) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while number_of(client, "stats", "curr_items") != items {
        assert!(Instant::now() < deadline, "memory has other items");
    }
}

#[test]
fn what_is_written_around_memory_is_loaded_by_the_first_read_by_every_driver() {
    for driver in ["epoll", "signal", "uring", "threads"] {
        let directory = directory(&format!("around-{driver}"));
        let flags = ["--driver", driver, "--tier-prefixes", "log:=around", OLD[0], OLD[1]];
        let cell = Cell::start(&directory, &flags);
        let mut client = cell.client();
        assert_eq!(client.set("other", 3, 0, "stays"), "STORED");
        for (flushed, request) in [
            (1, "set log:1 5 0 3\r\none"),
            (2, "append log:1 0 0 3\r\ntwo"),
            (3, "touch log:1 1000"),
        ] {
            let reply = if request.starts_with("touch") { "TOUCHED" } else { "STORED" };
            assert_eq!(client.ask(request), reply, "{driver}: {request}");
            assert_eq!(statistic(&mut client, "flushed_keys"), flushed, "{driver}: {request}");
            wait_for_items(&mut client, 1);
        }
        let loads = statistic(&mut client, "loads_below");
        for _ in 0..3 {
            let found = client.get_all(&["log:1".to_owned()]);
            assert_eq!(found, [Some((5, b"onetwo".to_vec()))], "{driver}");
        }
        assert_eq!(statistic(&mut client, "loads_below"), loads + 1, "what was read stays");
        let token = client.token("log:1");
        assert_eq!(client.ask(&format!("cas log:1 7 0 3 {token}\r\nnew")), "STORED");
        wait_for_items(&mut client, 1);
        assert!(client.token("log:1") > token, "{driver}");
        assert_eq!(client.ask("delete log:1"), "DELETED");
        assert_eq!(client.get("log:1"), None);
        assert_eq!(client.set("log:2", 0, 0, "kept"), "STORED");
        cell.kill();
        let cell = Cell::start(&directory, &flags);
        let mut client = cell.client();
        assert_eq!((client.get("log:1"), client.get("log:2").as_deref()), (None, Some("kept")));
    }
}

#[test]
fn a_read_beside_what_is_written_around_memory_never_shows_an_older_value() {
    let flags = ["--tier-prefixes", "log:=around", OLD[0], OLD[1]];
    let cell = Cell::start(&directory("around-beside"), &flags);
    let mut writer = cell.client();
    std::thread::scope(|scope| {
        let writes = scope.spawn(|| {
            for value in 1..=300 {
                assert_eq!(writer.set("log:1", 0, 0, &value.to_string()), "STORED");
                // What was answered is what is read next.
                assert_eq!(writer.get("log:1"), Some(value.to_string()));
            }
        });
        let (mut reader, mut last) = (cell.client(), 0);
        while !writes.is_finished() {
            let value = reader.get("log:1").map_or(0, |value| value.parse().expect("a number"));
            assert!(value >= last, "{value} after {last}");
            last = value;
        }
        writes.join().expect("it writes all");
    });
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
        ("a=fast", "memory, os, disk, backend, around, none"),
        ("a", "write PREFIX=LEVEL"),
        ("=os", "1 to 250"),
    ] {
        let said = refused(&directory("prefixes-refused"), &["--tier-prefixes", prefixes]);
        assert!(said.contains("tier.prefixes") && said.contains(why), "{prefixes}: {said}");
    }
}
