//! Many keys, all stored before the first fault, and requests for them in an open loop.
//!
//! What each key may hold is known, so every reply is judged when it comes. Half of the requests
//! read; the others set, and few delete. A key that has a request under way is not chosen again.
//!
//! A range whose copies are killed together loses its items. Until they were read again, a key of
//! it may be absent, and nothing else is excused.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::answered::{Answered, Ended};
use super::holds::{Holds, VALUE_BYTES, change};
use super::map::RingMap;
use super::open_loop::Asks;
use crate::instruments::wire::Client;
use measure::clock::mono_ns;
use measure::rng::Rng;

/// Of a hundred requests: reads, and reads or sets; the others are deletes.
const READS: u64 = 50;
const READS_AND_SETS: u64 = 97;
/// How often another key is drawn in place of one that has a request under way.
const DRAWS_MAX: usize = 16;
/// Requests that are sent together when keys are stored or checked.
const BATCH: usize = 64;
/// Connections that do so at once.
const CONNECTIONS: usize = 4;
/// How often such requests are sent again where the connection was closed, and after how long.
const TRIES: usize = 10;
const AGAIN: Duration = Duration::from_millis(200);

/// One request of the load.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// When, and how it ended.
    pub answered: Answered,
    /// The place of its range in the map.
    pub place: usize,
    /// Whether it was a change.
    pub changes: bool,
    /// Whether its range had one copy alone when it was answered.
    pub is_alone: bool,
}

/// What a check has read.
#[derive(Clone, Debug, Default)]
pub struct Checked {
    /// How the reads ended.
    pub counts: BTreeMap<Ended, u64>,
    /// Keys that were lost with their range.
    pub lost: u64,
}

/// The keys, and what each may hold.
pub struct Keys {
    holds: Vec<Holds>,
    is_busy: Vec<bool>,
    /// Those that were changed since the last check.
    changed: Vec<u32>,
    version: u64,
    rng: Rng,
    map: RingMap,
    /// The places of ranges whose items may be lost.
    may_be_lost: Vec<usize>,
    /// Of each range, whether it has one copy alone.
    alone: Arc<Vec<AtomicBool>>,
    /// What was seen since [`Keys::begin`].
    pub seen: Vec<Seen>,
}

/// A request that was sent.
pub struct Asked {
    key: u32,
    change: Option<Option<u64>>,
}

impl Keys {
    /// Stores this many keys through all cells.
    pub fn store(count: usize, targets: &[SocketAddr], map: &RingMap) -> Result<Self> {
        let version = 1;
        let all: Vec<u32> = (0..count as u32).collect();
        in_parts(targets, &all, |client, batch| {
            let requests = batch.iter().map(|key| change(&name(*key), Some(version)));
            client.send(requests.collect::<String>().as_bytes())?;
            for key in batch {
                let line = client.line()?;
                ensure!(line == "STORED", "set {}: {line}", name(*key));
            }
            Ok(Vec::<()>::new())
        })?;
        let holds = vec![Holds { sure: Some(version), doubt: None }; count];
        let (is_busy, changed, seen) = (vec![false; count], Vec::new(), Vec::new());
        let (rng, map, alone) = (Rng::new(mono_ns(), 0), map.clone(), Arc::default());
        let may_be_lost = Vec::new();
        Ok(Self { holds, is_busy, changed, version, rng, map, may_be_lost, alone, seen })
    }

    /// Begins the load of a fault: with the ranges by their map, those of them that may be lost,
    /// and where it is written which of them have one copy alone.
    pub fn begin(&mut self, map: &RingMap, lost: Vec<usize>, alone: Arc<Vec<AtomicBool>>) {
        (self.map, self.may_be_lost, self.alone) = (map.clone(), lost, alone);
        self.seen.clear();
    }

    /// Bytes of the keys and values of a range.
    pub fn bytes_of(&self, map: &RingMap, place: usize) -> u64 {
        let held = (0..self.holds.len() as u32).filter(|key| self.holds(*key).sure.is_some());
        let names = held.map(name).filter(|name| map.place_of(name) == Some(place));
        names.map(|name| (name.len() + VALUE_BYTES) as u64).sum()
    }

    /// Reads what was changed since the last check, and some other keys; all keys of ranges that
    /// may be lost, and what these hold is known again afterwards.
    pub fn check(&mut self, targets: &[SocketAddr], others: usize) -> Result<Checked> {
        let mut which = std::mem::take(&mut self.changed);
        let count = self.holds.len() as u64;
        which.extend((0..others).map(|_| self.rng.below(count) as u32));
        which.extend((0..count as u32).filter(|key| self.may_be_absent(*key)));
        let checked = self.read(targets, &mut which);
        self.may_be_lost.clear();
        checked
    }

    /// Reads all keys.
    pub fn check_all(&mut self, targets: &[SocketAddr]) -> Result<Checked> {
        let mut all = (0..self.holds.len() as u32).collect();
        self.changed.clear();
        self.read(targets, &mut all)
    }

    fn read(&mut self, targets: &[SocketAddr], which: &mut Vec<u32>) -> Result<Checked> {
        which.sort_unstable();
        which.dedup();
        let read = in_parts(targets, which, |client, batch| self.read_batch(client, batch))?;
        let mut checked = Checked::default();
        for (key, ended, is_absent) in read {
            *checked.counts.entry(ended).or_default() += 1;
            if is_absent && ended == Ended::Well && self.may_be_absent(key) {
                let holds = std::mem::take(&mut self.holds[key as usize]);
                checked.lost += u64::from(holds.judge(None) != Ended::Well);
            }
        }
        Ok(checked)
    }

    /// Each key, how its read ended, and whether it was absent.
    fn read_batch(&self, client: &mut Client, batch: &[u32]) -> Result<Vec<(u32, Ended, bool)>> {
        let requests = batch.iter().map(|key| format!("get {}\r\n", name(*key)));
        client.send(requests.collect::<String>().as_bytes())?;
        let mut found = Vec::with_capacity(batch.len());
        for key in batch {
            let got = client.got()?;
            let is_absent = matches!(got, Ok(None));
            let ended = match got {
                Ok(value) => self.judge(*key, value.as_deref()),
                Err(line) => Ended::of_error(&line),
            };
            found.push((*key, ended, is_absent));
        }
        Ok(found)
    }

    fn holds(&self, key: u32) -> Holds {
        self.holds[key as usize]
    }

    fn may_be_absent(&self, key: u32) -> bool {
        // Without a loss, no key is looked for in the map.
        !self.may_be_lost.is_empty()
            && self.map.place_of(&name(key)).is_some_and(|it| self.may_be_lost.contains(&it))
    }

    fn judge(&self, key: u32, value: Option<&[u8]>) -> Ended {
        match value {
            None if self.may_be_absent(key) => Ended::Well,
            _ => self.holds(key).judge_value(&name(key), value),
        }
    }

    /// Takes over what a change was answered; nothing where there was no answer.
    fn changed(&mut self, key: u32, to: Option<u64>, line: Option<&str>) -> Ended {
        let ended = match line {
            Some("NOT_FOUND") if to.is_none() && self.may_be_absent(key) => Ended::Well,
            line => self.holds(key).judge_change(to, line),
        };
        let holds = &mut self.holds[key as usize];
        match ended {
            Ended::Refused => {}
            Ended::InDoubt | Ended::Closed => holds.doubt = Some(to),
            _ => holds.sure = to,
        }
        self.changed.push(key);
        ended
    }

    /// A key that has no request under way.
    fn draw(&mut self) -> Option<u32> {
        let count = self.holds.len() as u64;
        let draws = (0..DRAWS_MAX).map(|_| self.rng.below(count) as u32);
        let free = draws.collect::<Vec<_>>().into_iter().find(|key| !self.is_busy[*key as usize]);
        free.inspect(|key| self.is_busy[*key as usize] = true)
    }
}

impl Asks for Keys {
    type Asked = Asked;

    fn next(&mut self) -> Option<(Asked, String)> {
        let key = self.draw()?;
        let kind = self.rng.below(100);
        // One in doubt is changed no more.
        if kind < READS || self.holds(key).doubt.is_some() {
            return Some((Asked { key, change: None }, format!("get {}\r\n", name(key))));
        }
        let is_set = kind < READS_AND_SETS;
        self.version += u64::from(is_set);
        let to = is_set.then_some(self.version);
        Some((Asked { key, change: Some(to) }, change(&name(key), to)))
    }

    fn answered(&mut self, Asked { key, change }: Asked, sent_ns: u64, reply: &[u8]) {
        let done_ns = mono_ns();
        let line = (!reply.is_empty()).then(|| String::from_utf8_lossy(reply));
        let line = line.as_deref().map(str::trim_end);
        let ended = match (change, line) {
            (Some(to), line) => self.changed(key, to, line),
            (None, None) => Ended::Closed,
            (None, Some("END")) => self.judge(key, None),
            (None, Some(line)) => match value_in(reply, &name(key)) {
                Some(value) => self.judge(key, Some(value)),
                None => Ended::of_error(line),
            },
        };
        self.is_busy[key as usize] = false;
        let place = self.map.place_of(&name(key)).unwrap_or(0);
        let is_alone = self.alone.get(place).is_some_and(|it| it.load(Ordering::Relaxed));
        let answered = Answered { sent_ns, done_ns, ended };
        self.seen.push(Seen { answered, place, changes: change.is_some(), is_alone });
    }
}

fn name(key: u32) -> String {
    format!("five-{key:07}")
}

/// The value in the reply to a `get` of one key; none where it is no such reply.
fn value_in<'a>(reply: &'a [u8], key: &str) -> Option<&'a [u8]> {
    let head = format!("VALUE {key} 0 {VALUE_BYTES}\r\n");
    reply.strip_prefix(head.as_bytes())?.strip_suffix(b"\r\nEND\r\n")
}

/// Calls `work` for batches of `keys`, over several connections at once, and again where one was
/// closed; all that it has found.
fn in_parts<T: Send>(
    targets: &[SocketAddr],
    keys: &[u32],
    work: impl Fn(&mut Client, &[u32]) -> Result<Vec<T>> + Sync,
) -> Result<Vec<T>> {
    // On a machine that is busy a primary may lose its lease, and closes connections then.
    let again = |target: SocketAddr, batch: &[u32]| -> Result<(Client, Vec<T>)> {
        let mut last = None;
        for _ in 0..TRIES {
            let mut client = Client::connect(target)?;
            match work(&mut client, batch) {
                Ok(found) => return Ok((client, found)),
                Err(error) => last = Some(error),
            }
            thread::sleep(AGAIN);
        }
        Err(last.context("invariant: it was tried")?)
    };
    let one = |keys: &[u32], target: SocketAddr| -> Result<Vec<T>> {
        let (mut client, mut found) = (Client::connect(target)?, Vec::new());
        for batch in keys.chunks(BATCH) {
            let read = work(&mut client, batch);
            found.extend(read.or_else(|_| {
                let (fresh, found) = again(target, batch)?;
                client = fresh;
                anyhow::Ok(found)
            })?);
        }
        Ok(found)
    };
    let parts = keys.chunks(keys.len().div_ceil(CONNECTIONS).max(1));
    thread::scope(|scope| {
        let one = &one;
        let parts = parts.zip(targets.iter().cycle());
        let parts: Vec<_> =
            parts.map(|(keys, target)| scope.spawn(|| one(keys, *target))).collect();
        let mut all = Vec::with_capacity(keys.len());
        for part in parts {
            all.extend(part.join().expect("invariant: a client does not panic")?);
        }
        Ok(all)
    })
}

#[cfg(test)]
mod tests {
    use super::super::map::RangeOf;
    use super::*;
    use base::SLICES;

    fn keys(may_be_lost: Vec<usize>) -> Keys {
        let range = |slices| RangeOf { slices, primary: Some(1), copies: vec![2], learner: None };
        let half = SLICES / 2;
        let ranges = vec![range(0..=half - 1), range(half..=SLICES - 1)];
        Keys {
            holds: vec![Holds { sure: Some(1), doubt: None }; 100],
            is_busy: vec![false; 100],
            changed: Vec::new(),
            version: 1,
            rng: Rng::new(7, 0),
            map: RingMap { ranges, ..RingMap::default() },
            may_be_lost,
            alone: Arc::new(vec![AtomicBool::new(false), AtomicBool::new(true)]),
            seen: Vec::new(),
        }
    }

    #[test]
    fn a_key_has_one_request_at_a_time() {
        let mut keys = keys(Vec::new());
        let mut asked: Vec<u32> = Vec::new();
        while let Some((one, request)) = keys.next() {
            assert!(request.contains(&name(one.key)));
            assert!(!asked.contains(&one.key) && asked.len() < 100);
            asked.push(one.key);
        }
        assert!(asked.len() > 50);
        let key = asked[0];
        keys.answered(Asked { key, change: Some(None) }, 0, b"DELETED\r\n");
        assert!(!keys.is_busy[key as usize] && keys.holds(key).sure.is_none());
        assert_eq!(keys.changed, [key]);
    }

    #[test]
    fn replies_are_judged_and_known_by_their_range() {
        let mut keys = keys(Vec::new());
        let read = |key| Asked { key, change: None };
        let value = change(&name(3), Some(1)).split_once("\r\n").unwrap().1.to_owned();
        let reply = format!("VALUE {} 0 {VALUE_BYTES}\r\n{value}END\r\n", name(3));
        keys.answered(read(3), 5, reply.as_bytes());
        keys.answered(read(4), 5, reply.as_bytes());
        keys.answered(read(3), 5, b"END\r\n");
        keys.answered(read(3), 5, b"SERVER_ERROR range 1 cannot be served: x\r\n");
        keys.answered(read(3), 5, b"");
        keys.answered(Asked { key: 3, change: Some(Some(9)) }, 5, b"SERVER_ERROR in doubt: x\r\n");
        let ended: Vec<Ended> = keys.seen.iter().map(|seen| seen.answered.ended).collect();
        let expected = [Ended::Well, Ended::Wrong, Ended::Lost, Ended::Refused, Ended::Closed];
        assert_eq!((&ended[..5], ended[5]), (&expected[..], Ended::InDoubt));
        assert_eq!(keys.holds(3), Holds { sure: Some(1), doubt: Some(Some(9)) });
        for seen in &keys.seen {
            assert_eq!(seen.is_alone, seen.place == 1);
        }
    }

    #[test]
    fn what_was_lost_with_its_range_is_excused_and_nothing_else() {
        let of = |place: usize| {
            let keys = keys(Vec::new());
            (0..100).find(|key| keys.map.place_of(&name(*key)) == Some(place)).unwrap()
        };
        let (lost, kept) = (of(0), of(1));
        let mut keys = keys(vec![0]);
        assert_eq!(keys.judge(lost, None), Ended::Well);
        assert_eq!(keys.judge(kept, None), Ended::Lost);
        assert_eq!(keys.changed(lost, None, Some("NOT_FOUND")), Ended::Well);
        assert_eq!(keys.changed(kept, None, Some("NOT_FOUND")), Ended::Lost);
    }
}
