//! A writer: changes its own keys until the server is killed, and reads them afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::known::{Known, Verdict};
use super::request::{Draw, Expects, Request};
use super::state::{Found, Key};
use crate::instruments::Client;
use measure::clock::mono_ns;
use measure::rng::Rng;

/// Requests under way, at most.
const DEPTH_MAX: u64 = 16;
/// Of a hundred requests, those for one of a few keys: several are under way for one key.
const HOT_PERCENT: u64 = 25;
const HOT: u64 = 20;
/// Requests under way while keys are stored and read.
const BULK: usize = 32;
/// How often a read that was refused is repeated.
const READS_MAX: usize = 3;
/// How often a server that starts is tried.
const POLL: Duration = Duration::from_millis(1);
const TENTH_NS: u64 = 100_000_000;
/// Complaints that are kept, and how much of each.
const COMPLAINTS_MAX: usize = 2;
const COMPLAINT_MAX: usize = 400;

/// What a writer has seen.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Changes that were acknowledged.
    pub changes: u64,
    /// The same by tenth of a second of the monotonic clock.
    pub by_tenth: BTreeMap<u64, u64>,
    /// Requests that were under way at a kill.
    pub cut: u64,
    /// Requests that were refused, or in doubt.
    pub refused: u64,
    /// Answers under load that were not what they must be.
    pub false_answers: u64,
    /// How reads after kills ended.
    pub reads: BTreeMap<Verdict, u64>,
    /// Reads that were refused as often as they were tried.
    pub unread: u64,
    /// What was wrong, the first of it in words.
    pub complaints: Vec<String>,
}

impl Tally {
    /// Adds what another has seen.
    pub fn add(&mut self, other: &Self) {
        self.changes += other.changes;
        self.cut += other.cut;
        self.refused += other.refused;
        self.false_answers += other.false_answers;
        self.unread += other.unread;
        for (tenth, count) in &other.by_tenth {
            *self.by_tenth.entry(*tenth).or_default() += count;
        }
        for (verdict, count) in &other.reads {
            *self.reads.entry(*verdict).or_default() += count;
        }
        self.complaints.extend(other.complaints.iter().cloned());
    }

    /// Changes that were acknowledged from one moment to another, to a tenth of a second.
    pub fn between(&self, from_ns: u64, till_ns: u64) -> u64 {
        self.by_tenth.range(from_ns / TENTH_NS..till_ns / TENTH_NS).map(|(_, count)| count).sum()
    }

    /// How many reads ended so.
    pub fn read(&self, verdict: Verdict) -> u64 {
        self.reads.get(&verdict).copied().unwrap_or(0)
    }

    /// In words.
    pub fn line(&self) -> String {
        format!(
            "{} changes acknowledged, {} requests under way at kills, {} refused, {} answered \
             falsely; reads: {} well, {} lost, {} older, {} wrong, {} refused",
            self.changes,
            self.cut,
            self.refused,
            self.false_answers,
            self.read(Verdict::Well),
            self.read(Verdict::Lost),
            self.read(Verdict::Older),
            self.read(Verdict::Wrong),
            self.unread
        )
    }
}

/// A writer with its keys.
pub struct Writer {
    id: usize,
    prefix: &'static str,
    keys: Vec<Known>,
    /// Keys that requests were sent for since they were read.
    changed: BTreeSet<usize>,
    rng: Rng,
    change: u64,
    /// How long it rests between the requests that it sends at once.
    pace: Duration,
    /// Whether one request of a key is under way at most.
    is_one_each: bool,
    /// What it has seen.
    pub tally: Tally,
}

impl Writer {
    /// The writer of a number whose keys begin so; none is stored yet.
    pub fn new(id: usize, prefix: &'static str, keys: usize, seed: u64) -> Self {
        let rng = Rng::new(seed, 1 + id as u64);
        let keys = vec![Known::default(); keys];
        let (changed, change, tally) = (BTreeSet::new(), 0, Tally::default());
        let (pace, is_one_each) = (Duration::ZERO, false);
        Self { id, prefix, keys, changed, rng, change, pace, is_one_each, tally }
    }

    /// The same; under load it rests this long after up to 16 requests.
    pub fn paced(self, pace: Duration) -> Self {
        Self { pace, ..self }
    }

    /// The same; of each key one request is under way at most. A ring does not keep the order of
    /// more where the primary changes (`docs/consistency.md`).
    pub fn one_each(self) -> Self {
        Self { is_one_each: true, ..self }
    }

    /// Stores every key.
    pub fn fill(&mut self, address: SocketAddr) -> Result<()> {
        let mut client = Client::connect(address)?;
        for first in (0..self.keys.len()).step_by(BULK) {
            let numbers = first..(first + BULK).min(self.keys.len());
            let requests = numbers.map(|number| self.draw(number, true)).collect();
            self.exchange(&mut client, requests)?;
        }
        if self.tally.refused > 0 {
            bail!("keys were refused while they were stored");
        }
        Ok(())
    }

    /// Sends requests until its server ends, which is no fault once `is_over` is set. One that
    /// `stops` ends by that alone.
    pub fn load(&mut self, address: SocketAddr, is_over: &AtomicBool, stops: bool) {
        let mut client = loop {
            match Client::connect(address) {
                Ok(client) => break client,
                Err(_) if is_over.load(Ordering::SeqCst) => return,
                Err(_) => thread::sleep(POLL),
            }
        };
        loop {
            let requests = self.pipeline();
            if let Err(error) = self.exchange(&mut client, requests) {
                if !is_over.load(Ordering::SeqCst) {
                    self.complain(format!("before the kill: {error:#}"));
                    self.tally.false_answers += 1;
                }
                return;
            }
            if stops && is_over.load(Ordering::SeqCst) {
                return;
            }
            thread::sleep(self.pace);
        }
    }

    /// Draws the requests that are sent at once.
    fn pipeline(&mut self) -> Vec<Request> {
        let count = 1 + self.rng.below(DEPTH_MAX);
        let numbers = (0..count).map(|_| {
            let is_hot = self.rng.below(100) < HOT_PERCENT;
            self.rng.below(if is_hot { HOT } else { self.keys.len() as u64 }) as usize
        });
        let mut numbers: Vec<_> = numbers.collect();
        if self.is_one_each {
            numbers.sort_unstable();
            numbers.dedup();
        }
        numbers.into_iter().map(|number| self.draw(number, false)).collect()
    }

    /// Reads the keys that were changed since they were read, and some that were not.
    pub fn check(&mut self, address: SocketAddr, others: usize) -> Result<()> {
        let mut numbers = std::mem::take(&mut self.changed);
        for _ in 0..others {
            numbers.insert(self.rng.below(self.keys.len() as u64) as usize);
        }
        self.check_keys(address, numbers.into_iter().collect())
    }

    /// Reads all keys.
    pub fn check_all(&mut self, address: SocketAddr) -> Result<()> {
        self.changed.clear();
        self.check_keys(address, (0..self.keys.len()).collect())
    }

    fn check_keys(&mut self, address: SocketAddr, mut numbers: Vec<usize>) -> Result<()> {
        let mut client = Client::connect(address)?;
        for _ in 0..READS_MAX {
            let mut refused = Vec::new();
            for numbers in numbers.chunks(BULK) {
                let requests =
                    numbers.iter().map(|it| format!("mg {} v f t c\r\n", self.name(*it)));
                client.send(requests.collect::<String>().as_bytes())?;
                for number in numbers {
                    match found(&mut client)? {
                        Ok(found) => self.judge(*number, found.as_ref()),
                        Err(_) => refused.push(*number),
                    }
                }
            }
            numbers = refused;
        }
        self.tally.unread += numbers.len() as u64;
        // They are read after the next kill.
        self.changed.extend(numbers);
        Ok(())
    }

    fn judge(&mut self, number: usize, found: Option<&Found>) {
        let key = self.key(number);
        let before = self.keys[number].clone();
        let verdict = self.keys[number].found(key, found);
        *self.tally.reads.entry(verdict).or_default() += 1;
        if verdict != Verdict::Well {
            let found = found.map(|Found { bytes, flags, ttl_s, token }| {
                format!("{}, flags {flags}, ttl {ttl_s:?}, token {token}", shown(bytes))
            });
            let name = self.name(number);
            self.complain(format!("{name}: {verdict:?}: found {found:?}, not {before:?}"));
        }
    }

    /// Sends requests and reads their answers. Where it ends before, what is left was cut.
    fn exchange(&mut self, client: &mut Client, requests: Vec<Request>) -> Result<()> {
        let text: String = requests.iter().map(|request| request.text.as_str()).collect();
        let mut answered = 0;
        let mut answer = || -> Result<()> {
            client.send(text.as_bytes())?;
            for request in &requests {
                self.answer(client, request)?;
                answered += 1;
            }
            Ok(())
        };
        let ended = answer();
        for request in &requests[answered..] {
            self.tally.cut += 1;
            self.keys[request.number].cut();
        }
        ended
    }

    fn answer(&mut self, client: &mut Client, request: &Request) -> Result<()> {
        let said = Said::read(client)?;
        let key = self.key(request.number);
        let known = &mut self.keys[request.number];
        if said.is_refusal() {
            self.tally.refused += 1;
            if request.is_change {
                known.in_doubt();
            }
            return Ok(());
        }
        // After an answer in doubt nobody knows what the next one must be.
        let is_true = known.latest().is_none() || said.is(key, &request.expects);
        if request.is_change {
            known.answered();
            self.tally.changes += 1;
            *self.tally.by_tenth.entry(mono_ns() / TENTH_NS).or_default() += 1;
        } else if let Said::Value { token: Some(token), .. } = said {
            known.read(token);
        }
        if !is_true {
            self.tally.false_answers += 1;
            self.keys[request.number].in_doubt();
            let sent: String = request.text.chars().take(60).collect();
            let expects = &request.expects;
            let said = said.in_words();
            self.complain(format!("{sent:?} was answered {said}, not {expects:?}"));
        }
        Ok(())
    }

    fn draw(&mut self, number: usize, is_fill: bool) -> Request {
        let (key, name) = (self.key(number), self.name(number));
        self.changed.insert(number);
        self.change += 1;
        let (known, rng) = (&mut self.keys[number], &mut self.rng);
        let draw = Draw { key, name: &name, known, rng, change: self.change };
        if is_fill { draw.set() } else { draw.any() }
    }

    fn key(&self, number: usize) -> Key {
        Key { writer: self.id, number }
    }

    fn name(&self, number: usize) -> String {
        format!("{}{}-{number}", self.prefix, self.id)
    }

    fn complain(&mut self, complaint: String) {
        if self.tally.complaints.len() < COMPLAINTS_MAX {
            self.tally.complaints.push(complaint.chars().take(COMPLAINT_MAX).collect());
        }
    }
}

/// The beginning of a value, and its length.
fn shown(bytes: &[u8]) -> String {
    let begin = String::from_utf8_lossy(&bytes[..bytes.len().min(40)]);
    format!("{begin}.. {} B", bytes.len())
}

/// An answer.
enum Said {
    Line(String),
    Value { bytes: Vec<u8>, flags: u32, token: Option<u64> },
    Miss,
}

impl Said {
    fn read(client: &mut Client) -> Result<Self> {
        let line = client.line()?;
        if line == "END" {
            return Ok(Self::Miss);
        }
        let Some(words) = line.strip_prefix("VALUE ") else { return Ok(Self::Line(line)) };
        let mut words = words.split(' ').skip(1);
        let flags = words.next().context("a value has no flags")?.parse()?;
        let bytes = client.block(words.next().context("a value has no length")?.parse()?)?;
        let token = words.next().map(str::parse).transpose()?;
        match client.line()?.as_str() {
            "END" => Ok(Self::Value { bytes, flags, token }),
            other => bail!("a value is followed by {other:?}"),
        }
    }

    fn in_words(&self) -> String {
        match self {
            Self::Line(line) => format!("{line:?}"),
            Self::Value { bytes, flags, token } => {
                format!("{}, flags {flags}, token {token:?}", shown(bytes))
            }
            Self::Miss => "a miss".to_owned(),
        }
    }

    fn is_refusal(&self) -> bool {
        matches!(self, Self::Line(line) if line.starts_with("SERVER_ERROR"))
    }

    fn is(&self, key: Key, expects: &Expects) -> bool {
        match (self, expects) {
            (Self::Line(line), Expects::Lines(lines)) => lines.contains(line),
            (Self::Value { bytes, flags, .. }, Expects::Value(item)) => {
                item.flags == *flags && item.bytes(key) == *bytes
            }
            (Self::Miss, Expects::Miss) => true,
            _ => false,
        }
    }
}

/// What `mg KEY v f t c` is answered, or the line of a refusal.
fn found(client: &mut Client) -> Result<Result<Option<Found>, String>> {
    let line = client.line()?;
    if line == "EN" {
        return Ok(Ok(None));
    }
    let Some(words) = line.strip_prefix("VA ") else { return Ok(Err(line)) };
    let mut words = words.split(' ');
    let bytes = client.block(words.next().unwrap_or_default().parse()?)?;
    let (mut flags, mut ttl_s, mut token) = (None, None, None);
    for word in words {
        match word.split_at(1) {
            ("f", number) => flags = Some(number.parse()?),
            ("t", "-1") => {}
            ("t", number) => ttl_s = Some(number.parse()?),
            ("c", number) => token = Some(number.parse()?),
            _ => {}
        }
    }
    let (flags, token) = flags.zip(token).context("a value has no flags or no token")?;
    Ok(Ok(Some(Found { bytes, flags, ttl_s, token })))
}
