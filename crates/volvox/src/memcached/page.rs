//! The reference page of memcached's flags, `docs/memcached-flags.md`.

use super::COMPATIBLE_VERSION;
use super::flags::FLAGS;
use super::row::{Act, Verdict};
use super::suboptions::SUBOPTIONS;

const INTRODUCTION: &str = "\
# memcached's flags

`volvox memcached` takes the command line of memcached VERSION; so does the binary itself when it
is called `memcached` or `memcached-debug`. Every flag is honoured, or honoured in part or noted
(accepted, and a line in the log says what is missing), or refused with the reason before anything
is opened.

Values are read strictly: where memcached takes `-m 64x` for 64, this is an error. Our own settings
can be given beside the flags, in the environment or in a file named by `VOLVOX_CONFIG`; flags win.
As with memcached, the variable `MEMCACHED_PORT_FILENAME` names a file that receives the ports
listened on, and root must say `-u`.

This page is generated from the tables in `crates/volvox/src/memcached`.
";

/// The page, written off the tables.
#[must_use]
pub fn flags_page() -> String {
    let mut out = INTRODUCTION.replace("VERSION", COMPATIBLE_VERSION);
    out.push_str("\n## Flags\n\n| flag | treated | meaning |\n|---|---|---|\n");
    for flag in FLAGS {
        let long = if flag.long.is_empty() { String::new() } else { format!(" `--{}`", flag.long) };
        let name = format!("`-{}`{long}", flag.short);
        out.push_str(&line(&name, flag.about, &flag.act));
    }
    out.push_str("\n## Options of `-o`\n\n| option | treated | meaning |\n|---|---|---|\n");
    for row in SUBOPTIONS {
        out.push_str(&line(&format!("`{}`", row.name), row.about, &row.act));
    }
    out
}

fn line(name: &str, about: &str, act: &Act) -> String {
    let verdict = match act.verdict() {
        Verdict::Honoured => "honoured",
        Verdict::InPart => "in part",
        Verdict::Noted => "noted",
        Verdict::Refused => "refused",
    };
    let setting = match act {
        Act::Put(path, word) => format!(" (`{path} = {word}`)"),
        Act::Take(path) => format!(" (`{path}`)"),
        _ => String::new(),
    };
    let reason = act.reason().map(|reason| format!(": {reason}")).unwrap_or_default();
    format!("| {name} | {verdict}{reason} | {about}{setting} |\n")
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_committed_page_is_current() {
        crate::committed::same("docs/memcached-flags.md", &super::flags_page());
    }
}
