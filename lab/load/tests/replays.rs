//! Replays of traces: against a double that keeps the protocol, and against servers that do not.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod double;

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use clap::Parser;
use double::Vice;
use load::cli::{Args, Command};
use load::conclusion::Study;
use load::drive::Watch;
use load::replay::ReplayArgs;

/// A trace of three objects in turn, a fourth that is too large, and one that never comes again.
fn trace() -> Vec<(u32, u64, u32)> {
    let turns = (0..300u32).map(|nth| (nth / 100, u64::from(nth % 3) + (1 << 40), 50));
    turns.chain([(3, 7, 2_000_000), (3, 8, 60)]).collect()
}

/// The trace in libCacheSim's binary form.
fn binary() -> Vec<u8> {
    let mut binary = Vec::new();
    for (at_s, id, bytes) in trace() {
        binary.extend_from_slice(&at_s.to_le_bytes());
        binary.extend_from_slice(&id.to_le_bytes());
        binary.extend_from_slice(&bytes.to_le_bytes());
        binary.extend_from_slice(&[0; 8]);
    }
    binary
}

/// The trace as lines under names.
fn csv() -> String {
    let lines = trace().into_iter().map(|(at_s, id, bytes)| format!("{at_s},{bytes},{id}\n"));
    "time,size,id\n".to_string() + &lines.collect::<String>()
}

/// What columns of [`csv`] are.
const CSV: &str = "--header --size-col 2 --id-col 3";

/// A file that is gone when the test is over.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str, content: impl AsRef<[u8]>) -> Self {
        let path = std::env::temp_dir().join(format!("load-{}-{name}", std::process::id()));
        std::fs::write(&path, content).unwrap();
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Carries out `replay`; `stop` ends it as early as it can.
fn replayed(target: &str, trace: &Path, settings: &str, stop: bool) -> Result<Study, String> {
    let watch = Watch::new(Arc::new(AtomicBool::new(stop)), false);
    let args = parsed(target, trace, settings);
    args.carry_out(&watch).map_err(|error| error.to_string())
}

fn parsed(target: &str, trace: &Path, settings: &str) -> ReplayArgs {
    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        load: Args,
    }
    let trace = trace.display().to_string();
    let words = ["load", "replay", "--target", target, "--trace", trace.as_str()];
    let words = words.into_iter().chain(settings.split_whitespace());
    let Command::Replay(args) = Line::try_parse_from(words).unwrap().load.command else {
        panic!("the command is replay");
    };
    args
}

/// A server that answers every line with `reply`.
fn parrot(reply: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut out = stream.unwrap();
            let lines = BufReader::new(out.try_clone().unwrap()).lines();
            // A client that leaves ends its turn by an error.
            let _ =
                lines.take_while(Result::is_ok).try_for_each(|_| out.write_all(reply.as_bytes()));
        }
    });
    address
}

#[test]
fn traces_of_both_forms_replay_alike() {
    let (bin, csv) = (Scratch::new("alike.bin", binary()), Scratch::new("alike.csv", csv()));
    for (file, settings, gets, hits) in [
        (&bin, "", 302, 297),
        (&bin, "--speed 1000 --verify", 302, 297),
        (&csv, CSV, 302, 297),
        (&csv, &format!("{CSV} --skip 100 --limit 200"), 100, 100),
    ] {
        let study = replayed(&double::start(Vice::default()), &file.0, settings, false).unwrap();
        let outcome = &study.conclusion["outcome"];
        let counts = (&outcome["gets"], &outcome["hits"]);
        assert_eq!(counts, (&gets.into(), &hits.into()), "{settings}");
        assert!(study.clean && study.page().to_html().contains("Hit ratio"), "{settings}");
    }
}

#[test]
fn traces_are_read_as_they_are_shipped() {
    // Made by `zstd -19` of the bytes of `binary()`.
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/trace.oracleGeneral.zst");
    let study = replayed(&double::start(Vice::default()), &path, "", false).unwrap();
    let plain = Scratch::new("plain.bin", binary());
    let expected = replayed(&double::start(Vice::default()), &plain.0, "", false).unwrap();
    for name in ["requests", "requested_bytes", "hit_ratio"] {
        assert_eq!(study.conclusion[name], expected.conclusion[name], "{name}");
    }
    assert!(study.clean && study.conclusion["requests"] == 302, "{study:?}");
    // A damaged copy: the checksum of the only frame stands at its end.
    let mut damaged = std::fs::read(&path).unwrap();
    *damaged.last_mut().unwrap() ^= 1;
    let damaged = Scratch::new("damaged.zst", damaged);
    let study = replayed(&double::start(Vice::default()), &damaged.0, "", false).unwrap();
    ended_early(&study, 302, &["ended after 302 requests", "zstd: the checksum"]);
}

#[test]
fn gets_that_fail_are_neither_hits_nor_misses() {
    let file = Scratch::new("denied.bin", binary());
    let server = parrot("CLIENT_ERROR unauthenticated\r\n");
    let study = replayed(&server, &file.0, "", false).unwrap();
    assert!(!study.clean, "{study:?}");
    let outcome = &study.conclusion["outcome"];
    // One more object is too large for anyone to send.
    for (name, count) in [("failed_gets", 301), ("gets", 1), ("hits", 0), ("refused", 0)] {
        assert_eq!(outcome[name], count, "{name}");
    }
    let warnings = study.warnings.join("\n");
    assert!(warnings.contains("301 gets were answered by an error"), "{warnings}");
    assert!(warnings.contains("CLIENT_ERROR unauthenticated"), "{warnings}");
}

#[test]
fn one_wrong_byte_fails_a_verified_replay() {
    let file = Scratch::new("wrong.bin", binary());
    let vice = Vice { lie_every: Some(100), ..Vice::default() };
    let study = replayed(&double::start(vice), &file.0, "--verify", false).unwrap();
    let said = study.warnings.join("\n");
    assert!(!study.clean && said.contains("wrong value for key"), "{said}");
    assert!(said.contains(": 50 bytes received"), "{said}");
    assert!(replayed(&double::start(vice), &file.0, "", false).unwrap().clean);
}

#[test]
fn objects_may_change_their_length() {
    let file = Scratch::new("lengths.csv", "1,7,50\n2,7,60\n3,7,50\n");
    for (settings, warnings) in [("--verify", 0), ("", 1)] {
        let study = replayed(&double::start(Vice::default()), &file.0, settings, false).unwrap();
        assert!(study.clean);
        assert_eq!(study.conclusion["outcome"]["other_lengths"], 1, "{settings}");
        assert_eq!(study.warnings.len(), warnings, "{:?}", study.warnings);
    }
}

#[test]
fn refused_sets_are_named() {
    let file = Scratch::new("refused.bin", binary());
    let vice = Vice { refuse_every: Some(1), ..Vice::default() };
    let study = replayed(&double::start(vice), &file.0, "", false).unwrap();
    let warnings = study.warnings.join("\n");
    assert!(!study.clean && warnings.contains("sets were refused"), "{warnings}");
    assert!(warnings.contains("SERVER_ERROR out of memory storing object"), "{warnings}");
}

/// Whether a replay that ended early says so, and what it had found by then.
fn ended_early(study: &Study, requests: u64, words: &[&str]) {
    assert!(!study.clean, "{study:?}");
    assert_eq!(study.conclusion["requests"], requests, "{study:?}");
    for word in words {
        assert!(study.warnings[0].contains(word), "{word}: {:?}", study.warnings);
    }
    assert!(study.page().to_html().contains("</html>"));
}

#[test]
fn a_stop_still_gives_what_was_measured() {
    let file = Scratch::new("stopped.bin", binary());
    let server = double::start(Vice::default());
    let study = replayed(&server, &file.0, "", true).unwrap();
    ended_early(&study, 0, &["stopped before its end: 0 requests replayed"]);
}

#[test]
fn who_looks_on_sees_how_far_it_is_and_may_stop_it() {
    let file = Scratch::new("watched.bin", binary());
    // Three seconds by the trace's clock; the first line is shown after one.
    let args = parsed(&double::start(Vice::default()), &file.0, "--speed 1");
    let stop = Arc::new(AtomicBool::new(false));
    let shown = Arc::new(Mutex::new(String::new()));
    let (stops, shows) = (Arc::clone(&stop), Arc::clone(&shown));
    // A screen that stops the replay at its first line.
    let watch = Watch::shown_by(stop, move |line| {
        stops.store(true, Ordering::Relaxed);
        shows.lock().unwrap().push_str(line);
    });
    let study = args.carry_out(&watch).unwrap();
    let requests = study.conclusion["requests"].as_u64().unwrap();
    assert!((100..302).contains(&requests), "{study:?}");
    ended_early(&study, requests, &["stopped before its end"]);
    let shown = shown.lock().unwrap().clone();
    assert!(shown.contains("100 requests") && shown.contains("hit ratio 97.00 %"), "{shown:?}");
    assert!(shown.ends_with(" % of the file read"), "{shown:?}");
}

#[test]
fn an_error_of_the_trace_is_its_end() {
    let cut = Scratch::new("cut.bin", &binary()[..24 * 200 + 23]);
    let nonsense = Scratch::new("nonsense.csv", csv() + "here\n1,2,3\n");
    let blank = Scratch::new("blank.csv", csv() + "\n");
    for (file, settings, requests, words) in [
        (&cut, "", 200, &["ended after 200 requests", "record 201: only 23 of 24 bytes"][..]),
        (
            &nonsense,
            CSV,
            302,
            &["ended after 302 requests", "line 304: \"here\" in column 1 is no second"],
        ),
    ] {
        let study = replayed(&double::start(Vice::default()), &file.0, settings, false).unwrap();
        ended_early(&study, requests, words);
        assert!(study.conclusion["outcome"]["hits"].as_u64().unwrap() > 190, "{study:?}");
    }
    assert!(replayed(&double::start(Vice::default()), &blank.0, CSV, false).unwrap().clean);
    // Where nothing was measured there is nothing to report.
    let nothing = Scratch::new("nothing.csv", "a,b,c\n");
    let error = replayed(&double::start(Vice::default()), &nothing.0, "", false).unwrap_err();
    assert!(error.contains("line 1: \"a\" in column 1 is no second"), "{error}");
}

#[test]
fn a_server_that_goes_away_leaves_what_it_answered() {
    let file = Scratch::new("away.bin", binary());
    for (vice, word) in [
        (Vice { close_from: Some(300), ..Vice::default() }, "closed the connection"),
        (Vice { babble_at: Some(300), ..Vice::default() }, "no reply to a Get"),
    ] {
        let study = replayed(&double::start(vice), &file.0, "", false).unwrap();
        ended_early(&study, 128, &["ended after 128 requests", word]);
        let vice = Vice { close_from: Some(1), ..Vice::default() };
        assert!(replayed(&double::start(vice), &file.0, "", false).is_err());
    }
}

#[test]
fn compressed_traces_name_the_remedy() {
    for (head, how) in [
        (&[0x1f, 0x8b, 0x08, 0][..], "gunzip -c"),
        (&[0xfd, b'7', b'z', b'X', b'Z', 0, 0], "xz -dc"),
    ] {
        let file = Scratch::new(&format!("packed-{}", how.len()), head);
        let error = replayed("127.0.0.1:1", &file.0, "", false).unwrap_err();
        assert!(error.contains(how) && error.contains("replay --trace -"), "{error}");
    }
    let error = replayed("127.0.0.1:1", Path::new("/nowhere/at/all"), "", false).unwrap_err();
    assert!(error.contains("cannot read /nowhere/at/all"), "{error}");
}
