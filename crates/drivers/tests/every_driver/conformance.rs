//! One suite for every driver: the same script gives the same bytes, and every promise holds.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;
use std::time::Duration;

use drivers::{Config, Driver, Listen, Server, StartError, State};

use crate::support::client::Client;
use crate::support::{self, PATIENCE, Rig, drivers, eventually};

fn set(key: &str, len: usize) -> Vec<u8> {
    let mut request = format!("set {key} 0 0 {len}\r\n").into_bytes();
    request.extend((0..len).map(byte_at));
    request.extend(b"\r\n");
    request
}

fn value(key: &str, len: usize) -> Vec<u8> {
    let mut reply = format!("VALUE {key} 0 {len}\r\n").into_bytes();
    reply.extend((0..len).map(byte_at));
    reply.extend(b"\r\n");
    reply
}

/// The bytes of every value: line ends among them.
fn byte_at(at: usize) -> u8 {
    (at % 251) as u8
}

/// A pipeline of all kinds of requests and the exact replies to it.
fn script() -> (Vec<u8>, Vec<u8>) {
    let (mut requests, mut replies) = (Vec::new(), Vec::new());
    let mut add = |request: Vec<u8>, reply: Vec<u8>| {
        requests.extend(request);
        replies.extend(reply);
    };
    let end = |mut values: Vec<u8>| {
        values.extend(b"END\r\n");
        values
    };
    for round in 0..20 {
        add(set("a", 10 + round), b"STORED\r\n".to_vec());
        add(b"get a\r\n".to_vec(), end(value("a", 10 + round)));
        add(set("slow-b", 100), b"STORED\r\n".to_vec());
        add(
            b"get slow-b a nobody\r\n".to_vec(),
            end([value("slow-b", 100), value("a", 10 + round)].concat()),
        );
        add(set("gate-c", 40_000), b"STORED\r\n".to_vec());
        add(b"get gate-c\r\n".to_vec(), end(value("gate-c", 40_000)));
        add(b"set n 0 0 1 noreply\r\nx\r\n".to_vec(), Vec::new());
        add(b"set slow-n 0 0 1 noreply\r\nx\r\n".to_vec(), Vec::new());
        add(b"nonsense\r\n".to_vec(), b"ERROR\r\n".to_vec());
        add(set("huge", (2 << 20) + 1), b"SERVER_ERROR object too large for cache\r\n".to_vec());
        add(b"version\r\n".to_vec(), b"VERSION 1\r\n".to_vec());
    }
    (requests, replies)
}

/// Sends `requests` in pieces from one thread while another one reads.
fn converse(mut client: Client, requests: &[u8], pieces: &[usize], replies: &[u8]) {
    let mut reader = client.twin();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut rest = requests;
            for piece in pieces.iter().cycle() {
                let (now, later) = rest.split_at((*piece).min(rest.len()));
                client.send(now);
                rest = later;
                if rest.is_empty() {
                    return;
                }
            }
        });
        reader.expect(replies);
    });
}

#[test]
fn the_same_script_gives_the_same_bytes_however_it_is_cut() {
    let (requests, replies) = script();
    for driver in drivers() {
        let rig = Rig::plain(driver);
        for pieces in [&[usize::MAX][..], &[65_536], &[1000, 1, 5], &[40_007], &[7, 100_000]] {
            converse(rig.connect(), &requests, pieces, &replies);
        }
    }
}

#[test]
fn one_byte_at_a_time() {
    let requests = b"set a 0 0 5\r\nhello\r\nget a slow\r\nget slow a\r\nversion\r\n";
    let replies =
        b"STORED\r\nVALUE a 0 5\r\nhello\r\nEND\r\nVALUE a 0 5\r\nhello\r\nEND\r\nVERSION 1\r\n";
    for driver in drivers() {
        let rig = Rig::plain(driver);
        converse(rig.connect(), requests, &[1], replies);
    }
}

#[test]
fn a_value_of_a_megabyte_goes_in_and_out() {
    for driver in drivers() {
        let rig = Rig::plain(driver);
        let mut client = rig.connect();
        let reply = [value("big", 1 << 20), b"END\r\n".to_vec()].concat();
        for _ in 0..3 {
            client.ask(&set("big", 1 << 20), b"STORED\r\n");
            client.ask(b"get big\r\n", &reply);
        }
        eventually("the buffers are given back", || rig.budget.used_total() == 0);
    }
}

#[test]
fn a_multiget_of_thousands_of_keys() {
    for driver in drivers() {
        let rig = Rig::plain(driver);
        let mut client = rig.connect();
        client.ask(&set("hit", 10), b"STORED\r\n");
        let request = format!("get{}\r\n", " missing hit".repeat(5000));
        let reply = [value("hit", 10).repeat(5000), b"END\r\n".to_vec()].concat();
        client.ask(request.as_bytes(), &reply);
    }
}

#[test]
fn a_client_that_never_reads_is_bounded_and_harms_nobody() {
    for driver in drivers() {
        let rig = Rig::plain(driver);
        let mut other = rig.connect();
        other.ask(&set("v", 10_000), b"STORED\r\n");
        let mut deaf = rig.connect();
        let request = b"get v\r\n".repeat(1000);
        // 64 MiB of requests ask for 90 GiB of replies.
        let sent = deaf.send_until_refused(&request, 64 << 20);
        assert!(sent < 32 << 20, "{driver:?} read {sent} bytes from a client that never reads");
        for _ in 0..100 {
            other.ask(b"version\r\n", b"VERSION 1\r\n");
        }
        let held = rig.budget.used(base::Owner::Connections);
        assert!(held < 3 << 20, "{driver:?} holds {held} bytes for it");
        drop(deaf);
        rig.wait_for_open(1);
        eventually("its memory is given back", || rig.budget.used_total() == 0);
    }
}

#[test]
fn a_slow_client_gets_everything_in_the_end() {
    for driver in drivers() {
        let rig = Rig::plain(driver);
        let mut client = rig.connect();
        client.ask(&set("v", 30_000), b"STORED\r\n");
        client.ask(&set("w", 3000), b"STORED\r\n");
        client.send(&b"get v w\r\n".repeat(1000));
        let reply = [value("v", 30_000), value("w", 3000), b"END\r\n".to_vec()].concat();
        for _ in 0..1000 {
            client.expect(&reply);
        }
        client.ask(b"version\r\n", b"VERSION 1\r\n");
    }
}

#[test]
fn what_is_executed_after_a_slow_client_has_taken_its_replies_has_the_time_of_then() {
    for driver in drivers() {
        let rig = Rig::plain(driver);
        let mut client = rig.connect();
        client.ask(&set("v", 30_000), b"STORED\r\n");
        // One batch, of which the last request comes after more than the sockets take.
        client.send(&[b"get v\r\n".repeat(1000), b"version\r\n".to_vec()].concat());
        let remote = rig.server.remote();
        let is_slow = || remote.connections().iter().any(|it| it.state == State::Write);
        eventually("it has not taken all", is_slow);
        let taken_ns = remote.now().mono_ns;
        let reply = [value("v", 30_000), b"END\r\n".to_vec()].concat();
        for _ in 0..1000 {
            client.expect(&reply);
        }
        client.expect(b"VERSION 1\r\n");
        let seen_ns = rig.shared.now_ns.load(Ordering::SeqCst);
        assert!(seen_ns >= taken_ns, "{driver:?}: {seen_ns} is before {taken_ns}");
    }
}

#[test]
fn clients_that_vanish_leave_nothing_behind() {
    for driver in drivers() {
        let rig = Rig::plain(driver);
        let mut stays = rig.connect();
        for unfinished in
            [&b"get "[..], b"set a 0 0 100000\r\nhalf", b"get slow a\r\n", b"", b"get gate\r\n"]
        {
            for _ in 0..20 {
                rig.connect().send(unfinished);
            }
        }
        // The last one has been accepted only when it was answered.
        rig.connect().ask(b"version\r\n", b"VERSION 1\r\n");
        rig.wait_for_open(1);
        stays.ask(b"version\r\n", b"VERSION 1\r\n");
        eventually("handlers are called", || rig.shared.closed.load(Ordering::SeqCst) == 101);
        eventually("memory is given back", || rig.budget.used_total() == 0);
        let snapshot = rig.server.remote().snapshot();
        assert_eq!((snapshot.accepted, snapshot.closed), (102, 101));
    }
}

#[test]
fn a_client_that_half_closes_gets_its_replies() {
    for driver in drivers() {
        let rig = Rig::plain(driver);
        let mut client = rig.connect();
        client.send(b"set slow 0 0 1\r\nx\r\nget gate slow\r\nversion\r\n");
        client.finish_sending();
        let replies = b"STORED\r\nVALUE slow 0 1\r\nx\r\nEND\r\nVERSION 1\r\n";
        assert_eq!(client.rest(), replies, "{driver:?}");
    }
}

#[test]
fn quit_closes_after_what_came_before() {
    for driver in drivers() {
        let rig = Rig::plain(driver);
        let mut client = rig.connect();
        client.send(b"get slow\r\nversion\r\nquit\r\nversion\r\n");
        client.expect(b"END\r\nVERSION 1\r\n");
        client.expect_end();
    }
}

#[test]
fn a_connection_can_be_closed_and_paused_from_outside() {
    for driver in drivers() {
        let rig = Rig::plain(driver);
        let remote = rig.server.remote();
        let mut client = rig.connect();
        client.ask(b"version\r\n", b"VERSION 1\r\n");
        let conn = rig.shared.latest.lock().expect("unpoisoned").expect("one has asked");
        assert!(remote.pause_read(conn, true) && remote.pause_read(conn, false));
        client.ask(b"version\r\n", b"VERSION 1\r\n");
        let older = session::ConnId { generation: conn.generation.wrapping_sub(1), ..conn };
        assert!(remote.close(older), "its worker is there, it is not");
        client.ask(b"version\r\n", b"VERSION 1\r\n");
        assert!(remote.close(conn));
        client.expect_end();
        rig.wait_for_open(0);
    }
}

#[test]
fn a_long_pipeline_lets_others_have_their_turn() {
    for driver in drivers() {
        let rig = Rig::new(driver, |config| config.resources.bounds.requests_per_turn = 20);
        let mut client = rig.connect();
        client.ask(&b"version\r\n".repeat(1000), &b"VERSION 1\r\n".repeat(1000));
        client.ask(b"version\r\n", b"VERSION 1\r\n");
        let yields = rig.server.remote().snapshot().yields;
        assert!((10..=50).contains(&yields), "{driver:?} yielded {yields} times");
        eventually("its input is given back", || rig.budget.used_total() == 0);
    }
}

#[test]
fn a_client_that_takes_nothing_is_closed_in_the_end() {
    for driver in drivers() {
        let rig = Rig::new(driver, |config| config.stall_timeout_s = 1);
        let mut deaf = rig.connect();
        deaf.ask(&set("v", 10_000), b"STORED\r\n");
        deaf.send_until_refused(&b"get v\r\n".repeat(1000), 64 << 20);
        let remote = rig.server.remote();
        eventually("it is closed", || remote.open() == 0);
        assert_eq!(remote.snapshot().stall_kicks, 1, "{driver:?}");
    }
}

#[test]
fn a_client_that_stops_in_a_long_request_is_closed_in_the_end() {
    let value = set("v", 100_000);
    let behind = [&b"version\r\n"[..], &value[..900]].concat();
    let line = [&b"get"[..], &b" k".repeat(3000)].concat();
    let cases: [(&[u8], &[u8]); 4] =
        [(&value[..30], b""), (&value[..90_000], b""), (&behind, b"VERSION 1\r\n"), (&line, b"")];
    for driver in drivers() {
        let rig = Rig::new(driver, |config| config.stall_timeout_s = 1);
        // These are silent for longer, and take no memory.
        let mut quiet = rig.connect();
        quiet.ask(b"version\r\n", b"VERSION 1\r\n");
        let mut brief = rig.connect();
        let short = set("v", 1_000);
        brief.ask(b"version\r\n", b"VERSION 1\r\n");
        brief.send(&short[..900]);
        let mut silent: Vec<Client> = cases.iter().map(|_| rig.connect()).collect();
        for (client, (part, reply)) in silent.iter_mut().zip(cases) {
            client.ask(part, reply);
        }
        silent.iter_mut().for_each(Client::expect_end);
        rig.wait_for_open(2);
        let counted = rig.server.remote().snapshot();
        let kicks = (counted.upload_kicks, counted.stall_kicks, counted.idle_kicks);
        assert_eq!(kicks, (silent.len() as u64, 0, 0), "{driver:?}");
        eventually("their memory is given back", || rig.budget.used_total() == 0);
        brief.ask(&short[900..], b"STORED\r\n");
        quiet.ask(b"version\r\n", b"VERSION 1\r\n");
    }
}

#[test]
fn without_memory_for_what_it_does_not_take_a_client_is_closed() {
    for driver in drivers() {
        let rig = Rig::new(driver, |config| {
            config.resources.budget = base::MemoryBudget::new(64 << 10);
        });
        let mut deaf = rig.connect();
        deaf.ask(&set("v", 10_000), b"STORED\r\n");
        deaf.send_until_refused(&b"get v\r\n".repeat(1000), 64 << 20);
        rig.wait_for_open(0);
        if driver != Driver::Uring {
            // There, its requests may arrive faster than memory allows to keep them.
            assert_eq!(rig.server.remote().snapshot().memory_kicks, 1, "{driver:?}");
        }
        rig.connect().ask(b"version\r\n", b"VERSION 1\r\n");
    }
}

#[test]
fn a_handler_is_called_when_it_asked_to_be() {
    for driver in drivers() {
        let rig = Rig::plain(driver);
        let soon_ns = rig.server.remote().now().mono_ns + 50_000_000;
        rig.shared.wake_at_ns.store(soon_ns, Ordering::SeqCst);
        rig.connect().ask(b"version\r\n", b"VERSION 1\r\n");
        eventually("it is called", || rig.shared.woken.load(Ordering::SeqCst) > 0);
    }
}

#[test]
fn without_the_right_to_answer_replies_are_dropped_with_their_connections() {
    for driver in drivers() {
        let rig = Rig::plain(driver);
        let mut client = rig.connect();
        client.ask(b"version\r\n", b"VERSION 1\r\n");
        rig.shared.deposed.store(true, Ordering::SeqCst);
        client.send(b"version\r\n");
        client.expect_end();
    }
}

#[test]
fn so_are_replies_that_queue_behind_one_that_waits() {
    for driver in drivers() {
        let rig = Rig::plain(driver);
        let mut client = rig.connect();
        client.ask(b"version\r\n", b"VERSION 1\r\n");
        rig.shared.deposed.store(true, Ordering::SeqCst);
        client.send(b"get never\r\nget v\r\n");
        client.expect_end();
    }
}

#[test]
fn a_client_at_the_limit_gets_an_error_until_another_leaves() {
    for driver in drivers() {
        let rig = Rig::new(driver, |config| config.connections_max = 3);
        let mut clients: Vec<Client> = (0..3).map(|_| rig.connect()).collect();
        for client in &mut clients {
            client.ask(b"version\r\n", b"VERSION 1\r\n");
        }
        assert_eq!(rig.connect().rest(), b"ERROR Too many open connections\r\n");
        assert_eq!(rig.server.remote().snapshot().rejected, 1);
        assert!(rig.server.remote().is_accepting(), "to reject a client it is accepted");
        clients.pop();
        rig.wait_for_open(2);
        rig.connect().ask(b"version\r\n", b"VERSION 1\r\n");
    }
}

#[test]
fn at_the_limit_clients_can_wait_instead() {
    for driver in drivers() {
        let rig = Rig::new(driver, |config| {
            config.connections_max = 2;
            config.reject_at_limit = false;
        });
        let mut clients: Vec<Client> = (0..2).map(|_| rig.connect()).collect();
        for client in &mut clients {
            client.ask(b"version\r\n", b"VERSION 1\r\n");
        }
        let remote = rig.server.remote();
        let mut waits = rig.connect();
        waits.send(b"version\r\n");
        eventually("accepting has stopped", || !remote.is_accepting());
        clients.pop();
        waits.expect(b"VERSION 1\r\n");
        clients.pop();
        eventually("clients are accepted again", || remote.is_accepting());
        assert_eq!(remote.snapshot().rejected, 0);
    }
}

#[test]
fn silence_is_timed_out_and_talk_is_not() {
    for driver in drivers() {
        let rig = Rig::new(driver, |config| config.idle_timeout_s = 2);
        let mut silent = rig.connect();
        let mut talks = rig.connect();
        silent.ask(b"version\r\n", b"VERSION 1\r\n");
        while rig.server.remote().snapshot().idle_kicks == 0 {
            talks.ask(b"version\r\n", b"VERSION 1\r\n");
        }
        silent.expect_end();
        talks.ask(b"version\r\n", b"VERSION 1\r\n");
    }
}

#[test]
fn one_receive_and_at_most_one_send_for_each_readable_event() {
    for driver in drivers() {
        let rig = Rig::plain(driver);
        let mut client = rig.connect();
        client.ask(&set("v", 300), b"STORED\r\n");
        let reply = [value("v", 300), b"END\r\n".to_vec()].concat();
        let remote = rig.server.remote();
        for depth in [1, 16, 100] {
            let before = remote.snapshot();
            for _ in 0..50 {
                client.ask(&b"get v\r\n".repeat(depth), &reply.repeat(depth));
            }
            let after = remote.snapshot();
            let events = after.readable - before.readable;
            assert!((50..=51).contains(&events), "{driver:?}: {events} events for 50 batches");
            assert_eq!(after.recv_calls - before.recv_calls, events, "{driver:?} at {depth}");
            assert!(after.send_calls - before.send_calls <= events, "{driver:?} at {depth}");
        }
    }
}

#[test]
fn draining_answers_what_has_arrived_and_ends() {
    for driver in drivers() {
        let rig = Rig::plain(driver);
        let mut idle = rig.connect();
        let mut busy = rig.connect();
        idle.ask(b"version\r\n", b"VERSION 1\r\n");
        busy.ask(b"version\r\n", b"VERSION 1\r\n");
        let request = [b"get slow\r\n".repeat(50), b"version\r\n".to_vec()].concat();
        busy.send(&request);
        rig.server.remote().drain(Duration::from_secs(10));
        busy.expect(&[b"END\r\n".repeat(50), b"VERSION 1\r\n".to_vec()].concat());
        busy.expect_end();
        idle.expect_end();
        rig.server.join();
    }
}

#[test]
fn draining_does_not_wait_for_ever() {
    for driver in drivers() {
        let rig = Rig::plain(driver);
        let mut stuck = rig.connect();
        stuck.ask(b"version\r\n", b"VERSION 1\r\n");
        stuck.send(b"set a 0 0 10\r\nhalf");
        rig.server.remote().drain(Duration::from_millis(100));
        rig.server.join();
        stuck.expect_end();
    }
}

#[test]
fn stopping_ends_every_connection() {
    for driver in drivers() {
        let rig = Rig::plain(driver);
        let mut clients: Vec<Client> = (0..10).map(|_| rig.connect()).collect();
        for client in &mut clients {
            client.ask(b"version\r\n", b"VERSION 1\r\n");
        }
        rig.server.remote().stop();
        rig.server.join();
        for client in &mut clients {
            client.expect_end();
        }
        assert_eq!(rig.shared.closed.load(Ordering::SeqCst), 10);
    }
}

#[test]
fn a_server_that_nobody_came_to_ends() {
    for driver in drivers() {
        let endings: [fn(&Server); 2] = [
            |server| server.remote().stop(),
            |server| server.remote().drain(Duration::from_secs(60)),
        ];
        for ending in endings {
            let rig = Rig::plain(driver);
            ending(&rig.server);
            let (tell, ended) = channel();
            std::thread::spawn(move || {
                rig.server.join();
                tell.send(())
            });
            // Sooner than the limit of the drain, and than workers wake up without a cause.
            assert_eq!(ended.recv_timeout(PATIENCE), Ok(()), "{driver:?}");
        }
    }
}

fn socket_file(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("volvox-{}-{name}.sock", std::process::id()))
}

#[test]
fn a_socket_file_has_its_mode_and_goes_with_the_server() {
    for driver in drivers() {
        let path = socket_file(&format!("{driver:?}"));
        // The file of a process that has died.
        drop(std::os::unix::net::UnixListener::bind(&path).expect("a free path"));
        let listen = Listen::Unix { path: path.clone(), mode: 0o640 };
        let rig = Rig::new(driver, |config| config.listen = vec![listen.clone()]);
        let mode = std::fs::metadata(&path).expect("it was made").permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
        let (requests, replies) = script();
        converse(Client::unix(&path), &requests, &[9000], &replies);
        let again = Config { listen: vec![listen], ..config_of(driver, &rig) };
        let refused = start(again).expect_err("a living socket is not replaced");
        assert!(refused.to_string().contains("another process"), "{refused}");
        rig.server.remote().stop();
        rig.server.join();
        assert!(!path.exists());
    }
}

fn config_of(driver: Driver, rig: &Rig) -> Config {
    let resources =
        session::Resources { bounds: session::Bounds::default(), budget: rig.budget.clone() };
    Config { driver, ..Config::new(resources) }
}

fn start(config: Config) -> Result<(), StartError> {
    let shared = std::sync::Arc::new(support::handler::Shared::default());
    let factory = move |slot| support::handler::handler(shared.clone(), slot);
    Server::start(config, factory).map(drop)
}

#[test]
fn bad_settings_are_refused_with_a_remedy() {
    let rig = Rig::plain(Driver::Epoll);
    let taken = match rig.server.addresses()[0] {
        drivers::Address::Tcp(address) => Listen::Tcp(address),
        drivers::Address::Unix(_) => panic!("the rig listens on a port"),
    };
    let file = Listen::Unix { path: PathBuf::from("/proc/self/status"), mode: 0o700 };
    let nowhere = Listen::Unix { path: PathBuf::from("/nowhere/at/all.sock"), mode: 0o700 };
    let port = Listen::Tcp("127.0.0.1:0".parse().expect("an address"));
    let good = |driver| Config { listen: vec![port.clone()], ..config_of(driver, &rig) };
    let cases = [
        (Config { listen: vec![], ..good(Driver::Epoll) }, "name a port"),
        (Config { workers: 0, ..good(Driver::Epoll) }, "from 1 to 1024"),
        (Config { connections_max: 0, ..good(Driver::Epoll) }, "0 connections"),
        (Config { connections_max: 70_000, ..good(Driver::Threads) }, "from 1 to 65534"),
        (Config { listen: vec![taken], ..good(Driver::Epoll) }, "another process"),
        (Config { listen: vec![file], ..good(Driver::Epoll) }, "no socket"),
        (Config { listen: vec![nowhere], ..good(Driver::Threads) }, "/nowhere/at/all.sock"),
    ];
    for (config, part) in cases {
        let refused = start(config).expect_err(part);
        assert!(refused.to_string().contains(part), "{refused} lacks {part}");
    }
}

#[test]
fn ipv6_is_served_beside_ipv4_on_the_same_port() {
    for driver in drivers() {
        let first = Rig::plain(driver);
        let drivers::Address::Tcp(address) = first.server.addresses()[0] else { panic!("a port") };
        let six = format!("[::1]:{}", address.port()).parse().expect("an address");
        let rig = Rig::new(driver, |config| config.listen = vec![Listen::Tcp(six)]);
        rig.connect().ask(b"version\r\n", b"VERSION 1\r\n");
        assert!(rig.server.addresses()[0].to_string().starts_with("tcp6:[::1]:"));
    }
}

#[test]
fn connections_are_reported() {
    for driver in drivers() {
        let rig = Rig::plain(driver);
        let mut client = rig.connect();
        client.ask(b"version\r\n", b"VERSION 1\r\n");
        let reports = rig.server.remote().connections();
        assert_eq!(reports.len(), 2, "{reports:?}");
        let listens = reports.iter().find(|it| it.state == State::Listening).expect("one listens");
        let served = reports.iter().find(|it| it.state == State::Read).expect("one is served");
        assert_eq!(listens.address, rig.server.addresses()[0]);
        assert_eq!(served.listener.as_deref(), Some(&listens.address));
        assert!(served.idle_s <= 20);
    }
}

#[test]
fn a_worker_with_nothing_to_do_sleeps() {
    for driver in drivers() {
        let rig = Rig::plain(driver);
        let mut client = rig.connect();
        client.ask(b"version\r\n", b"VERSION 1\r\n");
        let mut idle = rig.connect();
        idle.ask(b"version\r\n", b"VERSION 1\r\n");
        let wakeups = |rig: &Rig| rig.server.remote().snapshot().wakeups;
        let before = wakeups(&rig);
        for _ in 0..100 {
            client.ask(b"version\r\n", b"VERSION 1\r\n");
        }
        let woken = wakeups(&rig) - before;
        assert!(woken <= 101, "{driver:?} woke {woken} times for 100 requests");
    }
}
