//! The script of checks. Each step is named, so that a difference names its step.

use memcache::{Client, MemcacheError, ToMemcacheValue};
use std::collections::{HashMap, HashSet};
use std::fmt::Debug;
use std::io::{self, Write};
use std::time::{Duration, Instant};

const KEY_BYTES_MAX: usize = 250;
/// The item limit is 1 MiB including its header and key.
const VALUE_BYTES_LARGE: usize = 1024 * 1024 - 1024;
const VALUE_BYTES_TOO_LARGE: usize = 1024 * 1024 + 1;
const MULTIGET_KEYS: usize = 500;
/// No item outlives its time by more than this, whatever the granularity of the server's clock.
const EXPIRY_DEADLINE: Duration = Duration::from_secs(8);
const POLL: Duration = Duration::from_millis(50);

type Step = Result<(), String>;
type Tokened = (Vec<u8>, u32, Option<u64>);

/// Runs every check; the number that held, or the first difference.
pub fn run(client: &Client, other: &Client) -> Result<u64, String> {
    let mut suite = Suite { client, checks: 0 };
    let large = incompressible(VALUE_BYTES_LARGE);
    suite.done("flush_all", client.flush())?;
    suite.storage(&large)?;
    suite.compare_and_swap()?;
    suite.counters()?;
    suite.multigets(&large)?;
    suite.flags()?;
    suite.limits(&large)?;
    suite.lifetimes()?;
    suite.server(other)?;
    Ok(suite.checks)
}

struct Suite<'a> {
    client: &'a Client,
    checks: u64,
}

impl Suite<'_> {
    fn storage(&mut self, large: &[u8]) -> Step {
        for (name, value) in values(large) {
            self.set("s", &value, 0)?;
            self.holds(name, "s", &value)?;
        }
        self.missing("get of a missing key", "missing")?;
        // The crate does not say whether an add, replace, append or prepend was stored, so each
        // is followed by a look.
        self.done("add to a present key", self.client.add("s", b"no".as_slice(), 0))?;
        self.holds("a vain add", "s", &large[..70_001])?;
        self.done("add to a free key", self.client.add("added", b"yes".as_slice(), 0))?;
        self.holds("the added value", "added", b"yes")?;
        self.done("replace", self.client.replace("added", b"\x00new\r\n".as_slice(), 0))?;
        self.done("append", self.client.append("added", b"\r\ntail".as_slice()))?;
        self.done("prepend", self.client.prepend("added", b"head\x00".as_slice()))?;
        self.holds("the joined value", "added", b"head\x00\x00new\r\n\r\ntail")?;
        self.done("replace a missing key", self.client.replace("missing", "no", 0))?;
        self.done("append to a missing key", self.client.append("missing", "no"))?;
        self.done("prepend to a missing key", self.client.prepend("missing", "no"))?;
        self.missing("nothing was made on the way", "missing")?;
        self.equal("delete", self.client.delete("added"), true)?;
        self.equal("delete again", self.client.delete("added"), false)?;
        self.missing("the deleted key", "added")
    }

    fn compare_and_swap(&mut self) -> Step {
        self.set("c", b"first", 0)?;
        let token = self.token("c")?;
        self.equal("cas with the token", self.client.cas("c", "second", 0, token), true)?;
        self.equal("cas with the token spent", self.client.cas("c", "third", 0, token), false)?;
        self.holds("the swapped value", "c", b"second")?;
        let fresh = self.token("c")?;
        self.that("the token changed", fresh != token)?;
        self.equal("cas on a missing key", self.client.cas("missing", "no", 0, fresh), false)?;
        self.missing("still missing", "missing")
    }

    fn counters(&mut self) -> Step {
        self.fails("incr a missing key", self.client.increment("n", 1))?;
        self.set("n", b"9", 0)?;
        self.equal("incr over a digit", self.client.increment("n", 1), 10)?;
        self.equal("decr over a digit", self.client.decrement("n", 1), 9)?;
        self.equal("decr stops at zero", self.client.decrement("n", 1000), 0)?;
        self.set("n", u64::MAX.to_string().as_bytes(), 0)?;
        self.equal("incr wraps at 64 bits", self.client.increment("n", 2), 1)?;
        self.set("n", b"word", 0)?;
        self.fails("incr a word", self.client.increment("n", 1))?;
        self.holds("the word is unharmed", "n", b"word")
    }

    fn multigets(&mut self, large: &[u8]) -> Step {
        let names: Vec<String> = (0..MULTIGET_KEYS).map(|n| format!("m{n}")).collect();
        let absent: Vec<String> = (0..MULTIGET_KEYS).map(|n| format!("absent{n}")).collect();
        let value_of = |n: usize| &large[n..n + n % 300];
        for (n, name) in names.iter().enumerate() {
            self.set(name, value_of(n), 0)?;
        }
        let keys: Vec<&str> = names.iter().zip(&absent).flat_map(|(a, b)| [&**a, &**b]).collect();
        let found: HashMap<String, Tokened> = self.client.gets(&keys).map_err(named("gets"))?;
        self.that("gets finds what is there, and no more", found.len() == MULTIGET_KEYS)?;
        let mut tokens = HashSet::new();
        for (n, name) in names.iter().enumerate() {
            let Some((value, _, token)) = found.get(name) else {
                return Err(format!("gets: {name} is missing"));
            };
            self.same(name, value, value_of(n))?;
            tokens.insert(token);
        }
        self.that("tokens differ", tokens.len() == MULTIGET_KEYS)
    }

    fn flags(&mut self) -> Step {
        for flags in [0, 1, 65_535, 65_536, u32::MAX] {
            self.done("set", self.client.set("f", Flagged(flags), 0))?;
            let got = self.client.get::<(Vec<u8>, u32)>("f");
            self.equal("flags", got, Some((b"v".to_vec(), flags)))?;
        }
        self.done("set a number", self.client.set("f", -1.5, 0))?;
        self.equal("get a number", self.client.get::<f64>("f"), Some(-1.5))
    }

    fn limits(&mut self, large: &[u8]) -> Step {
        self.set("large", large, 0)?;
        self.holds("get a large value", "large", large)?;
        let long_key = "k".repeat(KEY_BYTES_MAX);
        self.set(&long_key, b"v", 0)?;
        self.holds("get a 250-byte key", &long_key, b"v")?;
        self.set("big", b"old", 0)?;
        let huge = vec![0; VALUE_BYTES_TOO_LARGE];
        self.fails("set a value too large", self.client.set("big", huge.as_slice(), 0))?;
        self.missing("the old value is gone", "big")?;
        self.holds("the connection still serves", "large", large)
    }

    fn lifetimes(&mut self) -> Step {
        self.set("touched", b"v", 2)?;
        self.set("brief", b"v", 2)?;
        self.set("long", b"v", 1000)?;
        self.holds("not yet expired", "brief", b"v")?;
        self.equal("touch", self.client.touch("touched", 1000), true)?;
        self.equal("touch a missing key", self.client.touch("missing", 1000), false)?;
        self.set("past", b"v", 1_000_000_000)?;
        self.missing("a date long past", "past")?;
        self.equal("touch to a second", self.client.touch("long", 1), true)?;
        self.gone("expiry after set", "brief")?;
        self.gone("expiry after touch", "long")?;
        self.holds("touch lengthened a life", "touched", b"v")
    }

    fn server(&mut self, other: &Client) -> Step {
        let versions = self.client.version().map_err(named("version"))?;
        let digit = |v: &str| v.starts_with(|c: char| c.is_ascii_digit());
        self.that("version", versions.iter().all(|(_, version)| digit(version)))?;
        self.done("set elsewhere", other.set("other", "v", 0))?;
        self.holds("another connection", "other", b"v")?;
        self.done("flush_all", self.client.flush())?;
        for key in ["s", "large", "other"] {
            self.missing("after flush_all", key)?;
        }
        self.set("s", b"v", 0)?;
        self.holds("get after flush_all", "s", b"v")
    }

    fn set(&mut self, key: &str, value: &[u8], expiry_s: u32) -> Step {
        self.done("set", self.client.set(key, value, expiry_s))
    }

    fn token(&mut self, key: &str) -> Result<u64, String> {
        let got = self.client.get::<Tokened>(key).map_err(named("gets"))?;
        got.and_then(|(_, _, token)| token).ok_or_else(|| format!("gets: no token for {key}"))
    }

    fn holds(&mut self, what: &str, key: &str, want: &[u8]) -> Step {
        match self.client.get::<Vec<u8>>(key).map_err(named(what))? {
            Some(got) => self.same(what, &got, want),
            None => Err(format!("{what}: {key} is missing")),
        }
    }

    fn missing(&mut self, what: &str, key: &str) -> Step {
        self.equal(what, self.client.get::<Vec<u8>>(key), None)
    }

    /// Holds once the key is missing, however long that takes up to the deadline.
    fn gone(&mut self, what: &str, key: &str) -> Step {
        let start = Instant::now();
        while self.client.get::<Vec<u8>>(key).map_err(named(what))?.is_some() {
            if start.elapsed() > EXPIRY_DEADLINE {
                return Err(format!("{what}: not within {EXPIRY_DEADLINE:?}"));
            }
            std::thread::sleep(POLL);
        }
        self.that(what, true)
    }

    fn done(&mut self, what: &str, got: Result<(), MemcacheError>) -> Step {
        self.equal(what, got, ())
    }

    fn fails<T: Debug>(&mut self, what: &str, got: Result<T, MemcacheError>) -> Step {
        match got {
            Ok(got) => Err(format!("{what}: got {got:?}, want an error")),
            Err(MemcacheError::IOError(e)) => Err(format!("{what}: the connection broke: {e}")),
            Err(_) => self.that(what, true),
        }
    }

    fn equal<T: Debug + PartialEq>(
        &mut self,
        what: &str,
        got: Result<T, MemcacheError>,
        want: T,
    ) -> Step {
        let got = got.map_err(named(what))?;
        if got != want {
            return Err(format!("{what}: got {got:?}, want {want:?}"));
        }
        self.that(what, true)
    }

    fn same(&mut self, what: &str, got: &[u8], want: &[u8]) -> Step {
        if got != want {
            let at = got.iter().zip(want).position(|(a, b)| a != b);
            let (got, want) = (got.len(), want.len());
            return Err(format!(
                "{what}: got {got} bytes, want {want}, first difference at {at:?}"
            ));
        }
        self.that(what, true)
    }

    fn that(&mut self, what: &str, held: bool) -> Step {
        self.checks += 1;
        if held { Ok(()) } else { Err(format!("{what}: does not hold")) }
    }
}

/// The value `v` under chosen flags.
struct Flagged(u32);

impl<W: Write> ToMemcacheValue<W> for Flagged {
    fn get_flags(&self) -> u32 {
        self.0
    }

    fn get_length(&self) -> usize {
        1
    }

    fn write_to(&self, stream: &mut W) -> io::Result<()> {
        stream.write_all(b"v")
    }
}

/// The values that a parser might stumble over. The last is the longest.
fn values(large: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("empty", Vec::new()),
        ("one byte", b"x".to_vec()),
        ("a marked value", b"byte-for-byte".to_vec()),
        ("line ends", b"\r\nfirst\r\nsecond\n\r\r\n".to_vec()),
        ("nuls", b"\x00head\x00\x00tail\x00".to_vec()),
        ("every byte", (0..=255).cycle().take(256 * 5).collect()),
        ("a reply", b"VALUE fake 0 3\r\nxyz\r\nEND\r\n".to_vec()),
        ("a command", b"quit\r\nflush_all\r\n".to_vec()),
        ("just past a packet", large[..1461].to_vec()),
        ("past most buffers", large[..70_001].to_vec()),
    ]
}

/// Incompressible bytes, the same in every run: xorshift64.
fn incompressible(size: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[4]
    };
    (0..size).map(|_| next()).collect()
}

fn named(what: &str) -> impl Fn(MemcacheError) -> String {
    move |e| format!("{what}: {e}")
}
