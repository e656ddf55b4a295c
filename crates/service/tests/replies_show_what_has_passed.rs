//! With a gated log, no byte of a reply leaves that shows what the log has not passed: neither of a
//! short reply, nor of any part of a long one, nor of a request that parks in the middle.

mod support;

use service::EffectLogOptions;
use session::Flow;
use support::{Rig, VALUE_BYTES_MAX};

/// Keys of a long `get`: its reply leaves in two parts at least.
const KEYS: usize = 400;

/// Bytes of a value.
const VALUE_BYTES: usize = 900;

fn gated(lanes: usize) -> Rig {
    let (workers, value_bytes_max, gates) = (1, VALUE_BYTES_MAX, true);
    let log = EffectLogOptions { lanes, workers, value_bytes_max, gates, has_readers: false };
    Rig::with(|options| options.effect_log = Some(log))
}

fn key(at: usize) -> String {
    format!("key{at}")
}

fn set(key: &str, byte: char, noreply: &str) -> String {
    let value = byte.to_string().repeat(VALUE_BYTES);
    format!("set {key} 0 0 {VALUE_BYTES}{noreply}\r\n{value}\r\n")
}

fn shown(key: &str, byte: char) -> String {
    format!("VALUE {key} 0 {VALUE_BYTES}\r\n{}\r\n", byte.to_string().repeat(VALUE_BYTES))
}

/// A cell with all keys, of which the log has passed everything.
fn filled(lanes: usize) -> Rig {
    let mut rig = gated(lanes);
    for at in 0..KEYS {
        assert_eq!(rig.send(set(&key(at), 'o', "")), "STORED\r\n");
    }
    rig
}

fn all_keys() -> String {
    (0..KEYS).map(key).collect::<Vec<_>>().join(" ")
}

/// The reply to a request for all keys, where the one at `new` was changed.
fn all_shown(new: usize) -> String {
    let one = |at: usize| shown(&key(at), if at == new { 'n' } else { 'o' });
    (0..KEYS).map(one).collect::<String>() + "END\r\n"
}

#[test]
fn plain_requests_wait_for_what_they_show() {
    for lanes in [1, 4] {
        let mut rig = gated(lanes);
        assert_eq!(rig.send("get a\r\n"), "END\r\n");
        assert_eq!(rig.send_unread(set("a", 'n', "")), "", "{lanes} lanes");
        assert_eq!(rig.read_log(), "STORED\r\n");
        let several = [
            set("a", 'm', ""),
            "get a\r\n".to_owned(),
            set("b", 'n', " noreply"),
            "get a\r\nget b\r\n".to_owned(),
        ];
        assert_eq!(rig.send_unread(several.concat()), "", "{lanes} lanes");
        let one = |key: &str, byte: char| shown(key, byte) + "END\r\n";
        let want = ["STORED\r\n", &one("a", 'm'), &one("a", 'm'), &one("b", 'n')].concat();
        assert_eq!(rig.read_log(), want, "{lanes} lanes");
    }
}

#[test]
fn a_get_is_counted_once_also_where_it_is_executed_again() {
    let mut rig = filled(1);
    assert_eq!(rig.send_unread(set("key0", 'n', " noreply")), "");
    let gets = "get key1\r\nget key0\r\nget none\r\n";
    let settled = shown("key1", 'o') + "END\r\n";
    assert_eq!(rig.send_unread(gets), settled, "the first shows nothing that is new");
    assert_eq!(rig.read_log(), shown("key0", 'n') + "END\r\nEND\r\n");
    let stats = rig.send("stats\r\n");
    for line in ["STAT cmd_get 3\r\n", "STAT get_hits 2\r\n", "STAT get_misses 1\r\n"] {
        assert!(stats.contains(line), "{line}");
    }
}

#[test]
fn no_part_of_a_long_reply_leaves_before_what_it_shows_has_passed() {
    for (lanes, command) in [(1, "get"), (4, "get"), (1, "gets"), (4, "gat 0")] {
        for new in [0, KEYS / 2, KEYS - 1] {
            let mut rig = filled(lanes);
            assert_eq!(rig.send_unread(set(&key(new), 'n', " noreply")), "");
            let left = rig.send_unread(format!("{command} {}\r\n", all_keys()));
            let case = format!("{lanes} lanes, {command}, {new}");
            assert!(!left.contains(&"n".repeat(VALUE_BYTES)), "{case}");
            let touches = command.starts_with("gat ");
            let may_leave = if touches || new < KEYS / 2 { 0 } else { left.len() };
            assert_eq!(left.len(), may_leave, "{case}");
            let got = left + &rig.read_log();
            if command != "gets" {
                assert!(got == all_shown(new), "{case}");
            }
            assert!(got.ends_with("END\r\n") && rig.flow == Flow::Idle, "{case}");
        }
    }
}

/// How many changes fill the log of a cell while its reader stands still.
fn changes_until_full() -> usize {
    let mut rig = filled(1);
    let full = (0..).find(|at| {
        rig.send_unread(set(&key(at % KEYS), 'f', " noreply"));
        rig.flow == Flow::Parked
    });
    full.expect("a log is bounded")
}

#[test]
fn what_is_written_before_a_request_parks_waits_as_well() {
    // The first changes of the request find space in the log, the later ones do not.
    let changes = changes_until_full() - 6;
    let mut rig = filled(1);
    for at in 0..changes {
        assert_eq!(rig.send_unread(set(&key(at % KEYS), 'o', " noreply")), "");
        assert_eq!(rig.flow, Flow::Idle);
    }
    let left = rig.send_unread(format!("gat 0 none {}\r\n", all_keys()));
    assert_eq!((left.len(), rig.flow), (0, Flow::Parked), "it parks in the middle");
    assert!(rig.read_log() == all_shown(KEYS));
    assert_eq!(rig.flow, Flow::Idle);
}
