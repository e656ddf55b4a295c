//! Changes that are given up: they are never written back, and what lies below counts again.
//!
//! ```text
//! wanted -> named by the index, and old enough -> written to the journal -> durable -> left out
//! ```
//!
//! The journal says which changes are given up, durably, before the index forgets them: so the next
//! start does not find them again. What memory has of such a key leaves it then: a read shows what
//! lies below, and never what neither the journal nor the database has.
//!
//! Called by the thread that flushes: no change is on its way below meanwhile.

use crate::backend::BackendError;
use crate::index::{Entry, Kind};
use crate::journal::{GivingUp, Spot, give_up};
use crate::key::KeyHash;
use crate::layers::Layers;
use crate::sync::{Mutex, lock};
use base::{SliceId, Version};
use std::collections::HashMap;

/// Keys that are given up at once, at most.
const KEYS_MAX: usize = 10_000;

/// A change is given up once it has been durable for so long: no reply waits for it any more. Of a
/// value that was touched since, it is not known how long the touch has been: it is given up when
/// it is wanted once more after so long.
const AGE_NS: u64 = 3_000_000_000;

/// What is written to the journal is durable after so long, or nothing is given up.
const WAIT_NS: u64 = 10_000_000_000;

/// Which changes are to be given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Discard {
    /// Those of these keys.
    Keys(Vec<Box<[u8]>>),
    /// Those of keys that begin like this.
    Prefix(Box<[u8]>),
    /// Those of keys that the backend writes together, by the number of the group.
    Run(usize),
}

/// A change that was given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenUp {
    /// Its key.
    pub key: Box<[u8]>,
    /// What it was: `value`, `removal` or `touch`.
    pub what: &'static str,
    /// Its version.
    pub version: Version,
}

/// What came of giving changes up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Discarded {
    /// What was given up.
    pub given_up: Vec<GivenUp>,
    /// Keys whose changes are too new: replies may wait for them.
    pub young: u64,
    /// Keys that changed again, or were written back, meanwhile.
    pub changed: u64,
    /// Changes whose records cannot be read.
    pub unreadable: u64,
    /// Whether there are more than are given up at once.
    pub has_more: bool,
    /// Why nothing was given up, if that is so.
    pub failure: Option<String>,
}

/// A change on its way to be given up.
struct Named {
    hash: KeyHash,
    entry: Entry,
    key: Box<[u8]>,
}

/// What is written, and not durable yet.
struct Written {
    named: Vec<Named>,
    ends: Vec<Spot>,
    so_far: Discarded,
    /// It must be durable before this moment.
    until_ns: u64,
}

/// Keys that were touched since their records, as of which version, and since when that is known.
type Touched = HashMap<KeyHash, (Version, u64)>;

#[derive(Default)]
struct State {
    wanted: Option<Discard>,
    /// Of the last time that any were wanted: at most [`KEYS_MAX`].
    touched: Touched,
    written: Option<Written>,
    last: Discarded,
    count: u64,
}

/// What is to be given up, and what was.
#[derive(Default)]
pub(crate) struct Discards(Mutex<State>);

impl Discards {
    /// Asks for changes to be given up. Returns whether nothing else is just being given up.
    pub(crate) fn want(&self, which: Discard) -> bool {
        let mut state = lock(&self.0);
        let is_free = state.wanted.is_none() && state.written.is_none();
        if is_free {
            state.wanted = Some(which);
        }
        is_free
    }

    /// How often something came of it, and what, the last time.
    pub(crate) fn last(&self) -> (u64, Discarded) {
        let state = lock(&self.0);
        (state.count, state.last.clone())
    }

    /// Carries out what is wanted, as far as that is possible now. `forget` is called with each
    /// change that was given up. Returns whether it waits until the journal is durable.
    pub(crate) fn carry_out(
        &self,
        layers: &Layers,
        now_ns: u64,
        forget: impl Fn(KeyHash, &GivenUp),
    ) -> bool {
        let mut state = lock(&self.0);
        if let Some(written) = state.written.take() {
            let is_durable = written.ends.iter().all(|end| layers.journal.is_durable_to(*end));
            if !is_durable && now_ns < written.until_ns {
                state.written = Some(written);
                return true;
            }
            state.last = match is_durable {
                true => finish(layers, written, forget),
                false => failed("the journal was not synced in time; try again".to_owned()),
            };
            state.count += 1;
        } else if let Some(wanted) = state.wanted.take() {
            match begin(layers, &wanted, &mut state.touched, now_ns) {
                Ok(written) => state.written = Some(written),
                Err(why) => {
                    state.last = failed(why);
                    state.count += 1;
                }
            }
        }
        state.written.is_some()
    }
}

fn failed(why: String) -> Discarded {
    Discarded { failure: Some(why), ..Discarded::default() }
}

/// Writes to the journal what is given up.
fn begin(
    layers: &Layers,
    wanted: &Discard,
    touched: &mut Touched,
    now_ns: u64,
) -> Result<Written, String> {
    let mut so_far = Discarded::default();
    let named = find(layers, wanted, (touched, now_ns), &mut so_far);
    let mut named = named.map_err(|error| error.to_string())?;
    let keys = named.iter_mut().map(|Named { entry, key, .. }| GivingUp {
        key,
        place: entry.place,
        version: &mut entry.version,
    });
    let ends = give_up(&layers.journal, &mut keys.collect::<Vec<_>>());
    let ends = ends.map_err(|error| format!("the journal cannot be written: {error}"))?;
    Ok(Written { named, ends, so_far, until_ns: now_ns + WAIT_NS })
}

/// The changes that are wanted, old enough, and can be read.
fn find(
    layers: &Layers,
    wanted: &Discard,
    (touched, now_ns): (&mut Touched, u64),
    so_far: &mut Discarded,
) -> Result<Vec<Named>, BackendError> {
    let mut candidates = Vec::new();
    match wanted {
        Discard::Keys(keys) => {
            let hashes = keys.iter().map(|key| layers.hasher.hash(SliceId::of(key), key));
            let found = hashes.filter_map(|hash| Some((hash, layers.index.get(hash)?)));
            candidates.extend(found);
        }
        Discard::Prefix(_) => layers.index.for_each(|hash, entry| candidates.push((hash, *entry))),
        Discard::Run(number) => layers.index.for_each(|hash, entry| {
            let group = layers.backend.group(hash.slice());
            if !group.is_empty() && group.numbers().start / group.len() == *number {
                candidates.push((hash, *entry));
            }
        }),
    }
    let mut named = Vec::new();
    let seen = std::mem::take(touched);
    for (hash, entry) in candidates {
        let Some((key, version)) = record_of(layers, &entry) else {
            so_far.unreadable += 1;
            continue;
        };
        if matches!(wanted, Discard::Prefix(prefix) if !key.starts_with(prefix)) {
            continue;
        }
        let before_ns = now_ns.saturating_sub(AGE_NS);
        let is_old = if version == entry.version {
            layers.journal.is_durable_since(entry.place, before_ns)
        } else {
            // Of a touch since, only this is known.
            let since = seen.get(&hash).filter(|(version, _)| *version == entry.version);
            let since_ns = since.map_or(now_ns, |(_, since_ns)| *since_ns);
            if touched.len() < KEYS_MAX {
                touched.insert(hash, (entry.version, since_ns));
            }
            since_ns <= before_ns
        };
        if !is_old {
            so_far.young += 1;
        } else if named.len() == KEYS_MAX {
            so_far.has_more = true;
            break;
        } else {
            named.push(Named { hash, entry, key });
        }
    }
    Ok(named)
}

/// The key and the version of the record that the index names; `None` if it cannot be read.
fn record_of(layers: &Layers, entry: &Entry) -> Option<(Box<[u8]>, Version)> {
    let bytes = layers.journal.read(entry.place).ok().flatten()?;
    match effects::Entry::decode(&bytes) {
        Ok((effects::Entry::Change { effect, version, .. }, _)) => {
            Some((effect.key.into(), version))
        }
        _ => None,
    }
}

/// The index forgets what is given up.
fn finish(layers: &Layers, written: Written, forget: impl Fn(KeyHash, &GivenUp)) -> Discarded {
    let Written { named, mut so_far, .. } = written;
    for Named { hash, entry, key } in named {
        let what = match entry.kind {
            Kind::Value => "value",
            Kind::Tombstone => "removal",
            Kind::TouchOf => "touch",
        };
        let mut version = entry.version;
        if !layers.index.written_back(hash, entry.place, version) {
            // Where it was touched since, the touch is one of what lies below, as after a restart.
            match layers.index.get(hash).filter(|it| it.kind == Kind::TouchOf) {
                Some(touched) => version = touched.version,
                None => {
                    so_far.changed += 1;
                    continue;
                }
            }
        }
        let given_up = GivenUp { key, what, version };
        forget(hash, &given_up);
        so_far.given_up.push(given_up);
    }
    so_far
}
