//! What answers promise is changed while the cell runs.

use super::support::{Cell, Client, directory, statistic};

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Written back by age, nothing would be in the database before the test has ended.
const OLD: [&str; 2] = ["--tier-age-s", "86400"];

/// Changes the levels, and returns what holds then.
#[track_caller]
fn change(cell: &Cell, rules: &[&str]) -> serde_json::Value {
    let words = [&["policy", "--json"], rules].concat();
    let (said, code) = cell.ctl(&words);
    assert_eq!(code, Some(0), "{said}");
    serde_json::from_str(&said).expect("it is JSON")
}

fn flushed(client: &mut Client) -> u64 {
    statistic(client, "flushed_keys")
}

#[test]
fn a_level_that_was_raised_holds_for_the_next_answer_by_every_driver() {
    for driver in ["epoll", "signal", "uring", "threads"] {
        let flags = ["--driver", driver, OLD[0], OLD[1]];
        let cell = Cell::start(&directory(&format!("policy-{driver}")), &flags);
        let mut client = cell.client();
        assert_eq!(client.set("user:1", 0, 0, "one"), "STORED");
        assert_eq!(flushed(&mut client), 0, "{driver}: at os");
        let is = change(&cell, &["memory", "user:=backend", "order:=disk"]);
        let wanted = serde_json::json!({ "user:": "backend", "order:": "disk" });
        assert_eq!((&is["ack"], &is["prefixes"]), (&"memory".into(), &wanted));
        for (key, count) in [("user:1", 1), ("other", 1), ("user:2", 2), ("order:1", 2)] {
            assert_eq!(client.set(key, 0, 0, "two"), "STORED");
            assert_eq!(flushed(&mut client), count, "{driver}: {key}");
        }
        assert_eq!(change(&cell, &["os"])["prefixes"], serde_json::json!({}));
        assert_eq!(client.set("user:3", 0, 0, "three"), "STORED");
        assert_eq!(flushed(&mut client), 2, "{driver}: at os again");
        assert_eq!(change(&cell, &["backend"])["ack"], "backend");
        assert_eq!(client.set("user:3", 0, 0, "four"), "STORED");
        assert_eq!(flushed(&mut client), 3, "{driver}: in place of what was at os");
    }
}

#[test]
fn answers_leave_while_levels_change_again_and_again() {
    let cell = Cell::start(&directory("policy-changes"), &OLD);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let write = |of: usize| {
            let mut client = cell.client();
            let mut last = 0;
            while !is_over.load(Ordering::Relaxed) {
                last += 1;
                let key = format!("key-{of}-{}", last % 50);
                assert_eq!(client.set(&key, 0, 0, &last.to_string()), "STORED");
                let read = client.get(&key);
                assert_eq!(read, Some(last.to_string()));
            }
            last
        };
        let writers: Vec<_> = (0..4).map(|of| scope.spawn(move || write(of))).collect();
        for rules in [["backend"], ["os"], ["disk"], ["memory"], ["backend"], ["memory"]] {
            change(&cell, &rules);
            let mut client = cell.client();
            // The change holds for this one, whatever the others wait for.
            assert_eq!(client.set(&format!("mine-{}", rules[0]), 0, 0, "value"), "STORED");
        }
        is_over.store(true, Ordering::Relaxed);
        for writer in writers {
            assert!(writer.join().expect("each change is answered") > 0);
        }
    });
    assert_eq!(change(&cell, &["disk"])["ack"], "disk");
    assert_eq!(cell.client().set("last", 0, 0, "value"), "STORED");
}

#[test]
fn rules_that_mean_nothing_or_leave_keys_out_change_nothing() {
    let cell = Cell::start(&directory("policy-wrong"), &["--tier-prefixes", "a=disk"]);
    for (rules, why) in [
        (&["fast"][..], "choose one of memory, os, disk, backend"),
        (&["os", "a"], "write PREFIX=LEVEL"),
        (&["os", "a=disk", "a=os"], "is named twice"),
        (&["os", "a=none"], "is chosen when the cell starts"),
        (&["os", "a b=disk"], "no key has one"),
    ] {
        let (said, code) = cell.ctl(&[&["policy"], rules].concat());
        assert!(code == Some(1) && said.contains(why), "{rules:?}: {said}");
    }
    let is = change(&cell, &[]);
    assert_eq!((&is["ack"], &is["prefixes"]["a"]), (&"os".into(), &"disk".into()));
    let cell = Cell::start(&directory("policy-kept"), &["--tier-prefixes", "a=none"]);
    let (said, code) = cell.ctl(&["policy", "os"]);
    assert!(code == Some(1) && said.contains("is chosen when the cell starts"), "{said}");
    let cell = Cell::start(&directory("policy-off"), &["--allow-tier-policy=false"]);
    let (said, code) = cell.ctl(&["policy", "memory"]);
    assert!(code == Some(1) && said.contains("protocol.allow_tier_policy is off"), "{said}");
    assert_eq!(change(&cell, &[])["ack"], "os");
    let (said, code) = Cell::start_plain().ctl(&["policy", "os"]);
    assert!(code == Some(1) && said.contains("has no tier"), "{said}");
}
