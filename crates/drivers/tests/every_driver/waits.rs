//! Waits, on every driver: a parked request, a gate, a ticket, mail. Each ends, in its order, and
//! harms no other connection.

use std::sync::atomic::Ordering;
use std::time::Duration;

use drivers::{Driver, Post};
use session::{LogId, WorkerId};

use crate::support::client::Client;
use crate::support::{PATIENCE, Rig, drivers, eventually};

const VERSION: (&[u8], &[u8]) = (b"version\r\n", b"VERSION 1\r\n");

/// A server with one worker, except under the driver that has one for each client.
fn one_worker(driver: Driver) -> Rig {
    Rig::new(driver, |config| config.workers = 1)
}

fn set_full(rig: &Rig, full: bool) {
    rig.shared.full.store(full, Ordering::SeqCst);
}

fn parked(rig: &Rig) -> usize {
    rig.shared.parked.lock().expect("unpoisoned").len()
}

/// Asks as the first request of a new connection, so that its batch has seen what was set.
fn connect(rig: &Rig) -> Client {
    let mut client = rig.connect();
    client.ask(VERSION.0, VERSION.1);
    client
}

#[test]
fn parked_requests_run_first_in_first_out_and_hold_up_nobody_else() {
    for driver in drivers() {
        let rig = one_worker(driver);
        set_full(&rig, true);
        let mut other = connect(&rig);
        let mut clients: Vec<_> = (0..20).map(|_| connect(&rig)).collect();
        for (at, client) in clients.iter_mut().enumerate() {
            client.send(b"get a\r\nget park\r\nget gate\r\nversion\r\n");
            client.expect(b"END\r\n");
            eventually("it is parked", || parked(&rig) == at + 1);
            other.ask(VERSION.0, VERSION.1);
        }
        set_full(&rig, false);
        for client in &mut clients {
            client.expect(b"END\r\nEND\r\nVERSION 1\r\n");
        }
        let parked = rig.shared.parked.lock().expect("unpoisoned").clone();
        let ran = rig.shared.ran.lock().expect("unpoisoned").clone();
        if driver == Driver::Threads {
            assert_eq!(ran.len(), parked.len());
        } else {
            assert_eq!(ran, parked, "{driver:?}");
        }
    }
}

#[test]
fn many_parked_requests_do_not_stall_others() {
    for driver in drivers() {
        let rig = one_worker(driver);
        set_full(&rig, true);
        let mut clients: Vec<_> = (0..400).map(|_| connect(&rig)).collect();
        for client in &mut clients {
            client.send(b"set park 0 0 3\r\nabc\r\nget park\r\n");
        }
        eventually("all are parked", || parked(&rig) == 400);
        let mut other = connect(&rig);
        for _ in 0..100 {
            other.ask(VERSION.0, VERSION.1);
        }
        set_full(&rig, false);
        for client in &mut clients {
            client.expect(b"STORED\r\nVALUE park 0 3\r\nabc\r\nEND\r\n");
        }
        eventually("the budget has everything back", || rig.budget.used_total() == 0);
    }
}

#[test]
fn a_large_value_that_is_parked_is_stored_later() {
    let set = [&b"set park 0 0 1000000\r\n"[..], &[b'v'; 1_000_000], b"\r\n"].concat();
    let value = [&b"VALUE park 0 1000000\r\n"[..], &[b'v'; 1_000_000], b"\r\nEND\r\n"].concat();
    for driver in drivers() {
        let rig = one_worker(driver);
        set_full(&rig, true);
        let mut client = connect(&rig);
        client.send(&set);
        client.send(b"get park\r\n");
        eventually("it is parked", || parked(&rig) == 1);
        set_full(&rig, false);
        client.expect(&[b"STORED\r\n", &value[..]].concat());
    }
}

/// While its requests are parked a client is not silent: it is so only from when it is read again.
#[test]
fn a_parked_client_is_not_silent() {
    let late = b"SERVER_ERROR parked for too long\r\n".repeat(2);
    let test = &|driver| {
        let rig = Rig::new(driver, |config| config.idle_timeout_s = 2);
        set_full(&rig, true);
        let mut client = connect(&rig);
        client.ask(b"get park\r\nget park\r\n", &late);
        // Longer than a time-out that had passed before would take to be noticed.
        std::thread::sleep(Duration::from_millis(1500));
        client.ask(VERSION.0, VERSION.1);
        assert_eq!(rig.server.remote().snapshot().idle_kicks, 0, "{driver:?}");
    };
    std::thread::scope(|scope| {
        for driver in drivers() {
            scope.spawn(move || test(driver));
        }
    });
}

#[test]
fn a_parked_connection_that_is_reset_closes() {
    for driver in drivers() {
        let rig = one_worker(driver);
        set_full(&rig, true);
        let mut clients: Vec<_> = (0..5).map(|_| connect(&rig)).collect();
        for client in &mut clients {
            client.send(b"get park\r\n");
        }
        eventually("all are parked", || parked(&rig) == 5);
        for client in clients {
            client.die_after(b"get a\r\n");
        }
        rig.wait_for_open(0);
    }
}

#[test]
fn draining_waits_for_a_parked_request_and_stopping_does_not() {
    for driver in drivers() {
        let rig = one_worker(driver);
        set_full(&rig, true);
        let mut client = connect(&rig);
        client.send(b"get park\r\nversion\r\n");
        eventually("it is parked", || parked(&rig) == 1);
        rig.server.remote().drain(PATIENCE);
        set_full(&rig, false);
        assert_eq!(client.rest(), b"END\r\nVERSION 1\r\n", "{driver:?}");
        rig.server.join();

        let rig = one_worker(driver);
        set_full(&rig, true);
        let mut client = connect(&rig);
        client.send(b"get park\r\n");
        eventually("it is parked", || parked(&rig) == 1);
        rig.server.remote().stop();
        rig.server.join();
        client.expect_end();
    }
}

#[test]
fn what_waits_for_too_long_ends_in_an_error_that_names_it() {
    let test = &|driver| {
        let rig = one_worker(driver);
        set_full(&rig, true);
        let cases: [(&[u8], &[u8]); 4] = [
            (b"get park\r\n", b"SERVER_ERROR parked for too long\r\n"),
            (b"get lost\r\n", b"SERVER_ERROR no answer came\r\n"),
            (b"get never\r\n", b"SERVER_ERROR log 10 has not passed 1\r\n"),
            // Three replies of one entry, one of which its client does not want.
            (
                b"get never\r\nset never 0 0 1 noreply\r\nx\r\nget never\r\n",
                b"SERVER_ERROR log 10 has not passed 1\r\nSERVER_ERROR log 10 has not passed 1\r\n",
            ),
        ];
        let mut clients: Vec<_> = cases.iter().map(|_| connect(&rig)).collect();
        for (client, (request, _)) in clients.iter_mut().zip(cases) {
            client.send(&[request, b"get slow\r\nversion\r\n"].concat());
        }
        for (client, (_, error)) in clients.iter_mut().zip(cases) {
            client.expect(&[error, b"END\r\nVERSION 1\r\n"].concat());
        }
        let ticket = rig.shared.lost.lock().expect("unpoisoned")[0];
        assert!(rig.server.remote().complete(ticket, b"much too late\r\n".to_vec(), true));
        for client in &mut clients {
            client.ask(VERSION.0, VERSION.1);
        }
    };
    std::thread::scope(|scope| {
        drivers().into_iter().for_each(|it| drop(scope.spawn(move || test(it))))
    });
}

#[test]
fn a_reply_comes_in_parts() {
    for driver in drivers() {
        let rig = one_worker(driver);
        let remote = rig.server.remote();
        let mut client = connect(&rig);
        client.send(b"get lost\r\nget lost\r\nversion\r\n");
        let lost = || rig.shared.lost.lock().expect("unpoisoned").clone();
        eventually("both are executed", || lost().len() == 2);
        let tickets = lost();
        assert!(remote.complete(tickets[1], b"second ".to_vec(), false));
        assert!(remote.complete(tickets[0], b"first ".to_vec(), false));
        client.expect(b"first ");
        assert!(remote.complete(tickets[0], b"END\r\n".to_vec(), true));
        client.expect(b"END\r\nsecond ");
        assert!(remote.complete(tickets[0], b"no more\r\n".to_vec(), true));
        assert!(remote.complete(tickets[1], b"END\r\n".to_vec(), true));
        client.expect(b"END\r\nVERSION 1\r\n");
    }
}

#[test]
fn a_full_mailbox_closes_the_connection_whose_reply_it_refuses() {
    for driver in drivers() {
        let rig = one_worker(driver);
        let remote = rig.server.remote();
        let mut other = connect(&rig);
        let mut client = connect(&rig);
        client.send(b"get lost\r\nget block\r\n");
        eventually("its worker is blocked", || rig.shared.blocked.load(Ordering::SeqCst) == 1);
        let ticket = rig.shared.lost.lock().expect("unpoisoned")[0];
        let gone =
            session::ConnId { generation: ticket.conn.generation.wrapping_sub(1), ..ticket.conn };
        let posted = (0..2 << 20).take_while(|_| remote.pause_read(gone, true)).count();
        assert_eq!(posted, 1 << 20);
        assert!(!remote.complete(ticket, b"END\r\n".to_vec(), true), "refused");
        rig.shared.unblock();
        client.expect_end();
        assert_eq!(remote.snapshot().mailbox_kicks, 1, "{driver:?}");
        other.ask(b"get slow\r\n", b"END\r\n");
    }
}

#[test]
fn mail_reaches_the_handler_of_each_worker() {
    for driver in drivers() {
        let rig = Rig::plain(driver);
        let mut client = connect(&rig);
        let conn = rig.shared.latest.lock().expect("unpoisoned").expect("one has asked");
        let post: Post<u64> =
            rig.shared.post.lock().expect("unpoisoned").clone().expect("handlers were made");
        let last = if driver == Driver::Threads { conn.worker } else { WorkerId(1) };
        assert!(post.send(WorkerId(0), 7) && post.send(last, 8));
        // A thread that waits for its client takes its mail before the next request.
        client.ask(VERSION.0, VERSION.1);
        client.ask(VERSION.0, VERSION.1);
        let expected = [(WorkerId(0), 7), (last, 8)];
        eventually("it is delivered", || {
            let mut mail = rig.shared.mail.lock().expect("unpoisoned").clone();
            mail.sort_by_key(|(worker, _)| worker.0);
            mail == expected
        });
        assert!(!post.send(WorkerId(999), 9), "no such worker");
    }
}

#[test]
fn a_mark_that_a_worker_raises_itself_needs_no_wake_up() {
    for driver in drivers() {
        let rig = one_worker(driver);
        let mut client = connect(&rig);
        let remote = rig.server.remote();
        let before = remote.snapshot().wakeups;
        for _ in 0..20 {
            client.ask(b"get own\r\nget own\r\nversion\r\n", b"END\r\nEND\r\nVERSION 1\r\n");
        }
        let woken = remote.snapshot().wakeups - before;
        assert!(woken <= 21, "{driver:?} woke {woken} times for 20 batches");
    }
}

#[test]
fn a_mark_wakes_only_workers_that_wait_for_its_log() {
    for driver in drivers() {
        let rig = Rig::plain(driver);
        let remote = rig.server.remote();
        let mut client = connect(&rig);
        let before = remote.snapshot().wakeups;
        for _ in 0..1000 {
            remote.release(LogId(55));
        }
        client.ask(VERSION.0, VERSION.1);
        let woken = remote.snapshot().wakeups - before;
        assert!(woken <= 2, "{driver:?} woke {woken} times for a log that nobody waits for");
        client.ask(b"get gate\r\n", b"END\r\n");
    }
}
