//! Writers that change their own keys until it is over, and remember what was answered.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::{Context, Result};

use super::dialect::Speaker;
use super::history::{Found, History, Verdict, found, value};
use super::system::System;
use measure::clock::mono_ns;
use measure::rng::Rng;

/// Writers, each with a connection, and the keys of each.
const WRITERS: usize = 4;
const KEYS: usize = 250;
/// One of this number of changes is a removal.
const REMOVAL_EVERY: u64 = 8;
/// Complaints that are kept, and how much of each.
const COMPLAINTS_MAX: usize = 3;
const COMPLAINT_MAX: usize = 200;

/// What reads after cuts found.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Cuts, or kills.
    pub cuts: usize,
    /// Those after which something was lost.
    pub lossy: usize,
    /// Those after which the server did not start.
    pub unstarted: usize,
    /// Changes that had been answered: within the load of each cut.
    pub answered: u64,
    /// Changes that were lost.
    pub lost: u64,
    /// Of these, how long before the cut the oldest was answered.
    pub oldest_ns: u64,
    /// Keys that held what nobody had stored.
    pub wrong: u64,
    /// What was found first, in words.
    pub complaints: Vec<String>,
}

impl Tally {
    /// Adds what another has seen.
    pub fn add(&mut self, other: &Self) {
        self.cuts += other.cuts;
        self.lossy += other.lossy;
        self.unstarted += other.unstarted;
        self.answered += other.answered;
        self.lost += other.lost;
        self.oldest_ns = self.oldest_ns.max(other.oldest_ns);
        self.wrong += other.wrong;
        other.complaints.iter().for_each(|complaint| self.complain(complaint));
    }

    /// Keeps a complaint, if there is room.
    pub fn complain(&mut self, complaint: &str) {
        if self.complaints.len() < COMPLAINTS_MAX {
            self.complaints.push(complaint.chars().take(COMPLAINT_MAX).collect());
        }
    }

    /// In words; `what` are its cuts.
    pub fn line(&self, what: &str) -> String {
        let mut line = format!(
            "{} of {} answered changes lost, in {} of {} {what}",
            self.lost, self.answered, self.lossy, self.cuts
        );
        if self.lost > 0 {
            line += &format!(", the oldest {:.2} s old", self.oldest_ns as f64 / 1e9);
        }
        if self.wrong > 0 {
            line += &format!("; {} keys with wrong values", self.wrong);
        }
        if self.unstarted > 0 {
            line += &format!("; did not start after {}", self.unstarted);
        }
        line
    }
}

/// The writers of one system.
pub struct Writers {
    system: System,
    writers: Vec<Writer>,
}

struct Writer {
    id: usize,
    keys: Vec<History>,
    rng: Rng,
}

impl Writers {
    /// Of keys that are not stored yet.
    pub fn new(system: System, seed: u64) -> Self {
        let writer = |id| Writer {
            id,
            keys: vec![History::default(); KEYS],
            rng: Rng::new(seed, id as u64),
        };
        Self { system, writers: (0..WRITERS).map(writer).collect() }
    }

    /// Stores every key.
    pub fn fill(&mut self, address: SocketAddr) -> Result<()> {
        let system = self.system;
        self.each(|writer| {
            let mut speaker = system.speak(address)?;
            (0..KEYS).try_for_each(|number| writer.change(&mut speaker, number, false))
        })
    }

    /// Changes keys until `is_over`; a connection that breaks before is an error. `meanwhile` runs
    /// beside it, and sets `is_over`.
    pub fn load(
        &mut self,
        address: SocketAddr,
        is_over: &AtomicBool,
        meanwhile: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let system = self.system;
        let changes = |writer: &mut Writer| -> Result<()> {
            let mut speaker = system.speak(address)?;
            while !is_over.load(Ordering::SeqCst) {
                let number = writer.rng.below(KEYS as u64) as usize;
                let is_removal = writer.rng.below(REMOVAL_EVERY) == 0;
                writer.change(&mut speaker, number, is_removal)?;
            }
            Ok(())
        };
        thread::scope(|scope| {
            let writers = scope.spawn(|| {
                self.each(|writer| match changes(writer) {
                    // The end of the server ends it.
                    Err(_) if is_over.load(Ordering::SeqCst) => Ok(()),
                    ended => ended,
                })
            });
            let done = meanwhile();
            is_over.store(true, Ordering::SeqCst);
            writers.join().expect("invariant: writers do not panic").and(done)
        })
    }

    /// Reads all keys, writer by writer.
    pub fn read(&self, address: SocketAddr) -> Result<Vec<Vec<Found>>> {
        let mut speaker = self.system.speak(address)?;
        let mut one = |writer: &Writer, number| -> Result<Found> {
            let key = writer.name(number);
            let bytes = speaker.get(&key).with_context(|| format!("read {key}"))?;
            Ok(found(&key, bytes.as_deref()))
        };
        let of = |writer| (0..KEYS).map(|number| one(writer, number)).collect();
        self.writers.iter().map(of).collect()
    }

    /// Judges what was read after a cut, of a load that began at a time.
    pub fn judge(&self, found: &[Vec<Found>], began_ns: u64, cut_ns: u64) -> Tally {
        let mut tally = Tally { cuts: 1, ..Tally::default() };
        for (writer, found) in self.writers.iter().zip(found) {
            for (number, (history, found)) in writer.keys.iter().zip(found).enumerate() {
                tally.answered += history.answered_between(began_ns, cut_ns);
                match history.judge(cut_ns, found) {
                    Verdict::Well => {}
                    Verdict::Lost { changes, oldest_ns } => {
                        tally.lost += changes;
                        tally.oldest_ns = tally.oldest_ns.max(cut_ns - oldest_ns);
                    }
                    Verdict::Wrong => {
                        tally.wrong += 1;
                        tally.complain(&format!("{}: {found:?}", writer.name(number)));
                    }
                }
            }
        }
        tally.lossy = usize::from(tally.lost > 0);
        tally
    }

    /// Goes on from what was read.
    pub fn begin_from(&mut self, found: &[Vec<Found>]) {
        let keys = self.writers.iter_mut().flat_map(|writer| &mut writer.keys);
        keys.zip(found.iter().flatten()).for_each(|(history, found)| history.begin_from(found));
    }

    fn each(&mut self, work: impl Fn(&mut Writer) -> Result<()> + Copy + Send) -> Result<()> {
        thread::scope(|scope| {
            let begin = |writer| scope.spawn(move || work(writer));
            let threads: Vec<_> = self.writers.iter_mut().map(begin).collect();
            let ends = threads.into_iter().map(|it| it.join().expect("invariant: no panic"));
            ends.collect::<Vec<_>>().into_iter().collect()
        })
    }
}

impl Writer {
    /// Makes a change, and waits for its answer.
    fn change(&mut self, speaker: &mut Speaker, number: usize, is_removal: bool) -> Result<()> {
        let key = self.name(number);
        let history = &mut self.keys[number];
        let change = history.sent(is_removal, mono_ns());
        if is_removal {
            speaker.remove(&key)?;
        } else {
            speaker.set(&key, &value(&key, change))?;
        }
        history.answered(mono_ns());
        Ok(())
    }

    fn name(&self, number: usize) -> String {
        format!("w{}-{number}", self.id)
    }
}
