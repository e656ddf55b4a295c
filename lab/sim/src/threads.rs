//! The threads of a tier, which the scheduler stops between any two of their steps.
//!
//! ```text
//! journal   writes what the logs have, and makes it durable
//! flusher   leads below, and writes back what is old enough
//! loader    looks one key up
//! ```
//!
//! A step is whole: what a call of the disk or of the bucket takes is the time before the step.

use crate::scene::{Event, Life, Scene};
use base::Now;
use service::{Cell, Loader, Pressed, RingCell, Tiered, WrittenBackEntries};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tier::{BackendError, Flushed, TierReport};

/// How many there are.
pub(crate) const TIER_THREADS: usize = 3;
const JOURNAL: usize = 0;
const FLUSHER: usize = 1;
const LOADER: usize = 2;

/// The same times as in the product.
const WRITE_NS: u64 = 100_000_000;
const SYNC_NS: u64 = 1_000_000_000;
const FLUSH_NS: u64 = 100_000_000;
/// How soon it is looked again whether a lookup that has failed ends.
const REST_NS: u64 = 20_000_000;
const RETRY_MIN_NS: u64 = 100_000_000;
const RETRY_MAX_NS: u64 = 5_000_000_000;

/// How long a thread takes for what it is asked to do at once, at least and at most.
const TAKES_NS: [(u64, u64); TIER_THREADS] =
    [(20_000, 5_000_000), (50_000, 20_000_000), (20_000, 10_000_000)];

/// The threads of a tier.
pub(crate) struct Threads {
    life: Life,
    tiered: Arc<Tiered>,
    loader: Loader,
    entries: WrittenBackEntries,
    /// The moment of the present step, by which the flusher looks at its lease.
    present: Arc<Mutex<Now>>,
    /// When each takes its next step.
    at_ns: [Option<u64>; TIER_THREADS],
    /// When the last sync began, by the clock of the cell.
    synced_ns: u64,
    /// Whether everything is being written back.
    all: bool,
    retry_ns: u64,
}

impl Threads {
    /// Those of a cell above a tier, which is one of a ring.
    pub(crate) fn new(
        life: Life,
        (cell, tiered): (&Arc<Cell>, Arc<Tiered>),
        ring: &Arc<RingCell>,
        now: Now,
    ) -> Option<Self> {
        let loader = Loader::new(cell.clone())?;
        let present = Arc::new(Mutex::new(now));
        let (of, at) = (Arc::downgrade(ring), present.clone());
        tiered.member()?.set_lease(move |level| {
            let now = *at.lock().unwrap_or_else(PoisonError::into_inner);
            of.upgrade().is_some_and(|ring| ring.has_lease(level, now))
        });
        Some(Self {
            life,
            tiered,
            loader,
            entries: WrittenBackEntries::new(ring.clone()),
            present,
            at_ns: [None; TIER_THREADS],
            synced_ns: now.mono_ns,
            all: false,
            retry_ns: RETRY_MIN_NS,
        })
    }

    /// Keys that are not written back.
    pub(crate) fn dirty(&self) -> u64 {
        self.tiered.tier().dirty()
    }

    fn wake(&mut self, thread: usize, delay_ns: u64, scene: &mut Scene) {
        let at_ns = scene.now_ns + delay_ns;
        if self.at_ns[thread].is_none_or(|known| known > at_ns) {
            self.at_ns[thread] = Some(at_ns);
            scene.at(at_ns, Event::Tier(self.life, thread));
        }
    }

    /// All take their first step soon.
    pub(crate) fn begin(&mut self, scene: &mut Scene) {
        (0..LOADER).for_each(|thread| self.wake_soon(thread, scene));
    }

    fn wake_soon(&mut self, thread: usize, scene: &mut Scene) {
        let (least, most) = TAKES_NS[thread];
        // One that takes its step as soon is not asked again.
        if self.at_ns[thread].is_none_or(|known| known > scene.now_ns + most) {
            let delay_ns = scene.dice.duration(least, most);
            self.wake(thread, delay_ns, scene);
        }
    }

    /// Wakes those that have something to do at once.
    pub(crate) fn wake_pressed(&mut self, scene: &mut Scene) {
        let Pressed { syncs, flushes, has_tasks, .. } = self.tiered.pressed();
        for (thread, is_pressed) in [syncs, flushes, has_tasks].into_iter().enumerate() {
            if is_pressed {
                self.wake_soon(thread, scene);
            }
        }
    }

    /// Puts off the next step of one that is stopped.
    pub(crate) fn put_off(&mut self, thread: usize, until_ns: u64, scene: &mut Scene) {
        if self.at_ns[thread] == Some(scene.now_ns) {
            self.at_ns[thread] = Some(until_ns);
            scene.at(until_ns, Event::Tier(self.life, thread));
        }
    }

    /// One takes a step. False if that was planned for another time.
    pub(crate) fn step(&mut self, thread: usize, now: Now, scene: &mut Scene) -> bool {
        if self.at_ns[thread] != Some(scene.now_ns) {
            return false;
        }
        self.at_ns[thread] = None;
        *self.present.lock().unwrap_or_else(PoisonError::into_inner) = now;
        match thread {
            JOURNAL => {
                self.sync(now);
                self.wake(thread, WRITE_NS, scene);
            }
            FLUSHER => {
                let pause_ns = self.flush(now, scene);
                match pause_ns {
                    0 => self.wake_soon(thread, scene),
                    _ => self.wake(thread, pause_ns, scene),
                }
            }
            _ => {
                self.loader.step(|| now);
                if self.tiered.pressed().rests {
                    self.wake(thread, REST_NS, scene);
                }
            }
        }
        true
    }

    /// What the tier says of itself.
    pub(crate) fn report(&self) -> TierReport {
        self.tiered.tier().report()
    }

    fn sync(&mut self, now: Now) {
        let is_wanted = self.tiered.wait_to_sync(Duration::ZERO);
        let is_due = now.mono_ns - self.synced_ns >= SYNC_NS;
        if is_wanted || is_due || self.tiered.tier().presses() {
            self.tiered.sync(now);
            self.synced_ns = now.mono_ns;
        } else {
            self.tiered.write();
            self.tiered.tier().pace(now);
        }
    }

    /// Returns how long the flusher rests; 0: not at all.
    fn flush(&mut self, now: Now, scene: &mut Scene) -> u64 {
        self.tiered.wait_to_flush(Duration::ZERO);
        self.all |= self.tiered.takes_all();
        // What was written back before is for the copies to know first.
        if !self.entries.append() {
            return FLUSH_NS;
        }
        let wrote = self.write_back(now);
        let keys = wrote.as_ref().map_or(0, |wrote| wrote.keys);
        if keys > 0 {
            scene.say(|| format!("  cell {} writes {keys} keys back", self.life.cell + 1));
        }
        let failed = wrote.as_ref().err().map(ToString::to_string);
        self.tiered.set_unflushed(failed.or_else(|| self.tiered.tier().resting()));
        match wrote {
            Ok(Flushed { has_freed, has_more, .. }) => {
                if has_freed {
                    self.tiered.has_flushed();
                }
                self.retry_ns = RETRY_MIN_NS;
                self.all &= has_more;
                if has_more { 0 } else { FLUSH_NS }
            }
            Err(error) => {
                scene.say(|| format!("  cell {}: {error}", self.life.cell + 1));
                let pause_ns = self.retry_ns;
                self.retry_ns = (2 * pause_ns).min(RETRY_MAX_NS);
                pause_ns
            }
        }
    }

    fn write_back(&self, now: Now) -> Result<Flushed, BackendError> {
        let tier = self.tiered.tier();
        let through = tier.flush_through(now);
        let flushed = tier.flush(now, self.all)?;
        Ok(Flushed { has_more: flushed.has_more || through?.has_more, ..flushed })
    }
}
