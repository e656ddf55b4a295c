//! A disk that takes nothing holds up no map: its cell still knows who leads what.

use std::thread;
use std::time::Instant;

use crate::support::{Client, DEADLINE, Ring};

const KEYS: usize = 100;

fn version(client: &mut Client) -> Option<String> {
    client.list("stats ring").into_iter().find(|line| line.starts_with("STAT map_version "))
}

#[test]
fn a_cell_that_waits_for_its_disk_goes_by_new_maps() {
    let mut ring = Ring::start("slow-disk");
    ring.await_copies();
    for file in ["known-map.new", "ring-time.new"] {
        ring.hold_up(0, file);
    }
    for victim in [1, 2] {
        ring.kill(victim);
        ring.heal(victim);
    }
    let (mut slow, mut other) =
        (Client::connect(ring.clients[0]), Client::connect(ring.clients[1]));
    for number in 0..KEYS {
        assert_eq!(slow.ask(&format!("set {number} 0 0 1\r\nx\r\n")), "STORED", "{number}");
        assert_eq!(other.get(&number.to_string()).as_deref(), Some("x"), "{number}");
    }
    let start = Instant::now();
    while version(&mut slow) != version(&mut other) {
        assert!(start.elapsed() < DEADLINE, "its map stays an old one");
        thread::yield_now();
    }
}
