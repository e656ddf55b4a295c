//! Cells that a ring does not take, and cells that wait for it.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use crate::cells::Cells;
use crate::support::Client;

#[test]
fn a_cell_that_cannot_serve_asks_no_ring_to_take_it() {
    let mut ring = Cells::plan("joining", 2, &[]);
    ring.start(0);
    ring.until(0, &["cells_wanted 2"]);
    for address in [ring.clients(1), ring.links(1)] {
        let other = TcpListener::bind(address).expect("it is free");
        ring.start(1);
        let (code, said) = ring.ends(1);
        let wanted = format!("{address}: another process listens there");
        assert!(code == Some(1) && said.contains(&wanted), "{code:?} {said}");
        drop(other);
    }
    let cells = Client::connect(ring.clients(0)).list("stats ring");
    let others = cells.iter().filter(|line| line.starts_with("STAT cell:2:"));
    assert_eq!(others.count(), 0, "{cells:#?}");
    ring.start(1);
    ring.until(0, &["ranges_short_of_copies 0", "cell:2:heard yes"]);
}

#[test]
fn what_strangers_do_again_and_again_is_logged_once_a_minute() {
    let mut ring = Cells::plan("strangers", 2, &[]);
    ring.start(0);
    ring.until(0, &["cells_wanted 2"]);
    for (address, said) in [
        (ring.control(0), "a connection of 127.0.0.1 was refused: "),
        (ring.links(0), "a connection to ring.links: "),
    ] {
        for _ in 0..5 {
            let mut stranger = TcpStream::connect(address).expect("it listens");
            stranger.write_all(&[b'x'; 512]).expect("it is received");
            // It is closed or reset.
            let _ = stranger.read_to_end(&mut Vec::new());
        }
        ring.until_log(0, said);
        assert_eq!(ring.log(0).matches(said).count(), 1, "{}", ring.log(0));
    }
    ring.start(1);
    ring.until(0, &["ranges_short_of_copies 0", "cell:2:heard yes"]);
}

#[test]
fn a_directory_of_another_ring_is_refused_and_both_are_named() {
    let mut rings = ["one-ring", "another-ring"].map(|name| Cells::plan(name, 2, &[]));
    for ring in &mut rings {
        ring.start(0);
        ring.until(0, &["cells_wanted 2"]);
        ring.start(1);
        ring.until(0, &["ranges_short_of_copies 0", "cell:2:heard yes"]);
    }
    let [mut one, mut another] = rings;
    one.kill(1);
    another.kill(1);
    let own = one.directory().join("2");
    one.set(1, "--ring-directory", another.directory().join("2").to_str());
    one.start(1);
    let (code, said) = one.ends(1);
    let names = ["is of a cell of ring ", "of ring.seeds, is in ring ", "name the directory"];
    assert!(code == Some(1) && names.iter().all(|it| said.contains(it)), "{code:?} {said}");
    one.set(1, "--ring-directory", own.to_str());
    one.start(1);
    one.until(0, &["ranges_short_of_copies 0", "cell:2:start 2"]);
}

#[test]
fn a_cell_that_waits_for_voters_says_for_whom_and_all_are_given_time_to_start() {
    let mut ring = Cells::plan("voters", 3, &[]);
    ring.start(0);
    ring.until(0, &["cells_wanted 3"]);
    (1..3).for_each(|cell| ring.start(cell));
    ring.until(0, &["voters 1,2,3", "ranges_short_of_copies 0"]);
    (0..3).for_each(|cell| ring.kill(cell));
    ring.start(1);
    ring.until_log(1, "this cell has no map yet and serves nothing");
    // By address alone: either of the two may have joined first and be cell 2.
    let line = format!("voters run, cell 1 at {}, cell ", ring.control(0));
    assert!(ring.log(1).contains(&line), "{}", ring.log(1));
    assert!(ring.log(1).contains(&format!(" at {}", ring.control(2))), "{}", ring.log(1));
    let said = Client::connect(ring.clients(1)).ask("get key\r\n");
    assert_eq!(said, "SERVER_ERROR the ring cannot be served: this cell has no map yet");
    let (code, text) = ring.ctl(1, &["who-has", "key"]);
    assert!(code == 1 && text.contains("this cell has no map yet"), "{text}");
    (0..3).filter(|cell| *cell != 1).for_each(|cell| ring.start(cell));
    ring.until(1, &["voters 1,2,3", "ranges_short_of_copies 0"]);
}

#[test]
fn a_spare_that_lacks_memory_is_given_nothing_unless_it_is_forced() {
    let (mut ring, spare) = (Cells::plan("small-spare", 3, &[]), 2);
    (0..3).for_each(|cell| ring.set(cell, "--ring-cells", Some("2")));
    ring.set(spare, "--memory-limit", Some("24MiB"));
    ring.start(0);
    ring.until(0, &["cells_wanted 2"]);
    ring.start(1);
    ring.until(0, &["ranges_short_of_copies 0", "cell:2:heard yes"]);
    ring.start(spare);
    ring.until(0, &["cell:3:heard yes"]);
    let (mut client, value) = (Client::connect(ring.clients(0)), "x".repeat(200_000));
    for key in 0..150 {
        let stored = client.ask(&format!("set key-{key} 0 0 {}\r\n{value}\r\n", value.len()));
        assert_eq!(stored, "STORED");
    }
    for words in [&["divide", "1"][..], &["move", "1", "3"]] {
        let (code, said) = ring.ctl(0, words);
        let wanted = "cell 3: memory would be short by ";
        assert!(code == 1 && said.contains(wanted) && said.contains("--force"), "{code} {said}");
    }
    let (code, said) = ring.ctl(0, &["balance", "--all"]);
    assert!(code == 1 && said.contains("memory would be short after any further step"), "{said}");
    let (code, said) = ring.ctl(0, &["divide", "1", "--force"]);
    assert!(code == 0 && said.contains("divided in"), "{code} {said}");
}
