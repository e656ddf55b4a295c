//! Cells that a ring forgets.

use crate::cells::Cells;
use crate::support::Client;

/// Three cells, of which the third was absorbed.
fn ring(name: &str) -> Cells {
    let mut ring = Cells::plan(name, 3, &[]);
    ring.start(0);
    ring.until(0, &["cells_wanted 3"]);
    ring.start(1);
    ring.until(0, &["cell:2:heard yes"]);
    ring.start(2);
    ring.until(0, &["ranges_short_of_copies 0", "cell:3:heard yes", "edition 0", "voters 1,2,3"]);
    let (code, said) = ring.ctl(0, &["absorb", "3"]);
    assert_eq!(code, 0, "{said}");
    ring
}

/// It has no cell 3 any more, and one voter.
fn is_removed(ring: &Cells) {
    let (code, said) = ring.ctl(0, &["remove", "3"]);
    assert_eq!((code, said.trim_end()), (0, "cell 3 is removed from the ring"));
    let report = Client::connect(ring.clients(0)).list("stats ring");
    assert!(!report.iter().any(|line| line.starts_with("STAT cell:3:")), "{report:#?}");
    let voters = report.iter().find(|line| line.starts_with("STAT voters "));
    assert!(voters.is_some_and(|line| !line.contains('3')), "{voters:?}");
}

#[test]
fn a_cell_that_was_removed_is_refused_when_it_starts_again_and_joins_as_another_one() {
    let mut ring = ring("removing");
    let (code, said) = ring.ctl(0, &["remove", "3", "--wait", "0.1"]);
    let ctl = format!("volvox ctl --server {}", ring.clients(0));
    let wanted = &format!("cell 3: it runs: {ctl} absorb 3 && {ctl} stop 3 first");
    assert!(code != 0 && said.contains(wanted), "{code} {said}");
    let (code, said) = ring.ctl(0, &["remove", "9"]);
    assert!(code != 0 && said.contains("cell 9: the ring has none"), "{code} {said}");
    ring.kill(2);
    is_removed(&ring);
    ring.start(2);
    let (code, said) = ring.ends(2);
    let wanted = "the ring has no cell 3 any more: ";
    assert!(code == Some(1) && said.contains(wanted), "{code:?} {said}");
    let new = ring.directory().join("new");
    ring.set(2, "--ring-directory", new.to_str());
    ring.start(2);
    ring.until(0, &["cell:4:heard yes", "voters 1,2,4"]);
    let mut client = Client::connect(ring.clients(2));
    assert_eq!(client.ask("set key 0 0 1\r\n1\r\n"), "STORED");
}

/// It was only cut off, and nobody sends it anything any more.
#[test]
fn a_cell_that_runs_and_was_removed_ends() {
    let mut ring = ring("removed");
    ring.pause(2);
    is_removed(&ring);
    ring.resume(2);
    let (code, said) = ring.ends(2);
    let wanted = "the ring has no cell 3 any more: ";
    assert!(code == Some(1) && said.contains(wanted), "{code:?} {said}");
}

#[test]
fn a_witness_that_has_ended_is_removed() {
    let mut ring = Cells::plan("no-witness", 2, &[]);
    let witness = ring.plan_witness();
    ring.start(0);
    ring.until(0, &["cells_wanted 2"]);
    ring.start(1);
    ring.until(0, &["ranges_short_of_copies 0", "cell:2:heard yes"]);
    ring.start(witness);
    ring.until(0, &["cell:3:witness yes", "voters 1,2,3"]);
    let (code, said) = ring.ctl(0, &["remove", "3", "--wait", "0.1"]);
    assert!(code != 0 && said.contains("cell 3: it runs: end its process first"), "{said}");
    ring.kill(witness);
    is_removed(&ring);
}
