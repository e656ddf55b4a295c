//! Who is asked for a read that copies may answer, and which of their answers count.

use super::super::flush;
use super::*;
use crate::ring::keeping::Keeper;
use crate::ring::testing::{first_cell, formed};
use crate::testing::NOW;
use base::SliceId;
use peer::Decoder;
use ring::Map;
use session::ConnId;
use session::Ticket;
use std::collections::BTreeMap;

const PRIMARY: CellId = CellId(2);
const COPY: CellId = CellId(3);

/// A worker of the first cell of three, with links to the others, and a key that cell 2 leads and
/// cell 3 copies.
fn jobs() -> (Jobs, String) {
    let ring = first_cell(|_| ());
    let (map, before) = (formed(3), Arc::new(Map::new(7, 3, 2)));
    Keeper::new(ring.clone(), before, NOW).adopt(map.clone(), BTreeMap::new(), NOW);
    let is_right = |key: &String| {
        let range = map.range_of(SliceId::of(key.as_bytes()));
        range.is_some_and(|range| range.primary == PRIMARY && range.copies == [COPY])
    };
    let key = (0..).map(|n| format!("key-{n}")).find(is_right).expect("there are many");
    let mut jobs = Jobs::new(ring, WorkerId(0));
    jobs.executor.begin(NOW);
    for cell in [PRIMARY, COPY] {
        let conn = ConnId { worker: WorkerId(0), index: cell.0, generation: 0 };
        assert!(jobs.peers.opens(cell, NOW.mono_ns) && jobs.peers.connected(cell, conn));
        assert!(jobs.peers.opened((cell, 1), (conn, peer::COPIES_READ), NOW.mono_ns));
    }
    (jobs, key)
}

fn get(jobs: &Jobs, key: &str) -> Job {
    let what = (format!("get {key}\r\n").into_bytes(), SliceId::of(key.as_bytes()));
    Job::new(Origin::Nobody, what, Repeat::Always, jobs.due_ns()).for_copies(250, None)
}

/// What was sent to `cell`: the ids, and of reads how old they may be and by which map.
fn sent(jobs: &mut Jobs, cell: CellId) -> Vec<(u64, Option<(u16, u64)>)> {
    let (mut bytes, mut at, mut frames) = (Vec::new(), 0, Vec::new());
    jobs.peers.send(cell, &mut bytes);
    while let Some((frame, used)) = Decoder::new(1 << 20).decode(&bytes[at..]).expect("frames") {
        at += used;
        frames.push(match frame {
            Frame::Read { id, age_ms, map_version, .. } => (id, Some((age_ms, map_version))),
            Frame::Request { id, .. } => (id, None),
            Frame::Used { .. } => continue,
            other => panic!("{other:?}"),
        });
    }
    frames
}

#[test]
fn a_copy_is_asked_where_fewer_requests_wait_than_at_the_primary() {
    let (mut jobs, key) = jobs();
    let version = jobs.executor.version();
    for _ in 0..4 {
        let job = get(&jobs, &key);
        jobs.dispatch(job);
    }
    assert_eq!(sent(&mut jobs, PRIMARY).len(), 2);
    let to_copy = sent(&mut jobs, COPY);
    assert_eq!(to_copy.iter().map(|it| it.1).collect::<Vec<_>>(), [Some((250, version)); 2]);
    // A change that is on its way comes before what is read after it.
    let what = (format!("delete {key}\r\n").into_bytes(), SliceId::of(key.as_bytes()));
    jobs.dispatch(Job::new(Origin::Nobody, what, Repeat::ById, jobs.due_ns()));
    for _ in 0..4 {
        let job = get(&jobs, &key);
        jobs.dispatch(job);
    }
    assert_eq!(sent(&mut jobs, COPY), []);
    let to_primary = sent(&mut jobs, PRIMARY);
    assert_eq!(to_primary.len(), 5);
    assert_eq!(to_primary[1].1, Some((0, version)), "a copy may have shown more");
}

/// It may give the token of a stale item, and changes nothing that a copy could show.
#[test]
fn a_meta_get_on_its_way_is_no_change() {
    let (mut jobs, key) = jobs();
    for _ in 0..4 {
        let job = Job { repeat: Repeat::Never, ..get(&jobs, &key) };
        jobs.dispatch(job);
    }
    assert_eq!([PRIMARY, COPY].map(|cell| jobs.asked.at(cell)), [2, 2]);
}

#[test]
fn the_next_request_to_the_primary_says_which_keys_copies_have_answered() {
    let (mut jobs, key) = jobs();
    for _ in 0..40 {
        let job = get(&jobs, &key);
        jobs.dispatch(job);
        // The copy is quick, and the primary never answers.
        let version = jobs.executor.version();
        for (id, _) in sent(&mut jobs, COPY) {
            jobs.answered(COPY, (id, 0), (Verdict::Done, version), b"END\r\n");
        }
    }
    assert_eq!(jobs.asked.at(PRIMARY), 1, "the first one");
    let what = (format!("delete {key}\r\n").into_bytes(), SliceId::of(key.as_bytes()));
    let (mut bytes, mut at, mut used) = (Vec::new(), 0, 0);
    jobs.dispatch(Job::new(Origin::Nobody, what, Repeat::ById, jobs.due_ns()));
    jobs.peers.send(PRIMARY, &mut bytes);
    while let Some((frame, len)) = Decoder::new(1 << 20).decode(&bytes[at..]).expect("frames") {
        at += len;
        used += usize::from(frame == Frame::Used { key: key.as_bytes() });
    }
    assert_eq!(used, 39 / 16);
}

#[test]
fn an_answer_of_a_copy_counts_if_its_map_is_known_and_else_the_primary_is_asked() {
    let own = jobs().0.executor.version();
    for (verdict, version, counts) in [
        (Verdict::Done, own, true),
        (Verdict::Done, own - 1, true),
        (Verdict::Done, own + 1, false),
        (Verdict::NotOwner, own, false),
    ] {
        let (mut jobs, key) = jobs();
        for _ in 0..2 {
            let job = get(&jobs, &key);
            jobs.dispatch(job);
        }
        sent(&mut jobs, PRIMARY);
        let id = sent(&mut jobs, COPY)[0].0;
        jobs.answered(COPY, (id, 0), (verdict, version), b"END\r\n");
        assert_eq!(sent(&mut jobs, PRIMARY).len(), usize::from(!counts), "{verdict:?} {version}");
        assert_eq!(jobs.asked.at(COPY), 0);
    }
}

/// A copy that the primary has dropped, and that does not know it, has an older map.
#[test]
fn only_copies_are_asked_that_have_the_map_of_what_was_answered_before() {
    let (mut jobs, key) = jobs();
    let version = jobs.executor.version();
    let job = get(&jobs, &key);
    jobs.dispatch(job);
    let id = sent(&mut jobs, PRIMARY)[0].0;
    jobs.answered(PRIMARY, (id, 0), (Verdict::Done, version + 3), b"END\r\n");
    for _ in 0..2 {
        let job = get(&jobs, &key);
        jobs.dispatch(job);
    }
    assert_eq!(sent(&mut jobs, COPY)[0].1, Some((250, version + 3)));
}

#[test]
fn a_link_to_a_copy_is_opened_before_it_is_needed_and_a_broken_one_loses_no_read() {
    let (mut jobs, key) = jobs();
    let conn = ConnId { worker: WorkerId(0), index: COPY.0, generation: 0 };
    for _ in 0..2 {
        let job = get(&jobs, &key);
        jobs.dispatch(job);
    }
    assert_eq!(jobs.asked.at(COPY), 1);
    jobs.orders.clear();
    jobs.lost(COPY, Some(conn));
    jobs.executor.now.mono_ns += 1_000_000_000;
    jobs.tend();
    assert_eq!((jobs.asked.at(COPY), jobs.asked.at(PRIMARY)), (0, 2), "the primary is asked");
    let is_opened = |order: &Order| {
        let purpose = Role::Asks(COPY).number();
        matches!(order, Order::Connect { purpose: of, .. } if *of == purpose)
    };
    assert!(jobs.orders.iter().any(is_opened));
}

/// A connection, and its read of `key`.
fn get_of(jobs: &Jobs, index: u32, key: &str) -> Job {
    let conn = ConnId { worker: WorkerId(0), index: 100 + index, generation: 0 };
    get(jobs, key).for_copies(250, Some(conn))
}

#[test]
fn the_reads_of_a_connection_about_a_key_go_to_one_cell() {
    let (mut jobs, key) = jobs();
    // The first connection is at the primary, the second one at the copy.
    for index in [0, 1, 0, 1, 0, 1, 1] {
        let job = get_of(&jobs, index, &key);
        jobs.dispatch(job);
    }
    let count = |jobs: &Jobs| [PRIMARY, COPY].map(|cell| jobs.asked.at(cell));
    assert_eq!(count(&jobs), [3, 4]);
    sent(&mut jobs, PRIMARY);
    let ids: Vec<_> = sent(&mut jobs, COPY).into_iter().map(|it| it.0).collect();
    let version = jobs.executor.version();
    jobs.answered(COPY, (ids[0], 0), (Verdict::Done, version), b"END\r\n");
    // What follows one that the copy refuses is asked of the primary after that one.
    jobs.answered(COPY, (ids[1], 0), (Verdict::NotOwner, version), b"");
    assert_eq!((count(&jobs), sent(&mut jobs, PRIMARY).len()), ([6, 0], 3));
    jobs.answered(COPY, (ids[2], 0), (Verdict::Done, version), b"END\r\n");
    assert_eq!(count(&jobs), [6, 0], "it comes too late");
    let job = get_of(&jobs, 1, &key);
    jobs.dispatch(job);
    assert_eq!(count(&jobs), [7, 0]);
}

/// Also one that only the primary may answer.
#[test]
fn a_read_of_the_primary_comes_after_those_that_its_connection_has_at_a_copy() {
    let (mut jobs, key) = jobs();
    for index in [0, 1, 1] {
        let job = get_of(&jobs, index, &key);
        jobs.dispatch(job);
    }
    let conn = ConnId { worker: WorkerId(0), index: 101, generation: 0 };
    let strict = get(&jobs, &key).for_primary();
    let origin = Origin::Client(Ticket { conn, request: 9 });
    sent(&mut jobs, PRIMARY);
    jobs.dispatch(Job { origin, is_read: false, ..strict });
    let to_primary = sent(&mut jobs, PRIMARY);
    assert_eq!((jobs.asked.at(COPY), to_primary.len()), (0, 3));
    assert!(to_primary.is_sorted_by_key(|it| it.0));
}

#[test]
fn a_flush_on_its_way_comes_before_any_read() {
    let (mut jobs, key) = jobs();
    let text = flush::text(base::SliceRange::new(9..12)).expect("it has slices");
    let what = (text, SliceId::new(9).expect("a slice"));
    jobs.ask(PRIMARY, Job::new(Origin::Nobody, what, Repeat::Never, jobs.due_ns()));
    for _ in 0..4 {
        let job = get(&jobs, &key);
        jobs.dispatch(job);
    }
    assert_eq!([PRIMARY, COPY].map(|cell| jobs.asked.at(cell)), [5, 0]);
}

#[test]
fn the_primary_is_asked_where_a_copy_does_not_answer() {
    let (mut jobs, key) = jobs();
    for _ in 0..2 {
        let job = get(&jobs, &key);
        jobs.dispatch(job);
    }
    jobs.executor.now.mono_ns += COPY_ANSWERS_NS;
    jobs.tend();
    assert_eq!([PRIMARY, COPY].map(|cell| jobs.asked.at(cell)), [2, 0]);
}
