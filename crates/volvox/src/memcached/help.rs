//! What `-h`, `-i` and `-V` print.
//!
//! memcached's own tests search this text for the names of optional features, so a flag that is
//! refused must not be named here.

use std::fmt::Write;

use super::COMPATIBLE_VERSION;
use super::flags::FLAGS;
use super::row::{Flag, Suboption, Verdict};
use super::suboptions::SUBOPTIONS;

/// Column where descriptions begin.
const COLUMN: usize = 32;
/// Width of the text.
const WIDTH: usize = 96;

/// `memcached 1.6.45 (volvox 0.1.0)`: what `-V` prints.
#[must_use]
pub fn version() -> String {
    format!("memcached {COMPATIBLE_VERSION} (volvox {})\n", env!("CARGO_PKG_VERSION"))
}

/// What `-i` prints.
#[must_use]
pub fn license() -> String {
    format!(
        "{}Volvox is free software, under the Apache License 2.0 or the MIT licence, as you\n\
         choose. It contains no code of memcached or libevent.\n",
        version()
    )
}

/// What `-h` prints.
#[must_use]
pub fn help() -> String {
    let mut out = version();
    out.push_str("\nUsage: memcached [flags], or: volvox memcached [flags]\n\nFlags:\n");
    for flag in FLAGS.iter().filter(|flag| flag.act.verdict() <= Verdict::InPart) {
        entry(&mut out, &flag_head(flag), flag.about);
    }
    out.push_str("\nOptions of -o:\n");
    for row in SUBOPTIONS.iter().filter(|row| row.act.verdict() <= Verdict::InPart) {
        entry(&mut out, &suboption_head(row), row.about);
    }
    out.push_str("\nAccepted, and of no effect here (a note in the log says why):\n");
    let flags = FLAGS.iter().filter(|f| f.act.verdict() == Verdict::Noted);
    let flags = flags.map(|flag| format!("-{}", flag.short));
    let options = SUBOPTIONS.iter().filter(|row| row.act.verdict() == Verdict::Noted);
    let options = options.filter(|row| !row.name.starts_with("no_")).map(|row| row.name.to_owned());
    let names: Vec<_> = flags.chain(options).collect();
    wrapped(&mut out, &format!("{}, and their no_ forms", names.join(", ")), 2, 2);
    out.push_str(
        "\nExamples:\n  memcached -m 1024 -l 127.0.0.1 -t 2\n  \
         memcached -s cache.sock -a 770 -o idle_timeout=60\n\n\
         The same cell with a file of settings: volvox serve --help\n",
    );
    out
}

fn flag_head(flag: &Flag) -> String {
    match (flag.long, flag.argument.name()) {
        ("", Some(name)) => format!("-{} <{name}>", flag.short),
        (long, Some(name)) => format!("-{}, --{long}=<{name}>", flag.short),
        (long, None) => format!("-{}, --{long}", flag.short),
    }
}

fn suboption_head(row: &Suboption) -> String {
    match row.argument.name() {
        Some(name) => format!("{}=<{name}>", row.name),
        None => row.name.to_owned(),
    }
}

fn entry(out: &mut String, head: &str, about: &str) {
    write!(out, "  {head:<width$}", width = COLUMN - 2).expect("invariant: strings take writes");
    if head.len() + 3 > COLUMN {
        out.push('\n');
        wrapped(out, about, COLUMN, COLUMN);
    } else {
        wrapped(out, about, 0, COLUMN);
    }
}

/// Appends `text` wrapped between words: the first line indented by `first`, the others by `rest`.
fn wrapped(out: &mut String, text: &str, first: usize, rest: usize) {
    let mut width = rest;
    out.push_str(&" ".repeat(first));
    for (index, word) in text.split_whitespace().enumerate() {
        if index > 0 && width + 1 + word.len() > WIDTH {
            out.push('\n');
            out.push_str(&" ".repeat(rest));
            width = rest;
        } else if index > 0 {
            out.push(' ');
            width += 1;
        }
        out.push_str(word);
        width += word.len();
    }
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_names_what_is_served_and_nothing_else() {
        let help = help();
        assert!(help.contains("unix-socket") && help.contains("idle_timeout"));
        for absent in ["enable-ssl", "ext_path", "proxy_config", "sasl", "drop_privileges"] {
            assert!(!help.to_lowercase().contains(absent), "{absent}\n{help}");
        }
        for line in help.lines() {
            assert!(line.len() <= WIDTH && line.trim_end() == line, "{line}");
        }
    }
}
