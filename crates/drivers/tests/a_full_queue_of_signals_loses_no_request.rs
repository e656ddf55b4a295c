//! The queue of signals overflows: every connection is looked at, and no request is lost. Alone in
//! its process, for the room of the queue is the process's.

mod support;

use drivers::Driver;
use rustix::process::{Resource, getrlimit, setrlimit};

use support::Rig;

/// How many clients talk at once.
const CLIENTS: usize = 100;

#[test]
fn with_little_room_and_with_none() {
    let limits = getrlimit(Resource::Sigpending);
    for room in [8, 0] {
        let mut little = limits;
        little.current = Some(room);
        setrlimit(Resource::Sigpending, little).expect("less is always allowed");
        let rig = Rig::plain(Driver::Signal);
        let mut clients: Vec<_> = (0..CLIENTS).map(|_| rig.connect()).collect();
        for round in 0..50 {
            for client in &mut clients {
                client.send(b"set a 0 0 1\r\nx\r\nget a sl");
            }
            // Not in the order of the descriptors.
            clients.rotate_left(round);
            for client in &mut clients {
                client.send(b"ow\r\n");
            }
            for client in &mut clients {
                client.expect(b"STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\n");
            }
        }
        let remote = rig.server.remote();
        assert!(remote.snapshot().signals_lost > 0, "{room} signals were room enough");
        drop(clients);
        rig.wait_for_open(0);
        assert_eq!(remote.snapshot().accepted, CLIENTS as u64);
    }
    setrlimit(Resource::Sigpending, limits).expect("back to what it was");
}
