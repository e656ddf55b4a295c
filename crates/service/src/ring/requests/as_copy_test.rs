//! A copy answers what it knows to be confirmed and young enough, and nothing else.

use super::*;
use crate::ring::copies::{Exchange, Reach, Tail};
use crate::ring::keeping::Keeper;
use crate::ring::testing::{first_cell, formed};
use crate::testing::NOW;
use base::{Change, Effect, Facts, Removal, SliceId, Value, Version};
use ring::{CellId, Map};
use session::WorkerId;
use std::collections::BTreeMap;
use std::sync::Arc;

const PRIMARY: CellId = CellId(2);
const MS: u64 = 1_000_000;
const AT: Now = Now { mono_ns: 10_000 * MS, ..NOW };

/// A worker of the first cell of two, and a key that the other one leads.
fn copying() -> (Executor, String) {
    copying_since(NOW)
}

/// The same, which has seen since then who leads what.
fn copying_since(now: Now) -> (Executor, String) {
    let ring = first_cell(|_| ());
    let (map, before) = (formed(2), Arc::new(Map::new(7, 2, 2)));
    Keeper::new(ring.clone(), before, now).adopt(map.clone(), BTreeMap::new(), now);
    let is_copied = |key: &String| {
        let range = map.range_of(SliceId::of(key.as_bytes()));
        range.is_some_and(|range| range.primary == PRIMARY)
    };
    let key = (0..).map(|n| format!("key-{n}")).find(is_copied).expect("there are many");
    let mut executor = Executor::new(ring, WorkerId(0));
    executor.begin(AT);
    (executor, key)
}

/// Applies a change of `key` that the primary has made.
fn applies(executor: &mut Executor, key: &str, change: Change<'_>, counter: u64) {
    let effect = Effect { key: key.as_bytes(), change };
    let at = (SliceId::of(key.as_bytes()), Version::new(1, counter));
    executor.inner.worker.begin(NOW);
    let applied = executor.inner.worker.apply(at, &effect, NOW);
    assert!(matches!(applied, engine::Applied::Done), "{applied:?}");
}

fn put(expiry_s: u32) -> Change<'static> {
    let facts = Facts { expiry_s, ..Facts::default() };
    Change::Put(Value::Parts([b"v", b""]), facts)
}

/// The primary had the heartbeat of `ago_ns` before now when it still waited for this copy.
fn grant(executor: &Executor, ago_ns: u64) {
    let from_ns = AT.mono_ns - ago_ns;
    let (map_version, second) = (0, AT.expiry_s);
    let granted = Granted { from_ns, map_version, shown_s: second, may_show_s: second };
    executor.ring.granted(PRIMARY, granted);
}

fn says(executor: &mut Executor, text: &str, age_ms: u16) -> Option<String> {
    let mut reply = Reply::new();
    let is_answered = answer(executor, text.as_bytes(), age_ms, &mut reply);
    let text = String::from_utf8(std::mem::take(reply.bytes_mut())).expect("text");
    assert!(is_answered || text.is_empty(), "{text}");
    is_answered.then_some(text)
}

#[test]
fn an_answer_is_no_older_than_the_primary_allows_and_the_client_wants() {
    let (mut executor, key) = copying();
    applies(&mut executor, &key, put(0), 5);
    let (get, hit) = (format!("get {key}\r\n"), format!("VALUE {key} 0 1\r\nv\r\nEND\r\n"));
    assert_eq!(says(&mut executor, &get, 250), None, "the primary has granted nothing");
    for (ago_ms, age_ms, is_answered) in
        [(0, 11, true), (100, 110, false), (100, 111, true), (239, 250, true), (240, 9999, false)]
    {
        grant(&executor, ago_ms * MS);
        let said = says(&mut executor, &get, age_ms);
        assert_eq!(said, is_answered.then(|| hit.clone()), "{ago_ms} {age_ms}");
    }
    grant(&executor, 0);
    assert_eq!(says(&mut executor, &format!("gat 0 {key}\r\n"), 250), None);
    assert_eq!(
        says(&mut executor, &format!("mg {key} v\r\n"), 250).as_deref(),
        Some("VA 1\r\nv\r\n")
    );
    let now_ns = AT.mono_ns;
    assert!(!executor.may_answer(|| Now { mono_ns: now_ns + 250 * MS, ..AT }), "it has come late");
    assert!(executor.may_answer(|| Now { mono_ns: u64::MAX, ..AT }), "nothing was read since");
    executor.begin(AT);
    let (shown_s, may_show_s) = (AT.expiry_s, AT.expiry_s);
    let map_version = executor.version() + 1;
    let from_ns = AT.mono_ns;
    let granted = Granted { from_ns, map_version, shown_s, may_show_s };
    executor.ring.granted(PRIMARY, granted);
    assert_eq!(says(&mut executor, &get, 250), None, "by a newer map");
}

#[test]
fn what_other_copies_may_lack_and_what_is_dropped_is_not_shown() {
    let (mut executor, key) = copying();
    applies(&mut executor, &key, put(0), 5);
    grant(&executor, 0);
    let (ring, get) = (executor.ring.clone(), format!("get {key}\r\n"));
    let (origin, _) = ring.origins.open(PRIMARY, (0, 1), 1, 0).expect("the first");
    let unsettled = |is| origin.lock(0).expect("a lane").unsettled.set(is);
    unsettled(true);
    assert_eq!(says(&mut executor, &get, 250), None);
    unsettled(false);
    assert!(says(&mut executor, &get, 250).is_some());
    // A new primary has not exchanged yet what each has.
    let tail = Tail { reaches: vec![Reach { from: 0, last: 0 }], ..Tail::nothing(PRIMARY) };
    let map = formed(2);
    let range = map.range_of(SliceId::of(key.as_bytes())).expect("one");
    let exchange = Exchange::new((2, range.slices()), &tail, &[PRIMARY], true);
    ring.exchanges.begin(range.id, exchange);
    assert_eq!(says(&mut executor, &get, 250), None);
    ring.exchanges.end(range.id);
    assert!(says(&mut executor, &get, 250).is_some());
    ring.origins.accept(range.slices(), (PRIMARY, 0), 2);
    assert_eq!(says(&mut executor, &get, 250), None, "of another epoch than the map's");
    ring.origins.seal(range.slices());
    assert_eq!(says(&mut executor, &get, 250), None, "it copies it no more");
}

#[test]
fn what_has_expired_at_one_of_two_seconds_is_not_shown() {
    let (mut executor, key) = copying();
    let second = AT.expiry_s;
    let get = format!("get {key}\r\n");
    let cases =
        [(second + 9, Some(true)), (second + 2, None), (second + 1, None), (second, Some(false))];
    for ((expiry_s, said), counter) in cases.into_iter().zip(5..) {
        applies(&mut executor, &key, put(expiry_s), counter);
        let (shown_s, may_show_s) = (second, second + 2);
        let (from_ns, map_version) = (AT.mono_ns, 0);
        let granted = Granted { from_ns, map_version, shown_s, may_show_s };
        executor.ring.granted(PRIMARY, granted);
        let is_hit = says(&mut executor, &get, 250).map(|text| text != "END\r\n");
        assert_eq!(is_hit, said, "it expires {} s later", expiry_s - second);
    }
    applies(&mut executor, &key, Change::Remove(Removal::Deleted), 99);
    assert_eq!(says(&mut executor, &get, 250).as_deref(), Some("END\r\n"));
}

#[test]
fn only_the_primary_gives_the_token_of_a_stale_item() {
    let (mut executor, key) = copying();
    let facts = Facts { stale: true, ..Facts::default() };
    applies(&mut executor, &key, Change::Put(Value::Parts([b"v", b""]), facts), 5);
    grant(&executor, 0);
    assert_eq!(says(&mut executor, &format!("mg {key} v\r\n"), 250), None);
    assert!(says(&mut executor, &format!("get {key}\r\n"), 250).is_some());
}

/// The primary may hold back what the copy has, until the one before answers nothing any more.
#[test]
fn a_copy_answers_nothing_for_a_while_after_a_promotion() {
    for (ago_ms, is_answered) in [(299, false), (300, true)] {
        let since = Now { mono_ns: AT.mono_ns - ago_ms * MS, ..AT };
        let (mut executor, key) = copying_since(since);
        applies(&mut executor, &key, put(0), 5);
        grant(&executor, 0);
        let said = says(&mut executor, &format!("get {key}\r\n"), 250);
        assert_eq!(said.is_some(), is_answered, "{ago_ms}");
    }
}

/// Clocks that are far apart do not follow each other.
#[test]
fn what_the_primary_has_shown_as_expired_is_not_there_again() {
    let (mut executor, key) = copying();
    applies(&mut executor, &key, put(AT.expiry_s + 5), 5);
    let (from_ns, map_version) = (AT.mono_ns, 0);
    let (shown_s, may_show_s) = (AT.expiry_s + 9, AT.expiry_s);
    executor.ring.granted(PRIMARY, Granted { from_ns, map_version, shown_s, may_show_s });
    let said = says(&mut executor, &format!("get {key}\r\n"), 250);
    assert_eq!(said.as_deref(), Some("END\r\n"));
}
