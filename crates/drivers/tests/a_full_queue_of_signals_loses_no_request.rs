//! When the queue of signals overflows, every connection is looked at: no request is lost, and no
//! descriptor stays open, although clients are killed meanwhile. The test is alone in its process,
//! because the limit of the queue is that of the process.

mod support;

use drivers::Driver;
use rustix::process::{Resource, getrlimit, setrlimit};

use support::client::Client;
use support::{CROWD, Rig, descriptors, eventually, has_room_for_a_crowd};

/// Clients of the small cases.
const CLIENTS: usize = 100;

#[test]
fn with_little_room_and_with_none() {
    let limits = getrlimit(Resource::Sigpending);
    let crowd = has_room_for_a_crowd().then_some((8, CROWD, 1));
    for (room, count, rounds) in [(8, CLIENTS, 50), (0, CLIENTS, 50)].into_iter().chain(crowd) {
        let mut little = limits;
        little.current = Some(room);
        setrlimit(Resource::Sigpending, little).expect("less is always allowed");
        let rig = Rig::new(Driver::Signal, |config| config.connections_max = 10_000);
        rig.connect().ask(b"version\r\n", b"VERSION 1\r\n");
        rig.wait_for_open(0);
        let running = descriptors();
        let mut clients: Vec<_> = (0..count).map(|_| rig.connect()).collect();
        for round in 0..rounds {
            talk(&mut clients, round);
        }
        kill_a_third_behind_a_full_queue(&rig, &mut clients);
        talk(&mut clients, rounds);
        rig.wait_for_open(clients.len() as u32);
        drop(clients);
        rig.wait_for_open(0);
        eventually("no descriptor is left", || descriptors() <= running);
        let snapshot = rig.server.remote().snapshot();
        let all = count as u64 + 1;
        assert_eq!((snapshot.accepted, snapshot.closed), (all, all));
    }
    setrlimit(Resource::Sigpending, limits).expect("back to what it was");
}

/// Each client sends its requests in two pieces, the second ones not in the order of the
/// descriptors, and gets its replies.
fn talk(clients: &mut [Client], round: usize) {
    for client in &mut *clients {
        client.send(b"set a 0 0 1\r\nx\r\nget a sl");
    }
    clients.rotate_left(round);
    for client in &mut *clients {
        client.send(b"ow\r\n");
    }
    for client in clients {
        client.expect(b"STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\n");
    }
}

/// While no worker takes a signal, clients send more than the queue holds, and a third of them die
/// in the middle of a request. The others get their replies.
fn kill_a_third_behind_a_full_queue(rig: &Rig, clients: &mut Vec<Client>) {
    let lost = rig.server.remote().snapshot().signals_lost;
    // Every request waits for this lock, and its worker with it.
    let held = rig.shared.latest.lock().expect("unpoisoned");
    for client in &mut *clients {
        client.send(b"get a\r\nversion\r\nget sl");
    }
    let killed = clients.split_off(clients.len() * 2 / 3);
    for (client, half) in
        killed.into_iter().zip([&b""[..], b"ow\r\nset a 0 0 9\r\nx"].iter().cycle())
    {
        client.die_after(half);
    }
    for client in &mut *clients {
        client.send(b"ow\r\n");
    }
    drop(held);
    for client in &mut *clients {
        client.expect(b"VALUE a 0 1\r\nx\r\nEND\r\nVERSION 1\r\nEND\r\n");
    }
    let lost = rig.server.remote().snapshot().signals_lost - lost;
    assert!(lost > 0, "the queue of signals was not full");
}
