//! A worker of a process: a thread that the scheduler stops between any two of its steps.
//!
//! ```text
//! read the clock | one connection | one connection | ... | end the batch, send
//! ```

use crate::clock::Clock;
use crate::dice::Dice;
use crate::driver::{Arrived, Driver};
use crate::outside::{Outside, lock};
use crate::scene::{Event, Life, PipeId, Scene};
use base::Now;
use session::ConnId;
use std::collections::BTreeMap;
use std::sync::Mutex;

/// The longest time in which a worker wakes for which something has come.
pub(crate) const WAKES_NS: u64 = 30_000;

/// What a worker finds when it wakes.
enum Work {
    Accept(PipeId, usize, usize),
    Connected(PipeId, u64, usize),
    Unconnected(u64),
    Mail,
    Turn(ConnId),
    /// A socket takes more of what it is to send.
    Rest(PipeId),
}

/// Where a worker is.
enum Batch {
    Asleep,
    Turns(Vec<Work>),
}

/// A worker.
pub(crate) struct Worker {
    life: Life,
    number: usize,
    pub(crate) driver: Driver,
    batch: Batch,
    /// What waits for it.
    new_work: Vec<Work>,
    /// When it takes its next step.
    at_ns: Option<u64>,
}

impl Worker {
    /// Worker `number` of a process, asleep.
    pub(crate) fn new(life: Life, number: usize, driver: Driver) -> Self {
        Self { life, number, driver, batch: Batch::Asleep, new_work: Vec::new(), at_ns: None }
    }

    /// It wakes at `at_ns`, or earlier.
    fn wake(&mut self, at_ns: u64, scene: &mut Scene) {
        if self.at_ns.is_none_or(|known| known > at_ns) {
            self.at_ns = Some(at_ns);
            scene.at(at_ns, Event::Worker(self.life, self.number));
        }
    }

    pub(crate) fn wake_soon(&mut self, scene: &mut Scene) {
        if matches!(self.batch, Batch::Asleep) {
            let at_ns = scene.now_ns + scene.dice.duration(500, WAKES_NS);
            self.wake(at_ns, scene);
        }
    }

    /// Whether the event of this moment is the one that it waits for.
    pub(crate) fn is_next(&self, scene: &Scene) -> bool {
        self.at_ns == Some(scene.now_ns)
    }

    /// Puts off its next step until `until_ns`.
    pub(crate) fn put_off(&mut self, until_ns: u64, scene: &mut Scene) {
        if self.is_next(scene) {
            self.at_ns = Some(until_ns);
            scene.at(until_ns, Event::Worker(self.life, self.number));
        }
    }

    /// Whether a reply could leave, and it sleeps on. `has_come`: something wakes it.
    pub(crate) fn is_forgotten(&self, has_come: bool, scene: &Scene) -> bool {
        let wakes = self.at_ns.is_some_and(|at_ns| at_ns <= scene.now_ns + 2 * WAKES_NS);
        matches!(self.batch, Batch::Asleep) && !has_come && !wakes && self.driver.has_passed()
    }

    /// A connection is accepted by the listener of this number.
    pub(crate) fn accept(&mut self, pipe: PipeId, listener: usize, scene: &mut Scene) {
        let room = room(&mut scene.dice);
        self.new_work.push(Work::Accept(pipe, listener, room));
        self.wake_soon(scene);
    }

    /// A connection that was ordered is open, or could not be opened.
    pub(crate) fn connected(&mut self, pipe: Option<PipeId>, purpose: u64, scene: &mut Scene) {
        let room = room(&mut scene.dice);
        self.new_work.push(match pipe {
            Some(pipe) => Work::Connected(pipe, purpose, room),
            None => Work::Unconnected(purpose),
        });
        self.wake_soon(scene);
    }

    /// Something arrives at one of its sockets. False if that is of another worker.
    pub(crate) fn arrives(&mut self, pipe: PipeId, what: &Arrived, scene: &mut Scene) -> bool {
        let Some(socket) = self.driver.socket(pipe) else { return false };
        socket.arrived.extend_from_slice(&what.bytes);
        socket.has_end |= what.has_end;
        socket.is_reset |= what.is_reset;
        self.wake_soon(scene);
        true
    }

    /// The other side of `pipe` has received `count` bytes.
    pub(crate) fn takes_more(&mut self, pipe: PipeId, count: usize, scene: &mut Scene) {
        let Some(socket) = self.driver.socket(pipe) else { return };
        socket.room += count;
        if !socket.outbox.is_empty() {
            self.new_work.push(Work::Rest(pipe));
            self.wake_soon(scene);
        }
    }

    /// Takes a step. Returns whether a batch has begun.
    pub(crate) fn step(
        &mut self,
        now: Now,
        arrived: &mut BTreeMap<PipeId, Arrived>,
        outside: &Mutex<Outside>,
        scene: &mut Scene,
    ) -> bool {
        self.at_ns = None;
        match std::mem::replace(&mut self.batch, Batch::Asleep) {
            Batch::Asleep => {
                self.driver.begin(now);
                let mut works = std::mem::take(&mut self.new_work);
                if lock(outside).wakes(self.number) {
                    works.push(Work::Mail);
                }
                works.extend(self.driver.ready().into_iter().map(Work::Turn));
                scene.dice.shuffle(&mut works);
                self.batch = Batch::Turns(works);
                true
            }
            Batch::Turns(mut works) => {
                self.driver.passes(now);
                if let Some(work) = works.pop() {
                    self.work(work, arrived, outside);
                    self.batch = Batch::Turns(works);
                } else {
                    self.driver.flush();
                    self.driver.tend();
                    self.driver.settle();
                    lock(outside).sleeps(self.number, self.driver.waits_for());
                }
                false
            }
        }
    }

    /// Plans the next step.
    pub(crate) fn go_on(&mut self, clock: &Clock, outside: &Mutex<Outside>, scene: &mut Scene) {
        if let Batch::Turns(_) = &self.batch {
            let gap_ns = scene.dice.between(200, 4000);
            return self.wake(scene.now_ns + gap_ns, scene);
        }
        let is_busy = self.driver.is_busy() || !self.new_work.is_empty();
        if is_busy || lock(outside).has_come(self.number) {
            return self.wake_soon(scene);
        }
        let wakes_ns = self.driver.wakes_at_ns();
        if wakes_ns < u64::MAX {
            let at_ns = clock.when(wakes_ns).max(scene.now_ns + 1000);
            self.wake(at_ns, scene);
        }
    }

    fn work(
        &mut self,
        work: Work,
        arrived: &mut BTreeMap<PipeId, Arrived>,
        outside: &Mutex<Outside>,
    ) {
        match work {
            Work::Accept(pipe, listener, room) => {
                let arrived = arrived.remove(&pipe).unwrap_or_default();
                self.driver.accept(pipe, listener, arrived, room);
            }
            Work::Connected(pipe, purpose, room) => {
                let arrived = arrived.remove(&pipe).unwrap_or_default();
                self.driver.connected(pipe, purpose, arrived, room);
            }
            Work::Unconnected(purpose) => self.driver.unconnected(purpose),
            Work::Mail => {
                let mail = lock(outside).take_mail(self.number);
                mail.into_iter().for_each(|mail| self.driver.deliver(mail));
            }
            Work::Turn(id) => self.driver.turn(id),
            Work::Rest(pipe) => self.driver.send_more(pipe),
        }
    }
}

/// Bytes that a socket takes before the other side has received any.
fn room(dice: &mut Dice) -> usize {
    if dice.per_mille(50) { 300 } else { 1 << 20 }
}
