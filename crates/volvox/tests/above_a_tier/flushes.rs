//! A delayed `flush_all` is carried out after a kill, too.

use super::support::{Cell, directory};

use std::time::{Duration, Instant};

/// How long a test waits for what is due in a second.
const WAIT: Duration = Duration::from_secs(60);

#[test]
fn a_delayed_flush_ends_what_was_there_after_a_kill() {
    for ack in ["os", "disk"] {
        let directory = directory(&format!("flushes-{ack}"));
        let flags = ["--tier-ack", ack];
        let cell = Cell::start(&directory, &flags);
        let mut client = cell.client();
        assert_eq!(client.set("before", 0, 0, "value"), "STORED");
        assert_eq!(client.ask("flush_all 1"), "OK");
        cell.kill();
        let cell = Cell::start(&directory, &flags);
        let mut client = cell.client();
        let deadline = Instant::now() + WAIT;
        while client.get("before").is_some() {
            assert!(Instant::now() < deadline, "{ack}: it is still there");
        }
        assert_eq!(client.set("after", 0, 0, "value"), "STORED");
        cell.kill();
        let cell = Cell::start(&directory, &flags);
        let mut client = cell.client();
        assert_eq!(client.get("before"), None, "{ack}");
        assert_eq!(client.get("after").as_deref(), Some("value"), "{ack}: it came later");
    }
}

#[test]
fn one_that_was_called_off_ends_nothing_after_a_kill() {
    let directory = directory("flushes-off");
    let cell = Cell::start(&directory, &[]);
    let mut client = cell.client();
    assert_eq!(client.ask("flush_all 1"), "OK");
    assert_eq!(client.ask("flush_all"), "OK");
    assert_eq!(client.set("key", 0, 0, "value"), "STORED");
    assert_eq!(client.ask("flush_all 86400"), "OK");
    cell.kill();
    let cell = Cell::start(&directory, &[]);
    let mut client = cell.client();
    assert_eq!(client.get("key").as_deref(), Some("value"), "a day has not passed");
}
