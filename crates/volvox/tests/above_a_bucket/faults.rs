//! A bucket behind a proxy that refuses, is slow, answers late or is gone: each has its answer,
//! nothing that was answered is lost, and the cell goes on by itself afterwards.

use super::support::{Cell, statistic};
use super::{Above, KEYS, above_each, check_all, fill, key, value};
use doubles::proxy::{Fault, Proxy};
use std::time::{Duration, Instant};

/// Longer than the cell waits for an answer of its bucket, which is 2 s.
const LATE: Duration = Duration::from_secs(5);
/// Longest that anything may take.
const LONG: Duration = Duration::from_secs(60);
/// Keys that are read while the bucket is faulty, evenly among all.
const READ: usize = 20;
/// Of them, those that must be refused: memory has no more than a few of them.
const REFUSED_MIN: usize = 5;

/// Runs `check` above each emulator through a proxy.
fn through_a_proxy(test: &str, check: impl Fn(&Above<'_>, &Proxy)) {
    above_each(test, |above| {
        let proxy = Proxy::start(above.server.address()).expect("a proxy");
        let directory = above.directory.clone();
        let database = above.database.clone();
        check(&Above { address: proxy.address(), directory, database, ..*above }, &proxy);
    });
}

/// What a fault must not change: each read is a value or an error that says why; and how many are
/// errors. Those of another fault are other keys: what was read is in memory.
fn read_some(cell: &Cell, fault: usize) -> usize {
    let numbers = (fault..KEYS).step_by(KEYS / READ);
    let keys: Vec<_> = numbers.clone().map(key).collect();
    let mut refused = 0;
    for (number, found) in numbers.zip(cell.get_each(&keys)) {
        match found {
            Ok(Some((_, found))) => assert_eq!(found, value(number).as_bytes(), "key {number}"),
            Ok(None) => panic!("key {number} is missed"),
            Err(error) => {
                assert!(error.starts_with("SERVER_ERROR tier busy: "), "{error}");
                refused += 1;
            }
        }
    }
    refused
}

/// What is stored while the bucket has this fault.
fn during(fault: usize) -> (String, String) {
    (format!("during-{fault}"), format!("stored in fault {fault}"))
}

/// A key that was in the bucket before each fault, and changes in each.
const CHANGED: &str = "changed";

#[test]
fn each_fault_has_its_answer_and_the_cell_goes_on_by_itself() {
    let faults = [
        Fault::Status(429),
        Fault::Status(503),
        Fault::Gone,
        Fault::Slow(LATE),
        Fault::AnsweredLate(LATE),
    ];
    through_a_proxy("faults", |above, proxy| {
        let cell = above.start(&["--tier-age-s", "1"]);
        let mut client = cell.client();
        assert_eq!(client.set(CHANGED, 0, 0, "before"), "STORED");
        fill(&mut client);
        assert_eq!(cell.ctl(&["drain"]).1, Some(0));
        assert_eq!(client.set("hot", 0, 0, "in memory"), "STORED");
        for (number, fault) in faults.into_iter().enumerate() {
            let before = proxy.counts();
            proxy.set(fault);
            let refused = read_some(&cell, number);
            assert!(refused >= REFUSED_MIN, "{fault:?}: {refused} of {READ} reads were refused");
            assert_eq!(client.get("hot").as_deref(), Some("in memory"), "{fault:?}");
            let (key, stored) = during(number);
            assert_eq!(client.set(&key, 0, 0, &stored), "STORED", "{fault:?}");
            assert_eq!(client.set(CHANGED, 0, 0, &stored), "STORED", "{fault:?}");
            let (said, code) = cell.ctl(&["drain", "--wait", "1"]);
            assert!(code == Some(1) && said.contains("dirty still"), "{fault:?}: {said}");
            let began = Instant::now();
            while cell.state() == "ok" {
                assert!(began.elapsed() < LONG, "{fault:?}: nothing says that it is not written");
            }
            proxy.set(Fault::None);
            if matches!(fault, Fault::Slow(_) | Fault::AnsweredLate(_)) {
                let is_late = proxy.wait(LONG, |counts| counts.answered > before.answered);
                assert!(is_late, "{fault:?}: nothing was carried out late");
            }
            let (said, code) = cell.ctl(&["drain"]);
            assert_eq!(code, Some(0), "{fault:?}: {said}");
            assert_eq!(read_some(&cell, number), 0, "{fault:?}");
        }
        all_is_there(cell, above, faults.len());
    });
}

/// Kills the cell; the next one has all.
fn all_is_there(cell: Cell, above: &Above<'_>, faults: usize) {
    cell.kill();
    let cell = above.start(&[]);
    let mut client = cell.client();
    for number in 0..faults {
        let (key, stored) = during(number);
        assert_eq!(client.get(&key), Some(stored));
    }
    assert_eq!(client.get(CHANGED), Some(during(faults - 1).1));
    check_all(&mut client);
}

#[test]
fn a_bucket_that_refuses_each_third_request_takes_and_gives_all() {
    through_a_proxy("sometimes", |above, proxy| {
        let cell = above.start(&["--tier-age-s", "1"]);
        proxy.set(Fault::Sometimes(503, 3));
        let mut client = cell.client();
        fill(&mut client);
        let (said, code) = cell.ctl(&["drain"]);
        assert_eq!(code, Some(0), "{said}");
        assert!(proxy.counts().faulty > 20, "{:?}", proxy.counts());
        assert!(statistic(&mut client, "flushed_keys") >= KEYS as u64);
        check_all(&mut client);
        cell.kill();
        proxy.set(Fault::None);
        check_all(&mut above.start(&[]).client());
    });
}
