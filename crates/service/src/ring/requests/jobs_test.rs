//! What a client reads where the cell that leads its key does not execute the request.

use super::*;
use crate::ring::keeping::Keeper;
use crate::ring::testing::{first_cell, formed};
use crate::testing::NOW;
use base::Now;
use ring::Map;
use session::ConnId;
use session::Ticket;
use std::collections::BTreeMap;

const OTHER: CellId = CellId(2);

/// A worker of the first cell of two, and a slice that the other one leads.
fn jobs() -> (Jobs, SliceId) {
    let ring = first_cell(|_| ());
    let (map, before) = (formed(2), Arc::new(Map::new(7, 2, 2)));
    Keeper::new(ring.clone(), before, NOW).adopt(map.clone(), BTreeMap::new(), NOW);
    let led = map.ranges.iter().find(|range| range.primary == OTHER).expect("one");
    let slice = led.slices().iter().next().expect("it has slices");
    let mut jobs = Jobs::new(ring, WorkerId(0));
    jobs.executor.begin(NOW);
    (jobs, slice)
}

/// What a client reads in the end whose request was answered so by the other cell.
fn answer_of(answer: Option<(Verdict, &[u8])>) -> String {
    let (mut jobs, slice) = jobs();
    let conn = ConnId { worker: WorkerId(0), index: 0, generation: 0 };
    let origin = Origin::Client(Ticket { conn, request: 1 });
    let due_ns = jobs.due_ns();
    let job = Job::new(origin, (b"get a\r\n".to_vec(), slice), Repeat::Always, due_ns);
    match answer {
        None => jobs.again.push(job),
        Some((verdict, text)) => {
            let id = jobs.asked.next_id();
            jobs.asked.add(id, (OTHER, job), jobs.now_ns());
            jobs.answered(OTHER, (id, 0), (verdict, 0), text);
        }
    }
    jobs.executor.now = Now { mono_ns: due_ns, ..NOW };
    jobs.tend();
    let Some(Order::Complete(completions)) = jobs.take_order() else { panic!("no answer") };
    let texts = completions.iter().map(|(_, text, _)| text).collect::<Vec<_>>().concat();
    String::from_utf8(texts).expect("a line")
}

#[test]
fn what_waits_for_an_earlier_request_gets_the_reason_of_that() {
    let (mut jobs, _) = jobs();
    let map = jobs.executor.ring.map();
    let led = map.ranges.iter().find(|range| range.primary != OTHER).expect("one");
    let mut keys = (0..).map(|number| format!("key{number}"));
    let key = keys.find(|key| led.slices().contains(SliceId::of(key.as_bytes())));
    let key = key.expect("there are many");
    let slice = SliceId::of(key.as_bytes());
    let conn = ConnId { worker: WorkerId(0), index: 0, generation: 0 };
    let due_ns = jobs.due_ns();
    for request in 1..=2 {
        let origin = Origin::Client(Ticket { conn, request });
        let text = format!("get {key}\r\n").into_bytes();
        jobs.dispatch(Job::new(origin, (text, slice), Repeat::Always, due_ns));
    }
    jobs.tend();
    jobs.executor.now = Now { mono_ns: due_ns, ..NOW };
    jobs.tend();
    let Some(Order::Complete(completions)) = jobs.take_order() else { panic!("no answer") };
    let reasons = completions.iter().map(|(_, text, _)| String::from_utf8_lossy(text));
    let reasons: Vec<_> = reasons.collect();
    assert_eq!(reasons.len(), 2);
    for reason in reasons {
        assert!(reason.contains("this cell leads it, but its copies are silent"), "{reason}");
    }
}

#[test]
fn the_error_names_the_reason_of_the_cell_that_leads_the_range() {
    let range = "SERVER_ERROR range 2 cannot be served: cell 2";
    let line = |rest: &str| format!("{range} {rest}\r\n");
    assert_eq!(answer_of(None), line("leads it and cannot be reached"));
    let refused = |why: NotNow| answer_of(Some((Verdict::NotOwner, &why.text())));
    let full = line("leads it, but its log, its memory or a journal is full");
    assert_eq!(refused(NotNow::NoRoom), full);
    assert_eq!(refused(NotNow::NotLed), line("has not begun to lead it"));
    let silent = answer_of(Some((Verdict::NotOwner, b"")));
    assert_eq!(silent, line("leads it, but does not execute requests"), "an earlier release");
}

/// The other cell may not lead the range for seconds, and has to find out meanwhile what it has.
#[test]
fn what_is_not_led_yet_is_asked_less_and_less_often_until_the_map_changes() {
    let (mut jobs, slice) = jobs();
    let start_ns = jobs.now_ns();
    let due_ns = jobs.due_ns();
    let job = Job::new(Origin::Nobody, (b"get a\r\n".to_vec(), slice), Repeat::Always, due_ns);
    let refuse = |jobs: &mut Jobs, why: NotNow| {
        let id = jobs.asked.next_id() - 1;
        jobs.answered(OTHER, (id, 0), (Verdict::NotOwner, 0), &why.text());
        assert_eq!((jobs.asked.len(), jobs.again.len()), (0, 1));
    };
    // In milliseconds, when it is asked, each of which is looked at.
    let asked_at = |jobs: &mut Jobs, times: std::ops::Range<u64>, why| {
        let mut asked = Vec::new();
        for ms in times {
            jobs.executor.now.mono_ns = start_ns + ms * 1_000_000;
            jobs.tend();
            if jobs.asked.len() == 1 {
                asked.push(ms);
                refuse(jobs, why);
            }
        }
        asked
    };
    jobs.dispatch(job);
    refuse(&mut jobs, NotNow::NotLed);
    assert_eq!(asked_at(&mut jobs, 1..40, NotNow::NoLease), [2, 6, 14, 22, 30, 38]);
    let mut newer = Map::clone(&formed(2));
    newer.version += 1;
    let mut keeper = Keeper::new(jobs.executor.ring.clone(), formed(2), NOW);
    keeper.adopt(Arc::new(newer), BTreeMap::new(), NOW);
    jobs.executor.takes_routes();
    assert_eq!(asked_at(&mut jobs, 40..60, NotNow::NotLed), [40, 42, 46, 54]);
    // What waits for room is asked as often as all is looked at.
    assert_eq!(asked_at(&mut jobs, 70..74, NotNow::NoRoom), [70, 71, 72, 73]);
    // At its deadline it ends, however long it would rest.
    asked_at(&mut jobs, 74..1_000, NotNow::NotLed);
    jobs.executor.now.mono_ns = due_ns;
    jobs.tend();
    assert_eq!((jobs.asked.len(), jobs.again.len()), (0, 0));
}

/// What goes out to the other cell: the texts of requests, each with how often it was asked before,
/// and how many refusals are known.
fn sent(jobs: &mut Jobs) -> Vec<String> {
    let (mut out, decoder) = (Vec::new(), peer::Decoder::new(1 << 20));
    jobs.peers.send(OTHER, &mut out);
    let (mut at, mut frames) = (0, Vec::new());
    while let Some((frame, bytes)) = decoder.decode(&out[at..]).expect("it is whole") {
        at += bytes;
        frames.push(match frame {
            Frame::Request { text, again, .. } => {
                format!("{} {again}", String::from_utf8_lossy(text).trim_end())
            }
            Frame::Refusals { count } => format!("knows of {count}"),
            other => panic!("{other:?}"),
        });
    }
    frames
}

/// Two changes of a slice, sent together, stay in their order where the first is refused.
#[test]
fn what_was_sent_after_a_refused_request_is_asked_again_after_it() {
    let conn = ConnId { worker: WorkerId(0), index: 0, generation: 0 };
    for features in [peer::KEEPS_ORDER, 0] {
        let (mut jobs, slice) = jobs();
        let other = SliceId::new(slice.index() + 1).expect("it leads more than one");
        let due_ns = jobs.due_ns();
        let ask = |jobs: &mut Jobs, text: &str, slice| {
            let what = (text.as_bytes().to_vec(), slice);
            jobs.dispatch(Job::new(Origin::Nobody, what, Repeat::ById, due_ns));
        };
        ask(&mut jobs, "one\r\n", slice);
        assert!(jobs.peers.connected(OTHER, conn));
        assert!(jobs.peers.opened((OTHER, 1), (conn, features), NOW.mono_ns));
        ask(&mut jobs, "two\r\n", slice);
        ask(&mut jobs, "other\r\n", other);
        assert_eq!(sent(&mut jobs), ["one 0", "two 0", "other 0"]);
        jobs.answered(OTHER, (1, 0), (Verdict::NotOwner, 0), &NotNow::NoRoom.text());
        ask(&mut jobs, "three\r\n", slice);
        jobs.tend();
        let expected: &[&str] = match features {
            0 => &["one 1", "three 0"],
            _ => &["knows of 1", "one 1", "two 1", "three 0"],
        };
        assert_eq!(sent(&mut jobs), expected);
        // The reply to the first time, which is late, is none to the second.
        jobs.answered(OTHER, (2, 0), (Verdict::NotOwner, 0), &NotNow::Unknown.text());
        let waiting = if features == 0 { (3, 1) } else { (4, 0) };
        assert_eq!((jobs.asked.len(), jobs.again.len()), waiting);
    }
}

/// A worker that has sent two changes of a slice on a link that has opened.
fn two_sent() -> Jobs {
    let conn = ConnId { worker: WorkerId(0), index: 0, generation: 0 };
    let (mut jobs, slice) = jobs();
    let due_ns = jobs.due_ns();
    for text in ["one\r\n", "two\r\n"] {
        let what = (text.as_bytes().to_vec(), slice);
        jobs.dispatch(Job::new(Origin::Nobody, what, Repeat::ById, due_ns));
    }
    assert!(jobs.peers.connected(OTHER, conn));
    assert!(jobs.peers.opened((OTHER, 1), (conn, peer::KEEPS_ORDER), NOW.mono_ns));
    assert_eq!(sent(&mut jobs), ["one 0", "two 0"]);
    jobs
}

/// It gets another id, later than those of the changes that follow it: so they get others, too.
#[test]
fn what_follows_a_forgotten_change_gets_another_id_after_it() {
    // The second is refused before or after all is begun again.
    for answers_second in [true, false] {
        let mut jobs = two_sent();
        jobs.answered(OTHER, (1, 0), (Verdict::Forgotten, 0), b"");
        if answers_second {
            jobs.answered(OTHER, (2, 0), (Verdict::NotOwner, 0), &NotNow::NoRoom.text());
        }
        jobs.tend();
        let knows = if answers_second { "knows of 2" } else { "knows of 1" };
        assert_eq!(sent(&mut jobs), [knows, "one 0", "two 0"], "asked for the first time");
    }
}

#[test]
fn what_rests_after_a_forgotten_change_gets_another_id_too() {
    let mut jobs = two_sent();
    jobs.answered(OTHER, (1, 0), (Verdict::NotOwner, 0), &NotNow::NoRoom.text());
    jobs.answered(OTHER, (2, 0), (Verdict::NotOwner, 0), &NotNow::NotLed.text());
    jobs.tend();
    assert_eq!(sent(&mut jobs), ["knows of 2", "one 1"], "the second rests");
    jobs.answered(OTHER, (1, 1), (Verdict::Forgotten, 0), b"");
    jobs.executor.now.mono_ns += 2_000_000;
    jobs.tend();
    assert_eq!(sent(&mut jobs), ["knows of 3", "one 0", "two 0"], "asked for the first time");
}

/// One that may have been executed ends in doubt where it is forgotten, and is not asked again.
#[test]
fn what_is_asked_after_a_forgotten_change_is_not_taken_back() {
    let conn = |index| ConnId { worker: WorkerId(0), index, generation: 0 };
    // The third is asked before or after that is dealt with.
    for is_early in [true, false] {
        let (mut jobs, slice) = jobs();
        let due_ns = jobs.due_ns();
        let ask = |jobs: &mut Jobs, text: &str| {
            let what = (text.as_bytes().to_vec(), slice);
            jobs.dispatch(Job::new(Origin::Nobody, what, Repeat::ById, due_ns));
        };
        let connects = |jobs: &mut Jobs, index| {
            let opened = (conn(index), peer::KEEPS_ORDER);
            assert!(jobs.peers.connected(OTHER, conn(index)));
            assert!(jobs.peers.opened((OTHER, 1), opened, NOW.mono_ns));
        };
        ask(&mut jobs, "one\r\n");
        connects(&mut jobs, 0);
        assert_eq!(sent(&mut jobs), ["one 0"]);
        jobs.lost(OTHER, Some(conn(0)));
        jobs.executor.now.mono_ns += 500_000_000;
        jobs.tend();
        connects(&mut jobs, 1);
        ask(&mut jobs, "two\r\n");
        assert_eq!(sent(&mut jobs), ["one 1", "two 0"]);
        jobs.answered(OTHER, (1, 1), (Verdict::Forgotten, 0), b"");
        if is_early {
            ask(&mut jobs, "three\r\n");
        }
        assert!(jobs.has_to_tend());
        jobs.tend();
        if !is_early {
            ask(&mut jobs, "three\r\n");
        }
        assert_eq!(sent(&mut jobs), ["knows of 1", "two 0", "three 0"]);
        jobs.executor.now.mono_ns += 500_000_000;
        jobs.tend();
        assert_eq!(sent(&mut jobs), [""; 0], "nothing is sent twice");
    }
}

/// Also where a client has asked before the mail about the map is read.
#[test]
fn what_was_asked_by_the_map_of_before_comes_before_what_comes_now() {
    let (mut jobs, slice) = jobs();
    let due_ns = jobs.due_ns();
    let ask = |jobs: &mut Jobs, text: &[u8]| {
        jobs.dispatch(Job::new(Origin::Nobody, (text.to_vec(), slice), Repeat::ById, due_ns));
    };
    jobs.begun();
    ask(&mut jobs, b"one\r\n");
    assert_eq!((jobs.asked.len(), jobs.again.len()), (1, 0));
    let mut newer = Map::clone(&formed(2));
    newer.version += 1;
    newer.ranges.iter_mut().for_each(|range| range.primary = CellId(1));
    let ring = jobs.executor.ring.clone();
    Keeper::new(ring, formed(2), NOW).adopt(Arc::new(newer), BTreeMap::new(), NOW);
    jobs.executor.routes = None;
    jobs.executor.begin(NOW);
    jobs.begun();
    ask(&mut jobs, b"two\r\n");
    assert_eq!(jobs.asked.len(), 0);
    let texts: Vec<_> = std::iter::from_fn(|| jobs.again.pop()).map(|job| job.text).collect();
    assert_eq!(texts, [b"one\r\n", b"two\r\n"]);
}

/// A read that changes something must not be executed twice, and may be on its way.
#[test]
fn what_follows_one_that_stays_at_the_cell_of_before_waits_for_its_answer() {
    for is_answered in [true, false] {
        let ring = first_cell(|_| ());
        let (map, before) = (formed(3), Arc::new(Map::new(7, 3, 2)));
        Keeper::new(ring.clone(), before, NOW).adopt(map.clone(), BTreeMap::new(), NOW);
        let led = map.ranges.iter().find(|range| range.primary == OTHER).expect("one");
        let slice = led.slices().iter().next().expect("it has slices");
        let mut jobs = Jobs::new(ring.clone(), WorkerId(0));
        jobs.executor.begin(NOW);
        let due_ns = jobs.due_ns();
        let ask = |jobs: &mut Jobs, text: &[u8], repeat| {
            jobs.dispatch(Job::new(Origin::Nobody, (text.to_vec(), slice), repeat, due_ns));
        };
        jobs.begun();
        ask(&mut jobs, b"gat 9 a\r\n", Repeat::Never);
        ask(&mut jobs, b"set\r\n", Repeat::ById);
        let mut newer = Map::clone(&map);
        newer.version += 1;
        newer.ranges.iter_mut().for_each(|range| range.primary = CellId(3));
        Keeper::new(ring, map, NOW).adopt(Arc::new(newer), BTreeMap::new(), NOW);
        jobs.executor.routes = None;
        jobs.executor.begin(NOW);
        jobs.begun();
        ask(&mut jobs, b"get a\r\n", Repeat::Always);
        jobs.tend();
        assert_eq!([OTHER, CellId(3)].map(|cell| jobs.asked.at(cell)), [1, 0]);
        assert_eq!(jobs.again.len(), 2);
        let all = match is_answered {
            true => {
                jobs.answered(OTHER, (1, 0), (Verdict::NotOwner, 0), &NotNow::NotLed.text());
                let texts = jobs.again.len();
                assert_eq!((texts, jobs.asked.len()), (3, 0));
                [0, 3]
            }
            // That cell may have ended: others go on.
            false => [1, 2],
        };
        jobs.executor.now.mono_ns += 50_000_000;
        jobs.tend();
        assert_eq!([OTHER, CellId(3)].map(|cell| jobs.asked.at(cell)), all);
    }
}

/// What waits was to be sent later than what comes back.
#[test]
fn what_comes_back_from_a_broken_link_comes_before_what_was_never_sent() {
    let (mut jobs, slice) = jobs();
    let due_ns = jobs.due_ns();
    let job = |text: &[u8]| Job::new(Origin::Nobody, (text.to_vec(), slice), Repeat::ById, due_ns);
    jobs.dispatch(job(b"one\r\n"));
    jobs.again.push(job(b"two\r\n"));
    jobs.lost(OTHER, None);
    let texts: Vec<_> = std::iter::from_fn(|| jobs.again.pop()).map(|job| job.text).collect();
    assert_eq!(texts, [b"one\r\n", b"two\r\n"]);
}

#[test]
fn those_after_one_that_rests_rest_with_it() {
    let (mut jobs, slice) = jobs();
    let due_ns = jobs.due_ns();
    let ask = |jobs: &mut Jobs, text: &[u8]| {
        jobs.dispatch(Job::new(Origin::Nobody, (text.to_vec(), slice), Repeat::Always, due_ns));
    };
    ask(&mut jobs, b"get a\r\n");
    jobs.answered(OTHER, (1, 0), (Verdict::NotOwner, 0), &NotNow::NotLed.text());
    ask(&mut jobs, b"get b\r\n");
    jobs.tend();
    assert_eq!((jobs.asked.len(), jobs.again.len()), (0, 2));
    jobs.executor.now.mono_ns += 2_000_000;
    jobs.tend();
    assert_eq!((jobs.asked.len(), jobs.again.len()), (2, 0));
}
