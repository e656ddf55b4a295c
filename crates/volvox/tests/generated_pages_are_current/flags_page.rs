//! The reference page of memcached's flags, `docs/memcached-flags.md`.

use volvox::memcached::{Action, COMPATIBLE_VERSION, FLAGS, Flag, SUBOPTIONS, Support};

const INTRODUCTION: &str = "\
# memcached's flags

`volvox memcached` takes the command line of memcached VERSION. So does the binary itself when it is
called `memcached` or `memcached-debug`. Each flag is treated in one of four ways:

- *honoured*: it does what it does in memcached, except where its row names a difference;
- *in part*: it is accepted; if it asks for the part that is missing, a line in the log says so;
- *noted*: it is accepted and changes nothing, and a line in the log says why;
- *refused*: the program ends with the reason, before it opens anything.

Values are read strictly: memcached takes `-m 64x` for 64, this program refuses it. The settings of
[settings.md](settings.md) can stand beside the flags, in the environment or in a file named by
`VOLVOX_CONFIG`; flags win. As with memcached, root must name a user with `-u`, and the variable
`MEMCACHED_PORT_FILENAME` names a file that receives the ports listened on.

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
