//! Links on every driver: cells ask each other, what a handler orders is done in the same batch,
//! and a link is no client.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::Ordering;
use std::time::Duration;

use drivers::{Driver, State};
use rustix::net::sockopt::set_socket_linger;
use rustix::net::{AddressFamily, SocketType};

use crate::support::client::Client;
use crate::support::node::{BIG_BYTES, DIALS, Node};
use crate::support::{PATIENCE, drivers, eventually};

/// Requests whose replies come in every way, and the replies.
fn pipeline(name: &str) -> (Vec<u8>, Vec<u8>) {
    let (mut requests, mut replies) = (String::new(), String::new());
    for at in 0..20 {
        requests += &format!("get link-{name}-{at}\r\nversion\r\nget self-{at}\r\nget note\r\n");
        replies += &format!("link-{name}-{at}\r\nVERSION 1\r\nself-{at}\r\nEND\r\n");
    }
    (requests.into_bytes(), replies.into_bytes())
}

/// Every client of `nodes` asks at once, twice: the link is opened by the first time.
fn ask_all(nodes: &[&Node]) {
    let mut clients: Vec<Client> =
        nodes.iter().flat_map(|node| (0..4).map(|_| node.client())).collect();
    for round in 0..2 {
        for (at, client) in clients.iter_mut().enumerate() {
            client.send(&pipeline(&format!("{round}-{at}")).0);
        }
        for (at, client) in clients.iter_mut().enumerate() {
            client.expect(&pipeline(&format!("{round}-{at}")).1);
        }
    }
}

#[test]
fn two_servers_ask_each_other() {
    for driver in drivers() {
        let (one, two) = (Node::plain(driver), Node::plain(driver));
        one.ask_at(two.links());
        two.ask_at(one.links());
        ask_all(&[&one, &two]);
        for node in [&one, &two] {
            let notes = || node.seen.notes.load(Ordering::SeqCst);
            eventually("every note arrives", || notes() == 4 * 2 * 20);
            let counted = node.server.remote().snapshot();
            assert_eq!(counted.accepted, 4, "{driver:?}: links are counted apart");
            assert_eq!(counted.links_open(), counted.links_opened, "{driver:?}");
            assert_eq!(node.seen.late.load(Ordering::SeqCst), 0, "{driver:?}");
        }
    }
}

#[test]
fn a_server_may_ask_itself() {
    for driver in drivers() {
        let node = Node::plain(driver);
        ask_all(&[&node]);
        // Each worker with links has opened one, and one has accepted it.
        let opened = node.server.remote().snapshot().links_opened;
        assert!((2..=4).contains(&opened), "{driver:?}: {opened}");
    }
}

#[test]
fn what_a_handler_orders_is_done_before_the_batch_ends() {
    for driver in drivers() {
        let node = Node::new(driver, |config| config.workers = 1);
        let mut client = node.client();
        client.ask(b"version\r\n", b"VERSION 1\r\n");
        let before = node.server.remote().snapshot().wakeups;
        for _ in 0..100 {
            client.ask(b"get self-a\r\nversion\r\n", b"self-a\r\nVERSION 1\r\n");
        }
        let woken = node.server.remote().snapshot().wakeups - before;
        assert!(woken <= 101, "{driver:?} woke {woken} times for 100 requests");
        for _ in 0..100 {
            client.ask(b"get note\r\n", b"END\r\n");
        }
        let notes = || node.seen.notes.load(Ordering::SeqCst);
        eventually("every note arrives", || notes() == 100);
        assert_eq!(node.seen.late.load(Ordering::SeqCst), 0, "{driver:?}");
    }
}

#[test]
fn replies_that_are_completed_together_leave_together() {
    for driver in drivers() {
        let node = Node::new(driver, |config| config.workers = 1);
        let mut client = node.client();
        client.ask(b"version\r\n", b"VERSION 1\r\n");
        let before = node.server.remote().snapshot().send_calls;
        for _ in 0..100 {
            client.ask(&b"get self-a\r\n".repeat(16), &b"self-a\r\n".repeat(16));
        }
        let sent = node.server.remote().snapshot().send_calls - before;
        assert!(sent <= 101, "{driver:?} sent {sent} times for 100 times 16 replies");
    }
}

#[test]
fn more_orders_than_one_batch_carries_out_are_all_carried_out() {
    for driver in drivers() {
        let node = Node::plain(driver);
        let mut client = node.client();
        for _ in 0..3 {
            client.ask(b"get many-a\r\nversion\r\n", b"many-a\r\nVERSION 1\r\n");
        }
    }
}

/// An address that refuses connections.
fn refusing() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("a free port")
}

#[test]
fn a_connection_that_is_refused_is_reported() {
    for driver in drivers() {
        let node = Node::plain(driver);
        node.ask_at(refusing());
        let mut client = node.client();
        client.ask(b"get link-a\r\nversion\r\n", b"REFUSED\r\nVERSION 1\r\n");
        client.ask(b"get dial\r\nversion\r\n", b"REFUSED\r\nVERSION 1\r\n");
        assert_eq!(node.seen.refused.load(Ordering::SeqCst), 2);
        node.ask_at(node.links());
        client.ask(b"get link-a\r\n", b"link-a\r\n");
        // The thread of a client has no connection but that one.
        let apart: &[u8] = if driver == Driver::Threads { b"REFUSED\r\n" } else { b"OPEN\r\n" };
        client.ask(b"get dial\r\n", apart);
    }
}

/// A listener that accepts nobody and whose queue is full, and those who are in it.
fn full_listener() -> (TcpListener, SocketAddr, Vec<TcpStream>) {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None);
    let socket = socket.expect("descriptors are left");
    rustix::net::bind(&socket, &SocketAddr::from(([127, 0, 0, 1], 0))).expect("a free port");
    rustix::net::listen(&socket, 0).expect("a fresh socket");
    let listener = TcpListener::from(socket);
    let address = listener.local_addr().expect("it listens");
    let connect = || TcpStream::connect_timeout(&address, Duration::from_millis(300)).ok();
    let waiting = std::iter::from_fn(connect).collect();
    (listener, address, waiting)
}

/// Connections that one worker may have under way.
const UNDER_WAY_MAX: usize = 256;

/// A server with more connections to `address` under way than it may have: those beyond the bound
/// are refused at once. Under `threads` all are.
fn dials_at(driver: Driver, address: SocketAddr) -> (Node, Client) {
    let node = Node::plain(driver);
    node.ask_at(address);
    let mut client = node.client();
    client.ask(b"get dials\r\n", b"END\r\n");
    let refused = node.seen.refused.load(Ordering::SeqCst);
    assert!(refused >= DIALS - UNDER_WAY_MAX, "{driver:?}: {refused}");
    (node, client)
}

#[test]
fn a_connection_that_is_not_opened_in_time_is_given_up() {
    let (_listener, address, _waiting) = full_listener();
    for driver in drivers() {
        let (node, mut client) = dials_at(driver, address);
        let refused = || node.seen.refused.load(Ordering::SeqCst);
        eventually("all are reported", || refused() == DIALS);
        // What is ordered at the deadline, when nothing else happens, is done.
        client.ask(b"get link-a\r\nversion\r\n", b"REFUSED\r\nVERSION 1\r\n");
    }
}

#[test]
fn what_is_under_way_is_reported_when_the_server_stops() {
    let (_listener, address, _waiting) = full_listener();
    for driver in drivers() {
        let (node, mut client) = dials_at(driver, address);
        client.ask(b"get note\r\n", b"END\r\n");
        node.server.remote().stop();
        node.server.join();
        assert!(node.seen.refused.load(Ordering::SeqCst) >= DIALS, "{driver:?}");
    }
}

/// The other end of a link that a server opens to `listener`, when it asks `expected`.
fn asked(listener: &TcpListener, expected: &str) -> BufReader<TcpStream> {
    let (peer, _) = listener.accept().expect("it connects");
    peer.set_read_timeout(Some(PATIENCE)).expect("a fresh socket");
    let mut peer = BufReader::new(peer);
    let mut line = String::new();
    peer.read_line(&mut line).expect("it asks in time");
    assert_eq!(line, expected);
    peer
}

#[test]
fn a_link_that_its_peer_resets_is_reported() {
    for driver in drivers() {
        let node = Node::plain(driver);
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        node.ask_at(listener.local_addr().expect("it listens"));
        let closed = || node.seen.links_closed.lock().expect("unpoisoned").len();
        let mut client = node.client();
        client.send(b"get link-a\r\nversion\r\n");
        let peer = asked(&listener, "ask 0 link-a\n");
        set_socket_linger(peer.get_ref(), Some(Duration::ZERO)).expect("an open socket");
        drop(peer);
        client.expect(b"LOST\r\nVERSION 1\r\n");
        eventually("the handler is called", || closed() == 1);
        node.link().die_after(b"note\n");
        eventually("for an accepted one too", || closed() == 2);
        let counted = node.server.remote().snapshot();
        assert_eq!((counted.links_opened, counted.links_closed), (2, 2), "{driver:?}");
        // The next request opens another one.
        client.send(b"get link-b\r\n");
        let mut peer = asked(&listener, "ask 1 link-b\n");
        peer.get_mut().write_all(b"got 1 link-b\n").expect("it reads");
        client.expect(b"link-b\r\n");
    }
}

#[test]
fn links_have_no_limit_and_are_not_idle() {
    for driver in drivers() {
        for reject_at_limit in [true, false] {
            let node = Node::new(driver, |config| {
                config.connections_max = 2;
                config.reject_at_limit = reject_at_limit;
                (config.idle_timeout_s, config.stall_timeout_s) = (1, 1);
            });
            let remote = node.server.remote();
            let mut links: Vec<Client> = (0..5).map(|_| node.link()).collect();
            for link in &mut links {
                // It stops in the middle of what it sends next.
                link.ask(b"ask 7 a\nask 9", b"got 7 a\n");
            }
            assert_eq!((remote.open(), remote.snapshot().links_open()), (0, 5), "{driver:?}");
            let mut clients: Vec<Client> = (0..2).map(|_| node.client()).collect();
            for client in &mut clients {
                client.ask(b"version\r\n", b"VERSION 1\r\n");
            }
            let mut third = node.client();
            if reject_at_limit {
                assert_eq!(third.rest(), b"ERROR Too many open connections\r\n");
            } else {
                eventually("clients wait", || !remote.is_accepting());
            }
            let mut late = node.link();
            late.ask(b"ask 8 b\nask 9", b"got 8 b\n");
            links.push(late);
            let shown = remote.connections();
            let count = |state| shown.iter().filter(|report| report.state == state).count();
            assert_eq!((count(State::Link), count(State::Listening)), (6, 2), "{driver:?}");
            eventually("silent clients are closed", || remote.snapshot().idle_kicks >= 2);
            for link in &mut links {
                link.ask(b" c\n", b"got 9 c\n");
            }
            assert_eq!(remote.snapshot().links_closed, 0, "{driver:?}");
        }
    }
}

#[test]
fn a_link_is_read_while_its_peer_takes_nothing() {
    for driver in drivers() {
        let node = Node::plain(driver);
        let mut link = node.link();
        let (bigs, notes) = (400, 4 << 20);
        link.send(&b"big\n".repeat(bigs));
        link.send(&b"note\n".repeat(notes));
        eventually("all is taken in", || node.seen.notes.load(Ordering::SeqCst) == notes);
        // A turn that is ordered meanwhile comes after what was sent before.
        link.send(b"ask 7 a\n");
        link.expect(&[&vec![b'x'; bigs * BIG_BYTES][..], b"got 7 a\n"].concat());
        link.ask(b"ask 8 b\n", b"got 8 b\n");
    }
}

#[test]
fn links_are_spread_over_the_workers() {
    for driver in drivers() {
        let node = Node::new(driver, |config| config.workers = 4);
        let mut links: Vec<Client> = (0..8).map(|_| node.link()).collect();
        for link in &mut links {
            link.ask(b"ask 7 a\n", b"got 7 a\n");
        }
        let opened = node.seen.links_opened.lock().expect("unpoisoned");
        let of_worker = |worker| opened.iter().filter(|id| id.worker.0 == worker).count();
        let expected = if driver == Driver::Threads { [8, 0, 0, 0] } else { [2; 4] };
        assert_eq!([0, 1, 2, 3].map(of_worker), expected, "{driver:?}");
    }
}

#[test]
fn draining_closes_links_after_the_last_client() {
    for driver in drivers() {
        let node = Node::plain(driver);
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        node.ask_at(listener.local_addr().expect("it listens"));
        let mut accepted: Vec<Client> = (0..3).map(|_| node.link()).collect();
        for link in &mut accepted {
            link.ask(b"ask 7 a\n", b"got 7 a\n");
        }
        let mut client = node.client();
        client.send(b"get link-a\r\n");
        let mut peer = asked(&listener, "ask 0 link-a\n");
        // Longer than the test waits: what ends before is ended by the last client.
        node.server.remote().drain(10 * PATIENCE);
        // Every worker has seen that the server drains when it has answered this.
        for _ in 0..2 {
            for link in &mut accepted {
                link.ask(b"ask 8 b\n", b"got 8 b\n");
            }
        }
        peer.get_mut().write_all(b"got 0 link-a\n").expect("the link is open");
        client.expect(b"link-a\r\n");
        client.expect_end();
        let mut rest = String::new();
        assert_eq!(peer.read_line(&mut rest).expect("it closes in time"), 0, "{rest}");
        accepted.iter_mut().for_each(Client::expect_end);
        node.server.join();
        assert_eq!(node.seen.links_closed.lock().expect("unpoisoned").len(), 4);
    }
}

#[test]
fn stopping_ends_links_too() {
    for driver in drivers() {
        let node = Node::plain(driver);
        let mut links: Vec<Client> = (0..5).map(|_| node.link()).collect();
        for link in &mut links {
            link.ask(b"ask 7 a\n", b"got 7 a\n");
        }
        node.server.remote().stop();
        node.server.join();
        links.iter_mut().for_each(Client::expect_end);
        assert_eq!(node.seen.links_closed.lock().expect("unpoisoned").len(), 5);
    }
}
