//! `volvox ctl` asks a ring of real processes: one that is whole, one with a cell that is stopped,
//! and one that has lost a cell and healed.

use std::collections::BTreeSet;
use std::process::{Command, Output};
use std::time::Instant;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::support::{CELLS, Client, DEADLINE, Ring};

/// Keys that are stored: some of them are in each range.
const KEYS: usize = 200;

/// What `volvox ctl WORDS` prints and how it ends, asked at the cell number `cell`.
pub fn ctl(ring: &Ring, cell: usize, words: &[&str]) -> (i32, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_volvox"));
    command.arg("ctl").args(words).args(["--server", &ring.clients[cell].to_string()]);
    let Output { status, stdout, stderr } = command.output().expect("the binary runs");
    let text = String::from_utf8(stdout).expect("output is text");
    assert!(!text.is_empty(), "{}", String::from_utf8_lossy(&stderr));
    (status.code().expect("no signal ended it"), text)
}

/// What it says if it fails at the first cell.
fn ctl_fails(ring: &Ring, words: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_volvox"));
    command.arg("ctl").args(words).args(["--server", &ring.clients[0].to_string()]);
    let Output { status, stderr, .. } = command.output().expect("the binary runs");
    assert_eq!(status.code(), Some(1));
    String::from_utf8(stderr).expect("output is text")
}

pub fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn report(ring: &Ring, cell: usize, words: &[&str]) -> Value {
    let (code, text) = ctl(ring, cell, &[&["ring", "--json"], words].concat());
    assert_eq!(code, 0);
    lines(&text).remove(0)
}

/// The report of a ring whose cells all serve and whose ranges have their copies: it waits for
/// that, because a machine that is busy can make a cell silent for a moment.
fn whole(ring: &Ring, cell: usize) -> Value {
    let start = Instant::now();
    loop {
        let report = report(ring, cell, &["--timeout", "30"]);
        let ranges = report["ranges"].as_array().expect("a list");
        let is_whole =
            ranges.iter().all(|it| it["serves"] == json!(true) && it["is_short"] == json!(false));
        if is_whole && states(&report) == ["serves"; CELLS] {
            return report;
        }
        assert!(start.elapsed() < DEADLINE, "{report}");
    }
}

fn states(report: &Value) -> Vec<&str> {
    let cells = report["cells"].as_array().expect("a list");
    cells.iter().map(|cell| cell["state"].as_str().expect("a state")).collect()
}

fn store(ring: &Ring) {
    let mut client = Client::connect(ring.clients[0]);
    for key in 0..KEYS {
        assert_eq!(client.ask(&format!("set user:{key} 0 0 1\r\nx\r\n")), "STORED");
    }
}

#[test]
fn a_whole_ring_is_shown_alike_by_every_cell() {
    let ring = Ring::start("ctl-whole");
    store(&ring);
    for cell in 0..CELLS {
        let report = whole(&ring, cell);
        let held = report["cells"].as_array().expect("a list").iter();
        let items: u64 = held.filter_map(|cell| cell["items"].as_u64()).sum();
        assert_eq!(items as usize, 2 * KEYS);
        assert!(report["cells"][cell]["if_it_ends"]["evicts"] == json!(false));
        let (code, text) = ctl(&ring, cell, &["ring"]);
        assert_eq!(code, 0);
        assert!(text.contains("\ncell  clients  "), "{text}");
        assert!(text.ends_with("the end of any one cell would evict nothing\n"), "{text}");
        assert!(!text.contains('\x1b'), "colours without a terminal: {text}");
    }
}

#[test]
fn each_key_is_listed_once_and_found_at_its_copies() {
    let ring = Ring::start("ctl-keys");
    store(&ring);
    whole(&ring, 0);
    let (code, text) = ctl(&ring, 1, &["keys", "--json"]);
    let listed = lines(&text);
    let keys: BTreeSet<_> = listed.iter().filter_map(|line| line["key"].as_str()).collect();
    assert_eq!((code, listed.len(), keys.len()), (0, KEYS, KEYS));
    let (_, text) = ctl(&ring, 1, &["keys", "--json", "--prefix", "user:19"]);
    assert_eq!(lines(&text).len(), 11);
    let (_, text) = ctl(&ring, 1, &["keys", "--limit", "7"]);
    assert_eq!(text.lines().count(), 8);
    let (code, text) = ctl(&ring, 2, &["who-has", "user:1", "user:2", "user:3", "--json"]);
    assert_eq!(code, 0);
    for line in lines(&text) {
        let cells = line["cells"].as_array().expect("a list");
        assert!(cells.len() == 2 && cells[0]["cell"] == line["primary"], "{line}");
        assert!(cells.iter().all(|cell| cell["holds"] == json!(true)), "{line}");
        assert_eq!(cells[0]["cas"], cells[1]["cas"]);
    }
    // Those that only a meta command can name.
    let mut client = Client::connect(ring.clients[0]);
    let named: [(&str, &str, &[&str]); 3] =
        [("YSBi", "a b", &[]), ("YQli", "a\tb", &[]), ("YSD/", "6120ff", &["--hex"])];
    for (token, key, flags) in named {
        assert_eq!(client.ask(&format!("ms {token} 1 b\r\nx\r\n")), "HD");
        let (code, text) = ctl(&ring, 1, &[&["who-has", key, "--json"], flags].concat());
        assert!(code == 0 && text.contains("\"holds\":true"), "{text}");
    }
    assert_eq!(client.ask("stats ring key YSB b\r\n"), "CLIENT_ERROR bad command line format");
    let (code, text) = ctl(&ring, 0, &["who-has", "absent"]);
    assert!(code == 1 && text.contains("no cell"), "{text}");
}

#[test]
fn a_cell_is_stopped_and_the_others_have_everything() {
    let ring = Ring::start_with("ctl-stop", CELLS, &["--stay-ended"], &["--allow-shutdown"]);
    store(&ring);
    let before = whole(&ring, 0);
    let (code, text) = ctl(&ring, 0, &["ring", "--wait", "30", "--timeout", "30"]);
    assert_eq!(code, 0, "{text}");
    let cells = before["cells"].as_array().expect("a list");
    let first = json!(ring.clients[0].to_string());
    let other = cells.iter().find(|cell| cell["clients"] != first).expect("there are others");
    let other = other["cell"].to_string();
    let (code, text) = ctl(&ring, 0, &["stop", &other]);
    assert_eq!((code, text), (0, format!("cell {other} has ended; every range has its copies\n")));
    let (code, text) = ctl(&ring, 0, &["ring", "--wait", "0.1"]);
    assert!(code == 1 && text.contains(&format!("cell {other} does not answer")), "{text}");
    for (cell, reason) in [(&*other, "does not answer: connection refused"), ("99", "has none")] {
        let refused = ctl_fails(&ring, &["stop", cell, "--yes"]);
        assert!(refused.contains(reason), "{refused}");
    }
    let (code, text) = ctl(&ring, 0, &["keys", "--json"]);
    assert_eq!((code, lines(&text).len()), (0, KEYS));
}

#[test]
fn a_range_whose_cells_have_all_ended_is_forgiven_and_begins_empty() {
    let ring = Ring::start_with("ctl-forgive", 5, &["--stay-ended"], &[]);
    store(&ring);
    let before = report(&ring, 0, &["--timeout", "30"]);
    let cells = before["cells"].as_array().expect("a list");
    let at_of = |id: &Value| {
        let cell = cells.iter().find(|cell| cell["cell"] == *id);
        cell.and_then(|cell| cell["clients"].as_str()).expect("an address").to_owned()
    };
    // Neither of its two cells is the first, which is asked, nor the founder.
    let ranges = before["ranges"].as_array().expect("a list");
    let has = |range: &&Value| {
        let holders = [&range["primary"], &range["copies"][0]].map(at_of);
        holders.iter().all(|at| *at != ring.clients[0].to_string())
    };
    let range = ranges.iter().find(has).expect("three of five are such");
    let id = range["range"].to_string();
    let holders = [&range["primary"], &range["copies"][0]].map(|id| {
        let at = at_of(id);
        let place = ring.clients.iter().position(|it| it.to_string() == at);
        place.expect("it is one of the ring")
    });
    let refused = ctl_fails(&ring, &["forgive", &id, "--yes"]);
    assert!(refused.contains("has it and answers"), "{refused}");
    // Both at once: otherwise the copy would be promoted.
    holders.iter().for_each(|cell| ring.signal(*cell, Signal::SIGSTOP));
    holders.iter().for_each(|cell| ring.kill(*cell));
    let (code, text) = ctl(&ring, 0, &["forgive", &id]);
    assert!(code == 1 && text.contains("every item of it is lost"), "{text}");
    let (code, text) = ctl(&ring, 0, &["forgive", &id, "--yes", "--timeout", "30"]);
    assert!(code == 0 && text.contains("begins again at cell "), "{text}");
    let mut client = Client::connect(ring.clients[0]);
    let slices = [0, 1].map(|at| range["slices"][at].as_u64().expect("a number") as usize);
    for key in (0..KEYS).map(|key| format!("user:{key}")) {
        let slice = base::SliceId::of(key.as_bytes()).index();
        let is_lost = (slices[0]..=slices[1]).contains(&slice);
        assert_eq!(client.get(&key).is_none(), is_lost, "{key}");
        assert_eq!(client.ask(&format!("set {key} 0 0 1\r\ny\r\n")), "STORED");
    }
    let (_, text) = ctl(&ring, 0, &["log", "--json"]);
    assert!(text.contains(&format!("an operator forgives range {id}")), "{text}");
    assert_eq!(report(&ring, 0, &["--timeout", "30"])["losses"], 1);
}

#[test]
fn a_stopped_cell_does_not_answer_and_an_ended_one_is_in_the_log() {
    let mut ring = Ring::start("ctl-faults");
    store(&ring);
    ring.signal(2, Signal::SIGSTOP);
    let stopped = report(&ring, 0, &["--timeout", "0.3"]);
    ring.signal(2, Signal::SIGCONT);
    let third = stopped["cells"]
        .as_array()
        .expect("a list")
        .iter()
        .find(|cell| cell["clients"] == json!(ring.clients[2].to_string()));
    let third = third.expect("it is in the map");
    assert_eq!(third["state"], "no answer");
    assert_eq!(third["reason"], "nothing within 0.3 s (--timeout)");
    ring.kill(2);
    ring.heal(2);
    let (_, text) = ctl(&ring, 0, &["log", "--json", "--limit", "256"]);
    let log = lines(&text);
    let versions: Vec<_> = log.iter().map(|change| change["map_version"].as_u64()).collect();
    assert!(versions.is_sorted(), "{text}");
    assert!(text.contains("the ring has formed: 3 cells, 3 ranges"), "{text}");
    let id = &third["cell"];
    let causes = ["is silent", "has started again"].map(|what| format!("cell {id} {what}"));
    let broken = format!("the connections of cell {id} are broken");
    let names = |cause: &str| causes.iter().chain([&broken]).any(|it| cause.ends_with(it.as_str()));
    assert!(log.iter().any(|change| change["cause"].as_str().is_some_and(names)), "{text}");
    let (code, text) = ctl(&ring, 0, &["keys", "--json"]);
    assert_eq!((code, lines(&text).len()), (0, KEYS));
}
