//! What replies wait for.

use super::*;
use crate::ring::testing::{first_cell, first_cell_with, formed, only_cell, routes_of};
use crate::testing::NOW;
use engine::{Put, WriteStatus};
use ring::Map;
use session::{Outcome, Passed};

/// At d0 no copy is waited for; above a tier the journal of this cell is, at the highest level of
/// any prefix.
#[test]
fn a_reply_at_d0_waits_for_the_journal_of_its_cell_alone() {
    let cells = [
        (first_cell_with(&["order:=memory"]), true, Passed::Yes),
        (first_cell_with(&["order:=disk"]), true, Passed::No),
        (first_cell(|_| ()), false, Passed::Yes),
    ];
    for (ring, waits, when_written) in cells {
        let mut executor = Executor::new(ring.clone(), WorkerId(0));
        let consistency = Consistency { durability: Durability::D0, ..Consistency::default() };
        let map = Map::new(ring.identity.ring, 1, 1).with_consistency(consistency);
        let routes = routes_of(&ring, &map);
        executor.routes = Some(routes);
        assert_eq!(executor.awaited().is_empty(), !waits);
        let level = Level::new(3).expect("a level");
        executor.is_next(level, Durability::D0, None);
        let worker = &mut executor.inner.worker;
        worker.begin(NOW);
        let put = Put { value: b"v", client_flags: 0, expiry_s: 0 };
        let wrote = worker.set(&ring.cell.engine().key(b"key"), put, NOW);
        assert_eq!(wrote, WriteStatus::Done);
        let replies = worker.replies.as_mut().expect("it keeps a log");
        match replies.outcome() {
            Outcome::Gate { log, seq } => {
                assert!(waits && replies.gate(log, seq) == Passed::No);
                // It is written when the batch ends.
                worker.end();
                let replies = worker.replies.as_mut().expect("it keeps a log");
                assert_eq!(replies.gate(log, seq), when_written);
                let tiered = ring.cell.tiered().expect("it is above a tier");
                (0..2).for_each(|_| tiered.sync(NOW));
                worker.begin(NOW);
                worker.end();
                let replies = worker.replies.as_mut().expect("it keeps a log");
                assert_eq!(replies.gate(log, seq), Passed::Yes);
            }
            _ => assert!(!waits, "it leaves before it is in the journal"),
        }
    }
}

/// Who asks names the slices that the range had: it may have been divided since, or been made one
/// with another, of which nothing is to be ended twice.
#[test]
fn a_flush_ends_what_it_names_and_nothing_of_a_range_that_was_divided_since() {
    let ring = first_cell(|_| ());
    let mut executor = Executor::new(ring.clone(), WorkerId(0));
    ring.set_map(formed(2));
    executor.now = NOW;
    let mut says = |text: &[u8]| {
        let (asked, _) = executor.read(text).expect("it is one");
        let mut reply = Reply::default();
        let _ = executor.execute(&asked, &mut reply);
        String::from_utf8(reply.bytes_mut().clone()).expect("text")
    };
    let flush = |range: std::ops::Range<usize>| {
        flush::text(base::SliceRange::new(range)).expect("it has slices")
    };
    let in_upper = |key: &String| (4_096..8_192).contains(&SliceId::of(key.as_bytes()).index());
    let key = (0..).map(|n| format!("key-{n}")).find(in_upper).expect("there are many");
    let (set, get) = (format!("set {key} 0 0 1\r\n1\r\n"), format!("get {key}\r\n"));
    assert_eq!(says(set.as_bytes()), "STORED\r\n");
    assert_eq!(says(&flush(0..4_096)), "OK\r\n");
    assert!(says(get.as_bytes()).contains("VALUE"), "it is of the other part");
    assert!(says(&flush(0..16_384)).starts_with("SERVER_ERROR a range was divided meanwhile"));
    assert!(says(get.as_bytes()).contains("VALUE"), "nothing is ended");
    assert_eq!(says(&flush(0..8_192)), "OK\r\n");
    assert_eq!(says(get.as_bytes()), "END\r\n");
}

/// A copy has answered a read; what is evicted is chosen here.
#[test]
fn a_use_that_a_copy_names_is_counted_where_the_key_is_led() {
    for (ring, counts) in [(only_cell(), true), (first_cell(|_| ()), false)] {
        let mut executor = Executor::new(ring.clone(), WorkerId(0));
        executor.begin(NOW);
        let worker = &mut executor.inner.worker;
        worker.begin(NOW);
        let (key, put) =
            (ring.cell.engine().key(b"key"), Put { value: b"v", client_flags: 0, expiry_s: 0 });
        assert_eq!(worker.set(&key, put, NOW), WriteStatus::Done);
        executor.count_use(b"key");
        executor.count_use(b"");
        executor.count_use(&[b'k'; 300]);
        let (engine, pin) = executor.inner.worker.engine();
        assert_eq!(engine.peek(pin, &key, NOW).map(|found| found.fetched), Some(counts));
    }
}

/// It has made nothing when it was asked first, and its reply was lost: made now, it would come
/// after what was asked for later.
#[test]
fn a_change_is_not_made_after_a_later_one_of_its_asker() {
    let ring = only_cell();
    let mut executor = Executor::new(ring, WorkerId(0));
    executor.begin(NOW);
    let asker = Asker { cell: ring::CellId(2), life: 1, worker: 0 };
    let mut execute = |id, again, text: &[u8]| {
        let (asked, slice) = executor.read(text).expect("it is one");
        assert!(matches!(executor.leads_asked(slice, &asked), Leads::Yes));
        let (tag, mut reply) = (RequestTag { asker, id, first: 1, again }, Reply::default());
        let executed = executor.execute_once((&asked, slice), (&tag, true), &mut reply);
        let is_overtaken = matches!(executed, Executed::Overtaken);
        (is_overtaken, String::from_utf8(reply.bytes_mut().clone()).expect("text"))
    };
    let (delete, set) = (&b"delete key\r\n"[..], &b"set key 0 0 1\r\n1\r\n"[..]);
    assert_eq!(execute(1, 0, delete), (false, "NOT_FOUND\r\n".to_owned()));
    assert_eq!(execute(2, 0, set), (false, "STORED\r\n".to_owned()));
    assert_eq!(execute(1, 1, delete), (true, String::new()));
    assert_eq!(execute(2, 1, set), (false, "STORED\r\n".to_owned()), "it is answered again");
    assert_eq!(execute(3, 1, delete), (false, "DELETED\r\n".to_owned()), "it comes after all");
}
