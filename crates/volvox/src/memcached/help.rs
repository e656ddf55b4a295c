//! What `-h`, `-i` and `-V` print.
//!
//! memcached's own tests search this text for the names of optional features. So a flag that is
//! refused must not appear in it.

use std::fmt::Write;

use super::flags::{COMPATIBLE_VERSION, FLAGS};
use super::row::{Flag, Support};
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
    let served = |flag: &&Flag| flag.action.support() <= Support::InPart;
    FLAGS.iter().filter(served).for_each(|flag| entry(&mut out, flag));
    out.push_str("\nOptions of -o:\n");
    SUBOPTIONS.iter().filter(served).for_each(|flag| entry(&mut out, flag));
    out.push_str("\nAccepted, and of no effect here (a line in the log says why):\n");
    let noted =
        |flag: &&Flag| flag.action.support() == Support::Noted && !flag.name.starts_with("no_");
    let flags = FLAGS.iter().filter(noted).map(Flag::spelling);
    let options = SUBOPTIONS.iter().filter(noted).map(|flag| flag.name.to_owned());
    let names: Vec<_> = flags.chain(options).collect();
    wrapped(&mut out, &format!("{}, and their no_ forms", names.join(", ")), 2, 2);
    out.push_str(
        "\nExamples:\n  memcached -m 1024 -l 127.0.0.1 -t 2\n  \
         memcached -s cache.sock -a 770 -o idle_timeout=60\n\n\
         The same cell with a file of settings: volvox serve --help\n",
    );
    out
}

/// Appends what the flag is called and what it is for.
fn entry(out: &mut String, flag: &Flag) {
    let argument =
        |before| flag.argument.name().map_or(String::new(), |a| format!("{before}<{a}>"));
    let head = match (flag.short, flag.name) {
        (Some(short), "") => format!("-{short}{}", argument(" ")),
        (Some(short), name) => format!("-{short}, --{name}{}", argument("=")),
        (None, name) => format!("{name}{}", argument("=")),
    };
    write!(out, "  {head:<width$}", width = COLUMN - 2).expect("invariant: strings take writes");
    let fits = head.len() + 3 <= COLUMN;
    if !fits {
        out.push('\n');
    }
    wrapped(out, flag.about, if fits { 0 } else { COLUMN }, COLUMN);
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
