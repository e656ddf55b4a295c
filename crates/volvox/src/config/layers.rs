//! Layers of values laid over each other, and the relations that must hold in the end.
//!
//! An [`Assignment`] is one written value. Later ones win, and the last one that is accepted is
//! remembered as the origin of the setting. Either all settings are in range and hold together, or
//! there are none, only errors.

use base::{RUN_SLICES, SLICES};
use service::EffectLogOptions;
use tier::Ack;

use super::choice::EffectLog;
use super::error::{ConfigError, Origin};
use super::field::Value;
use super::keys::{KEYS, Key, key_index};
use super::settings::{ITEM_OVERHEAD_BYTES, Settings, TierSettings};
use super::units::show_size;

/// A cell above a tier has no less memory.
const TIER_MEMORY_MIN: u64 = 16 << 20;
/// The largest item of a cell above a bucket, where an object is created by one request of 8 MiB.
const PAGED_ITEM_BYTES_MAX: u64 = 7 << 20;

/// Seconds that a change waits until it is written back to a bucket, where nobody has set it.
const BUCKET_AGE_S: u64 = 30;

const KIB: u64 = 1 << 10;

/// Longest path that fits a Unix socket's address, without its final zero.
const UNIX_PATH_BYTES_MAX: usize = 107;

/// One value for one setting.
#[derive(Clone, Debug, PartialEq)]
pub struct Assignment {
    /// Row of [`KEYS`].
    pub key: usize,
    /// What was written.
    pub value: Value,
    /// Where.
    pub origin: Origin,
}

impl Assignment {
    /// `value` for the setting called `path`.
    ///
    /// # Panics
    /// If the table has no such setting: for paths written in the program only.
    #[must_use]
    pub fn of(path: &str, value: Value, origin: Origin) -> Self {
        Self { key: row(path), value, origin }
    }
}

fn row(path: &str) -> usize {
    key_index(path).expect("invariant: paths in the program name rows of the table")
}

/// Settings that hold together, and where each came from.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded {
    /// The settings.
    pub settings: Settings,
    /// The origin of each, by row of [`KEYS`].
    pub origins: Vec<Origin>,
}

impl Loaded {
    /// The origin of the setting called `path`.
    ///
    /// # Panics
    /// If the table has no such setting.
    #[must_use]
    pub fn origin(&self, path: &str) -> &Origin {
        &self.origins[row(path)]
    }

    /// Whether somebody has chosen the value of `path`. What a file has as it is by default counts
    /// as not chosen: so does each line that `volvox config default` writes.
    ///
    /// # Panics
    /// If the table has no such setting.
    #[must_use]
    pub fn is_set(&self, path: &str) -> bool {
        let key = &KEYS[row(path)];
        let is_default = || {
            let shown = |settings| (key.get)(settings).show(&key.rule);
            shown(&self.settings) == shown(&Settings::default())
        };
        match self.origin(path) {
            Origin::Default | Origin::Memcached => false,
            Origin::File { .. } => !is_default(),
            _ => true,
        }
    }
}

/// Lays `assignments` over the defaults in order, the later winning.
///
/// # Errors
/// Each refused value; if none is refused, each relation that does not hold.
pub fn load(assignments: &[Assignment]) -> Result<Loaded, Vec<ConfigError>> {
    let mut loaded =
        Loaded { settings: Settings::default(), origins: vec![Origin::Default; KEYS.len()] };
    let mut errors = Vec::new();
    for assignment in assignments {
        let key = &KEYS[assignment.key];
        match (key.get_mut)(&mut loaded.settings).read(&assignment.value, &key.rule) {
            Ok(()) => loaded.origins[assignment.key] = assignment.origin.clone(),
            Err(refusal) => errors.push(ConfigError::Refused {
                origin: assignment.origin.clone(),
                key: key.path(),
                value: assignment.value.clone(),
                reason: refusal.0,
            }),
        }
    }
    if errors.is_empty() {
        lower_to_log(&mut loaded);
        wait_for_pages(&mut loaded);
        check(&loaded, &mut errors);
    }
    if errors.is_empty() { Ok(loaded) } else { Err(errors) }
}

/// The largest item of a cell that keeps a log of effects, in whole KiB: a log takes an effect only
/// as a whole. `None` if there is no log, or too little memory for one.
fn item_bytes_of_log(settings: &Settings) -> Option<u64> {
    if !settings.keeps_effect_log() {
        return None;
    }
    let value_bytes = EffectLogOptions::longest_value(settings.memory.limit)?;
    Some((value_bytes + ITEM_OVERHEAD_BYTES) / KIB * KIB)
}

/// Where nobody has set the largest item, it is what the log of effects can hold.
fn lower_to_log(loaded: &mut Loaded) {
    if loaded.is_set("memory.item_bytes_max") {
        return;
    }
    if let Some(bytes) = item_bytes_of_log(&loaded.settings) {
        let memory = &mut loaded.settings.memory;
        memory.item_bytes_max = memory.item_bytes_max.min(bytes);
    }
}

/// Where nobody has set how long a change waits, it waits longer for a bucket: the more keys share
/// a page the fewer pages are written.
fn wait_for_pages(loaded: &mut Loaded) {
    let is_set = loaded.is_set("tier.age_s");
    let tier = &mut loaded.settings.tier;
    if !is_set && tier.directory.is_some() && tier.database.has_pages() {
        tier.age_s = BUCKET_AGE_S;
    }
}

/// What a cell that joins a ring needs besides. `is_new`: its directory holds nothing yet. Then a
/// cell without seeds founds a ring, which only the one is to do that says how many cells form it.
///
/// # Errors
/// What is missing.
pub fn check_joins(loaded: &Loaded, is_new: bool) -> Result<(), Vec<ConfigError>> {
    let ring = &loaded.settings.ring;
    if ring.directory.is_none() {
        let reason = "a cell of a ring keeps there who it is; name a directory";
        return Err(vec![refused(loaded, "ring.directory", reason.to_owned())]);
    }
    let founds = !matches!(loaded.origin("ring.cells"), Origin::Default);
    if is_new && ring.seeds.is_empty() && !founds {
        let reason = "no ring to join; name ring.listen of cells of the ring, or set ring.cells \
                      where a new ring is to be founded";
        return Err(vec![refused(loaded, "ring.seeds", reason.to_owned())]);
    }
    Ok(())
}

/// The value of the setting at `path` cannot be served, for this reason.
fn refused(loaded: &Loaded, path: &str, reason: String) -> ConfigError {
    let key = &KEYS[row(path)];
    let (origin, value) = (loaded.origin(path).clone(), (key.get)(&loaded.settings));
    ConfigError::Refused { origin, key: path.to_owned(), value: value.show(&key.rule), reason }
}

/// The relations between settings.
fn check(loaded: &Loaded, errors: &mut Vec<ConfigError>) {
    let Settings { server, memory, ring, tier, .. } = &loaded.settings;
    let mut refuse = |path: &str, reason: String| errors.push(refused(loaded, path, reason));
    if memory.item_bytes_max > memory.limit / 2 {
        let half = show_size(memory.limit / 2);
        let reason = format!("above {half}, half of memory.limit; lower it, or raise memory.limit");
        refuse("memory.item_bytes_max", reason);
    }
    let of_log = item_bytes_of_log(&loaded.settings);
    if let Some(bytes) = of_log.filter(|bytes| memory.item_bytes_max > *bytes) {
        let (owner, remedy) = match ring.directory {
            Some(_) => ("the log of a cell of a ring", "or raise memory.limit"),
            None if tier.directory.is_some() => {
                ("the log of a cell above a tier", "or raise memory.limit")
            }
            None => ("memory.effect_log", "raise memory.limit, or set memory.effect_log to off"),
        };
        let size = show_size(bytes);
        let reason = format!(
            "above {size}, the longest that {owner} holds with this memory.limit; lower it, \
             {remedy}"
        );
        refuse("memory.item_bytes_max", reason);
    }
    if server.listen.is_empty() && server.unix_socket.is_none() {
        let reason = "nothing to listen on; name an address here, or set server.unix_socket";
        refuse("server.listen", reason.to_owned());
    }
    let path_bytes = server.unix_socket.as_ref().map_or(0, |path| path.as_os_str().len());
    if path_bytes > UNIX_PATH_BYTES_MAX {
        let reason = format!(
            "{path_bytes} bytes; the path of a socket has at most 107, choose a shorter one"
        );
        refuse("server.unix_socket", reason);
    }
    check_tier(loaded, &mut refuse);
    if ring.directory.is_none() {
        let reason = "a cell of a ring has ring.directory; name a directory, or leave this out";
        refuse_others(loaded, "ring", reason, &mut refuse);
        return;
    }
    if ring.secret_file.is_none() {
        let reason = "a cell of a ring needs the secret of the ring; name its file";
        refuse("ring.secret_file", reason.to_owned());
    }
    for (path, addresses) in [
        ("ring.listen", &ring.listen),
        ("ring.links", &ring.links),
        ("server.listen", &server.listen),
    ] {
        let is_fixed = addresses.first().is_some_and(|at| at.port != 0 && at.host.is_some());
        if !is_fixed || (path != "server.listen" && addresses.len() > 1) {
            let reason = "other cells must know it: name one host and a port that is not 0";
            refuse(path, reason.to_owned());
        }
    }
    check_copy_reads(loaded, &mut refuse);
    if memory.effect_log != EffectLog::Off {
        let reason = "a cell of a ring keeps a log by itself; turn it off";
        refuse("memory.effect_log", reason.to_owned());
    }
}

/// The relations of the settings of reads that copies answer.
fn check_copy_reads(loaded: &Loaded, refuse: &mut impl FnMut(&str, String)) {
    let Settings { server, ring, tier, .. } = &loaded.settings;
    if ring.copy_reads_ms > 0 && tier.directory.is_some() {
        let reason = "copies answer no reads above a tier; set it to 0";
        refuse("ring.copy_reads_ms", reason.to_owned());
    }
    for (path, is_set) in [
        ("ring.copy_reads_prefixes", !ring.copy_reads_prefixes.is_empty()),
        ("ring.copy_reads_listen", !ring.copy_reads_listen.is_empty()),
    ] {
        if is_set && ring.copy_reads_ms == 0 {
            let reason = "copies answer none of these: set ring.copy_reads_ms, or leave this out";
            refuse(path, reason.to_owned());
        }
    }
    if let Some(other) = ring.copy_reads_listen.iter().find(|at| !server.listen.contains(at)) {
        let reason = format!("{other} is none of server.listen; name one of these");
        refuse("ring.copy_reads_listen", reason);
    }
}

/// The relations of the settings of a tier.
fn check_tier(loaded: &Loaded, refuse: &mut impl FnMut(&str, String)) {
    let Settings { memory, ring, tier, .. } = &loaded.settings;
    if tier.directory.is_none() {
        let reason = "a cell above a tier has tier.directory; name one, or leave this out";
        return refuse_others(loaded, "tier", reason, refuse);
    }
    if ring.directory.is_some() {
        check_tier_in_ring(tier, refuse);
        let most = SLICES / RUN_SLICES;
        if ring.cells as usize > most {
            let reason = format!("a ring above a bucket forms with {most} cells at most; lower it");
            refuse("ring.cells", reason);
        }
    } else if tier.change_levels {
        let reason = "a cell in no ring starts with any levels; leave it out";
        refuse("tier.change_levels", reason.to_owned());
    }
    if !memory.evict {
        let reason = "a cell above a tier evicts what its memory has no room for, and reads it \
                      from below; leave it at true";
        refuse("memory.evict", reason.to_owned());
    }
    if memory.effect_log != EffectLog::Off {
        let reason = "a cell above a tier keeps a log by itself; turn it off";
        refuse("memory.effect_log", reason.to_owned());
    }
    if let Err(error) = tier.rules() {
        refuse("tier.prefixes", error.to_string());
    }
    if tier.apart_from > tier.page_bytes {
        let most = show_size(tier.page_bytes);
        let reason = format!("above {most}, tier.page_bytes: a value in a page fits it; lower it");
        refuse("tier.apart_from", reason);
    }
    if tier.database.has_pages() && memory.item_bytes_max > PAGED_ITEM_BYTES_MAX {
        let most = show_size(PAGED_ITEM_BYTES_MAX);
        let reason = format!("a bucket takes items of {most} at most; lower it");
        refuse("memory.item_bytes_max", reason);
    }
    if memory.limit < TIER_MEMORY_MIN {
        let least = show_size(TIER_MEMORY_MIN);
        refuse("memory.limit", format!("a cell above a tier needs {least} or more; raise it"));
    }
}

/// The relations of the settings of a tier in a ring, whose cells share what lies below.
fn check_tier_in_ring(tier: &TierSettings, refuse: &mut impl FnMut(&str, String)) {
    if !tier.ring_preview {
        let reason = "a ring above a bucket is not finished; tier.ring_preview turns it on, and \
                      decision 0016 lists what is left";
        refuse("tier.directory", reason.to_owned());
    }
    if !tier.database.has_pages() {
        let reason = "the cells of a ring share a bucket: choose s3://BUCKET/ROOT, \
                      gs://BUCKET/ROOT, or file:DIRECTORY";
        refuse("tier.database", reason.to_owned());
    }
    if tier.ack == Ack::Backend {
        let reason = "in a ring the highest level is disk; lower it";
        refuse("tier.ack", reason.to_owned());
    }
    if tier.prefixes.iter().any(|rule| rule.policy.ack() == Some(Ack::Backend)) {
        let reason = "in a ring the highest level is disk: no key is at backend or around; give \
                      such keys a lower one";
        refuse("tier.prefixes", reason.to_owned());
    }
    if tier.adopt {
        let reason = "a ring adopts no bucket; leave it out";
        refuse("tier.adopt", reason.to_owned());
    }
}

/// Refuses each setting of `section` that is not at its default.
fn refuse_others(
    loaded: &Loaded,
    section: &str,
    reason: &str,
    refuse: &mut impl FnMut(&str, String),
) {
    let defaults = Settings::default();
    let shown = |key: &Key, of: &Settings| (key.get)(of).show(&key.rule);
    let is_set = |key: &&Key| {
        key.section == section && shown(key, &loaded.settings) != shown(key, &defaults)
    };
    for key in KEYS.iter().filter(is_set) {
        refuse(&key.path(), reason.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(path: &str, word: &str, flag: &str) -> Assignment {
        Assignment::of(path, Value::Word(word.to_owned()), Origin::Flag(flag.to_owned()))
    }

    #[test]
    fn the_later_layer_wins_and_is_remembered() {
        let file = Origin::File { path: "a.toml".into(), line: 3 };
        let variable = Origin::Environment("VOLVOX_SERVER_WORKERS".to_owned());
        let layers = [
            Assignment::of("server.workers", Value::Number(2), file.clone()),
            Assignment::of("server.backlog", Value::Number(7), file.clone()),
            Assignment::of("server.workers", Value::Word("3".to_owned()), variable),
            word("server.workers", "4", "--workers"),
        ];
        let loaded = load(&layers).expect("all in range");
        assert_eq!((loaded.settings.server.workers, loaded.settings.server.backlog), (4, 7));
        assert_eq!(loaded.origin("server.workers").to_string(), "flag --workers");
        assert_eq!(loaded.origin("server.backlog"), &file);
        assert_eq!(loaded.origin("memory.limit"), &Origin::Default);
    }

    #[test]
    fn refusals_name_value_limit_and_remedy() {
        let cases = [
            ("server.workers", "x", "expected a whole number"),
            ("server.workers", "-1", "expected a whole number"),
            ("server.workers", "2000", "out of range; choose a value from 0 to 1024"),
            ("server.connections_max", "0", "choose a value from 1 to 10000000"),
            ("server.unix_mode", "900", "expected octal permission bits"),
            ("server.unix_mode", "7777", "choose a value from 0 to 777"),
            ("server.driver", "magic", "expected one of auto, epoll, signal, uring, threads"),
            ("server.listen", "a:99999", "address \"a:99999\" has port \"99999\""),
            ("server.listen", "", "nothing to listen on"),
            ("memory.limit", "1k", "choose a value from 1MiB to 4TiB"),
            ("memory.limit", "lots", "expected a size such as"),
            ("memory.limit", "1", "above 512KiB, half of memory.limit"),
            ("memory.item_bytes_max", "40m", "above 32MiB, half of memory.limit"),
            ("memory.evict", "maybe", "expected true or false"),
            ("log.level", "loud", "expected one of error, warn, info, debug, trace"),
        ];
        for (path, value, reason) in cases {
            let errors = load(&[word(path, value, "--x")]).expect_err(path);
            let message = errors[0].to_string();
            assert!(message.contains(reason), "{path} = {value}: {message}");
        }
    }

    /// The settings of a cell of a ring.
    fn in_ring() -> Vec<Assignment> {
        let settings = [("ring.directory", "cell"), ("ring.secret_file", "secret")];
        settings.map(|(path, value)| word(path, value, "--x")).to_vec()
    }

    /// What a cell of a ring has besides above a bucket.
    fn above_a_bucket() -> Vec<Assignment> {
        let settings = [
            ("tier.directory", "tier"),
            ("tier.database", "file:bucket"),
            ("tier.ring_preview", "true"),
        ];
        settings.map(|(path, value)| word(path, value, "--x")).to_vec()
    }

    /// What nobody has set follows the log; what somebody has set is refused if it is too large.
    #[test]
    fn the_largest_item_fits_the_log_of_effects() {
        let limit = word("memory.limit", "1g", "-m");
        let largest = |log: &[Assignment], others: &[Assignment]| {
            load(&[log, others].concat()).map(|it| it.settings.memory.item_bytes_max)
        };
        assert_eq!(largest(&[], &[]).expect("no log"), 1 << 20);
        let on = vec![word("memory.effect_log", "on", "--effect-log")];
        let remedies = ["set memory.effect_log to off", "lower it, or raise memory.limit"];
        for (log, remedy) in [on, in_ring()].iter().zip(remedies) {
            let lowered = largest(log, &[]).expect("the default follows");
            assert!((512 << 10..1 << 20).contains(&lowered) && lowered % KIB == 0, "{lowered}");
            let large = largest(log, std::slice::from_ref(&limit));
            assert_eq!(large.expect("a large log"), 1 << 20);
            for (bytes, fits) in [(lowered, true), (lowered + 1, false), (1 << 20, false)] {
                let set = [word("memory.item_bytes_max", &bytes.to_string(), "-I")];
                assert!(load(&set).is_ok(), "{bytes} without a log");
                let loaded = largest(log, &set);
                assert_eq!(loaded.is_ok(), fits, "{bytes}");
                if let Err(errors) = loaded {
                    let message = errors[0].to_string();
                    let size = show_size(lowered);
                    assert!(message.starts_with("flag -I: memory.item_bytes_max = "), "{message}");
                    assert!(message.contains(&format!("above {size}, the longest")), "{message}");
                    assert!(message.ends_with(remedy), "{message}");
                }
            }
        }
    }

    /// What `config default` writes, with a directory of a tier put in, is the tier by default.
    #[test]
    fn a_default_that_a_file_names_is_a_default() {
        let in_file = |path, value: &str| {
            let origin = Origin::File { path: "v.toml".into(), line: 1 };
            Assignment::of(path, Value::Word(value.to_owned()), origin)
        };
        let directory = word("tier.directory", "tier", "--tier-dir");
        let item = in_file("memory.item_bytes_max", "1MiB");
        let loaded = load(&[item, directory.clone()]).expect("the default follows");
        assert!(loaded.settings.memory.item_bytes_max < 1 << 20);
        let bucket = word("tier.database", "file:bucket", "--tier-database");
        let age = |of: &[Assignment]| {
            let of = [&[directory.clone(), bucket.clone()], of].concat();
            load(&of).expect("it is a tier").settings.tier.age_s
        };
        assert_eq!((age(&[]), age(&[in_file("tier.age_s", "5")])), (30, 30));
        let flag = word("tier.age_s", "5", "--tier-age-s");
        assert_eq!((age(&[in_file("tier.age_s", "6")]), age(&[flag])), (6, 5));
        assert_eq!(load(&[directory]).expect("above redb").settings.tier.age_s, 5);
    }

    #[test]
    fn a_value_in_a_page_fits_it() {
        let of = |page, apart| {
            let sizes = [("tier.page_bytes", page), ("tier.apart_from", apart)];
            let sizes = sizes.map(|(path, value)| word(path, value, "--x"));
            load(&[&[word("tier.directory", "tier", "--tier-dir")], &sizes[..]].concat())
        };
        assert!(of("64KiB", "64KiB").is_ok());
        let errors = of("16KiB", "17KiB").expect_err("a page would be longer");
        assert!(errors[0].to_string().contains("above 16KiB, tier.page_bytes"), "{}", errors[0]);
    }

    #[test]
    fn all_refusals_are_reported_together() {
        let layers = [word("server.workers", "x", "--a"), word("log.level", "y", "--b")];
        assert_eq!(load(&layers).expect_err("two wrong values").len(), 2);
    }

    #[test]
    fn a_cell_in_no_ring_has_no_settings_of_one() {
        let seeds = [word("ring.cells", "5", "--ring-cells")];
        let errors = load(&seeds).expect_err("it would serve alone");
        assert!(errors[0].to_string().contains("ring.directory"), "{}", errors[0]);
        let default = Settings::default().ring.cells.to_string();
        assert!(load(&[word("ring.cells", &default, "file")]).is_ok(), "as a file of defaults");
    }

    #[test]
    fn a_ring_above_a_bucket_forms_with_as_many_cells_as_a_bucket_has_maps() {
        let of = |cells| {
            let cells = word("ring.cells", cells, "--ring-cells");
            load(&[&in_ring()[..], &above_a_bucket(), &[cells]].concat())
        };
        assert!(of("64").is_ok());
        let errors = of("65").expect_err("one has no run of its own");
        let text = errors[0].to_string();
        assert!(text.contains("ring.cells = 65") && text.contains("64 cells at most"), "{text}");
    }

    #[test]
    fn in_a_ring_no_key_waits_for_the_bucket() {
        let of = |path, value| {
            let level = word(path, value, "--x");
            load(&[&in_ring()[..], &above_a_bucket(), &[level]].concat())
        };
        for (path, value) in [("tier.ack", "disk"), ("tier.prefixes", "a=memory,b=disk,c=none")] {
            assert!(of(path, value).is_ok(), "{value}");
        }
        let refused = [("tier.ack", "backend"), ("tier.prefixes", "a=os,b=backend")];
        for (path, value) in [&refused[..], &[("tier.prefixes", "a=around")]].concat() {
            let errors = of(path, value).expect_err(value);
            let text = errors[0].to_string();
            assert!(text.contains(path) && text.contains("the highest level is disk"), "{text}");
        }
    }

    #[test]
    fn only_a_cell_of_a_ring_changes_levels_together_with_others() {
        let changes = [word("tier.change_levels", "true", "--tier-change-levels")];
        let tier = [&above_a_bucket()[..], &changes].concat();
        assert!(load(&[&in_ring()[..], &tier].concat()).is_ok());
        let errors = load(&tier).expect_err("it has none to wait for");
        assert!(errors[0].to_string().contains("tier.change_levels"), "{}", errors[0]);
    }

    #[test]
    fn long_socket_paths_are_refused() {
        let path = format!("/{}", "s".repeat(UNIX_PATH_BYTES_MAX));
        let errors = load(&[word("server.unix_socket", &path, "-s")]).expect_err("too long");
        assert!(errors[0].to_string().contains("108 bytes"), "{}", errors[0]);
    }
}
