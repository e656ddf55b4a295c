//! The reference page of settings, `docs/settings.md`: ours, then those of the two systems that
//! this one continues, CellCycle and cached, each with the setting that replaces it. A row may only
//! name settings that exist.

use volvox::config::{KEYS, Key, Unit, key_index};

/// The fate of a setting.
pub enum Now {
    /// These settings do its work.
    Settings(&'static [&'static str]),
    /// The part that does its work is not built yet.
    Later(&'static str),
    /// Nothing needs it, for this reason.
    Gone(&'static str),
}

/// A setting of the original.
pub struct Original {
    /// Its name there.
    pub name: &'static str,
    /// What it did.
    pub about: &'static str,
    /// Its fate.
    pub now: Now,
}

const fn row(name: &'static str, about: &'static str, now: Now) -> Original {
    Original { name, about, now }
}

use Now::{Gone, Later, Settings};

const DIVIDING: &str = "cells that divide";
const VOLUMES: &str = "volumes";
const CLOUD: &str = "the cloud providers";
const ONE_PORT: &str = "one port serves reads and writes";

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
        "bytes of a slab, which bound the largest value",
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
    row("IntPort, InternalChannelPort", "port inside a cell (5557)", Gone("a cell is one process")),
    row(
        "ExtPort, ExternalChannelPort",
        "port between cells (5558)",
        Settings(&["ring.listen", "ring.links"]),
    ),
    row(
        "MemoryObjectPort",
        "port for moving memory between cells (5559)",
        Settings(&["ring.links"]),
    ),
    row("ScalePeriod", "seconds between two looks at the load", Later(DIVIDING)),
    row("GetScaleUpLevel", "read load above which a cell divides", Later(DIVIDING)),
    row("GetScaleDownLevel", "read load below which a cell is absorbed", Later(DIVIDING)),
    row("SetScaleUpLevel", "write load above which a cell divides", Later(DIVIDING)),
    row("SetScaleDownLevel", "write load below which a cell is absorbed", Later(DIVIDING)),
    row("MaxInstance", "the most cells (12)", Later(DIVIDING)),
    row("MinInstance", "the fewest cells (5)", Later(DIVIDING)),
    row("AwsImageId", "image of a new cell", Later(CLOUD)),
    row("AwsSecurityGroup", "firewall of a new cell", Later(CLOUD)),
    row("AwsKeyName", "key of a new cell", Later(CLOUD)),
    row("AwsProfileName", "account that pays for a new cell", Later(CLOUD)),
    row("EC2Type", "size of a new cell", Later(CLOUD)),
    row("GitBranch", "source of a new cell", Gone("a cell is one binary")),
    row("StartFileRelativePath", "script that starts a new cell", Later(CLOUD)),
];

/// The options of `cached`.
pub static CACHED: &[Original] = &[
    row("threads", "threads that serve requests", Settings(&["server.workers"])),
    row("total size", "bytes of the cache", Settings(&["memory.limit"])),
    row(
        "max objects",
        "the most objects in the index",
        Gone("the index grows and shrinks within memory.limit"),
    ),
    row("object size", "bytes of an object (4 MB)", Later(VOLUMES)),
    row("bucket size", "bytes of a bucket (4 KB)", Later(VOLUMES)),
    row("lower port", "the storage below", Settings(&["tier.directory"])),
    row("write policy", "write-back or write-through", Settings(&["tier.ack", "tier.prefixes"])),
];

const HEADER: &str = "\
# Settings

Every setting can stand in a TOML file, in the environment or on the command line; each of these
wins over the one before. `volvox config default` prints a commented file with every setting at its
default (`config/volvox.toml` is a copy), `volvox config check FILE` checks a file, and
`volvox config show` prints what is in force and where each value came from. A file is read only if
`--config` or the variable `VOLVOX_CONFIG` names it.

This page is generated from the settings' own table in `crates/volvox/src/config/keys.rs`, and from
the tables of older settings in `crates/volvox/tests/generated_pages_are_current`.

## Ours

| setting | flag | environment | unit | meaning |
|---|---|---|---|---|
";

/// The page, made from the tables.
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
        Unit::Bytes => "size; a bare number is bytes",
        Unit::Mebibytes => "size; a bare number is MiB",
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
        Later(part) => format!("not built yet: {part}"),
        Gone(reason) => format!("not needed: {reason}"),
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
