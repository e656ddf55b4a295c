//! The generator against a server whose every vice is known.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod double;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use double::Vice;
use load::cli::RunArgs;
use load::conclusion::Report;
use load::drive::Watch;

fn run_stopping_at(address: &str, settings: &str, stop: Arc<AtomicBool>) -> Report {
    let line = format!("--target {address} --keys 200 --connections 4 --warmup 0 {settings}");
    let args = RunArgs::parse_words(&line.split_whitespace().collect::<Vec<_>>()).unwrap();
    args.carry_out(&Watch::new(stop, false)).unwrap()
}

fn run(vice: Vice, settings: &str) -> Report {
    run_stopping_at(&double::start(vice), settings, Arc::default())
}

#[test]
fn every_request_is_counted_once() {
    for settings in [
        "--pipeline 1",
        "--pipeline 16",
        "--pipeline 16 --threads 2",
        "--pipeline 4 --multiget 10",
        "--protocol meta --pipeline 16",
        "--protocol meta --pipeline 4 --multiget 10",
        "--rate 50000 --pipeline 4",
        "--rate 50000 --arrival fixed --threads 2",
        "--rate steps:20k,60k/20ms --pipeline 4",
        "--rate 20k..90k/30ms --pipeline 4 --threads 2",
        "--value-bytes 0,1,100,70000 --pipeline 4",
        // Replies of exactly as many bytes as one recv takes.
        "--value-bytes 131028",
        "--popularity zipf:1.0",
        "--workload ycsb-d --pipeline 4",
        "--workload ycsb-e --pipeline 4 --threads 2",
        "--workload etc --pipeline 4",
        "--popularity scan:20% --value-bytes twitter",
        "--popularity drift:1000 --ttl 0:2,60:1",
        "--key-bytes 250",
    ] {
        let line = format!("--populate --verify --requests 2001 --ratio 3:1 {settings}");
        let report = run(Vice::default(), &line);
        let requests = &report.requests;
        assert!(report.is_clean(), "{settings}: {report:?}");
        assert_eq!((requests.gets + requests.sets, requests.refills), (2001, 0), "{settings}");
        let keys = if settings.contains("multiget") { 10 } else { 1 };
        assert_eq!(report.misses, 0, "{settings}");
        if settings.contains("ycsb-e") {
            assert!(report.hits > requests.gets * 40, "{settings}: {}", report.hits);
        } else {
            assert_eq!(report.hits, requests.gets * keys, "{settings}");
        }
        let counted = report.get_latency.unwrap().count + report.set_latency.unwrap().count;
        assert_eq!(counted, 2001, "{settings}");
        assert_eq!(report.server.unwrap().version.as_deref(), Some("double"));
    }
}

#[test]
fn every_kind_of_request_is_counted_by_kind() {
    for settings in [
        "--ratio 4:3:2:1",
        "--ratio 4:3:2:1 --protocol meta --pipeline 8 --threads 2",
        "--ratio 4:3:2:1 --rate 50000 --pipeline 4 --refill",
        "--workload ycsb-f --pipeline 4 --rate 20k",
    ] {
        let report =
            run(Vice::default(), &format!("--populate --verify --requests 2000 {settings}"));
        let requests = &report.requests;
        assert!(report.is_clean(), "{settings}: {report:?}");
        // The read of a read-modify-write is a get, its write is counted beside the 2000.
        let counted = requests.gets + requests.sets + requests.deletes;
        assert_eq!(counted, 2000, "{settings}");
        assert_eq!(report.modify_latency.as_ref().unwrap().count, requests.modifies, "{settings}");
        if settings.contains("ycsb-f") {
            assert!((900..1_100).contains(&requests.modifies), "{requests:?}");
            assert_eq!((requests.deletes, report.misses), (0, 0));
        } else {
            assert!(requests.deletes > 300 && requests.modifies > 130, "{requests:?}");
            assert!(requests.not_found > 0 && report.misses > 0, "{settings}: {requests:?}");
            assert_eq!(report.delete_latency.as_ref().unwrap().count, requests.deletes);
        }
    }
}

#[test]
fn the_same_seed_asks_the_same() {
    let counts = |seed: u32| {
        let settings = format!("--requests 1000 --ratio 1:1 --seed {seed} --popularity zipf:0.9");
        let report = run(Vice::default(), &settings);
        (report.requests.gets, report.requests.sets, report.sent_bytes)
    };
    assert_eq!(counts(1), counts(1));
    assert_ne!(counts(1).0, counts(2).0);
}

#[test]
fn misses_are_refilled_once() {
    for settings in ["", "--multiget 5 --pipeline 3", "--rate 20000 --protocol meta"] {
        let line = format!("--requests 2000 --ratio 1:0 --refill --verify {settings}");
        let report = run(Vice::default(), &line);
        assert!(report.is_clean(), "{settings}: {report:?}");
        assert_eq!(report.requests.refills, report.misses, "{settings}");
        assert!(report.misses >= 150 && report.hits > 0, "{settings}: {report:?}");
        assert_eq!(report.set_latency.unwrap().count, report.misses);
    }
}

#[test]
fn one_wrong_byte_fails_the_run() {
    let vice = Vice { lie_every: Some(500), ..Vice::default() };
    let settings = "--populate --requests 2000 --ratio 1:0";
    let report = run(vice, &format!("{settings} --verify"));
    assert!(!report.is_clean() && report.wrong_values > 0, "{report:?}");
    assert!(report.complaints[0].starts_with("wrong value for key"), "{report:?}");
    let unseen = run(vice, settings);
    assert!(unseen.is_clean() && unseen.to_string().contains("not verified"));
}

#[test]
fn a_freeze_shows_in_the_open_loop_and_hides_in_the_closed() {
    const FREEZE: Duration = Duration::from_millis(400);
    const HALF_US: f64 = 200_000.0;
    // 200 of the 1000 due times of the open loop fall into the freeze. The closed loop merely
    // asks nothing meanwhile: 4 of its 4000 requests see the freeze.
    let vice = Vice { freeze: Some((400, FREEZE)), ..Vice::default() };
    let open = run(vice, "--requests 1000 --rate 500 --ratio 1:0").get_latency.unwrap();
    let closed = run(vice, "--requests 4000 --ratio 1:0").get_latency.unwrap();
    assert!(open.p90_us > FREEZE.as_micros() as f64 / 8.0, "{open:?}");
    assert!(open.p99_us > HALF_US, "{open:?}");
    assert!(closed.p99_us < HALF_US && closed.max_us > HALF_US, "{closed:?}");
}

#[test]
fn refusals_are_counted_not_hidden() {
    let vice = Vice { refuse_every: Some(10), ..Vice::default() };
    let report = run(vice, "--requests 1000 --ratio 0:1");
    assert_eq!((report.requests.errors, report.requests.completed), (100, 900));
    assert_eq!(report.complaints, ["SERVER_ERROR out of memory storing object"]);
    assert!(!report.is_clean());
}

#[test]
fn a_server_that_says_nothing_is_given_up() {
    let vice = Vice { mute_from: Some(100), ..Vice::default() };
    for settings in ["", "--rate 5000"] {
        let line = format!("--requests 500 --patience 300ms --pipeline 2 {settings}");
        let report = run(vice, &line);
        assert!(!report.is_clean() && !report.whole, "{report:?}");
        assert!(report.requests.unanswered > 0, "{report:?}");
        if !settings.is_empty() {
            // All were due while it was waited for replies, and no more than were asked for.
            let requests = &report.requests;
            let all = requests.completed + requests.unanswered + requests.unsent;
            assert_eq!(all, 500, "{requests:?}");
        }
        assert!(report.warnings.iter().any(|warning| warning.contains("given up")), "{report:?}");
    }
}

#[test]
fn lost_connections_and_nonsense_are_reported() {
    for (vice, word) in [
        (Vice { close_from: Some(100), ..Vice::default() }, "closed a connection"),
        (Vice { babble_at: Some(100), ..Vice::default() }, "HELLO"),
    ] {
        let report = run(vice, "--requests 2000 --pipeline 16 --patience 1m");
        assert!(!report.is_clean() && report.requests.connections_lost > 0, "{report:?}");
        assert!(report.requests.lost > 0, "{report:?}");
        assert!(!report.warnings.iter().any(|warning| warning.contains("given up")), "{report:?}");
        assert!(report.complaints.iter().any(|seen| seen.contains(word)), "{report:?}");
    }
}

#[test]
fn a_stop_still_gives_the_report() {
    let stop = Arc::new(AtomicBool::new(false));
    stop.store(true, Ordering::Relaxed);
    let report =
        run_stopping_at(&double::start(Vice::default()), "--duration 1h", Arc::clone(&stop));
    assert!(!report.whole);
    assert!(report.warnings.iter().any(|warning| warning.contains("stopped")), "{report:?}");
    assert!(report.to_string().contains("requests/s"));
}

#[test]
fn an_overloaded_server_is_offered_what_was_promised() {
    // One connection, one request at a time, and a rate beyond any loopback.
    let settings = "--connections 1 --rate 10000000 --duration 200ms --patience 100ms --ratio 1:0";
    let line =
        format!("--target {} --keys 200 --warmup 0 {settings}", double::start(Vice::default()));
    let args = RunArgs::parse_words(&line.split_whitespace().collect::<Vec<_>>()).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let watch = Watch::new(Arc::clone(&stop), false);
    let report = std::thread::scope(|scope| {
        let run = scope.spawn(|| args.carry_out(&watch).unwrap());
        run.join().unwrap()
    });
    assert!(report.rate.achieved_per_s < 10_000_000.0 * 0.9, "{report:?}");
    assert!(report.warnings.iter().any(|warning| warning.contains("offered")), "{report:?}");
    // Two million were due; what could not be sent fails the run, as anything that was lost does.
    let due = report.requests.completed + report.requests.unsent;
    assert!((1_900_000..2_100_000).contains(&due), "{report:?}");
    assert!(report.whole && !report.is_clean() && report.requests.unsent > 1_000_000);
    assert!(report.warnings.iter().any(|warning| warning.contains("never sent")), "{report:?}");
}

#[test]
fn nobody_listening_is_an_error() {
    let args = RunArgs::parse_words(&["--target", "127.0.0.1:1"]).unwrap();
    let error = args.carry_out(&Watch::new(Arc::default(), false)).unwrap_err();
    assert!(error.to_string().contains("cannot connect to 127.0.0.1:1"), "{error}");
}
