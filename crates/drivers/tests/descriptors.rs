//! No descriptor stays open after its connection, and a server without descriptors waits. The tests
//! are alone in their process, so that nothing else opens any.

mod support;

use std::fs::File;
use std::sync::Mutex;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use support::node::Node;
use support::{CROWD, Rig, descriptors, drivers, eventually, has_room_for_a_crowd};

/// Tests here take turns: each counts the descriptors of the whole process.
static ALONE: Mutex<()> = Mutex::new(());

#[test]
fn a_thousand_connections_leave_no_descriptor_behind() {
    let _alone = ALONE.lock();
    for driver in drivers() {
        let outside = descriptors();
        let rig = Rig::plain(driver);
        rig.connect().ask(b"version\r\n", b"VERSION 1\r\n");
        rig.wait_for_open(0);
        let running = descriptors();
        for round in 0..10 {
            let mut clients: Vec<_> = (0..100).map(|_| rig.connect()).collect();
            for client in clients.iter_mut().step_by(1 + round % 3) {
                client.ask(b"version\r\n", b"VERSION 1\r\n");
            }
        }
        eventually("all are accepted", || rig.server.remote().snapshot().accepted == 1001);
        rig.wait_for_open(0);
        eventually("no descriptor is left", || descriptors() <= running);
        drop(rig);
        eventually("none after the server either", || descriptors() <= outside);
    }
}

#[test]
fn five_thousand_connections_lose_no_request_though_clients_are_killed() {
    let _alone = ALONE.lock();
    if !has_room_for_a_crowd() {
        return;
    }
    for driver in drivers() {
        let rig = Rig::new(driver, |config| config.connections_max = 10_000);
        rig.connect().ask(b"version\r\n", b"VERSION 1\r\n");
        rig.wait_for_open(0);
        let running = descriptors();
        let mut clients: Vec<_> = (0..CROWD).map(|_| rig.connect()).collect();
        for client in &mut clients {
            client.send(b"get a\r\nversion\r\n");
        }
        for client in &mut clients {
            client.expect(b"END\r\nVERSION 1\r\n");
        }
        // A process that is killed in the middle of a request resets its connections.
        let killed = clients.split_off(CROWD * 2 / 3);
        for (client, half) in
            killed.into_iter().zip([&b"get "[..], b"set a 0 0 9\r\nx"].iter().cycle())
        {
            client.die_after(half);
        }
        for client in clients.iter_mut().rev() {
            client.send(b"version\r\n");
        }
        for client in &mut clients {
            client.expect(b"VERSION 1\r\n");
        }
        rig.wait_for_open(clients.len() as u32);
        drop(clients);
        rig.wait_for_open(0);
        eventually("no descriptor is left", || descriptors() <= running);
        let snapshot = rig.server.remote().snapshot();
        assert_eq!((snapshot.accepted, snapshot.closed), (CROWD as u64 + 1, CROWD as u64 + 1));
    }
}

/// Allows few more descriptors than are open, and returns the limits from before.
fn allow_few_more() -> Rlimit {
    let limits = getrlimit(Resource::Nofile);
    let current = Some(descriptors() as u64 + 64);
    setrlimit(Resource::Nofile, Rlimit { current, ..limits }).expect("less is always allowed");
    limits
}

#[test]
fn without_descriptors_clients_wait_and_nothing_spins() {
    let _alone = ALONE.lock();
    for driver in drivers() {
        let limits = allow_few_more();
        let rig = Rig::plain(driver);
        let mut clients: Vec<_> = (0..5).map(|_| rig.connect()).collect();
        for client in &mut clients {
            client.ask(b"version\r\n", b"VERSION 1\r\n");
        }
        // One descriptor is left: for the client's end of a connection, not for the server's.
        let mut rest: Vec<_> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
        rest.pop();
        let mut waits = rig.connect();
        waits.send(b"version\r\n");
        let remote = rig.server.remote();
        eventually("accepting stops", || remote.snapshot().accept_stops > 0);
        assert!(!remote.is_accepting());
        clients[0].ask(b"version\r\n", b"VERSION 1\r\n");
        clients.pop();
        waits.expect(b"VERSION 1\r\n");
        setrlimit(Resource::Nofile, limits).expect("back to what it was");
        let wakeups = remote.snapshot().wakeups;
        assert!(wakeups < 200, "{driver:?} woke {wakeups} times");
    }
}

#[test]
fn without_descriptors_links_wait_and_connections_are_refused() {
    let _alone = ALONE.lock();
    for driver in drivers() {
        let limits = allow_few_more();
        let node = Node::plain(driver);
        let mut clients: Vec<_> = (0..2).map(|_| node.client()).collect();
        for client in &mut clients {
            client.ask(b"version\r\n", b"VERSION 1\r\n");
        }
        let mut rest: Vec<_> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
        clients[0].ask(b"get link-a\r\n", b"REFUSED\r\n");
        rest.pop();
        let mut waits = node.link();
        waits.send(b"ask 7 a\n");
        let remote = node.server.remote();
        eventually("accepting stops", || remote.snapshot().accept_stops > 0);
        clients[0].ask(b"version\r\n", b"VERSION 1\r\n");
        clients.pop();
        waits.expect(b"got 7 a\n");
        setrlimit(Resource::Nofile, limits).expect("back to what it was");
        clients[0].ask(b"get link-b\r\n", b"link-b\r\n");
    }
}

/// Pages of memory that the process holds.
fn resident_pages() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("this is Linux");
    statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("a number of pages")
}

/// Requests that no correct client sends.
const BAD: [&[u8]; 8] = [
    b"nonsense\r\n",
    b"get\r\n",
    b"set a b c d\r\n",
    b"set a 0 0 -1\r\n",
    b"set a 0 0 3\r\ntoo long\r\n",
    b"incr a b\r\n",
    b"mg\r\n",
    b"\0\xff\r\n",
];

#[test]
fn bad_requests_leave_memory_and_descriptors_as_they_were() {
    let _alone = ALONE.lock();
    for driver in drivers() {
        let rig = Rig::plain(driver);
        let abuse = || {
            for round in 0..100 {
                let mut client = rig.connect();
                client.send(&BAD.concat().repeat(25));
                client.send(&b"set abandoned 0 0 100000\r\n0123456789"[..10 + round % 26]);
            }
            rig.wait_for_open(0);
        };
        abuse();
        let (open, pages) = (descriptors(), resident_pages());
        for _ in 0..4 {
            abuse();
        }
        eventually("descriptors are closed", || descriptors() <= open);
        eventually("the budget has everything back", || rig.budget.used_total() == 0);
        let grown = resident_pages().saturating_sub(pages);
        assert!(grown < 1024, "{driver:?} holds {grown} pages more after 80,000 bad requests");
    }
}
