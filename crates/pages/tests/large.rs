//! Many pages at once: what is left over does not pile up, and one request that fails of many does
//! not undo the others.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use measure::rng::Rng;
use pages::{Call, Fault, MemoryObjects, Pages, PagesConfig};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tier::{Backend, BackendError, Change, Failure};

const KEYS: u32 = 10_000;

fn begun(objects: &Arc<MemoryObjects>, apart_from: usize) -> Pages {
    let config = PagesConfig { page_bytes: 600, apart_from, cache_bytes: 2_000 };
    let pages = Pages::open(objects.clone(), config).unwrap();
    pages.begin().unwrap();
    pages
}

/// Pages that shrink are joined, whether their neighbours change too or not.
#[test]
fn pages_that_have_shrunk_are_joined() {
    for at_once in [1, 7, 500] {
        let objects = Arc::new(MemoryObjects::new());
        let pages = begun(&objects, 150);
        put_all(&pages, 7).unwrap();
        let first = objects.names("page/").len();
        let keys: Vec<Vec<u8>> =
            (0..KEYS).map(|number| format!("key/{number}").into_bytes()).collect();
        let before = objects.calls();
        // One of ten stays.
        let rest = keys.chunks(10).flat_map(|ten| &ten[1..]);
        let rest: Vec<_> = rest.map(|key| Change::Delete { key }).collect();
        let calls = rest.chunks(at_once).map(|changes| pages.apply(changes).unwrap()).count();
        let (after, mut now) = (objects.calls(), 0);
        while now != objects.names("page/").len() {
            now = objects.names("page/").len();
            pages.tidy();
        }
        assert!(now * 4 <= first, "{at_once} at once: {now} pages, {first} before");
        // A page is read for each that is written, and one more at most.
        let (read, written) = (after.read - before.read, after.created - before.created);
        assert!(read <= 2 * written, "{read} reads, {written} writes, {calls} calls");
        for (number, key) in keys.iter().enumerate() {
            let mut record = Vec::new();
            let is_there = pages.get(key, &mut record).unwrap();
            assert_eq!(
                (is_there, is_there && record == [7; 30]),
                (number % 10 == 0, number % 10 == 0)
            );
        }
    }
}

fn put_all(pages: &Pages, fill: u8) -> Result<(), BackendError> {
    let keys: Vec<Vec<u8>> = (0..KEYS).map(|number| format!("key/{number}").into_bytes()).collect();
    let record = [fill; 30];
    let changes: Vec<_> = keys.iter().map(|key| Change::Put { key, record: &record }).collect();
    let applied = pages.apply(&changes);
    pages.tidy();
    applied
}

/// Deletes that are refused are tried less and less often, and again once they are not.
#[test]
fn deletes_that_are_refused_wait_longer_and_longer() {
    let objects = Arc::new(MemoryObjects::new());
    let pages = begun(&objects, 150);
    put_all(&pages, 0).unwrap();
    let (first, calls) = (objects.names("page/").len(), Arc::new(AtomicU64::new(0)));
    let refused = calls.clone();
    objects.set_faults(move |call, _| {
        let is_delete = call == Call::Delete;
        refused.fetch_add(is_delete.into(), Ordering::Relaxed);
        is_delete.then_some(Fault::Refused(Failure::Transient))
    });
    put_all(&pages, 1).unwrap();
    let once = calls.load(Ordering::Relaxed);
    (0..128).for_each(|_| pages.tidy());
    let all = calls.load(Ordering::Relaxed);
    assert!(once > 0 && all <= once * 8, "{all} deletes, {once} at first");
    objects.set_faults(|_, _| None);
    (0..128).for_each(|_| pages.tidy());
    assert_eq!(objects.names("page/").len(), first);
}

#[test]
fn what_is_left_over_does_not_pile_up() {
    for (apart_from, prefix) in [(150, "page/"), (0, "value/")] {
        let objects = Arc::new(MemoryObjects::new());
        let pages = begun(&objects, apart_from);
        put_all(&pages, 0).unwrap();
        let first = objects.names(prefix).len();
        assert!(first > 1_000, "{first}");
        for round in 1..15 {
            put_all(&pages, round).unwrap();
        }
        let [of_kind, maps] = [prefix, "map/"].map(|it| objects.names(it).len());
        assert!(of_kind <= 2 * first && maps <= 128, "{prefix}: {of_kind} of {first}, {maps} maps");
    }
}

#[test]
fn of_thousands_of_requests_some_may_fail() {
    let objects = Arc::new(MemoryObjects::new());
    let pages = begun(&objects, 150);
    put_all(&pages, 0).unwrap();
    let first = objects.names("page/").len();
    let mut rng = Rng::new(9, 0);
    objects.set_faults(move |call, name| {
        let is_of_page = matches!(call, Call::Create | Call::Get) && name.starts_with("page/");
        (is_of_page && rng.below(200) == 0).then_some(match rng.below(2) {
            0 => Fault::Refused(Failure::Transient),
            _ => Fault::Unanswered,
        })
    });
    let applied = (1..11).filter(|round| put_all(&pages, *round).is_ok()).count();
    assert!(applied >= 8, "{applied} of 10");
    let now = objects.names("page/").len();
    assert!(now <= 3 * first, "{now} pages, {first} at first");
}
