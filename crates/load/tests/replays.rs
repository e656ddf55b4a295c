//! Replays of traces: against a double that keeps the protocol, and against servers that do not.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod double;

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::Parser;
use double::Vice;
use load::cli::{Args, Command};
use load::drive::Watch;
use load::report::Study;

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
    let watch = Watch::new(Arc::new(AtomicBool::new(stop)), false);
    args.carry_out(&watch).map_err(|error| error.to_string())
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
    assert!(!study.clean && study.warnings.join("\n").contains("wrong value of 50 bytes"));
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
