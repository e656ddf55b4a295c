//! Every command sees what is not in memory.

use super::support::{Cell, Client, directory};

/// A cell whose memory is empty, above what `store` has stored.
fn with(test: &str, flags: &[&str], store: impl FnOnce(&mut Client)) -> Cell {
    let directory = directory(test);
    let cell = Cell::start(&directory, flags);
    store(&mut cell.client());
    cell.kill();
    Cell::start(&directory, flags)
}

#[test]
fn commands_that_need_an_item_find_it_by_every_driver() {
    for driver in ["epoll", "signal", "uring", "threads"] {
        let cell = with(&format!("commands-{driver}"), &["--driver", driver], |client| {
            for key in ["add", "replace", "append", "prepend", "touch", "gat", "delete", "cas"] {
                assert_eq!(client.set(key, 7, 0, "old"), "STORED");
            }
            for key in ["incr", "decr", "ma"] {
                assert_eq!(client.set(key, 7, 0, "40"), "STORED");
            }
        });
        let client = &mut cell.client();
        for (request, reply) in [
            ("add add 1 0 3\r\nnew", "NOT_STORED"),
            ("replace replace 1 0 3\r\nnew", "STORED"),
            ("append append 1 0 4\r\n+new", "STORED"),
            ("prepend prepend 1 0 4\r\nnew+", "STORED"),
            ("incr incr 2", "42"),
            ("decr decr 2", "38"),
            ("ma ma N0 J1 D3 v", "VA 2"),
            ("touch touch 0", "TOUCHED"),
            ("delete delete", "DELETED"),
            ("delete delete", "NOT_FOUND"),
            ("add delete 0 0 5\r\nagain", "STORED"),
            // What is nowhere.
            ("add nowhere-1 0 0 3\r\nnew", "STORED"),
            ("replace nowhere-2 0 0 3\r\nnew", "NOT_STORED"),
            ("append nowhere-2 0 0 3\r\nnew", "NOT_STORED"),
            ("incr nowhere-2 1", "NOT_FOUND"),
            ("touch nowhere-2 1", "NOT_FOUND"),
            ("delete nowhere-2", "NOT_FOUND"),
            ("cas nowhere-2 0 0 3 1\r\nnew", "NOT_FOUND"),
            ("mg nowhere-2 v", "EN"),
            ("me nowhere-2", "EN"),
            ("mn", "MN"),
        ] {
            assert_eq!(client.ask(request), reply, "{driver}: {request}");
            if reply.starts_with("VA") {
                assert_eq!(client.line().expect("its value"), "43");
            }
        }
        for (key, value) in [
            ("add", "old"),
            ("replace", "new"),
            ("append", "old+new"),
            ("prepend", "new+old"),
            ("incr", "42"),
            ("touch", "old"),
            ("delete", "again"),
        ] {
            assert_eq!(client.get(key).as_deref(), Some(value), "{driver}: {key}");
        }
        assert!(client.ask("gat 0 gat").starts_with("VALUE gat 7 3"), "{driver}");
    }
}

#[test]
fn tokens_flags_and_times_are_the_same_after_a_kill() {
    let mut tokens = [0; 3];
    let cell = with("facts", &[], |client| {
        assert_eq!(client.set("plain", 0xffff_ffff, 0, "value"), "STORED");
        assert_eq!(client.set("timed", 1, 1000, "value"), "STORED");
        assert_eq!(client.ask("ms chosen 5 E1234567\r\nvalue"), "HD");
        assert_eq!(client.ask("touch plain 2000"), "TOUCHED");
        tokens = ["plain", "timed", "chosen"].map(|key| client.token(key));
    });
    let client = &mut cell.client();
    assert_eq!(tokens[2], 1_234_567);
    assert_eq!(["plain", "timed", "chosen"].map(|key| client.token(key)), tokens);
    let flags = ["plain", "timed"].map(|key| client.ask(&format!("mg {key} f")));
    assert_eq!(flags, ["HD f4294967295", "HD f1"]);
    for (key, most) in [("plain", 2000), ("timed", 1000)] {
        let line = client.ask(&format!("mg {key} t"));
        let left = line.strip_prefix("HD t").and_then(|left| left.parse::<i64>().ok());
        assert!(left.is_some_and(|left| (most - 60..=most).contains(&left)), "{key}: {line}");
    }
    let old = tokens[0];
    assert_eq!(client.ask(&format!("cas plain 0 0 3 {old}\r\nnew")), "STORED");
    assert_eq!(client.ask(&format!("cas plain 0 0 3 {old}\r\nnew")), "EXISTS");
    assert!(client.token("plain") > old);
}

#[test]
fn what_is_deleted_flushed_or_expired_does_not_come_back() {
    let directory = directory("gone");
    // Written back at once: what is gone has to go below as well.
    let flags = ["--tier-age-s", "0"];
    let cell = Cell::start(&directory, &flags);
    let client = &mut cell.client();
    for key in ["deleted", "flushed", "kept", "past"] {
        assert_eq!(client.set(key, 0, 0, "old"), "STORED");
    }
    assert_eq!(client.ask("delete deleted"), "DELETED");
    assert_eq!(client.set("past", 0, -1, "gone"), "STORED");
    assert_eq!(client.ask("flush_all"), "OK");
    assert_eq!(client.set("kept", 0, 0, "new"), "STORED");
    let check = |cell: &Cell| {
        let client = &mut cell.client();
        for (key, value) in
            [("deleted", None), ("flushed", None), ("past", None), ("kept", Some("new"))]
        {
            assert_eq!(client.get(key).as_deref(), value, "{key}");
        }
    };
    check(&cell);
    cell.kill();
    for _ in 0..2 {
        let cell = Cell::start(&directory, &flags);
        check(&cell);
        cell.kill();
    }
    let cell = Cell::start(&directory, &flags);
    cell.stop();
    check(&Cell::start(&directory, &flags));
}

#[test]
fn a_value_that_is_refused_leaves_no_older_one() {
    let cell = with("refused", &[], |client| assert_eq!(client.set("key", 0, 0, "old"), "STORED"));
    let client = &mut cell.client();
    let line = client.set("key", 0, 0, &"x".repeat(2 << 20));
    assert_eq!(line, "SERVER_ERROR object too large for cache");
    assert_eq!(client.get("key"), None);
}

#[test]
fn a_multiget_of_what_is_not_in_memory_is_in_order() {
    let key = |number: usize| format!("key-{number}");
    let cell = with("multiget", &[], |client| {
        for number in (0..200).filter(|number| number % 3 > 0) {
            assert_eq!(client.set(&key(number), 0, 0, &number.to_string()), "STORED");
        }
    });
    let client = &mut cell.client();
    let keys: Vec<_> = (0..200).map(key).collect();
    let first = client.ask(&format!("get {}", keys.join(" ")));
    let mut lines = vec![first];
    while lines.last().is_some_and(|line| line != "END") {
        lines.push(client.line().expect("it answers"));
    }
    let expected = (0..200).filter(|number| number % 3 > 0).flat_map(|number| {
        let value = number.to_string();
        [format!("VALUE {} 0 {}", key(number), value.len()), value]
    });
    let expected: Vec<_> = expected.chain(["END".to_owned()]).collect();
    assert_eq!(lines, expected);
}
