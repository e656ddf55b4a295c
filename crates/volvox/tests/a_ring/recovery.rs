//! The only voter of two cells dies, and an operator makes the other one the voter.

use crate::cells::Cells;
use crate::support::Client;

#[test]
fn the_survivor_of_two_serves_again_and_the_old_voter_returns_empty_without_a_vote() {
    let mut ring = Cells::plan("recover", 2, &[]);
    ring.start(0);
    ring.until(0, &["cells_wanted 2"]);
    ring.start(1);
    ring.until(1, &["ranges 2", "ranges_short_of_copies 0", "voters 1"]);
    let mut client = Client::connect(ring.clients(1));
    let keys: Vec<String> = (0..50).map(|key| format!("key:{key}")).collect();
    for key in &keys {
        assert_eq!(client.ask(&format!("set {key} 0 0 3\r\nold\r\n")), "STORED");
    }
    let (code, text) = ring.ctl(1, &["recover", "2", "--yes"]);
    assert!(code == 1 && text.contains("nothing is to be recovered"), "{text}");

    ring.kill(0);
    let (code, text) = ring.ctl(1, &["recover", "2"]);
    assert!(code == 1 && text.contains("it goes on from map"), "{text}");
    assert!(text.ends_with("Then add --yes.\n"), "{text}");
    let (code, text) = ring.ctl(1, &["recover", "2", "--yes"]);
    assert!(code == 0 && text.contains("cell 2 is the only voter"), "{text}\n{}", ring.log(1));
    ring.until(1, &["recoveries 1", "voters 2", "range:1:serves yes", "range:2:serves yes"]);
    for key in &keys {
        assert_eq!(client.get(key).as_deref(), Some("old"), "{key}");
        assert_eq!(client.ask(&format!("set {key} 0 0 3\r\nnew\r\n")), "STORED");
    }

    ring.start(0);
    ring.until(0, &["recoveries 1", "cell:1:start 2", "ranges_short_of_copies 0", "voters 2"]);
    ring.until(1, &["ranges_short_of_copies 0", "range:1:primary 2", "range:2:primary 2"]);
    let mut old = Client::connect(ring.clients(0));
    for key in &keys {
        assert_eq!(old.get(key).as_deref(), Some("new"), "{key}");
    }
    // `ctl` asks until the map shows it, which is no more than one recovery.
    assert!(!ring.log(1).contains("there is nothing to recover"), "{}", ring.log(1));
    // Both start again, the old voter first: it stays without a vote.
    ring.kill(0);
    ring.kill(1);
    ring.start(0);
    ring.start(1);
    for cell in 0..2 {
        ring.until(cell, &["recoveries 1", "voters 2", "cell:1:start 3", "cell:2:start 2"]);
        ring.until(cell, &["ranges_short_of_copies 0"]);
    }
    assert_eq!(Client::connect(ring.clients(0)).ask("set key:0 0 0 1\r\nx\r\n"), "STORED");
    assert_eq!(Client::connect(ring.clients(1)).get("key:0").as_deref(), Some("x"));
}
