//! A ring under each driver, with one worker for each cell and with two.

use crate::kills::survives;
use crate::support::{CELLS, Client, Ring};

fn ring(driver: &str, workers: &str) -> Ring {
    let name = format!("kills-{driver}-{workers}");
    Ring::start_with(
        &name,
        CELLS,
        &[],
        &["--driver", driver, "--workers", workers, "--memory-limit", "256M"],
    )
}

#[test]
fn what_was_acknowledged_is_read_after_kills_under_each_driver_with_one_worker_and_two() {
    let runs = [
        ("epoll", "2"),
        ("signal", "1"),
        ("signal", "2"),
        // Where the system refuses it, epoll serves.
        ("uring", "1"),
        ("uring", "2"),
        ("threads", "1"),
        ("threads", "2"),
    ];
    for (driver, workers) in runs {
        survives(ring(driver, workers), 2);
    }
}

#[test]
fn with_a_thread_for_each_client_pipelines_keep_their_order_and_every_command_works() {
    let ring = ring("threads", "1");
    let mut clients: Vec<_> = (0..2 * CELLS).map(|at| ring.clients[at % CELLS]).collect();
    clients.dedup();
    let mut clients: Vec<_> = clients.into_iter().map(Client::connect).collect();
    for round in 0..50 {
        for (number, client) in clients.iter_mut().enumerate() {
            let keys: Vec<_> = (0..20).map(|key| format!("{number}-{key}")).collect();
            let mut requests = String::new();
            for key in &keys {
                requests += &format!("set {key} 0 0 1 noreply\r\n0\r\nincr {key} {round}\r\n");
                requests += &format!("get {key}\r\nmd {key}\r\nget {key}\r\n");
                requests += &format!("set {key} 0 0 1\r\nx\r\n");
            }
            requests += &format!("get {}\r\n", keys.join(" "));
            client.send(&requests);
            for key in &keys {
                assert_eq!(client.line(), round.to_string(), "{key}");
                let bytes = round.to_string().len();
                assert_eq!(client.line(), format!("VALUE {key} 0 {bytes}"));
                assert_eq!((client.line(), client.line()), (round.to_string(), "END".to_owned()));
                assert_eq!((client.line(), client.line()), ("HD".to_owned(), "END".to_owned()));
                assert_eq!(client.line(), "STORED");
            }
            for key in &keys {
                assert_eq!(client.line(), format!("VALUE {key} 0 1"));
                assert_eq!(client.line(), "x");
            }
            assert_eq!(client.line(), "END");
        }
    }
    assert_eq!(clients[0].ask("flush_all\r\n"), "OK");
    for (number, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.get(&format!("{number}-7")), None);
    }
}
