//! A real SIGKILL: what was acknowledged is read through another cell.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

use crate::support::{CELLS, Client, DEADLINE, Ring};

const KILLS: usize = 5;
const WRITERS: usize = 4;
/// Acknowledged writes before each kill, and after it.
const WRITES: usize = 400;

/// Writes through one cell until it is stopped. Each key has a value of its own.
fn write(
    at: SocketAddr,
    name: &str,
    (count, stops): (&AtomicUsize, &AtomicBool),
    acknowledged: &Mutex<HashMap<String, String>>,
) {
    let mut client = Client::connect(at);
    for number in 0.. {
        if stops.load(Ordering::Relaxed) {
            return;
        }
        let (key, value) = (format!("{name}-{number}"), format!("{number}@{name}"));
        let reply = client.ask(&format!("set {key} 0 0 {}\r\n{value}\r\n", value.len()));
        if reply == "STORED" {
            acknowledged.lock().expect("nobody panics").insert(key, value);
            count.fetch_add(1, Ordering::Relaxed);
        } else if reply.is_empty() {
            // A primary that was replaced while the reply waited: it was busy for too long.
            client = Client::connect(at);
        } else {
            assert!(reply.starts_with("SERVER_ERROR in doubt"), "{reply}");
        }
    }
}

fn wait_for(count: &AtomicUsize, writes: usize) {
    let start = Instant::now();
    while count.load(Ordering::Relaxed) < writes {
        assert!(start.elapsed() < DEADLINE, "nothing is acknowledged any more");
        thread::yield_now();
    }
}

#[test]
fn what_was_acknowledged_is_read_after_each_of_five_kills() {
    survives(Ring::start("kills"), KILLS);
}

/// Where two copies are left, they exchange what they have, and both stay in sync.
#[test]
fn what_was_acknowledged_is_read_after_kills_where_there_are_three_copies() {
    survives(Ring::start_with("three-copies", CELLS, &["--copies", "3"], &[]), CELLS);
}

/// Kills cells of `ring` while clients write, and reads what was acknowledged.
pub fn survives(mut ring: Ring, kills: usize) {
    let acknowledged = Arc::new(Mutex::new(HashMap::new()));
    for round in 0..kills {
        let (victim, writer, reader) = (round % CELLS, (round + 1) % CELLS, (round + 2) % CELLS);
        let (count, stops) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let writers: Vec<_> = (0..WRITERS)
            .map(|number| {
                let (count, stops) = (count.clone(), stops.clone());
                let (at, acknowledged) = (ring.clients[writer], acknowledged.clone());
                let name = format!("{round}-{number}");
                thread::spawn(move || write(at, &name, (&count, &stops), &acknowledged))
            })
            .collect();
        wait_for(&count, WRITES);
        ring.kill(victim);
        wait_for(&count, count.load(Ordering::Relaxed) + WRITES);
        stops.store(true, Ordering::Relaxed);
        writers.into_iter().for_each(|writer| writer.join().expect("it has not panicked"));
        let mut client = Client::connect(ring.clients[reader]);
        for (key, value) in acknowledged.lock().expect("nobody panics").iter() {
            let read = client.get(key);
            assert_eq!(read.as_ref(), Some(value), "round {round}, {key}");
        }
        ring.heal(victim);
    }
}
