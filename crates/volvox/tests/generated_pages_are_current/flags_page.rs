//! The reference page of memcached's flags, `docs/memcached-flags.md`.

use volvox::memcached::{Action, COMPATIBLE_VERSION, FLAGS, Flag, SUBOPTIONS, Support};

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
pub fn flags_page() -> String {
    let mut out = INTRODUCTION.replace("VERSION", COMPATIBLE_VERSION);
    out.push_str("\n## Flags\n\n| flag | treated | meaning |\n|---|---|---|\n");
    out.extend(FLAGS.iter().map(line));
    out.push_str("\n## Options of `-o`\n\n| option | treated | meaning |\n|---|---|---|\n");
    out.extend(SUBOPTIONS.iter().map(line));
    out
}

fn line(flag: &Flag) -> String {
    let name = match (flag.short, flag.name) {
        (Some(short), "") => format!("`-{short}`"),
        (Some(short), name) => format!("`-{short}` `--{name}`"),
        (None, name) => format!("`{name}`"),
    };
    let support = match flag.action.support() {
        Support::Honoured => "honoured",
        Support::InPart => "in part",
        Support::Noted => "noted",
        Support::Refused => "refused",
    };
    let setting = match flag.action {
        Action::Set(path, word) => format!(" (`{path} = {word}`)"),
        Action::Pass(path) => format!(" (`{path}`)"),
        _ => String::new(),
    };
    let reason = flag.action.reason().map(|reason| format!(": {reason}")).unwrap_or_default();
    format!("| {name} | {support}{reason} | {}{setting} |\n", flag.about)
}
