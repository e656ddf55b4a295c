//! The binary from outside: what its commands print, and with which code they end.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The binary with an environment that holds none of our variables.
fn volvox(words: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_volvox"));
    command.env_clear().args(words);
    command
}

fn ended(command: &mut Command) -> (i32, String, String) {
    let Output { status, stdout, stderr } = command.output().expect("the binary runs");
    let text = |bytes| String::from_utf8(bytes).expect("output is text");
    (status.code().expect("no signal ended it"), text(stdout), text(stderr))
}

/// A file of settings for one test.
fn settings_file(name: &str, content: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&path, content).expect("the temporary folder is writable");
    path
}

#[test]
fn the_default_file_passes_its_own_check() {
    let (code, text, _) = ended(&mut volvox(["config", "default"]));
    assert_eq!(code, 0);
    let path = settings_file("default.toml", &text);
    let checked = ended(&mut volvox([OsStr::new("config"), "check".as_ref(), path.as_ref()]));
    assert_eq!(checked, (0, "ok\n".to_owned(), String::new()));
}

#[test]
fn flags_win_over_the_environment_and_that_over_the_file() {
    let path = settings_file(
        "layers.toml",
        "[server]\nworkers = 1\nbacklog = 2\n[log]\nlevel = \"error\"",
    );
    let mut command = volvox(["config", "show", "--json", "--log-level", "trace"]);
    command.env("VOLVOX_CONFIG", &path);
    command.env("VOLVOX_SERVER_BACKLOG", "5").env("VOLVOX_LOG_LEVEL", "info");
    let (code, shown, _) = ended(&mut command);
    let shown: serde_json::Value = serde_json::from_str(&shown).expect("JSON");
    assert_eq!(code, 0);
    let line = |number| format!("{}:{number}", path.display());
    let expected = [
        ("server.workers", serde_json::json!(1), line(2)),
        ("server.backlog", serde_json::json!(5), "environment VOLVOX_SERVER_BACKLOG".to_owned()),
        ("log.level", serde_json::json!("trace"), "flag --log-level".to_owned()),
        ("server.maxconns_fast", serde_json::json!(true), "default".to_owned()),
    ];
    for (key, value, origin) in expected {
        assert_eq!(
            (&shown[key]["value"], &shown[key]["origin"]),
            (&value, &origin.into()),
            "{key}"
        );
    }
}

#[test]
fn everything_wrong_is_named_and_ends_with_its_code() {
    let bad = settings_file("bad.toml", "[server]\nworker = 1\n\n[memory]\nlimits = 3\n");
    let bad = bad.to_str().expect("a path of this test is text");
    let at = |line, rest: &str| format!("volvox: {bad}:{line}: unknown setting {rest}?\n");
    let both = at(2, "server.worker; did you mean server.workers")
        + &at(5, "memory.limits; did you mean memory.limit");
    let cases: [(&[&str], i32, &str); 7] = [
        (&["config", "check", bad], 64, &both),
        (&["serve", "--config", bad], 64, &both),
        (&["serve", "--config", "none.toml"], 64, "volvox: none.toml: No such file"),
        (&["serve", "--workers=x"], 64, "volvox: flag --workers: server.workers = \"x\": expected"),
        (&["serve", "--listen="], 64, "volvox: flag --listen: server.listen = []: nothing to"),
        (&["memcached", "-Z"], 64, "volvox: -Z: TLS is not built in"),
        (&["swerve"], 2, "error: unrecognized subcommand 'swerve'"),
    ];
    for (words, code, message) in cases {
        let (ended_with, stdout, stderr) = ended(&mut volvox(words));
        assert_eq!((ended_with, stdout.as_str()), (code, ""), "{words:?}");
        assert!(stderr.starts_with(message), "{words:?}: {stderr}");
    }
}

#[test]
fn the_name_it_is_called_by_chooses_the_flags() {
    for name in ["memcached", "/usr/bin/memcached-debug"] {
        let (code, stdout, _) = ended(volvox(["-h"]).arg0(name));
        assert_eq!(code, 0);
        assert!(stdout.starts_with("memcached 1.6.45 (volvox "), "{stdout}");
        assert!(stdout.contains("--unix-socket"), "{stdout}");
    }
    let by_name = ended(volvox(["-h"]).arg0("memcached"));
    assert_eq!(ended(&mut volvox(["memcached", "-h"])), by_name);
    assert!(ended(&mut volvox(["-h"])).1.contains("volvox serve"));
}

#[test]
fn completions_are_printed_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let (code, script, _) = ended(&mut volvox(["completions", shell]));
        assert!(code == 0 && script.contains("volvox"), "{shell}");
        let offers = script.contains("auto epoll signal uring threads");
        assert!(offers || shell != "bash", "{script}");
    }
}

#[test]
#[cfg(feature = "lab")]
fn the_load_generator_is_mounted() {
    let (code, stdout, _) = ended(&mut volvox(["load", "run", "--help"]));
    assert!(code == 0 && stdout.contains("--target"), "{stdout}");
}

/// Settings of a cell of a ring that are in order, but for what a case leaves out.
fn cell_of_a_ring(name: &str, ring: &str) -> PathBuf {
    let common = "listen = [\"127.0.0.1:12299\"]\nlinks = [\"127.0.0.1:13299\"]\n\
                  secret_file = \"no-such-secret\"\n";
    let server = "[server]\nlisten = [\"127.0.0.1:11299\"]\n";
    settings_file(name, &format!("{server}[ring]\n{common}{ring}"))
}

#[test]
fn a_cell_joins_or_founds_a_ring_as_it_is_said_and_never_by_mistake() {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("never-made");
    let own = format!("directory = {:?}\n", directory.display().to_string());
    let joins = |name: &str, ring: &str| {
        let path = cell_of_a_ring(name, ring);
        ended(&mut volvox([OsStr::new("join"), "--config".as_ref(), path.as_ref()]))
    };
    let (code, _, error) = joins("no-directory.toml", "seeds = [\"127.0.0.1:12298\"]\n");
    assert_eq!(code, 64);
    assert!(error.contains("ring.directory") && error.contains("name a directory"), "{error}");
    let (code, _, error) = joins("no-seeds.toml", &own);
    assert_eq!(code, 64);
    assert!(error.contains("no ring to join") && error.contains("set ring.cells"), "{error}");
    // What comes next is its secret.
    for (name, more) in
        [("founds.toml", "cells = 3\n"), ("seeds.toml", "seeds = [\"127.0.0.1:1\"]\n")]
    {
        let (code, _, error) = joins(name, &format!("{own}{more}"));
        assert_eq!(code, 1, "{error}");
        assert!(error.contains("no-such-secret"), "{error}");
    }
}
