//! Cells that a ring does not take.

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
        let wanted = format!("cannot listen on {address}: another process listens there");
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
