//! Every setting of the two systems that this one continues, and what became of it: the table
//! behind `docs/settings.md`. A row may only name settings that exist.

use volvox::config::{KEYS, Key, Unit, key_index};

/// What became of a setting.
pub enum Now {
    /// These settings do its work.
    Settings(&'static [&'static str]),
    /// Its work is done by the part named, which brings its own settings.
    Arrives(&'static str),
    /// It has nothing left to do, for this reason.
    Gone(&'static str),
}

/// A setting of the original.
pub struct Original {
    /// Its name there.
    pub name: &'static str,
    /// What it did.
    pub about: &'static str,
    /// What became of it.
    pub now: Now,
}

const fn row(name: &'static str, about: &'static str, now: Now) -> Original {
    Original { name, about, now }
}

use Now::{Arrives, Gone, Settings};

const RING: &str = "the ring";
const VOLUMES: &str = "volumes";
const CLOUD: &str = "the cloud providers";
const ONE_PORT: &str = "one port serves reads and writes, for primaries and replicas alike";

/// The settings of CellCycle.
pub static CELLCYCLE: &[Original] = &[
    row("LogFile", "file of the log", Settings(&["log.file", "log.stderr"])),
    row("Verbose", "log more", Settings(&["log.level"])),
    row(
        "PreallocatedPool",
        "bytes of the memory pool",
        Settings(&["memory.limit", "memory.prefault"]),
    ),
    row(
        "SlabSize",
        "bytes of a slab, and so of the largest value",
        Settings(&["memory.item_bytes_max"]),
    ),
    row("ValueMaxSize", "bytes of the largest value", Settings(&["memory.item_bytes_max"])),
    row(
        "GetterThreadNumber",
        "threads that serve reads",
        Settings(&["server.workers", "server.driver"]),
    ),
    row(
        "ServiceThreadNumber",
        "threads that serve clients",
        Settings(&["server.workers", "server.driver"]),
    ),
    row("ClientEntrypointPort", "port for clients (5555)", Settings(&["server.listen"])),
    row("MasterSetPort", "port for writes to the primary (5550)", Gone(ONE_PORT)),
    row("MasterGetPort", "port for reads from the primary (5551)", Gone(ONE_PORT)),
    row("SlaveSetPort", "port for writes to the replica (5552)", Gone(ONE_PORT)),
    row("SlaveGetPort", "port for reads from the replica (5553)", Gone(ONE_PORT)),
    row(
        "IntPort, InternalChannelPort",
        "port inside a cell (5557)",
        Gone("a cell is one process; its parts call each other"),
    ),
    row("ExtPort, ExternalChannelPort", "port between cells (5558)", Arrives(RING)),
    row("MemoryObjectPort", "port for moving memory between cells (5559)", Arrives(RING)),
    row("ScalePeriod", "seconds between judgements of load", Arrives(RING)),
    row("GetScaleUpLevel", "busy share of reads that divides a cell", Arrives(RING)),
    row("GetScaleDownLevel", "busy share of reads that absorbs a cell", Arrives(RING)),
    row("SetScaleUpLevel", "busy share of writes that divides a cell", Arrives(RING)),
    row("SetScaleDownLevel", "busy share of writes that absorbs a cell", Arrives(RING)),
    row("MaxInstance", "most cells (12)", Arrives(RING)),
    row("MinInstance", "fewest cells (5)", Arrives(RING)),
    row("AwsImageId", "image of a new cell", Arrives(CLOUD)),
    row("AwsSecurityGroup", "firewall of a new cell", Arrives(CLOUD)),
    row("AwsKeyName", "key of a new cell", Arrives(CLOUD)),
    row("AwsProfileName", "account that pays for a new cell", Arrives(CLOUD)),
    row("EC2Type", "size of a new cell", Arrives(CLOUD)),
    row(
        "GitBranch",
        "source of a new cell",
        Gone("a cell is one binary, put in the image or downloaded by its start script"),
    ),
    row("StartFileRelativePath", "script that starts a new cell", Arrives(CLOUD)),
];

/// The options of `cached`.
pub static CACHED: &[Original] = &[
    row("threads", "threads that serve requests", Settings(&["server.workers"])),
    row("total size", "bytes of the cache", Settings(&["memory.limit"])),
    row(
        "max objects",
        "most objects in the index",
        Gone("the index grows and shrinks within memory.limit"),
    ),
    row("object size", "bytes of an object (4 MB)", Arrives(VOLUMES)),
    row("bucket size", "bytes of a bucket (4 KB)", Arrives(VOLUMES)),
    row("lower port", "the storage below", Arrives("the tier")),
    row("write policy", "write-back or write-through", Arrives("the tier")),
];

const HEADER: &str = "\
# Settings

Every setting can stand in a TOML file, in the environment or on the command line, the later
winning. `volvox config default` prints a commented file with all of them (also in
`config/volvox.toml`), `volvox config check FILE` checks one, and `volvox config show` says what is
in force and why. A file is named by `--config` or `VOLVOX_CONFIG`; none is looked for by itself.

This page is generated from the tables in `crates/volvox/src`.

## Ours

| setting | flag | environment | unit | meaning |
|---|---|---|---|---|
";

/// `docs/settings.md`, written off the tables.
pub fn settings_page() -> String {
    let mut out = HEADER.to_owned();
    out.extend(KEYS.iter().map(ours));
    out.push_str(
        "\nmemcached's flags, and what they set: see [memcached-flags.md](memcached-flags.md).\n",
    );
    for (title, rows) in [("CellCycle's", CELLCYCLE), ("cached's", CACHED)] {
        out.push_str(&format!("\n## {title}\n\n| setting | meaning | here |\n|---|---|---|\n"));
        out.extend(rows.iter().map(theirs));
    }
    out
}

fn ours(key: &Key) -> String {
    let unit = match key.rule.unit {
        Unit::None => "",
        Unit::Count => "number",
        Unit::Seconds => "seconds",
        Unit::Bytes => "size, bare: bytes",
        Unit::Mebibytes => "size, bare: MiB",
        Unit::Octal => "octal",
    };
    let (path, variable) = (key.path(), key.variable());
    format!("| `{path}` | `--{}` | `{variable}` | {unit} | {} |\n", key.flag, key.about)
}

fn theirs(original: &Original) -> String {
    let now = match original.now {
        Settings(paths) => {
            paths.iter().map(|path| format!("`{path}`")).collect::<Vec<_>>().join(", ")
        }
        Arrives(part) => format!("arrives with {part}"),
        Gone(reason) => format!("gone: {reason}"),
    };
    format!("| {} | {} | {now} |\n", original.name, original.about)
}

#[test]
fn rows_name_settings_that_exist() {
    for original in CELLCYCLE.iter().chain(CACHED) {
        if let Settings(paths) = original.now {
            for path in paths {
                assert!(key_index(path).is_some(), "{}: {path}", original.name);
            }
        }
    }
}
